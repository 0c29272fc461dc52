/*
 * Grants: their life, and their allowlists, matched by text_glob. Fails closed: a name that is
 * missing or too long for the buffer is not allowed. Pure; any thread. Called for each request by
 * llm and tools.
 */
#include "gate/grant.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDER_NAME_MAX 128  /* a pattern of it, with its NUL */
#define MODEL_NAME_MAX    1024 /* "provider/model" with its NUL */

static bool any_matches(char *const *patterns, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (text_glob(patterns[i], name)) {
            return true;
        }
    }
    return false;
}

bool grant_allows_model(const struct grant *g, const char *provider, const char *model)
{
    char name[MODEL_NAME_MAX];

    if (provider == NULL || model == NULL) {
        return false;
    }
    int n = snprintf(name, sizeof(name), "%s/%s", provider, model);
    if (n < 0 || (size_t)n >= sizeof(name)) {
        return false;
    }
    return any_matches(g->models, g->nmodels, name);
}

bool grant_allows_name(const struct grant *g, const char *name)
{
    return any_matches(g->models, g->nmodels, name);
}

const char *grant_model_glob(const char *pattern, const char *provider)
{
    const char *slash = strchr(pattern, '/');
    char head[PROVIDER_NAME_MAX];

    if (slash == NULL) {
        return strchr(pattern, '*') != NULL ? pattern : NULL;
    }
    size_t n = (size_t)(slash - pattern);
    if (n >= sizeof(head)) {
        return NULL;
    }
    memcpy(head, pattern, n);
    head[n] = '\0';
    return text_glob(head, provider) ? slash + 1 : NULL;
}

bool grant_allows_tool(const struct grant *g, const char *tool)
{
    return tool != NULL && any_matches(g->tools, g->ntools, tool);
}

static void strings_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i]);
    }
    free(list);
}

struct grant *grant_new(void)
{
    struct grant *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        return NULL;
    }
    atomic_init(&g->refs, 1);
    g->limits.budget_nano = METER_NO_BUDGET;
    g->limits.budget_tokens = METER_NO_BUDGET;
    g->meter = meter_new();
    if (g->meter == NULL) {
        free(g);
        return NULL;
    }
    return g;
}

struct grant *grant_ref(struct grant *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void grant_unref(struct grant *g)
{
    if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    free(g->name);
    free(g->run);
    strings_free(g->models, g->nmodels);
    strings_free(g->tools, g->ntools);
    meter_unref(g->meter);
    free(g->cert_san);
    free(g);
}
