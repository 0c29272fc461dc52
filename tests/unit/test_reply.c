/* Replies put together from events: what `done` and `delta` say, limits, allocation failures. */
#include "llm/reply.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct chat_event text_event(enum chat_event_kind kind, const char *text)
{
    return (struct chat_event){.kind = kind, .text = span_str(text)};
}

static struct chat_event piece(uint32_t call, const char *id, const char *name,
                               const char *arguments)
{
    return (struct chat_event){.kind = CHAT_EVENT_TOOL,
                               .tool = {call, span_str(id), span_str(name), span_str(arguments)}};
}

static struct chat_event usage(uint64_t p, uint64_t c, uint64_t t, uint64_t cached, uint64_t r)
{
    return (struct chat_event){.kind = CHAT_EVENT_USAGE, .usage = {p, c, t, cached, r}};
}

static struct chat_event finish(enum chat_finish f)
{
    return (struct chat_event){.kind = CHAT_EVENT_FINISH, .finish = f};
}

static void assert_done(const struct chat_event *events, size_t n, const char *expected)
{
    struct reply r;
    struct buf b;

    reply_init(&r, 4096);
    buf_init(&b, 8192);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(reply_add(&r, &events[i]), ERR_OK);
    }
    reply_put_done(&r, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
    reply_fini(&r);
}

#define ASSERT_DONE(expected, ...)                                                                 \
    do {                                                                                           \
        const struct chat_event events[] = {__VA_ARGS__};                                          \
        assert_done(events, sizeof events / sizeof events[0], expected);                           \
    } while (0)

#define ZEROS "\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}"
#define NO    CHAT_UNKNOWN

static void test_done_text(void **state)
{
    (void)state;
    assert_done(NULL, 0, "{\"text\":\"\"," ZEROS "}");
    ASSERT_DONE("{\"text\":\"Hello \u65e5\U0001F389\\n\\\"\\\\\\u0001\"," ZEROS
                ",\"finish_reason\":\"stop\",\"model\":\"m\\\"1\"}",
                text_event(CHAT_EVENT_MODEL, "m\"1"), text_event(CHAT_EVENT_TEXT, "Hello "),
                text_event(CHAT_EVENT_REASONING, "not in it"),
                text_event(CHAT_EVENT_MODEL, "not the second"),
                text_event(CHAT_EVENT_TEXT, "\u65e5\U0001F389\n\"\\\x01"), finish(CHAT_FINISH_STOP),
                finish(CHAT_FINISH_NONE));
    ASSERT_DONE("{\"text\":\"\"," ZEROS ",\"finish_reason\":\"content_filter\"}",
                finish(CHAT_FINISH_STOP), finish(CHAT_FINISH_CONTENT_FILTER));
}

static void test_done_usage(void **state)
{
    (void)state;
    /* envoyproxy/ai-gateway#2279, modelbus/one-api-pro#13: the last one counts, nothing is added */
    ASSERT_DONE("{\"text\":\"\",\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
                "\"total_tokens\":10,\"cached_tokens\":0,\"reasoning_tokens\":1}}",
                usage(7, 1, 8, 5, NO), usage(7, 2, 10, 0, 1));
    ASSERT_DONE("{\"text\":\"\",\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
                "\"total_tokens\":9}}",
                usage(7, 2, NO, NO, NO));
    ASSERT_DONE("{\"text\":\"\",\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":2,"
                "\"total_tokens\":2}}",
                usage(NO, 2, NO, NO, NO));
    ASSERT_DONE(
        "{\"text\":\"\",\"usage\":{\"prompt_tokens\":18446744073709551614,"
        "\"completion_tokens\":18446744073709551614,\"total_tokens\":18446744073709551614}}",
        usage(NO - 1, NO - 1, NO, NO, NO));
}

#define CALL(id, name, args)                                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":\"" args "\"}}"

static void test_done_tools(void **state)
{
    (void)state;
    ASSERT_DONE("{\"text\":\"\"," ZEROS
                ",\"tool_calls\":[" CALL("a", "f", "{\\\"x\\\":1}") "," CALL(
                    "call_1", "g", "") "],\"finish_reason\":\"tool_calls\"}",
                piece(0, "a", "f", ""), piece(0, "", "", "{\"x\""), piece(1, "", "g", ""),
                piece(0, "b", "h", ":1}"), finish(CHAT_FINISH_TOOL_CALLS));
    /* An id may come after the first piece. */
    ASSERT_DONE("{\"text\":\"\"," ZEROS ",\"tool_calls\":[" CALL("a", "f", "{}") "]}",
                piece(0, "", "f", "{"), piece(0, "a", "", "}"));
    /* pipecat-ai/pipecat#4987: never a phantom; nothing at all when only phantoms came */
    ASSERT_DONE("{\"text\":\"\"," ZEROS "}", piece(0, "a", "", "{}"));
    ASSERT_DONE("{\"text\":\"\"," ZEROS ",\"tool_calls\":[" CALL("call_1", "f", "{}") "]}",
                piece(0, "a", "", "{}"), piece(1, "", "f", "{}"));
    /* endolith/open-interpreter#291: a call that was cut is not sent */
    ASSERT_DONE("{\"text\":\"\"," ZEROS
                ",\"tool_calls\":[" CALL("a", "f", "{}") "],\"finish_reason\":\"length\"}",
                piece(0, "a", "f", "{}"), piece(1, "b", "f", "{\"rm"), piece(2, "c", "f", ""),
                finish(CHAT_FINISH_LENGTH));
    ASSERT_DONE("{\"text\":\"\"," ZEROS ",\"finish_reason\":\"content_filter\"}",
                piece(0, "a", "f", "{\"rm"), finish(CHAT_FINISH_CONTENT_FILTER));
    /* Not cut: what the model wrote stays as it is. */
    ASSERT_DONE("{\"text\":\"\"," ZEROS
                ",\"tool_calls\":[" CALL("a", "f", "{rm") "],\"finish_reason\":\"stop\"}",
                piece(0, "a", "f", "{rm"), finish(CHAT_FINISH_STOP));
}

static void assert_delta(struct chat_event event, const char *expected)
{
    struct buf b;

    buf_init(&b, 1024);
    reply_put_delta(&event, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static struct chat_event signature(const char *data, bool encrypted)
{
    return (struct chat_event){
        .kind = CHAT_EVENT_SIGNATURE,
        .signature = {.data = span_str(data), .format = "f", .encrypted = encrypted}};
}

/* What must come back, in order; reasoning that nobody signed need not. */
static void test_done_details(void **state)
{
    struct chat_event of_call = signature("c\"", false);

    (void)state;
    of_call.signature.of_call = true;
    ASSERT_DONE("{\"text\":\"t\"," ZEROS
                ",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"a\\\"b\","
                "\"signature\":\"s1\",\"format\":\"f\"},{\"type\":\"reasoning.encrypted\",\"data\":"
                "\"x\",\"format\":\"f\"},{\"type\":\"reasoning.text\",\"text\":\"c\"}]}",
                text_event(CHAT_EVENT_REASONING, "a\""), text_event(CHAT_EVENT_REASONING, "b"),
                signature("s1", false), signature("x", true), text_event(CHAT_EVENT_TEXT, "t"),
                text_event(CHAT_EVENT_REASONING, "c"));
    ASSERT_DONE("{\"text\":\"\"," ZEROS
                ",\"tool_calls\":[{\"id\":\"call_0\",\"type\":\"function\",\"function\":{\"name\":"
                "\"f\",\"arguments\":\"{}\"}}],\"reasoning_details\":[{\"type\":"
                "\"reasoning.encrypted\",\"data\":\"c\\\"\",\"id\":\"call_0\",\"format\":\"f\"}]}",
                piece(0, "", "f", "{}"), of_call);
}

static void test_done_cost(void **state)
{
    static const struct {
        enum reply_cost cost;
        uint64_t nano;
        const char *expected;
    } rows[] = {{REPLY_COST_UNSAID, 7, ""},
                {REPLY_COST_UNKNOWN, 7, ",\"cost_usd\":null"},
                {REPLY_COST_KNOWN, 1234567, ",\"cost_usd\":0.001234567"},
                {REPLY_COST_KNOWN, 0, ",\"cost_usd\":0"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct reply r;
        struct buf b;
        char expected[256];
        reply_init(&r, 64);
        buf_init(&b, 1024);
        r.cost = rows[i].cost;
        r.cost_nano = rows[i].nano;
        reply_put_done(&r, &b);
        snprintf(expected, sizeof expected,
                 "{\"text\":\"\",\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,"
                 "\"total_tokens\":0%s}}",
                 rows[i].expected);
        assert_string_equal(buf_cstr(&b), expected);
        buf_fini(&b);
        reply_fini(&r);
    }
}

static void test_delta(void **state)
{
    (void)state;
    assert_delta(text_event(CHAT_EVENT_TEXT, "a\"\u65e5\n"), "{\"text\":\"a\\\"\u65e5\\n\"}");
    assert_delta(text_event(CHAT_EVENT_REASONING, "hm"), "{\"reasoning\":\"hm\"}");
    assert_delta(
        piece(0, "a\"", "f", "{\"x\""),
        "{\"tool_calls\":[{\"index\":0,\"id\":\"a\\\"\",\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\"\"}}]}");
    assert_delta(piece(12, "", "", "1}"),
                 "{\"tool_calls\":[{\"index\":12,\"function\":{\"arguments\":\"1}\"}}]}");
    assert_delta(piece(1, "", "f", ""), "{\"tool_calls\":[{\"index\":1,\"type\":\"function\","
                                        "\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}");
    assert_delta(piece(1, "late", "", ""), "{\"tool_calls\":[{\"index\":1,\"id\":\"late\","
                                           "\"function\":{\"arguments\":\"\"}}]}");
}

static void test_limit(void **state)
{
    struct reply r;
    struct chat_event four = text_event(CHAT_EVENT_TEXT, "\x01\x02\x03\x04");
    struct chat_event one = text_event(CHAT_EVENT_TEXT, "x");
    struct chat_event call = piece(0, "a", "f", "12");

    (void)state;
    reply_init(&r, 8);
    assert_int_equal(reply_add(&r, &four), ERR_OK); /* 24 bytes once escaped: not what counts */
    assert_int_equal(r.text_bytes, 4);
    assert_int_equal(reply_add(&r, &call), ERR_OK);
    assert_int_equal(r.held_bytes, 8);
    assert_int_equal(reply_add(&r, &one), ERR_LIMIT);
    call = piece(0, "", "", "x");
    assert_int_equal(reply_add(&r, &call), ERR_LIMIT);
    assert_int_equal(r.text_bytes, 4);
    reply_fini(&r);

    reply_init(&r, SIZE_MAX);
    assert_int_equal(reply_add(&r, &four), ERR_OK);
    reply_fini(&r);
}

static void test_call_limit(void **state)
{
    struct reply r;
    struct chat_event gap = piece(2, "", "f", "");

    (void)state;
    reply_init(&r, 4096);
    for (uint32_t i = 0; i < REPLY_CALLS_MAX; i++) {
        struct chat_event event = piece(i, "", "f", "");
        assert_int_equal(reply_add(&r, &event), ERR_OK);
    }
    assert_int_equal(r.ncalls, REPLY_CALLS_MAX);
    struct chat_event more = piece(REPLY_CALLS_MAX, "", "f", "");
    assert_int_equal(reply_add(&r, &more), ERR_LIMIT);
    reply_fini(&r);

    reply_init(&r, 4096);
    assert_int_equal(reply_add(&r, &gap), ERR_BUG);
    assert_int_equal(r.ncalls, 0);
    reply_fini(&r);
}

static void test_allocation_failures(void **state)
{
    const struct chat_event events[] = {
        text_event(CHAT_EVENT_MODEL, "m"), text_event(CHAT_EVENT_TEXT, "some text\n"),
        piece(0, "a", "f", "{\"x\""),      piece(1, "b", "g", "{}"),
        piece(2, "", "g", "{}"),           piece(3, "", "g", "{}"),
        piece(4, "", "g", "{}"),           piece(0, "", "", ":1}"),
        finish(CHAT_FINISH_TOOL_CALLS),
    };

    (void)state;
    for (size_t n = 0;; n++) {
        struct reply r;
        struct buf b;
        enum err err = ERR_OK;

        reply_init(&r, 4096);
        buf_init(&b, 8192);
        torture_fail_after(n);
        for (size_t i = 0; i < sizeof events / sizeof events[0] && err == ERR_OK; i++) {
            err = reply_add(&r, &events[i]);
        }
        if (err == ERR_OK) {
            reply_put_done(&r, &b);
            err = buf_status(&b);
        }
        size_t used = torture_count();
        torture_off();
        reply_fini(&r);
        buf_fini(&b);
        if (used <= n) {
            assert_int_equal(err, ERR_OK);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_text),
        cmocka_unit_test(test_done_usage),
        cmocka_unit_test(test_done_tools),
        cmocka_unit_test(test_done_details),
        cmocka_unit_test(test_done_cost),
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_call_limit),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
