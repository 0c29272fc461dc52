/*
 * The routes of the admin API, its listeners, and who may use them. A call is judged in this
 * order: does it come from a place that may call (Host, Origin), may the caller (token, user), is
 * there such a path, such a method, does the body fit. What it says is read by http/admin_body,
 * done by runs.
 */
#include "app/admin.h"

#include "app/admin_private.h"
#include "app/grant_json.h"
#include "app/runs.h"
#include "app/service.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/text.h"
#include "http/admin_auth.h"
#include "http/admin_body.h"
#include "http/event_streams.h"
#include "tactus/protocol.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_BODY        (1024u * 1024u)
#define MAX_REPLY       (64u * 1024u * 1024u)
#define MAX_CONNECTIONS 512u
#define MAX_STREAMS     128u
#define REQUEST_MS      30000u
#define IDLE_MS         120000u
#define WRITE_MS        30000u

/* One admin listener. */
struct admin_door {
    struct admin *admin;
    struct listener *listener;
    uint16_t port;
    bool passed; /* its socket is the service manager's */
};

struct route {
    const char *method;
    const char *path; /* with a slash at its end: an id follows */
    bool (*answer)(struct call *c);
    bool open; /* needs no token */
};

/* ---- calls ---- */

static bool answer_health(struct call *c)
{
    buf_put_str(&c->reply, "{\"status\":\"ok\"}");
    return true;
}

/* To be changed. */
static bool find_run(struct call *c, struct run **run)
{
    *run = runs_find(c->admin->broker->runs, c->id);
    if (*run == NULL && config_find_grant(c->admin->broker->config, c->id) != NULL) {
        return admin_fault_set(&c->fault, 409, ADMIN_E_UNPROCESSABLE,
                               "this grant is the configuration's: change it there, and reload");
    }
    return *run != NULL ||
           admin_fault_set(&c->fault, 404, ADMIN_E_NOT_FOUND, "there is no such grant");
}

static bool answer_create(struct call *c)
{
    struct admin_grant wanted;
    struct arena arena;
    struct run *run = NULL;
    struct secret token = {.kind = SECRET_NONE};
    static const char path[] = "/v1/grants/";

    arena_init(&arena, ADMIN_BODY_ARENA);
    bool good = admin_body_grant(httpd_body(c->request), &arena, &wanted, &c->fault) &&
                runs_create(c->admin->broker->runs, &wanted, &token, &run, &c->fault);
    arena_fini(&arena);
    if (good) {
        c->status = 201;
        run_put_brief(run, &token, &c->reply);
        buf_put_char(&c->reply, '\0'); /* the location stands behind the reply */
        buf_put_str(&c->reply, path);
        buf_put_str(&c->reply, run_id(run));
    }
    secret_fini(&token);
    if (good && buf_status(&c->reply) != ERR_OK) {
        run_end(run, "no memory to tell of it");
        good = admin_fault_no_memory(&c->fault);
    }
    if (good) {
        c->location = buf_cstr(&c->reply) + c->reply.len - (sizeof(path) - 1 + RUN_ID_SIZE - 1);
    }
    return good;
}

static bool answer_list(struct call *c)
{
    struct runs *runs = c->admin->broker->runs;
    const struct config *config = c->admin->broker->config;
    bool first = config->ngrants == 0;

    buf_put_char(&c->reply, '[');
    for (size_t i = 0; i < config->ngrants; i++) {
        buf_put_str(&c->reply, i > 0 ? "," : "");
        grant_put_configured(config->grants[i], &c->reply);
    }
    for (struct run *run = runs_next(runs, NULL); run != NULL; run = runs_next(runs, run)) {
        buf_put_str(&c->reply, first ? "" : ",");
        run_put_json(run, &c->reply);
        first = false;
    }
    buf_put_char(&c->reply, ']');
    return true;
}

static bool answer_get(struct call *c)
{
    const struct grant *configured = config_find_grant(c->admin->broker->config, c->id);
    struct run *run = NULL;

    if (configured != NULL) {
        grant_put_configured(configured, &c->reply);
        return true;
    }
    if (!find_run(c, &run)) {
        return false;
    }
    run_put_json(run, &c->reply);
    return true;
}

static bool answer_change(struct call *c)
{
    struct admin_grant wanted;
    struct arena arena;
    struct run *run = NULL;

    if (!find_run(c, &run)) {
        return false;
    }
    arena_init(&arena, ADMIN_BODY_ARENA);
    bool good = admin_body_patch(httpd_body(c->request), &arena, &wanted, &c->fault) &&
                run_change(run, &wanted, &c->fault);
    arena_fini(&arena);
    if (good) {
        run_put_json(run, &c->reply);
    }
    return good;
}

static bool answer_delete(struct call *c)
{
    struct run *run = NULL;

    if (!find_run(c, &run)) {
        return false;
    }
    run_end(run, "deleted");
    c->status = 204;
    return true;
}

static bool answer_match(struct call *c)
{
    return admin_body_match(httpd_body(c->request), c->admin->broker->config, &c->reply, &c->fault);
}

/* The number that a client has: what it reconnects with is newer than what it once asked for. */
static bool read_since(struct call *c, uint64_t *since, bool *given)
{
    const char *text = httpd_header(c->request, "Last-Event-ID");

    text = text != NULL && text[0] != '\0' ? text : httpd_query(c->request, "since");
    *given = text != NULL && text[0] != '\0';
    return !*given || text_u64(span_str(text), since) ||
           admin_fault_set(&c->fault, 400, TACTUS_E_BAD_REQUEST,
                           "since and Last-Event-ID must be the number of an event");
}

static bool answer_events(struct call *c)
{
    const char *run = httpd_query(c->request, "run");
    uint64_t since = 0;
    bool given = false;

    if (!read_since(c, &since, &given)) {
        return false;
    }
    run = run != NULL && run[0] == '\0' ? NULL : run;
    enum err rc = event_streams_start(c->admin->streams, c->request, run, given ? &since : NULL);
    c->streaming = rc == ERR_OK;
    if (rc == ERR_LIMIT) {
        return admin_fault_set(&c->fault, 503, TACTUS_E_OVERLOADED, "there are %u event streams",
                               MAX_STREAMS);
    }
    return rc == ERR_OK || admin_fault_no_memory(&c->fault);
}

static const struct route ROUTES[] = {
    {"GET", "/healthz", answer_health, true},
    {"POST", "/v1/grants", answer_create, false},
    {"GET", "/v1/grants", answer_list, false},
    {"GET", "/v1/grants/", answer_get, false},
    {"PATCH", "/v1/grants/", answer_change, false},
    {"DELETE", "/v1/grants/", answer_delete, false},
    {"GET", "/v1/events", answer_events, false},
    {"POST", "/v1/secrets/match", answer_match, false},
    {"GET", "/readyz", admin_answer_ready, true},
    {"GET", "/v1/status", admin_answer_status, false},
    {"GET", "/v1/usage", admin_answer_usage, false},
    {"POST", "/v1/reload", admin_answer_reload, false},
    {"POST", "/v1/drain", admin_answer_drain, false},
};

#define ROUTES_N (sizeof(ROUTES) / sizeof(ROUTES[0]))

/* ---- routing ---- */

/* What follows the route's path ("" when nothing may), or NULL: it is another path. */
static const char *match_path(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    if (r->path[n - 1] != '/') {
        return strcmp(path, r->path) == 0 ? "" : NULL;
    }
    return strncmp(path, r->path, n) == 0 && path[n] != '\0' && strchr(path + n, '/') == NULL
               ? path + n
               : NULL;
}

/* The route; NULL with the methods that the path has ("" when there is no such path). */
static const struct route *find_route(const struct httpd_request *request, const char **id,
                                      char *allowed, size_t size)
{
    allowed[0] = '\0';
    for (size_t i = 0; i < ROUTES_N; i++) {
        const char *rest = match_path(&ROUTES[i], httpd_path(request));
        if (rest != NULL && strcmp(httpd_method(request), ROUTES[i].method) == 0) {
            *id = rest;
            return &ROUTES[i];
        }
        size_t n = strlen(allowed);
        if (rest != NULL) {
            (void)snprintf(allowed + n, size - n, "%s%s", n > 0 ? ", " : "", ROUTES[i].method);
        }
    }
    return NULL;
}

void admin_reply_fault(const struct admin *a, struct httpd_request *r, const struct admin_fault *f,
                       const char *header, const char *value)
{
    struct buf b;

    log_debug("admin", LOG_MSG("refused"), LOG_STR("method", httpd_method(r)),
              LOG_STR("path", httpd_path(r)), LOG_U64("status", f->status),
              LOG_STR("why", f->message));
    buf_init(&b, 8192);
    admin_fault_put_json(f, a->broker->config->redact, &b);
    httpd_reply(r, &(struct httpd_reply){.status = f->status,
                                         .content_type = ADMIN_JSON,
                                         .body = buf_span(&b),
                                         .header = header,
                                         .value = value});
    buf_fini(&b);
}

/* Place, caller. */
static void on_head(void *ctx, struct httpd_request *r)
{
    struct admin *a = ctx;
    const struct httpd_peer *peer = httpd_peer(r);
    const struct admin_caller caller = {.is_unix = peer->is_unix,
                                        .uid = peer->uid,
                                        .host = httpd_header(r, "Host"),
                                        .origin = httpd_header(r, "Origin"),
                                        .authorization = httpd_header(r, "Authorization")};
    struct admin_fault f;
    const char *id = NULL;
    char allowed[64];

    if (!admin_auth_place(&caller, &f)) {
        admin_reply_fault(a, r, &f, NULL, NULL);
        return;
    }
    const struct route *route = find_route(r, &id, allowed, sizeof(allowed));
    if (route != NULL && route->open) {
        return;
    }
    if (!admin_auth_caller(&caller, a->own, &a->broker->config->admin.token, &f)) {
        bool unknown = f.status == 401;
        admin_reply_fault(a, r, &f, unknown ? "WWW-Authenticate" : NULL, unknown ? "Bearer" : NULL);
    }
}

/* A body is JSON; one without a type is taken for it. */
static bool is_json(const struct httpd_request *r)
{
    const char *type = httpd_header(r, "Content-Type");
    size_t n = strlen(ADMIN_JSON);

    if (type == NULL) {
        return true;
    }
    return strncasecmp(type, ADMIN_JSON, n) == 0 &&
           (type[n] == '\0' || strchr("; \t", type[n]) != NULL);
}

static bool check_body(struct call *c)
{
    if (httpd_body_too_large(c->request)) {
        return admin_fault_set(&c->fault, 413, TACTUS_E_MESSAGE_TOO_LARGE,
                               "the body is longer than %u bytes", MAX_BODY);
    }
    if (httpd_body(c->request).n > 0 && !is_json(c->request)) {
        return admin_fault_set(&c->fault, 415, ADMIN_E_UNSUPPORTED_MEDIA,
                               "the body must be of type " ADMIN_JSON);
    }
    return true;
}

static void reply_good(struct call *c)
{
    struct span body = buf_span(&c->reply);

    if (buf_status(&c->reply) != ERR_OK) {
        (void)admin_fault_no_memory(&c->fault);
        admin_reply_fault(c->admin, c->request, &c->fault, NULL, NULL);
        return;
    }
    if (c->location != NULL) {
        body.n = strlen(body.p);
    }
    httpd_reply(c->request, &(struct httpd_reply){.status = c->status,
                                                  .content_type = body.n == 0 ? NULL : ADMIN_JSON,
                                                  .body = body,
                                                  .header = c->location == NULL ? NULL : "Location",
                                                  .value = c->location});
}

static void on_request(void *ctx, struct httpd_request *r)
{
    struct call c = {.admin = ctx, .request = r, .status = 200};
    char allowed[64];
    const struct route *route = find_route(r, &c.id, allowed, sizeof(allowed));

    buf_init(&c.reply, MAX_REPLY);
    if (route == NULL && allowed[0] == '\0') {
        (void)admin_fault_set(&c.fault, 404, ADMIN_E_NOT_FOUND, "there is no such path");
        admin_reply_fault(c.admin, r, &c.fault, NULL, NULL);
    } else if (route == NULL) {
        (void)admin_fault_set(&c.fault, 405, ADMIN_E_METHOD_NOT_ALLOWED, "this path has %s",
                              allowed);
        admin_reply_fault(c.admin, r, &c.fault, "Allow", allowed);
    } else if (!check_body(&c) || !route->answer(&c)) {
        admin_reply_fault(c.admin, r, &c.fault, NULL, NULL);
    } else if (!c.streaming) {
        reply_good(&c);
    }
    buf_fini(&c.reply);
}

/* ---- listeners ---- */

/* In the configuration in force: a reload keeps number and order. */
static const struct listener_config *door_config(const struct admin *a, size_t i)
{
    return &a->broker->config->admin.listeners[i];
}

static void on_accept(void *ctx, int fd)
{
    struct admin_door *d = ctx;
    const struct admin *a = d->admin;
    struct httpd_peer peer = {.is_unix =
                                  door_config(a, (size_t)(d - a->doors))->kind == LISTENER_UNIX};
    struct ucred cred = {0};
    socklen_t size = sizeof(cred);

    if (peer.is_unix) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0) {
            close(fd);
            return;
        }
        peer.uid = cred.uid;
    }
    httpd_accept(a->httpd, fd, &peer);
}

static enum err open_door(struct admin *a, const struct listener_config *l, struct error *e)
{
    struct admin_door *d = &a->doors[a->ndoors];
    const struct listener_address address = {
        .path = l->path, .mode = l->mode, .host = l->host, .port = l->port};
    int fd = service_socket_for(a->broker->options.service, &address);
    enum err rc = ERR_OK;

    *d = (struct admin_door){.admin = a, .port = l->port, .passed = fd >= 0};
    if (fd < 0) {
        rc = listener_open(&address, &fd, &d->port, e);
    }
    if (rc == ERR_OK) {
        rc = listener_start(a->broker->workers[0].loop, fd, on_accept, d, &d->listener, e);
    }
    if (rc != ERR_OK) {
        return err_wrap(e, "admin.listen");
    }
    a->ndoors++;
    return ERR_OK;
}

void admin_print_endpoints(const struct admin *a, bool token, FILE *out)
{
    for (size_t i = 0; a != NULL && i < a->ndoors; i++) {
        const struct listener_config *l = door_config(a, i);
        if (l->kind == LISTENER_UNIX) {
            fprintf(out, "http+unix://%s\n", l->path);
            continue;
        }
        bool v6 = strchr(l->host, ':') != NULL;
        fprintf(out, "http://%s%s%s:%u/%s%s\n", v6 ? "[" : "", l->host, v6 ? "]" : "",
                (unsigned)a->doors[i].port, token ? "#token=" : "",
                token ? a->broker->config->admin.token.bytes : "");
    }
    fflush(out);
}

/* ---- life ---- */

static enum err open_all(struct admin *a, struct error *e)
{
    static const struct httpd_options options = {
        .max_body = MAX_BODY,
        .max_connections = MAX_CONNECTIONS,
        .max_streams = MAX_STREAMS,
        .request_timeout = REQUEST_MS,
        .idle_timeout = IDLE_MS,
        .write_timeout = WRITE_MS,
    };
    static const struct httpd_handler handler = {.on_head = on_head, .on_request = on_request};
    const struct admin_config *config = &a->broker->config->admin;
    enum err rc = httpd_new(a->broker->workers[0].loop, &options, &handler, a, &a->httpd, e);

    a->doors = calloc(config->nlisteners, sizeof(*a->doors));
    a->streams =
        event_streams_new(a->broker->workers[0].loop, a->broker->bus, EVENT_STREAMS_HEARTBEAT_MS);
    a->broker->streams = a->streams;
    if (rc == ERR_OK && (a->doors == NULL || a->streams == NULL)) {
        rc = err_set(e, ERR_NOMEM, "out of memory for the admin API");
    }
    for (size_t i = 0; i < config->nlisteners && rc == ERR_OK; i++) {
        rc = open_door(a, &config->listeners[i], e);
    }
    return rc;
}

enum err admin_new(struct broker *b, struct admin **out, struct error *e)
{
    struct admin *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the admin API");
    }
    a->broker = b;
    a->own = geteuid();
    enum err rc = open_all(a, e);
    if (rc != ERR_OK) {
        admin_free(a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

void admin_free(struct admin *a)
{
    if (a == NULL) {
        return;
    }
    for (size_t i = 0; i < a->ndoors; i++) {
        listener_stop(a->doors[i].listener);
        const struct listener_config *l = door_config(a, i);
        if (l->kind == LISTENER_UNIX && !a->doors[i].passed) {
            (void)unlink(l->path);
        }
    }
    httpd_free(a->httpd); /* who waits for the ledger is told, and does not any more */
    event_streams_free(a->streams);
    a->broker->streams = NULL;
    free(a->doors);
    free(a);
}
