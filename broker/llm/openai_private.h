/*
 * The parts of the OpenAI provider type, for openai*.c only. openai.c has the reader's life and
 * decides what kind of body came; openai_build.c writes requests; openai_read.c turns one chunk
 * (or one plain body) into neutral events; openai_tools.c says which tool call a piece belongs to;
 * openai_error.c reads error objects.
 */
#ifndef TACTUS_LLM_OPENAI_PRIVATE_H
#define TACTUS_LLM_OPENAI_PRIVATE_H

#include "llm/provider.h"
#include "llm/sse.h"

#define OPENAI_DEPTH_MAX      128u
#define OPENAI_ERROR_BODY_MAX (64u * 1024u)
#define OPENAI_CALLS_MAX      256u /* as many as a reply holds */
#define OPENAI_ID_MAX         4096u
#define OPENAI_UNNAMED        UINT32_MAX

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

enum openai_mode {
    OPENAI_SNIFF,  /* nothing but white space has come */
    OPENAI_STREAM, /* server-sent events */
    OPENAI_PLAIN,  /* one JSON object */
    OPENAI_ERROR,  /* the status is no success: the body is collected for its message */
    OPENAI_BAD     /* cannot be read; `why` says so */
};

struct provider_reader {
    const struct provider *provider;
    int status;
    bool text_plain;   /* the body is said to be text */
    bool stream_asked; /* or the answer says that it is a stream */
    enum openai_mode mode;
    const char *why;
    struct sse sse;
    struct buf body; /* a plain or error body */
    struct openai_tools tools;
    struct buf text; /* scratch, for one piece */
    uint16_t text_carry;
    uint16_t reasoning_carry;
    bool saw_model;
    bool saw_choice;
    bool saw_output; /* text, reasoning or a tool call */
    bool finished;   /* a finish reason was seen */
};

/* One feed or end of a reader, with where its results go. */
struct openai_feed {
    struct provider_reader *r;
    const struct chat_sink *sink;
    struct failure *failure;
    enum reader_status status;
    bool at_end; /* the body has ended: what comes may be half a chunk */
};

/* One chunk of a stream. Half a chunk at the end of the body is passed over: whether the reply is
 * whole is decided by what came before. */
enum reader_status openai_chunk(struct openai_feed *f, struct span text);
/* A whole plain body. READER_COMPLETE or READER_FAILED. */
enum reader_status openai_body(struct openai_feed *f, struct span text);
/* The end marker or a proper end: what waits is flushed. READER_COMPLETE or READER_FAILED. */
enum reader_status openai_complete(struct openai_feed *f);
/* APIResponseValidationError with a text of ours. */
enum reader_status openai_invalid(struct openai_feed *f, const char *what);

/*
 * True when `object` (a validated JSON object) is an error: {"error":{…}}, {"error":"text"} or
 * {"object":"error",…}. Then `failure` is filled, type and status by what the error object says.
 */
bool openai_error_object(const struct provider *p, struct json_value object,
                         struct failure *failure);
/* The data of an SSE event that is named `error`. */
void openai_error_event(const struct provider *p, struct span data, struct failure *failure);
/* An answer with a status that is no success: type by the status, message from the body. */
void openai_error_body(const struct provider *p, int status, bool text_plain, struct span body,
                       struct failure *failure);

enum err openai_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure) MUST_CHECK;

#endif
