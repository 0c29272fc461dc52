/*
 * An HTTP/1.1 server on one loop: libmicrohttpd inside, nothing of it outside. It opens no socket;
 * connections are handed over after somebody's own accept.
 *
 * Each request comes to the owner twice: on_head when its headers are there (to refuse it before
 * its body is kept), on_request when all of it is. It is answered once: at once, later, or by a
 * stream. Everything here is for the loop's own thread. Callbacks come from the loop, never from
 * inside a function here but httpd_free. An idle server wakes nobody.
 */
#ifndef TACTUS_HTTP_HTTPD_H
#define TACTUS_HTTP_HTTPD_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct loop;
struct httpd;
struct httpd_request;

/* Who is at the other end of a connection. */
struct httpd_peer {
    bool is_unix;
    uid_t uid; /* unix: of the process that connected */
};

struct httpd_handler {
    /* May answer: then the body is discarded and on_request does not come. May be NULL. */
    void (*on_head)(void *ctx, struct httpd_request *r);
    /* Answers, or says httpd_later(). */
    void (*on_request)(void *ctx, struct httpd_request *r);
};

struct httpd_options {
    size_t max_body;          /* a longer one is not kept: httpd_body_too_large() */
    unsigned max_connections; /* one more is closed at once */
    unsigned max_streams;     /* of them: httpd_stream() refuses one more */
    uint32_t request_timeout; /* ms from the accept to the end of the first request */
    uint32_t idle_timeout;    /* ms from an answer to the end of the next request */
    uint32_t write_timeout;   /* ms, whole seconds: a client that takes nothing of its answer */
};

enum err httpd_new(struct loop *loop, const struct httpd_options *options,
                   const struct httpd_handler *handler, void *ctx, struct httpd **out,
                   struct error *e) MUST_CHECK;

/*
 * Ends every stream (on_gone), tells those who would answer later (on_gone), closes every
 * connection. NULL is harmless. The loop must not be running a callback of it.
 */
void httpd_free(struct httpd *h);

/* Takes over `fd` (non-blocking, close-on-exec; also when it cannot be served). */
void httpd_accept(struct httpd *h, int fd, const struct httpd_peer *peer);

unsigned httpd_connections(const struct httpd *h);
unsigned httpd_streams(const struct httpd *h);

/* ---- a request; all of it is borrowed and valid until it was answered ---- */

const char *httpd_method(const struct httpd_request *r);
/* Percent-decoded (but for %00) and without the query. */
const char *httpd_path(const struct httpd_request *r);
/* Decoded; NULL when absent, "" when it has no value. */
const char *httpd_query(const struct httpd_request *r, const char *name);
/* Any case of `name`; NULL when absent. */
const char *httpd_header(const struct httpd_request *r, const char *name);
const struct httpd_peer *httpd_peer(const struct httpd_request *r);
/* Empty in on_head, and when it was too large. */
struct span httpd_body(const struct httpd_request *r);
bool httpd_body_too_large(const struct httpd_request *r);

/* ---- answers ---- */

struct httpd_reply {
    int status;
    const char *content_type; /* NULL: none */
    struct span body;         /* copied */
    const char *header;       /* the name of one more header, or NULL */
    const char *value;
};

/* Answers. In want of memory the connection is closed. */
void httpd_reply(struct httpd_request *r, const struct httpd_reply *reply);

/* From on_request: httpd_reply() will come later. `on_gone` instead of it, once, when the server is
 * freed before: do not touch the request then. */
void httpd_later(struct httpd_request *r, void (*on_gone)(void *ctx), void *ctx);

struct httpd_stream_handler {
    /* At most `max` > 0 bytes into `p`; their number. 0: nothing now (it waits for
     * httpd_stream_wake), or with *end the end of the answer. */
    size_t (*read)(void *ctx, char *p, size_t max, bool *end);
    /* The last call: the client left, the end was sent, or the server is freed. */
    void (*on_gone)(void *ctx);
};

/*
 * From on_request: answers 200 with a body that comes as it comes. ERR_LIMIT when there are
 * options.max_streams already: answer otherwise. `handler` outlives the request. A client that
 * left is noticed when something is sent.
 */
enum err httpd_stream(struct httpd_request *r, const char *content_type,
                      const struct httpd_stream_handler *handler, void *ctx) MUST_CHECK;
/* There is something to read. Not after on_gone. */
void httpd_stream_wake(struct httpd_request *r);

#endif
