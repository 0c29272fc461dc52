/*
 * The chunk queue: see bufq.h. A pooled chunk has BUFQ_CHUNK_SIZE bytes in all; a larger append
 * gets one chunk of its own size; a reserve gets a chunk just as large as asked. Called by streams.
 *
 * Invariants: no chunk in the queue is empty, so bytes == 0 means head == NULL; the meter holds the
 * whole allocation of every chunk that is queued or reserved, and of none that lies in the pool.
 */
#include "base/bufq.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct bufq_chunk {
    struct bufq_chunk *next;
    size_t cap;
    size_t start; /* bytes before it were consumed */
    size_t end;
    char data[];
};

#define POOLED_CAP (BUFQ_CHUNK_SIZE - sizeof(struct bufq_chunk))

void bufq_pool_init(struct bufq_pool *pool, size_t max_free)
{
    *pool = (struct bufq_pool){.max_free = max_free};
}

void bufq_pool_fini(struct bufq_pool *pool)
{
    while (pool->free != NULL) {
        struct bufq_chunk *c = pool->free;
        pool->free = c->next;
        free(c);
    }
    pool->nfree = 0;
}

void bufq_init(struct bufq *q, struct bufq_pool *pool, atomic_size_t *meter)
{
    *q = (struct bufq){.pool = pool, .meter = meter};
}

static void count(struct bufq *q, const struct bufq_chunk *c, bool in)
{
    size_t size = sizeof(*c) + c->cap;

    if (q->meter == NULL) {
        return;
    }
    if (in) {
        atomic_fetch_add_explicit(q->meter, size, memory_order_relaxed);
    } else {
        atomic_fetch_sub_explicit(q->meter, size, memory_order_relaxed);
    }
}

static struct bufq_chunk *chunk_get(struct bufq *q, size_t cap)
{
    struct bufq_chunk *c = NULL;

    if (cap == POOLED_CAP && q->pool->free != NULL) {
        c = q->pool->free;
        q->pool->free = c->next;
        q->pool->nfree--;
    } else {
        c = cap > SIZE_MAX - sizeof(*c) ? NULL : malloc(sizeof(*c) + cap);
        if (c == NULL) {
            return NULL;
        }
        c->cap = cap;
    }
    c->next = NULL;
    c->start = 0;
    c->end = 0;
    count(q, c, true);
    return c;
}

static void chunk_put(struct bufq *q, struct bufq_chunk *c)
{
    count(q, c, false);
    if (c->cap == POOLED_CAP && q->pool->nfree < q->pool->max_free) {
        c->next = q->pool->free;
        q->pool->free = c;
        q->pool->nfree++;
    } else {
        free(c);
    }
}

void bufq_fini(struct bufq *q)
{
    while (q->head != NULL) {
        struct bufq_chunk *c = q->head;
        q->head = c->next;
        chunk_put(q, c);
    }
    q->tail = NULL;
    q->bytes = 0;
}

static void link_tail(struct bufq *q, struct bufq_chunk *c)
{
    if (q->tail == NULL) {
        q->head = c;
    } else {
        q->tail->next = c;
    }
    q->tail = c;
}

/* Copies as much of `s` as fits into `c` (NULL: nothing fits); returns how much. */
static size_t fill(struct bufq_chunk *c, struct span s)
{
    const size_t room = c == NULL ? 0 : c->cap - c->end;
    const size_t n = s.n < room ? s.n : room;

    if (n > 0) {
        memcpy(c->data + c->end, s.p, n);
        c->end += n;
    }
    return n;
}

enum err bufq_append(struct bufq *q, const struct span *pieces, size_t n)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        if (pieces[i].n > SIZE_MAX - total) {
            return ERR_NOMEM;
        }
        total += pieces[i].n;
    }
    struct bufq_chunk *old = q->tail;
    const size_t room = old == NULL ? 0 : old->cap - old->end;
    if (total > room) {
        const size_t rest = total - room;
        struct bufq_chunk *more = chunk_get(q, rest <= POOLED_CAP ? POOLED_CAP : rest);
        if (more == NULL) {
            return ERR_NOMEM;
        }
        link_tail(q, more);
    }
    /* What the old tail has no room for goes to the new one, which has room for all of the rest. */
    for (size_t i = 0; i < n; i++) {
        const size_t done = fill(old, pieces[i]);
        if (done < pieces[i].n) {
            (void)fill(q->tail, span_after(pieces[i], done));
        }
    }
    q->bytes += total;
    return ERR_OK;
}

struct bufq_chunk *bufq_chunk_new(struct bufq *q, size_t capacity)
{
    return chunk_get(q, capacity);
}

void bufq_chunk_free(struct bufq *q, struct bufq_chunk *c)
{
    if (c != NULL) {
        chunk_put(q, c);
    }
}

void bufq_append_reserved(struct bufq *q, struct bufq_chunk *c, const struct span *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)fill(c, pieces[i]);
    }
    if (c->end == 0) {
        chunk_put(q, c);
        return;
    }
    link_tail(q, c);
    q->bytes += c->end;
}

size_t bufq_peek(const struct bufq *q, struct iovec *iov, size_t max)
{
    size_t n = 0;

    for (struct bufq_chunk *c = q->head; c != NULL && n < max; c = c->next) {
        if (c->end > c->start) {
            iov[n++] = (struct iovec){.iov_base = c->data + c->start, .iov_len = c->end - c->start};
        }
    }
    return n;
}

void bufq_consume(struct bufq *q, size_t n)
{
    assert(n <= q->bytes);
    q->bytes -= n;
    while (q->head != NULL) {
        struct bufq_chunk *c = q->head;
        size_t have = c->end - c->start;
        if (n < have) {
            c->start += n;
            return;
        }
        n -= have;
        q->head = c->next;
        if (q->head == NULL) {
            q->tail = NULL;
        }
        chunk_put(q, c);
    }
}
