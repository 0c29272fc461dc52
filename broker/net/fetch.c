/* HTTP exchanges over net/http_client: see fetch.h. */
#include "net/fetch.h"

#include "base/json.h"
#include "base/json_span.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_CONNECT_MS 5000u

struct fetch_call {
    struct driver *driver;
    const struct fetch_peer *peer;
    struct http_call *call; /* NULL once it ended */
    struct fetch_answer answer;
    void (*on_bytes)(void *ctx, const char *p, size_t n);
    void *ctx;
    bool done;
    enum err rc;
    struct error error;
    char what[160]; /* "GET /v1.41/images/x/json" */
};

/* ---- what comes ---- */

static void on_head(void *ctx, const struct http_head *head)
{
    struct fetch_call *c = ctx;

    c->answer.status = head->status;
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct fetch_call *c = ctx;

    if (c->on_bytes != NULL && c->answer.status / 100 == 2) {
        c->on_bytes(c->ctx, p, n);
    } else {
        buf_put(&c->answer.body, p, n);
    }
}

static bool timed_out(enum http_outcome outcome)
{
    return outcome >= HTTP_TIMEOUT_CONNECT && outcome <= HTTP_TIMEOUT_TOTAL;
}

static void on_end(void *ctx, const struct http_end *end)
{
    struct fetch_call *c = ctx;

    c->call = NULL;
    c->done = true;
    if (end->outcome == HTTP_NOMEM || buf_status(&c->answer.body) == ERR_NOMEM) {
        c->rc = err_set(&c->error, ERR_NOMEM, "%s: %s: out of memory", c->peer->name, c->what);
    } else if (end->outcome != HTTP_OK) {
        c->rc = err_set(&c->error, ERR_IO, "%s: %s: %s", c->peer->name, c->what, end->detail);
        c->error.sys = timed_out(end->outcome) ? ETIMEDOUT : 0;
    } else if (buf_status(&c->answer.body) != ERR_OK) {
        c->rc = err_set(&c->error, ERR_LIMIT, "%s: %s: an answer over %u bytes", c->peer->name,
                        c->what, FETCH_BODY_MAX);
    }
}

static const struct http_handler handler = {
    .on_head = on_head,
    .on_bytes = on_bytes,
    .on_end = on_end,
};

/* ---- what goes ---- */

static uint32_t or_else(uint32_t ms, uint32_t fallback)
{
    return ms == 0 ? fallback : ms;
}

static enum err start(struct fetch_call *c, const struct fetch_request *r, struct error *e)
{
    struct http_header headers[4];
    size_t n = 0;
    struct buf url;
    struct buf bearer;

    buf_init(&url, 16384);
    buf_init(&bearer, 4096);
    buf_put_str(&url, c->peer->base_url);
    buf_put_str(&url, r->path);
    if (c->peer->bearer != NULL) {
        buf_printf(&bearer, "Bearer %s", c->peer->bearer);
        headers[n++] = (struct http_header){SPAN("Authorization"), buf_span(&bearer)};
    }
    if (r->type != NULL || r->body.n > 0) {
        const char *type = r->type == NULL ? "application/json" : r->type;
        headers[n++] = (struct http_header){SPAN("Content-Type"), span_str(type)};
    }
    for (size_t i = 0; i < sizeof(r->extra) / sizeof(r->extra[0]); i++) {
        if (r->extra[i].name.p != NULL) {
            headers[n++] = r->extra[i];
        }
    }
    struct http_request request = {
        .method = r->method,
        .url = buf_cstr(&url),
        .unix_socket = c->peer->unix_socket,
        .headers = headers,
        .nheaders = n,
        .body = r->body,
        .ca_file = c->peer->ca_file,
        .cert_file = c->peer->cert_file,
        .key_file = c->peer->key_file,
        .connect_ms = or_else(r->connect_ms, FETCH_CONNECT_MS),
        .first_byte_ms = or_else(r->total_ms, UINT32_MAX),
        .stall_ms = or_else(r->stall_ms, UINT32_MAX),
        .total_ms = or_else(r->total_ms, UINT32_MAX),
    };
    enum err rc = buf_status(&url) != ERR_OK || buf_status(&bearer) != ERR_OK
                      ? err_set(e, ERR_CONFIG, "%s: %s: too long", c->peer->name, c->what)
                      : http_client_start(c->driver->http, &request, &handler, c, &c->call, e);
    buf_wipe(&bearer);
    buf_fini(&url);
    return rc;
}

enum err fetch_start(struct driver *d, const struct fetch_peer *peer,
                     const struct fetch_request *request, struct fetch_call **out, struct error *e)
{
    struct fetch_call *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    c->driver = d;
    c->peer = peer;
    c->on_bytes = request->on_bytes;
    c->ctx = request->ctx;
    buf_init(&c->answer.body, FETCH_BODY_MAX);
    snprintf(c->what, sizeof(c->what), "%s %s", request->method, request->path);
    enum err rc = start(c, request, e);
    if (rc != ERR_OK) {
        fetch_end(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

const bool *fetch_done(const struct fetch_call *call)
{
    return &call->done;
}

enum err fetch_take(struct fetch_call *call, struct fetch_answer *out, struct error *e)
{
    *out = call->answer;
    buf_init(&call->answer.body, FETCH_BODY_MAX);
    if (call->rc != ERR_OK && e != NULL) {
        *e = call->error;
    }
    return call->rc;
}

void fetch_end(struct fetch_call *call)
{
    if (call == NULL) {
        return;
    }
    http_call_cancel(call->call);
    buf_fini(&call->answer.body);
    free(call);
}

enum err fetch(struct driver *d, const struct fetch_peer *peer, const struct fetch_request *request,
               struct fetch_answer *out, struct error *e)
{
    struct fetch_call *c = NULL;

    *out = (struct fetch_answer){0};
    buf_init(&out->body, FETCH_BODY_MAX);
    enum err rc = fetch_start(d, peer, request, &c, e);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = driver_wait(d, fetch_done(c), 0);
    if (rc == ERR_OK) {
        rc = fetch_take(c, out, e);
    } else {
        rc = err_set(e, rc, "%s: %s: interrupted", peer->name, c->what);
    }
    fetch_end(c);
    return rc;
}

/* ---- errors that came as answers ---- */

static struct json_value message_of(struct json_value top)
{
    struct json_value message = json_find(top, "message");

    return message.type == JSON_STRING ? message : json_find(json_find(top, "error"), "message");
}

void fetch_message(const struct fetch_answer *answer, char out[320])
{
    struct json_rules rules = {.max_depth = 32};
    struct json_fault fault;
    struct json_value top;
    struct buf text;
    struct span s = buf_span(&answer->body);

    buf_init(&text, FETCH_BODY_MAX);
    if (json_check_value(s, &rules, &top, &fault) == ERR_OK &&
        message_of(top).type == JSON_STRING) {
        json_string_decode(message_of(top), &text, NULL);
        s = buf_span(&text);
    }
    size_t n = text_utf8_valid(s.p, s.n) ? text_cut(s.p, s.n, 300) : (s.n < 300 ? s.n : 300);
    for (size_t i = 0; i < n; i++) {
        out[i] = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? ' ' : s.p[i];
    }
    while (n > 0 && out[n - 1] == ' ') {
        n--;
    }
    out[n] = '\0';
    if (n == 0) {
        snprintf(out, 320, "HTTP status %d", answer->status);
    }
    buf_fini(&text);
}
