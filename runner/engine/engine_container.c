/* Containers: create, start, kill, remove, inspect, list, and waiting for an exit. */
#include "engine/engine_private.h"

#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

/* podman answers 500 where Docker has 409 for a name that is taken. */
static enum err expect_created(struct fetch_answer *answer, struct error *e)
{
    char message[320];
    bool taken = false;

    if (answer->status == 500) {
        fetch_message(answer, message);
        taken = strstr(message, "already in use") != NULL;
    }
    enum err rc = engine_expect(answer, "create", 201, 0, e);
    if (rc != ERR_OK && taken && e != NULL) {
        e->sys = 409;
    }
    return rc;
}

/* A limit that the engine dropped is no limit: better no container. */
static enum err check_warnings(struct json_value top, struct error *e)
{
    struct json_value item;
    size_t cursor = 0;

    while (json_array_next(json_find(top, "Warnings"), &cursor, &item)) {
        char *text = engine_strdup(item);
        bool dropped = text != NULL &&
                       (strstr(text, "discarded") != NULL || strstr(text, "not support") != NULL ||
                        strstr(text, "ignored") != NULL);
        enum err rc = ERR_OK;
        if (dropped) {
            rc = err_set(e, ERR_UPSTREAM, "the engine drops a limit: %.300s", text);
        }
        free(text);
        if (rc != ERR_OK) {
            return rc;
        }
    }
    return ERR_OK;
}

static enum err read_created(const struct fetch_answer *answer, char id[ENGINE_ID_SIZE],
                             struct error *e)
{
    struct json_value top;
    enum err rc = engine_json(answer, JSON_OBJECT, "create", &top, e);

    if (rc != ERR_OK) {
        return rc;
    }
    if (!engine_text(top, "Id", id, ENGINE_ID_SIZE)) {
        return err_set(e, ERR_PROTO, "the engine: create: no Id in its answer");
    }
    return check_warnings(top, e);
}

enum err engine_create(struct engine *engine, const char *name, struct span json,
                       char id[ENGINE_ID_SIZE], struct error *e)
{
    char path[ENGINE_PATH_MAX];
    char new_id[ENGINE_ID_SIZE] = "";
    struct fetch_answer answer;
    struct fetch_request request = {
        .method = "POST", .path = path, .body = json, .total_ms = ENGINE_SLOW_MS};

    enum err rc = engine_path(engine, path, e, "/containers/create?name=%s", name);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = engine_call(engine, &request, &answer, e);
    bool maybe_there = rc != ERR_OK;
    if (rc == ERR_OK) {
        rc = expect_created(&answer, e);
        if (rc == ERR_OK) {
            maybe_there = true;
            rc = read_created(&answer, new_id, e);
        }
    }
    buf_fini(&answer.body);
    if (rc != ERR_OK && maybe_there) { /* it may have been made all the same */
        bool before = engine->driver->uninterruptible;
        engine->driver->uninterruptible = true;
        (void)!engine_remove(engine, name, NULL);
        engine->driver->uninterruptible = before;
    }
    if (rc == ERR_OK) {
        memcpy(id, new_id, ENGINE_ID_SIZE);
    }
    return rc;
}

/* ---- simple verbs ---- */

/* A call without a body whose status is `expected`, or one of two that are as good. */
static enum err verb(struct engine *engine, const char *method, const char *path, const char *what,
                     const int fine[3], struct error *e)
{
    struct fetch_request request = {.method = method, .path = path, .total_ms = ENGINE_SLOW_MS};
    struct fetch_answer answer;
    enum err rc = engine_call(engine, &request, &answer, e);

    if (rc == ERR_OK && answer.status != fine[2]) {
        rc = engine_expect(&answer, what, fine[0], fine[1], e);
    }
    buf_fini(&answer.body);
    return rc;
}

enum err engine_start(struct engine *engine, const char *id, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path(engine, path, e, "/containers/%s/start", id);

    return rc == ERR_OK ? verb(engine, "POST", path, "start", (const int[3]){204, 304, 0}, e) : rc;
}

enum err engine_kill(struct engine *engine, const char *id, const char *signal, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path(engine, path, e, "/containers/%s/kill?signal=%s", id, signal);

    /* 409: it is not running; 404: it is gone */
    return rc == ERR_OK ? verb(engine, "POST", path, "kill", (const int[3]){204, 409, 404}, e) : rc;
}

enum err engine_remove(struct engine *engine, const char *id, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path(engine, path, e, "/containers/%s?force=1&v=1", id);

    if (rc == ERR_OK) {
        struct error mine = {0};
        rc = verb(engine, "DELETE", path, "remove", (const int[3]){204, 404, 409}, &mine);
        if (rc == ERR_UPSTREAM && mine.sys == 200) { /* podman's newer answer has a body */
            rc = ERR_OK;
        }
        if (rc != ERR_OK && e != NULL) {
            *e = mine;
        }
    }
    return rc;
}

/* ---- inspect, list ---- */

/* Its address in the network that it is in; with several, the first. */
static void read_address(struct json_value top, char *out, size_t size)
{
    struct json_value settings = json_find(top, "NetworkSettings");
    struct json_value networks = json_find(settings, "Networks");
    struct json_member m;
    size_t cursor = 0;

    out[0] = '\0';
    while (out[0] == '\0' && json_object_next(networks, &cursor, &m)) {
        (void)engine_text(m.value, "IPAddress", out, size);
    }
    if (out[0] == '\0') {
        (void)engine_text(settings, "IPAddress", out, size);
    }
}

enum err engine_inspect(struct engine *engine, const char *id, struct engine_state *out,
                        struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct json_value top;
    uint64_t code = 0;

    *out = (struct engine_state){0};
    enum err rc = engine_path(engine, path, e, "/containers/%s/json", id);
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.method = "GET", .path = path};
    rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "inspect", 200, 0, e);
    }
    if (rc == ERR_OK) {
        rc = engine_json(&answer, JSON_OBJECT, "inspect", &top, e);
    }
    if (rc == ERR_OK) {
        struct json_value state = json_find(top, "State");
        out->running = json_find(state, "Running").type == JSON_TRUE;
        out->oom_killed = json_find(state, "OOMKilled").type == JSON_TRUE;
        (void)json_number_u64(json_find(state, "ExitCode"), &code);
        out->exit_code = code <= 255 ? (int)code : 255;
        read_address(top, out->ip, sizeof(out->ip));
    }
    buf_fini(&answer.body);
    return rc;
}

static void give_container(struct json_value item,
                           void (*each)(void *ctx, const struct engine_container *c), void *ctx)
{
    struct json_value names = json_find(item, "Names");
    struct json_value first = {.type = JSON_ABSENT};
    size_t cursor = 0;
    char id[ENGINE_ID_SIZE];
    char image[512];

    (void)json_array_next(names, &cursor, &first);
    char *name = engine_strdup(first);
    (void)engine_text(item, "Image", image, sizeof(image));
    if (engine_text(item, "Id", id, sizeof(id))) {
        struct engine_container c = {
            .id = id,
            .name = name == NULL     ? ""
                    : name[0] == '/' ? name + 1
                                     : name,
            .image = image,
            .labels = json_find(item, "Labels").text,
        };
        each(ctx, &c);
    }
    free(name);
}

enum err engine_list(struct engine *engine, const char *label,
                     void (*each)(void *ctx, const struct engine_container *c), void *ctx,
                     struct error *e)
{
    char filters[256];
    char encoded[512];
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct json_value top;
    struct json_value item;
    size_t cursor = 0;

    snprintf(filters, sizeof(filters), "{\"label\":[\"%s\"]}", label);
    enum err rc = engine_encode(filters, false, encoded, sizeof(encoded), e);
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/containers/json?all=1&filters=%s", encoded);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.method = "GET", .path = path};
    rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "list", 200, 0, e);
    }
    if (rc == ERR_OK) {
        rc = engine_json(&answer, JSON_ARRAY, "list", &top, e);
    }
    while (rc == ERR_OK && json_array_next(top, &cursor, &item)) {
        give_container(item, each, ctx);
    }
    buf_fini(&answer.body);
    return rc;
}

/* ---- the next exit ---- */

struct engine_exit {
    struct fetch_call *call;
};

enum err engine_exit_watch(struct engine *engine, const char *id, struct engine_exit **out,
                           struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct engine_exit *x = NULL;
    enum err rc = engine_path(engine, path, e, "/containers/%s/wait?condition=next-exit", id);

    if (rc == ERR_OK) {
        x = calloc(1, sizeof(*x));
        rc = x == NULL ? err_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    }
    if (rc == ERR_OK) {
        struct fetch_request request = {.method = "POST", .path = path};
        rc = fetch_start(engine->driver, &engine->peer, &request, &x->call, e);
    }
    if (rc != ERR_OK) {
        free(x);
        return rc;
    }
    *out = x;
    return ERR_OK;
}

const bool *engine_exit_done(const struct engine_exit *x)
{
    return fetch_done(x->call);
}

enum err engine_exit_code(struct engine_exit *x, int *code, struct error *e)
{
    struct fetch_answer answer;
    struct json_value top;
    uint64_t status = 0;
    enum err rc = fetch_take(x->call, &answer, e);

    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "wait", 200, 0, e);
    }
    if (rc == ERR_OK) {
        rc = engine_json(&answer, JSON_OBJECT, "wait", &top, e);
    }
    if (rc == ERR_OK && (!json_number_u64(json_find(top, "StatusCode"), &status) || status > 255)) {
        rc = err_set(e, ERR_PROTO, "the engine: wait: no StatusCode in its answer");
    }
    if (rc == ERR_OK) {
        *code = (int)status;
    }
    buf_fini(&answer.body);
    return rc;
}

void engine_exit_end(struct engine_exit *x)
{
    if (x != NULL) {
        fetch_end(x->call);
        free(x);
    }
}
