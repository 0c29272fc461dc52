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
    b.c->routing = file->routing;
    if (b.c->limits.max_connections == 0) {
        b.c->limits.max_connections = usable_connections();
    }
    b.c->usage_database = config_steal(&file->usage.database);
    b.c->usage_retention = file->usage.retention;
    b.c->log_level = file->log_level;
    b.c->log_format = file->log_format;
    err = config_build_grants(&b);
    err = err != ERR_OK ? err : config_build_providers(&b);
    err = err != ERR_OK ? err : config_build_models(&b);
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
        config_provider_fini(&c->providers[i]);
    }
    for (size_t i = 0; i < c->nmodels; i++) {
        config_model_fini(&c->models[i]);
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
    free(c->models);
    free(c->grants);
    free(c->usage_database);
    prices_free(c->prices);
    redact_free(c->redact);
    free(c);
}
