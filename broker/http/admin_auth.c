/* Callers of the admin API: see admin_auth.h. Asked for each request by app/admin. */
#include "http/admin_auth.h"

#include "tactus/protocol.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256u

/* Digits, at least one. */
static bool is_port(const char *p)
{
    size_t n = strspn(p, "0123456789");

    return n > 0 && n <= 5 && p[n] == '\0';
}

/* "localhost", a 127.… address, "[::1]", each with or without a port: any, for a forwarded one is
 * as good. */
static bool is_own_name(const char *host)
{
    char name[HOST_MAX];
    struct in_addr v4;

    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (n >= sizeof(name) || n > strlen(host)) {
        return false;
    }
    if (host[n] != '\0' && (host[n] != ':' || !is_port(host + n + 1))) {
        return false;
    }
    memcpy(name, host, n);
    name[n] = '\0';
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0) {
        return true;
    }
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool admin_auth_place(const struct admin_caller *c, struct admin_fault *f)
{
    char own[HOST_MAX + 8];

    if (c->is_unix) {
        return true;
    }
    if (c->host == NULL) {
        return admin_fault_set(f, 400, TACTUS_E_BAD_REQUEST, "the header Host is missing");
    }
    if (!is_own_name(c->host)) {
        return admin_fault_set(f, 403, ADMIN_E_FORBIDDEN,
                               "the header Host names no loopback address nor localhost");
    }
    if (c->origin == NULL) {
        return true;
    }
    int n = snprintf(own, sizeof(own), "http://%s", c->host);
    if (n < 0 || (size_t)n >= sizeof(own) || strcasecmp(own, c->origin) != 0) {
        return admin_fault_set(f, 403, ADMIN_E_FORBIDDEN,
                               "the header Origin names another place than Host");
    }
    return true;
}

/* What follows "Bearer ", or NULL. */
static const char *bearer(const char *authorization)
{
    static const char scheme[] = "Bearer ";

    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) {
        return NULL;
    }
    authorization += sizeof(scheme) - 1;
    return authorization + strspn(authorization, " ");
}

bool admin_auth_caller(const struct admin_caller *c, uid_t own, const struct secret *token,
                       struct admin_fault *f)
{
    if (c->is_unix) {
        if (c->uid == 0 || c->uid == own) {
            return true;
        }
        return admin_fault_set(f, 403, ADMIN_E_FORBIDDEN,
                               "user %lu may not use this socket: only root and the broker's user",
                               (unsigned long)c->uid);
    }
    const char *shown = bearer(c->authorization);
    if (shown == NULL) {
        return admin_fault_set(f, 401, TACTUS_E_UNAUTHENTICATED,
                               "the header Authorization: Bearer TOKEN is missing");
    }
    if (!secret_equal(token, span_str(shown))) {
        return admin_fault_set(f, 401, TACTUS_E_UNAUTHENTICATED, "this is not the token");
    }
    return true;
}
