/* How the HTTP client tells each end of a call: outcomes and time-outs. */
#include "fixtures/http_seen.h"

#include <signal.h>

/* ---- outcomes ---- */

static void test_truncated(void **state)
{
    (void)state;
    expect_outcome("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", HTTP_TRUNCATED);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", HTTP_TRUNCATED);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                   HTTP_TRUNCATED);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
                   HTTP_TRUNCATED);
    expect_outcome("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", HTTP_TRUNCATED);
    expect_outcome("HTTP/1.1 200 OK\r\nContent-Le", HTTP_TRUNCATED);
}

static void test_ends_by_close(void **state)
{
    (void)state;
    expect_outcome("HTTP/1.1 200 OK\r\n\r\nuntil the end", HTTP_OK);
    expect_outcome("HTTP/1.0 200 OK\r\n\r\n", HTTP_OK);
}

static void test_bad_response(void **state)
{
    (void)state;
    expect_outcome("garbage that is no HTTP\r\n\r\n", HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
                   HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
                   HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "fffffffffffffffffffffffffff\r\nabcd\r\n",
                   HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n", HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/1.1 abc OK\r\n\r\n", HTTP_BAD_RESPONSE);
    expect_outcome("HTTP/9.9 200 OK\r\n\r\n", HTTP_BAD_RESPONSE);
}

static char *head_of(size_t lines, size_t line_size)
{
    size_t size = 128 + lines * (line_size + 8);
    char *reply = malloc(size);
    size_t n = 0;

    assert_non_null(reply);
    n += (size_t)snprintf(reply, size, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
    for (size_t i = 0; i < lines; i++) {
        n += (size_t)snprintf(reply + n, size - n, "X: ");
        memset(reply + n, 'x', line_size - 5);
        n += line_size - 5;
        n += (size_t)snprintf(reply + n, size - n, "\r\n");
    }
    (void)snprintf(reply + n, size - n, "\r\n");
    return reply;
}

static void expect_head(size_t lines, size_t line_size, enum http_outcome outcome)
{
    char *reply = head_of(lines, line_size);

    expect_outcome(reply, outcome);
    free(reply);
}

static void test_head_size(void **state)
{
    /* "HTTP/1.1 200 OK" and "Content-Length: 0" and the empty line are 17 + 19 + 2 bytes. */
    (void)state;
    expect_head(1, 65536 - 38, HTTP_OK);
    expect_head(1, 65536 - 37, HTTP_BAD_RESPONSE);
    expect_head(64, 1023, HTTP_OK);
    expect_head(64, 1024, HTTP_BAD_RESPONSE);
    expect_head(1, 200000, HTTP_BAD_RESPONSE); /* over libcurl's own limit for a line */
}

static void script_reset(struct peer_conn *c, void *ctx)
{
    char *reply = seen_request(c, ctx, NULL);

    if (reply != NULL && reply[0] != '\0') {
        (void)peer_send_str(c, reply);
        (void)peer_wait(c, 1); /* until the client has it */
    }
    free(reply);
    peer_reset(c);
}

static void step_on_bytes(struct rec *r)
{
    peer_step((struct peer *)(void *)r->other);
}

static void run_reset(const char *reply)
{
    struct bed bed;
    struct seen *s = seen_new(reply);
    struct peer *p = peer_start(script_reset, s, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->other = (struct rec *)(void *)p;
    r->on_bytes = step_on_bytes;
    rec_get(r, p);
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_RESET);
    assert_int_equal(r->heads, reply == NULL ? 0 : 1);
    bed_close(&bed);
    peer_stop(p);
    seen_free(s);
    free(r);
}

static void test_reset(void **state)
{
    (void)state;
    expect_outcome("", HTTP_RESET); /* closed without a byte */
    run_reset(NULL);
    run_reset("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort");
    run_reset("HTTP/1.1 200 OK\r\n\r\nno length");
    run_reset("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
}

static void run_url(const char *url, enum http_outcome outcome)
{
    struct bed bed;

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(r, &(struct http_request){.method = "GET", .url = url});
    rec_finish(r);
    assert_int_equal(r->outcome, outcome);
    bed_close(&bed);
    free(r);
}

static void test_connect_failed(void **state)
{
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", peer_dead_port());
    run_url(url, HTTP_CONNECT_FAILED);
    run_url("http://no-such-host.invalid/", HTTP_CONNECT_FAILED);
}

/* ---- time-outs: nothing but the timer ends these ---- */

static struct rec *run_timed(struct peer *p, struct http_request q)
{
    struct bed bed;
    char url[64];

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    q.method = "GET";
    if (p != NULL) {
        q.url = bed_url(url, p);
    }
    rec_start(r, &q);
    rec_finish(r);
    if (p != NULL) {
        assert_true(bed_until(&bed, peer_is_quiet, p)); /* the connection went with it */
    }
    bed_close(&bed);
    return r;
}

static void test_timeout_connect(void **state)
{
    char url[64];
    unsigned port = 0;
    struct peer_blackhole *b = peer_blackhole_start(&port);

    (void)state;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    struct rec *r =
        run_timed(NULL, (struct http_request){.url = url, .connect_ms = 60, .first_byte_ms = 5000});
    assert_int_equal(r->outcome, HTTP_TIMEOUT_CONNECT);
    assert_string_equal(r->detail, "no connection within 60 ms");
    free(r);
    peer_blackhole_stop(b);
}

/* maximhq/bifrost#7199: accepted and never answered. BlockRunAI/Franklin#74: timers of their own.
 */
static void test_timeout_first_byte(void **state)
{
    struct peer *p = peer_start(script_silent, NULL, NULL);
    struct rec *r =
        run_timed(p, (struct http_request){.first_byte_ms = 1000, .stall_ms = 1, .total_ms = 9000});

    (void)state;
    assert_int_equal(r->outcome, HTTP_TIMEOUT_FIRST_BYTE);
    assert_string_equal(r->detail, "no answer within 1 s");
    assert_int_equal(r->heads, 0);
    free(r);
    peer_stop(p);
}

static void test_timeout_after_interim(void **state)
{
    struct seen *s = seen_new("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    struct peer *p = peer_start(script_raw_hold, s, NULL);
    struct rec *r = run_timed(p, (struct http_request){.first_byte_ms = 60});

    (void)state;
    assert_int_equal(r->outcome, HTTP_TIMEOUT_FIRST_BYTE);
    free(r);
    peer_stop(p);
    seen_free(s);
}

static void test_timeout_stall(void **state)
{
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\n\r\nsome");
    struct peer *p = peer_start(script_raw_hold, s, NULL);
    struct rec *r = run_timed(
        p, (struct http_request){.first_byte_ms = 5000, .stall_ms = 60, .total_ms = 9000});

    (void)state;
    assert_int_equal(r->outcome, HTTP_TIMEOUT_STALL);
    assert_string_equal(r->detail, "nothing more came within 60 ms");
    assert_string_equal(r->body, "some");
    free(r);
    peer_stop(p);
    seen_free(s);
}

static void script_drip(struct peer_conn *c, void *ctx)
{
    bool there = seen_answer(c, ctx);

    while (there) {
        there = peer_send_str(c, "x");
        peer_sleep(5);
    }
}

/* aws/agentcore-cli#1388: the overall deadline always fires, also when bytes keep coming. */
static void test_timeout_total(void **state)
{
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\n\r\n");
    struct peer *p = peer_start(script_drip, s, NULL);
    struct rec *r = run_timed(p, (struct http_request){.stall_ms = 5000, .total_ms = 100});

    (void)state;
    assert_int_equal(r->outcome, HTTP_TIMEOUT_TOTAL);
    assert_string_equal(r->detail, "not finished within 100 ms");
    assert_true(r->bytes > 0);
    free(r);
    peer_stop(p);
    seen_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_ends_by_close),
        cmocka_unit_test(test_bad_response),
        cmocka_unit_test(test_head_size),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_connect_failed),
        cmocka_unit_test(test_timeout_connect),
        cmocka_unit_test(test_timeout_first_byte),
        cmocka_unit_test(test_timeout_after_interim),
        cmocka_unit_test(test_timeout_stall),
        cmocka_unit_test(test_timeout_total),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
