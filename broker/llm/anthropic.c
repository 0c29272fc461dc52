/*
 * The provider type `anthropic`: Anthropic's Messages API. This file has an answer's life;
 * anthropic_read.c reads what it says. A stream ends with message_stop; one that ends after its
 * stop reason is complete too. The router calls it through provider_anthropic.
 */
#include "llm/anthropic_private.h"

#include <stdlib.h>

static enum answer_status on_event(struct answer_feed *f, struct span name, struct span data)
{
    (void)name; /* the data has it too */
    return anthropic_event(f, data);
}

static void anthropic_free(struct answer *a)
{
    struct anthropic_answer *r = anthropic_answer(a);

    answer_fini(&r->base);
    buf_fini(&r->calls);
    buf_fini(&r->signature);
    free(r);
}

static struct answer *anthropic_answer_new(const struct provider *p, const struct answer_head *head)
{
    static const struct answer_ops ops = {.event = on_event,
                                          .body = anthropic_body,
                                          .complete = anthropic_complete,
                                          .free = anthropic_free};
    struct anthropic_answer *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    answer_init(&r->base, p, &ops, head);
    buf_init(&r->calls, REPLY_CALLS_MAX * sizeof(struct anthropic_call));
    buf_init(&r->signature, p->max_reply_bytes);
    r->input = CHAT_UNKNOWN;
    r->cache_read = CHAT_UNKNOWN;
    r->cache_creation = CHAT_UNKNOWN;
    r->output = CHAT_UNKNOWN;
    r->thinking = CHAT_UNKNOWN;
    return &r->base;
}

enum err anthropic_authorize(const struct provider *p, const struct provider_auth *auth,
                             struct provider_http *out, struct failure *failure)
{
    (void)p;
    return auth->key.n == 0 ? ERR_OK
                            : provider_http_secret(out, "x-api-key", "", auth->key, failure);
}

const struct provider_ops provider_anthropic = {
    .type = "anthropic",
    .base_url = "https://api.anthropic.com",
    .build = anthropic_build,
    .authorize = anthropic_authorize,
    .answer_new = anthropic_answer_new,
};
