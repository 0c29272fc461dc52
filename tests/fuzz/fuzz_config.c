/*
 * Any text as a configuration: no crash, no leak, and every refusal is ERR_CONFIG with a message
 * that starts with the file's name and a position.
 */
#include "gate/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};

    enum err err = config_parse("f", (const char *)data, size, &c, &e);
    if (err == ERR_OK) {
        if (c == NULL || c->workers == 0 || c->nlisteners == 0 || c->nproviders == 0 ||
            c->redact == NULL) {
            abort();
        }
        config_unref(c);
        return 0;
    }
    size_t n = strcspn(e.msg, "\n");
    bool positioned = strncmp(e.msg, "f:", 2) == 0 && e.msg[2] >= '1' && e.msg[2] <= '9';
    if (c != NULL || err != ERR_CONFIG || e.code != ERR_CONFIG || !positioned || e.msg[n] != '\0') {
        abort();
    }
    return 0;
}
