/*
 * The second step of making a snapshot: its secrets. At the start they come from where the file
 * says; at a reload those of the environment, which were overwritten, come from the snapshot
 * before.
 */
#include "gate/config_private.h"

#include "base/redact.h"
#include "gate/grant_table.h"

#include <string.h>

/* ---- all of them, one after the other ---- */

/* The i-th secret of `c`, by kind of owner; NULL at the end. */
static const struct secret *secret_at(const struct config *c, size_t i)
{
    for (size_t p = 0; p < c->nproviders; p++) {
        if (i < c->providers[p].nkeys) {
            return &c->providers[p].keys[i];
        }
        i -= c->providers[p].nkeys;
    }
    if (i < c->ngrants) {
        return &c->tokens[i];
    }
    return i == c->ngrants ? &c->admin.token : NULL;
}

void config_forget_env(const struct config *c)
{
    for (size_t i = 0; secret_at(c, i) != NULL; i++) {
        secret_forget_env(secret_at(c, i));
    }
}

bool config_has_secret(const struct config *c, const unsigned char *sha256)
{
    bool has = false;

    for (size_t i = 0; secret_at(c, i) != NULL && !has; i++) {
        has = secret_has_sha256(secret_at(c, i), sha256);
    }
    for (size_t i = 0; i < c->ngrants && !has; i++) {
        has = c->grants[i]->has_token &&
              memcmp(c->grants[i]->token_sha256, sha256, GRANT_TOKEN_SHA256) == 0;
    }
    return has;
}

/* ---- loading ---- */

static enum err new_variable(const struct secret *s, struct error *e)
{
    return err_set(
        e, ERR_CONFIG,
        "environment variable %s was not read at the start: restart the broker to use it",
        s->source);
}

/* The loaded secret of `c` that comes from where `s` does; NULL: there is none. */
static const struct secret *find_loaded(const struct config *c, const struct secret *s)
{
    for (size_t i = 0; secret_at(c, i) != NULL; i++) {
        const struct secret *old = secret_at(c, i);
        if (old->bytes != NULL && secret_same_source(s, old)) {
            return old;
        }
    }
    return NULL;
}

/* One of the environment was read at the start. */
static enum err load_again(struct secret *s, const struct config *before, struct error *e)
{
    if (before == NULL || s->kind != SECRET_ENV) {
        return secret_load(s, e);
    }
    const struct secret *old = find_loaded(before, s);
    return old != NULL ? secret_copy(s, old) : new_variable(s, e);
}

static enum err remember(struct config *c, const struct secret *s, const char *whose,
                         struct error *e)
{
    enum err err = redact_add(c->redact, secret_span(s));

    if (err == ERR_LIMIT) {
        log_warn("config", LOG_MSG("secret is too short to be redacted"), LOG_STR("of", whose));
        return ERR_OK;
    }
    return err == ERR_OK ? ERR_OK : config_no_memory(e);
}

static enum err load_key(struct config *c, const char *provider, struct secret *key,
                         const struct config *before, bool allow_missing, struct error *e)
{
    struct error why = {.code = ERR_OK};
    enum err err = load_again(key, before, &why);

    if (err == ERR_CONFIG && allow_missing) {
        log_warn("config", LOG_MSG("provider has no key"), LOG_STR("provider", provider),
                 LOG_STR("why", why.msg));
        return ERR_OK;
    }
    if (err != ERR_OK) {
        return err_set(e, err, "provider %s: %s", provider, why.msg);
    }
    return remember(c, key, provider, e);
}

static enum err load_keys(struct config *c, struct provider_config *p, const struct config *before,
                          bool allow_missing, struct error *e)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < p->nkeys && err == ERR_OK; i++) {
        err = load_key(c, p->name, &p->keys[i], before, allow_missing, e);
    }
    return err;
}

static void keep_hash(struct grant *g, const unsigned char *sha256)
{
    memcpy(g->token_sha256, sha256, GRANT_TOKEN_SHA256);
    g->has_token = true;
}

/* Its hash is all that stays. */
static enum err hash_token(const struct secret *source, struct grant *g, struct error *e)
{
    struct secret token = {.kind = SECRET_NONE};
    enum err err = secret_copy(&token, source);

    err = err == ERR_OK ? secret_load(&token, e) : config_no_memory(e);
    if (err == ERR_OK && token.n > GRANT_TOKEN_MAX) {
        err = err_set(e, ERR_CONFIG, "is longer than %u bytes", GRANT_TOKEN_MAX);
    }
    if (err == ERR_OK) {
        keep_hash(g, token.sha256);
    }
    if (err == ERR_OK && token.n < CONFIG_TOKEN_GOOD) {
        log_warn("config", LOG_MSG("token is short: 32 characters or more are hard to guess"),
                 LOG_STR("grant", g->name));
    }
    secret_fini(&token);
    return err;
}

static enum err take_over_token(const struct secret *source, struct grant *g,
                                const struct config *before, struct error *e)
{
    for (size_t i = 0; i < before->ngrants; i++) {
        const struct grant *old = before->grants[i];
        if (old->has_token && secret_same_source(source, &before->tokens[i])) {
            keep_hash(g, old->token_sha256);
            return ERR_OK;
        }
    }
    const struct secret *other = find_loaded(before, source); /* it may have been another's */
    if (other == NULL || other->n > GRANT_TOKEN_MAX) {
        return new_variable(source, e);
    }
    keep_hash(g, other->sha256);
    return ERR_OK;
}

static enum err load_token(struct config *c, size_t i, const struct config *before, struct error *e)
{
    const struct secret *source = &c->tokens[i];
    struct error why = {.code = ERR_OK};

    if (source->kind == SECRET_NONE) {
        return ERR_OK;
    }
    enum err err = before != NULL && source->kind == SECRET_ENV
                       ? take_over_token(source, c->grants[i], before, &why)
                       : hash_token(source, c->grants[i], &why);
    return err == ERR_OK ? ERR_OK
                         : err_set(e, err, "grant %s: token: %s", c->grants[i]->name, why.msg);
}

static enum err load_all(struct config *c, const struct config *before, bool allow_missing,
                         struct error *e)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < c->nproviders && err == ERR_OK; i++) {
        err = load_keys(c, &c->providers[i], before, allow_missing, e);
    }
    for (size_t i = 0; i < c->ngrants && err == ERR_OK; i++) {
        err = load_token(c, i, before, e);
    }
    if (err != ERR_OK || c->admin.token.kind == SECRET_NONE) {
        return err;
    }
    struct error why = {.code = ERR_OK};
    err = load_again(&c->admin.token, before, &why);
    if (err != ERR_OK) {
        return err_set(e, err, "admin.token: %s", why.msg);
    }
    if (c->admin.token.n < CONFIG_TOKEN_GOOD) {
        log_warn("config",
                 LOG_MSG("admin.token is short: 32 characters or more are hard to guess"));
    }
    return remember(c, &c->admin.token, "admin.token", e);
}

enum err config_load_secrets(struct config *c, bool allow_missing, struct error *e)
{
    return load_all(c, NULL, allow_missing, e);
}

enum err config_load_secrets_again(struct config *c, const struct config *before,
                                   bool allow_missing, struct error *e)
{
    enum err err = load_all(c, before, allow_missing, e);

    for (size_t i = 0; err == ERR_OK && secret_at(before, i) != NULL; i++) {
        const struct secret *old = secret_at(before, i);
        if (old->bytes != NULL && redact_add(c->redact, secret_span(old)) == ERR_NOMEM) {
            err = config_no_memory(e);
        }
    }
    for (size_t i = 0; err == ERR_OK && i < c->ngrants; i++) {
        const struct grant *old = config_find_grant(before, c->grants[i]->name);
        if (old != NULL) {
            meter_unref(c->grants[i]->meter);
            c->grants[i]->meter = meter_ref(old->meter);
        }
    }
    return err;
}
