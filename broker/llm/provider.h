/*
 * The contract of a provider type: pure functions and one table row. No sockets, no clock, no
 * globals; so each is tested from recorded transcripts cut at every byte.
 *
 * Two kinds. An HTTP provider (build, authorize, answer_new) turns a neutral request into an HTTP
 * request and the answer's bytes into neutral events. A local provider (script_*) makes its events
 * itself and says how long to wait before each. The router (router.h) drives both.
 */
#ifndef TACTUS_LLM_PROVIDER_H
#define TACTUS_LLM_PROVIDER_H

#include "base/buf.h"
#include "llm/answer.h"
#include "llm/neutral.h"
#include "wire/failure.h"

#include <stdatomic.h>

struct aws_keys;
struct redact;
struct provider_ops;

/* One key; all loops share it. */
struct provider_key {
    struct span secret;           /* in secure memory */
    _Atomic uint64_t rests_until; /* loop_now() milliseconds; 0: it does not rest */
};

/* A configured provider: immutable after the configuration was loaded, shared by all threads. */
struct provider {
    const char *name; /* as configured, unique */
    const struct provider_ops *ops;
    const char *base_url;      /* no slash at its end; NULL for a local provider */
    struct provider_key *keys; /* those that were there at start */
    size_t nkeys;
    bool key_missing;        /* configured, but none was there at start: every call is refused */
    const char *api_version; /* azure_openai */
    const char *region;      /* bedrock */
    const char *profile;     /* bedrock; NULL: AWS's usual chain */
    const char *ca_file;     /* NULL: the system's */
    const char *proxy;       /* NULL: none */
    bool stream_usage;       /* ask for usage in streams (stream_options); some servers refuse it */
    const struct redact *redact;
    size_t max_reply_bytes; /* bounds one event, one reply body, one text */
    atomic_uint *turn;      /* counts calls, so that keys take turns */
};

#define PROVIDER_HEADERS_MAX 8

/* An HTTP request to be sent. Texts live in `text` (wiped on free: it holds the key). */
struct provider_http {
    struct buf url;
    struct buf body;
    struct buf header_text[PROVIDER_HEADERS_MAX]; /* values */
    const char *header_name[PROVIDER_HEADERS_MAX];
    size_t nheaders;
    size_t plain_headers; /* of them, those of build */
};

void provider_http_init(struct provider_http *h, size_t max_body);
void provider_http_fini(struct provider_http *h); /* wipes header values */

/* Appends `model` as one segment of a path: all but A-Z a-z 0-9 - . _ ~ percent-encoded. ERR_PROTO
 * with `failure` a BadRequest for "." and "..", which would be another path. */
enum err provider_put_model(struct buf *url, struct span model, struct failure *failure) MUST_CHECK;

/* Adds a header and returns the buffer for its value. `name` is a literal. At most
 * PROVIDER_HEADERS_MAX. */
struct buf *provider_http_header(struct provider_http *h, const char *name);

/* A header whose value is `before` and a secret. ERR_PROTO with `failure` when a header cannot hold
 * the secret (a line end in it would let whoever set it add headers of their own). */
enum err provider_http_secret(struct provider_http *h, const char *name, const char *before,
                              struct span secret, struct failure *failure) MUST_CHECK;

/* What went wrong while url, body and headers were put together: ERR_OK, ERR_NOMEM, ERR_LIMIT. */
enum err provider_http_status(const struct provider_http *h) MUST_CHECK;

/* Takes away (and wipes) the headers that authorize added. */
void provider_http_strip(struct provider_http *h);

/* ERR_PROTO: BadRequest, what the provider cannot express, by the name that the caller gave it. */
enum err provider_cannot(struct failure *failure, const char *fmt, ...)
    PRINTF_LIKE(2, 3) MUST_CHECK;

/*
 * Error objects. True when `object` (a validated JSON object) is an error: {"error":{…}},
 * {"error":"text"} or {"object":"error",…}. Then `failure` is filled, type and status by what the
 * error object says.
 */
bool provider_error_object(const struct provider *p, struct json_value object,
                           struct failure *failure);
/* The data of an SSE event that is named `error`. */
void provider_error_event(const struct provider *p, struct span data, struct failure *failure);
/* An answer with a status that is no success: type by the status, message from the body. */
void provider_error_body(const struct provider *p, int status, bool text_plain, struct span body,
                         struct failure *failure);

/* Proof of who asks. Borrowed during authorize. */
struct provider_auth {
    struct span key;            /* in secure memory; {NULL,0}: none is sent */
    const struct aws_keys *aws; /* of types that sign requests; else NULL */
    int64_t now_ms;             /* wall clock */
};

struct provider_ops {
    const char *type; /* "openai", "builtin": what the configuration calls it */

    const char *base_url; /* without a slash at its end; NULL: it must be configured, or is local */
    bool signs;           /* authorize wants AWS's credentials in place of a key */

    /* HTTP: fills `out`, all but what proves who asks. ERR_NOMEM, ERR_LIMIT, or ERR_PROTO with
     * `failure` filled when this provider cannot express the request. NULL for a local provider. */
    enum err (*build)(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure);
    /* Adds the headers that prove who asks; once an attempt (provider_http_strip). Errors as
     * build's. */
    enum err (*authorize)(const struct provider *p, const struct provider_auth *auth,
                          struct provider_http *out, struct failure *failure);
    /* One answer (answer.h). NULL when out of memory. The head may already decide that it failed:
     * then the first feed or the end says so. */
    struct answer *(*answer_new)(const struct provider *p, const struct answer_head *head);

    /* Local: a state that produces the reply step by step. NULL `script_new` for an HTTP provider.
     */
    struct provider_script *(*script_new)(const struct provider *p,
                                          const struct chat_request *request);
    void (*script_free)(struct provider_script *s);
    /* Milliseconds to wait before the next step. */
    uint32_t (*script_delay)(const struct provider_script *s);
    /* One step: at most one piece of text. */
    enum answer_status (*script_step)(struct provider_script *s, const struct chat_sink *sink,
                                      struct failure *failure);
};

extern const struct provider_ops provider_openai;
extern const struct provider_ops provider_azure_openai;
extern const struct provider_ops provider_anthropic;
extern const struct provider_ops provider_gemini;
extern const struct provider_ops provider_bedrock;
extern const struct provider_ops provider_builtin;

/* The ops of a configured `type`, or NULL. */
const struct provider_ops *provider_ops_find(const char *type);

#endif
