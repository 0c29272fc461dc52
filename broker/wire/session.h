/*
 * One connection: framing, ids, the requests in flight, deadlines, and its end.
 *
 * States: OPENING (TLS) -> FIRST (no byte yet) -> OPEN -> HALF_CLOSED (the client sends no more,
 * its requests run to their end) -> FINISHING (our last words go out) -> gone.
 */
#ifndef TACTUS_WIRE_SESSION_H
#define TACTUS_WIRE_SESSION_H

#include "base/err.h"
#include "base/list.h"
#include "gate/config.h"
#include "gate/grant_table.h"
#include "net/loop.h"
#include "net/tls.h"
#include "wire/methods.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Counted over all loops. */
struct wire_totals {
    atomic_size_t buffered;    /* bytes of messages and output held */
    atomic_size_t connections; /* open now */
    atomic_size_t overloaded;  /* of them: over the limit, waiting to be told so */
    atomic_size_t inflight;    /* requests */
    atomic_uint_fast64_t next_connection;
    atomic_uint_fast64_t timed_out; /* connections closed by a deadline */
};

/* What all sessions of one loop share. Borrowed members outlive it. */
struct wire {
    struct loop *loop;
    struct config *config; /* replaced by wire_use() */
    SSL_CTX *const
        *tls; /* one a listener of it (NULL: plain), then that for runs without their own */
    struct grant_table *grants; /* who is known; NULL: nobody */
    struct ledger *ledger;      /* NULL: none is kept */
    struct methods methods;
    struct wire_totals *totals;
    struct list sessions;
    void (*on_session_gone)(void *ctx); /* draining: somebody waits for the last one; may be NULL */
    void *on_session_gone_ctx;
    bool draining;
};

/*
 * What a listener gives each of its connections: its grant, and how it is spoken to. Sessions on
 * any loop hold a reference; so does whoever made the door, and a connection that is handed to
 * another loop. A configured door (`listener` NULL) has a number only: what it says is in the
 * configuration that the session's loop uses just now. It outlives everything (`on_unused` NULL);
 * one of a run goes with its last reference.
 */
struct wire_door {
    size_t index;                           /* a configured one: in config.listeners */
    const struct listener_config *listener; /* of a run */
    struct grant *grant;                    /* of a run */
    SSL_CTX *tls;                           /* of a run; NULL: plain, or wire.tls has it */
    uint16_t port;                          /* TCP: the bound one */
    bool passed; /* its socket is one that the service manager made, for all loops */
    bool relay;  /* a runner passes on what a container says: see request_drop_relayed() */
    atomic_uint refs;
    /* The last reference is gone; on the thread that had it. NULL: references do not matter. */
    void (*on_unused)(struct wire_door *door);
    /* read by the owner */
    atomic_size_t connections;    /* open now */
    atomic_size_t inflight;       /* requests */
    atomic_uint_fast64_t dropped; /* events, by request_drop_relayed() */
};

/* Any thread. */
void wire_door_ref(struct wire_door *door);
void wire_door_unref(struct wire_door *door);

void wire_init(struct wire *w, struct loop *loop, struct config *config,
               struct wire_totals *totals);

/* From now on `config` and `tls` hold, for connections that are there too; requests in flight keep
 * the grant that they began with. On the wire's loop. */
void wire_use(struct wire *w, struct config *config, SSL_CTX *const *tls);

/* Takes over `fd` (also when it cannot be served: then it is closed). */
void session_start(struct wire *w, struct wire_door *door, int fd);

/* The door's grant has ended: its requests on this loop, at any door, end with Cancelled, then the
 * door's sessions. */
void wire_end_door(struct wire *w, const struct wire_door *door);

/* No more requests: idle sessions end now, others when their requests have ended; a new request
 * gets ShuttingDown. */
void wire_drain(struct wire *w);

/* Ends every request with ShuttingDown and finishes every session. */
void wire_shut_down(struct wire *w);

/* Closes what is still open, at once. */
void wire_close_all(struct wire *w);

#endif
