/* Shared by json_span.c and json_walk.c. Nobody else includes it. */
#ifndef TACTUS_BASE_JSON_SPAN_PRIVATE_H
#define TACTUS_BASE_JSON_SPAN_PRIVATE_H

#include "base/json_span.h"

#include <endian.h>
#include <string.h>

/*
 * Which of the eight bytes at `p` need a look: a quote, a backslash, a control character or no
 * ASCII. 0 when none does; else the lowest set bit is in the first one that does. (A borrow goes up
 * from a byte that is set itself, so only what lies above the lowest bit can be set wrongly.)
 */
static inline uint64_t json_special(const char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x = 0;

    memcpy(&x, p, 8);
    x = le64toh(x);
    uint64_t quote = x ^ (ones * '"');
    uint64_t slash = x ^ (ones * '\\');
    return (x | (x - ones * 0x20) | (quote - ones) | (slash - ones)) & (ones * 0x80);
}

/*
 * Steps over bytes of a string that need no look. Stops at one that does, or, less than eight bytes
 * before the end, at any.
 */
static inline const char *json_skip_plain(const char *p, const char *end)
{
    while (end - p >= 32 && (json_special(p) | json_special(p + 8) | json_special(p + 16) |
                             json_special(p + 24)) == 0) {
        p += 32;
    }
    while (end - p >= 8) {
        uint64_t special = json_special(p);
        if (special != 0) {
            return p + __builtin_ctzll(special) / 8;
        }
        p += 8;
    }
    return p;
}

/* Four hexadecimal digits at `p`. */
bool json_hex4(const char *p, unsigned *out);

/* Adds a member; NULL, or why it cannot be added. */
const char *json_members_add(struct json_members *out, const struct json_member *m);

#endif
