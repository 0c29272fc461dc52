/*
 * A created container's life: attached before it starts, its exit watched before it starts, then
 * its streams move while the exit, the time-out or a signal is waited for.
 */
#include "run/run.h"

#include "base/clock.h"
#include "base/log.h"
#include "relay/relay.h"
#include "run/console.h"
#include "run/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRANT_TTL_MS   60000u
#define GRANT_RENEW_MS 20000u
#define STOP_GRACE_MS  5000u  /* from TERM to KILL */
#define EXIT_MS        20000u /* from KILL to the engine's word that it ended */
#define DRAIN_MS       5000u  /* from the exit to the end of its output */
#define QUIET_MS       200u   /* after the last log line, until it counts as complete */
#define FLUSH_MS       10u
#define FLUSH_TRIES    100
#define OOM_TRIES      6
#define OOM_AGAIN_MS   100u

struct execution {
    struct run *run;
    struct attach *attach;
    struct engine_exit *exit;
    struct relay *relay;
    struct console *console;
    struct loop_deadline quiet; /* no log line came for a while */
    bool output_over;
    bool input_ended;
    bool ending; /* its output is read whether the broker takes it or not */
};

/* ---- streams ---- */

static void on_output(void *ctx, int stream, const char *p, size_t n)
{
    struct execution *x = ctx;
    struct loop *loop = x->run->driver.loop;

    if (stream == 1) {
        console_stdout(x->console, span_of(p, n));
    } else {
        console_stderr(x->console, span_of(p, n));
        (void)!loop_deadline_set(loop, &x->quiet, loop_now(loop) + QUIET_MS);
    }
    /* After its result nothing is asked any more; some programs wait for the end of their stdin. */
    if (!x->input_ended && console_result(x->console).p != NULL) {
        x->input_ended = true;
        attach_end_input(x->attach);
    }
    if (x->relay != NULL && !x->ending && relay_congested(x->relay)) {
        attach_pause(x->attach);
    }
}

static void on_quiet(void *ctx)
{
    struct execution *x = ctx;

    console_quiet(x->console);
}

static void on_input_drain(void *ctx)
{
    struct execution *x = ctx;

    if (x->relay != NULL) {
        relay_hold(x->relay, false);
    }
}

static void on_output_end(void *ctx, enum err why)
{
    struct execution *x = ctx;

    x->output_over = true;
    if (why != ERR_OK) {
        log_warn("runner", LOG_MSG("the container's output was cut off"),
                 LOG_STR("why", err_name(why)));
    }
}

static const struct attach_handler attach_handler = {
    .on_output = on_output,
    .on_drain = on_input_drain,
    .on_end = on_output_end,
};

static enum err on_reply(void *ctx, const struct span *pieces, size_t n)
{
    struct execution *x = ctx;

    if (x->input_ended || x->output_over || x->attach == NULL) {
        return ERR_OK; /* nobody reads it any more */
    }
    enum err rc = attach_write(x->attach, pieces, n);
    if (rc == ERR_OK && attach_congested(x->attach)) {
        relay_hold(x->relay, true);
    }
    return rc;
}

static void on_relay_drain(void *ctx)
{
    struct execution *x = ctx;

    attach_resume(x->attach);
}

static const struct relay_handler relay_handler = {
    .on_reply = on_reply,
    .on_drain = on_relay_drain,
};

/* ---- the grant's life ---- */

static void on_renew(void *ctx)
{
    struct run *r = ctx;

    grants_renew_later(&r->grants, r->grant.id, GRANT_TTL_MS, &r->renewal);
    if (loop_deadline_set(r->driver.loop, &r->renew, driver_deadline(&r->driver, GRANT_RENEW_MS)) !=
        ERR_OK) {
        log_warn("runner", LOG_MSG("the grant cannot be renewed"));
    }
}

/* From now on only this container may use the grant, and for as long as it lives. */
static enum err narrow_grant(struct run *r, struct error *e)
{
    struct engine_state state;
    bool network = r->settings.transport == TRANSPORT_TCP || r->settings.transport == TRANSPORT_TLS;

    if (!r->granted) {
        return ERR_OK;
    }
    loop_deadline_init(&r->renew, on_renew, r);
    on_renew(r);
    if (!network) {
        return ERR_OK;
    }
    enum err rc = engine_inspect(r->engine, r->container, &state, e);
    if (rc == ERR_OK && state.ip[0] != '\0') {
        rc = grants_renew(&r->grants, r->grant.id, GRANT_TTL_MS, state.ip, e);
    }
    return rc;
}

/* ---- start ---- */

static bool raw_log(const struct run *r)
{
    for (size_t i = 0; i < r->nenv; i++) {
        if (strcmp(r->env[i].name, "TACTUS_LOG_FORMAT") == 0) {
            return strcmp(r->env[i].value, "raw") == 0;
        }
    }
    return false;
}

static enum err open_streams(struct execution *x, struct error *e)
{
    struct run *r = x->run;
    enum err rc = ERR_OK;

    if (r->settings.transport == TRANSPORT_STDIO) {
        rc = relay_new(r->driver.loop, r->grant.endpoint, &relay_handler, x, &x->relay, e);
    }
    if (rc == ERR_OK) {
        struct console_options options = {
            .out_fd = r->options->json ? STDERR_FILENO : STDOUT_FILENO,
            .raw_log = raw_log(r),
            .relay = x->relay,
        };
        rc = console_new(&options, &x->console, e);
    }
    if (rc == ERR_OK) {
        rc = engine_attach(r->engine, r->container, &attach_handler, x, &x->attach, e);
    }
    return rc == ERR_OK ? engine_exit_watch(r->engine, r->container, &x->exit, e) : rc;
}

static enum err send_request(struct execution *x, struct error *e)
{
    struct buf line;

    buf_init(&line, 512u * 1024u * 1024u);
    run_put_request(x->run, &line);
    struct span piece = buf_span(&line);
    enum err rc = buf_status(&line);
    if (rc == ERR_OK) {
        rc = attach_write(x->attach, &piece, 1);
    }
    buf_fini(&line);
    /* ERR_CLOSED: it has ended already, and its exit code will say how. */
    return rc == ERR_OK || rc == ERR_CLOSED
               ? ERR_OK
               : err_set(e, rc, "the execution request could not be sent");
}

/* ---- the end ---- */

/* Docker sees a container's end only when its output has been taken: nothing holds it back now. */
static enum err kill_and_wait(struct execution *x, const char *signal, uint64_t ms, struct error *e)
{
    struct driver *d = &x->run->driver;

    x->ending = true;
    attach_resume(x->attach);
    enum err rc = engine_kill(x->run->engine, x->run->container, signal, e);
    return rc == ERR_OK ? driver_wait(d, engine_exit_done(x->exit), driver_deadline(d, ms)) : rc;
}

/* ERR_OK: the container has ended, and facts->end says on whose word. */
static enum err wait_for_end(struct execution *x, struct run_facts *facts, struct error *e)
{
    struct driver *d = &x->run->driver;
    enum err rc =
        driver_wait(d, engine_exit_done(x->exit), driver_deadline(d, x->run->settings.timeout_ms));

    d->uninterruptible = true;
    if (rc == ERR_CLOSED) {
        facts->end = RUN_CANCELLED;
        facts->signal = d->signal;
        rc = kill_and_wait(x, "SIGTERM", STOP_GRACE_MS, e);
    } else if (rc == ERR_AGAIN) {
        facts->end = RUN_TIMED_OUT;
    }
    if (rc == ERR_AGAIN) {
        rc = kill_and_wait(x, "SIGKILL", EXIT_MS, e);
    }
    if (rc == ERR_AGAIN) {
        return err_set(e, ERR_IO, "the engine does not end the container");
    }
    return rc == ERR_OK ? engine_exit_code(x->exit, &facts->code, e) : rc;
}

/* What the container asked for with its last words still reaches the broker. */
static void flush_relay(struct execution *x)
{
    bool never = false;

    for (int i = 0; i < FLUSH_TRIES && relay_queued(x->relay) > 0; i++) {
        (void)!driver_wait(&x->run->driver, &never, driver_deadline(&x->run->driver, FLUSH_MS));
    }
}

static void drain_output(struct execution *x)
{
    struct driver *d = &x->run->driver;

    if (driver_wait(d, &x->output_over, driver_deadline(d, DRAIN_MS)) != ERR_OK) {
        log_warn("runner", LOG_MSG("the container's output did not end with it"));
    }
    console_end(x->console);
    if (x->relay != NULL) {
        flush_relay(x);
    }
}

/* Whether the engine says so. Docker learns of it by an event that may come after the end. */
static bool ask_for_oom(struct execution *x, const struct run_facts *facts)
{
    struct run *r = x->run;
    struct driver *d = &r->driver;
    bool likely = facts->end == RUN_EXITED && facts->code == 137 && facts->memory > 0;
    const bool never = false;

    for (int i = 0; i < (likely ? OOM_TRIES : 1); i++) {
        struct engine_state state = {0};
        if (i > 0) {
            (void)!driver_wait(d, &never, driver_deadline(d, OOM_AGAIN_MS));
        }
        if (engine_inspect(r->engine, r->container, &state, NULL) != ERR_OK || state.oom_killed) {
            return state.oom_killed;
        }
    }
    return false;
}

static enum err judge(struct execution *x, struct run_facts *facts, struct buf *document, int *code,
                      struct error *e)
{
    struct run *r = x->run;

    facts->memory = r->settings.memory;
    facts->oom_killed = ask_for_oom(x, facts);
    facts->memory_text = r->settings.memory_text;
    facts->timeout_ms = r->settings.timeout_ms;
    facts->duration_ms = clock_mono_ms() - r->started_at;
    facts->block = console_result(x->console);
    facts->text = console_text(x->console, &facts->text_truncated);
    *code = outcome_put(facts, document);
    return buf_status(document) == ERR_OK
               ? ERR_OK
               : err_set(e, buf_status(document), "the result is too long");
}

static enum err start(struct execution *x, struct error *e)
{
    enum err rc = open_streams(x, e);

    if (rc == ERR_OK) {
        rc = engine_start(x->run->engine, x->run->container, e);
    }
    if (rc == ERR_OK) {
        rc = narrow_grant(x->run, e);
    }
    return rc == ERR_OK ? send_request(x, e) : rc;
}

enum err run_execute(struct run *r, struct buf *document, int *code, struct error *e)
{
    struct execution x = {.run = r};
    struct run_facts facts = {.end = RUN_EXITED};

    loop_deadline_init(&x.quiet, on_quiet, &x);
    enum err rc = start(&x, e);

    if (rc == ERR_OK) {
        rc = wait_for_end(&x, &facts, e);
    }
    if (rc == ERR_OK) {
        drain_output(&x);
        rc = judge(&x, &facts, document, code, e);
    }
    loop_deadline_clear(r->driver.loop, &x.quiet);
    attach_close(x.attach);
    engine_exit_end(x.exit);
    console_free(x.console);
    relay_free(x.relay);
    return rc;
}
