/* spec/environment: names that pass, names that do not and why, names that are none. */
#include "spec/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char github[] = "GH_TOKEN";
static char openai[] = "OPENAI_API_KEY";
static char *const allowed[] = {github, openai};
#define NALLOWED (sizeof(allowed) / sizeof(allowed[0]))

static void assert_refused(const char *name, const char *why)
{
    const char *text = environment_refusal(name, NULL, 0);

    if (text == NULL || strstr(text, why) == NULL) {
        print_error("%s: %s\n", name, text == NULL ? "passes" : text);
    }
    assert_non_null(text);
    assert_non_null(strstr(text, why));
}

static void test_keys_of_providers(void **state)
{
    static const char *const names[] = {
        "OPENAI_API_KEY",        "GOOGLE_API_KEY",    "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",     "aws_access_key_id", "Aws_Secret_Access_Key"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_refused(names[i], "a provider's key");
    }
}

static void test_names_of_secrets(void **state)
{
    static const char *const names[] = {
        "GEMINI_API_KEY", "MISTRAL_API_KEY", "GH_TOKEN",    "X_TOKEN",
        "CLIENT_SECRET",  "DB_PASSWORD",     "db_password", "Hf_Token",
        "_API_KEY",       "_SECRET",         "_TOKEN",      "_PASSWORD",
        "a.b-c_secret",   "X__TOKEN",        "T_TOKEN",     "my_api_key"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_refused(names[i], "its name is a secret's");
    }
}

static void test_what_passes(void **state)
{
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "TOKENS",
                                        "SECRET_NAME",
                                        "API_KEY",
                                        "TOKEN",
                                        "SECRET",
                                        "PASSWORD",
                                        "MY_TOKENS",
                                        "X_API_KEY_FILE",
                                        "X_API_KEYS",
                                        "AWS_REGION",
                                        "AWS_PROFILE",
                                        "APITOKEN",
                                        "X-TOKEN",
                                        "TACTUS_LOG_FORMAT",
                                        "TACTUS_BROKER",
                                        "TACTUS_CALLBACK_URL_2",
                                        "XTACTUS_BROKER_SOCKET",
                                        ""};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *why = environment_refusal(names[i], NULL, 0);
        if (why != NULL) {
            print_error("%s: %s\n", names[i], why);
        }
        assert_null(why);
    }
}

/* A name that is allowed passes, and nothing that only looks like it. */
static void test_allowed(void **state)
{
    (void)state;
    assert_null(environment_refusal("GH_TOKEN", allowed, NALLOWED));
    assert_null(environment_refusal("OPENAI_API_KEY", allowed, NALLOWED));
    assert_non_null(environment_refusal("gh_token", allowed, NALLOWED));
    assert_non_null(environment_refusal("GH_TOKEN", allowed + 1, 1));
    assert_non_null(environment_refusal("GH_TOKEN", allowed, 0));
    assert_non_null(environment_refusal("MY_GH_TOKEN", allowed, NALLOWED));
    assert_non_null(environment_refusal("OPENAI_API_KEY2_TOKEN", allowed, NALLOWED));
}

/* The runner's own variables are never the user's, and nobody can allow it. */
static void test_ours(void **state)
{
    static char names[][40] = {
        "TACTUS_BROKER_SOCKET", "TACTUS_BROKER_TLS_CA_FILE", "TACTUS_BROKER_TLS_INSECURE",
        "TACTUS_BROKER_",       "TACTUS_BROKER_ANYTHING",    "TACTUS_BROKER_TOKEN",
        "tactus_broker_socket", "TACTUS_CALLBACK_URL",       "Tactus_Callback_Url"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *const one[] = {names[i]};
        assert_refused(names[i], "the runner sets it");
        assert_non_null(environment_refusal(names[i], one, 1));
    }
}

static void test_names(void **state)
{
    static const char *const good[] = {"A", "_", "_1", "A_1.x-y", "a", "Z9", ".", "-"};
    static const char *const bad[] = {"",     "1",    "1A",  "A=B",  "=",        "A B",
                                      "A\tB", "A\nB", "A:B", "A/B",  "\xc3\xa9", "A\x80",
                                      "A$",   "A\\",  "A\"", "A\x7f"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(environment_name_ok(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(environment_name_ok(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_providers),
        cmocka_unit_test(test_names_of_secrets),
        cmocka_unit_test(test_what_passes),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
