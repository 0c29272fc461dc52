/*
 * A container's three streams over one hijacked connection (hijack.h): an HTTP request that asks
 * for an upgrade, then frames (frames.h) one way and raw bytes the other.
 *
 * Output is given only while the loop turns and nobody paused: what came too early, or in the same
 * read as that during which its owner paused, is held (one read at most) and given by `begin`. The
 * stream below is paused as long as something is held.
 */
#include "engine/engine_private.h"
#include "engine/frames.h"
#include "engine/hijack.h"

#include "net/client.h"
#include "net/stream.h"
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIAL_MS 5000u

enum attach_state { ATTACH_HEAD, ATTACH_OPEN, ATTACH_OVER };

struct attach {
    struct engine *engine;
    SSL_CTX *tls;          /* NULL: plain */
    struct stream *stream; /* NULL: closed */
    const struct attach_handler *handler;
    void *ctx;
    enum attach_state state;
    bool ready;     /* the answer's head has come, or will not: `rc`, `error` */
    bool paused;    /* by the owner */
    bool end_input; /* no more is taken for stdin */
    bool in_output; /* on_output is on the stack */
    bool closed;    /* attach_close was called in it */
    enum err rc;
    struct error error;
    struct hijack hijack;
    struct buf held; /* output not given yet, from `given` on */
    size_t given;
    struct loop_task begin;
    struct frames frames;
};

/* ---- the answer ---- */

static void no_streams(struct attach *a, enum err rc, const char *why)
{
    a->rc = err_set(&a->error, rc, "the engine: attach: %s", why);
    a->state = ATTACH_OVER;
    a->ready = true;
    stream_close(a->stream);
    a->stream = NULL;
}

/* An answer that is no stream: the engine's words are its body. */
static void refused(struct attach *a)
{
    struct fetch_answer answer = {.status = a->hijack.status};
    char message[320];

    buf_init(&answer.body, HIJACK_BODY_MAX + 65536);
    hijack_refusal(&a->hijack, &answer.body);
    fetch_message(&answer, message);
    buf_fini(&answer.body);
    no_streams(a, ERR_UPSTREAM, message);
    a->error.sys = answer.status;
}

/* The connection, or the time for it, ended before the streams were open. */
static void cut_short(struct attach *a)
{
    struct error e = {0};

    if (hijack_end(&a->hijack, &e) == ERR_UPSTREAM) {
        refused(a);
    } else {
        no_streams(a, ERR_IO, e.msg);
    }
}

static void on_head(struct attach *a, struct span in)
{
    struct error e = {0};
    struct span rest;
    enum err rc = hijack_feed(&a->hijack, in, &rest, &e);

    if (rc == ERR_AGAIN) {
        return;
    }
    if (rc == ERR_UPSTREAM) {
        refused(a);
        return;
    }
    if (rc == ERR_OK) {
        buf_put_span(&a->held, rest);
        rc = buf_status(&a->held);
    }
    if (rc != ERR_OK) {
        no_streams(a, rc, e.msg[0] == '\0' ? "out of memory" : e.msg);
        return;
    }
    hijack_fini(&a->hijack);
    a->state = ATTACH_OPEN;
    a->ready = true;
    stream_pause(a->stream); /* until on_begin */
}

/* ---- output ---- */

/* The last callback: it may close, so nothing follows it. */
static void over(struct attach *a, enum err why)
{
    if (a->state != ATTACH_OPEN) {
        return;
    }
    a->state = ATTACH_OVER;
    loop_task_cancel(&a->begin);
    stream_close(a->stream);
    a->stream = NULL;
    a->handler->on_end(a->ctx, why);
}

/* Gives what may be given of *in. False: it is over, `a` may be gone. */
static bool give(struct attach *a, struct span *in)
{
    struct error e = {0};
    struct span piece;
    int stream = 0;
    enum err rc = ERR_OK;

    a->in_output = true;
    while (!a->closed && !a->paused && rc == ERR_OK) {
        rc = frames_next(&a->frames, in, &stream, &piece, &e);
        if (rc == ERR_OK) {
            a->handler->on_output(a->ctx, stream == 1 ? 1 : 2, piece.p, piece.n);
        }
    }
    a->in_output = false;
    if (a->closed) {
        attach_close(a);
        return false;
    }
    if (rc == ERR_PROTO) {
        over(a, ERR_PROTO);
        return false;
    }
    return true;
}

/* After engine_attach has returned, and after each pause. */
static void on_begin(void *ctx)
{
    struct attach *a = ctx;
    struct span in = span_after(buf_span(&a->held), a->given);

    if (a->state != ATTACH_OPEN || a->paused || !give(a, &in)) {
        return;
    }
    a->given = a->held.len - in.n;
    if (!a->paused) {
        buf_fini(&a->held);
        a->given = 0;
        stream_resume(a->stream);
    }
}

static void on_output(struct attach *a, struct span in)
{
    if (!give(a, &in) || in.n == 0) {
        return;
    }
    buf_put_span(&a->held, in);
    if (buf_status(&a->held) != ERR_OK) {
        over(a, buf_status(&a->held));
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
        on_output(a, span_of(p, n));
    }
}

/* Between two frames is the streams' proper end, in whatever way the connection ends. */
static void ended(struct attach *a, enum err why)
{
    bool whole = frames_whole(&a->frames) && a->held.len == a->given;

    if (a->state == ATTACH_HEAD) {
        cut_short(a);
    } else {
        over(a, whole ? ERR_OK : why == ERR_OK ? ERR_CLOSED : why);
    }
}

static void on_eof(void *ctx)
{
    ended(ctx, ERR_CLOSED);
}

static void on_close(void *ctx, enum err why)
{
    struct attach *a = ctx;

    a->stream = NULL;
    ended(a, why);
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
    a->paused = true;
    if (a->stream != NULL) {
        stream_pause(a->stream);
    }
}

void attach_resume(struct attach *a)
{
    if (a->paused) {
        a->paused = false;
        loop_defer(a->engine->driver->loop, &a->begin);
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
        struct error mine = {0};
        rc = client_dial(&at, DIAL_MS, &fd, &mine);
        if (rc != ERR_OK) {
            return err_sys(e, rc, mine.sys == 0 ? EIO : mine.sys,
                           "the engine: attach: cannot connect");
        }
    }
    return rc == ERR_OK ? stream_new(a->engine->driver->loop, fd, &options, &stream_handler, a,
                                     &a->stream, e)
                        : rc;
}

static enum err ask(struct attach *a, const char *id, struct error *e)
{
    const char *host = strstr(a->engine->peer.base_url, "://") + 3;
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path_of(a->engine, path, "/containers/", id,
                                 "/attach?stream=1&stdin=1&stdout=1&stderr=1", e);

    if (rc != ERR_OK) {
        return rc;
    }
    const struct span pieces[] = {SPAN("POST "), span_str(path), SPAN(" HTTP/1.1\r\nHost: "),
                                  span_str(host),
                                  SPAN("\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                                       "Content-Length: 0\r\n\r\n")};
    rc = stream_write(a->stream, pieces, sizeof(pieces) / sizeof(pieces[0]));
    return rc == ERR_OK ? rc : err_set(e, rc, "the engine: attach: cannot be asked");
}

static enum err wait_for_answer(struct attach *a, struct error *e)
{
    struct driver *d = a->engine->driver;
    enum err rc = driver_wait(d, &a->ready, driver_deadline(d, a->engine->limits.call_ms));

    if (rc == ERR_AGAIN && a->hijack.status == 0) {
        return err_set(e, ERR_IO, "the engine: attach: no answer");
    }
    if (rc == ERR_AGAIN) {
        cut_short(a);
    } else if (rc != ERR_OK) {
        return err_set(e, rc, "the engine: attach: interrupted");
    }
    if (a->rc != ERR_OK && e != NULL) {
        *e = a->error;
    }
    return a->rc;
}

enum err engine_attach(struct engine *engine, const char *id, const struct attach_handler *handler,
                       void *ctx, struct attach **out, struct error *e)
{
    struct attach *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    a->engine = engine;
    a->handler = handler;
    a->ctx = ctx;
    hijack_init(&a->hijack);
    buf_init(&a->held, LOOP_READ_SIZE + HIJACK_HEAD_MAX);
    frames_init(&a->frames);
    loop_task_init(&a->begin, on_begin, a);
    enum err rc = dial(a, e);
    if (rc == ERR_OK) {
        rc = ask(a, id, e);
    }
    if (rc == ERR_OK) {
        rc = wait_for_answer(a, e);
    }
    if (rc != ERR_OK) {
        attach_close(a);
        return rc;
    }
    loop_defer(engine->driver->loop, &a->begin);
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
    hijack_fini(&a->hijack);
    buf_fini(&a->held);
    free(a);
}
