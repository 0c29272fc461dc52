/*
 * The provider type `openai`: OpenAI's chat completions and everything that imitates them. This
 * file has a reader's life: it decides by the head and the first byte what kind of body came, and
 * hands it to openai_read.c or openai_error.c. The router calls it through provider_openai.
 */
#include "llm/openai_private.h"

#include <stdlib.h>
#include <strings.h>

/* True when the media type of a Content-Type value is `type`, whatever parameters follow. */
static bool media_type_is(const char *value, const char *type)
{
    size_t n = strlen(type);

    value += strspn(value, " \t");
    return strncasecmp(value, type, n) == 0 &&
           (value[n] == '\0' || value[n] == ';' || value[n] == ' ' || value[n] == '\t');
}

static void choose_mode(struct provider_reader *r, const struct reader_head *head)
{
    bool coded =
        head->content_encoding[0] != '\0' && strcasecmp(head->content_encoding, "identity") != 0;

    r->mode = OPENAI_SNIFF;
    if (head->status < 200 || head->status > 299) {
        r->mode = OPENAI_ERROR;
    } else if (coded) {
        r->mode = OPENAI_BAD;
        r->why = "The provider's reply is compressed, which was not asked for";
    } else if (media_type_is(head->content_type, "text/html")) {
        r->mode = OPENAI_BAD;
        r->why = "The provider answered with a web page (HTML)";
    }
}

static struct provider_reader *openai_reader_new(const struct provider *p,
                                                 const struct reader_head *head)
{
    struct provider_reader *r = malloc(sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    *r = (struct provider_reader){.provider = p, .status = head->status};
    r->text_plain = media_type_is(head->content_type, "text/plain");
    r->stream_asked = head->stream_asked || media_type_is(head->content_type, "text/event-stream");
    choose_mode(r, head);
    sse_init(&r->sse, p->max_reply_bytes);
    buf_init(&r->body, r->mode == OPENAI_ERROR ? OPENAI_ERROR_BODY_MAX : p->max_reply_bytes);
    buf_init(&r->text, p->max_reply_bytes);
    openai_tools_init(&r->tools, p->max_reply_bytes);
    return r;
}

static void openai_reader_free(struct provider_reader *r)
{
    if (r == NULL) {
        return;
    }
    sse_fini(&r->sse);
    buf_fini(&r->body);
    buf_fini(&r->text);
    openai_tools_fini(&r->tools);
    free(r);
}

static struct span trim(struct span s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.p[0]) != NULL && s.p[0] != '\0') {
        s = span_of(s.p + 1, s.n - 1);
    }
    while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL && s.p[s.n - 1] != '\0') {
        s.n--;
    }
    return s;
}

static bool on_event(void *ctx, struct span event, struct span data)
{
    struct openai_feed *f = ctx;

    data = trim(data);
    if (span_eq(event, SPAN("error"))) {
        openai_error_event(f->r->provider, data, f->failure);
        f->status = READER_FAILED;
    } else if (span_eq(data, SPAN("[DONE]"))) {
        f->status = openai_complete(f);
    } else if (data.n > 0) {
        f->status = openai_chunk(f, data);
    }
    return f->status == READER_MORE;
}

/* Skips white space and a byte-order mark; the first other byte tells JSON from events. */
static size_t sniff(struct provider_reader *r, const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && (strchr(" \t\r\n\xEF\xBB\xBF", bytes[i]) != NULL && bytes[i] != '\0')) {
        i++;
    }
    if (i == n) {
        return n;
    }
    if (bytes[i] == '<') {
        r->mode = OPENAI_BAD;
        r->why = "The provider answered with a web page (HTML)";
    } else if (bytes[i] == '{' || !r->stream_asked) {
        r->mode = OPENAI_PLAIN;
    } else {
        r->mode = OPENAI_STREAM;
    }
    return i;
}

/* Collects an error body; what is over the limit is not needed to tell the error. */
static enum reader_status collect_error(struct openai_feed *f, const char *bytes, size_t n)
{
    struct provider_reader *r = f->r;
    size_t room = OPENAI_ERROR_BODY_MAX - r->body.len;

    buf_put(&r->body, bytes, n < room ? n : room);
    if (n < room && buf_status(&r->body) == ERR_OK) {
        return READER_MORE;
    }
    openai_error_body(r->provider, r->status, r->text_plain, buf_span(&r->body), f->failure);
    return READER_FAILED;
}

static enum reader_status feed_stream(struct openai_feed *f, const char *bytes, size_t n)
{
    enum err err = sse_feed(&f->r->sse, bytes, n, on_event, f);

    if (err != ERR_OK && err != ERR_CLOSED) {
        return provider_stop(f->failure, err);
    }
    return f->status;
}

static enum reader_status openai_reader_feed(struct provider_reader *r, const char *bytes, size_t n,
                                             const struct chat_sink *sink, struct failure *failure)
{
    struct openai_feed f = {.r = r, .sink = sink, .failure = failure, .status = READER_MORE};
    enum err err = ERR_OK;

    if (r->mode == OPENAI_SNIFF) {
        size_t skipped = sniff(r, bytes, n);
        bytes += skipped;
        n -= skipped;
    }
    switch (r->mode) {
    case OPENAI_SNIFF:
        return READER_MORE;
    case OPENAI_STREAM:
        return feed_stream(&f, bytes, n);
    case OPENAI_PLAIN:
        buf_put(&r->body, bytes, n);
        err = buf_status(&r->body);
        return err == ERR_OK ? READER_MORE : provider_stop(failure, err);
    case OPENAI_ERROR:
        return collect_error(&f, bytes, n);
    case OPENAI_BAD:
        break;
    }
    return openai_invalid(&f, r->why);
}

static enum reader_status end_stream(struct openai_feed *f)
{
    enum err err = ERR_OK;

    f->at_end = true;
    err = sse_end(&f->r->sse, on_event, f);
    if (err != ERR_OK && err != ERR_CLOSED) {
        return provider_stop(f->failure, err);
    }
    if (f->status != READER_MORE) {
        return f->status;
    }
    if (f->r->finished) {
        return openai_complete(f);
    }
    return openai_invalid(f, "The provider's stream ended before its end marker");
}

static enum reader_status openai_reader_end(struct provider_reader *r, const struct chat_sink *sink,
                                            struct failure *failure)
{
    struct openai_feed f = {.r = r, .sink = sink, .failure = failure, .status = READER_MORE};

    switch (r->mode) {
    case OPENAI_SNIFF:
        return openai_invalid(&f, "The provider's reply is empty");
    case OPENAI_STREAM:
        return end_stream(&f);
    case OPENAI_PLAIN:
        return openai_body(&f, trim(buf_span(&r->body)));
    case OPENAI_ERROR:
        openai_error_body(r->provider, r->status, r->text_plain, buf_span(&r->body), failure);
        return READER_FAILED;
    case OPENAI_BAD:
        break;
    }
    return openai_invalid(&f, r->why);
}

static bool openai_reader_finished(const struct provider_reader *r)
{
    return r->finished;
}

const struct provider_ops provider_openai = {
    .type = "openai",
    .build = openai_build,
    .reader_new = openai_reader_new,
    .reader_free = openai_reader_free,
    .reader_feed = openai_reader_feed,
    .reader_end = openai_reader_end,
    .reader_finished = openai_reader_finished,
};
