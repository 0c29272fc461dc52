/* Framing: see framing.h. Called by session.c with what the stream delivers. */
#include "wire/framing.h"

#include "tactus/protocol.h"

#include <stdint.h>
#include <string.h>

#define KEEP_MAX 4096u /* memory that an idle framing may hold */

void framing_init(struct framing *f, size_t max, atomic_size_t *meter, size_t meter_max)
{
    *f = (struct framing){.max = max, .meter = meter, .meter_max = meter_max};
    /* One byte more than a message may have tells "too large" from "exactly the maximum". */
    buf_init(&f->kept, max + 2);
}

static void release(struct framing *f)
{
    if (f->meter != NULL && f->metered > 0) {
        atomic_fetch_sub_explicit(f->meter, f->metered, memory_order_relaxed);
    }
    f->metered = 0;
    if (f->kept.cap > KEEP_MAX) {
        buf_fini(&f->kept);
    } else {
        buf_clear(&f->kept);
    }
}

void framing_fini(struct framing *f)
{
    release(f);
    buf_fini(&f->kept);
}

void framing_forget(struct framing *f)
{
    framing_fini(f);
    f->used = false;
    f->need = 0;
}

enum framing_kind framing_detect(char first)
{
    if (first >= '0' && first <= '9') {
        return FRAMING_LENGTH;
    }
    if (first >= 'A' && first <= 'Z') {
        return FRAMING_HTTP;
    }
    return FRAMING_NDJSON;
}

/* Keeps the first `n` bytes of *in for the next time. */
static enum framing_result keep(struct framing *f, struct span *in, size_t n)
{
    if (f->meter != NULL) {
        size_t all = atomic_fetch_add_explicit(f->meter, n, memory_order_relaxed) + n;
        f->metered += n;
        if (all > f->meter_max) {
            return FRAMING_OVERLOADED;
        }
    }
    buf_put(&f->kept, in->p, n);
    enum err rc = buf_status(&f->kept);
    if (rc != ERR_OK) {
        return rc == ERR_LIMIT ? FRAMING_TOO_LARGE : FRAMING_NOMEM;
    }
    *in = span_after(*in, n);
    return FRAMING_MORE;
}

static void skip(struct span *in, size_t n)
{
    *in = span_after(*in, n);
}

static bool blank(struct span line)
{
    for (size_t i = 0; i < line.n; i++) {
        if (line.p[i] != ' ' && line.p[i] != '\t') {
            return false;
        }
    }
    return true;
}

static struct span without_cr(struct span line)
{
    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    return line;
}

static enum framing_result next_line(struct framing *f, struct span *in, struct span *message)
{
    while (in->n > 0) {
        const char *end = memchr(in->p, '\n', in->n);
        if (end == NULL) {
            enum framing_result rc = keep(f, in, in->n);
            bool over = f->kept.len > f->max && without_cr(buf_span(&f->kept)).n > f->max;
            return rc == FRAMING_MORE && over ? FRAMING_TOO_LARGE : rc;
        }
        size_t n = (size_t)(end - in->p);
        struct span line = span_of(in->p, n);
        if (f->kept.len > 0) {
            enum framing_result rc = keep(f, in, n);
            if (rc != FRAMING_MORE) {
                return rc;
            }
            skip(in, 1);
            line = buf_span(&f->kept);
            f->used = true;
        } else {
            skip(in, n + 1);
        }
        line = without_cr(line);
        if (line.n > f->max) {
            return FRAMING_TOO_LARGE;
        }
        if (!blank(line)) {
            *message = line;
            return FRAMING_MESSAGE;
        }
        release(f);
        f->used = false;
    }
    return FRAMING_MORE;
}

static bool parse_prefix(struct span prefix, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < TACTUS_LENGTH_DIGITS; i++) {
        v = v * 10 + (uint64_t)(prefix.p[i] - '0');
    }
    *out = v;
    return v > 0;
}

/* Collects the prefix; wrong bytes are seen as soon as they come. */
static enum framing_result next_prefix(struct framing *f, struct span *in)
{
    while (in->n > 0 && f->kept.len < TACTUS_LENGTH_PREFIX) {
        char c = in->p[0];
        bool digit = c >= '0' && c <= '9';
        if (f->kept.len < TACTUS_LENGTH_DIGITS ? !digit : c != '\n') {
            return FRAMING_BAD_PREFIX;
        }
        enum framing_result rc = keep(f, in, 1);
        if (rc != FRAMING_MORE) {
            return rc;
        }
    }
    if (f->kept.len < TACTUS_LENGTH_PREFIX) {
        return FRAMING_MORE;
    }
    uint64_t n = 0;
    if (!parse_prefix(buf_span(&f->kept), &n)) {
        return FRAMING_BAD_PREFIX;
    }
    if (n > f->max) {
        return FRAMING_TOO_LARGE;
    }
    f->need = (size_t)n;
    release(f);
    return FRAMING_MORE;
}

static enum framing_result next_counted(struct framing *f, struct span *in, struct span *message)
{
    if (f->need == 0) {
        enum framing_result rc = next_prefix(f, in);
        if (rc != FRAMING_MORE || f->need == 0) {
            return rc;
        }
    }
    if (f->kept.len == 0 && in->n >= f->need) {
        *message = span_of(in->p, f->need);
        skip(in, f->need);
        f->need = 0;
        return FRAMING_MESSAGE;
    }
    size_t missing = f->need - f->kept.len;
    enum framing_result rc = keep(f, in, in->n < missing ? in->n : missing);
    if (rc != FRAMING_MORE || f->kept.len < f->need) {
        return rc;
    }
    *message = buf_span(&f->kept);
    f->used = true;
    f->need = 0;
    return FRAMING_MESSAGE;
}

enum framing_result framing_next(struct framing *f, struct span *in, struct span *message)
{
    if (f->used) {
        f->used = false;
        release(f);
    }
    if (in->n == 0) {
        return FRAMING_MORE;
    }
    if (f->kind == FRAMING_UNKNOWN) {
        f->kind = framing_detect(in->p[0]);
    }
    return f->kind == FRAMING_LENGTH ? next_counted(f, in, message) : next_line(f, in, message);
}

bool framing_partial(const struct framing *f)
{
    return !f->used && (f->kept.len > 0 || f->need > 0);
}
