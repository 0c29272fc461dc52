/* engine/frames and engine/progress: an engine's streams, cut anywhere. */
#include "engine/frames.h"

#include "engine/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- frames ---- */

static const char stream[] = "\1\0\0\0\0\0\0\5hello"
                             "\2\0\0\0\0\0\0\3err"
                             "\1\0\0\0\0\0\0\0"
                             "\1\0\0\0\0\0\0\1!"
                             "\3\0\0\0\0\0\0\4oops"
                             "\2\0\0\0\0\0\1\0";

/* Feeds `n` bytes in pieces of `size`; joins what comes as "1hello2err…". */
static enum err demux(const char *bytes, size_t n, size_t size, char *out, bool *whole)
{
    struct frames f;
    struct span piece;
    int from = 0;
    int last = -1;
    size_t used = 0;
    enum err rc = ERR_AGAIN;

    frames_init(&f);
    for (size_t at = 0; at < n && rc == ERR_AGAIN; at += size) {
        struct span in = span_of(bytes + at, n - at < size ? n - at : size);
        struct error e = {0};
        while ((rc = frames_next(&f, &in, &from, &piece, &e)) == ERR_OK) {
            assert_true(piece.n > 0);
            if (from != last) {
                out[used++] = (char)('0' + from);
                last = from;
            }
            memcpy(out + used, piece.p, piece.n);
            used += piece.n;
        }
        assert_true(rc != ERR_AGAIN || in.n == 0);
    }
    out[used] = '\0';
    *whole = frames_whole(&f);
    return rc;
}

static void test_cut_anywhere(void **state)
{
    char out[256];
    bool whole = false;

    (void)state;
    for (size_t size = 1; size <= sizeof(stream); size++) {
        assert_int_equal(demux(stream, sizeof(stream) - 1, size, out, &whole), ERR_AGAIN);
        assert_string_equal(out, "1hello2err1!3oops");
        assert_false(whole); /* the last header promises more */
    }
    for (size_t n = 0; n < sizeof(stream) - 9; n++) {
        assert_int_equal(demux(stream, n, 3, out, &whole), ERR_AGAIN);
        assert_int_equal(whole, n == 0 || n == 13 || n == 24 || n == 32 || n == 41 || n == 53);
    }
}

static void test_not_a_stream(void **state)
{
    static const char *const bad[] = {"\4\0\0\0\0\0\0\1x", "H\0\0\0\0\0\0\1x", "\1\1\0\0\0\0\0\1x",
                                      "\1\0\1\0\0\0\0\1x", "\1\0\0\1\0\0\0\1x"};
    char out[256];
    bool whole = false;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t size = 1; size <= 9; size++) {
            assert_int_equal(demux(bad[i], 9, size, out, &whole), ERR_PROTO);
            assert_string_equal(out, "");
        }
    }
}

/* Lengths use all four bytes. */
static void test_long_frame(void **state)
{
    static const char head[] = "\1\0\0\0\xff\xff\xff\xff";
    char *block = calloc(1, 1u << 20);
    struct frames f;
    struct span piece;
    int from = 0;
    uint64_t seen = 0;
    struct span in = span_of(head, 8);

    (void)state;
    assert_non_null(block);
    frames_init(&f);
    assert_int_equal(frames_next(&f, &in, &from, &piece, NULL), ERR_AGAIN);
    for (int i = 0; i < 4096; i++) {
        in = span_of(block, 1u << 20);
        while (frames_next(&f, &in, &from, &piece, NULL) == ERR_OK) {
            seen += piece.n;
        }
    }
    assert_true(seen == UINT32_MAX);
    free(block);
}

/* ---- progress ---- */

static void note(void *ctx, const char *item, const char *status, uint64_t current, uint64_t total)
{
    char *out = ctx;
    size_t n = strlen(out);

    snprintf(out + n, 512 - n, "[%s|%s|%llu/%llu]", item, status, (unsigned long long)current,
             (unsigned long long)total);
}

static enum err follow(const char *text, size_t size, char *out, struct error *e)
{
    struct progress p;
    size_t n = strlen(text);

    out[0] = '\0';
    progress_init(&p, note, out);
    for (size_t at = 0; at < n; at += size) {
        progress_feed(&p, text + at, n - at < size ? n - at : size);
    }
    enum err rc = progress_end(&p, "pull", e);
    progress_fini(&p);
    return rc;
}

static void test_progress(void **state)
{
    static const char good[] = "{\"status\":\"Pulling from x\",\"id\":\"latest\"}\r\n"
                               "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":5,"
                               "\"total\":10},\"id\":\"a}{\\\"\"}"
                               "  {\"stream\":\"Step 1\\n\"}\n{}";
    static const char failing[] =
        "{\"status\":\"a\"}{\"errorDetail\":{\"message\":\"no such {host}\"},"
        "\"error\":\"short\"}";
    char out[512];
    struct error e = {0};

    (void)state;
    for (size_t size = 1; size <= sizeof(good); size++) {
        assert_int_equal(follow(good, size, out, &e), ERR_OK);
        assert_string_equal(out,
                            "[latest|Pulling from x|0/0][a}{\"|Downloading|5/10][|Step 1\n|0/0]");
        assert_int_equal(follow(failing, size, out, &e), ERR_UPSTREAM);
        assert_string_equal(e.msg, "the engine: pull: no such {host}");
    }
    assert_int_equal(follow("{\"error\":\"only this\"}", 7, out, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: pull: only this");
    assert_int_equal(follow("<html>", 2, out, &e), ERR_PROTO);
    assert_int_equal(follow("{\"status\":\"cut", 2, out, &e), ERR_PROTO);
    assert_int_equal(follow("", 1, out, &e), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_not_a_stream),
        cmocka_unit_test(test_long_frame),
        cmocka_unit_test(test_progress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
