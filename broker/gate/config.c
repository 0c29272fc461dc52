/*
 * The configuration: the table of keys, what the table cannot check (names that must exist or
 * differ, what fits which kind of listener or provider), and the snapshot made from it.
 *
 * The file is read into a struct file (fields as they are written there); build() moves its
 * contents into a struct config. After that nothing changes but the secrets being loaded and,
 * before the loops run, listeners being added. Called by main and by reload.
 */
#include "gate/config.h"

#include "base/conf.h"
#include "base/redact.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#define KIB          UINT64_C(1024)
#define MIB          (1024 * KIB)
#define GIB          (1024 * MIB)
#define SECONDS(n)   (UINT64_C(1000) * (n))
#define DAYS(n)      SECONDS(86400 * UINT64_C(n))
#define WORKERS_MAX  256
#define MODE_DEFAULT 0660u
#define OPENAI_URL   "https://api.openai.com/v1"

/* ---- the file ---- */

struct listener_file {
    char *url;
    unsigned mode;
    char *cert;
    char *key;
    char *client_ca;
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

struct file {
    unsigned workers;
    uint32_t drain_timeout;
    struct conf_list listeners;
    struct conf_list providers;
    struct conf_list grants;
    struct limits limits;
    enum log_level log_level;
    enum log_format log_format;
    int log_prompts;
};

static const char *const TYPES[] = {"openai", "builtin", NULL};
static const char *const HALF_CLOSES[] = {"finish", "cancel", NULL};
static const char *const WEB[] = {"http", "https", NULL};
static const char *const PROXIES[] = {"http", "https", "socks5", "socks5h", NULL};
static const char *const LEVELS[] = {"error", "warn", "info", "debug", NULL}; /* enum log_level */
static const char *const FORMATS[] = {"text", "json", NULL};                  /* enum log_format */
static const char *const NO[] = {"false", NULL}; /* a switch that cannot be turned on yet */

enum { TYPE_OPENAI, TYPE_BUILTIN };

#define MAP_OF(keys_, type_)                                                                       \
    {                                                                                              \
        .keys = (keys_), .nkeys = sizeof(keys_) / sizeof((keys_)[0]), .size = sizeof(type_)        \
    }

// clang-format off
#define FIELD(key, member) CONF_FIELD(key, struct file, member)
static const struct conf_key BROKER_KEYS[] = {
    {FIELD("workers", workers), .type = CONF_UINT, .max = WORKERS_MAX, .fallback = "0",
     .doc = "Event loops, each a thread; 0: one for each CPU this process may use."},
    {FIELD("drain_timeout", drain_timeout), .type = CONF_DURATION, .max = DAYS(1),
     .fallback = "30", .doc = "How long streams in flight may still run after SIGTERM."},
};
static const struct conf_map BROKER = MAP_OF(BROKER_KEYS, struct file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct listener_file, member)
static const struct conf_key LISTENER_KEYS[] = {
    {FIELD("url", url), .type = CONF_STRING, .required = true,
     .doc = "unix:///PATH (or just /PATH), tcp://HOST:PORT or tls://HOST:PORT; port 0: any free one."},
    {FIELD("mode", mode), .type = CONF_MODE, .fallback = "0660",
     .doc = "Unix socket: its file mode, octal digits in quotes."},
    {FIELD("cert", cert), .type = CONF_STRING,
     .doc = "tls: file with the certificate chain, PEM."},
    {FIELD("key", key), .type = CONF_STRING,
     .doc = "tls: file with the private key, PEM."},
    {FIELD("client_ca", client_ca), .type = CONF_STRING,
     .doc = "tls: file with the CA that client certificates must come from; absent: none needed."},
    {FIELD("half_close", half_close), .type = CONF_ENUM, .choices = HALF_CLOSES,
     .doc = "After the client's half-close: finish its requests (Unix default) or cancel (tcp, tls)."},
    {FIELD("auth", auth), .type = CONF_STRING, .fallback = "none",
     .doc = "How clients prove who they are; only none at present: the listener decides."},
    {FIELD("grant", grant), .type = CONF_NAME, .required = true,
     .doc = "Name of the grant under which requests of this listener run."},
};
static const struct conf_map LISTENER = MAP_OF(LISTENER_KEYS, struct listener_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct provider_file, member)
static const struct conf_key PROVIDER_KEYS[] = {
    {FIELD("name", name), .type = CONF_NAME, .required = true,
     .doc = "What clients call it: a model is NAME/MODEL."},
    {FIELD("type", type), .type = CONF_ENUM, .choices = TYPES, .required = true,
     .doc = "openai (and everything compatible with it) or builtin (no network, deterministic)."},
    {FIELD("base_url", base_url), .type = CONF_URL, .choices = WEB,
     .doc = "openai: where its API is; absent: https://api.openai.com/v1."},
    {FIELD("keys", keys), .type = CONF_LIST_OF_SECRET, .max = 64,
     .doc = "openai: its key, { env: NAME } or { file: PATH }, one at most; absent: none is sent."},
    {FIELD("ca_file", ca_file), .type = CONF_STRING,
     .doc = "openai: file with the CAs to trust, PEM; absent: the system's."},
    {FIELD("proxy", proxy), .type = CONF_URL, .choices = PROXIES,
     .doc = "openai: proxy to go through; proxy variables of the environment are not obeyed."},
    {FIELD("stream_usage", stream_usage), .type = CONF_BOOL, .fallback = "true",
     .doc = "openai: ask for usage in streams (stream_options); false for servers that refuse it."},
};
static const struct conf_map PROVIDER = MAP_OF(PROVIDER_KEYS, struct provider_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct grant_file, member)
static const struct conf_key GRANT_KEYS[] = {
    {FIELD("name", name), .type = CONF_NAME, .required = true,
     .doc = "What listeners call it."},
    {FIELD("models", models), .type = CONF_LIST_OF_STRING, .max = 1024,
     .doc = "Globs of the models (PROVIDER/MODEL) that may be used; absent: none."},
    {FIELD("tools", tools), .type = CONF_LIST_OF_STRING, .max = 1024,
     .doc = "Globs of the tools that may be called; absent: none."},
};
static const struct conf_map GRANT = MAP_OF(GRANT_KEYS, struct grant_file);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct limits, member)
static const struct conf_key LIMITS_KEYS[] = {
    {FIELD("max_connections", max_connections), .type = CONF_UINT, .max = 10000000, .fallback = "0",
     .doc = "Connections at once; 0: (descriptor limit - 200) / 2, at least 16."},
    {FIELD("max_message_bytes", max_message_bytes), .type = CONF_SIZE, .min = 64, .max = GIB,
     .fallback = "100MiB", .doc = "Largest message of a client."},
    {FIELD("max_reply_bytes", max_reply_bytes), .type = CONF_SIZE, .min = 64, .max = GIB,
     .fallback = "64MiB", .doc = "Largest reply of a provider."},
    {FIELD("max_buffered_bytes", max_buffered_bytes), .type = CONF_SIZE, .min = 64 * KIB,
     .max = 1024 * GIB, .fallback = "1GiB",
     .doc = "Bytes held over all connections; then new requests get Overloaded."},
    {FIELD("max_json_depth", max_json_depth), .type = CONF_UINT, .min = 1, .max = 1024,
     .fallback = "128", .doc = "Arrays and objects of a message open at once."},
    {FIELD("max_inflight_per_connection", max_inflight_per_connection), .type = CONF_UINT,
     .min = 1, .max = 1000000, .fallback = "64", .doc = "Requests in flight on one connection."},
    {FIELD("max_inflight", max_inflight), .type = CONF_UINT, .min = 1, .max = 10000000,
     .fallback = "10000", .doc = "Requests in flight over all connections."},
    {FIELD("handshake_timeout", handshake_timeout), .type = CONF_DURATION, .min = 1,
     .max = DAYS(1), .fallback = "10", .doc = "For the TLS handshake of a client."},
    {FIELD("first_byte_timeout", first_byte_timeout), .type = CONF_DURATION, .min = 1,
     .max = DAYS(1), .fallback = "10", .doc = "For the first byte of a new connection."},
    {FIELD("request_timeout", request_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "30", .doc = "For the rest of a message that has begun."},
    {FIELD("idle_timeout", idle_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(7),
     .fallback = "600", .doc = "For a connection without requests."},
    {FIELD("connect_timeout", connect_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "10", .doc = "For connecting to a provider."},
    {FIELD("provider_first_byte_timeout", provider_first_byte_timeout), .type = CONF_DURATION,
     .min = 1, .max = DAYS(1), .fallback = "120", .doc = "For a provider's first byte."},
    {FIELD("stall_timeout", stall_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(1),
     .fallback = "120", .doc = "Between two bytes of a provider's reply."},
    {FIELD("total_timeout", total_timeout), .type = CONF_DURATION, .min = 1, .max = DAYS(7),
     .fallback = "1800", .doc = "For a whole request."},
};
static const struct conf_map LIMITS = MAP_OF(LIMITS_KEYS, struct limits);

static const struct conf_key EVENTS_KEYS[] = {
    {FIELD("max_event_bytes", max_event_bytes), .type = CONF_SIZE, .min = 64, .max = 64 * MIB,
     .fallback = "1MiB", .doc = "Largest event of a client."},
};
static const struct conf_map EVENTS = MAP_OF(EVENTS_KEYS, struct limits);
#undef FIELD

#define FIELD(key, member) CONF_FIELD(key, struct file, member)
static const struct conf_key LOG_KEYS[] = {
    {FIELD("level", log_level), .type = CONF_ENUM, .choices = LEVELS, .fallback = "info",
     .doc = "error, warn, info or debug."},
    {FIELD("format", log_format), .type = CONF_ENUM, .choices = FORMATS, .fallback = "json",
     .doc = "json (one object a line) or text (for people)."},
    {FIELD("prompts", log_prompts), .type = CONF_ENUM, .choices = NO, .fallback = "false",
     .doc = "Prompts and replies are never logged; there is no audit log that could have them yet."},
};
static const struct conf_map LOG = MAP_OF(LOG_KEYS, struct file);

/* Sections whose keys fill struct file itself lie at offset 0. */
static const struct conf_key FILE_KEYS[] = {
    {.name = "broker", .size = sizeof(struct file), .type = CONF_MAP, .map = &BROKER,
     .doc = "The process."},
    {FIELD("listeners", listeners), .type = CONF_LIST_OF_MAP, .map = &LISTENER, .required = true,
     .min = 1, .max = 256, .doc = "Where clients connect."},
    {FIELD("providers", providers), .type = CONF_LIST_OF_MAP, .map = &PROVIDER, .min = 1,
     .max = 256, .doc = "Where models are; absent: one of type builtin, named builtin."},
    {FIELD("grants", grants), .type = CONF_LIST_OF_MAP, .map = &GRANT, .min = 1, .max = 1024,
     .doc = "Who may use what."},
    {FIELD("limits", limits), .type = CONF_MAP, .map = &LIMITS,
     .doc = "Sizes as 4096, 64KiB, 100MiB; times in seconds, or as 500s, 10m, 1h, 1d."},
    {FIELD("events", limits), .type = CONF_MAP, .map = &EVENTS,
     .doc = "What clients report."},
    {.name = "log", .size = sizeof(struct file), .type = CONF_MAP, .map = &LOG,
     .doc = "The log, on stderr."},
};
static const struct conf_map FILE_MAP = MAP_OF(FILE_KEYS, struct file);
#undef FIELD
// clang-format on

const struct conf_map *config_keys(void)
{
    return &FILE_MAP;
}

static enum err no_memory(struct error *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for the configuration");
}

/* Takes `*p` away from its owner. */
static char *steal(char **p)
{
    char *got = *p;

    *p = NULL;
    return got;
}

/* ---- URLs of listeners ---- */

/* NULL, or why `host` is none that a listener can bind. */
static const char *host_fault(const char *host)
{
    struct in6_addr address;

    if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &address) == 1 ||
        inet_pton(AF_INET6, host, &address) == 1) {
        return NULL;
    }
    return "has a host that is no address, expected an IPv4 address, an IPv6 address in brackets "
           "or "
           "localhost";
}

/* "HOST:PORT" or "[V6]:PORT" into l->host and l->port. */
static enum err parse_authority(struct listener_config *l, const char *text, const char **why)
{
    bool bracket = text[0] == '[';
    const char *host = bracket ? text + 1 : text;
    const char *end = strchr(host, bracket ? ']' : ':');
    const char *colon = bracket && end != NULL ? end + 1 : end;
    uint64_t port = 0;

    if (end == NULL || *colon != ':' || strlen(colon) > 6 ||
        !text_u64(span_str(colon + 1), &port) || port > UINT16_MAX) {
        *why = "has no good port, expected HOST:PORT with a port from 0 to 65535";
        return ERR_CONFIG;
    }
    l->host = strndup(host, (size_t)(end - host));
    if (l->host == NULL) {
        return ERR_NOMEM;
    }
    l->port = (uint16_t)port;
    *why = host_fault(l->host);
    if (*why == NULL && bracket != (strchr(l->host, ':') != NULL)) {
        *why = "has a host in brackets that is no IPv6 address";
    }
    return *why == NULL ? ERR_OK : ERR_CONFIG;
}

/* Fills kind, path, host, port from `url`; ERR_CONFIG with *why. */
static enum err parse_url(struct listener_config *l, const char *url, const char **why)
{
    const char *path = strncmp(url, "unix://", 7) == 0 ? url + 7 : url;

    if (strncmp(url, "tcp://", 6) == 0 || strncmp(url, "tls://", 6) == 0) {
        l->kind = url[1] == 'c' ? LISTENER_TCP : LISTENER_TLS;
        return parse_authority(l, url + 6, why);
    }
    l->kind = LISTENER_UNIX;
    if (path[0] != '/' || path[1] == '\0' || path[strlen(path) - 1] == '/') {
        *why = "is no URL of a listener, expected unix:///PATH, /PATH, tcp://HOST:PORT or "
               "tls://HOST:PORT";
        return ERR_CONFIG;
    }
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        *why = "has a path that is too long for a Unix socket, expected at most 107 bytes";
        return ERR_CONFIG;
    }
    l->path = strdup(path);
    return l->path == NULL ? ERR_NOMEM : ERR_OK;
}

/* Would both bind the same socket? */
static bool same_place(const struct listener_config *a, const struct listener_config *b)
{
    if (a->path != NULL || b->path != NULL) {
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    }
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void listener_fini(struct listener_config *l)
{
    free(l->url);
    free(l->path);
    free(l->host);
    free(l->cert_file);
    free(l->key_file);
    free(l->client_ca);
}

/* ---- from the file to the snapshot ---- */

struct build {
    struct file *file;
    const struct conf_doc *doc;
    struct config *c;
    struct error *e;
};

static enum err build_grants(struct build *b)
{
    struct grant_file *files = b->file->grants.items;
    struct config *c = b->c;

    c->grants = calloc(b->file->grants.n + 1, sizeof(*c->grants));
    if (c->grants == NULL) {
        return no_memory(b->e);
    }
    for (size_t i = 0; i < b->file->grants.n; i++) {
        struct grant_file *f = &files[i];
        for (size_t j = 0; j < i; j++) {
            if (strcmp(c->grants[j].name, f->name) == 0) {
                return conf_fault(b->doc, f, "name", b->e,
                                  "is the name of another grant too, expected a new one");
            }
        }
        c->grants[c->ngrants++] = (struct grant){
            .name = steal(&f->name),
            .models = f->models.items,
            .nmodels = f->models.n,
            .tools = f->tools.items,
            .ntools = f->tools.n,
        };
        f->models = (struct conf_list){NULL, 0};
        f->tools = (struct conf_list){NULL, 0};
    }
    return ERR_OK;
}

/* What belongs to the other type only. */
static enum err check_provider(const struct build *b, const struct provider_file *f)
{
    static const char *const remote[] = {"base_url", "keys", "ca_file", "proxy", "stream_usage"};

    for (size_t i = 0; f->type == TYPE_BUILTIN && i < sizeof(remote) / sizeof(remote[0]); i++) {
        if (conf_has(b->doc, f, remote[i])) {
            return conf_fault(b->doc, f, remote[i], b->e,
                              "is not for type builtin, expected it only with type openai");
        }
    }
    if (f->keys.n > 1) {
        return conf_fault(b->doc, f, "keys", b->e,
                          "has %zu keys, expected one: taking turns with several is not supported "
                          "yet",
                          f->keys.n);
    }
    for (size_t i = 0; i < b->c->nproviders; i++) {
        if (strcmp(b->c->providers[i].name, f->name) == 0) {
            return conf_fault(b->doc, f, "name", b->e,
                              "is the name of another provider too, expected a new one");
        }
    }
    return ERR_OK;
}

static enum err add_provider(struct config *c, struct provider_file *f)
{
    struct provider_config *p = &c->providers[c->nproviders++];
    struct conf_secret *keys = f->keys.items;

    p->name = steal(&f->name);
    p->type = strdup(TYPES[f->type]);
    p->base_url = steal(&f->base_url);
    p->ca_file = steal(&f->ca_file);
    p->proxy = steal(&f->proxy);
    p->stream_usage = f->stream_usage;
    if (f->keys.n > 0) {
        p->key.kind = keys[0].kind == CONF_SECRET_ENV ? SECRET_ENV : SECRET_FILE;
        p->key.source = steal(&keys[0].source);
    }
    if (f->type == TYPE_OPENAI && p->base_url == NULL) {
        p->base_url = strdup(OPENAI_URL);
        if (p->base_url == NULL) {
            return ERR_NOMEM;
        }
    }
    return p->type == NULL ? ERR_NOMEM : ERR_OK;
}

static enum err build_providers(struct build *b)
{
    struct provider_file *files = b->file->providers.items;
    struct config *c = b->c;
    size_t n = b->file->providers.n;

    c->providers = calloc(n + 1, sizeof(*c->providers));
    if (c->providers == NULL) {
        return no_memory(b->e);
    }
    for (size_t i = 0; i < n; i++) {
        enum err err = check_provider(b, &files[i]);
        if (err != ERR_OK) {
            return err;
        }
        if (add_provider(c, &files[i]) != ERR_OK) {
            return no_memory(b->e);
        }
    }
    if (n == 0) {
        struct provider_file builtin = {.name = strdup("builtin"), .type = TYPE_BUILTIN};
        if (builtin.name == NULL || add_provider(c, &builtin) != ERR_OK) {
            return no_memory(b->e);
        }
    }
    return ERR_OK;
}

/* What fits the kind of listener, and the fixed parts. */
static enum err check_listener(const struct build *b, const struct listener_file *f,
                               enum listener_kind kind)
{
    static const char *const tls_only[] = {"cert", "key", "client_ca"};

    for (size_t i = 0; i < sizeof(tls_only) / sizeof(tls_only[0]); i++) {
        bool there = conf_has(b->doc, f, tls_only[i]);
        if (kind != LISTENER_TLS && there) {
            return conf_fault(b->doc, f, tls_only[i], b->e,
                              "is only for a listener with TLS, expected a url with tls://");
        }
        if (kind == LISTENER_TLS && !there && i < 2) {
            return conf_fault(b->doc, f, tls_only[i], b->e,
                              "is missing, expected a PEM file for the url with tls://");
        }
    }
    if (kind != LISTENER_UNIX && conf_has(b->doc, f, "mode")) {
        return conf_fault(b->doc, f, "mode", b->e,
                          "is only for a Unix socket, expected a url with unix://");
    }
    if (strcmp(f->auth, "none") != 0) {
        return conf_fault(b->doc, f, "auth", b->e,
                          "is a way that is not supported yet, expected none");
    }
    return ERR_OK;
}

static enum err find_grant(struct build *b, const struct listener_file *f, size_t *grant)
{
    for (size_t i = 0; i < b->c->ngrants; i++) {
        if (strcmp(b->c->grants[i].name, f->grant) == 0) {
            *grant = i;
            return ERR_OK;
        }
    }
    return conf_fault(b->doc, f, "grant", b->e, "names no grant, expected one of those in grants");
}

static enum err build_listener(struct build *b, struct listener_file *f)
{
    struct config *c = b->c;
    struct listener_config *l = &c->listeners[c->nlisteners++];
    const char *why = NULL;

    enum err err = parse_url(l, f->url, &why);
    if (err == ERR_NOMEM) {
        return no_memory(b->e);
    }
    if (err != ERR_OK) {
        return conf_fault(b->doc, f, "url", b->e, "%s", why);
    }
    err = check_listener(b, f, l->kind);
    if (err == ERR_OK) {
        err = find_grant(b, f, &l->grant);
    }
    for (size_t i = 0; i + 1 < c->nlisteners && err == ERR_OK; i++) {
        if (same_place(&c->listeners[i], l)) {
            err = conf_fault(b->doc, f, "url", b->e,
                             "is where another listener is too, expected a new one");
        }
    }
    l->half_close_finish =
        conf_has(b->doc, f, "half_close") ? f->half_close == 0 : l->kind == LISTENER_UNIX;
    l->mode = f->mode;
    l->url = steal(&f->url);
    l->cert_file = steal(&f->cert);
    l->key_file = steal(&f->key);
    l->client_ca = steal(&f->client_ca);
    return err;
}

static enum err build_listeners(struct build *b)
{
    struct listener_file *files = b->file->listeners.items;
    enum err err = ERR_OK;

    b->c->listeners = calloc(b->file->listeners.n + 1, sizeof(*b->c->listeners));
    if (b->c->listeners == NULL) {
        return no_memory(b->e);
    }
    for (size_t i = 0; i < b->file->listeners.n && err == ERR_OK; i++) {
        err = build_listener(b, &files[i]);
    }
    return err;
}

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    long n;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        n = CPU_COUNT(&set);
    } else { /* more CPUs than the set has room for */
        n = sysconf(_SC_NPROCESSORS_ONLN);
    }
    return n < 1 ? 1u : n > WORKERS_MAX ? (unsigned)WORKERS_MAX : (unsigned)n;
}

static uint64_t usable_connections(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 16;
    }
    uint64_t most = limit.rlim_cur < 10000000 ? limit.rlim_cur : 10000000;
    return most < 232 ? 16 : (most - 200) / 2;
}

/* Moves `file` into a new snapshot. `doc` NULL: there are no listeners, grants and providers. */
static enum err build(struct file *file, const struct conf_doc *doc, struct config **out,
                      struct error *e)
{
    struct build b = {.file = file, .doc = doc, .c = calloc(1, sizeof(struct config)), .e = e};
    enum err err = ERR_NOMEM;

    if (b.c == NULL) {
        return no_memory(e);
    }
    b.c->redact = redact_new();
    if (b.c->redact == NULL) {
        err = no_memory(e);
        goto out;
    }
    b.c->workers = file->workers != 0 ? file->workers : usable_cpus();
    b.c->drain_timeout = file->drain_timeout;
    b.c->limits = file->limits;
    if (b.c->limits.max_connections == 0) {
        b.c->limits.max_connections = usable_connections();
    }
    b.c->log_level = file->log_level;
    b.c->log_format = file->log_format;
    err = build_grants(&b);
    err = err != ERR_OK ? err : build_providers(&b);
    err = err != ERR_OK ? err : build_listeners(&b);

out:
    if (err == ERR_OK) {
        *out = b.c;
    } else {
        config_free(b.c);
    }
    return err;
}

enum err config_parse(const char *name, const char *text, size_t n, struct config **out,
                      struct error *e)
{
    struct file file = {0};
    struct conf_doc *doc = NULL;

    enum err err = conf_parse(name, text, n, &FILE_MAP, &file, &doc, e);
    if (err == ERR_OK) {
        err = build(&file, doc, out, e);
    }
    conf_fini(&FILE_MAP, &file);
    conf_doc_free(doc);
    return err;
}

enum err config_read(const char *path, struct config **out, struct error *e)
{
    char *text = NULL;
    size_t n = 0;

    enum err err = conf_load(path, &text, &n, e);
    if (err == ERR_OK) {
        err = config_parse(path, text, n, out, e);
    }
    free(text);
    return err;
}

/* One item, "*". */
static enum err all(char ***list, size_t *n)
{
    *list = calloc(1, sizeof(char *));
    if (*list == NULL) {
        return ERR_NOMEM;
    }
    *n = 1;
    (*list)[0] = strdup("*");
    return (*list)[0] == NULL ? ERR_NOMEM : ERR_OK;
}

enum err config_dev(struct config **out, struct error *e)
{
    struct file file = {0};
    struct config *c = NULL;

    enum err err = conf_defaults(&FILE_MAP, &file, e);
    err = err != ERR_OK ? err : build(&file, NULL, &c, e);
    conf_fini(&FILE_MAP, &file);
    if (err != ERR_OK) {
        return err;
    }
    struct grant *g = &c->grants[c->ngrants++]; /* build() leaves room for one */
    g->name = strdup("dev");
    if (g->name == NULL || all(&g->models, &g->nmodels) != ERR_OK ||
        all(&g->tools, &g->ntools) != ERR_OK) {
        config_free(c);
        return no_memory(e);
    }
    *out = c;
    return ERR_OK;
}

enum err config_add_listener(struct config *c, const char *url, const char *cert_file,
                             const char *key_file, struct error *e)
{
    struct listener_config l = {.mode = MODE_DEFAULT};
    const char *why = NULL;
    enum err err;

    if (c->ngrants == 0) {
        return err_set(e, ERR_CONFIG, "listener %.200s: there is no grant for it", url);
    }
    err = parse_url(&l, url, &why);
    bool has_files = l.kind == LISTENER_TLS;
    bool fits = has_files == (cert_file != NULL) && has_files == (key_file != NULL);
    if (err == ERR_OK && !fits) {
        why = l.kind == LISTENER_TLS ? "needs a certificate and a key"
                                     : "has a certificate or a key, expected a URL with tls://";
    }
    for (size_t i = 0; i < c->nlisteners && err == ERR_OK && why == NULL; i++) {
        why = same_place(&c->listeners[i], &l) ? "is where another listener is too" : NULL;
    }
    if (why != NULL) {
        err = err_set(e, ERR_CONFIG, "listener %.200s: %s", url, why);
        goto out;
    }
    l.half_close_finish = l.kind == LISTENER_UNIX;
    l.url = strdup(url);
    l.cert_file = cert_file == NULL ? NULL : strdup(cert_file);
    l.key_file = key_file == NULL ? NULL : strdup(key_file);
    struct listener_config *grown = realloc(c->listeners, (c->nlisteners + 1) * sizeof(*grown));
    if (grown != NULL) {
        c->listeners = grown;
    }
    if (err != ERR_OK || grown == NULL || l.url == NULL ||
        (has_files && (l.cert_file == NULL || l.key_file == NULL))) {
        err = no_memory(e);
        goto out;
    }
    c->listeners[c->nlisteners++] = l;

out:
    if (err != ERR_OK) {
        listener_fini(&l);
    }
    return err;
}

enum err config_load_secrets(struct config *c, bool allow_missing, struct error *e)
{
    for (size_t i = 0; i < c->nproviders; i++) {
        struct provider_config *p = &c->providers[i];
        struct error why = {.code = ERR_OK};
        if (p->key.kind == SECRET_NONE) {
            continue;
        }
        enum err err = secret_load(&p->key, &why);
        if (err == ERR_CONFIG && allow_missing) {
            log_warn("config", LOG_MSG("provider has no key"), LOG_STR("provider", p->name),
                     LOG_STR("why", why.msg));
            continue;
        }
        if (err != ERR_OK) {
            return err_set(e, err, "provider %s: %s", p->name, why.msg);
        }
        err = redact_add(c->redact, secret_span(&p->key));
        if (err == ERR_LIMIT) {
            log_warn("config", LOG_MSG("key is too short to be redacted"),
                     LOG_STR("provider", p->name));
        } else if (err != ERR_OK) {
            return no_memory(e);
        }
    }
    return ERR_OK;
}

static void strings_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i]);
    }
    free(list);
}

void config_free(struct config *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->nlisteners; i++) {
        listener_fini(&c->listeners[i]);
    }
    for (size_t i = 0; i < c->nproviders; i++) {
        struct provider_config *p = &c->providers[i];
        free(p->name);
        free(p->type);
        free(p->base_url);
        secret_fini(&p->key);
        free(p->ca_file);
        free(p->proxy);
    }
    for (size_t i = 0; i < c->ngrants; i++) {
        struct grant *g = &c->grants[i];
        free(g->name);
        strings_free(g->models, g->nmodels);
        strings_free(g->tools, g->ntools);
    }
    free(c->listeners);
    free(c->providers);
    free(c->grants);
    redact_free(c->redact);
    free(c);
}
