/* The JSON body of POST /containers/create for a run. Pure. */
#ifndef TACTUS_RUNNER_CREATE_REQUEST_H
#define TACTUS_RUNNER_CREATE_REQUEST_H

#include "base/buf.h"
#include "spec/settings.h"
#include "spec/volumes.h"

/* Everything in these structs is borrowed, for one call. Texts are UTF-8. */
struct label {
    const char *key;
    const char *value;
};

struct create_request {
    const char *image;
    const char *const *entrypoint; /* the shim with its arguments */
    size_t nentrypoint;
    const char *const *command; /* the image's own entrypoint and command */
    size_t ncommand;
    const struct env_entry *env;
    size_t nenv;
    const char *user;        /* "1000:1000" */
    const char *working_dir; /* "/workspace" */
    const struct label *labels;
    size_t nlabels;
    const struct mount *mounts;
    size_t nmounts;
    const char *network;      /* "none", "tactus", … */
    const char *host_gateway; /* what host.docker.internal is; NULL: no such entry */
    uint64_t memory;          /* bytes, no swap beyond it; 0: no limit, here and below */
    uint64_t nano_cpus;
    uint64_t pids;
    bool read_only_root; /* with a tmpfs /tmp, unless a mount is there: half of the memory limit, at
                            most 1 GiB */
};

/*
 * Always: stdin open and attached once, no TTY, all capabilities dropped, no-new-privileges, no
 * automatic removal, log driver none (what the container says goes through us only, and an endless
 * `yes` fills no disk). Values of `env` are not shown with `redact_env` (for --dry-run). Failure
 * shows in buf_status.
 */
void create_request_put(const struct create_request *r, bool redact_env, struct buf *out);

#endif
