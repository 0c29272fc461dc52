/*
 * Networks of a grant's clients. An IPv4 client of an IPv6 socket looks like ::ffff:a.b.c.d: both
 * sides are reduced to IPv4 first, so that a rule means the same whatever the listener is bound to.
 */
#include "gate/grant_source.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_mapped(const unsigned char address[16])
{
    return memcmp(address, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

/* Reduces ::ffff:a.b.c.d to the IPv4 address. */
static void reduce(unsigned char address[16])
{
    memmove(address, address + sizeof(mapped_prefix), 4);
    memset(address + 4, 0, 12);
}

bool grant_source_parse(struct span text, struct grant_source *out)
{
    struct grant_source s = {0};
    char address[GRANT_SOURCE_TEXT];
    uint64_t bits = 0;

    if (text.n == 0 || text.n >= sizeof(s.text) || memchr(text.p, '\0', text.n) != NULL) {
        return false;
    }
    memcpy(s.text, text.p, text.n);
    memcpy(address, s.text, sizeof(address));
    char *slash = strchr(address, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    s.v6 = strchr(address, ':') != NULL;
    if (inet_pton(s.v6 ? AF_INET6 : AF_INET, address, s.address) != 1) {
        return false;
    }
    uint64_t most = s.v6 ? 128 : 32;
    if (slash == NULL) {
        bits = most;
    } else if (strlen(slash + 1) > 3 || !text_u64(span_str(slash + 1), &bits) || bits > most) {
        return false;
    }
    if (s.v6 && bits >= 96 && is_mapped(s.address)) {
        s.v6 = false;
        bits -= 96;
        reduce(s.address);
    }
    s.bits = (unsigned char)bits;
    *out = s;
    return true;
}

static bool inside(const struct grant_source *s, const unsigned char address[16], bool v6)
{
    size_t whole = s->bits / 8;
    unsigned rest = s->bits % 8u;
    unsigned mask = rest == 0 ? 0 : 0xffu << (8 - rest) & 0xffu;

    if (s->v6 != v6 || memcmp(s->address, address, whole) != 0) {
        return false;
    }
    return rest == 0 || ((unsigned)(s->address[whole] ^ address[whole]) & mask) == 0;
}

bool grant_source_has(const struct grant_source *list, size_t n, const struct sockaddr *peer)
{
    unsigned char address[16] = {0};
    bool v6 = peer->sa_family == AF_INET6;

    if (v6) {
        struct sockaddr_in6 sa;
        memcpy(&sa, peer, sizeof(sa));
        memcpy(address, &sa.sin6_addr, sizeof(address));
    } else if (peer->sa_family == AF_INET) {
        struct sockaddr_in sa;
        memcpy(&sa, peer, sizeof(sa));
        memcpy(address, &sa.sin_addr, 4);
    } else {
        return false;
    }
    if (v6 && is_mapped(address)) {
        v6 = false;
        reduce(address);
    }
    for (size_t i = 0; i < n; i++) {
        if (inside(&list[i], address, v6)) {
            return true;
        }
    }
    return false;
}
