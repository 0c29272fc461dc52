/* Server-sent events: every form of the format, cut at each byte, at the limit and over it. */
#include "llm/sse.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct got {
    char text[4096];
    size_t n;
    size_t events;
    size_t stop_at; /* 0 = never */
};

static bool on_event(void *ctx, struct span event, struct span data)
{
    struct got *g = ctx;

    assert_non_null(event.p);
    assert_non_null(data.p);
    g->n += (size_t)snprintf(g->text + g->n, sizeof g->text - g->n, "<%.*s|%.*s>", (int)event.n,
                             event.p, (int)data.n, data.p);
    assert_true(g->n < sizeof g->text);
    g->events++;
    return g->events != g->stop_at;
}

/* Feeds `first` bytes, then pieces of `step`, each in memory of its own size; then the end. */
static enum err run(const char *bytes, size_t n, size_t first, size_t step, size_t max,
                    struct got *g)
{
    struct sse s;
    enum err err = ERR_OK;

    sse_init(&s, max);
    for (size_t at = 0; at < n && err == ERR_OK;) {
        size_t piece = at < first ? first - at : step;
        piece = piece < n - at ? piece : n - at;
        char *copy = malloc(piece);
        assert_non_null(copy);
        memcpy(copy, bytes + at, piece);
        err = sse_feed(&s, copy, piece, on_event, g);
        free(copy);
        at += piece;
    }
    if (err == ERR_OK) {
        err = sse_end(&s, on_event, g);
    }
    sse_fini(&s);
    return err;
}

static void check(const char *bytes, size_t n, const char *expected)
{
    for (size_t first = 0; first <= n; first++) {
        struct got g = {.n = 0};
        assert_int_equal(run(bytes, n, first, n + 1, 1024, &g), ERR_OK);
        assert_string_equal(g.text, expected);
    }
    for (size_t step = 1; step <= 4; step++) {
        struct got g = {.n = 0};
        assert_int_equal(run(bytes, n, 0, step, 1024, &g), ERR_OK);
        assert_string_equal(g.text, expected);
    }
}

static void test_forms(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"", ""},
        {"data: a\n\ndata: b\n\n", "<|a><|b>"},
        {"data: a\r\n\r\ndata: b\r\n\r\n", "<|a><|b>"},
        {"data: a\r\rdata: b\r\r", "<|a><|b>"},
        {"data: a\r\ndata: b\r\n\r\n", "<|a\nb>"},
        {"data: a\rdata: b\r\ndata: c\ndata: d\n\r\n", "<|a\nb\nc\nd>"},
        {"data: a\r\n\ndata: b\n\r\n\r\r", "<|a><|b>"},
        {"data:a\n\ndata:  b \n\n", "<|a><| b >"},
        {"data: a\ndata:\ndata: b\n\n", "<|a\n\nb>"},
        {"data\n\n", "<|>"},
        {"data:\n\n", "<|>"},
        {"data\ndata\n\n", "<|\n>"},
        {"\n\n\n", ""},
        /* Portkey-AI/gateway#1035 */
        {": ping\n\n:\ndata: a\n: between\ndata: b\n:\n\n: end\n\n", "<|a\nb>"},
        {"event: error\ndata: a\n\ndata: b\n\n", "<error|a><|b>"},
        {"event: x\n\ndata: a\n\n", "<|a>"}, /* an event without data is none, its name is gone */
        {"event: x\nevent: y\ndata: a\n\n", "<y|a>"},
        {"event\ndata: a\n\n", "<|a>"},
        {"id: 7\nretry: 10\nunknown: x\nda: y\ndata x: z\n data: w\ndata: a:b: c\n\n", "<|a:b: c>"},
        {"\xEF\xBB\xBF"
         "data: a\n\n",
         "<|a>"},
        {"\xEF\xBB\xBF\ndata: a\n\n\xEF\xBB\xBF"
         "data: b\n\n",
         "<|a>"}, /* only at the start */
        {"\xEF\xBB", ""},
        {"\xEF\xBB\xBF", ""},
        /* higress-group/higress#4146, #4248, PR #4620: no blank line, no line end */
        {"data: a\n\ndata: b\n", "<|a><|b>"},
        {"data: a\n\ndata: b", "<|a><|b>"},
        {"data: a\ndata: b", "<|a\nb>"},
        {"data: a\r", "<|a>"},
        {"data: [DONE]", "<|[DONE]>"},
        /* api7/aisix#111, katanemo/plano#980: nothing is decoded here, so nothing can break */
        {"data: \xE6\x97\xA5\xF0\x9F\x8E\x89\n\n", "<|\xE6\x97\xA5\xF0\x9F\x8E\x89>"},
        {"data: \xFF\xC0 \n\n", "<|\xFF\xC0 >"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check(cases[i].in, strlen(cases[i].in), cases[i].out);
    }
}

static void test_nul_bytes(void **state)
{
    struct got g = {.n = 0};
    struct sse s;

    (void)state;
    sse_init(&s, 16);
    assert_int_equal(sse_feed(&s, "da\0ta: x\n\ndata: a\0\n\n", 20, on_event, &g), ERR_OK);
    assert_int_equal(g.events, 1);
    assert_int_equal(sse_feed(&s, "x", 0, on_event, &g), ERR_OK);
    sse_fini(&s);
}

static void test_stop(void **state)
{
    static const char in[] = "data: a\n\ndata: b\n\ndata: c\n\ndata: d";

    (void)state;
    for (size_t stop = 1; stop <= 4; stop++) {
        for (size_t first = 0; first < sizeof in; first++) {
            struct got g = {.stop_at = stop};
            assert_int_equal(run(in, sizeof in - 1, first, 100, 64, &g), ERR_CLOSED);
            assert_int_equal(g.events, stop);
        }
    }
}

static enum err run_text(const char *text, size_t max, size_t step)
{
    struct got g = {.n = 0};

    return run(text, strlen(text), 0, step, max, &g);
}

static void test_limit(void **state)
{
    static const char *const fits[] = {
        "data: 12345678\n\n", "data:12345678", "data: 1234\ndata: 567",
        "event: 12345678\ndata: 12345678\n\ndata: 12345678\n\n", ": 123456789 1234567890 \n\n"};
    static const char *const over[] = {"data: 123456789\n\n",
                                       "data:123456789",
                                       "data: 1234\ndata: 5678",
                                       "event: 123456789\n\n",
                                       ": 123456789 123456789 123456789\n\n",
                                       "data: 1\ndata: 2\ndata: 3\ndata: 4\ndata: 5\n",
                                       "123456789 123456789 123456789",
                                       "\xEF\xBB\xBF: 123456789 1234567890\n"};

    (void)state;
    for (size_t step = 1; step < 64; step++) {
        for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
            assert_int_equal(run_text(fits[i], 8, step), ERR_OK);
        }
        for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
            assert_int_equal(run_text(over[i], 8, step), ERR_LIMIT);
        }
    }
}

static void test_allocation_failures(void **state)
{
    static const char in[] = "event: x\ndata: a long enough text\ndata: b\n\ndata: c";

    (void)state;
    for (size_t n = 0;; n++) {
        struct got g = {.n = 0};
        struct sse s;
        enum err err = ERR_OK;

        sse_init(&s, 1024);
        torture_fail_after(n);
        for (size_t i = 0; i < sizeof in - 1 && err == ERR_OK; i++) {
            err = sse_feed(&s, in + i, 1, on_event, &g);
        }
        if (err == ERR_OK) {
            err = sse_end(&s, on_event, &g);
        }
        size_t used = torture_count();
        torture_off();
        sse_fini(&s);
        if (used <= n) {
            assert_int_equal(err, ERR_OK);
            assert_string_equal(g.text, "<x|a long enough text\nb><|c>");
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
}

/* Memory is reused: after the first events, no allocation. */
static void test_no_allocation_per_event(void **state)
{
    struct got g = {.n = 0};
    struct sse s;

    (void)state;
    sse_init(&s, 1024);
    for (int i = 0; i < 100; i++) {
        if (i == 2) {
            torture_off();
        }
        g.n = 0;
        assert_int_equal(sse_feed(&s, "event: x\ndata: te", 17, on_event, &g), ERR_OK);
        assert_int_equal(sse_feed(&s, "xt\n\n", 4, on_event, &g), ERR_OK);
    }
    assert_int_equal(torture_count(), 0);
    assert_int_equal(g.events, 100);
    sse_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_no_allocation_per_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
