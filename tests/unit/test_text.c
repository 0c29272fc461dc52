/*
 * UTF-8 against a slow reference over every byte sequence that matters, cutting on characters (the
 * kind of vectordotdev/vector#14644: truncation never leaves half a character), globs, numbers.
 */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* The definition turned round: decode without any check, and see whether encoding gives it back. */
static size_t slow_char(const unsigned char *p, size_t n)
{
    const size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t cp = p[0];
    char back[4];

    if (len > n || (p[0] >= 0x80 && p[0] < 0xc0) || p[0] > 0xf7) {
        return 0;
    }
    if (len > 1) {
        cp = p[0] & (0x7fu >> len);
        for (size_t i = 1; i < len; i++) {
            cp = cp << 6 | (p[i] & 0x3fu);
        }
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
        return 0;
    }
    return text_utf8_put(back, cp) == len && memcmp(back, p, len) == 0 ? len : 0;
}

static void same(const unsigned char *p, size_t n)
{
    if (text_utf8_char((const char *)p, n) != slow_char(p, n)) {
        fail_msg("%02x %02x %02x %02x of %zu bytes", p[0], p[1], p[2], p[3], n);
    }
}

static void test_utf8_char(void **state)
{
    (void)state;
    static const unsigned char tails[] = {0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xff};

    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            for (size_t c = 0; c < sizeof(tails); c++) {
                for (size_t d = 0; d < sizeof(tails); d++) {
                    const unsigned char p[] = {(unsigned char)a, (unsigned char)b, tails[c],
                                               tails[d]};
                    for (size_t n = 1; n <= 4; n++) {
                        same(p, n);
                    }
                }
            }
        }
    }
}

static void test_utf8_every_code_point(void **state)
{
    (void)state;
    char out[4];

    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        if (cp == 0xd800) {
            cp = 0xe000;
        }
        const size_t want = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        size_t n = text_utf8_put(out, cp);
        if (n != want || text_utf8_char(out, n) != n) {
            fail_msg("U+%04X", (unsigned)cp);
        }
        for (size_t less = 1; less < n; less++) {
            assert_int_equal(text_utf8_char(out, less), 0);
        }
    }
    assert_int_equal(text_utf8_put(out, 0x20ac), 3);
    assert_memory_equal(out, "\xe2\x82\xac", 3);
    assert_int_equal(text_utf8_put(out, 0x1f600), 4);
    assert_memory_equal(out, "\xf0\x9f\x98\x80", 4);
}

static void test_utf8_valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"h\xc3\xa9llo \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x8c\x8d", true},
        {"\xef\xbb\xbf", true},          /* a BOM is a character */
        {"\xf4\x8f\xbf\xbf", true},      /* U+10FFFF */
        {"\xf4\x90\x80\x80", false},     /* U+110000 */
        {"\xc0\x80", false},             /* overlong NUL */
        {"\xc1\xbf", false},             /* overlong */
        {"\xe0\x9f\xbf", false},         /* overlong */
        {"\xf0\x8f\xbf\xbf", false},     /* overlong */
        {"\xed\x9f\xbf", true},          /* U+D7FF */
        {"\xed\xa0\x80", false},         /* U+D800 */
        {"\xed\xbf\xbf", false},         /* U+DFFF */
        {"\xee\x80\x80", true},          /* U+E000 */
        {"\x80", false},                 /* a continuation alone */
        {"a\xc3", false},                /* cut */
        {"a\xe4\xb8", false},            /* cut */
        {"a\xf0\x9f\x8c", false},        /* cut */
        {"\xc3(", false},                /* no continuation */
        {"\xf8\x88\x80\x80\x80", false}, /* five bytes */
        {"\xfe", false},
        {"\xff", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (text_utf8_valid(cases[i].text, strlen(cases[i].text)) != cases[i].valid) {
            fail_msg("case %zu", i);
        }
    }
    assert_true(text_utf8_valid("a\0b", 3));
    assert_true(text_utf8_valid(NULL, 0));
}

static void test_cut(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe4\xb8\x96\xf0\x9f\x8c\x8d-\xf0\x9f\x8c\x8d";
    static const size_t bounds[] = {0, 1, 3, 6, 10, 11, 15};
    const size_t n = sizeof(text) - 1;

    for (size_t max = 0; max <= n + 2; max++) {
        size_t want = 0;
        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
            want = bounds[i] <= max ? bounds[i] : want;
        }
        assert_int_equal(text_cut(text, n, max), want);
        assert_true(text_utf8_valid(text, want));
    }
    for (size_t from = 0; from < n; from += text_utf8_char(text + from, n - from)) {
        assert_true(text_cut(text + from, n - from, 4) > 0); /* progress */
    }
    assert_int_equal(text_cut("", 0, 0), 0);
}

static void test_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool match;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "any/thing.at-all", true},
        {"gpt-4o", "gpt-4o", true},
        {"gpt-4o", "gpt-4o-mini", false},
        {"gpt-4o", "GPT-4o", false},
        {"gpt-*", "gpt-4o", true},
        {"gpt-*", "xgpt-4o", false},
        {"*-mini", "gpt-4o-mini", true},
        {"openai/*", "openai/gpt/4", true}, /* a slash is nothing special */
        {"*", ".hidden", true},             /* nor is a dot */
        {"a?c", "abc", true},
        {"a?c", "a/c", true},
        {"a?c", "ac", false},
        {"[ab]c", "bc", true},
        {"[ab]c", "cc", false},
        {"[!ab]c", "cc", true},
        {"[a-c]", "b", true},
        {"[", "[", true},
        {"a\\*", "a\\x", true}, /* a backslash is a character */
        {"a\\*", "a*", false},
        {"*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (text_glob(cases[i].pattern, cases[i].text) != cases[i].match) {
            fail_msg("%s against %s", cases[i].pattern, cases[i].text);
        }
    }
}

static void test_u64(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "1 ",
                                      " 1",
                                      "+1",
                                      "-1",
                                      "1.0",
                                      "0x1",
                                      "1e2",
                                      "abc",
                                      "1a",
                                      "\xd9\xa1",
                                      "18446744073709551616",
                                      "18446744073709551620",
                                      "99999999999999999999",
                                      "184467440737095516150"};
    uint64_t v = 0;

    assert_true(text_u64(SPAN("0"), &v));
    assert_true(v == 0);
    assert_true(text_u64(SPAN("007"), &v));
    assert_true(v == 7);
    assert_true(text_u64(SPAN("18446744073709551615"), &v));
    assert_true(v == UINT64_MAX);
    v = 42;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_u64(span_str(bad[i]), &v)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_false(text_u64(SPAN("1\0"), &v));
    assert_false(text_u64((struct span){NULL, 0}, &v));
    assert_true(v == 42);
}

static void test_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"64KiB", 65536},
        {"64KB", 65536},
        {"100MiB", UINT64_C(104857600)},
        {"1MB", 1048576},
        {"1GiB", UINT64_C(1073741824)},
        {"3GB", UINT64_C(3221225472)},
        {"18446744073709551615", UINT64_MAX},
        {"17179869183GiB", UINT64_C(17179869183) << 30},
        {"18014398509481983KiB", UINT64_C(18014398509481983) << 10},
    };
    static const char *const bad[] = {"",
                                      "KiB",
                                      "1TiB",
                                      "1kib",
                                      "1 KiB",
                                      "-1KiB",
                                      "1.5GB",
                                      "1KiBB",
                                      "1iB",
                                      "KB1",
                                      "1KiB ",
                                      "0x10",
                                      "1BKiB",
                                      "17179869184GiB",
                                      "18014398509481984KiB",
                                      "18446744073709551616"};
    uint64_t v = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_size(span_str(bad[i]), &v)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_true(v == 42);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!text_size(span_str(good[i].text), &v) || v != good[i].value) {
            fail_msg("'%s'", good[i].text);
        }
    }
}

static void nano_is(const char *text, uint64_t want, const char *want_rest)
{
    uint64_t v = 42;
    const char *rest = NULL;

    if (!text_nano(text, &v, &rest) || v != want || strcmp(rest, want_rest) != 0) {
        fail_msg("'%s': %llu '%s'", text, (unsigned long long)v, rest == NULL ? "" : rest);
    }
}

static void test_nano(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      ".",
                                      ".5",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "x",
                                      "1.",
                                      "1.x",
                                      "1.-5",
                                      "1..5",
                                      "1.0000000000",
                                      "1.00000000000000000000000000000",
                                      "1000000000",
                                      "0000000001",
                                      "99999999999999999999999999999999"};
    uint64_t v = 42;
    const char *rest = "untouched";

    nano_is("0", 0, "");
    nano_is("1", UINT64_C(1000000000), "");
    nano_is("007", UINT64_C(7000000000), "");
    nano_is("0.5", 500000000, "");
    nano_is("0.000000001", 1, "");
    nano_is("1.000000009", UINT64_C(1000000009), "");
    nano_is("12.34", UINT64_C(12340000000), "");
    nano_is("999999999.999999999", UINT64_C(999999999999999999), "");
    nano_is("1e3", UINT64_C(1000000000), "e3");
    nano_is("1.5e3", UINT64_C(1500000000), "e3");
    nano_is("1.5.2", UINT64_C(1500000000), ".2");
    nano_is("2 x", UINT64_C(2000000000), " x");
    nano_is("3\xd9", UINT64_C(3000000000), "\xd9");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (text_nano(bad[i], &v, &rest)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_true(v == 42);
    assert_string_equal(rest, "untouched");
}

static void test_hex_digits(void **state)
{
    static const unsigned char bytes[] = {0x00, 0x0f, 0xa9, 0xff};
    static const char digits[] = "0123456789abcdef";
    char out[9] = "";

    (void)state;
    text_put_hex(bytes, 4, out);
    assert_string_equal(out, "000fa9ff");
    for (int c = -128; c < 128; c++) {
        const char *at = c == 0 ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
        assert_int_equal(text_hex_digit((char)c), at == NULL ? -1 : (int)(at - digits));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex_digits),
        cmocka_unit_test(test_utf8_char),
        cmocka_unit_test(test_utf8_every_code_point),
        cmocka_unit_test(test_utf8_valid),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_glob),
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_nano),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
