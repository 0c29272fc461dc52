/* relay/result, stderr_lines, container_log: what a container says, cut anywhere. */
#include "relay/container_log.h"
#include "relay/result.h"
#include "relay/stderr_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START RESULT_START
#define END   RESULT_END

struct seen {
    char text[160000];
    size_t n;
};

static void see(struct seen *s, const char *p, size_t n)
{
    assert_true(s->n + n < sizeof(s->text));
    memcpy(s->text + s->n, p, n);
    s->n += n;
    s->text[s->n] = '\0';
}

/* ---- results ---- */

static void on_output(void *ctx, struct span piece)
{
    assert_true(piece.n > 0);
    see(ctx, piece.p, piece.n);
}

struct result_row {
    const char *what;
    const char *in;
    const char *block; /* NULL: none */
    const char *output;
    const char *text;
    unsigned skipped;
};

static const struct result_row result_rows[] = {
    {"nothing", "", NULL, "", "", 0},
    {"only words", "one\n two \n", NULL, "one\n two \n", "one\n two", 0},
    {"a block", "a\n" START "\n{\"x\":1}\n" END "\nb\n", "{\"x\":1}", "a\nb\n", NULL, 0},
    {"lines of a block", START "\n{\n \"x\": 1\n}\n" END "\n", "{\n \"x\": 1\n}", "", NULL, 0},
    {"blanks and CR", " " START " \r\n{\"x\":1}\r\n\t" END "\r\n", "{\"x\":1}", "", NULL, 0},
    {"no line end after it", START "\n{\"x\":1}\n" END, "{\"x\":1}", "", NULL, 0},
    {"the first valid one",
     START "\nno\n" END "\n" START "\n{\"x\":1}\n" END "\n" START "\n{\"x\":2}\n" END "\n",
     "{\"x\":1}", START "\nno\n" END "\n" START "\n{\"x\":2}\n" END "\n", NULL, 1},
    {"an array is no result", START "\n[1]\n" END "\nx", NULL, START "\n[1]\n" END "\nx", NULL, 1},
    {"a start inside", START "\n{\"x\":\n" START "\n{\"x\":3}\n" END "\n", "{\"x\":3}",
     START "\n{\"x\":\n", NULL, 1},
    {"cut by the end", "a\n" START "\n{\"x\":1}\n", NULL, "a\n" START "\n{\"x\":1}\n", NULL, 0},
    {"an end alone", END "\n{}\n", NULL, END "\n{}\n", NULL, 0},
    {"in a line: found at the end", "p> " START " {\"x\":1} " END " q", "{\"x\":1}",
     "p> " START " {\"x\":1} " END " q", NULL, 0},
    {"a marker's beginning", "<<<TACTUS_RESULT\n<<<\n<", NULL, "<<<TACTUS_RESULT\n<<<\n<", NULL, 0},
    {"a longer line", START "x\n{}\n" END "\n", NULL, START "x\n{}\n" END "\n", NULL, 0},
    {"blank lines", "\n \n\t\n", NULL, "\n \n\t\n", "", 0},
    {"invalid UTF-8", "a\xff\xc3", NULL, "a\xff\xc3", "a\xef\xbf\xbd\xef\xbf\xbd", 0},
};

static void test_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(result_rows) / sizeof(result_rows[0]); i++) {
        const struct result_row *row = &result_rows[i];
        size_t n = strlen(row->in);
        for (size_t size = 1; size <= n + 1; size++) {
            struct seen out = {.n = 0};
            struct result r;
            result_init(&r, on_output, &out);
            for (size_t at = 0; at < n; at += size) {
                result_feed(&r, span_of(row->in + at, n - at < size ? n - at : size));
            }
            result_end(&r);
            struct span block = result_block(&r);
            bool same = row->block == NULL ? block.p == NULL : span_eq(block, span_str(row->block));
            if (!same || strcmp(out.text, row->output) != 0 || r.skipped != row->skipped) {
                print_error("%s, by %zu: block %.*s, skipped %u, output %s\n", row->what, size,
                            (int)block.n, block.p == NULL ? "" : block.p, r.skipped, out.text);
            }
            assert_true(same);
            assert_string_equal(out.text, row->output);
            assert_int_equal(r.skipped, row->skipped);
            if (row->text != NULL) {
                struct span text = result_text(&r);
                assert_true(span_eq(text, span_str(row->text)));
            }
            result_fini(&r);
        }
    }
}

static void drop(void *ctx, struct span piece)
{
    size_t *n = ctx;

    *n += piece.n;
}

/* More than is kept: all of it passes, the kept part is cut on a character. */
static void test_much_output(void **state)
{
    struct result r;
    size_t passed = 0;
    char *block = malloc(3 << 20);
    size_t n = 0;
    bool whole = true;

    (void)state;
    assert_non_null(block);
    for (; n + 3 <= 3u << 20; n += 3) {
        memcpy(block + n, "\xe6\xbc\xa2", 3);
    }
    result_init(&r, drop, &passed);
    for (int i = 0; i < 4; i++) {
        result_feed(&r, span_of(block, n));
    }
    result_end(&r);
    assert_int_equal(passed, 4 * n);
    assert_true(r.truncated);
    struct span text = result_text(&r);
    assert_int_equal(text.n, RESULT_TEXT_MAX / 3 * 3);
    for (size_t i = 0; i < text.n; i += 3) {
        whole = whole && memcmp(text.p + i, "\xe6\xbc\xa2", 3) == 0;
    }
    assert_true(whole);
    result_fini(&r);
    free(block);
}

/* A block over the maximum is output, and the next one still counts. */
static void test_block_too_large(void **state)
{
    struct result r;
    size_t passed = 0;
    size_t n = 4u << 20;
    char *block = malloc(n);

    (void)state;
    assert_non_null(block);
    memset(block, 'x', n);
    block[n - 1] = '\n';
    result_init(&r, drop, &passed);
    result_feed(&r, SPAN(START "\n"));
    for (int i = 0; i < 17; i++) {
        result_feed(&r, span_of(block, n));
    }
    assert_int_equal(r.skipped, 1);
    result_feed(&r, SPAN(START "\n{\"x\":1}\n" END "\n"));
    assert_true(span_eq(result_block(&r), SPAN("{\"x\":1}")));
    assert_int_equal(passed, 17 * n + sizeof(START));
    result_fini(&r);
    free(block);
}

/* ---- stderr ---- */

static void on_request(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    if (s->n == 0 || s->text[s->n - 1] == '|') {
        see(s, "R:", 2);
    }
    see(s, piece.p, piece.n);
}

static void on_request_end(void *ctx)
{
    see(ctx, "|", 1);
}

static void on_line(void *ctx, struct span line, bool more)
{
    see(ctx, "L:", 2);
    see(ctx, line.p, line.n);
    see(ctx, more ? "+|" : "|", more ? 2 : 1);
}

static const struct stderr_lines_handler lines_handler = {
    .on_request = on_request, .on_request_end = on_request_end, .on_line = on_line};

static void test_stderr_lines(void **state)
{
    static const char in[] = "plain\n" TACTUS_STDIO_PREFIX "{\"id\":1}\n\n<<<TACTUS_BROKER>>\n"
                             " " TACTUS_STDIO_PREFIX "x\n" TACTUS_STDIO_PREFIX "{}\n<<<";
    static const char expected[] = "L:plain|R:{\"id\":1}|L:|L:<<<TACTUS_BROKER>>|"
                                   "L: " TACTUS_STDIO_PREFIX "x|R:{}|L:<<<|";

    (void)state;
    for (size_t size = 1; size <= sizeof(in); size++) {
        struct seen s = {.n = 0};
        struct stderr_lines l;
        stderr_lines_init(&l, &lines_handler, &s);
        for (size_t at = 0; at < sizeof(in) - 1; at += size) {
            size_t left = sizeof(in) - 1 - at;
            stderr_lines_feed(&l, span_of(in + at, left < size ? left : size));
        }
        assert_true(stderr_lines_end(&l));
        assert_string_equal(s.text, expected);
        stderr_lines_fini(&l);
    }
}

static void test_stderr_ends(void **state)
{
    struct seen s = {.n = 0};
    struct stderr_lines l;
    static char line[STDERR_LINE_MAX];

    (void)state;
    stderr_lines_init(&l, &lines_handler, &s);
    stderr_lines_feed(&l, SPAN(TACTUS_STDIO_PREFIX "{\"cut"));
    assert_false(stderr_lines_end(&l)); /* no request without its line end */
    assert_string_equal(s.text, "R:{\"cut");
    s.n = 0;
    memset(line, 'x', sizeof(line));
    stderr_lines_feed(&l, span_of(line, 60000));
    assert_int_equal(l.held.len, 60000);
    stderr_lines_feed(&l, SPAN("\n"));
    assert_int_equal(s.n, 60003);
    stderr_lines_fini(&l);
}

static void count_line(void *ctx, struct span line, bool more)
{
    size_t *counts = ctx;

    counts[0] += line.n;
    counts[1] += more ? 1 : 0;
    counts[2]++;
}

static void count_request(void *ctx, struct span piece)
{
    size_t *counts = ctx;

    counts[0] += piece.n;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* A line of any length costs what one line may. */
static void test_long_lines(void **state)
{
    static const struct stderr_lines_handler handler = {
        .on_request = count_request, .on_request_end = nothing, .on_line = count_line};
    size_t counts[3] = {0, 0, 0};
    struct stderr_lines l;
    char *block = malloc(1u << 20);

    (void)state;
    assert_non_null(block);
    memset(block, 'x', 1u << 20);
    stderr_lines_init(&l, &handler, counts);
    for (int i = 0; i < 8; i++) {
        stderr_lines_feed(&l, span_of(block, 1u << 20));
    }
    stderr_lines_feed(&l, SPAN("\n"));
    assert_int_equal(counts[0], 8u << 20);
    assert_int_equal(counts[1], (8u << 20) / STDERR_LINE_MAX - 1);
    assert_int_equal(counts[2], (8u << 20) / STDERR_LINE_MAX);
    counts[0] = 0;
    stderr_lines_feed(&l, SPAN(TACTUS_STDIO_PREFIX));
    for (int i = 0; i < 100; i++) {
        stderr_lines_feed(&l, span_of(block, 1u << 20));
    }
    assert_int_equal(counts[0], 100u << 20);
    assert_true(l.held.cap <= 2 * STDERR_LINE_MAX);
    stderr_lines_fini(&l);
    free(block);
}

/* ---- log records ---- */

static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    static const char letters[] = "EWID";
    char line[80000];
    int n = snprintf(line, sizeof(line), "%c %s: %s|", letters[level], logger, message);

    see(ctx, line, (size_t)n);
}

static void test_records(void **state)
{
    static const char *const lines[] = {
        "  before any record",
        "2025-01-31 12:34:56,789 [INFO] some.logger: text: more",
        "  continued",
        "",
        "Context: x",
        "{\"a\":1}",
        "[1]",
        "\ttab",
        "2025-01-31 12:34:56,789 [WARNING] w: x\r",
        "2025-01-31 12:34:56,789 [CRITICAL] c: x",
        "2025-01-31 12:34:56,789 [NOTSET] n: x",
        "2025-01-31 12:34:56,789 [DEBUG] d:",
        "plain",
        " its continuation",
        "2025-01-31 12:34:56.789 [INFO] a: dot",
        "2025-01-31 12:34:56,789 INFO a: x",
        "2025-01-31 12:34:56,789 [INFO] two words: x",
        "bad \xff byte",
    };
    static const char expected[] =
        "W container.stderr:   before any record|"
        "I some.logger: text: more\n  continued\n\nContext: x\n{\"a\":1}\n[1]\n\ttab|"
        "W w: x|E c: x|I n: x|D d: |W container.stderr: plain\n its continuation|"
        "W container.stderr: 2025-01-31 12:34:56.789 [INFO] a: dot|"
        "W container.stderr: 2025-01-31 12:34:56,789 INFO a: x|"
        "W container.stderr: 2025-01-31 12:34:56,789 [INFO] two words: x|"
        "W container.stderr: bad \xef\xbf\xbd byte|";
    struct seen s = {.n = 0};
    struct container_log l;

    (void)state;
    container_log_init(&l, on_record, &s);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        container_log_line(&l, span_str(lines[i]), false);
    }
    container_log_flush(&l);
    container_log_flush(&l);
    assert_string_equal(s.text, expected);
    container_log_fini(&l);
}

/* A record is cut, on a character, and marked once. */
static void test_record_limit(void **state)
{
    static struct seen s;
    static char line[3 * 30000];
    struct container_log l;

    (void)state;
    s.n = 0;
    for (size_t i = 0; i + 3 <= sizeof(line); i += 3) {
        memcpy(line + i, "\xe6\xbc\xa2", 3);
    }
    container_log_init(&l, on_record, &s);
    container_log_line(&l, span_of(line, 60000), false);
    container_log_line(&l, SPAN(" more"), false);
    container_log_line(&l, span_of(line, 60000), true);
    container_log_fini(&l); /* what is held and not flushed goes */
    container_log_init(&l, on_record, &s);
    s.n = 0;
    container_log_line(&l, SPAN("x"), false);
    for (int i = 0; i < 30; i++) {
        container_log_line(&l, SPAN(" 0123456789012345678901234567890123456789012345678901234567"),
                           false);
    }
    container_log_flush(&l);
    assert_null(strstr(s.text, "…"));
    s.n = 0;
    container_log_line(&l, SPAN("y"), false);
    for (int i = 0; i < 3; i++) {
        line[0] = ' ';
        line[1] = ' ';
        line[2] = ' ';
        container_log_line(&l, span_of(line, 30000), false);
    }
    assert_true(l.message.len <= CONTAINER_LOG_MAX + 16);
    container_log_flush(&l);
    const char *mark = strstr(s.text, "…");
    assert_non_null(mark);
    assert_null(strstr(mark + 3, "…"));
    container_log_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),         cmocka_unit_test(test_much_output),
        cmocka_unit_test(test_block_too_large), cmocka_unit_test(test_stderr_lines),
        cmocka_unit_test(test_stderr_ends),     cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_records),         cmocka_unit_test(test_record_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
