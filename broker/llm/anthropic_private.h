/*
 * The parts of the provider type `anthropic`: Anthropic's Messages API, POST /v1/messages.
 * anthropic.c has an answer's life; anthropic_build.c writes requests with anthropic_config.c for
 * what is no message; anthropic_read.c turns events and messages into neutral events.
 *
 * Sources (platform.claude.com): the API reference "Create a Message" and "Errors"; the guides
 * "Streaming Messages", "Handling stop reasons", "Implement tool use", "Vision", "Extended
 * thinking", "Adaptive thinking", "Effort", "Structured outputs", "Prompt caching" (usage); and the
 * types of Anthropic's TypeScript SDK (resources/messages). That a stop sequence must not be all
 * white space is what the API answers ("each stop sequence must contain non-whitespace").
 *
 * What comes back signed: a thinking block's signature is CHAT_EVENT_SIGNATURE, the data of a
 * redacted_thinking block is an `encrypted` one. Both go back where they were in their turn;
 * reasoning that somebody else signed, or nobody, is of no use to Anthropic and is left out.
 *
 * reasoning_effort     claude 4.6 and later               all other models
 *   none               thinking disabled                  thinking disabled
 *   minimal, low       thinking adaptive, effort low      1024 tokens of thinking
 *   medium             thinking adaptive, effort medium   4096
 *   high               thinking adaptive, effort high     16384
 * Claude 4.7 and later refuse a number of tokens, those before 4.6 know no other way. max_tokens
 * counts the thinking too and must be larger: without one it is the thinking and the usual 4096;
 * one of the caller's is kept, and thinking that does not fit gets half of it, 1024 at least.
 */
#ifndef TACTUS_LLM_ANTHROPIC_PRIVATE_H
#define TACTUS_LLM_ANTHROPIC_PRIVATE_H

#include "llm/conversation.h"
#include "llm/provider.h"
#include "llm/reply.h"

#define ANTHROPIC_FORMAT     "anthropic" /* chat_signature.format */
#define ANTHROPIC_MAX_TOKENS 4096u       /* where the caller says nothing; the API wants a number */

/* A tool_use block of the reply; its number in the list is the call's. */
struct anthropic_call {
    uint64_t block; /* its index in the message */
    uint16_t carry; /* half a surrogate pair of its arguments */
    bool open;      /* pieces may come */
    bool saw_input; /* its arguments have begun */
    bool whole;     /* they came with its start: pieces say the same again */
};

struct anthropic_answer {
    struct answer base;
    struct buf calls;     /* struct anthropic_call */
    struct buf signature; /* of the thinking block at hand */
    uint16_t text_carry;
    uint16_t reasoning_carry;
    bool saw_message;
    /* What was said of tokens so far; CHAT_UNKNOWN: nothing. */
    uint64_t input;
    uint64_t cache_read;
    uint64_t cache_creation;
    uint64_t output;
    uint64_t thinking;
};

static inline struct anthropic_answer *anthropic_answer(struct answer *a)
{
    return (struct anthropic_answer *)a; /* its first member */
}

/* One server-sent event. Half of one at the end of the body is passed over. */
enum answer_status anthropic_event(struct answer_feed *f, struct span text);
/* A whole plain body: a message. ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status anthropic_body(struct answer_feed *f, struct span text);
/* The end marker, or a proper end after a stop reason. ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status anthropic_complete(struct answer_feed *f);

/* Appends all members but `messages` and `system`, each with a comma before it. ERR_PROTO with
 * `failure` for what Anthropic cannot be asked. */
enum err anthropic_put_config(const struct chat_request *request, const struct conversation *c,
                              struct buf *b, struct failure *failure) MUST_CHECK;

enum err anthropic_build(const struct provider *p, const struct chat_request *request,
                         struct provider_http *out, struct failure *failure) MUST_CHECK;
enum err anthropic_authorize(const struct provider *p, const struct provider_auth *auth,
                             struct provider_http *out, struct failure *failure) MUST_CHECK;

#endif
