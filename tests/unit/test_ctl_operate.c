/* What brokerctl makes of the admin API's answers: tables and documents, and what is no answer. */
#include "ctl/operate.h"

#include "ctl/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/torture.h"

#define FFFD "\xef\xbf\xbd"

typedef bool show_fn(struct output *out, struct span json);

/* Everything that `show` puts, in `text`; false as it says. */
static bool shown(show_fn *show, struct span json, bool colour, char *text, size_t size)
{
    struct output out;
    int fd = memfd_create("output", MFD_CLOEXEC);

    assert_true(fd >= 0);
    output_init(&out, fd, colour, colour);
    bool good = show(&out, json);
    assert_int_equal(output_flush(&out, NULL), ERR_OK);
    ssize_t n = pread(fd, text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    return good;
}

static void is(show_fn *show, const char *json, const char *expected)
{
    char text[16384];

    assert_true(shown(show, span_str(json), false, text, sizeof(text)));
    assert_string_equal(text, expected);
}

static void refused(show_fn *show, const char *json)
{
    char text[16384];

    if (shown(show, span_str(json), false, text, sizeof(text))) {
        fail_msg("taken for an answer: %s", json);
    }
}

/* ---- tables ---- */

static void test_table(void **state)
{
    char text[1024] = "";
    struct output out;
    struct table t;
    int fd = memfd_create("table", MFD_CLOEXEC);

    (void)state;
    output_init(&out, fd, false, false);
    table_init(&t);
    table_put(&t, SPAN("before any column: nowhere"));
    table_column(&t, "A", false);
    table_column(&t, "NUMBER", true);
    table_column(&t, "LAST", false);
    table_put(&t, SPAN("日本"));
    table_printf(&t, "%d", 7);
    table_put(&t, SPAN("x\ty\nz"));
    table_put(&t, SPAN(""));
    table_put(&t, SPAN("12345678"));
    table_put(&t, SPAN("\x1b[2J\xc2\x9b"
                       "1m"));
    assert_true(table_show(&t, &out));
    table_fini(&t);
    assert_int_equal(output_flush(&out, NULL), ERR_OK);
    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    close(fd);
    assert_string_equal(text, "A     NUMBER  LAST\n"
                              "日本         7  x y z\n"
                              "-   12345678  " FFFD "[2J" FFFD "1m\n");
}

static void test_table_limits(void **state)
{
    struct output out;
    struct table t;

    (void)state;
    output_init(&out, -1, false, false);
    table_init(&t);
    assert_false(table_show(&t, &out));
    for (size_t i = 0; i < TABLE_COLUMNS_MAX + 3; i++) {
        table_column(&t, "C", false);
    }
    assert_int_equal(t.ncolumns, TABLE_COLUMNS_MAX);
    t.cells.max = 3;
    table_put(&t, SPAN("four"));
    assert_false(table_show(&t, &out));
    table_fini(&t);
}

/* ---- status ---- */

#define STATUS_HEAD "\"version\":\"1.2\",\"state\":\"running\",\"uptime_seconds\":"

static void test_status(void **state)
{
    (void)state;
    is(ctl_show_status,
       "{" STATUS_HEAD "273600,\"started_at\":\"2026-12-02T10:00:00.123Z\",\"workers\":2,"
       "\"connections\":3,\"inflight\":0,\"config\":{\"generation\":4,\"loaded_at\":"
       "\"2026-12-02T11:00:00.001Z\"},\"providers\":[{\"name\":\"a\",\"type\":\"openai\",\"key\":"
       "\"loaded\"},{\"name\":\"long\",\"type\":\"builtin\",\"key\":\"none\",\"breaker\":\"open\"}]"
       ","
       "\"ledger\":{\"written\":12,\"waiting\":1,\"lost\":0,\"failing\":true}}",
       "version      1.2\n"
       "state        running, up 3 d 4 h, since 2026-12-02T10:00:00Z\n"
       "workers      2\n"
       "connections  3\n"
       "inflight     0\n"
       "config       generation 4, loaded 2026-12-02T11:00:00Z\n"
       "providers    a     openai   key loaded\n"
       "             long  builtin  key none, breaker open\n"
       "ledger       12 written, 1 waiting, 0 lost, failing\n");
    is(ctl_show_status, "{" STATUS_HEAD "59,\"providers\":[],\"ledger\":null}",
       "version      1.2\n"
       "state        running, up 59 s\n"
       "providers    none\n"
       "ledger       not kept\n");
    is(ctl_show_status, "{" STATUS_HEAD "60}",
       "version      1.2\nstate        running, up 1 min\n");
    is(ctl_show_status, "{" STATUS_HEAD "86399}",
       "version      1.2\nstate        running, up 23 h 59 min\n");
    is(ctl_show_status, "{\"state\":\"a\\u001b[2J\\nb\"}",
       "version      -\nstate        a" FFFD "[2J b\n");
}

/* ---- grants ---- */

#define GRANTS_TITLES "ID  RUN  MODELS  LIMITS  USED  INFLIGHT  EXPIRES\n"

static void test_grants(void **state)
{
    (void)state;
    is(ctl_show_grants, "[]", GRANTS_TITLES);
    is(ctl_show_grants,
       "[{\"id\":\"ci\",\"run\":null,\"models\":[\"openai/*\",\"x\"],\"rpm\":600,\"tpm\":20000,"
       "\"max_inflight\":8,\"budget_usd\":20.000000000,\"budget_tokens\":1000,\"budget_period\":"
       "\"month\",\"used\":{\"requests\":12,\"refused\":3,\"inflight\":2,\"tokens\":340,\"usd\":"
       "0.001060000}},"
       "{\"id\":\"abcdef\",\"run\":\"nightly\",\"models\":[],\"budget_usd\":0.1234567,"
       "\"budget_period\":\"total\",\"expires_at\":\"2026-12-31T23:59:59.999Z\",\"used\":"
       "{\"requests\":1,\"refused\":0,\"inflight\":0,\"tokens\":1,\"usd\":0.0}}]",
       "ID      RUN      MODELS       LIMITS                                            "
       "              USED                                          INFLIGHT  EXPIRES\n"
       "ci      -        openai/*, x  600 rpm, 20000 tpm, 8 at once, $20.00/month, 1000 "
       "tokens/month  12 requests, 3 refused, 340 tokens, $0.00106         2  -\n"
       "abcdef  nightly  none         $0.123457                                         "
       "              1 request, 1 token                                   0  "
       "2026-12-31T23:59:59Z\n");
}

static void test_many_models(void **state)
{
    (void)state;
    is(ctl_show_grants,
       "[{\"id\":\"a\",\"models\":[\"0123456789012345678901234567890123456789x\",\"b\"]},"
       "{\"id\":\"b\",\"models\":[\"01234567890123456789\",\"012345678901234567890\",\"c\",\"d\"]}"
       "]",
       "ID  RUN  MODELS                        LIMITS  USED  INFLIGHT  EXPIRES\n"
       "a   -    2                             -       -            -  -\n"
       "b   -    01234567890123456789, 3 more  -       -            -  -\n");
}

static void test_created(void **state)
{
    (void)state;
    is(ctl_show_created,
       "{\"id\":\"i\",\"run\":\"r\\u009b1m\",\"endpoint\":null,\"expires_at\":\"t\",\"token\":"
       "\"T\"}",
       "id           i\nrun          r" FFFD "1m\ntoken        T\nexpires_at   t\n");
}

static void body_is(const struct ctl_grant *g, const char *expected)
{
    struct buf b;

    buf_init(&b, 4096);
    ctl_grant_body(&b, g);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void test_grant_body(void **state)
{
    (void)state;
    body_is(&(struct ctl_grant){0}, "{}");
    body_is(&(struct ctl_grant){.run = "a\"\n", .models = "a,b/*", .tools = ""},
            "{\"run\":\"a\\\"\\n\",\"models\":[\"a\",\"b/*\"],\"tools\":[]}");
    body_is(&(struct ctl_grant){.ttl = "60",
                                .rpm = "1",
                                .tpm = "2",
                                .budget_usd = "0.000000001",
                                .budget_tokens = "3",
                                .max_inflight = "4",
                                .listener = "tcp"},
            "{\"ttl\":60,\"rpm\":1,\"tpm\":2,\"budget_usd\":0.000000001,\"budget_tokens\":3,"
            "\"max_inflight\":4,\"listener\":{\"transport\":\"tcp\"}}");
}

/* ---- usage ---- */

#define ROW(in, out, cached, cost, unpriced, estimated)                                            \
    "\"requests\":10,\"errors\":1,\"input_tokens\":" #in ",\"output_tokens\":" #out                \
    ",\"cached_tokens\":" #cached ",\"cost_usd\":" #cost ",\"unpriced\":" #unpriced                \
    ",\"estimated\":" #estimated "}"

static void test_usage(void **state)
{
    (void)state;
    is(ctl_show_usage, "[]", "no requests\n");
    is(ctl_show_usage, "[{" ROW(3, 1234567, 0, 0.000106, 0, 0) "]",
       "REQUESTS  ERRORS  INPUT   OUTPUT  CACHED       USD\n"
       "      10       1      3  1234567       0  0.000106\n");
    is(ctl_show_usage,
       "[{\"day\":\"2026-12-02\",\"model\":\"a/b\"," ROW(
           3, 4, 0, 12.5, 2, 1) ","
                                "{\"day\":\"2026-12-02\",\"model\":null," ROW(0, 0, 0, null, 10,
                                                                              0) "]",
       "DAY         MODEL  REQUESTS  ERRORS  INPUT  OUTPUT  CACHED       USD  UNPRICED\n"
       "2026-12-02  a/b          10       1     ~3      ~4       0  ~12.5000         2\n"
       "2026-12-02  -            10       1      0       0       0         -        10\n");
}

static void cost_is(const char *cost, const char *expected)
{
    char json[512];
    char text[1024];

    assert_in_range(snprintf(json, sizeof(json), "[{\"cost_usd\":%s}]", cost), 1, 511);
    assert_true(shown(ctl_show_usage, span_str(json), false, text, sizeof(text)));
    const char *last = strrchr(text, ' ');
    assert_non_null(last);
    assert_string_equal(last + 1, expected);
}

static void test_costs(void **state)
{
    (void)state;
    cost_is("0", "0.0000\n");
    cost_is("1", "1.0000\n");
    cost_is("0.00012", "0.00012\n");
    cost_is("0.000001", "0.000001\n");
    cost_is("0.0000004", "<0.000001\n");
    cost_is("0.0000005000001", "0.000001\n");
    cost_is("1234567.891234", "1234567.891234\n");
    cost_is("1e300", "1e+300\n");
    cost_is("null", "-\n");
    cost_is("\"1\"", "-\n");
}

static void test_by(void **state)
{
    (void)state;
    assert_null(ctl_usage_by_fault("run").p);
    assert_null(ctl_usage_by_fault("run,grant,model,day").p);
    assert_true(span_eq(ctl_usage_by_fault("run,days"), SPAN("days")));
    assert_true(span_eq(ctl_usage_by_fault("r&x=1,run"), SPAN("r&x=1")));
    assert_non_null(ctl_usage_by_fault("").p);
    assert_non_null(ctl_usage_by_fault("run,").p);
    assert_non_null(ctl_usage_by_fault(",run").p);
}

/* ---- reload, drain ---- */

static void test_reload_and_drain(void **state)
{
    (void)state;
    is(ctl_show_reload,
       "{\"generation\":7,\"grants\":3,\"providers\":1,\"grants_added\":[\"a\",\"b\"],"
       "\"grants_removed\":[\"c\\u001b\"]}",
       "reloaded: generation 7, grants +a, +b, -c" FFFD "\n");
    is(ctl_show_reload, "{\"generation\":2,\"grants_added\":[],\"grants_removed\":[]}",
       "reloaded: generation 2, grants unchanged\n");
    is(ctl_show_drain, "{\"state\":\"draining\",\"inflight\":3,\"drain_timeout\":30}",
       "draining: 3 in flight, at most 30 s\n");
}

/* ---- what is no answer ---- */

static show_fn *const shows[] = {ctl_show_status, ctl_show_grants, ctl_show_created,
                                 ctl_show_usage,  ctl_show_reload, ctl_show_drain};

#define SHOWS_N (sizeof(shows) / sizeof(shows[0]))

static void test_no_answers(void **state)
{
    static const char *const texts[] = {"",      "{",  "[1]",  "null",
                                        "\"a\"", "17", "[[]]", "{\"inflight\":-1,\"id\":\"x\"}"};

    (void)state;
    for (size_t i = 0; i < SHOWS_N; i++) {
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++) {
            refused(shows[i], texts[j]);
        }
    }
}

/* Values of wrong types are shown as what is missing, or refused; never read as what they are not.
 */
static void test_wrong_types(void **state)
{
    char text[4096];

    (void)state;
    is(ctl_show_grants,
       "[{\"id\":1,\"run\":{},\"models\":\"x\",\"rpm\":\"9\",\"used\":[1],"
       "\"budget_usd\":\"1\",\"expires_at\":5}]",
       GRANTS_TITLES "-   -    -       -       -            -  -\n");
    is(ctl_show_usage, "[{\"day\":3,\"requests\":-1,\"errors\":1e30,\"input_tokens\":[]}]",
       "DAY  REQUESTS  ERRORS  INPUT  OUTPUT  CACHED  USD\n"
       "-           -       -      -       -       -    -\n");
    for (size_t i = 0; i < SHOWS_N; i++) {
        (void)shown(shows[i],
                    SPAN("{\"state\":\"x\",\"id\":\"x\",\"token\":\"x\",\"generation\":1,"
                         "\"inflight\":1,\"providers\":[1,null],\"ledger\":7,\"config\":[],"
                         "\"grants_added\":{\"a\":1},\"grants_removed\":\"x\"}"),
                    true, text, sizeof(text));
    }
}

static void test_memory(void **state)
{
    static const char json[] = "[{\"id\":\"ci\",\"models\":[\"a\"],\"rpm\":6,\"used\":{}}]";
    char all[4096];
    char text[4096] = "";

    (void)state;
    torture_off();
    assert_true(shown(ctl_show_grants, span_str(json), false, all, sizeof(all)));
    size_t count = torture_count();
    assert_in_range(count, 2, 1000);
    for (size_t n = 0; n < count; n++) {
        torture_fail_after(n);
        bool good = shown(ctl_show_grants, span_str(json), false, text, sizeof(text));
        torture_off();
        assert_false(good);
        assert_string_equal(text, "");
    }
    assert_true(shown(ctl_show_grants, span_str(json), false, text, sizeof(text)));
    assert_string_equal(text, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_limits),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_grants),
        cmocka_unit_test(test_many_models),
        cmocka_unit_test(test_created),
        cmocka_unit_test(test_grant_body),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_by),
        cmocka_unit_test(test_reload_and_drain),
        cmocka_unit_test(test_no_answers),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
