/*
 * The HTTP client against a scripted server: what is sent, what is read, how each end is told, TLS,
 * stale connections, stopping. Pausing, cancelling and releasing are in test_http_client_flow.c.
 */
#include "fixtures/http_bed.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#define REQUEST_MAX (1024u * 1024u)

/* What a script read last; the test looks at it after the call's end. */
struct seen {
    char text[REQUEST_MAX];
    const char *reply; /* sent as it is */
};

static struct seen *seen_new(const char *reply)
{
    struct seen *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->reply = reply;
    return s;
}

/* ---- scripts ---- */

static void script_raw(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    if (peer_recv_request(c, s->text, sizeof(s->text), &body)) {
        (void)peer_send_str(c, s->reply);
    }
}

static void script_raw_keep(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    while (peer_recv_request(c, s->text, sizeof(s->text), &body)) {
        (void)peer_send_str(c, s->reply);
    }
}

static void script_echo(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    while (peer_recv_request(c, s->text, sizeof(s->text), &body)) {
        (void)peer_reply(c, "200 OK", "", body);
    }
}

static void script_silent(struct peer_conn *c, void *ctx)
{
    (void)ctx;
    (void)peer_expect_close(c);
}

/* ---- one call against one script ---- */

static struct rec *run_raw(const char *reply)
{
    struct bed bed;
    struct seen *s = seen_new(reply);
    struct peer *p = peer_start(script_raw, s, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_get(r, p);
    rec_finish(r);
    bed_close(&bed);
    peer_stop(p);
    free(s);
    return r;
}

static void expect_outcome(const char *reply, enum http_outcome outcome)
{
    struct rec *r = run_raw(reply);

    if (r->outcome != outcome) {
        print_message("%.60s: outcome %d, detail \"%s\"\n", reply, (int)r->outcome, r->detail);
    }
    assert_int_equal(r->outcome, outcome);
    assert_true(r->detail[0] != '\0');
    free(r);
}

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
    assert_ptr_equal(strstr(s->text, "GET /v1 HTTP/1.1\r\n"), s->text);
    assert_non_null(strstr(s->text, "\r\nX-Api-Key: k\t1\r\n"));
    assert_non_null(strstr(s->text, "\r\nX-Empty:\r\n"));
    assert_non_null(strstr(s->text, "\r\nX-Space:\r\n"));
    assert_null(strcasestr(s->text, "\r\nExpect"));
    assert_null(strcasestr(s->text, "\r\nAccept-Encoding"));
    assert_null(strcasestr(s->text, "\r\nContent-Type"));
    free(s);
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
    assert_memory_equal(s->text, method, strlen(method));
    assert_null(strcasestr(s->text, "\r\nExpect"));
    assert_null(strcasestr(s->text, "\r\nContent-Type"));
    free(body);
    free(s);
    free(r);
}

static void test_post(void **state)
{
    (void)state;
    post_echo(0, "POST");
    post_echo(1, "POST");
    post_echo(65535, "POST");
    post_echo(65536, "POST");
    post_echo(1000000, "POST"); /* where libcurl alone would ask first: Expect */
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
        assert_memory_equal(s->text, methods[i], strlen(methods[i]));
        assert_int_equal(strcasestr(s->text, "\r\nContent-Length") == NULL, get);
        free(r);
    }
    assert_int_equal(peer_accepted(p), 1); /* kept alive all the way */
    bed_close(&bed);
    peer_stop(p);
    free(s);
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
    struct seen *s = seen_new(reply);
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
    free(s);
    free(s2);
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
    assert_non_null(strstr(s->text, "GET http://provider.invalid/a HTTP/1.1"));
    free(r);

    s->reply = "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
    r = run_proxied(s, "https://provider.invalid/a", &key);
    assert_int_equal(r->outcome, HTTP_CONNECT_FAILED);
    assert_int_equal(r->heads, 0); /* the proxy's answer is not the provider's */
    assert_non_null(strstr(s->text, "CONNECT provider.invalid:443 HTTP/1.1"));
    assert_null(strstr(s->text, "tell-no-proxy"));
    free(r);
    free(s);
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
    struct seen *s = ctx;
    const char *body = NULL;

    (void)peer_recv_request(c, s->text, sizeof(s->text), &body);
    if (s->reply != NULL) {
        (void)peer_send_str(c, s->reply);
        (void)peer_wait(c, 1); /* until the client has it */
    }
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
    free(s);
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

static void script_raw_hold(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    if (peer_recv_request(c, s->text, sizeof(s->text), &body)) {
        (void)peer_send_str(c, s->reply);
        (void)peer_expect_close(c);
    }
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
    free(s);
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
    free(s);
}

static void script_drip(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    (void)peer_recv_request(c, s->text, sizeof(s->text), &body);
    bool there = peer_send_str(c, "HTTP/1.1 200 OK\r\n\r\n");
    while (there) {
        there = peer_send_str(c, "x");
        peer_sleep(5);
    }
}

/* aws/agentcore-cli#1388: the overall deadline always fires, also when bytes keep coming. */
static void test_timeout_total(void **state)
{
    struct seen *s = seen_new(NULL);
    struct peer *p = peer_start(script_drip, s, NULL);
    struct rec *r = run_timed(p, (struct http_request){.stall_ms = 5000, .total_ms = 100});

    (void)state;
    assert_int_equal(r->outcome, HTTP_TIMEOUT_TOTAL);
    assert_string_equal(r->detail, "not finished within 100 ms");
    assert_true(r->bytes > 0);
    free(r);
    peer_stop(p);
    free(s);
}

/* ---- kept connections ---- */

static void script_close_after(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    const char *body = NULL;

    if (peer_recv_request(c, s->text, sizeof(s->text), &body)) {
        (void)peer_reply(c, "200 OK", "", body);
    }
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
    free(s);
}

/* The first connection answers once, then takes part of the next request and goes away. */
static void script_die_on_reuse(struct peer_conn *c, void *ctx)
{
    struct seen *s = ctx;
    char part[512];
    const char *body = NULL;

    if (peer_number(c) > 0) {
        script_echo(c, ctx);
        return;
    }
    if (peer_recv_request(c, s->text, sizeof(s->text), &body) &&
        peer_reply(c, "200 OK", "", body)) {
        (void)peer_recv(c, part, sizeof(part));
        if (s->reply != NULL) {
            peer_reset(c);
        }
    }
}

static void stale_reuse(size_t n, bool reset)
{
    struct bed bed;
    char url[64];
    struct seen *s = seen_new(reset ? "reset" : NULL);
    struct peer *p = peer_start(script_die_on_reuse, s, NULL);
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
    free(s);
}

static void test_stale_on_reuse(void **state)
{
    (void)state;
    stale_reuse(10, false);
    stale_reuse(10, true);
    stale_reuse(1000000, false);
    stale_reuse(1000000, true);
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
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
            before = descriptors();
        }
    }
    s->reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    memset(r, 0, sizeof(*r));
    r->bed = &bed;
    rec_get(r, p);
    rec_finish(r);
    assert_int_equal(r->status, 200);
    assert_string_equal(r->body, "ok");
    assert_int_equal(peer_accepted(p), 1);
    assert_int_equal(descriptors(), before);
    bed_close(&bed);
    peer_stop(p);
    free(s);
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
    free(s);
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
    free(s);
    free(r);
    free(r2);
}

static int set_up(void **state)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)state;
    sigaction(SIGPIPE, &ignore, NULL);
    return http_client_global_init(NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    http_client_global_fini();
    return 0;
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
        cmocka_unit_test(test_stale_idle),
        cmocka_unit_test(test_stale_on_reuse),
        cmocka_unit_test(test_many_errors),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_stop_in_flight),
        cmocka_unit_test(test_stop_with_kept_connections),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
