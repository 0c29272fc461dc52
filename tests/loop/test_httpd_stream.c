/*
 * Answers of the HTTP server that come later or as a stream: clients that leave or do not read, no
 * work while nothing happens, and the server's end meanwhile.
 */
#include "fixtures/httpd_bed.h"

/* ---- later ---- */

static void test_later(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, GET("/later"));
    wait_count(&b, &b.requests, 1);
    net_settle(&b.net);
    assert_int_equal(f.n, 0);
    answer(b.later, 200, "at last");
    expect_status(&b, &f, "200 ");
    assert_non_null(strstr(f.in, "at last"));
    assert_int_equal(b.requests, 1); /* asked once */
    assert_int_equal(b.gone, 0);
    far_send(&f, SPAN(GET("/again")));
    expect_replies(&b, &f, 2);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_later_client_left(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, GET("/later"));
    wait_count(&b, &b.requests, 1);
    far_hang_up(&f, false);
    net_settle(&b.net);
    answer(b.later, 200, "too late"); /* the request is still there */
    assert_true(net_until(&b.net, no_connections, &b));
    assert_int_equal(b.gone, 0);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_later_at_the_end(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, GET("/later"));
    wait_count(&b, &b.requests, 1);
    httpd_free(b.httpd);
    assert_int_equal(b.gone, 1);
    expect_ended(&b, &f);
    assert_memory_equal(f.in, "HTTP/1.1 503", 12);
    far_close(&b.net, &f);
    net_close(&b.net);
}

/* ---- streams ---- */

static bool has_stream_bytes(void *ctx)
{
    const struct asked *a = ctx;
    const struct far *f = (const void *)a->counter;
    const char *body = strstr(f->in, "\r\n\r\n");
    unsigned n = 0;

    for (const char *p = body; p != NULL && *p != '\0'; p++) {
        n += *p == 's';
    }
    return n >= a->n;
}

static void expect_bytes(struct bed *b, struct far *f, unsigned n)
{
    struct asked a = {(const void *)f, n};

    assert_true(net_until(&b->net, has_stream_bytes, &a));
}

static void open_stream(struct bed *b, struct far *f)
{
    connect_far(b, f);
    far_say(f, GET("/stream"));
    wait_count(b, &b->reads, b->reads + 1);
    assert_non_null(b->stream);
}

static void test_stream(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    open_stream(&b, &f);
    assert_int_equal(httpd_streams(b.httpd), 1);
    for (unsigned i = 1; i <= 20; i++) {
        b.pending += 1000;
        httpd_stream_wake(b.stream);
        httpd_stream_wake(b.stream); /* once more does no harm */
        expect_bytes(&b, &f, i * 1000);
    }
    assert_non_null(strstr(f.in, "Content-Type: text/event-stream\r\n"));
    b.end = true;
    httpd_stream_wake(b.stream);
    wait_count(&b, &b.stream_gone, 1);
    assert_int_equal(httpd_streams(b.httpd), 0);
    far_close(&b.net, &f);
    close_bed(&b);
    assert_int_equal(b.stream_gone, 1);
}

/* Nothing to say costs nothing: no read, and no turn of the loop but those of the test's tick. */
static void test_idle_stream(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    struct far kept;

    open_bed(&b);
    connect_far(&b, &kept);
    far_say(&kept, GET("/kept"));
    expect_status(&b, &kept, "200 ");
    open_stream(&b, &f);
    net_settle(&b.net);
    unsigned reads = b.reads;
    uv_timer_stop(&b.net.tick);
    uv_timer_start(&b.net.tick, net_on_tick, 100, 100);
    unsigned turns = 0;
    for (unsigned end = b.net.ticks + 3; b.net.ticks < end; turns++) {
        uv_run(loop_uv(b.net.loop), UV_RUN_ONCE);
    }
    assert_int_equal(b.reads, reads);
    assert_in_range(turns, 3, 6);
    far_close(&b.net, &f);
    far_close(&b.net, &kept);
    close_bed(&b);
}

static void test_stream_client_left(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    open_stream(&b, &f);
    far_hang_up(&f, false);
    for (int i = 0; i < 1000 && b.stream != NULL; i++) {
        b.pending += 100;
        httpd_stream_wake(b.stream);
        net_turn(&b.net);
    }
    assert_int_equal(b.stream_gone, 1);
    assert_true(net_until(&b.net, no_connections, &b));
    far_close(&b.net, &f);
    close_bed(&b);
}

/* A client that does not read is not read for. */
static void test_stream_slow_client(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    open_stream(&b, &f);
    f.read_size = 0;
    b.pending = 2000000;
    httpd_stream_wake(b.stream);
    net_settle(&b.net);
    unsigned reads = b.reads;
    net_settle(&b.net);
    assert_int_equal(b.reads, reads);
    assert_true(b.pending > 1000000);
    f.read_size = ALL;
    expect_bytes(&b, &f, 2000000);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_stream_limit(void **state)
{
    (void)state;
    struct bed b;
    struct far f[3];

    open_bed(&b);
    open_stream(&b, &f[0]);
    open_stream(&b, &f[1]);
    connect_far(&b, &f[2]);
    far_say(&f[2], GET("/stream"));
    expect_status(&b, &f[2], "503 ");
    assert_int_equal(b.stream_rc, ERR_LIMIT);
    assert_int_equal(httpd_streams(b.httpd), 2);
    for (int i = 0; i < 3; i++) {
        far_close(&b.net, &f[i]);
    }
    close_bed(&b);
    assert_int_equal(b.stream_gone, 2);
}

static void test_stream_at_the_end(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    struct far full;

    open_bed(&b);
    open_stream(&b, &f);
    open_stream(&b, &full);
    full.read_size = 0; /* in the middle of a write */
    b.pending = 2000000;
    httpd_stream_wake(b.stream);
    net_settle(&b.net);
    httpd_free(b.httpd);
    assert_int_equal(b.stream_gone, 2);
    expect_ended(&b, &f);
    assert_non_null(strstr(f.in, "\r\n0\r\n")); /* the last chunk: a proper end */
    far_close(&b.net, &f);
    far_close(&b.net, &full);
    net_close(&b.net);
}

/* A stream and an answer that is waited for have all the time. */
static void test_no_time_out(void **state)
{
    (void)state;
    struct bed b;
    struct far f[2];
    struct httpd_options o = usual();

    o.request_timeout = 20;
    o.idle_timeout = 20;
    open_with(&b, &o);
    open_stream(&b, &f[0]);
    connect_far(&b, &f[1]);
    far_say(&f[1], GET("/later"));
    wait_count(&b, &b.requests, 2);
    for (unsigned end = b.net.ticks + 60; b.net.ticks < end;) {
        net_turn(&b.net);
    }
    assert_false(far_ended(&f[0]) || far_ended(&f[1]));
    b.pending = 10;
    httpd_stream_wake(b.stream);
    expect_bytes(&b, &f[0], 10);
    answer(b.later, 200, "x");
    expect_replies(&b, &f[1], 1);
    far_close(&b.net, &f[0]);
    far_close(&b.net, &f[1]);
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_later),
        cmocka_unit_test(test_later_client_left),
        cmocka_unit_test(test_later_at_the_end),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_idle_stream),
        cmocka_unit_test(test_stream_client_left),
        cmocka_unit_test(test_stream_slow_client),
        cmocka_unit_test(test_stream_limit),
        cmocka_unit_test(test_stream_at_the_end),
        cmocka_unit_test(test_no_time_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
