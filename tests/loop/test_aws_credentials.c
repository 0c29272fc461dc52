/* Where AWS credentials come from: the order of sources, files, and endpoints that answer well,
 * badly, or never. */
#include "fixtures/aws_bed.h"
#include "fixtures/torture.h"

#include <fcntl.h>

#define RELATIVE "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
#define FULL     "AWS_CONTAINER_CREDENTIALS_FULL_URI"
#define BEARER   "AWS_CONTAINER_AUTHORIZATION_TOKEN"
#define PAIR(id) "aws_access_key_id = " id "\naws_secret_access_key = SECRET-" id "\n"

/* ---- the order ---- */

/* Everything is set; what decides is taken away, one after the other. */
static void test_order(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    b->options.access_key_id = SPAN("OPTIONS");
    b->options.secret = SPAN("S");
    b->options.profile = "named";
    aws_bed_env(b, "AWS_ACCESS_KEY_ID", "ENV");
    aws_bed_env(b, "AWS_SECRET_ACCESS_KEY", "S");
    aws_bed_env(b, "AWS_PROFILE", "other");
    aws_bed_credentials_file(
        b, "[named]\n" PAIR("NAMED") "[other]\n" PAIR("OTHER") "[default]\n" PAIR("DEFAULT"));
    aws_bed_env(b, RELATIVE, "/relative");
    endpoint_set(b->endpoint, "GET /relative ", "200 OK", KEYS("RELATIVE", IN_AN_HOUR));
    char full[128];
    (void)snprintf(full, sizeof(full), "%s/full", b->endpoint->url);
    aws_bed_env(b, FULL, full);
    endpoint_set(b->endpoint, "GET /full ", "200 OK", KEYS("FULL", IN_AN_HOUR));
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));

    aws_bed_make(b);
    gives(b, "OPTIONS");
    b->options.access_key_id = b->options.secret = (struct span){NULL, 0};
    aws_bed_make(b);
    gives(b, "NAMED");
    b->options.profile = NULL;
    aws_bed_make(b);
    gives(b, "ENV");
    aws_bed_env(b, "AWS_ACCESS_KEY_ID", NULL);
    aws_bed_env(b, "AWS_SECRET_ACCESS_KEY", NULL);
    aws_bed_make(b);
    gives(b, "OTHER");
    aws_bed_env(b, "AWS_PROFILE", NULL);
    aws_bed_make(b);
    gives(b, "DEFAULT");
    assert_int_equal(endpoint_all_hits(b->endpoint), 0);
    aws_bed_credentials_file(b, "[named]\n" PAIR("NAMED"));
    aws_bed_make(b);
    gives(b, "RELATIVE");
    aws_bed_env(b, RELATIVE, NULL);
    aws_bed_make(b);
    gives(b, "FULL");
    assert_int_equal(endpoint_all_hits(b->endpoint), 2);
    aws_bed_env(b, FULL, NULL);
    aws_bed_make(b);
    gives(b, "INSTANCE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 5);
    aws_bed_free(b);
}

/* What is set and cannot be used ends the search: the next source would be somebody else. */
static void test_half_set(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct error e = {0};
    struct aws_credentials *c = NULL;

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_env(b, "AWS_ACCESS_KEY_ID", "ENV");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "environment: the secret access key is missing");
    aws_bed_env(b, "AWS_ACCESS_KEY_ID", NULL);
    aws_bed_env(b, "AWS_SECRET_ACCESS_KEY", "hush");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "environment: the access key id is missing");
    aws_bed_env(b, "AWS_SECRET_ACCESS_KEY", NULL);
    aws_bed_env(b, "AWS_ROLE_ARN", "arn:aws:iam::1:role/x");
    aws_bed_env(b, "AWS_WEB_IDENTITY_TOKEN_FILE", "/x");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "web identity");
    aws_bed_env(b, "AWS_ROLE_ARN", NULL);
    aws_bed_env(b, RELATIVE, "/no-such");
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "container: status 404");
    assert_int_equal(endpoint_all_hits(b->endpoint), 1);

    b->options.access_key_id = SPAN("OPTIONS");
    assert_int_equal(aws_credentials_new(&c, b->bed.loop, b->bed.client, &b->options, &e),
                     ERR_CONFIG);
    assert_non_null(strstr(e.msg, "secret access key"));
    assert_null(c);
    aws_bed_free(b);
}

/* ---- files ---- */

static void test_home(void **state)
{
    struct aws_bed *b = aws_bed_new();
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/.aws", b->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    aws_bed_file(b, ".aws/config", "[default]\naws_session_token=T\n" PAIR("CONFIG"), path);
    aws_bed_make(b);
    gives(b, "CONFIG");
    struct asker a;
    ask(b, &a);
    assert_string_equal(a.secret, "SECRET-CONFIG");
    assert_string_equal(a.token, "T");
    assert_int_equal(a.expires_ms, 0);
    aws_bed_file(b, ".aws/credentials", "[default]\n" PAIR("CREDENTIALS"), path);
    gives(b, "CONFIG"); /* they do not expire: nothing is read again */
    b->now += AWS_CREDENTIALS_AGAIN_MS;
    aws_credentials_refused(b->c);
    gives(b, "CREDENTIALS");

    aws_bed_file(b, "config", "[profile x]\n" PAIR("TILDE"), path);
    aws_bed_env(b, "AWS_CONFIG_FILE", "~/config");
    aws_bed_env(b, "AWS_PROFILE", "x");
    aws_bed_make(b);
    gives(b, "TILDE");
    aws_bed_free(b);
}

static void refused_profile(const char *text, const char *why)
{
    struct aws_bed *b = aws_bed_new();

    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_credentials_file(b, text);
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, why);
    assert_int_equal(endpoint_all_hits(b->endpoint), 0);
    aws_bed_free(b);
}

static void test_refused_profiles(void **state)
{
    (void)state;
    refused_profile("[default]\nrole_arn = arn\n" PAIR("A"), "/credentials has role_arn");
    refused_profile("[default]\nsso_session = s\n", "profile default: ");
    refused_profile("[default]\nsso_start_url = s\n", "/credentials has sso_start_url");
    refused_profile("[default]\ncredential_process = /x\n", "/credentials has credential_process");
    refused_profile("[default]\naws_access_key_id = A\n", "the secret access key is missing");
    refused_profile("[default]\naws_secret_access_key = hush\n", "the access key id is missing");
    refused_profile("[default]\naws_access_key_id = A\naws_secret_access_key = hu\n  sh\n",
                    "/credentials: the secret access key has a character");
}

static void test_named_profiles(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_credentials_file(b, "[default]\n" PAIR("DEFAULT") "[plain]\nregion = x\n");
    aws_bed_env(b, "AWS_PROFILE", "nobody");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "profile nobody: not found, ");
    aws_bed_env(b, "AWS_PROFILE", "plain"); /* it names no identity */
    aws_bed_make(b);
    gives(b, "INSTANCE");
    b->options.profile = "plain"; /* whoever configured it wants one */
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "profile plain: has no keys");
    b->options.profile = "nobody";
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "profile nobody: not found");
    aws_bed_free(b);
}

static void test_odd_files(void **state)
{
    struct aws_bed *b = aws_bed_new();
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/pipe", b->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    aws_bed_env(b, "AWS_SHARED_CREDENTIALS_FILE", path);
    aws_bed_make(b);
    gives_none(b, ERR_IO, "is no regular file");
    aws_bed_env(b, "AWS_SHARED_CREDENTIALS_FILE", b->dir);
    aws_bed_make(b);
    gives_none(b, ERR_IO, "is no regular file");

    aws_bed_credentials_file(b, "[default]\n" PAIR("A"));
    (void)snprintf(path, sizeof(path), "%s/credentials", b->dir);
    assert_int_equal(truncate(path, (off_t)AWS_FILE_MAX), 0); /* NULs behind it */
    aws_bed_make(b);
    gives(b, "A");
    assert_int_equal(truncate(path, (off_t)AWS_FILE_MAX + 1), 0);
    aws_bed_make(b);
    gives_none(b, ERR_LIMIT, "is larger than 1048576 bytes");
    aws_bed_free(b);
}

/* Each allocation of a fetch from files fails in turn. */
static void test_files_nomem(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct asker a;

    (void)state;
    aws_bed_credentials_file(b, "[default]\n" PAIR("A"));
    for (size_t n = 0; n < 4; n++) {
        aws_bed_make(b);
        asker_init(&a);
        aws_credentials_get(b->c, &a.waiter);
        torture_fail_after(n);
        bool done = bed_until(&b->bed, asker_called, &a);
        torture_off();
        assert_true(done);
        assert_int_equal(a.keys, n >= 2); /* the search, the file's content */
        if (!a.keys) {
            assert_int_equal(a.e.code, ERR_NOMEM);
        }
        gives(b, "A"); /* and the next who asks is served */
    }
    struct aws_credentials *c = NULL;
    torture_fail_after(0);
    enum err rc = aws_credentials_new(&c, b->bed.loop, b->bed.client, &b->options, NULL);
    torture_off();
    assert_int_equal(rc, ERR_NOMEM);
    b->options.profile = "x";
    torture_fail_after(1);
    rc = aws_credentials_new(&c, b->bed.loop, b->bed.client, &b->options, NULL);
    torture_off();
    assert_int_equal(rc, ERR_NOMEM);
    assert_null(c);
    aws_bed_free(b);
}

/* ---- the metadata service ---- */

static void test_metadata(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct asker a;

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_make(b);
    ask(b, &a);
    assert_string_equal(a.id, "INSTANCE");
    assert_string_equal(a.secret, "SECRET-INSTANCE");
    assert_string_equal(a.token, "TOKEN-INSTANCE");
    assert_int_equal(a.expires_ms, START_MS + MINUTES(60));
    assert_true(endpoint_saw(b->endpoint, TOKEN_ROUTE,
                             "\r\nX-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
    assert_true(
        endpoint_saw(b->endpoint, ROLE_ROUTE, "\r\nX-aws-ec2-metadata-token: the-session==\r\n"));
    assert_true(
        endpoint_saw(b->endpoint, KEYS_ROUTE, "\r\nX-aws-ec2-metadata-token: the-session==\r\n"));
    assert_false(endpoint_saw(b->endpoint, KEYS_ROUTE, "ttl-seconds"));
    gives(b, "INSTANCE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 3); /* kept */

    char url[96]; /* slashes at the endpoint's end are one */
    (void)snprintf(url, sizeof(url), "%s//", b->endpoint->url);
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
    aws_bed_make(b);
    gives(b, "INSTANCE");
    aws_bed_free(b);
}

/* aws-c-auth#182: packets to it are dropped. The search ends, and tells all that was tried. */
static void test_metadata_silent(void **state)
{
    struct aws_bed *b = aws_bed_new();
    unsigned port = 0;
    struct peer_blackhole *hole = peer_blackhole_start(&port);
    char url[64];

    (void)state;
    endpoint_set(b->endpoint, TOKEN_ROUTE, "", "");
    b->options.total_ms = 60;
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "instance metadata: no answer within 60 ms (from a container:");
    gives_none(b, ERR_UPSTREAM,
               "no AWS credentials: environment: AWS_ACCESS_KEY_ID is not set; "
               "profile default: not found, no /");
    gives_none(b, ERR_UPSTREAM, "; container: no endpoint is set; instance metadata: ");

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
    b->options.connect_ms = 30;
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "instance metadata: no answer within 60 ms");
    peer_blackhole_stop(hole);

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", peer_dead_port());
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
    b->options.total_ms = 9000;
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "instance metadata: ");
    aws_bed_free(b);
}

static void metadata_says(const char *route, const char *status, const char *body, unsigned hits,
                          enum err code, const char *why)
{
    struct aws_bed *b = aws_bed_new();

    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    endpoint_set(b->endpoint, route, status, body);
    aws_bed_make(b);
    gives_none(b, code, why);
    assert_int_equal(endpoint_all_hits(b->endpoint), hits);
    aws_bed_free(b);
}

static void test_metadata_refusals(void **state)
{
    static char large[33000];

    (void)state;
    metadata_says(TOKEN_ROUTE, "403 Forbidden", "hush", 1, ERR_UPSTREAM,
                  "instance metadata: status 403 to the request for a token");
    metadata_says(TOKEN_ROUTE, "200 OK", "", 1, ERR_UPSTREAM, "for a token is none");
    metadata_says(TOKEN_ROUTE, "200 OK", "<html>hush\r\nx: y</html>", 1, ERR_UPSTREAM,
                  "for a token");
    metadata_says(TOKEN_ROUTE, "500 No", "hush", 2, ERR_UPSTREAM, "status 500");
    metadata_says(ROLE_ROUTE, "404 Not Found", "hush", 2, ERR_CONFIG, "the instance has no role");
    metadata_says(ROLE_ROUTE, "200 OK", "\nmy-role", 2, ERR_UPSTREAM, "the role's name is none");
    metadata_says(ROLE_ROUTE, "200 OK", "../../hush", 2, ERR_UPSTREAM, "the role's name is none");
    metadata_says(ROLE_ROUTE, "200 OK", "..", 2, ERR_UPSTREAM, "the role's name is none");
    metadata_says(ROLE_ROUTE, "200 OK", "<html>hush", 2, ERR_UPSTREAM, "the role's name is none");
    metadata_says(KEYS_ROUTE, "404 Not Found", "hush", 3, ERR_UPSTREAM, "status 404");
    metadata_says(KEYS_ROUTE, "302 Found", "hush", 3, ERR_UPSTREAM, "status 302");
    metadata_says(KEYS_ROUTE, "200 OK", "<html>hush</html>", 3, ERR_UPSTREAM, "no JSON object");
    metadata_says(KEYS_ROUTE, "200 OK", "{\"Code\":\"Success\"}", 3, ERR_UPSTREAM, "is missing");
    metadata_says(KEYS_ROUTE, "200 OK", "{\"Code\":\"Failed\"}", 3, ERR_UPSTREAM, "Code");
    metadata_says(KEYS_ROUTE, "200 OK", KEYS("LATE", "2029-12-31T23:59:59Z"), 3, ERR_UPSTREAM,
                  "has expired at 2029-12-31T23:59:59.000Z");
    memset(large, 'x', sizeof(large) - 1);
    metadata_says(KEYS_ROUTE, "200 OK", large, 3, ERR_LIMIT, "the answer is too large");
}

static void test_metadata_retry(void **state)
{
    static const char *const routes[] = {TOKEN_ROUTE, ROLE_ROUTE, KEYS_ROUTE};

    (void)state;
    struct aws_bed *b = aws_bed_new();
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    for (size_t i = 0; i < 3; i++) { /* one retry each */
        endpoint_fails(b->endpoint, routes[i], 1);
    }
    aws_bed_make(b);
    gives(b, "INSTANCE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    endpoint_fails(b->endpoint, KEYS_ROUTE, 2);
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "status 500 to the request for credentials");
    assert_int_equal(endpoint_all_hits(b->endpoint), 10);
    aws_bed_free(b);
}

static void test_metadata_settings(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_env(b, "AWS_EC2_METADATA_DISABLED", "TRUE");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "switched off by AWS_EC2_METADATA_DISABLED");
    assert_int_equal(endpoint_all_hits(b->endpoint), 0);
    aws_bed_env(b, "AWS_EC2_METADATA_DISABLED", "false");
    aws_bed_make(b);
    gives(b, "INSTANCE");
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "file:///etc/passwd");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "instance metadata: the URL does not begin with");
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL);
    aws_bed_env(b, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv5");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "neither IPv4 nor IPv6");
    aws_bed_free(b);
}

/* ---- a container's endpoint ---- */

static void test_container(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct asker a;
    char path[128];

    (void)state;
    endpoint_set(b->endpoint, "GET /v2/credentials/x ", "200 OK", KEYS("TASK", IN_AN_HOUR));
    aws_bed_env(b, RELATIVE, "/v2/credentials/x");
    aws_bed_make(b);
    ask(b, &a);
    assert_string_equal(a.secret, "SECRET-TASK");
    assert_int_equal(a.expires_ms, START_MS + MINUTES(60));
    assert_false(endpoint_saw(b->endpoint, "GET /v2/credentials/x ", "Authorization"));
    aws_bed_env(b, BEARER, "Bearer one");
    aws_bed_make(b);
    gives(b, "TASK");
    assert_true(
        endpoint_saw(b->endpoint, "GET /v2/credentials/x ", "\r\nAuthorization: Bearer one\r\n"));

    /* the file counts more, and is read each time */
    aws_bed_file(b, "token", "two\n", path);
    aws_bed_env(b, BEARER "_FILE", path);
    aws_bed_make(b);
    gives(b, "TASK");
    assert_true(endpoint_saw(b->endpoint, "GET /v2/credentials/x ", "\r\nAuthorization: two\r\n"));
    aws_bed_file(b, "token", "three", path);
    b->now += MINUTES(55);
    gives(b, "TASK");
    assert_true(
        endpoint_saw(b->endpoint, "GET /v2/credentials/x ", "\r\nAuthorization: three\r\n"));
    endpoint_fails(b->endpoint, "GET /v2/credentials/x ", 1);
    aws_bed_make(b);
    gives(b, "TASK");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    aws_bed_free(b);
}

static void container_refuses(const char *full, const char *token, const char *why)
{
    struct aws_bed *b = aws_bed_new();
    char path[128];

    endpoint_metadata(b->endpoint, KEYS("INSTANCE", IN_AN_HOUR));
    aws_bed_env(b, full[0] == '/' || full[0] == 'x' ? RELATIVE : FULL, full);
    if (token != NULL) {
        aws_bed_file(b, "token", token, path);
        aws_bed_env(b, BEARER "_FILE", path);
    }
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, why);
    assert_int_equal(endpoint_all_hits(b->endpoint), 0);
    aws_bed_free(b);
}

static void test_container_refusals(void **state)
{
    (void)state;
    container_refuses("http://example.com/", NULL, "neither https nor");
    container_refuses("http://169.254.169.254/", NULL, "neither https nor");
    container_refuses("http://127.0.0.1.example.com/", NULL, "neither https nor");
    container_refuses("http://127.0.0.1@example.com/", NULL, "host or port");
    container_refuses("http://[::2]/", NULL, "neither https nor");
    container_refuses("ftp://127.0.0.1/", NULL, "does not begin with");
    container_refuses("x/y", NULL, "does not begin with a slash");
    container_refuses("http://127.0.0.1/", "hush\r\nX: y", "a line break");
    container_refuses("http://127.0.0.1/", "hush\001", "a line break or the like");

    struct aws_bed *b = aws_bed_new();
    aws_bed_env(b, FULL, "http://127.0.0.1/");
    aws_bed_env(b, BEARER "_FILE", "/nonexistent/token");
    aws_bed_make(b);
    gives_none(b, ERR_CONFIG, "container: token file /nonexistent/token cannot be opened");
    aws_bed_free(b);
}

/* A redirect would carry the token to somebody else. */
static void test_container_redirect(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    aws_bed_env(b, RELATIVE, "/from");
    aws_bed_env(b, BEARER, "hush");
    endpoint_set(b->endpoint, "GET /from ", "307 Temporary Redirect", "");
    rec_copy(b->endpoint->routes[0].headers, 128, "Location: /to\r\n");
    endpoint_set(b->endpoint, "GET /to ", "200 OK", KEYS("TO", IN_AN_HOUR));
    aws_bed_make(b);
    gives_none(b, ERR_UPSTREAM, "container: status 307 to the request for credentials");
    assert_int_equal(endpoint_hits(b->endpoint, "GET /to "), 0);
    aws_bed_free(b);
}

/* Keys without a token and an end are some, from a container. */
static void test_container_lasting(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct asker a;

    (void)state;
    aws_bed_env(b, RELATIVE, "/x");
    endpoint_set(b->endpoint, "GET /x ", "200 OK",
                 "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"}");
    aws_bed_make(b);
    ask(b, &a);
    assert_string_equal(a.id, "A");
    assert_string_equal(a.token, "");
    assert_int_equal(a.expires_ms, 0);
    b->now += MINUTES(1000000);
    gives(b, "A");
    assert_int_equal(endpoint_all_hits(b->endpoint), 1);
    aws_bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_half_set),
        cmocka_unit_test(test_home),
        cmocka_unit_test(test_refused_profiles),
        cmocka_unit_test(test_named_profiles),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_files_nomem),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_metadata_silent),
        cmocka_unit_test(test_metadata_refusals),
        cmocka_unit_test(test_metadata_retry),
        cmocka_unit_test(test_metadata_settings),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_container_refusals),
        cmocka_unit_test(test_container_redirect),
        cmocka_unit_test(test_container_lasting),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
