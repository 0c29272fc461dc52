/*
 * JSON where one step of the scanner or the walk ends and the next begins: white space in every
 * gap, special bytes at every offset and alignment, surrogates cut over two strings in every
 * combination, a NUL in a key wherever the key is, and a string of 32 MiB.
 */
#include "base/json.h"
#include "base/json_span.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static const struct json_rules strict = {.max_depth = 128};
static const struct json_rules lenient = {.max_depth = 128, .allow_lone_surrogate = true};

static bool passes(struct span text, const struct json_rules *rules, struct json_value *v)
{
    struct json_fault fault;

    return json_check_value(text, rules, v, &fault) == ERR_OK;
}

static void is_text(struct json_value v, enum json_type type, const char *text)
{
    assert_int_equal(v.type, type);
    assert_true(span_eq(v.text, span_str(text)));
}

/* ---- white space ---- */

/* The tokens of one text; what stands between them is the test's. */
static const char *const tokens[] = {
    "{", "\"a\"", ":",       "[", "1e400", ",",     "{", "\"b\"",
    ":", "\" \"", "}",       ",", "[",     "]",     ",", "null",
    "]", ",",     "\"c d\"", ":", "{",     "\"e\"", ":", "9007199254740993",
    ",", "\"f\"", ":",       "{", "}",     "}",     "}"};
#define TOKENS (sizeof(tokens) / sizeof(tokens[0]))

/* The text with `space` in gap `gap` (0: before the first token), or in all when gap > TOKENS. */
static void put_tokens(struct buf *b, size_t gap, const char *space)
{
    buf_clear(b);
    for (size_t i = 0; i <= TOKENS; i++) {
        if (i == gap || gap > TOKENS) {
            buf_put_str(b, space);
        }
        if (i < TOKENS) {
            buf_put_str(b, tokens[i]);
        }
    }
    assert_int_equal(buf_status(b), ERR_OK);
}

/* Each value is found, and scalars are the bytes that came: 1e400 and 2^53+1 stay what they are. */
static void finds_all(struct json_value v)
{
    struct json_value item;
    struct json_member m;
    size_t cursor = 0;

    const struct json_value a = json_find(v, "a");
    assert_true(json_array_next(a, &cursor, &item));
    is_text(item, JSON_NUMBER, "1e400");
    assert_true(json_array_next(a, &cursor, &item));
    is_text(json_find(item, "b"), JSON_STRING, "\" \"");
    assert_true(json_array_next(a, &cursor, &item));
    assert_int_equal(item.type, JSON_ARRAY);
    assert_true(json_array_next(a, &cursor, &item));
    is_text(item, JSON_NULL, "null");
    assert_false(json_array_next(a, &cursor, &item));

    const struct json_value c = json_find(v, "c d");
    cursor = 0;
    assert_true(json_object_next(c, &cursor, &m));
    is_text(m.key, JSON_STRING, "\"e\"");
    is_text(m.value, JSON_NUMBER, "9007199254740993");
    assert_true(json_object_next(c, &cursor, &m));
    is_text(m.key, JSON_STRING, "\"f\"");
    assert_int_equal(m.value.type, JSON_OBJECT);
    assert_false(json_object_next(c, &cursor, &m));
    assert_int_equal(json_find(v, "b").type, JSON_ABSENT);
}

static void test_white_space_in_every_gap(void **state)
{
    (void)state;
    static const char *const spaces[] = {"", " ", "\t", "\n", "\r", "\r\n", " \t\n\r", "         "};
    struct buf b;

    buf_init(&b, 10000);
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        for (size_t gap = 0; gap <= TOKENS + 1; gap++) {
            struct json_value v;
            struct json_members m;
            struct json_fault fault;
            put_tokens(&b, gap, spaces[i]);
            assert_true(passes(buf_span(&b), &strict, &v));
            assert_int_equal(json_check_object(buf_span(&b), &strict, &m, &fault), ERR_OK);
            assert_int_equal(m.n, 2);
            assert_true(span_eq(json_get(&m, "a").text, json_find(v, "a").text));
            finds_all(v);
        }
    }
    buf_fini(&b);
}

/* A text that was approved as a whole, white space and all, is walked like the value in it. */
static void test_white_space_around_a_walk(void **state)
{
    (void)state;
    const struct json_value array = {.text = SPAN(" \t[ 1,[2] ]\r\n"), .type = JSON_ARRAY};
    const struct json_value object = {.text = SPAN("\n{\"a\" :1 } "), .type = JSON_OBJECT};
    const struct json_value none = {.text = SPAN(" \n[ ] "), .type = JSON_ARRAY};
    const struct json_value blank = {.text = SPAN("  "), .type = JSON_ARRAY};
    struct json_members m;
    struct json_fault fault;
    struct json_value item;
    size_t cursor = 0;

    assert_true(json_array_next(array, &cursor, &item));
    is_text(item, JSON_NUMBER, "1");
    assert_true(json_array_next(array, &cursor, &item));
    is_text(item, JSON_ARRAY, "[2]");
    assert_false(json_array_next(array, &cursor, &item));
    is_text(json_find(object, "a"), JSON_NUMBER, "1");
    assert_int_equal(json_object_members(object, &m, &fault), ERR_OK);
    assert_int_equal(m.n, 1);
    cursor = 0;
    assert_false(json_array_next(none, &cursor, &item));
    assert_false(json_array_next(blank, &cursor, &item));
}

/* What other languages take for white space is none, nor are comments. */
static void test_other_space_in_every_gap(void **state)
{
    (void)state;
    static const char *const spaces[] = {
        "\v",           "\f",           "\b",           "\x1f", "\x7f", "\xc2\xa0",
        "\xe2\x80\xa8", "\xe3\x80\x80", "\xef\xbb\xbf", "/**/", "#",    "//\n"};
    struct buf b;

    buf_init(&b, 10000);
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        for (size_t gap = 0; gap <= TOKENS; gap++) {
            struct json_value v;
            put_tokens(&b, gap, spaces[i]);
            assert_false(passes(buf_span(&b), &strict, &v));
        }
    }
    buf_fini(&b);
}

/* ---- steps of eight and thirty-two bytes ---- */

/*
 * A string of each length, with one escape or character at each offset, as key and as value, in
 * memory of exactly its length at each alignment: accepted, found again and decoded.
 */
static void one_at(const char *piece, size_t before, size_t after, size_t align)
{
    static const char *const decoded[] = {"",   "x",        "\"",           "\\",
                                          "\n", "\xc3\xa9", "\xe4\xb8\x96", "\xf0\x9f\x8c\x8d"};
    struct buf b;
    struct buf out;
    struct json_value v;
    struct json_member m;
    size_t cursor = 0;

    buf_init(&b, 1000);
    buf_init(&out, 1000);
    for (unsigned twice = 0; twice < 2; twice++) {
        buf_put_str(&b, twice == 0 ? "{\"" : "\":\"");
        for (size_t i = 0; i < before; i++) {
            buf_put_char(&b, 'b');
        }
        buf_put_str(&b, piece);
        for (size_t i = 0; i < after; i++) {
            buf_put_char(&b, 'a');
        }
    }
    buf_put_str(&b, "\"}");
    char *p = malloc(align + b.len);
    assert_non_null(p);
    memcpy(p + align, b.p, b.len);
    assert_true(passes(span_of(p + align, b.len), &strict, &v));
    assert_true(json_object_next(v, &cursor, &m));
    assert_int_equal(m.value.escaped, strchr(piece, '\\') != NULL);
    json_string_decode(m.key, &out, NULL);
    assert_true(json_string_is(m.value, buf_cstr(&out)));
    bool known = false;
    for (size_t i = 0; i < sizeof(decoded) / sizeof(decoded[0]); i++) {
        const size_t n = strlen(decoded[i]);
        known =
            known || (out.len == before + n + after && memcmp(out.p + before, decoded[i], n) == 0);
    }
    assert_true(known || out.len == 0);
    assert_false(json_object_next(v, &cursor, &m));
    free(p);
    buf_fini(&b);
    buf_fini(&out);
}

static void test_each_piece_at_every_offset(void **state)
{
    (void)state;
    static const char *const pieces[] = {"",
                                         "x",
                                         "\\\"",
                                         "\\\\",
                                         "\\n",
                                         "\\u00e9",
                                         "\xc3\xa9",
                                         "\xe4\xb8\x96",
                                         "\xf0\x9f\x8c\x8d",
                                         "\\ud83c\\udf0d"};

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        for (size_t before = 0; before < 42; before++) {
            for (size_t after = 0; after < 10; after += 3) {
                one_at(pieces[i], before, after, (before + after) % 8);
            }
        }
    }
}

/* What must be refused is refused at every offset, in keys and in values, under both rules. */
static void test_each_fault_at_every_offset(void **state)
{
    (void)state;
    static const struct span faults[] = {{"\0", 1},
                                         {"\x01", 1},
                                         {"\x1f", 1},
                                         {"\n", 1},
                                         {"\\x", 2},
                                         {"\\u12", 4},
                                         {"\x80", 1},
                                         {"\xc0\x80", 2},
                                         {"\xe0\x80\x80", 3},
                                         {"\xed\xa0\x80", 3},
                                         {"\xf4\x90\x80\x80", 4},
                                         {"\xf0\x9f\x8c", 3},
                                         {"\xff", 1}};
    struct buf b;
    struct json_value v;

    buf_init(&b, 1000);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        for (size_t before = 0; before < 42; before++) {
            for (unsigned key = 0; key < 2; key++) {
                buf_clear(&b);
                buf_put_str(&b, key != 0 ? "{\"" : "{\"k\":\"");
                for (size_t k = 0; k < before; k++) {
                    buf_put_char(&b, 'b');
                }
                buf_put_span(&b, faults[i]);
                buf_put_str(&b, key != 0 ? "--------\":1}" : "--------\"}");
                assert_false(passes(buf_span(&b), &strict, &v));
                assert_false(passes(buf_span(&b), &lenient, &v));
            }
        }
    }
    buf_fini(&b);
}

/* ---- NUL ---- */

/* A NUL in a key, raw or escaped, first, between or last, under up to 20 containers of each kind.
 */
static void test_nul_in_a_key_at_every_depth(void **state)
{
    (void)state;
    static const struct {
        struct span text;
        bool good;
    } inner[] = {{{"{\"\\u0000\":1}", 12}, false},
                 {{"{\"k\\u0000\":1}", 13}, false},
                 {{"{\"\\u0000k\":1}", 13}, false},
                 {{"{\"k\0\":1}", 8}, false},
                 {{"{\"a\":1,\"k\\u0000k\":1}", 20}, false},
                 {{"{\"k\":\"\\u0000\"}", 14}, true},
                 {{"{\"k\":\"\0\"}", 9}, false},
                 {{"{\"\\u0001\":1}", 12}, true},
                 {{"{\"\\\\u0000\":1}", 13}, true}};
    struct buf b;
    struct json_value v;

    buf_init(&b, 1000);
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        for (unsigned depth = 0; depth < 20; depth++) {
            for (unsigned kinds = 0; kinds < 4; kinds++) {
                buf_clear(&b);
                for (unsigned d = 0; d < depth; d++) {
                    buf_put_str(&b, (kinds >> d % 2 & 1u) != 0 ? "{\"o\":" : "[");
                }
                buf_put_span(&b, inner[i].text);
                for (unsigned d = depth; d-- > 0;) {
                    buf_put_char(&b, (kinds >> d % 2 & 1u) != 0 ? '}' : ']');
                }
                assert_int_equal(passes(buf_span(&b), &strict, &v), inner[i].good);
                assert_int_equal(passes(buf_span(&b), &lenient, &v), inner[i].good);
            }
        }
    }
    buf_fini(&b);
}

/* ---- surrogates cut over strings ---- */

#define UNITS 6
/* The last two are no low surrogate, though one has the place of it and one its digits. */
static const char *const unit_json[UNITS] = {"\\ud83c", "\\udf0d", "\\u0041",
                                             "x",       "\\ue000", "\\ndf0d"};
static const char *const unit_text[UNITS] = {FFFD, FFFD, "A", "x", "\xee\x80\x80", "\ndf0d"};
#define HIGH 0u
#define LOW  1u

/* `n` units, numbered by `code` in base UNITS. */
static void put_units(unsigned code, unsigned n, unsigned *units, size_t *count, struct buf *json)
{
    buf_clear(json);
    buf_put_char(json, '"');
    for (unsigned i = 0; i < n; i++, code /= UNITS) {
        units[*count] = code % UNITS;
        buf_put_str(json, unit_json[code % UNITS]);
        (*count)++;
    }
    buf_put_char(json, '"');
}

/* What all units together decode to; a high surrogate at the very end is not written. */
static bool expected(const unsigned *units, size_t n, struct buf *want)
{
    for (size_t i = 0; i < n; i++) {
        if (units[i] == HIGH && i + 1 == n) {
            return true;
        }
        if (units[i] == HIGH && units[i + 1] == LOW) {
            buf_put_str(want, "\xf0\x9f\x8c\x8d");
            i++;
        } else {
            buf_put_str(want, unit_text[units[i]]);
        }
    }
    return false;
}

static unsigned power(unsigned n)
{
    unsigned p = 1;

    while (n-- > 0) {
        p *= UNITS;
    }
    return p;
}

/* Two strings with a carry decode as one with all that was in them (the kind of api7/aisix#111). */
static void two_strings(unsigned code, unsigned first, unsigned second)
{
    unsigned units[8];
    size_t count = 0;
    uint16_t carry = 0;
    struct buf json;
    struct buf out;
    struct buf want;
    struct json_value v;

    buf_init(&json, 100);
    buf_init(&out, 100);
    buf_init(&want, 100);
    put_units(code, first, units, &count, &json);
    assert_true(passes(buf_span(&json), &lenient, &v));
    json_string_decode(v, &out, &carry);
    assert_int_equal(carry, expected(units, count, &want) ? 0xd83c : 0);
    assert_true(span_eq(buf_span(&out), buf_span(&want)));
    buf_clear(&want);
    put_units(code / power(first), second, units, &count, &json);
    assert_true(passes(buf_span(&json), &lenient, &v));
    json_string_decode(v, &out, &carry);
    assert_int_equal(carry, expected(units, count, &want) ? 0xd83c : 0);
    if (!span_eq(buf_span(&out), buf_span(&want))) {
        fail_msg("%u, %u + %u units: %s", code, first, second, buf_cstr(&out));
    }
    buf_fini(&json);
    buf_fini(&out);
    buf_fini(&want);
}

static void test_carry_in_every_combination(void **state)
{
    (void)state;
    for (unsigned first = 0; first <= 3; first++) {
        for (unsigned second = 0; second <= 3; second++) {
            for (unsigned code = 0; code < power(first + second); code++) {
                two_strings(code, first, second);
            }
        }
    }
}

static void test_surrogate_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *text;
    } cases[] = {
        {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
        {"\"\\ud800\\udfff\"", "\xf0\x90\x8f\xbf"},
        {"\"\\udbff\\udc00\"", "\xf4\x8f\xb0\x80"},
        {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
        {"\"\\ud800\"", FFFD},
        {"\"\\udbff\"", FFFD},
        {"\"\\udc00\"", FFFD},
        {"\"\\udfff\"", FFFD},
        {"\"\\ud7ff\\ue000\"", "\xed\x9f\xbf\xee\x80\x80"},
        {"\"\\ud7ff\\udc00\"", "\xed\x9f\xbf" FFFD},
        {"\"\\ud800\\udbff\"", FFFD FFFD},
        {"\"\\udc00\\udc00\"", FFFD FFFD},
        {"\"\\ud800\\ue000\"", FFFD "\xee\x80\x80"},
        {"\"\\ud800\\uffff\"", FFFD "\xef\xbf\xbf"},
        {"\"\\ud800dc00\"", FFFD "dc00"},
        {"\"\\ud800\\tdc00\"", FFFD "\tdc00"},
        {"\"\\ud800\\\\udc00\"", FFFD "\\udc00"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out;
        struct json_value v;
        buf_init(&out, 100);
        assert_true(passes(span_str(cases[i].json), &lenient, &v));
        json_string_decode(v, &out, NULL);
        assert_string_equal(buf_cstr(&out), cases[i].text);
        assert_true(json_string_is(v, cases[i].text));
        buf_fini(&out);
    }
}

/* ---- size ---- */

/* A message of the largest kind: one string of 32 MiB, whole and with one byte too few. */
static void test_string_of_32_mib(void **state)
{
    (void)state;
    const size_t n = (size_t)32 << 20;
    char *p = malloc(n + 8);
    struct json_members m;
    struct json_fault fault;
    struct json_value v;

    assert_non_null(p);
    memcpy(p, "{\"k\":\"", 6);
    memset(p + 6, 'x', n);
    memcpy(p + 6 + n, "\"}", 2);
    assert_int_equal(json_check_object(span_of(p, n + 8), &strict, &m, &fault), ERR_OK);
    assert_int_equal(m.n, 1);
    assert_int_equal(m.m[0].value.text.n, n + 2);
    assert_true(passes(span_of(p, n + 8), &strict, &v));
    assert_int_equal(json_find(v, "k").text.n, n + 2);
    assert_false(passes(span_of(p, n + 6), &strict, &v));
    p[n] = '\x1f';
    assert_int_equal(json_check_object(span_of(p, n + 8), &strict, &m, &fault), ERR_PROTO);
    assert_int_equal(fault.offset, n);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_white_space_in_every_gap),
        cmocka_unit_test(test_white_space_around_a_walk),
        cmocka_unit_test(test_other_space_in_every_gap),
        cmocka_unit_test(test_each_piece_at_every_offset),
        cmocka_unit_test(test_each_fault_at_every_offset),
        cmocka_unit_test(test_nul_in_a_key_at_every_depth),
        cmocka_unit_test(test_carry_in_every_combination),
        cmocka_unit_test(test_surrogate_bounds),
        cmocka_unit_test(test_string_of_32_mib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
