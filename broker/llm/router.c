/*
 * The router: see router.h. A call waits (for AWS's credentials, or for its next try), or has an
 * attempt (attempt.h), or ends: call_end() is the only way out.
 */
#include "llm/router.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "llm/attempt.h"
#include "llm/aws_access.h"
#include "llm/tool_names.h"
#include "net/loop.h"
#include "tactus/protocol.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BODY_MAX  ((size_t)512 * 1024 * 1024)
#define NAMES_MAX ((size_t)4 * 1024 * 1024) /* of a call's tools */

struct router {
    struct loop *loop;
    struct http_client *http;
    struct providers *providers; /* a reference */
    struct aws_access *aws;
    uint64_t random; /* state of xorshift64 */
};

struct llm_call {
    struct router *router;
    struct providers *providers; /* a reference: the one that has the targets */
    struct chat_route route;
    size_t at;         /* of route.targets */
    bool ready;        /* `http` was built for that target */
    unsigned tries;    /* of that target, after the first */
    unsigned switches; /* of its keys */
    struct llm_handler handler;
    void *ctx;
    struct chat_request request; /* its texts are copied when there is more than one target */
    struct arena arena;          /* of the copy, and of the names */
    struct tool_names names;
    struct provider_http http;
    struct provider_key *key; /* of the attempt; NULL: none was sent */
    struct attempt *attempt;
    struct aws_waiter waiter;  /* for AWS credentials */
    struct loop_deadline wait; /* for the next try */
    uint64_t ends_at;          /* loop_now() */
    bool paused;
    /* A model's name and usage wait for the first piece of the reply: until then another target may
     * answer. */
    bool told;
    struct buf model;
    struct chat_usage usage;
    bool has_usage;
};

static enum err go_on(struct llm_call *call, struct failure *failure);

/* ---- the end of a call ---- */

static void call_free(struct llm_call *call)
{
    attempt_cancel(call->attempt);
    aws_waiter_cancel(&call->waiter);
    loop_deadline_clear(call->router->loop, &call->wait);
    provider_http_fini(&call->http);
    buf_fini(&call->model);
    arena_fini(&call->arena);
    providers_unref(call->providers);
    free(call);
}

static void call_end(struct llm_call *call, const struct failure *failure)
{
    struct llm_handler handler = call->handler;
    struct providers *providers = providers_ref(call->providers);
    struct target target = *llm_call_target(call);
    void *ctx = call->ctx;

    call_free(call);
    handler.on_end(ctx, failure, &target);
    providers_unref(providers); /* with the target's names */
}

const struct target *llm_call_target(const struct llm_call *call)
{
    return &call->route.targets[call->at];
}

/* ---- events ---- */

/* Ours from here on: what waited goes first. */
static enum err tell_held(struct llm_call *call)
{
    struct chat_event event = {.kind = CHAT_EVENT_MODEL, .text = buf_span(&call->model)};
    enum err rc = buf_status(&call->model);

    call->told = true;
    if (rc == ERR_OK && event.text.n > 0) {
        rc = call->handler.on_event(call->ctx, &event);
    }
    if (rc == ERR_OK && call->has_usage) {
        event = (struct chat_event){.kind = CHAT_EVENT_USAGE, .usage = call->usage};
        rc = call->handler.on_event(call->ctx, &event);
    }
    return rc;
}

static enum err on_event(void *ctx, const struct chat_event *event)
{
    struct llm_call *call = ctx;
    struct chat_event changed = *event;

    if (!call->told && event->kind == CHAT_EVENT_MODEL) {
        buf_clear(&call->model);
        buf_put_span(&call->model, event->text);
        return buf_status(&call->model);
    }
    if (!call->told && event->kind == CHAT_EVENT_USAGE) {
        call->usage = event->usage;
        call->has_usage = true;
        return ERR_OK;
    }
    enum err rc = call->told ? ERR_OK : tell_held(call);
    if (rc == ERR_OK && event->kind == CHAT_EVENT_TOOL && event->tool.name.n > 0) {
        changed.tool.name = tool_names_original(&call->names, event->tool.name);
    }
    return rc == ERR_OK ? call->handler.on_event(call->ctx, &changed) : rc;
}

/* ---- after a failure ---- */

static const struct routing_config *routing(const struct llm_call *call)
{
    return &call->providers->config->routing;
}

static bool is_type(const struct failure *f, const char *type)
{
    return strcmp(f->type, type) == 0;
}

/* Not the provider's: no other target would do better. */
static bool is_ours(const struct failure *f)
{
    return is_type(f, TACTUS_E_INTERNAL) || is_type(f, TACTUS_E_CANCELLED) ||
           is_type(f, TACTUS_E_SHUTTING_DOWN);
}

static bool counts_for_breaker(const struct failure *f, bool unsent)
{
    return unsent || f->status >= 500 || f->status == 408 ||
           (f->status == 0 && !is_type(f, TACTUS_E_API_AUTHENTICATION) &&
            !is_type(f, TACTUS_E_BAD_REQUEST));
}

static void learn(struct llm_call *call, const struct failure *f, bool unsent)
{
    const struct routing_config *c = routing(call);
    uint64_t now = loop_now(call->router->loop);

    if (is_ours(f)) {
        return;
    }
    if (counts_for_breaker(f, unsent)) {
        breaker_failure(llm_call_target(call)->breaker, now, c->breaker_failures, c->breaker_rest);
    } else if (f->status != 429) {
        breaker_success(llm_call_target(call)->breaker); /* it lives */
    }
    if (llm_call_target(call)->provider->ops->signs && (f->status == 401 || f->status == 403)) {
        aws_access_refused(call->router->aws, llm_call_target(call)->provider->profile);
    }
    if (call->key == NULL) {
        return;
    }
    if (f->status == 401) {
        provider_key_rest(call->key, now + c->key_rest);
    } else if (f->status == 429) {
        double ms = f->retry_after >= 0 ? f->retry_after * 1000 : c->backoff;
        provider_key_rest(call->key, now + (uint64_t)ms);
    }
}

/* Another key of the same provider may do what this one may not. */
static bool other_key(struct llm_call *call, const struct failure *f)
{
    const struct provider *p = llm_call_target(call)->provider;

    if ((f->status != 401 && f->status != 429) || call->switches + 1 >= p->nkeys ||
        !provider_key_awake(p, loop_now(call->router->loop))) {
        return false;
    }
    call->switches++;
    return true;
}

static uint64_t random_below(struct router *r, uint64_t n)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return n == 0 ? 0 : r->random % n;
}

/* True when the same target is worth another try, *ms from now. */
static bool same_again(struct llm_call *call, const struct failure *f, bool unsent, uint64_t *ms)
{
    const struct routing_config *c = routing(call);
    uint64_t most = (uint64_t)c->backoff << call->tries;

    if (!(unsent || f->status == 429 || f->status >= 500) || call->tries >= c->retries ||
        llm_call_target(call)->provider->ops->build == NULL) {
        return false;
    }
    *ms = random_below(call->router, (most < c->max_backoff ? most : c->max_backoff) + 1);
    if (f->retry_after >= 0) {
        if (f->retry_after * 1000 > c->max_retry_after) {
            return false;
        }
        uint64_t floor = (uint64_t)(f->retry_after * 1000);
        *ms = *ms > floor ? *ms : floor;
    }
    if (loop_now(call->router->loop) + *ms >= call->ends_at) {
        return false;
    }
    call->tries++;
    return true;
}

/* Moves to the next target that is not left out. */
static bool next_target(struct llm_call *call)
{
    uint64_t now = loop_now(call->router->loop);

    for (size_t i = call->at + 1; i < call->route.n; i++) {
        if (breaker_pass(call->route.targets[i].breaker, now, routing(call)->breaker_rest)) {
            call->at = i;
            call->ready = false;
            call->tries = 0;
            call->switches = 0;
            return true;
        }
    }
    return false;
}

static bool request_refused(const struct failure *f)
{
    return f->status == 400 || f->status == 413 || f->status == 422;
}

static void log_failure(const struct llm_call *call, const struct failure *f)
{
    const struct target *t = llm_call_target(call);

    log_info("llm", LOG_MSG("provider failed"), LOG_STR("provider", t->provider->name),
             LOG_STR("model", t->model.p), LOG_STR("type", f->type), LOG_STR("why", f->message));
}

static void on_end(void *ctx, const struct failure *failure, bool unsent)
{
    struct llm_call *call = ctx;
    struct failure f;
    uint64_t ms = 0;
    enum err rc = ERR_OK;

    call->attempt = NULL;
    if (failure == NULL) {
        breaker_success(llm_call_target(call)->breaker);
        rc = call->told ? ERR_OK : tell_held(call);
        if (rc != ERR_OK) {
            (void)answer_stop(&f, rc);
        }
        call_end(call, rc == ERR_OK ? NULL : &f);
        return;
    }
    f = *failure;
    log_failure(call, &f);
    learn(call, &f, unsent);
    if (call->told || is_ours(&f) || loop_now(call->router->loop) >= call->ends_at) {
        call_end(call, &f);
        return;
    }
    buf_clear(&call->model);
    call->has_usage = false;
    if (other_key(call, &f)) {
        rc = go_on(call, &f);
    } else if (same_again(call, &f, unsent, &ms)) {
        rc = loop_deadline_set(call->router->loop, &call->wait,
                               loop_now(call->router->loop) + ms + 1);
    } else {
        rc = !request_refused(&f) && next_target(call) ? go_on(call, &f) : ERR_UPSTREAM;
    }
    if (rc != ERR_OK) {
        if (rc != ERR_UPSTREAM) {
            (void)answer_stop(&f, rc);
        }
        call_end(call, &f);
    }
}

/* ---- a try ---- */

static enum err launch(struct llm_call *call, const struct aws_keys *aws, struct failure *failure)
{
    static const struct attempt_handler handler = {.on_event = on_event, .on_end = on_end};
    const struct provider *p = llm_call_target(call)->provider;
    uint64_t now = loop_now(call->router->loop);
    struct provider_auth auth = {.aws = aws, .now_ms = clock_wall_ms()};
    struct attempt_options options = {
        .loop = call->router->loop,
        .client = call->router->http,
        .provider = p,
        .limits = &call->providers->config->limits,
        .request = &call->request,
        .http = &call->http,
        .total_ms = call->ends_at > now ? (uint32_t)(call->ends_at - now) : 1,
    };
    enum err rc = ERR_OK;

    call->key = provider_key_next(p, now);
    if (call->key != NULL) {
        auth.key = call->key->secret;
    }
    if (p->ops->build != NULL) {
        provider_http_strip(&call->http);
        rc = p->ops->authorize(p, &auth, &call->http, failure);
    }
    if (rc == ERR_OK) {
        rc = attempt_start(&options, &handler, call, &call->attempt, failure);
    }
    if (rc == ERR_OK && call->paused) {
        attempt_pause(call->attempt);
    }
    return rc == ERR_PROTO ? ERR_UPSTREAM : rc;
}

static enum err build(struct llm_call *call, struct failure *failure)
{
    const struct target *t = llm_call_target(call);
    enum err rc = ERR_OK;

    if (t->provider->key_missing) {
        failure_init(failure, TACTUS_E_API_AUTHENTICATION, "Provider %s has no key",
                     t->provider->name);
        return ERR_UPSTREAM;
    }
    call->request.model = t->model;
    call->request.names = NULL;
    if (t->provider->ops->build != NULL) {
        provider_http_fini(&call->http);
        provider_http_init(&call->http, BODY_MAX);
        call->request.names = &call->names;
        rc = t->provider->ops->build(t->provider, &call->request, &call->http, failure);
        call->http.plain_headers = call->http.nheaders;
    }
    call->ready = rc == ERR_OK;
    return rc == ERR_PROTO ? ERR_UPSTREAM : rc;
}

static void fail_aws(struct failure *failure, const struct error *e)
{
    failure_init(failure, TACTUS_E_API_AUTHENTICATION, "No AWS credentials: %s", e->msg);
    failure->retryable = FAILURE_NO;
}

static enum err ask_aws(struct llm_call *call, const char *profile, struct failure *failure)
{
    struct error e = {0};
    enum err rc = aws_access_get(call->router->aws, profile, &call->waiter, &e);

    if (rc == ERR_CONFIG) {
        fail_aws(failure, &e);
        return ERR_UPSTREAM;
    }
    return rc;
}

/* Tries the target where the call is, and the next ones as long as they cannot even be asked. */
static enum err go_on(struct llm_call *call, struct failure *failure)
{
    enum err rc = ERR_OK;

    do {
        const struct provider *p = llm_call_target(call)->provider;
        rc = call->ready ? ERR_OK : build(call, failure);
        if (rc == ERR_OK && p->ops->signs) {
            return ask_aws(call, p->profile, failure);
        }
        rc = rc == ERR_OK ? launch(call, NULL, failure) : rc;
    } while (rc == ERR_UPSTREAM && next_target(call));
    return rc;
}

static void end_with(struct llm_call *call, enum err rc, struct failure *failure)
{
    if (rc != ERR_UPSTREAM) {
        (void)answer_stop(failure, rc);
    }
    call_end(call, failure);
}

static void on_wait_over(void *ctx)
{
    struct llm_call *call = ctx;
    struct failure failure;
    enum err rc = go_on(call, &failure);

    if (rc != ERR_OK) {
        end_with(call, rc, &failure);
    }
}

static void on_aws_keys(void *ctx, const struct aws_keys *keys, const struct error *e)
{
    struct llm_call *call = ctx;
    struct failure failure;
    enum err rc = ERR_UPSTREAM;

    if (keys == NULL) {
        fail_aws(&failure, e);
    } else {
        rc = launch(call, keys, &failure);
    }
    if (rc == ERR_UPSTREAM && next_target(call)) {
        rc = go_on(call, &failure);
    }
    if (rc != ERR_OK) {
        end_with(call, rc, &failure);
    }
}

/* ---- calls ---- */

static enum err copy_value(struct llm_call *call, struct json_value *v)
{
    if (v->text.n == 0) {
        return ERR_OK;
    }
    char *copy = arena_dup(&call->arena, v->text);
    v->text.p = copy;
    return copy == NULL ? ERR_NOMEM : ERR_OK;
}

/* For targets that are built later, when the caller's message is gone. */
static enum err copy_request(struct llm_call *call)
{
    enum err rc = copy_value(call, &call->request.messages);

    for (size_t i = 0; i < CHAT_PARAM_COUNT && rc == ERR_OK; i++) {
        rc = copy_value(call, &call->request.params[i]);
    }
    return rc;
}

/* The first target that is not left out; when all are, the first. */
static void first_target(struct llm_call *call)
{
    uint64_t now = loop_now(call->router->loop);

    for (size_t i = 0; i < call->route.n; i++) {
        if (breaker_pass(call->route.targets[i].breaker, now, routing(call)->breaker_rest)) {
            call->at = i;
            return;
        }
    }
}

static bool any_remote(const struct chat_route *route)
{
    bool remote = false;

    for (size_t i = 0; i < route->n && !remote; i++) {
        remote = route->targets[i].provider->ops->build != NULL;
    }
    return remote;
}

/* Reading the names goes through all messages: not for a provider that takes them as they are. */
static enum err prepare(struct llm_call *call, const struct chat_request *request)
{
    call->request = *request;
    enum err rc = call->route.n > 1 ? copy_request(call) : ERR_OK;

    return rc == ERR_OK && any_remote(&call->route)
               ? tool_names_read(&call->request, &call->arena, &call->names)
               : rc;
}

enum err router_start(struct router *r, const struct chat_route *route,
                      const struct chat_request *request, uint32_t total_ms,
                      const struct llm_handler *handler, void *ctx, struct llm_call **out,
                      struct failure *failure)
{
    struct llm_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return ERR_NOMEM;
    }
    call->router = r;
    call->providers = providers_ref(r->providers);
    call->route = *route;
    call->handler = *handler;
    call->ctx = ctx;
    call->ends_at = loop_now(r->loop) + total_ms;
    arena_init(&call->arena, BODY_MAX + NAMES_MAX);
    buf_init(&call->model, (size_t)call->providers->config->limits.max_reply_bytes);
    provider_http_init(&call->http, BODY_MAX);
    loop_deadline_init(&call->wait, on_wait_over, call);
    aws_waiter_init(&call->waiter, on_aws_keys, call);
    first_target(call);
    enum err rc = prepare(call, request);
    rc = rc == ERR_OK ? go_on(call, failure) : rc;
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
    if (call->attempt != NULL) {
        attempt_pause(call->attempt);
    }
}

void llm_call_resume(struct llm_call *call)
{
    call->paused = false;
    if (call->attempt != NULL) {
        attempt_resume(call->attempt);
    }
}

void llm_call_cancel(struct llm_call *call)
{
    if (call != NULL) {
        call_free(call);
    }
}

/* ---- life ---- */

struct router *router_new(struct loop *loop, struct http_client *http, struct providers *providers,
                          const struct aws_environment *aws)
{
    struct router *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    *r = (struct router){.loop = loop, .http = http, .providers = providers_ref(providers)};
    r->aws = aws_access_new(loop, http, aws);
    if (getrandom(&r->random, sizeof(r->random), 0) != (ssize_t)sizeof(r->random) ||
        r->random == 0) {
        r->random = loop_now(loop) | 1;
    }
    if (r->aws == NULL) {
        router_free(r);
        return NULL;
    }
    return r;
}

void router_free(struct router *r)
{
    if (r != NULL) {
        aws_access_free(r->aws);
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
