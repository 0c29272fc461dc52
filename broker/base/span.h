/* A borrowed run of bytes. Never owns, never NUL-terminated. {NULL, 0} means "absent". */
#ifndef TACTUS_BASE_SPAN_H
#define TACTUS_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *p;
    size_t n;
};

/* A span over a string literal, without its NUL. */
#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})

static inline struct span span_of(const char *p, size_t n)
{
    return (struct span){p, n};
}

static inline struct span span_str(const char *s)
{
    return (struct span){s, s == NULL ? 0 : strlen(s)};
}

/* What follows the first `n` bytes; harmless on an absent span with n = 0. */
static inline struct span span_after(struct span s, size_t n)
{
    return n == 0 ? s : (struct span){s.p + n, s.n - n};
}

static inline bool span_eq(struct span a, struct span b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

#endif
