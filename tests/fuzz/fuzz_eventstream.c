/*
 * Messages of an event stream for Bedrock's reader, without the checksums that no fuzzer gets
 * right: the input is lines, each "TYPE PAYLOAD" or "!TYPE PAYLOAD" for an exception, made into
 * frames here. Whole and in pieces of the first byte's size they give the same events.
 */
#include "fixtures/answer_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t crc32_of(const char *p, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0 - (crc & 1)));
        }
    }
    return ~crc;
}

static void put_u32(struct buf *b, size_t n)
{
    for (unsigned shift = 32; shift > 0; shift -= 8) {
        buf_put_char(b, (char)(n >> (shift - 8)));
    }
}

static void put_header(struct buf *b, const char *name, struct span value)
{
    buf_put_char(b, (char)strlen(name));
    buf_put_str(b, name);
    buf_put_char(b, 7);
    buf_put_char(b, (char)(value.n >> 8));
    buf_put_char(b, (char)value.n);
    buf_put_span(b, value);
}

static void put_frame(struct buf *b, struct span line)
{
    const char *space = memchr(line.p, ' ', line.n);
    struct span type = span_of(line.p, space == NULL ? line.n : (size_t)(space - line.p));
    struct span payload = space == NULL ? SPAN("") : span_after(line, type.n + 1);
    bool exception = type.n > 0 && type.p[0] == '!';
    struct buf headers;
    size_t start = b->len;

    buf_init(&headers, 1024 * 1024);
    put_header(&headers, ":message-type", exception ? SPAN("exception") : SPAN("event"));
    put_header(&headers, exception ? ":exception-type" : ":event-type",
               span_after(type, exception ? 1 : 0));
    put_u32(b, 16 + headers.len + payload.n);
    put_u32(b, headers.len);
    put_u32(b, crc32_of(b->p + start, 8));
    buf_put_span(b, buf_span(&headers));
    buf_put_span(b, payload);
    put_u32(b, crc32_of(b->p + start, b->len - start));
    buf_fini(&headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf b;

    if (size < 2 || size > 60000) {
        return 0;
    }
    buf_init(&b, 16 * 1024 * 1024);
    buf_put_char(&b, (char)(data[0] | 0x80));
    struct span rest = span_of((const char *)data + 1, size - 1);
    while (rest.n > 0) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct span line = span_of(rest.p, end == NULL ? rest.n : (size_t)(end - rest.p));

        put_frame(&b, line);
        rest = span_after(rest, end == NULL ? rest.n : line.n + 1);
    }
    int result =
        buf_status(&b) == ERR_OK ? answer_fuzz(&provider_bedrock, (const uint8_t *)b.p, b.len) : 0;
    buf_fini(&b);
    return result;
}
