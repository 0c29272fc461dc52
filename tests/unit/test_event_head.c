/* relay/event_head: ids of terminal events out of lines cut anywhere. */
#include "relay/event_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char events[] =
    "{\"id\":\"a\",\"event\":\"delta\",\"data\":{\"text\":\"done\"}}\n"
    "{\"id\":\"b\",\"event\":\"done\",\"data\":{\"text\":\"{\\\"id\\\":\\\"z\\\"}\"}}\n"
    "\n"
    "{\"id\":\"\\u00e9\\n\",\"event\":\"error\",\"error\":{}}\n"
    "{\"id\":\"q\\\"\\\\\",\"event\":\"response\",\"data\":{}}\n"
    "{\"id\":\"t\",\"event\":\"timeout\",\"data\":{}}\n"
    "{\"id\":\"d\",\"event\":\"delivered\"}\n"
    "{\"id\":\"e\",\"event\":\"done_not\"}\n"
    "{\"event\":\"done\",\"id\":\"f\"}\n"
    "not JSON at all\n"
    "{\"id\":\"\",\"event\":\"error\",\"error\":{\"type\":\"BadRequest\",\"message\":\"\"}}\n"
    "{\"id\":\"\",\"event\":\"done\",\"data\":{}}\n"
    "{\"id\":\"o\",\"event\":\"error\",\"error\":{\"type\":\"Overloaded\"}}\n"
    "{\"id\":\"\",\"event\":\"error\",\"error\":{\"type\":\"Overloaded\",\"message\":\"\"}}\n"
    "{\"id\":\"cut\",\"event\":\"done\"";

/* ! is the end of the connection. */
static const char expected[] = "b|\xc3\xa9\n|q\"\\|t|||o|!|";

/* Feeds `events` in pieces of `size` and joins the ids that come. */
static void collect(size_t size, char *out, size_t out_size, bool *partial)
{
    struct event_head *h = calloc(1, sizeof(*h));
    size_t used = 0;

    assert_non_null(h);
    event_head_init(h);
    for (size_t at = 0; at < sizeof(events) - 1; at += size) {
        size_t left = sizeof(events) - 1 - at;
        char *copy = malloc(left < size ? left : size); /* so that a sanitizer sees reads past it */
        assert_non_null(copy);
        struct span in = span_of(copy, left < size ? left : size);
        struct event_end end;
        memcpy(copy, events + at, in.n);
        while (event_head_next(h, &in, &end)) {
            assert_true(used + end.id.n + 3 < out_size);
            memcpy(out + used, end.id.p, end.id.n);
            used += end.id.n;
            if (end.connection) {
                out[used++] = '!';
            }
            out[used++] = '|';
        }
        assert_int_equal(in.n, 0);
        free(copy);
    }
    out[used] = '\0';
    *partial = event_head_partial(h);
    free(h);
}

static void test_cut_anywhere(void **state)
{
    char ids[256];
    bool partial = false;

    (void)state;
    for (size_t size = 1; size <= sizeof(events); size++) {
        collect(size, ids, sizeof(ids), &partial);
        assert_string_equal(ids, expected);
        assert_true(partial);
    }
}

static void test_partial(void **state)
{
    static const char line[] = "{\"id\":\"a\",\"event\":\"delta\"}\n";
    struct event_head *h = calloc(1, sizeof(*h));
    struct event_end end;

    (void)state;
    assert_non_null(h);
    event_head_init(h);
    assert_false(event_head_partial(h));
    struct span in = span_of(line, 5);
    assert_false(event_head_next(h, &in, &end));
    assert_true(event_head_partial(h));
    in = span_of(line + 5, sizeof(line) - 6);
    assert_false(event_head_next(h, &in, &end));
    assert_false(event_head_partial(h));
    free(h);
}

/* What follows the head goes by, however long it is. */
static void test_long_line(void **state)
{
    static const char head[] = "{\"id\":\"long\",\"event\":\"done\",\"data\":\"";
    struct event_head *h = calloc(1, sizeof(*h));
    char *filler = malloc(1u << 20);
    struct event_end end;

    (void)state;
    assert_non_null(h);
    assert_non_null(filler);
    memset(filler, 'x', 1u << 20);
    event_head_init(h);
    struct span in = SPAN(head);
    assert_false(event_head_next(h, &in, &end));
    for (int i = 0; i < 8; i++) {
        in = span_of(filler, 1u << 20);
        assert_false(event_head_next(h, &in, &end));
    }
    in = SPAN("\"}\n{");
    assert_true(event_head_next(h, &in, &end));
    assert_true(span_eq(end.id, SPAN("long")));
    assert_int_equal(in.n, 1);
    free(filler);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_long_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
