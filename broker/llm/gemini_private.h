/*
 * The parts of the provider type `gemini`: the Gemini API's models.generateContent and
 * models.streamGenerateContent. gemini.c has an answer's life; gemini_build.c writes requests with
 * gemini_config.c for what is no message; gemini_read.c turns one GenerateContentResponse into
 * neutral events.
 *
 * Sources (ai.google.dev): the API reference "Generating content" (GenerateContentRequest,
 * GenerationConfig, ThinkingConfig, GenerateContentResponse, FinishReason, UsageMetadata) and
 * "Caching" (Content, Part, FileData, FunctionDeclaration, FunctionCallingConfig); the guides
 * "Function calling", "Thought signatures", "Gemini thinking", "Structured output", "File input
 * methods", "OpenAI compatibility" (reasoning_effort), "Troubleshooting" (errors).
 *
 * What comes back signed: a part's thoughtSignature is CHAT_EVENT_SIGNATURE. Of a functionCall it
 * is `of_call`; of a thought's text a plain one; of any other part `encrypted`, which goes back
 * with the next text of its message, or alone in a part with an empty text. Reasoning that another
 * provider signed, or that nobody signed, is of no use to Gemini and is left out.
 */
#ifndef TACTUS_LLM_GEMINI_PRIVATE_H
#define TACTUS_LLM_GEMINI_PRIVATE_H

#include "llm/conversation.h"
#include "llm/provider.h"

#define GEMINI_FORMAT   "gemini" /* chat_signature.format */
#define GEMINI_STOP_MAX 5u

struct gemini_answer {
    struct answer base;
    uint32_t calls; /* told so far */
    uint16_t text_carry;
    uint16_t reasoning_carry;
    bool saw_candidate; /* or that the prompt was blocked */
};

static inline struct gemini_answer *gemini_answer(struct answer *a)
{
    return (struct gemini_answer *)a; /* its first member */
}

/* One server-sent event: a response, an error object, or a list of them. Half of one at the end of
 * the body is passed over. */
enum answer_status gemini_chunk(struct answer_feed *f, struct span text);
/* A whole plain body: a response; or a list, which is a stream whose alt=sse was lost on its way.
 * ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status gemini_body(struct answer_feed *f, struct span text);
/* A proper end after a finish reason. ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status gemini_complete(struct answer_feed *f);

/* Appends `,"tools":[…],"toolConfig":{…}`; nothing when there are no tools. */
void gemini_put_tools(const struct conversation *c, struct buf *b);
/* Appends `,"generationConfig":{…}`; nothing when there is nothing to say. ERR_PROTO with `failure`
 * for a parameter that Gemini has not. */
enum err gemini_put_config(const struct chat_request *request, const struct conversation *c,
                           struct buf *b, struct failure *failure) MUST_CHECK;

enum err gemini_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure) MUST_CHECK;
enum err gemini_authorize(const struct provider *p, const struct provider_auth *auth,
                          struct provider_http *out, struct failure *failure) MUST_CHECK;

#endif
