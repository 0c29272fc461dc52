/*
 * HTTP requests to providers: start, pause, resume, cancel; head, bytes, end. Hides libcurl (multi,
 * socket action) completely. One client per loop; everything is for that loop's thread.
 *
 * The process must ignore SIGPIPE. Redirects are never followed, proxy variables of the environment
 * are not obeyed, no cookies, no decompression, http and https only. Request memory that held
 * headers is wiped when freed (http_client_global_init gives libcurl an allocator that wipes).
 *
 * A call's life: QUEUED (next turn) -> CONNECTING -> WAITING (sent, no byte yet) -> STREAMING ->
 * ended. Callbacks never run inside http_client_start, _resume or _cancel. Order: at most one
 * on_head, any number of on_bytes, exactly one on_end, unless cancelled. After on_end, or once
 * http_call_cancel was called (allowed everywhere, in callbacks too), the call is gone and nothing
 * more comes.
 */
#ifndef TACTUS_NET_HTTP_CLIENT_H
#define TACTUS_NET_HTTP_CLIENT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct http_client;
struct http_call;

struct http_header {
    struct span name;
    struct span value; /* CR, LF or NUL in it: http_client_start refuses with ERR_CONFIG */
};

struct http_request {
    const char *method;      /* "POST", "GET" */
    const char *url;         /* absolute, http:// or https:// */
    const char *unix_socket; /* path to connect to instead of the URL's host; NULL: none */
    const struct http_header *headers;
    size_t nheaders;
    struct span body;       /* borrowed until the call is gone */
    const char *ca_file;    /* NULL: the system's bundle */
    const char *cert_file;  /* a client certificate, PEM; NULL: none */
    const char *key_file;   /* its key; with cert_file only */
    const char *proxy;      /* NULL: none */
    uint32_t connect_ms;    /* name lookup, TCP and TLS */
    uint32_t first_byte_ms; /* from the start of the call to the first byte of the answer's head */
    uint32_t stall_ms;      /* between bytes, not counted while paused */
    uint32_t total_ms;      /* from start to end */
};

/* What we read of an answer's head; strings are valid during on_head only, "" when absent. */
struct http_head {
    int status;
    const char *content_type;
    const char *content_encoding;
    const char *request_id;     /* x-request-id, or request-id */
    const char *retry_after;    /* seconds or an HTTP date, as it came */
    const char *retry_after_ms; /* as it came */
};

enum http_outcome {
    HTTP_OK, /* the body came to its proper end. A body without a length ends with the connection;
              * libcurl does not tell a TLS connection that was cut from one that was closed. */
    HTTP_TRUNCATED,      /* the connection closed before the body's announced end */
    HTTP_BAD_RESPONSE,   /* not HTTP, a bad chunk, a header block too large */
    HTTP_CONNECT_FAILED, /* refused, DNS, unreachable, proxy */
    HTTP_TLS_FAILED,
    HTTP_RESET, /* connection reset or broken, before or in the body */
    HTTP_TIMEOUT_CONNECT,
    HTTP_TIMEOUT_FIRST_BYTE,
    HTTP_TIMEOUT_STALL,
    HTTP_TIMEOUT_TOTAL,
    HTTP_NOMEM,
    HTTP_STOPPED /* http_client_free with calls in flight */
};

struct http_end {
    enum http_outcome outcome;
    const char *detail; /* for people, e.g. libcurl's text; valid during on_end; no secret */
};

struct http_handler {
    void (*on_head)(void *ctx, const struct http_head *head);
    /* All of `n` bytes are the handler's. To slow the provider down call http_call_pause: what was
     * given is consumed, no more comes until http_call_resume. */
    void (*on_bytes)(void *ctx, const char *p, size_t n);
    void (*on_end)(void *ctx, const struct http_end *end);
};

/* Once per process before any thread: libcurl with a wiping allocator. */
enum err http_client_global_init(struct error *e) MUST_CHECK;
void http_client_global_fini(void);

enum err http_client_new(struct http_client **out, struct loop *loop, struct error *e) MUST_CHECK;
/* Ends every call with HTTP_STOPPED, closes cached connections. Runs the loop's closing callbacks
 * through loop_free. */
void http_client_free(struct http_client *client);

/* ERR_CONFIG (a header, method or URL that cannot be sent; credentials in the URL; a header that is
 * ours: Content-Length, Transfer-Encoding, Expect), ERR_NOMEM, ERR_CLOSED (while http_client_free
 * runs). `handler` and all of the request but the body are copied. */
enum err http_client_start(struct http_client *client, const struct http_request *request,
                           const struct http_handler *handler, void *ctx, struct http_call **out,
                           struct error *e) MUST_CHECK;

void http_call_pause(struct http_call *call);
void http_call_resume(struct http_call *call);

/* Ends the call at once, the connection with it (within this loop turn). NULL is harmless. */
void http_call_cancel(struct http_call *call);

/*
 * NULL is harmless. The answer is complete as far as the caller is concerned (an end marker was
 * seen) but the HTTP body may not be: gives the transfer up to `grace_ms` to end by itself, so that
 * its connection can be used again, then cancels it; at once when head or request body are not
 * through yet. No callback comes any more; the body passed at start is not touched any more either.
 */
void http_call_release(struct http_call *call, uint32_t grace_ms);

/* How many calls are in flight, released ones included. */
size_t http_client_calls(const struct http_client *client);

#endif
