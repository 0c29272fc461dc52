/* A growing buffer with a maximum and sticky failure: see buf.h. Called from everywhere. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
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

enum err buf_reserve(struct buf *b, size_t more)
{
    if (b->err != ERR_OK) {
        return b->err;
    }
    if (more <= b->cap - b->len) {
        return ERR_OK;
    }
    if (b->len > b->max || more > b->max - b->len) {
        b->err = ERR_LIMIT;
        return b->err;
    }
    size_t need = b->len + more;
    size_t cap = b->cap < FIRST_CAP ? FIRST_CAP : b->cap;
    while (cap < need) {
        cap = cap > b->max / 2 ? b->max : cap * 2;
    }
    char *p = realloc(b->p, cap);
    if (p == NULL) {
        b->err = ERR_NOMEM;
        return b->err;
    }
    b->p = p;
    b->cap = cap;
    return ERR_OK;
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
        b->err = ERR_BUG;
        return;
    }
    if ((size_t)n < sizeof(text)) {
        buf_put(b, text, (size_t)n);
        return;
    }
    if (buf_reserve(b, (size_t)n + 1) != ERR_OK) {
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
    if (b->len == b->cap) {
        size_t cap = b->cap + 1;
        char *p = realloc(b->p, cap);
        if (p == NULL) {
            return "";
        }
        b->p = p;
        b->cap = cap;
    }
    b->p[b->len] = '\0';
    return b->p;
}
