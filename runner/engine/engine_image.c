/* Images: looking at one, pulling one, building one. */
#include "engine/engine_private.h"
#include "engine/progress.h"

#include "base/json.h"
#include "engine/registry_auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PULL_STALL_MS 60000u

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

/* False: out of memory, or an element that is no string. null is an empty list. */
static bool read_strings(struct json_value array, struct engine_strings *out)
{
    struct json_value item;
    size_t cursor = 0;
    size_t n = 0;

    while (json_array_next(array, &cursor, &item)) {
        n++;
    }
    out->v = calloc(n + 1, sizeof(*out->v));
    cursor = 0;
    while (out->v != NULL && json_array_next(array, &cursor, &item)) {
        out->v[out->n] = engine_strdup(item);
        if (out->v[out->n] == NULL) {
            return false;
        }
        out->n++;
    }
    return out->v != NULL;
}

static enum err read_image(struct json_value top, struct engine_image *out, struct error *e)
{
    struct json_value config = json_find(top, "Config");
    struct json_value labels = json_find(config, "Labels");

    out->id = engine_strdup(json_find(top, "Id"));
    out->user = engine_strdup(json_find(config, "User"));
    out->version_label = engine_strdup(json_find(labels, "tactus.version"));
    out->hash_label = engine_strdup(json_find(labels, "tactus.source_hash"));
    if (!read_strings(json_find(config, "Entrypoint"), &out->entrypoint) ||
        !read_strings(json_find(config, "Cmd"), &out->command) ||
        !read_strings(json_find(config, "Env"), &out->env)) {
        engine_image_fini(out);
        return err_set(e, ERR_PROTO, "the engine: image inspect: its answer cannot be read");
    }
    return ERR_OK;
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
    enum err rc = engine_encode(name, true, encoded, sizeof(encoded), e);
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

/* A POST whose 200 is a stream of progress objects, the failure one of them. */
static enum err follow(struct engine *engine, const struct fetch_request *asked, const char *what,
                       engine_progress_fn *progress, void *ctx, struct error *e)
{
    struct progress p;
    struct fetch_answer answer;
    struct fetch_request request = *asked;

    progress_init(&p, progress, ctx);
    request.method = "POST";
    request.total_ms = UINT32_MAX;
    request.on_bytes = progress_feed;
    request.ctx = &p;
    enum err rc = engine_call(engine, &request, &answer, e);
    if (rc == ERR_OK) {
        rc = engine_expect(&answer, what, 200, 0, e);
    }
    if (rc == ERR_OK) {
        rc = progress_end(&p, what, e);
    }
    progress_fini(&p);
    buf_fini(&answer.body);
    return rc;
}

/* "registry:5000/a/b:tag" has its tag after the last slash; a digest is part of the name. */
static bool has_tag(const char *name)
{
    const char *slash = strrchr(name, '/');

    return strchr(name, '@') != NULL || strchr(slash == NULL ? name : slash, ':') != NULL;
}

enum err engine_image_pull(struct engine *engine, const char *name, engine_progress_fn *progress,
                           void *ctx, struct error *e)
{
    char encoded[ENGINE_PATH_MAX / 2];
    char path[ENGINE_PATH_MAX];
    struct buf auth;

    enum err rc = engine_encode(name, false, encoded, sizeof(encoded), e);
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/images/create?fromImage=%s%s", encoded,
                         has_tag(name) ? "" : "&tag=latest");
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.path = path, .stall_ms = PULL_STALL_MS};
    buf_init(&auth, 16384);
    registry_auth(name, &auth);
    if (auth.len > 0 && buf_status(&auth) == ERR_OK) {
        request.extra[0] = (struct http_header){SPAN("X-Registry-Auth"), buf_span(&auth)};
    }
    rc = follow(engine, &request, "pull", progress, ctx, e);
    buf_wipe(&auth);
    return rc == ERR_OK ? rc : err_wrap(e, "image %s cannot be pulled", name);
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
    char tag[ENGINE_PATH_MAX / 4];
    char dockerfile[ENGINE_PATH_MAX / 4];
    char options[ENGINE_PATH_MAX / 4];
    char path[ENGINE_PATH_MAX];
    struct buf json;

    buf_init(&json, sizeof(options) / 3);
    put_labels(&json, labels, nlabels);
    enum err rc = buf_status(&json) == ERR_OK
                      ? engine_encode(buf_cstr(&json), false, options, sizeof(options), e)
                      : err_set(e, ERR_CONFIG, "the labels are too long");
    buf_fini(&json);
    if (rc == ERR_OK) {
        rc = engine_encode(name, false, tag, sizeof(tag), e);
    }
    if (rc == ERR_OK) {
        rc = engine_encode(file, false, dockerfile, sizeof(dockerfile), e);
    }
    if (rc == ERR_OK) {
        rc = engine_path(engine, path, e, "/build?t=%s&dockerfile=%s&labels=%s&rm=1&forcerm=1", tag,
                         dockerfile, options);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct fetch_request request = {.path = path, .body = context, .type = "application/x-tar"};
    rc = follow(engine, &request, "build", progress, ctx, e);
    return rc == ERR_OK ? rc : err_wrap(e, "image %s cannot be built", name);
}
