/*
 * Where an engine may be, in the order in which Docker's and podman's clients look: an address that
 * somebody gave, docker's current context, the usual sockets. Decides from values and from the
 * files of docker's client; connecting is engine_find's business.
 */
#include "engine/engine_private.h"

#include "base/conf.h"
#include "net/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
    const struct engine_surroundings *s;
    engine_hint_fn *fn;
    void *ctx;
};

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

void engine_surroundings_read(struct engine_surroundings *out)
{
    *out = (struct engine_surroundings){
        .docker_host = getenv("DOCKER_HOST"),
        .docker_context = getenv("DOCKER_CONTEXT"),
        .docker_config = getenv("DOCKER_CONFIG"),
        .docker_tls_verify = getenv("DOCKER_TLS_VERIFY"),
        .docker_cert_path = getenv("DOCKER_CERT_PATH"),
        .docker_api_version = getenv("DOCKER_API_VERSION"),
        .container_host = getenv("CONTAINER_HOST"),
        .home = getenv("HOME"),
        .runtime_dir = getenv("XDG_RUNTIME_DIR"),
        .uid = (unsigned)getuid(),
    };
}

/* ---- files of docker's client ---- */

bool engine_docker_file(const struct engine_surroundings *s, const char *rest, char out[PATH_MAX])
{
    int n = 0;

    if (is_set(s->docker_config)) {
        n = snprintf(out, PATH_MAX, "%s%s", s->docker_config, rest);
    } else if (is_set(s->home)) {
        n = snprintf(out, PATH_MAX, "%s/.docker%s", s->home, rest);
    }
    return n > 0 && n < PATH_MAX;
}

bool engine_load_json(const char *path, char **text, size_t *n, struct json_value *out)
{
    struct json_rules rules = {.max_depth = 64};
    struct json_fault fault;

    *text = NULL;
    if (conf_load(path, text, n, NULL) != ERR_OK) {
        return false;
    }
    if (json_check_value(span_of(*text, *n), &rules, out, &fault) != ERR_OK) {
        explicit_bzero(*text, *n); /* config.json may hold logins */
        free(*text);
        *text = NULL;
        return false;
    }
    return true;
}

static bool configured_context(const struct engine_surroundings *s, char *out, size_t size)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    struct json_value top;

    if (!engine_docker_file(s, "/config.json", path) || !engine_load_json(path, &text, &n, &top)) {
        return false;
    }
    bool found = engine_text(top, "currentContext", out, size);
    explicit_bzero(text, n);
    free(text);
    return found;
}

/* ---- docker's current context ---- */

struct context {
    bool named; /* by DOCKER_CONTEXT */
    char name[256];
    char address[PATH_MAX]; /* "": it has none */
    char tls_dir[PATH_MAX]; /* "": none of its own */
};

/* The address in contexts/meta/<sha256 of the name>/meta.json. */
static void read_address(const struct engine_surroundings *s, const char *hash, struct context *c)
{
    char rest[SHA256_HEX_SIZE + 40];
    char path[PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    struct json_value top;

    snprintf(rest, sizeof(rest), "/contexts/meta/%s/meta.json", hash);
    if (engine_docker_file(s, rest, path) && engine_load_json(path, &text, &n, &top)) {
        struct json_value endpoint = json_find(json_find(top, "Endpoints"), "docker");
        (void)engine_text(endpoint, "Host", c->address, sizeof(c->address));
    }
    free(text);
}

/* A context keeps its certificates apart from everything else. */
static void read_tls_dir(const struct engine_surroundings *s, const char *hash, struct context *c)
{
    char rest[SHA256_HEX_SIZE + 40];

    snprintf(rest, sizeof(rest), "/contexts/tls/%s/docker/ca.pem", hash);
    if (engine_docker_file(s, rest, c->tls_dir) && access(c->tls_dir, F_OK) == 0) {
        *strrchr(c->tls_dir, '/') = '\0';
    } else {
        c->tls_dir[0] = '\0';
    }
}

/* False: none is in use ("default" is none: the usual places). */
static bool read_context(const struct engine_surroundings *s, struct context *c)
{
    char hash[SHA256_HEX_SIZE];

    *c = (struct context){.named = is_set(s->docker_context)};
    if (c->named) {
        int n = snprintf(c->name, sizeof(c->name), "%s", s->docker_context);
        c->name[n >= 0 && (size_t)n < sizeof(c->name) ? n : 0] = '\0'; /* too long: not there */
    } else if (!configured_context(s, c->name, sizeof(c->name))) {
        return false;
    }
    if (strcmp(c->name, "default") == 0 || !sha256_hex(span_str(c->name), hash)) {
        return false;
    }
    read_address(s, hash, c);
    read_tls_dir(s, hash, c);
    return true;
}

/* True: the search is over. */
static bool tell_context(const struct walk *w)
{
    struct context c;

    if (!read_context(w->s, &c)) {
        return false;
    }
    bool there = c.address[0] != '\0';
    struct engine_hint hint = {
        .source = c.named ? "DOCKER_CONTEXT" : "docker context",
        .address = there ? c.address : c.name,
        .tls_dir = c.tls_dir[0] == '\0' ? NULL : c.tls_dir,
        .fault = there ? NULL : "there is no such context, or it has no address",
        /* One that is left in config.json from a Docker that is gone does not end the search. */
        .given = c.named || there,
    };
    return w->fn(w->ctx, &hint) || hint.given;
}

/* ---- what was given ---- */

/* DOCKER_TLS_VERIFY and DOCKER_CERT_PATH are about addresses of their own; the context's address is
 * reached with the context's certificates, whoever names it. */
static bool tell_given(const struct walk *w, const char *source, const char *address)
{
    const struct engine_surroundings *s = w->s;
    bool tcp = strncmp(address, "tcp://", 6) == 0;
    char fallback[PATH_MAX];
    struct context c;
    struct engine_hint hint = {.source = source, .address = address, .given = true};

    if (tcp && !is_set(s->docker_host) && read_context(s, &c) && strcmp(c.address, address) == 0) {
        hint.tls_dir = c.tls_dir[0] == '\0' ? NULL : c.tls_dir;
    } else if (tcp && is_set(s->docker_tls_verify)) {
        if (is_set(s->docker_cert_path)) {
            hint.tls_dir = s->docker_cert_path;
        } else if (engine_docker_file(s, "", fallback)) {
            hint.tls_dir = fallback;
        } else {
            hint.fault = "DOCKER_TLS_VERIFY is set, and neither DOCKER_CERT_PATH nor HOME";
        }
    }
    (void)w->fn(w->ctx, &hint);
    return true;
}

/* ---- the usual places ---- */

static bool tell_socket(const struct walk *w, const char *dir, const char *rest)
{
    char address[PATH_MAX + 16];
    struct engine_hint hint = {.source = "", .address = address};

    int n = snprintf(address, sizeof(address), "unix://%s%s", dir, rest);
    if (n < 0 || (size_t)n >= sizeof(address)) {
        hint.fault = "the path is too long for a socket";
    }
    return w->fn(w->ctx, &hint);
}

static bool tell_in_home(const struct walk *w, const char *const *rest, size_t n)
{
    for (size_t i = 0; i < n && is_set(w->s->home); i++) {
        if (tell_socket(w, w->s->home, rest[i])) {
            return true;
        }
    }
    return false;
}

void engine_hints(const struct engine_surroundings *s, const char *flag, engine_hint_fn *fn,
                  void *ctx)
{
    static const char *const dockers[] = {
        "/.docker/run/docker.sock", "/.docker/desktop/docker.sock", "/.colima/default/docker.sock",
        "/.colima/docker.sock",     "/.orbstack/run/docker.sock",   "/.rd/docker.sock"};
    static const char *const podmans[] = {
        "/.local/share/containers/podman/machine/podman.sock",
        "/.local/share/containers/podman/machine/qemu/podman.sock"};
    const struct walk w = {.s = s, .fn = fn, .ctx = ctx};
    const char *root = s->root == NULL ? "" : s->root;
    char runtime[PATH_MAX];
    bool over = false;

    int n = is_set(s->runtime_dir)
                ? snprintf(runtime, sizeof(runtime), "%s", s->runtime_dir)
                : snprintf(runtime, sizeof(runtime), "%s/run/user/%u", root, s->uid);
    runtime[n >= 0 && (size_t)n < sizeof(runtime) ? n : 0] = '\0';
    if (flag != NULL) {
        over = tell_given(&w, "--engine", flag);
    } else if (is_set(s->docker_host)) {
        over = tell_given(&w, "DOCKER_HOST", s->docker_host);
    }
    over = over || tell_context(&w);
    over = over || tell_socket(&w, root, "/var/run/docker.sock");
    over = over || tell_socket(&w, runtime, "/docker.sock");
    over = over || tell_in_home(&w, dockers, sizeof(dockers) / sizeof(dockers[0]));
    if (!over && is_set(s->container_host)) {
        over = tell_given(&w, "CONTAINER_HOST", s->container_host);
    }
    over = over || tell_socket(&w, runtime, "/podman/podman.sock");
    over = over || tell_socket(&w, root, "/run/podman/podman.sock");
    over = over || tell_in_home(&w, podmans, sizeof(podmans) / sizeof(podmans[0]));
    (void)over;
}
