/* run/outcome: exit codes, kills and result blocks to one document. */
#include "run/outcome.h"

#include "base/json_span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *what;
    struct run_facts facts;
    int code;
    const char *document;
};

#define TEXT(s)                                                                                    \
    {                                                                                              \
        (s), sizeof(s) - 1                                                                         \
    }

static const struct row rows[] = {
    {"exit 0, no output",
     {.duration_ms = 1500},
     0,
     "{\"status\":\"success\",\"result\":null,\"error\":null,\"error_type\":null,"
     "\"traceback\":null,\"duration_seconds\":1.5,\"exit_code\":0,\"logs\":[],\"metadata\":{}}"},
    {"exit 0 with output",
     {.text = TEXT("a\n\xc3\xa9")},
     0,
     "{\"status\":\"success\",\"result\":\"a\\n\xc3\xa9\",\"error\":null,\"error_type\":null,"
     "\"traceback\":null,\"duration_seconds\":0,\"exit_code\":0,\"logs\":[],\"metadata\":{}}"},
    {"exit 3 without output",
     {.code = 3},
     3,
     "{\"status\":\"error\",\"result\":null,\"error\":\"Container exited with code 3\","
     "\"error_type\":null,\"traceback\":null,\"duration_seconds\":0,\"exit_code\":3,\"logs\":[],"
     "\"metadata\":{}}"},
    {"exit 1 with output, cut",
     {.code = 1, .text = TEXT("broken"), .text_truncated = true},
     1,
     "{\"status\":\"error\",\"result\":null,\"error\":\"broken\",\"error_type\":null,"
     "\"traceback\":null,\"duration_seconds\":0,\"exit_code\":1,\"logs\":[],"
     "\"metadata\":{\"stdout_truncated\":true}}"},
    {"137 and the engine knows why",
     {.code = 137, .oom_killed = true, .memory = 2147483648u, .memory_text = "2g"},
     137,
     "{\"status\":\"error\",\"result\":null,"
     "\"error\":\"Container killed: out of memory (limit: 2g)\","
     "\"error_type\":\"OutOfMemoryError\",\"traceback\":null,\"duration_seconds\":0,"
     "\"exit_code\":137,\"logs\":[],\"metadata\":{}}"},
    {"137 with a limit",
     {.code = 137, .memory = 1, .memory_text = "64m", .text_truncated = true},
     137,
     "{\"status\":\"error\",\"result\":null,"
     "\"error\":\"Container killed: out of memory (limit: 64m)\","
     "\"error_type\":\"OutOfMemoryError\",\"traceback\":null,\"duration_seconds\":0,"
     "\"exit_code\":137,\"logs\":[],"
     "\"metadata\":{\"stdout_truncated\":true,\"oom_certainty\":\"likely\"}}"},
    {"137 without one",
     {.code = 137},
     137,
     "{\"status\":\"error\",\"result\":null,\"error\":\"Container killed\","
     "\"error_type\":\"Killed\",\"traceback\":null,\"duration_seconds\":0,\"exit_code\":137,"
     "\"logs\":[],\"metadata\":{}}"},
    {"124",
     {.code = 124, .timeout_ms = 3600000},
     124,
     "{\"status\":\"error\",\"result\":null,"
     "\"error\":\"Container killed: execution timeout (3600s)\",\"error_type\":\"TimeoutError\","
     "\"traceback\":null,\"duration_seconds\":0,\"exit_code\":124,\"logs\":[],\"metadata\":{}}"},
    {"killed by us at the time-out",
     {.end = RUN_TIMED_OUT, .code = 137, .timeout_ms = 1500, .memory = 1, .oom_killed = true},
     124,
     "{\"status\":\"timeout\",\"result\":null,"
     "\"error\":\"Container killed: execution timeout (1.5s)\",\"error_type\":\"TimeoutError\","
     "\"traceback\":null,\"duration_seconds\":0,\"exit_code\":124,\"logs\":[],\"metadata\":{}}"},
    {"cancelled",
     {.end = RUN_CANCELLED, .signal = 15, .code = 0},
     143,
     "{\"status\":\"cancelled\",\"result\":null,\"error\":\"Cancelled by signal 15\","
     "\"error_type\":\"Cancelled\",\"traceback\":null,\"duration_seconds\":0,\"exit_code\":143,"
     "\"logs\":[],\"metadata\":{}}"},
    {"a block of its own stands, its numbers as they came",
     {.code = 7,
      .duration_ms = 250,
      .block = TEXT("{\"status\":\"success\",\"result\":{\"n\":1.0},\"duration_seconds\":9,"
                    "\"exit_code\":5,\"x\":[9007199254740993]}")},
     5,
     "{\"status\":\"success\",\"result\":{\"n\":1.0},\"x\":[9007199254740993],"
     "\"duration_seconds\":0.25,\"exit_code\":5}"},
    {"a block before the time-out stands",
     {.end = RUN_TIMED_OUT, .code = 137, .block = TEXT("{\"status\":\"success\"}")},
     0,
     "{\"status\":\"success\",\"duration_seconds\":0,\"exit_code\":0}"},
    {"a block of failure",
     {.block = TEXT("{\"status\":\"error\",\"error\":\"no\"}")},
     1,
     "{\"status\":\"error\",\"error\":\"no\",\"duration_seconds\":0,\"exit_code\":1}"},
    {"an exit code that no process has",
     {.block = TEXT("{\"status\":\"success\",\"exit_code\":256}")},
     1,
     "{\"status\":\"success\",\"duration_seconds\":0,\"exit_code\":1}"},
    {"a block that says nothing",
     {.block = TEXT("{}")},
     1,
     "{\"status\":\"error\",\"duration_seconds\":0,\"exit_code\":1}"},
};

static void test_documents(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json_rules rules = {.max_depth = 32};
        struct json_value v;
        struct json_fault fault;
        struct buf out;

        buf_init(&out, 65536);
        int code = outcome_put(&rows[i].facts, &out);
        if (code != rows[i].code || strcmp(buf_cstr(&out), rows[i].document) != 0) {
            print_error("%s: %d %s\n", rows[i].what, code, buf_cstr(&out));
        }
        assert_int_equal(code, rows[i].code);
        assert_string_equal(buf_cstr(&out), rows[i].document);
        assert_int_equal(json_check_value(buf_span(&out), &rules, &v, &fault), ERR_OK);
        buf_fini(&out);
    }
}

static void test_failure(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 65536);
    outcome_put_failure(false, "ConfigError", "x.yml:3: \"a\"", 78, 20, &out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"status\":\"error\",\"result\":null,\"error\":\"x.yml:3: \\\"a\\\"\","
        "\"error_type\":\"ConfigError\",\"traceback\":null,\"duration_seconds\":0.02,"
        "\"exit_code\":78,\"logs\":[],\"metadata\":{}}");
    buf_clear(&out);
    outcome_put_failure(true, "Cancelled", "interrupted", 130, 0, &out);
    assert_string_equal(buf_cstr(&out),
                        "{\"status\":\"cancelled\",\"result\":null,\"error\":\"interrupted\","
                        "\"error_type\":\"Cancelled\",\"traceback\":null,"
                        "\"duration_seconds\":0,\"exit_code\":130,\"logs\":[],\"metadata\":{}}");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
