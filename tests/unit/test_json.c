/*
 * Writing JSON: what is written passes the strict scanner and decodes to what was given, bytes that
 * are no UTF-8 become U+FFFD, numbers read back the same; documents come from approved text only.
 */
#include "base/json.h"
#include "base/json_span.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cJSON.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static void test_put_string(void **state)
{
    (void)state;
    static const struct {
        struct span text;
        const char *want;
    } cases[] = {
        {{NULL, 0}, "\"\""},
        {{"plain text", 10}, "\"plain text\""},
        {{"\"\\/", 3}, "\"\\\"\\\\/\""},
        {{"\b\f\n\r\t", 5}, "\"\\b\\f\\n\\r\\t\""},
        {{"\0\x01\x0b\x1f", 4}, "\"\\u0000\\u0001\\u000b\\u001f\""},
        {{"\x7f<>&'", 5}, "\"\x7f<>&'\""},
        {{"h\xc3\xa9 \xe4\xb8\x96 \xf0\x9f\x8c\x8d", 12},
         "\"h\xc3\xa9 \xe4\xb8\x96 \xf0\x9f\x8c\x8d\""},
        {{"\xe2\x80\xa8\xe2\x80\xa9", 6}, "\"\xe2\x80\xa8\xe2\x80\xa9\""},
        {{"\xff", 1}, "\"" FFFD "\""},
        {{"a\xc3", 2}, "\"a" FFFD "\""},
        {{"\xc3(", 2}, "\"" FFFD "(\""},
        {{"\xed\xa0\x80x", 4}, "\"" FFFD FFFD FFFD "x\""},
        {{"\xc0\x80", 2}, "\"" FFFD FFFD "\""},
        {{"\xf4\x90\x80\x80", 4}, "\"" FFFD FFFD FFFD FFFD "\""},
        {{"\xe4\xb8\"", 3}, "\"" FFFD FFFD "\\\"\""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf b;
        buf_init(&b, 1000);
        json_put_string(&b, cases[i].text);
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_string_equal(buf_cstr(&b), cases[i].want);
        buf_clear(&b);
        json_put_escaped(&b, cases[i].text);
        assert_int_equal(b.len, strlen(cases[i].want) - 2);
        assert_memory_equal(b.len == 0 ? "" : b.p, cases[i].want + 1, b.len);
        buf_fini(&b);
    }
}

/* The string of `text` in JSON, scanned strictly and decoded again. */
static void round_trip(struct span text, struct span want)
{
    const struct json_rules rules = {.max_depth = 1};
    struct json_value v;
    struct json_fault fault;
    struct buf b;
    struct buf back;

    buf_init(&b, 10000);
    buf_init(&back, 10000);
    json_put_string(&b, text);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_int_equal(json_check_value(buf_span(&b), &rules, &v, &fault), ERR_OK);
    assert_int_equal(v.type, JSON_STRING);
    json_string_decode(v, &back, NULL);
    assert_true(span_eq(buf_span(&back), want));
    buf_fini(&b);
    buf_fini(&back);
}

/* Each byte at each place of a text longer than what is looked at in one step. */
static void test_every_byte_everywhere(void **state)
{
    (void)state;
    char text[70];
    char want[80];

    for (unsigned c = 0; c < 256; c++) {
        for (size_t at = 0; at < sizeof(text); at++) {
            memset(text, 'x', sizeof(text));
            text[at] = (char)c;
            memcpy(want, text, at + 1);
            size_t n = at + 1;
            if (c >= 0x80) {
                memcpy(want + at, FFFD, 3);
                n = at + 3;
            }
            memset(want + n, 'x', sizeof(text) - at - 1);
            n += sizeof(text) - at - 1;
            round_trip(span_of(text, sizeof(text)), span_of(want, n));
        }
    }
}

static void test_put_is_bounded(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 5);
    json_put_string(&b, SPAN("abc"));
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), "\"abc\"");
    buf_clear(&b);
    json_put_string(&b, SPAN("ab\n"));
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    buf_clear(&b);
    torture_fail_after(0);
    buf_fini(&b);
    json_put_string(&b, SPAN("abc"));
    torture_off();
    assert_int_equal(buf_status(&b), ERR_NOMEM);
    buf_fini(&b);
}

static void test_put_u64(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 100);
    json_put_u64(&b, 0);
    buf_put_char(&b, ' ');
    json_put_u64(&b, UINT64_MAX);
    buf_put_char(&b, ' ');
    json_put_u64(&b, UINT64_C(9007199254740993));
    assert_string_equal(buf_cstr(&b), "0 18446744073709551615 9007199254740993");
    buf_fini(&b);
}

static void test_put_double(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1, "-1"},
        {100, "100"},
        {30000, "30000"},
        {0.1, "0.1"},
        {0.7, "0.7"},
        {1.5, "1.5"},
        {0.1 + 0.2, "0.30000000000000004"},
        {123456.789, "123456.789"},
        {999999999999999, "999999999999999"},
        {9007199254740992, "9007199254740992"},
        {1e300, "1e+300"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {5e-324, "5e-324"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
        {NAN, "null"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf b;
        buf_init(&b, 100);
        json_put_double(&b, cases[i].v);
        assert_string_equal(buf_cstr(&b), cases[i].want);
        buf_fini(&b);
    }
}

/* Any bits that are a finite number: valid JSON, and the same number when read. */
static void test_double_reads_back(void **state)
{
    (void)state;
    const struct json_rules rules = {.max_depth = 1};
    uint64_t bits = UINT64_C(0x9e3779b97f4a7c15);
    struct buf b;

    buf_init(&b, 100);
    for (int i = 0; i < 20000; i++) {
        double v = 0;
        double back = 0;
        struct json_value value;
        struct json_fault fault;
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&v, &bits, sizeof(v));
        if (!isfinite(v)) {
            continue;
        }
        buf_clear(&b);
        json_put_double(&b, v);
        assert_int_equal(json_check_value(buf_span(&b), &rules, &value, &fault), ERR_OK);
        assert_true(json_number_double(value, &back));
        assert_memory_equal(&v, &back, sizeof(v));
    }
    buf_fini(&b);
}

static void test_document(void **state)
{
    (void)state;
    static const char text[] = " {\"a\":[1,true,null,\"x\\u00e9\"],\"b\":{}} ";
    const size_t n = sizeof(text) - 1;
    char exact[sizeof(text) - 1];

    memcpy(exact, text, n); /* no NUL behind it */
    struct cJSON *doc = json_document(span_of(exact, n), n);
    assert_non_null(doc);
    const struct cJSON *a = cJSON_GetObjectItemCaseSensitive(doc, "a");
    assert_int_equal(cJSON_GetArraySize(a), 4);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(a, 3)), "x\xc3\xa9");
    cJSON_Delete(doc);

    assert_null(json_document(span_of(exact, n), n - 1));
    assert_null(json_document(span_of(exact, n - 2), n)); /* cut */
    assert_null(json_document(SPAN(""), 100));
    assert_null(json_document((struct span){NULL, 0}, 100));
    assert_null(json_document(SPAN("{} x"), 100)); /* cJSON alone would take these */
    assert_null(json_document(SPAN("[01]"), 100));
    assert_null(json_document(SPAN("[\"\x01\"]"), 100));
    assert_null(json_document(SPAN("[\"\xff\"]"), 100));
}

/* DaveGamble/cJSON#246: nesting is bounded before cJSON recurses. */
static void test_document_depth(void **state)
{
    (void)state;
    char text[66];

    for (size_t depth = 31; depth <= 33; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct cJSON *doc = json_document(span_of(text, 2 * depth), 100);
        assert_int_equal(doc != NULL, depth <= 32);
        cJSON_Delete(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_string),     cmocka_unit_test(test_every_byte_everywhere),
        cmocka_unit_test(test_put_is_bounded), cmocka_unit_test(test_put_u64),
        cmocka_unit_test(test_put_double),     cmocka_unit_test(test_double_reads_back),
        cmocka_unit_test(test_document),       cmocka_unit_test(test_document_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
