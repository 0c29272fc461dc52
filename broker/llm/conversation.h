/*
 * A chat request read once for provider types that do not speak OpenAI's JSON: who says what, in
 * parts; the tools; the parameters that other APIs put elsewhere. Pure. Texts stay where they are
 * in the request (json_value: copy the bytes, or decode); lists are in the caller's arena.
 *
 * The request's shape is OpenAI's chat completions (messages, tools, tool_choice,
 * response_format, stop), and reasoning_details in an assistant's message, as `done` has them
 * (reply.h): {"type":"reasoning.text","text","signature","format"} and
 * {"type":"reasoning.encrypted","data","format","id"?}.
 */
#ifndef TACTUS_LLM_CONVERSATION_H
#define TACTUS_LLM_CONVERSATION_H

#include "base/arena.h"
#include "llm/neutral.h"
#include "wire/failure.h"

enum part_kind {
    PART_TEXT,
    PART_IMAGE,
    PART_REASONING,
    PART_CALL,  /* of a tool; in an assistant's turn */
    PART_RESULT /* of a tool; in a user's turn */
};

struct part {
    enum part_kind kind;
    size_t message;         /* index in `messages`, for errors */
    struct json_value text; /* TEXT, REASONING: a JSON string, never empty; REASONING: ABSENT when
                             * encrypted, or when it is nothing but a signature */
    /* IMAGE: inline, or where it is */
    struct span media_type; /* "image/png", in small letters; {NULL,0}: `url` says where it is */
    struct span data;       /* base64, checked for its alphabet */
    struct json_value url;  /* http or https */
    /* REASONING: what the provider wants back; PART_CALL: what belongs to the call, or ABSENT */
    struct json_value signature; /* a JSON string; ABSENT: none */
    struct json_value format;    /* whose: a JSON string; ABSENT: unsaid */
    bool encrypted;              /* `signature` is the reasoning itself */
    /* CALL, RESULT */
    struct json_value id;  /* a JSON string; ABSENT: the caller gave none (a call may have none;
                            * `function_call` and `function` messages never have one) */
    struct span name;      /* as the provider takes it (tool_names.h); RESULT: of the last call
                            * before it with its id; of a `function` message: its `name` */
    struct span arguments; /* CALL: a JSON object's text, decoded and checked; "{}" for "" */
    /* RESULT: texts and images, none for an empty one */
    struct part *parts;
    size_t nparts;
    bool is_error; /* RESULT: never set by OpenAI's shape; for symmetry of types that have it */
};

/*
 * Messages of one side after another are one turn; so sides alternate. Images are in users' turns
 * and results only. In a message of an assistant reasoning comes first, then text, then calls.
 */
struct turn {
    bool assistant;
    struct part *parts;
    size_t n; /* never 0 */
};

struct tool {
    struct span name;              /* as the provider takes it */
    struct json_value description; /* a JSON string, or ABSENT */
    struct json_value parameters;  /* a JSON object, or ABSENT */
    bool strict;
};

enum tool_choice {
    TOOL_CHOICE_UNSAID,
    TOOL_CHOICE_AUTO,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_ANY,
    TOOL_CHOICE_ONE
};

enum reply_format { REPLY_TEXT, REPLY_JSON, REPLY_JSON_SCHEMA };

struct conversation {
    struct part
        *system; /* texts of `system` and `developer` messages, in order, wherever they were */
    size_t nsystem;
    struct turn *turns;
    size_t nturns; /* 0: nothing was said but by the system */
    struct tool *tools;
    size_t ntools;
    enum tool_choice choice;
    struct span choice_name; /* TOOL_CHOICE_ONE: as the provider takes it */
    bool no_parallel_calls;  /* parallel_tool_calls: false */
    struct json_value *stop; /* JSON strings */
    size_t nstop;
    enum reply_format format;
    struct json_value schema;      /* REPLY_JSON_SCHEMA: a JSON object */
    struct json_value schema_name; /* a JSON string, or ABSENT */
    uint64_t max_tokens;           /* max_completion_tokens, else max_tokens; 0: unsaid */
    enum chat_effort {
        EFFORT_UNSAID,
        EFFORT_NONE,
        EFFORT_MINIMAL,
        EFFORT_LOW,
        EFFORT_MEDIUM,
        EFFORT_HIGH
    } effort; /* reasoning_effort; "xhigh" is HIGH */
};

/*
 * ERR_NOMEM, ERR_LIMIT, or ERR_PROTO with `failure` a BadRequest that names what is wrong and what
 * was expected: "messages[2].content[1]: type is input_audio, which is not supported", …. Content
 * that no provider type of ours can express (audio, files) is such an error too.
 * request->names may be NULL. On failure `out` is untouched; what it holds lives as long as the
 * request and the arena do.
 */
enum err conversation_read(const struct chat_request *request, struct arena *arena,
                           struct conversation *out, struct failure *failure) MUST_CHECK;

/*
 * Of those parameters of the request that are set (not absent), the first that is neither in
 * `known` nor read above; CHAT_PARAM_COUNT: none. For a type's BadRequest about what it cannot
 * express; `metadata` and `user` never count.
 */
enum chat_param conversation_unknown(const struct chat_request *request,
                                     const enum chat_param *known, size_t n);

#endif
