/*
 * One request in flight, as the handler of a method sees it.
 *
 * A handler is started once (methods.h). It answers with any number of request_event() and exactly
 * one request_done() or request_fail(); after that, or after on_cancel, the request is gone. It may
 * do all of it before start returns. The session sees to the rest: framing, ids, one terminal event
 * always, also when memory is out (room for a last word is set aside at the start).
 */
#ifndef TACTUS_WIRE_REQUEST_H
#define TACTUS_WIRE_REQUEST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json_span.h"
#include "gate/config.h"
#include "wire/failure.h"

#include <stdbool.h>
#include <stddef.h>

struct loop;
struct request;

struct request_handler {
    /* The client left, or cancelled: stop at once and do not touch the request any more. NULL for a
     * handler that answers before start returns. */
    void (*on_cancel)(void *ctx);
    /* The client read what was queued: see request_congested. May be NULL. */
    void (*on_drain)(void *ctx);
};

/* For what lives beyond start: who to tell. `handler` must outlive the request. */
void request_attach(struct request *r, const struct request_handler *handler, void *ctx);

/* The members of `params`; borrowed from the message, valid during start only. */
struct json_value request_param(const struct request *r, const char *name);

/* What a request has cost, for the ledger: filled in by who knows. Texts live in the arena. */
struct request_bill {
    const char *provider;
    const char *model;
    uint64_t input_tokens; /* all of the prompt, cached ones too */
    uint64_t output_tokens;
    uint64_t cached_tokens;
    uint64_t reasoning_tokens;
    bool priced;
    uint64_t nano; /* billionths of a US dollar */
    bool estimated;
};

struct request_bill *request_bill(struct request *r);

const struct grant *request_grant(const struct request *r);
/* Over a runner's relay an event that is none is acknowledged and dropped: true, and counted, when
 * the request came over one. */
bool request_drop_relayed(struct request *r);
/* The one in force: only what config_ref() holds outlives this turn of the loop. */
struct config *request_config(const struct request *r);
struct loop *request_loop(const struct request *r);
struct arena *request_arena(struct request *r); /* freed with the request */

/* Queues a non-terminal event with `data` (JSON). ERR_NOMEM; ERR_LIMIT when all connections
 * together hold too much. After either the handler fails the request. */
enum err request_event(struct request *r, const char *event, struct span data) MUST_CHECK;

/* `done` with the JSON text of all pieces one after the other as data. */
void request_done(struct request *r, const struct span *pieces, size_t n);

void request_fail(struct request *r, const struct failure *failure);

/* request_fail with one of our own errors: type and constant message. */
void request_fail_text(struct request *r, const char *type, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* request_fail after an err from a builder: out of memory, or a reply over its limit. */
void request_fail_err(struct request *r, enum err rc);

/* The client's queue is above its high mark: produce no more until on_drain. */
bool request_congested(const struct request *r);

/* Ends another request in flight on the same connection (`error` Cancelled); false: there is none.
 */
bool request_cancel_other(struct request *r, struct json_value id);

#endif
