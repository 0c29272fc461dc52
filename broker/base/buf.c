/*
 * A growing buffer with a maximum and sticky failure: see buf.h. Called from everywhere.
 *
 * Invariants: len <= max; an allocation has at least one byte more than was asked for, so that
 * buf_cstr and vsnprintf have room for a NUL even when the content is as long as it may be.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAP 64u

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}

void buf_wipe(struct buf *b)
{
    if (b->p != NULL) {
        explicit_bzero(b->p, b->cap);
    }
    buf_fini(b);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->err = ERR_OK;
}

/* Makes cap > need. */
static bool grow(struct buf *b, size_t need)
{
    if (need < b->cap) {
        return true;
    }
    size_t most = b->max == SIZE_MAX ? b->max : b->max + 1;
    size_t cap = b->cap < FIRST_CAP ? FIRST_CAP : b->cap;
    while (cap <= need && cap <= most / 2) {
        cap *= 2;
    }
    if (cap <= need || cap > most) {
        cap = most;
    }
    char *p = cap <= need ? NULL : realloc(b->p, cap);
    if (p == NULL) {
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

enum err buf_reserve(struct buf *b, size_t more)
{
    if (b->err != ERR_OK || more == 0) {
        return b->err;
    }
    if (more > b->max - b->len) {
        b->err = ERR_LIMIT;
    } else if (!grow(b, b->len + more)) {
        b->err = ERR_NOMEM;
    }
    return b->err;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    if (n == 0 || buf_reserve(b, n) != ERR_OK) {
        return;
    }
    memcpy(b->p + b->len, p, n);
    b->len += n;
}

void buf_put_span(struct buf *b, struct span s)
{
    buf_put(b, s.p, s.n);
}

void buf_put_str(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_put_char(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->err = b->err == ERR_OK ? ERR_BUG : b->err;
        return;
    }
    if ((size_t)n < sizeof(text)) {
        buf_put(b, text, (size_t)n);
        return;
    }
    if (buf_reserve(b, (size_t)n) != ERR_OK) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(b->p + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    b->len -= n;
    if (n > 0 && b->len > 0) {
        memmove(b->p, b->p + n, b->len);
    }
}

void buf_truncate(struct buf *b, size_t len)
{
    assert(len <= b->len);
    b->len = len;
    b->err = ERR_OK;
}

enum err buf_status(const struct buf *b)
{
    return b->err;
}

const char *buf_cstr(struct buf *b)
{
    if (!grow(b, b->len)) {
        return "";
    }
    b->p[b->len] = '\0';
    return b->p;
}
