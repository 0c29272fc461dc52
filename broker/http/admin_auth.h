/*
 * Who may call the admin API. Over a Unix socket: root and the broker's own user. Over TCP, which
 * every user of the machine and every page in a browser can reach: whoever shows the token, and
 * only under a name of this machine, so that no page can get here by rebinding a name of its own.
 * Pure.
 */
#ifndef TACTUS_HTTP_ADMIN_AUTH_H
#define TACTUS_HTTP_ADMIN_AUTH_H

#include "gate/secret.h"
#include "http/admin_fault.h"

#include <sys/types.h>

struct admin_caller {
    bool is_unix;
    uid_t uid;        /* unix */
    const char *host; /* tcp: headers; NULL when absent */
    const char *origin;
    const char *authorization;
};

/* Whether a TCP caller came here under a name of this machine: 400 without Host, 403. True for a
 * Unix socket. */
bool admin_auth_place(const struct admin_caller *c, struct admin_fault *f);

/* Whether the caller may do everything: 401, 403. `own` is the broker's user. */
bool admin_auth_caller(const struct admin_caller *c, uid_t own, const struct secret *token,
                       struct admin_fault *f);

#endif
