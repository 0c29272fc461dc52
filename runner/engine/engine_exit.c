/*
 * Waiting for a container's next exit, on a connection of its own. Engines send the head of the
 * answer when they watch and the body when the container has ended, so the head is waited for: a
 * container that is started then cannot end unseen, however fast it is. Called by the run, around
 * engine_start.
 */
#include "engine/engine_private.h"

#include <stdlib.h>

#define BODY_MAX 65536u

struct engine_exit {
    struct http_call *call; /* NULL once it ended */
    struct fetch_answer answer;
    bool answered; /* the head is there, or nothing will come any more */
    bool done;
    enum err rc;
    struct error error;
};

static void on_head(void *ctx, const struct http_head *head)
{
    struct engine_exit *x = ctx;

    x->answer.status = head->status;
    x->answered = true;
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct engine_exit *x = ctx;

    buf_put(&x->answer.body, p, n);
}

static void on_end(void *ctx, const struct http_end *end)
{
    struct engine_exit *x = ctx;

    x->call = NULL;
    x->answered = true;
    x->done = true;
    if (end->outcome != HTTP_OK) {
        x->rc = err_set(&x->error, end->outcome == HTTP_NOMEM ? ERR_NOMEM : ERR_IO,
                        "the engine: wait: %s", end->detail);
    } else if (buf_status(&x->answer.body) != ERR_OK) {
        x->rc = err_set(&x->error, buf_status(&x->answer.body),
                        "the engine: wait: its answer cannot be kept");
    }
}

static const struct http_handler handler = {
    .on_head = on_head,
    .on_bytes = on_bytes,
    .on_end = on_end,
};

static enum err ask(struct engine *engine, const char *path, struct engine_exit *x, struct error *e)
{
    const struct fetch_peer *peer = &engine->peer;
    struct buf url;

    buf_init(&url, sizeof(engine->place.base_url) + ENGINE_PATH_MAX);
    buf_put_str(&url, peer->base_url);
    buf_put_str(&url, path);
    const struct http_request request = {
        .method = "POST",
        .url = buf_cstr(&url),
        .unix_socket = peer->unix_socket,
        .ca_file = peer->ca_file,
        .cert_file = peer->cert_file,
        .key_file = peer->key_file,
        .connect_ms = engine->limits.call_ms,
        .first_byte_ms = UINT32_MAX,
        .stall_ms = UINT32_MAX,
        .total_ms = UINT32_MAX,
    };
    enum err rc = buf_status(&url) != ERR_OK
                      ? err_set(e, buf_status(&url), "out of memory")
                      : http_client_start(engine->driver->http, &request, &handler, x, &x->call, e);
    buf_fini(&url);
    return rc;
}

/* ERR_OK: it is watched for, or may be (something between us that holds heads back does not hold up
 * the run); a refusal is told at once. */
static enum err wait_for_head(struct engine *engine, struct engine_exit *x, struct error *e)
{
    struct driver *d = engine->driver;
    uint32_t ms = engine->limits.watch_ms;
    enum err rc = driver_wait(d, &x->answered, driver_deadline(d, ms));

    if (rc == ERR_AGAIN) {
        return ERR_OK;
    }
    if (rc != ERR_OK) {
        return err_set(e, rc, "the engine: wait: interrupted");
    }
    if (x->answer.status == 0) {
        if (e != NULL) {
            *e = x->error;
        }
        return x->rc;
    }
    if (x->answer.status == 200) {
        return ERR_OK;
    }
    (void)!driver_wait(d, &x->done, driver_deadline(d, ms)); /* the rest of its words */
    return engine_expect(&x->answer, "wait", 200, 0, e);
}

enum err engine_exit_watch(struct engine *engine, const char *id, struct engine_exit **out,
                           struct error *e)
{
    char path[ENGINE_PATH_MAX];
    enum err rc = engine_path_of(engine, path, "/containers/", id, "/wait?condition=next-exit", e);

    if (rc != ERR_OK) {
        return rc;
    }
    struct engine_exit *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    buf_init(&x->answer.body, BODY_MAX);
    rc = ask(engine, path, x, e);
    if (rc == ERR_OK) {
        rc = wait_for_head(engine, x, e);
    }
    if (rc != ERR_OK) {
        engine_exit_end(x);
        return rc;
    }
    *out = x;
    return ERR_OK;
}

const bool *engine_exit_done(const struct engine_exit *x)
{
    return &x->done;
}

/* {"StatusCode":3,"Error":null}; an Error has a Message, and its code is none. */
static enum err read_code(const struct engine_exit *x, int *code, struct error *e)
{
    struct json_value top;
    uint64_t status = 0;
    char why[256];
    enum err rc = engine_expect(&x->answer, "wait", 200, 0, e);

    if (rc == ERR_OK) {
        rc = engine_json(&x->answer, JSON_OBJECT, "wait", &top, e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    if (engine_text(json_find(top, "Error"), "Message", why, sizeof(why))) {
        engine_one_line(why);
        return err_set(e, ERR_UPSTREAM, "the engine: wait: %s", why);
    }
    if (!json_number_u64(json_find(top, "StatusCode"), &status) || status > 255) {
        return err_set(e, ERR_PROTO, "the engine: wait: no StatusCode in its answer");
    }
    *code = (int)status;
    return ERR_OK;
}

enum err engine_exit_code(struct engine_exit *x, int *code, struct error *e)
{
    if (x->rc != ERR_OK) {
        if (e != NULL) {
            *e = x->error;
        }
        return x->rc;
    }
    return read_code(x, code, e);
}

void engine_exit_end(struct engine_exit *x)
{
    if (x != NULL) {
        http_call_cancel(x->call);
        buf_fini(&x->answer.body);
        free(x);
    }
}
