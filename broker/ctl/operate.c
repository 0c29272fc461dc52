/*
 * An operator's calls: see operate.h. call() is the way of all of them: one exchange with the admin
 * API, its answer checked, then shown by a function of operate_show.c. Called by brokerctl.c.
 */
#include "ctl/operate.h"

#include "base/json.h"
#include "base/json_span.h"
#include "net/admin_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define PATH_MAX_SIZE   4096u
#define BODY_MAX        ((size_t)1024 * 1024)
#define ANSWER_DEPTH    64u
#define EXIT_SIGNALLED  128 /* and the signal's number */
#define STATUS_REFUSED  422
#define STATUS_EMPTY    204
#define ERROR_TYPE_SIZE 128u

/* One call; shows an answer of status 2xx that has a body. */
struct operation {
    const char *method;
    const char *path;
    struct span body;
    bool (*show)(struct output *out, struct span json); /* NULL: no body is expected */
    int refused; /* the exit code for status 422; 0: as any other */
};

/* ---- what goes wrong ---- */

static int no_answer(struct ctl *c, const struct driver *d, enum err rc, const struct error *e)
{
    int code = EX_UNAVAILABLE;

    if (rc == ERR_CLOSED) {
        return EXIT_SIGNALLED + d->signal;
    }
    if (rc == ERR_CONFIG) {
        code = EX_USAGE;
    } else if (rc == ERR_LIMIT) {
        code = EX_PROTOCOL;
    } else if (rc == ERR_NOMEM) {
        code = EX_SOFTWARE;
    } else if (e->sys == ETIMEDOUT) {
        code = EX_TEMPFAIL;
    }
    return ctl_fail(c->err, code, "%s", e->msg);
}

/* The type of an error answer as text; "" when it has none. */
static void error_type(struct json_value answer, char out[ERROR_TYPE_SIZE])
{
    struct json_value type = json_find(json_find(answer, "error"), "type");
    struct buf text;

    out[0] = '\0';
    buf_init(&text, ERROR_TYPE_SIZE - 1);
    if (type.type == JSON_STRING) {
        json_string_decode(type, &text, NULL);
    }
    if (buf_status(&text) == ERR_OK && text.len > 0) {
        (void)snprintf(out, ERROR_TYPE_SIZE, "%s", buf_cstr(&text));
    }
    buf_fini(&text);
}

static int refused(struct ctl *c, const struct operation *op, const struct fetch_answer *a,
                   struct json_value answer)
{
    char message[320];
    char type[ERROR_TYPE_SIZE];
    int code = 0;

    error_type(answer, type);
    fetch_message(a, message);
    if (a->status == STATUS_REFUSED && op->refused != 0) {
        code = op->refused;
    } else if (a->status >= 400) {
        code = ctl_exit_code(span_str(type), (uint64_t)a->status);
    } else {
        code = EX_PROTOCOL; /* a redirect: this is no broker */
    }
    return ctl_fail(c->err, code, "%s%s%s (status %d)", type, type[0] == '\0' ? "" : ": ", message,
                    a->status);
}

/* ---- the call ---- */

static int show_as_it_came(struct ctl *c, struct span json)
{
    while (json.n > 0 && (json.p[json.n - 1] == '\n' || json.p[json.n - 1] == '\r')) {
        json.n--;
    }
    output_remote(c->out, json);
    output_str(c->out, "\n");
    return ctl_flush(c);
}

static int take_answer(struct ctl *c, const struct operation *op, const struct fetch_answer *a)
{
    const struct json_rules rules = {.max_depth = ANSWER_DEPTH, .allow_lone_surrogate = true};
    struct span body = buf_span(&a->body);
    struct json_value answer = {0};
    struct json_fault fault;
    bool good = a->status / 100 == 2;
    bool is_json = body.n > 0 && json_check_value(body, &rules, &answer, &fault) == ERR_OK;
    int code = EX_OK;

    if (c->json && is_json) {
        code = show_as_it_came(c, body);
    }
    if (code != EX_OK || (good && (c->json || op->show == NULL) && (is_json || body.n == 0))) {
        return code;
    }
    if (!good) {
        return refused(c, op, a, is_json ? answer : (struct json_value){0});
    }
    if (!is_json || !op->show(c->out, answer.text)) {
        return ctl_fail(c->err, EX_PROTOCOL, "%s %s: the answer is not a broker's", op->method,
                        op->path);
    }
    return ctl_flush(c);
}

static int call(struct ctl *c, const struct operation *op)
{
    const struct fetch_request request = {.method = op->method,
                                          .path = op->path,
                                          .body = op->body,
                                          .connect_ms = (uint32_t)c->options.connect_ms,
                                          .total_ms = (uint32_t)c->options.wait_ms};
    struct driver driver = {.signal = 0};
    struct fetch_answer answer = {.status = 0};
    struct error e = {.code = ERR_OK};
    enum err rc = driver_init(&driver, &e);

    if (rc == ERR_OK) {
        rc = fetch(&driver, &c->admin->peer, &request, &answer, &e);
    }
    int code = rc == ERR_OK ? take_answer(c, op, &answer) : no_answer(c, &driver, rc, &e);
    buf_wipe(&answer.body); /* a new grant's token */
    driver_fini(&driver);
    return code;
}

/* ---- the commands ---- */

int ctl_status(struct ctl *c)
{
    return call(
        c, &(struct operation){.method = "GET", .path = "/v1/status", .show = ctl_show_status});
}

int ctl_reload(struct ctl *c)
{
    return call(c, &(struct operation){.method = "POST",
                                       .path = "/v1/reload",
                                       .show = ctl_show_reload,
                                       .refused = EX_CONFIG});
}

int ctl_drain(struct ctl *c)
{
    return call(c,
                &(struct operation){.method = "POST", .path = "/v1/drain", .show = ctl_show_drain});
}

struct span ctl_usage_by_fault(const char *by)
{
    static const char *const names[] = {"run", "grant", "model", "day"};
    const char *at = by;

    for (;;) {
        size_t n = strcspn(at, ",");
        bool known = false;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            known = known || span_eq(span_of(at, n), span_str(names[i]));
        }
        if (!known) {
            return span_of(at, n);
        }
        if (at[n] == '\0') {
            return (struct span){0};
        }
        at += n + 1;
    }
}

static void put_query(struct buf *b, const char **before, const char *name, const char *value)
{
    if (value != NULL) {
        buf_printf(b, "%s%s=%s", *before, name, value);
        *before = "&";
    }
}

/* Frees `path`. */
static int call_path(struct ctl *c, struct operation *op, struct buf *path)
{
    enum err rc = buf_status(path);
    int code = EX_OK;

    if (rc == ERR_OK) {
        op->path = buf_cstr(path);
        rc = buf_status(path);
    }
    if (rc != ERR_OK) {
        code = rc == ERR_LIMIT ? ctl_fail(c->err, EX_USAGE, "an argument is too long")
                               : ctl_fail(c->err, EX_SOFTWARE, "out of memory");
    } else {
        code = call(c, op);
    }
    buf_fini(path);
    return code;
}

int ctl_usage(struct ctl *c, const struct ctl_usage *u)
{
    struct operation op = {.method = "GET", .show = ctl_show_usage};
    const char *before = "?";
    struct buf path;

    buf_init(&path, PATH_MAX_SIZE);
    buf_put_str(&path, "/v1/usage");
    put_query(&path, &before, "by", u->by);
    put_query(&path, &before, "since", u->since);
    put_query(&path, &before, "until", u->until);
    return call_path(c, &op, &path);
}

int ctl_grants(struct ctl *c)
{
    return call(
        c, &(struct operation){.method = "GET", .path = "/v1/grants", .show = ctl_show_grants});
}

/* Percent-encoded, but for what RFC 3986 calls unreserved. */
static void put_segment(struct buf *b, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

    for (const char *p = text; *p != '\0'; p++) {
        if (strchr(plain, *p) != NULL) {
            buf_put_char(b, *p);
        } else {
            buf_printf(b, "%%%02X", (unsigned)(unsigned char)*p);
        }
    }
}

int ctl_grant_revoke(struct ctl *c, const char *id)
{
    struct operation op = {.method = "DELETE"};
    struct buf path;

    buf_init(&path, PATH_MAX_SIZE);
    buf_put_str(&path, "/v1/grants/");
    put_segment(&path, id);
    int code = call_path(c, &op, &path);
    if (code == EX_OK && !c->json) {
        output_str(c->out, "revoked: ");
        output_remote_line(c->out, span_str(id));
        output_str(c->out, "\n");
        code = ctl_flush(c);
    }
    return code;
}

/* ---- a new grant ---- */

static void put_key(struct buf *b, const char *key)
{
    buf_put_str(b, b->len > 1 ? "," : "");
    buf_printf(b, "\"%s\":", key);
}

static void put_list(struct buf *b, const char *key, const char *list)
{
    const char *at = list;

    if (list == NULL) {
        return;
    }
    put_key(b, key);
    buf_put_char(b, '[');
    while (*at != '\0') {
        size_t n = strcspn(at, ",");
        buf_put_str(b, at > list ? "," : "");
        json_put_string(b, span_of(at, n));
        at += n + (at[n] == ',' ? 1 : 0);
    }
    buf_put_char(b, ']');
}

void ctl_grant_body(struct buf *b, const struct ctl_grant *g)
{
    const struct {
        const char *key;
        const char *number;
    } numbers[] = {{"ttl", g->ttl},
                   {"rpm", g->rpm},
                   {"tpm", g->tpm},
                   {"budget_usd", g->budget_usd},
                   {"budget_tokens", g->budget_tokens},
                   {"max_inflight", g->max_inflight}};

    buf_put_char(b, '{');
    if (g->run != NULL) {
        put_key(b, "run");
        json_put_string(b, span_str(g->run));
    }
    put_list(b, "models", g->models);
    put_list(b, "tools", g->tools);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].number != NULL) {
            put_key(b, numbers[i].key);
            buf_put_str(b, numbers[i].number);
        }
    }
    if (g->listener != NULL) {
        put_key(b, "listener");
        buf_put_str(b, "{\"transport\":");
        json_put_string(b, span_str(g->listener));
        buf_put_char(b, '}');
    }
    buf_put_char(b, '}');
}

int ctl_grant_create(struct ctl *c, const struct ctl_grant *g)
{
    struct operation op = {.method = "POST", .path = "/v1/grants", .show = ctl_show_created};
    struct buf body;
    int code = EX_OK;

    buf_init(&body, BODY_MAX);
    ctl_grant_body(&body, g);
    enum err rc = buf_status(&body);
    if (rc == ERR_OK) {
        op.body = buf_span(&body);
        code = call(c, &op);
    } else {
        code = rc == ERR_LIMIT ? ctl_fail(c->err, EX_USAGE, "an argument is too long")
                               : ctl_fail(c->err, EX_SOFTWARE, "out of memory");
    }
    buf_fini(&body);
    return code;
}
