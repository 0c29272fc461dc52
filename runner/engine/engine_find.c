/*
 * Looking for an engine: an address that was given is the only one that is tried; else the places
 * where Docker's and podman's clients look, in their order, each by a ping that must be answered.
 */
#include "engine/engine_private.h"

#include "base/conf.h"
#include "net/client.h"
#include "net/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PING_MS 1000u

struct search {
    struct driver *driver;
    struct buf *report; /* may be NULL */
    struct engine *found;
    enum err rc; /* ERR_CLOSED, ERR_NOMEM, ERR_CONFIG end the search */
    struct error error;
    unsigned tried;
};

/* ---- one place ---- */

static void tell(struct search *s, const char *address, const char *why)
{
    if (s->report != NULL) {
        buf_printf(s->report, "  %-45s %s\n", address, why);
    }
}

/* A socket that refuses says why in words that libcurl does not have. */
static const char *socket_fault(const struct engine_place *place)
{
    struct client_endpoint at = {.transport = CLIENT_UNIX};
    struct error e = {0};
    int fd = -1;

    memcpy(at.path, place->socket, sizeof(at.path));
    if (client_dial(&at, PING_MS, &fd, &e) == ERR_OK) {
        close(fd);
        return NULL;
    }
    return e.sys == 0 ? "cannot connect" : strerror(e.sys);
}

static unsigned minor_of(const char *version)
{
    unsigned minor = 0;
    const char *dot = strchr(version, '.');

    if (strncmp(version, "1.", 2) != 0 || dot == NULL) {
        return 0;
    }
    for (const char *p = dot + 1; *p >= '0' && *p <= '9' && minor < 10000; p++) {
        minor = minor * 10 + (unsigned)(*p - '0');
    }
    return minor;
}

/* The highest version that both speak; DOCKER_API_VERSION is the user's own choice. */
static enum err negotiate(struct engine *engine, struct json_value about, struct error *e)
{
    const char *forced = getenv("DOCKER_API_VERSION");
    char newest[16];
    char oldest[16];
    unsigned minor = ENGINE_API_MAX;

    (void)engine_text(about, "ApiVersion", newest, sizeof(newest));
    (void)engine_text(about, "MinAPIVersion", oldest, sizeof(oldest));
    unsigned theirs = minor_of(newest);
    if (theirs == 0) {
        return err_set(e, ERR_PROTO, "%s: no ApiVersion in its answer", engine->place.address);
    }
    minor = theirs < minor ? theirs : minor;
    if (forced != NULL && forced[0] != '\0') {
        minor = minor_of(forced);
    }
    if (minor < ENGINE_API_MIN || minor < minor_of(oldest)) {
        return err_set(e, ERR_CONFIG,
                       "%s: speaks API versions %s to %s; 1.%u to 1.%u are spoken here%s",
                       engine->place.address, oldest, newest, ENGINE_API_MIN, ENGINE_API_MAX,
                       forced == NULL ? "" : " (DOCKER_API_VERSION is set)");
    }
    snprintf(engine->version, sizeof(engine->version), "1.%u", minor);
    return ERR_OK;
}

static void name_kind(struct engine *engine, struct json_value about)
{
    struct json_value list = json_find(about, "Components");
    struct json_value item;
    size_t cursor = 0;
    char name[64];

    while (json_array_next(list, &cursor, &item)) {
        if (engine_text(item, "Name", name, sizeof(name)) && strstr(name, "Podman") != NULL) {
            engine->podman = true;
        }
    }
}

static enum err ping(struct engine *engine, struct error *e)
{
    struct fetch_request request = {
        .method = "GET", .path = "/_ping", .connect_ms = PING_MS, .total_ms = PING_MS};
    struct fetch_answer answer;
    enum err rc = fetch(engine->driver, &engine->peer, &request, &answer, e);

    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "ping", 200, 0, e);
    }
    buf_fini(&answer.body);
    if (rc != ERR_OK) {
        return rc;
    }
    request =
        (struct fetch_request){.method = "GET", .path = "/version", .total_ms = ENGINE_CALL_MS};
    rc = fetch(engine->driver, &engine->peer, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "version", 200, 0, e);
    }
    struct json_value about;
    if (rc == ERR_OK) {
        rc = engine_json(&answer, JSON_OBJECT, "version", &about, e);
    }
    if (rc == ERR_OK) {
        name_kind(engine, about);
        rc = negotiate(engine, about, e);
    }
    buf_fini(&answer.body);
    return rc;
}

static struct engine *engine_new(struct driver *d, const struct engine_place *place)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        return NULL;
    }
    engine->driver = d;
    engine->place = *place;
    engine->peer = (struct fetch_peer){
        .name = "the engine",
        .unix_socket = place->socket[0] == '\0' ? NULL : engine->place.socket,
        .base_url = engine->place.base_url,
        .ca_file = place->ca_file[0] == '\0' ? NULL : engine->place.ca_file,
        .cert_file = place->cert_file[0] == '\0' ? NULL : engine->place.cert_file,
        .key_file = place->key_file[0] == '\0' ? NULL : engine->place.key_file,
    };
    return engine;
}

static const char *fault_text(const struct error *e)
{
    return e->sys == ETIMEDOUT ? "accepts and does not answer" : e->msg;
}

/* True when the search is over: found, or nothing more is to be tried. */
static bool try_place(struct search *s, const struct engine_place *place)
{
    const char *fault = place->socket[0] == '\0' ? NULL : socket_fault(place);

    s->tried++;
    if (fault != NULL) {
        tell(s, place->address, fault);
        return false;
    }
    struct engine *engine = engine_new(s->driver, place);
    if (engine == NULL) {
        s->rc = err_set(&s->error, ERR_NOMEM, "out of memory");
        return true;
    }
    struct error e = {0};
    enum err rc = ping(engine, &e);
    if (rc == ERR_OK) {
        s->found = engine;
        return true;
    }
    engine_free(engine);
    tell(s, place->address, fault_text(&e));
    if (rc == ERR_CLOSED || rc == ERR_NOMEM || rc == ERR_CONFIG) {
        s->rc = rc;
        s->error = e;
        return true;
    }
    return false;
}

/* An address that somebody gave, by `source`: nothing else is tried after it. */
static bool try_given(struct search *s, const char *source, const char *text)
{
    struct engine_place place;
    struct error e = {0};

    if (engine_place_read(text, &place, &e) != ERR_OK) {
        s->rc = err_set(&s->error, ERR_CONFIG, "%s %s: %s", source, text, e.msg);
        return true;
    }
    (void)try_place(s, &place);
    return true;
}

static bool try_socket(struct search *s, const char *dir, const char *rest)
{
    struct engine_place place;
    char path[PATH_MAX];

    if (dir == NULL || dir[0] == '\0') {
        return false;
    }
    int n = snprintf(path, sizeof(path), "%s%s", dir, rest);
    if (n < 0 || (size_t)n >= sizeof(path) || engine_place_read(path, &place, NULL) != ERR_OK) {
        tell(s, path, "the path is too long for a socket");
        return false;
    }
    return try_place(s, &place);
}

/* ---- docker's contexts ---- */

/* The JSON file's text; false when there is none. The caller frees. */
static bool load_json(const char *path, char **text, struct json_value *out)
{
    struct json_rules rules = {.max_depth = 64};
    struct json_fault fault;
    size_t n = 0;

    *text = NULL;
    return conf_load(path, text, &n, NULL) == ERR_OK &&
           json_check_value(span_of(*text, n), &rules, out, &fault) == ERR_OK;
}

static bool current_context(const char *home, char *out, size_t size)
{
    const char *named = getenv("DOCKER_CONTEXT");
    char path[PATH_MAX];
    char *text = NULL;
    struct json_value top;

    if (named != NULL && named[0] != '\0') {
        snprintf(out, size, "%s", named);
        return true;
    }
    snprintf(path, sizeof(path), "%s/.docker/config.json", home);
    bool found = load_json(path, &text, &top) && engine_text(top, "currentContext", out, size);
    free(text);
    return found;
}

/* ~/.docker/contexts/meta/<sha256 of the name>/meta.json */
static bool try_context(struct search *s, const char *home)
{
    char name[256];
    char hash[SHA256_HEX_SIZE];
    char path[PATH_MAX];
    char host[PATH_MAX];
    char *text = NULL;
    struct json_value top;
    bool over = false;

    if (home == NULL || !current_context(home, name, sizeof(name)) ||
        strcmp(name, "default") == 0 || !sha256_hex(span_str(name), hash)) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/.docker/contexts/meta/%s/meta.json", home, hash);
    if (load_json(path, &text, &top) &&
        engine_text(json_find(json_find(top, "Endpoints"), "docker"), "Host", host, sizeof(host))) {
        over = try_given(s, "docker context", host);
    } else {
        tell(s, name, "a docker context without an address");
    }
    free(text);
    return over;
}

/* ---- the order ---- */

static void search_all(struct search *s)
{
    static const char *const in_home[] = {
        "/.docker/run/docker.sock", "/.docker/desktop/docker.sock", "/.colima/default/docker.sock",
        "/.colima/docker.sock",     "/.orbstack/run/docker.sock",   "/.rd/docker.sock"};
    const char *docker = getenv("DOCKER_HOST");
    const char *container = getenv("CONTAINER_HOST");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *home = getenv("HOME");
    bool over = docker != NULL && docker[0] != '\0' ? try_given(s, "DOCKER_HOST", docker)
                                                    : try_context(s, home);

    over =
        over || try_socket(s, "/var/run/docker.sock", "") || try_socket(s, runtime, "/docker.sock");
    for (size_t i = 0; i < sizeof(in_home) / sizeof(in_home[0]) && !over; i++) {
        over = try_socket(s, home, in_home[i]);
    }
    if (!over && container != NULL && container[0] != '\0') {
        over = try_given(s, "CONTAINER_HOST", container);
    }
    over = over || try_socket(s, runtime, "/podman/podman.sock") ||
           try_socket(s, "/run/podman/podman.sock", "");
    (void)over;
}

enum err engine_find(struct driver *d, const char *flag, struct engine **out, struct buf *report,
                     struct error *e)
{
    struct search s = {.driver = d, .report = report};

    if (report != NULL) {
        buf_put_str(report, "No container engine answered:\n");
    }
    if (flag != NULL) {
        (void)try_given(&s, "--engine", flag);
    } else {
        search_all(&s);
    }
    if (report != NULL) {
        buf_put_str(report,
                    "Start Docker (systemctl start docker) or podman's service\n"
                    "(systemctl start podman.socket), or name one with --engine. Without a\n"
                    "container: --no-sandbox, or sandbox.enabled: false.\n");
    }
    if (s.found != NULL) {
        *out = s.found;
        return ERR_OK;
    }
    if (s.rc != ERR_OK) {
        if (e != NULL) {
            *e = s.error;
        }
        return s.rc;
    }
    return err_set(e, ERR_IO,
                   "no container engine answered (%u tried%s%s): start Docker or podman's service, "
                   "or use --no-sandbox or sandbox.enabled: false to run without a container",
                   s.tried, flag == NULL ? "" : ": ", flag == NULL ? "" : flag);
}

void engine_free(struct engine *engine)
{
    free(engine);
}

const char *engine_address(const struct engine *engine)
{
    return engine->place.address;
}

const char *engine_api_version(const struct engine *engine)
{
    return engine->version;
}

const char *engine_socket(const struct engine *engine)
{
    return engine->peer.unix_socket;
}

bool engine_is_podman(const struct engine *engine)
{
    return engine->podman;
}
