/* See stderr_lines.h. */
#include "relay/stderr_lines.h"

enum { LINE_START, LINE_REQUEST, LINE_TEXT };

void stderr_lines_init(struct stderr_lines *s, const struct stderr_lines_handler *handler,
                       void *ctx)
{
    *s = (struct stderr_lines){.handler = handler, .ctx = ctx, .state = LINE_START};
    buf_init(&s->held, STDERR_LINE_MAX);
}

void stderr_lines_fini(struct stderr_lines *s)
{
    buf_fini(&s->held);
}

static void give_text(struct stderr_lines *s, bool more)
{
    s->handler->on_line(s->ctx, buf_span(&s->held), more);
    buf_clear(&s->held);
}

static void hold_text(struct stderr_lines *s, struct span text)
{
    while (text.n > 0) {
        size_t room = STDERR_LINE_MAX - s->held.len;
        size_t n = text.n < room ? text.n : room;
        if (n == 0) {
            give_text(s, true);
            continue;
        }
        buf_put(&s->held, text.p, n);
        if (buf_status(&s->held) != ERR_OK) { /* no memory: this part of a log line is lost */
            buf_clear(&s->held);
        }
        text = span_after(text, n);
    }
}

/* At the start of a line: takes what may be the prefix, and decides as soon as it can. */
static struct span take_start(struct stderr_lines *s, struct span in)
{
    static const struct span prefix = {TACTUS_STDIO_PREFIX, sizeof(TACTUS_STDIO_PREFIX) - 1};
    size_t n = 0;

    while (n < in.n && s->held.len + n < prefix.n && in.p[n] == prefix.p[s->held.len + n]) {
        n++;
    }
    if (s->held.len + n == prefix.n) {
        s->state = LINE_REQUEST;
        buf_clear(&s->held);
        return span_after(in, n);
    }
    if (n < in.n) {
        s->state = LINE_TEXT;
        return in;
    }
    hold_text(s, in);
    return span_after(in, n);
}

static void end_line(struct stderr_lines *s)
{
    if (s->state == LINE_REQUEST) {
        s->handler->on_request_end(s->ctx);
    } else {
        give_text(s, false);
    }
    s->state = LINE_START;
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
        if (s->state == LINE_TEXT) {
            hold_text(s, part);
        } else if (part.n > 0) {
            s->handler->on_request(s->ctx, part);
        }
        in = span_after(in, part.n);
        if (end != NULL) {
            end_line(s);
            in = span_after(in, 1);
        }
    }
}

bool stderr_lines_end(struct stderr_lines *s)
{
    bool whole = s->state != LINE_REQUEST;

    if (whole && s->held.len > 0) {
        give_text(s, false);
    }
    buf_clear(&s->held);
    s->state = LINE_START;
    return whole;
}
