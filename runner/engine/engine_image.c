/* Images: looking at one, pulling one, building one. */
#include "engine/engine_private.h"
#include "engine/progress.h"

#include "base/json.h"
#include "engine/registry_auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES (ENGINE_PATH_MAX / 4)

static void strings_fini(struct engine_strings *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->v[i]);
    }
    free(s->v);
    *s = (struct engine_strings){0};
}

void engine_image_fini(struct engine_image *image)
{
    free(image->id);
    free(image->user);
    free(image->version_label);
    free(image->hash_label);
    strings_fini(&image->entrypoint);
    strings_fini(&image->command);
    strings_fini(&image->env);
    *image = (struct engine_image){0};
}

/* NULL stays for what is no string. */
static enum err read_string(struct json_value v, char **out, struct error *e)
{
    *out = engine_strdup(v);
    return *out != NULL || v.type != JSON_STRING ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
}

/* null is an empty list. */
static enum err read_strings(struct json_value array, struct engine_strings *out, struct error *e)
{
    struct json_value item;
    size_t cursor = 0;
    size_t n = 0;
    enum err rc = ERR_OK;

    while (json_array_next(array, &cursor, &item)) {
        n++;
    }
    out->v = calloc(n + 1, sizeof(*out->v));
    if (out->v == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    cursor = 0;
    while (rc == ERR_OK && json_array_next(array, &cursor, &item)) {
        rc = item.type == JSON_STRING
                 ? read_string(item, &out->v[out->n], e)
                 : err_set(e, ERR_PROTO, "the engine: image inspect: a list of more than strings");
        out->n += rc == ERR_OK ? 1 : 0;
    }
    return rc;
}

static enum err read_image(struct json_value top, struct engine_image *out, struct error *e)
{
    struct json_value config = json_find(top, "Config");
    struct json_value labels = json_find(config, "Labels");
    struct {
        struct json_value value;
        char **out;
    } texts[] = {
        {json_find(top, "Id"), &out->id},
        {json_find(config, "User"), &out->user},
        {json_find(labels, "tactus.version"), &out->version_label},
        {json_find(labels, "tactus.source_hash"), &out->hash_label},
    };
    enum err rc = ERR_OK;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == ERR_OK; i++) {
        rc = read_string(texts[i].value, texts[i].out, e);
    }
    if (rc == ERR_OK) {
        rc = read_strings(json_find(config, "Entrypoint"), &out->entrypoint, e);
    }
    if (rc == ERR_OK) {
        rc = read_strings(json_find(config, "Cmd"), &out->command, e);
    }
    if (rc == ERR_OK) {
        rc = read_strings(json_find(config, "Env"), &out->env, e);
    }
    if (rc != ERR_OK) {
        engine_image_fini(out);
    }
    return rc;
}

enum err engine_image_inspect(struct engine *engine, const char *name, struct engine_image *out,
                              bool *found, struct error *e)
{
    char encoded[ENGINE_PATH_MAX / 2];
    char path[ENGINE_PATH_MAX];
    struct fetch_answer answer;
    struct json_value top;

    *out = (struct engine_image){0};
    *found = false;
    enum err rc = engine_encode_name(name, true, encoded, sizeof(encoded), e);
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/images/%s/json", encoded);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.method = "GET", .path = path};
    rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, "image inspect", 200, 404, e);
    }
    if (rc == ERR_OK && answer.status == 200) {
        rc = engine_json(&answer, JSON_OBJECT, "image inspect", &top, e);
        if (rc == ERR_OK) {
            rc = read_image(top, out, e);
        }
        *found = rc == ERR_OK;
    }
    buf_fini(&answer.body);
    return rc;
}

/* ---- long operations ---- */

struct following {
    struct progress progress;
    struct loop *loop;
    uint64_t heard_at; /* loop_now() of the last byte, or of the start */
};

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct following *f = ctx;

    f->heard_at = loop_now(f->loop);
    progress_feed(&f->progress, p, n);
}

/* Until it is done, or nothing came for `silence_ms`: also before the answer's head, which engines
 * send with their first word only. */
static enum err wait_while_heard(struct driver *d, struct following *f, struct fetch_call *call,
                                 uint32_t silence_ms, const char *what, struct error *e)
{
    enum err rc = ERR_AGAIN;

    while (rc == ERR_AGAIN && loop_now(d->loop) < f->heard_at + silence_ms) {
        rc = driver_wait(d, fetch_done(call), f->heard_at + silence_ms);
    }
    if (rc == ERR_AGAIN) {
        rc = err_set(e, ERR_IO, "the engine: %s: no word for %u ms", what, (unsigned)silence_ms);
        if (e != NULL) {
            e->sys = ETIMEDOUT;
        }
    } else if (rc != ERR_OK) {
        rc = err_set(e, rc, "the engine: %s: interrupted", what);
    }
    return rc;
}

/* A POST whose 200 is a stream of progress objects, the failure one of them. */
static enum err follow(struct engine *engine, const struct fetch_request *asked,
                       uint32_t silence_ms, const char *what, engine_progress_fn *progress,
                       void *ctx, struct error *e)
{
    struct driver *d = engine->driver;
    struct following f = {.loop = d->loop, .heard_at = loop_now(d->loop)};
    struct fetch_call *call = NULL;
    struct fetch_answer answer;
    struct fetch_request request = *asked;

    request.method = "POST";
    request.on_bytes = on_bytes;
    request.ctx = &f;
    progress_init(&f.progress, progress, ctx);
    enum err rc = fetch_start(d, &engine->peer, &request, &call, e);
    if (rc == ERR_OK) {
        rc = wait_while_heard(d, &f, call, silence_ms, what, e);
    }
    if (rc == ERR_OK) {
        rc = fetch_take(call, &answer, e);
        if (rc == ERR_OK) {
            rc = engine_expect(&answer, what, 200, 0, e);
        }
        buf_fini(&answer.body);
    }
    fetch_end(call);
    /* What the engine said itself tells more than that its connection broke off then. */
    if (rc == ERR_OK || (rc == ERR_IO && f.progress.failed)) {
        rc = progress_end(&f.progress, what, e);
    }
    progress_fini(&f.progress);
    return rc;
}

static enum err with_name(enum err rc, const char *name, const char *why, struct error *e)
{
    if (rc != ERR_OK && e != NULL) {
        (void)err_wrap(e, "image %.120s %s", name, why);
        engine_one_line(e->msg);
    }
    return rc;
}

/* "registry:5000/a/b:tag" has its tag after the last slash; a digest is part of the name. */
static bool has_tag(const char *name)
{
    const char *slash = strrchr(name, '/');

    return strchr(name, '@') != NULL || strchr(slash == NULL ? name : slash, ':') != NULL;
}

static void put_auth(const char *name, struct buf *out)
{
    struct engine_surroundings surroundings;
    char path[PATH_MAX];

    engine_surroundings_read(&surroundings);
    if (engine_docker_file(&surroundings, "/config.json", path)) {
        registry_auth(path, name, out);
    }
}

enum err engine_image_pull(struct engine *engine, const char *name, engine_progress_fn *progress,
                           void *ctx, struct error *e)
{
    char encoded[ENGINE_PATH_MAX / 2];
    char path[ENGINE_PATH_MAX];
    struct buf auth;

    enum err rc = engine_encode_name(name, false, encoded, sizeof(encoded), e);
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/images/create?fromImage=%s%s", encoded,
                         has_tag(name) ? "" : "&tag=latest");
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.path = path};
    buf_init(&auth, 65536);
    put_auth(name, &auth);
    if (auth.len > 0 && buf_status(&auth) == ERR_OK) {
        request.extra[0] = (struct http_header){SPAN("X-Registry-Auth"), buf_span(&auth)};
    }
    rc = follow(engine, &request, engine->limits.pull_ms, "pull", progress, ctx, e);
    buf_wipe(&auth);
    return with_name(rc, name, "cannot be pulled", e);
}

/* {"key":"value",…} from "key=value" texts. */
static void put_labels(struct buf *b, const char *const *labels, size_t n)
{
    buf_put_char(b, '{');
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(labels[i], '=');
        size_t key = equals == NULL ? strlen(labels[i]) : (size_t)(equals - labels[i]);
        buf_put_str(b, i == 0 ? "" : ",");
        json_put_string(b, span_of(labels[i], key));
        buf_put_char(b, ':');
        json_put_string(b, span_str(equals == NULL ? "" : equals + 1));
    }
    buf_put_char(b, '}');
}

enum err engine_image_build(struct engine *engine, const char *name, const char *file,
                            struct span context, const char *const *labels, size_t nlabels,
                            engine_progress_fn *progress, void *ctx, struct error *e)
{
    char tag[NAME_MAX_BYTES];
    char dockerfile[NAME_MAX_BYTES];
    char options[NAME_MAX_BYTES * 3 / 2];
    char path[ENGINE_PATH_MAX];
    struct buf json;

    buf_init(&json, sizeof(options));
    put_labels(&json, labels, nlabels);
    enum err rc = buf_status(&json) == ERR_OK
                      ? engine_encode(buf_cstr(&json), options, sizeof(options), e)
                      : err_set(e, ERR_CONFIG, "the labels are too long");
    buf_fini(&json);
    if (rc == ERR_OK) {
        rc = engine_encode_name(name, false, tag, sizeof(tag), e);
    }
    if (rc == ERR_OK) {
        rc = engine_encode(file, dockerfile, sizeof(dockerfile), e);
    }
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/build?t=%s&dockerfile=%s&labels=%s&rm=1&forcerm=1", tag,
                         dockerfile, options);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    const struct fetch_request request = {
        .path = path, .body = context, .type = "application/x-tar"};
    rc = follow(engine, &request, engine->limits.build_ms, "build", progress, ctx, e);
    return with_name(rc, name, "cannot be built", e);
}
