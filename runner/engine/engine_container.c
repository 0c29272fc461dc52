/* Containers: create, start, kill, remove, inspect, list. Waiting for an exit: engine_exit.c. */
#include "engine/engine_private.h"

#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKE_BACK_TRIES 5
#define REMOVE_TRIES    6

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

/* "Your kernel does not support swap limit capabilities …", "… Limitation discarded." (Docker),
 * "Resource limits are not supported and ignored on cgroups V1 rootless systems" (podman). */
static bool says_dropped(const char *warning)
{
    return strcasestr(warning, "not support") != NULL || strcasestr(warning, "discarded") != NULL ||
           strcasestr(warning, "ignored") != NULL;
}

/* A limit that the engine dropped is no limit: better no container. */
static enum err check_warnings(struct json_value top, struct error *e)
{
    struct json_value item;
    size_t cursor = 0;

    while (json_array_next(json_find(top, "Warnings"), &cursor, &item)) {
        char *text = engine_strdup(item);
        enum err rc = text == NULL ? err_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
        if (rc == ERR_OK && says_dropped(text)) {
            engine_one_line(text);
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

/*
 * The call brought no usable answer, so a container of that name may be there, or come to be: an
 * engine goes on with a create whose caller has left, and until then says that there is none. What
 * comes later than this waits is the next sweep's.
 */
static void take_back(struct engine *engine, const char *name, bool may_come)
{
    struct driver *d = engine->driver;
    bool before = d->uninterruptible;
    const bool never = false;
    bool found = false;

    d->uninterruptible = true;
    for (int i = 0; i < TAKE_BACK_TRIES; i++) {
        enum err rc = engine_remove_found(engine, name, &found, NULL);
        if (rc != ERR_OK || found || !may_come) {
            break;
        }
        (void)!driver_wait(d, &never, driver_deadline(d, engine->limits.take_back_ms));
    }
    d->uninterruptible = before;
}

enum err engine_create(struct engine *engine, const char *name, struct span json,
                       char id[ENGINE_ID_SIZE], struct error *e)
{
    char path[ENGINE_PATH_MAX];
    char new_id[ENGINE_ID_SIZE] = "";
    struct fetch_answer answer;
    struct error mine = {0};

    enum err rc = engine_path_of(engine, path, "/containers/create?name=", name, "", e);
    if (rc != ERR_OK) {
        return rc;
    }
    const struct fetch_request request = {
        .method = "POST", .path = path, .body = json, .total_ms = engine->limits.slow_ms};
    rc = engine_call(engine, &request, &answer, &mine);
    bool may_come = rc == ERR_CLOSED || (rc == ERR_IO && mine.sys == ETIMEDOUT);
    bool maybe_there = rc != ERR_OK;
    if (rc == ERR_OK) {
        rc = expect_created(&answer, &mine);
        maybe_there = rc == ERR_OK;
        if (rc == ERR_OK) {
            rc = read_created(&answer, new_id, &mine);
        }
    }
    buf_fini(&answer.body);
    if (rc == ERR_OK) {
        memcpy(id, new_id, ENGINE_ID_SIZE);
        return ERR_OK;
    }
    if (maybe_there) {
        take_back(engine, name, may_come);
    }
    if (e != NULL) {
        *e = mine;
    }
    return rc;
}

/* ---- simple verbs ---- */

/* A call without a body; the engine's words are kept for who must look at them. */
static enum err verb(struct engine *engine, const char *method, const char *path,
                     struct fetch_answer *answer, struct error *e)
{
    const struct fetch_request request = {
        .method = method, .path = path, .total_ms = engine->limits.slow_ms};

    return engine_call(engine, &request, answer, e);
}

static bool says(const struct fetch_answer *answer, const char *words)
{
    char message[320];

    fetch_message(answer, message);
    return strstr(message, words) != NULL;
}

enum err engine_start(struct engine *engine, const char *id, struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    enum err rc = engine_path_of(engine, path, "/containers/", id, "/start", e);

    if (rc != ERR_OK) {
        return rc;
    }
    rc = verb(engine, "POST", path, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "start", 204, 304, e);
    }
    buf_fini(&answer.body);
    return rc;
}

/* For one that runs no more Docker has 409, podman 500 and a text; 404: it is gone. */
static enum err expect_killed(const struct fetch_answer *answer, struct error *e)
{
    if (answer->status == 404 || (answer->status == 500 && says(answer, "state improper"))) {
        return ERR_OK;
    }
    return engine_expect(answer, "kill", 204, 409, e);
}

enum err engine_kill(struct engine *engine, const char *id, const char *signal, struct error *e)
{
    char after[64] = "/kill?signal=";
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    size_t n = strlen(after);
    enum err rc = engine_encode(signal, after + n, sizeof(after) - n, e);

    if (rc == ERR_OK) {
        rc = engine_path_of(engine, path, "/containers/", id, after, e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    rc = verb(engine, "POST", path, &answer, e);
    if (rc == ERR_OK) {
        rc = expect_killed(&answer, e);
    }
    buf_fini(&answer.body);
    return rc;
}

/* 200: podman's newer answer has a body. 409 has other reasons too: only "removal of container …
 * is already in progress" is as good as done. */
static enum err expect_removed(const struct fetch_answer *answer, struct error *e)
{
    if (answer->status == 200 || answer->status == 404 ||
        (answer->status == 409 && says(answer, "in progress"))) {
        return ERR_OK;
    }
    return engine_expect(answer, "remove", 204, 0, e);
}

/* `again`: podman cannot remove what is just ending ("container state improper: stopped"). */
static enum err remove_once(struct engine *engine, const char *id, bool *found, bool *again,
                            struct error *e)
{
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    enum err rc = engine_path_of(engine, path, "/containers/", id, "?force=1&v=1", e);

    *found = false;
    *again = false;
    if (rc != ERR_OK) {
        return rc;
    }
    rc = verb(engine, "DELETE", path, &answer, e);
    if (rc == ERR_OK) {
        rc = expect_removed(&answer, e);
        *found = rc == ERR_OK && answer.status != 404;
        *again = answer.status == 500 && says(&answer, "state improper");
    }
    buf_fini(&answer.body);
    return rc;
}

enum err engine_remove_found(struct engine *engine, const char *id, bool *found, struct error *e)
{
    bool again = false;

    return remove_once(engine, id, found, &again, e);
}

enum err engine_remove(struct engine *engine, const char *id, struct error *e)
{
    const bool never = false;
    bool found = false;
    bool again = false;
    struct error mine = {0};
    enum err rc = remove_once(engine, id, &found, &again, &mine);

    for (int i = 1; i < REMOVE_TRIES && again; i++) {
        (void)!driver_wait(engine->driver, &never,
                           driver_deadline(engine->driver, engine->limits.take_back_ms));
        rc = remove_once(engine, id, &found, &again, &mine);
    }
    if (rc != ERR_OK && e != NULL) {
        *e = mine;
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
    enum err rc = engine_path_of(engine, path, "/containers/", id, "/json", e);
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
    struct buf filters;
    char encoded[512];
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct json_value top;
    struct json_value item;
    size_t cursor = 0;

    buf_init(&filters, sizeof(encoded));
    buf_put_str(&filters, "{\"label\":[");
    json_put_string(&filters, span_str(label));
    buf_put_str(&filters, "]}");
    enum err rc = buf_status(&filters) == ERR_OK
                      ? engine_encode(buf_cstr(&filters), encoded, sizeof(encoded), e)
                      : err_set(e, buf_status(&filters), "the label cannot be asked for");
    buf_fini(&filters);
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
