/*
 * What a run is asked for: defaults, then `sandbox:` of the procedure's sidecar (FILE.yml), then
 * --config (same form), then flags. Each step overrides what it names, and a null in a file puts
 * the default back; lists add up, as `env` does (a later value of the same variable wins). Read
 * with base/conf, so unknown keys and wrong types are errors with file and line. After any failure
 * the settings may be changed in part: end them. Pure but for HOME, for the environment by `env`
 * flags without a value, and for the file that is read.
 */
#ifndef TACTUS_RUNNER_SETTINGS_H
#define TACTUS_RUNNER_SETTINGS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum transport { TRANSPORT_STDIO, TRANSPORT_UNIX, TRANSPORT_TCP, TRANSPORT_TLS };
enum sandbox_enabled { SANDBOX_AUTO, SANDBOX_REQUIRED, SANDBOX_OFF };

struct env_entry {
    char *name;
    char *value;
};

struct settings {
    enum sandbox_enabled enabled;
    char *image;          /* "tactus-sandbox:local" */
    char *build_context;  /* NULL: the image is not built here */
    char *build_file;     /* "Dockerfile" */
    char **build_sources; /* none: the context */
    size_t nbuild_sources;
    char *mcp_servers_path; /* "~/.tactus/mcp-servers", expanded */
    struct env_entry *env;
    size_t nenv;
    char **volumes; /* as written; see spec/volumes.h */
    size_t nvolumes;
    char **allow_env; /* --allow-env NAME */
    size_t nallow_env;
    bool mount_current_dir;
    char *network; /* NULL: by transport */
    enum transport transport;
    char *broker_host;      /* "host.docker.internal" */
    char *broker_bind_host; /* NULL: the network's gateway */
    uint16_t broker_port;
    char *cert_file; /* both or none */
    char *key_file;
    uint64_t memory;    /* bytes; 0: no limit */
    char *memory_text;  /* as written, "2g", for messages */
    uint64_t nano_cpus; /* "2" is 2000000000; 0: no limit */
    uint64_t pids;      /* 512 */
    uint32_t timeout_ms;
    bool dev_mode;
    bool writable_root;
    char *user;        /* NULL: the caller's uid:gid */
    char *working_dir; /* NULL: a temporary copy */
    char *callback_url;
    char **models; /* allowlists of the run's grant; default ["*"] */
    size_t nmodels;
    char **tools;
    size_t ntools;
    bool models_named; /* somebody named one: "*" stands no more */
    bool tools_named;
};

/* The defaults. ERR_NOMEM. End with settings_fini in every case. */
enum err settings_init(struct settings *s, struct error *e) MUST_CHECK;
void settings_fini(struct settings *s);

/* Reads `sandbox:` of the YAML file `path` over what is there. A file that is missing is fine when
 * `optional`. Other top-level keys of a sidecar are not ours and are left alone. ERR_CONFIG,
 * ERR_NOMEM. */
enum err settings_read(struct settings *s, const char *path, bool optional,
                       struct error *e) MUST_CHECK;

/* The same from memory; `name` stands for the file in messages, which never have a variable's
 * value. */
enum err settings_parse(struct settings *s, const char *name, const char *text, size_t n,
                        struct error *e) MUST_CHECK;

/* One flag as on the command line, e.g. ("memory", "512m"), ("env", "A=b"), ("transport", "TCP").
 * ERR_CONFIG with "--memory: …, expected …". */
enum err settings_flag(struct settings *s, const char *name, const char *value,
                       struct error *e) MUST_CHECK;

/* What does not fit together: tls with one of certificate and key, tcp or tls with network none, …
 * Before anything is started. Fills in what is left to the transport (network). */
enum err settings_check(struct settings *s, struct error *e) MUST_CHECK;

const char *transport_name(enum transport t);

#endif
