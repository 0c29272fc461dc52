/*
 * The neutral chat: what llm.chat (and later the OpenAI door) asks of any provider, and what any
 * provider answers. Providers never know who asked; doors never know who answered.
 */
#ifndef TACTUS_LLM_NEUTRAL_H
#define TACTUS_LLM_NEUTRAL_H

#include "base/err.h"
#include "base/json_span.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parameters that a caller may set and that are passed on when present (null counts as absent).
 * Their JSON names are in chat_param_names[], same order. */
enum chat_param {
    CHAT_TEMPERATURE,
    CHAT_MAX_TOKENS,
    CHAT_TOOLS,
    CHAT_TOOL_CHOICE,
    CHAT_TOP_P,
    CHAT_STOP,
    CHAT_SEED,
    CHAT_RESPONSE_FORMAT,
    CHAT_MAX_COMPLETION_TOKENS,
    CHAT_REASONING_EFFORT,
    CHAT_PARALLEL_TOOL_CALLS,
    CHAT_FREQUENCY_PENALTY,
    CHAT_PRESENCE_PENALTY,
    CHAT_LOGIT_BIAS,
    CHAT_METADATA,
    CHAT_USER,
    CHAT_PARAM_COUNT
};

extern const char *const chat_param_names[CHAT_PARAM_COUNT];

struct tool_names;

/* Everything is borrowed from the caller's message and valid during provider build/start only. */
struct chat_request {
    struct span model;          /* decoded UTF-8, without a provider prefix; never empty */
    struct json_value messages; /* a validated JSON array, as it came */
    bool stream;
    const struct tool_names *names; /* tool names as the provider takes them; NULL: as they are */
    struct json_value params[CHAT_PARAM_COUNT]; /* type JSON_ABSENT when not given */
};

/* Whether the caller set it: neither absent nor null. */
bool chat_given(const struct chat_request *request, enum chat_param param);

/* Token counts; CHAT_UNKNOWN where the provider said nothing. */
#define CHAT_UNKNOWN UINT64_MAX

struct chat_usage {
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
    uint64_t total_tokens;
    uint64_t cached_tokens;
    uint64_t reasoning_tokens;
};

enum chat_finish {
    CHAT_FINISH_NONE = 0,
    CHAT_FINISH_STOP,
    CHAT_FINISH_LENGTH,
    CHAT_FINISH_TOOL_CALLS,
    CHAT_FINISH_CONTENT_FILTER
};

/* "stop", "length", …; NULL for CHAT_FINISH_NONE. */
const char *chat_finish_name(enum chat_finish f);

enum chat_event_kind {
    CHAT_EVENT_MODEL,     /* text: the model as the provider names it */
    CHAT_EVENT_TEXT,      /* text: valid UTF-8, whole characters, never empty */
    CHAT_EVENT_REASONING, /* text: likewise */
    CHAT_EVENT_SIGNATURE, /* what must come back with the reasoning before it */
    CHAT_EVENT_TOOL,      /* a piece of a tool call */
    CHAT_EVENT_USAGE,     /* replaces what was said before */
    CHAT_EVENT_FINISH
};

/*
 * A piece of a tool call. `call` counts the reply's calls from 0 without gaps, in the order in
 * which they first appeared, whatever index or id the provider used. id, name: complete when not
 * empty, sent once, with the call's first piece if the provider sends them so. arguments: the next
 * piece of the argument text, may be empty.
 */
struct chat_tool_piece {
    uint32_t call;
    struct span id;
    struct span name;
    struct span arguments;
};

/*
 * An opaque proof that a provider wants back, unchanged and in order, in the next request: it ends
 * the block of reasoning texts since the last one. To the caller it is an entry of `done`'s
 * reasoning_details, which comes back in the assistant's message (conversation.h).
 */
struct chat_signature {
    struct span data;   /* ASCII, never empty */
    const char *format; /* a literal: whose it is ("anthropic", "gemini", "bedrock") */
    bool encrypted;     /* data is the reasoning itself, in place of text */
    bool of_call;       /* it belongs to tool call `call`, not to the reasoning */
    uint32_t call;
};

struct chat_event {
    enum chat_event_kind kind;
    struct span text;
    struct chat_signature signature;
    struct chat_tool_piece tool;
    struct chat_usage usage;
    enum chat_finish finish;
};

/* Where events go. emit() returns ERR_OK, or an error (ERR_LIMIT, ERR_NOMEM, ERR_CLOSED) after
 * which the producer stops at once and passes it on. Spans are valid during the call only. */
struct chat_sink {
    enum err (*emit)(void *ctx, const struct chat_event *event);
    void *ctx;
};

#endif
