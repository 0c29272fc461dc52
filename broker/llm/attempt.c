/*
 * See attempt.h. An attempt has exactly one engine, an HTTP transfer with an answer or a local
 * script; attempt_end() is the only way out.
 */
#include "llm/attempt.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/text.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "tactus/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINISH_GRACE_MS 2000u /* after a finish reason: for a provider that does not end */
#define RELEASE_GRACE_MS                                                                           \
    250u                /* after an end marker: for the body's end, to keep the connection         \
                         */
#define STEPS_A_TURN 64 /* of a local script, then others have their turn */

struct attempt {
    struct loop *loop;
    const struct provider *provider;
    struct attempt_handler handler;
    void *ctx;
    bool stream;
    bool paused;
    bool unsent;       /* no connection came about */
    enum err sink_err; /* why the handler took no more */
    /* HTTP */
    struct http_call *http;
    struct answer *answer;
    int status;
    double retry_after;
    char request_id[128];
    /* local */
    struct provider_script *script;
    struct loop_task step;
    struct loop_deadline total;
    /* local: before the next step; HTTP: after the finish reason */
    struct loop_deadline pause;
};

/* ---- the end ---- */

static void attempt_free(struct attempt *a)
{
    loop_task_cancel(&a->step);
    loop_deadline_clear(a->loop, &a->total);
    loop_deadline_clear(a->loop, &a->pause);
    if (a->answer != NULL) {
        answer_free(a->answer);
    }
    if (a->script != NULL) {
        a->provider->ops->script_free(a->script);
    }
    free(a);
}

static void attempt_end(struct attempt *a, struct failure *failure)
{
    struct attempt_handler handler = a->handler;
    void *ctx = a->ctx;
    bool unsent = a->unsent;

    if (failure != NULL) {
        snprintf(failure->provider, sizeof(failure->provider), "%s", a->provider->name);
        snprintf(failure->request_id, sizeof(failure->request_id), "%s", a->request_id);
        if (failure->retry_after < 0) {
            failure->retry_after = a->retry_after;
        }
    }
    attempt_free(a);
    handler.on_end(ctx, failure, unsent);
}

/* The handler refused an event: that is the failure, whatever the answer made of it. */
static void blame_sink(const struct attempt *a, struct failure *failure)
{
    if (a->sink_err != ERR_OK) {
        (void)answer_stop(failure, a->sink_err);
    }
}

static enum err on_neutral_event(void *ctx, const struct chat_event *event)
{
    struct attempt *a = ctx;
    enum err rc = a->handler.on_event(a->ctx, event);

    if (rc != ERR_OK) {
        a->sink_err = rc;
    }
    return rc;
}

/* ---- HTTP ---- */

static bool is_success(int status)
{
    return status >= 200 && status <= 299;
}

/* A provider may put anything there, our key too: it is redacted as its messages are. */
static void keep_request_id(struct attempt *a, const char *id)
{
    struct buf clean;

    buf_init(&clean, 64u * 1024u);
    redact_text(a->provider->redact, span_str(id), true, &clean);
    if (buf_status(&clean) == ERR_OK) {
        size_t n = text_cut(clean.p, clean.len, sizeof(a->request_id) - 1);
        memcpy(a->request_id, buf_cstr(&clean), n);
        a->request_id[n] = '\0';
    }
    buf_fini(&clean);
}

static void on_head(void *ctx, const struct http_head *head)
{
    struct attempt *a = ctx;
    struct answer_head answer_head = {
        .status = head->status,
        .content_type = head->content_type,
        .content_encoding = head->content_encoding,
        .stream_asked = a->stream,
    };

    a->status = head->status;
    a->retry_after =
        is_success(head->status)
            ? -1
            : failure_retry_after(head->retry_after, head->retry_after_ms, clock_wall_ms());
    keep_request_id(a, head->request_id);
    a->answer = a->provider->ops->answer_new(a->provider, &answer_head);
}

/* True when the attempt has ended. */
static bool settle(struct attempt *a, enum answer_status status, struct failure *failure)
{
    if (status == ANSWER_MORE) {
        return false;
    }
    if (status == ANSWER_COMPLETE) {
        http_call_release(a->http, RELEASE_GRACE_MS);
        a->http = NULL;
        attempt_end(a, NULL);
        return true;
    }
    blame_sink(a, failure);
    if (is_success(a->status)) {
        http_call_cancel(a->http);
    } else {
        http_call_release(a->http, RELEASE_GRACE_MS); /* the rest of an error body */
    }
    a->http = NULL;
    attempt_end(a, failure);
    return true;
}

static void fail_nomem(struct attempt *a)
{
    struct failure failure;

    (void)answer_stop(&failure, ERR_NOMEM);
    http_call_cancel(a->http);
    a->http = NULL;
    attempt_end(a, &failure);
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct attempt *a = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = a};

    if (a->answer == NULL) {
        fail_nomem(a);
        return;
    }
    enum answer_status rc = answer_feed(a->answer, p, n, &sink, &failure);
    if (settle(a, rc, &failure)) {
        return;
    }
    if (a->pause.at == 0 && answer_finished(a->answer) &&
        loop_deadline_set(a->loop, &a->pause, loop_now(a->loop) + FINISH_GRACE_MS) != ERR_OK) {
        fail_nomem(a);
    }
}

struct outcome_text {
    const char *type;
    enum failure_flag retryable;
};

static struct outcome_text outcome_text(enum http_outcome outcome)
{
    switch (outcome) {
    case HTTP_CONNECT_FAILED:
    case HTTP_RESET:
        return (struct outcome_text){TACTUS_E_API_CONNECTION, FAILURE_YES};
    case HTTP_TLS_FAILED:
        return (struct outcome_text){TACTUS_E_API_CONNECTION, FAILURE_NO};
    case HTTP_TIMEOUT_CONNECT:
    case HTTP_TIMEOUT_FIRST_BYTE:
    case HTTP_TIMEOUT_STALL:
    case HTTP_TIMEOUT_TOTAL:
        return (struct outcome_text){TACTUS_E_API_TIMEOUT, FAILURE_YES};
    case HTTP_STOPPED:
        return (struct outcome_text){TACTUS_E_SHUTTING_DOWN, FAILURE_UNSAID};
    case HTTP_NOMEM:
        return (struct outcome_text){TACTUS_E_INTERNAL, FAILURE_UNSAID};
    case HTTP_TRUNCATED:
        return (struct outcome_text){TACTUS_E_API_RESPONSE, FAILURE_YES};
    case HTTP_BAD_RESPONSE:
    case HTTP_OK:
        break;
    }
    return (struct outcome_text){TACTUS_E_API_RESPONSE, FAILURE_NO};
}

/* A body that broke off still counts when its reply was whole, or when it is an error's text. */
static bool answer_decides(const struct attempt *a, enum http_outcome outcome)
{
    if (a->answer == NULL) {
        return false;
    }
    return outcome == HTTP_OK || !is_success(a->status) || answer_finished(a->answer);
}

static void on_http_end(void *ctx, const struct http_end *end)
{
    struct attempt *a = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = a};

    a->http = NULL;
    a->unsent = end->outcome == HTTP_CONNECT_FAILED || end->outcome == HTTP_TIMEOUT_CONNECT ||
                (end->outcome == HTTP_RESET && a->status == 0);
    if (answer_decides(a, end->outcome)) {
        enum answer_status rc = answer_end(a->answer, &sink, &failure);
        blame_sink(a, &failure);
        attempt_end(a, rc == ANSWER_COMPLETE && a->sink_err == ERR_OK ? NULL : &failure);
        return;
    }
    if (end->outcome == HTTP_NOMEM || end->outcome == HTTP_OK) {
        (void)answer_stop(&failure, ERR_NOMEM);
    } else {
        struct outcome_text text = outcome_text(end->outcome);
        failure_init(&failure, text.type, "%s", "");
        failure_set_message(&failure, a->provider->redact, span_str(end->detail));
        failure.retryable = text.retryable;
    }
    log_info("llm", LOG_MSG("provider failed"), LOG_STR("provider", a->provider->name),
             LOG_STR("type", failure.type), LOG_STR("why", failure.message));
    attempt_end(a, &failure);
}

/* After the finish reason nothing came for a while: the reply is whole. */
static void on_finish_grace(struct attempt *a)
{
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = a};
    enum answer_status rc = answer_end(a->answer, &sink, &failure);

    http_call_cancel(a->http);
    a->http = NULL;
    blame_sink(a, &failure);
    attempt_end(a, rc == ANSWER_COMPLETE && a->sink_err == ERR_OK ? NULL : &failure);
}

static enum err start_http(struct attempt *a, const struct attempt_options *o,
                           struct failure *failure)
{
    static const struct http_handler handler = {
        .on_head = on_head, .on_bytes = on_bytes, .on_end = on_http_end};
    struct http_header headers[PROVIDER_HEADERS_MAX];
    struct error e = {0};

    for (size_t i = 0; i < o->http->nheaders; i++) {
        headers[i].name = span_str(o->http->header_name[i]);
        headers[i].value = buf_span(&o->http->header_text[i]);
    }
    struct http_request http = {
        .method = "POST",
        .url = buf_cstr(&o->http->url),
        .headers = headers,
        .nheaders = o->http->nheaders,
        .body = buf_span(&o->http->body),
        .ca_file = o->provider->ca_file,
        .proxy = o->provider->proxy,
        .connect_ms = o->limits->connect_timeout,
        .first_byte_ms = o->limits->provider_first_byte_timeout,
        .stall_ms = o->limits->stall_timeout,
        .total_ms = o->total_ms,
    };
    enum err rc = http_client_start(o->client, &http, &handler, a, &a->http, &e);
    if (rc == ERR_CONFIG || rc == ERR_CLOSED) {
        failure_init(failure, TACTUS_E_API_CONNECTION, "%s", e.msg);
        return ERR_UPSTREAM;
    }
    return rc;
}

/* ---- local scripts ---- */

static void on_total(void *ctx)
{
    struct attempt *a = ctx;
    struct failure failure;

    failure_init(&failure, TACTUS_E_API_TIMEOUT, "the whole call took too long");
    failure.retryable = FAILURE_YES;
    attempt_end(a, &failure);
}

static void on_step(void *ctx)
{
    struct attempt *a = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = a};
    const struct provider_ops *ops = a->provider->ops;

    for (int i = 0; i < STEPS_A_TURN && !a->paused; i++) {
        enum answer_status rc = ops->script_step(a->script, &sink, &failure);
        if (rc == ANSWER_COMPLETE) {
            attempt_end(a, NULL);
            return;
        }
        if (rc == ANSWER_FAILED) {
            blame_sink(a, &failure);
            attempt_end(a, &failure);
            return;
        }
        uint32_t delay = ops->script_delay(a->script);
        if (delay > 0) {
            if (loop_deadline_set(a->loop, &a->pause, loop_now(a->loop) + delay) != ERR_OK) {
                fail_nomem(a);
            }
            return;
        }
    }
    if (!a->paused) {
        loop_defer(a->loop, &a->step);
    }
}

static void on_pause_over(void *ctx)
{
    struct attempt *a = ctx;

    if (a->script == NULL) {
        on_finish_grace(a);
    } else if (!a->paused) {
        on_step(a);
    }
}

static enum err start_script(struct attempt *a, const struct attempt_options *o)
{
    struct loop *loop = a->loop;

    a->script = a->provider->ops->script_new(a->provider, o->request);
    if (a->script == NULL) {
        return ERR_NOMEM;
    }
    uint64_t now = loop_now(loop);
    enum err rc = loop_deadline_set(loop, &a->total, now + o->total_ms);
    if (rc != ERR_OK) {
        return rc;
    }
    uint32_t delay = a->provider->ops->script_delay(a->script);
    if (delay > 0) {
        return loop_deadline_set(loop, &a->pause, now + delay);
    }
    loop_defer(loop, &a->step);
    return ERR_OK;
}

/* ---- life ---- */

enum err attempt_start(const struct attempt_options *o, const struct attempt_handler *handler,
                       void *ctx, struct attempt **out, struct failure *failure)
{
    struct attempt *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return ERR_NOMEM;
    }
    a->loop = o->loop;
    a->provider = o->provider;
    a->handler = *handler;
    a->ctx = ctx;
    a->stream = o->request->stream;
    a->retry_after = -1;
    loop_task_init(&a->step, on_step, a);
    loop_deadline_init(&a->total, on_total, a);
    loop_deadline_init(&a->pause, on_pause_over, a);
    enum err rc = o->provider->ops->build != NULL ? start_http(a, o, failure) : start_script(a, o);
    if (rc != ERR_OK) {
        attempt_free(a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

void attempt_pause(struct attempt *a)
{
    a->paused = true;
    if (a->http != NULL) {
        http_call_pause(a->http);
    }
}

void attempt_resume(struct attempt *a)
{
    if (!a->paused) {
        return;
    }
    a->paused = false;
    if (a->http != NULL) {
        http_call_resume(a->http);
    } else if (a->pause.at == 0) {
        loop_defer(a->loop, &a->step);
    }
}

void attempt_cancel(struct attempt *a)
{
    if (a == NULL) {
        return;
    }
    http_call_cancel(a->http);
    attempt_free(a);
}
