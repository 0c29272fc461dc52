/*
 * A container engine, through the Docker Engine API (Docker's, and podman's compatible service).
 * The contract that the commands use; docker's facts and podman's differences stay behind it.
 *
 * Source of the API: Docker Engine API reference, versions 1.41 and up
 * (docs.docker.com/engine/api). Calls wait (net/driver.h) and have deadlines; `e` always names the
 * call and what the engine said. Common errors: ERR_IO (no answer), ERR_UPSTREAM (the engine
 * refused: e->sys is its HTTP status), ERR_PROTO (an answer that is none), ERR_CLOSED (a signal),
 * ERR_NOMEM.
 */
#ifndef TACTUS_RUNNER_ENGINE_H
#define TACTUS_RUNNER_ENGINE_H

#include "base/buf.h"
#include "base/span.h"
#include "net/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_ID_SIZE 129 /* a container's id and the NUL */

struct engine;

/*
 * Finds an engine that answers: `flag` (--engine; NULL: none) alone if given, else the order of
 * DOCKER_HOST, docker's current context, the usual sockets, CONTAINER_HOST, podman's sockets; each
 * by connecting and GET /_ping within 1 s. Then negotiates the API version (1.41 to ENGINE_API_MAX;
 * DOCKER_API_VERSION overrides). ERR_IO when there is none: the message (engine_find_report for
 * people, several lines) says what was tried and why each failed. ERR_CONFIG: a value of flag or
 * environment that is no engine address, or a version out of reach.
 */
enum err engine_find(struct driver *d, const char *flag, struct engine **out, struct buf *report,
                     struct error *e) MUST_CHECK;
void engine_free(struct engine *engine);

/* "unix:///var/run/docker.sock": what was found; "1.41": the version in use. */
const char *engine_address(const struct engine *engine);
const char *engine_api_version(const struct engine *engine);
/* The path of a Unix socket; NULL for TCP. */
const char *engine_socket(const struct engine *engine);
bool engine_is_podman(const struct engine *engine);

/* ---- images ---- */

struct engine_strings {
    char **v;
    size_t n;
};

struct engine_image {
    char *id;
    struct engine_strings entrypoint;
    struct engine_strings command;
    struct engine_strings env;
    char *user;
    char *version_label; /* of label tactus.version; NULL: none */
    char *hash_label;    /* of label tactus.source_hash; NULL: none */
};

void engine_image_fini(struct engine_image *image);

/* *found false: the engine has none of that name (and only then: any other refusal is an error). */
enum err engine_image_inspect(struct engine *engine, const char *name, struct engine_image *out,
                              bool *found, struct error *e) MUST_CHECK;

/* One step of a long operation: a layer's state ("Downloading"), of how many bytes; total 0:
 * unknown. Strings are valid during the call. */
typedef void engine_progress_fn(void *ctx, const char *item, const char *status, uint64_t current,
                                uint64_t total);

/* Pulls `name` (tag latest when it has neither tag nor digest). Errors that come inside a 200 are
 * found. `progress` may be NULL. A pull without any byte for 60 s fails. */
enum err engine_image_pull(struct engine *engine, const char *name, engine_progress_fn *progress,
                           void *ctx, struct error *e) MUST_CHECK;

/* Builds `context` (a tar archive, borrowed) by the Dockerfile `file` in it as `name`, with the
 * labels (each "key=value"). What the build says comes line by line through `progress` (item "").
 */
enum err engine_image_build(struct engine *engine, const char *name, const char *file,
                            struct span context, const char *const *labels, size_t nlabels,
                            engine_progress_fn *progress, void *ctx, struct error *e) MUST_CHECK;

/* ---- containers ---- */

/* Creates from a create request's JSON (spec/create_request.h). A name that is taken is
 * ERR_UPSTREAM with sys 409 on every engine. Warnings that a limit was dropped are an error, and
 * the container is removed again. On a time-out the container of that name is removed. */
enum err engine_create(struct engine *engine, const char *name, struct span json,
                       char id[ENGINE_ID_SIZE], struct error *e) MUST_CHECK;
enum err engine_start(struct engine *engine, const char *id, struct error *e) MUST_CHECK;
/* A signal to PID 1. ERR_OK also when it runs no more. */
enum err engine_kill(struct engine *engine, const char *id, const char *signal,
                     struct error *e) MUST_CHECK;
/* Removes by id or name, running or not, its anonymous volumes too. ERR_OK when there is none, or
 * its removal is in progress. Waits a little for one that is about to end. */
enum err engine_remove(struct engine *engine, const char *id, struct error *e) MUST_CHECK;

struct engine_state {
    bool running;
    bool oom_killed;
    int exit_code;
    char ip[64]; /* in its first network; "": none */
};

enum err engine_inspect(struct engine *engine, const char *id, struct engine_state *out,
                        struct error *e) MUST_CHECK;

/* The container's next exit. Started before the container is. */
struct engine_exit;
enum err engine_exit_watch(struct engine *engine, const char *id, struct engine_exit **out,
                           struct error *e) MUST_CHECK;
const bool *engine_exit_done(const struct engine_exit *x);
/* After done: its exit code. ERR_UPSTREAM, ERR_IO when the wait failed (the engine went away). */
enum err engine_exit_code(struct engine_exit *x, int *code, struct error *e) MUST_CHECK;
void engine_exit_end(struct engine_exit *x);

/* Calls `each` for every container, running or not, that has the label key `label`. */
struct engine_container {
    const char *id;
    const char *name; /* without the slash */
    const char *image;
    struct span labels; /* a JSON object of strings */
};
enum err engine_list(struct engine *engine, const char *label,
                     void (*each)(void *ctx, const struct engine_container *c), void *ctx,
                     struct error *e) MUST_CHECK;

/* ---- networks ---- */

struct engine_network {
    char id[ENGINE_ID_SIZE];
    char gateway[64]; /* IPv4; "": none */
    bool internal;
};

enum err engine_network_inspect(struct engine *engine, const char *name, struct engine_network *out,
                                bool *found, struct error *e) MUST_CHECK;
/* Makes the runner's own network once (bridge, internal, no traffic between containers, label
 * tactus.network) and tells its gateway; fine when somebody made it meanwhile. */
enum err engine_network_ensure(struct engine *engine, const char *name, struct engine_network *out,
                               struct error *e) MUST_CHECK;

/* ---- attached streams ---- */

struct attach;

struct attach_handler {
    /* stdout (1) and stderr (2), in pieces as they come; borrowed. */
    void (*on_output)(void *ctx, int stream, const char *p, size_t n);
    /* What stdin had queued fell below the low mark. */
    void (*on_drain)(void *ctx);
    /* Both output streams are over. ERR_OK at their proper end. Comes once, last. */
    void (*on_end)(void *ctx, enum err why);
};

/* Attaches to all three streams of a created container, before it is started. Callbacks come from
 * the loop, not before this returns. */
enum err engine_attach(struct engine *engine, const char *id, const struct attach_handler *handler,
                       void *ctx, struct attach **out, struct error *e) MUST_CHECK;
/* To stdin, all pieces or none. ERR_NOMEM, ERR_CLOSED after attach_end_input or on_end. */
enum err attach_write(struct attach *a, const struct span *pieces, size_t n) MUST_CHECK;
bool attach_congested(const struct attach *a); /* more than 64 KiB are queued: wait for on_drain */
size_t attach_queued(const struct attach *a);
void attach_end_input(struct attach *a); /* the container sees the end of its stdin */
void attach_pause(struct attach *a);     /* no on_output, until: */
void attach_resume(struct attach *a);
void attach_close(struct attach *a); /* at once, frees; no callback any more. NULL is harmless */

#endif
