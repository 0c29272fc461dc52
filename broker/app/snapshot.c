/* Snapshots; see snapshot.h. Made on loop 0, at the start and at each reload. */
#include "app/snapshot.h"

#include <stdlib.h>

const struct listener_config *snapshot_runs_listener(const struct snapshot *s)
{
    for (size_t i = 0; i < s->config->nlisteners; i++) {
        if (s->config->listeners[i].kind == LISTENER_TLS) {
            return &s->config->listeners[i];
        }
    }
    return NULL;
}

static enum err make_tls(struct snapshot *s, struct error *e)
{
    const struct config *c = s->config;
    const struct listener_config *lender = snapshot_runs_listener(s);

    for (size_t i = 0; i < c->nlisteners; i++) {
        const struct listener_config *l = &c->listeners[i];
        enum err rc = l->kind != LISTENER_TLS
                          ? ERR_OK
                          : tls_server_new(l->cert_file, l->key_file, l->client_ca, &s->tls[i], e);
        if (rc != ERR_OK) {
            return err_wrap(e, "%s", l->url);
        }
    }
    return lender == NULL ? ERR_OK
                          : tls_server_new(lender->cert_file, lender->key_file, NULL,
                                           &s->tls[c->nlisteners], e);
}

enum err snapshot_new(struct config *config, struct snapshot **out, struct error *e)
{
    struct snapshot *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    atomic_init(&s->refs, 1);
    s->config = config_ref(config);
    s->tls = calloc(config->nlisteners + 1, sizeof(SSL_CTX *));
    enum err rc = s->tls == NULL ? err_set(e, ERR_NOMEM, "out of memory for the listeners")
                                 : providers_new(config, &s->providers, e);
    if (rc == ERR_OK) {
        rc = make_tls(s, e);
    }
    if (rc != ERR_OK) {
        snapshot_unref(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void snapshot_unref(struct snapshot *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; s->tls != NULL && i <= s->config->nlisteners; i++) {
        tls_server_free(s->tls[i]);
    }
    free(s->tls);
    providers_unref(s->providers);
    config_unref(s->config);
    free(s);
}
