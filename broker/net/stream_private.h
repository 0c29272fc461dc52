/* Shared by stream.c (socket, states, plain) and stream_tls.c. Nobody else includes it. */
#ifndef TACTUS_NET_STREAM_PRIVATE_H
#define TACTUS_NET_STREAM_PRIVATE_H

#include "net/stream.h"

#include <uv.h>

enum stream_state { STREAM_OPENING, STREAM_OPEN, STREAM_FINISHING, STREAM_CLOSED };

struct stream_tls;

/* Plain or TLS. All return ERR_OK, ERR_AGAIN (the socket takes no more), or why the stream dies. */
struct stream_ops {
    /* Bytes read from the socket; delivers plaintext with stream_deliver(). */
    enum err (*input)(struct stream *s, const char *p, size_t n);
    /* After stream_resume: delivers what was held back. */
    enum err (*resume)(struct stream *s);
    /* Moves queued output to the socket. */
    enum err (*output)(struct stream *s);
    /* Queues the protocol's own end mark (close_notify). */
    void (*end)(struct stream *s);
    /* Bytes beyond s->out that wait for the socket. */
    size_t (*pending)(const struct stream *s);
    void (*free)(struct stream *s);
};

struct stream {
    struct loop *loop;
    int fd;
    enum stream_state state;
    const struct stream_ops *ops;
    struct stream_tls *tls;
    struct stream_handler handler;
    void *ctx;
    uv_poll_t poll;
    int armed; /* events the poll handle watches */
    struct bufq out;
    struct loop_task flush;
    struct loop_task kick;         /* resume, or a close put off to the turn's end */
    struct loop_deadline deadline; /* half-closed: the next look; finishing: its end */
    enum err dying;                /* why `kick` closes; ERR_OK: it does not */
    size_t linger_read;
    uint32_t flush_ms; /* finishing: the longest time without progress */
    bool eof_means_gone;
    bool input_first;
    bool output_over; /* stream_end_output was called, or the peer takes no more */
    bool eof;         /* the peer sends no more */
    bool gone_seen;   /* an end was seen while paused: do not watch for it again */
    bool paused;
    bool blocked;     /* the socket took no more: wait for writable */
    bool congested;   /* HIGH was passed, on_drain is owed */
    bool end_queued;  /* ops->end was called */
    bool write_ended; /* shutdown(2) was called */
};

extern const struct stream_ops stream_tls_ops;

/* stream_tls.c: adds the TLS half to a new stream. */
enum err stream_tls_new(struct stream *s, const struct stream_options *options,
                        struct error *e) MUST_CHECK;

/* Hands plaintext to the owner; false when the stream should not deliver more now. */
bool stream_deliver(struct stream *s, const char *p, size_t n);
/* Whether more may be delivered. */
bool stream_wants_input(const struct stream *s);
/* The handshake is over. */
void stream_opened(struct stream *s);
/* The peer's close_notify. */
void stream_saw_eof(struct stream *s);
/* One write to the socket: ERR_OK with *done, ERR_AGAIN, ERR_CLOSED, ERR_IO. */
enum err stream_send(struct stream *s, const struct iovec *iov, size_t n, size_t *done);
void stream_want_flush(struct stream *s);

#endif
