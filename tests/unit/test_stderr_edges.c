/*
 * relay/stderr_lines and container_log at their edges: each limit, no memory, lines that come in
 * parts, records that are continued late.
 */
#include "relay/container_log.h"
#include "relay/stderr_lines.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    char text[200000];
    size_t n;
    size_t calls;
};

static void see(struct seen *s, const char *p, size_t n)
{
    assert_true(s->n + n < sizeof(s->text));
    memcpy(s->text + s->n, p, n);
    s->n += n;
    s->text[s->n] = '\0';
}

/* ---- stderr ---- */

struct told {
    struct seen seen;
    const char *last;
    size_t parts;
    size_t longest;
    bool begun; /* a request */
};

static void on_request(void *ctx, struct span piece)
{
    struct told *t = ctx;

    assert_true(piece.n > 0);
    see(&t->seen, t->begun ? "" : "R:", t->begun ? 0 : 2);
    see(&t->seen, piece.p, piece.n);
    t->begun = true;
    t->last = piece.p;
}

static void on_request_end(void *ctx)
{
    struct told *t = ctx;

    see(&t->seen, "|", 1);
    t->begun = false;
}

static void on_line(void *ctx, struct span line, bool more)
{
    struct told *t = ctx;

    t->parts += more;
    t->longest = line.n > t->longest ? line.n : t->longest;
    t->last = line.p;
    see(&t->seen, line.n == 0 ? "" : line.p, line.n);
    see(&t->seen, more ? "+" : "|", 1);
}

static const struct stderr_lines_handler handler = {
    .on_request = on_request, .on_request_end = on_request_end, .on_line = on_line};

static void test_stderr_line_limit(void **state)
{
    static struct told t;
    static char line[STDERR_LINE_MAX + 16];

    (void)state;
    memset(line, 'x', sizeof(line));
    for (size_t n = STDERR_LINE_MAX - 1; n <= STDERR_LINE_MAX + 2; n++) {
        for (size_t first = 0; first <= STDERR_LINE_MAX; first += STDERR_LINE_MAX / 2) {
            struct stderr_lines l;
            t = (struct told){.parts = 0};
            stderr_lines_init(&l, &handler, &t);
            stderr_lines_feed(&l, span_of(line, first < n ? first : n));
            stderr_lines_feed(&l, span_of(line, first < n ? n - first : 0));
            assert_int_equal(t.parts, n > STDERR_LINE_MAX && first < n);
            stderr_lines_feed(&l, SPAN("\nz\n"));
            assert_int_equal(t.seen.n, n + 3 + t.parts);
            assert_int_equal(t.longest, n < STDERR_LINE_MAX ? n : STDERR_LINE_MAX);
            assert_string_equal(t.seen.text + t.seen.n - 3, "|z|");
            stderr_lines_fini(&l);
        }
    }
}

/* Parts end between characters; bytes that are no text are cut where the limit is. */
static void test_stderr_characters(void **state)
{
    static struct told t;
    static char line[2 * STDERR_LINE_MAX];

    (void)state;
    for (size_t shift = 0; shift <= 4; shift++) {
        struct stderr_lines l;
        memset(line, 'x', sizeof(line));
        memcpy(line + STDERR_LINE_MAX - shift, "\xf0\x9f\x98\x80", 4);
        t = (struct told){.parts = 0};
        stderr_lines_init(&l, &handler, &t);
        stderr_lines_feed(&l, span_of(line, STDERR_LINE_MAX + 100));
        stderr_lines_feed(&l, SPAN("\n"));
        size_t part = STDERR_LINE_MAX - (shift == 4 ? 0 : shift);
        assert_int_equal(t.parts, 1);
        assert_int_equal(t.seen.text[part], '+');
        stderr_lines_fini(&l);
    }
    struct stderr_lines l;
    memset(line, '\x80', sizeof(line));
    t = (struct told){.parts = 0};
    stderr_lines_init(&l, &handler, &t);
    stderr_lines_feed(&l, span_of(line, sizeof(line)));
    stderr_lines_feed(&l, SPAN("\n"));
    assert_int_equal(t.parts, 1);
    assert_int_equal(t.longest, STDERR_LINE_MAX);
    assert_int_equal(t.seen.n, sizeof(line) + 2);
    stderr_lines_fini(&l);
}

/* Requests cost no memory, and neither do lines that lie whole in what came. */
static void test_stderr_no_copy(void **state)
{
    static const char in[] = "plain\n" TACTUS_STDIO_PREFIX "{\"id\":1}\n";
    static struct told t;
    struct stderr_lines l;

    (void)state;
    t = (struct told){.parts = 0};
    stderr_lines_init(&l, &handler, &t);
    (void)torture_count();
    stderr_lines_feed(&l, span_of(in, 6));
    assert_ptr_equal(t.last, in);
    for (size_t cut = 7; cut < sizeof(in); cut++) {
        stderr_lines_feed(&l, span_of(in + 6, cut - 6));
        stderr_lines_feed(&l, span_of(in + cut, sizeof(in) - 1 - cut));
    }
    assert_int_equal(torture_count(), 0);
    assert_true(stderr_lines_end(&l));
    stderr_lines_fini(&l);
}

/* Without memory log text is lost, a request never; what follows is read as ever. */
static void test_stderr_without_memory(void **state)
{
    static const char request[] = TACTUS_STDIO_PREFIX "{}\n";
    static struct told t;

    (void)state;
    for (size_t cut = 0; cut < sizeof(request); cut++) {
        struct stderr_lines l;
        t = (struct told){.parts = 0};
        stderr_lines_init(&l, &handler, &t);
        torture_fail_after(0);
        stderr_lines_feed(&l, span_of(request, cut));
        stderr_lines_feed(&l, span_of(request + cut, sizeof(request) - 1 - cut));
        stderr_lines_feed(&l, SPAN("<<<"));
        stderr_lines_feed(&l, SPAN("TACTUS"));
        stderr_lines_feed(&l, SPAN("!"));
        torture_off();
        stderr_lines_feed(&l, SPAN(" lost its beginning\nnext\n"));
        assert_true(stderr_lines_end(&l));
        assert_string_equal(t.seen.text, "R:{}|! lost its beginning|next|");
        stderr_lines_fini(&l);
    }
}

/* ---- log records ---- */

#define HEAD "2025-01-31 12:34:56,789 "

static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    static const char letters[] = "EWID";
    struct seen *s = ctx;

    s->calls++;
    see(s, &letters[level], 1);
    see(s, " ", 1);
    see(s, logger, strlen(logger));
    see(s, ": ", 2);
    see(s, message, strlen(message));
    see(s, "|", 1);
}

/* A line that comes in parts is one line, whatever its parts look like. */
static void test_record_parts(void **state)
{
    struct seen s = {.n = 0};
    struct container_log l;

    (void)state;
    container_log_init(&l, on_record, &s);
    container_log_line(&l, SPAN(HEAD "[ERROR] a: one"), true);
    container_log_line(&l, SPAN(HEAD "[INFO] b: no head"), true);
    container_log_line(&l, SPAN(" end\r"), false);
    container_log_line(&l, SPAN(" {"), true);
    container_log_line(&l, SPAN("}"), false);
    container_log_line(&l, SPAN("plain, "), true);
    container_log_flush(&l); /* in the middle of the line */
    container_log_flush(&l);
    container_log_line(&l, SPAN("goes on"), false);
    container_log_line(&l, SPAN(HEAD "[INFO] c: next"), false);
    container_log_flush(&l);
    assert_string_equal(s.text, "E a: one" HEAD "[INFO] b: no head end\n {}|"
                                "W container.stderr: plain,|W container.stderr: goes on|"
                                "I c: next|");
    container_log_fini(&l);
}

/* A continuation that comes after the record was given keeps its level and logger. */
static void test_record_late_continuation(void **state)
{
    struct seen s = {.n = 0};
    struct container_log l;

    (void)state;
    container_log_init(&l, on_record, &s);
    container_log_line(&l, SPAN(""), false);
    container_log_line(&l, SPAN("  \t"), false);
    container_log_flush(&l);
    assert_int_equal(s.calls, 0); /* blank lines that continue nothing */
    container_log_line(&l, SPAN(HEAD "[ERROR] a: one"), false);
    container_log_flush(&l);
    container_log_line(&l, SPAN(""), false);
    container_log_line(&l, SPAN(" "), false);
    container_log_flush(&l);
    assert_int_equal(s.calls, 1);
    container_log_line(&l, SPAN("  two"), false);
    container_log_line(&l, SPAN("Context: three"), false);
    container_log_flush(&l);
    container_log_line(&l, SPAN("else"), false);
    container_log_flush(&l);
    assert_string_equal(s.text, "E a: one|E a:   two\nContext: three|W container.stderr: else|");
    container_log_fini(&l);
}

static void test_record_heads(void **state)
{
    static const struct {
        const char *line;
        const char *record;
    } rows[] = {
        {HEAD "[DEBUG] d: x", "D d: x|"},
        {HEAD "[INFO] i: x", "I i: x|"},
        {HEAD "[WARNING] w: x", "W w: x|"},
        {HEAD "[ERROR] e: x", "E e: x|"},
        {HEAD "[CRITICAL] c: x", "E c: x|"},
        {HEAD "[TRACE] t: x", "I t: x|"},
        {HEAD "[INFO] a.b:c: x: y", "I a.b:c: x: y|"},
        {HEAD "[INFO] a: ", "I a: |"},
        {HEAD "[INFO] a\xff"
              "b: x",
         "I a\xef\xbf\xbd"
         "b: x|"},
        {HEAD "[INFO] a:x", "W container.stderr: " HEAD "[INFO] a:x|"},
        {HEAD "[INFO] : x", "W container.stderr: " HEAD "[INFO] : x|"},
        {HEAD "[INFO]", "W container.stderr: " HEAD "[INFO]|"},
        {HEAD "[INFO", "W container.stderr: " HEAD "[INFO|"},
        {HEAD "[", "W container.stderr: " HEAD "[|"},
        {"2025-01-31 12:34:56,78", "W container.stderr: 2025-01-31 12:34:56,78|"},
        {"x", "W container.stderr: x|"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seen s = {.n = 0};
        struct container_log l;
        size_t n = strlen(rows[i].line);
        char *exact = malloc(n);
        assert_non_null(exact);
        memcpy(exact, rows[i].line, n);
        container_log_init(&l, on_record, &s);
        container_log_line(&l, span_of(exact, n), false);
        container_log_flush(&l);
        assert_string_equal(s.text, rows[i].record);
        container_log_fini(&l);
        free(exact);
    }
}

static void test_record_logger_limit(void **state)
{
    (void)state;
    for (size_t n = CONTAINER_LOGGER_MAX - 1; n <= CONTAINER_LOGGER_MAX + 2; n++) {
        static struct seen s;
        struct container_log l;
        char line[400] = HEAD "[INFO] ";
        size_t head = strlen(line);
        memset(line + head, 'a', n);
        memcpy(line + head + n - 3, "\xe6\xbc\xa2", 3);
        memcpy(line + head + n, ": x", 3);
        s = (struct seen){.n = 0};
        container_log_init(&l, on_record, &s);
        container_log_line(&l, span_of(line, head + n + 3), false);
        container_log_flush(&l);
        size_t expected = n <= CONTAINER_LOGGER_MAX ? n : n - 3;
        assert_int_equal(s.n, 2 + expected + strlen(": x|"));
        container_log_fini(&l);
    }
}

/* As much as a record may have is not marked; a byte more is, once, after a whole character. */
static void test_record_limit(void **state)
{
    static char text[CONTAINER_LOG_MAX + 8];
    static struct seen s;

    (void)state;
    for (size_t n = CONTAINER_LOG_MAX - 4; n <= CONTAINER_LOG_MAX + 4; n++) {
        struct container_log l;
        memset(text, 'x', sizeof(text));
        memcpy(text + n - 3, "\xe6\xbc\xa2", 3);
        s = (struct seen){.n = 0};
        container_log_init(&l, on_record, &s);
        container_log_line(&l, span_of(text, 100), true);
        container_log_line(&l, span_of(text + 100, n - 100), false);
        if (n > CONTAINER_LOG_MAX) {
            container_log_line(&l, SPAN("  more"), false);
        }
        assert_true(l.message.len <= CONTAINER_LOG_MAX + sizeof("…") - 1);
        container_log_flush(&l);
        const char *message = s.text + strlen("W container.stderr: ");
        size_t kept = n <= CONTAINER_LOG_MAX ? n : n - 3;
        kept = kept < CONTAINER_LOG_MAX ? kept : CONTAINER_LOG_MAX;
        assert_memory_equal(message, text, kept);
        assert_string_equal(message + kept, n <= CONTAINER_LOG_MAX ? "|" : "…|");
        container_log_line(&l, SPAN("the next"), false);
        container_log_flush(&l);
        assert_non_null(strstr(s.text, "|W container.stderr: the next|"));
        container_log_fini(&l);
    }
}

static void test_record_bytes(void **state)
{
    static const char line[] = HEAD "[INFO] a: nul \0 cut \xe6\xbc";
    struct seen s = {.n = 0};
    struct container_log l;

    (void)state;
    container_log_init(&l, on_record, &s);
    container_log_line(&l, span_of(line, sizeof(line) - 1), false);
    container_log_flush(&l);
    assert_string_equal(s.text, "I a: nul   cut \xef\xbf\xbd\xef\xbf\xbd|");
    container_log_fini(&l);
}

/* A record without memory is shorter, the next one is whole. */
static void test_record_without_memory(void **state)
{
    (void)state;
    for (size_t fail = 0; fail < 4; fail++) {
        struct seen s = {.n = 0};
        struct container_log l;
        char text[400];
        memset(text, 'x', sizeof(text));
        container_log_init(&l, on_record, &s);
        torture_fail_after(fail);
        container_log_line(&l, span_of(text, sizeof(text)), false);
        container_log_flush(&l);
        torture_off();
        container_log_line(&l, SPAN("next"), false);
        container_log_flush(&l);
        assert_int_equal(s.calls, 2);
        assert_non_null(strstr(s.text, "|W container.stderr: next|"));
        container_log_fini(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stderr_line_limit),
        cmocka_unit_test(test_stderr_characters),
        cmocka_unit_test(test_stderr_no_copy),
        cmocka_unit_test(test_stderr_without_memory),
        cmocka_unit_test(test_record_parts),
        cmocka_unit_test(test_record_late_continuation),
        cmocka_unit_test(test_record_heads),
        cmocka_unit_test(test_record_logger_limit),
        cmocka_unit_test(test_record_limit),
        cmocka_unit_test(test_record_bytes),
        cmocka_unit_test(test_record_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
