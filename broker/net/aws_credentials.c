/*
 * Cache, waiters and the order of sources: see aws_credentials.h. Sources are in _file and _http.
 *
 * All work begins in the task `turn`, never in a caller's function: first those who are ready are
 * called, then, when somebody waits, the kept keys serve him or a fetch begins. A fetch ends in
 * aws_credentials_done, which makes all who wait ready. So keys are only replaced while nobody is
 * being called with them.
 */
#include "net/aws_credentials_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

static void turn(void *ctx);

static int64_t system_now(void *ctx)
{
    (void)ctx;
    return clock_wall_ms();
}

static int64_t now_of(const struct aws_credentials *c)
{
    return c->now(c->now_ctx);
}

static bool usable(const struct aws_keys *keys, int64_t now)
{
    return keys != NULL && (keys->expires_ms == 0 || now < keys->expires_ms);
}

/* ---- life ---- */

static enum err configure(struct aws_credentials *c, const struct aws_credentials_options *o,
                          struct error *e)
{
    const struct aws_keys keys = {o->access_key_id, o->secret, o->session_token, 0};

    if (o->profile != NULL) {
        c->profile = strdup(o->profile);
        if (c->profile == NULL) {
            return err_set(e, ERR_NOMEM, "out of memory for AWS credentials");
        }
    }
    if (keys.access_key_id.n == 0 && keys.secret.n == 0 && keys.session_token.n == 0) {
        return ERR_OK;
    }
    return aws_keys_new(&keys, &c->configured, e);
}

enum err aws_credentials_new(struct aws_credentials **out, struct loop *loop,
                             struct http_client *client, const struct aws_credentials_options *o,
                             struct error *e)
{
    struct aws_credentials *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for AWS credentials");
    }
    c->loop = loop;
    c->client = client;
    c->env = o->environment;
    c->now = o->now != NULL ? o->now : system_now;
    c->now_ctx = o->now_ctx;
    c->container_host = o->container_host != NULL ? o->container_host : "http://169.254.170.2";
    c->connect_ms = o->connect_ms != 0 ? o->connect_ms : 1000;
    c->total_ms = o->total_ms != 0 ? o->total_ms : 2000;
    list_init(&c->waiting);
    list_init(&c->ready);
    loop_task_init(&c->task, turn, c);
    enum err rc = configure(c, o, e);
    if (rc != ERR_OK) {
        aws_credentials_free(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

static void call_all(struct list *waiters, const struct error *why)
{
    for (struct list *node = list_pop(waiters); node != NULL; node = list_pop(waiters)) {
        struct aws_waiter *w = LIST_ENTRY(node, struct aws_waiter, node);
        w->fn(w->ctx, NULL, why);
    }
}

void aws_credentials_free(struct aws_credentials *c)
{
    const struct error closed = {.code = ERR_CLOSED, .msg = "AWS credentials are given up"};

    if (c == NULL) {
        return;
    }
    loop_task_cancel(&c->task);
    aws_exchange_free(c->exchange);
    call_all(&c->ready, &closed);
    call_all(&c->waiting, &closed);
    aws_keys_free(c->keys);
    aws_keys_free(c->configured);
    free(c->profile);
    if (c->delivering) {
        c->gone = true; /* deliver() looks at it once more, and frees it */
        return;
    }
    free(c);
}

/* ---- a fetch ---- */

void aws_credentials_note(struct aws_credentials *c, const char *why)
{
    size_t n = strlen(c->reasons);

    (void)snprintf(c->reasons + n, sizeof(c->reasons) - n, "%s%s", n > 0 ? "; " : "", why);
}

static const char *variable(const struct aws_credentials *c, enum aws_variable v)
{
    return aws_environment_get(c->env, v);
}

static enum err environment_source(struct aws_credentials *c, struct aws_keys **out,
                                   struct error *e)
{
    const struct aws_keys keys = {span_str(variable(c, AWS_ENV_ACCESS_KEY_ID)),
                                  span_str(variable(c, AWS_ENV_SECRET_ACCESS_KEY)),
                                  span_str(variable(c, AWS_ENV_SESSION_TOKEN)), 0};

    if (keys.access_key_id.n > 0 || keys.secret.n > 0) {
        enum err rc = aws_keys_new(&keys, out, e);
        if (rc != ERR_OK && e != NULL) {
            (void)err_wrap(e, "environment");
        }
        return rc;
    }
    if (variable(c, AWS_ENV_WEB_IDENTITY_TOKEN_FILE) != NULL &&
        variable(c, AWS_ENV_ROLE_ARN) != NULL) {
        return err_set(e, ERR_CONFIG,
                       "environment: AWS_WEB_IDENTITY_TOKEN_FILE is set, and roles by web identity "
                       "are not supported");
    }
    return err_set(e, ERR_AGAIN, "environment: AWS_ACCESS_KEY_ID is not set");
}

/* The sources that need no network, in their order. */
static enum err local_sources(struct aws_credentials *c, struct aws_keys **out, struct error *e)
{
    if (c->configured != NULL) {
        return aws_keys_new(c->configured, out, e);
    }
    if (c->profile != NULL) {
        return aws_profile_source(c, out, e);
    }
    enum err rc = environment_source(c, out, e);
    if (rc == ERR_AGAIN) {
        aws_credentials_note(c, e->msg);
        rc = aws_profile_source(c, out, e);
    }
    if (rc == ERR_AGAIN) {
        aws_credentials_note(c, e->msg);
    }
    return rc;
}

static void fetch(struct aws_credentials *c)
{
    struct aws_keys *keys = NULL;
    struct error e = {0};

    c->fetching = true;
    c->reasons[0] = '\0';
    enum err rc = local_sources(c, &keys, &e);
    if (rc == ERR_AGAIN) {
        rc = aws_exchange_begin(c, &e);
        if (rc == ERR_OK) {
            return;
        }
    }
    aws_credentials_done(c, keys, &e);
}

/* The keys that came are the ones to use from now on. */
static void keep(struct aws_credentials *c, struct aws_keys *keys, int64_t now)
{
    aws_keys_free(c->keys);
    c->keys = keys;
    c->renew_at = INT64_MAX;
    if (keys->expires_ms != 0) {
        int64_t early = keys->expires_ms - AWS_CREDENTIALS_EARLY_MS;
        int64_t soon = now + AWS_CREDENTIALS_AGAIN_MS;
        c->renew_at = early > soon ? early : soon;
    }
    c->failure.code = ERR_OK;
}

static void fail(struct aws_credentials *c, const struct error *e, int64_t now)
{
    if (usable(c->keys, now)) {
        c->renew_at = now + AWS_CREDENTIALS_AGAIN_MS;
        c->failure.code = ERR_OK;
        log_warn("aws", LOG_MSG("credentials not renewed, the old ones are still used"),
                 LOG_STR("why", e->msg));
        return;
    }
    (void)err_set(&c->failure, e->code, "no AWS credentials: %s%s%s", c->reasons,
                  c->reasons[0] != '\0' ? "; " : "", e->msg);
}

void aws_credentials_done(struct aws_credentials *c, struct aws_keys *keys, const struct error *e)
{
    int64_t now = now_of(c);

    aws_exchange_free(c->exchange);
    c->exchange = NULL;
    c->fetching = false;
    c->fetched_at = now;
    if (keys != NULL && usable(keys, now)) {
        keep(c, keys, now);
    } else if (keys != NULL) {
        struct error late = {0};
        char at[CLOCK_RFC3339_SIZE];
        clock_rfc3339(keys->expires_ms, at);
        (void)err_set(&late, ERR_UPSTREAM, "what came has expired at %s", at);
        aws_keys_free(keys);
        fail(c, &late, now);
    } else {
        fail(c, e, now);
    }
    list_take(&c->ready, &c->waiting); /* nobody is ready while a fetch goes on */
    loop_defer(c->loop, &c->task);
}

/* ---- waiters ---- */

static bool fresh(const struct aws_credentials *c)
{
    int64_t now = now_of(c);

    return usable(c->keys, now) && now < c->renew_at;
}

/* Calls all who are ready; false: the object is gone. */
static bool deliver(struct aws_credentials *c)
{
    const struct error why = c->failure;

    c->delivering = true;
    for (struct list *node = list_pop(&c->ready); node != NULL; node = list_pop(&c->ready)) {
        struct aws_waiter *w = LIST_ENTRY(node, struct aws_waiter, node);
        w->fn(w->ctx, why.code == ERR_OK ? c->keys : NULL, &why);
        if (c->gone) {
            free(c);
            return false;
        }
    }
    c->delivering = false;
    return true;
}

static void turn(void *ctx)
{
    struct aws_credentials *c = ctx;

    if (!deliver(c) || c->fetching || list_empty(&c->waiting)) {
        return;
    }
    if (!fresh(c)) {
        fetch(c);
        return;
    }
    c->failure.code = ERR_OK;
    list_take(&c->ready, &c->waiting);
    (void)deliver(c);
}

void aws_waiter_init(struct aws_waiter *w,
                     void (*fn)(void *ctx, const struct aws_keys *keys, const struct error *e),
                     void *ctx)
{
    list_init(&w->node);
    w->fn = fn;
    w->ctx = ctx;
}

void aws_credentials_get(struct aws_credentials *c, struct aws_waiter *w)
{
    if (!list_empty(&w->node)) {
        return;
    }
    list_push_back(&c->waiting, &w->node);
    if (!c->fetching) {
        loop_defer(c->loop, &c->task);
    }
}

void aws_waiter_cancel(struct aws_waiter *w)
{
    list_remove(&w->node);
}

void aws_credentials_refused(struct aws_credentials *c)
{
    int64_t now = now_of(c);

    if (c->keys != NULL && now >= c->fetched_at + AWS_CREDENTIALS_AGAIN_MS) {
        c->renew_at = now;
    }
}
