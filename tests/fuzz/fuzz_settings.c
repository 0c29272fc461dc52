/* A sidecar from any bytes: read or refused with a message, nothing leaks, and what was read fits
 * together or not, with a message. */
#include "spec/settings.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings s;
    struct error e = {.code = ERR_OK};
    enum err rc = settings_init(&s, &e);

    if (rc == ERR_OK) {
        rc = settings_parse(&s, "x.yml", (const char *)data, size, &e);
    }
    if (rc == ERR_OK) {
        rc = settings_check(&s, &e);
    }
    if (rc != ERR_OK && e.msg[0] == '\0') {
        abort();
    }
    settings_fini(&s);
    return 0;
}
