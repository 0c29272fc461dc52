/* relay/stderr_lines: requests and log lines out of a container's stderr, cut anywhere. */
#include "relay/stderr_lines.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define P TACTUS_STDIO_PREFIX

/* What was told: "R:request|L:line|L:part+|"; a request without its end has no '|'. */
struct seen {
    char text[4096];
    size_t n;
    bool in_request;
};

static void see(struct seen *s, const char *p, size_t n)
{
    assert_true(s->n + n < sizeof(s->text));
    if (n > 0) {
        memcpy(s->text + s->n, p, n);
    }
    s->n += n;
    s->text[s->n] = '\0';
}

static void on_request(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    assert_true(piece.n > 0);
    see(s, "R:", s->in_request ? 0 : 2);
    see(s, piece.p, piece.n);
    s->in_request = true;
}

static void on_request_end(void *ctx)
{
    struct seen *s = ctx;

    see(s, "R:", s->in_request ? 0 : 2);
    see(s, "|", 1);
    s->in_request = false;
}

static void on_line(void *ctx, struct span line, bool more)
{
    struct seen *s = ctx;

    assert_false(s->in_request);
    see(s, "L:", 2);
    see(s, line.p, line.n);
    see(s, more ? "+|" : "|", more ? 2 : 1);
}

static const struct stderr_lines_handler handler = {
    .on_request = on_request, .on_request_end = on_request_end, .on_line = on_line};

static void feed(struct stderr_lines *l, const char *bytes, size_t n)
{
    char *copy = malloc(n == 0 ? 1 : n); /* so that a sanitizer sees reads past it */

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    stderr_lines_feed(l, span_of(copy, n));
    free(copy);
}

struct row {
    const char *what;
    const char *in;
    const char *seen;
    bool cut; /* ends inside a request */
};

static const struct row rows[] = {
    {"nothing", "", "", false},
    {"lines", "a\nb c\n", "L:a|L:b c|", false},
    {"empty lines", "\n\n", "L:|L:|", false},
    {"no end", "a\nb", "L:a|L:b|", false},
    {"a request", P "{\"id\":1}\n", "R:{\"id\":1}|", false},
    {"requests and lines", "a\n" P "{}\n" P "[]\nb\n" P "x\n", "L:a|R:{}|R:[]|L:b|R:x|", false},
    {"an empty request", P "\n" P "x\n", "R:|R:x|", false},
    {"a request without end", P "{\"cut", "R:{\"cut", true},
    {"a prefix without end", "a\n" P, "L:a|", true},
    {"CRLF is the reader's", "a\r\n" P "{}\r\n\r\n", "L:a\r|R:{}\r|L:\r|", false},
    {"a CR alone ends nothing", "a\rb\n", "L:a\rb|", false},
    {"not at the start of a line", "x" P "{}\n " P "{}\n", "L:x" P "{}|L: " P "{}|", false},
    {"twice", P P "x\n", "R:" P "x|", false},
    {"the prefix in a request", P "{\"a\":\"" P "\"}\nb\n", "R:{\"a\":\"" P "\"}|L:b|", false},
    {"only a part of it", "<<<TACTUS_BROKER>>\n<<<TACTUS\n<\n",
     "L:<<<TACTUS_BROKER>>|L:<<<TACTUS|L:<|", false},
    {"begun again", "<<<" P "x\n<<" P "x\n", "L:<<<" P "x|L:<<" P "x|", false},
    {"another one", "<<<TACTUS_RESULT_START>>>\n<<<tactus_broker>>>x\n",
     "L:<<<TACTUS_RESULT_START>>>|L:<<<tactus_broker>>>x|", false},
    {"a part of it at the end", "a\n<<<TACTUS_BROKER>>", "L:a|L:<<<TACTUS_BROKER>>|", false},
    {"its first byte at the end", "<", "L:<|", false},
    {"any bytes", "\xff\xfe\x01\n" P "\xff\x80\n", "L:\xff\xfe\x01|R:\xff\x80|", false},
};

static void check(const struct row *row, size_t first, size_t size)
{
    struct seen s = {.n = 0};
    struct stderr_lines l;
    size_t n = strlen(row->in);

    stderr_lines_init(&l, &handler, &s);
    feed(&l, row->in, first);
    for (size_t at = first; at < n; at += size) {
        feed(&l, row->in + at, n - at < size ? n - at : size);
    }
    bool whole = stderr_lines_end(&l);
    if (whole == row->cut || strcmp(s.text, row->seen) != 0) {
        print_error("%s, %zu and then by %zu: %s\n", row->what, first, size, s.text);
    }
    assert_int_equal(whole, !row->cut);
    assert_string_equal(s.text, row->seen);
    assert_true(stderr_lines_end(&l)); /* nothing is left for another end */
    assert_string_equal(s.text, row->seen);
    stderr_lines_fini(&l);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].in);
        for (size_t size = 1; size <= n + 1; size++) {
            check(&rows[i], 0, size);
        }
        for (size_t first = 1; first <= n; first++) {
            check(&rows[i], first, n);
        }
    }
}

/* A NUL is a byte like others. */
static void test_nul(void **state)
{
    static const char in[] = "a\0b\n" P "\0x\n";
    struct seen s = {.n = 0};
    struct stderr_lines l;

    (void)state;
    stderr_lines_init(&l, &handler, &s);
    feed(&l, in, sizeof(in) - 1);
    assert_true(stderr_lines_end(&l));
    assert_true(span_eq(span_of(s.text, s.n), SPAN("L:a\0b|R:\0x|")));
    stderr_lines_fini(&l);
}

/* ---- long ones ---- */

struct counts {
    size_t lines;
    size_t parts; /* of longer lines, the last one not */
    size_t line_bytes;
    size_t longest;
    size_t requests;
    size_t request_bytes;
};

static void count_line(void *ctx, struct span line, bool more)
{
    struct counts *c = ctx;

    c->lines++;
    c->parts += more ? 1 : 0;
    c->line_bytes += line.n;
    c->longest = line.n > c->longest ? line.n : c->longest;
}

static void count_request(void *ctx, struct span piece)
{
    struct counts *c = ctx;

    c->request_bytes += piece.n;
}

static void count_request_end(void *ctx)
{
    struct counts *c = ctx;

    c->requests++;
}

static const struct stderr_lines_handler counter = {
    .on_request = count_request, .on_request_end = count_request_end, .on_line = count_line};

/* 100 MiB in one line: passed on as they come, nothing is held. */
static void test_long_request(void **state)
{
    static const size_t block_n = 1u << 20;
    struct counts c = {.lines = 0};
    struct stderr_lines l;
    char *block = malloc(block_n);

    (void)state;
    assert_non_null(block);
    memset(block, 'x', block_n);
    stderr_lines_init(&l, &counter, &c);
    stderr_lines_feed(&l, SPAN(P));
    torture_off();
    for (size_t i = 1; i <= 100; i++) {
        stderr_lines_feed(&l, span_of(block, block_n));
        assert_int_equal(c.request_bytes, i * block_n);
    }
    stderr_lines_feed(&l, SPAN("\n"));
    assert_int_equal(torture_count(), 0);
    assert_int_equal(l.held.cap, 0);
    assert_int_equal(c.requests, 1);
    stderr_lines_feed(&l, SPAN("log\n" P "y\n"));
    assert_int_equal(c.requests, 2);
    assert_int_equal(c.lines, 1);
    stderr_lines_fini(&l);
    free(block);
}

/* A log line of any length costs what one line may. */
static void test_long_lines(void **state)
{
    static const size_t lengths[] = {STDERR_LINE_MAX - 1,     STDERR_LINE_MAX,
                                     STDERR_LINE_MAX + 1,     2 * STDERR_LINE_MAX,
                                     2 * STDERR_LINE_MAX + 1, 80 * STDERR_LINE_MAX};
    static const size_t sizes[] = {997, STDERR_LINE_MAX - 1, STDERR_LINE_MAX, STDERR_LINE_MAX + 1,
                                   100 * STDERR_LINE_MAX};
    static char block[80 * STDERR_LINE_MAX + 1];

    (void)state;
    memset(block, 'x', sizeof(block));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            struct counts c = {.lines = 0};
            struct stderr_lines l;
            size_t n = lengths[i];
            block[n] = '\n';
            stderr_lines_init(&l, &counter, &c);
            for (size_t at = 0; at < n + 1; at += sizes[k]) {
                size_t left = n + 1 - at;
                stderr_lines_feed(&l, span_of(block + at, left < sizes[k] ? left : sizes[k]));
            }
            block[n] = 'x';
            assert_int_equal(c.line_bytes, n);
            assert_int_equal(c.parts, (n - 1) / STDERR_LINE_MAX);
            assert_int_equal(c.lines, c.parts + 1);
            assert_int_equal(c.longest, n < STDERR_LINE_MAX ? n : STDERR_LINE_MAX);
            assert_true(l.held.cap <= STDERR_LINE_MAX + 64);
            assert_true(stderr_lines_end(&l));
            assert_int_equal(c.lines, c.parts + 1);
            stderr_lines_fini(&l);
        }
    }
}

/* Parts join to the line, none is longer than it may be, none cuts a character. */
struct parts {
    char *text;
    size_t n;
    bool cut; /* a part began inside a character */
};

static void on_part(void *ctx, struct span line, bool more)
{
    struct parts *p = ctx;

    (void)more;
    assert_true(line.n <= STDERR_LINE_MAX);
    p->cut = p->cut || (line.n > 0 && ((unsigned char)line.p[0] & 0xc0) == 0x80);
    memcpy(p->text + p->n, line.p, line.n);
    p->n += line.n;
}

static void test_characters(void **state)
{
    static const struct stderr_lines_handler joiner = {
        .on_request = count_request, .on_request_end = count_request_end, .on_line = on_part};
    static const char *const characters[] = {"\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"};
    static char in[3 * STDERR_LINE_MAX];
    static char out[3 * STDERR_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t width = strlen(characters[i]);
        for (size_t shift = 0; shift < width; shift++) {
            struct parts p = {.text = out};
            struct stderr_lines l;
            size_t n = shift;
            memset(in, 'x', shift);
            for (; n + width < sizeof(in) - 8; n += width) {
                memcpy(in + n, characters[i], width);
            }
            in[n++] = '\n';
            stderr_lines_init(&l, &joiner, &p);
            for (size_t at = 0; at < n; at += 5001) {
                stderr_lines_feed(&l, span_of(in + at, n - at < 5001 ? n - at : 5001));
            }
            assert_true(span_eq(span_of(out, p.n), span_of(in, n - 1)));
            assert_false(p.cut);
            stderr_lines_fini(&l);
        }
    }
    /* No text at all: parts are full. */
    struct parts p = {.text = out};
    struct stderr_lines l;
    memset(in, '\x80', sizeof(in));
    in[sizeof(in) - 1] = '\n';
    stderr_lines_init(&l, &joiner, &p);
    stderr_lines_feed(&l, span_of(in, sizeof(in)));
    assert_true(span_eq(span_of(out, p.n), span_of(in, sizeof(in) - 1)));
    stderr_lines_fini(&l);
}

/* A part of a longer line is no start of a line: a prefix there is text. */
static void test_prefix_after_part(void **state)
{
    static char block[STDERR_LINE_MAX];
    struct counts c = {.lines = 0};
    struct stderr_lines l;

    (void)state;
    memset(block, 'x', sizeof(block));
    stderr_lines_init(&l, &counter, &c);
    stderr_lines_feed(&l, span_of(block, sizeof(block)));
    stderr_lines_feed(&l, SPAN(P "{}\n"));
    assert_int_equal(c.requests, 0);
    assert_int_equal(c.lines, 2);
    assert_int_equal(c.line_bytes, sizeof(block) + sizeof(P "{}") - 1);
    stderr_lines_fini(&l);
}

/* ---- without memory ---- */

/* Parts of log lines may be lost; requests need no memory, whatever stands around them. */
static void test_no_memory(void **state)
{
    static const char in[] = P "{\"id\":1}\na\nbb\n<<<TACT\n" P "{\"id\":2}\nc";
    static char line[3000];
    size_t failures = 0;

    (void)state;
    memset(line, 'x', sizeof(line));
    for (bool through = false; !through; failures++) {
        struct counts c = {.lines = 0};
        struct stderr_lines l;
        stderr_lines_init(&l, &counter, &c);
        torture_fail_after(failures);
        for (size_t at = 0; at < sizeof(in) - 1; at++) {
            stderr_lines_feed(&l, span_of(in + at, 1));
        }
        stderr_lines_feed(&l, span_of(line, sizeof(line)));
        stderr_lines_feed(&l, span_of(line, sizeof(line)));
        stderr_lines_feed(&l, SPAN("\n" P "{\"id\":3}\nlast\n"));
        through = torture_count() <= failures;
        torture_off();
        assert_true(stderr_lines_end(&l));
        assert_int_equal(c.requests, 3);
        assert_int_equal(c.request_bytes, 24);
        assert_int_equal(c.lines, 5);
        if (through) {
            assert_int_equal(c.line_bytes, 1 + 2 + 7 + 1 + 2 * sizeof(line) + 4);
        }
        stderr_lines_fini(&l);
    }
    assert_true(failures >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_nul),
        cmocka_unit_test(test_long_request), cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_characters),   cmocka_unit_test(test_prefix_after_part),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
