/*
 * Signature Version 4 against what AWS has published: the signing test suite (awslabs/aws-c-auth),
 * the ListUsers example of the IAM User Guide, the examples of the Amazon S3 API Reference. Keys
 * are AWS's own examples. And what those leave out: bounds, refusals, memory.
 */
#include "fixtures/torture.h"
#include "net/aws_sign.h"
#include "net/aws_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUITE_TIME 1440938160 /* 2015-08-30T12:36:00Z */
#define S3_TIME    1369353600 /* 2013-05-24T00:00:00Z */
#define SUITE      "https://example.amazonaws.com"
#define MY(v)                                                                                      \
    {                                                                                              \
        SPAN("My-Header1"), SPAN(v)                                                                \
    }

static struct aws_sign_input suite(const char *method, const char *url)
{
    return (struct aws_sign_input){.access_key_id = SPAN("AKIDEXAMPLE"),
                                   .secret = SPAN("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                                   .region = "us-east-1",
                                   .service = "service",
                                   .time = SUITE_TIME,
                                   .method = method,
                                   .url = url};
}

static struct aws_sign_input s3(const char *method, const char *url)
{
    struct aws_sign_input in = suite(method, url);

    in.access_key_id = SPAN("AKIAIOSFODNN7EXAMPLE");
    in.secret = SPAN("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    in.service = "s3";
    in.time = S3_TIME;
    in.content_sha256 = true;
    return in;
}

static void expect(const struct aws_sign_input *in, const char *scope, const char *names,
                   const char *signature)
{
    struct aws_signature out;
    struct error e = {0};
    char wanted[AWS_AUTHORIZATION_SIZE];

    enum err rc = aws_sign(in, &out, &e);
    if (rc != ERR_OK) {
        print_message("%s: %s\n", in->url, e.msg);
    }
    assert_int_equal(rc, ERR_OK);
    (void)snprintf(wanted, sizeof(wanted),
                   "AWS4-HMAC-SHA256 Credential=%s/aws4_request, SignedHeaders=%s, Signature=%s",
                   scope, names, signature);
    assert_string_equal(out.authorization, wanted);
}

static void expect_suite(const struct aws_sign_input *in, const char *names, const char *signature)
{
    expect(in, "AKIDEXAMPLE/20150830/us-east-1/service", names, signature);
}

static void get(const char *target, const char *signature)
{
    char url[256];
    (void)snprintf(url, sizeof(url), SUITE "%s", target);
    struct aws_sign_input in = suite("GET", url);

    expect_suite(&in, "host;x-amz-date", signature);
}

#define VANILLA "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"

static void test_paths(void **state)
{
    (void)state;
    get("/", VANILLA);
    get("", VANILLA); /* no path is the root */
    get("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
    get("/\xe1\x88\xb4", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
    /* get-slashes, get-slash, get-slash-dot-slash, get-relative, get-relative-relative */
    get("//example//", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84");
    get("/example/./", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84");
    get("/x/../example//./y/..",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84");
    get("//", VANILLA);
    get("/./", VANILLA);
    get("/example/..", VANILLA);
    get("/example1/example2/../..", VANILLA);
    get("/../..", VANILLA);
}

static void test_queries(void **state)
{
    (void)state;
    get("/?Param2=value2&Param1=value1",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    get("?&&Param1=value1&Param2=value2&",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    get("/?Param1=value2&Param1=value1",
        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694");
    get("/?\xe1\x88\xb4=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04");
    get("/?%e1%88%B4=%62ar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04");
    get("/?", VANILLA);
}

/* Two spellings of one query have one signature. */
static void same(const char *a, const char *b, bool equal)
{
    struct aws_sign_input left = suite("GET", a);
    struct aws_sign_input right = suite("GET", b);
    struct aws_signature x;
    struct aws_signature y;

    assert_int_equal(aws_sign(&left, &x, NULL), ERR_OK);
    assert_int_equal(aws_sign(&right, &y, NULL), ERR_OK);
    assert_int_equal(strcmp(x.authorization, y.authorization) == 0, equal);
}

static void test_query_order(void **state)
{
    (void)state;
    same(SUITE "/?b&a=1", SUITE "/?a=1&b=", true);
    same(SUITE "/?a=1=2", SUITE "/?a=1%3D2", true);
    same(SUITE "/?a=10&a=9", SUITE "/?a=9&a=10", true);
    same(SUITE "/?x=a.b&x=a%2Fb", SUITE "/?x=a/b&x=a.b", true);
    same(SUITE "/?ab=1&a=2", SUITE "/?a=2&ab=1", true);
    same(SUITE "/?a-b=1&a=2", SUITE "/?a=2&a-b=1", true);
    same(SUITE "/?q=a+b", SUITE "/?q=a%2Bb", true);
    same(SUITE "/?q=a+b", SUITE "/?q=a%20b", false);
    same(SUITE "/?q=%zz%4", SUITE "/?q=%25zz%254", true);
    same(SUITE "/?a=1&a=1", SUITE "/?a=1", false);
    same(SUITE "/a%2Fb", SUITE "/a/b", false);
    same("https://example.amazonaws.com:443/", SUITE "/", true);
    same("https://example.amazonaws.com:8443/", SUITE "/", false);
}

static void get_with(const struct http_header *headers, size_t n, const char *names,
                     const char *signature)
{
    struct aws_sign_input in = suite("GET", SUITE "/");

    in.headers = headers;
    in.nheaders = n;
    expect_suite(&in, names, signature);
}

static void test_headers(void **state)
{
    (void)state;
    /* get-header-value-order, get-header-key-duplicate, get-header-value-trim */
    get_with((struct http_header[]){MY("value4"), MY("value1"), MY("value3"), MY("value2")}, 4,
             "host;my-header1;x-amz-date",
             "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01");
    get_with(
        (struct http_header[]){MY("value2"), {SPAN("mY-hEADER1"), SPAN(" value2")}, MY("value1")},
        3, "host;my-header1;x-amz-date",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea");
    get_with((struct http_header[]){{SPAN("My-Header2"), SPAN("\"a   b   c\"")}, MY(" value1")}, 2,
             "host;my-header1;my-header2;x-amz-date",
             "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
    get_with((struct http_header[]){{SPAN("My-Header2"), SPAN("\t \"a \t b c\"  ")}, MY("value1")},
             2, "host;my-header1;my-header2;x-amz-date",
             "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
}

static void test_bodies(void **state)
{
    struct aws_sign_input in = suite("POST", SUITE "/");
    struct http_header type = {SPAN("Content-Type"), SPAN("application/x-www-form-urlencoded")};

    (void)state;
    in.headers = &type;
    in.nheaders = 1;
    in.body = SPAN("Param1=value1");
    expect_suite(&in, "content-type;host;x-amz-date",
                 "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
}

/* "Create a signed AWS API request", IAM User Guide. */
static void test_list_users(void **state)
{
    struct aws_sign_input in =
        suite("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08");
    struct http_header type = {SPAN("Content-Type"),
                               SPAN("application/x-www-form-urlencoded; charset=utf-8")};
    struct aws_signature out;

    (void)state;
    in.service = "iam";
    in.headers = &type;
    in.nheaders = 1;
    expect(&in, "AKIDEXAMPLE/20150830/us-east-1/iam", "content-type;host;x-amz-date",
           "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    assert_string_equal(out.date, "20150830T123600Z");
    assert_string_equal(out.content_sha256,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* get-vanilla-with-session-token and post-sts-header-after. */
static void test_token(void **state)
{
    struct aws_sign_input in = suite("GET", SUITE "/");

    (void)state;
    in.session_token = SPAN("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267");
    expect_suite(&in, "host;x-amz-date;x-amz-security-token",
                 "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8");
    in.method = "POST";
    in.session_token = SPAN(
        "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRX"
        "mxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/"
        "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE"
        "8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKT"
        "r4rvx3iSIlTJabIQwj2ICCR/oLxBA==");
    expect_suite(&in, "host;x-amz-date;x-amz-security-token",
                 "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

/* "Signature Calculations for the Authorization Header", Amazon S3 API Reference. */
static void test_s3(void **state)
{
    static const char scope[] = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3";
    static const char host[] = "https://examplebucket.s3.amazonaws.com";
    char url[128];

    (void)state;
    (void)snprintf(url, sizeof(url), "%s/test.txt", host);
    struct aws_sign_input in = s3("GET", url);
    in.headers = &(struct http_header){SPAN("Range"), SPAN("bytes=0-9")};
    in.nheaders = 1;
    expect(&in, scope, "host;range;x-amz-content-sha256;x-amz-date",
           "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

    static const char *const spellings[] = {"/test$file.text", "/test%24file.text"};
    for (size_t i = 0; i < 2; i++) { /* encoded once, whatever was encoded before */
        (void)snprintf(url, sizeof(url), "%s%s", host, spellings[i]);
        in = s3("PUT", url);
        in.headers =
            (struct http_header[]){{SPAN("x-amz-storage-class"), SPAN("REDUCED_REDUNDANCY")},
                                   {SPAN("Date"), SPAN("Fri, 24 May 2013 00:00:00 GMT")}};
        in.nheaders = 2;
        in.body = SPAN("Welcome to Amazon S3.");
        expect(&in, scope, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
               "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    }
    (void)snprintf(url, sizeof(url), "%s/?lifecycle", host);
    in = s3("GET", url);
    expect(&in, scope, "host;x-amz-content-sha256;x-amz-date",
           "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    (void)snprintf(url, sizeof(url), "%s?max-keys=2&prefix=J", host);
    in = s3("GET", url);
    expect(&in, scope, "host;x-amz-content-sha256;x-amz-date",
           "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* The suite's double-encode-path, with the keys that the SDK for Rust signs it with. */
static void test_double_encoding(void **state)
{
    struct aws_sign_input in =
        suite("POST", "https://tj9n5r0m12.execute-api.us-east-1.amazonaws.com/test/@connections/"
                      "JBDvjfGEIAMCERw%3D");

    (void)state;
    expect_suite(&in, "host;x-amz-date",
                 "6f871eb157f326fa5f7439eb88ca200048635950ce7d6037deda56f0c95d4364");
    in.access_key_id = SPAN("ANOTREAL");
    in.secret = SPAN("notrealrnrELgWzOk3IfjzDKtFBhDby");
    expect(&in, "ANOTREAL/20150830/us-east-1/service", "host;x-amz-date",
           "57d157672191bac40bae387e48bbe14b15303c001fdbb01f4abf295dccb09705");
}

#define CONVERSE "https://bedrock-runtime.us-east-1.amazonaws.com/model/"

/* A model's colon: "%3A" goes out, "%253A" is signed. Computed apart, with Python's hmac. */
static void test_colon(void **state)
{
    struct aws_sign_input in =
        suite("POST", CONVERSE "anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse");
    struct http_header type = {SPAN("Content-Type"), SPAN("application/json")};

    (void)state;
    in.service = "bedrock";
    in.headers = &type;
    in.nheaders = 1;
    in.body = SPAN("{\"messages\":[]}");
    in.session_token = SPAN("TOKEN");
    expect(&in, "AKIDEXAMPLE/20150830/us-east-1/bedrock",
           "content-type;host;x-amz-date;x-amz-security-token",
           "662df3acafe9dabbcc16ef80d102a57e1b2bab130c399b1aad5587160899af1d");
}

static void refuse(const struct aws_sign_input *in, enum err wanted)
{
    struct aws_signature out = {.authorization = "untouched"};
    struct error e = {0};

    enum err rc = aws_sign(in, &out, &e);
    if (rc != wanted) {
        print_message("%s: %d instead of %d\n", in->url, (int)rc, (int)wanted);
    }
    assert_int_equal(rc, wanted);
    assert_int_equal(e.code, wanted);
    assert_true(e.msg[0] != '\0');
    assert_null(strstr(e.msg, "wJalr"));
    assert_string_equal(out.authorization, "untouched");
}

static void test_refused_urls(void **state)
{
    static const char *const urls[] = {"",
                                       "example.amazonaws.com/",
                                       "ftp://x/",
                                       "https://",
                                       "https:///path",
                                       "https://:80/",
                                       "https://user@x/",
                                       "https://user:pass@x/",
                                       "https://x/a b",
                                       "https://x/a\tb",
                                       "https://x/\x7f",
                                       "https://x/#part",
                                       "https://x\\y/",
                                       "https://x:0/",
                                       "https://x:65536/",
                                       "https://x:/",
                                       "https://x:8a/",
                                       "https://[::1/",
                                       "https://[::1]x/",
                                       "https://[]/"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct aws_sign_input in = suite("GET", urls[i]);
        refuse(&in, ERR_CONFIG);
    }
}

static void test_refused_inputs(void **state)
{
    static char huge[300];
    static const struct span bad[] = {
        {"", 0}, {"a b", 3}, {"a\nb", 3}, {"a\0b", 3}, {"\xc3\xa4", 2}};
    struct aws_sign_input in;

    (void)state;
    memset(huge, 'a', sizeof(huge) - 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        in = suite("GET", SUITE);
        in.access_key_id = bad[i];
        refuse(&in, ERR_CONFIG);
        in = suite("GET", SUITE);
        in.secret = bad[i];
        refuse(&in, ERR_CONFIG);
        in = suite("GET", SUITE);
        in.session_token = bad[i];
        if (bad[i].n > 0) {
            refuse(&in, ERR_CONFIG);
        }
    }
    static const char *const names[] = {"", "a/b", "a b", huge};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        in = suite("GET", SUITE);
        in.region = names[i];
        refuse(&in, ERR_CONFIG);
        in = suite("GET", SUITE);
        in.service = names[i];
        refuse(&in, ERR_CONFIG);
    }
    in = suite("GET", SUITE);
    in.secret = span_of(huge, AWS_SECRET_MAX + 1);
    refuse(&in, ERR_CONFIG);
    in.secret = span_of(huge, AWS_SECRET_MAX);
    struct aws_signature out;
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    in = suite("GE T", SUITE);
    refuse(&in, ERR_CONFIG);
    in = suite("GET", SUITE);
    in.time = -1;
    refuse(&in, ERR_CONFIG);
    in.time = INT64_C(253402300800); /* the year 10000 */
    refuse(&in, ERR_CONFIG);
    in.time--;
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    assert_string_equal(out.date, "99991231T235959Z");
}

static void test_refused_headers(void **state)
{
    const struct http_header bad[] = {{SPAN("Host"), SPAN("x")},
                                      {SPAN("authorization"), SPAN("x")},
                                      {SPAN("X-Amz-Date"), SPAN("x")},
                                      {SPAN("x-amz-security-token"), SPAN("x")},
                                      {SPAN("X-Amz-Content-Sha256"), SPAN("x")},
                                      {SPAN(""), SPAN("x")},
                                      {SPAN("a:b"), SPAN("x")},
                                      {SPAN("a b"), SPAN("x")},
                                      {SPAN("a"), SPAN("x\ny")},
                                      {SPAN("a"), SPAN("x\0y")}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct aws_sign_input in = suite("GET", SUITE);
        in.headers = &bad[i];
        in.nheaders = 1;
        refuse(&in, ERR_CONFIG);
    }
}

/* `n` times `piece` behind the suite's host. */
static char *long_url(const char *start, const char *piece, size_t n)
{
    size_t size = sizeof(SUITE) + strlen(start) + n * strlen(piece);
    char *url = malloc(size);

    assert_non_null(url);
    int at = snprintf(url, size, SUITE "%s", start);
    for (size_t i = 0; i < n; i++) {
        at += snprintf(url + at, size - (size_t)at, "%s", piece);
    }
    return url;
}

static void test_limits(void **state)
{
    struct http_header headers[AWS_SIGN_HEADERS_MAX + 1];
    struct aws_sign_input in;
    struct aws_signature out;
    static const struct {
        const char *start;
        const char *piece;
        size_t max;
    } urls[] = {{"/?", "a&", AWS_SIGN_QUERY_MAX}, {"", "/a", AWS_SIGN_SEGMENTS_MAX}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *url = long_url(urls[i].start, urls[i].piece, urls[i].max);
        in = suite("GET", url);
        assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
        free(url);
        url = long_url(urls[i].start, urls[i].piece, urls[i].max + 1);
        in = suite("GET", url);
        refuse(&in, ERR_LIMIT);
        free(url);
    }
    char *url = long_url("", "//./x/..", 1000); /* what is resolved does not count */
    in = suite("GET", url);
    expect_suite(&in, "host;x-amz-date", VANILLA);
    free(url);

    for (size_t i = 0; i <= AWS_SIGN_HEADERS_MAX; i++) {
        headers[i] = (struct http_header){SPAN("x-name"), SPAN("value")};
    }
    in = suite("GET", SUITE);
    in.session_token = SPAN("t");
    in.content_sha256 = true;
    in.headers = headers;
    in.nheaders = AWS_SIGN_HEADERS_MAX;
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    in.nheaders++;
    refuse(&in, ERR_LIMIT);
    static char name[600];
    memset(name, 'n', sizeof(name));
    headers[0].name = span_of(name, sizeof(name));
    in.nheaders = 1;
    refuse(&in, ERR_LIMIT);
}

static void test_nomem(void **state)
{
    struct aws_sign_input in = suite("GET", SUITE "/?b=1&a=2");
    struct aws_signature out;
    size_t n = 0;

    (void)state;
    torture_off();
    assert_int_equal(aws_sign(&in, &out, NULL), ERR_OK);
    size_t all = torture_count();
    assert_true(all > 0);
    for (n = 0; n < all; n++) {
        struct error e = {0};
        torture_fail_after(n);
        enum err rc = aws_sign(&in, &out, &e);
        torture_off();
        assert_int_equal(rc, ERR_NOMEM);
        assert_int_equal(e.code, ERR_NOMEM);
    }
}

static void test_url(void **state)
{
    struct aws_url u;

    (void)state;
    assert_int_equal(aws_url_parse("HTTP://[fd00:ec2::23]:8080/a/b?c=d", &u, NULL), ERR_OK);
    assert_false(u.https);
    assert_true(span_eq(u.host, SPAN("fd00:ec2::23")));
    assert_true(span_eq(u.authority, SPAN("[fd00:ec2::23]:8080")));
    assert_true(span_eq(u.path, SPAN("/a/b")));
    assert_true(span_eq(u.query, SPAN("c=d")));
    assert_int_equal(aws_url_parse("http://h:80?q", &u, NULL), ERR_OK);
    assert_true(span_eq(u.authority, SPAN("h")));
    assert_true(u.path.n == 0 && span_eq(u.query, SPAN("q")));
    assert_int_equal(aws_url_parse("https://h:80", &u, NULL), ERR_OK);
    assert_true(span_eq(u.authority, SPAN("h:80")));
}

static void test_local(void **state)
{
    static const char *const yes[] = {
        "127.0.0.1",      "127.255.0.9", "localhost",       "LocalHost",    "169.254.170.2",
        "169.254.170.23", "::1",         "0:0:0:0:0:0:0:1", "fd00:ec2::23", "FD00:EC2:0::23"};
    static const char *const no[] = {"",
                                     "127.1",
                                     "0177.0.0.1",
                                     "2130706433",
                                     "128.0.0.1",
                                     "169.254.170.1",
                                     "169.254.169.254",
                                     "fd00:ec2::254",
                                     "::ffff:127.0.0.1",
                                     "localhost.example.com",
                                     "127.0.0.1.example.com",
                                     "::1%lo",
                                     "10.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(aws_url_is_local(span_str(yes[i])));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        assert_false(aws_url_is_local(span_str(no[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),           cmocka_unit_test(test_queries),
        cmocka_unit_test(test_query_order),     cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bodies),          cmocka_unit_test(test_list_users),
        cmocka_unit_test(test_token),           cmocka_unit_test(test_s3),
        cmocka_unit_test(test_double_encoding), cmocka_unit_test(test_colon),
        cmocka_unit_test(test_refused_urls),    cmocka_unit_test(test_refused_inputs),
        cmocka_unit_test(test_refused_headers), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_nomem),           cmocka_unit_test(test_url),
        cmocka_unit_test(test_local),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
