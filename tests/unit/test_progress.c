/* engine/progress: what an engine tells of a pull or a build, cut anywhere. */
#include "engine/progress.h"

#include "base/text.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEN_MAX 2048

static void note(void *ctx, const char *item, const char *status, uint64_t current, uint64_t total)
{
    char *out = ctx;
    size_t n = strlen(out);

    snprintf(out + n, SEEN_MAX - n, "[%s|%s|%llu/%llu]", item, status, (unsigned long long)current,
             (unsigned long long)total);
}

static enum err follow(struct span text, size_t size, char *out, struct error *e)
{
    struct progress p;

    out[0] = '\0';
    *e = (struct error){.code = ERR_OK};
    progress_init(&p, note, out);
    for (size_t at = 0; at < text.n; at += size) {
        size_t n = text.n - at < size ? text.n - at : size;
        char *copy = malloc(n); /* so that a sanitizer sees reads past it */
        assert_non_null(copy);
        memcpy(copy, text.p + at, n);
        progress_feed(&p, copy, n);
        free(copy);
    }
    enum err rc = progress_end(&p, "pull", e);
    progress_fini(&p);
    return rc;
}

struct row {
    const char *what;
    const char *in;
    const char *seen;
    enum err rc;
    const char *msg; /* NULL: not looked at */
};

#define BROKEN "the engine: pull: its answer is no stream of JSON objects"

static const struct row rows[] = {
    {"nothing", "", "", ERR_OK, ""},
    {"only blanks", " \r\n\t ", "", ERR_OK, ""},
    {"docker's pull",
     "{\"status\":\"Pulling from x\",\"id\":\"latest\"}\r\n"
     "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":5,\"total\":10},\"id\":\"aa\"}"
     "\r\n",
     "[latest|Pulling from x|0/0][aa|Downloading|5/10]", ERR_OK, ""},
    {"a build", "{\"stream\":\"Step 1\\n\"}{\"stream\":\"\\n\"}{\"aux\":{\"ID\":\"sha256:x\"}}",
     "[|Step 1\n|0/0][|\n|0/0]", ERR_OK, ""},
    {"braces and quotes in strings", "{\"status\":\"}{][\\\"\\\\\",\"id\":\"\\\\\\\"}\"}{}",
     "[\\\"}|}{][\"\\|0/0]", ERR_OK, ""},
    {"a backslash at the end", "{\"status\":\"a\\\\\"}{\"status\":\"b\"}", "[|a\\|0/0][|b|0/0]",
     ERR_OK, ""},
    {"blanks inside", " { \"status\" :\n\"a b\" } \n { } ", "[|a b|0/0]", ERR_OK, ""},
    {"status before stream", "{\"stream\":\"s\",\"status\":\"t\"}", "[|t|0/0]", ERR_OK, ""},
    {"members of other types", "{\"status\":1}{\"status\":\"x\",\"id\":[\"a\"],\"stream\":{}}",
     "[|x|0/0]", ERR_OK, ""},
    {"odd numbers",
     "{\"status\":\"a\",\"progressDetail\":{\"current\":-1,\"total\":1.5}}"
     "{\"status\":\"b\",\"progressDetail\":{\"current\":18446744073709551615,"
     "\"total\":18446744073709551616}}{\"status\":\"c\",\"progressDetail\":7}",
     "[|a|0/0][|b|18446744073709551615/0][|c|0/0]", ERR_OK, ""},
    {"a lone surrogate", "{\"status\":\"\\ud800\"}", "[|\xef\xbf\xbd|0/0]", ERR_OK, ""},
    {"a failure",
     "{\"status\":\"a\"}{\"errorDetail\":{\"message\":\"no such {host}\"},\"error\":\"short\"}",
     "[|a|0/0]", ERR_UPSTREAM, "the engine: pull: no such {host}"},
    {"only error", "{\"error\":\"this\"}", "", ERR_UPSTREAM, "the engine: pull: this"},
    {"only errorDetail", "{\"errorDetail\":{\"code\":1,\"message\":\"that\"}}", "", ERR_UPSTREAM,
     "the engine: pull: that"},
    {"errorDetail without words", "{\"errorDetail\":{},\"error\":\"this\"}", "", ERR_UPSTREAM,
     "the engine: pull: this"},
    {"no words at all", "{\"error\":\"\"}", "", ERR_UPSTREAM,
     "the engine: pull: it failed without a reason"},
    {"it goes on after a failure", "{\"error\":\"this\"}{\"status\":\"b\"}", "[|b|0/0]",
     ERR_UPSTREAM, "the engine: pull: this"},
    {"a page", "<html>{}</html>", "", ERR_PROTO, BROKEN},
    {"a failure in a page", "<p>{\"error\":\"this\"}", "", ERR_UPSTREAM, "the engine: pull: this"},
    {"a failure, then a cut", "{\"error\":\"this\"}{\"status\":", "", ERR_UPSTREAM,
     "the engine: pull: this"},
    {"cut in a string", "{\"status\":\"a\"}{\"status\":\"cut", "[|a|0/0]", ERR_PROTO, BROKEN},
    {"cut before the brace", "{\"status\":\"a\"", "", ERR_PROTO, BROKEN},
    {"no JSON inside", "{\"status\":a}", "", ERR_PROTO, BROKEN},
    {"brackets crossed", "{\"status\":[}]", "", ERR_PROTO, BROKEN},
    {"a brace too many", "{}}", "", ERR_PROTO, BROKEN},
    {"a comma between", "{},{}", "", ERR_PROTO, BROKEN},
    {"an array", "[{\"status\":\"a\"}]", "", ERR_PROTO, BROKEN},
    {"a number", "{}1", "", ERR_PROTO, BROKEN},
    {"a string", "\"a\"", "", ERR_PROTO, BROKEN},
    {"a raw control character", "{\"status\":\"a\nb\"}", "", ERR_PROTO, BROKEN},
    {"invalid UTF-8", "{\"status\":\"\xff\"}", "", ERR_PROTO, BROKEN},
};

static void test_streams(void **state)
{
    char seen[SEEN_MAX];
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        for (size_t size = 1; size <= strlen(row->in) + 1; size++) {
            enum err rc = follow(span_str(row->in), size, seen, &e);
            if (rc != row->rc || strcmp(seen, row->seen) != 0) {
                print_error("%s, by %zu: %s, %s\n", row->what, size, err_name(rc), seen);
            }
            assert_int_equal(rc, row->rc);
            assert_string_equal(seen, row->seen);
            assert_string_equal(e.msg, row->msg);
        }
    }
}

/* A stream that ends too early is whole only between its objects. */
static void test_ends_anywhere(void **state)
{
    static const char in[] = "{\"status\":\"a\"} \n{\"status\":\"}\"}{}";
    char seen[SEEN_MAX];
    struct error e;

    (void)state;
    for (size_t n = 0; n < sizeof(in); n++) {
        bool whole = n == 0 || (n >= 14 && n <= 16) || n == 30 || n == 32;
        assert_int_equal(follow(span_of(in, n), 3, seen, &e), whole ? ERR_OK : ERR_PROTO);
        assert_string_equal(seen, n < 14 ? "" : n < 30 ? "[|a|0/0]" : "[|a|0/0][|}|0/0]");
    }
}

/* Words that are too long are cut, between characters; they are not lost. */
static void test_long_words(void **state)
{
    static const char *const heads[] = {"{\"error\":\"", "{\"errorDetail\":{\"message\":\"",
                                        "{\"status\":\"", "{\"stream\":\""};
    static const char *const tails[] = {"\"}", "\"},\"error\":\"x\"}", "\"}", "\"}"};
    struct error e;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char text[4096] = "";
        char seen[SEEN_MAX];
        size_t n = (size_t)snprintf(text, sizeof(text), "%sa", heads[i]);
        for (size_t k = 0; k < 1000; k++) {
            memcpy(text + n, "\xc3\xa9", 2);
            n += 2;
        }
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", tails[i]);
        enum err rc = follow(span_of(text, n), 100, seen, &e);
        const char *words = i < 2 ? e.msg : seen;
        assert_int_equal(rc, i < 2 ? ERR_UPSTREAM : ERR_OK);
        assert_true(text_utf8_valid(words, strlen(words)));
        assert_true(strlen(words) > 390);
        assert_non_null(strstr(words, "a\xc3\xa9\xc3\xa9"));
    }
}

/* One object of `n` bytes, then a small one. */
static enum err follow_large(size_t n, char *seen)
{
    static const char head[] = "{\"status\":\"large\",\"x\":\"";
    char *text = malloc(n + 64);
    struct error e;

    assert_non_null(text);
    memset(text, 'x', n);
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + n - 2, "\"}", 2);
    memcpy(text + n, "{\"status\":\"small\"}", 18);
    enum err rc = follow(span_of(text, n + 18), 65536, seen, &e);
    free(text);
    return rc;
}

static void test_bounds(void **state)
{
    char seen[SEEN_MAX];
    char deep[256];
    struct error e;

    (void)state;
    assert_int_equal(follow_large(PROGRESS_OBJECT_MAX, seen), ERR_OK);
    assert_string_equal(seen, "[|large|0/0][|small|0/0]");
    assert_int_equal(follow_large(PROGRESS_OBJECT_MAX + 1, seen), ERR_PROTO);
    assert_string_equal(seen, "[|small|0/0]");
    for (size_t depth = 31; depth <= 33; depth++) {
        size_t n = (size_t)snprintf(deep, sizeof(deep), "{\"x\":");
        memset(deep + n, '[', depth - 1);
        memset(deep + n + depth - 1, ']', depth - 1);
        deep[n + 2 * (depth - 1)] = '}';
        enum err rc = follow(span_of(deep, n + 2 * depth - 1), 1, seen, &e);
        assert_int_equal(rc, depth <= 32 ? ERR_OK : ERR_PROTO);
    }
}

/* Memory is that of the largest object, however many come; nobody need listen. */
static void test_many(void **state)
{
    static const char one[] = "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":5}}\n";
    struct progress p;

    (void)state;
    progress_init(&p, NULL, NULL);
    for (int i = 0; i < 20000; i++) {
        progress_feed(&p, one, sizeof(one) - 1);
    }
    assert_int_equal(progress_end(&p, "pull", NULL), ERR_OK);
    assert_int_equal(p.object.len, 0);
    assert_true(p.object.cap <= 128);
    progress_fini(&p);
}

/* Without memory no failure, and no stream that is cut, becomes a success. */
static void test_no_memory(void **state)
{
    static const struct {
        const char *in;
        const char *seen;
        enum err rc;
    } streams[] = {
        {"{\"status\":\"a\",\"id\":\"b\"}{\"stream\":\"c\"}", "[b|a|0/0][|c|0/0]", ERR_OK},
        {"{\"status\":\"a\"}{\"errorDetail\":{\"message\":\"m\"},\"error\":\"x\"}", "[|a|0/0]",
         ERR_UPSTREAM},
        {"{\"status\":\"cut", "", ERR_PROTO},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        size_t failures = 0;
        for (bool through = false; !through; failures++) {
            char seen[SEEN_MAX] = "";
            struct progress p;
            progress_init(&p, note, seen);
            torture_fail_after(failures);
            progress_feed(&p, streams[i].in, strlen(streams[i].in));
            through = torture_count() <= failures;
            torture_off();
            enum err rc = progress_end(&p, "pull", NULL);
            assert_true(rc == streams[i].rc || (!through && rc == ERR_PROTO));
            assert_true(!through || strcmp(seen, streams[i].seen) == 0);
            progress_fini(&p);
        }
        assert_true(failures >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),    cmocka_unit_test(test_ends_anywhere),
        cmocka_unit_test(test_long_words), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many),       cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
