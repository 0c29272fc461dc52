/*
 * One try of a call at one provider: HTTP through http_client, or a local script through the loop's
 * clock. Hands neutral events on and ends exactly once. The router (router.h) decides what comes
 * after. On the loop's thread.
 */
#ifndef TACTUS_LLM_ATTEMPT_H
#define TACTUS_LLM_ATTEMPT_H

#include "base/err.h"
#include "gate/config.h"
#include "llm/provider.h"

#include <stdint.h>

struct attempt;
struct http_client;
struct loop;

struct attempt_options {
    struct loop *loop;
    struct http_client *client;
    const struct provider *provider;
    const struct limits *limits;
    const struct chat_request *request; /* used before attempt_start returns, and not after */
    struct provider_http *http;         /* remote: ready to be sent; borrowed until the end */
    uint32_t total_ms;
};

struct attempt_handler {
    /* An error stops the attempt: on_end follows with a failure made of it. */
    enum err (*on_event)(void *ctx, const struct chat_event *event);
    /* NULL: the reply is complete. `unsent`: no connection came about. The attempt is gone. */
    void (*on_end)(void *ctx, const struct failure *failure, bool unsent);
};

/* No callback before it returns. ERR_UPSTREAM with `failure` when it cannot be sent; ERR_NOMEM,
 * ERR_LIMIT. */
enum err attempt_start(const struct attempt_options *o, const struct attempt_handler *handler,
                       void *ctx, struct attempt **out, struct failure *failure) MUST_CHECK;

/* Nobody reads: the provider is not read from either. */
void attempt_pause(struct attempt *a);
void attempt_resume(struct attempt *a);

/* Ends it now; no callback any more. NULL is harmless. */
void attempt_cancel(struct attempt *a);

#endif
