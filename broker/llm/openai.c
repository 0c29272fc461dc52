/*
 * The provider type `openai`: OpenAI's chat completions and everything that imitates them. This
 * file has an answer's life; openai_read.c reads what it says. The router calls it through
 * provider_openai.
 */
#include "llm/openai_private.h"

#include <stdlib.h>

static enum answer_status on_event(struct answer_feed *f, struct span name, struct span data)
{
    (void)name;
    return span_eq(data, SPAN("[DONE]")) ? openai_complete(f) : openai_chunk(f, data);
}

static void openai_free(struct answer *a)
{
    struct openai_answer *r = openai_answer(a);

    answer_fini(&r->base);
    openai_tools_fini(&r->tools);
    free(r);
}

struct answer *openai_answer_new(const struct provider *p, const struct answer_head *head)
{
    static const struct answer_ops ops = {
        .event = on_event, .body = openai_body, .complete = openai_complete, .free = openai_free};
    struct openai_answer *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    answer_init(&r->base, p, &ops, head);
    openai_tools_init(&r->tools, p->max_reply_bytes);
    return &r->base;
}

const struct provider_ops provider_openai = {
    .type = "openai",
    .base_url = "https://api.openai.com/v1",
    .build = openai_build,
    .authorize = openai_authorize,
    .answer_new = openai_answer_new,
};
