/*
 * relay/result at its edges: against a plain reader of whole text, at each limit, without memory,
 * and with the worst that a container can print.
 */
#include "relay/result.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START RESULT_START
#define END   RESULT_END

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

static void on_output(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    assert_true(piece.n > 0);
    s->calls++;
    see(s, piece.p, piece.n);
}

/* In a copy of its own size: a sanitizer sees a read past it, and that nothing points to it later.
 */
static void feed(struct result *r, struct span in)
{
    char *copy = malloc(in.n == 0 ? 1 : in.n);

    assert_non_null(copy);
    memcpy(copy, in.p, in.n);
    result_feed(r, span_of(copy, in.n));
    free(copy);
}

/* ---- against a plain reader ---- */

/* What result.h says, for a whole text of few lines. */
struct plain {
    char output[4096];
    size_t output_n;
    char winner[512];
    bool has_winner;
    unsigned skipped;
};

static bool plain_marker(struct span line, const char *marker)
{
    while (line.n > 0 && strchr(" \t\r\v\f\n", line.p[0]) != NULL) {
        line = span_after(line, 1);
    }
    while (line.n > 0 && strchr(" \t\r\v\f\n", line.p[line.n - 1]) != NULL) {
        line.n--;
    }
    return span_eq(line, span_str(marker));
}

static void plain_output(struct plain *p, struct span s)
{
    assert_true(p->output_n + s.n < sizeof(p->output));
    if (s.n == 0) {
        return;
    }
    memcpy(p->output + p->output_n, s.p, s.n);
    p->output_n += s.n;
}

/* The only valid text of these tests is {"a":1}, with white space. */
static bool plain_valid(struct span s)
{
    return plain_marker(s, "{\"a\":1}");
}

static struct plain read_plain(struct span all)
{
    struct plain p = {.output_n = 0};
    struct span block = {NULL, 0}; /* from its start marker on */
    size_t text = 0;

    for (size_t at = 0; at < all.n;) {
        const char *newline = memchr(all.p + at, '\n', all.n - at);
        size_t n = newline == NULL ? all.n - at : (size_t)(newline - all.p) + 1 - at;
        struct span line = span_of(all.p + at, n);
        if (plain_marker(line, START) && newline != NULL && !p.has_winner) {
            p.skipped += block.n > 0;
            plain_output(&p, block);
            block = line;
            text = n;
        } else if (block.n == 0) {
            plain_output(&p, line);
        } else if (plain_marker(line, END) && !p.has_winner) {
            p.has_winner = plain_valid(span_after(block, text));
            p.skipped += !p.has_winner;
            block.n += p.has_winner ? 0 : n;
            plain_output(&p, p.has_winner ? SPAN("") : block);
            block.n = 0;
        } else {
            block.n += n;
        }
        at += n;
    }
    plain_output(&p, block);
    return p;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static size_t make_text(uint32_t *seed, char *out)
{
    static const char *const pieces[] = {
        START "\n",
        END "\n",
        "\n" START "\n",
        "\n" END "\n",
        "{\"a\":1}",
        "\n",
        " ",
        "\r\n",
        START,
        END,
        "<<<",
        "<<<TACTUS_RESULT_",
        "\t",
        "x",
        "<<<TACTUS_RE",
        "SULT_START>>>\n",
    };
    size_t n = 0;

    for (uint32_t i = next_random(seed) % 14; i > 0; i--) {
        const char *piece = pieces[next_random(seed) % (sizeof(pieces) / sizeof(pieces[0]))];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return n;
}

static void check_against_plain(struct span all, size_t first, size_t step)
{
    static struct seen out;
    struct result r;
    struct plain p = read_plain(all);
    size_t at = first < all.n ? first : all.n;

    out.n = 0;
    result_init(&r, on_output, &out);
    feed(&r, span_of(all.p, at));
    for (; at < all.n; at += step) {
        feed(&r, span_of(all.p + at, step < all.n - at ? step : all.n - at));
    }
    result_end(&r);
    assert_true(!p.has_winner || span_eq(result_block(&r), SPAN("{\"a\":1}")));
    /* What is found in a line at the end may keep the last lines back: no more than that. */
    bool same = out.n == p.output_n && memcmp(out.text, p.output, out.n) == 0;
    bool shorter = r.has_found && !p.has_winner && out.n <= p.output_n &&
                   memcmp(out.text, p.output, out.n) == 0;
    if ((!same && !shorter) || r.skipped != p.skipped) {
        print_error("first %zu, step %zu, skipped %u of %u:\n%.*s\n--\n%.*s\n--\n%.*s\n", first,
                    step, r.skipped, p.skipped, (int)all.n, all.p, (int)out.n, out.text,
                    (int)p.output_n, p.output);
    }
    assert_true(same || shorter);
    assert_int_equal(r.skipped, p.skipped);
    result_fini(&r);
}

static void test_against_plain(void **state)
{
    char text[1024];
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct span all = span_of(text, make_text(&seed, text));
        check_against_plain(all, all.n, 1);
        check_against_plain(all, 0, 1 + next_random(&seed) % 40);
        check_against_plain(all, next_random(&seed) % (all.n + 1), all.n + 1);
        check_against_plain(all, 0, 1);
    }
}

/* ---- what is held, and how it is given ---- */

/* Output that cannot become a marker comes at once, the beginning of a marker when it is none. */
static void test_promptly(void **state)
{
    static const struct {
        const char *in;
        const char *out; /* at once */
    } rows[] = {
        {"abc", "abc"},
        {"a\n", "a\n"},
        {"a\n  ", "a\n"},
        {" \t\r", ""},
        {"x ", "x "},
        {"<<<TACTUS_RESULT_S", ""},
        {"<<<TACTUS_RESULT_X", "<<<TACTUS_RESULT_X"},
        {"<<<TACTUS_RESULT_STARR", "<<<TACTUS_RESULT_STARR"},
        {"x<<<TACTUS_RESULT_S", "x<<<TACTUS_RESULT_S"},
        {START " \t", ""},
        {START " x", START " x"},
        {"y\n" START, "y\n"},
        {"a\nb\n<c", "a\nb\n<c"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step <= strlen(rows[i].in); step++) {
            struct seen out = {.n = 0};
            struct result r;
            struct span in = span_str(rows[i].in);
            result_init(&r, on_output, &out);
            while (in.n > 0) {
                size_t n = in.n < step ? in.n : step;
                feed(&r, span_of(in.p, n));
                in = span_after(in, n);
            }
            assert_string_equal(out.text, rows[i].out);
            result_end(&r);
            assert_string_equal(out.text, rows[i].in);
            result_fini(&r);
        }
    }
}

/* One piece a read, not one a line, for lines that begin like a marker too. */
static void test_few_pieces(void **state)
{
    static const char *const lines[] = {"\n", "  \"indented\": 1\n", "<b>\n", " y\n", "<<<\n"};
    static char block[65536];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        static struct seen out;
        struct result r;
        size_t n = 0;
        for (; n + strlen(lines[i]) <= sizeof(block); n += strlen(lines[i])) {
            memcpy(block + n, lines[i], strlen(lines[i]));
        }
        out = (struct seen){.n = 0};
        result_init(&r, on_output, &out);
        feed(&r, span_of(block, n));
        assert_int_equal(out.n, n);
        assert_int_equal(out.calls, 1);
        result_fini(&r);
    }
}

/* A marker's line has 256 bytes at most, its end included. */
static void test_marker_line_length(void **state)
{
    (void)state;
    for (size_t length = RESULT_MARKER_LINE_MAX - 1; length <= RESULT_MARKER_LINE_MAX + 1;
         length++) {
        for (size_t lead = 0; lead <= 1; lead++) { /* the blanks after it, or before */
            char text[1024];
            size_t n = length - 1;
            memset(text, ' ', n);
            memcpy(text + (lead == 0 ? 0 : n - strlen(START)), START, strlen(START));
            (void)snprintf(text + n, sizeof(text) - n, "\n{}\n%s\n", END);
            for (size_t step = 1; step < 300; step += 7) {
                struct seen out = {.n = 0};
                struct result r;
                struct span in = span_str(text);
                result_init(&r, on_output, &out);
                while (in.n > 0) {
                    size_t k = in.n < step ? in.n : step;
                    feed(&r, span_of(in.p, k));
                    in = span_after(in, k);
                }
                assert_int_equal(r.has_found, length <= RESULT_MARKER_LINE_MAX);
                assert_string_equal(out.text, length <= RESULT_MARKER_LINE_MAX ? "" : text);
                result_fini(&r);
            }
        }
    }
}

/* With the result the kept text goes; what comes later passes, markers too. */
static void test_after_the_winner(void **state)
{
    struct seen out = {.n = 0};
    struct result r;

    (void)state;
    result_init(&r, on_output, &out);
    feed(&r, SPAN("a\n" START "\n {\"n\":9007199254740993} \n" END "\n"));
    assert_true(span_eq(result_block(&r), SPAN("{\"n\":9007199254740993}")));
    assert_int_equal(r.kept.cap, 0);
    feed(&r, SPAN("b\n<<<"));
    feed(&r, SPAN(START "\n{\"x\":1}\n" END "\n" START));
    assert_string_equal(out.text, "a\nb\n<<<" START "\n{\"x\":1}\n" END "\n" START);
    result_end(&r);
    assert_int_equal(r.kept.cap, 0);
    assert_true(span_eq(result_block(&r), SPAN("{\"n\":9007199254740993}")));
    result_fini(&r);
}

/* ---- the search at the end ---- */

static void test_search_again(void **state)
{
    static const struct {
        const char *in;
        const char *winner;
        const char *output;
    } rows[] = {
        {"p> " START "{\"x\":1}" END "\n", "{\"x\":1}", "p> " START "{\"x\":1}" END "\n"},
        {"a" START "no" END START "{\"x\":2}" END, "{\"x\":2}",
         "a" START "no" END START "{\"x\":2}" END},
        {"a" START "{\"x\":" START "{\"x\":3}" END "b", "{\"x\":3}",
         "a" START "{\"x\":" START "{\"x\":3}" END "b"},
        {END "a" START "{}", NULL, END "a" START "{}"},
        {"a" START "[]" END, NULL, "a" START "[]" END},
        /* An end marker with something after it: its block is not given as output too. */
        {"o\n" START "\n{\"x\":4}\n" END " bye", "{\"x\":4}", "o\n"},
        /* Another block was begun after the winner: its lines are output. */
        {"a" START "{\"x\":5}" END "\n" START "\nlast words", "{\"x\":5}",
         "a" START "{\"x\":5}" END "\n" START "\nlast words"},
        {"a" START "{\"x\":6}" END "\n  <<<", "{\"x\":6}", "a" START "{\"x\":6}" END "\n  <<<"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seen out = {.n = 0};
        struct result r;
        result_init(&r, on_output, &out);
        feed(&r, span_str(rows[i].in));
        assert_null(result_block(&r).p);
        result_end(&r);
        struct span winner = result_block(&r);
        assert_true(rows[i].winner == NULL ? winner.p == NULL
                                           : span_eq(winner, span_str(rows[i].winner)));
        assert_string_equal(out.text, rows[i].output);
        result_fini(&r);
    }
}

static void count_bytes(void *ctx, struct span piece)
{
    uint64_t *n = ctx;

    *n += piece.n;
}

/* Start markers in all that is kept, and one end: a search from each would take minutes. */
static void test_many_starts(void **state)
{
    static const char *const between[] = {"", "{\"", "   "};

    (void)state;
    for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++) {
        struct result r;
        uint64_t n = 0;
        char unit[64];
        int unit_n = snprintf(unit, sizeof(unit), "x%s%s", START, between[i]);
        result_init(&r, count_bytes, &n);
        while (r.total + (uint64_t)unit_n + 100 < RESULT_TEXT_MAX) {
            result_feed(&r, span_of(unit, (size_t)unit_n));
        }
        result_feed(&r, SPAN(START "{\"x\":1}" END));
        result_end(&r);
        assert_true(span_eq(result_block(&r), SPAN("{\"x\":1}")));
        result_fini(&r);
    }
}

/* ---- a block's limit ---- */

/* A block whose text has `size` bytes with its line ends, fed in pieces of `step`; its last
 * `tail` bytes and the end marker come one by one. */
static void feed_block(struct result *r, size_t size, size_t step, size_t tail)
{
    char *piece = malloc(step);
    size_t left = size - sizeof("{}\n") + 1;

    assert_non_null(piece);
    memset(piece, ' ', step);
    feed(r, SPAN(START "\n{"));
    while (left > tail) {
        size_t n = left - tail < step ? left - tail : step;
        result_feed(r, span_of(piece, n));
        left -= n;
    }
    for (; left > 0; left--) {
        feed(r, SPAN(" "));
    }
    static const char end[] = "}\n" END "\n";
    for (size_t i = 0; i < sizeof(end) - 1; i++) {
        feed(r, span_of(end + i, 1));
    }
    free(piece);
}

static void test_block_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over <= 2; over++) {
        struct result r;
        uint64_t n = 0;
        size_t size = RESULT_BLOCK_MAX + over;
        result_init(&r, count_bytes, &n);
        feed_block(&r, size, over == 2 ? size : 1u << 20, over == 1 ? 0 : 300);
        assert_int_equal(r.has_found, over == 0);
        assert_int_equal(r.skipped, over != 0);
        assert_int_equal(n, over == 0 ? 0 : size + sizeof(START) + sizeof(END));
        /* What follows is read as ever. */
        feed(&r, SPAN("y\n" START "\n{\"z\":1}\n" END "\n"));
        assert_true(r.has_found);
        assert_true(over == 0 || span_eq(result_block(&r), SPAN("{\"z\":1}")));
        assert_int_equal(r.block.cap, 0);
        result_fini(&r);
    }
}

/* A start marker that comes when the block is full begins a block however it is cut. */
static void test_start_at_the_limit(void **state)
{
    static const char again[] = "\n" START "\n{\"z\":1}\n" END "\n";
    char *piece = malloc(RESULT_BLOCK_MAX);

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', RESULT_BLOCK_MAX);
    for (size_t size = RESULT_BLOCK_MAX - 1; size <= RESULT_BLOCK_MAX; size++) {
        for (size_t step = 1; step < sizeof(again); step += sizeof(again) - 2) {
            struct result r;
            uint64_t n = 0;
            result_init(&r, count_bytes, &n);
            feed(&r, SPAN(START "\n"));
            result_feed(&r, span_of(piece, size));
            for (size_t at = 0; at < sizeof(again) - 1; at += step) {
                feed(&r, span_of(again + at, step));
            }
            assert_true(span_eq(result_block(&r), SPAN("{\"z\":1}")));
            assert_int_equal(r.skipped, 1);
            assert_int_equal(n, size + sizeof(START) + 1);
            result_fini(&r);
        }
    }
    free(piece);
}

/* ---- without memory ---- */

/* Each allocation fails in turn: nothing is lost but the block that won. */
static void test_result_without_memory(void **state)
{
    static const char in[] = "out\n" START "\nno\n" END "\nmore\n" START
                             "\n{\"a\":\"0123456789012345678901234567890123456789\"}\n" END "\nend";
    size_t winners = 0;
    size_t rounds = 0;

    (void)state;
    for (size_t step = 1; step < sizeof(in); step += 9) {
        size_t count = 1;
        for (size_t fail = 0; fail <= count; fail++) {
            struct seen out = {.n = 0};
            struct result r;
            result_init(&r, on_output, &out);
            torture_fail_after(fail);
            for (size_t at = 0; at < sizeof(in) - 1; at += step) {
                size_t left = sizeof(in) - 1 - at;
                result_feed(&r, span_of(in + at, left < step ? left : step));
            }
            result_end(&r);
            (void)result_text(&r);
            count = torture_count();
            torture_off();
            struct span winner = result_block(&r);
            if (winner.p == NULL) {
                assert_string_equal(out.text, in);
                assert_true(r.skipped >= 1);
            } else {
                assert_true(winner.n > 40 && winner.p[0] == '{' && winner.p[winner.n - 1] == '}');
                winners++;
            }
            rounds++;
            result_fini(&r);
        }
    }
    assert_true(winners > 0 && rounds > 2 * sizeof(in) / 9);
}

static void test_text_without_memory(void **state)
{
    struct seen out = {.n = 0};
    struct result r;

    (void)state;
    result_init(&r, on_output, &out);
    torture_fail_after(0);
    result_feed(&r, SPAN("abc\n"));
    torture_off();
    result_feed(&r, SPAN("def\n"));
    result_end(&r);
    assert_string_equal(out.text, "abc\ndef\n");
    assert_true(r.truncated); /* never a text with a hole in it */
    assert_int_equal(result_text(&r).n, 0);
    result_fini(&r);

    result_init(&r, on_output, &out);
    result_feed(&r, SPAN("a\xff"));
    result_end(&r);
    torture_fail_after(0);
    assert_null(result_text(&r).p);
    torture_off();
    assert_true(span_eq(result_text(&r), SPAN("a\xef\xbf\xbd"))); /* and again, with memory */
    assert_true(span_eq(result_text(&r), SPAN("a\xef\xbf\xbd")));
    result_fini(&r);
}

/* What stays of stdout at its limit. */
static void test_text_limit(void **state)
{
    char *piece = malloc(RESULT_TEXT_MAX + 1);

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', RESULT_TEXT_MAX + 1);
    for (size_t over = 0; over <= 1; over++) {
        struct result r;
        uint64_t n = 0;
        result_init(&r, count_bytes, &n);
        result_feed(&r, span_of(piece, 1000));
        result_feed(&r, span_of(piece, RESULT_TEXT_MAX - 1000 + over));
        result_end(&r);
        assert_int_equal(r.truncated, over);
        assert_int_equal(n, RESULT_TEXT_MAX + over);
        assert_int_equal(result_text(&r).n, RESULT_TEXT_MAX);
        result_fini(&r);
    }
    /* Every place of the cut in a character of four bytes; one that is cut by the program stays. */
    for (size_t part = 1; part <= 4; part++) {
        struct result r;
        uint64_t n = 0;
        memcpy(piece + RESULT_TEXT_MAX - part, "\xf0\x9f\x98\x80", part);
        result_init(&r, count_bytes, &n);
        result_feed(&r, span_of(piece, RESULT_TEXT_MAX));
        result_feed(&r, SPAN("\x80"));
        result_end(&r);
        assert_int_equal(result_text(&r).n, RESULT_TEXT_MAX - (part == 4 ? 0 : part));
        result_fini(&r);
        memset(piece + RESULT_TEXT_MAX - part, 'x', part);
    }
    free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plain),       cmocka_unit_test(test_promptly),
        cmocka_unit_test(test_few_pieces),          cmocka_unit_test(test_marker_line_length),
        cmocka_unit_test(test_after_the_winner),    cmocka_unit_test(test_search_again),
        cmocka_unit_test(test_many_starts),         cmocka_unit_test(test_block_limit),
        cmocka_unit_test(test_start_at_the_limit),  cmocka_unit_test(test_result_without_memory),
        cmocka_unit_test(test_text_without_memory), cmocka_unit_test(test_text_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
