/*
 * See settings.h. One table of keys for files; a flag is the same key under the name that the
 * command line gives it. A value from either goes through the same reading (apply).
 */
#include "spec/settings.h"

#include "base/conf.h"
#include "base/span.h"
#include "base/text.h"
#include "spec/environment.h"
#include "spec/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LIST_MAX 1000

static const char *const transport_names[] = {"stdio", "unix", "tcp", "tls"};

const char *transport_name(enum transport t)
{
    return transport_names[t];
}

/* ---- what a file says ---- */

struct file_limits {
    char *memory;
    char *cpus;
    char *pids;
};

/* Everything a text, so that a value means the same here and on the command line. */
struct file_sandbox {
    char *enabled;
    char *image;
    char *build_context;
    char *build_file;
    struct conf_list build_sources;
    char *mcp_servers_path;
    struct conf_list env;
    struct conf_list volumes;
    char *mount_current_dir;
    char *network;
    char *broker_transport;
    char *broker_host;
    char *broker_bind_host;
    char *broker_port;
    char *broker_tls_cert_file;
    char *broker_tls_key_file;
    struct file_limits limits;
    char *timeout;
    char *dev_mode;
    char *user;
    char *writable_root;
    struct conf_list models;
    struct conf_list tools;
};

struct file {
    struct file_sandbox sandbox;
};

#define TEXT(name, owner, member, words)                                                           \
    {                                                                                              \
        CONF_FIELD(name, owner, member), .type = CONF_STRING, .max = 4096, .nullable = true,       \
                                         .doc = (words)                                            \
    }

static const struct conf_key limits_keys[] = {
    TEXT("memory", struct file_limits, memory, "2g: the most memory, swap included"),
    TEXT("cpus", struct file_limits, cpus, "2: processors"),
    TEXT("pids", struct file_limits, pids, "512: processes and threads"),
};

static const struct conf_map limits_map = {.keys = limits_keys,
                                           .nkeys = sizeof(limits_keys) / sizeof(limits_keys[0]),
                                           .size = sizeof(struct file_limits)};

#define SANDBOX(name, member, words) TEXT(name, struct file_sandbox, member, words)
#define SANDBOX_LIST(name, kind, member, none, words)                                              \
    {                                                                                              \
        CONF_FIELD(name, struct file_sandbox, member), .type = (kind), .max = LIST_MAX,            \
                                                       .nullable = (none), .doc = (words)          \
    }

static const struct conf_key sandbox_keys[] = {
    SANDBOX("enabled", enabled, "null or auto, true (required), false (no container)"),
    SANDBOX("image", image, "tactus-sandbox:local"),
    SANDBOX("build_context", build_context, "the image is built from here when it is stale"),
    SANDBOX("build_file", build_file, "Dockerfile"),
    SANDBOX_LIST("build_sources", CONF_LIST_OF_STRING, build_sources, true,
                 "what counts; the context"),
    SANDBOX("mcp_servers_path", mcp_servers_path, "~/.tactus/mcp-servers: at /mcp-servers"),
    SANDBOX_LIST("env", CONF_MAP_OF_STRING, env, true, "variables of the container"),
    SANDBOX_LIST("volumes", CONF_LIST_OF_STRING, volumes, true, "HOST:CONTAINER[:MODE]"),
    SANDBOX("mount_current_dir", mount_current_dir, "true: a copy of the procedure's directory"),
    SANDBOX("network", network, "none, tactus, bridge or another; by transport"),
    SANDBOX("broker_transport", broker_transport, "stdio, unix, tcp or tls"),
    SANDBOX("broker_host", broker_host, "host.docker.internal: the broker's name inside"),
    SANDBOX("broker_bind_host", broker_bind_host, "the network's gateway: where it listens"),
    SANDBOX("broker_port", broker_port, "0: any free one"),
    SANDBOX("broker_tls_cert_file", broker_tls_cert_file, "the broker's own, if not given"),
    SANDBOX("broker_tls_key_file", broker_tls_key_file, "with broker_tls_cert_file"),
    {CONF_FIELD("limits", struct file_sandbox, limits), .type = CONF_MAP, .map = &limits_map,
     .nullable = true, .doc = "what the container may use"},
    SANDBOX("timeout", timeout, "3600: seconds"),
    SANDBOX("dev_mode", dev_mode, "false: the checkout's package at /app/tactus"),
    SANDBOX("user", user, "UID:GID; the caller's"),
    SANDBOX("writable_root", writable_root, "false: the root file system is read-only"),
    /* Not nullable: nobody could tell whether nothing means none or all. */
    SANDBOX_LIST("models", CONF_LIST_OF_STRING, models, false, "globs of models; all"),
    SANDBOX_LIST("tools", CONF_LIST_OF_STRING, tools, false, "globs of tools; all"),
};

static const struct conf_map sandbox_map = {
    .keys = sandbox_keys,
    .nkeys = sizeof(sandbox_keys) / sizeof(sandbox_keys[0]),
    .size = sizeof(struct file_sandbox),
};

static const struct conf_key file_keys[] = {
    {CONF_FIELD("sandbox", struct file, sandbox), .type = CONF_MAP, .map = &sandbox_map,
     .nullable = true, .doc = "how the procedure is run"},
};

/* The rest of a sidecar is the procedure's own. */
static const struct conf_map file_map = {
    .keys = file_keys, .nkeys = 1, .size = sizeof(struct file), .open = true};

/* ---- one value ---- */

static const char out_of_memory[] = "out of memory";

/* NULL when it was taken, else what was expected. */
typedef const char *apply_fn(struct settings *s, void *field, const char *value);

static const char *apply_text(struct settings *s, void *field, const char *value)
{
    char **text = field;
    char *copy = strdup(value);

    (void)s;
    if (value[0] == '\0') {
        free(copy);
        return "a text";
    }
    if (copy == NULL) {
        return out_of_memory;
    }
    free(*text);
    *text = copy;
    return NULL;
}

/* A path: ~ is the home directory. */
static const char *apply_path(struct settings *s, void *field, const char *value)
{
    const char *home = getenv("HOME");
    char path[4096];

    if (value[0] != '~' || (value[1] != '\0' && value[1] != '/') || home == NULL) {
        return apply_text(s, field, value);
    }
    int n = snprintf(path, sizeof(path), "%s%s", home, value + 1);
    return n > 0 && (size_t)n < sizeof(path) ? apply_text(s, field, path) : "a shorter path";
}

static const char *apply_bool(struct settings *s, void *field, const char *value)
{
    (void)s;
    if (strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0) {
        *(bool *)field = true;
        return NULL;
    }
    if (strcasecmp(value, "false") == 0 || strcasecmp(value, "no") == 0) {
        *(bool *)field = false;
        return NULL;
    }
    return "true or false";
}

static const char *apply_enabled(struct settings *s, void *field, const char *value)
{
    bool on = false;

    if (strcasecmp(value, "auto") == 0 || strcasecmp(value, "null") == 0) {
        s->enabled = SANDBOX_AUTO;
        return NULL;
    }
    (void)field;
    if (apply_bool(s, &on, value) != NULL) {
        return "auto, true or false";
    }
    s->enabled = on ? SANDBOX_REQUIRED : SANDBOX_OFF;
    return NULL;
}

static const char *apply_transport(struct settings *s, void *field, const char *value)
{
    (void)field;
    for (size_t i = 0; i < sizeof(transport_names) / sizeof(transport_names[0]); i++) {
        if (strcasecmp(value, transport_names[i]) == 0) {
            s->transport = (enum transport)i;
            return NULL;
        }
    }
    return "stdio, unix, tcp or tls";
}

static const char *apply_port(struct settings *s, void *field, const char *value)
{
    uint64_t port = 0;

    (void)field;
    if (!quantity_u64(value, &port) || port > 65535) {
        return "a port from 0 to 65535";
    }
    s->broker_port = (uint16_t)port;
    return NULL;
}

static const char *apply_memory(struct settings *s, void *field, const char *value)
{
    uint64_t bytes = 0;

    (void)field;
    if (!quantity_bytes(value, &bytes) || bytes > QUANTITY_MEMORY_MAX ||
        (bytes != 0 && bytes < QUANTITY_MEMORY_MIN)) {
        return "a size from 6m to 1024t, such as 512m, 2g or 1.5g, or 0 for no limit";
    }
    const char *fault = apply_text(s, &s->memory_text, value);
    if (fault == NULL) {
        s->memory = bytes;
    }
    return fault;
}

static const char *apply_cpus(struct settings *s, void *field, const char *value)
{
    uint64_t nano = 0;

    (void)field;
    if (!quantity_nano(value, &nano) || (nano != 0 && nano < QUANTITY_CPUS_MIN)) {
        return "a number of processors from 0.01, such as 2 or 0.5, or 0 for no limit";
    }
    s->nano_cpus = nano;
    return NULL;
}

static const char *apply_pids(struct settings *s, void *field, const char *value)
{
    uint64_t pids = 0;

    (void)field;
    if (!quantity_u64(value, &pids) || pids < 2 || pids > 4194304) {
        return "a number from 2 to 4194304";
    }
    s->pids = pids;
    return NULL;
}

static const char *apply_timeout(struct settings *s, void *field, const char *value)
{
    uint64_t nano = 0;

    (void)field;
    if (!quantity_nano(value, &nano) || nano < 1000000 || nano > UINT64_C(2592000) * 1000000000) {
        return "seconds, from 0.001 to 2592000";
    }
    s->timeout_ms = (uint32_t)(nano / 1000000);
    return NULL;
}

static const char *apply_user(struct settings *s, void *field, const char *value)
{
    size_t n = strspn(value, "0123456789");
    size_t m = value[n] == ':' ? strspn(value + n + 1, "0123456789") : 0;

    if (n == 0 || n > 10 || m > 10 || (value[n] != '\0' && (m == 0 || value[n + 1 + m] != '\0'))) {
        return "UID or UID:GID, as numbers";
    }
    return apply_text(s, field, value);
}

static const char *apply_url(struct settings *s, void *field, const char *value)
{
    bool good = strncmp(value, "http://", 7) == 0 || strncmp(value, "https://", 8) == 0;

    return good ? apply_text(s, field, value) : "an http:// or https:// URL";
}

/* ---- values that add up ---- */

static const char *add_text(char ***list, size_t *n, const char *value)
{
    char **grown = *n < LIST_MAX ? realloc(*list, (*n + 1) * sizeof(**list)) : NULL;

    if (*n == LIST_MAX) {
        return "fewer of them";
    }
    if (grown == NULL) {
        return out_of_memory;
    }
    *list = grown;
    grown[*n] = NULL;
    const char *fault = apply_text(NULL, &grown[*n], value);
    *n += fault == NULL ? 1 : 0;
    return fault;
}

static const char *set_env(struct settings *s, const char *name, const char *value)
{
    char *copy = strdup(value);

    for (size_t i = 0; i < s->nenv && copy != NULL; i++) {
        if (strcmp(s->env[i].name, name) == 0) {
            free(s->env[i].value);
            s->env[i].value = copy;
            return NULL;
        }
    }
    struct env_entry *grown =
        s->nenv < LIST_MAX ? realloc(s->env, (s->nenv + 1) * sizeof(*s->env)) : NULL;
    char *name_copy = strdup(name);
    if (grown != NULL) {
        s->env = grown;
    }
    if (grown == NULL || copy == NULL || name_copy == NULL) {
        free(copy);
        free(name_copy);
        return s->nenv == LIST_MAX ? "fewer of them" : out_of_memory;
    }
    grown[s->nenv++] = (struct env_entry){.name = name_copy, .value = copy};
    return NULL;
}

static const char *add_env(struct settings *s, void *field, const char *value)
{
    static const char wanted[] = "NAME=VALUE, or the NAME of a variable that is set";
    const char *equals = strchr(value, '=');
    char name[256];
    size_t n = equals == NULL ? strlen(value) : (size_t)(equals - value);

    (void)field;
    if (n == 0 || n >= sizeof(name)) {
        return wanted;
    }
    memcpy(name, value, n);
    name[n] = '\0';
    /* Without a value it is ours: so that it need not stand on a command line. */
    const char *text = equals != NULL ? equals + 1 : getenv(name);
    if (!environment_name_ok(name) || text == NULL) {
        return wanted;
    }
    /* It travels as JSON. */
    return text_utf8_valid(text, strlen(text)) ? set_env(s, name, text) : "a value in UTF-8";
}

static const char *add_volume(struct settings *s, void *field, const char *value)
{
    (void)field;
    return add_text(&s->volumes, &s->nvolumes, value);
}

static const char *add_allowed(struct settings *s, void *field, const char *value)
{
    (void)field;
    return add_text(&s->allow_env, &s->nallow_env, value);
}

static void free_texts(char ***list, size_t *n)
{
    for (size_t i = 0; i < *n; i++) {
        free((*list)[i]);
    }
    free(*list);
    *list = NULL;
    *n = 0;
}

static const char *add_source(struct settings *s, void *field, const char *value)
{
    (void)field;
    return add_text(&s->build_sources, &s->nbuild_sources, value);
}

/* The first that is named replaces "all". */
static const char *add_model(struct settings *s, void *field, const char *value)
{
    (void)field;
    if (!s->models_named) {
        free_texts(&s->models, &s->nmodels);
    }
    s->models_named = true;
    return add_text(&s->models, &s->nmodels, value);
}

static const char *add_tool(struct settings *s, void *field, const char *value)
{
    (void)field;
    if (!s->tools_named) {
        free_texts(&s->tools, &s->ntools);
    }
    s->tools_named = true;
    return add_text(&s->tools, &s->ntools, value);
}

/* ---- the table of both ---- */

struct setting {
    const char *flag;     /* on the command line; NULL: none */
    const char *key;      /* in a file; NULL: none */
    const char *fallback; /* the default, as it would be written; NULL: the field stays NULL */
    apply_fn *apply;
    size_t offset;  /* of the field that `apply` fills */
    size_t in_file; /* of its text in struct file_sandbox */
};

#define NOWHERE         SIZE_MAX
#define IN(member)      offsetof(struct settings, member)
#define FILE_AT(member) offsetof(struct file_sandbox, member)

static const struct setting table[] = {
    {"enabled", "enabled", "auto", apply_enabled, 0, FILE_AT(enabled)},
    {"image", "image", "tactus-sandbox:local", apply_text, IN(image), FILE_AT(image)},
    {NULL, "build_context", NULL, apply_path, IN(build_context), FILE_AT(build_context)},
    {"build-file", "build_file", "Dockerfile", apply_text, IN(build_file), FILE_AT(build_file)},
    {"mcp-servers-path", "mcp_servers_path", "~/.tactus/mcp-servers", apply_path,
     IN(mcp_servers_path), FILE_AT(mcp_servers_path)},
    {"mount-current-dir", "mount_current_dir", "true", apply_bool, IN(mount_current_dir),
     FILE_AT(mount_current_dir)},
    {"network", "network", NULL, apply_text, IN(network), FILE_AT(network)},
    {"transport", "broker_transport", "stdio", apply_transport, 0, FILE_AT(broker_transport)},
    {"broker-host", "broker_host", "host.docker.internal", apply_text, IN(broker_host),
     FILE_AT(broker_host)},
    {"broker-bind-host", "broker_bind_host", NULL, apply_text, IN(broker_bind_host),
     FILE_AT(broker_bind_host)},
    {"broker-port", "broker_port", "0", apply_port, 0, FILE_AT(broker_port)},
    {"cert", "broker_tls_cert_file", NULL, apply_path, IN(cert_file),
     FILE_AT(broker_tls_cert_file)},
    {"key", "broker_tls_key_file", NULL, apply_path, IN(key_file), FILE_AT(broker_tls_key_file)},
    {"memory", "limits.memory", "2g", apply_memory, 0, FILE_AT(limits.memory)},
    {"cpus", "limits.cpus", "2", apply_cpus, 0, FILE_AT(limits.cpus)},
    {"pids", "limits.pids", "512", apply_pids, 0, FILE_AT(limits.pids)},
    {"timeout", "timeout", "3600", apply_timeout, 0, FILE_AT(timeout)},
    {"dev", "dev_mode", "false", apply_bool, IN(dev_mode), FILE_AT(dev_mode)},
    {"user", "user", NULL, apply_user, IN(user), FILE_AT(user)},
    {"writable-root", "writable_root", "false", apply_bool, IN(writable_root),
     FILE_AT(writable_root)},
    {"working-dir", NULL, NULL, apply_path, IN(working_dir), NOWHERE},
    {"callback-url", NULL, NULL, apply_url, IN(callback_url), NOWHERE},
    {"env", NULL, NULL, add_env, 0, NOWHERE},
    {"volume", NULL, NULL, add_volume, 0, NOWHERE},
    {"allow-env", NULL, NULL, add_allowed, 0, NOWHERE},
    {"model", NULL, "*", add_model, 0, NOWHERE},
    {"tool", NULL, "*", add_tool, 0, NOWHERE},
};

#define NSETTINGS (sizeof(table) / sizeof(table[0]))

/* ---- files ---- */

static enum err take_fault(const struct conf_doc *doc, const void *base, const char *key,
                           const char *wanted, struct error *e)
{
    if (wanted == out_of_memory) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return conf_fault(doc, base, key, e, "cannot be used, expected %s", wanted);
}

/* The default again. NULL when it is there. */
static const char *reset(struct settings *s, const struct setting *row)
{
    void *field = (char *)s + row->offset;

    if (row->fallback != NULL) {
        return row->apply(s, field, row->fallback);
    }
    char **text = field; /* without a default it is a text */
    free(*text);
    *text = NULL;
    return NULL;
}

static enum err take_scalars(struct settings *s, const struct file_sandbox *f,
                             const struct conf_doc *doc, struct error *e)
{
    for (size_t i = 0; i < NSETTINGS; i++) {
        const struct setting *row = &table[i];
        if (row->in_file == NOWHERE) {
            continue;
        }
        bool limit = strncmp(row->key, "limits.", 7) == 0;
        const void *base = limit ? (const void *)&f->limits : f;
        const char *key = limit ? row->key + 7 : row->key;
        const char *text = *(char *const *)(const void *)((const char *)f + row->in_file);
        const char *wanted = NULL;
        if (text != NULL) {
            wanted = row->apply(s, (char *)s + row->offset, text);
        } else if (conf_has(doc, base, key)) {
            wanted = reset(s, row);
        }
        if (wanted != NULL) {
            return take_fault(doc, base, key, wanted, e);
        }
    }
    return ERR_OK;
}

static enum err take_list(struct settings *s, const struct conf_list *list, apply_fn *add,
                          const struct file_sandbox *f, const char *key, const struct conf_doc *doc,
                          struct error *e)
{
    char *const *items = list->items;

    for (size_t i = 0; i < list->n; i++) {
        const char *wanted = add(s, NULL, items[i]);
        if (wanted != NULL) {
            return take_fault(doc, f, key, wanted, e);
        }
    }
    return ERR_OK;
}

static enum err take_env(struct settings *s, const struct file_sandbox *f,
                         const struct conf_doc *doc, struct error *e)
{
    const struct conf_pair *pairs = f->env.items;

    for (size_t i = 0; i < f->env.n; i++) {
        const char *wanted = environment_name_ok(pairs[i].name)
                                 ? set_env(s, pairs[i].name, pairs[i].value)
                                 : "a name of letters, digits, '_', '.', '-', no digit first";
        if (wanted != NULL) {
            return take_fault(doc, &pairs[i], pairs[i].name, wanted, e);
        }
    }
    return ERR_OK;
}

static enum err take_file(struct settings *s, const struct file_sandbox *f,
                          const struct conf_doc *doc, struct error *e)
{
    /* An empty list of models means none: what a file says, it says. */
    if (conf_has(doc, f, "models") && f->models.n == 0) {
        free_texts(&s->models, &s->nmodels);
        s->models_named = true;
    }
    if (conf_has(doc, f, "tools") && f->tools.n == 0) {
        free_texts(&s->tools, &s->ntools);
        s->tools_named = true;
    }
    enum err rc = take_scalars(s, f, doc, e);
    if (rc == ERR_OK) {
        rc = take_env(s, f, doc, e);
    }
    if (rc == ERR_OK) {
        rc = take_list(s, &f->volumes, add_volume, f, "volumes", doc, e);
    }
    if (rc == ERR_OK) {
        rc = take_list(s, &f->build_sources, add_source, f, "build_sources", doc, e);
    }
    if (rc == ERR_OK) {
        rc = take_list(s, &f->models, add_model, f, "models", doc, e);
    }
    return rc == ERR_OK ? take_list(s, &f->tools, add_tool, f, "tools", doc, e) : rc;
}

enum err settings_parse(struct settings *s, const char *name, const char *text, size_t n,
                        struct error *e)
{
    struct file file = {0};
    struct conf_doc *doc = NULL;
    enum err rc = conf_parse(name, text, n, &file_map, &file, &doc, e);

    if (rc == ERR_OK) {
        rc = take_file(s, &file.sandbox, doc, e);
    }
    conf_fini(&file_map, &file);
    conf_doc_free(doc);
    return rc;
}

enum err settings_read(struct settings *s, const char *path, bool optional, struct error *e)
{
    char *text = NULL;
    size_t n = 0;

    if (optional && access(path, F_OK) != 0 && errno == ENOENT) {
        return ERR_OK;
    }
    enum err rc = conf_load(path, &text, &n, e);
    if (rc == ERR_OK) {
        rc = settings_parse(s, path, text, n, e);
    }
    free(text);
    return rc;
}

/* ---- flags, life ---- */

static enum err flag_fault(const struct setting *row, const char *value, const char *wanted,
                           struct error *e)
{
    if (wanted == out_of_memory) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    if (row->apply == add_env) { /* its value is not for a message */
        return err_set(e, ERR_CONFIG, "--env: expected %s", wanted);
    }
    return err_set(e, ERR_CONFIG, "--%s %.100s: expected %s", row->flag, value, wanted);
}

enum err settings_flag(struct settings *s, const char *name, const char *value, struct error *e)
{
    for (size_t i = 0; i < NSETTINGS; i++) {
        const struct setting *row = &table[i];
        if (row->flag == NULL || strcmp(row->flag, name) != 0) {
            continue;
        }
        const char *wanted = row->apply(s, (char *)s + row->offset, value);
        return wanted == NULL ? ERR_OK : flag_fault(row, value, wanted, e);
    }
    return err_set(e, ERR_CONFIG, "--%s: no such setting", name);
}

enum err settings_init(struct settings *s, struct error *e)
{
    *s = (struct settings){0};
    for (size_t i = 0; i < NSETTINGS; i++) {
        const struct setting *row = &table[i];
        const char *wanted = row->fallback == NULL ? NULL : reset(s, row);
        if (wanted != NULL) {
            return flag_fault(row, row->fallback, wanted, e);
        }
    }
    s->models_named = false;
    s->tools_named = false;
    return ERR_OK;
}

void settings_fini(struct settings *s)
{
    char *const texts[] = {
        s->image,        s->mcp_servers_path, s->network,     s->broker_host, s->broker_bind_host,
        s->cert_file,    s->key_file,         s->memory_text, s->user,        s->working_dir,
        s->callback_url, s->build_context,    s->build_file};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        free(texts[i]);
    }
    for (size_t i = 0; i < s->nenv; i++) {
        free(s->env[i].name);
        if (s->env[i].value != NULL) {
            explicit_bzero(s->env[i].value, strlen(s->env[i].value));
        }
        free(s->env[i].value);
    }
    free(s->env);
    free_texts(&s->build_sources, &s->nbuild_sources);
    free_texts(&s->volumes, &s->nvolumes);
    free_texts(&s->allow_env, &s->nallow_env);
    free_texts(&s->models, &s->nmodels);
    free_texts(&s->tools, &s->ntools);
    *s = (struct settings){0};
}

enum err settings_check(struct settings *s, struct error *e)
{
    bool network = s->transport == TRANSPORT_TCP || s->transport == TRANSPORT_TLS;
    const char *name = transport_names[s->transport];

    if ((s->cert_file == NULL) != (s->key_file == NULL)) {
        return err_set(e, ERR_CONFIG,
                       "broker_tls_cert_file and broker_tls_key_file (--cert, --key) belong "
                       "together: %s is missing",
                       s->cert_file == NULL ? "the certificate" : "the key");
    }
    if (s->network == NULL) {
        const char *fault = apply_text(s, &s->network, network ? "tactus" : "none");
        return fault == NULL ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    }
    if (network && strcmp(s->network, "none") == 0) {
        return err_set(
            e, ERR_CONFIG,
            "transport %s needs a network and network is none: leave network out, or use "
            "transport stdio or unix",
            name);
    }
    return ERR_OK;
}
