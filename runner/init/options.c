/*
 * Reads the command line. Strict, by hand: no abbreviations, options before "--" only, and the
 * command behind it, so that a first word without dashes stays free for further modes.
 */
#include "init/options.h"

#include "tactus/init.h"

#include <stddef.h>
#include <string.h>

#define MS 1000u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool options_seconds(const char *text, uint64_t max_s, uint64_t *ms)
{
    uint64_t seconds = 0;
    uint64_t fraction = 0;
    uint64_t weight = MS / 10;
    bool rest = false;
    const char *p = text;

    for (; is_digit(*p) && seconds <= max_s; p++) {
        seconds = seconds * 10 + (uint64_t)(*p - '0');
    }
    if (p == text || seconds > max_s) {
        return false;
    }
    if (*p == '.') {
        p++;
        const char *start = p;
        for (; is_digit(*p); p++) {
            rest = rest || (weight == 0 && *p != '0');
            fraction += (uint64_t)(*p - '0') * weight;
            weight /= 10;
        }
        if (p == start) {
            return false;
        }
    }
    uint64_t sum = seconds * MS + fraction + (rest ? 1 : 0);
    if (*p != '\0' || sum > max_s * MS) {
        return false;
    }
    *ms = sum;
    return true;
}

static bool fail(struct options_fault *fault, const char *word, const char *why)
{
    *fault = (struct options_fault){.word = word, .why = why};
    return false;
}

/* One option with its value. */
static bool set(struct options *o, const char *name, const char *value, struct options_fault *fault)
{
    if (strcmp(name, TACTUS_INIT_OPT_HEARTBEAT) == 0) {
        o->heartbeat = value;
        return value[0] != '\0' || fail(fault, name, "an empty path");
    }
    if (strcmp(name, TACTUS_INIT_OPT_TTL) == 0) {
        return (options_seconds(value, TACTUS_INIT_TTL_MAX_S, &o->ttl_ms) && o->ttl_ms > 0) ||
               fail(fault, value, "no number of seconds above 0 and up to a year for --ttl");
    }
    return options_seconds(value, TACTUS_INIT_GRACE_MAX_S, &o->grace_ms) ||
           fail(fault, value, "no number of seconds up to an hour for --grace");
}

static bool takes_value(const char *word)
{
    return strcmp(word, TACTUS_INIT_OPT_HEARTBEAT) == 0 || strcmp(word, TACTUS_INIT_OPT_TTL) == 0 ||
           strcmp(word, TACTUS_INIT_OPT_GRACE) == 0;
}

static bool read_words(int argc, char **argv, struct options *o, struct options_fault *fault)
{
    int i = 1;

    while (i < argc) {
        if (strcmp(argv[i], "--") == 0) {
            o->command = argv + i + 1;
            return o->command[0] != NULL || fail(fault, argv[i], "no command behind it");
        }
        o->help = strcmp(argv[i], "--help") == 0;
        o->version = strcmp(argv[i], "--version") == 0;
        if (o->help || o->version) {
            return true;
        }
        if (!takes_value(argv[i])) {
            return fail(fault, argv[i],
                        argv[i][0] == '-' ? "no such option" : "the command comes behind --");
        }
        if (i + 1 == argc) {
            return fail(fault, argv[i], "needs a value");
        }
        if (!set(o, argv[i], argv[i + 1], fault)) {
            return false;
        }
        i += 2;
    }
    return fail(fault, TACTUS_INIT_NAME, "no command");
}

bool options_read(int argc, char **argv, struct options *o, struct options_fault *fault)
{
    struct options found = {.grace_ms = TACTUS_INIT_GRACE_MS};

    if (!read_words(argc, argv, &found, fault)) {
        return false;
    }
    *o = found;
    return true;
}
