/*
 * The strict scanner's validating pass: what RFC 8259 allows and forbids (the kinds of nst/
 * JSONTestSuite), depth and member limits, duplicate keys, faults and where they are, texts cut at
 * every byte. Every text lies in memory of exactly its length, so a sanitizer sees a read behind
 * it.
 */
#include "base/json_span.h"
#include "fixtures/json_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const struct json_rules strict = {.max_depth = 128};
static const struct json_rules lenient = {.max_depth = 128, .allow_lone_surrogate = true};

static char *exact_copy(struct span text)
{
    char *p = malloc(text.n == 0 ? 1 : text.n);

    assert_non_null(p);
    if (text.n > 0) {
        memcpy(p, text.p, text.n);
    }
    return p;
}

static enum err check(struct span text, const struct json_rules *rules, enum json_type *type)
{
    char *p = exact_copy(text);
    struct json_value v = {.type = JSON_ABSENT};
    struct json_fault fault = {.offset = SIZE_MAX};
    enum err err = json_check_value(span_of(p, text.n), rules, &v, &fault);

    if (err == ERR_OK) {
        assert_int_equal(fault.offset, SIZE_MAX); /* untouched */
        assert_true(v.text.p >= p && v.text.p + v.text.n <= p + text.n);
        assert_int_not_equal(v.type, JSON_ABSENT);
    } else {
        assert_int_equal(err, ERR_PROTO);
        assert_true(fault.offset <= text.n);
        assert_non_null(fault.what);
        assert_int_equal(v.type, JSON_ABSENT);
    }
    *type = v.type;
    free(p);
    return err;
}

static void must_pass(struct span text, const struct json_rules *rules)
{
    enum json_type type = JSON_ABSENT;

    if (check(text, rules, &type) != ERR_OK) {
        fail_msg("refused: %.*s", (int)text.n, text.p);
    }
}

static void must_fail(struct span text, const struct json_rules *rules)
{
    enum json_type type = JSON_ABSENT;

    if (check(text, rules, &type) == ERR_OK) {
        fail_msg("taken: %.*s", (int)text.n, text.p);
    }
}

static void test_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < JSON_VALID_COUNT; i++) {
        must_pass(json_valid[i], &strict);
        must_pass(json_valid[i], &lenient);
    }
}

static void test_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < JSON_INVALID_COUNT; i++) {
        must_fail(json_invalid[i], &strict);
        must_fail(json_invalid[i], &lenient);
    }
}

static void test_surrogates(void **state)
{
    (void)state;
    static const struct span lone[] = {
        TEXT("\"\\ud800\""),
        TEXT("\"\\udbff\""),
        TEXT("\"\\udc00\""),
        TEXT("\"\\udfff\""),
        TEXT("\"\\udc00\\udc00\""),
        TEXT("\"\\ud800x\""),
        TEXT("\"\\ud800\\n\""),
        TEXT("\"\\ud800\\ud800\""),
        TEXT("\"\\ud800\\u0041\""),
        TEXT("\"\\udc00\\ud800\""),
        TEXT("\"\\ud800\\ue000\""),
        TEXT("\"\\ud800\\udbff\""),
        TEXT("\"\\ud83c\\udf0d\\udf0d\""),
        TEXT("{\"\\ud800\":1}"),
        TEXT("[\"\\uDFAA\"]"),
        TEXT("\"\\ud800\xc3\xa9\""),
        TEXT("\"\\ud800 \\udc00\""),
    };
    static const struct span never[] = {
        TEXT("\"\\ud800\\u\""), TEXT("\"\\ud800\\u12\""), TEXT("\"\\ud800\\"),
        TEXT("\"\\ud800\\x\""), TEXT("\"\\ud800\\u"),     TEXT("\"\\ud800\\udc0g\""),
    };

    for (size_t i = 0; i < sizeof(lone) / sizeof(lone[0]); i++) {
        must_fail(lone[i], &strict);
        must_pass(lone[i], &lenient);
    }
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        must_fail(never[i], &strict);
        must_fail(never[i], &lenient);
    }
}

/* DaveGamble/cJSON#246 and its kin: a NUL hides the rest of a key from whoever uses C strings. */
static void test_nul(void **state)
{
    (void)state;
    must_pass(SPAN("{\"a\":\"\\u0000\"}"), &strict);
    must_pass(SPAN("{\"a\":\"\\u0000\"}"), &lenient);
    must_pass(SPAN("{\"\\\\u0000\":1}"), &strict);
    must_fail(SPAN("{\"\\u0000\":1}"), &strict);
    must_fail(SPAN("{\"id\\u0000x\":1}"), &strict);
    must_fail(SPAN("{\"id\\u0000x\":1}"), &lenient);
    must_fail(SPAN("[{\"a\":{\"\\u0000\":1}}]"), &strict);
    must_fail(SPAN("[1,{\"a\":1,\"\\u0000\":1}]"), &strict);
    must_fail(SPAN("{\"a\0\":1}"), &strict);
    must_fail(SPAN("{\"\\ud800\\u0000\":1}"), &lenient);
}

/* Every prefix of a text that ends with its own closing byte is no text. */
static void test_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < JSON_VALID_COUNT; i++) {
        const char last = json_valid[i].p[json_valid[i].n - 1];
        if (strchr("}]\"el", last) == NULL) {
            continue; /* numbers and white space: a prefix may be complete */
        }
        for (size_t n = 0; n < json_valid[i].n; n++) {
            must_fail(span_of(json_valid[i].p, n), &strict);
        }
    }
}

/* Any byte at any place of a string longer than one step of the scanner. */
static void test_every_byte_everywhere(void **state)
{
    (void)state;
    char text[72];
    enum json_type type = JSON_ABSENT;

    for (unsigned c = 0; c < 256; c++) {
        const bool good = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
        for (size_t at = 1; at < sizeof(text) - 1; at++) {
            memset(text, 'x', sizeof(text));
            text[0] = '"';
            text[sizeof(text) - 1] = '"';
            text[at] = (char)c;
            if ((check(span_of(text, sizeof(text)), &strict, &type) == ERR_OK) != good) {
                fail_msg("byte %02x at %zu", c, at);
            }
        }
    }
}

/* Two special bytes beside each other: the first must not hide or invent the second. */
static void test_byte_pairs(void **state)
{
    (void)state;
    static const char odd[] = {'\0', '\x1f', ' ', '!', '"', '#', '[', '\\', ']', '\x7f', '\x01'};
    char text[24];
    enum json_type type = JSON_ABSENT;

    for (size_t a = 0; a < sizeof(odd); a++) {
        for (size_t b = 0; b < sizeof(odd); b++) {
            bool good = odd[a] >= 0x20 && odd[b] >= 0x20 && odd[a] != '"' && odd[b] != '"' &&
                        odd[a] != '\\' && odd[b] != '\\';
            good = good || (odd[a] == '\\' && (odd[b] == '"' || odd[b] == '\\'));
            for (size_t at = 1; at < sizeof(text) - 2; at++) {
                memset(text, 'x', sizeof(text));
                text[0] = '"';
                text[sizeof(text) - 1] = '"';
                text[at] = odd[a];
                text[at + 1] = odd[b];
                if ((check(span_of(text, sizeof(text)), &strict, &type) == ERR_OK) != good) {
                    fail_msg("bytes %02x %02x at %zu", odd[a], odd[b], at);
                }
            }
        }
    }
}

static void nested(const char *open, const char *middle, const char *close, unsigned depth,
                   const struct json_rules *rules, bool good)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    for (unsigned i = 0; i < depth; i++) {
        buf_put_str(&b, open);
    }
    buf_put_str(&b, middle);
    for (unsigned i = 0; i < depth; i++) {
        buf_put_str(&b, close);
    }
    assert_int_equal(buf_status(&b), ERR_OK);
    if (good) {
        must_pass(buf_span(&b), rules);
    } else {
        must_fail(buf_span(&b), rules);
    }
    buf_fini(&b);
}

static void test_depth(void **state)
{
    (void)state;
    static const unsigned limits[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, JSON_DEPTH_MAX};

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        const struct json_rules rules = {.max_depth = limits[i]};
        for (unsigned more = 0; more <= 1; more++) {
            const unsigned depth = limits[i] + more;
            nested("[", "", "]", depth, &rules, more == 0);
            nested("[", "1", "]", depth, &rules, more == 0);
            nested("{\"a\":", "1", "}", depth, &rules, more == 0);
            nested(" [ {} , ", "0", " ] ", depth - 1, &rules, depth - 1 < limits[i]);
        }
        nested("[{\"k\":", "null", "}]", limits[i] / 2, &rules, true);
        nested("[{\"k\":", "null", "}]", limits[i] / 2 + 1, &rules, false);
        nested("{\"k\":[0,", "null", "]}", limits[i] / 2, &rules, true);
        nested("{\"k\":[0,", "null", "}]", limits[i] / 2 + 1, &rules, false);
    }
    const struct json_rules above = {.max_depth = JSON_DEPTH_MAX + 100};
    nested("[", "", "]", JSON_DEPTH_MAX, &above, true);
    nested("[", "", "]", JSON_DEPTH_MAX + 1, &above, false);
    nested("[", "", "", 100000, &strict, false); /* n_structure_100000_opening_arrays */
    nested("[{\"\":", "", "", 50000, &strict, false);
}

/* Brackets must close in the order that they opened, over the words that hold the bits. */
static void test_kinds_of_containers_are_kept(void **state)
{
    (void)state;
    const struct json_rules deep = {.max_depth = JSON_DEPTH_MAX};

    for (unsigned wrong = 0; wrong < 200; wrong++) {
        struct buf b;
        buf_init(&b, 10000);
        for (unsigned i = 0; i < 200; i++) {
            buf_put_str(&b, i % 3 == 0 ? "[" : "{\"a\":");
        }
        buf_put_str(&b, "1");
        const size_t closing = b.len;
        for (unsigned i = 200; i-- > 0;) {
            buf_put_char(&b, i % 3 == 0 ? ']' : '}');
        }
        must_pass(buf_span(&b), &deep);
        char *p = b.p + closing + wrong;
        *p = *p == ']' ? '}' : ']';
        must_fail(buf_span(&b), &deep);
        buf_fini(&b);
    }
}

static void test_fault_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t offset;
    } cases[] = {
        {"", 0},          {"   ", 3},           {"  x", 2},
        {"[1,]", 3},      {"[1 2]", 3},         {"{\"a\":1,}", 7},
        {"{\"a\" 1}", 5}, {"[\"abc\x01\"]", 5}, {"[\"abcdefghijk\xff\"]", 13},
        {"[\"\\q\"]", 3}, {"[\"\\u00x0\"]", 4}, {"[1] x", 4},
        {"[1", 2},        {"\"abc", 4},         {"[nul]", 1},
        {"[1.]", 3},      {"[-]", 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json_value v;
        struct json_fault fault = {.offset = SIZE_MAX};
        enum err err = json_check_value(span_str(cases[i].text), &strict, &v, &fault);
        if (err != ERR_PROTO || fault.offset != cases[i].offset) {
            fail_msg("'%s': %zu (%s)", cases[i].text, fault.offset, fault.what);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_surrogates),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_every_byte_everywhere),
        cmocka_unit_test(test_byte_pairs),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_kinds_of_containers_are_kept),
        cmocka_unit_test(test_fault_offsets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
