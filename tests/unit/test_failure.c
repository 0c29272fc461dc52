/* Failures: the table of statuses, messages cut and redacted, Retry-After, the JSON. */
#include "wire/failure.h"

#include "base/redact.h"
#include "base/text.h"
#include "fixtures/torture.h"
#include "tactus/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_json(const struct failure *f, const char *expected)
{
    struct buf b;

    buf_init(&b, 8192);
    failure_put_json(f, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void test_init(void **state)
{
    struct failure f;

    (void)state;
    memset(&f, 0x55, sizeof f);
    failure_init(&f, TACTUS_E_BAD_REQUEST, "params.%s must be a %s", "model", "string");
    assert_string_equal(f.message, "params.model must be a string");
    assert_json(&f, "{\"type\":\"BadRequest\",\"message\":\"params.model must be a string\"}");
    failure_init(&f, TACTUS_E_INTERNAL, "%s", "");
    assert_json(&f, "{\"type\":\"InternalError\",\"message\":\"\"}");
}

/* A text of `n` bytes: `lead` times 'a', then whole characters of three bytes. */
static char *long_text(size_t n, size_t lead)
{
    char *text = malloc(n + 4);

    assert_non_null(text);
    memset(text, 'a', n + 4);
    for (size_t i = lead; i + 3 <= n; i += 3) {
        memcpy(text + i, "\u65e5", 3);
    }
    text[n] = '\0';
    return text;
}

static void test_cut_on_character_bounds(void **state)
{
    (void)state;
    for (size_t lead = 0; lead < 3; lead++) {
        struct failure f;
        char *text = long_text(3000, lead);

        failure_init(&f, TACTUS_E_INTERNAL, "%s", text);
        assert_int_equal(strlen(f.message), FAILURE_MESSAGE_MAX - (FAILURE_MESSAGE_MAX - lead) % 3);
        assert_true(text_utf8_valid(f.message, strlen(f.message)));
        failure_set_message(&f, NULL, span_str(text));
        assert_int_equal(strlen(f.message), FAILURE_MESSAGE_MAX - (FAILURE_MESSAGE_MAX - lead) % 3);
        assert_memory_equal(f.message, text, strlen(f.message));
        free(text);
    }
    for (size_t n = FAILURE_MESSAGE_MAX - 1; n <= FAILURE_MESSAGE_MAX + 1; n++) {
        struct failure f;
        char *text = long_text(n, n);
        size_t expected = n > FAILURE_MESSAGE_MAX ? FAILURE_MESSAGE_MAX : n;

        failure_init(&f, TACTUS_E_INTERNAL, "%s", text);
        assert_int_equal(strlen(f.message), expected);
        failure_set_message(&f, NULL, span_of(text, n));
        assert_int_equal(strlen(f.message), expected);
        free(text);
    }
}

static void test_message_is_clean(void **state)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } cases[] = {
        {"", 0, ""},
        {"plain \u65e5\U0001F389", 13, "plain \u65e5\U0001F389"},
        {"a\r\nb\tc\x7F"
         "d\0e",
         10, "a  b c d e"},
        {"a\xC2\x85"
         "b\xC2\xA0"
         "c",
         7, "a b\u00a0c"},
        {"a\xFF\xE6\x97", 4, "a\uFFFD\uFFFD\uFFFD"},
        {"\xED\xA0\x80\xC0\xAF", 5, "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct failure f;
        failure_init(&f, TACTUS_E_INTERNAL, "x");
        failure_set_message(&f, NULL, span_of(cases[i].in, cases[i].n));
        assert_string_equal(f.message, cases[i].out);
    }
}

/* BerriAI/litellm#24902, #15799, graniet/llm#115: a secret is found before the text is cut. */
static void test_message_is_redacted(void **state)
{
    struct redact *r = redact_new();
    struct failure f;
    char *text = long_text(FAILURE_MESSAGE_MAX - 5, FAILURE_MESSAGE_MAX);
    char both[FAILURE_MESSAGE_MAX + 64];

    (void)state;
    assert_non_null(r);
    assert_int_equal(redact_add(r, SPAN("correct-horse-battery")), ERR_OK);
    failure_init(&f, TACTUS_E_INTERNAL, "x");
    failure_set_message(&f, r,
                        SPAN("key correct-horse-battery and sk-proj-abcdefghijklmnopqrstuvwx"));
    assert_string_equal(f.message, "key [redacted] and [redacted]");
    snprintf(both, sizeof both, "%s correct-horse-battery", text);
    failure_set_message(&f, r, span_str(both));
    assert_null(strstr(f.message, "corr"));
    assert_non_null(strstr(f.message, " [red"));
    free(text);
    redact_free(r);
}

static void test_statuses(void **state)
{
    static const struct {
        int status;
        const char *type;
        enum failure_flag retryable;
    } cases[] = {
        {100, TACTUS_E_API_RESPONSE, FAILURE_NO},    {204, TACTUS_E_API_RESPONSE, FAILURE_NO},
        {302, TACTUS_E_API_RESPONSE, FAILURE_NO},    {399, TACTUS_E_API_RESPONSE, FAILURE_NO},
        {400, TACTUS_E_API_BAD_REQUEST, FAILURE_NO}, {401, TACTUS_E_API_AUTHENTICATION, FAILURE_NO},
        {402, TACTUS_E_API_STATUS, FAILURE_NO},      {403, TACTUS_E_API_PERMISSION, FAILURE_NO},
        {404, TACTUS_E_API_NOT_FOUND, FAILURE_NO},   {405, TACTUS_E_API_STATUS, FAILURE_NO},
        {408, TACTUS_E_API_TIMEOUT, FAILURE_YES},    {409, TACTUS_E_API_CONFLICT, FAILURE_YES},
        {413, TACTUS_E_API_BAD_REQUEST, FAILURE_NO}, {422, TACTUS_E_API_UNPROCESSABLE, FAILURE_NO},
        {429, TACTUS_E_API_RATE_LIMIT, FAILURE_YES}, {499, TACTUS_E_API_STATUS, FAILURE_NO},
        {500, TACTUS_E_API_SERVER, FAILURE_YES},     {503, TACTUS_E_API_SERVER, FAILURE_YES},
        {529, TACTUS_E_API_SERVER, FAILURE_YES},     {599, TACTUS_E_API_SERVER, FAILURE_YES},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct failure f;
        failure_init(&f, TACTUS_E_INTERNAL, "kept");
        failure_from_status(&f, cases[i].status);
        assert_string_equal(f.type, cases[i].type);
        assert_int_equal(f.status, cases[i].status);
        assert_int_equal(f.retryable, cases[i].retryable);
        assert_string_equal(f.message, "kept");
    }
}

/* 1994-11-06T08:49:37Z */
#define NOW_MS 784111777000

static void test_retry_after(void **state)
{
    static const struct {
        const char *seconds;
        const char *ms;
        double expected; /* in ms, to compare whole numbers; -1000 = cannot be read */
    } cases[] = {
        {"", "", -1000},
        {"0", "", 0},
        {"12", "", 12000},
        {" 12 ", "", 12000},
        {"1.5", "", 1500},
        {"86400", "", 86400000},
        {"86401", "", 86400000},
        {"99999999999999999999999999999999", "", 86400000},
        {"-1", "", -1000},
        {"+1", "", -1000},
        {"1e3", "", -1000},
        {".5", "", -1000},
        {"5.", "", -1000},
        {"1.2.3", "", -1000},
        {"12 s", "", -1000},
        {"soon", "", -1000},
        {"7", "250", 250},
        {"", "250.0", 250},
        {"", "0", 0},
        {"7", "x", 7000},
        {"Sun, 06 Nov 1994 08:49:37 GMT", "", 0},
        {"Sun, 06 Nov 1994 08:50:07 GMT", "", 30000},
        {"Sunday, 06-Nov-94 08:50:07 GMT", "", 30000},
        {"Sun Nov  6 08:50:07 1994", "", 30000},
        {"Sun, 06 Nov 1994 08:49:00 GMT", "", 0}, /* past */
        {"Fri, 31 Dec 1999 23:59:59 GMT", "", 86400000},
        {"Sun, 06 Now 1994 08:50:07 GMT", "", -1000},
        {"Sun, 06 Nov 1994 08:50 GMT", "", -1000},
        {"Sun, 06 Nov 1994 24:50:07 GMT", "", -1000},
        {"Sun, 32 Nov 1994 08:50:07 GMT", "", -1000},
        {"Sun, 00 Nov 1994 08:50:07 GMT", "", -1000},
        {"Sun, 06 Nov 1994 08:50:07 0100", "", -1000},
        {"06 Nov 08:50:07", "", -1000},
        {"Sun, 06 Nov 99999 08:50:07 GMT", "", -1000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = failure_retry_after(cases[i].seconds, cases[i].ms, NOW_MS);
        if ((int64_t)(got * 1000) != (int64_t)cases[i].expected) {
            print_error("%s | %s\n", cases[i].seconds, cases[i].ms);
        }
        assert_int_equal((int64_t)(got * 1000), (int64_t)cases[i].expected);
    }
    assert_true(failure_retry_after(NULL, NULL, NOW_MS) < 0);
}

static void test_json(void **state)
{
    struct failure f;

    (void)state;
    failure_init(&f, TACTUS_E_API_RATE_LIMIT, "say \"%s\"", "\u65e5");
    failure_from_status(&f, 429);
    f.retry_after = 1.5;
    snprintf(f.provider, sizeof f.provider, "open\"ai");
    snprintf(f.request_id, sizeof f.request_id, "req_1");
    f.has_partial = true;
    f.partial_text_bytes = UINT64_MAX;
    assert_json(&f,
                "{\"type\":\"RateLimitError\",\"message\":\"say \\\"\u65e5\\\"\",\"status\":429,"
                "\"retryable\":true,\"retry_after\":1.5,\"provider\":\"open\\\"ai\","
                "\"request_id\":\"req_1\",\"partial_text_bytes\":18446744073709551615}");
    failure_init(&f, TACTUS_E_API_NOT_FOUND, "x");
    failure_from_status(&f, 404);
    f.retry_after = 0;
    f.has_partial = true;
    assert_json(&f,
                "{\"type\":\"NotFoundError\",\"message\":\"x\",\"status\":404,\"retryable\":false,"
                "\"retry_after\":0,\"partial_text_bytes\":0}");
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for (size_t n = 0;; n++) {
        struct failure f;

        failure_init(&f, TACTUS_E_INTERNAL, "x");
        torture_fail_after(n);
        failure_set_message(&f, NULL, SPAN("key sk-proj-abcdefghijklmnopqrstuvwx"));
        size_t used = torture_count();
        torture_off();
        if (used <= n) {
            assert_string_equal(f.message, "key [redacted]");
            break;
        }
        /* Rather nothing than a text that was not looked through. */
        assert_string_equal(f.message, "(the provider's message cannot be shown)");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_cut_on_character_bounds),
        cmocka_unit_test(test_message_is_clean),
        cmocka_unit_test(test_message_is_redacted),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
