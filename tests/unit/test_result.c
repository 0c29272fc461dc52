/* relay/result: the result that a procedure prints among its output, cut anywhere. */
#include "relay/result.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START RESULT_START
#define END   RESULT_END
#define FFFD  "\xef\xbf\xbd"

#define B10  "          "
#define B60  B10 B10 B10 B10 B10 B10
#define B100 B60 B10 B10 B10 B10

struct seen {
    char text[8192];
    size_t n;
};

static void on_output(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    assert_true(piece.n > 0);
    assert_true(s->n + piece.n < sizeof(s->text));
    memcpy(s->text + s->n, piece.p, piece.n);
    s->n += piece.n;
    s->text[s->n] = '\0';
}

static void feed(struct result *r, const char *bytes, size_t n)
{
    char *copy = malloc(n == 0 ? 1 : n); /* so that a sanitizer sees reads past it */

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    result_feed(r, span_of(copy, n));
    free(copy);
}

/* ---- small ones, cut anywhere ---- */

struct row {
    const char *what;
    const char *in;
    const char *block; /* NULL: none */
    const char *output;
    const char *text; /* without a block */
    unsigned skipped;
};

static const struct row found_rows[] = {
    {"a block", "a\n" START "\n{\"x\":1}\n" END "\nb\n", "{\"x\":1}", "a\nb\n", NULL, 0},
    {"nothing else", START "\n{\"x\":1}\n" END "\n", "{\"x\":1}", "", NULL, 0},
    {"lines of a block", START "\n{\n \"x\": 1\n}\n" END "\n", "{\n \"x\": 1\n}", "", NULL, 0},
    {"an empty object", START "\n{}\n" END "\n", "{}", "", NULL, 0},
    {"blank lines in it", START "\n\n \n{}\n\t\n" END "\n", "{}", "", NULL, 0},
    {"CRLF", "a\r\n" START "\r\n{\"x\":\r\n1}\r\n" END "\r\nb\r\n", "{\"x\":\r\n1}", "a\r\nb\r\n",
     NULL, 0},
    {"blanks around markers", " \t" START " \n{}\n\v\f " END "\t\t\n", "{}", "", NULL, 0},
    {"no line end after it", START "\n{}\n" END, "{}", "", NULL, 0},
    {"a CR after it", START "\n{}\n" END "\r", "{}", "", NULL, 0},
    {"blanks after it", "a\n" START "\n{}\n  " END "  ", "{}", "a\n", NULL, 0},
    {"the first valid one",
     START "\nno\n" END "\n" START "\n{\"x\":1}\n" END "\n" START "\n{\"x\":2}\n" END "\n",
     "{\"x\":1}", START "\nno\n" END "\n" START "\n{\"x\":2}\n" END "\n", NULL, 1},
    {"what follows is output", START "\n{}\n" END "\n" END "\n<<<TACTUS\n" START "\nx", "{}",
     END "\n<<<TACTUS\n" START "\nx", NULL, 0},
    {"a start in a block", START "\n{\"x\":\n" START "\n{\"x\":3}\n" END "\n", "{\"x\":3}",
     START "\n{\"x\":\n", NULL, 1},
    {"starts in blocks", START "\n" START "\r\n{}\n " START "\n{\"y\":0}\n" END "\n", "{\"y\":0}",
     START "\n" START "\r\n{}\n", NULL, 2},
    {"the marker in a string", START "\n{\"x\":\"" START END "\"}\n" END "\n",
     "{\"x\":\"" START END "\"}", "", NULL, 0},
    {"after lines like markers", "<<<TACTUS_RESULT\n<<<\n " START "x\n" START "\n{}\n" END "\n",
     "{}", "<<<TACTUS_RESULT\n<<<\n " START "x\n", NULL, 0},
    {"after ends", END "\n" END "\n" START "\n{}\n" END "\n", "{}", END "\n" END "\n", NULL, 0},
    {"after a blank line", "\n  \n" START "\n{}\n" END "\n\n", "{}", "\n  \n\n", NULL, 0},
    {"a start in a line before", "x" START "\n" START "\n{}\n" END "\n", "{}", "x" START "\n", NULL,
     0},
    {"a line of 256 bytes",
     B100 B100 B10 B10 B10 START "\n{}\n" B100 B100 B10 B10 B10 "  " END "\n", "{}", "", NULL, 0},
    /* by the search at the end: markers anywhere */
    {"an end behind the text", "a\n" START "\n{}" END, "{}", "a\n", NULL, 0},
    {"an end behind the text and blanks", "a\n" START "\n{} " END " \n", "{}", "a\n", NULL, 0},
    {"in a line", "p> " START " {\"x\":1} " END " q", "{\"x\":1}",
     "p> " START " {\"x\":1} " END " q", NULL, 0},
    {"without blanks", START "{\"x\":1}" END, "{\"x\":1}", START "{\"x\":1}" END, NULL, 0},
    {"the first valid one in lines", "a" START "x" END "b" START "{}" END "c" START "{\"x\":1}" END,
     "{}", "a" START "x" END "b" START "{}" END "c" START "{\"x\":1}" END, NULL, 0},
    {"an end before it", END START "{}" END, "{}", END START "{}" END, NULL, 0},
    {"a line too long for a marker", "\n" B100 B100 B10 B10 B10 " " START "\n{}\n" END "\n", "{}",
     "\n" B100 B100 B10 B10 B10 " " START "\n{}\n" END "\n", NULL, 0},
    {"two starts in a line", START START "\n{}\n" END "\n", "{}", START START "\n{}\n" END "\n",
     NULL, 0},
};

static const struct row other_rows[] = {
    {"nothing", "", NULL, "", "", 0},
    {"only words", "one\n two \n", NULL, "one\n two \n", "one\n two", 0},
    {"blank lines", "\n \n\t\r\n", NULL, "\n \n\t\r\n", "", 0},
    {"white space around it", " \f\n a b\v\r\n", NULL, " \f\n a b\v\r\n", "a b", 0},
    {"an array", START "\n[1]\n" END "\nx", NULL, START "\n[1]\n" END "\nx",
     START "\n[1]\n" END "\nx", 1},
    {"no text", START "\n" END "\n", NULL, START "\n" END "\n", START "\n" END, 1},
    {"blank text", START "\n \n" END "\n", NULL, START "\n \n" END "\n", START "\n \n" END, 1},
    {"two objects", START "\n{}{}\n" END "\n", NULL, START "\n{}{}\n" END "\n",
     START "\n{}{}\n" END, 1},
    {"not JSON", START "\n{'x':1}\n" END "\n", NULL, START "\n{'x':1}\n" END "\n",
     START "\n{'x':1}\n" END, 1},
    {"not UTF-8", START "\n{\"x\":\"\xff\"}\n" END "\n", NULL,
     START "\n{\"x\":\"\xff\"}\n" END "\n", START "\n{\"x\":\"" FFFD "\"}\n" END, 1},
    {"an end that never comes", "a\n" START "\n{}\n", NULL, "a\n" START "\n{}\n",
     "a\n" START "\n{}", 0},
    {"a start alone", START, NULL, START, START, 0},
    {"a start and its line end", START "\n", NULL, START "\n", START, 0},
    {"a cut end", START "\n{}\n<<<TACTUS_RESULT_END>>", NULL, START "\n{}\n<<<TACTUS_RESULT_END>>",
     START "\n{}\n<<<TACTUS_RESULT_END>>", 0},
    {"a cut start", "a\n <<<TACTUS_RESULT_START>>", NULL, "a\n <<<TACTUS_RESULT_START>>",
     "a\n <<<TACTUS_RESULT_START>>", 0},
    {"an end alone", END "\n{}\n", NULL, END "\n{}\n", END "\n{}", 0},
    {"the wrong way round", END "{}" START, NULL, END "{}" START, END "{}" START, 0},
    {"a marker's beginning", "<<<TACTUS_RESULT\n<<<\n<", NULL, "<<<TACTUS_RESULT\n<<<\n<",
     "<<<TACTUS_RESULT\n<<<\n<", 0},
    {"other letters", "<<<tactus_result_start>>>\n{}\n" END, NULL,
     "<<<tactus_result_start>>>\n{}\n" END, "<<<tactus_result_start>>>\n{}\n" END, 0},
    {"longer lines", START "x\n{}\n", NULL, START "x\n{}\n", START "x\n{}", 0},
    {"prompts", "Name: \n> ", NULL, "Name: \n> ", "Name: \n>", 0},
    {"invalid UTF-8", "a\xff\xc3\n\xed\xa0\x80z\xe6\xbc", NULL, "a\xff\xc3\n\xed\xa0\x80z\xe6\xbc",
     "a" FFFD FFFD "\n" FFFD FFFD FFFD "z" FFFD FFFD, 0},
};

/* Feeds the first `first` bytes, the rest in pieces of `size`. */
static void check(const struct row *row, size_t first, size_t size)
{
    struct seen out = {.n = 0};
    struct result r;
    size_t n = strlen(row->in);

    result_init(&r, on_output, &out);
    feed(&r, row->in, first);
    for (size_t at = first; at < n; at += size) {
        feed(&r, row->in + at, n - at < size ? n - at : size);
    }
    result_end(&r);
    struct span block = result_block(&r);
    bool same = row->block == NULL ? block.p == NULL
                                   : block.p != NULL && span_eq(block, span_str(row->block));
    if (!same || strcmp(out.text, row->output) != 0 || r.skipped != row->skipped) {
        print_error("%s, %zu and then by %zu: block %.*s, skipped %u, output %s\n", row->what,
                    first, size, (int)block.n, block.p == NULL ? "" : block.p, r.skipped, out.text);
    }
    assert_true(same);
    assert_string_equal(out.text, row->output);
    assert_int_equal(r.skipped, row->skipped);
    assert_int_equal(r.has_found, row->block != NULL);
    assert_false(r.truncated);
    if (row->text != NULL) {
        assert_true(span_eq(result_text(&r), span_str(row->text)));
        assert_true(span_eq(result_text(&r), span_str(row->text))); /* and once more */
    }
    result_fini(&r);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(rows[i].in);
        for (size_t size = 1; size <= n + 1; size++) {
            check(&rows[i], 0, size);
        }
        for (size_t first = 1; first <= n; first++) {
            check(&rows[i], first, n);
        }
    }
}

static void test_found(void **state)
{
    (void)state;
    check_rows(found_rows, sizeof(found_rows) / sizeof(found_rows[0]));
}

static void test_not_found(void **state)
{
    (void)state;
    check_rows(other_rows, sizeof(other_rows) / sizeof(other_rows[0]));
}

/* Wherever a stream ends: nothing of it is lost, but for the block that won. */
static void test_ends_anywhere(void **state)
{
    static const char in[] = "a\n" START "\n[]\n" END "\n " START "\n{\"x\":1}\n" END "\nb";
    static const size_t won = sizeof(in) - 1 - 2; /* with its end marker, whole */
    static const size_t block_at = sizeof("a\n" START "\n[]\n" END "\n") - 1;

    (void)state;
    for (size_t n = 0; n < sizeof(in); n++) {
        struct seen out = {.n = 0};
        struct result r;
        result_init(&r, on_output, &out);
        for (size_t at = 0; at < n; at += 7) {
            feed(&r, in + at, n - at < 7 ? n - at : 7);
        }
        result_end(&r);
        assert_int_equal(r.has_found, n >= won);
        assert_int_equal(out.n, n < won ? n : block_at + (n > won ? n - won - 1 : 0));
        assert_memory_equal(out.text, in, n < won ? n : block_at);
        result_fini(&r);
    }
}

/* Output comes at once, but for a line that may become a marker; the result is there with the line
 * end of its end marker. */
static void test_at_once(void **state)
{
    static const struct {
        const char *in;
        const char *output;
        bool found;
    } steps[] = {
        {"abc", "abc", false},
        {"<<<", "abc<<<", false},
        {"\n<<<", "abc<<<\n", false},
        {"TAC", NULL, false},
        {"x", "abc<<<\n<<<TACx", false},
        {"\n" START, NULL, false},
        {"\n{}\n", NULL, false},
        {END, NULL, false},
        {"\n", NULL, true},
        {"<<<", NULL, true},
        {"z", NULL, true},
    };
    struct seen out = {.n = 0};
    struct result r;

    (void)state;
    result_init(&r, on_output, &out);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        feed(&r, steps[i].in, strlen(steps[i].in));
        if (steps[i].output != NULL) {
            assert_string_equal(out.text, steps[i].output);
        }
        assert_int_equal(r.has_found, steps[i].found);
        assert_int_equal(result_block(&r).p != NULL, steps[i].found);
    }
    assert_string_equal(out.text, "abc<<<\n<<<TACx\n<<<z");
    result_end(&r);
    assert_string_equal(out.text, "abc<<<\n<<<TACx\n<<<z");
    assert_true(span_eq(result_block(&r), SPAN("{}")));
    result_fini(&r);
}

static void test_nul(void **state)
{
    static const char in[] = "a\0b\n\0" START "\n" START "\n{\"x\":\"\0\"}\n" END "\n\0";
    struct seen out = {.n = 0};
    struct result r;

    (void)state;
    result_init(&r, on_output, &out);
    feed(&r, in, sizeof(in) - 1);
    result_end(&r);
    assert_false(r.has_found);
    assert_int_equal(r.skipped, 1);
    assert_int_equal(out.n, sizeof(in) - 1);
    assert_memory_equal(out.text, in, sizeof(in) - 1);
    assert_true(span_eq(result_text(&r), span_of(in, sizeof(in) - 1)));
    result_fini(&r);
}

/* ---- large ones ---- */

static void count(void *ctx, struct span piece)
{
    size_t *n = ctx;

    *n += piece.n;
}

static void feed_all(struct result *r, const char *bytes, size_t n, size_t size)
{
    for (size_t at = 0; at < n; at += size) {
        result_feed(r, span_of(bytes + at, n - at < size ? n - at : size));
    }
}

/* A block whose text, line end included, is `text_n` bytes; then one that is small. */
static char *make_large(size_t text_n, size_t *n)
{
    static const char small[] = START "\n{\"small\":1}\n" END "\n";
    static const char head[] = START "\n{\"x\":\"";
    static const char tail[] = "\"}\n " END "\n";
    char *p = malloc(text_n + 256);

    assert_non_null(p);
    memcpy(p, head, sizeof(head) - 1);
    memset(p + sizeof(head) - 1, 'x', text_n);
    size_t at = sizeof(START) + text_n - 3;
    memcpy(p + at, tail, sizeof(tail) - 1);
    at += sizeof(tail) - 1;
    memcpy(p + at, small, sizeof(small) - 1);
    *n = at + sizeof(small) - 1;
    return p;
}

static void test_block_limit(void **state)
{
    static const size_t overs[] = {0, 1, 5000};
    static const size_t sizes[] = {1u << 30, 65536, 1000003};
    static const size_t small_n = sizeof(START "\n{\"small\":1}\n" END "\n") - 1;

    (void)state;
    for (size_t k = 0; k < sizeof(overs) / sizeof(overs[0]); k++) {
        size_t over = overs[k];
        size_t n = 0;
        char *p = make_large(RESULT_BLOCK_MAX + over, &n);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct result r;
            size_t passed = 0;
            result_init(&r, count, &passed);
            feed_all(&r, p, n, sizes[i]);
            result_end(&r);
            assert_true(r.has_found);
            assert_int_equal(r.skipped, over == 0 ? 0 : 1);
            assert_int_equal(passed, over == 0 ? small_n : n - small_n);
            assert_int_equal(result_block(&r).n, over == 0 ? RESULT_BLOCK_MAX - 1 : 11);
            result_fini(&r);
        }
        free(p);
    }
}

/* A block of many lines, and one without any line end, are given up at the limit, too. */
static void test_block_without_end(void **state)
{
    static const size_t block_n = 1u << 20;
    char *block = malloc(block_n);

    (void)state;
    assert_non_null(block);
    for (size_t lines = 0; lines <= 1; lines++) {
        struct result r;
        size_t passed = 0;
        memset(block, 'x', block_n);
        for (size_t i = 99; i < block_n && lines == 1; i += 100) {
            block[i] = '\n';
        }
        block[block_n - 1] = lines == 1 ? '\n' : 'x';
        result_init(&r, count, &passed);
        result_feed(&r, SPAN(START "\n"));
        for (int i = 0; i < 64; i++) {
            result_feed(&r, span_of(block, block_n));
        }
        assert_int_equal(r.skipped, 0);
        assert_int_equal(passed, 0);
        size_t more = lines == 1 ? block_n : 1;
        result_feed(&r, span_of(block, more));
        assert_int_equal(r.skipped, 1);
        assert_int_equal(passed, sizeof(START) + 64 * block_n + more);
        assert_int_equal(r.block.cap, 0);
        result_feed(&r, SPAN(START "\n{}\n" END "\n")); /* in a line, unless that had its end */
        assert_int_equal(r.has_found, lines == 1);
        result_feed(&r, SPAN(START "\n{}\n" END "\n"));
        assert_true(span_eq(result_block(&r), SPAN("{}")));
        result_fini(&r);
    }
    free(block);
}

/* The first 8 MiB are kept, cut between characters; all of it passes, without memory. */
static void test_text_limit(void **state)
{
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"};
    size_t n = RESULT_TEXT_MAX + 8;
    char *p = malloc(n + 8);

    (void)state;
    assert_non_null(p);
    for (size_t i = 0; i < 4; i++) {
        size_t width = i + 1;
        for (size_t shift = 0; shift < width; shift++) {
            struct result r;
            size_t passed = 0;
            memset(p, 'y', shift);
            for (size_t at = shift; at < n; at += width) {
                memcpy(p + at, characters[i], width);
            }
            result_init(&r, count, &passed);
            feed_all(&r, p, RESULT_TEXT_MAX, 65536);
            assert_false(r.truncated);
            result_feed(&r, span_of(p + RESULT_TEXT_MAX, 8));
            torture_off();
            feed_all(&r, p, RESULT_TEXT_MAX, 65536);
            assert_int_equal(torture_count(), 0);
            result_end(&r);
            assert_true(r.truncated);
            assert_int_equal(passed, 2 * RESULT_TEXT_MAX + 8);
            size_t kept = shift + (RESULT_TEXT_MAX - shift) / width * width;
            assert_true(span_eq(result_text(&r), span_of(p, kept)));
            result_fini(&r);
        }
    }
    free(p);
}

/* The end of what is kept is not the end of what came: a part of a character is left away there
 * only, bytes that are none are shown as such. */
static void test_text_cut(void **state)
{
    static const struct {
        const char *tail; /* the last bytes that are kept */
        const char *text;
    } rows[] = {
        {"ab", "ab"},
        {"a ", "a"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"a\xf0\x9f\x98", "a"},
        {"a\xf0\x9f", "a"},
        {"a\xe6", "a"},
        {" \xc3", ""},
        {"a\x80\x80\x80\x80", "a" FFFD FFFD FFFD FFFD},
        {"a\xc3\xa9\x80", "a\xc3\xa9" FFFD},
    };
    char *p = malloc(RESULT_TEXT_MAX + 1);

    (void)state;
    assert_non_null(p);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct result r;
        size_t passed = 0;
        size_t n = strlen(rows[i].tail);
        memset(p, '\n', RESULT_TEXT_MAX + 1);
        memcpy(p + RESULT_TEXT_MAX - n, rows[i].tail, n);
        result_init(&r, count, &passed);
        result_feed(&r, span_of(p, RESULT_TEXT_MAX + 1));
        result_end(&r);
        assert_true(r.truncated);
        assert_true(span_eq(result_text(&r), span_str(rows[i].text)));
        result_fini(&r);
    }
    free(p);
}

/* What is no text at all grows threefold. */
static void test_text_of_bytes(void **state)
{
    char *p = malloc(RESULT_TEXT_MAX);
    struct result r;
    size_t passed = 0;
    bool right = true;

    (void)state;
    assert_non_null(p);
    memset(p, '\xff', RESULT_TEXT_MAX);
    result_init(&r, count, &passed);
    result_feed(&r, span_of(p, RESULT_TEXT_MAX));
    result_end(&r);
    struct span text = result_text(&r);
    assert_int_equal(text.n, 3 * RESULT_TEXT_MAX);
    for (size_t i = 0; i < text.n; i += 3) {
        right = right && memcmp(text.p + i, FFFD, 3) == 0;
    }
    assert_true(right);
    result_fini(&r);
    free(p);
}

/* A result behind 8 MiB of output is found as lines, but not in a line: that is searched for in
 * what is kept. */
static void test_behind_much(void **state)
{
    char *p = malloc(RESULT_TEXT_MAX);

    (void)state;
    assert_non_null(p);
    memset(p, 'x', RESULT_TEXT_MAX);
    p[RESULT_TEXT_MAX - 1] = '\n';
    for (size_t in_line = 0; in_line <= 1; in_line++) {
        struct result r;
        size_t passed = 0;
        result_init(&r, count, &passed);
        result_feed(&r, span_of(p, RESULT_TEXT_MAX));
        result_feed(&r, in_line == 1 ? SPAN("> " START "{}" END) : SPAN(START "\n{}\n" END));
        result_end(&r);
        assert_int_equal(r.has_found, in_line == 0);
        assert_int_equal(passed,
                         RESULT_TEXT_MAX + (in_line == 1 ? sizeof("> " START "{}" END) - 1 : 0));
        result_fini(&r);
    }
    free(p);
}

/* Output that is made to be searched again and again is not. */
static void test_worst_output(void **state)
{
    static const char *const units[] = {START,     START "\n",      START " {\"x\":\"",
                                        " \n",     "<<<TACTUS_",    START "{",
                                        END START, " " START " x\n"};
    char *p = malloc(RESULT_TEXT_MAX);

    (void)state;
    assert_non_null(p);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct result r;
        size_t passed = 0;
        size_t width = strlen(units[i]);
        size_t n = (RESULT_TEXT_MAX - 64) / width * width;
        for (size_t at = 0; at < n; at += width) {
            memcpy(p + at, units[i], width);
        }
        memcpy(p + n, "x" END, sizeof(END));
        n += sizeof(END);
        result_init(&r, count, &passed);
        feed_all(&r, p, n, 4096);
        result_end(&r);
        assert_false(r.has_found);
        assert_int_equal(passed, n);
        result_fini(&r);
    }
    free(p);
}

/* ---- without memory ---- */

#define JSON "{\"x\":\"so long that a block grows after its first allocation, once or more\"}"

static void test_no_memory(void **state)
{
    static const char *const ins[] = {"out\n" START "\n" JSON "\n" END "\nput\xff\n",
                                      "out " START JSON END " put\xff\n",
                                      "out\n" START "\n" JSON END};

    static const char *const outs[] = {"out\nput\xff\n", "", "out\n"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t failures = 0;
        for (bool through = false; !through; failures++) {
            struct seen out = {.n = 0};
            struct result r;
            size_t n = strlen(ins[i]);
            result_init(&r, on_output, &out);
            torture_fail_after(failures);
            feed_all(&r, ins[i], n, 5);
            result_end(&r);
            (void)result_text(&r);
            through = torture_count() <= failures;
            torture_off();
            bool all = strcmp(out.text, ins[i]) == 0;
            if (r.has_found) { /* of a block that was found again its lines have passed */
                assert_true(span_eq(result_block(&r), SPAN(JSON)));
                assert_true(all || strcmp(out.text, outs[i]) == 0);
                assert_true(!through || !all || i == 1);
            } else { /* everything is output, whatever was lost */
                assert_null(result_block(&r).p);
                assert_true(all);
            }
            assert_true(r.has_found || !through);
            result_fini(&r);
        }
        assert_true(failures >= 2);
    }
}

/* Less is kept, and it is said. */
static void test_no_memory_for_text(void **state)
{
    static const char in[] = "some words, then \xff more of them than fit into a first allocation, "
                             "and still more of them\n";
    size_t failures = 0;

    (void)state;
    for (bool through = false; !through; failures++) {
        struct seen out = {.n = 0};
        struct result r;
        result_init(&r, on_output, &out);
        torture_fail_after(failures);
        feed_all(&r, in, sizeof(in) - 1, 10);
        result_end(&r);
        struct span text = result_text(&r);
        through = torture_count() <= failures;
        torture_off();
        assert_string_equal(out.text, in);
        assert_true(text.n <= sizeof(in) - 2 + 2); /* U+FFFD for one byte, no line end */
        assert_int_equal(text.n == sizeof(in) - 2 + 2, through);
        assert_true(text.n == 0 || memcmp(text.p, in, 10) == 0);
        result_fini(&r);
    }
    assert_true(failures >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_ends_anywhere),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_block_limit),
        cmocka_unit_test(test_block_without_end),
        cmocka_unit_test(test_text_limit),
        cmocka_unit_test(test_text_cut),
        cmocka_unit_test(test_text_of_bytes),
        cmocka_unit_test(test_behind_much),
        cmocka_unit_test(test_worst_output),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_for_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
