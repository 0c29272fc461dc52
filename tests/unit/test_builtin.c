/* The builtin models, event by event (notation: fixtures/chat_record.h), one step a line end. */
#include "base/json_span.h"
#include "fixtures/chat_record.h"
#include "fixtures/torture.h"
#include "tactus/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct provider provider = {
    .name = "b", .ops = &provider_builtin, .max_reply_bytes = 1024};

static struct chat_record record;
static size_t steps; /* of the last run */

static struct json_value json(const char *text)
{
    static const struct json_rules rules = {.max_depth = 16};
    struct json_value v;
    struct json_fault fault;

    assert_int_equal(json_check_value(span_str(text), &rules, &v, &fault), ERR_OK);
    return v;
}

static void reset(void)
{
    record.n = 0;
    record.text[0] = '\0';
    record.events = 0;
    record.stop_after = 0;
    record.broken = false;
}

/* Runs a script to its end into `record`; NULL `tools` gives none. */
static void run(const char *model, const char *messages, const char *tools)
{
    /* The request is gone when the steps run: a copy that is freed shows whoever holds on to it. */
    char *text = malloc(strlen(messages) + 1);
    char *name = malloc(strlen(model) + 1);
    struct chat_sink sink = {.emit = record_emit, .ctx = &record};
    struct failure failure = {.type = "none"};
    enum answer_status status = ANSWER_MORE;

    assert_non_null(text);
    assert_non_null(name);
    memcpy(text, messages, strlen(messages) + 1);
    memcpy(name, model, strlen(model) + 1);
    struct chat_request request = {.model = span_str(name), .messages = json(text)};
    if (tools != NULL) {
        request.params[CHAT_TOOLS] = json(tools);
    }
    struct provider_script *s = provider_builtin.script_new(&provider, &request);
    free(text);
    free(name);
    assert_non_null(s);
    steps = 0;
    while (status == ANSWER_MORE) {
        size_t before = record.n;
        steps++;
        size_t texts = 0;
        status = provider_builtin.script_step(s, &sink, &failure);
        for (const char *p = record.text + before; *p != '\0'; p++) {
            texts += (p[0] == 'T' || p[0] == 'R') && p[1] == ':' && p[-1] == '\n';
        }
        assert_true(texts <= 1);
    }
    record_end(&record, status, &failure);
    provider_builtin.script_free(s);
    assert_false(record.broken);
}

static void check(const char *model, const char *messages, const char *tools, const char *expected)
{
    reset();
    run(model, messages, tools);
    assert_string_equal(record.text, expected);
}

#define USER(text)   "[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define END(p, c, t) "U:" p "," c "," t ",-,-\nF:stop\nCOMPLETE"

static void test_echo(void **state)
{
    (void)state;
    check("echo", USER("Hello, w\u00f6rld \u65e5\u672c\u8a9e \U0001F389!"), NULL,
          "M:echo\nT:Hello,\nT: w\u00f6rld\nT: \u65e5\u672c\u8a9e\nT: \U0001F389!\n" END("4", "4",
                                                                                         "8"));
    assert_int_equal(steps, 4);
    check("echo", USER("one"), NULL, "M:echo\nT:one\n" END("1", "1", "2"));
    check("echo", USER("  a \\t b  "), NULL, "M:echo\nT:  a\nT: \t b  \n" END("2", "2", "4"));
    check("echo", USER(" \\f\\u000b "), NULL, "M:echo\nT: \f\v \n" END("0", "0", "0"));
    check("echo", USER("\\ud83c\\udf89 \u3000x"), NULL,
          "M:echo\nT:\U0001F389\nT: \u3000x\n" END("2", "2", "4"));
    check("echo", USER(""), NULL, "M:echo\n" END("0", "0", "0"));
    check("echo", "[]", NULL, "M:echo\n" END("0", "0", "0"));
}

static void test_messages(void **state)
{
    (void)state;
    check("echo",
          "[{\"role\":\"system\",\"content\":\"be brief please\"},"
          "{\"role\":\"user\",\"content\":\"not this\"},"
          "{\"role\":\"assistant\",\"content\":null},"
          "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"ab\"},"
          "{\"type\":\"image_url\",\"text\":\"no\"},{\"type\":\"text\",\"text\":\"cd ef\"}]},"
          "{\"role\":\"assistant\",\"content\":\"ok\"},7,[],{\"content\":\"no role\"}]",
          NULL, "M:echo\nT:abcd\nT: ef\n" END("10", "2", "12"));
    check("echo", "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"user\",\"content\":null}]",
          NULL, "M:echo\n" END("1", "0", "1"));
    check("echo",
          "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"},{\"type\":\"text\",\"text\":5}]}]",
          NULL, "M:echo\n" END("0", "0", "0"));
}

static void test_reason_and_cut(void **state)
{
    (void)state;
    check("reason", USER("a b"), NULL, "M:reason\nR:thinking\nT:a\nT: b\n" END("2", "2", "4"));
    check("reason", USER(""), NULL, "M:reason\nR:thinking\n" END("0", "0", "0"));
#define CUT                                                                                        \
    "FAILED APIResponseValidationError 0 no The provider's stream ended before its end marker"
    check("cut", USER("a b c d"), NULL, "M:cut\nT:a\nT: b\n" CUT);
    check("cut", USER("a b"), NULL, "M:cut\nT:a\nT: b\n" CUT);
    check("cut", USER("a"), NULL, "M:cut\nT:a\n" CUT);
    check("cut", USER(""), NULL, "M:cut\n" CUT);
}

static void test_tool(void **state)
{
    static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"look\\u0075p\"}},"
                                "{\"type\":\"function\",\"function\":{\"name\":\"other\"}}]";
    static const char none[] = "FAILED BadRequestError 400 no the model tool needs tools to call";

    (void)state;
    check("tool", USER("say \\\"hi\\\" \u65e5 \\u0001"), tools,
          "M:tool\nC:0 call_builtin_0|lookup|{\"echo\":\"say \\\"hi\\\" \u65e5 \\u0001\"}\n"
          "U:4,0,4,-,-\nF:tool_calls\nCOMPLETE");
    check("tool", USER(""), tools,
          "M:tool\nC:0 call_builtin_0|lookup|{\"echo\":\"\"}\nU:0,0,0,-,-\nF:tool_calls\nCOMPLETE");
    check("tool", USER("a"), NULL, none);
    check("tool", USER("a"), "[]", none);
    check("tool", USER("a"), "null", none);
    check("tool", USER("a"), "[{\"function\":{\"name\":\"\"}}]", none);
    check("tool", USER("a"), "[7]", none);
}

static void test_tokens(void **state)
{
    (void)state;
    check("tokens-3", USER("a b"), NULL,
          "M:tokens-3\nT:token\nT: token\nT: token\n" END("2", "3", "5"));
    assert_int_equal(steps, 3); /* the last word and the end are one step */
    check("tokens-1", USER("a"), NULL, "M:tokens-1\nT:token\n" END("1", "1", "2"));
    check("tokens-0", USER("a"), NULL, "M:tokens-0\n" END("1", "0", "1"));
}

static enum err count_event(void *ctx, const struct chat_event *e)
{
    size_t *n = ctx;

    *n += e->kind == CHAT_EVENT_TEXT;
    return ERR_OK;
}

/* Ten million words, and not one allocation after the start. */
static void test_tokens_memory(void **state)
{
    struct chat_request request = {.model = SPAN("tokens-10000000"), .messages = json("[]")};
    size_t n = 0;
    struct chat_sink sink = {.emit = count_event, .ctx = &n};
    struct failure failure;
    enum answer_status status = ANSWER_MORE;

    (void)state;
    struct provider_script *s = provider_builtin.script_new(&provider, &request);
    assert_non_null(s);
    torture_off();
    while (status == ANSWER_MORE) {
        status = provider_builtin.script_step(s, &sink, &failure);
    }
    assert_int_equal(torture_count(), 0);
    assert_int_equal(status, ANSWER_COMPLETE);
    assert_int_equal(n, 10000000);
    provider_builtin.script_free(s);
}

static void test_errors(void **state)
{
    (void)state;
    check("error-400", USER("a"), NULL, "FAILED BadRequestError 400 no builtin error 400");
    check("error-418", USER("a"), NULL, "FAILED APIStatusError 418 no builtin error 418");
    check("error-429", USER("a"), NULL, "FAILED RateLimitError 429 yes builtin error 429");
    check("error-503", USER("a"), NULL, "FAILED InternalServerError 503 yes builtin error 503");
    check("error-599", USER("a"), NULL, "FAILED InternalServerError 599 yes builtin error 599");
}

static void test_retry_after(void **state)
{
    static const struct {
        const char *model;
        double retry_after;
    } cases[] = {{"error-429", 1.0}, {"error-503", -1.0}, {"nothing", -1.0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chat_request request = {.model = span_str(cases[i].model), .messages = json("[]")};
        struct chat_sink sink = {.emit = record_emit, .ctx = &record};
        struct failure failure;

        struct provider_script *s = provider_builtin.script_new(&provider, &request);
        assert_non_null(s);
        assert_int_equal(provider_builtin.script_step(s, &sink, &failure), ANSWER_FAILED);
        assert_true(failure.retry_after <= cases[i].retry_after &&
                    failure.retry_after >= cases[i].retry_after);
        provider_builtin.script_free(s);
    }
}

static void test_unknown_models(void **state)
{
    static const char *const names[] = {"gpt-4o",
                                        "ech",
                                        "echoo",
                                        "ECHO",
                                        "slow-",
                                        "slow-600001",
                                        "slow--1",
                                        "slow-1.5",
                                        "slow- 1",
                                        "error-399",
                                        "error-600",
                                        "error-",
                                        "tokens-",
                                        "tokens-10000001",
                                        "tokens-99999999999999999999",
                                        "tokens-1 ",
                                        "slow",
                                        "x\u65e5"};
    char expected[256];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(expected, sizeof expected, "FAILED NotFoundError 404 no builtin has no model %s",
                 names[i]);
        check(names[i], USER("a"), NULL, expected);
    }
}

static void test_delay(void **state)
{
    static const struct {
        const char *model;
        uint32_t delay;
    } cases[] = {{"slow-0", 0}, {"slow-25", 25}, {"slow-600000", 600000},
                 {"echo", 0},   {"tokens-9", 0}, {"error-500", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chat_request request = {.model = span_str(cases[i].model), .messages = json("[]")};
        struct provider_script *s = provider_builtin.script_new(&provider, &request);
        assert_non_null(s);
        assert_int_equal(provider_builtin.script_delay(s), cases[i].delay);
        provider_builtin.script_free(s);
    }
    check("slow-5", USER("a b"), NULL, "M:slow-5\nT:a\nT: b\n" END("2", "2", "4"));
    provider_builtin.script_free(NULL);
}

static void test_sink_stops(void **state)
{
    static const char *const models[] = {"echo", "reason", "cut", "tokens-2", "tool"};

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        reset();
        run(models[m], USER("a b"), "[{\"function\":{\"name\":\"f\"}}]");
        size_t events = record.events;
        for (size_t n = 1; n <= events; n++) {
            reset();
            record.stop_after = n;
            record.stop_with = n % 2 == 0 ? ERR_LIMIT : ERR_NOMEM;
            run(models[m], USER("a b"), "[{\"function\":{\"name\":\"f\"}}]");
            assert_int_equal(record.events, n);
            assert_non_null(
                strstr(record.text, n % 2 == 0 ? "FAILED APIResponseValidationError"
                                               : "FAILED InternalError 0 unsaid out of memory"));
        }
    }
}

static void test_allocation_failures(void **state)
{
    struct chat_request request = {.model = SPAN("tool"),
                                   .messages = json(USER("some words to echo")),
                                   .params[CHAT_TOOLS] = json("[{\"function\":{\"name\":\"f\"}}]")};

    (void)state;
    for (size_t n = 0;; n++) {
        struct chat_sink sink = {.emit = record_emit, .ctx = &record};
        struct failure failure;

        reset();
        torture_fail_after(n);
        struct provider_script *s = provider_builtin.script_new(&provider, &request);
        enum answer_status status =
            s == NULL ? ANSWER_FAILED : provider_builtin.script_step(s, &sink, &failure);
        size_t used = torture_count();
        torture_off();
        if (s != NULL && status == ANSWER_FAILED) {
            assert_string_equal(failure.type, TACTUS_E_INTERNAL);
            assert_string_equal(failure.message, "out of memory");
        }
        provider_builtin.script_free(s);
        if (used <= n) {
            assert_int_equal(status, ANSWER_COMPLETE);
            break;
        }
        assert_int_equal(status, ANSWER_FAILED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),           cmocka_unit_test(test_messages),
        cmocka_unit_test(test_reason_and_cut), cmocka_unit_test(test_tool),
        cmocka_unit_test(test_tokens),         cmocka_unit_test(test_tokens_memory),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_unknown_models), cmocka_unit_test(test_delay),
        cmocka_unit_test(test_sink_stops),     cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
