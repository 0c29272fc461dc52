/*
 * One run of a procedure in a container: everything that it makes, and its one clean-up.
 *
 * The parts are filled in this order; run_clean_up undoes what is there in the reverse one, in
 * every ending that this process lives to see (the keeper sees to the rest):
 *   settings, source -> engine -> image -> network -> grant -> directories -> container
 */
#ifndef TACTUS_RUNNER_RUN_H
#define TACTUS_RUNNER_RUN_H

#include "base/buf.h"
#include "engine/engine.h"
#include "net/driver.h"
#include "run/grants.h"
#include "run/keeper.h"
#include "spec/settings.h"
#include "spec/volumes.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define RUN_ID_SIZE    9
#define RUN_MOUNTS_MAX 64
#define RUN_LABEL      "tactus.run" /* on every container of a run: its id */
#define RUN_LABEL_PID  "tactus.runner.pid"
#define RUN_LABEL_TIME "tactus.runner.start" /* of that process, in clock ticks since boot */
#define RUN_LABEL_BOOT "tactus.boot"         /* the machine's boot id */

/* The command line, beyond what spec/settings.h reads. Borrowed from argv. */
struct run_options {
    const char *file;
    const char *config;
    const char *engine;
    const char *admin;
    const char *broker; /* NULL: a grant is asked for */
    const char *events; /* a file or "-"; NULL: none */
    const char *run_id;
    const char *task;
    struct buf params; /* a JSON object */
    bool json;         /* stdout has nothing but the result */
    bool keep;         /* the container, stopped, and the directories stay */
    bool dry_run;
    bool no_pull;
};

struct run {
    const struct run_options *options;
    struct settings settings;
    struct driver driver;
    struct keeper keeper;
    uint64_t started_at; /* clock_mono_ms */

    char id[RUN_ID_SIZE];
    char name[64];            /* of the container */
    char directory[PATH_MAX]; /* the procedure's, absolute, links resolved */
    char file_name[NAME_MAX + 1];
    struct buf source;

    struct engine *engine;
    struct engine_image image;
    struct engine_network network; /* gateway "": none */

    struct grants grants;
    bool has_grants; /* an admin port is known */
    struct run_grant grant;
    bool granted;
    struct fetch_call *renewal;
    struct loop_deadline renew;

    char workspace[PATH_MAX]; /* "": none; what is mounted at /workspace */
    bool workspace_is_copy;
    char shim_dir[PATH_MAX]; /* "": none; tactus-init, the heartbeat, the CA */
    int heartbeat;           /* the write end; -1: none */
    struct mount mounts[RUN_MOUNTS_MAX];
    size_t nmounts;
    struct env_entry *env;
    size_t nenv;

    char container[ENGINE_ID_SIZE]; /* "": none */
};

/* ---- run_prepare.c: what the container will be ---- */

/* Reads the procedure and the settings; checks them. Nothing is made yet. */
enum err run_read(struct run *r, struct error *e) MUST_CHECK;
/* The line that the container reads first. Failure shows in buf_status. */
void run_put_request(const struct run *r, struct buf *out);

/* ---- run_container.c: what it is made of, and its create request ---- */

/* Directories, mounts, environment: all that the create request names. With a dry run nothing is
 * made on disk. */
enum err run_furnish(struct run *r, struct error *e) MUST_CHECK;
/* The body of the create request. */
enum err run_create_json(struct run *r, bool redact_env, struct buf *out,
                         struct error *e) MUST_CHECK;

/* ---- run_execute.c: from created to gone ---- */

/* Attaches, starts, relays, waits. Appends the result document; *code is its exit code. */
enum err run_execute(struct run *r, struct buf *document, int *code, struct error *e) MUST_CHECK;

/* ---- run_sweep.c: what runs that were killed left ---- */

/* Removes containers of runs whose runner is gone, and directories of theirs. Counts them. */
enum err run_sweep(struct engine *engine, size_t *containers, size_t *directories,
                   struct error *e) MUST_CHECK;

#endif
