/*
 * Frames of AWS event streams made here byte by byte: lengths, checksums, headers of all types,
 * limits, cuts at every byte, a stop in the middle. The reader's transcripts (test_bedrock.c) have
 * the broken frames.
 */
#include "fixtures/torture.h"
#include "llm/eventstream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of the AWS SDKs' test suites for the format: without headers, without and with a payload. */
static const unsigned char EMPTY[] = {0, 0,    0,    16,   0,    0,    0,    0,
                                      5, 0xC2, 0x48, 0xEB, 0x7D, 0x98, 0xC8, 0xFF};
static const unsigned char PAYLOAD[] = {0,    0,    0,    0x1D, 0,    0,    0,    0,    0xFD, 0x52,
                                        0x8C, 0x5A, 0x7B, 0x27, 0x66, 0x6F, 0x6F, 0x27, 0x3A, 0x27,
                                        0x62, 0x61, 0x72, 0x27, 0x7D, 0xC3, 0x65, 0x39, 0x36};

struct seen {
    char text[1024];
    size_t n;
    size_t messages;
    size_t stop_after; /* 0: never */
};

static void put(struct seen *s, const char *before, struct span v)
{
    int n = snprintf(s->text + s->n, sizeof s->text - s->n, "%s%.*s", before, (int)v.n,
                     v.p == NULL ? "" : v.p);

    assert_in_range(n, 0, sizeof s->text - s->n - 1);
    s->n += (size_t)n;
}

static bool on_message(void *ctx, const struct eventstream_message *m)
{
    struct seen *s = ctx;

    put(s, "[", m->message_type);
    put(s, "|", m->event_type);
    put(s, "|", m->exception_type);
    put(s, "|", m->error_code);
    put(s, "|", m->error_message);
    put(s, "|", m->payload);
    put(s, "]", SPAN(""));
    s->messages++;
    return s->messages != s->stop_after;
}

/* `bytes` in pieces: `first`, then of `step`; each in memory of its own size. */
static enum err feed(struct eventstream *s, const void *bytes, size_t n, size_t first, size_t step,
                     struct seen *seen)
{
    enum err err = ERR_OK;

    *seen = (struct seen){.stop_after = seen->stop_after};
    for (size_t at = 0; at < n && err == ERR_OK;) {
        size_t k = at < first ? first - at : step;
        k = k < n - at ? k : n - at;
        char *copy = malloc(k);
        assert_non_null(copy);
        memcpy(copy, (const char *)bytes + at, k);
        err = eventstream_feed(s, copy, k, on_message, seen);
        free(copy);
        at += k;
    }
    return err;
}

static void test_known_frames(void **state)
{
    struct eventstream s;
    struct seen seen = {.stop_after = 0};

    (void)state;
    eventstream_init(&s, 1024);
    assert_int_equal(feed(&s, EMPTY, sizeof EMPTY, 0, 1024, &seen), ERR_OK);
    assert_string_equal(seen.text, "[|||||]");
    assert_int_equal(feed(&s, PAYLOAD, sizeof PAYLOAD, 0, 1024, &seen), ERR_OK);
    assert_string_equal(seen.text, "[|||||{'foo':'bar'}]");
    assert_true(eventstream_idle(&s));
    eventstream_fini(&s);
}

/* A transcript with headers of all types among its frames. */
static size_t load(char *bytes, size_t max)
{
    FILE *f = fopen("tests/fixtures/transcripts/bedrock_unknown.bin", "rb");

    assert_non_null(f);
    size_t n = fread(bytes, 1, max, f);
    fclose(f);
    assert_in_range(n, 500, max - 1);
    return n;
}

static void test_cuts(void **state)
{
    char bytes[8192];
    size_t n = load(bytes, sizeof bytes);
    struct eventstream s;
    struct seen whole = {.stop_after = 0};
    struct seen cut = {.stop_after = 0};

    (void)state;
    eventstream_init(&s, 1024);
    assert_int_equal(feed(&s, bytes, n, 0, n, &whole), ERR_OK);
    assert_int_equal(whole.messages, 11);
    assert_non_null(strstr(whole.text, "[event|contentBlockDelta||||{\"contentBlockIndex\":0,"
                                       "\"delta\":{\"text\":\"yes\"}}]"));
    for (size_t first = 0; first <= n; first++) {
        assert_int_equal(feed(&s, bytes, n, first, n, &cut), ERR_OK);
        assert_string_equal(cut.text, whole.text);
        assert_true(eventstream_idle(&s));
    }
    for (size_t step = 1; step < 40; step++) {
        assert_int_equal(feed(&s, bytes, n, 0, step, &cut), ERR_OK);
        assert_string_equal(cut.text, whole.text);
    }
    eventstream_fini(&s);
}

/* Every byte matters: none can be another without being noticed. */
static void test_every_byte_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof PAYLOAD; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            unsigned char bytes[sizeof PAYLOAD];
            struct eventstream s;
            struct seen seen = {.stop_after = 0};

            memcpy(bytes, PAYLOAD, sizeof bytes);
            bytes[i] ^= (unsigned char)(1u << bit);
            eventstream_init(&s, 1024);
            assert_int_equal(feed(&s, bytes, sizeof bytes, 0, 1024, &seen), ERR_PROTO);
            assert_string_equal(s.why, i < 12 ? "the checksum of a frame's beginning is wrong"
                                              : "a frame's checksum is wrong");
            assert_int_equal(seen.messages, 0);
            eventstream_fini(&s);
        }
    }
}

/* The prelude alone tells: nobody waits for the rest of what will not be taken. */
static void test_limit(void **state)
{
    struct eventstream s;
    struct seen seen = {.stop_after = 0};

    (void)state;
    eventstream_init(&s, sizeof PAYLOAD);
    assert_int_equal(feed(&s, PAYLOAD, sizeof PAYLOAD, 0, 1, &seen), ERR_OK);
    assert_int_equal(seen.messages, 1);
    eventstream_fini(&s);
    eventstream_init(&s, sizeof PAYLOAD - 1);
    assert_int_equal(feed(&s, PAYLOAD, 11, 0, 1, &seen), ERR_OK);
    assert_false(eventstream_idle(&s));
    assert_int_equal(eventstream_feed(&s, (const char *)PAYLOAD + 11, 1, on_message, &seen),
                     ERR_LIMIT);
    assert_int_equal(seen.messages, 0);
    eventstream_fini(&s);
}

static void test_stop(void **state)
{
    unsigned char bytes[2 * sizeof PAYLOAD];
    struct eventstream s;

    (void)state;
    memcpy(bytes, PAYLOAD, sizeof PAYLOAD);
    memcpy(bytes + sizeof PAYLOAD, PAYLOAD, sizeof PAYLOAD);
    for (size_t step = 1; step <= sizeof bytes; step++) {
        struct seen seen = {.stop_after = 1};

        eventstream_init(&s, 1024);
        assert_int_equal(feed(&s, bytes, sizeof bytes, 0, step, &seen), ERR_CLOSED);
        assert_int_equal(seen.messages, 1);
        eventstream_fini(&s);
    }
}

static void test_nothing(void **state)
{
    struct eventstream s;
    struct seen seen = {.stop_after = 0};

    (void)state;
    eventstream_init(&s, 1024);
    assert_int_equal(eventstream_feed(&s, NULL, 0, on_message, &seen), ERR_OK);
    assert_true(eventstream_idle(&s));
    eventstream_fini(&s);
}

/* Whole frames need no memory; a cut one is told when there is none. */
static void test_allocations(void **state)
{
    struct eventstream s;
    struct seen seen = {.stop_after = 0};

    (void)state;
    eventstream_init(&s, 1024);
    torture_fail_after(0);
    enum err whole = eventstream_feed(&s, (const char *)PAYLOAD, sizeof PAYLOAD, on_message, &seen);
    enum err half = eventstream_feed(&s, (const char *)PAYLOAD, 13, on_message, &seen);
    torture_off();
    assert_int_equal(whole, ERR_OK);
    assert_int_equal(half, ERR_NOMEM);
    eventstream_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_frames),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_every_byte_is_checked),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
