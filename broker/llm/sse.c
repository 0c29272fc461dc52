/*
 * Server-sent events out of a byte stream that the network cuts where it likes. Lines are found
 * in the bytes that came; only a line that is not whole yet is copied aside. The readers of
 * HTTP providers call this. Whatever the cuts, the same events come out.
 */
#include "llm/sse.h"

#include <stdint.h>

/* A line is longer than the data in it by its field name and a byte-order mark. */
#define LINE_SLACK 16u

void sse_init(struct sse *s, size_t max)
{
    *s = (struct sse){.max = max};
    buf_init(&s->line, max < SIZE_MAX - LINE_SLACK ? max + LINE_SLACK : SIZE_MAX);
    buf_init(&s->data, max);
    buf_init(&s->name, max);
}

void sse_fini(struct sse *s)
{
    buf_fini(&s->line);
    buf_fini(&s->data);
    buf_fini(&s->name);
}

static enum err dispatch(struct sse *s, sse_event_fn *fn, void *ctx)
{
    struct span name = s->name.len == 0 ? SPAN("") : buf_span(&s->name);
    struct span data = s->data.len == 0 ? SPAN("") : buf_span(&s->data);
    bool go_on = !s->have_data || fn(ctx, name, data);

    buf_clear(&s->data);
    buf_clear(&s->name);
    s->have_data = false;
    return go_on ? ERR_OK : ERR_CLOSED;
}

static enum err field(struct sse *s, struct span line)
{
    const char *colon = memchr(line.p, ':', line.n);
    struct span name = span_of(line.p, colon == NULL ? line.n : (size_t)(colon - line.p));
    struct span value = SPAN("");

    if (colon != NULL) {
        value = span_of(colon + 1, line.n - name.n - 1);
        if (value.n > 0 && value.p[0] == ' ') {
            value = span_of(value.p + 1, value.n - 1);
        }
    }
    if (span_eq(name, SPAN("data"))) {
        if (s->have_data) {
            buf_put_char(&s->data, '\n');
        }
        s->have_data = true;
        buf_put_span(&s->data, value);
        return buf_status(&s->data);
    }
    if (span_eq(name, SPAN("event"))) {
        buf_clear(&s->name);
        buf_put_span(&s->name, value);
        return buf_status(&s->name);
    }
    /* id, retry and unknown names mean nothing here; a name that is empty is a comment. */
    return ERR_OK;
}

/* A whole line, without its end. */
static enum err line_end(struct sse *s, struct span line, sse_event_fn *fn, void *ctx)
{
    if (line.n > s->line.max) {
        return ERR_LIMIT;
    }
    if (!s->started) {
        s->started = true;
        if (line.n >= 3 && memcmp(line.p, "\xEF\xBB\xBF", 3) == 0) {
            line = span_of(line.p + 3, line.n - 3);
        }
    }
    return line.n == 0 ? dispatch(s, fn, ctx) : field(s, line);
}

/* Joins `piece` to the line that was carried over, if any, and handles it. */
static enum err line_take(struct sse *s, struct span piece, sse_event_fn *fn, void *ctx)
{
    enum err err = ERR_OK;

    if (s->line.len == 0) {
        return line_end(s, piece, fn, ctx);
    }
    buf_put_span(&s->line, piece);
    err = buf_status(&s->line);
    if (err == ERR_OK) {
        err = line_end(s, buf_span(&s->line), fn, ctx);
    }
    buf_clear(&s->line);
    return err;
}

/* Where the next `c` is from `p` on, `end` if nowhere. `*found` remembers it over lines, so that
 * a stream with only one kind of line end is not searched again and again for the other. */
static const char *next(const char **found, const char *p, const char *end, char c)
{
    if (*found == NULL || *found < p) {
        const char *at = memchr(p, c, (size_t)(end - p));
        *found = at == NULL ? end : at;
    }
    return *found;
}

enum err sse_feed(struct sse *s, const char *bytes, size_t n, sse_event_fn *fn, void *ctx)
{
    const char *p = bytes;
    const char *end = bytes + n;
    const char *found_lf = NULL;
    const char *found_cr = NULL;

    while (p < end) {
        if (s->skip_lf) {
            s->skip_lf = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        const char *lf = next(&found_lf, p, end, '\n');
        const char *cr = next(&found_cr, p, end, '\r');
        const char *stop = lf < cr ? lf : cr;

        if (stop == end) {
            buf_put(&s->line, p, (size_t)(end - p));
            return buf_status(&s->line);
        }
        s->skip_lf = stop == cr;
        enum err err = line_take(s, span_of(p, (size_t)(stop - p)), fn, ctx);
        if (err != ERR_OK) {
            return err;
        }
        p = stop + 1;
    }
    return ERR_OK;
}

enum err sse_end(struct sse *s, sse_event_fn *fn, void *ctx)
{
    enum err err = ERR_OK;

    if (s->line.len > 0) {
        err = line_take(s, SPAN(""), fn, ctx);
    }
    return err == ERR_OK ? dispatch(s, fn, ctx) : err;
}
