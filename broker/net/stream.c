/*
 * The socket side of a stream: polling, states, back-pressure, finishing; and the plain table.
 *
 * Our own read(2) and sendmsg(2) on a poll handle, not uv_tcp_t: a paused stream must still see its
 * peer go (EPOLLRDHUP), and a half-closed Unix socket must tell a full close (POLLHUP).
 */
#include "net/stream.h"

#include "net/stream_private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEND_VECTORS   32
#define FLUSH_MAX      (1024u * 1024u) /* bytes a turn, then others have theirs */
#define HALF_CLOSED_MS 25u             /* how often a half-closed peer is looked at */

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- teardown ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void stream_close(struct stream *s)
{
    if (s == NULL || s->state == STREAM_CLOSED) {
        return;
    }
    s->state = STREAM_CLOSED;
    loop_task_cancel(&s->flush);
    loop_task_cancel(&s->kick);
    loop_deadline_clear(s->loop, &s->deadline);
    s->ops->free(s);
    bufq_fini(&s->out);
    uv_close((uv_handle_t *)&s->poll, on_poll_closed);
    close(s->fd);
    s->fd = -1;
}

static void die(struct stream *s, enum err why)
{
    void (*on_close)(void *, enum err) = s->handler.on_close;
    void *ctx = s->ctx;

    if (s->state == STREAM_CLOSED) {
        return;
    }
    stream_close(s);
    on_close(ctx, why);
}

/* ---- what to watch ---- */

static bool reads(const struct stream *s)
{
    if (s->eof) {
        return false;
    }
    return s->state == STREAM_FINISHING || !s->paused;
}

static void watch(struct stream *s)
{
    int events = 0;

    if (s->state == STREAM_CLOSED) {
        return;
    }
    if (reads(s)) {
        events |= UV_READABLE;
    } else if (!s->eof && !s->gone_seen && !s->input_first) {
        events |= UV_DISCONNECT;
    }
    if (s->blocked) {
        events |= UV_WRITABLE;
    }
    if (events == s->armed) {
        return;
    }
    s->armed = events;
    if (events == 0) {
        uv_poll_stop(&s->poll);
    } else if (uv_poll_start(&s->poll, events, on_poll) != 0) {
        s->dying = ERR_IO;
        loop_defer(s->loop, &s->kick);
    }
}

static bool peer_hung_up(const struct stream *s)
{
    struct pollfd p = {.fd = s->fd, .events = 0};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* A half-closed peer is not in the poll set: look at it from time to time. */
static void look_again(struct stream *s)
{
    if (loop_deadline_set(s->loop, &s->deadline, loop_now(s->loop) + HALF_CLOSED_MS) != ERR_OK) {
        s->dying = ERR_NOMEM;
        loop_defer(s->loop, &s->kick);
    }
}

/* ---- output ---- */

static void end_write_side(struct stream *s)
{
    if (!s->end_queued) {
        s->end_queued = true;
        s->ops->end(s);
        if (s->ops->pending(s) > 0) {
            stream_want_flush(s);
            return;
        }
    }
    if (s->eof) {
        die(s, ERR_OK);
        return;
    }
    s->write_ended = true;
    (void)shutdown(s->fd, SHUT_WR);
    if (loop_deadline_set(s->loop, &s->deadline, loop_now(s->loop) + STREAM_LINGER_MS) != ERR_OK) {
        die(s, ERR_NOMEM);
        return;
    }
    watch(s);
}

/* The peer takes no more; what it sent before may still be read. */
static void drop_output(struct stream *s)
{
    s->output_over = true;
    s->end_queued = true;
    bufq_consume(&s->out, s->out.bytes);
}

/* stream_end_output: everything is out, then the protocol's own end, then the socket's. */
static void shut_output(struct stream *s)
{
    if (stream_queued(s) == 0 && !s->end_queued) {
        s->end_queued = true;
        s->ops->end(s);
        stream_want_flush(s);
    }
    if (stream_queued(s) == 0 && !s->write_ended) {
        s->write_ended = true;
        (void)shutdown(s->fd, SHUT_WR);
    }
}

static void on_flush(void *ctx)
{
    struct stream *s = ctx;
    size_t before = stream_queued(s);
    enum err rc = s->ops->output(s);

    if (rc == ERR_CLOSED && s->input_first) {
        drop_output(s);
    } else if (rc != ERR_OK && rc != ERR_AGAIN) {
        die(s, rc);
        return;
    }
    s->blocked = rc == ERR_AGAIN;
    watch(s);
    if (s->output_over && s->state == STREAM_OPEN) {
        shut_output(s);
    } else if (s->state == STREAM_FINISHING) {
        if (stream_queued(s) < before && s->deadline.at != 0) {
            /* Slow, but it reads: it gets its time anew. An armed deadline moves without memory. */
            s->deadline.at = loop_now(s->loop) + s->flush_ms;
        }
        if (stream_queued(s) == 0 && !s->write_ended) {
            end_write_side(s);
        }
    } else if (s->congested && stream_queued(s) <= STREAM_LOW) {
        s->congested = false;
        s->handler.on_drain(s->ctx);
    }
}

void stream_want_flush(struct stream *s)
{
    if (!s->blocked && s->state != STREAM_CLOSED) {
        loop_defer(s->loop, &s->flush);
    }
}

enum err stream_send(struct stream *s, const struct iovec *iov, size_t n, size_t *done)
{
    struct iovec copy[SEND_VECTORS];
    struct msghdr msg = {.msg_iov = copy, .msg_iovlen = n};

    memcpy(copy, iov, n * sizeof(copy[0]));
    for (;;) {
        ssize_t sent = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            *done = (size_t)sent;
            return ERR_OK;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            return ERR_AGAIN;
        }
        return errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED : ERR_IO;
    }
}

static enum err plain_output(struct stream *s)
{
    size_t budget = FLUSH_MAX;

    while (s->out.bytes > 0) {
        struct iovec iov[SEND_VECTORS];
        size_t n = bufq_peek(&s->out, iov, SEND_VECTORS);
        size_t done = 0;
        enum err rc = stream_send(s, iov, n, &done);
        if (rc != ERR_OK) {
            return rc;
        }
        bufq_consume(&s->out, done);
        if (done >= budget) {
            stream_want_flush(s);
            return ERR_OK;
        }
        budget -= done;
    }
    return ERR_OK;
}

enum err stream_write(struct stream *s, const struct span *pieces, size_t n)
{
    if (s->state == STREAM_FINISHING || s->state == STREAM_CLOSED || s->output_over) {
        return ERR_CLOSED;
    }
    enum err rc = bufq_append(&s->out, pieces, n);
    if (rc != ERR_OK) {
        return rc;
    }
    s->congested = s->congested || s->out.bytes > STREAM_HIGH;
    stream_want_flush(s);
    return ERR_OK;
}

struct bufq_chunk *stream_reserve(struct stream *s, size_t capacity)
{
    return bufq_chunk_new(&s->out, capacity);
}

void stream_unreserve(struct stream *s, struct bufq_chunk *c)
{
    bufq_chunk_free(&s->out, c);
}

void stream_write_reserved(struct stream *s, struct bufq_chunk *c, const struct span *pieces,
                           size_t n)
{
    bufq_append_reserved(&s->out, c, pieces, n);
    stream_want_flush(s);
}

bool stream_congested(const struct stream *s)
{
    return s->congested;
}

size_t stream_queued(const struct stream *s)
{
    return s->out.bytes + s->ops->pending(s);
}

/* ---- input ---- */

bool stream_wants_input(const struct stream *s)
{
    return (s->state == STREAM_OPENING || s->state == STREAM_OPEN) && !s->paused;
}

bool stream_deliver(struct stream *s, const char *p, size_t n)
{
    if (s->state == STREAM_OPEN) {
        s->handler.on_data(s->ctx, p, n);
    }
    return stream_wants_input(s);
}

void stream_opened(struct stream *s)
{
    if (s->state == STREAM_OPENING) {
        s->state = STREAM_OPEN;
        s->handler.on_open(s->ctx);
    }
}

void stream_saw_eof(struct stream *s)
{
    if (s->eof) {
        return;
    }
    s->eof = true;
    if (s->state == STREAM_FINISHING) {
        if (s->write_ended) {
            die(s, ERR_OK);
        }
        return;
    }
    if (s->state == STREAM_OPENING || (!s->input_first && peer_hung_up(s))) {
        die(s, ERR_CLOSED);
        return;
    }
    look_again(s);
    s->handler.on_eof(s->ctx);
}

static enum err plain_input(struct stream *s, const char *p, size_t n)
{
    (void)stream_deliver(s, p, n);
    return ERR_OK;
}

static void discard(struct stream *s, size_t n)
{
    s->linger_read += n;
    if (s->linger_read > STREAM_LINGER_BYTES) {
        die(s, ERR_OK);
    }
}

static void on_readable(struct stream *s)
{
    char *buffer = loop_read_buffer(s->loop);
    ssize_t n = read(s->fd, buffer, LOOP_READ_SIZE);

    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            die(s, errno == ECONNRESET ? ERR_CLOSED : ERR_IO);
        }
        return;
    }
    if (n == 0) {
        stream_saw_eof(s);
        return;
    }
    if (s->state == STREAM_FINISHING) {
        discard(s, (size_t)n);
        return;
    }
    enum err rc = s->ops->input(s, buffer, (size_t)n);
    if (rc != ERR_OK && s->state != STREAM_CLOSED) {
        die(s, rc);
    }
}

/* The peer went away (or ended its side) while we were not reading. */
static void on_disconnect(struct stream *s)
{
    if (peer_hung_up(s)) {
        die(s, ERR_CLOSED);
        return;
    }
    if (s->eof_means_gone) {
        s->eof = true;
        look_again(s);
        s->handler.on_eof(s->ctx);
        return;
    }
    s->gone_seen = true;
    look_again(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct stream *s = poll->data;

    if (status < 0 && !s->input_first) {
        die(s, ERR_CLOSED);
        return;
    }
    if (status < 0) { /* the poll handle has stopped; what came before can still be read */
        s->armed = 0;
        s->blocked = false;
        drop_output(s);
        events = UV_READABLE;
    }
    if ((events & UV_WRITABLE) != 0) {
        s->blocked = false;
        loop_defer(s->loop, &s->flush);
    }
    if ((events & UV_READABLE) != 0 && reads(s)) {
        on_readable(s);
    } else if ((events & UV_DISCONNECT) != 0 && !s->eof) {
        on_disconnect(s);
    }
    watch(s);
}

void stream_pause(struct stream *s)
{
    s->paused = true;
    watch(s);
}

void stream_resume(struct stream *s)
{
    if (!s->paused || s->state == STREAM_CLOSED) {
        return;
    }
    s->paused = false;
    s->gone_seen = false;
    loop_defer(s->loop, &s->kick);
}

static enum err plain_resume(struct stream *s)
{
    (void)s;
    return ERR_OK;
}

static void on_kick(void *ctx)
{
    struct stream *s = ctx;

    if (s->dying != ERR_OK) {
        die(s, s->dying);
        return;
    }
    enum err rc = stream_wants_input(s) ? s->ops->resume(s) : ERR_OK;
    if (rc != ERR_OK) {
        die(s, rc);
        return;
    }
    watch(s);
}

/* ---- finishing ---- */

void stream_end_output(struct stream *s)
{
    if (s->state == STREAM_OPEN && !s->output_over) {
        s->output_over = true;
        loop_defer(s->loop, &s->flush);
    }
}

static void on_deadline(void *ctx)
{
    struct stream *s = ctx;

    if (s->state == STREAM_FINISHING) {
        die(s, s->write_ended ? ERR_OK : ERR_LIMIT);
        return;
    }
    if (peer_hung_up(s)) {
        die(s, ERR_CLOSED);
        return;
    }
    if (s->eof || s->gone_seen) {
        look_again(s);
    }
}

void stream_finish(struct stream *s, uint32_t flush_ms)
{
    if (s->state == STREAM_FINISHING || s->state == STREAM_CLOSED) {
        return;
    }
    s->state = STREAM_FINISHING;
    s->flush_ms = flush_ms;
    if (loop_deadline_set(s->loop, &s->deadline, loop_now(s->loop) + flush_ms) != ERR_OK) {
        s->dying = ERR_NOMEM;
        loop_defer(s->loop, &s->kick);
        return;
    }
    stream_want_flush(s);
    watch(s);
}

/* ---- life ---- */

static void plain_end(struct stream *s)
{
    (void)s;
}

static size_t plain_pending(const struct stream *s)
{
    (void)s;
    return 0;
}

static void plain_free(struct stream *s)
{
    (void)s;
}

static const struct stream_ops stream_plain_ops = {
    .input = plain_input,
    .resume = plain_resume,
    .output = plain_output,
    .end = plain_end,
    .pending = plain_pending,
    .free = plain_free,
};

static enum err give_up(struct stream *s, int fd, enum err rc)
{
    free(s);
    close(fd);
    return rc;
}

enum err stream_new(struct loop *loop, int fd, const struct stream_options *options,
                    const struct stream_handler *handler, void *ctx, struct stream **out,
                    struct error *e)
{
    struct stream *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return give_up(s, fd, err_set(e, ERR_NOMEM, "out of memory for a connection"));
    }
    s->loop = loop;
    s->fd = fd;
    s->ops = &stream_plain_ops;
    s->state = options->tls == NULL ? STREAM_OPEN : STREAM_OPENING;
    s->handler = *handler;
    s->ctx = ctx;
    s->eof_means_gone = options->eof_means_gone;
    s->input_first = options->input_first;
    bufq_init(&s->out, loop_pool(loop), options->meter);
    loop_task_init(&s->flush, on_flush, s);
    loop_task_init(&s->kick, on_kick, s);
    loop_deadline_init(&s->deadline, on_deadline, s);
    if (options->tls != NULL) {
        enum err rc = stream_tls_new(s, options, e);
        if (rc != ERR_OK) {
            return give_up(s, fd, rc);
        }
    }
    int uv = uv_poll_init(loop_uv(loop), &s->poll, fd);
    if (uv != 0) {
        s->ops->free(s);
        return give_up(s, fd, err_set(e, ERR_IO, "cannot watch a socket: %s", uv_strerror(uv)));
    }
    s->poll.data = s;
    /* Reading starts with the turn's end, so that no callback runs before the caller is ready. */
    loop_defer(loop, &s->kick);
    *out = s;
    return ERR_OK;
}
