/*
 * Any text as a price list: no crash, no leak, every refusal is ERR_CONFIG with a message that
 * starts with the file's name and a position; what is accepted gives costs that are not negative,
 * grow with the tokens and stay below the reservation.
 */
#include "gate/prices.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_costs(const struct prices *p)
{
    static const uint64_t tokens[] = {0, 1, 999999, 1000001, UINT64_MAX / 2};
    int64_t before = 0;

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        const struct price_usage u = {tokens[i], tokens[i], tokens[i], tokens[i]};
        int64_t cost = -1;
        int64_t upper = -1;
        bool known = prices_cost(p, "openai", "gpt-4o", &u, &cost);
        if (known != prices_upper(p, "openai", "gpt-4o", 2 * tokens[i], 2 * tokens[i], &upper)) {
            abort();
        }
        if (known && (cost < before || upper < cost)) {
            abort();
        }
        before = known ? cost : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prices *p = NULL;
    struct error e = {.code = ERR_OK};

    enum err err = prices_parse("f", (const char *)data, size, &p, &e);
    if (err == ERR_OK) {
        if (p == NULL) {
            abort();
        }
        check_costs(p);
        prices_free(p);
        return 0;
    }
    size_t n = strcspn(e.msg, "\n");
    bool positioned = strncmp(e.msg, "f:", 2) == 0 && e.msg[2] >= '1' && e.msg[2] <= '9';
    if (p != NULL || err != ERR_CONFIG || e.code != ERR_CONFIG || !positioned || e.msg[n] != '\0') {
        abort();
    }
    return 0;
}
