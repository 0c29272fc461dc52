/* relay/container_log: records out of a container's log lines, alone and behind stderr_lines. */
#include "relay/container_log.h"

#include "base/text.h"
#include "fixtures/torture.h"
#include "relay/stderr_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TIME "2025-01-31 12:34:56,789 "
#define FFFD "\xef\xbf\xbd"

/* Records as "I logger: message|". */
struct seen {
    char text[300000];
    size_t n;
    size_t records;
};

static void see(struct seen *s, const char *text)
{
    size_t n = strlen(text);

    assert_true(s->n + n < sizeof(s->text));
    memcpy(s->text + s->n, text, n + 1);
    s->n += n;
}

static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    static const char *const letters[] = {"E ", "W ", "I ", "D "};
    struct seen *s = ctx;

    assert_true(strlen(logger) > 0 && strlen(logger) <= CONTAINER_LOGGER_MAX);
    assert_true(text_utf8_valid(logger, strlen(logger)));
    assert_true(text_utf8_valid(message, strlen(message)));
    assert_true(strlen(message) <= CONTAINER_LOG_MAX + 3);
    see(s, letters[level]);
    see(s, logger);
    see(s, ": ");
    see(s, message);
    see(s, "|");
    s->records++;
}

static void line_of(struct container_log *l, const char *text, size_t n, bool more)
{
    char *copy = malloc(n == 0 ? 1 : n); /* so that a sanitizer sees reads past it */

    assert_non_null(copy);
    memcpy(copy, text, n);
    container_log_line(l, span_of(copy, n), more);
    free(copy);
}

/* What becomes of these lines (each ends with "\n"). */
static const char *records_of(const char *lines)
{
    static struct seen s;
    struct container_log l;

    s.n = 0;
    s.records = 0;
    s.text[0] = '\0';
    container_log_init(&l, on_record, &s);
    for (const char *end = strchr(lines, '\n'); end != NULL; end = strchr(lines, '\n')) {
        line_of(&l, lines, (size_t)(end - lines), false);
        lines = end + 1;
    }
    assert_int_equal(*lines, '\0');
    container_log_flush(&l);
    size_t n = s.n;
    container_log_flush(&l);
    assert_int_equal(s.n, n); /* it is given once */
    container_log_fini(&l);
    return s.text;
}

/* ---- heads ---- */

static void test_levels(void **state)
{
    static const struct {
        const char *name;
        char letter;
    } rows[] = {
        {"DEBUG", 'D'}, {"INFO", 'I'},   {"WARNING", 'W'}, {"WARN", 'W'},
        {"ERROR", 'E'}, {"FATAL", 'E'},  {"NOTSET", 'I'},  {"CRITICAL", 'E'},
        {"error", 'I'}, {"ERRORS", 'I'}, {"", 'I'},        {"Level 5", 'I'},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[128];
        char expected[128];
        snprintf(line, sizeof(line), TIME "[%s] a.b: some text\n", rows[i].name);
        snprintf(expected, sizeof(expected), "%c a.b: some text|", rows[i].letter);
        assert_string_equal(records_of(line), expected);
    }
}

/* With any one byte of its form another one, or cut before its text, a line is no head. */
static void test_form(void **state)
{
    static const char good[] = TIME "[INFO] a: x\n";
    static const char fixed[] = "####-##-## ##:##:##,### [....] .: .";
    static const size_t colon = sizeof(TIME "[INFO] a:") - 1;
    char line[64];
    char expected[128];

    (void)state;
    assert_string_equal(records_of(good), "I a: x|");
    assert_string_equal(records_of("0000-99-99 99:99:99,999 [INFO] a: x\n"), "I a: x|");
    for (size_t i = 0; i < sizeof(fixed) - 1; i++) {
        memcpy(line, good, sizeof(good));
        line[i] = 'z';
        snprintf(expected, sizeof(expected), "W container.stderr: %.*s|", (int)sizeof(good) - 2,
                 line);
        if (fixed[i] != '.') {
            assert_string_equal(records_of(line), expected);
        }
    }
    for (size_t n = 1; n < colon; n++) {
        snprintf(line, sizeof(line), "%.*s\n", (int)n, good);
        int shown = (int)n - (good[n - 1] == ' ' ? 1 : 0); /* no blanks at the end */
        snprintf(expected, sizeof(expected), "W container.stderr: %.*s|", shown, good);
        assert_string_equal(records_of(line), expected);
    }
}

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(records_of(TIME "[INFO] a: b: c: d\n"), "I a: b: c: d|");
    assert_string_equal(records_of(TIME "[INFO] a:b: c\n"), "I a:b: c|");
    assert_string_equal(records_of(TIME "[INFO] a:  x  \n"), "I a:  x|");
    assert_string_equal(records_of(TIME "[INFO] a: \n"), "I a: |");
    assert_string_equal(records_of(TIME "[INFO] a:\n"), "I a: |");
    assert_string_equal(records_of(TIME "[INFO] a: [ERROR] b: x\n"), "I a: [ERROR] b: x|");
    assert_string_equal(records_of(TIME "[INFO]a: x\n"), "W container.stderr: " TIME "[INFO]a: x|");
    assert_string_equal(records_of(TIME "[INFO] two words: x\n"),
                        "W container.stderr: " TIME "[INFO] two words: x|");
    assert_string_equal(records_of(" " TIME "[INFO] a: x\n"),
                        "W container.stderr:  " TIME "[INFO] a: x|");
}

/* A logger's name is the container's word too: it is shown, but does nothing to a terminal. */
static void test_loggers(void **state)
{
    char line[512] = TIME "[INFO] ";
    char expected[512] = "I ";

    (void)state;
    assert_string_equal(records_of(TIME "[INFO] \xc3\xa9.\xf0\x9f\x98\x80: x\n"),
                        "I \xc3\xa9.\xf0\x9f\x98\x80: x|");
    assert_string_equal(records_of(TIME "[INFO] a\xff: x\n"), "I a" FFFD ": x|");
    assert_string_equal(records_of(TIME "[INFO] \x1b[2J\x07\x7f: x\n"),
                        "I " FFFD "[2J" FFFD FFFD ": x|");
    assert_string_equal(records_of(TIME "[INFO] \xc2\x9b"
                                        "2J: x\n"),
                        "I " FFFD "2J: x|");
    for (size_t i = 0; i < CONTAINER_LOGGER_MAX / 2 + 1; i++) {
        strncat(line, "\xc3\xa9", sizeof(line) - strlen(line) - 1);
        if (i < CONTAINER_LOGGER_MAX / 2) {
            strncat(expected, "\xc3\xa9", sizeof(expected) - strlen(expected) - 1);
        }
    }
    strncat(line, ": x\n", sizeof(line) - strlen(line) - 1);
    strncat(expected, ": x|", sizeof(expected) - strlen(expected) - 1);
    assert_string_equal(records_of(line), expected);
}

/* ---- continuations ---- */

static void test_continuations(void **state)
{
    static const char *const heads[] = {TIME "[ERROR] a: x\n", "plain\n"};
    static const char *const records[] = {"E a: x", "W container.stderr: plain"};
    static const char *const more[] = {
        " blank", "\ttab", "Context:", "Context: x",          "{", "{\"a\":1}", "[",
        "[1]",    "   {",  "[INFO] y", " " TIME "[INFO] b: y"};
    static const char *const other[] = {"Context",    "context: x", "x {", "}",        "]",
                                        "Traceback:", "(",          "\"",  "\xc2\xa0x"};
    char lines[256];
    char expected[256];

    (void)state;
    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
            snprintf(lines, sizeof(lines), "%s%s\n%s\nend\n", heads[h], more[i], more[i]);
            snprintf(expected, sizeof(expected), "%s\n%s\n%s|W container.stderr: end|", records[h],
                     more[i], more[i]);
            assert_string_equal(records_of(lines), expected);
        }
        for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
            snprintf(lines, sizeof(lines), "%s%s\n", heads[h], other[i]);
            snprintf(expected, sizeof(expected), "%s|W container.stderr: %s|", records[h],
                     other[i]);
            assert_string_equal(records_of(lines), expected);
        }
        snprintf(lines, sizeof(lines), "%s\n\n in\n\n" TIME "[DEBUG] d: y\n\n", heads[h]);
        snprintf(expected, sizeof(expected), "%s\n\n\n in|D d: y|", records[h]);
        assert_string_equal(records_of(lines), expected); /* blank lines at the end are not */
    }
}

static void test_nothing_to_continue(void **state)
{
    (void)state;
    assert_string_equal(records_of(""), "");
    assert_string_equal(records_of("\n \n\t\n\r\n"), "");
    assert_string_equal(records_of(" x\n"), "W container.stderr:  x|");
    assert_string_equal(records_of("{\n}\n"), "W container.stderr: {|W container.stderr: }|");
    assert_string_equal(records_of("\nx\n"), "W container.stderr: x|");
}

static void test_carriage_return(void **state)
{
    (void)state;
    assert_string_equal(records_of(TIME "[INFO] a: x\r\n\r\n y\r\nz\r\n"),
                        "I a: x\n\n y|W container.stderr: z|");
    assert_string_equal(records_of(TIME "[INFO] a:\r\n"), "I a: |");
    assert_string_equal(records_of("x\ry\r\n"), "W container.stderr: x\ry|");
}

/* Given because nothing came for a while, and then something came. */
static void test_flush_between(void **state)
{
    static struct seen s;
    struct container_log l;

    (void)state;
    container_log_init(&l, on_record, &s);
    container_log_flush(&l);
    line_of(&l, TIME "[ERROR] a: x", sizeof(TIME "[ERROR] a: x") - 1, false);
    container_log_flush(&l);
    line_of(&l, "", 0, false);
    container_log_flush(&l);
    line_of(&l, "  y", 3, false);
    container_log_flush(&l);
    line_of(&l, "z", 1, false);
    container_log_flush(&l);
    assert_string_equal(s.text, "E a: x|E a:   y|W container.stderr: z|");
    container_log_fini(&l);
}

/* ---- limits ---- */

/* A record of `n` bytes of text in all, in lines of at most `width` bytes. */
static void make_record(struct container_log *l, size_t n, size_t width, const char *character)
{
    static char line[2 * CONTAINER_LOG_MAX];
    size_t step = strlen(character);

    while (n > 0) {
        size_t part = n < width ? n : width;
        line[0] = ' ';
        for (size_t i = 1; i < part; i += step) {
            memcpy(line + i, character, step);
        }
        line_of(l, line, part, false);
        n -= part;
        n -= n > 0 ? 1 : 0; /* the line end between */
    }
}

static void test_limit(void **state)
{
    static const size_t widths[] = {64, 4096, 2 * CONTAINER_LOG_MAX};
    static struct seen s;

    (void)state;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        for (size_t over = 0; over <= 2; over++) {
            struct container_log l;
            s = (struct seen){.n = 0};
            container_log_init(&l, on_record, &s);
            make_record(&l, CONTAINER_LOG_MAX + over, widths[i], "x");
            container_log_line(&l, over == 2 ? SPAN(" more") : SPAN("next"), false);
            assert_true(l.message.cap <= CONTAINER_LOG_MAX + 64);
            container_log_flush(&l);
            assert_int_equal(s.records, over == 2 ? 1 : 2);
            const char *mark = strstr(s.text, "…");
            assert_int_equal(mark != NULL, over > 0);
            if (over > 0) {
                size_t kept = (size_t)(mark - s.text) - strlen("W container.stderr: ");
                assert_int_equal(kept, CONTAINER_LOG_MAX);
                assert_null(strstr(mark + 3, "…"));
            }
            container_log_fini(&l);
        }
    }
}

/* The cut is between characters, wherever the limit falls. */
static void test_cut_characters(void **state)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"};
    static char line[CONTAINER_LOG_MAX + 8];
    static struct seen s;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t width = i + 2;
        for (size_t shift = 0; shift < width; shift++) {
            struct container_log l;
            size_t n = shift;
            memset(line, 'x', shift);
            for (; n + width <= sizeof(line); n += width) {
                memcpy(line + n, characters[i], width);
            }
            s = (struct seen){.n = 0};
            container_log_init(&l, on_record, &s);
            line_of(&l, line, n, false);
            container_log_flush(&l);
            const char *message = s.text + strlen("W container.stderr: ");
            size_t kept = shift + (CONTAINER_LOG_MAX - shift) / width * width;
            assert_memory_equal(message, line, kept);
            assert_string_equal(message + kept, "…|");
            container_log_fini(&l);
        }
    }
}

/* ---- behind stderr_lines ---- */

struct chain {
    struct container_log log;
    struct stderr_lines lines;
    struct seen seen;
};

static void on_line(void *ctx, struct span line, bool more)
{
    struct chain *c = ctx;

    container_log_line(&c->log, line, more);
}

static void on_request(void *ctx, struct span piece)
{
    (void)ctx;
    (void)piece;
}

static void on_request_end(void *ctx)
{
    (void)ctx;
}

static const struct stderr_lines_handler handler = {
    .on_request = on_request, .on_request_end = on_request_end, .on_line = on_line};

static void run_chain(struct chain *c, const char *in, size_t n, size_t size)
{
    c->seen.n = 0;
    c->seen.records = 0;
    c->seen.text[0] = '\0';
    container_log_init(&c->log, on_record, &c->seen);
    stderr_lines_init(&c->lines, &handler, c);
    for (size_t at = 0; at < n; at += size) {
        stderr_lines_feed(&c->lines, span_of(in + at, n - at < size ? n - at : size));
    }
    (void)stderr_lines_end(&c->lines);
    container_log_flush(&c->log);
    stderr_lines_fini(&c->lines);
    container_log_fini(&c->log);
}

static void test_cut_anywhere(void **state)
{
    static const char in[] = TIME "[INFO] a: x\n  y\r\n" TACTUS_STDIO_PREFIX "{}\n z\n"
                                  "bad \xff\xe6\xbc byte\n\n" TIME "[ERROR] \xc3\xa9: " FFFD "\n"
                                  "<<<\nlast";
    static const char expected[] = "I a: x\n  y\n z|W container.stderr: bad " FFFD FFFD FFFD
                                   " byte|E \xc3\xa9: " FFFD "|W container.stderr: <<<|"
                                   "W container.stderr: last|";
    static struct chain c;

    (void)state;
    for (size_t size = 1; size <= sizeof(in); size++) {
        run_chain(&c, in, sizeof(in) - 1, size);
        assert_string_equal(c.seen.text, expected);
    }
}

/* A line over 64 KiB is one record, of its own level, cut; what looks like a head in it is none. */
static void test_long_line(void **state)
{
    static const size_t sizes[] = {997, STDERR_LINE_MAX, 1u << 20};
    static const char head[] = TIME "[ERROR] a: ";
    static const char inner[] = TIME "[INFO] b: forged";
    static char in[3 * STDERR_LINE_MAX];
    static struct chain c;

    (void)state;
    memset(in, 'x', sizeof(in));
    memcpy(in, head, sizeof(head) - 1);
    memcpy(in + STDERR_LINE_MAX, inner, sizeof(inner) - 1);
    memcpy(in + 2 * STDERR_LINE_MAX, inner, sizeof(inner) - 1);
    memcpy(in + sizeof(in) - 6, "\nnext\n", 6);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        run_chain(&c, in, sizeof(in), sizes[i]);
        assert_int_equal(c.seen.records, 2);
        assert_memory_equal(c.seen.text, "E a: xxx", 8);
        assert_memory_equal(c.seen.text + 5, in + sizeof(head) - 1, CONTAINER_LOG_MAX);
        assert_string_equal(c.seen.text + 5 + CONTAINER_LOG_MAX, "…|W container.stderr: next|");
    }
}

/* ---- without memory ---- */

static void test_no_memory(void **state)
{
    static const char first[] = TIME "[ERROR] a: a text that needs more than a first allocation, "
                                     "by some words";
    size_t failures = 0;

    (void)state;
    for (bool through = false; !through; failures++) {
        static struct seen s;
        struct container_log l;
        s = (struct seen){.n = 0};
        container_log_init(&l, on_record, &s);
        torture_fail_after(failures);
        container_log_line(&l, SPAN(first), false);
        container_log_line(&l,
                           SPAN("  which goes on and on, so that it has to grow once more, and "
                                "then again, as it does with this"),
                           false);
        container_log_line(&l, SPAN(TIME "[INFO] b: y"), false);
        container_log_flush(&l);
        through = torture_count() <= failures;
        torture_off();
        container_log_line(&l, SPAN("last"), false);
        container_log_flush(&l);
        assert_int_equal(s.records, 3); /* shorter, but each is told, at its level */
        assert_memory_equal(s.text, "E a: ", 5);
        assert_non_null(strstr(s.text, "|I b: "));
        assert_non_null(strstr(s.text, "|W container.stderr: last|"));
        assert_true(!through || strstr(s.text, "does with this|I b: y|") != NULL);
        container_log_fini(&l);
    }
    assert_true(failures >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),          cmocka_unit_test(test_form),
        cmocka_unit_test(test_texts),           cmocka_unit_test(test_loggers),
        cmocka_unit_test(test_continuations),   cmocka_unit_test(test_nothing_to_continue),
        cmocka_unit_test(test_carriage_return), cmocka_unit_test(test_flush_between),
        cmocka_unit_test(test_limit),           cmocka_unit_test(test_cut_characters),
        cmocka_unit_test(test_cut_anywhere),    cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
