/*
 * Drives one call to one provider: HTTP through http_client or a local script through the loop's
 * clock; hands neutral events on and ends exactly once. One router per loop.
 */
#ifndef TACTUS_LLM_ROUTER_H
#define TACTUS_LLM_ROUTER_H

#include "base/err.h"
#include "gate/config.h"
#include "llm/provider.h"

#include <stdatomic.h>
#include <stdint.h>

struct http_client;
struct loop;
struct router;
struct llm_call;

/* All configured providers, immutable, shared by all loops and counted: calls in flight keep those
 * that they began with, and with them the configuration that has their keys. */
struct providers {
    atomic_uint refs;
    struct config *config; /* a reference */
    struct provider *items;
    size_t n;
};

enum err providers_new(struct config *config, struct providers **out, struct error *e) MUST_CHECK;
struct providers *providers_ref(struct providers *p);
void providers_unref(struct providers *p); /* NULL is harmless */
const struct provider *providers_find(const struct providers *p, struct span name);

/* Loop and client are borrowed, of the providers it takes a reference. NULL when out of memory. */
struct router *router_new(struct loop *loop, struct http_client *http, struct providers *providers);
void router_free(struct router *r);
/* For calls from now on. On the router's loop. */
void router_use(struct router *r, struct providers *providers);
const struct providers *router_providers(const struct router *r);

struct llm_handler {
    /* An error stops the call: on_end follows with a failure made of it. */
    enum err (*on_event)(void *ctx, const struct chat_event *event);
    /* NULL: the reply is complete. The call is gone. */
    void (*on_end)(void *ctx, const struct failure *failure);
};

/*
 * Starts a call; `request` is used before this returns and not after. `total_ms` bounds it. No
 * callback before it returns. ERR_UPSTREAM with `failure` filled when the provider cannot express
 * the request or has no key; ERR_NOMEM, ERR_LIMIT.
 */
enum err router_start(struct router *r, const struct provider *provider,
                      const struct chat_request *request, uint32_t total_ms,
                      const struct llm_handler *handler, void *ctx, struct llm_call **out,
                      struct failure *failure) MUST_CHECK;

/* Nobody reads: the provider is not read from either. */
void llm_call_pause(struct llm_call *call);
void llm_call_resume(struct llm_call *call);

/* Ends the call now, in every phase; no callback any more. NULL is harmless. */
void llm_call_cancel(struct llm_call *call);

#endif
