/*
 * Looking for an engine: one place after the other (engine_hints.c), each by connecting and a ping
 * that must be answered, until one speaks a version that we speak.
 */
#include "engine/engine_private.h"

#include "base/text.h"
#include "net/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct engine_limits limits = {
    .ping_ms = 1000,
    .call_ms = 20000,
    .slow_ms = 120000,
    .watch_ms = 3000,
    .take_back_ms = 500,
    .pull_ms = 60000,
    .build_ms = 1800000,
};

struct search {
    struct driver *driver;
    const struct engine_surroundings *surroundings;
    struct buf *report; /* may be NULL */
    struct engine *found;
    unsigned tried;
    char reason[200];   /* why the most telling one failed; "" when no place was there */
    enum err rc;        /* ends the search: ERR_CLOSED, ERR_NOMEM, ERR_CONFIG of a given place */
    struct error error; /* of rc */
    struct error unfit; /* an engine that answers, and cannot be used: the last resort's error */
    bool has_unfit;
};

/* ---- versions ---- */

/* The 44 of "1.44"; 0: it is no such version. */
static unsigned minor_of(const char *version)
{
    uint64_t minor = 0;

    return strncmp(version, "1.", 2) == 0 && text_u64(span_str(version + 2), &minor) &&
                   minor < 10000
               ? (unsigned)minor
               : 0;
}

enum err engine_negotiate(const char *newest, const char *oldest, const char *forced, char out[16],
                          struct error *e)
{
    bool chosen = forced != NULL && forced[0] != '\0';
    unsigned theirs = minor_of(newest);
    unsigned minor = theirs < ENGINE_API_MAX ? theirs : ENGINE_API_MAX;

    if (theirs == 0) {
        return err_set(e, ERR_PROTO, "no ApiVersion in its answer");
    }
    if (chosen) {
        minor = minor_of(forced);
    }
    if (minor < ENGINE_API_MIN || minor < minor_of(oldest) || minor > theirs) {
        return err_set(
            e, ERR_CONFIG, "it speaks API versions %s to %s; 1.%d to 1.%d are spoken here%s%s",
            oldest[0] == '\0' ? "(unknown)" : oldest, newest, ENGINE_API_MIN, ENGINE_API_MAX,
            chosen ? "; DOCKER_API_VERSION is " : "", chosen ? forced : "");
    }
    snprintf(out, 16, "1.%u", minor);
    return ERR_OK;
}

/* ---- one place ---- */

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

static enum err read_about(struct engine *engine, const struct fetch_answer *answer,
                           const char *forced, struct error *e)
{
    struct json_value about;
    char newest[16];
    char oldest[16];
    enum err rc = engine_json(answer, JSON_OBJECT, "version", &about, e);

    if (rc == ERR_OK) {
        (void)engine_text(about, "ApiVersion", newest, sizeof(newest));
        (void)engine_text(about, "MinAPIVersion", oldest, sizeof(oldest));
        name_kind(engine, about);
        rc = engine_negotiate(newest, oldest, forced, engine->version, e);
    }
    return rc;
}

static enum err get(struct engine *engine, const char *path, const char *what, uint32_t ms,
                    struct fetch_answer *answer, struct error *e)
{
    struct fetch_request request = {
        .method = "GET", .path = path, .connect_ms = limits.ping_ms, .total_ms = ms};
    enum err rc = engine_call(engine, &request, answer, e);

    return rc == ERR_OK ? engine_expect(answer, what, 200, 0, e) : rc;
}

static enum err ask(struct engine *engine, const char *forced, struct error *e)
{
    struct fetch_answer answer;
    enum err rc = get(engine, "/_ping", "ping", limits.ping_ms, &answer, e);

    buf_fini(&answer.body);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = get(engine, "/version", "version", limits.call_ms, &answer, e);
    if (rc == ERR_OK) {
        rc = read_about(engine, &answer, forced, e);
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
    engine->limits = limits;
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

/* ---- the search ---- */

static bool stop(struct search *s, enum err rc, const struct error *e)
{
    s->rc = rc;
    s->error = *e;
    return true;
}

/* `telling`: people know better what to do about it than about a place that is not there. */
static void failed(struct search *s, const struct engine_hint *hint, const char *why, bool telling)
{
    const char *gap = hint->source[0] == '\0' ? "" : " ";

    s->tried++;
    if (s->report != NULL) {
        buf_printf(s->report, "  %s%s%-*s %s\n", hint->source, gap,
                   hint->source[0] == '\0' ? 45 : 0, hint->address, why);
    }
    if (telling && s->reason[0] == '\0') {
        snprintf(s->reason, sizeof(s->reason), "; %s%s%s: %s", hint->source, gap, hint->address,
                 why);
    }
}

/* A socket that refuses says why in words that libcurl does not have. 0: it takes connections. */
static int socket_fault(const struct engine_place *place)
{
    struct client_endpoint at = {.transport = CLIENT_UNIX};
    struct error e = {0};
    int fd = -1;

    memcpy(at.path, place->socket, sizeof(at.path));
    if (client_dial(&at, limits.ping_ms, &fd, &e) == ERR_OK) {
        close(fd);
        return 0;
    }
    return e.sys == 0 ? EIO : e.sys;
}

static bool try_socket_first(struct search *s, const struct engine_hint *hint,
                             const struct engine_place *place)
{
    char why[160];
    int sys = place->socket[0] == '\0' ? 0 : socket_fault(place);

    if (sys == 0) {
        return true;
    }
    snprintf(why, sizeof(why), "%s%s", sys == ETIMEDOUT ? "does not answer" : strerror(sys),
             sys == EACCES ? " (is this user in the engine's group?)" : "");
    failed(s, hint, why, hint->given || sys != ENOENT);
    return false;
}

/* True when the search is over: found, or nothing more is to be tried. */
static bool try_place(struct search *s, const struct engine_hint *hint,
                      const struct engine_place *place)
{
    struct error e = {0};

    if (!try_socket_first(s, hint, place)) {
        return hint->given;
    }
    struct engine *engine = engine_new(s->driver, place);
    if (engine == NULL) {
        (void)err_set(&e, ERR_NOMEM, "out of memory");
        return stop(s, ERR_NOMEM, &e);
    }
    enum err rc = ask(engine, s->surroundings->docker_api_version, &e);
    if (rc == ERR_OK) {
        s->found = engine;
        return true;
    }
    engine_free(engine);
    failed(s, hint, e.sys == ETIMEDOUT ? "accepts and does not answer" : e.msg, true);
    if (rc == ERR_CONFIG && !s->has_unfit) {
        s->has_unfit = true;
        (void)err_set(&s->unfit, ERR_CONFIG, "%s: %s", place->address, e.msg);
    }
    return rc == ERR_CLOSED || rc == ERR_NOMEM ? stop(s, rc, &e) : hint->given;
}

static bool on_hint(void *ctx, const struct engine_hint *hint)
{
    struct search *s = ctx;
    struct engine_place place;
    struct error e = {0};
    const char *fault = hint->fault;

    if (fault == NULL && engine_place_read(hint->address, hint->tls_dir, &place, &e) != ERR_OK) {
        fault = e.msg;
    }
    if (fault == NULL) {
        return try_place(s, hint, &place);
    }
    failed(s, hint, fault, hint->given);
    if (hint->given) {
        struct error mine = {0};
        (void)err_set(&mine, ERR_CONFIG, "%s %s: %s", hint->source, hint->address, fault);
        return stop(s, ERR_CONFIG, &mine);
    }
    return false;
}

static enum err none_found(const struct search *s, struct error *e)
{
    if (s->rc != ERR_OK || s->has_unfit) {
        if (e != NULL) {
            *e = s->rc != ERR_OK ? s->error : s->unfit;
        }
        return s->rc != ERR_OK ? s->rc : ERR_CONFIG;
    }
    return err_set(e, ERR_IO,
                   "no container engine answered (%u tried): start Docker (systemctl start docker) "
                   "or podman's service, or run without a container (--no-sandbox, or "
                   "sandbox.enabled: false)%s",
                   s->tried, s->reason);
}

enum err engine_find_in(struct driver *d, const struct engine_surroundings *surroundings,
                        const char *flag, struct engine **out, struct buf *report, struct error *e)
{
    struct search s = {.driver = d, .surroundings = surroundings, .report = report};
    size_t before = report == NULL ? 0 : report->len;

    if (report != NULL) {
        buf_put_str(report, "No container engine answered:\n");
    }
    engine_hints(surroundings, flag, on_hint, &s);
    if (s.found != NULL) {
        if (report != NULL) {
            buf_truncate(report, before);
        }
        *out = s.found;
        return ERR_OK;
    }
    if (report != NULL) {
        buf_put_str(report,
                    "Start Docker (systemctl start docker) or podman's service\n"
                    "(systemctl start podman.socket), or name one with --engine. Without a\n"
                    "container: --no-sandbox, or sandbox.enabled: false.\n");
    }
    return none_found(&s, e);
}

enum err engine_find(struct driver *d, const char *flag, struct engine **out, struct buf *report,
                     struct error *e)
{
    struct engine_surroundings surroundings;

    engine_surroundings_read(&surroundings);
    return engine_find_in(d, &surroundings, flag, out, report, e);
}

/* ---- what was found ---- */

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
