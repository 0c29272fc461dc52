/*
 * Frames of an AWS event stream. A frame that lies whole in the bytes that came is read where it
 * is; else it is copied aside until it is whole. The prelude is checked as soon as it is there, so
 * that a length which is no length makes nobody wait or allocate. The reader of the provider type
 * `bedrock` calls this.
 */
#include "llm/eventstream.h"

#include <stdint.h>

#define PRELUDE_SIZE 12u /* two lengths and their checksum */
#define CRC_SIZE     4u
#define FRAME_MIN    (PRELUDE_SIZE + CRC_SIZE)

void eventstream_init(struct eventstream *s, size_t max)
{
    *s = (struct eventstream){.why = NULL};
    buf_init(&s->frame, max);
}

void eventstream_fini(struct eventstream *s)
{
    buf_fini(&s->frame);
}

bool eventstream_idle(const struct eventstream *s)
{
    return s->frame.len == 0;
}

/* CRC-32 as gzip has it (polynomial 0xEDB88320), four bits a step. */
static uint32_t crc32_of(struct span s)
{
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                       0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                       0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < s.n; i++) {
        crc ^= (unsigned char)s.p[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static enum err wrong(struct eventstream *s, const char *why)
{
    s->why = why;
    return ERR_PROTO;
}

/* ---- headers ---- */

/* Bytes of a value of `type` at the start of `rest`, its length's own included; SIZE_MAX when there
 * is no such type. */
static size_t value_size(unsigned char type, struct span rest)
{
    /* true, false, byte, short, integer, long, (bytes, string), timestamp, uuid */
    static const unsigned char fixed[] = {0, 0, 1, 2, 4, 8, 0, 0, 8, 16};

    if (type >= sizeof fixed) {
        return SIZE_MAX;
    }
    if (type != 6 && type != 7) {
        return fixed[type];
    }
    if (rest.n < 2) {
        return 2;
    }
    return 2 + ((size_t)(unsigned char)rest.p[0] << 8 | (unsigned char)rest.p[1]);
}

static void keep(struct eventstream_message *m, struct span name, struct span value)
{
    const struct {
        struct span name;
        struct span *value;
    } map[] = {
        {SPAN(":message-type"), &m->message_type},     {SPAN(":event-type"), &m->event_type},
        {SPAN(":exception-type"), &m->exception_type}, {SPAN(":error-code"), &m->error_code},
        {SPAN(":error-message"), &m->error_message},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (span_eq(name, map[i].name)) {
            *map[i].value = value;
        }
    }
}

static enum err read_headers(struct eventstream *s, struct span rest, struct eventstream_message *m)
{
    static const char what[] = "a frame's header is broken";

    while (rest.n > 0) {
        size_t n = (unsigned char)rest.p[0];
        rest = span_after(rest, 1);
        if (n == 0 || rest.n < n + 1) {
            return wrong(s, what);
        }
        struct span name = span_of(rest.p, n);
        unsigned char type = (unsigned char)rest.p[n];
        rest = span_after(rest, n + 1);
        size_t size = value_size(type, rest);
        if (size > rest.n) {
            return wrong(s, size == SIZE_MAX ? "a frame's header is of an unknown type" : what);
        }
        if (type == 7) {
            keep(m, name, span_of(rest.p + 2, size - 2));
        }
        rest = span_after(rest, size);
    }
    return ERR_OK;
}

/* ---- frames ---- */

/* Checks a whole prelude and notes the frame's length in s->need. */
static enum err read_prelude(struct eventstream *s, const char *p)
{
    uint32_t total = read_u32(p);
    uint32_t headers = read_u32(p + 4);

    if (crc32_of(span_of(p, PRELUDE_SIZE - CRC_SIZE)) != read_u32(p + 8)) {
        return wrong(s, "the checksum of a frame's beginning is wrong");
    }
    if (total < FRAME_MIN || headers > total - FRAME_MIN) {
        return wrong(s, "a frame's lengths do not fit");
    }
    if (total > s->frame.max) {
        return ERR_LIMIT;
    }
    s->need = total;
    return ERR_OK;
}

static enum err read_frame(struct eventstream *s, struct span frame, eventstream_fn *fn, void *ctx)
{
    struct eventstream_message m = {.payload = SPAN("")};
    size_t headers = read_u32(frame.p + 4);
    size_t body = frame.n - CRC_SIZE;

    s->need = 0;
    if (crc32_of(span_of(frame.p, body)) != read_u32(frame.p + body)) {
        return wrong(s, "a frame's checksum is wrong");
    }
    enum err err = read_headers(s, span_of(frame.p + PRELUDE_SIZE, headers), &m);
    if (err != ERR_OK) {
        return err;
    }
    m.payload = span_of(frame.p + PRELUDE_SIZE + headers, body - PRELUDE_SIZE - headers);
    return fn(ctx, &m) ? ERR_OK : ERR_CLOSED;
}

/* Moves bytes from `in` to the frame that is kept aside, up to `want` of them in it. */
static enum err collect(struct eventstream *s, struct span *in, size_t want)
{
    size_t n = want - s->frame.len;

    n = n < in->n ? n : in->n;
    buf_put(&s->frame, in->p, n);
    *in = span_after(*in, n);
    return buf_status(&s->frame);
}

/* One step: a prelude, a frame, or what there is of it. */
static enum err step(struct eventstream *s, struct span *in, eventstream_fn *fn, void *ctx)
{
    size_t want = s->need == 0 ? PRELUDE_SIZE : s->need;
    bool aside = s->frame.len > 0 || in->n < want;
    enum err err = aside ? collect(s, in, want) : ERR_OK;

    if (err != ERR_OK || (aside && s->frame.len < want)) {
        return err;
    }
    struct span whole = aside ? buf_span(&s->frame) : span_of(in->p, want);
    if (s->need == 0) {
        return read_prelude(s, whole.p); /* its bytes stay where they are */
    }
    err = read_frame(s, whole, fn, ctx);
    if (aside) {
        buf_clear(&s->frame);
    } else {
        *in = span_after(*in, want);
    }
    return err;
}

enum err eventstream_feed(struct eventstream *s, const char *bytes, size_t n, eventstream_fn *fn,
                          void *ctx)
{
    struct span in = span_of(bytes, n);
    enum err err = ERR_OK;

    while (err == ERR_OK && in.n > 0) {
        err = step(s, &in, fn, ctx);
    }
    return err;
}
