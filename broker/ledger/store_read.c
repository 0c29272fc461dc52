/*
 * Reading the database, on a connection of its own: a long scan is interrupted now and then by the
 * progress handler, in which the other connection writes what has come meanwhile.
 */
#include "ledger/store_private.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "ledger/item.h"
#include "ledger/schema.h"

#include <math.h>
#include <string.h>

#define PAUSE_STEPS 10000 /* of SQLite's machine: about a millisecond */
#define DAY_MS      86400000
#define NANO        1e9

/* ---- sums that end at the largest number; SQLite's own fail there ---- */

static void on_sum_step(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    sqlite3_int64 *sum = sqlite3_aggregate_context(ctx, sizeof(*sum));

    (void)n;
    if (sum == NULL) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    sqlite3_int64 v = sqlite3_value_int64(values[0]); /* 0 for NULL */
    if (v > 0) {
        *sum = *sum > INT64_MAX - v ? INT64_MAX : *sum + v;
    }
}

static void on_sum_end(sqlite3_context *ctx)
{
    const sqlite3_int64 *sum = sqlite3_aggregate_context(ctx, 0); /* NULL: no row */

    sqlite3_result_int64(ctx, sum == NULL ? 0 : *sum);
}

static int on_progress(void *ctx)
{
    const struct store *s = ctx;

    return s->pause == NULL || s->pause(s->pause_ctx) ? 0 : 1;
}

int store_read_setup(struct store *s)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    int rc = sqlite3_create_function_v2(s->reader, "sum_u", 1, flags, NULL, NULL, on_sum_step,
                                        on_sum_end, NULL);

    if (rc == SQLITE_OK) {
        sqlite3_progress_handler(s->reader, PAUSE_STEPS, on_progress, s);
    }
    return rc;
}

/* ---- usage ---- */

/* What one may group by, in the order of columns and of the answer. */
static const struct {
    unsigned bit;
    const char *columns;
} GROUPS[] = {
    {LEDGER_BY_DAY, "time_ms / 86400000"},
    {LEDGER_BY_RUN, "run"},
    {LEDGER_BY_GRANT, "grant_name"},
    {LEDGER_BY_MODEL, "provider, model"},
};

enum { NGROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]) };

static void put_columns(struct buf *sql, unsigned by, const char *before)
{
    const char *comma = before;

    for (size_t i = 0; i < NGROUPS; i++) {
        if ((by & GROUPS[i].bit) != 0) {
            buf_put_str(sql, comma);
            buf_put_str(sql, GROUPS[i].columns);
            comma = ", ";
        }
    }
}

static enum err usage_statement(struct store *s, unsigned by, sqlite3_stmt **out, struct error *e)
{
    struct buf sql;
    enum err result = ERR_OK;

    if (s->usage[by] != NULL) {
        *out = s->usage[by];
        return ERR_OK;
    }
    buf_init(&sql, 4096);
    buf_put_str(&sql,
                "SELECT count(*), sum_u(outcome NOT IN ('ok', 'cancelled')), sum_u(input_tokens),"
                " sum_u(output_tokens), sum_u(cached_tokens), sum_u(cost_nano),"
                " sum_u(cost_nano IS NULL), sum_u(estimated)");
    put_columns(&sql, by, ", ");
    buf_put_str(&sql, " FROM requests WHERE time_ms >= ?1 AND time_ms < ?2");
    put_columns(&sql, by, " GROUP BY ");
    put_columns(&sql, by, " ORDER BY ");
    buf_put_str(&sql, " LIMIT ?3");
    if (buf_status(&sql) != ERR_OK) {
        result = err_set(e, ERR_NOMEM, "%s: out of memory for a question", s->path);
    } else {
        int rc = sqlite3_prepare_v3(s->reader, buf_cstr(&sql), -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->usage[by], NULL);
        if (rc != SQLITE_OK) {
            result = schema_fail(s->reader, rc, s->path, "cannot read", e);
        }
    }
    buf_fini(&sql);
    *out = s->usage[by];
    return result;
}

static struct span column_span(sqlite3_stmt *st, int i)
{
    const unsigned char *p = sqlite3_column_text(st, i);

    return p == NULL ? span_of(NULL, 0)
                     : span_of((const char *)p, (size_t)sqlite3_column_bytes(st, i));
}

static void put_text(struct buf *out, struct span text)
{
    if (text.p == NULL) {
        buf_put_str(out, "null");
    } else {
        json_put_string(out, text);
    }
}

static void put_day(struct buf *out, sqlite3_int64 day)
{
    char when[CLOCK_RFC3339_SIZE];

    clock_rfc3339(day * DAY_MS, when);
    json_put_string(out, span_of(when, strlen("2026-12-02")));
}

static void put_model(struct buf *out, struct span provider, struct span model)
{
    if (provider.p == NULL || model.p == NULL) {
        put_text(out, provider.p == NULL ? model : provider);
        return;
    }
    buf_put_char(out, '"');
    json_put_escaped(out, provider);
    buf_put_char(out, '/');
    json_put_escaped(out, model);
    buf_put_char(out, '"');
}

/* The members that name the row, from column `i` on. */
static void put_keys(struct buf *out, sqlite3_stmt *st, unsigned by, int i)
{
    if ((by & LEDGER_BY_DAY) != 0) {
        buf_put_str(out, "\"day\":");
        put_day(out, sqlite3_column_int64(st, i++));
        buf_put_char(out, ',');
    }
    if ((by & LEDGER_BY_RUN) != 0) {
        buf_put_str(out, "\"run\":");
        put_text(out, column_span(st, i++));
        buf_put_char(out, ',');
    }
    if ((by & LEDGER_BY_GRANT) != 0) {
        buf_put_str(out, "\"grant\":");
        put_text(out, column_span(st, i++));
        buf_put_char(out, ',');
    }
    if ((by & LEDGER_BY_MODEL) != 0) {
        buf_put_str(out, "\"model\":");
        put_model(out, column_span(st, i), column_span(st, i + 1));
        buf_put_char(out, ',');
    }
}

static void put_usage_row(struct buf *out, sqlite3_stmt *st, unsigned by)
{
    enum { COUNT, ERRORS, INPUT, OUTPUT, CACHED, COST, UNPRICED, ESTIMATED, KEYS };
    static const struct {
        const char *name;
        int column;
    } NUMBERS[] = {{"\"requests\":", COUNT},        {",\"errors\":", ERRORS},
                   {",\"input_tokens\":", INPUT},   {",\"output_tokens\":", OUTPUT},
                   {",\"cached_tokens\":", CACHED}, {",\"unpriced\":", UNPRICED},
                   {",\"estimated\":", ESTIMATED}};
    bool priced = sqlite3_column_int64(st, COUNT) > sqlite3_column_int64(st, UNPRICED);

    buf_put_char(out, '{');
    put_keys(out, st, by, KEYS);
    for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(NUMBERS[0]); i++) {
        if (NUMBERS[i].column == UNPRICED) {
            buf_put_str(out, ",\"cost_usd\":");
            json_put_double(out, priced ? (double)sqlite3_column_int64(st, COST) / NANO : NAN);
        }
        buf_put_str(out, NUMBERS[i].name);
        json_put_u64(out, (uint64_t)sqlite3_column_int64(st, NUMBERS[i].column));
    }
    buf_put_char(out, '}');
}

static enum err put_usage_rows(struct store *s, sqlite3_stmt *st, unsigned by, struct buf *out,
                               struct error *e)
{
    size_t rows = 0;
    int rc = sqlite3_step(st);

    buf_put_char(out, '[');
    for (; rc == SQLITE_ROW && buf_status(out) == ERR_OK; rc = sqlite3_step(st)) {
        if (++rows > LEDGER_ANSWER_ROWS) {
            return err_set(e, ERR_LIMIT, "the answer has more than %u rows", LEDGER_ANSWER_ROWS);
        }
        if (rows > 1) {
            buf_put_char(out, ',');
        }
        put_usage_row(out, st, by);
    }
    buf_put_char(out, ']');
    if (buf_status(out) != ERR_OK) {
        return err_set(e, buf_status(out), "the answer is too large");
    }
    if ((rc & 0xff) == SQLITE_INTERRUPT) {
        return err_set(e, ERR_CLOSED, "the reading was broken off");
    }
    return rc == SQLITE_DONE ? ERR_OK : schema_fail(s->reader, rc, s->path, "cannot read", e);
}

enum err store_usage(struct store *s, const struct ledger_query *q, bool (*pause)(void *ctx),
                     void *ctx, struct buf *out, struct error *e)
{
    sqlite3_stmt *st = NULL;
    unsigned by = q->by & LEDGER_BY_ALL;
    enum err result = usage_statement(s, by, &st, e);

    if (result != ERR_OK) {
        return result;
    }
    int rc = sqlite3_bind_int64(st, 1, store_int(q->since_ms));
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(st, 2, q->until_ms == 0 ? INT64_MAX : store_int(q->until_ms));
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int(st, 3, LEDGER_ANSWER_ROWS + 1);
    }
    if (rc == SQLITE_OK) {
        s->pause = pause;
        s->pause_ctx = ctx;
        result = put_usage_rows(s, st, by, out, e);
        s->pause = NULL;
    } else {
        result = schema_fail(s->reader, rc, s->path, "cannot read", e);
    }
    store_done(st);
    return result;
}

/* ---- at the start ---- */

enum err store_spent(struct store *s, const char *grant, uint64_t since_ms, int64_t *nano,
                     uint64_t *tokens, struct error *e)
{
    static const char sql[] =
        "SELECT sum_u(cost_nano), sum_u(input_tokens), sum_u(output_tokens) FROM requests"
        " WHERE grant_name = ?1 AND run IS NULL AND time_ms >= ?2";
    sqlite3_stmt *st = NULL;
    enum err result = ERR_OK;
    size_t n = strlen(grant);
    int rc = sqlite3_prepare_v2(s->reader, sql, -1, &st, NULL);

    if (rc == SQLITE_OK) {
        /* As the name is in the rows. */
        n = n < LEDGER_NAME_MAX ? n : text_cut(grant, n, LEDGER_NAME_MAX);
        rc = sqlite3_bind_text(st, 1, grant, (int)n, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(st, 2, store_int(since_ms));
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
    }
    if (rc == SQLITE_ROW) {
        *nano = sqlite3_column_int64(st, 0);
        *tokens = (uint64_t)sqlite3_column_int64(st, 1) + (uint64_t)sqlite3_column_int64(st, 2);
    } else {
        result = schema_fail(s->reader, rc, s->path, "cannot read", e);
    }
    (void)sqlite3_finalize(st);
    return result;
}

static enum err take_grants(struct store *s, sqlite3_stmt *st, struct list *out, struct error *e)
{
    size_t bytes = 0;
    int rc = sqlite3_step(st);

    for (; rc == SQLITE_ROW; rc = sqlite3_step(st)) {
        struct span id = column_span(st, 0);
        struct span json = column_span(st, 1);
        sqlite3_int64 expires_ms = sqlite3_column_int64(st, 2);
        struct ledger_item *item =
            ledger_item_keep(id, json, expires_ms < 0 ? 0 : (uint64_t)expires_ms);
        if (item == NULL) {
            return err_set(e, ERR_NOMEM, "%s: out of memory for a grant", s->path);
        }
        list_push_back(out, &item->node);
        bytes += item->bytes;
        if (bytes > LEDGER_WAITING_BYTES_MAX) {
            return err_set(e, ERR_LIMIT, "%s: more than %u bytes of grants", s->path,
                           LEDGER_WAITING_BYTES_MAX);
        }
    }
    return rc == SQLITE_DONE ? ERR_OK : schema_fail(s->reader, rc, s->path, "cannot read", e);
}

enum err store_grants(struct store *s, struct list *out, struct error *e)
{
    sqlite3_stmt *st = NULL;
    enum err result = ERR_OK;
    int rc = sqlite3_prepare_v2(s->reader, "SELECT id, json, expires_ms FROM grants ORDER BY id",
                                -1, &st, NULL);

    if (rc == SQLITE_OK) {
        result = take_grants(s, st, out, e);
    } else {
        result = schema_fail(s->reader, rc, s->path, "cannot read", e);
    }
    (void)sqlite3_finalize(st);
    return result;
}
