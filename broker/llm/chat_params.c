/*
 * Parameters of llm.chat: see chat_params.h. Any key that is not known here is ignored: a caller
 * cannot set a base URL, a header or a key.
 */
#include "llm/chat_params.h"

#include "base/text.h"
#include "tactus/protocol.h"
#include "wire/request.h"

#define DEFAULT_PROVIDER "openai"
#define NAME_MAX_BYTES   1024u /* of a provider's or model's name */

static bool bad(struct failure *f, const char *what)
{
    failure_init(f, TACTUS_E_BAD_REQUEST, "%s", what);
    return false;
}

static bool unsupported(struct failure *f, struct span name)
{
    failure_init(f, TACTUS_E_UNSUPPORTED_PROVIDER, "Unsupported provider: %.*s",
                 (int)text_cut(name.p, name.n, 200), name.p);
    return false;
}

/* Null and "" count as absent. */
static bool absent(struct json_value v)
{
    return v.type == JSON_ABSENT || v.type == JSON_NULL || (v.type == JSON_STRING && v.text.n == 2);
}

/* The decoded text in the request's arena, NUL-terminated; {NULL,0} when it is no name or too long.
 * False when there is no memory for it. */
static bool decode(struct request *r, struct json_value v, struct span *out, struct failure *f)
{
    struct buf b;

    buf_init(&b, NAME_MAX_BYTES);
    json_string_decode(v, &b, NULL);
    bool nomem = buf_status(&b) == ERR_NOMEM;
    if (buf_status(&b) == ERR_OK && b.len > 0 && memchr(b.p, '\0', b.len) == NULL) {
        char *copy = arena_dup(request_arena(r), buf_span(&b));
        *out = span_of(copy, copy == NULL ? 0 : b.len);
        nomem = copy == NULL;
    }
    buf_fini(&b);
    if (nomem) {
        failure_init(f, TACTUS_E_INTERNAL, "out of memory");
    }
    return !nomem;
}

/* An explicit provider; *provider stays NULL when there is none. */
static bool explicit_provider(struct request *r, const struct providers *providers,
                              const struct provider **provider, struct failure *f)
{
    struct json_value v = request_param(r, "provider");
    struct span name = {NULL, 0};

    if (absent(v)) {
        return true;
    }
    if (v.type != JSON_STRING) {
        return bad(f, "params.provider must be a string");
    }
    if (!decode(r, v, &name, f)) {
        return false;
    }
    *provider = providers_find(providers, name);
    return *provider != NULL || unsupported(f, name.p != NULL ? name : span_str("?"));
}

/* No provider was named: the part of the model before its first slash may name one. */
static bool implied_provider(const struct providers *providers, struct span *model,
                             const struct provider **provider, struct failure *f)
{
    const char *slash = memchr(model->p, '/', model->n);

    if (slash != NULL) {
        size_t n = (size_t)(slash - model->p);
        *provider = providers_find(providers, span_of(model->p, n));
        if (*provider != NULL && n + 1 < model->n) {
            *model = span_of(slash + 1, model->n - n - 1);
            return true;
        }
    }
    *provider = providers_find(providers, span_str(DEFAULT_PROVIDER));
    return *provider != NULL || unsupported(f, span_str(DEFAULT_PROVIDER));
}

static bool read_stream(struct request *r, struct chat_request *chat, struct failure *f)
{
    struct json_value v = request_param(r, "stream");

    chat->stream = v.type == JSON_TRUE;
    if (v.type != JSON_TRUE && v.type != JSON_FALSE && v.type != JSON_NULL &&
        v.type != JSON_ABSENT) {
        return bad(f, "params.stream must be a boolean");
    }
    return true;
}

/* The caller may shorten the whole call's time, not lengthen it. */
static bool read_timeout(struct request *r, uint32_t *total_ms, struct failure *f)
{
    struct json_value v = request_param(r, "timeout");
    uint32_t most = request_config(r)->limits.total_timeout;
    double seconds = 0;

    *total_ms = most;
    if (v.type == JSON_ABSENT || v.type == JSON_NULL) {
        return true;
    }
    if (!json_number_double(v, &seconds) || !(seconds > 0)) {
        return bad(f, "params.timeout must be a number of seconds above zero");
    }
    if (seconds * 1000 < (double)most) {
        uint32_t ms = (uint32_t)(seconds * 1000);
        *total_ms = ms > 0 ? ms : 1;
    }
    return true;
}

static bool not_allowed(struct failure *f, struct span model)
{
    failure_init(f, TACTUS_E_MODEL_NOT_ALLOWED, "Model not allowed: %.*s",
                 (int)text_cut(model.p, model.n, 200), model.p);
    return false;
}

/* One target: the provider that was named. `model` is the end of a NUL-terminated text. */
static bool route_direct(struct request *r, const struct provider *provider, struct span model,
                         struct chat_route *route, struct failure *f)
{
    route->targets[0] = (struct target){.provider = provider, .model = model};
    route->n = 1;
    return grant_allows_model(request_grant(r), provider->name, model.p) || not_allowed(f, model);
}

/* Those of a name of ours: all for who may use the name, else those that may be used by theirs. */
static bool route_alias(struct request *r, const struct model_alias *alias,
                        struct chat_route *route, struct failure *f)
{
    const struct grant *g = request_grant(r);
    bool all = grant_allows_name(g, alias->name);

    route->n = 0;
    for (size_t i = 0; i < alias->ntargets && route->n < TARGETS_MAX; i++) {
        const struct target *t = &alias->targets[i];
        if (all || grant_allows_model(g, t->provider->name, t->model.p)) {
            route->targets[route->n++] = *t;
        }
    }
    return route->n > 0 || not_allowed(f, span_str(alias->name));
}

static bool read_model(struct request *r, struct span *model, struct failure *f)
{
    struct json_value v = request_param(r, "model");

    if (v.type != JSON_STRING) {
        return bad(f, "params.model must be a string");
    }
    return decode(r, v, model, f) && (model->n > 0 || bad(f, "params.model must be a string"));
}

bool chat_params_read(struct request *r, const struct providers *providers, struct chat_params *out,
                      struct failure *failure)
{
    struct chat_request *chat = &out->chat;
    const struct provider *provider = NULL;
    const struct model_alias *alias = NULL;
    struct failure no_model;

    /* An unknown provider is told before a bad model, unless the model is a name of ours: then
     * `provider` says nothing. */
    bool has_model = read_model(r, &chat->model, &no_model);
    if (has_model) {
        alias = providers_alias(providers, chat->model);
    }
    if (alias == NULL && !explicit_provider(r, providers, &provider, failure)) {
        return false;
    }
    if (!has_model) {
        *failure = no_model;
        return false;
    }
    if (alias == NULL && provider == NULL &&
        !implied_provider(providers, &chat->model, &provider, failure)) {
        return false;
    }
    chat->messages = request_param(r, "messages");
    if (chat->messages.type != JSON_ARRAY) {
        return bad(failure, "params.messages must be a list");
    }
    if (!read_stream(r, chat, failure) || !read_timeout(r, &out->total_ms, failure)) {
        return false;
    }
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        struct json_value v = request_param(r, chat_param_names[i]);
        chat->params[i] = v.type == JSON_NULL ? (struct json_value){0} : v;
    }
    return alias != NULL ? route_alias(r, alias, &out->route, failure)
                         : route_direct(r, provider, chat->model, &out->route, failure);
}
