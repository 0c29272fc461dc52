/*
 * The broker's configuration: one immutable snapshot, shared by all threads, counted references.
 * Read from YAML through one table of keys (base/conf.h), or made by config_dev().
 */
#ifndef TACTUS_GATE_CONFIG_H
#define TACTUS_GATE_CONFIG_H

#include "base/err.h"
#include "base/log.h"
#include "gate/grant.h"
#include "gate/secret.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum listener_kind { LISTENER_UNIX, LISTENER_TCP, LISTENER_TLS };

struct listener_config {
    enum listener_kind kind;
    char *url;              /* as configured */
    char *path;             /* unix */
    char *host;             /* tcp, tls: a literal address or "localhost" */
    uint16_t port;          /* 0: any free one */
    unsigned mode;          /* unix: file mode, default 0660 */
    char *cert_file;        /* tls: PEM chain */
    char *key_file;         /* tls: PEM key */
    char *client_ca;        /* tls: NULL, or PEM: a client certificate is then required */
    char *ca_file;          /* tls: NULL, or the CA that clients verify by: told, never read */
    bool half_close_finish; /* unix: true; tcp, tls: false, unless configured */
    bool auth_required;     /* else the listener's grant is everybody's */
    size_t grant;           /* index into config.grants; auth_required: unused */
};

struct provider_config {
    char *name;
    char *type;          /* "openai", "builtin", … */
    char *base_url;      /* no slash at its end; NULL: the type's own */
    struct secret *keys; /* none: none is sent */
    size_t nkeys;
    char *api_version; /* azure_openai */
    char *region;      /* bedrock */
    char *profile;     /* bedrock; NULL: AWS_PROFILE, or "default" */
    char *ca_file;
    char *proxy;
    bool stream_usage;
};

/* Whether any of its keys was there. */
bool config_has_key(const struct provider_config *p);

/* A name of ours for models, tried in order. */
struct model_config {
    char *name;
    struct model_target {
        size_t provider;   /* index into config.providers */
        const char *model; /* points into `text` */
        char *text;        /* PROVIDER/MODEL */
    } * targets;
    size_t ntargets;
};

/* When a call is tried again. Times in milliseconds. */
struct routing_config {
    unsigned retries; /* of one target, after the first try */
    uint32_t backoff; /* the first pause is up to this long, each further one up to twice as long */
    uint32_t max_backoff;      /* no pause is longer, unless the provider asks for it */
    uint32_t max_retry_after;  /* a provider that asks for a longer pause is not waited for */
    uint32_t key_rest;         /* of a key that was refused (401) */
    unsigned breaker_failures; /* in a row, then a target is left out; 0: never */
    uint32_t breaker_rest;     /* for so long */
};

struct limits {
    uint64_t
        max_connections; /* 0 in the file: (descriptor limit - 200) / 2, already resolved here */
    uint64_t max_message_bytes;
    uint64_t max_reply_bytes;
    uint64_t max_buffered_bytes;
    uint64_t max_event_bytes;
    unsigned max_json_depth;
    unsigned max_inflight_per_connection;
    unsigned max_inflight;
    /* seconds in the file, milliseconds here */
    uint32_t handshake_timeout;
    uint32_t first_byte_timeout;
    uint32_t request_timeout;
    uint32_t idle_timeout;
    uint32_t connect_timeout;
    uint32_t provider_first_byte_timeout;
    uint32_t stall_timeout;
    uint32_t total_timeout;
};

/* The admin API: who listens where, what callers over TCP must show. */
struct admin_config {
    struct listener_config *listeners; /* unix (mode 0600) and tcp on loopback; grant unused */
    size_t nlisteners;                 /* 0: there is no admin API */
    struct secret token;               /* SECRET_NONE: only Unix sockets listen */
    char *runs_directory; /* NULL: no Unix listener it could be beside, and none was configured */
};

struct buf;
struct conf_map;
struct prices;
struct redact;

struct config {
    atomic_uint refs;
    unsigned workers;       /* resolved: >= 1 */
    uint32_t drain_timeout; /* ms */
    struct listener_config *listeners;
    size_t nlisteners;
    struct provider_config *providers;
    size_t nproviders;
    struct model_config *models;
    size_t nmodels;
    struct routing_config routing;
    struct grant **grants;
    struct secret *tokens; /* one a grant; SECRET_NONE: it has none */
    size_t ngrants;
    struct admin_config admin;
    struct limits limits;
    enum log_level log_level;
    enum log_format log_format;
    char *usage_database;     /* NULL: no ledger is kept */
    uint64_t usage_retention; /* ms; 0: for ever */
    struct prices *prices;    /* NULL: none is known */
    struct redact *redact;    /* knows every loaded secret */
};

/*
 * Reads and checks `path`. ERR_CONFIG with "file:line:column: key: what is wrong, what was
 * expected". Secrets are loaded (config_load_secrets) in a second step so that --check-config works
 * without them being there.
 */
enum err config_read(const char *path, struct config **out, struct error *e) MUST_CHECK;

/* Reads and checks `path`, and appends what holds with it, defaults included, as YAML; of secrets
 * only where they come from. ERR_CONFIG, ERR_NOMEM. */
enum err config_print(const char *path, struct buf *out, struct error *e) MUST_CHECK;

/* The same from memory; `name` stands for the file in messages. */
enum err config_parse(const char *name, const char *text, size_t n, struct config **out,
                      struct error *e) MUST_CHECK;

/* The defaults, the built-in provider, a grant "dev" that allows all; no listeners. */
enum err config_dev(struct config **out, struct error *e) MUST_CHECK;

/* Adds a listener with the defaults of its kind and grant 0. ERR_CONFIG for a URL that is none. */
enum err config_add_listener(struct config *c, const char *url, const char *cert_file,
                             const char *key_file, struct error *e) MUST_CHECK;

/* The listener added last gets `ca_file`, the CA that its clients verify by. */
enum err config_set_ca_file(struct config *c, const char *ca_file, struct error *e) MUST_CHECK;

/*
 * The admin API of --dev: a Unix socket at `path`, loopback TCP on a free port, a fresh random
 * token of 256 bits in secure memory (secret_arena_init() comes first). Once; for a config without
 * an admin section.
 */
enum err config_dev_admin(struct config *c, const char *path, struct error *e) MUST_CHECK;

/* Loads every provider's key, and the admin token, into secure memory and into c->redact; of tokens
 * of grants the hash is kept alone. With
 * `allow_missing` a provider whose key is not there is kept, keyless and logged as a warning; its
 * requests fail with AuthenticationError. An admin token that is not there is always an error. */
enum err config_load_secrets(struct config *c, bool allow_missing, struct error *e) MUST_CHECK;

/*
 * The same for a reload: `before` is in force. What comes from the environment was read at the
 * start and is taken over; ERR_CONFIG for a variable that `before` has not. Grants go on counting
 * where those of the same name in `before` are. Secrets of `before` stay known to the redactor too:
 * calls that began with them are in flight.
 */
enum err config_load_secrets_again(struct config *c, const struct config *before,
                                   bool allow_missing, struct error *e) MUST_CHECK;

/* Overwrites the variables that secrets came from, in place. Before there are threads. */
void config_forget_env(const struct config *c);

/* NULL: there is none of that name. */
struct grant *config_find_grant(const struct config *c, const char *name);

/* Whether `sha256` (SECRET_SHA256_SIZE bytes) is the hash of a loaded secret. */
bool config_has_secret(const struct config *c, const unsigned char *sha256);

/* Each reader has one reference; the last to go wipes the secrets. */
struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* NULL is harmless */

/* The table of keys of the whole file, for documentation and its tests. */
const struct conf_map *config_keys(void);

#endif
