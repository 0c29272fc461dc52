/*
 * Shared by the config_*.c files: the file as it is written there, and the steps from it to the
 * snapshot. Nobody else includes it.
 */
#ifndef TACTUS_GATE_CONFIG_PRIVATE_H
#define TACTUS_GATE_CONFIG_PRIVATE_H

#include "base/conf.h"
#include "gate/config.h"

#define CONFIG_WORKERS_MAX  256
#define CONFIG_MODE_DEFAULT 0660u
#define CONFIG_TOKEN_GOOD   32u /* characters of a token that is hard to guess */

/* ---- the file ---- */

struct listener_file {
    char *url;
    unsigned mode;
    char *cert;
    char *key;
    char *client_ca;
    char *ca_file;
    int half_close;
    int auth;
    char *grant;
};

struct provider_file {
    char *name;
    int type;
    char *base_url;
    struct conf_list keys;
    char *api_version;
    char *region;
    char *profile;
    char *ca_file;
    char *proxy;
    bool stream_usage;
};

struct model_file {
    char *name;
    struct conf_list targets;
};

struct client_cert_file {
    char *san;
};

struct grant_file {
    char *name;
    struct conf_list models;
    struct conf_list tools;
    struct conf_secret token;
    struct client_cert_file client_cert;
    unsigned rpm;
    unsigned tpm;
    unsigned max_inflight;
    uint64_t budget_usd;
    uint64_t budget_tokens;
    int budget_period;
};

struct admin_file {
    struct conf_list listen;
    struct conf_secret token;
    char *runs_directory;
};

struct usage_file {
    char *database;
    uint64_t retention;
};

struct prices_file {
    char *file;
};

struct file {
    unsigned workers;
    uint32_t drain_timeout;
    struct conf_list listeners;
    struct admin_file admin;
    struct conf_list providers;
    struct conf_list models;
    struct routing_config routing;
    struct conf_list grants;
    struct usage_file usage;
    struct prices_file prices;
    struct limits limits;
    enum log_level log_level;
    enum log_format log_format;
    int log_prompts;
};

enum {
    CONFIG_TYPE_OPENAI,
    CONFIG_TYPE_AZURE,
    CONFIG_TYPE_ANTHROPIC,
    CONFIG_TYPE_GEMINI,
    CONFIG_TYPE_BEDROCK,
    CONFIG_TYPE_BUILTIN
};
enum { AUTH_NONE, AUTH_REQUIRED };

/* The names of provider types, by the enum above. */
extern const char *const config_types[];

struct config_build {
    struct file *file;
    const struct conf_doc *doc;
    struct config *c;
    struct error *e;
};

/* ---- helpers ---- */

static inline enum err config_no_memory(struct error *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for the configuration");
}

/* Takes `*p` away from its owner. */
static inline char *config_steal(char **p)
{
    char *got = *p;

    *p = NULL;
    return got;
}

/* Takes what `from` owns. */
static inline struct secret config_secret(struct conf_secret *from)
{
    static const enum secret_kind kinds[] = {
        [CONF_SECRET_NONE] = SECRET_NONE,       [CONF_SECRET_ENV] = SECRET_ENV,
        [CONF_SECRET_FILE] = SECRET_FILE,       [CONF_SECRET_CREDENTIAL] = SECRET_CREDENTIAL,
        [CONF_SECRET_COMMAND] = SECRET_COMMAND,
    };
    struct secret s = {
        .kind = kinds[from->kind],
        .source = from->source,
        .argv = from->command.items,
        .argc = from->command.n,
    };

    *from = (struct conf_secret){.kind = CONF_SECRET_NONE};
    return s;
}

/* ---- config_listener.c ---- */

/* Fills kind, path, host, port from `url`; ERR_CONFIG with *why, ERR_NOMEM. */
enum err config_parse_url(struct listener_config *l, const char *url, const char **why) MUST_CHECK;
/* Would both bind the same socket? */
bool config_same_place(const struct listener_config *a, const struct listener_config *b);
enum err config_build_listeners(struct config_build *b) MUST_CHECK;
void config_listener_fini(struct listener_config *l);

/* ---- config_provider.c ---- */

enum err config_build_providers(struct config_build *b) MUST_CHECK;
/* After the providers. */
enum err config_build_models(struct config_build *b) MUST_CHECK;
void config_provider_fini(struct provider_config *p);
void config_model_fini(struct model_config *m);

/* ---- config_grant.c ---- */

enum err config_build_grants(struct config_build *b) MUST_CHECK;
/* After the providers: patterns of models that nothing can match are a mistake. */
enum err config_check_globs(const struct config_build *b) MUST_CHECK;
/* "dev", which allows all. build() leaves room for one. */
enum err config_add_dev_grant(struct config *c, struct error *e) MUST_CHECK;

/* ---- config_admin.c ---- */

enum err config_build_admin(struct config_build *b) MUST_CHECK;
void config_admin_fini(struct admin_config *a);

#endif
