/*
 * Where the clients of a grant's listener may come from: a list of networks. Pure; any thread.
 */
#ifndef TACTUS_GATE_GRANT_SOURCE_H
#define TACTUS_GATE_GRANT_SOURCE_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define GRANT_SOURCE_TEXT 52u /* the longest address, a slash, three digits, and the NUL */

struct sockaddr;

struct grant_source {
    char text[GRANT_SOURCE_TEXT]; /* as it was given */
    unsigned char address[16];    /* IPv4: the first four bytes */
    unsigned char bits;           /* that must agree */
    bool v6;
};

/*
 * "192.0.2.0/24", "fd00::/8", or an address alone. Bits behind the prefix do not matter. An IPv4
 * address in IPv6 form (::ffff:a.b.c.d, with a prefix of at least 96) is the IPv4 one. False: it is
 * none of these.
 */
bool grant_source_parse(struct span text, struct grant_source *out);

/* Whether `peer` (IPv4, or IPv6, also with an IPv4 address in it) is inside one of them. An empty
 * list has nobody. */
bool grant_source_has(const struct grant_source *list, size_t n, const struct sockaddr *peer);

#endif
