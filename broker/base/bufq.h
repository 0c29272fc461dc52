/*
 * An output queue: bytes waiting to be written, in chunks that never move.
 *
 * Chunks of the usual size come from a pool (one per event loop) so that steady traffic
 * allocates nothing. An append is all or nothing: either every piece is queued or none. An idle
 * queue holds no memory. Not thread-safe: pool and queues belong to one loop; only the meter
 * (bytes held by all queues of the process) is atomic.
 */
#ifndef TACTUS_BASE_BUFQ_H
#define TACTUS_BASE_BUFQ_H

#include "base/err.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/uio.h>

#define BUFQ_CHUNK_SIZE 4096u /* a pooled chunk's allocation, header included */

struct bufq_chunk;

struct bufq_pool {
    struct bufq_chunk *free;
    size_t nfree;
    size_t max_free;
};

void bufq_pool_init(struct bufq_pool *pool, size_t max_free);
void bufq_pool_fini(struct bufq_pool *pool);

struct bufq {
    struct bufq_chunk *head;
    struct bufq_chunk *tail;
    size_t bytes; /* queued and not yet consumed */
    struct bufq_pool *pool;
    atomic_size_t *meter; /* may be NULL; counts the bytes of allocated chunks */
};

void bufq_init(struct bufq *q, struct bufq_pool *pool, atomic_size_t *meter);
void bufq_fini(struct bufq *q);

/* Queues copies of all `n` pieces, or (ERR_NOMEM) of none. */
enum err bufq_append(struct bufq *q, const struct span *pieces, size_t n) MUST_CHECK;

/* A chunk taken aside now so that `capacity` bytes can be queued later without allocating.
 * NULL when out of memory. Ends in bufq_append_reserved or bufq_chunk_free. */
struct bufq_chunk *bufq_chunk_new(struct bufq *q, size_t capacity);
void bufq_chunk_free(struct bufq *q, struct bufq_chunk *c);

/* Queues the pieces through the reserved chunk `c` and takes it over. Cannot fail when the pieces'
 * sum is at most the chunk's capacity; what is longer is cut. */
void bufq_append_reserved(struct bufq *q, struct bufq_chunk *c, const struct span *pieces,
                          size_t n);

/* Fills at most `max` vectors with the oldest bytes; returns how many. The bytes stay queued. */
size_t bufq_peek(const struct bufq *q, struct iovec *iov, size_t max);

/* Drops the first `n` bytes (n <= bytes) and gives emptied chunks back. */
void bufq_consume(struct bufq *q, size_t n);

#endif
