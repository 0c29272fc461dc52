/*
 * Any secrets and any text: a stream fed in pieces gives what the whole text gives; no secret of at
 * least four bytes is left; scrubbing by key forms does not crash.
 *
 * Input: lengths of two secrets (a byte each), the size of a piece (a byte), the secrets, the text.
 */
#include "base/redact.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void add(struct redact *r, struct span secret)
{
    enum err err = redact_add(r, secret);

    must(err == (secret.n < 4 ? ERR_LIMIT : ERR_OK));
}

static void in_pieces(const struct redact *r, struct span text, size_t piece, struct buf *out)
{
    struct redact_stream s;

    redact_stream_init(&s, r);
    for (size_t at = 0; at < text.n; at += piece) {
        size_t n = text.n - at < piece ? text.n - at : piece;
        redact_stream_feed(&s, span_of(text.p + at, n), out);
    }
    redact_stream_end(&s, out);
    redact_stream_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;

    if (size < 3 || size - 3 < (size_t)data[0] + data[1] || size > 100000) {
        return 0;
    }
    struct span a = span_of(p + 3, data[0]);
    struct span b = span_of(p + 3 + a.n, data[1]);
    struct span text = span_of(b.p + b.n, size - 3 - a.n - b.n);
    struct redact *r = redact_new();
    struct buf whole;
    struct buf pieces;
    buf_init(&whole, 1 << 24);
    buf_init(&pieces, 1 << 24);
    must(r != NULL);
    add(r, a);
    add(r, b);
    redact_text(r, text, false, &whole);
    in_pieces(r, text, data[2] == 0 ? 1 : data[2], &pieces);
    must(buf_status(&whole) == ERR_OK && buf_status(&pieces) == ERR_OK);
    must(span_eq(buf_span(&whole), buf_span(&pieces)));
    /* The mark can complete a secret that looks like a part of it; two secrets can overlap. */
    bool clean = memchr(a.p, '[', a.n) == NULL && memchr(a.p, ']', a.n) == NULL && b.n < 4;
    must(!clean || a.n < 4 || whole.len == 0 || memmem(whole.p, whole.len, a.p, a.n) == NULL);
    buf_clear(&pieces);
    redact_text(r, text, true, &pieces);
    buf_fini(&whole);
    buf_fini(&pieces);
    redact_free(r);
    return 0;
}
