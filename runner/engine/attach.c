/*
 * A container's three streams over one hijacked connection: an HTTP request that asks for an
 * upgrade, then raw bytes both ways. The engine answers 101, or 200 and the same bytes; what
 * follows the head in the same read belongs to the streams.
 */
#include "engine/engine_private.h"
#include "engine/frames.h"

#include "net/client.h"
#include "net/stream.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define HEAD_MAX 16384u

enum attach_state { ATTACH_HEAD, ATTACH_OPEN, ATTACH_OVER };

struct attach {
    struct engine *engine;
    SSL_CTX *tls;          /* NULL: plain */
    struct stream *stream; /* NULL: closed */
    const struct attach_handler *handler;
    void *ctx;
    enum attach_state state;
    bool ready;     /* the head has come, or it failed: `rc`, `error` */
    bool end_input; /* no more is taken for stdin */
    bool in_output; /* on_output is on the stack */
    bool closed;    /* attach_close was called in it */
    enum err rc;
    struct error error;
    struct buf head; /* then: what came with it of the streams, `held` bytes in */
    size_t held;
    struct loop_task begin; /* gives them once engine_attach has returned */
    struct frames frames;
};

/* ---- the end ---- */

static void over(struct attach *a, enum err why)
{
    if (a->state == ATTACH_OVER) {
        return;
    }
    bool told = a->state == ATTACH_OPEN;
    a->state = ATTACH_OVER;
    stream_close(a->stream);
    a->stream = NULL;
    if (!told) {
        a->rc = a->rc == ERR_OK
                    ? err_set(&a->error, ERR_IO, "the engine: attach: the connection was closed")
                    : a->rc;
        a->ready = true;
        return;
    }
    a->handler->on_end(a->ctx, why);
}

/* ---- output ---- */

static void give_frames(struct attach *a, struct span in)
{
    struct error e = {0};
    struct span piece;
    int stream = 0;
    enum err rc = ERR_OK;

    a->in_output = true;
    while (!a->closed && rc == ERR_OK) {
        rc = frames_next(&a->frames, &in, &stream, &piece, &e);
        if (rc == ERR_OK) {
            a->handler->on_output(a->ctx, stream == 1 ? 1 : 2, piece.p, piece.n);
        }
    }
    a->in_output = false;
    if (a->closed) {
        attach_close(a);
    } else if (rc == ERR_PROTO) {
        over(a, ERR_PROTO);
    }
}

/* An answer that is no stream: the engine's words are its body, as far as it came. */
static void refuse(struct attach *a, int status, struct span body)
{
    struct fetch_answer answer = {.status = status};
    char message[320];

    /* A chunked body has its sizes between; the object is what counts. */
    const char *open = body.n == 0 ? NULL : memchr(body.p, '{', body.n);
    const char *close = body.n == 0 ? NULL : memrchr(body.p, '}', body.n);
    buf_init(&answer.body, HEAD_MAX);
    if (open != NULL && close != NULL && open < close) {
        buf_put(&answer.body, open, (size_t)(close - open) + 1);
    }
    fetch_message(&answer, message);
    buf_fini(&answer.body);
    a->rc = err_set(&a->error, ERR_UPSTREAM, "the engine: attach: %s", message);
    a->error.sys = status;
    over(a, ERR_UPSTREAM);
}

/* The status of "HTTP/1.1 101 …"; 0: it is none. */
static int status_of(const char *head)
{
    if (strncmp(head, "HTTP/1.", 7) != 0 || strlen(head) < 12 || head[8] != ' ') {
        return 0;
    }
    for (int i = 9; i < 12; i++) {
        if (head[i] < '0' || head[i] > '9') {
            return 0;
        }
    }
    return (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
}

static void on_head(struct attach *a, struct span in)
{
    buf_put(&a->head, in.p, in.n);
    const char *text = buf_cstr(&a->head);
    const char *end = strstr(text, "\r\n\r\n");
    if (end == NULL) {
        if (buf_status(&a->head) != ERR_OK) {
            a->rc = err_set(&a->error, ERR_PROTO, "the engine: attach: a head without an end");
            over(a, ERR_PROTO);
        }
        return;
    }
    size_t n = (size_t)(end - text) + 4;
    int status = status_of(text);
    struct span rest = span_after(buf_span(&a->head), n);
    if (status != 101 && status != 200) {
        refuse(a, status, rest);
        return;
    }
    a->state = ATTACH_OPEN;
    a->ready = true;
    a->held = n;
    stream_pause(a->stream); /* until on_begin */
}

static void on_begin(void *ctx)
{
    struct attach *a = ctx;
    struct span rest = span_after(buf_span(&a->head), a->held);

    if (a->stream != NULL) {
        stream_resume(a->stream);
    }
    if (a->state == ATTACH_OPEN) {
        give_frames(a, rest); /* may close */
    }
}

static void on_open(void *ctx)
{
    (void)ctx; /* what was asked goes out by itself */
}

static void on_data(void *ctx, const char *p, size_t n)
{
    struct attach *a = ctx;

    if (a->state == ATTACH_HEAD) {
        on_head(a, span_of(p, n));
    } else {
        give_frames(a, span_of(p, n));
    }
}

static void on_eof(void *ctx)
{
    struct attach *a = ctx;

    over(a, frames_whole(&a->frames) ? ERR_OK : ERR_CLOSED);
}

static void on_close(void *ctx, enum err why)
{
    struct attach *a = ctx;

    a->stream = NULL;
    over(a, frames_whole(&a->frames) ? ERR_OK : why);
}

/* ---- input ---- */

static void on_drain(void *ctx)
{
    struct attach *a = ctx;

    if (a->state == ATTACH_OPEN && !a->end_input) {
        a->handler->on_drain(a->ctx);
    }
}

static const struct stream_handler stream_handler = {
    .on_open = on_open,
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_close = on_close,
};

enum err attach_write(struct attach *a, const struct span *pieces, size_t n)
{
    if (a->state != ATTACH_OPEN || a->end_input) {
        return ERR_CLOSED;
    }
    return stream_write(a->stream, pieces, n);
}

bool attach_congested(const struct attach *a)
{
    return a->stream != NULL && stream_congested(a->stream);
}

size_t attach_queued(const struct attach *a)
{
    return a->stream == NULL ? 0 : stream_queued(a->stream);
}

void attach_end_input(struct attach *a)
{
    a->end_input = true;
    if (a->stream != NULL) {
        stream_end_output(a->stream);
    }
}

void attach_pause(struct attach *a)
{
    if (a->stream != NULL) {
        stream_pause(a->stream);
    }
}

void attach_resume(struct attach *a)
{
    if (a->stream != NULL) {
        stream_resume(a->stream);
    }
}

/* ---- life ---- */

static enum err where(struct attach *a, struct client_endpoint *at, struct error *e)
{
    const struct engine *engine = a->engine;

    if (engine->peer.unix_socket == NULL) {
        return client_endpoint_parse(engine->place.address, at, e);
    }
    *at = (struct client_endpoint){.transport = CLIENT_UNIX};
    memcpy(at->path, engine->place.socket, sizeof(at->path));
    return ERR_OK;
}

static enum err dial(struct attach *a, struct error *e)
{
    const struct fetch_peer *peer = &a->engine->peer;
    struct client_endpoint at;
    struct stream_options options = {.input_first = true};
    int fd = -1;
    enum err rc = where(a, &at, e);

    if (rc == ERR_OK && peer->ca_file != NULL) {
        rc = tls_client_new(peer->ca_file, peer->cert_file, peer->key_file, &a->tls, e);
        options.tls = a->tls;
        options.tls_host = at.host;
    }
    if (rc == ERR_OK) {
        rc = client_dial(&at, ENGINE_CALL_MS, &fd, e);
    }
    return rc == ERR_OK ? stream_new(a->engine->driver->loop, fd, &options, &stream_handler, a,
                                     &a->stream, e)
                        : rc;
}

static enum err ask(struct attach *a, const char *id, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path(a->engine, path, e,
                              "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", id);

    if (rc != ERR_OK) {
        return rc;
    }
    const struct span pieces[] = {SPAN("POST "), span_str(path),
                                  SPAN(" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                                       "Upgrade: tcp\r\nContent-Length: 0\r\n\r\n")};
    rc = stream_write(a->stream, pieces, sizeof(pieces) / sizeof(pieces[0]));
    return rc == ERR_OK ? rc : err_set(e, rc, "the engine: attach: cannot be asked");
}

enum err engine_attach(struct engine *engine, const char *id, const struct attach_handler *handler,
                       void *ctx, struct attach **out, struct error *e)
{
    struct driver *d = engine->driver;
    struct attach *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    a->engine = engine;
    a->handler = handler;
    a->ctx = ctx;
    buf_init(&a->head, HEAD_MAX + LOOP_READ_SIZE);
    frames_init(&a->frames);
    loop_task_init(&a->begin, on_begin, a);
    enum err rc = dial(a, e);
    if (rc == ERR_OK) {
        rc = ask(a, id, e);
    }
    if (rc == ERR_OK) {
        rc = driver_wait(d, &a->ready, driver_deadline(d, ENGINE_CALL_MS));
        if (rc != ERR_OK) {
            rc = err_set(e, rc == ERR_AGAIN ? ERR_IO : rc, "the engine: attach: no answer");
        } else if (a->rc != ERR_OK) {
            rc = a->rc;
            if (e != NULL) {
                *e = a->error;
            }
        }
    }
    if (rc != ERR_OK) {
        attach_close(a);
        return rc;
    }
    loop_defer(d->loop, &a->begin);
    *out = a;
    return ERR_OK;
}

void attach_close(struct attach *a)
{
    if (a == NULL) {
        return;
    }
    if (a->in_output) {
        a->closed = true;
        return;
    }
    loop_task_cancel(&a->begin);
    stream_close(a->stream);
    tls_server_free(a->tls);
    buf_fini(&a->head);
    free(a);
}
