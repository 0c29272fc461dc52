/*
 * URLs for AWS: see aws_url.h. Who decides by a host must see the same host as libcurl, so that
 * everything the two could read differently ("@", a backslash, white space) is an error here.
 */
#include "net/aws_url.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <strings.h>

static bool begins(struct span s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && strncasecmp(s.p, with, n) == 0;
}

static struct span until(struct span s, const char *stops)
{
    size_t n = 0;

    while (n < s.n && strchr(stops, s.p[n]) == NULL) {
        n++;
    }
    return span_of(s.p, n);
}

static bool clean(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c == 0x7f || c == '\\' || c == '#') {
            return false;
        }
    }
    return true;
}

/* `authority` as it stands in the URL into host and what the Host header says. */
static bool split_authority(struct span authority, struct aws_url *u)
{
    struct span rest;

    if (authority.n > 0 && authority.p[0] == '[') {
        u->host = until(span_after(authority, 1), "]");
        if (u->host.n + 2 > authority.n) {
            return false;
        }
        rest = span_after(authority, u->host.n + 2);
    } else {
        u->host = until(authority, ":");
        rest = span_after(authority, u->host.n);
    }
    u->authority = authority;
    if (u->host.n == 0 || memchr(authority.p, '@', authority.n) != NULL) {
        return false;
    }
    if (rest.n == 0) {
        return true;
    }
    uint64_t port = 0;
    if (rest.p[0] != ':' || !text_u64(span_after(rest, 1), &port) || port == 0 || port > 65535) {
        return false;
    }
    if (port == (u->https ? 443 : 80)) { /* libcurl does not send it either */
        u->authority.n -= rest.n;
    }
    return true;
}

enum err aws_url_parse(const char *text, struct aws_url *out, struct error *e)
{
    struct span s = span_str(text);
    struct aws_url u = {0};

    if (!clean(s)) {
        return err_set(e, ERR_CONFIG,
                       "the URL has a fragment, a space, a backslash or a control character");
    }
    u.https = begins(s, "https://");
    if (!u.https && !begins(s, "http://")) {
        return err_set(e, ERR_CONFIG, "the URL does not begin with http:// or https://");
    }
    s = span_after(s, u.https ? 8 : 7);
    struct span authority = until(s, "/?");
    if (!split_authority(authority, &u)) {
        return err_set(e, ERR_CONFIG, "the URL's host or port cannot be used");
    }
    s = span_after(s, authority.n);
    u.path = until(s, "?");
    s = span_after(s, u.path.n);
    u.query = s.n > 0 ? span_after(s, 1) : s;
    *out = u;
    return ERR_OK;
}

bool aws_url_is_local(struct span host)
{
    char name[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    struct in6_addr agent;

    if (host.n == 0 || host.n >= sizeof(name)) {
        return false;
    }
    memcpy(name, host.p, host.n);
    name[host.n] = '\0';
    if (strcasecmp(name, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, name, &v4) == 1) { /* four plain numbers, nothing octal or short */
        uint32_t address = ntohl(v4.s_addr);
        return address >> 24 == 127 || address == 0xa9feaa02 || address == 0xa9feaa17;
    }
    if (inet_pton(AF_INET6, name, &v6) != 1 || inet_pton(AF_INET6, "fd00:ec2::23", &agent) != 1) {
        return false;
    }
    return memcmp(&v6, &in6addr_loopback, sizeof(v6)) == 0 || memcmp(&v6, &agent, sizeof(v6)) == 0;
}
