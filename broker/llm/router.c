/*
 * The router: see router.h. A call has exactly one engine, an HTTP transfer with a reader or a
 * local script; call_end() is the only way out.
 */
#include "llm/router.h"

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
#define BODY_MAX     ((size_t)512 * 1024 * 1024)

struct router {
    struct loop *loop;
    struct http_client *http;
    struct providers *providers; /* a reference */
};

struct llm_call {
    struct router *router;
    struct providers *providers; /* a reference: the one that has `provider` */
    const struct provider *provider;
    struct llm_handler handler;
    void *ctx;
    bool stream;
    bool paused;
    enum err sink_err; /* why the handler took no more */
    /* HTTP */
    struct provider_http request;
    struct http_call *http;
    struct provider_reader *reader;
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

/* ---- providers ---- */

static enum err fill_providers(struct providers *p, struct error *e)
{
    const struct config *config = p->config;

    for (size_t i = 0; i < config->nproviders; i++) {
        const struct provider_config *c = &config->providers[i];
        const struct provider_ops *ops = provider_ops_find(c->type);
        if (ops == NULL) {
            return err_set(e, ERR_CONFIG, "provider %s: unknown type %s", c->name, c->type);
        }
        p->items[p->n++] = (struct provider){
            .name = c->name,
            .ops = ops,
            .base_url = c->base_url,
            .key = secret_span(&c->key),
            .key_missing = c->key.kind != SECRET_NONE && c->key.bytes == NULL,
            .ca_file = c->ca_file,
            .proxy = c->proxy,
            .stream_usage = c->stream_usage,
            .redact = config->redact,
            .max_reply_bytes = (size_t)config->limits.max_reply_bytes,
        };
    }
    return ERR_OK;
}

enum err providers_new(struct config *config, struct providers **out, struct error *e)
{
    struct providers *p = calloc(1, sizeof(*p));
    struct provider *items = calloc(config->nproviders + 1, sizeof(*items));

    if (p == NULL || items == NULL) {
        free(p);
        free(items);
        return err_set(e, ERR_NOMEM, "out of memory for the providers");
    }
    atomic_init(&p->refs, 1);
    p->config = config_ref(config);
    p->items = items;
    enum err rc = fill_providers(p, e);
    if (rc != ERR_OK) {
        providers_unref(p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

struct providers *providers_ref(struct providers *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void providers_unref(struct providers *p)
{
    if (p != NULL && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        config_unref(p->config);
        free(p->items);
        free(p);
    }
}

const struct provider *providers_find(const struct providers *p, struct span name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (span_eq(span_str(p->items[i].name), name)) {
            return &p->items[i];
        }
    }
    return NULL;
}

struct router *router_new(struct loop *loop, struct http_client *http, struct providers *providers)
{
    struct router *r = calloc(1, sizeof(*r));

    if (r != NULL) {
        *r = (struct router){.loop = loop, .http = http, .providers = providers_ref(providers)};
    }
    return r;
}

void router_free(struct router *r)
{
    if (r != NULL) {
        providers_unref(r->providers);
        free(r);
    }
}

void router_use(struct router *r, struct providers *providers)
{
    struct providers *before = r->providers;

    r->providers = providers_ref(providers);
    providers_unref(before);
}

const struct providers *router_providers(const struct router *r)
{
    return r->providers;
}

/* ---- the end of a call ---- */

static void call_free(struct llm_call *call)
{
    loop_task_cancel(&call->step);
    loop_deadline_clear(call->router->loop, &call->total);
    loop_deadline_clear(call->router->loop, &call->pause);
    if (call->reader != NULL) {
        call->provider->ops->reader_free(call->reader);
    }
    if (call->script != NULL) {
        call->provider->ops->script_free(call->script);
    }
    provider_http_fini(&call->request);
    providers_unref(call->providers);
    free(call);
}

static void call_end(struct llm_call *call, struct failure *failure)
{
    struct llm_handler handler = call->handler;
    void *ctx = call->ctx;

    if (failure != NULL) {
        snprintf(failure->provider, sizeof(failure->provider), "%s", call->provider->name);
        snprintf(failure->request_id, sizeof(failure->request_id), "%s", call->request_id);
        if (failure->retry_after < 0) {
            failure->retry_after = call->retry_after;
        }
    }
    call_free(call);
    handler.on_end(ctx, failure);
}

/* The handler refused an event: that is the failure, whatever the reader made of it. */
static void blame_sink(const struct llm_call *call, struct failure *failure)
{
    if (call->sink_err != ERR_OK) {
        (void)provider_stop(failure, call->sink_err);
    }
}

static enum err on_neutral_event(void *ctx, const struct chat_event *event)
{
    struct llm_call *call = ctx;
    enum err rc = call->handler.on_event(call->ctx, event);

    if (rc != ERR_OK) {
        call->sink_err = rc;
    }
    return rc;
}

/* ---- HTTP ---- */

static bool is_success(int status)
{
    return status >= 200 && status <= 299;
}

/* A provider may put anything there, our key too: it is redacted as its messages are. */
static void keep_request_id(struct llm_call *call, const char *id)
{
    struct buf clean;

    buf_init(&clean, 64u * 1024u);
    redact_text(call->provider->redact, span_str(id), true, &clean);
    if (buf_status(&clean) == ERR_OK) {
        size_t n = text_cut(clean.p, clean.len, sizeof(call->request_id) - 1);
        memcpy(call->request_id, buf_cstr(&clean), n);
        call->request_id[n] = '\0';
    }
    buf_fini(&clean);
}

static void on_head(void *ctx, const struct http_head *head)
{
    struct llm_call *call = ctx;
    struct reader_head reader_head = {
        .status = head->status,
        .content_type = head->content_type,
        .content_encoding = head->content_encoding,
        .stream_asked = call->stream,
    };

    call->status = head->status;
    call->retry_after =
        is_success(head->status)
            ? -1
            : failure_retry_after(head->retry_after, head->retry_after_ms, clock_wall_ms());
    keep_request_id(call, head->request_id);
    call->reader = call->provider->ops->reader_new(call->provider, &reader_head);
}

/* True when the call has ended. */
static bool settle(struct llm_call *call, enum reader_status status, struct failure *failure)
{
    if (status == READER_MORE) {
        return false;
    }
    if (status == READER_COMPLETE) {
        http_call_release(call->http, RELEASE_GRACE_MS);
        call->http = NULL;
        call_end(call, NULL);
        return true;
    }
    blame_sink(call, failure);
    if (is_success(call->status)) {
        http_call_cancel(call->http);
    } else {
        http_call_release(call->http, RELEASE_GRACE_MS); /* the rest of an error body */
    }
    call->http = NULL;
    call_end(call, failure);
    return true;
}

static void fail_nomem(struct llm_call *call)
{
    struct failure failure;

    (void)provider_stop(&failure, ERR_NOMEM);
    http_call_cancel(call->http);
    call->http = NULL;
    call_end(call, &failure);
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct llm_call *call = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = call};

    if (call->reader == NULL) {
        fail_nomem(call);
        return;
    }
    enum reader_status rc = call->provider->ops->reader_feed(call->reader, p, n, &sink, &failure);
    if (settle(call, rc, &failure)) {
        return;
    }
    if (call->pause.at == 0 && call->provider->ops->reader_finished(call->reader) &&
        loop_deadline_set(call->router->loop, &call->pause,
                          loop_now(call->router->loop) + FINISH_GRACE_MS) != ERR_OK) {
        fail_nomem(call);
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
static bool reader_decides(const struct llm_call *call, enum http_outcome outcome)
{
    if (call->reader == NULL) {
        return false;
    }
    return outcome == HTTP_OK || !is_success(call->status) ||
           call->provider->ops->reader_finished(call->reader);
}

static void on_http_end(void *ctx, const struct http_end *end)
{
    struct llm_call *call = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = call};

    call->http = NULL;
    if (reader_decides(call, end->outcome)) {
        enum reader_status rc = call->provider->ops->reader_end(call->reader, &sink, &failure);
        blame_sink(call, &failure);
        call_end(call, rc == READER_COMPLETE && call->sink_err == ERR_OK ? NULL : &failure);
        return;
    }
    if (end->outcome == HTTP_NOMEM || end->outcome == HTTP_OK) {
        (void)provider_stop(&failure, ERR_NOMEM);
    } else {
        struct outcome_text text = outcome_text(end->outcome);
        failure_init(&failure, text.type, "%s", "");
        failure_set_message(&failure, call->provider->redact, span_str(end->detail));
        failure.retryable = text.retryable;
    }
    log_info("llm", LOG_MSG("provider failed"), LOG_STR("provider", call->provider->name),
             LOG_STR("type", failure.type), LOG_STR("why", failure.message));
    call_end(call, &failure);
}

/* After the finish reason nothing came for a while: the reply is whole. */
static void on_finish_grace(struct llm_call *call)
{
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = call};
    enum reader_status rc = call->provider->ops->reader_end(call->reader, &sink, &failure);

    http_call_cancel(call->http);
    call->http = NULL;
    blame_sink(call, &failure);
    call_end(call, rc == READER_COMPLETE && call->sink_err == ERR_OK ? NULL : &failure);
}

static enum err start_http(struct llm_call *call, const struct chat_request *request,
                           uint32_t total_ms, struct failure *failure)
{
    static const struct http_handler handler = {
        .on_head = on_head, .on_bytes = on_bytes, .on_end = on_http_end};
    const struct provider *p = call->provider;
    const struct limits *l = &call->providers->config->limits;
    struct http_header headers[PROVIDER_HEADERS_MAX];
    struct error e = {0};

    enum err rc = p->ops->build(p, request, &call->request, failure);
    if (rc != ERR_OK) {
        return rc == ERR_PROTO ? ERR_UPSTREAM : rc;
    }
    for (size_t i = 0; i < call->request.nheaders; i++) {
        headers[i].name = span_str(call->request.header_name[i]);
        headers[i].value = buf_span(&call->request.header_text[i]);
    }
    struct http_request http = {
        .method = "POST",
        .url = buf_cstr(&call->request.url),
        .headers = headers,
        .nheaders = call->request.nheaders,
        .body = buf_span(&call->request.body),
        .ca_file = p->ca_file,
        .proxy = p->proxy,
        .connect_ms = l->connect_timeout,
        .first_byte_ms = l->provider_first_byte_timeout,
        .stall_ms = l->stall_timeout,
        .total_ms = total_ms,
    };
    rc = http_client_start(call->router->http, &http, &handler, call, &call->http, &e);
    if (rc == ERR_CONFIG || rc == ERR_CLOSED) {
        failure_init(failure, TACTUS_E_API_CONNECTION, "%s", e.msg);
        return ERR_UPSTREAM;
    }
    return rc;
}

/* ---- local scripts ---- */

static void on_total(void *ctx)
{
    struct llm_call *call = ctx;
    struct failure failure;

    failure_init(&failure, TACTUS_E_API_TIMEOUT, "the whole call took too long");
    failure.retryable = FAILURE_YES;
    call_end(call, &failure);
}

static void on_step(void *ctx)
{
    struct llm_call *call = ctx;
    struct failure failure;
    const struct chat_sink sink = {.emit = on_neutral_event, .ctx = call};
    const struct provider_ops *ops = call->provider->ops;

    for (int i = 0; i < STEPS_A_TURN && !call->paused; i++) {
        enum reader_status rc = ops->script_step(call->script, &sink, &failure);
        if (rc == READER_COMPLETE) {
            call_end(call, NULL);
            return;
        }
        if (rc == READER_FAILED) {
            blame_sink(call, &failure);
            call_end(call, &failure);
            return;
        }
        uint32_t delay = ops->script_delay(call->script);
        if (delay > 0) {
            if (loop_deadline_set(call->router->loop, &call->pause,
                                  loop_now(call->router->loop) + delay) != ERR_OK) {
                fail_nomem(call);
            }
            return;
        }
    }
    if (!call->paused) {
        loop_defer(call->router->loop, &call->step);
    }
}

static void on_pause_over(void *ctx)
{
    struct llm_call *call = ctx;

    if (call->script == NULL) {
        on_finish_grace(call);
    } else if (!call->paused) {
        on_step(call);
    }
}

static enum err start_script(struct llm_call *call, const struct chat_request *request,
                             uint32_t total_ms)
{
    struct loop *loop = call->router->loop;

    call->script = call->provider->ops->script_new(call->provider, request);
    if (call->script == NULL) {
        return ERR_NOMEM;
    }
    uint64_t now = loop_now(loop);
    enum err rc = loop_deadline_set(loop, &call->total, now + total_ms);
    if (rc != ERR_OK) {
        return rc;
    }
    uint32_t delay = call->provider->ops->script_delay(call->script);
    if (delay > 0) {
        return loop_deadline_set(loop, &call->pause, now + delay);
    }
    loop_defer(loop, &call->step);
    return ERR_OK;
}

/* ---- calls ---- */

enum err router_start(struct router *r, const struct provider *provider,
                      const struct chat_request *request, uint32_t total_ms,
                      const struct llm_handler *handler, void *ctx, struct llm_call **out,
                      struct failure *failure)
{
    if (provider->key_missing) {
        failure_init(failure, TACTUS_E_API_AUTHENTICATION, "Provider %s has no key",
                     provider->name);
        return ERR_UPSTREAM;
    }
    struct llm_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return ERR_NOMEM;
    }
    call->router = r;
    call->providers = providers_ref(r->providers);
    call->provider = provider;
    call->handler = *handler;
    call->ctx = ctx;
    call->stream = request->stream;
    call->retry_after = -1;
    provider_http_init(&call->request, BODY_MAX);
    loop_task_init(&call->step, on_step, call);
    loop_deadline_init(&call->total, on_total, call);
    loop_deadline_init(&call->pause, on_pause_over, call);
    enum err rc = provider->ops->build != NULL ? start_http(call, request, total_ms, failure)
                                               : start_script(call, request, total_ms);
    if (rc != ERR_OK) {
        call_free(call);
        return rc;
    }
    *out = call;
    return ERR_OK;
}

void llm_call_pause(struct llm_call *call)
{
    call->paused = true;
    if (call->http != NULL) {
        http_call_pause(call->http);
    }
}

void llm_call_resume(struct llm_call *call)
{
    if (!call->paused) {
        return;
    }
    call->paused = false;
    if (call->http != NULL) {
        http_call_resume(call->http);
    } else if (call->pause.at == 0) {
        loop_defer(call->router->loop, &call->step);
    }
}

void llm_call_cancel(struct llm_call *call)
{
    if (call == NULL) {
        return;
    }
    http_call_cancel(call->http);
    call_free(call);
}
