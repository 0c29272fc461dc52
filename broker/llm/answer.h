/*
 * The life of one answer over HTTP, the same for all provider types: its head and first byte tell
 * what kind of body came (events, one JSON value, an error's body, nothing that can be read); what
 * must be whole is collected, and the type's own functions (answer_ops) turn it into neutral
 * events. Pure; cut anywhere, the same events come.
 */
#ifndef TACTUS_LLM_ANSWER_H
#define TACTUS_LLM_ANSWER_H

#include "base/buf.h"
#include "base/json_span.h"
#include "llm/neutral.h"
#include "llm/sse.h"
#include "wire/failure.h"

#define ANSWER_ERROR_BODY_MAX (64u * 1024u)
#define ANSWER_DEPTH_MAX      128u
#define ANSWER_CALL_TEXT_MAX  4096u /* of a call's id, of its name */

struct provider;

/* How what a provider sends is checked. */
extern const struct json_rules answer_rules;

enum answer_status {
    ANSWER_MORE,     /* go on */
    ANSWER_COMPLETE, /* the end marker was seen: the reply is whole; nothing more may be fed */
    ANSWER_FAILED    /* `failure` is filled; nothing more may be fed */
};

/* What an answer needs to know of its head. */
struct answer_head {
    int status;
    const char *content_type;     /* "" when absent */
    const char *content_encoding; /* "" when absent */
    bool stream_asked;            /* chat_request.stream */
};

enum answer_mode {
    ANSWER_SNIFF, /* nothing but white space has come */
    ANSWER_EVENTS,
    ANSWER_PLAIN, /* one JSON value */
    ANSWER_ERROR, /* the status is no success: the body is collected for its message */
    ANSWER_BAD    /* cannot be read; `why` says so */
};

/* The first member of each type's own state. */
struct answer {
    const struct provider *provider;
    const struct answer_ops *ops;
    int status;
    bool text_plain;   /* the body is said to be text */
    bool stream_asked; /* or the answer says that it is a stream */
    enum answer_mode mode;
    const char *why;
    struct sse sse;
    struct buf body; /* a plain or error body */
    struct buf text; /* scratch, for one piece */
    struct buf id;   /* of the call that is told (answer_read_call) */
    struct buf name;
    bool saw_model;
    bool finished; /* a finish reason was seen: the type says so */
};

/* One feed or end of an answer, with where its results go. */
struct answer_feed {
    struct answer *answer;
    const struct chat_sink *sink;
    struct failure *failure;
    enum answer_status status;
    bool at_end; /* the body has ended: what comes may be half an event */
};

/* What a type does with its answers. */
struct answer_ops {
    /* One server-sent event; `name` is "" when it has none. NULL with `bytes`. */
    enum answer_status (*event)(struct answer_feed *f, struct span name, struct span data);
    /* Bytes of a stream that is not server-sent events, cut anywhere; and its end. NULL: it is. */
    enum answer_status (*bytes)(struct answer_feed *f, const char *p, size_t n);
    /* A whole plain body, without white space around it: COMPLETE or FAILED. */
    enum answer_status (*body)(struct answer_feed *f, struct span text);
    /* A stream ended properly after its finish reason, without an end marker: flushes what waits.
     * COMPLETE or FAILED. */
    enum answer_status (*complete)(struct answer_feed *f);
    /* Frees the whole state; calls answer_fini. */
    void (*free)(struct answer *a);
};

/* For answer_new of a type. */
void answer_init(struct answer *a, const struct provider *p, const struct answer_ops *ops,
                 const struct answer_head *head);
void answer_fini(struct answer *a);

/* ---- for the router ---- */

void answer_free(struct answer *a); /* NULL is harmless */
/* The next bytes of the body, cut anywhere. Emits any number of events. */
enum answer_status answer_feed(struct answer *a, const char *bytes, size_t n,
                               const struct chat_sink *sink, struct failure *failure);
/* The body ended properly (HTTP says so). ANSWER_COMPLETE or ANSWER_FAILED. */
enum answer_status answer_end(struct answer *a, const struct chat_sink *sink,
                              struct failure *failure);
/* True once a finish reason was seen: a provider that goes silent then counts as complete. */
bool answer_finished(const struct answer *a);

/* ---- for types ---- */

/* ANSWER_FAILED; `failure` says why in words that hold nothing of the provider's. */
enum answer_status answer_stop(struct failure *failure, enum err err);
/* APIResponseValidationError with a text of ours. */
enum answer_status answer_invalid(struct answer_feed *f, const char *what);
/* The same for JSON that is none: "A chunk of the provider's stream is not valid JSON: …". */
enum answer_status answer_invalid_json(struct answer_feed *f, const char *where,
                                       const struct json_fault *fault);
/* The provider ended its reply with an error that it does not name: InternalServerError. */
enum answer_status answer_failed(struct answer_feed *f);

/* Checks the text of an event, or of a whole body. False: *status is what the type returns; half an
 * event at the end of the body is passed over (MORE), because what came before decides whether the
 * reply is whole. */
bool answer_value(struct answer_feed *f, struct span text, struct json_value *out,
                  enum answer_status *status);
/* The same for an object, which must not be an error (provider_error_object). */
bool answer_object(struct answer_feed *f, struct span text, struct json_members *out,
                   enum answer_status *status);

/* To the sink. */
enum err answer_emit(struct answer_feed *f, const struct chat_event *event) MUST_CHECK;
/* a->text as an event of that kind; nothing when it is empty. */
enum err answer_emit_text(struct answer_feed *f, enum chat_event_kind kind) MUST_CHECK;
/* The string `v` decoded as an event of that kind; nothing when it is no string, or empty. `carry`
 * joins surrogate pairs (json_string_decode); NULL: none. */
enum err answer_emit_string(struct answer_feed *f, enum chat_event_kind kind, struct json_value v,
                            uint16_t *carry) MUST_CHECK;
/* The model's name; nothing but the first time. */
enum err answer_emit_model(struct answer_feed *f, struct json_value model) MUST_CHECK;
/* Nothing when it is empty or has anything but visible ASCII and spaces: signatures are base64, and
 * anything else would be refused when it comes back. */
enum err answer_emit_signature(struct answer_feed *f,
                               const struct chat_signature *signature) MUST_CHECK;
/* Nothing when it says nothing: what was said before stays. */
enum err answer_emit_usage(struct answer_feed *f, const struct chat_usage *usage) MUST_CHECK;
/* A call's id and name, decoded into a->id and a->name; empty for what is no string. */
enum err answer_read_call(struct answer *a, struct json_value id,
                          struct json_value name) MUST_CHECK;
/* U+FFFD for half a surrogate pair whose other half will not come. */
enum err answer_flush_carry(struct answer_feed *f, enum chat_event_kind kind,
                            uint16_t *carry) MUST_CHECK;

/* A count of tokens; 12.0 is 12. CHAT_UNKNOWN when it is none. */
uint64_t answer_count(struct json_value object, const char *name);
/* Of two counts; CHAT_UNKNOWN counts as none, unless both are; also a sum over the range is it. */
uint64_t answer_sum(uint64_t a, uint64_t b);

#endif
