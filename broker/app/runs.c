/*
 * The table of runs on loop 0, their listeners, their time and their end. The end reaches the other
 * loops as one message each, embedded in the run so that it cannot fail for want of memory, and
 * sent after the last connection was handed over, so that none is missed.
 */
#include "app/runs.h"

#include "app/grant_json.h"
#include "app/run_place.h"
#include "app/runs_private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "http/event_streams.h"
#include "net/tls.h"
#include "tactus/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define POST_AGAIN_MS 50u /* after a loop's mailbox was full */
#define HOST_DEFAULT  "127.0.0.1"

/* ---- memory ---- */

void run_free(struct run *run)
{
    grant_unref(run->grant);
    free(run->config.url);
    free(run->config.path);
    free(run->config.host);
    free(run->config.cert_file);
    free(run->config.key_file);
    free(run->ca_file);
    free(run->sources);
    free(run->notices);
    tls_server_free(run->door.tls);
    free(run);
}

/* The last session of an ended run, on its own loop. */
static void on_door_unused(struct wire_door *door)
{
    struct run *run = LIST_ENTRY(door, struct run, door);
    struct runs *runs = run->runs;

    pthread_mutex_lock(&runs->lock);
    list_remove(&run->node);
    pthread_mutex_unlock(&runs->lock);
    run_free(run);
}

static char **copy_texts(const struct admin_texts *from, size_t *n)
{
    char **list = calloc(from->n + 1, sizeof(*list));

    for (size_t i = 0; list != NULL && i < from->n; i++) {
        list[i] = strdup(from->items[i]);
        *n = i + 1;
        if (list[i] == NULL) {
            return list; /* the caller looks at the last one */
        }
    }
    return list;
}

static bool texts_copied(char **list, size_t n, const struct admin_texts *from)
{
    return list != NULL && n == from->n && (n == 0 || list[n - 1] != NULL);
}

static bool copy_sources(struct run *run, const struct admin_sources *from)
{
    struct grant_source *list = calloc(from->n + 1, sizeof(*list));

    if (list == NULL) {
        return false;
    }
    if (from->n > 0) {
        memcpy(list, from->items, from->n * sizeof(*list));
    }
    free(run->sources);
    run->sources = list;
    run->nsources = from->n;
    run->limited = true;
    return true;
}

/* Everything that needs memory, before anything is opened. */
static bool run_fill(struct run *run, const struct admin_grant *w)
{
    const struct admin_listener *l = &w->listener;
    struct grant *g = run->grant;
    const char *host = l->bind != NULL ? l->bind : HOST_DEFAULT;

    g->limits = w->limits;
    g->name = strdup(w->name != NULL ? w->name : run->id);
    g->run = strdup(w->run != NULL ? w->run : run->id);
    g->models = copy_texts(&w->models, &g->nmodels);
    g->tools = copy_texts(&w->tools, &g->ntools);
    run->listens = w->has_listener;
    run->config.kind = l->kind;
    run->config.mode = RUN_PLACE_SOCKET_MODE;
    run->config.half_close_finish = l->kind == LISTENER_UNIX;
    run->config.port = l->port;
    run->config.host = l->kind == LISTENER_UNIX ? NULL : strdup(host);
    run->config.path = l->path == NULL ? NULL : strdup(l->path);
    run->ca_file = l->ca_file == NULL ? NULL : strdup(l->ca_file);
    run->config.cert_file = l->cert_file == NULL ? NULL : strdup(l->cert_file);
    run->config.key_file = l->key_file == NULL ? NULL : strdup(l->key_file);
    run->notices = calloc(run->runs->broker->nworkers, sizeof(*run->notices));
    return g->name != NULL && g->run != NULL && texts_copied(g->models, g->nmodels, &w->models) &&
           texts_copied(g->tools, g->ntools, &w->tools) &&
           (l->kind == LISTENER_UNIX || run->config.host != NULL) &&
           (l->path == NULL || run->config.path != NULL) &&
           (l->ca_file == NULL || run->ca_file != NULL) &&
           (l->cert_file == NULL || run->config.cert_file != NULL) &&
           (l->key_file == NULL || run->config.key_file != NULL) && run->notices != NULL &&
           (!l->allow_from.given || copy_sources(run, &l->allow_from));
}

/* 128 random bits as 26 digits to the base 32. */
static enum err make_id(char id[RUN_ID_SIZE], struct error *e)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[RUN_ID_SIZE - 1];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return err_sys(e, ERR_IO, errno, "the system gives no random bytes");
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        id[i] = digits[bytes[i] % 32];
    }
    id[sizeof(bytes)] = '\0';
    return ERR_OK;
}

/* For the caller once; the grant keeps its hash. */
static enum err make_token(struct run *run, struct secret *token, struct error *e)
{
    enum err rc = secret_make(token, e);

    if (rc == ERR_OK) {
        memcpy(run->grant->token_sha256, token->sha256, GRANT_TOKEN_SHA256);
        run->grant->has_token = true;
    }
    return rc;
}

/* ---- connections ---- */

static bool may_connect(const struct run *run, int fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);

    return !run->limited ||
           (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            grant_source_has(run->sources, run->nsources, (const struct sockaddr *)&peer));
}

static void on_accept(void *ctx, int fd)
{
    struct run *run = ctx;

    if (may_connect(run, fd)) {
        worker_serve(run->runs->broker, &run->door, fd);
        return;
    }
    close(fd);
    run->refused++;
    if ((run->refused & (run->refused - 1)) == 0) { /* a flood is told in few lines */
        log_warn("runs", LOG_MSG("connection from outside allow_from"), LOG_STR("grant", run->id),
                 LOG_STR("run", run->grant->run), LOG_U64("refused", run->refused));
    }
}

/* ---- the end ---- */

static void on_notice(struct loop_message *m, struct loop *loop)
{
    struct run_notice *n = LIST_ENTRY(m, struct run_notice, message);
    struct run *run = n->run;

    (void)loop;
    wire_end_door(&n->worker->wire, &run->door);
    wire_door_unref(&run->door);
}

/* False: its mailbox is full. */
static bool notify(struct run *run, struct worker *worker, struct run_notice *n)
{
    *n = (struct run_notice){.message.fn = on_notice, .run = run, .worker = worker};
    wire_door_ref(&run->door);
    if (loop_post(worker->loop, &n->message) == ERR_OK) {
        return true;
    }
    wire_door_unref(&run->door); /* the owner's is left */
    log_warn("runs", LOG_MSG("a worker does not take messages"), LOG_STR("grant", run->id));
    return false;
}

/* The run may be gone when this returns. */
static void notify_workers(struct run *run)
{
    struct broker *b = run->runs->broker;
    struct loop *loop = b->workers[0].loop;

    for (; run->notified < b->nworkers; run->notified++) {
        unsigned i = run->notified;
        if (!notify(run, &b->workers[i], &run->notices[i]) &&
            loop_deadline_set(loop, &run->deadline, loop_now(loop) + POST_AGAIN_MS) == ERR_OK) {
            return;
        }
    }
    wire_door_unref(&run->door);
}

/* Listener, socket and, unless the run goes on in another process, the directory. */
static void stop_listening(struct run *run, bool goes_on)
{
    struct stat st;

    if (run->listener == NULL) {
        return;
    }
    listener_stop(run->listener);
    run->listener = NULL;
    if (run->config.path == NULL) {
        return;
    }
    if (run->owns_place && !goes_on) {
        run_place_remove(run->config.path);
    } else if (lstat(run->config.path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        (void)unlink(run->config.path);
    }
}

/* Whether it was the last of its run. */
static bool is_last(struct run *run)
{
    for (struct run *r = runs_next(run->runs, NULL); r != NULL; r = runs_next(run->runs, r)) {
        if (strcmp(r->grant->run, run->grant->run) == 0) {
            return false;
        }
    }
    return true;
}

void run_end(struct run *run, const char *why)
{
    struct runs *runs = run->runs;

    log_info("runs", LOG_MSG("grant ended"), LOG_STR("grant", run->id),
             LOG_STR("run", run->grant->run), LOG_STR("why", why),
             LOG_U64("connections", atomic_load(&run->door.connections)),
             LOG_U64("inflight", atomic_load(&run->door.inflight)));
    run->ended = true;
    grant_table_remove(runs->broker->grants, run->grant);
    run_forget(run);
    stop_listening(run, false);
    loop_deadline_clear(runs->broker->workers[0].loop, &run->deadline);
    runs->nlive--;
    pthread_mutex_lock(&runs->lock);
    list_remove(&run->node);
    list_push_back(&runs->ended, &run->node);
    pthread_mutex_unlock(&runs->lock);
    notify_workers(run);
    if (runs->broker->streams != NULL && is_last(run)) {
        event_streams_end_run(runs->broker->streams, run->grant->run);
    }
}

static void on_deadline(void *ctx)
{
    struct run *run = ctx;

    if (run->ended) {
        notify_workers(run);
    } else {
        run_end(run, "its time is over");
    }
}

/* ---- the beginning ---- */

static bool start_time(struct run *run, uint32_t ttl_ms)
{
    struct loop *loop = run->runs->broker->workers[0].loop;

    if (loop_deadline_set(loop, &run->deadline, loop_now(loop) + ttl_ms) != ERR_OK) {
        return false;
    }
    run->expires_at = clock_wall_ms() + ttl_ms;
    return true;
}

static bool cannot_listen(const struct error *e, struct admin_fault *f)
{
    if (e->code == ERR_NOMEM) {
        return admin_fault_no_memory(f);
    }
    if (e->sys == EMFILE || e->sys == ENFILE || e->sys == ENOMEM || e->sys == ENOBUFS) {
        return admin_fault_set(f, 503, TACTUS_E_OVERLOADED, "%s", e->msg);
    }
    return admin_fault_set(f, 422, ADMIN_E_UNPROCESSABLE, "%s", e->msg);
}

/* A certificate of its own, or that of the configuration, as it is then (wire.tls). */
static bool set_up_tls(struct run *run, const struct admin_listener *l, struct admin_fault *f)
{
    const struct listener_config *lender = snapshot_runs_listener(run->runs->broker->snapshot);
    struct error e = {.code = ERR_OK};

    if (l->kind != LISTENER_TLS) {
        return true;
    }
    if (l->cert_file != NULL) {
        return tls_server_new(l->cert_file, l->key_file, NULL, &run->door.tls, &e) == ERR_OK ||
               cannot_listen(&e, f);
    }
    if (lender == NULL) {
        return admin_fault_set(f, 422, ADMIN_E_UNPROCESSABLE,
                               "listener.cert_file and listener.key_file are needed: no tls:// "
                               "listener is configured whose certificate could be used");
    }
    if (run->ca_file == NULL && lender->ca_file != NULL) {
        run->ca_file = strdup(lender->ca_file);
        return run->ca_file != NULL || admin_fault_no_memory(f);
    }
    return true;
}

static enum err make_place(struct run *run, struct error *e)
{
    struct runs *runs = run->runs;
    const char *base = runs->broker->config->admin.runs_directory;
    char path[RUN_PLACE_PATH_SIZE];

    if (run->config.kind != LISTENER_UNIX || run->config.path != NULL) {
        return ERR_OK;
    }
    if (base == NULL) {
        return err_set(e, ERR_CONFIG, "listener.path is needed: admin.runs_directory is not set");
    }
    enum err rc = run_place_make(base, run->id, run->restored, &runs->made_base, path, e);
    if (rc != ERR_OK) {
        return rc;
    }
    run->config.path = strdup(path);
    if (run->config.path == NULL) {
        run_place_remove(path);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    run->owns_place = true;
    return ERR_OK;
}

static enum err listen_on_loop(struct run *run, struct error *e)
{
    struct loop *loop = run->runs->broker->workers[0].loop;
    struct listener_config *c = &run->config;
    const struct listener_address a = {
        .path = c->path, .mode = c->mode, .host = c->host, .port = c->port};
    int fd = -1;

    enum err rc = listener_open(&a, &fd, &run->door.port, e);
    if (rc == ERR_OK) {
        rc = listener_start(loop, fd, on_accept, run, &run->listener, e);
        if (rc != ERR_OK && c->path != NULL) {
            (void)unlink(c->path);
        }
    }
    if (rc != ERR_OK) {
        return rc;
    }
    if (c->path != NULL) {
        (void)snprintf(run->endpoint, sizeof(run->endpoint), "%s", c->path);
    } else {
        bool v6 = strchr(c->host, ':') != NULL;
        (void)snprintf(run->endpoint, sizeof(run->endpoint), "%s://%s%s%s:%u",
                       c->kind == LISTENER_TLS ? "tls" : "tcp", v6 ? "[" : "", c->host,
                       v6 ? "]" : "", (unsigned)run->door.port);
    }
    c->url = strdup(run->endpoint);
    return c->url == NULL ? err_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static bool open_run(struct run *run, const struct admin_grant *w, struct admin_fault *f)
{
    struct error e = {.code = ERR_OK};

    if (w->has_listener && !set_up_tls(run, &w->listener, f)) {
        return false;
    }
    run->door.listener = &run->config;
    run->door.grant = run->grant;
    run->door.relay = w->listener.relay;
    run->door.on_unused = on_door_unused;
    atomic_store(&run->door.refs, 1); /* ours */
    if (!w->has_listener) {
        return start_time(run, w->ttl_ms != 0 ? w->ttl_ms : ADMIN_TTL_DEFAULT_MS) ||
               admin_fault_no_memory(f);
    }
    if (make_place(run, &e) != ERR_OK) {
        return cannot_listen(&e, f);
    }
    if (listen_on_loop(run, &e) == ERR_OK) {
        return start_time(run, w->ttl_ms != 0 ? w->ttl_ms : ADMIN_TTL_DEFAULT_MS) ||
               admin_fault_no_memory(f);
    }
    if (run->listener == NULL && run->owns_place) {
        run_place_remove(run->config.path);
    }
    return cannot_listen(&e, f);
}

struct run *run_new(struct runs *runs)
{
    struct run *run = calloc(1, sizeof(*run));

    if (run == NULL) {
        return NULL;
    }
    run->runs = runs;
    run->created_at = clock_wall_ms();
    loop_deadline_init(&run->deadline, on_deadline, run);
    run->grant = grant_new();
    if (run->grant == NULL) {
        free(run);
        return NULL;
    }
    return run;
}

bool run_open(struct run *run, const struct admin_grant *wanted, struct admin_fault *f)
{
    struct runs *runs = run->runs;
    struct error e = {.code = ERR_OK};
    bool good = run_fill(run, wanted) ? open_run(run, wanted, f) : admin_fault_no_memory(f);

    if (good && grant_table_add(runs->broker->grants, run->grant, &e) != ERR_OK) {
        good = admin_fault_no_memory(f); /* equal tokens do not happen */
    }
    if (!good) {
        stop_listening(run, false);
        loop_deadline_clear(runs->broker->workers[0].loop, &run->deadline);
        run_free(run);
        return false;
    }
    list_push_back(&runs->live, &run->node);
    runs->nlive++;
    run_keep(run);
    return true;
}

bool runs_create(struct runs *runs, const struct admin_grant *wanted, struct secret *token,
                 struct run **out, struct admin_fault *f)
{
    struct error e = {.code = ERR_OK};

    if (runs->closed) {
        return admin_fault_set(f, 503, TACTUS_E_SHUTTING_DOWN, "The broker is shutting down");
    }
    if (runs->nlive >= RUNS_MAX) {
        return admin_fault_set(f, 429, TACTUS_E_TOO_MANY_REQUESTS, "there are %u grants of runs",
                               RUNS_MAX);
    }
    struct run *run = run_new(runs);
    if (run == NULL) {
        return admin_fault_no_memory(f);
    }
    if (make_id(run->id, &e) != ERR_OK || make_token(run, token, &e) != ERR_OK) {
        run_free(run);
        return admin_fault_set(f, 503, TACTUS_E_INTERNAL, "%s", e.msg);
    }
    if (!run_open(run, wanted, f)) {
        return false;
    }
    log_info("runs", LOG_MSG("grant made"), LOG_STR("grant", run->id),
             LOG_STR("run", run->grant->run), LOG_STR("endpoint", run->endpoint));
    *out = run;
    return true;
}

bool run_change(struct run *run, const struct admin_grant *wanted, struct admin_fault *f)
{
    if (wanted->allow_from.given && run->config.kind == LISTENER_UNIX) {
        return admin_fault_set(f, 400, TACTUS_E_BAD_REQUEST,
                               "allow_from does not go with a Unix socket");
    }
    if (wanted->allow_from.given && !copy_sources(run, &wanted->allow_from)) {
        return admin_fault_no_memory(f);
    }
    if (wanted->ttl_ms != 0 && !start_time(run, wanted->ttl_ms)) {
        return admin_fault_no_memory(f);
    }
    run_keep(run);
    return true;
}

/* ---- as JSON ---- */

const char *run_id(const struct run *run)
{
    return run->id;
}

static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_printf(b, "\"%s\":", name);
    json_put_string(b, span_str(text));
}

static void put_members(const struct run *run, struct buf *b)
{
    put_text(b, "id", run->id);
    buf_put_char(b, ',');
    put_text(b, "run", run->grant->run);
    if (run->listens) {
        buf_put_char(b, ',');
        put_text(b, "endpoint", run->endpoint);
    } else {
        buf_put_str(b, ",\"endpoint\":null");
    }
    if (run->ca_file != NULL) {
        buf_put_char(b, ',');
        put_text(b, "ca_file", run->ca_file);
    }
    buf_put_str(b, ",\"expires_at\":");
    json_put_time(b, run->expires_at);
}

void run_put_brief(const struct run *run, const struct secret *token, struct buf *b)
{
    buf_put_char(b, '{');
    put_members(run, b);
    buf_put_str(b, ",\"token\":");
    json_put_string(b, secret_span(token));
    buf_put_char(b, '}');
}

void run_put_json(struct run *run, struct buf *b)
{
    static const char *const kinds[] = {
        [LISTENER_UNIX] = "unix", [LISTENER_TCP] = "tcp", [LISTENER_TLS] = "tls"};

    buf_put_char(b, '{');
    put_members(run, b);
    buf_put_str(b, ",\"created_at\":");
    json_put_time(b, run->created_at);
    buf_put_char(b, ',');
    put_text(b, "transport", run->listens ? kinds[run->config.kind] : "none");
    grant_put_policy(run->grant, b);
    buf_put_str(b, run->door.relay ? ",\"relay\":true" : ",\"relay\":false");
    if (run->limited) {
        buf_put_str(b, ",\"allow_from\":[");
        for (size_t i = 0; i < run->nsources; i++) {
            buf_put_str(b, i > 0 ? "," : "");
            json_put_string(b, span_str(run->sources[i].text));
        }
        buf_put_char(b, ']');
    }
    buf_printf(b, ",\"connections\":%zu,\"inflight\":%zu,\"refused\":%llu,\"events_dropped\":%llu}",
               atomic_load(&run->door.connections), atomic_load(&run->door.inflight),
               (unsigned long long)run->refused,
               (unsigned long long)atomic_load(&run->door.dropped));
}

/* ---- the table ---- */

struct run *runs_next(struct runs *runs, struct run *after)
{
    struct list *n = after == NULL ? runs->live.next : after->node.next;

    return n == &runs->live ? NULL : LIST_ENTRY(n, struct run, node);
}

struct run *runs_find(struct runs *runs, const char *id)
{
    struct run *run = runs_next(runs, NULL);

    while (run != NULL && strcmp(run->id, id) != 0) {
        run = runs_next(runs, run);
    }
    return run;
}

enum err runs_new(struct broker *b, struct runs **out, struct error *e)
{
    struct runs *runs = calloc(1, sizeof(*runs));

    if (runs == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for grants of runs");
    }
    runs->broker = b;
    list_init(&runs->live);
    list_init(&runs->ended);
    pthread_mutex_init(&runs->lock, NULL);
    *out = runs;
    return ERR_OK;
}

void runs_stop_listening(struct runs *runs)
{
    if (runs == NULL || runs->closed) {
        return;
    }
    runs->closed = true;
    for (struct run *run = runs_next(runs, NULL); run != NULL; run = runs_next(runs, run)) {
        stop_listening(run, runs->broker->ledger != NULL);
    }
    if (runs->made_base) {
        (void)rmdir(runs->broker->config->admin.runs_directory);
    }
}

static void free_all(struct list *list)
{
    for (struct list *n = list_pop(list); n != NULL; n = list_pop(list)) {
        run_free(LIST_ENTRY(n, struct run, node));
    }
}

void runs_free(struct runs *runs)
{
    if (runs == NULL) {
        return;
    }
    free_all(&runs->live);
    free_all(&runs->ended);
    pthread_mutex_destroy(&runs->lock);
    free(runs);
}
