/*
 * See stderr_lines.h. Called by the run's console.
 *
 * A line that lies whole in what came is given without a copy. Of the prefix only the number of its
 * bytes that came is held: they are known.
 */
#include "relay/stderr_lines.h"

#include "base/text.h"

enum { LINE_START, LINE_REQUEST, LINE_TEXT };

static const struct span prefix = {TACTUS_STDIO_PREFIX, sizeof(TACTUS_STDIO_PREFIX) - 1};

void stderr_lines_init(struct stderr_lines *s, const struct stderr_lines_handler *handler,
                       void *ctx)
{
    *s = (struct stderr_lines){.handler = handler, .ctx = ctx, .state = LINE_START};
    buf_init(&s->held, STDERR_LINE_MAX + 1); /* one byte more tells that the line goes on */
}

void stderr_lines_fini(struct stderr_lines *s)
{
    buf_fini(&s->held);
}

/* The line is longer than what is held: gives that, but for a character that is not whole. */
static void give_part(struct stderr_lines *s)
{
    size_t n = text_cut(s->held.p, s->held.len, STDERR_LINE_MAX);

    if (STDERR_LINE_MAX - n > 3) {
        n = STDERR_LINE_MAX; /* no text at all */
    }
    s->handler->on_line(s->ctx, span_of(s->held.p, n), true);
    buf_consume(&s->held, n);
}

static void hold_text(struct stderr_lines *s, struct span text)
{
    while (text.n > 0) {
        size_t room = STDERR_LINE_MAX + 1 - s->held.len;
        size_t n = text.n < room ? text.n : room;
        buf_put(&s->held, text.p, n);
        if (buf_status(&s->held) != ERR_OK) { /* no memory: this part of a log line is lost */
            buf_clear(&s->held);
        } else if (s->held.len > STDERR_LINE_MAX) {
            give_part(s);
        }
        text = span_after(text, n);
    }
}

/* At the start of a line: takes what may be the prefix, and decides as soon as it can. */
static struct span take_start(struct stderr_lines *s, struct span in)
{
    size_t n = 0;

    while (n < in.n && s->matched + n < prefix.n && in.p[n] == prefix.p[s->matched + n]) {
        n++;
    }
    if (s->matched + n == prefix.n) {
        s->matched = 0;
        s->state = LINE_REQUEST;
        return span_after(in, n);
    }
    if (n == in.n) {
        s->matched += n;
        return span_after(in, n);
    }
    hold_text(s, span_of(prefix.p, s->matched));
    s->matched = 0;
    s->state = LINE_TEXT;
    return in;
}

/* Bytes of a log line; `end`: and its end. */
static void take_text(struct stderr_lines *s, struct span part, bool end)
{
    if (end && s->held.len == 0 && part.n <= STDERR_LINE_MAX) {
        s->handler->on_line(s->ctx, part, false);
        return;
    }
    hold_text(s, part);
    if (end) {
        s->handler->on_line(s->ctx, buf_span(&s->held), false);
        buf_clear(&s->held);
    }
}

static void take_request(struct stderr_lines *s, struct span part, bool end)
{
    if (part.n > 0) {
        s->handler->on_request(s->ctx, part);
    }
    if (end) {
        s->handler->on_request_end(s->ctx);
    }
}

void stderr_lines_feed(struct stderr_lines *s, struct span in)
{
    while (in.n > 0) {
        if (s->state == LINE_START) {
            in = take_start(s, in);
            continue;
        }
        const char *end = memchr(in.p, '\n', in.n);
        struct span part = span_of(in.p, end == NULL ? in.n : (size_t)(end - in.p));
        if (s->state == LINE_REQUEST) {
            take_request(s, part, end != NULL);
        } else {
            take_text(s, part, end != NULL);
        }
        if (end != NULL) {
            s->state = LINE_START;
        }
        in = span_after(in, part.n + (end != NULL ? 1 : 0));
    }
}

bool stderr_lines_end(struct stderr_lines *s)
{
    bool whole = s->state != LINE_REQUEST;

    hold_text(s, span_of(prefix.p, s->matched));
    if (s->held.len > 0) {
        s->handler->on_line(s->ctx, buf_span(&s->held), false);
    }
    buf_clear(&s->held);
    s->matched = 0;
    s->state = LINE_START;
    return whole;
}
