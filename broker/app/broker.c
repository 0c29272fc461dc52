/*
 * The process: opens everything before anything runs, then worker 0 on the main thread (with the
 * signals) and the others on theirs. Stopping is a message to each worker and an answer from each.
 */
#include "app/broker.h"

#include "app/admin.h"
#include "app/app_private.h"
#include "app/runs.h"
#include "app/service.h"
#include "base/clock.h"
#include "base/log.h"
#include "ledger/ledger.h"
#include "net/aws_environment.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAVE_MS      2000u /* to close everything */
#define LAST_WORDS_MS 3000u /* from ShuttingDown to the end, for clients to read it */

/* ---- stopping ---- */

static void stop_now(struct broker *b)
{
    loop_stop(b->workers[0].loop); /* the others are stopped and joined in broker_free */
}

static void post_all(struct broker *b, bool shut_down)
{
    for (unsigned i = 0; i < b->nworkers; i++) {
        struct worker *w = &b->workers[i];
        if (loop_post(w->loop, shut_down ? &w->shut_down : &w->drain) != ERR_OK) {
            log_error("broker", LOG_MSG("a worker does not take messages"), LOG_U64("worker", i));
        }
    }
}

static void on_worker_done(struct loop_message *m, struct loop *loop)
{
    struct worker *w = LIST_ENTRY(m, struct worker, done);
    struct broker *b = w->broker;

    (void)loop;
    b->running--;
    if (b->running == 0) {
        stop_now(b);
    }
}

static void on_drain_deadline(void *ctx)
{
    struct broker *b = ctx;
    struct loop *loop = b->workers[0].loop;

    if (b->shutting_down) {
        stop_now(b);
        return;
    }
    b->shutting_down = true;
    log_info("broker", LOG_MSG("drain time-out, ending what is in flight"));
    post_all(b, true);
    if (loop_deadline_set(loop, &b->drain_deadline, loop_now(loop) + LAST_WORDS_MS) != ERR_OK) {
        stop_now(b);
    }
}

void broker_drain(struct broker *b)
{
    struct loop *loop = b->workers[0].loop;

    if (b->stopping) {
        return;
    }
    b->stopping = true;
    service_stopping(b->options.service, b->config->drain_timeout + LAST_WORDS_MS + LEAVE_MS);
    log_info("broker", LOG_MSG("stopping"),
             LOG_U64("connections", atomic_load(&b->totals.connections)),
             LOG_U64("inflight", atomic_load(&b->totals.inflight)));
    runs_stop_listening(b->runs); /* before the drain: what was accepted is handed over first */
    post_all(b, false);
    if (loop_deadline_set(loop, &b->drain_deadline, loop_now(loop) + b->config->drain_timeout) !=
        ERR_OK) {
        stop_now(b);
    }
}

static void reload(struct broker *b)
{
    struct buf report;
    struct error e = {.code = ERR_OK};

    buf_init(&report, 65536);
    (void)!broker_reload(b, &report, &e); /* the log has it */
    buf_fini(&report);
}

static void on_signal(void *ctx, int number)
{
    struct broker *b = ctx;

    if (number == SIGHUP) {
        reload(b);
    } else if (b->stopping) {
        log_info("broker", LOG_MSG("second signal, ending at once"));
        stop_now(b);
    } else {
        broker_drain(b);
    }
}

static enum err watch_signals(struct broker *b, struct error *e)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

    return loop_signals_new(b->workers[0].loop, numbers, sizeof(numbers) / sizeof(numbers[0]),
                            on_signal, b, &b->signals, e);
}

/* ---- listeners ---- */

static struct listener_address address_of(const struct listener_config *l)
{
    return (struct listener_address){
        .path = l->kind == LISTENER_UNIX ? l->path : NULL,
        .mode = l->mode,
        .host = l->host,
        .port = l->port,
    };
}

static enum err open_on(struct broker *b, size_t i, unsigned worker,
                        const struct listener_address *a, uint16_t *port, struct error *e)
{
    int fd = -1;
    enum err rc = listener_open(a, &fd, port, e);

    if (rc == ERR_OK) {
        rc = worker_listen(&b->workers[worker], i, fd, e);
    }
    return rc;
}

/*
 * A TCP port is shared by one socket a worker. The first is opened alone and closed again: so a
 * port that another process shares out too is an error, as it would be without sharing.
 */
static enum err open_shared(struct broker *b, size_t i, struct listener_address a, struct error *e)
{
    int probe = -1;
    enum err rc = listener_open(&a, &probe, &a.port, e);

    if (rc != ERR_OK) {
        return rc;
    }
    close(probe);
    a.shared = true;
    for (unsigned w = 0; w < b->nworkers && rc == ERR_OK; w++) {
        rc = open_on(b, i, w, &a, &b->doors[i].port, e);
    }
    return rc;
}

static enum err open_listener(struct broker *b, size_t i, struct error *e)
{
    struct listener_address a = address_of(&b->config->listeners[i]);
    int passed = service_socket_for(b->options.service, &a);

    if (passed >= 0) {
        b->doors[i].passed = true;
        b->doors[i].port = a.port;
        return worker_listen(&b->workers[0], i, passed, e);
    }
    if (a.path == NULL && b->nworkers > 1) {
        return open_shared(b, i, a, e);
    }
    return open_on(b, i, 0, &a, &b->doors[i].port, e);
}

void broker_print_endpoints(const struct broker *b, bool token, FILE *out)
{
    for (size_t i = 0; i < b->config->nlisteners; i++) {
        const struct listener_config *l = &b->config->listeners[i];
        if (l->kind == LISTENER_UNIX) {
            fprintf(out, "%s\n", l->path);
            continue;
        }
        const char *scheme = l->kind == LISTENER_TLS ? "tls" : "tcp";
        bool v6 = strchr(l->host, ':') != NULL;
        fprintf(out, "%s://%s%s%s:%u\n", scheme, v6 ? "[" : "", l->host, v6 ? "]" : "",
                (unsigned)b->doors[i].port);
    }
    admin_print_endpoints(b->admin, token, out);
    fflush(out);
}

/* ---- life ---- */

/* Budgets go on where the process before left them. */
static enum err restore_budget(struct broker *b, struct grant *g, struct error *e)
{
    const struct meter_limits *l = &g->limits;
    int64_t now = clock_wall_ms();
    int64_t nano = 0;
    uint64_t tokens = 0;

    if (b->ledger == NULL ||
        (l->budget_nano == METER_NO_BUDGET && l->budget_tokens == METER_NO_BUDGET)) {
        return ERR_OK;
    }
    enum err rc = ledger_spent(b->ledger, g->name, (uint64_t)meter_period_start(l->period, now),
                               &nano, &tokens, e);
    if (rc == ERR_OK) {
        meter_restore(g->meter, l, now, (uint64_t)nano, tokens);
    }
    return rc;
}

static enum err keep_accounts(struct broker *b, struct error *e)
{
    const struct config *c = b->config;
    enum err rc = c->usage_database == NULL
                      ? ERR_OK
                      : ledger_open(c->usage_database, c->usage_retention, &b->ledger, e);

    for (size_t i = 0; i < c->ngrants && rc == ERR_OK; i++) {
        rc = grant_table_add(b->grants, c->grants[i], e);
        rc = rc == ERR_OK ? restore_budget(b, c->grants[i], e) : rc;
    }
    return rc;
}

static enum err init_parts(struct broker *b, struct config *config, struct error *e)
{
    const char *events_file = b->options.events_file;
    enum err rc = aws_secrets_read(b, e);

    rc = rc == ERR_OK ? aws_secrets_redact(b, config, e) : rc;
    rc = rc == ERR_OK ? snapshot_new(config, &b->snapshot, e) : rc;
    if (rc != ERR_OK) {
        return rc;
    }
    log_setup(config->log_level, config->log_format, config->redact);
    for (size_t i = 0; i < b->nlisteners; i++) {
        b->doors[i].index = i;
    }
    rc = keep_accounts(b, e);
    for (unsigned i = 0; i < b->nworkers && rc == ERR_OK; i++) {
        b->workers[i].done.fn = on_worker_done;
        rc = worker_init(&b->workers[i], b, i, e);
    }
    b->listening = rc == ERR_OK;
    for (size_t i = 0; i < b->nlisteners && rc == ERR_OK; i++) {
        rc = open_listener(b, i, e);
    }
    if (rc == ERR_OK && events_file != NULL) {
        rc = bus_follow(b->bus, b->workers[0].loop, events_file, e);
    }
    if (rc == ERR_OK && b->config->admin.nlisteners > 0) {
        rc = runs_new(b, &b->runs, e);
        rc = rc == ERR_OK ? runs_restore(b->runs, e) : rc;
        rc = rc == ERR_OK ? admin_new(b, &b->admin, e) : rc;
    }
    rc = rc == ERR_OK ? service_no_leftovers(b->options.service, e) : rc;
    return rc == ERR_OK ? watch_signals(b, e) : rc;
}

enum err broker_new(struct config *config, const struct broker_options *options,
                    struct broker **out, struct error *e)
{
    struct broker *b = calloc(1, sizeof(*b));

    if (b == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    b->options = *options;
    b->config = config;
    b->nlisteners = config->nlisteners;
    b->generation = 1;
    b->started_at = clock_wall_ms();
    b->loaded_at = b->started_at;
    b->nworkers = config->workers;
    b->bus = bus_new();
    b->grants = grant_table_new();
    b->workers = calloc(b->nworkers, sizeof(*b->workers));
    b->doors = calloc(config->nlisteners + 1, sizeof(*b->doors));
    loop_deadline_init(&b->drain_deadline, on_drain_deadline, b);
    loop_deadline_init(&b->use_deadline, broker_tell_workers, b);
    enum err rc = ERR_OK;
    if (b->bus == NULL || b->grants == NULL || b->workers == NULL || b->doors == NULL) {
        rc = err_set(e, ERR_NOMEM, "out of memory");
    } else {
        rc = init_parts(b, config, e);
    }
    if (rc != ERR_OK) {
        broker_free(b);
        return rc;
    }
    *out = b;
    return ERR_OK;
}

enum err broker_run(struct broker *b, struct error *e)
{
    enum err rc = ERR_OK;

    for (unsigned i = 1; i < b->nworkers && rc == ERR_OK; i++) {
        rc = worker_start(&b->workers[i], e);
    }
    if (rc == ERR_OK) {
        rc = service_watchdog_start(b->options.service, b->workers[0].loop, e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    b->running = b->nworkers;
    log_info("broker", LOG_MSG("running"), LOG_U64("workers", b->nworkers),
             LOG_U64("listeners", b->config->nlisteners));
    service_ready(b->options.service);
    loop_run(b->workers[0].loop);
    log_info("broker", LOG_MSG("stopped"), LOG_U64("events", bus_count(b->bus)));
    return ERR_OK;
}

void broker_free(struct broker *b)
{
    if (b == NULL) {
        return;
    }
    loop_signals_free(b->signals);
    service_watchdog_stop(b->options.service);
    admin_free(b->admin);
    runs_stop_listening(b->runs);
    if (b->workers != NULL) {
        if (b->workers[0].loop != NULL) {
            loop_deadline_clear(b->workers[0].loop, &b->drain_deadline);
            loop_deadline_clear(b->workers[0].loop, &b->use_deadline);
        }
        /* Worker 0 last: the others may still send it messages. */
        for (unsigned i = b->nworkers; i > 0; i--) {
            worker_stop(&b->workers[i - 1]);
        }
        ledger_close(b->ledger); /* after the last row, before loop 0, which its answers go to */
        for (unsigned i = b->nworkers; i > 0; i--) {
            worker_fini(&b->workers[i - 1]);
        }
    } else {
        ledger_close(b->ledger);
    }
    runs_free(b->runs);
    aws_environment_free(b->aws);
    bus_free(b->bus);
    for (size_t i = 0; b->listening && b->doors != NULL && i < b->nlisteners; i++) {
        if (b->config->listeners[i].kind == LISTENER_UNIX && !b->doors[i].passed) {
            (void)unlink(b->config->listeners[i].path);
        }
    }
    grant_table_free(b->grants);
    if (b->snapshot != NULL) { /* its redactor goes */
        log_setup(b->config->log_level, b->config->log_format, NULL);
    }
    snapshot_unref(b->before);
    snapshot_unref(b->snapshot);
    free(b->doors);
    free(b->workers);
    free(b);
}
