/*
 * The parts of the OpenAI provider type, for the types that speak its JSON. openai.c has an
 * answer's life; openai_build.c writes requests; openai_read.c turns one chunk (or one plain body)
 * into neutral events; openai_tools.c says which tool call a piece belongs to.
 */
#ifndef TACTUS_LLM_OPENAI_PRIVATE_H
#define TACTUS_LLM_OPENAI_PRIVATE_H

#include "llm/provider.h"
#include "llm/reply.h"

#define OPENAI_ID_MAX  4096u
#define OPENAI_UNNAMED UINT32_MAX

/* One tool call as the provider sends it. It gets its number, and is told to the sink, when its
 * name is known: so what never gets a name is never seen. */
struct openai_call {
    struct buf id;
    struct buf name;
    struct buf early; /* arguments that came before the name */
    uint64_t index;
    bool has_index;
    uint32_t number;   /* OPENAI_UNNAMED until it has a name */
    uint32_t delta;    /* the last delta that had a piece of it */
    uint16_t carry;    /* half a surrogate pair of the arguments */
    uint32_t depth;    /* brackets open in the arguments so far */
    bool in_string;    /* the arguments so far end inside a string */
    bool after_escape; /* … and after a backslash */
    bool closed;       /* the arguments so far are a whole object */
};

struct openai_tools {
    struct openai_call *calls;
    size_t n;
    size_t room;
    size_t current;  /* which one had the last piece */
    uint32_t deltas; /* counts deltas with tool calls */
    uint32_t named;
    size_t early;  /* bytes held in all `early` */
    size_t max;    /* of them */
    struct buf id; /* scratch, for one piece */
    struct buf name;
    struct buf arguments;
};

void openai_tools_init(struct openai_tools *t, size_t max);
void openai_tools_fini(struct openai_tools *t);
/* One `tool_calls` array of a delta or a message. ERR_NOMEM, ERR_LIMIT, or the sink's error. */
enum err openai_tools_take(struct openai_tools *t, struct json_value array,
                           const struct chat_sink *sink) MUST_CHECK;
/* No more pieces will come: halves of surrogate pairs that wait come out as U+FFFD. */
enum err openai_tools_flush(struct openai_tools *t, const struct chat_sink *sink) MUST_CHECK;

struct openai_answer {
    struct answer base;
    struct openai_tools tools;
    uint16_t text_carry;
    uint16_t reasoning_carry;
    bool saw_choice;
    bool saw_output; /* text, reasoning or a tool call */
};

static inline struct openai_answer *openai_answer(struct answer *a)
{
    return (struct openai_answer *)a; /* its first member */
}

/* NULL: out of memory. */
struct answer *openai_answer_new(const struct provider *p, const struct answer_head *head);

/* One chunk of a stream. Half a chunk at the end of the body is passed over: whether the reply is
 * whole is decided by what came before. */
enum answer_status openai_chunk(struct answer_feed *f, struct span text);
/* A whole plain body. ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status openai_body(struct answer_feed *f, struct span text);
/* The end marker or a proper end: what waits is flushed. ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status openai_complete(struct answer_feed *f);

/* Body and plain headers. ERR_NOMEM, ERR_LIMIT. */
enum err openai_put_request(const struct provider *p, const struct chat_request *request,
                            struct provider_http *out) MUST_CHECK;
enum err openai_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure) MUST_CHECK;
enum err openai_authorize(const struct provider *p, const struct provider_auth *auth,
                          struct provider_http *out, struct failure *failure) MUST_CHECK;

#endif
