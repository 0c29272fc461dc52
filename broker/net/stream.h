/*
 * One accepted connection: bytes in, bytes out, plain or TLS behind one table (stream_private.h).
 *
 * Output is queued and goes out once per loop turn, coalesced. Input is pushed; stream_pause()
 * stops it (a client that does not read its replies is not read from either), and a peer that goes
 * away is noticed all the same.
 *
 * States: OPENING (TLS handshake) -> OPEN -> FINISHING (flush, end the write side, discard what
 * still comes) -> CLOSED. The object is freed after CLOSED, in libuv's close callback.
 *
 * Callbacks come from the loop, never from inside a function here. on_close is the last one, and
 * comes exactly once unless the owner called stream_close() himself.
 */
#ifndef TACTUS_NET_STREAM_H
#define TACTUS_NET_STREAM_H

#include "base/err.h"
#include "base/span.h"
#include "net/loop.h"
#include "net/tls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Above HIGH queued bytes stream_congested() is true; when they fall to LOW, on_drain comes. */
#define STREAM_HIGH (64u * 1024u)
#define STREAM_LOW  (16u * 1024u)

/* What a finishing stream still reads, and for how long, so that our last words arrive. */
#define STREAM_LINGER_BYTES (1024u * 1024u)
#define STREAM_LINGER_MS    2000u

struct stream;

struct stream_handler {
    void (*on_open)(void *ctx); /* TLS: the handshake is over; plain: never called */
    /* Borrowed during the call. The handler may pause, finish or close the stream in it. */
    void (*on_data)(void *ctx, const char *p, size_t n);
    /* The peer sends no more. It may still read (half-close): then on_close comes once it is gone.
     */
    void (*on_eof)(void *ctx);
    void (*on_drain)(void *ctx);
    void (*on_close)(void *ctx, enum err why); /* the stream is gone */
};

struct stream_options {
    SSL_CTX *tls;        /* NULL: plain */
    bool eof_means_gone; /* no half-close: an end seen while paused is reported at once */
    bool input_first; /* all that the peer sent is delivered, also after it went away: what cannot
                       * be written any more is dropped, and pausing hides its end */
    const char *tls_host; /* with `tls`: we are the client, and verify that it is this host's */
    atomic_size_t *meter; /* bytes of output held, all streams of the process; may be NULL */
};

/* Takes over `fd` (non-blocking, close-on-exec), also on failure. ERR_NOMEM, ERR_IO. */
enum err stream_new(struct loop *loop, int fd, const struct stream_options *options,
                    const struct stream_handler *handler, void *ctx, struct stream **out,
                    struct error *e) MUST_CHECK;

/* Queues copies of all pieces or none (ERR_NOMEM; ERR_CLOSED once finishing or closed). */
enum err stream_write(struct stream *s, const struct span *pieces, size_t n) MUST_CHECK;

/* Room for `capacity` bytes set aside for a last word that must not fail; see bufq.h. */
struct bufq_chunk *stream_reserve(struct stream *s, size_t capacity);
void stream_unreserve(struct stream *s, struct bufq_chunk *c);
void stream_write_reserved(struct stream *s, struct bufq_chunk *c, const struct span *pieces,
                           size_t n);

/* The names in the certificate that the peer showed: see tls_peer_names. None: plain, or it showed
 * none. After on_open. */
void stream_peer_names(struct stream *s, bool (*take)(void *ctx, const char *name), void *ctx);

bool stream_congested(const struct stream *s);
size_t stream_queued(const struct stream *s);

void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Ends the write side once what is queued went out; input goes on. stream_write: ERR_CLOSED. */
void stream_end_output(struct stream *s);

/* Writes what is queued, ends the write side, discards at most STREAM_LINGER_BYTES for at most
 * STREAM_LINGER_MS, closes: on_close(ERR_OK). A peer that takes nothing of what is queued
 * for `flush_ms` is cut off. No on_data, on_eof, on_drain any more. */
void stream_finish(struct stream *s, uint32_t flush_ms);

/* Closes the socket at once. No callback any more. NULL is harmless. */
void stream_close(struct stream *s);

#endif
