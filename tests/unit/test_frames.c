/* engine/frames: the stream of an attached container, cut anywhere. */
#include "engine/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char stream[] = "\1\0\0\0\0\0\0\5hello"
                             "\2\0\0\0\0\0\0\3err"
                             "\1\0\0\0\0\0\0\0"
                             "\1\0\0\0\0\0\0\1!"
                             "\0\0\0\0\0\0\0\2in"
                             "\3\0\0\0\0\0\0\4oops"
                             "\2\0\0\0\0\0\0\0"
                             "\2\0\0\0\0\0\1\0";

/* What came out, joined as "1hello2err…". */
struct seen {
    char text[256];
    size_t n;
    int last;
    enum err rc;
    struct error e;
};

static void feed(struct frames *f, const char *bytes, size_t n, struct seen *s)
{
    char *copy = malloc(n == 0 ? 1 : n); /* so that a sanitizer sees reads past it */
    struct span in = span_of(copy, n);
    struct span piece;
    int from = 0;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    s->rc = frames_next(f, &in, &from, &piece, &s->e);
    while (s->rc == ERR_OK) {
        assert_true(piece.n > 0);
        assert_true(piece.p >= copy && piece.p + piece.n <= copy + n);
        assert_true(s->n + piece.n + 2 < sizeof(s->text));
        if (from != s->last) {
            s->text[s->n++] = (char)('0' + from);
            s->last = from;
        }
        memcpy(s->text + s->n, piece.p, piece.n);
        s->n += piece.n;
        s->rc = frames_next(f, &in, &from, &piece, &s->e);
    }
    s->text[s->n] = '\0';
    assert_true(s->rc != ERR_AGAIN || in.n == 0);
    free(copy);
}

/* Feeds `n` bytes in pieces of `size`, until one is refused. */
static bool demux(const char *bytes, size_t n, size_t size, struct seen *s)
{
    struct frames f;

    *s = (struct seen){.last = -1, .rc = ERR_AGAIN};
    frames_init(&f);
    assert_true(frames_whole(&f));
    for (size_t at = 0; at < n && s->rc == ERR_AGAIN; at += size) {
        feed(&f, bytes + at, n - at < size ? n - at : size, s);
    }
    return frames_whole(&f);
}

static void test_cut_anywhere(void **state)
{
    struct seen s;

    (void)state;
    for (size_t size = 1; size <= sizeof(stream); size++) {
        assert_false(demux(stream, sizeof(stream) - 1, size, &s)); /* its last frame is missing */
        assert_int_equal(s.rc, ERR_AGAIN);
        assert_string_equal(s.text, "1hello2err1!0in3oops");
    }
    for (size_t cut = 0; cut < sizeof(stream); cut++) {
        struct frames f;
        s = (struct seen){.last = -1};
        frames_init(&f);
        feed(&f, stream, cut, &s);
        feed(&f, stream + cut, sizeof(stream) - 1 - cut, &s);
        assert_int_equal(s.rc, ERR_AGAIN);
        assert_string_equal(s.text, "1hello2err1!0in3oops");
    }
}

/* The stream may end between frames only. */
static void test_whole(void **state)
{
    static const size_t ends[] = {0, 13, 24, 32, 41, 51, 63, 71};
    size_t next = 0;
    struct seen s;

    (void)state;
    for (size_t n = 0; n < sizeof(stream); n++) {
        bool end = next < sizeof(ends) / sizeof(ends[0]) && n == ends[next];
        next += end ? 1 : 0;
        for (size_t size = 1; size <= 9; size += 2) {
            assert_int_equal(demux(stream, n, size, &s), end);
            assert_int_equal(s.rc, ERR_AGAIN);
        }
    }
    assert_int_equal(next, sizeof(ends) / sizeof(ends[0]));
}

static void test_empty_frames(void **state)
{
    static const char empty[] = "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct frames f;
    struct span piece = SPAN("mine");
    struct span in = span_of(empty, sizeof(empty) - 1);
    int from = 7;
    struct seen s;

    (void)state;
    for (size_t size = 1; size <= sizeof(empty); size++) {
        assert_true(demux(empty, sizeof(empty) - 1, size, &s));
        assert_int_equal(s.rc, ERR_AGAIN);
        assert_string_equal(s.text, "");
    }
    frames_init(&f);
    assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_AGAIN);
    assert_int_equal(in.n, 0);
    assert_int_equal(from, 7); /* nothing came, nothing is said */
    assert_true(span_eq(piece, SPAN("mine")));
    assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_AGAIN); /* nothing in */
}

static void test_not_a_stream(void **state)
{
    struct seen s;

    (void)state;
    for (size_t at = 0; at < 4; at++) {
        for (int c = 0; c < 256; c++) {
            char header[9] = "\1\0\0\0\0\0\0\1x";
            header[at] = (char)c;
            bool good = at == 0 ? c <= 3 : c == 0;
            for (size_t size = 1; size <= 9; size += 4) {
                (void)demux(header, 9, size, &s);
                assert_int_equal(s.rc, good ? ERR_AGAIN : ERR_PROTO);
                assert_int_equal(s.n, good ? 2 : 0);
            }
        }
    }
    (void)demux("HTTP/1.1", 8, 8, &s);
    assert_int_equal(s.e.code, ERR_PROTO);
    assert_string_equal(s.e.msg, "not a frame of an attached stream: 48 54 54 50");
    (void)demux("\x1\0\0\0\0\0\0\2ok\1\0\0\1\0\0\0\1x", 19, 19, &s); /* what came before counts */
    assert_int_equal(s.rc, ERR_PROTO);
    assert_string_equal(s.text, "1ok");
}

/* What is no stream does not become one again. */
static void test_stays_refused(void **state)
{
    static const char good[] = "\1\0\0\0\0\0\0\2ok";

    (void)state;
    for (size_t cut = 1; cut <= 8; cut++) {
        struct seen s = {.last = -1};
        struct frames f;
        frames_init(&f);
        feed(&f, "\1\0\0\7\0\0\0\0", cut, &s);
        assert_int_equal(s.rc, cut < 8 ? ERR_AGAIN : ERR_PROTO);
        feed(&f, &"\1\0\0\7\0\0\0\0x"[cut], 9 - cut, &s);
        assert_int_equal(s.rc, ERR_PROTO);
        for (int i = 0; i < 3; i++) {
            feed(&f, good, sizeof(good) - 1, &s);
            assert_int_equal(s.rc, ERR_PROTO);
        }
        assert_int_equal(s.n, 0);
        assert_false(frames_whole(&f));
    }
}

/* Each of the four bytes of a length counts. */
static void test_lengths(void **state)
{
    static const uint32_t lengths[] = {1,     255,      256,      65535,          65536,
                                       65537, 1u << 20, 1u << 24, UINT32_MAX - 1, UINT32_MAX};
    size_t block_n = 1u << 20;
    char *block = calloc(1, block_n);

    (void)state;
    assert_non_null(block);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint32_t n = lengths[i];
        char header[8] = {1, 0, 0, 0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};
        struct frames f;
        struct span in = span_of(header, 8);
        struct span piece;
        int from = 0;
        uint64_t seen = 0;
        frames_init(&f);
        assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_AGAIN);
        while (!frames_whole(&f)) {
            uint64_t left = n - seen;
            in = span_of(block, left < block_n ? (size_t)left : block_n);
            assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_OK);
            assert_int_equal(in.n, 0);
            seen += piece.n;
        }
        assert_true(seen == n);
        in = span_of(block, 1); /* one more is the next header's */
        assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_AGAIN);
        assert_false(frames_whole(&f));
    }
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),  cmocka_unit_test(test_whole),
        cmocka_unit_test(test_empty_frames),  cmocka_unit_test(test_not_a_stream),
        cmocka_unit_test(test_stays_refused), cmocka_unit_test(test_lengths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
