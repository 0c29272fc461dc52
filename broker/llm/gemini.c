/*
 * The provider type `gemini`: Google's Gemini API. This file has an answer's life; gemini_read.c
 * reads what it says. A stream has no end marker: it is complete when its body ends after a finish
 * reason. The router calls it through provider_gemini.
 */
#include "llm/gemini_private.h"

#include <stdlib.h>

static enum answer_status on_event(struct answer_feed *f, struct span name, struct span data)
{
    (void)name;
    return gemini_chunk(f, data);
}

static void gemini_free(struct answer *a)
{
    struct gemini_answer *r = gemini_answer(a);

    answer_fini(&r->base);
    free(r);
}

static struct answer *gemini_answer_new(const struct provider *p, const struct answer_head *head)
{
    static const struct answer_ops ops = {
        .event = on_event, .body = gemini_body, .complete = gemini_complete, .free = gemini_free};
    struct gemini_answer *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    answer_init(&r->base, p, &ops, head);
    return &r->base;
}

enum err gemini_authorize(const struct provider *p, const struct provider_auth *auth,
                          struct provider_http *out, struct failure *failure)
{
    (void)p;
    return auth->key.n == 0 ? ERR_OK
                            : provider_http_secret(out, "x-goog-api-key", "", auth->key, failure);
}

const struct provider_ops provider_gemini = {
    .type = "gemini",
    .base_url = "https://generativelanguage.googleapis.com/v1beta",
    .build = gemini_build,
    .authorize = gemini_authorize,
    .answer_new = gemini_answer_new,
};
