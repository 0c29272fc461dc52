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

static bool is_terminal(struct span text)
{
    static const char *const names[] = {"\"done\"", "\"error\"", "\"response\"", "\"timeout\""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);
        if (text.n >= n && memcmp(text.p, names[i], n) == 0) {
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

/* The id of the line in h->text, when it ends a request. */
static bool read_head(struct event_head *h, struct span *id)
{
    static const struct span first = {"{\"id\":", 6};
    static const struct span second = {",\"event\":", 9};
    struct span s = span_of(h->text, h->n);
    struct buf text;

    if (s.n < first.n || memcmp(s.p, first.p, first.n) != 0) {
        return false;
    }
    s = span_after(s, first.n);
    size_t n = string_length(s);
    struct json_value value = {
        .text = span_of(s.p, n), .type = JSON_STRING, .escaped = n > 0 && memchr(s.p, '\\', n)};
    s = span_after(s, n);
    if (n == 0 || s.n < second.n || memcmp(s.p, second.p, second.n) != 0 ||
        !is_terminal(span_after(s, second.n))) {
        return false;
    }
    buf_init(&text, EVENT_HEAD_MAX);
    json_string_decode(value, &text, NULL);
    bool ok = buf_status(&text) == ERR_OK;
    if (ok && text.len > 0) {
        memcpy(h->id, text.p, text.len);
    }
    *id = span_of(h->id, text.len);
    buf_fini(&text);
    return ok;
}

bool event_head_next(struct event_head *h, struct span *in, struct span *id)
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
        bool terminal = read_head(h, id);
        event_head_init(h);
        if (terminal) {
            return true;
        }
    }
    return false;
}
