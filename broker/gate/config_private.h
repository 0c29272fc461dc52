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

/* ---- the file ---- */

struct listener_file {
    char *url;
    unsigned mode;
    char *cert;
    char *key;
    char *client_ca;
    char *ca_file;
    int half_close;
    char *auth;
    char *grant;
};

struct provider_file {
    char *name;
    int type;
    char *base_url;
    struct conf_list keys;
    char *ca_file;
    char *proxy;
    bool stream_usage;
};

struct grant_file {
    char *name;
    struct conf_list models;
    struct conf_list tools;
};

struct admin_file {
    struct conf_list listen;
    struct conf_secret token;
    char *runs_directory;
};

struct file {
    unsigned workers;
    uint32_t drain_timeout;
    struct conf_list listeners;
    struct admin_file admin;
    struct conf_list providers;
    struct conf_list grants;
    struct limits limits;
    enum log_level log_level;
    enum log_format log_format;
    int log_prompts;
};

enum { CONFIG_TYPE_OPENAI, CONFIG_TYPE_BUILTIN };

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

/* ---- config_listener.c ---- */

/* Fills kind, path, host, port from `url`; ERR_CONFIG with *why, ERR_NOMEM. */
enum err config_parse_url(struct listener_config *l, const char *url, const char **why) MUST_CHECK;
/* Would both bind the same socket? */
bool config_same_place(const struct listener_config *a, const struct listener_config *b);
enum err config_build_listeners(struct config_build *b) MUST_CHECK;
void config_listener_fini(struct listener_config *l);

/* ---- config_admin.c ---- */

enum err config_build_admin(struct config_build *b) MUST_CHECK;
/* The token, into secure memory and into c->redact. */
enum err config_load_admin_secret(struct config *c, struct error *e) MUST_CHECK;
void config_admin_fini(struct admin_config *a);

#endif
