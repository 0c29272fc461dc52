/*
 * The contract of a provider type: pure functions and one table row. No sockets, no clock, no
 * globals; so each is tested from recorded transcripts cut at every byte.
 *
 * Two kinds. An HTTP provider (build, reader_*) turns a neutral request into an HTTP request and
 * the answer's bytes into neutral events. A local provider (script_*) makes its events itself and
 * says how long to wait before each. The router (router.h) drives both.
 */
#ifndef TACTUS_LLM_PROVIDER_H
#define TACTUS_LLM_PROVIDER_H

#include "base/buf.h"
#include "llm/neutral.h"
#include "wire/failure.h"

struct redact;
struct provider_ops;

/* A configured provider: immutable after the configuration was loaded, shared by all threads. */
struct provider {
    const char *name; /* as configured, unique */
    const struct provider_ops *ops;
    const char *base_url; /* no slash at its end; NULL for a local provider */
    struct span key;      /* in secure memory; {NULL,0} = no key is sent */
    bool key_missing;     /* one is configured but was not there at start: every call is refused */
    const char *ca_file;  /* NULL: the system's */
    const char *proxy;    /* NULL: none */
    bool stream_usage;    /* ask for usage in streams (stream_options); some servers refuse it */
    const struct redact *redact;
    size_t max_reply_bytes; /* bounds one event, one reply body, one text */
};

#define PROVIDER_HEADERS_MAX 8

/* An HTTP request to be sent. Texts live in `text` (wiped on free: it holds the key). */
struct provider_http {
    struct buf url;
    struct buf body;
    struct buf header_text[PROVIDER_HEADERS_MAX]; /* values */
    const char *header_name[PROVIDER_HEADERS_MAX];
    size_t nheaders;
};

void provider_http_init(struct provider_http *h, size_t max_body);
void provider_http_fini(struct provider_http *h); /* wipes header values */

/* Adds a header and returns the buffer for its value. `name` is a literal. At most
 * PROVIDER_HEADERS_MAX. */
struct buf *provider_http_header(struct provider_http *h, const char *name);

enum reader_status {
    READER_MORE,     /* go on */
    READER_COMPLETE, /* the end marker was seen: the reply is whole; nothing more may be fed */
    READER_FAILED    /* `failure` is filled; nothing more may be fed */
};

/* What a reader or a script returns when a step ended with `err` (not ERR_OK): READER_FAILED, and
 * `failure` says why in words that hold nothing of the provider's. */
enum reader_status provider_stop(struct failure *failure, enum err err);

struct provider_reader;

/* What a reader needs to know of the answer's head. */
struct reader_head {
    int status;
    const char *content_type;     /* "" when absent */
    const char *content_encoding; /* "" when absent */
    bool stream_asked;            /* chat_request.stream */
};

struct provider_ops {
    const char *type; /* "openai", "builtin": what the configuration calls it */

    /* HTTP: fills `out`. ERR_NOMEM, ERR_LIMIT, or ERR_PROTO with `failure` filled when this
     * provider cannot express the request. NULL for a local provider. */
    enum err (*build)(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure);

    /* One answer. NULL when out of memory. The head may already decide that it failed: then the
     * first feed or end says so (an error body is collected, up to 64 KiB, for its message). */
    struct provider_reader *(*reader_new)(const struct provider *p, const struct reader_head *head);
    void (*reader_free)(struct provider_reader *r);
    /* The next bytes of the body, cut anywhere. Emits any number of events. */
    enum reader_status (*reader_feed)(struct provider_reader *r, const char *bytes, size_t n,
                                      const struct chat_sink *sink, struct failure *failure);
    /* The body ended properly (HTTP says so). READER_COMPLETE or READER_FAILED. */
    enum reader_status (*reader_end)(struct provider_reader *r, const struct chat_sink *sink,
                                     struct failure *failure);
    /* True once a finish reason was seen: a provider that goes silent then counts as complete. */
    bool (*reader_finished)(const struct provider_reader *r);

    /* Local: a state that produces the reply step by step. NULL `script_new` for an HTTP provider.
     */
    struct provider_script *(*script_new)(const struct provider *p,
                                          const struct chat_request *request);
    void (*script_free)(struct provider_script *s);
    /* Milliseconds to wait before the next step. */
    uint32_t (*script_delay)(const struct provider_script *s);
    /* One step: at most one piece of text. */
    enum reader_status (*script_step)(struct provider_script *s, const struct chat_sink *sink,
                                      struct failure *failure);
};

extern const struct provider_ops provider_openai;
extern const struct provider_ops provider_builtin;

/* The ops of a configured `type`, or NULL. */
const struct provider_ops *provider_ops_find(const char *type);

#endif
