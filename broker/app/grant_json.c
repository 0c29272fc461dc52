/* See grant_json.h. Money leaves as decimal numbers of dollars, exactly. */
#include "app/grant_json.h"

#include "base/clock.h"
#include "base/json.h"

#define NANO UINT64_C(1000000000)

static void put_texts(struct buf *b, const char *name, char *const *list, size_t n)
{
    buf_printf(b, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        buf_put_str(b, i > 0 ? "," : "");
        json_put_string(b, span_str(list[i]));
    }
    buf_put_char(b, ']');
}

static void put_dollars(struct buf *b, const char *name, uint64_t nano)
{
    buf_printf(b, ",\"%s\":%llu.%09llu", name, (unsigned long long)(nano / NANO),
               (unsigned long long)(nano % NANO));
}

static void put_count(struct buf *b, const char *name, uint64_t n)
{
    buf_printf(b, ",\"%s\":%llu", name, (unsigned long long)n);
}

void grant_put_limits(const struct meter_limits *l, struct buf *b)
{
    if (l->rpm != 0) {
        put_count(b, "rpm", l->rpm);
    }
    if (l->tpm != 0) {
        put_count(b, "tpm", l->tpm);
    }
    if (l->max_inflight != 0) {
        put_count(b, "max_inflight", l->max_inflight);
    }
    if (l->budget_nano != METER_NO_BUDGET) {
        put_dollars(b, "budget_usd", l->budget_nano);
    }
    if (l->budget_tokens != METER_NO_BUDGET) {
        put_count(b, "budget_tokens", l->budget_tokens);
    }
}

void grant_put_names(const struct grant *g, struct buf *b)
{
    buf_put_str(b, ",\"name\":");
    json_put_string(b, span_str(g->name));
    put_texts(b, "models", g->models, g->nmodels);
    put_texts(b, "tools", g->tools, g->ntools);
}

void grant_put_policy(const struct grant *g, struct buf *b)
{
    static const char *const periods[] = {
        [METER_TOTAL] = "total", [METER_DAY] = "day", [METER_MONTH] = "month"};
    const struct meter_limits *l = &g->limits;
    struct meter_state used;

    grant_put_names(g, b);
    grant_put_limits(l, b);
    if (l->budget_nano != METER_NO_BUDGET || l->budget_tokens != METER_NO_BUDGET) {
        buf_printf(b, ",\"budget_period\":\"%s\"", periods[l->period]);
    }
    meter_read(g->meter, &g->limits, clock_wall_ms(), &used);
    buf_printf(b, ",\"used\":{\"requests\":%llu", (unsigned long long)used.requests);
    put_count(b, "refused", used.refused);
    put_count(b, "inflight", used.inflight);
    put_count(b, "tokens", used.spent_tokens);
    put_dollars(b, "usd", used.spent_nano);
    put_count(b, "reserved_tokens", used.reserved_tokens);
    put_dollars(b, "reserved_usd", used.reserved_nano);
    buf_put_char(b, '}');
}

void grant_put_configured(const struct grant *g, struct buf *b)
{
    buf_put_str(b, "{\"id\":");
    json_put_string(b, span_str(g->name));
    buf_put_str(b, ",\"run\":null");
    grant_put_policy(g, b);
    buf_put_char(b, '}');
}
