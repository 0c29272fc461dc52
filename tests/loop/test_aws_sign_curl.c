/* Our signatures against libcurl's own signer: what libcurl sent is signed again by us, at its time
 * and with its headers. Only paths and queries that libcurl is known to sign right. */
#include "base/clock.h"
#include "fixtures/http_seen.h"
#include "net/aws_sign.h"

#include <curl/curl.h>

/* "20261202T204437Z" as seconds since 1970. */
static int64_t seconds_of(const char *date)
{
    char text[32];
    int64_t ms = 0;

    (void)snprintf(text, sizeof(text), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", date, date + 4, date + 6,
                   date + 9, date + 11, date + 13);
    assert_true(clock_parse(span_str(text), &ms));
    return ms / 1000;
}

/* The value of a header of `request`. */
static void header_of(const char *request, const char *name, char *out, size_t size)
{
    const char *at = strstr(request, name);

    assert_non_null(at);
    at += strlen(name);
    size_t n = strcspn(at, "\r");
    assert_true(n < size);
    memcpy(out, at, n);
    out[n] = '\0';
}

static size_t drop(char *p, size_t size, size_t n, void *ctx)
{
    (void)p;
    (void)ctx;
    return size * n;
}

static void send_by_libcurl(const char *url, const char *body)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");

    assert_non_null(easy);
    headers = curl_slist_append(headers, "X-Other: value");
    assert_non_null(headers);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_URL, url), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, "aws:amz:eu-west-1:bedrock"),
                     CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_USERPWD, "AKIDEXAMPLE:SECRETKEY"), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop), CURLE_OK);
    if (body != NULL) {
        assert_int_equal(curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body), CURLE_OK);
    }
    assert_int_equal(curl_easy_perform(easy), CURLE_OK);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
}

static void same_as_libcurl(const char *target, const char *body)
{
    struct seen *s = seen_new("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    struct peer *p = peer_start(script_raw, s, NULL);
    const struct http_header headers[] = {{SPAN("Content-Type"), SPAN("application/json")},
                                          {SPAN("X-Other"), SPAN("value")}};
    struct aws_signature out;
    char url[256];
    char date[64];
    char authorization[AWS_AUTHORIZATION_SIZE];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", peer_port(p), target);
    send_by_libcurl(url, body);
    header_of(seen_text(s), "\r\nX-Amz-Date: ", date, sizeof(date));
    header_of(seen_text(s), "\r\nAuthorization: ", authorization, sizeof(authorization));
    const struct aws_sign_input in = {.access_key_id = SPAN("AKIDEXAMPLE"),
                                      .secret = SPAN("SECRETKEY"),
                                      .region = "eu-west-1",
                                      .service = "bedrock",
                                      .time = seconds_of(date),
                                      .method = body == NULL ? "GET" : "POST",
                                      .url = url,
                                      .headers = headers,
                                      .nheaders = 2,
                                      .body = span_str(body)};
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    assert_string_equal(out.date, date);
    assert_string_equal(out.authorization, authorization);
    peer_stop(p);
    seen_free(s);
}

static void test_same(void **state)
{
    (void)state;
    same_as_libcurl("/", NULL);
    same_as_libcurl("/model/amazon.titan-text-lite-v1/converse", "{\"messages\":[]}");
    same_as_libcurl("/model/x/converse-stream", "");
    same_as_libcurl("/foundation-models?byOutputModality=TEXT&byProvider=x", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same)};

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
