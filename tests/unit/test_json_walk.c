/*
 * Walking what the scanner has validated: every value is found again, strings decode (escapes,
 * surrogates, pairs cut in two strings), names compare decoded, numbers keep their precision.
 */
#include "base/json_span.h"
#include "base/text.h"
#include "fixtures/json_texts.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static struct json_value value_of(struct span text)
{
    const struct json_rules rules = {.max_depth = 128, .allow_lone_surrogate = true};
    struct json_value v;
    struct json_fault fault;

    if (json_check_value(text, &rules, &v, &fault) != ERR_OK) {
        fail_msg("%.*s: %s", (int)text.n, text.p, fault.what);
    }
    return v;
}

static struct json_value value_str(const char *text)
{
    return value_of(span_str(text));
}

/* The members and items of `v`, and theirs: types, texts and flags are those of a fresh scan. */
static size_t walk(struct json_value v, unsigned depth)
{
    struct json_value item;
    struct json_member member;
    size_t cursor = 0;
    size_t n = 1;

    struct json_value fresh = value_of(v.text);
    assert_int_equal(fresh.type, v.type);
    assert_int_equal(fresh.escaped, v.escaped);
    assert_true(span_eq(fresh.text, v.text));
    assert_true(depth < 128);
    while (json_array_next(v, &cursor, &item)) {
        n += walk(item, depth + 1);
    }
    while (json_object_next(v, &cursor, &member)) {
        assert_int_equal(member.key.type, JSON_STRING);
        n += walk(member.key, depth + 1) + walk(member.value, depth + 1);
    }
    assert_false(json_array_next(v, &cursor, &item));
    assert_false(json_object_next(v, &cursor, &member));
    return n;
}

static void test_walks_everything(void **state)
{
    (void)state;
    for (size_t i = 0; i < JSON_VALID_COUNT; i++) {
        (void)walk(value_of(json_valid[i]), 0);
    }
    assert_int_equal(walk(value_str("[]"), 0), 1);
    assert_int_equal(walk(value_str("[ ]"), 0), 1);
    assert_int_equal(walk(value_str("{ }"), 0), 1);
    assert_int_equal(walk(value_str("[1,[2,3],{\"a\":4}]"), 0), 8);
    assert_int_equal(walk(value_str(" [ 1 , [ 2 , 3 ] , { \"a\" : 4 } ] "), 0), 8);
    assert_int_equal(walk(value_str("[\"]\",\"}\",\",\",\"\\\"]\",\"\\\\\",{\"}\":\"{\"}]"), 0), 9);
    assert_int_equal(walk(value_str("{\"a\":{\"b\":[[[]]],\"c\":-1e5},\"d\":true}"), 0), 11);
}

static void test_array_items(void **state)
{
    (void)state;
    static const char *const want[] = {"1",           "\"a,]\\\"\"", "[2,[3]]",
                                       "{\"k\":[4]}", "null",        "true"};
    struct json_value v = value_str("[1 ,\"a,]\\\"\", [2,[3]],\n{\"k\":[4]},null\t,true ]");
    struct json_value item;
    size_t cursor = 0;
    size_t n = 0;

    while (json_array_next(v, &cursor, &item)) {
        assert_true(n < 6);
        assert_true(span_eq(item.text, span_str(want[n])));
        n++;
    }
    assert_int_equal(n, 6);
}

/* Not an array, not an object, nothing at all: no step, and nothing is read. */
static void test_wrong_types(void **state)
{
    (void)state;
    static const char *const texts[] = {"1", "\"[1]\"", "true", "null", "{\"a\":1}", "[\"a\",1]"};
    const struct json_value absent = {0};
    struct json_value item;
    struct json_member member;
    size_t cursor = 0;
    uint64_t u = 0;
    double d = 0;
    struct buf b;

    assert_false(json_array_next(absent, &cursor, &item));
    assert_false(json_object_next(absent, &cursor, &member));
    assert_int_equal(json_find(absent, "a").type, JSON_ABSENT);
    assert_false(json_string_is(absent, ""));
    assert_false(json_number_u64(absent, &u));
    assert_false(json_number_double(absent, &d));
    buf_init(&b, 10);
    json_string_decode(absent, &b, NULL);
    assert_int_equal(b.len, 0);
    for (size_t i = 0; i < 6; i++) {
        struct json_value v = value_str(texts[i]);
        cursor = 0;
        assert_int_equal(json_array_next(v, &cursor, &item), v.type == JSON_ARRAY);
        cursor = 0;
        assert_int_equal(json_object_next(v, &cursor, &member), v.type == JSON_OBJECT);
        assert_int_equal(json_find(v, "a").type, i == 4 ? JSON_NUMBER : JSON_ABSENT);
        assert_int_equal(json_number_double(v, &d), v.type == JSON_NUMBER);
        assert_int_equal(json_number_u64(v, &u), v.type == JSON_NUMBER);
    }
    buf_fini(&b);
}

static void test_find_and_get(void **state)
{
    (void)state;
    struct json_value v =
        value_str("{\"a\":{\"x\":0},\"\\u0062\":2,\"c\":[{\"x\":5}],\"x\":\"y\",\"\":3}");
    struct json_members m;
    struct json_fault fault;

    assert_int_equal(json_object_members(v, &m, &fault), ERR_OK);
    assert_int_equal(m.n, 5);
    assert_true(span_eq(json_get(&m, "x").text, SPAN("\"y\"")));
    assert_true(span_eq(json_get(&m, "b").text, SPAN("2")));
    assert_true(span_eq(json_get(&m, "").text, SPAN("3")));
    assert_int_equal(json_get(&m, "y").type, JSON_ABSENT);
    assert_true(span_eq(json_find(v, "x").text, SPAN("\"y\"")));
    assert_true(span_eq(json_find(v, "b").text, SPAN("2")));
    assert_true(span_eq(json_find(v, "").text, SPAN("3")));
    assert_true(span_eq(json_find(json_find(v, "a"), "x").text, SPAN("0")));
    assert_int_equal(json_find(v, "X").type, JSON_ABSENT);
    assert_int_equal(json_find(v, "a\\").type, JSON_ABSENT);
    assert_true(span_eq(json_find(value_str("{\"a\":1,\"a\":2}"), "a").text, SPAN("1")));
}

static void test_members_of_inner_objects(void **state)
{
    (void)state;
    struct json_members m;
    struct json_fault fault = {.offset = 0};
    struct json_value v = value_str("[ {\"k\":1, \"\\u006b\":2}]");
    struct json_value item;
    size_t cursor = 0;

    assert_true(json_array_next(v, &cursor, &item));
    assert_int_equal(json_object_members(item, &m, &fault), ERR_PROTO);
    assert_string_equal(fault.what, "duplicate key");
    assert_int_equal(fault.offset, 8); /* from the object's start */
    assert_int_equal(m.n, 1);
}

static void test_string_is(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name;
        bool equal;
    } cases[] = {
        {"\"\"", "", true},
        {"\"\"", "a", false},
        {"\"a\"", "", false},
        {"\"abc\"", "abc", true},
        {"\"abc\"", "ab", false},
        {"\"ab\"", "abc", false},
        {"\"a\\u0062c\"", "abc", true},
        {"\"a\\u0062c\"", "ab", false},
        {"\"a\\u0062\"", "abc", false},
        {"\"\\n\\t\\\"\\\\\\/\"", "\n\t\"\\/", true},
        {"\"\\\\u0061\"", "\\u0061", true},
        {"\"\\\\u0061\"", "a", false},
        {"\"\\u00E9\"", "\xc3\xa9", true},
        {"\"\\u00E9\"", "\xc3", false},
        {"\"\\ud83c\\udf0d\"", "\xf0\x9f\x8c\x8d", true},
        {"\"abc\\u0000\"", "abc", false}, /* a NUL is a character of the string, not its end */
        {"\"\\u0000\"", "", false},
        {"\"abc\\u0000def\"", "abc", false},
        {"\"a\\u0000b\"", "a", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *name = strdup(cases[i].name); /* exact memory: nothing behind its NUL may be read */
        assert_non_null(name);
        if (json_string_is(value_str(cases[i].text), name) != cases[i].equal) {
            fail_msg("%s against %s", cases[i].text, cases[i].name);
        }
        free(name);
    }
}

static void decodes(const char *text, struct span want, uint16_t *carry)
{
    struct buf b;

    buf_init(&b, 1000);
    json_string_decode(value_str(text), &b, carry);
    assert_int_equal(buf_status(&b), ERR_OK);
    if (!span_eq(buf_span(&b), want)) {
        fail_msg("%s became %s", text, buf_cstr(&b));
    }
    assert_true(text_utf8_valid(b.p, b.len));
    buf_fini(&b);
}

static void test_decode(void **state)
{
    (void)state;
    decodes("\"\"", SPAN(""), NULL);
    decodes("\"plain \xc3\xa9\"", SPAN("plain \xc3\xa9"), NULL);
    decodes("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", SPAN("\"\\/\b\f\n\r\t"), NULL);
    decodes("\"a\\u0000b\"", SPAN("a\0b"), NULL);
    decodes("\"\\u0041\\u00e9\\u4E16\\uffff\"", SPAN("A\xc3\xa9\xe4\xb8\x96\xef\xbf\xbf"), NULL);
    decodes("\"x\\ud83c\\udf0dy\"", SPAN("x\xf0\x9f\x8c\x8dy"), NULL);
    decodes("\"\\ud800\\udc00\\udbff\\udfff\"", SPAN("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), NULL);
    decodes("\"\\\\n\\\\u0041\"", SPAN("\\n\\u0041"), NULL);
    decodes("\"\\\\\\\\\"", SPAN("\\\\"), NULL);
    /* lone surrogates */
    decodes("\"\\ud83c\"", SPAN(FFFD), NULL);
    decodes("\"a\\udf0db\"", SPAN("a" FFFD "b"), NULL);
    decodes("\"\\udf0d\\ud83c\"", SPAN(FFFD FFFD), NULL);
    decodes("\"\\ud83c\\ud83c\\udf0d\"", SPAN(FFFD "\xf0\x9f\x8c\x8d"), NULL);
    decodes("\"\\ud83cx\"", SPAN(FFFD "x"), NULL);
    decodes("\"\\ud83c\\u0041\"", SPAN(FFFD "A"), NULL);
    decodes("\"\\ud83c\\\\udf0d\"", SPAN(FFFD "\\udf0d"), NULL);
    decodes("\"\\ud83c\\n\"", SPAN(FFFD "\n"), NULL);
}

/* A provider that cuts a pair between two deltas (the kind of api7/aisix#111). */
static void test_decode_carry(void **state)
{
    (void)state;
    uint16_t carry = 0;

    decodes("\"Hi \\ud83c\"", SPAN("Hi "), &carry);
    assert_int_equal(carry, 0xd83c);
    decodes("\"\"", SPAN(""), &carry); /* an empty piece changes nothing */
    assert_int_equal(carry, 0xd83c);
    decodes("\"\\udf0d!\"", SPAN("\xf0\x9f\x8c\x8d!"), &carry);
    assert_int_equal(carry, 0);

    decodes("\"\\ud83c\"", SPAN(""), &carry);
    decodes("\"x\"", SPAN(FFFD "x"), &carry);
    assert_int_equal(carry, 0);
    decodes("\"\\ud83c\"", SPAN(""), &carry);
    decodes("\"\\n\"", SPAN(FFFD "\n"), &carry);
    decodes("\"\\ud83c\"", SPAN(""), &carry);
    decodes("\"\\ud83d\"", SPAN(FFFD), &carry);
    assert_int_equal(carry, 0xd83d);
    decodes("\"\\ude00\\ud83c\"", SPAN("\xf0\x9f\x98\x80"), &carry);
    assert_int_equal(carry, 0xd83c);
    decodes("\"\\udf0d\\udf0d\"", SPAN("\xf0\x9f\x8c\x8d" FFFD), &carry);
    assert_int_equal(carry, 0);
    decodes("\"\\udf0d\"", SPAN(FFFD), &carry); /* nothing before it */
    decodes("\"\\ud83cx\\ud83c\\ud83c\"", SPAN(FFFD "x" FFFD), &carry);
    assert_int_equal(carry, 0xd83c);
    decodes("\"\\ud83c\\udf0d\"", SPAN(FFFD "\xf0\x9f\x8c\x8d"), &carry);
    assert_int_equal(carry, 0);
}

/* An emoji text as escapes, in two strings cut at every escape: the same text comes out. */
static void test_decode_at_every_cut(void **state)
{
    (void)state;
    static const char text[] = "\\ud83c\\udf0d\\u4e16\\ud83d\\ude00\\u0041\\ud83c\\udf0d";
    static const char want[] = "\xf0\x9f\x8c\x8d\xe4\xb8\x96\xf0\x9f\x98\x80"
                               "A\xf0\x9f\x8c\x8d";

    for (size_t cut = 0; cut <= sizeof(text) - 1; cut += 6) {
        struct buf piece;
        struct buf out;
        uint16_t carry = 0;
        buf_init(&piece, 200);
        buf_init(&out, 200);
        for (size_t half = 0; half < 2; half++) {
            buf_clear(&piece);
            buf_put_char(&piece, '"');
            buf_put(&piece, half == 0 ? text : text + cut,
                    half == 0 ? cut : sizeof(text) - 1 - cut);
            buf_put_char(&piece, '"');
            json_string_decode(value_of(buf_span(&piece)), &out, &carry);
            assert_true(text_utf8_valid(out.p, out.len));
        }
        assert_int_equal(carry, 0);
        assert_string_equal(buf_cstr(&out), want);
        buf_fini(&piece);
        buf_fini(&out);
    }
}

static void test_decode_fails(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 4);
    json_string_decode(value_str("\"ab\\n\\u00e9\""), &b, NULL);
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    assert_true(span_eq(buf_span(&b), SPAN("ab\n")));
    buf_fini(&b);
    torture_fail_after(0);
    json_string_decode(value_str("\"ab\\n\""), &b, NULL);
    torture_off();
    assert_int_equal(buf_status(&b), ERR_NOMEM);
    buf_fini(&b);
}

static void test_number_u64(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1", "-0", "1.0", "1e2", "18446744073709551616", "0.5", "1E+0", "99999999999999999999999"};
    uint64_t v = 0;

    assert_true(json_number_u64(value_str("0"), &v));
    assert_true(v == 0);
    assert_true(json_number_u64(value_str(" 9007199254740993 "), &v));
    assert_true(v == UINT64_C(9007199254740993));
    assert_true(json_number_u64(value_str("18446744073709551615"), &v));
    assert_true(v == UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(json_number_u64(value_str(bad[i]), &v));
    }
    assert_false(json_number_u64(value_str("\"1\""), &v));
    assert_true(v == UINT64_MAX);
}

static void is_double(const char *text, double want)
{
    double v = -1;

    assert_true(json_number_double(value_str(text), &v));
    if (memcmp(&v, &want, sizeof(v)) != 0) {
        fail_msg("%s became %.17g", text, v);
    }
}

static void test_number_double(void **state)
{
    (void)state;
    is_double("0", 0.0);
    is_double("-0", -0.0);
    is_double("0.000", 0.0);
    is_double("-0.0e5", -0.0);
    is_double("1", 1);
    is_double("10", 10);
    is_double("-12.50", -12.5);
    is_double("0.1", 0.1);
    is_double("0.0010", 0.001);
    is_double("100.001e-3", 0.100001);
    is_double("1e3", 1000);
    is_double("1E+3", 1000);
    is_double("25e-1", 2.5);
    is_double("1.7976931348623157e308", DBL_MAX);
    is_double("5e-324", 5e-324);
    is_double("1e400", INFINITY);
    is_double("-1e400", -INFINITY);
    is_double("1e-400", 0);
    is_double("1e99999999999999999999999999999", INFINITY);
    is_double("1e-99999999999999999999999999999", 0);
    is_double("0e99999999999999999999999999999", 0);
    is_double("9007199254740993", 9007199254740992.0);
    is_double("9007199254740993.0000000000000000000000001", 9007199254740994.0);
}

/* nst/JSONTestSuite#72: a number may be longer than any buffer that was thought to be enough. */
static void test_long_numbers(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 100000);
    for (size_t n = 1; n < 3000; n += 37) {
        buf_clear(&b);
        buf_put_char(&b, '1');
        for (size_t i = 0; i < n; i++) {
            buf_put_char(&b, '0');
        }
        buf_printf(&b, "e-%zu", n);
        is_double(buf_cstr(&b), 1);

        buf_clear(&b);
        buf_put_str(&b, "-0.");
        for (size_t i = 0; i < n; i++) {
            buf_put_char(&b, '0');
        }
        buf_printf(&b, "25e%zu", n + 1);
        is_double(buf_cstr(&b), -2.5);

        /* Half way between two doubles, but for a digit far behind. */
        buf_clear(&b);
        buf_put_str(&b, "9007199254740993.");
        for (size_t i = 0; i < n; i++) {
            buf_put_char(&b, '0');
        }
        buf_put_char(&b, '1');
        is_double(buf_cstr(&b), 9007199254740994.0);
        buf_put_str(&b, "e0");
        is_double(buf_cstr(&b), 9007199254740994.0);
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks_everything),
        cmocka_unit_test(test_array_items),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_find_and_get),
        cmocka_unit_test(test_members_of_inner_objects),
        cmocka_unit_test(test_string_is),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_carry),
        cmocka_unit_test(test_decode_at_every_cut),
        cmocka_unit_test(test_decode_fails),
        cmocka_unit_test(test_number_u64),
        cmocka_unit_test(test_number_double),
        cmocka_unit_test(test_long_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
