/*
 * tactus-runner run: the steps of one run in their order, its clean-up, its result. Every failure,
 * also one before the start, is a result document on stdout.
 */
#include "run/run.h"
#include "base/clock.h"
#include "base/log.h"
#include "commands/commands.h"
#include "commands/run_options.h"
#include "run/events_tail.h"
#include "run/image_build.h"
#include "run/image_progress.h"
#include "run/outcome.h"
#include "spec/workspace.h"
#include "tactus/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define OUR_NETWORK  "tactus"
#define GRANT_TTL_MS 60000u
#define DOCUMENT_MAX (256u * 1024u * 1024u)

/* ---- the steps ---- */

static enum err read_flags(struct run *r, const struct run_line *line, struct error *e)
{
    enum err rc = ERR_OK;

    for (size_t i = 0; i < line->nflags && rc == ERR_OK; i++) {
        rc = settings_flag(&r->settings, line->flags[i].name, line->flags[i].value, e);
    }
    return rc == ERR_OK ? settings_check(&r->settings, e) : rc;
}

static enum err find_engine(struct run *r, struct error *e)
{
    struct buf report;
    size_t containers = 0;
    size_t directories = 0;
    struct error swept = {0};

    buf_init(&report, 65536);
    enum err rc = engine_find(&r->driver, r->options->engine, &r->engine, &report, e);
    if (rc == ERR_IO && report.len > 0) {
        fprintf(stderr, "%s\n", buf_cstr(&report));
    }
    buf_fini(&report);
    if (rc != ERR_OK || r->options->dry_run) {
        return rc;
    }
    keeper_note(&r->keeper, KEEPER_ENGINE, engine_address(r->engine));
    if (run_sweep(r->engine, &containers, &directories, &swept) != ERR_OK) {
        log_warn("runner", LOG_MSG("leftovers of killed runs were not removed"),
                 LOG_STR("why", swept.msg));
    } else if (containers + directories > 0) {
        log_info("runner", LOG_MSG("removed what killed runs left"),
                 LOG_U64("containers", containers), LOG_U64("directories", directories));
    }
    return ERR_OK;
}

/* Builds an image whose sources are known, when they have changed. */
static enum err refresh_image(struct run *r, struct error *e)
{
    const struct settings *s = &r->settings;
    const struct image_plan plan = {
        .image = s->image,
        .context = s->build_context,
        .file = s->build_file,
        .sources = (const char *const *)s->build_sources,
        .nsources = s->nbuild_sources,
    };
    bool watched = s->callback_url != NULL || r->options->events != NULL;

    return s->build_context == NULL || r->options->dry_run
               ? ERR_OK
               : image_refresh(r->engine, &plan, watched, e);
}

static enum err find_image(struct run *r, struct error *e)
{
    const char *name = r->settings.image;
    bool found = false;
    enum err rc = engine_image_inspect(r->engine, name, &r->image, &found, e);

    if (rc != ERR_OK || found) {
        return rc;
    }
    if (r->options->no_pull || r->options->dry_run) {
        return err_set(e, ERR_CONFIG, "image %s is not there (docker pull, or `%s image build`)",
                       name, RUNNER_NAME);
    }
    rc = image_progress_pull(r->engine, name, e);
    if (rc == ERR_OK) {
        rc = engine_image_inspect(r->engine, name, &r->image, &found, e);
    }
    if (rc == ERR_OK && !found) {
        rc = err_set(e, ERR_UPSTREAM, "image %s is not there after it was pulled", name);
    }
    return rc;
}

static bool over_network(const struct run *r)
{
    return r->settings.transport == TRANSPORT_TCP || r->settings.transport == TRANSPORT_TLS;
}

static enum err find_network(struct run *r, struct error *e)
{
    const char *name = r->settings.network;
    bool ours = strcmp(name, OUR_NETWORK) == 0;
    bool found = false;
    enum err rc = ERR_OK;

    if (strcmp(name, "none") == 0) {
        return ERR_OK;
    }
    if (ours && !r->options->dry_run) {
        rc = engine_network_ensure(r->engine, name, &r->network, e);
        found = true;
    } else if (strcmp(name, "host") == 0) {
        snprintf(r->network.gateway, sizeof(r->network.gateway), "127.0.0.1");
        found = true;
    } else {
        rc = engine_network_inspect(r->engine, name, &r->network, &found, e);
    }
    if (rc != ERR_OK || (!found && !r->options->dry_run)) {
        return rc != ERR_OK ? rc : err_set(e, ERR_CONFIG, "there is no network %s", name);
    }
    /* Ours too: somebody else may have made one of that name. */
    if (!r->network.internal && (found || !ours)) {
        log_warn("runner",
                 LOG_MSG("the cloud's metadata address 169.254.169.254 can be reached from it"),
                 LOG_STR("network", name));
    }
    return ERR_OK;
}

/* Whom the container must trust, when the broker does not say it: as clients here do. */
static void find_ca(struct run *r)
{
    const char *ca = getenv(TACTUS_ENV_TLS_CA_FILE);

    if (r->settings.transport == TRANSPORT_TLS && r->grant.ca_file[0] == '\0' && ca != NULL) {
        snprintf(r->grant.ca_file, sizeof(r->grant.ca_file), "%s", ca);
    }
}

static enum err ask_for_grant(struct run *r, struct error *e)
{
    const struct settings *s = &r->settings;
    char address[ADMIN_PEER_TEXT_SIZE];
    struct grant_wish wish = {
        .run = r->options->run_id == NULL ? r->id : r->options->run_id,
        .transport = s->transport,
        .bind = s->broker_bind_host == NULL ? r->network.gateway : s->broker_bind_host,
        .port = s->broker_port,
        .cert_file = s->cert_file,
        .key_file = s->key_file,
        .models = s->models,
        .nmodels = s->nmodels,
        .tools = s->tools,
        .ntools = s->ntools,
        .ttl_ms = GRANT_TTL_MS,
    };

    if (over_network(r) && wish.bind[0] == '\0') {
        return err_set(
            e, ERR_CONFIG,
            "network %s has no address on the host where the broker could listen (podman "
            "with CNI makes none for an internal network): use transport stdio or unix, "
            "or --network bridge, from which the internet can be reached",
            s->network);
    }
    grants_address(&r->grants, address);
    keeper_note(&r->keeper, KEEPER_ADMIN, address);
    enum err rc = grants_create(&r->grants, &wish, &r->grant, e);
    if (rc == ERR_OK) {
        r->granted = true;
        find_ca(r);
        keeper_note(&r->keeper, KEEPER_GRANT, r->grant.id);
    }
    return rc;
}

/* A grant of its own, or the endpoint that was given. */
static enum err find_broker(struct run *r, struct error *e)
{
    struct error none = {0};
    enum err rc = grants_init(&r->grants, &r->driver, r->options->admin,
                              r->options->broker == NULL ? e : &none);

    r->has_grants = rc == ERR_OK;
    if (r->options->broker != NULL) {
        const char *given = r->options->broker;
        const char *path = strncmp(given, "unix://", 7) == 0 ? given + 7 : given;
        snprintf(r->grant.endpoint, sizeof(r->grant.endpoint), "%s", path);
        find_ca(r);
        return ERR_OK;
    }
    if (r->options->dry_run) {
        snprintf(r->grant.endpoint, sizeof(r->grant.endpoint), "%s",
                 over_network(r) ? "tcp://127.0.0.1:0" : "/run/tactus/runs/ID/broker.sock");
        return ERR_OK;
    }
    return rc == ERR_OK ? ask_for_grant(r, e) : rc;
}

static enum err create(struct run *r, struct error *e)
{
    struct buf json;

    buf_init(&json, FETCH_BODY_MAX);
    enum err rc = run_create_json(r, r->options->dry_run, &json, e);
    if (rc == ERR_OK && r->options->dry_run) {
        printf("%s\n", buf_cstr(&json));
    } else if (rc == ERR_OK) {
        keeper_note(&r->keeper, KEEPER_CONTAINER, r->name);
        rc = engine_create(r->engine, r->name, buf_span(&json), r->container, e);
    }
    buf_fini(&json);
    return rc;
}

typedef enum err step_fn(struct run *r, struct error *e);

static enum err all_steps(struct run *r, struct error *e)
{
    static step_fn *const steps[] = {find_engine, refresh_image, find_image, find_network,
                                     find_broker, run_furnish,   create};
    enum err rc = ERR_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == ERR_OK; i++) {
        rc = steps[i](r, e);
    }
    return rc;
}

/* ---- clean-up ---- */

static void warn_left(const char *what, enum err rc, const struct error *e)
{
    if (rc != ERR_OK) {
        log_error("runner", LOG_MSG("could not be removed"), LOG_STR("what", what),
                  LOG_STR("why", e->msg));
    }
}

static void remove_directories(struct run *r)
{
    struct error e = {0};

    if (r->heartbeat >= 0) {
        close(r->heartbeat);
        r->heartbeat = -1;
    }
    if (r->workspace_is_copy) {
        warn_left(r->workspace, workspace_remove(r->workspace, &e), &e);
    }
    if (r->shim_dir[0] != '\0') {
        warn_left(r->shim_dir, workspace_remove(r->shim_dir, &e), &e);
    }
}

/* Everything outside this process; what cannot be removed is said. */
static void clean_up(struct run *r)
{
    struct error e = {0};

    r->driver.uninterruptible = true;
    if (r->driver.loop != NULL) {
        loop_deadline_clear(r->driver.loop, &r->renew);
    }
    fetch_end(r->renewal);
    r->renewal = NULL;
    if (r->container[0] != '\0' && !r->options->keep) {
        warn_left(r->name, engine_remove(r->engine, r->container, &e), &e);
    }
    if (r->granted) {
        warn_left("the grant", grants_delete(&r->grants, r->grant.id, &e), &e);
    }
    if (r->options->keep && r->container[0] != '\0') {
        log_info("runner", LOG_MSG("kept"), LOG_STR("container", r->name),
                 LOG_STR("directory", r->workspace));
        if (r->heartbeat >= 0) {
            close(r->heartbeat);
        }
    } else {
        remove_directories(r);
    }
}

static void forget(struct run *r)
{
    keeper_end(&r->keeper);
    engine_image_fini(&r->image);
    engine_free(r->engine);
    if (r->has_grants) {
        grants_fini(&r->grants);
    }
    for (size_t i = 0; i < r->nmounts; i++) {
        mount_fini(&r->mounts[i]);
    }
    for (size_t i = 0; i < r->nenv; i++) {
        free(r->env[i].name);
        free(r->env[i].value);
    }
    free(r->env);
    buf_fini(&r->source);
    settings_fini(&r->settings);
    driver_fini(&r->driver);
}

/* ---- the result ---- */

/* What went wrong before or beside the container. */
static int failure_code(const struct run *r, enum err rc)
{
    if (r->driver.signal != 0) {
        return 128 + r->driver.signal;
    }
    switch (rc) {
    case ERR_CONFIG:
        return EX_CONFIG;
    case ERR_NOMEM:
        return EX_OSERR;
    default:
        return EX_UNAVAILABLE;
    }
}

static void put_failure(const struct run *r, const struct error *e, int code, struct buf *out)
{
    uint64_t ms = clock_mono_ms() - r->started_at;
    const char *type = r->driver.signal != 0   ? "Cancelled"
                       : code == EX_USAGE      ? "UsageError"
                       : e->code == ERR_CONFIG ? "ConfigError"
                                               : "SandboxError";

    fprintf(stderr, RUNNER_NAME " run: %s\n", e->msg);
    outcome_put_failure(r->driver.signal != 0, type, e->msg, code, ms, out);
}

static void print_document(const struct buf *document)
{
    struct span rest = buf_span(document);

    fflush(stdout);
    while (rest.n > 0) {
        ssize_t n = write(STDOUT_FILENO, rest.p, rest.n);
        if (n < 0 && errno != EINTR) {
            break;
        }
        rest = span_after(rest, n > 0 ? (size_t)n : 0);
    }
}

/* ---- the command ---- */

static enum err follow_events(struct run *r, struct events_tail **tail, struct error *e)
{
    if (r->options->events == NULL || r->options->dry_run) {
        return ERR_OK;
    }
    if (!r->granted) {
        return err_set(e, ERR_CONFIG, "--events needs a grant of the run's own: not with --broker");
    }
    return events_tail_start(&r->grants, r->options->run_id == NULL ? r->id : r->options->run_id,
                             r->options->events, tail, e);
}

static int run_it(struct run *r, struct buf *document)
{
    struct events_tail *tail = NULL;
    struct error e = {0};
    int code = EX_OK;
    enum err rc = driver_init(&r->driver, &e);

    if (rc == ERR_OK) {
        rc = all_steps(r, &e);
    }
    if (rc == ERR_OK) {
        rc = follow_events(r, &tail, &e);
    }
    if (rc == ERR_OK && !r->options->dry_run) {
        rc = run_execute(r, document, &code, &e);
    }
    clean_up(r);
    events_tail_end(tail);
    if (rc != ERR_OK) {
        code = failure_code(r, rc);
        put_failure(r, &e, code, document);
    }
    return code;
}

/* `tactus run FILE`, as it is: the user's own decision. */
static int run_without(const struct run *r)
{
    char file[PATH_MAX + NAME_MAX + 2];
    char program[] = "tactus";
    char verb[] = "run";

    snprintf(file, sizeof(file), "%s/%s", r->directory, r->file_name);
    char *argv[] = {program, verb, file, NULL};
    execvp(program, argv);
    fprintf(stderr,
            RUNNER_NAME " run: without a sandbox the procedure is run by `tactus run`: %s\n",
            strerror(errno));
    return EX_UNAVAILABLE;
}

static int prepare(struct run *r, const struct run_line *line, struct error *e)
{
    enum err rc = settings_init(&r->settings, e);

    if (rc == ERR_OK) {
        rc = run_read(r, e);
    }
    if (rc != ERR_OK) {
        return failure_code(r, rc);
    }
    if (read_flags(r, line, e) != ERR_OK) {
        return EX_USAGE;
    }
    if (r->settings.enabled == SANDBOX_OFF) {
        return run_without(r);
    }
    rc = keeper_start(&r->keeper, e);
    return rc == ERR_OK ? RUN_GO_ON : failure_code(r, rc);
}

int run_command(int argc, char **argv)
{
    struct run_line line;
    struct buf document;
    struct error e = {0};
    int code = run_options_read(&line, argc, argv);

    if (code != RUN_GO_ON) {
        run_options_fini(&line);
        return code;
    }
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return EX_OSERR;
    }
    r->options = &line.options;
    r->started_at = clock_mono_ms();
    r->heartbeat = -1;
    r->keeper.fd = -1;
    buf_init(&r->source, 64u * 1024u * 1024u);
    buf_init(&document, DOCUMENT_MAX);
    code = prepare(r, &line, &e);
    if (code == RUN_GO_ON) {
        code = run_it(r, &document);
    } else if (e.msg[0] != '\0') {
        put_failure(r, &e, code, &document);
    }
    if (document.len > 0) {
        buf_put_char(&document, '\n');
        print_document(&document);
    }
    buf_fini(&document);
    forget(r);
    free(r);
    run_options_fini(&line);
    return code;
}
