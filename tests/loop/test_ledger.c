/*
 * The ledger: sums and groups, the borders of times, bounds of answers, readings that are
 * cancelled, what survives a restart. Values are asserted, in the answer's own text.
 */
#include "fixtures/ledger_bed.h"

#include "base/clock.h"
#include "ledger/item.h"
#include "ledger/store.h"

#include <pthread.h>

#define ZERO                                                                                       \
    "\"requests\":0,\"errors\":0,\"input_tokens\":0,\"output_tokens\":0,\"cached_tokens\":0,"      \
    "\"cost_usd\":null,\"unpriced\":0,\"estimated\":0"

static void test_empty(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    assert_int_equal(mode_of(BED_FILE), 0600);
    bed_expect(&b, 0, 0, 0, "[{" ZERO "}]");
    for (unsigned by = 1; by <= LEDGER_BY_ALL; by++) {
        bed_expect(&b, by, 0, 0, "[]");
    }
    struct ledger_stats s = bed_stats(&b);
    assert_true(s.written == 0 && s.lost == 0 && s.waiting == 0 && !s.failing);
    assert_int_equal(mode_of(BED_FILE "-wal"), 0600);
    bed_close(&b);
    assert_false(there(BED_FILE "-wal")); /* one file */
    ledger_close(NULL);
    ledger_reading_cancel(NULL);
}

/* Five rows that differ in all that can be grouped. */
static void put_five(struct bed *b)
{
    struct ledger_row r = bed_row();

    ledger_put(b->l, &r);
    r.time_ms += DAY - 1; /* the same day, still */
    r.outcome = "cancelled";
    r.cost_nano = -1;
    r.estimated = true;
    ledger_put(b->l, &r);
    r = bed_row();
    r.time_ms += DAY;
    r.run = "r1";
    r.outcome = "BudgetExceeded";
    r.cost_nano = 11300000;
    ledger_put(b->l, &r);
    r.grant = "dev \"x\"";
    r.run = "r2";
    r.provider = "anthropic";
    r.model = "claude";
    r.outcome = "ok";
    r.cost_nano = 0; /* known, and nothing */
    ledger_put(b->l, &r);
    r.run = NULL;
    r.provider = NULL;
    r.model = NULL;
    r.outcome = "BadRequest";
    r.cost_nano = -1;
    r.input_tokens = r.output_tokens = r.cached_tokens = 0;
    ledger_put(b->l, &r);
}

static void test_sums_and_groups(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    put_five(&b);
    bed_expect(&b, 0, 0, 0,
               "[{\"requests\":5,\"errors\":2,\"input_tokens\":40,\"output_tokens\":20,"
               "\"cached_tokens\":8,\"cost_usd\":0.0123,\"unpriced\":2,\"estimated\":1}]");
    bed_expect(&b, LEDGER_BY_DAY, 0, 0,
               "[{\"day\":\"2026-12-02\",\"requests\":2,\"errors\":0,\"input_tokens\":20,"
               "\"output_tokens\":10,\"cached_tokens\":4,\"cost_usd\":0.001,\"unpriced\":1,"
               "\"estimated\":1},"
               "{\"day\":\"2026-12-03\",\"requests\":3,\"errors\":2,\"input_tokens\":20,"
               "\"output_tokens\":10,\"cached_tokens\":4,\"cost_usd\":0.0113,\"unpriced\":1,"
               "\"estimated\":0}]");
    bed_expect(&b, LEDGER_BY_MODEL, 0, 0,
               "[{\"model\":null,\"requests\":1,\"errors\":1,\"input_tokens\":0,"
               "\"output_tokens\":0,\"cached_tokens\":0,\"cost_usd\":null,\"unpriced\":1,"
               "\"estimated\":0},"
               "{\"model\":\"anthropic/claude\",\"requests\":1,\"errors\":0,\"input_tokens\":10,"
               "\"output_tokens\":5,\"cached_tokens\":2,\"cost_usd\":0,\"unpriced\":0,"
               "\"estimated\":0},"
               "{\"model\":\"openai/gpt-4o\",\"requests\":3,\"errors\":1,\"input_tokens\":30,"
               "\"output_tokens\":15,\"cached_tokens\":6,\"cost_usd\":0.0123,\"unpriced\":1,"
               "\"estimated\":1}]");
    bed_expect(&b, LEDGER_BY_RUN | LEDGER_BY_GRANT, DEC_2_2026 + DAY, 0,
               "[{\"run\":null,\"grant\":\"dev \\\"x\\\"\",\"requests\":1,\"errors\":1,"
               "\"input_tokens\":0,\"output_tokens\":0,\"cached_tokens\":0,\"cost_usd\":null,"
               "\"unpriced\":1,\"estimated\":0},"
               "{\"run\":\"r1\",\"grant\":\"ci\",\"requests\":1,\"errors\":1,\"input_tokens\":10,"
               "\"output_tokens\":5,\"cached_tokens\":2,\"cost_usd\":0.0113,\"unpriced\":0,"
               "\"estimated\":0},"
               "{\"run\":\"r2\",\"grant\":\"dev \\\"x\\\"\",\"requests\":1,\"errors\":0,"
               "\"input_tokens\":10,\"output_tokens\":5,\"cached_tokens\":2,\"cost_usd\":0,"
               "\"unpriced\":0,\"estimated\":0}]");
    bed_expect(&b, LEDGER_BY_ALL, 0, DEC_2_2026 + 1,
               "[{\"day\":\"2026-12-02\",\"run\":null,\"grant\":\"ci\",\"model\":\"openai/gpt-4o\","
               "\"requests\":1,\"errors\":0,\"input_tokens\":10,\"output_tokens\":5,"
               "\"cached_tokens\":2,\"cost_usd\":0.001,\"unpriced\":0,\"estimated\":0}]");
    bed_close(&b);
}

static unsigned long long requests(struct bed *b, uint64_t since, uint64_t until)
{
    unsigned long long n = 999;
    const char *text = bed_answer(b, 0, since, until);

    assert_int_equal(b->rc, ERR_OK);
    assert_int_equal(sscanf(text, "[{\"requests\":%llu,", &n), 1);
    return n;
}

/* The first millisecond counts, the last does not. */
static void test_borders(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    ledger_put(b.l, &r);
    assert_int_equal(requests(&b, DEC_2_2026, 0), 1);
    assert_int_equal(requests(&b, DEC_2_2026 + 1, 0), 0);
    assert_int_equal(requests(&b, 0, DEC_2_2026 + 1), 1);
    assert_int_equal(requests(&b, 0, DEC_2_2026), 0);
    assert_int_equal(requests(&b, DEC_2_2026, DEC_2_2026 + 1), 1);
    assert_int_equal(requests(&b, DEC_2_2026 + 1, DEC_2_2026), 0);
    assert_int_equal(requests(&b, UINT64_MAX, UINT64_MAX), 0);
    bed_close(&b);
}

/* Numbers of a mad provider do not break the sums of others. */
static void test_large_numbers(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();
    int64_t nano = 0;
    uint64_t tokens = 0;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    ledger_put(b.l, &r);
    r.input_tokens = r.output_tokens = UINT64_MAX;
    r.cost_nano = INT64_MAX;
    ledger_put(b.l, &r);
    r.time_ms = UINT64_MAX;
    ledger_put(b.l, &r);
    bed_expect(&b, 0, 0, 0,
               "[{\"requests\":3,\"errors\":0,\"input_tokens\":9223372036854775807,"
               "\"output_tokens\":9223372036854775807,\"cached_tokens\":6,"
               "\"cost_usd\":9223372036.854776,\"unpriced\":0,\"estimated\":0}]");
    assert_int_equal(ledger_spent(b.l, "ci", 0, &nano, &tokens, NULL), ERR_OK);
    assert_true(nano == INT64_MAX && tokens == UINT64_MAX - 1);
    assert_non_null(strstr(bed_answer(&b, LEDGER_BY_DAY, 0, 0), "\"day\":\"9999-12-31\""));
    bed_close(&b);
}

/* Long names are cut on a character, strange ones come back as valid JSON. */
static void test_names(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();
    char name[LEDGER_NAME_MAX + 64];

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    memset(name, 'x', sizeof(name));
    memcpy(name + LEDGER_NAME_MAX - 1, "\xc3\xa9", 2); /* does not fit */
    name[sizeof(name) - 1] = '\0';
    r.model = name;
    r.provider = NULL;
    r.grant = "'; DROP TABLE requests; --\n\xff";
    ledger_put(b.l, &r);
    const char *text = bed_answer(&b, LEDGER_BY_GRANT | LEDGER_BY_MODEL, 0, 0);
    assert_non_null(strstr(text, "\"grant\":\"'; DROP TABLE requests; --\\n\xef\xbf\xbd\""));
    const char *model = strstr(text, "\"model\":\"");
    assert_non_null(model);
    assert_int_equal(strspn(model + 9, "x"), LEDGER_NAME_MAX - 1);
    assert_int_equal(model[9 + LEDGER_NAME_MAX - 1], '"');
    assert_int_equal(requests(&b, 0, 0), 1);
    bed_close(&b);
}

static void put_runs(struct bed *b, unsigned n)
{
    struct ledger_row r = bed_row();
    char run[16];

    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(run, sizeof(run), "r%05u", i);
        r.run = run;
        ledger_put(b->l, &r);
    }
}

static void test_bound_of_rows(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    put_runs(&b, LEDGER_ANSWER_ROWS);
    const char *text = bed_answer(&b, LEDGER_BY_RUN, 0, 0);
    assert_int_equal(b.rc, ERR_OK);
    assert_non_null(strstr(text, "{\"run\":\"r09999\","));
    r.run = "one more";
    ledger_put(b.l, &r);
    (void)bed_answer(&b, LEDGER_BY_RUN, 0, 0);
    assert_int_equal(b.rc, ERR_LIMIT);
    assert_int_equal(requests(&b, 0, 0), LEDGER_ANSWER_ROWS + 1); /* the next is well again */
    bed_close(&b);
}

static void test_cancel(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    put_runs(&b, 20000);
    for (unsigned i = 0; i < 50; i++) {
        bed_ask(&b, LEDGER_BY_DAY, 0, 0);
        struct ledger_reading *first = b.reading;
        bed_ask(&b, LEDGER_BY_GRANT, 0, 0);
        usleep(i * 200); /* waiting, running, or answered */
        ledger_reading_cancel(first);
        ledger_reading_cancel(b.reading);
    }
    assert_int_equal(requests(&b, 0, 0), 20000);
    loop_run_closing(b.loop);
    assert_int_equal(b.answers, 1);
    bed_close(&b);
}

/* What is asked when the ledger closes is freed without an answer. */
static void test_close_cancels(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    put_runs(&b, 20000);
    bed_await_written(&b, 20000);
    for (unsigned i = 0; i < 10; i++) {
        bed_ask(&b, LEDGER_BY_ALL, 0, 0);
    }
    ledger_close(b.l);
    b.l = NULL;
    loop_run_closing(b.loop);
    assert_in_range(b.answers, 0, 9);
    bed_close(&b);
}

static void test_too_many_readings(void **state)
{
    struct bed b;
    const struct ledger_query q = {0};
    struct ledger_reading *out = NULL;
    struct error e = {0};
    unsigned refused = 0;
    unsigned asked = 0;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    (void)pthread_mutex_lock(&b.l->lock); /* the store thread takes none meanwhile */
    b.l->nreads = LEDGER_READINGS_MAX - 1;
    (void)pthread_mutex_unlock(&b.l->lock);
    bed_ask(&b, 0, 0, 0);
    asked++;
    if (ledger_ask(b.l, &q, b.loop, bed_on_answer, &b, &out, &e) != ERR_OK) {
        refused++;
    } else {
        asked++; /* it was quick */
    }
    (void)pthread_mutex_lock(&b.l->lock);
    b.l->nreads -= LEDGER_READINGS_MAX - 1;
    (void)pthread_mutex_unlock(&b.l->lock);
    assert_int_equal(refused + asked, 2);
    assert_true(refused == 0 || strstr(e.msg, "64 readings of the ledger wait already") != NULL);
    while (b.answers < asked) {
        loop_turn(b.loop);
    }
    bed_close(&b);
}

/* ---- a long scan ---- */

struct scan {
    struct store *store;
    unsigned pauses;
    unsigned stop_at; /* 0: it runs to its end */
};

static bool on_pause(void *ctx)
{
    struct scan *scan = ctx;
    struct ledger_row r = bed_row();
    struct ledger_item *item = ledger_item_row(&r);
    struct list items;

    list_init(&items);
    list_push_back(&items, &item->node);
    assert_int_equal(store_write(scan->store, &items, NULL), ERR_OK);
    ledger_items_free(&items);
    scan->pauses++;
    return scan->pauses != scan->stop_at;
}

/* Rows are written while it runs, and are not in its answer; it can be broken off. */
static void test_long_scan(void **state)
{
    const struct ledger_query all = {0};
    char *path = strdup(bed_fresh());
    struct scan scan = {0};
    unsigned long long n = 0;
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(store_open(path, &scan.store, NULL), ERR_OK);
    bed_sql(path, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
                  "INSERT INTO requests SELECT i, i, NULL, 'g', 'm', 'p', 'x', 'ok', 1, 1, 1, 1, "
                  "NULL, 0, NULL, 1, NULL, NULL FROM n");
    assert_int_equal(store_usage(scan.store, &all, on_pause, &scan, &out, NULL), ERR_OK);
    assert_int_equal(sscanf(buf_cstr(&out), "[{\"requests\":%llu,", &n), 1);
    assert_int_equal(n, 50000);
    assert_true(scan.pauses > 1);
    unsigned written = scan.pauses;
    scan = (struct scan){.store = scan.store, .stop_at = 2};
    assert_int_equal(store_usage(scan.store, &all, on_pause, &scan, &out, NULL), ERR_CLOSED);
    assert_int_equal(scan.pauses, 2);
    store_close(scan.store);
    buf_fini(&out);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM requests"), 50000 + written + 2);
    free(path);
}

/* ---- many threads ---- */

#define THREADS    6
#define PER_THREAD 3000

struct writer {
    struct bed *b;
    pthread_t id;
    char name[8];
};

static void *put_all(void *ctx)
{
    const struct writer *w = ctx;
    struct ledger_row r = bed_row();

    r.grant = w->name;
    r.cost_nano = 1;
    for (uint64_t i = 1; i <= PER_THREAD; i++) {
        r.input_tokens = i;
        r.output_tokens = 0;
        ledger_put(w->b->l, &r);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct bed b;
    struct writer w[THREADS];
    struct ledger_stats s;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        w[t] = (struct writer){.b = &b};
        (void)snprintf(w[t].name, sizeof(w[t].name), "t%u", t);
        assert_int_equal(pthread_create(&w[t].id, NULL, put_all, &w[t]), 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        (void)requests(&b, 0, 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        (void)pthread_join(w[t].id, NULL);
    }
    assert_int_equal(requests(&b, 0, 0), THREADS * PER_THREAD);
    s = bed_stats(&b);
    assert_true(s.written == THREADS * PER_THREAD && s.waiting == 0 && s.lost == 0);
    for (unsigned t = 0; t < THREADS; t++) {
        int64_t nano = 0;
        uint64_t tokens = 0;
        assert_int_equal(ledger_spent(b.l, w[t].name, 0, &nano, &tokens, NULL), ERR_OK);
        assert_int_equal(nano, PER_THREAD);
        assert_int_equal(tokens, PER_THREAD * (PER_THREAD + 1) / 2);
    }
    bed_close(&b);
    /* In the order in which each thread put them. */
    assert_int_equal(bed_number(at(BED_FILE),
                                "SELECT count(*) FROM requests a JOIN requests b ON a.grant_name = "
                                "b.grant_name AND b.input_tokens = a.input_tokens + 1 "
                                "WHERE b.id <= a.id"),
                     0);
}

/* ---- over a restart ---- */

static void test_row_in_the_file(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();
    char *path = strdup(bed_fresh());
    char *long_text = malloc(LEDGER_TEXT_MAX + 2);

    (void)state;
    memset(long_text, 'y', LEDGER_TEXT_MAX + 1);
    long_text[LEDGER_TEXT_MAX + 1] = '\0';
    bed_open(&b, path, 0);
    r.prompt = "hello";
    r.reply = long_text;
    ledger_put(b.l, &r);
    r.prompt = r.reply = NULL;
    r.cost_nano = -1;
    r.first_byte_us = 0;
    ledger_put(b.l, &r);
    bed_close(&b); /* at once: it writes */
    free(long_text);
    assert_int_equal(
        bed_number(path, "SELECT count(*) FROM requests WHERE id = 1 AND time_ms = 1796169600000 "
                         "AND run IS NULL AND grant_name = 'ci' AND method = 'llm.chat' AND "
                         "provider = 'openai' AND model = 'gpt-4o' AND outcome = 'ok' AND "
                         "input_tokens = 10 AND output_tokens = 5 AND cached_tokens = 2 AND "
                         "reasoning_tokens = 1 AND cost_nano = 1000000 AND estimated = 0 AND "
                         "first_byte_us = 7 AND total_us = 9 AND prompt = 'hello' AND "
                         "length(reply) = 1048576"),
        1);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM requests WHERE id = 2 AND cost_nano IS "
                                      "NULL AND first_byte_us IS NULL AND prompt IS NULL AND reply "
                                      "IS NULL"),
                     1);
    bed_open(&b, path, 0);
    assert_int_equal(requests(&b, 0, 0), 2);
    assert_int_equal(bed_stats(&b).written, 0);
    bed_close(&b);
    free(path);
}

static void check_spent(struct bed *b, const char *grant, uint64_t since, int64_t nano,
                        uint64_t tokens)
{
    int64_t n = -1;
    uint64_t t = 99;
    struct error e = {0};

    assert_int_equal(ledger_spent(b->l, grant, since, &n, &t, &e), ERR_OK);
    assert_int_equal(n, nano);
    assert_int_equal(t, tokens);
}

static void test_spent(void **state)
{
    struct bed b;
    char *path = strdup(bed_fresh());

    (void)state;
    bed_open(&b, path, 0);
    put_five(&b);
    bed_close(&b);
    bed_open(&b, path, 0);
    check_spent(&b, "ci", 0, 1000000, 30); /* not that of the run; what has no price counts 0 */
    check_spent(&b, "ci", DEC_2_2026 + 1, 0, 15);
    check_spent(&b, "ci", DEC_2_2026 + DAY, 0, 0);
    check_spent(&b, "dev \"x\"", 0, 0, 0);
    check_spent(&b, "nobody", 0, 0, 0);
    bed_close(&b);
    free(path);
}

struct kept {
    char text[512];
    struct bed *b;
};

static void on_grant(void *ctx, const char *id, struct span json, uint64_t expires_ms)
{
    struct kept *k = ctx;
    size_t n = strlen(k->text);

    (void)snprintf(k->text + n, sizeof(k->text) - n, "%s=%.*s@%llu;", id, (int)json.n, json.p,
                   (unsigned long long)expires_ms);
    if (k->b != NULL) {
        ledger_drop_grant(k->b->l, id);
    }
}

static void check_grants(struct bed *b, bool drop, const char *expected)
{
    struct kept k = {.b = drop ? b : NULL};
    struct error e = {0};

    assert_int_equal(ledger_grants(b->l, on_grant, &k, &e), ERR_OK);
    assert_string_equal(k.text, expected);
}

static void test_grants(void **state)
{
    struct bed b;
    char *path = strdup(bed_fresh());
    static char big[LEDGER_GRANT_MAX + 1];

    (void)state;
    bed_open(&b, path, 0);
    check_grants(&b, false, "");
    ledger_keep_grant(b.l, "b", SPAN("{\"x\":1}"), 5);
    ledger_keep_grant(b.l, "a", SPAN("{}"), 1);
    ledger_drop_grant(b.l, "a");
    ledger_keep_grant(b.l, "a", SPAN("{\"again\":true}"), UINT64_MAX);
    ledger_keep_grant(b.l, "b", SPAN("{\"x\":2}"), 6);
    ledger_keep_grant(b.l, "c", SPAN("{}"), 7);
    ledger_drop_grant(b.l, "c");
    ledger_drop_grant(b.l, "never there");
    ledger_keep_grant(b.l, "too large", span_of(big, sizeof(big)), 7);
    check_grants(&b, false, "a={\"again\":true}@9223372036854775807;b={\"x\":2}@6;");
    assert_int_equal(bed_stats(&b).lost, 1);
    bed_close(&b);
    bed_open(&b, path, 0);
    check_grants(&b, true, "a={\"again\":true}@9223372036854775807;b={\"x\":2}@6;");
    check_grants(&b, false, "");
    bed_close(&b);
    free(path);
}

/* ---- old rows ---- */

static void await_requests(struct bed *b, unsigned long long n)
{
    for (int i = 0; i < BED_WAITS && requests(b, 0, 0) != n; i++) {
        usleep(1000);
    }
    assert_int_equal(requests(b, 0, 0), n);
}

static void test_retention(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();
    uint64_t now = (uint64_t)clock_wall_ms();
    char *path = strdup(bed_fresh());
    const struct ledger_tuning often = {.items_max = 1000, .bytes_max = 1000000, .close_ms = 1};

    (void)state;
    bed_open(&b, path, 0);
    for (unsigned i = 0; i < 1200; i++) { /* more than one batch */
        r.time_ms = now - 2 * DAY - i;
        ledger_put(b.l, &r);
    }
    r.time_ms = now - DAY / 2;
    ledger_put(b.l, &r);
    assert_int_equal(requests(&b, 0, 0), 1201);
    bed_close(&b);
    bed_open(&b, path, DAY); /* at the open */
    await_requests(&b, 1);
    r.time_ms = now - 2 * DAY;
    ledger_put(b.l, &r); /* not before an hour is over */
    bed_await_written(&b, 1);
    usleep(20000);
    assert_int_equal(requests(&b, 0, 0), 2);
    bed_close(&b);
    bed_open_tuned(&b, path, DAY, &often); /* while rows are written */
    await_requests(&b, 1);
    ledger_put(b.l, &r);
    bed_await_written(&b, 1);
    await_requests(&b, 1);
    bed_close(&b);
    free(path);
}

static int set_up(void **state)
{
    (void)state;
    make_place();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)bed_fresh();
    return rmdir(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_sums_and_groups),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bound_of_rows),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_close_cancels),
        cmocka_unit_test(test_too_many_readings),
        cmocka_unit_test(test_long_scan),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_row_in_the_file),
        cmocka_unit_test(test_spent),
        cmocka_unit_test(test_grants),
        cmocka_unit_test(test_retention),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
