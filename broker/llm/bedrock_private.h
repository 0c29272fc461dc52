/*
 * The parts of the provider type `bedrock`: Amazon Bedrock's Converse and ConverseStream. bedrock.c
 * has an answer's life and the signing; bedrock_build.c writes requests with bedrock_config.c for
 * what is no message; bedrock_read.c turns a reply or a stream's events into neutral events.
 *
 * Sources (docs.aws.amazon.com): the Amazon Bedrock API Reference, "Converse", "ConverseStream",
 * ContentBlock, ImageBlock, ToolResultBlock, ReasoningContentBlock, InferenceConfiguration,
 * ToolConfiguration, ToolSpecification, ToolChoice, OutputConfig, OutputFormat,
 * JsonSchemaDefinition, ConverseStreamOutput, TokenUsage; the Amazon Bedrock User Guide, "Carry out
 * a conversation with the Converse API operations", "Get validated JSON results from models",
 * "Prompt caching".
 *
 * Reasoning that is signed comes back as it was: reasoningText with its signature, redactedContent
 * as `encrypted`. Reasoning that another provider signed, or nobody, is of no use to Bedrock and is
 * left out. How much a model reasons is said differently to each family of models, so
 * reasoning_effort is refused.
 *
 * Counts: inputTokens has neither what was read from a cache nor what was written to one in it;
 * prompt_tokens is the sum of the three.
 */
#ifndef TACTUS_LLM_BEDROCK_PRIVATE_H
#define TACTUS_LLM_BEDROCK_PRIVATE_H

#include "llm/conversation.h"
#include "llm/eventstream.h"
#include "llm/provider.h"

#define BEDROCK_FORMAT  "bedrock" /* chat_signature.format */
#define BEDROCK_STREAM  "application/vnd.amazon.eventstream"
#define BEDROCK_SERVICE "bedrock" /* what requests are signed for */

/* A tool call of the reply; its number is its place in the list. */
struct bedrock_call {
    uint64_t block; /* its contentBlockIndex */
    bool arguments; /* some came */
};

struct bedrock_answer {
    struct answer base;
    struct eventstream frames;
    struct buf calls;     /* struct bedrock_call */
    struct buf signature; /* of the reasoning at hand, as far as it came */
    uint16_t text_carry;
    uint16_t reasoning_carry;
    uint16_t arguments_carry;
    uint32_t arguments_call; /* whose arguments_carry is */
};

static inline struct bedrock_answer *bedrock_answer(struct answer *a)
{
    return (struct bedrock_answer *)a; /* its first member */
}

/* One message of a stream. MORE, COMPLETE after the last one, or FAILED. */
enum answer_status bedrock_message(struct answer_feed *f, const struct eventstream_message *m);
/* A whole reply of Converse: COMPLETE or FAILED. */
enum answer_status bedrock_body(struct answer_feed *f, struct span text);

/* Appends what of a body is no message, each with a comma before it. ERR_PROTO with `failure` for
 * what Bedrock cannot express. */
enum err bedrock_put_config(const struct chat_request *request, const struct conversation *c,
                            struct buf *b, struct failure *failure) MUST_CHECK;

enum err bedrock_build(const struct provider *p, const struct chat_request *request,
                       struct provider_http *out, struct failure *failure) MUST_CHECK;

#endif
