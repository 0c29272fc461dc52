/*
 * Any bytes: fed whole and fed in pieces they give the same messages and the same end; the meter
 * goes back to zero; no more is kept than came, or than a message may have.
 *
 * Input: the maximum of a message above 16 (a byte), two sizes of pieces in turn (a byte each), the
 * stream.
 */
#include "wire/framing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct out {
    struct buf text; /* each message, with its length before it */
    enum framing_result last;
    bool partial;
};

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void feed(struct framing *f, struct span in, struct out *out)
{
    char *copy = malloc(in.n == 0 ? 1 : in.n); /* of its own size: a read past it is seen */

    must(copy != NULL);
    if (in.n > 0) {
        memcpy(copy, in.p, in.n);
    }
    struct span rest = span_of(copy, in.n);
    struct span message;
    do {
        out->last = framing_next(f, &rest, &message);
        if (out->last == FRAMING_MESSAGE) {
            must(message.n > 0 && message.n <= f->max);
            buf_printf(&out->text, "%zu ", message.n);
            buf_put_span(&out->text, message);
        }
    } while (out->last == FRAMING_MESSAGE);
    must(out->last != FRAMING_MORE || rest.n == 0);
    must(f->kept.len <= f->max + 2);
    free(copy);
}

static void run(struct span s, size_t max, size_t a, size_t b, struct out *out)
{
    struct framing f;
    atomic_size_t meter = 0;

    *out = (struct out){.last = FRAMING_MORE};
    buf_init(&out->text, 1 << 24);
    framing_init(&f, max, &meter, SIZE_MAX);
    for (size_t at = 0, i = 0; at < s.n && out->last == FRAMING_MORE; i++) {
        size_t n = i % 2 == 0 ? a : b;
        n = n < s.n - at ? n : s.n - at;
        feed(&f, span_of(s.p + at, n), out);
        at += n;
    }
    out->partial = framing_partial(&f);
    must(atomic_load(&meter) == 0 || out->partial || out->last != FRAMING_MORE);
    framing_fini(&f);
    must(atomic_load(&meter) == 0);
    must(buf_status(&out->text) == ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct out whole;
    struct out pieces;

    if (size < 3 || size > 100000) {
        return 0;
    }
    struct span s = span_of((const char *)data + 3, size - 3);
    size_t max = 16u + data[0];
    run(s, max, s.n, s.n, &whole);
    run(s, max, data[1] == 0 ? 1 : data[1], data[2], &pieces);
    must(span_eq(buf_span(&whole.text), buf_span(&pieces.text)));
    must(whole.last == pieces.last);
    must(whole.last != FRAMING_MORE || whole.partial == pieces.partial);
    buf_fini(&whole.text);
    buf_fini(&pieces.text);
    return 0;
}
