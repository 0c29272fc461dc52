/*
 * Where a call goes: to the targets of its route in turn, each tried again after a pause, with the
 * provider's keys taking turns, until one answers; nothing is tried again once a piece of a reply
 * went to the handler. Ends exactly once. One router per loop.
 *
 * What comes after a failure:
 *   401, 429         the provider's next key that does not rest, at once; this one rests
 *   429, 5xx, and no connection: the same target again after a pause, random between nothing and
 *                    `backoff` doubled each time, but not before the newest Retry-After; one
 *                    longer than `max_retry_after` is not waited for
 *   else, or after `retries` of those: the next target; but not when the request itself was
 *                    refused (400, 413, 422), which no other target would take
 * A target that failed `breaker_failures` times in a row (5xx, time-outs, bad replies, no
 * connection; 429 and what the caller caused are neutral) is left out where there are others.
 */
#ifndef TACTUS_LLM_ROUTER_H
#define TACTUS_LLM_ROUTER_H

#include "base/err.h"
#include "llm/providers.h"

#include <stdint.h>

struct aws_environment;
struct http_client;
struct loop;
struct router;
struct llm_call;

/* At least one target; those of one provider differ in the model. */
struct chat_route {
    struct target targets[TARGETS_MAX];
    size_t n;
};

/* Loop and client are borrowed, of the providers it takes a reference. `aws` (NULL: there is no
 * bedrock provider) is borrowed until router_free. NULL when out of memory. */
struct router *router_new(struct loop *loop, struct http_client *http, struct providers *providers,
                          const struct aws_environment *aws);
/* After its calls; before http_client_free. */
void router_free(struct router *r);
/* For calls from now on. On the router's loop. */
void router_use(struct router *r, struct providers *providers);
const struct providers *router_providers(const struct router *r);

struct llm_handler {
    /* An error stops the call: on_end follows with a failure made of it. */
    enum err (*on_event)(void *ctx, const struct chat_event *event);
    /* NULL: the reply is complete. `target` is the one tried last. The call is gone. */
    void (*on_end)(void *ctx, const struct failure *failure, const struct target *target);
};

/*
 * Starts a call; `request` is used before this returns and not after (its model is that of each
 * target). `total_ms` bounds it. No callback before it returns. ERR_UPSTREAM with `failure` filled
 * when no target can be asked; ERR_NOMEM, ERR_LIMIT.
 */
enum err router_start(struct router *r, const struct chat_route *route,
                      const struct chat_request *request, uint32_t total_ms,
                      const struct llm_handler *handler, void *ctx, struct llm_call **out,
                      struct failure *failure) MUST_CHECK;

/* Where it is now. */
const struct target *llm_call_target(const struct llm_call *call);

/* Nobody reads: the provider is not read from either. */
void llm_call_pause(struct llm_call *call);
void llm_call_resume(struct llm_call *call);

/* Ends the call now, in every phase; no callback any more. NULL is harmless. */
void llm_call_cancel(struct llm_call *call);

#endif
