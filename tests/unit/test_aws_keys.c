/* Sets of AWS credentials: what is taken for one, endpoints' answers, the environment's copy. */
#include "fixtures/torture.h"
#include "net/aws_environment.h"
#include "net/aws_keys.h"

#include <openssl/crypto.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOOD                                                                                       \
    "{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"ASIA1\","                       \
    "\"SecretAccessKey\":\"S\\/"                                                                   \
    "+\\u003d\",\"Token\":\"T==\",\"Expiration\":\"2030-01-01T00:00:00Z\"}"
#define IN_2030 INT64_C(1893456000000)

static struct aws_keys *reads(const char *json, bool instance)
{
    struct aws_keys *k = NULL;
    struct error e = {0};

    if (aws_keys_read(span_str(json), instance, &k, &e) != ERR_OK) {
        fail_msg("%s: %s", json, e.msg);
    }
    return k;
}

static void test_answers(void **state)
{
    (void)state;
    for (int instance = 0; instance < 2; instance++) {
        struct aws_keys *k = reads(GOOD, instance == 1);
        assert_true(span_eq(k->access_key_id, SPAN("ASIA1")));
        assert_true(span_eq(k->secret, SPAN("S/+=")));
        assert_true(span_eq(k->session_token, SPAN("T==")));
        assert_int_equal(k->expires_ms, IN_2030);
        aws_keys_free(k);
    }
    struct aws_keys *k =
        reads(" {\"SecretAccessKey\":\"S\",\"AccessKeyId\":\"A\",\"Token\":null}\n", false);
    assert_null(k->session_token.p);
    assert_int_equal(k->expires_ms, 0);
    aws_keys_free(k);
    aws_keys_free(NULL);
}

static void refused(const char *json, bool instance, const char *why)
{
    struct aws_keys *k = NULL;
    struct error e = {0};

    assert_int_equal(aws_keys_read(span_str(json), instance, &k, &e), ERR_PROTO);
    assert_int_equal(e.code, ERR_PROTO);
    assert_null(k);
    if (strstr(e.msg, why) == NULL) {
        fail_msg("%s: \"%s\" without \"%s\"", json, e.msg, why);
    }
    assert_null(strstr(e.msg, "hush"));
}

static void test_refused_answers(void **state)
{
    (void)state;
    refused("", false, "no JSON object");
    refused("<html>hush</html>", false, "no JSON object");
    refused("[]", false, "no JSON object");
    refused("{\"AccessKeyId\":\"A\",\"AccessKeyId\":\"B\"}", false, "no JSON object");
    refused("{}", false, "access key id is missing");
    refused("{\"AccessKeyId\":\"A\"}", false, "secret access key is missing");
    refused("{\"AccessKeyId\":1,\"SecretAccessKey\":\"hush\"}", false, "AccessKeyId");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":[\"hush\"]}", false, "SecretAccessKey");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\\n\"}", false, "a character");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hu sh\"}", false, "a character");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\\u0000\"}", false, "a character");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",\"Token\":\"\\r\"}", false,
            "token");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",\"Expiration\":\"soon\"}", false,
            "Expiration");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",\"Expiration\":1893456000}", false,
            "Expiration");
    refused("{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"hush\"}", true, "Code");
    refused("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",\"Token\":\"T\","
            "\"Expiration\":\"2030-01-01T00:00:00Z\"}",
            true, "Code");
    refused(
        "{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\",\"Token\":\"T\"}",
        true, "Expiration");
    refused("{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"hush\","
            "\"Expiration\":\"2030-01-01T00:00:00Z\"}",
            true, "session token is missing");
}

/* An answer cut anywhere is no answer. */
static void test_cut(void **state)
{
    static const char whole[] = GOOD;

    (void)state;
    for (size_t n = 0; n + 1 < sizeof(whole); n++) {
        struct aws_keys *k = NULL;
        char *copy = malloc(n == 0 ? 1 : n);
        assert_non_null(copy);
        memcpy(copy, whole, n);
        assert_int_equal(aws_keys_read(span_of(copy, n), true, &k, NULL), ERR_PROTO);
        free(copy);
    }
}

static void test_bounds(void **state)
{
    static char text[AWS_TOKEN_MAX + 1];
    struct aws_keys *k = NULL;
    struct aws_keys from = {span_of(text, AWS_KEY_MAX), span_of(text, AWS_KEY_MAX),
                            span_of(text, AWS_TOKEN_MAX), 7};

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_int_equal(aws_keys_new(&from, &k, NULL), ERR_OK);
    assert_true(span_eq(k->session_token, from.session_token));
    assert_true(k->secret.p != from.secret.p && span_eq(k->secret, from.secret));
    assert_int_equal(k->expires_ms, 7);
    aws_keys_free(k);
    k = NULL;
    from.session_token.n++;
    assert_int_equal(aws_keys_new(&from, &k, NULL), ERR_CONFIG);
    from.session_token.n--;
    from.secret.n++;
    assert_int_equal(aws_keys_new(&from, &k, NULL), ERR_CONFIG);
    from.secret.n--;
    from.access_key_id.n++;
    assert_int_equal(aws_keys_new(&from, &k, NULL), ERR_CONFIG);
    assert_null(k);
}

static void test_nomem(void **state)
{
    struct aws_keys *k = NULL;
    struct error e = {0};

    (void)state;
    torture_off();
    aws_keys_free(reads(GOOD, true));
    size_t all = torture_count();
    assert_true(all > 0);
    for (size_t n = 0; n < all; n++) {
        torture_fail_after(n);
        enum err rc = aws_keys_read(SPAN(GOOD), true, &k, &e);
        torture_off();
        assert_int_equal(rc, ERR_NOMEM);
        assert_null(k);
    }
}

/* ---- the environment ---- */

struct asked {
    char names[2048];
    const char *secret;
};

static const char *lookup(void *ctx, const char *name)
{
    struct asked *a = ctx;

    strncat(a->names, name, sizeof(a->names) - strlen(a->names) - 1);
    strncat(a->names, " ", sizeof(a->names) - strlen(a->names) - 1);
    if (strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0) {
        return a->secret;
    }
    return strcmp(name, "AWS_PROFILE") == 0 ? "" : NULL;
}

static void test_environment(void **state)
{
    char secret[] = "SECRET";
    struct asked a = {.secret = secret};
    struct aws_environment *env = NULL;

    (void)state;
    assert_int_equal(aws_environment_new(lookup, &a, &env, NULL), ERR_OK);
    memset(secret, 'x', sizeof(secret) - 1); /* as its owner may do afterwards */
    assert_string_equal(aws_environment_get(env, AWS_ENV_SECRET_ACCESS_KEY), "SECRET");
    assert_null(aws_environment_get(env, AWS_ENV_PROFILE)); /* empty is not set */
    assert_null(aws_environment_get(env, AWS_ENV_ACCESS_KEY_ID));
    assert_null(aws_environment_get(env, AWS_VARIABLES));
    for (unsigned i = 0; i < AWS_VARIABLES; i++) {
        assert_non_null(strstr(a.names, aws_environment_name((enum aws_variable)i)));
    }
    assert_string_equal(aws_environment_name(AWS_VARIABLES), "");
    aws_environment_free(env);
    aws_environment_free(NULL);
}

static void test_environment_limits(void **state)
{
    char *huge = malloc(AWS_VARIABLE_MAX + 2);
    struct asked a = {.secret = huge};
    struct aws_environment *env = NULL;
    struct error e = {0};

    (void)state;
    assert_non_null(huge);
    memset(huge, 'x', AWS_VARIABLE_MAX + 1);
    huge[AWS_VARIABLE_MAX + 1] = '\0';
    assert_int_equal(aws_environment_new(lookup, &a, &env, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "AWS_SECRET_ACCESS_KEY"));
    huge[AWS_VARIABLE_MAX] = '\0';
    torture_fail_after(0);
    assert_int_equal(aws_environment_new(lookup, &a, &env, &e), ERR_NOMEM);
    torture_off();
    assert_null(env);
    assert_int_equal(aws_environment_new(lookup, &a, &env, &e), ERR_OK);
    aws_environment_free(env);
    free(huge);
}

/* Once the process has a secure arena, keys and the environment's values lie in it, and leave it.
 */
static void test_arena(void **state)
{
    char secret[] = "SECRET";
    struct asked a = {.secret = secret};
    struct aws_environment *env = NULL;

    (void)state;
    assert_true(CRYPTO_secure_malloc_init(65536, 16) != 0);
    struct aws_keys *k = reads(GOOD, true);
    assert_int_equal(aws_environment_new(lookup, &a, &env, NULL), ERR_OK);
    assert_int_equal(CRYPTO_secure_allocated(k->secret.p), 1);
    assert_int_equal(CRYPTO_secure_allocated(k->session_token.p), 1);
    assert_int_equal(CRYPTO_secure_allocated(aws_environment_get(env, AWS_ENV_SECRET_ACCESS_KEY)),
                     1);
    aws_keys_free(k);
    aws_environment_free(env);
    assert_int_equal(CRYPTO_secure_used(), 0);
    assert_int_equal(CRYPTO_secure_malloc_done(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refused_answers),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_nomem),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_limits),
        cmocka_unit_test(test_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
