/*
 * The HTTP client against a scripted server: what is sent and read, kept and stale connections,
 * proxies, stopping. The other parts are in test_http_client_*.c.
 */
#include "fixtures/http_seen.h"

#include <signal.h>

/* ---- what is sent and read ---- */

static void test_get(void **state)
{
    static const struct http_header headers[] = {
        {{"X-Api-Key", 9}, {"k\t1", 3}}, {{"X-Empty", 7}, {"", 0}}, {{"X-Space", 7}, {" \t", 2}}};
    struct bed bed;
    char url[64];
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\nContent-Type:  text/event-stream \r\n"
                              "content-encoding: gzip\r\nX-Request-Id: r-1\r\nRetry-After: 7\r\n"
                              "retry-after-MS:123\r\nContent-Length: 5\r\n\r\nhello");
    struct peer *p = peer_start(script_raw, s, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(r, &(struct http_request){
                     .method = "GET", .url = bed_url(url, p), .headers = headers, .nheaders = 3});
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->status, 200);
    assert_string_equal(r->type, "text/event-stream");
    assert_string_equal(r->encoding, "gzip"); /* said, not decoded */
    assert_string_equal(r->request_id, "r-1");
    assert_string_equal(r->retry_after, "7");
    assert_string_equal(r->retry_after_ms, "123");
    assert_string_equal(r->body, "hello");
    assert_int_equal(http_client_calls(bed.client), 0);
    bed_close(&bed);
    peer_stop(p);
    assert_memory_equal(seen_text(s), "GET /v1 HTTP/1.1\r\n", 18);
    assert_non_null(strstr(seen_text(s), "\r\nX-Api-Key: k\t1\r\n"));
    assert_non_null(strstr(seen_text(s), "\r\nX-Empty:\r\n"));
    assert_non_null(strstr(seen_text(s), "\r\nX-Space:\r\n"));
    assert_null(strcasestr(seen_text(s), "\r\nExpect"));
    assert_null(strcasestr(seen_text(s), "\r\nAccept-Encoding"));
    assert_null(strcasestr(seen_text(s), "\r\nContent-Type"));
    seen_free(s);
    free(r);
}

static void test_absent_fields(void **state)
{
    struct rec *r = run_raw("HTTP/1.1 204 No Content\r\nrequest-id: r-2\r\n\r\n");

    (void)state;
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->status, 204);
    assert_string_equal(r->type, "");
    assert_string_equal(r->encoding, "");
    assert_string_equal(r->retry_after, "");
    assert_string_equal(r->retry_after_ms, "");
    assert_string_equal(r->request_id, "r-2");
    assert_int_equal(r->bytes, 0);
    free(r);
}

static void post_echo(size_t n, const char *method)
{
    struct bed bed;
    char url[64];
    struct seen *s = seen_new(NULL);
    struct peer *p = peer_start(script_echo, s, NULL);
    char *body = malloc(n + 1);

    assert_non_null(body);
    for (size_t i = 0; i < n; i++) {
        body[i] = peer_pattern(i);
    }
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(r,
              &(struct http_request){.method = method, .url = bed_url(url, p), .body = {body, n}});
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->bytes, n);
    assert_true(r->intact);
    bed_close(&bed);
    peer_stop(p);
    assert_memory_equal(seen_text(s), method, strlen(method));
    assert_null(strcasestr(seen_text(s), "\r\nExpect"));
    assert_null(strcasestr(seen_text(s), "\r\nContent-Type"));
    free(body);
    seen_free(s);
    free(r);
}

static void test_post(void **state)
{
    (void)state;
    post_echo(0, "POST");
    post_echo(1, "POST");
    post_echo(65535, "POST");
    post_echo(65536, "POST");
    post_echo(1100000, "POST"); /* where libcurl alone would ask first: Expect */
    post_echo(100, "PUT");
}

static void test_methods_share_a_handle(void **state)
{
    static const char *const methods[] = {"POST", "GET", "PATCH", "GET", "DELETE", "POST", "GET"};
    struct bed bed;
    char url[64];
    struct seen *s = seen_new(NULL);
    struct peer *p = peer_start(script_echo, s, NULL);

    (void)state;
    bed_open(&bed);
    for (size_t i = 0; i < 7; i++) {
        struct rec *r = rec_new(&bed);
        bool get = strcmp(methods[i], "GET") == 0;
        struct span body = get ? (struct span){NULL, 0} : SPAN("abc");
        rec_start(
            r, &(struct http_request){.method = methods[i], .url = bed_url(url, p), .body = body});
        rec_finish(r);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(r->bytes, get ? 0 : 3);
        assert_memory_equal(seen_text(s), methods[i], strlen(methods[i]));
        assert_int_equal(strcasestr(seen_text(s), "\r\nContent-Length") == NULL, get);
        free(r);
    }
    assert_int_equal(peer_accepted(p), 1); /* kept alive all the way */
    bed_close(&bed);
    peer_stop(p);
    seen_free(s);
}

static void test_interim_heads(void **state)
{
    struct rec *r = run_raw("HTTP/1.1 100 Continue\r\nRetry-After: 9\r\n\r\n"
                            "HTTP/1.1 103 Early Hints\r\nContent-Type: a/b\r\n\r\n"
                            "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");

    (void)state;
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->status, 201);
    assert_int_equal(r->heads, 1);
    assert_string_equal(r->type, "");
    assert_string_equal(r->retry_after, "");
    assert_string_equal(r->body, "ok");
    free(r);
}

static void test_trailers_are_not_a_head(void **state)
{
    struct rec *r = run_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n0\r\nRetry-After: 9\r\nHTTP/1.1 500 X: y\r\n\r\n");

    (void)state;
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->heads, 1);
    assert_int_equal(r->status, 200);
    assert_string_equal(r->body, "abc");
    free(r);
}

/* 7etsuo/tcurl#6, NVIDIA-NeMo/Switchyard#544: a redirect must not carry the key along. */
static void test_redirect_is_a_status(void **state)
{
    struct bed bed;
    char url[64];
    char reply[256];
    struct seen *s = seen_new(NULL);
    struct seen *s2 = seen_new("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    struct peer *target = peer_start(script_raw, s2, NULL);
    struct peer *p = peer_start(script_raw, s, NULL);

    (void)state;
    bed_open(&bed);
    for (int status = 301; status <= 308; status++) {
        (void)snprintf(reply, sizeof(reply),
                       "HTTP/1.1 %d Moved\r\nLocation: http://127.0.0.1:%u/\r\nContent-Length: "
                       "3\r\nConnection: close\r\n\r\nbye",
                       status, peer_port(target));
        seen_set_reply(s, reply);
        struct rec *r = rec_new(&bed);
        rec_start(r, &(struct http_request){
                         .method = "POST", .url = bed_url(url, p), .body = SPAN("secret")});
        rec_finish(r);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(r->status, status);
        assert_string_equal(r->body, status == 304 ? "" : "bye"); /* 304 has none */
        free(r);
    }
    assert_int_equal(peer_accepted(target), 0);
    bed_close(&bed);
    peer_stop(p);
    peer_stop(target);
    seen_free(s);
    seen_free(s2);
}

/* ---- proxies ---- */

static void test_proxy_variables_ignored(void **state)
{
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
    char dead[64];

    (void)state;
    (void)snprintf(dead, sizeof(dead), "http://127.0.0.1:%u", peer_dead_port());
    for (size_t i = 0; i < 4; i++) {
        setenv(names[i], dead, 1);
    }
    expect_outcome("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", HTTP_OK);
    for (size_t i = 0; i < 4; i++) {
        unsetenv(names[i]);
    }
}

static struct rec *run_proxied(struct seen *s, const char *url, const struct http_header *headers)
{
    struct bed bed;
    char proxy[64];
    struct peer *p = peer_start(script_raw, s, NULL);

    setenv("no_proxy", "*", 1); /* as little obeyed as the others */
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(r, &(struct http_request){.method = "GET",
                                        .url = url,
                                        .headers = headers,
                                        .nheaders = headers == NULL ? 0 : 1,
                                        .proxy = bed_url(proxy, p)});
    rec_finish(r);
    bed_close(&bed);
    peer_stop(p);
    unsetenv("no_proxy");
    return r;
}

static void test_proxy(void **state)
{
    static const struct http_header key = {{"X-Api-Key", 9}, {"tell-no-proxy", 13}};
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    struct rec *r = run_proxied(s, "http://provider.invalid/a", NULL);

    (void)state;
    assert_int_equal(r->outcome, HTTP_OK);
    assert_non_null(strstr(seen_text(s), "GET http://provider.invalid/a HTTP/1.1"));
    free(r);

    seen_set_reply(s, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
    r = run_proxied(s, "https://provider.invalid/a", &key);
    assert_int_equal(r->outcome, HTTP_CONNECT_FAILED);
    assert_int_equal(r->heads, 0); /* the proxy's answer is not the provider's */
    assert_non_null(strstr(seen_text(s), "CONNECT provider.invalid:443 HTTP/1.1"));
    assert_null(strstr(seen_text(s), "tell-no-proxy"));
    free(r);
    seen_free(s);
}

/* ---- what cannot be sent ---- */

static void refuse_header(struct bed *bed, struct span name, struct span value)
{
    struct rec *r = rec_new(bed);
    struct error e = {0};
    struct http_header h = {name, value};
    enum err rc =
        rec_try(r,
                &(struct http_request){
                    .method = "GET", .url = "http://127.0.0.1:1/", .headers = &h, .nheaders = 1},
                &e);

    assert_int_equal(rc, ERR_CONFIG);
    assert_true(e.msg[0] != '\0');
    assert_null(r->call);
    assert_null(strstr(e.msg, "s3cret"));
    free(r);
}

static void test_bad_headers(void **state)
{
    struct bed bed;

    (void)state;
    bed_open(&bed);
    refuse_header(&bed, SPAN("X-A"), SPAN("s3cret\r\nEvil: 1"));
    refuse_header(&bed, SPAN("X-A"), SPAN("s3cret\n"));
    refuse_header(&bed, SPAN("X-A"), SPAN("\rs3cret"));
    refuse_header(&bed, SPAN("X-A"), SPAN("s3cret\0x"));
    refuse_header(&bed, SPAN("X-A"), SPAN("s3cret\x7f"));
    refuse_header(&bed, SPAN(""), SPAN("s3cret"));
    refuse_header(&bed, SPAN("X A"), SPAN("s3cret"));
    refuse_header(&bed, SPAN("X-A:"), SPAN("s3cret"));
    refuse_header(&bed, SPAN("X-A;"), SPAN(""));
    refuse_header(&bed, SPAN("X\0A"), SPAN("s3cret"));
    refuse_header(&bed, SPAN("X\nA"), SPAN("s3cret"));
    refuse_header(&bed, SPAN("content-length"), SPAN("5"));
    refuse_header(&bed, SPAN("Transfer-Encoding"), SPAN("chunked"));
    refuse_header(&bed, SPAN("Expect"), SPAN("100-continue"));
    assert_int_equal(http_client_calls(bed.client), 0);
    bed_close(&bed);
}

static void test_bad_requests(void **state)
{
    static const char *const urls[] = {"",
                                       "/v1",
                                       "ftp://host/",
                                       "file:///etc/passwd",
                                       "http://",
                                       "http:///x",
                                       "http://a b/",
                                       "http://user:pass@host/",
                                       "http://host:99999/",
                                       "http://host/\n",
                                       "https://host/\x01"};
    static const char *const methods[] = {"", "GET /", "G\r\nET", "HEAD"};
    struct bed bed;
    struct rec *r = NULL;

    (void)state;
    bed_open(&bed);
    r = rec_new(&bed);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct http_request q = {.method = "GET", .url = urls[i]};
        assert_int_equal(rec_try(r, &q, NULL), ERR_CONFIG);
    }
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        struct http_request q = {.method = methods[i], .url = "http://127.0.0.1/"};
        assert_int_equal(rec_try(r, &q, NULL), ERR_CONFIG);
    }
    assert_int_equal(http_client_calls(bed.client), 0);
    assert_int_equal(r->ends, 0);
    bed_close(&bed);
    free(r);
}

/* ---- kept connections ---- */

static void script_close_after(struct peer_conn *c, void *ctx)
{
    (void)seen_echo(c, ctx);
}

/* NousResearch/hermes-agent#75463: the server closed the kept connection while it was idle. */
static void test_stale_idle(void **state)
{
    struct bed bed;
    struct seen *s = seen_new(NULL);
    struct peer *p = peer_start(script_close_after, s, NULL);

    (void)state;
    bed_open(&bed);
    for (unsigned i = 0; i < 5; i++) {
        struct rec *r = rec_new(&bed);
        rec_get(r, p);
        rec_finish(r);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(peer_accepted(p), i + 1);
        assert_true(bed_until(&bed, peer_is_quiet, p));
        free(r);
    }
    bed_close(&bed);
    peer_stop(p);
    seen_free(s);
}

/* The first connection answers once, then takes part of the next request and goes away. */
static void die_on_reuse(struct peer_conn *c, struct seen *s, bool reset)
{
    char part[512];

    if (peer_number(c) > 0) {
        script_echo(c, s);
    } else if (seen_echo(c, s)) {
        (void)peer_recv(c, part, sizeof(part));
        if (reset) {
            peer_reset(c);
        }
    }
}

static void script_close_on_reuse(struct peer_conn *c, void *ctx)
{
    die_on_reuse(c, ctx, false);
}

static void script_reset_on_reuse(struct peer_conn *c, void *ctx)
{
    die_on_reuse(c, ctx, true);
}

static void stale_reuse(size_t n, bool reset)
{
    struct bed bed;
    char url[64];
    struct seen *s = seen_new(NULL);
    struct peer *p = peer_start(reset ? script_reset_on_reuse : script_close_on_reuse, s, NULL);
    char *body = malloc(n);

    assert_non_null(body);
    for (size_t i = 0; i < n; i++) {
        body[i] = peer_pattern(i);
    }
    bed_open(&bed);
    for (unsigned i = 0; i < 2; i++) {
        struct rec *r = rec_new(&bed);
        rec_start(r, &(struct http_request){
                         .method = "POST", .url = bed_url(url, p), .body = {body, i == 0 ? 1 : n}});
        rec_finish(r);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(r->bytes, i == 0 ? 1 : n);
        assert_true(r->intact);
        free(r);
    }
    assert_int_equal(peer_accepted(p), 2);
    bed_close(&bed);
    peer_stop(p);
    free(body);
    seen_free(s);
}

static void test_stale_on_reuse(void **state)
{
    (void)state;
    stale_reuse(10, false);
    stale_reuse(10, true);
    stale_reuse(1000000, false);
    stale_reuse(1000000, true);
}

/* BerriAI/litellm#21213, mistralai/client-python#532: error answers starve the pool. */
static void test_many_errors(void **state)
{
    struct bed bed;
    struct seen *s =
        seen_new("HTTP/1.1 429 Slow down\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                 "Content-Length: 2\r\n\r\n{}");
    struct peer *p = peer_start(script_raw_keep, s, NULL);
    unsigned before = 0;

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    for (unsigned i = 0; i < 1000; i++) {
        memset(r, 0, sizeof(*r));
        r->bed = &bed;
        rec_get(r, p);
        rec_finish(r);
        assert_int_equal(r->status, 429);
        if (i == 0) {
            before = bed_descriptors();
        }
    }
    seen_set_reply(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    memset(r, 0, sizeof(*r));
    r->bed = &bed;
    rec_get(r, p);
    rec_finish(r);
    assert_int_equal(r->status, 200);
    assert_string_equal(r->body, "ok");
    assert_int_equal(peer_accepted(p), 1);
    assert_int_equal(bed_descriptors(), before);
    bed_close(&bed);
    peer_stop(p);
    seen_free(s);
    free(r);
}

static bool all_ended(void *ctx)
{
    struct rec **all = ctx;

    for (unsigned i = 0; i < 100; i++) {
        if (all[i]->ends == 0) {
            return false;
        }
    }
    return true;
}

/* More calls at once than handles are kept; then the pool serves again. */
static void test_many_at_once(void **state)
{
    struct bed bed;
    struct rec *all[100];
    struct peer *p = peer_start(script_silent, NULL, NULL);
    char url[64];

    (void)state;
    bed_open(&bed);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 100; i++) {
            all[i] = rec_new(&bed);
            rec_start(all[i], &(struct http_request){
                                  .method = "GET", .url = bed_url(url, p), .total_ms = 150});
        }
        assert_int_equal(http_client_calls(bed.client), 100);
        assert_true(bed_until(&bed, all_ended, all));
        for (unsigned i = 0; i < 100; i++) {
            assert_int_equal(all[i]->outcome, HTTP_TIMEOUT_TOTAL);
            free(all[i]);
        }
    }
    assert_int_equal(http_client_calls(bed.client), 0);
    bed_close(&bed);
    peer_stop(p);
}

/* ---- stopping ---- */

static void end_starts_another(struct rec *r)
{
    struct rec *other = rec_new(r->bed);
    struct error e = {0};

    assert_int_equal(
        rec_try(other, &(struct http_request){.method = "GET", .url = "http://h/"}, &e),
        ERR_CLOSED);
    free(other);
}

static void test_stop_in_flight(void **state)
{
    struct bed bed;
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\n\r\nsome");
    struct peer *silent = peer_start(script_silent, NULL, NULL);
    struct peer *p = peer_start(script_raw_hold, s, NULL);
    struct rec *r[4];
    char url[64];
    unsigned port = 0;
    struct peer_blackhole *b = peer_blackhole_start(&port);

    (void)state;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    bed_open(&bed);
    for (int i = 0; i < 4; i++) {
        r[i] = rec_new(&bed);
        r[i]->on_end = end_starts_another;
    }
    rec_get(r[0], p);
    rec_get(r[1], silent);
    rec_start(r[2], &(struct http_request){.method = "GET", .url = url});
    assert_true(bed_until(&bed, rec_has_bytes, r[0]));
    assert_true(bed_until(&bed, peer_has_accepted, silent));
    rec_get(r[3], p); /* queued */
    bed_close(&bed);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r[i]->ends, 1);
        assert_int_equal(r[i]->outcome, HTTP_STOPPED);
        free(r[i]);
    }
    peer_stop(p);
    peer_stop(silent);
    peer_blackhole_stop(b);
    seen_free(s);
}

static void test_stop_with_kept_connections(void **state)
{
    struct bed bed;
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    struct peer *p = peer_start(script_raw_keep, s, NULL);
    struct peer *p2 = peer_start(script_raw_keep, s, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    struct rec *r2 = rec_new(&bed);
    rec_get(r, p);
    rec_finish(r);
    rec_get(r2, p2);
    rec_finish(r2);
    assert_int_equal(peer_open(p) + peer_open(p2), 2);
    bed_close(&bed);
    for (int i = 0; i < 1000 && peer_open(p) + peer_open(p2) > 0; i++) {
        peer_sleep(1);
    }
    assert_int_equal(peer_open(p) + peer_open(p2), 0);
    peer_stop(p);
    peer_stop(p2);
    seen_free(s);
    free(r);
    free(r2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_absent_fields),
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_methods_share_a_handle),
        cmocka_unit_test(test_interim_heads),
        cmocka_unit_test(test_trailers_are_not_a_head),
        cmocka_unit_test(test_redirect_is_a_status),
        cmocka_unit_test(test_proxy_variables_ignored),
        cmocka_unit_test(test_proxy),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_stale_idle),
        cmocka_unit_test(test_stale_on_reuse),
        cmocka_unit_test(test_many_errors),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_stop_in_flight),
        cmocka_unit_test(test_stop_with_kept_connections),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
