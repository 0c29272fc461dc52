/* spec/ignore: .dockerignore as docker's documentation describes it. */
#include "spec/ignore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct row {
    const char *text;
    const char *path;
    bool ignored;
};

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ignore_matches(span_str(rows[i].text), rows[i].path) != rows[i].ignored) {
            fail_msg("%s under \"%s\": expected %d", rows[i].path, rows[i].text, rows[i].ignored);
        }
    }
}

#define CHECK(rows) check_rows((rows), sizeof(rows) / sizeof((rows)[0]))

static void test_plain(void **state)
{
    static const struct row rows[] = {
        {"", "x", false},
        {"\n\n  \n", "x", false},
        {"x", "x", true},
        {"x", "xx", false},
        {"x", "a/x", false}, /* patterns begin at the root */
        {"x", "x/y/z", true},
        {"/x", "x", true},
        {"./x", "x", true},
        {"x/", "x", true},
        {"x/", "x/y", true},
        {"x//y/./z", "x/y/z", true},
        {"  x \t\r\n", "x", true},
        {"a b", "a b", true},
        {".", "x", false}, /* the whole tree is never left out by these */
        {"/", "x", false},
        {"..", "x", false},
        {"../x", "x", false},
        {".env", ".env", true},
        {".env", "env", false},
        {"x", "./x", true},
        {"\xef\xbb\xbfx", "x", true},
        {"x", "", false},
        {"", "", false},
        {"x\r\ny\r\n", "y", true},
    };

    (void)state;
    CHECK(rows);
    assert_false(ignore_matches((struct span){NULL, 0}, "x"));
}

static void test_comments_and_taking_back(void **state)
{
    static const struct row rows[] = {
        {"#x", "#x", false},
        {"#x\nx", "x", true},
        {" #x", "#x", true}, /* only in the first column */
        {"\\#x", "#x", true},
        {"*.md\n!keep.md", "keep.md", false},
        {"*.md\n!keep.md", "x.md", true},
        {"!keep.md\n*.md", "keep.md", true}, /* the last one decides */
        {"d\n!d/keep", "d/keep", false},
        {"d\n!d/keep", "d/x", true},
        {"d\n!d\nd/x", "d/x", true},
        {"*\n!src", "src/a", false},
        {"*\n!src", "Dockerfile", true},
        {"*\n! src", "src", false},
        {"!x", "x", false},
        {"x\n!", "x", true},
        {"x\n#!x", "x", true},
    };

    (void)state;
    CHECK(rows);
    assert_true(ignore_takes_back(SPAN("a\n !b\n")));
    assert_false(ignore_takes_back(SPAN("a\n#!b\nc!\n!\n!.\n")));
    assert_false(ignore_takes_back(SPAN("")));
}

static void test_stars(void **state)
{
    static const struct row rows[] = {
        {"*.md", "x.md", true},     {"*.md", "a/x.md", false}, /* a star stays in its part */
        {"*/*.md", "a/x.md", true}, {"*/*.md", "a/b/x.md", false},
        {"a*c", "a/c", false},      {"a?c", "a/c", false},
        {"?", "a", true},           {"?", "ab", false},
        {"[a-c]x", "bx", true},     {"[^a-c]x", "bx", false},
        {"[!a-c]x", "dx", true},    {"a/*/c", "a/b/c", true},
        {"a/*/c", "a/c", false},    {"a/*/c", "a/b/c/d", true},
        {"*", ".hidden", true},     {"\\*", "*", true},
        {"\\*", "x", false},        {"[", "[", true}, /* no set: itself */
    };

    (void)state;
    CHECK(rows);
}

static void test_any_depth(void **state)
{
    static const struct row rows[] = {
        {"**/x", "x", true},
        {"**/x", "a/x", true},
        {"**/x", "a/b/x/y", true},
        {"**/x", "a/xx", false},
        {"**/*.pyc", "a/b/c.pyc", true},
        {"**/*.pyc", "c.py", false},
        {"a/**", "a", false}, /* what lies in it, not itself */
        {"a/**", "a/b", true},
        {"a/**", "b/a/c", false},
        {"a/**/z", "a/z", true},
        {"a/**/z", "a/b/c/z", true},
        {"a/**/z", "z", false},
        {"a/**/b/**/c", "a/b/x/b/y/c", true},
        {"a/**/b/**/c", "a/x/c/y", false},
        {"**/a/b", "a/a/b", true}, /* tried again after a false start */
        {"**/a/b", "a/b/a", true},
        {"**/a*b/c", "a/b/c", false},
        {"**", "anything/at/all", true},
        {"**\n!**/keep", "a/keep", false},
        {"**/**/x", "x", true},
        {"a**", "abc", true}, /* no part of its own: a star */
        {"a**", "b/abc", false},
    };

    (void)state;
    CHECK(rows);
}

/* Longer than any name or path: nothing, and no harm. */
static void test_long(void **state)
{
    static char text[5000];
    static char path[5000];

    (void)state;
    for (size_t n = 250; n < 260; n++) { /* around the longest name */
        for (size_t i = 0; i < n; i++) {
            path[i] = 'a';
        }
        path[n] = '\0';
        assert_int_equal(ignore_matches(SPAN("a*"), path), n <= 255);
        assert_int_equal(ignore_matches(span_str(path), path), n <= 255);
    }
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = '*';
    }
    assert_false(ignore_matches(span_of(text, sizeof(text)), "x"));
    assert_true(ignore_matches(span_of(text, 4095), "x"));
    text[sizeof(text) - 2] = '\n';
    text[sizeof(text) - 1] = 'x';
    assert_true(ignore_matches(span_of(text, sizeof(text)), "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_comments_and_taking_back),
        cmocka_unit_test(test_stars), cmocka_unit_test(test_any_depth),
        cmocka_unit_test(test_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
