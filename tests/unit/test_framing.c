/*
 * Framing: streams of several messages in both framings, cut at every byte and in pieces of each
 * small size; limits, bad prefixes, the meter, and allocations that fail.
 */
#include "wire/framing.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX 64u

struct got {
    char text[4096]; /* each message in <> */
    size_t n;
    size_t messages;
    enum framing_result last;
    bool partial;
};

static void take(struct framing *f, const char *bytes, size_t n, struct got *g)
{
    char *copy = malloc(n == 0 ? 1 : n); /* of its own size: a sanitizer sees a read past it */
    struct span in = span_of(copy, n);
    struct span m;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    g->last = FRAMING_MESSAGE;
    while (g->last == FRAMING_MESSAGE) {
        g->last = framing_next(f, &in, &m);
        if (g->last == FRAMING_MESSAGE) {
            assert_false(framing_partial(f));
            assert_true(g->n + m.n + 3 < sizeof(g->text));
            g->n +=
                (size_t)snprintf(g->text + g->n, sizeof(g->text) - g->n, "<%.*s>", (int)m.n, m.p);
            g->messages++;
        }
    }
    assert_true(g->last != FRAMING_MORE || in.n == 0);
    g->partial = framing_partial(f);
    free(copy);
}

/* The first piece has `first` bytes, the second `second`, all others `step`. */
static struct got run(struct span s, size_t first, size_t second, size_t step)
{
    struct framing f;
    struct got g = {.last = FRAMING_MORE};
    atomic_size_t meter = 0;

    framing_init(&f, MAX, &meter, SIZE_MAX);
    for (size_t at = 0, i = 0; at < s.n && g.last == FRAMING_MORE; i++) {
        size_t n = i == 0 ? first : i == 1 ? second : step;
        n = n < s.n - at ? n : s.n - at;
        take(&f, s.p + at, n, &g);
        at += n;
        assert_true(g.last != FRAMING_MORE || g.partial || atomic_load(&meter) == 0);
    }
    framing_fini(&f);
    assert_int_equal(atomic_load(&meter), 0);
    return g;
}

static void check_one(struct got g, const char *expected, enum framing_result last, bool partial)
{
    assert_string_equal(g.text, expected);
    assert_int_equal(g.last, last);
    assert_true(last != FRAMING_MORE || g.partial == partial);
}

static void check(struct span s, const char *expected, enum framing_result last, bool partial)
{
    for (size_t first = 0; first <= s.n; first++) {
        for (size_t second = 0; second <= s.n - first; second++) {
            check_one(run(s, first, second, s.n), expected, last, partial);
        }
    }
    for (size_t step = 1; step <= 5; step++) {
        check_one(run(s, step, step, step), expected, last, partial);
    }
}

/* api7/aisix#111, katanemo/plano#980: a character that two reads share stays whole. */
static void test_lines(void **state)
{
    static const struct {
        const char *in;
        const char *out;
        bool partial;
    } cases[] = {
        {"{\"a\":1}\n", "<{\"a\":1}>", false},
        {"{\"a\":1}\n{\"b\":2}\n{}\n", "<{\"a\":1}><{\"b\":2}><{}>", false},
        {"{\"a\":1}\r\n{\"b\":2}\r\n", "<{\"a\":1}><{\"b\":2}>", false},
        {"\n\n\r\n \t \n{}\n\n \r\n\n{}\n\n", "<{}><{}>", false},
        {"\r\n", "", false},
        {"{}\n{\"half\":", "<{}>", true},
        {"{}\n ", "<{}>", true},
        {"{}\r", "", true},
        {"x\ry\n", "<x\ry>", false},
        {"x\r\r\n", "<x\r>", false},
        {"[1]\nnull\n0123456789\n", "<[1]><null><0123456789>", false},
        {"{\"t\":\"\xe6\xbc\xa2\xf0\x9f\x98\x80\"}\n{}\n",
         "<{\"t\":\"\xe6\xbc\xa2\xf0\x9f\x98\x80\"}><{}>", false},
        {"\xff\xfe\n{}\n", "<\xff\xfe><{}>", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check(span_str(cases[i].in), cases[i].out, FRAMING_MORE, cases[i].partial);
    }
}

static void test_counted(void **state)
{
    (void)state;
    check(SPAN("0000000002\n{}"), "<{}>", FRAMING_MORE, false);
    check(SPAN("0000000007\n{\"a\":1}0000000002\n{}0000000003\n[1]"), "<{\"a\":1}><{}><[1]>",
          FRAMING_MORE, false);
    /* What is inside a message does not end it, and white space after it is the next prefix. */
    check(SPAN("0000000005\n\n\r\n{}0000000011\n0000000001\n"), "<\n\r\n{}><0000000001\n>",
          FRAMING_MORE, false);
    check(SPAN("0000000002\n{}\n"), "<{}>", FRAMING_BAD_PREFIX, false);
    check(SPAN("0000000002\n{}0000000002\n{"), "<{}>", FRAMING_MORE, true);
    check(SPAN("0000000002\n{}0000000002\n"), "<{}>", FRAMING_MORE, true);
    check(SPAN("0000000002\n{}0"), "<{}>", FRAMING_MORE, true);
}

/* A wrong byte is seen when it comes, at each place of the prefix. */
static void test_bad_prefix(void **state)
{
    static const char good[] = "0000000012\n";
    static const char wrong[] = {'a', ' ', '-', '+', '\r', '\0', '/', ':', '{', '\x80'};
    char text[sizeof(good)];

    (void)state;
    for (size_t at = 1; at < sizeof(good) - 1; at++) {
        for (size_t i = 0; i < sizeof(wrong); i++) {
            memcpy(text, good, sizeof(good));
            text[at] = wrong[i];
            check(span_of(text, at), "", FRAMING_MORE, true);
            check(span_of(text, at + 1), "", FRAMING_BAD_PREFIX, false);
            check(span_of(text, sizeof(good) - 1), "", FRAMING_BAD_PREFIX, false);
        }
        text[at] = at == 10 ? '0' : '\n'; /* a digit too many, a digit too few */
        check(span_of(text, at + 1), "", FRAMING_BAD_PREFIX, false);
    }
    check(SPAN("0000000000\n"), "", FRAMING_BAD_PREFIX, false);
    check(SPAN("0000000002\n{}{}"), "<{}>", FRAMING_BAD_PREFIX, false);
}

static void test_limits(void **state)
{
    char text[256];
    char expected[MAX + 3];

    (void)state;
    memset(text, 'x', sizeof(text));
    (void)snprintf(expected, sizeof(expected), "<%.*s>", (int)MAX, text);

    text[MAX] = '\n';
    check(span_of(text, MAX + 1), expected, FRAMING_MORE, false);
    memcpy(text + MAX, "\r\n", 2);
    check(span_of(text, MAX + 2), expected, FRAMING_MORE, false);
    check(span_of(text, MAX + 1), "", FRAMING_MORE, true); /* a '\r' that may end it */
    memcpy(text + MAX, "\rx\n", 3);
    check(span_of(text, MAX + 2), "", FRAMING_TOO_LARGE, false);
    memcpy(text + MAX, "x\n", 2);
    check(span_of(text, MAX + 1), "", FRAMING_TOO_LARGE, false); /* before its end came */
    check(span_of(text, MAX + 2), "", FRAMING_TOO_LARGE, false);
    memset(text, 'x', sizeof(text));
    check(span_of(text, 100), "", FRAMING_TOO_LARGE, false);

    (void)snprintf(text, sizeof(text), "%010u\n", MAX);
    memset(text + 11, 'x', MAX);
    check(span_of(text, 11 + MAX), expected, FRAMING_MORE, false);
    check(span_of(text, 10 + MAX), "", FRAMING_MORE, true);
    (void)snprintf(text, sizeof(text), "%010u\n", MAX + 1);
    check(span_of(text, 11), "", FRAMING_TOO_LARGE, false);
    check(SPAN("9999999999\n"), "", FRAMING_TOO_LARGE, false);
}

static void test_detect(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        enum framing_kind kind = c >= '0' && c <= '9'   ? FRAMING_LENGTH
                                 : c >= 'A' && c <= 'Z' ? FRAMING_HTTP
                                                        : FRAMING_NDJSON;
        assert_int_equal(framing_detect((char)c), kind);
    }
}

/* A message that lies whole in the bytes given is not copied, and costs no memory. */
static void test_no_copy(void **state)
{
    static const char lines[] = "{\"a\":1}\n{\"b\":2}\n";
    static const char counted[] = "0000000002\n{}0000000002\n[]";
    struct framing f;
    struct span in = span_of(lines, sizeof(lines) - 1);
    struct span m;

    (void)state;
    framing_init(&f, MAX, NULL, 0);
    (void)torture_count();
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MESSAGE);
    assert_ptr_equal(m.p, lines);
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MESSAGE);
    assert_ptr_equal(m.p, lines + 8);
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MORE);
    assert_int_equal(torture_count(), 0);
    framing_fini(&f);

    framing_init(&f, MAX, NULL, 0);
    in = span_of(counted, sizeof(counted) - 1);
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MESSAGE);
    assert_ptr_equal(m.p, counted + 11);
    framing_fini(&f);
}

/* Memory grows with what came, not with what was announced; it is given back after the message. */
static void test_memory(void **state)
{
    struct framing f;
    struct got g = {.last = FRAMING_MORE};
    atomic_size_t meter = 0;
    const size_t big = 100u * 1024u;
    char *text = malloc(big);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', big);
    framing_init(&f, 100u * 1024u * 1024u, &meter, SIZE_MAX);
    take(&f, "0099999999\n", 11, &g);
    take(&f, text, 100, &g);
    assert_int_equal(g.last, FRAMING_MORE);
    assert_int_equal(atomic_load(&meter), 100);
    assert_true(f.kept.cap <= 4096);
    framing_fini(&f);
    assert_int_equal(atomic_load(&meter), 0);

    framing_init(&f, 2 * big, &meter, SIZE_MAX);
    take(&f, "{\n", 2, &g);
    struct span in = span_of(text, big);
    struct span m;
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MORE);
    assert_int_equal(atomic_load(&meter), big);
    in = SPAN("\n");
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MESSAGE);
    assert_int_equal(m.n, big);
    assert_int_equal(atomic_load(&meter), big); /* it is still in use */
    assert_int_equal(framing_next(&f, &in, &m), FRAMING_MORE);
    assert_int_equal(atomic_load(&meter), 0);
    assert_true(f.kept.cap <= 4096);
    framing_fini(&f);
    free(text);
}

/* All connections together: the one that would pass the bound is the one that is told. */
static void test_overload(void **state)
{
    static const char *const begin[] = {"{\"aaaaaaa", "0000000020\nxxxxxxxxx"};
    atomic_size_t meter = 0;

    (void)state;
    for (size_t kind = 0; kind < 2; kind++) {
        struct framing a;
        struct framing b;
        struct got g = {.last = FRAMING_MORE};
        framing_init(&a, MAX, &meter, 20);
        framing_init(&b, MAX, &meter, 20);
        take(&a, begin[kind], strlen(begin[kind]), &g);
        assert_int_equal(atomic_load(&meter), 9);
        take(&b, begin[kind], strlen(begin[kind]), &g);
        assert_int_equal(atomic_load(&meter), 18);
        take(&b, "xx", 2, &g);
        assert_int_equal(g.last, FRAMING_MORE);
        take(&b, "x", 1, &g);
        assert_int_equal(g.last, FRAMING_OVERLOADED);
        framing_fini(&b);
        assert_int_equal(atomic_load(&meter), 9);
        take(&a, kind == 0 ? "x\n" : "xxxxxxxxxxx", kind == 0 ? 2 : 11, &g);
        assert_int_equal(g.last, FRAMING_MORE);
        assert_int_equal(g.messages, 1);
        assert_int_equal(atomic_load(&meter), 0);
        framing_fini(&a);
    }
    /* A message that lies whole in the bytes given is not held, so it never is too much. */
    struct framing f;
    struct got g = {.last = FRAMING_MORE};
    framing_init(&f, MAX, &meter, 0);
    take(&f, "{}\n{}\n", 6, &g);
    assert_int_equal(g.messages, 2);
    framing_fini(&f);
}

/* After a failure nothing is kept; the kind, and so the form of the answer, stays. */
static void test_forget(void **state)
{
    struct framing f;
    struct got g = {.last = FRAMING_MORE};
    atomic_size_t meter = 0;

    (void)state;
    framing_init(&f, MAX, &meter, 20);
    take(&f, "0000000030\nxxxxxxxxxx", 21, &g);
    take(&f, "xxxxxxxxxxx", 11, &g);
    assert_int_equal(g.last, FRAMING_OVERLOADED);
    framing_forget(&f);
    assert_int_equal(atomic_load(&meter), 0);
    assert_int_equal(f.kept.cap, 0);
    assert_false(framing_partial(&f));
    assert_int_equal(f.kind, FRAMING_LENGTH);
    framing_fini(&f);
}

/* Every allocation fails in turn: what came before it was right, and nothing stays behind. */
static void torture(struct span s, const char *expected, size_t step)
{
    bool failed = true;

    for (size_t n = 0; failed; n++) {
        struct framing f;
        struct got g = {.last = FRAMING_MORE};
        atomic_size_t meter = 0;
        framing_init(&f, 2000, &meter, SIZE_MAX);
        for (size_t at = 0; at < s.n && g.last == FRAMING_MORE; at += step) {
            struct span in = span_of(s.p + at, step < s.n - at ? step : s.n - at);
            struct span m;
            torture_fail_after(n);
            do {
                g.last = framing_next(&f, &in, &m);
                g.n += g.last == FRAMING_MESSAGE ? m.n : 0;
                g.messages += g.last == FRAMING_MESSAGE;
            } while (g.last == FRAMING_MESSAGE);
            torture_off();
        }
        failed = g.last == FRAMING_NOMEM;
        assert_true(failed || g.last == FRAMING_MORE);
        assert_true(failed ? g.messages < 2 : g.messages == 2 && g.n == strlen(expected));
        framing_fini(&f);
        assert_int_equal(atomic_load(&meter), 0);
        assert_true(n < 20);
    }
}

static void test_nomem(void **state)
{
    char lines[3002];
    char counted[3022];

    (void)state;
    memset(lines, 'x', sizeof(lines));
    lines[1500] = '\n';
    lines[3001] = '\n';
    memset(counted, 'x', sizeof(counted));
    memcpy(counted, "0000001500\n", 11);
    memcpy(counted + 1511, "0000001500\n", 11);
    lines[1500 + 1501] = '\n';
    char expected[3001];
    memset(expected, 'x', 3000);
    expected[3000] = '\0';
    for (size_t step = 1; step <= 4000; step = step * 7) {
        torture(span_of(lines, 3002), expected, step);
        torture(span_of(counted, 3022), expected, step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),      cmocka_unit_test(test_counted),
        cmocka_unit_test(test_bad_prefix), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_detect),     cmocka_unit_test(test_no_copy),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_overload),
        cmocka_unit_test(test_forget),     cmocka_unit_test(test_nomem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
