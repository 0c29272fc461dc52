/*
 * Calls of an operator: how the broker is, who used what, reload, drain. Usage is answered later,
 * by the ledger's thread.
 */
#include "app/admin_private.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "ledger/ledger.h"
#include "tactus/protocol.h"
#include "tactus/version.h"

#include <stdlib.h>
#include <string.h>

#define REPORT_MAX  (1024u * 1024u)
#define DAY_MS      UINT64_C(86400000)
#define DATE_LENGTH 10u /* 2026-12-31 */

bool admin_answer_ready(struct call *c)
{
    if (c->admin->broker->stopping) {
        return admin_fault_set(&c->fault, 503, TACTUS_E_SHUTTING_DOWN,
                               "The broker is shutting down");
    }
    buf_put_str(&c->reply, "{\"status\":\"ready\"}");
    return true;
}

/* ---- status ---- */

static void put_providers(struct buf *b, const struct config *c)
{
    buf_put_str(b, ",\"providers\":[");
    for (size_t i = 0; i < c->nproviders; i++) {
        const struct provider_config *p = &c->providers[i];
        const char *key = p->nkeys == 0 ? "none" : !config_has_key(p) ? "missing" : "loaded";
        buf_put_str(b, i > 0 ? ",{\"name\":" : "{\"name\":");
        json_put_string(b, span_str(p->name));
        buf_put_str(b, ",\"type\":");
        json_put_string(b, span_str(p->type));
        buf_printf(b, ",\"key\":\"%s\"}", key);
    }
    buf_put_char(b, ']');
}

static void put_ledger(struct buf *b, struct ledger *ledger)
{
    struct ledger_stats s = {0};

    if (ledger == NULL) {
        buf_put_str(b, ",\"ledger\":null");
        return;
    }
    ledger_get_stats(ledger, &s);
    buf_printf(b, ",\"ledger\":{\"written\":%llu,\"waiting\":%llu,\"lost\":%llu,\"failing\":%s}",
               (unsigned long long)s.written, (unsigned long long)s.waiting,
               (unsigned long long)s.lost, s.failing ? "true" : "false");
}

bool admin_answer_status(struct call *c)
{
    struct broker *b = c->admin->broker;
    struct buf *out = &c->reply;
    int64_t up = clock_wall_ms() - b->started_at;

    buf_printf(out, "{\"version\":\"%s\",\"state\":\"%s\",\"uptime_seconds\":%lld", TACTUS_VERSION,
               b->stopping ? "draining" : "running", (long long)(up > 0 ? up / 1000 : 0));
    buf_put_str(out, ",\"started_at\":");
    json_put_time(out, b->started_at);
    buf_printf(out, ",\"workers\":%u,\"connections\":%zu,\"inflight\":%zu", b->nworkers,
               atomic_load(&b->totals.connections), atomic_load(&b->totals.inflight));
    buf_printf(out, ",\"config\":{\"generation\":%llu", (unsigned long long)b->generation);
    buf_put_str(out, ",\"loaded_at\":");
    json_put_time(out, b->loaded_at);
    buf_put_char(out, '}');
    put_providers(out, b->config);
    put_ledger(out, b->ledger);
    buf_put_char(out, '}');
    return true;
}

/* ---- reload, drain ---- */

bool admin_answer_reload(struct call *c)
{
    struct error e = {.code = ERR_OK};

    switch (broker_reload(c->admin->broker, &c->reply, &e)) {
    case ERR_OK:
        return true;
    case ERR_CLOSED:
        return admin_fault_set(&c->fault, 503, TACTUS_E_SHUTTING_DOWN,
                               "The broker is shutting down");
    case ERR_NOMEM:
        return admin_fault_no_memory(&c->fault);
    default:
        return admin_fault_set(&c->fault, 422, ADMIN_E_UNPROCESSABLE, "%s", e.msg);
    }
}

bool admin_answer_drain(struct call *c)
{
    struct broker *b = c->admin->broker;

    broker_drain(b);
    buf_printf(&c->reply, "{\"state\":\"draining\",\"inflight\":%zu,\"drain_timeout\":%u}",
               atomic_load(&b->totals.inflight), b->config->drain_timeout / 1000);
    return true;
}

/* ---- usage ---- */

/* A question to the ledger, until it is answered or the server goes. */
struct reading {
    const struct admin *admin;
    struct httpd_request *request;
    struct ledger_reading *asked;
};

static void on_gone(void *ctx)
{
    struct reading *r = ctx;

    ledger_reading_cancel(r->asked);
    free(r);
}

static void on_rows(void *ctx, enum err rc, struct buf *rows)
{
    struct reading *r = ctx;
    const struct admin *admin = r->admin;
    struct httpd_request *request = r->request;
    struct admin_fault f;

    free(r);
    if (rc == ERR_OK) {
        httpd_reply(request, &(struct httpd_reply){.status = 200,
                                                   .content_type = ADMIN_JSON,
                                                   .body = buf_span(rows)});
        return;
    }
    if (rc == ERR_LIMIT) {
        (void)admin_fault_set(&f, 422, ADMIN_E_UNPROCESSABLE,
                              "more than %u rows: ask for less time, or by less",
                              LEDGER_ANSWER_ROWS);
    } else if (rc == ERR_NOMEM) {
        (void)admin_fault_no_memory(&f);
    } else {
        (void)admin_fault_set(&f, 503, TACTUS_E_INTERNAL, "the ledger cannot be read just now");
    }
    admin_reply_fault(admin, request, &f, NULL, NULL);
}

static bool read_by(struct call *c, unsigned *by)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"run", LEDGER_BY_RUN},
                 {"grant", LEDGER_BY_GRANT},
                 {"model", LEDGER_BY_MODEL},
                 {"day", LEDGER_BY_DAY}};
    const char *text = httpd_query(c->request, "by");

    *by = 0;
    while (text != NULL && text[0] != '\0') {
        size_t n = strcspn(text, ",");
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            bit |= span_eq(span_of(text, n), span_str(names[i].name)) ? names[i].bit : 0;
        }
        if (bit == 0) {
            return admin_fault_set(&c->fault, 400, TACTUS_E_BAD_REQUEST,
                                   "by must be a list of run, grant, model, day: %.*s is none of "
                                   "these",
                                   (int)(n < 64 ? n : 64), text);
        }
        *by |= bit;
        text += n + (text[n] == ',' ? 1 : 0);
    }
    return true;
}

/* "2026-12-31", or a whole RFC 3339 time in UTC. */
static bool read_time(struct call *c, const char *name, uint64_t *ms)
{
    const char *text = httpd_query(c->request, name);
    int64_t wall_ms = 0;

    *ms = 0;
    if (text == NULL || text[0] == '\0') {
        return true;
    }
    if (!clock_parse(span_str(text), &wall_ms) || wall_ms < 0) {
        return admin_fault_set(&c->fault, 400, TACTUS_E_BAD_REQUEST,
                               "%s must be a time like 2026-12-31 or 2026-12-31T23:59:59Z", name);
    }
    *ms = (uint64_t)wall_ms;
    return true;
}

bool admin_answer_usage(struct call *c)
{
    struct admin *a = c->admin;
    struct ledger_query q;
    struct error e = {.code = ERR_OK};

    if (a->broker->ledger == NULL) {
        return admin_fault_set(&c->fault, 404, ADMIN_E_NOT_FOUND,
                               "no ledger is kept: usage.database is not configured");
    }
    if (!read_by(c, &q.by) || !read_time(c, "since", &q.since_ms) ||
        !read_time(c, "until", &q.until_ms)) {
        return false;
    }
    struct reading *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return admin_fault_no_memory(&c->fault);
    }
    r->admin = a;
    r->request = c->request;
    enum err rc =
        ledger_ask(a->broker->ledger, &q, a->broker->workers[0].loop, on_rows, r, &r->asked, &e);
    if (rc != ERR_OK) {
        free(r);
        return rc == ERR_LIMIT
                   ? admin_fault_set(&c->fault, 429, TACTUS_E_TOO_MANY_REQUESTS, "%s", e.msg)
                   : admin_fault_no_memory(&c->fault);
    }
    httpd_later(c->request, on_gone, r);
    c->streaming = true;
    return true;
}
