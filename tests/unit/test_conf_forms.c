/*
 * Values with a form of their own: the four ways to a secret, and numbers in billionths. No message
 * has what stands where a secret was named.
 */
#include "base/conf.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define WANTED                                                                                     \
    ", expected { env: NAME }, { file: PATH }, { credential: NAME } or { command: [PROGRAM] }"

struct forms {
    uint64_t budget;
    struct conf_secret secret;
    struct conf_list keys;
};

static const struct conf_key FORM_KEYS[] = {
    {CONF_FIELD("budget", struct forms, budget), .type = CONF_NANO, .min = 1,
     .max = UINT64_C(5000000000), .fallback = "0.25"},
    {CONF_FIELD("secret", struct forms, secret), .type = CONF_SECRET},
    {CONF_FIELD("keys", struct forms, keys), .type = CONF_LIST_OF_SECRET, .max = 4},
};
static const struct conf_map FORMS = {FORM_KEYS, 3, sizeof(struct forms), false};

static struct forms f;

static enum err reads(const char *text, struct error *e)
{
    struct conf_doc *doc = NULL;

    memset(&f, 0, sizeof(f));
    enum err err = conf_parse("f.yml", text, strlen(text), &FORMS, &f, &doc, e);
    conf_doc_free(doc);
    return err;
}

static void parse(const char *text)
{
    struct error e = {.code = ERR_OK};

    if (reads(text, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
}

static void done(void)
{
    conf_fini(&FORMS, &f);
}

static void fails(const char *text, const char *want)
{
    struct error e = {.code = ERR_OK};

    assert_int_equal(reads(text, &e), ERR_CONFIG);
    done();
    assert_string_equal(e.msg, want);
    assert_null(strstr(e.msg, "canary"));
}

/* ---- secrets ---- */

static void test_credential(void **state)
{
    (void)state;
    static const char *const none[] = {"''",          "../sk-canary",   "a/b",
                                       "[sk-canary]", "{sk-canary: 1}", "~"};

    parse("secret: {credential: provider.key-1}");
    assert_int_equal(f.secret.kind, CONF_SECRET_CREDENTIAL);
    assert_string_equal(f.secret.source, "provider.key-1");
    assert_int_equal(f.secret.command.n, 0);
    done();
    parse("secret: {credential: a=b}"); /* is a file's name */
    assert_string_equal(f.secret.source, "a=b");
    done();
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        char text[80];
        assert_true(snprintf(text, sizeof(text), "secret: {credential: %s}", none[i]) > 0);
        fails(text, "f.yml:1:9: secret: names no credential" WANTED);
    }
    fails("secret: {Credential: sk-canary}", "f.yml:1:9: secret: is no secret reference" WANTED);
    fails("secret: {credential: sk-canary, file: b}",
          "f.yml:1:9: secret: is no secret reference" WANTED);
}

static void test_command(void **state)
{
    (void)state;
    parse("secret: {command: [/usr/bin/pass, show, 'a b=c/d', \"-\"]}");
    assert_int_equal(f.secret.kind, CONF_SECRET_COMMAND);
    assert_null(f.secret.source);
    assert_int_equal(f.secret.command.n, 4);
    char **words = f.secret.command.items;
    assert_string_equal(words[0], "/usr/bin/pass");
    assert_string_equal(words[1], "show");
    assert_string_equal(words[2], "a b=c/d");
    assert_string_equal(words[3], "-");
    done();
    parse("keys: [{command: [a]}, {credential: b}, {env: C}, {file: d}]");
    const struct conf_secret *keys = f.keys.items;
    assert_int_equal(f.keys.n, 4);
    assert_int_equal(keys[0].kind, CONF_SECRET_COMMAND);
    assert_int_equal(keys[0].command.n, 1);
    assert_int_equal(keys[1].kind, CONF_SECRET_CREDENTIAL);
    assert_int_equal(keys[2].kind, CONF_SECRET_ENV);
    assert_string_equal(keys[3].source, "d");
    done();
    fails("secret: {command: [sk-canary], env: A}",
          "f.yml:1:9: secret: is no secret reference" WANTED);
}

/* `n` words of a command. */
static void command_of(char *out, size_t size, size_t n)
{
    int at = snprintf(out, size, "secret: {command: [");

    for (size_t i = 0; i < n; i++) {
        at += snprintf(out + at, size - (size_t)at, "%sa", i == 0 ? "" : ",");
    }
    assert_true(snprintf(out + at, size - (size_t)at, "]}") == 2);
}

static void test_command_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *what;
    } wrong[] = {{"", "has no value"},
                 {"sk-canary", "is a single value"},
                 {"{a: sk-canary}", "is a map"},
                 {"[[sk-canary]]", "is a list"},
                 {"[a, '']", "is empty"}};
    static const size_t counts[] = {0, 1, 64, 65};
    char text[512];

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct error e = {.code = ERR_OK};
        bool fits = counts[i] >= 1 && counts[i] <= 64;
        command_of(text, sizeof(text), counts[i]);
        assert_int_equal(reads(text, &e), fits ? ERR_OK : ERR_CONFIG);
        assert_int_equal(f.secret.command.n, fits ? counts[i] : 0);
        done();
        if (!fits && strstr(e.msg, "expected a list of 1 to 64 texts") == NULL) {
            fail_msg("%s", e.msg);
        }
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct error e = {.code = ERR_OK};
        assert_true(snprintf(text, sizeof(text), "secret: {command: %s}", wrong[i].value) > 0);
        assert_int_equal(reads(text, &e), ERR_CONFIG);
        done();
        if (strstr(e.msg, wrong[i].what) == NULL || strstr(e.msg, "canary") != NULL) {
            fail_msg("%s", e.msg);
        }
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    enum err err = ERR_NOMEM;
    size_t n = 0;

    for (; err != ERR_OK; n++) {
        torture_fail_after(n);
        err = reads("secret: {command: [p, q]}\nkeys: [{credential: c}, {command: [r]}]\n", NULL);
        torture_off();
        done();
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    assert_true(n > 8);
}

/* ---- billionths ---- */

static void test_nano(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {
        {"{}", 250000000},
        {"budget: 5", UINT64_C(5000000000)},
        {"budget: 0.000000001", 1},
        {"budget: 1.5", 1500000000},
        {"budget: 4.999999999", UINT64_C(4999999999)},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        parse(good[i].text);
        assert_true(f.budget == good[i].want);
        done();
    }
}

static void test_not_nano(void **state)
{
    (void)state;
    static const char *const bad[] = {"0",
                                      "0.0",
                                      "5.000000001",
                                      "-1",
                                      "+1",
                                      "1e0",
                                      "1.",
                                      ".5",
                                      "1_0",
                                      "x",
                                      "1 2",
                                      "0x1",
                                      "1$",
                                      "0.0000000001",
                                      "~",
                                      "'1 '",
                                      "1,5",
                                      ".inf",
                                      "1.0000000000",
                                      "[1]",
                                      "99999999999999999999",
                                      "1.00000000000000000000000000000000000000000"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[80];
        assert_true(snprintf(text, sizeof(text), "budget: %s", bad[i]) > 0);
        if (reads(text, NULL) != ERR_CONFIG) {
            fail_msg("'%s' was taken", bad[i]);
        }
        done();
    }
    fails("budget: 6",
          "f.yml:1:9: budget: is \"6\", expected a number from 0 to 5, such as 20 or 0.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credential),     cmocka_unit_test(test_command),
        cmocka_unit_test(test_command_bounds), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_nano),           cmocka_unit_test(test_not_nano),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
