/*
 * See providers.h. Made from a configuration whose secrets are loaded; the router asks whose turn
 * it is.
 */
#include "llm/providers.h"

#include <stdlib.h>
#include <string.h>

/* ---- the snapshot ---- */

static enum err fill_keys(struct provider *p, const struct provider_config *c)
{
    p->keys = calloc(c->nkeys + 1, sizeof(*p->keys));
    if (p->keys == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->nkeys; i++) {
        if (c->keys[i].bytes != NULL) {
            p->keys[p->nkeys++].secret = secret_span(&c->keys[i]);
        }
    }
    p->key_missing = c->nkeys > 0 && p->nkeys == 0;
    return ERR_OK;
}

static enum err fill_providers(struct providers *p, struct error *e)
{
    const struct config *config = p->config;

    for (size_t i = 0; i < config->nproviders; i++) {
        const struct provider_config *c = &config->providers[i];
        const struct provider_ops *ops = provider_ops_find(c->type);
        if (ops == NULL) {
            return err_set(e, ERR_CONFIG, "provider %s: unknown type %s", c->name, c->type);
        }
        p->items[p->n] = (struct provider){
            .name = c->name,
            .ops = ops,
            .base_url = c->base_url != NULL ? c->base_url : ops->base_url,
            .api_version = c->api_version,
            .region = c->region,
            .profile = c->profile,
            .ca_file = c->ca_file,
            .proxy = c->proxy,
            .stream_usage = c->stream_usage,
            .redact = config->redact,
            .max_reply_bytes = (size_t)config->limits.max_reply_bytes,
            .turn = &p->turns[i],
        };
        if (fill_keys(&p->items[p->n++], c) != ERR_OK) {
            return err_set(e, ERR_NOMEM, "out of memory for the providers");
        }
    }
    return ERR_OK;
}

static enum err fill_aliases(struct providers *p, struct error *e)
{
    const struct config *config = p->config;
    struct breaker *breaker = p->breakers;

    for (size_t i = 0; i < config->nmodels; i++) {
        const struct model_config *m = &config->models[i];
        struct model_alias *a = &p->aliases[p->naliases++];
        a->name = m->name;
        a->targets = calloc(m->ntargets + 1, sizeof(*a->targets));
        if (a->targets == NULL) {
            return err_set(e, ERR_NOMEM, "out of memory for the models");
        }
        for (size_t j = 0; j < m->ntargets; j++) {
            a->targets[a->ntargets++] = (struct target){
                .provider = &p->items[m->targets[j].provider],
                .model = span_str(m->targets[j].model),
                .breaker = m->ntargets > 1 ? breaker++ : NULL,
            };
        }
    }
    return ERR_OK;
}

static size_t count_targets(const struct config *config)
{
    size_t n = 0;

    for (size_t i = 0; i < config->nmodels; i++) {
        n += config->models[i].ntargets;
    }
    return n;
}

enum err providers_new(struct config *config, struct providers **out, struct error *e)
{
    struct providers *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the providers");
    }
    atomic_init(&p->refs, 1);
    p->config = config_ref(config);
    p->items = calloc(config->nproviders + 1, sizeof(*p->items));
    p->turns = calloc(config->nproviders + 1, sizeof(*p->turns));
    p->aliases = calloc(config->nmodels + 1, sizeof(*p->aliases));
    p->breakers = calloc(count_targets(config) + 1, sizeof(*p->breakers));
    enum err rc = ERR_OK;
    if (p->items == NULL || p->turns == NULL || p->aliases == NULL || p->breakers == NULL) {
        rc = err_set(e, ERR_NOMEM, "out of memory for the providers");
    }
    rc = rc != ERR_OK ? rc : fill_providers(p, e);
    rc = rc != ERR_OK ? rc : fill_aliases(p, e);
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
    if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        free(p->items[i].keys);
    }
    for (size_t i = 0; i < p->naliases; i++) {
        free(p->aliases[i].targets);
    }
    config_unref(p->config);
    free(p->items);
    free(p->turns);
    free(p->aliases);
    free(p->breakers);
    free(p);
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

const struct model_alias *providers_alias(const struct providers *p, struct span name)
{
    for (size_t i = 0; i < p->naliases; i++) {
        if (span_eq(span_str(p->aliases[i].name), name)) {
            return &p->aliases[i];
        }
    }
    return NULL;
}

/* ---- keys ---- */

struct provider_key *provider_key_next(const struct provider *p, uint64_t now)
{
    struct provider_key *best = NULL;
    uint64_t least = UINT64_MAX;

    if (p->nkeys == 0) {
        return NULL;
    }
    size_t first = atomic_fetch_add_explicit(p->turn, 1, memory_order_relaxed) % p->nkeys;
    for (size_t i = 0; i < p->nkeys; i++) {
        struct provider_key *key = &p->keys[(first + i) % p->nkeys];
        uint64_t until = atomic_load_explicit(&key->rests_until, memory_order_relaxed);
        if (until <= now) {
            return key;
        }
        if (until < least) {
            least = until;
            best = key;
        }
    }
    return best;
}

bool provider_key_awake(const struct provider *p, uint64_t now)
{
    for (size_t i = 0; i < p->nkeys; i++) {
        if (atomic_load_explicit(&p->keys[i].rests_until, memory_order_relaxed) <= now) {
            return true;
        }
    }
    return false;
}

void provider_key_rest(struct provider_key *key, uint64_t until)
{
    atomic_store_explicit(&key->rests_until, until, memory_order_relaxed);
}

/* ---- breakers ---- */

bool breaker_pass(struct breaker *b, uint64_t now, uint32_t rest_ms)
{
    if (b == NULL) {
        return true;
    }
    uint64_t until = atomic_load_explicit(&b->open_until, memory_order_relaxed);
    if (until == 0) {
        return true;
    }
    /* Who moves the end of its rest is the one that probes. */
    return until <= now &&
           atomic_compare_exchange_strong_explicit(&b->open_until, &until, now + rest_ms + 1,
                                                   memory_order_relaxed, memory_order_relaxed);
}

void breaker_success(struct breaker *b)
{
    if (b != NULL) {
        atomic_store_explicit(&b->failures, 0, memory_order_relaxed);
        atomic_store_explicit(&b->open_until, 0, memory_order_relaxed);
    }
}

void breaker_failure(struct breaker *b, uint64_t now, unsigned most, uint32_t rest_ms)
{
    if (b != NULL && most > 0 &&
        atomic_fetch_add_explicit(&b->failures, 1, memory_order_relaxed) + 1 >= most) {
        atomic_store_explicit(&b->open_until, now + rest_ms + 1, memory_order_relaxed);
    }
}
