/* See hijack.h. */
#include "engine/hijack.h"

#include "base/text.h"

#include <string.h>
#include <strings.h>

#define HEX_DIGITS_MAX 7 /* of a chunk's size: 256 MiB, far over HIJACK_BODY_MAX */

void hijack_init(struct hijack *h)
{
    *h = (struct hijack){.head = 0};
    /* One read may bring the end of the largest head and then the streams' bytes. */
    buf_init(&h->in, HIJACK_HEAD_MAX + HIJACK_BODY_MAX + 65536);
}

void hijack_fini(struct hijack *h)
{
    buf_fini(&h->in);
}

/* ---- the head ---- */

/* The length of the head with its blank line; 0: it is not there yet. */
static size_t head_length(struct span in)
{
    const char *end = in.n == 0 ? NULL : memmem(in.p, in.n, "\r\n\r\n", 4);

    return end == NULL ? 0 : (size_t)(end - in.p) + 4;
}

/* The status of "HTTP/1.1 101 …"; 0: it is none. */
static int status_of(struct span head)
{
    int status = 0;

    if (head.n < 13 || memcmp(head.p, "HTTP/1.", 7) != 0 || head.p[8] != ' ' ||
        (head.p[12] != ' ' && head.p[12] != '\r')) {
        return 0;
    }
    for (size_t i = 9; i < 12; i++) {
        if (head.p[i] < '0' || head.p[i] > '9') {
            return 0;
        }
        status = status * 10 + (head.p[i] - '0');
    }
    return status;
}

static struct span trim(struct span s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s = span_after(s, 1);
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) {
        s.n--;
    }
    return s;
}

static bool is_text(struct span s, const char *text)
{
    return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

static void read_field(struct hijack *h, struct span line)
{
    const char *colon = line.n == 0 ? NULL : memchr(line.p, ':', line.n);
    uint64_t n = 0;

    if (colon == NULL) {
        return;
    }
    struct span name = span_of(line.p, (size_t)(colon - line.p));
    struct span value = trim(span_after(line, name.n + 1));
    if (is_text(name, "Transfer-Encoding")) {
        h->chunked = is_text(value, "chunked");
    } else if (is_text(name, "Content-Length") && text_u64(value, &n)) {
        h->has_length = true;
        h->length = n < HIJACK_BODY_MAX ? (size_t)n : HIJACK_BODY_MAX;
    }
}

static void read_fields(struct hijack *h, struct span head)
{
    while (head.n > 0) {
        const char *end = memmem(head.p, head.n, "\r\n", 2);
        size_t n = end == NULL ? head.n : (size_t)(end - head.p);
        read_field(h, span_of(head.p, n));
        head = span_after(head, end == NULL ? n : n + 2);
    }
}

/* ERR_OK: a head that counts is there; 1xx other than 101 announce another one. */
static enum err take_head(struct hijack *h, struct error *e)
{
    while (h->status == 0) {
        size_t n = head_length(buf_span(&h->in));
        if (n > HIJACK_HEAD_MAX || (n == 0 && h->in.len > HIJACK_HEAD_MAX)) {
            return err_set(e, ERR_PROTO, "a head over %u bytes", HIJACK_HEAD_MAX);
        }
        if (n == 0) {
            return ERR_AGAIN;
        }
        int status = status_of(span_of(h->in.p, n));
        if (status == 0) {
            return err_set(e, ERR_PROTO, "its answer is not HTTP");
        }
        if (status / 100 == 1 && status != 101) {
            buf_consume(&h->in, n);
            continue;
        }
        h->status = status;
        h->head = n;
        read_fields(h, span_of(h->in.p, n));
    }
    return ERR_OK;
}

/* ---- a refusal's body ---- */

/* The size in a chunk's first line, and what follows the line. False: it is not whole, or none. */
static bool chunk_size(struct span *in, size_t *size)
{
    const char *end = in->n == 0 ? NULL : memmem(in->p, in->n, "\r\n", 2);
    size_t n = 0;

    *size = 0;
    if (end == NULL) {
        return false;
    }
    while (n < HEX_DIGITS_MAX && text_hex_digit(in->p[n]) >= 0) {
        *size = *size * 16 + (size_t)text_hex_digit(in->p[n]);
        n++;
    }
    *in = span_after(*in, (size_t)(end - in->p) + 2);
    return n > 0;
}

/* Appends what is there of a chunked body to `out` (may be NULL); true: its last chunk is there. */
static bool read_chunks(struct span in, struct buf *out)
{
    size_t size = 0;

    while (chunk_size(&in, &size)) {
        if (size == 0) {
            return true;
        }
        size_t n = size < in.n ? size : in.n;
        if (out != NULL) {
            buf_put(out, in.p, n);
        }
        in = span_after(in, n);
        in = span_after(in, in.n < 2 ? in.n : 2);
    }
    return false;
}

static struct span body_of(const struct hijack *h)
{
    return span_after(buf_span(&h->in), h->head);
}

static bool refusal_whole(const struct hijack *h)
{
    struct span body = body_of(h);

    if (body.n >= HIJACK_BODY_MAX || h->status == 204 || h->status == 304) {
        return true;
    }
    return h->chunked ? read_chunks(body, NULL) : h->has_length && body.n >= h->length;
}

void hijack_refusal(const struct hijack *h, struct buf *out)
{
    struct span body = body_of(h);

    if (h->chunked) {
        (void)read_chunks(body, out);
    } else {
        buf_put(out, body.p, h->has_length && body.n > h->length ? h->length : body.n);
    }
}

/* ---- all of it ---- */

enum err hijack_feed(struct hijack *h, struct span in, struct span *rest, struct error *e)
{
    buf_put(&h->in, in.p, in.n);
    enum err rc = buf_status(&h->in);
    if (rc != ERR_OK) {
        return err_set(e, rc, "its answer cannot be kept");
    }
    rc = take_head(h, e);
    if (rc != ERR_OK) {
        return rc;
    }
    if (h->status != 101 && h->status != 200) {
        return refusal_whole(h) ? hijack_end(h, e) : ERR_AGAIN;
    }
    if (h->status == 200 && (h->chunked || h->has_length)) {
        return err_set(e, ERR_PROTO, "something between passes on no raw streams");
    }
    *rest = body_of(h);
    return ERR_OK;
}

enum err hijack_end(const struct hijack *h, struct error *e)
{
    return h->status == 0 ? err_set(e, ERR_IO, "the connection was closed")
                          : err_set(e, ERR_UPSTREAM, "refused with HTTP status %d", h->status);
}
