/*
 * Readers of the bus: from now on or from a number, one run or all, overtaken by the ring, woken
 * on their loop, with publishers on other threads.
 */
#include "events/bus.h"

#include "base/log.h"
#include "fixtures/torture.h"
#include "gate/grant.h"
#include "net/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <cmocka.h>

#define THREADS    3
#define PER_THREAD 2000

static struct bus *bus;
static struct buf line;
static uint64_t number;

static int setup(void **state)
{
    (void)state;
    log_setup(LOG_ERROR, LOG_FORMAT_TEXT, NULL);
    bus = bus_new();
    buf_init(&line, BUS_RING_BYTES + 256);
    return bus == NULL;
}

static int teardown(void **state)
{
    (void)state;
    bus_free(bus);
    buf_fini(&line);
    return 0;
}

/* An event of `run` (NULL: none) with `n` bytes of padding. */
static void publish_sized(const char *run, size_t n)
{
    static const struct json_rules rules = {.max_depth = 8};
    char grant_name[] = "g";
    char run_name[32];
    struct grant g = {.name = grant_name, .run = run == NULL ? NULL : run_name};
    struct buf event;
    struct json_value v;
    struct json_fault fault;

    (void)snprintf(run_name, sizeof(run_name), "%s", run == NULL ? "" : run);
    buf_init(&event, BUS_RING_BYTES);
    buf_put_str(&event, "{\"x\":\"");
    for (size_t i = 0; i < n; i++) {
        buf_put_char(&event, 'x');
    }
    buf_put_str(&event, "\"}");
    assert_int_equal(json_check_value(buf_span(&event), &rules, &v, &fault), ERR_OK);
    assert_int_equal(bus_publish(bus, &g, json_find(v, "event_type"), v.text, NULL), ERR_OK);
    buf_fini(&event);
}

static void publish(const char *run)
{
    publish_sized(run, 1);
}

static enum bus_read next(struct bus_reader *r)
{
    enum bus_read rc;

    do {
        buf_clear(&line);
        rc = bus_reader_next(r, &line, &number);
    } while (rc == BUS_READ_MORE);
    return rc;
}

static void expect_event(struct bus_reader *r, uint64_t n)
{
    char start[48];

    assert_int_equal(next(r), BUS_READ_EVENT);
    assert_int_equal(number, n);
    (void)snprintf(start, sizeof(start), "{\"seq\":%llu,\"time\":\"", (unsigned long long)n);
    assert_memory_equal(line.p, start, strlen(start));
    assert_int_equal(line.p[line.len - 1], '}'); /* no line break */
}

static void test_from_now_on(void **state)
{
    (void)state;
    publish(NULL);
    struct bus_reader *r = bus_reader_new(bus, NULL, NULL);

    assert_int_equal(next(r), BUS_READ_NONE);
    publish(NULL);
    publish("a");
    expect_event(r, 2);
    assert_null(strstr(buf_cstr(&line), "\"run\""));
    expect_event(r, 3);
    assert_non_null(strstr(buf_cstr(&line), ",\"run\":\"a\",\"grant\":\"g\","));
    assert_int_equal(next(r), BUS_READ_NONE);
    publish(NULL);
    expect_event(r, 4);
    bus_reader_free(r);
    bus_reader_free(NULL);
}

static void test_since(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        publish(NULL);
    }
    for (uint64_t since = 0; since <= 5; since++) {
        struct bus_reader *r = bus_reader_new(bus, NULL, &since);
        for (uint64_t n = since + 1; n <= 5; n++) {
            expect_event(r, n);
        }
        assert_int_equal(next(r), BUS_READ_NONE);
        bus_reader_free(r);
    }
    /* A number of an earlier process: all that there is. */
    uint64_t since = 1000;
    struct bus_reader *r = bus_reader_new(bus, NULL, &since);
    expect_event(r, 1);
    bus_reader_free(r);
}

static void test_since_nothing(void **state)
{
    (void)state;
    uint64_t since = 0;
    struct bus_reader *r = bus_reader_new(bus, NULL, &since);

    assert_int_equal(next(r), BUS_READ_NONE);
    publish(NULL);
    expect_event(r, 1);
    bus_reader_free(r);
}

static void test_of_a_run(void **state)
{
    (void)state;
    uint64_t since = 0;

    publish("a");
    publish("ab");
    publish(NULL);
    publish("a");
    struct bus_reader *r = bus_reader_new(bus, "a", &since);
    expect_event(r, 1);
    expect_event(r, 4);
    assert_int_equal(next(r), BUS_READ_NONE);
    publish("b");
    assert_int_equal(next(r), BUS_READ_NONE);
    publish("a");
    expect_event(r, 6);
    bus_reader_free(r);
}

/* Steps over others' events in pieces, so that the lock is not held for long. */
static void test_scan_is_bounded(void **state)
{
    (void)state;
    uint64_t since = 0;
    unsigned more = 0;

    for (int i = 0; i < 5000; i++) {
        publish("b");
    }
    publish("a");
    struct bus_reader *r = bus_reader_new(bus, "a", &since);
    buf_clear(&line);
    while (bus_reader_next(r, &line, &number) == BUS_READ_MORE) {
        more++;
    }
    assert_int_equal(number, 5001);
    assert_in_range(more, 4, 5);
    bus_reader_free(r);
}

static void test_overtaken(void **state)
{
    (void)state;
    uint64_t since = 0;
    struct bus_reader *all = bus_reader_new(bus, NULL, &since);
    struct bus_reader *a = bus_reader_new(bus, "a", &since);

    publish("a");
    publish("b");
    expect_event(all, 1);
    for (int i = 0; i < 70; i++) { /* the ring holds 63 of these */
        publish_sized("b", 1024 * 1024);
    }
    assert_int_equal(next(all), BUS_READ_LOST);
    uint64_t lost = number;
    expect_event(all, lost + 2); /* from the first that was not lost */
    assert_int_equal(next(a), BUS_READ_LOST);
    assert_int_equal(number, 1); /* of its own run */
    assert_int_equal(next(a), BUS_READ_NONE);
    struct bus_reader *late = bus_reader_new(bus, NULL, &since);
    assert_int_equal(next(late), BUS_READ_LOST);
    assert_int_equal(number, lost + 1);
    expect_event(late, lost + 2);
    bus_reader_free(all);
    bus_reader_free(a);
    bus_reader_free(late);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct bus_reader *r = NULL;
    size_t n = 0;
    uint64_t since = 0;
    struct buf small;

    for (; r == NULL; n++) {
        torture_fail_after(n);
        r = bus_reader_new(bus, "a", NULL);
        torture_off();
    }
    assert_int_equal(n, 3);
    bus_reader_free(r);
    publish(NULL);
    r = bus_reader_new(bus, NULL, &since);
    buf_init(&small, 10);
    assert_int_equal(bus_reader_next(r, &small, &number), BUS_READ_NOMEM);
    buf_fini(&small);
    expect_event(r, 1); /* it was not passed over */
    bus_reader_free(r);
}

/* ---- woken ---- */

struct watcher {
    struct bus_reader *reader;
    unsigned woken;
    uint64_t last;
    uint64_t count;
};

static void on_events(void *ctx)
{
    struct watcher *w = ctx;

    w->woken++;
    while (w->reader != NULL && next(w->reader) == BUS_READ_EVENT) {
        assert_int_equal(number, w->last + 1);
        w->last = number;
        w->count++;
    }
}

static void *publisher(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < PER_THREAD; i++) {
        publish("a");
    }
    return NULL;
}

static void test_woken(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    struct watcher w = {0};
    pthread_t threads[THREADS];

    assert_int_equal(loop_new(&loop, NULL), ERR_OK);
    bus_watch(bus, loop, on_events, &w);
    publish("a");
    loop_run_closing(loop);
    assert_int_equal(w.woken, 0); /* nobody reads */
    w.last = 1;
    w.reader = bus_reader_new(bus, NULL, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, publisher, NULL), 0);
    }
    while (w.count < (uint64_t)THREADS * PER_THREAD) {
        uv_run(loop_uv(loop), UV_RUN_ONCE);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    loop_run_closing(loop);
    unsigned woken = w.woken;
    publish("a");
    bus_watch(bus, NULL, NULL, NULL); /* what is on the way wakes nobody any more */
    loop_run_closing(loop);
    assert_int_equal(w.woken, woken);
    bus_reader_free(w.reader);
    loop_free(loop);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_from_now_on), TEST(test_since),           TEST(test_since_nothing),
        TEST(test_of_a_run),    TEST(test_scan_is_bounded), TEST(test_overtaken),
        TEST(test_no_memory),   TEST(test_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
