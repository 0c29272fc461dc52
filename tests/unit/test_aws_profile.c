/* AWS's shared files: what people and tools write, cut anywhere, and what must not be taken for a
 * key. */
#include "net/aws_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct aws_profile of(const char *config, const char *credentials, const char *name)
{
    struct aws_profile p = {0};

    if (config != NULL) {
        aws_profile_read(span_str(config), AWS_PROFILE_CONFIG, span_str(name), &p);
    }
    if (credentials != NULL) {
        aws_profile_read(span_str(credentials), AWS_PROFILE_CREDENTIALS, span_str(name), &p);
    }
    return p;
}

static void value_is(const struct aws_profile *p, enum aws_profile_key key, const char *wanted)
{
    struct span v = p->value[key].text;

    if (!span_eq(v, span_str(wanted))) {
        fail_msg("%s is \"%.*s\", not \"%s\"", aws_profile_key_name(key), (int)v.n, v.p, wanted);
    }
}

/* One credentials file's default profile. */
static void gives(const char *text, const char *id, const char *secret)
{
    struct aws_profile p = of(NULL, text, "default");

    assert_true(p.found);
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, id);
    value_is(&p, AWS_PROFILE_SECRET_ACCESS_KEY, secret);
}

#define ID "aws_access_key_id"
#define SK "aws_secret_access_key"

static void test_forms(void **state)
{
    (void)state;
    gives("[default]\n" ID " = A\n" SK " = S+/=\n", "A", "S+/=");
    gives("[default]\n" ID "=A\n" SK "=S", "A", "S"); /* no newline at the end */
    gives("[default]\r\n" ID " = A\r\n" SK " = S\r\n", "A", "S");
    gives("\xef\xbb\xbf[default]\n" ID "=A\n" SK "=S\n", "A", "S");
    gives("  [ default ]  # mine\n" ID "\t=\t A \t\n" SK "  =S\n", "A", "S");
    gives("[default]\nAWS_Access_Key_ID = A\nAws_Secret_Access_Key = S\n", "A", "S");
    gives("# x\n\n; y\n[default]\n  # z\n" ID "=A\n\n; " SK "=no\n" SK "=S\n", "A", "S");
    gives("[default]\n" ID " = A # note\n" SK " = S ; note\n", "A", "S");
    gives("[default]\n" ID " = A#B\n" SK " = S;T\n", "A#B", "S;T");
    gives("[default]\n" ID " = # nothing\n" SK " = S\n", "", "S");
    gives("[default]\nregion = eu\nnonsense\n= x\n" ID "=A\noutput=json\n" SK "=S\n", "A", "S");
    gives("[default]\n  " ID " = A\n  " SK " = S\n", "A", "S"); /* all of it indented */
    gives("[default]\n" ID "=A=B\n" SK "==\n", "A=B", "=");
}

static void test_sections(void **state)
{
    (void)state;
    gives("[default]\n" ID "=A\n[other]\n" ID "=B\n" SK "=T\n[default]\n" SK "=S\n", "A", "S");
    gives("[default]\n" ID "=A\n" ID "=B\n" SK "=S\n", "B", "S"); /* the later counts */
    gives("[default]\n" ID "=A\n" SK "=S\n[default\n" ID "=no\n" SK "=no\n", "A", "S");
    gives("[default]\n" ID "=A\n" SK "=S\n[]\n" SK "=no\n", "A", "S");
    gives(ID "=no\n" SK "=no\n[default]\n" ID "=A\n" SK "=S\n", "A", "S");
    gives("[Default]\n" ID "=no\n[default]\n" ID "=A\n" SK "=S\n", "A", "S");
    gives("[profile default]\n" ID "=no\n[default]\n" ID "=A\n" SK "=S\n", "A", "S");
    gives("[x]\ns3 =\n  [default]\n  " ID "=no\n[default]\n" ID "=A\n" SK "=S\n", "A", "S");

    struct aws_profile p = of(NULL, "[other]\n" ID "=A\n", "default");
    assert_false(p.found);
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "");
    p = of(NULL, "", "default");
    assert_false(p.found);
    p = of(NULL, "[two words]\n" ID "=A\n", "two words");
    assert_true(p.found);
}

static void test_nested(void **state)
{
    (void)state;
    gives("[default]\ns3 =\n  " ID " = no\n  " SK " = no\n" ID "=A\n" SK "=S\n", "A", "S");
    gives("[default]\n" ID "=A\ns3=\n    x = 1\n  " SK " = no\n" SK "=S\n", "A", "S");
    gives("[default]\n" SK " =\n  nested = x\n" ID "=A\n", "A", "");
    /* more of a value: kept with its line feed, so that nobody takes half of it for a key */
    gives("[default]\n" ID "=A\n" SK "=S\n more\n # no\n  yet\n", "A", "S\n more\n # no\n  yet");
}

static void test_config(void **state)
{
    (void)state;
    const char *config = "[profile dev]\n" ID "=A\nrole_arn=R\n[dev]\n" ID "=no\n"
                         "[sso-session dev]\nsso_start_url=no\n[services dev]\n" SK "=no\n"
                         "[profile \"two words\"]\n" ID "=B\n[profiledev]\n" SK "=no\n"
                         "[ profile\tdev ]\n" SK "=S\n";
    struct aws_profile p = of(config, NULL, "dev");
    assert_true(p.found);
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "A");
    value_is(&p, AWS_PROFILE_SECRET_ACCESS_KEY, "S");
    value_is(&p, AWS_PROFILE_ROLE_ARN, "R");
    value_is(&p, AWS_PROFILE_SSO_START_URL, "");
    p = of(config, NULL, "two words");
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "B");

    /* [profile default] beats [default], wherever it stands */
    const char *both = "[default]\n" ID "=no\nrole_arn=no\n[profile default]\n" ID "=A\n"
                       "[default]\nrole_arn=no\n" SK "=no\n[profile default]\n" SK "=S\n";
    p = of(both, NULL, "default");
    assert_true(p.found);
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "A");
    value_is(&p, AWS_PROFILE_SECRET_ACCESS_KEY, "S");
    value_is(&p, AWS_PROFILE_ROLE_ARN, "");
}

static void test_both_files(void **state)
{
    (void)state;
    const char *config = "[profile dev]\n" ID "=A\n" SK "=S\naws_session_token=T\nrole_arn=R\n";
    struct aws_profile p = of(config, "[dev]\n" ID "=B\n" SK "=U\n", "dev");
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "B");
    value_is(&p, AWS_PROFILE_SECRET_ACCESS_KEY, "U");
    value_is(&p, AWS_PROFILE_SESSION_TOKEN, ""); /* the other keys' */
    value_is(&p, AWS_PROFILE_ROLE_ARN, "R");
    assert_int_equal(p.value[AWS_PROFILE_ACCESS_KEY_ID].file, AWS_PROFILE_CREDENTIALS);
    assert_int_equal(p.value[AWS_PROFILE_ROLE_ARN].file, AWS_PROFILE_CONFIG);

    p = of(config, "[dev]\nregion=x\n", "dev");
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "A");
    value_is(&p, AWS_PROFILE_SESSION_TOKEN, "T");
    assert_int_equal(p.value[AWS_PROFILE_ACCESS_KEY_ID].file, AWS_PROFILE_CONFIG);
}

static enum aws_profile_key unsupported(const char *credentials)
{
    struct aws_profile p = of(NULL, credentials, "default");

    return aws_profile_unsupported(&p);
}

static void test_unsupported(void **state)
{
    static const char *const keys[] = {"role_arn",      "web_identity_token_file", "sso_session",
                                       "sso_start_url", "sso_account_id",          "login_session"};
    char text[256];

    (void)state;
    assert_int_equal(unsupported("[default]\n" ID "=A\n" SK "=S\n"), AWS_PROFILE_KEYS);
    assert_int_equal(unsupported("[default]\ncredential_process=/x\n"),
                     AWS_PROFILE_CREDENTIAL_PROCESS);
    assert_int_equal(unsupported("[default]\n" ID "=A\ncredential_process=/x\n"), AWS_PROFILE_KEYS);
    assert_int_equal(unsupported("[default]\nrole_arn =\n"), AWS_PROFILE_KEYS);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        (void)snprintf(text, sizeof(text), "[default]\n" ID "=A\n" SK "=S\n%s = x\n", keys[i]);
        assert_string_equal(aws_profile_key_name(unsupported(text)), keys[i]);
    }
    assert_string_equal(aws_profile_key_name(AWS_PROFILE_KEYS), "");
}

static void test_long_lines(void **state)
{
    const size_t n = 300000;
    char *text = malloc(2 * n + 200);

    (void)state;
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "[default]\n#");
    memset(text + at, 'c', n);
    at += n;
    at += (size_t)sprintf(text + at, "\n" ID "=A\n" SK "=");
    char *value = text + at;
    memset(value, 's', n);
    at += n;
    (void)sprintf(text + at, "\nregion=x\n");
    struct aws_profile p = of(NULL, text, "default");
    value_is(&p, AWS_PROFILE_ACCESS_KEY_ID, "A");
    assert_ptr_equal(p.value[AWS_PROFILE_SECRET_ACCESS_KEY].text.p, value);
    assert_int_equal(p.value[AWS_PROFILE_SECRET_ACCESS_KEY].text.n, n);
    free(text);
}

/* A file that somebody is still writing: what is read of it is a beginning, never something else.
 * Each text is copied to its exact size, so that reading past its end is seen. */
static void test_cut(void **state)
{
    static const char whole[] =
        "\xef\xbb\xbf# c\r\n[default]\r\n" ID " = AKID ; c\r\ns3 =\n  x = 1\n" SK
        " = SECRET\n[profile x]\n" SK "=no\n";

    (void)state;
    for (size_t n = 0; n < sizeof(whole); n++) {
        struct aws_profile p = {0};
        char *copy = malloc(n == 0 ? 1 : n);
        assert_non_null(copy);
        memcpy(copy, whole, n);
        aws_profile_read(span_of(copy, n), AWS_PROFILE_CREDENTIALS, SPAN("default"), &p);
        struct span id = p.value[AWS_PROFILE_ACCESS_KEY_ID].text;
        struct span secret = p.value[AWS_PROFILE_SECRET_ACCESS_KEY].text;
        assert_true(id.n <= 4 && (id.n == 0 || memcmp(id.p, "AKID", id.n) == 0));
        assert_true(secret.n <= 6 && (secret.n == 0 || memcmp(secret.p, "SECRET", secret.n) == 0));
        assert_true(secret.n == 0 || id.n == 4);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),      cmocka_unit_test(test_sections),
        cmocka_unit_test(test_nested),     cmocka_unit_test(test_config),
        cmocka_unit_test(test_both_files), cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_long_lines), cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
