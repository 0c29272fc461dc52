/*
 * A growing byte buffer with a mandatory maximum, for building text (JSON bodies, log lines) and
 * for collecting input.
 *
 * Appends are sticky: the first failure (over the maximum, out of memory) is remembered, later
 * appends do nothing, and buf_status() tells at the end. So a builder reads as a straight line.
 * The content before the failure stays.
 */
#ifndef TACTUS_BASE_BUF_H
#define TACTUS_BASE_BUF_H

#include "base/err.h"
#include "base/span.h"

#include <stddef.h>

struct buf {
    char *p;
    size_t len;
    size_t cap;
    size_t max;
    enum err err;
};

/* No allocation until the first append. `max` > 0 bounds len. */
void buf_init(struct buf *b, size_t max);

/* Frees the memory; the buffer can be used again as after buf_init with the same maximum. */
void buf_fini(struct buf *b);

/* As buf_fini, but wipes the content first: for buffers that held a secret. */
void buf_wipe(struct buf *b);

/* Forgets content and failure, keeps the memory. */
void buf_clear(struct buf *b);

/* Makes room for `more` bytes after len (growth is geometric, so appends are amortised O(1)).
 * ERR_LIMIT, ERR_NOMEM; sticky like the appends. */
enum err buf_reserve(struct buf *b, size_t more);

void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_span(struct buf *b, struct span s);
void buf_put_str(struct buf *b, const char *s);
void buf_put_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Drops the first `n` bytes (n <= len). */
void buf_consume(struct buf *b, size_t n);

/* Cuts back to `len` bytes and forgets a failure after that point. */
void buf_truncate(struct buf *b, size_t len);

/* ERR_OK, or the first failure since init, clear or truncate. */
enum err buf_status(const struct buf *b) MUST_CHECK;

static inline struct span buf_span(const struct buf *b)
{
    return (struct span){b->p, b->len};
}

/* NUL-terminates (the NUL is not counted in len) and returns the text; "" when nothing could be
 * allocated. */
const char *buf_cstr(struct buf *b);

#endif
