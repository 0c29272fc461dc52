/* tactus-init's command line (tactus/init.h). Pure: reads words, says nothing. */
#ifndef TACTUS_INIT_OPTIONS_H
#define TACTUS_INIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *heartbeat; /* NULL: none */
    uint64_t ttl_ms;       /* 0: none */
    uint64_t grace_ms;
    char **command; /* NULL-terminated, at least one word; NULL with help or version */
    bool help;
    bool version;
};

/* What is wrong: "WORD: WHY". Both live as long as argv. */
struct options_fault {
    const char *word;
    const char *why;
};

/* Fills `o` with words of `argv` (borrowed) and defaults; --help and --version end the reading. On
 * failure fills `fault` and leaves `o` as it was. */
bool options_read(int argc, char **argv, struct options *o, struct options_fault *fault);

/* Decimal digits, then perhaps '.' and more of them; nothing else. Rounded up to a millisecond.
 * False when it is no such number or above `max_s` seconds; `ms` is untouched then. */
bool options_seconds(const char *text, uint64_t max_s, uint64_t *ms);

#endif
