/* See event_head.h. A line is told at its end, so that its bytes have gone by when its request is
 * forgotten. */
#include "relay/event_head.h"

#include "base/buf.h"
#include "base/json_span.h"

void event_head_init(struct event_head *h)
{
    h->n = 0;
    h->in_line = false;
}

bool event_head_partial(const struct event_head *h)
{
    return h->in_line;
}

static bool begins_with(struct span s, struct span with)
{
    return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

static bool is_terminal(struct span text)
{
    static const char *const names[] = {"\"done\"", "\"error\"", "\"response\"", "\"timeout\""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (begins_with(text, span_str(names[i]))) {
            return true;
        }
    }
    return false;
}

/* The length of the JSON string that `s` begins with, quotes included; 0: it is not all there. */
static size_t string_length(struct span s)
{
    for (size_t i = 1; i < s.n && s.p[0] == '"'; i++) {
        if (s.p[i] == '\\') {
            i++;
        } else if (s.p[i] == '"') {
            return i + 1;
        }
    }
    return 0;
}

/* What follows the name `event` of an event without an id. A line that is no request is a
 * BadRequest, after which the next line is read. */
static bool ends_connection(struct span event)
{
    static const struct span error = {"\"error\",\"error\":{\"type\":", 24};
    static const struct span bad_request = {"\"BadRequest\"", 12};

    return begins_with(event, error) && !begins_with(span_after(event, error.n), bad_request);
}

/* What the line in h->text ends. */
static bool read_head(struct event_head *h, struct event_end *end)
{
    static const struct span first = {"{\"id\":", 6};
    static const struct span second = {",\"event\":", 9};
    struct span s = span_of(h->text, h->n);
    struct buf text;

    if (!begins_with(s, first)) {
        return false;
    }
    s = span_after(s, first.n);
    size_t n = string_length(s);
    struct json_value value = {
        .text = span_of(s.p, n), .type = JSON_STRING, .escaped = n > 0 && memchr(s.p, '\\', n)};
    s = span_after(s, n);
    if (n == 0 || !begins_with(s, second) || !is_terminal(span_after(s, second.n))) {
        return false;
    }
    buf_init(&text, EVENT_HEAD_MAX);
    json_string_decode(value, &text, NULL);
    bool ok = buf_status(&text) == ERR_OK;
    if (ok && text.len > 0) {
        memcpy(h->id, text.p, text.len);
    }
    *end = (struct event_end){
        .id = span_of(h->id, text.len),
        .connection = text.len == 0 && ends_connection(span_after(s, second.n)),
    };
    buf_fini(&text);
    return ok;
}

bool event_head_next(struct event_head *h, struct span *in, struct event_end *end)
{
    while (in->n > 0) {
        const char *newline = memchr(in->p, '\n', in->n);
        size_t n = newline == NULL ? in->n : (size_t)(newline - in->p);
        size_t room = EVENT_HEAD_MAX - h->n;
        size_t kept = n < room ? n : room;

        memcpy(h->text + h->n, in->p, kept);
        h->n += kept;
        h->in_line = h->in_line || n > 0;
        if (newline == NULL) {
            *in = span_after(*in, n);
            return false;
        }
        *in = span_after(*in, n + 1);
        bool terminal = read_head(h, end);
        event_head_init(h);
        if (terminal) {
            return true;
        }
    }
    return false;
}
