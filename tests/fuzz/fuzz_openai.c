/*
 * The OpenAI reader on any bytes. The first byte chooses: bit 7 stream or plain, bit 6 an error
 * status, the rest the size of the pieces. Whole and in pieces give the same events; what comes
 * out keeps the promises of neutral.h and can be put into a reply.
 */
#include "base/json_span.h"
#include "fixtures/chat_record.h"
#include "llm/reply.h"

#include <stdlib.h>

#define REPLY_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct out {
    struct chat_record record;
    struct reply reply;
};

static enum err emit(void *ctx, const struct chat_event *e)
{
    struct out *o = ctx;
    enum err err = record_emit(&o->record, e);

    if (err == ERR_OK) {
        err = reply_add(&o->reply, e);
    }
    if (err == ERR_BUG || o->record.broken) {
        abort();
    }
    return err;
}

/* Whatever came, `done` and the failure are JSON. */
static void check_json(const struct out *o, const struct failure *f)
{
    static const struct json_rules rules = {.max_depth = 16};
    struct json_value v;
    struct json_fault fault;
    struct buf b;

    buf_init(&b, 1024 * 1024);
    if (f == NULL) {
        reply_put_done(&o->reply, &b);
    } else {
        failure_put_json(f, &b);
    }
    if (buf_status(&b) == ERR_OK && json_check_value(buf_span(&b), &rules, &v, &fault) != ERR_OK) {
        abort();
    }
    buf_fini(&b);
}

static void run(uint8_t choice, const char *bytes, size_t n, size_t step, struct out *o)
{
    static const struct provider provider = {
        .name = "p", .ops = &provider_openai, .max_reply_bytes = REPLY_MAX};
    bool stream = (choice & 0x80) != 0;
    struct reader_head head = {.status = (choice & 0x40) != 0 ? 429 : 200,
                               .content_type = stream ? "text/event-stream" : "application/json",
                               .content_encoding = "",
                               .stream_asked = stream};
    struct chat_sink sink = {.emit = emit, .ctx = o};
    struct failure failure = {.type = "none"};
    enum reader_status status = READER_MORE;

    o->record.n = 0;
    o->record.text[0] = '\0';
    reply_init(&o->reply, REPLY_MAX);
    struct provider_reader *r = provider_openai.reader_new(&provider, &head);
    if (r == NULL) {
        abort();
    }
    for (size_t at = 0; at < n && status == READER_MORE; at += step) {
        status = provider_openai.reader_feed(r, bytes + at, step < n - at ? step : n - at, &sink,
                                             &failure);
    }
    if (status == READER_MORE) {
        status = provider_openai.reader_end(r, &sink, &failure);
    }
    if (status == READER_MORE) {
        abort();
    }
    record_end(&o->record, status, &failure);
    check_json(o, status == READER_FAILED ? &failure : NULL);
    provider_openai.reader_free(r);
    reply_fini(&o->reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct out whole;
    static struct out cut;

    if (size < 1) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    run(data[0], bytes, size - 1, size, &whole);
    run(data[0], bytes, size - 1, (size_t)(data[0] & 0x3F) + 1, &cut);
    if (strcmp(whole.record.text, cut.record.text) != 0) {
        abort();
    }
    return 0;
}
