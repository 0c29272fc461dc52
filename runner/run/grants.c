/*
 * Grants over the admin port: see grants.h. Used by the run, and by the keeper after a run that
 * could not clean up.
 */
#include "run/grants.h"

#include "base/json.h"
#include "base/json_span.h"
#include "net/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADMIN_MS 5000u

/* ---- where ---- */

/* The first of the usual sockets that exists; `path` gets one that is not a literal. */
static const char *find_socket(char *path, size_t size, struct error *e)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (access(ADMIN_PEER_SOCKET, F_OK) == 0) {
        return ADMIN_PEER_SOCKET;
    }
    if (runtime != NULL) {
        int n = snprintf(path, size, "%s/tactus/admin.sock", runtime);
        if (n > 0 && (size_t)n < size && access(path, F_OK) == 0) {
            return path;
        }
    }
    (void)err_set(e, ERR_IO,
                  "no broker found: neither --admin nor " ADMIN_PEER_ENV
                  " is set, and there is no " ADMIN_PEER_SOCKET "%s. Start tactus-broker, "
                  "or name one that runs: --admin unix:///PATH or http://127.0.0.1:PORT",
                  runtime == NULL ? "" : " or $XDG_RUNTIME_DIR/tactus/admin.sock");
    return NULL;
}

enum err grants_init(struct grants *g, struct driver *d, const char *text, struct error *e)
{
    char path[sizeof(g->admin.socket)];

    *g = (struct grants){.driver = d};
    if (text == NULL || text[0] == '\0') {
        text = getenv(ADMIN_PEER_ENV);
    }
    if (text == NULL || text[0] == '\0') {
        text = find_socket(path, sizeof(path), e);
    }
    return text == NULL ? ERR_IO
                        : admin_peer_parse(text, getenv(ADMIN_PEER_ENV_TOKEN),
                                           "the broker's admin port", &g->admin, e);
}

void grants_fini(struct grants *g)
{
    admin_peer_fini(&g->admin);
}

void grants_address(const struct grants *g, char out[ADMIN_PEER_TEXT_SIZE])
{
    admin_peer_address(&g->admin, true, out);
}

/* ---- calls ---- */

/* One exchange whose answer must have a status 2xx. */
static enum err call(struct grants *g, const char *method, const char *path, struct span body,
                     struct fetch_answer *out, struct error *e)
{
    struct fetch_request request = {
        .method = method, .path = path, .body = body, .total_ms = ADMIN_MS};
    char message[320];
    enum err rc = fetch(g->driver, &g->admin.peer, &request, out, e);

    if (rc == ERR_OK && out->status / 100 != 2) {
        fetch_message(out, message);
        rc = err_set(e, ERR_UPSTREAM, "the broker refuses %s %s: %s", method, path, message);
        if (e != NULL) {
            e->sys = out->status;
        }
    }
    return rc;
}

static void put_strings(struct buf *b, const char *key, char *const *v, size_t n)
{
    buf_printf(b, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        if (i > 0) {
            buf_put_char(b, ',');
        }
        json_put_string(b, span_str(v[i]));
    }
    buf_put_char(b, ']');
}

static void put_text(struct buf *b, const char *key, const char *value)
{
    if (value != NULL) {
        buf_printf(b, ",\"%s\":", key);
        json_put_string(b, span_str(value));
    }
}

static unsigned seconds(uint32_t ms)
{
    return (ms + 999) / 1000;
}

static void put_wish(struct buf *b, const struct grant_wish *w)
{
    bool local = w->transport == TRANSPORT_STDIO || w->transport == TRANSPORT_UNIX;

    buf_printf(b, "{\"ttl\":%u", seconds(w->ttl_ms));
    put_text(b, "run", w->run);
    put_strings(b, "models", w->models, w->nmodels);
    put_strings(b, "tools", w->tools, w->ntools);
    buf_printf(b, ",\"listener\":{\"transport\":\"%s\"",
               local ? "unix" : transport_name(w->transport));
    if (w->transport == TRANSPORT_STDIO) {
        buf_put_str(b, ",\"relay\":true");
    }
    if (!local) {
        put_text(b, "bind", w->bind);
        buf_printf(b, ",\"port\":%u", (unsigned)w->port);
        put_text(b, "cert_file", w->cert_file);
        put_text(b, "key_file", w->key_file);
    }
    buf_put_str(b, "}}");
}

static bool copy_member(struct json_value object, const char *name, char *out, size_t size)
{
    struct json_value v = json_find(object, name);
    struct buf text;
    bool ok = false;

    buf_init(&text, size);
    if (v.type == JSON_STRING) {
        json_string_decode(v, &text, NULL);
        ok = buf_status(&text) == ERR_OK && text.len > 0 && text.len < size &&
             memchr(text.p, '\0', text.len) == NULL;
    }
    if (ok) {
        memcpy(out, text.p, text.len);
        out[text.len] = '\0';
    }
    buf_fini(&text);
    return ok;
}

static enum err read_grant(struct span body, struct run_grant *out, struct error *e)
{
    struct json_rules rules = {.max_depth = 32};
    struct json_fault fault;
    struct json_value top;

    *out = (struct run_grant){0};
    if (json_check_value(body, &rules, &top, &fault) != ERR_OK ||
        !copy_member(top, "id", out->id, sizeof(out->id)) ||
        !copy_member(top, "endpoint", out->endpoint, sizeof(out->endpoint))) {
        return err_set(e, ERR_PROTO, "the broker's answer is no grant");
    }
    (void)copy_member(top, "ca_file", out->ca_file, sizeof(out->ca_file));
    return ERR_OK;
}

enum err grants_create(struct grants *g, const struct grant_wish *wish, struct run_grant *out,
                       struct error *e)
{
    struct fetch_answer answer;
    struct buf body;

    buf_init(&body, FETCH_BODY_MAX);
    put_wish(&body, wish);
    if (buf_status(&body) != ERR_OK) {
        enum err rc = err_set(e, buf_status(&body), "the wish for a grant is too long");
        buf_fini(&body);
        return rc;
    }
    enum err rc = call(g, "POST", "/v1/grants", buf_span(&body), &answer, e);
    if (rc == ERR_OK) {
        rc = read_grant(buf_span(&answer.body), out, e);
    }
    buf_fini(&answer.body);
    buf_fini(&body);
    return rc;
}

enum err grants_renew(struct grants *g, const char *id, uint32_t ttl_ms, const char *allow_from,
                      struct error *e)
{
    struct fetch_answer answer;
    char path[GRANTS_ID_SIZE + 16];
    char body[256];
    int n = snprintf(body, sizeof(body), "{\"ttl\":%u", seconds(ttl_ms));

    if (allow_from != NULL) {
        n += snprintf(body + n, sizeof(body) - (size_t)n, ",\"allow_from\":[\"%s\"]", allow_from);
    }
    n += snprintf(body + n, sizeof(body) - (size_t)n, "}");
    snprintf(path, sizeof(path), "/v1/grants/%s", id);
    enum err rc = call(g, "PATCH", path, span_of(body, (size_t)n), &answer, e);
    buf_fini(&answer.body);
    return rc;
}

void grants_renew_later(struct grants *g, const char *id, uint32_t ttl_ms,
                        struct fetch_call **renewal)
{
    char path[GRANTS_ID_SIZE + 16];

    fetch_end(*renewal);
    *renewal = NULL;
    snprintf(path, sizeof(path), "/v1/grants/%s", id);
    snprintf(g->renewal, sizeof(g->renewal), "{\"ttl\":%u}", seconds(ttl_ms));
    struct fetch_request request = {
        .method = "PATCH", .path = path, .body = span_str(g->renewal), .total_ms = ADMIN_MS};
    if (fetch_start(g->driver, &g->admin.peer, &request, renewal, NULL) != ERR_OK) {
        *renewal = NULL; /* the next one is due soon */
    }
}

enum err grants_delete(struct grants *g, const char *id, struct error *e)
{
    struct fetch_answer answer;
    struct error mine = {0};
    char path[GRANTS_ID_SIZE + 16];

    snprintf(path, sizeof(path), "/v1/grants/%s", id);
    enum err rc = call(g, "DELETE", path, (struct span){NULL, 0}, &answer, &mine);
    buf_fini(&answer.body);
    if (rc == ERR_UPSTREAM && mine.sys == 404) {
        return ERR_OK;
    }
    if (rc != ERR_OK && e != NULL) {
        *e = mine;
    }
    return rc;
}

/* ---- secrets by value ---- */

static enum err put_hashes(const struct env_entry *values, size_t n, char (*hex)[SHA256_HEX_SIZE],
                           struct buf *body, struct error *e)
{
    buf_put_str(body, "{\"sha256\":[");
    for (size_t i = 0; i < n; i++) {
        if (!sha256_hex(span_str(values[i].value), hex[i])) {
            return err_set(e, ERR_NOMEM, "out of memory for a hash");
        }
        buf_printf(body, "%s\"%s\"", i == 0 ? "" : ",", hex[i]);
    }
    buf_put_str(body, "]}");
    return buf_status(body) == ERR_OK ? ERR_OK : err_set(e, buf_status(body), "too many variables");
}

static enum err read_matches(struct span body, char (*hex)[SHA256_HEX_SIZE], size_t n, bool *secret,
                             struct error *e)
{
    struct json_rules rules = {.max_depth = 8};
    struct json_fault fault;
    struct json_value top;
    struct json_value item;
    size_t cursor = 0;

    if (json_check_value(body, &rules, &top, &fault) != ERR_OK ||
        json_find(top, "match").type != JSON_ARRAY) {
        return err_set(e, ERR_PROTO, "the broker's answer to a match of secrets is none");
    }
    while (json_array_next(json_find(top, "match"), &cursor, &item)) {
        for (size_t i = 0; i < n && item.type == JSON_STRING; i++) {
            secret[i] = secret[i] || json_string_is(item, hex[i]);
        }
    }
    return ERR_OK;
}

enum err grants_match(struct grants *g, const struct env_entry *values, size_t n, bool *secret,
                      struct error *e)
{
    char(*hex)[SHA256_HEX_SIZE] = calloc(n + 1, sizeof(*hex));
    struct fetch_answer answer;
    struct buf body;

    if (hex == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    buf_init(&body, FETCH_BODY_MAX);
    enum err rc = put_hashes(values, n, hex, &body, e);
    if (rc == ERR_OK) {
        rc = call(g, "POST", "/v1/secrets/match", buf_span(&body), &answer, e);
        if (rc == ERR_OK) {
            rc = read_matches(buf_span(&answer.body), hex, n, secret, e);
        }
        buf_fini(&answer.body);
    }
    buf_fini(&body);
    free(hex);
    return rc;
}
