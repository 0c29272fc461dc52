/*
 * Reload: the configuration, its secrets and certificates are read again and take the place of what
 * is in force. All that can fail is done before anything changes. Then each loop gets the new
 * snapshot as a message; requests in flight end under what they began with. On loop 0.
 *
 * What is bound to open sockets or files (listeners' addresses, the admin API's, the number of
 * loops, the ledger's file) cannot change: a file that says otherwise is refused.
 */
#include "app/app_private.h"
#include "app/service.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <string.h>

#define TELL_AGAIN_MS 50u

/* ---- what must stay ---- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_listeners(const struct listener_config *a, size_t na,
                           const struct listener_config *b, size_t nb)
{
    bool same = na == nb;

    for (size_t i = 0; same && i < na; i++) {
        same = same_text(a[i].url, b[i].url) && a[i].mode == b[i].mode;
    }
    return same;
}

static const char *bound(const struct config *a, const struct config *b)
{
    if (!same_listeners(a->listeners, a->nlisteners, b->listeners, b->nlisteners)) {
        return "listeners (their number, order, url or mode)";
    }
    if (!same_listeners(a->admin.listeners, a->admin.nlisteners, b->admin.listeners,
                        b->admin.nlisteners)) {
        return "admin.listen";
    }
    if (!same_text(a->admin.runs_directory, b->admin.runs_directory)) {
        return "admin.runs_directory";
    }
    if (a->workers != b->workers) {
        return "broker.workers";
    }
    return same_text(a->usage_database, b->usage_database) &&
                   a->usage_retention == b->usage_retention
               ? NULL
               : "usage";
}

/* ---- what is new ---- */

static enum err read_new(struct broker *b, struct config **out, struct error *e)
{
    struct config *c = NULL;

    if (b->options.config_file == NULL) {
        return err_set(e, ERR_CONFIG, "there is no configuration to read again: this is --dev");
    }
    enum err rc = config_read(b->options.config_file, &c, e);
    if (rc != ERR_OK) {
        return rc;
    }
    const char *what = bound(b->config, c);
    if (what != NULL) {
        rc = err_set(e, ERR_CONFIG, "%s: %s cannot change while the broker runs: restart it",
                     b->options.config_file, what);
    }
    if (rc == ERR_OK) {
        rc = config_load_secrets_again(c, b->config, b->options.allow_missing_keys, e);
    }
    if (rc == ERR_OK) {
        rc = aws_secrets_redact(b, c, e);
    }
    if (rc != ERR_OK) {
        config_unref(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

/* Names in `a` that are not in `b`, as a member of the report. */
static void put_names(struct buf *out, const char *member, const struct config *a,
                      const struct config *b)
{
    size_t n = 0;

    buf_printf(out, ",\"%s\":[", member);
    for (size_t i = 0; i < a->ngrants; i++) {
        if (config_find_grant(b, a->grants[i]->name) == NULL) {
            buf_put_str(out, n++ > 0 ? "," : "");
            json_put_string(out, span_str(a->grants[i]->name));
        }
    }
    buf_put_char(out, ']');
}

static void put_report(struct buf *out, const struct broker *b, const struct config *before)
{
    buf_printf(out, "{\"generation\":%llu,\"grants\":%zu,\"providers\":%zu",
               (unsigned long long)b->generation, b->config->ngrants, b->config->nproviders);
    put_names(out, "grants_added", b->config, before);
    put_names(out, "grants_removed", before, b->config);
    buf_put_char(out, '}');
}

void broker_tell_workers(void *broker)
{
    struct broker *b = broker;
    struct loop *loop = b->workers[0].loop;
    bool told = true;

    for (unsigned i = 0; i < b->nworkers; i++) {
        told = worker_use(&b->workers[i], b->snapshot) && told;
    }
    if (!told &&
        loop_deadline_set(loop, &b->use_deadline, loop_now(loop) + TELL_AGAIN_MS) != ERR_OK) {
        log_error("broker", LOG_MSG("a worker did not hear of the reload: reload again"));
    }
}

static void put_in_force(struct broker *b, struct snapshot *next)
{
    snapshot_unref(b->before);
    b->before = b->snapshot;
    b->snapshot = next;
    b->config = next->config;
    b->generation++;
    b->loaded_at = clock_wall_ms();
    log_setup(b->config->log_level, b->config->log_format, b->config->redact);
    broker_tell_workers(b);
}

static enum err reload(struct broker *b, struct buf *report, struct error *e)
{
    const struct config *before = b->config;
    struct snapshot *next = NULL;
    struct config *c = NULL;
    enum err rc = read_new(b, &c, e);

    if (rc != ERR_OK) {
        return rc;
    }
    rc = snapshot_new(c, &next, e);
    if (rc == ERR_OK) {
        rc = grant_table_replace(b->grants, before->grants, before->ngrants, c->grants, c->ngrants,
                                 e);
    }
    config_unref(c); /* the snapshot has its own */
    if (rc != ERR_OK) {
        snapshot_unref(next);
        return rc;
    }
    put_in_force(b, next);
    put_report(report, b, before);
    log_info("broker", LOG_MSG("configuration reloaded"), LOG_U64("generation", b->generation),
             LOG_U64("grants", b->config->ngrants));
    return buf_status(report) == ERR_OK ? ERR_OK
                                        : err_set(e, ERR_NOMEM, "reloaded; no memory to tell more");
}

enum err broker_reload(struct broker *b, struct buf *report, struct error *e)
{
    if (b->stopping) { /* the manager has been told STOPPING: READY would take that back */
        log_info("broker", LOG_MSG("no reload: the broker is shutting down"));
        return err_set(e, ERR_CLOSED, "the broker is shutting down");
    }
    service_reloading(b->options.service);
    enum err rc = reload(b, report, e);
    if (rc != ERR_OK) {
        log_error("broker", LOG_MSG("reload failed, the configuration before stays in force"),
                  LOG_STR("why", e->msg));
    }
    service_ready(b->options.service);
    return rc;
}
