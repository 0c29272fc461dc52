/*
 * Providers and names for models: from the file to the snapshot. Used by config.c.
 */
#include "gate/config_private.h"

#include <stdlib.h>
#include <string.h>

#define AZURE_API_VERSION "2024-10-21"

#define TYPE(t)    (1u << (t))
#define ANY_REMOTE (~TYPE(CONFIG_TYPE_BUILTIN))

/* What belongs to some types only. */
static enum err check_keys(const struct config_build *b, const struct provider_file *f)
{
    static const struct {
        const char *key;
        unsigned types;
        const char *expected;
    } rules[] = {
        {"base_url", ANY_REMOTE, "expected it only with a type that has a network"},
        {"keys", ANY_REMOTE & ~TYPE(CONFIG_TYPE_BEDROCK),
         "expected none: builtin wants none, and bedrock has AWS's chain of credentials"},
        {"ca_file", ANY_REMOTE, "expected it only with a type that has a network"},
        {"proxy", ANY_REMOTE, "expected it only with a type that has a network"},
        {"stream_usage", TYPE(CONFIG_TYPE_OPENAI), "expected it only with type openai"},
        {"api_version", TYPE(CONFIG_TYPE_AZURE), "expected it only with type azure_openai"},
        {"region", TYPE(CONFIG_TYPE_BEDROCK), "expected it only with type bedrock"},
        {"profile", TYPE(CONFIG_TYPE_BEDROCK), "expected it only with type bedrock"},
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if ((rules[i].types & TYPE((unsigned)f->type)) == 0 && conf_has(b->doc, f, rules[i].key)) {
            return conf_fault(b->doc, f, rules[i].key, b->e, "is not for type %s, %s",
                              config_types[f->type], rules[i].expected);
        }
    }
    if (f->type == CONFIG_TYPE_AZURE && f->base_url == NULL) {
        return conf_fault(b->doc, f, "base_url", b->e,
                          "is missing, expected https://NAME.openai.azure.com");
    }
    if (f->type == CONFIG_TYPE_BEDROCK && f->region == NULL) {
        return conf_fault(b->doc, f, "region", b->e,
                          "is missing, expected an AWS region, such as eu-west-1");
    }
    return ERR_OK;
}

static enum err check_provider(const struct config_build *b, const struct provider_file *f)
{
    for (size_t i = 0; i < b->c->nproviders; i++) {
        const char *name = b->c->providers[i].name;
        if (name != NULL && strcmp(name, f->name) == 0) {
            return conf_fault(b->doc, f, "name", b->e,
                              "is the name of another provider too, expected a new one");
        }
    }
    return check_keys(b, f);
}

static enum err add_provider(struct config *c, struct provider_file *f)
{
    struct provider_config *p = &c->providers[c->nproviders++];
    struct conf_secret *keys = f->keys.items;

    p->name = config_steal(&f->name);
    p->type = strdup(config_types[f->type]);
    p->base_url = config_steal(&f->base_url);
    p->api_version = config_steal(&f->api_version);
    p->region = config_steal(&f->region);
    p->profile = config_steal(&f->profile);
    p->ca_file = config_steal(&f->ca_file);
    p->proxy = config_steal(&f->proxy);
    p->stream_usage = f->stream_usage;
    p->keys = calloc(f->keys.n + 1, sizeof(*p->keys));
    for (size_t i = 0; p->keys != NULL && i < f->keys.n; i++) {
        p->keys[p->nkeys++] = config_secret(&keys[i]);
    }
    if (f->type == CONFIG_TYPE_AZURE && p->api_version == NULL) {
        p->api_version = strdup(AZURE_API_VERSION);
        if (p->api_version == NULL) {
            return ERR_NOMEM;
        }
    }
    return p->type == NULL || p->keys == NULL ? ERR_NOMEM : ERR_OK;
}

enum err config_build_providers(struct config_build *b)
{
    struct provider_file *files = b->file->providers.items;
    struct config *c = b->c;
    size_t n = b->file->providers.n;

    c->providers = calloc(n + 1, sizeof(*c->providers));
    if (c->providers == NULL) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < n; i++) {
        enum err err = check_provider(b, &files[i]);
        if (err != ERR_OK) {
            return err;
        }
        if (add_provider(c, &files[i]) != ERR_OK) {
            return config_no_memory(b->e);
        }
    }
    if (n == 0) {
        struct provider_file builtin = {.name = strdup("builtin"), .type = CONFIG_TYPE_BUILTIN};
        if (builtin.name == NULL || add_provider(c, &builtin) != ERR_OK) {
            return config_no_memory(b->e);
        }
    }
    return ERR_OK;
}

bool config_has_key(const struct provider_config *p)
{
    bool has = false;

    for (size_t i = 0; i < p->nkeys && !has; i++) {
        has = p->keys[i].bytes != NULL;
    }
    return has;
}

void config_provider_fini(struct provider_config *p)
{
    free(p->name);
    free(p->type);
    free(p->base_url);
    for (size_t i = 0; i < p->nkeys; i++) {
        secret_fini(&p->keys[i]);
    }
    free(p->keys);
    free(p->api_version);
    free(p->region);
    free(p->profile);
    free(p->ca_file);
    free(p->proxy);
}

/* ---- names for models ---- */

/* Fills provider and model from text. False: its provider is not configured. */
static bool resolve(const struct config *c, struct model_target *t)
{
    const char *slash = strchr(t->text, '/');

    for (size_t i = 0; slash != NULL && slash[1] != '\0' && i < c->nproviders; i++) {
        const char *name = c->providers[i].name;
        size_t n = (size_t)(slash - t->text);
        if (strlen(name) == n && memcmp(name, t->text, n) == 0) {
            t->provider = i;
            t->model = slash + 1;
            return true;
        }
    }
    return false;
}

static enum err add_model(const struct config_build *b, struct model_file *f)
{
    struct config *c = b->c;
    struct model_config *m = &c->models[c->nmodels];
    char **texts = f->targets.items;

    for (size_t i = 0; i < c->nmodels; i++) {
        const char *name = c->models[i].name;
        if (name != NULL && strcmp(name, f->name) == 0) {
            return conf_fault(b->doc, f, "name", b->e,
                              "is the name of another model too, expected a new one");
        }
    }
    c->nmodels++;
    m->name = config_steal(&f->name);
    m->targets = calloc(f->targets.n + 1, sizeof(*m->targets));
    if (m->targets == NULL) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < f->targets.n; i++) {
        struct model_target *t = &m->targets[m->ntargets++];
        t->text = config_steal(&texts[i]);
        if (!resolve(c, t)) {
            return conf_fault(b->doc, f, "targets", b->e,
                              "has \"%.200s\", expected PROVIDER/MODEL of one in providers",
                              t->text);
        }
    }
    return ERR_OK;
}

enum err config_build_models(struct config_build *b)
{
    struct model_file *files = b->file->models.items;
    enum err err = ERR_OK;

    b->c->models = calloc(b->file->models.n + 1, sizeof(*b->c->models));
    if (b->c->models == NULL) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < b->file->models.n && err == ERR_OK; i++) {
        err = add_model(b, &files[i]);
    }
    return err;
}

void config_model_fini(struct model_config *m)
{
    free(m->name);
    for (size_t i = 0; i < m->ntargets; i++) {
        free(m->targets[i].text);
    }
    free(m->targets);
}
