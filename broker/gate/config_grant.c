/*
 * Grants of the configuration: from the file to the snapshot, their tokens, and what they keep over
 * a reload. Used by config.c.
 */
#include "gate/config_private.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Whether a pattern can match a "provider/model" of a configured provider, or a name of ours. */
static bool matches_model(const struct config *c, const char *pattern)
{
    bool matches = false;

    for (size_t i = 0; i < c->nproviders && !matches; i++) {
        matches = grant_model_glob(pattern, c->providers[i].name) != NULL;
    }
    for (size_t i = 0; i < c->nmodels && !matches; i++) {
        matches = text_glob(pattern, c->models[i].name);
    }
    return matches;
}

enum err config_check_globs(const struct config_build *b)
{
    struct grant_file *files = b->file->grants.items;

    for (size_t i = 0; i < b->c->ngrants; i++) {
        const struct grant *g = b->c->grants[i];
        for (size_t j = 0; j < g->nmodels; j++) {
            if (!matches_model(b->c, g->models[j])) {
                return conf_fault(b->doc, &files[i], "models", b->e,
                                  "has \"%.100s\", which matches no model of any provider, "
                                  "expected PROVIDER/MODEL of one in providers, or a name "
                                  "in models",
                                  g->models[j]);
            }
        }
    }
    return ERR_OK;
}

static enum err check_grant(const struct config_build *b, const struct grant_file *f)
{
    if (conf_has(b->doc, f, "client_cert") && f->client_cert.san == NULL) {
        return conf_fault(b->doc, f, "client_cert", b->e,
                          "has no san, expected { san: GLOB } of a name in the certificate");
    }
    return config_find_grant(b->c, f->name) == NULL
               ? ERR_OK
               : conf_fault(b->doc, f, "name", b->e,
                            "is the name of another grant too, expected a new one");
}

/* Moves what the file has of it. */
static void fill(const struct config_build *b, struct grant *g, struct grant_file *f)
{
    g->name = config_steal(&f->name);
    g->models = f->models.items;
    g->nmodels = f->models.n;
    g->tools = f->tools.items;
    g->ntools = f->tools.n;
    f->models = (struct conf_list){NULL, 0};
    f->tools = (struct conf_list){NULL, 0};
    g->cert_san = config_steal(&f->client_cert.san);
    g->limits.rpm = f->rpm;
    g->limits.tpm = f->tpm;
    g->limits.max_inflight = f->max_inflight;
    g->limits.period = (enum meter_period)f->budget_period;
    if (conf_has(b->doc, f, "budget_usd")) {
        g->limits.budget_nano = f->budget_usd;
    }
    if (conf_has(b->doc, f, "budget_tokens")) {
        g->limits.budget_tokens = f->budget_tokens;
    }
}

enum err config_build_grants(struct config_build *b)
{
    struct grant_file *files = b->file->grants.items;
    struct config *c = b->c;

    c->grants = calloc(b->file->grants.n + 1, sizeof(struct grant *));
    c->tokens = calloc(b->file->grants.n + 1, sizeof(*c->tokens));
    if (c->grants == NULL || c->tokens == NULL) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < b->file->grants.n; i++) {
        enum err err = check_grant(b, &files[i]);
        if (err != ERR_OK) {
            return err;
        }
        struct grant *g = grant_new();
        if (g == NULL) {
            return config_no_memory(b->e);
        }
        fill(b, g, &files[i]);
        c->tokens[c->ngrants] = config_secret(&files[i].token);
        c->grants[c->ngrants++] = g;
    }
    return ERR_OK;
}

/* One item, "*". */
static enum err all(char ***list, size_t *n)
{
    *list = calloc(1, sizeof(char *));
    if (*list == NULL) {
        return ERR_NOMEM;
    }
    *n = 1;
    (*list)[0] = strdup("*");
    return (*list)[0] == NULL ? ERR_NOMEM : ERR_OK;
}

enum err config_add_dev_grant(struct config *c, struct error *e)
{
    struct grant *g = grant_new();

    if (g == NULL) {
        return config_no_memory(e);
    }
    c->grants[c->ngrants++] = g;
    g->name = strdup("dev");
    return g->name == NULL || all(&g->models, &g->nmodels) != ERR_OK ||
                   all(&g->tools, &g->ntools) != ERR_OK
               ? config_no_memory(e)
               : ERR_OK;
}

struct grant *config_find_grant(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->ngrants; i++) {
        struct grant *g = c->grants[i];
        if (g != NULL && strcmp(g->name, name) == 0) {
            return g;
        }
    }
    return NULL;
}
