/*
 * One request: its body as far as it is kept, the owner's answer, a stream's reader. The daemon
 * calls the access callback once for the headers, once for each piece of body, once at the end and
 * again after a suspended request was resumed; an answer can be queued at the end only, so one that
 * came early waits there, and what is left of the body is discarded up to a bound.
 */
#include "http/httpd_private.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define DISCARD_MAX                                                                                \
    (8u * 1024u * 1024u) /* of a body that nobody wants, for the answer to arrive                  \
                          */
#define STREAM_BLOCK 4096u

/* ---- what the owner asks ---- */

const char *httpd_method(const struct httpd_request *r)
{
    return r->method;
}

const char *httpd_path(const struct httpd_request *r)
{
    return r->path;
}

const char *httpd_query(const struct httpd_request *r, const char *name)
{
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(r->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value, NULL) != MHD_YES) {
        return NULL;
    }
    return value == NULL ? "" : value;
}

const char *httpd_header(const struct httpd_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const struct httpd_peer *httpd_peer(const struct httpd_request *r)
{
    return &r->conn->peer;
}

struct span httpd_body(const struct httpd_request *r)
{
    return r->too_large ? SPAN("") : buf_span(&r->body);
}

bool httpd_body_too_large(const struct httpd_request *r)
{
    return r->too_large;
}

/* ---- answers ---- */

void httpd_request_resume(struct httpd_request *r)
{
    if (r->suspended) {
        r->suspended = false;
        MHD_resume_connection(r->connection);
        httpd_want_run(r->httpd);
    }
}

static bool add_headers(struct MHD_Response *response, const char *content_type, const char *name,
                        const char *value)
{
    bool good = MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
                MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES;

    if (good && content_type != NULL) {
        good = MHD_add_response_header(response, "Content-Type", content_type) == MHD_YES;
    }
    if (good && name != NULL) {
        good = MHD_add_response_header(response, name, value) == MHD_YES;
    }
    return good;
}

void httpd_reply(struct httpd_request *r, const struct httpd_reply *reply)
{
    bool later = r->state == HTTPD_LATER;

    if (r->state >= HTTPD_ANSWERED) {
        return;
    }
    /* The library copies and does not write; its parameter is not const. */
    union {
        const void *in;
        void *out;
    } body = {.in = reply->body.n == 0 ? "" : reply->body.p};
    r->response = MHD_create_response_from_buffer(reply->body.n, body.out, MHD_RESPMEM_MUST_COPY);
    if (r->response == NULL ||
        !add_headers(r->response, reply->content_type, reply->header, reply->value)) {
        r->dead = true;
    }
    r->status = reply->status;
    r->state = HTTPD_ANSWERED;
    if (later) {
        httpd_request_resume(r);
    }
}

void httpd_later(struct httpd_request *r, void (*on_gone)(void *ctx), void *ctx)
{
    if (r->state == HTTPD_ASKED) {
        r->state = HTTPD_LATER;
        r->on_gone = on_gone;
        r->ctx = ctx;
    }
}

/* ---- streams ---- */

static ssize_t on_read(void *cls, uint64_t position, char *p, size_t max)
{
    struct httpd_request *r = cls;
    bool end = r->httpd->stopping;

    (void)position;
    size_t n = end ? 0 : r->stream->read(r->ctx, p, max, &end);
    if (n > 0) {
        return (ssize_t)n;
    }
    if (end) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    /* Without this the daemon would ask again and again. */
    r->suspended = true;
    MHD_suspend_connection(r->connection);
    return 0;
}

enum err httpd_stream(struct httpd_request *r, const char *content_type,
                      const struct httpd_stream_handler *handler, void *ctx)
{
    if (r->httpd->nstreams >= r->httpd->options.max_streams || r->state != HTTPD_ASKED) {
        return ERR_LIMIT;
    }
    r->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, on_read, r, NULL);
    if (r->response == NULL || !add_headers(r->response, content_type, "X-Accel-Buffering", "no")) {
        if (r->response != NULL) {
            MHD_destroy_response(r->response);
            r->response = NULL;
        }
        return ERR_NOMEM;
    }
    r->status = MHD_HTTP_OK;
    r->stream = handler;
    r->ctx = ctx;
    r->state = HTTPD_ANSWERED;
    r->httpd->nstreams++;
    return ERR_OK;
}

void httpd_stream_wake(struct httpd_request *r)
{
    if (r->state == HTTPD_STREAMING) {
        httpd_request_resume(r);
    }
}

/* ---- the daemon's callbacks ---- */

static struct httpd_request *request_new(struct httpd *h, struct MHD_Connection *connection,
                                         const char *url, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct httpd_request *r =
        info == NULL || info->socket_context == NULL ? NULL : calloc(1, sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    r->httpd = h;
    r->conn = info->socket_context;
    r->connection = connection;
    r->method = method;
    r->path = url;
    buf_init(&r->body, h->options.max_body + 1);
    list_push_back(&h->requests, &r->node);
    return r;
}

/* False: more is announced than is read only to be thrown away. */
static bool begin(struct httpd_request *r)
{
    const struct httpd *h = r->httpd;
    const char *announced = httpd_header(r, "Content-Length");
    uint64_t n = 0;

    if (h->handler.on_head != NULL) {
        h->handler.on_head(h->ctx, r);
    }
    if (announced == NULL || !text_u64(span_str(announced), &n) || n <= h->options.max_body) {
        return true;
    }
    r->too_large = true;
    return n <= h->options.max_body + DISCARD_MAX;
}

/* False: the connection has to be closed, no answer is possible in the middle of a body. */
static bool take(struct httpd_request *r, const char *p, size_t n)
{
    bool wanted = r->state == HTTPD_READING && !r->too_large;

    if (wanted && n <= r->httpd->options.max_body - r->body.len) {
        buf_put(&r->body, p, n);
        return buf_status(&r->body) == ERR_OK;
    }
    r->too_large = r->too_large || wanted;
    buf_fini(&r->body);
    r->discarded += n;
    return r->discarded <= r->httpd->options.max_body + DISCARD_MAX;
}

static void ask(struct httpd_request *r)
{
    struct httpd *h = r->httpd;

    loop_deadline_clear(h->loop, &r->conn->deadline);
    r->state = HTTPD_ASKED;
    h->handler.on_request(h->ctx, r);
    if (r->state == HTTPD_ASKED) {
        httpd_reply(r, &(struct httpd_reply){.status = MHD_HTTP_INTERNAL_SERVER_ERROR});
    }
}

static enum MHD_Result queue(struct httpd_request *r)
{
    if (r->dead) {
        return MHD_NO;
    }
    r->state = r->stream != NULL ? HTTPD_STREAMING : HTTPD_SENDING;
    loop_deadline_clear(r->httpd->loop, &r->conn->deadline);
    return MHD_queue_response(r->connection, (unsigned)r->status, r->response);
}

enum MHD_Result httpd_on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **req_cls)
{
    struct httpd_request *r = *req_cls;

    (void)version;
    if (r == NULL) {
        r = request_new(cls, connection, url, method);
        *req_cls = r;
        if (r == NULL) {
            return MHD_NO;
        }
        if (begin(r)) {
            return MHD_YES;
        }
        if (r->state == HTTPD_READING) {
            ask(r); /* the answer to a body that is far too large is given before it comes */
        }
        return r->state == HTTPD_ANSWERED ? queue(r) : MHD_NO;
    }
    if (*upload_data_size > 0) {
        bool good = take(r, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return good ? MHD_YES : MHD_NO;
    }
    if (r->state == HTTPD_READING) {
        ask(r);
    }
    if (r->state == HTTPD_ANSWERED) {
        return queue(r);
    }
    if (r->state == HTTPD_LATER && !r->suspended) {
        r->suspended = true;
        MHD_suspend_connection(connection);
    }
    return MHD_YES;
}

void httpd_on_completed(void *cls, struct MHD_Connection *connection, void **req_cls,
                        enum MHD_RequestTerminationCode why)
{
    struct httpd *h = cls;
    struct httpd_request *r = *req_cls;

    (void)connection;
    (void)why;
    if (r == NULL) {
        return;
    }
    *req_cls = NULL;
    if (r->stream != NULL) {
        h->nstreams--;
        r->stream->on_gone(r->ctx);
    } else if (r->state == HTTPD_LATER && r->on_gone != NULL) {
        r->on_gone(r->ctx);
    }
    /* For the next request of this connection. Without memory the daemon's time-out is the bound.
     */
    if (!h->stopping && loop_deadline_set(h->loop, &r->conn->deadline,
                                          loop_now(h->loop) + h->options.idle_timeout) != ERR_OK) {
        httpd_want_run(h);
    }
    if (r->response != NULL) {
        MHD_destroy_response(r->response);
    }
    buf_fini(&r->body);
    list_remove(&r->node);
    free(r);
}

void httpd_request_stop(struct httpd_request *r)
{
    if (r->state == HTTPD_LATER) {
        void (*on_gone)(void *) = r->on_gone;
        r->on_gone = NULL;
        on_gone(r->ctx);
        httpd_reply(r, &(struct httpd_reply){.status = MHD_HTTP_SERVICE_UNAVAILABLE});
    } else {
        httpd_request_resume(r);
    }
}
