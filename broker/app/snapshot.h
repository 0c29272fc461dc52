/*
 * What a configuration becomes before anybody uses it: providers, and TLS contexts from the
 * certificates as they are just now. Immutable, shared by all loops, counted: each loop has a
 * reference to the one in force, and exchanges it at a reload.
 */
#ifndef TACTUS_APP_SNAPSHOT_H
#define TACTUS_APP_SNAPSHOT_H

#include "gate/config.h"
#include "llm/router.h"
#include "net/tls.h"

struct snapshot {
    atomic_uint refs;
    struct config *config;       /* a reference */
    struct providers *providers; /* a reference */
    /* One a listener, NULL when it has no TLS; then one for runs that have no certificate of their
     * own: that of the first TLS listener, without its demand for certificates of clients. */
    SSL_CTX **tls;
};

/* Secrets of `config` are loaded. ERR_CONFIG, ERR_IO, ERR_NOMEM. */
enum err snapshot_new(struct config *config, struct snapshot **out, struct error *e) MUST_CHECK;
struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s); /* NULL is harmless */

/* The TLS listener that runs borrow from; NULL: there is none. */
const struct listener_config *snapshot_runs_listener(const struct snapshot *s);

#endif
