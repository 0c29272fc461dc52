/*
 * See answer.h. The router calls answer_feed and answer_end; which function of the type they lead
 * to depends on the mode alone.
 */
#include "llm/answer.h"

#include "llm/provider.h"
#include "tactus/protocol.h"

#include <string.h>
#include <strings.h>

const struct json_rules answer_rules = {.max_depth = ANSWER_DEPTH_MAX,
                                        .allow_lone_surrogate = true};

/* True when the media type of a Content-Type value is `type`, whatever parameters follow. */
static bool media_type_is(const char *value, const char *type)
{
    size_t n = strlen(type);

    value += strspn(value, " \t");
    return strncasecmp(value, type, n) == 0 &&
           (value[n] == '\0' || value[n] == ';' || value[n] == ' ' || value[n] == '\t');
}

static void choose_mode(struct answer *a, const struct answer_head *head)
{
    bool coded =
        head->content_encoding[0] != '\0' && strcasecmp(head->content_encoding, "identity") != 0;

    a->mode = ANSWER_SNIFF;
    if (head->status < 200 || head->status > 299) {
        a->mode = ANSWER_ERROR;
    } else if (coded) {
        a->mode = ANSWER_BAD;
        a->why = "The provider's reply is compressed, which was not asked for";
    } else if (media_type_is(head->content_type, "text/html")) {
        a->mode = ANSWER_BAD;
        a->why = "The provider answered with a web page (HTML)";
    }
}

void answer_init(struct answer *a, const struct provider *p, const struct answer_ops *ops,
                 const struct answer_head *head)
{
    *a = (struct answer){.provider = p, .ops = ops, .status = head->status};
    a->text_plain = media_type_is(head->content_type, "text/plain");
    a->stream_asked = head->stream_asked || media_type_is(head->content_type, "text/event-stream");
    choose_mode(a, head);
    sse_init(&a->sse, p->max_reply_bytes);
    buf_init(&a->body, a->mode == ANSWER_ERROR ? ANSWER_ERROR_BODY_MAX : p->max_reply_bytes);
    buf_init(&a->text, p->max_reply_bytes);
    buf_init(&a->id, ANSWER_CALL_TEXT_MAX);
    buf_init(&a->name, ANSWER_CALL_TEXT_MAX);
}

void answer_fini(struct answer *a)
{
    sse_fini(&a->sse);
    buf_fini(&a->body);
    buf_fini(&a->text);
    buf_fini(&a->id);
    buf_fini(&a->name);
}

void answer_free(struct answer *a)
{
    if (a != NULL) {
        a->ops->free(a);
    }
}

bool answer_finished(const struct answer *a)
{
    return a->finished;
}

/* ---- failures ---- */

enum answer_status answer_stop(struct failure *failure, enum err err)
{
    switch (err) {
    case ERR_NOMEM:
        failure_init(failure, TACTUS_E_INTERNAL, "out of memory");
        break;
    case ERR_LIMIT:
        failure_init(failure, TACTUS_E_API_RESPONSE,
                     "The provider's reply is larger than the configured maximum");
        failure->retryable = FAILURE_NO;
        break;
    case ERR_CLOSED:
        failure_init(failure, TACTUS_E_CANCELLED, "The request was cancelled");
        break;
    default:
        failure_init(failure, TACTUS_E_INTERNAL, "internal error (%s)", err_name(err));
        break;
    }
    return ANSWER_FAILED;
}

enum answer_status answer_invalid(struct answer_feed *f, const char *what)
{
    failure_init(f->failure, TACTUS_E_API_RESPONSE, "%s", what);
    f->failure->retryable = FAILURE_NO;
    return ANSWER_FAILED;
}

enum answer_status answer_invalid_json(struct answer_feed *f, const char *where,
                                       const struct json_fault *fault)
{
    failure_init(f->failure, TACTUS_E_API_RESPONSE, "%s is not valid JSON: %s at byte %zu", where,
                 fault->what, fault->offset);
    f->failure->retryable = FAILURE_NO;
    return ANSWER_FAILED;
}

enum answer_status answer_failed(struct answer_feed *f)
{
    failure_init(f->failure, TACTUS_E_API_SERVER, "The provider ended its reply with an error");
    f->failure->retryable = FAILURE_YES;
    return ANSWER_FAILED;
}

/* ---- JSON ---- */

/* What a check of it said: true to go on. */
static bool is_valid(struct answer_feed *f, enum err err, const struct json_fault *fault,
                     enum answer_status *status)
{
    bool events = f->answer->mode == ANSWER_EVENTS;

    if (err == ERR_OK) {
        return true;
    }
    if (events && f->at_end) {
        *status = ANSWER_MORE;
    } else if (err == ERR_PROTO) {
        *status = answer_invalid_json(
            f, events ? "A chunk of the provider's stream" : "The provider's reply", fault);
    } else {
        *status = answer_stop(f->failure, err);
    }
    return false;
}

bool answer_value(struct answer_feed *f, struct span text, struct json_value *out,
                  enum answer_status *status)
{
    struct json_fault fault;

    return is_valid(f, json_check_value(text, &answer_rules, out, &fault), &fault, status);
}

bool answer_object(struct answer_feed *f, struct span text, struct json_members *out,
                   enum answer_status *status)
{
    struct json_value all = {.text = text, .type = JSON_OBJECT};
    struct json_fault fault;

    if (!is_valid(f, json_check_object(text, &answer_rules, out, &fault), &fault, status)) {
        return false;
    }
    *status = ANSWER_FAILED;
    return !provider_error_object(f->answer->provider, all, f->failure);
}

/* ---- events ---- */

enum err answer_emit(struct answer_feed *f, const struct chat_event *event)
{
    return f->sink->emit(f->sink->ctx, event);
}

enum err answer_emit_text(struct answer_feed *f, enum chat_event_kind kind)
{
    struct chat_event event = {.kind = kind, .text = buf_span(&f->answer->text)};
    enum err err = buf_status(&f->answer->text);

    return err != ERR_OK || event.text.n == 0 ? err : answer_emit(f, &event);
}

enum err answer_emit_string(struct answer_feed *f, enum chat_event_kind kind, struct json_value v,
                            uint16_t *carry)
{
    if (v.type != JSON_STRING) {
        return ERR_OK;
    }
    buf_clear(&f->answer->text);
    json_string_decode(v, &f->answer->text, carry);
    return answer_emit_text(f, kind);
}

enum err answer_flush_carry(struct answer_feed *f, enum chat_event_kind kind, uint16_t *carry)
{
    if (*carry == 0) {
        return ERR_OK;
    }
    *carry = 0;
    buf_clear(&f->answer->text);
    buf_put_str(&f->answer->text, "\xEF\xBF\xBD");
    return answer_emit_text(f, kind);
}

enum err answer_emit_model(struct answer_feed *f, struct json_value model)
{
    if (f->answer->saw_model || model.type != JSON_STRING || model.text.n == 2) {
        return ERR_OK;
    }
    f->answer->saw_model = true;
    return answer_emit_string(f, CHAT_EVENT_MODEL, model, NULL);
}

enum err answer_emit_signature(struct answer_feed *f, const struct chat_signature *signature)
{
    struct chat_event event = {.kind = CHAT_EVENT_SIGNATURE, .signature = *signature};
    struct span data = signature->data;

    for (size_t i = 0; i < data.n; i++) {
        if ((unsigned char)data.p[i] < 0x20 || (unsigned char)data.p[i] > 0x7E) {
            return ERR_OK;
        }
    }
    return data.n == 0 ? ERR_OK : answer_emit(f, &event);
}

enum err answer_emit_usage(struct answer_feed *f, const struct chat_usage *usage)
{
    struct chat_event event = {.kind = CHAT_EVENT_USAGE, .usage = *usage};

    return usage->prompt_tokens == CHAT_UNKNOWN && usage->completion_tokens == CHAT_UNKNOWN &&
                   usage->total_tokens == CHAT_UNKNOWN
               ? ERR_OK
               : answer_emit(f, &event);
}

enum err answer_read_call(struct answer *a, struct json_value id, struct json_value name)
{
    buf_clear(&a->id);
    buf_clear(&a->name);
    if (id.type == JSON_STRING) {
        json_string_decode(id, &a->id, NULL);
    }
    if (name.type == JSON_STRING) {
        json_string_decode(name, &a->name, NULL);
    }
    return buf_status(&a->id) != ERR_OK ? buf_status(&a->id) : buf_status(&a->name);
}

uint64_t answer_sum(uint64_t a, uint64_t b)
{
    if (a == CHAT_UNKNOWN || b == CHAT_UNKNOWN) {
        return a == CHAT_UNKNOWN ? b : a;
    }
    return a < CHAT_UNKNOWN - b ? a + b : CHAT_UNKNOWN;
}

uint64_t answer_count(struct json_value object, const char *name)
{
    struct json_value v = json_find(object, name);
    uint64_t n = 0;
    double d = 0;

    if (json_number_u64(v, &n)) {
        return n;
    }
    if (json_number_double(v, &d) && d >= 0 && d < 9007199254740992.0) {
        n = (uint64_t)d;
        return (double)n < d || (double)n > d ? CHAT_UNKNOWN : n;
    }
    return CHAT_UNKNOWN;
}

/* ---- bytes ---- */

static struct span trim(struct span s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.p[0]) != NULL && s.p[0] != '\0') {
        s = span_after(s, 1);
    }
    while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL && s.p[s.n - 1] != '\0') {
        s.n--;
    }
    return s;
}

static bool on_event(void *ctx, struct span name, struct span data)
{
    struct answer_feed *f = ctx;

    data = trim(data);
    if (span_eq(name, SPAN("error"))) {
        provider_error_event(f->answer->provider, data, f->failure);
        f->status = ANSWER_FAILED;
    } else if (data.n > 0) {
        f->status = f->answer->ops->event(f, name, data);
    }
    return f->status == ANSWER_MORE;
}

/* Skips white space and a byte-order mark; the first other byte tells JSON from events. Of a stream
 * that is no text the very first byte does: none that is whole begins as JSON or HTML. */
static size_t sniff(struct answer *a, const char *bytes, size_t n)
{
    size_t i = 0;

    if (a->ops->bytes != NULL && a->stream_asked && n > 0 && bytes[0] != '{' && bytes[0] != '<') {
        a->mode = ANSWER_EVENTS;
        return 0;
    }
    while (i < n && (strchr(" \t\r\n\xEF\xBB\xBF", bytes[i]) != NULL && bytes[i] != '\0')) {
        i++;
    }
    if (i == n) {
        return n;
    }
    if (bytes[i] == '<') {
        a->mode = ANSWER_BAD;
        a->why = "The provider answered with a web page (HTML)";
    } else if (bytes[i] == '{' || bytes[i] == '[' || !a->stream_asked) {
        a->mode = ANSWER_PLAIN;
    } else {
        a->mode = ANSWER_EVENTS;
    }
    return i;
}

/* Collects an error body; what is over the limit is not needed to tell the error. */
static enum answer_status collect_error(struct answer_feed *f, const char *bytes, size_t n)
{
    struct answer *a = f->answer;
    size_t room = ANSWER_ERROR_BODY_MAX - a->body.len;

    buf_put(&a->body, bytes, n < room ? n : room);
    if (n < room && buf_status(&a->body) == ERR_OK) {
        return ANSWER_MORE;
    }
    provider_error_body(a->provider, a->status, a->text_plain, buf_span(&a->body), f->failure);
    return ANSWER_FAILED;
}

static enum answer_status feed_events(struct answer_feed *f, const char *bytes, size_t n)
{
    if (f->answer->ops->bytes != NULL) {
        return f->answer->ops->bytes(f, bytes, n);
    }
    enum err err = sse_feed(&f->answer->sse, bytes, n, on_event, f);
    return err != ERR_OK && err != ERR_CLOSED ? answer_stop(f->failure, err) : f->status;
}

enum answer_status answer_feed(struct answer *a, const char *bytes, size_t n,
                               const struct chat_sink *sink, struct failure *failure)
{
    struct answer_feed f = {.answer = a, .sink = sink, .failure = failure, .status = ANSWER_MORE};
    enum err err = ERR_OK;

    if (a->mode == ANSWER_SNIFF) {
        size_t skipped = sniff(a, bytes, n);
        bytes += skipped;
        n -= skipped;
    }
    switch (a->mode) {
    case ANSWER_SNIFF:
        return ANSWER_MORE;
    case ANSWER_EVENTS:
        return feed_events(&f, bytes, n);
    case ANSWER_PLAIN:
        buf_put(&a->body, bytes, n);
        err = buf_status(&a->body);
        return err == ERR_OK ? ANSWER_MORE : answer_stop(failure, err);
    case ANSWER_ERROR:
        return collect_error(&f, bytes, n);
    case ANSWER_BAD:
        break;
    }
    return answer_invalid(&f, a->why);
}

static enum answer_status end_events(struct answer_feed *f)
{
    struct answer *a = f->answer;
    enum err err = a->ops->bytes == NULL ? sse_end(&a->sse, on_event, f) : ERR_OK;

    if (err != ERR_OK && err != ERR_CLOSED) {
        return answer_stop(f->failure, err);
    }
    if (f->status != ANSWER_MORE) {
        return f->status;
    }
    if (a->finished) {
        return a->ops->complete(f);
    }
    return answer_invalid(f, "The provider's stream ended before its end marker");
}

enum answer_status answer_end(struct answer *a, const struct chat_sink *sink,
                              struct failure *failure)
{
    struct answer_feed f = {
        .answer = a, .sink = sink, .failure = failure, .status = ANSWER_MORE, .at_end = true};

    switch (a->mode) {
    case ANSWER_SNIFF:
        return answer_invalid(&f, "The provider's reply is empty");
    case ANSWER_EVENTS:
        return end_events(&f);
    case ANSWER_PLAIN:
        return a->ops->body(&f, trim(buf_span(&a->body)));
    case ANSWER_ERROR:
        provider_error_body(a->provider, a->status, a->text_plain, buf_span(&a->body), failure);
        return ANSWER_FAILED;
    case ANSWER_BAD:
        break;
    }
    return answer_invalid(&f, a->why);
}
