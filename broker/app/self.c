/*
 * The methods about the broker itself: broker.info (what this caller may use; no secret, no path)
 * and broker.cancel (ends another request of the same connection).
 */
#include "app/app_private.h"
#include "base/json.h"
#include "base/text.h"
#include "tactus/protocol.h"
#include "tactus/version.h"
#include "tools/tools.h"
#include "wire/request.h"

#include <string.h>

static void put_comma(struct buf *b, size_t *n)
{
    if ((*n)++ > 0) {
        buf_put_char(b, ',');
    }
}

static void put_methods(struct buf *b, const struct methods *m)
{
    size_t n = 0;

    buf_put_str(b, ",\"methods\":[");
    for (size_t i = 0; i < m->n; i++) {
        put_comma(b, &n);
        json_put_string(b, span_str(m->m[i].name));
    }
    buf_put_char(b, ']');
}

static void put_models(struct buf *b, const struct grant *g, const char *provider)
{
    size_t n = 0;

    buf_put_str(b, ",\"models\":[");
    for (size_t i = 0; i < g->nmodels; i++) {
        const char *glob = grant_model_glob(g->models[i], provider);
        if (glob != NULL) {
            put_comma(b, &n);
            json_put_string(b, span_str(glob));
        }
    }
    buf_put_char(b, ']');
}

static bool may_use(const struct grant *g, const char *provider)
{
    for (size_t i = 0; i < g->nmodels; i++) {
        if (grant_model_glob(g->models[i], provider) != NULL) {
            return true;
        }
    }
    return false;
}

static void put_providers(struct buf *b, const struct providers *p, const struct grant *g)
{
    size_t n = 0;

    buf_put_str(b, ",\"providers\":[");
    for (size_t i = 0; i < p->n; i++) {
        if (!may_use(g, p->items[i].name)) {
            continue;
        }
        put_comma(b, &n);
        buf_put_str(b, "{\"name\":");
        json_put_string(b, span_str(p->items[i].name));
        buf_put_str(b, ",\"type\":");
        json_put_string(b, span_str(p->items[i].ops->type));
        put_models(b, g, p->items[i].name);
        buf_put_char(b, '}');
    }
    buf_put_char(b, ']');
}

static void put_tools(struct buf *b, const struct grant *g)
{
    size_t n = 0;

    buf_put_str(b, ",\"tools\":[");
    for (size_t i = 0; tools_builtin_name(i) != NULL; i++) {
        if (grant_allows_tool(g, tools_builtin_name(i))) {
            put_comma(b, &n);
            json_put_string(b, span_str(tools_builtin_name(i)));
        }
    }
    buf_put_char(b, ']');
}

static void put_limits(struct buf *b, const struct limits *l)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"max_message_bytes", l->max_message_bytes},
        {"max_reply_bytes", l->max_reply_bytes},
        {"max_event_bytes", l->max_event_bytes},
        {"max_json_depth", l->max_json_depth},
        {"max_inflight_per_connection", l->max_inflight_per_connection},
        {"request_timeout", l->request_timeout / 1000},
        {"idle_timeout", l->idle_timeout / 1000},
        {"total_timeout", l->total_timeout / 1000},
    };
    size_t n = 0;

    buf_put_str(b, ",\"limits\":{");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_comma(b, &n);
        json_put_string(b, span_str(rows[i].name));
        buf_put_char(b, ':');
        json_put_u64(b, rows[i].value);
    }
    buf_put_char(b, '}');
}

void self_info_start(struct request *r, void *ctx)
{
    const struct worker *w = ctx;
    struct buf *b = loop_scratch(w->loop);

    buf_clear(b);
    buf_put_str(b, "{\"version\":");
    json_put_string(b, span_str(TACTUS_VERSION));
    put_methods(b, &w->wire.methods);
    put_providers(b, router_providers(w->router), request_grant(r));
    put_tools(b, request_grant(r));
    put_limits(b, &request_config(r)->limits);
    buf_put_char(b, '}');
    if (buf_status(b) != ERR_OK) {
        request_fail_err(r, buf_status(b));
        return;
    }
    struct span data = buf_span(b);
    request_done(r, &data, 1);
}

void self_cancel_start(struct request *r, void *ctx)
{
    static const struct span yes = {"{\"cancelled\":true}", 18};
    static const struct span no = {"{\"cancelled\":false}", 19};
    struct json_value id = request_param(r, "id");

    (void)ctx;
    if (id.type != JSON_STRING || id.text.n <= 2) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.id must be a string");
        return;
    }
    request_done(r, request_cancel_other(r, id) ? &yes : &no, 1);
}
