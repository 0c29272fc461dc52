/*
 * The snapshot: made from the file, or from nothing for --dev. Reading goes by the table in
 * config_keys.c into a struct file (fields as they are written there); build() moves its contents
 * into a struct config and checks what the table cannot (names that must exist or differ, what fits
 * which type). After that nothing changes but the secrets being loaded and, before the loops run,
 * listeners being added. Called by main.
 */
#include "gate/config_private.h"

#include "base/buf.h"
#include "base/redact.h"
#include "gate/prices.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define OPENAI_URL "https://api.openai.com/v1"

/* ---- from the file to the snapshot ---- */

/* What belongs to the other type only. */
static enum err check_provider(const struct config_build *b, const struct provider_file *f)
{
    static const char *const remote[] = {"base_url", "keys", "ca_file", "proxy", "stream_usage"};

    for (size_t i = 0; f->type == CONFIG_TYPE_BUILTIN && i < sizeof(remote) / sizeof(remote[0]);
         i++) {
        if (conf_has(b->doc, f, remote[i])) {
            return conf_fault(b->doc, f, remote[i], b->e,
                              "is not for type builtin, expected it only with type openai");
        }
    }
    if (f->keys.n > 1) {
        return conf_fault(b->doc, f, "keys", b->e,
                          "has %zu keys, expected one: taking turns with several is not supported "
                          "yet",
                          f->keys.n);
    }
    for (size_t i = 0; i < b->c->nproviders; i++) {
        const char *name = b->c->providers[i].name;
        if (name != NULL && strcmp(name, f->name) == 0) {
            return conf_fault(b->doc, f, "name", b->e,
                              "is the name of another provider too, expected a new one");
        }
    }
    return ERR_OK;
}

static enum err add_provider(struct config *c, struct provider_file *f)
{
    struct provider_config *p = &c->providers[c->nproviders++];
    struct conf_secret *keys = f->keys.items;

    p->name = config_steal(&f->name);
    p->type = strdup(config_types[f->type]);
    p->base_url = config_steal(&f->base_url);
    p->ca_file = config_steal(&f->ca_file);
    p->proxy = config_steal(&f->proxy);
    p->stream_usage = f->stream_usage;
    if (f->keys.n > 0) {
        p->key = config_secret(&keys[0]);
    }
    if (f->type == CONFIG_TYPE_OPENAI && p->base_url == NULL) {
        p->base_url = strdup(OPENAI_URL);
        if (p->base_url == NULL) {
            return ERR_NOMEM;
        }
    }
    return p->type == NULL ? ERR_NOMEM : ERR_OK;
}

static enum err build_providers(struct config_build *b)
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

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    long n;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        n = CPU_COUNT(&set);
    } else { /* more CPUs than the set has room for */
        n = sysconf(_SC_NPROCESSORS_ONLN);
    }
    return n < 1 ? 1u : n > CONFIG_WORKERS_MAX ? (unsigned)CONFIG_WORKERS_MAX : (unsigned)n;
}

static uint64_t usable_connections(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 16;
    }
    uint64_t most = limit.rlim_cur < 10000000 ? limit.rlim_cur : 10000000;
    return most < 232 ? 16 : (most - 200) / 2;
}

static enum err build_prices(struct config_build *b)
{
    return b->file->prices.file == NULL ? ERR_OK
                                        : prices_read(b->file->prices.file, &b->c->prices, b->e);
}

/* Moves `file` into a new snapshot. `doc` NULL: there are no listeners, grants and providers. */
static enum err build(struct file *file, const struct conf_doc *doc, struct config **out,
                      struct error *e)
{
    struct config_build b = {
        .file = file, .doc = doc, .c = calloc(1, sizeof(struct config)), .e = e};
    enum err err = ERR_NOMEM;

    if (b.c == NULL) {
        return config_no_memory(e);
    }
    atomic_init(&b.c->refs, 1);
    b.c->redact = redact_new();
    if (b.c->redact == NULL) {
        err = config_no_memory(e);
        goto out;
    }
    b.c->workers = file->workers != 0 ? file->workers : usable_cpus();
    b.c->drain_timeout = file->drain_timeout;
    b.c->limits = file->limits;
    if (b.c->limits.max_connections == 0) {
        b.c->limits.max_connections = usable_connections();
    }
    b.c->usage_database = config_steal(&file->usage.database);
    b.c->usage_retention = file->usage.retention;
    b.c->log_level = file->log_level;
    b.c->log_format = file->log_format;
    err = config_build_grants(&b);
    err = err != ERR_OK ? err : build_providers(&b);
    err = err != ERR_OK ? err : config_check_globs(&b);
    err = err != ERR_OK ? err : config_build_listeners(&b);
    err = err != ERR_OK || doc == NULL ? err : config_build_admin(&b);
    err = err != ERR_OK ? err : build_prices(&b);

out:
    if (err == ERR_OK) {
        *out = b.c;
    } else {
        config_unref(b.c);
    }
    return err;
}

enum err config_parse(const char *name, const char *text, size_t n, struct config **out,
                      struct error *e)
{
    struct file file = {0};
    struct conf_doc *doc = NULL;

    enum err err = conf_parse(name, text, n, config_keys(), &file, &doc, e);
    if (err == ERR_OK) {
        err = build(&file, doc, out, e);
    }
    conf_fini(config_keys(), &file);
    conf_doc_free(doc);
    return err;
}

enum err config_read(const char *path, struct config **out, struct error *e)
{
    char *text = NULL;
    size_t n = 0;

    enum err err = conf_load(path, &text, &n, e);
    if (err == ERR_OK) {
        err = config_parse(path, text, n, out, e);
    }
    free(text);
    return err;
}

enum err config_print(const char *path, struct buf *out, struct error *e)
{
    struct file file = {0};
    struct conf_doc *doc = NULL;
    struct config *c = NULL;
    char *text = NULL;
    size_t n = 0;

    enum err err = conf_load(path, &text, &n, e);
    err = err != ERR_OK ? err : conf_parse(path, text, n, config_keys(), &file, &doc, e);
    if (err == ERR_OK) {
        conf_print(config_keys(), &file, doc, out);
        err = buf_status(out) == ERR_OK ? build(&file, doc, &c, e) : config_no_memory(e);
    }
    config_unref(c);
    conf_fini(config_keys(), &file);
    conf_doc_free(doc);
    free(text);
    return err;
}

enum err config_dev(struct config **out, struct error *e)
{
    struct file file = {0};
    struct config *c = NULL;

    enum err err = conf_defaults(config_keys(), &file, e);
    err = err != ERR_OK ? err : build(&file, NULL, &c, e);
    conf_fini(config_keys(), &file);
    if (err != ERR_OK) {
        return err;
    }
    err = config_add_dev_grant(c, e);
    if (err != ERR_OK) {
        config_unref(c);
        return err;
    }
    *out = c;
    return ERR_OK;
}

struct config *config_ref(struct config *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void config_unref(struct config *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < c->nlisteners; i++) {
        config_listener_fini(&c->listeners[i]);
    }
    for (size_t i = 0; i < c->nproviders; i++) {
        struct provider_config *p = &c->providers[i];
        free(p->name);
        free(p->type);
        free(p->base_url);
        secret_fini(&p->key);
        free(p->ca_file);
        free(p->proxy);
    }
    for (size_t i = 0; i < c->ngrants; i++) {
        grant_unref(c->grants[i]);
    }
    for (size_t i = 0; i < c->ngrants && c->tokens != NULL; i++) {
        secret_fini(&c->tokens[i]);
    }
    config_admin_fini(&c->admin);
    free(c->tokens);
    free(c->listeners);
    free(c->providers);
    free(c->grants);
    free(c->usage_database);
    prices_free(c->prices);
    redact_free(c->redact);
    free(c);
}
