/*
 * The HTTP server in a real loop: requests cut at every byte, bodies over their bound, time-outs,
 * and its end with connections in each state. The clients are far ends of socket pairs (net_bed.h).
 */
#include "fixtures/httpd_bed.h"

/* ---- requests ---- */

static void test_get(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, "GET /a%20b?q=x%26y&z HTTP/1.1\r\nHost: h\r\nX-Thing: abc\r\n\r\n");
    expect_status(&b, &f, "200 ");
    assert_string_equal(b.method, "GET");
    assert_string_equal(b.path, "/a b");
    assert_string_equal(b.query, "x&y");
    assert_string_equal(b.header, "abc");
    assert_int_equal(b.uid, 4711);
    assert_int_equal(b.heads, 1);
    assert_non_null(strstr(f.in, "\r\nX-Test: yes\r\n"));
    assert_non_null(strstr(f.in, "\r\nCache-Control: no-store\r\n"));
    assert_non_null(strstr(f.in, "\r\n\r\nhello"));
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_absent(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, "GET /x%00y?q HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_status(&b, &f, "200 ");
    assert_string_equal(b.path, "/x%00y"); /* would end the text */
    assert_string_equal(b.query, "");
    assert_string_equal(b.header, "(none)");
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    f.write_size = 1;
    far_say(&f, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde" GET("/second"));
    expect_replies(&b, &f, 2);
    assert_int_equal(b.requests, 2);
    assert_string_equal(b.path, "/second");
    assert_memory_equal(b.body, "abcde", 5);
    far_close(&b.net, &f);
    close_bed(&b);
}

/* A client that leaves after each byte leaves nothing behind. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    static const char text[] = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde";
    struct bed b;

    open_bed(&b);
    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        struct far f;
        connect_far(&b, &f);
        far_send(&f, span_of(text, n));
        assert_true(net_until(&b.net, far_sent, &f));
        net_turn(&b.net);
        far_close(&b.net, &f);
        assert_true(net_until(&b.net, no_connections, &b));
    }
    assert_int_equal(b.requests, 0);
    close_bed(&b);
}

static void test_pipeline(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, GET("/1") GET("/2") GET("/3"));
    expect_replies(&b, &f, 3);
    assert_int_equal(b.requests, 3);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_tcp(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_kind(&b, &f, NET_TCP);
    far_say(&f, GET("/1"));
    expect_status(&b, &f, "200 ");
    far_close(&b.net, &f);
    assert_true(net_until(&b.net, no_connections, &b));
    close_bed(&b);
}

static void test_nobody_answers(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, GET("/nothing"));
    expect_status(&b, &f, "500 ");
    far_close(&b.net, &f);
    close_bed(&b);
}

/* ---- bodies ---- */

static void post(struct buf *text, const char *path, size_t n)
{
    buf_printf(text, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", path, n);
    for (size_t i = 0; i < n; i++) {
        buf_put_char(text, (char)('a' + i % 23));
    }
    assert_int_equal(buf_status(text), ERR_OK);
}

static void test_body_bound(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, MAX_BODY - 1, MAX_BODY, MAX_BODY + 1, 200000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct bed b;
        struct far f;
        struct buf text;
        bool fits = sizes[i] <= MAX_BODY;
        open_bed(&b);
        connect_far(&b, &f);
        buf_init(&text, CAP);
        post(&text, "/p", sizes[i]);
        buf_put_str(&text, GET("/next")); /* the connection goes on */
        far_send(&f, buf_span(&text));
        expect_replies(&b, &f, 2);
        assert_memory_equal(f.in, fits ? "HTTP/1.1 200" : "HTTP/1.1 413", 12);
        assert_int_equal(b.requests, 2);
        far_close(&b.net, &f);
        close_bed(&b);
        buf_fini(&text);
    }
}

static void test_body_kept(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    struct buf text;

    open_bed(&b);
    connect_far(&b, &f);
    buf_init(&text, CAP);
    post(&text, "/p", MAX_BODY);
    f.write_size = 1000;
    far_send(&f, buf_span(&text));
    expect_status(&b, &f, "200 ");
    assert_int_equal(b.body_n, MAX_BODY);
    for (size_t i = 0; i < MAX_BODY; i++) {
        assert_int_equal(b.body[i], 'a' + (int)(i % 23));
    }
    far_close(&b.net, &f);
    close_bed(&b);
    buf_fini(&text);
}

/* Far too much is announced: the answer does not wait for it. */
static void test_body_announced(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n");
    expect_status(&b, &f, "413 ");
    assert_true(b.too_large);
    expect_ended(&b, &f);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_chunked(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    expect_status(&b, &f, "200 ");
    assert_int_equal(b.body_n, 5);
    assert_memory_equal(b.body, "abcde", 5);
    far_close(&b.net, &f);
    close_bed(&b);
}

/* The bound holds for a body whose length was not announced too. */
static void test_chunked_bound(void **state)
{
    (void)state;
    for (size_t n = MAX_BODY - 1; n <= MAX_BODY + 1; n++) {
        struct bed b;
        struct far f;
        struct buf text;
        open_bed(&b);
        connect_far(&b, &f);
        buf_init(&text, CAP);
        buf_printf(&text, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (size_t i = 0; i < n; i++) {
            buf_put_str(&text, "1\r\nx\r\n");
        }
        buf_put_str(&text, "0\r\n\r\n" GET("/next"));
        far_send(&f, buf_span(&text));
        expect_replies(&b, &f, 2);
        assert_memory_equal(f.in, n <= MAX_BODY ? "HTTP/1.1 200" : "HTTP/1.1 413", 12);
        far_close(&b.net, &f);
        close_bed(&b);
        buf_fini(&text);
    }
}

/* A body without an end is cut off, and is not kept meanwhile. */
static void test_chunked_for_ever(void **state)
{
    (void)state;
    static char chunk[65536 + 16];
    struct bed b;
    struct far f;
    size_t sent = 0;

    open_bed(&b);
    connect_far(&b, &f);
    far_say(&f, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_true(net_until(&b.net, far_sent, &f));
    memset(chunk, 'x', sizeof(chunk));
    memcpy(chunk, "10000\r\n", 7);
    memcpy(chunk + 7 + 65536, "\r\n", 2);
    while (!f.gone && !f.eof && sent < 64u << 20) {
        if (f.out.n == 0) {
            far_send(&f, span_of(chunk, 7 + 65536 + 2));
            sent += 65536;
        }
        net_turn(&b.net);
    }
    assert_true(sent >= 8u << 20);
    assert_true(sent < 10u << 20);
    assert_int_equal(b.requests, 0);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_refused_at_head(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    struct buf text;

    open_bed(&b);
    connect_far(&b, &f);
    buf_init(&text, CAP);
    post(&text, "/refused", 100000);
    buf_put_str(&text, GET("/next"));
    far_send(&f, buf_span(&text));
    expect_replies(&b, &f, 2);
    assert_memory_equal(f.in, "HTTP/1.1 403", 12);
    assert_int_equal(b.requests, 1); /* the next one */
    far_close(&b.net, &f);
    connect_far(&b, &f);
    far_say(&f, "POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n");
    expect_status(&b, &f, "403 ");
    assert_int_equal(b.requests, 1);
    far_close(&b.net, &f);
    close_bed(&b);
    buf_fini(&text);
}

/* ---- bounds ---- */

static void test_connection_limit(void **state)
{
    (void)state;
    struct bed b;
    struct far f[5];

    open_bed(&b);
    for (int i = 0; i < 5; i++) {
        connect_far(&b, &f[i]);
    }
    expect_ended(&b, &f[4]);
    assert_int_equal(httpd_connections(b.httpd), 4);
    far_say(&f[3], GET("/x"));
    expect_status(&b, &f[3], "200 ");
    far_close(&b.net, &f[0]);
    while (httpd_connections(b.httpd) == 4) {
        net_turn(&b.net);
    }
    connect_far(&b, &f[0]);
    far_say(&f[0], GET("/x"));
    expect_status(&b, &f[0], "200 ");
    for (int i = 0; i < 5; i++) {
        far_close(&b.net, &f[i]);
    }
    close_bed(&b);
}

/* Too slow in each place: with the headers, with the body, with the next request. */
static void test_time_outs(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "GET / HT", "POST / HTTP/1.1\r\nHost: h\r\n",
                                        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na",
                                        GET("/whole")};
    struct httpd_options o = usual();

    o.request_timeout = 30;
    o.idle_timeout = 30;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct bed b;
        struct far f;
        open_with(&b, &o);
        connect_far(&b, &f);
        far_send(&f, span_str(texts[i]));
        expect_ended(&b, &f);
        assert_true(net_until(&b.net, no_connections, &b));
        assert_int_equal(b.requests, i == 4 ? 1 : 0);
        far_close(&b.net, &f);
        close_bed(&b);
    }
}

static void test_end_with_connections(void **state)
{
    (void)state;
    struct bed b;
    struct far f[3];

    open_bed(&b);
    for (int i = 0; i < 3; i++) {
        connect_far(&b, &f[i]);
    }
    far_say(&f[0], "GET / HT");
    far_say(&f[1], "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na");
    assert_true(net_until(&b.net, far_sent, &f[1]));
    net_turn(&b.net);
    httpd_free(b.httpd);
    for (int i = 0; i < 3; i++) {
        expect_ended(&b, &f[i]);
        far_close(&b.net, &f[i]);
    }
    net_close(&b.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_body_bound),
        cmocka_unit_test(test_body_kept),
        cmocka_unit_test(test_body_announced),
        cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_chunked_bound),
        cmocka_unit_test(test_chunked_for_ever),
        cmocka_unit_test(test_refused_at_head),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_time_outs),
        cmocka_unit_test(test_end_with_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
