/*
 * Grants of the configuration: their limits, their tokens (of which the hash alone is kept), and
 * what a reload takes over: variables that were read at the start, meters, secrets to redact.
 */
#include "gate/config.h"

#include "base/buf.h"
#include "base/redact.h"
#include "fixtures/torture.h"
#include "gate/grant_table.h"
#include "net/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BASE     "listeners: [{url: /run/s, grant: g}]\n"
#define KEY      "providers: [{name: p, type: openai, keys: [{env: T_KEY}]}]\n"
#define TOKEN    "token-canary-0123456789-0123456789"
#define WALL     INT64_C(1736899200000)
#define NEW_NAME " was not read at the start: restart the broker to use it"

static struct config *parse(const char *text)
{
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};

    if (config_parse("b.yml", text, strlen(text), &c, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    return c;
}

static void fails(const char *text, const char *want)
{
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};

    assert_int_equal(config_parse("b.yml", text, strlen(text), &c, &e), ERR_CONFIG);
    assert_null(c);
    assert_non_null(strstr(e.msg, want));
}

static void variable(const char *name, const char *value)
{
    assert_int_equal(value == NULL ? unsetenv(name) : setenv(name, value, 1), 0);
}

static struct config *start(const char *text)
{
    struct config *c = parse(text);
    struct error e = {.code = ERR_OK};

    if (config_load_secrets(c, false, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    config_forget_env(c);
    return c;
}

static struct config *reload(const struct config *before, const char *text)
{
    struct config *c = parse(text);
    struct error e = {.code = ERR_OK};

    if (config_load_secrets_again(c, before, false, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    return c;
}

static void reload_fails(const struct config *before, const char *text, const char *want)
{
    struct config *c = parse(text);
    struct error e = {.code = ERR_OK};

    assert_int_equal(config_load_secrets_again(c, before, false, &e), ERR_CONFIG);
    assert_string_equal(e.msg, want);
    config_unref(c);
}

static void token_is(const struct config *c, size_t i, const char *token)
{
    unsigned char sha256[SHA256_SIZE];

    assert_true(sha256_of(span_str(token), sha256));
    assert_true(c->grants[i]->has_token);
    assert_true(sha256_equal(c->grants[i]->token_sha256, sha256));
    assert_true(config_has_secret(c, sha256));
}

static bool redacts(const struct config *c, const char *text)
{
    struct buf out;

    buf_init(&out, 4096);
    redact_text(c->redact, span_str(text), false, &out);
    bool changed = strcmp(buf_cstr(&out), text) != 0;
    buf_fini(&out);
    return changed;
}

/* ---- limits ---- */

static void test_limits(void **state)
{
    (void)state;
    struct config *c = parse(BASE "grants:\n- name: g\n- {name: h, rpm: 60, tpm: 1000000000, "
                                  "max_inflight: 3, budget_usd: 0.5, budget_tokens: 0, "
                                  "budget_period: month, client_cert: {san: 'ci-*'}}\n"
                                  "- {name: i, budget_usd: 0, budget_period: day}\n");
    const struct meter_limits *none = &c->grants[0]->limits;
    const struct meter_limits *l = &c->grants[1]->limits;

    assert_int_equal(none->rpm, 0);
    assert_int_equal(none->tpm, 0);
    assert_int_equal(none->max_inflight, 0);
    assert_true(none->budget_nano == METER_NO_BUDGET);
    assert_true(none->budget_tokens == METER_NO_BUDGET);
    assert_int_equal(none->period, METER_TOTAL);
    assert_null(c->grants[0]->cert_san);
    assert_false(c->grants[0]->has_token);
    assert_int_equal(l->rpm, 60);
    assert_int_equal(l->tpm, 1000000000);
    assert_int_equal(l->max_inflight, 3);
    assert_int_equal(l->budget_nano, 500000000);
    assert_int_equal(l->budget_tokens, 0); /* given, and nothing */
    assert_int_equal(l->period, METER_MONTH);
    assert_string_equal(c->grants[1]->cert_san, "ci-*");
    assert_int_equal(c->grants[2]->limits.budget_nano, 0);
    assert_int_equal(c->grants[2]->limits.period, METER_DAY);
    assert_ptr_not_equal(c->grants[0]->meter, c->grants[1]->meter);
    assert_ptr_equal(config_find_grant(c, "h"), c->grants[1]);
    assert_null(config_find_grant(c, "H"));
    config_unref(c);
    fails(BASE "grants: [{name: g, client_cert: {}}]\n", "client_cert: has no san");
    fails(BASE "grants: [{name: g, budget_usd: -1}]\n", "grants[0].budget_usd: is \"-1\"");
    fails(BASE "grants: [{name: g, budget_usd: 1000001}]\n", "grants[0].budget_usd");
    fails(BASE "grants: [{name: g, budget_period: week}]\n", "expected one of total, day, month");
    fails(BASE "grants: [{name: g, rpm: 10000001}]\n", "grants[0].rpm");
    fails(BASE "grants: [{name: g, tpm: 1000000001}]\n", "grants[0].tpm");
}

/* ---- tokens ---- */

static void test_tokens(void **state)
{
    (void)state;
    char path[] = "/tmp/test_config_grant.XXXXXX";
    char text[512];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "of a file\n", 10), 10);
    assert_int_equal(close(fd), 0);
    variable("T_TOKEN", TOKEN);
    assert_true(snprintf(text, sizeof(text),
                         BASE "grants:\n- {name: g, token: {env: T_TOKEN}}\n- name: h\n"
                              "- {name: i, token: {file: %s}}\n"
                              "- {name: j, token: {command: [echo, of, a, command]}}\n",
                         path) > 0);
    struct config *c = start(text);
    token_is(c, 0, TOKEN);
    assert_false(c->grants[1]->has_token);
    token_is(c, 2, "of a file"); /* without its newline */
    token_is(c, 3, "of a command");
    for (size_t i = 0; i < c->ngrants; i++) {
        assert_null(c->tokens[i].bytes); /* the hash is all that stays */
    }
    assert_string_equal(getenv("T_TOKEN"), "");
    unsigned char nobodys[SHA256_SIZE] = {0};
    assert_false(config_has_secret(c, nobodys)); /* as grant h's hash is */
    config_unref(c);
    assert_int_equal(unlink(path), 0);
}

static void load_fails(const char *text, const char *want)
{
    struct config *c = parse(text);
    struct error e = {.code = ERR_OK};

    assert_int_equal(config_load_secrets(c, true, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, want));
    assert_null(strstr(e.msg, "canary"));
    assert_false(c->grants[0]->has_token);
    config_unref(c);
}

static void test_bad_tokens(void **state)
{
    (void)state;
    static const char text[] = BASE "grants: [{name: g, token: {env: T_TOKEN}}]\n";
    static char longest[GRANT_TOKEN_MAX + 2];

    variable("T_TOKEN", NULL); /* also where keys may be missing */
    load_fails(text, "grant g: token: secret from variable T_TOKEN is not set");
    variable("T_TOKEN", "");
    load_fails(text, "grant g: token: secret from variable T_TOKEN is empty");
    variable("T_TOKEN", "canary\nx");
    load_fails(text, "grant g: token: ");
    memset(longest, 'x', GRANT_TOKEN_MAX + 1);
    variable("T_TOKEN", longest); /* nobody could show it */
    load_fails(text, "grant g: token: is longer than 4096 bytes");
    longest[GRANT_TOKEN_MAX] = '\0';
    variable("T_TOKEN", longest);
    struct config *c = start(text);
    token_is(c, 0, longest);
    config_unref(c);
}

/* ---- reload ---- */

#define WITH_TOKEN BASE "grants: [{name: g, token: {env: T_TOKEN}}]\n"

/* A variable is overwritten after the start: its value comes from the snapshot before. */
static void test_variables_are_carried(void **state)
{
    (void)state;
    variable("T_TOKEN", TOKEN);
    variable("T_KEY", "key-canary-1");
    struct config *first = start(WITH_TOKEN KEY);
    struct config *second =
        reload(first, BASE "grants:\n- name: g\n- {name: other, token: {env: T_TOKEN}}\n"
                           "providers: [{name: q, type: openai, keys: [{env: T_KEY}]}]\n");

    config_unref(first);
    token_is(second, 1, TOKEN); /* under another grant's name */
    assert_false(second->grants[0]->has_token);
    assert_string_equal(second->providers[0].keys[0].bytes, "key-canary-1");
    struct config *third = reload(second, WITH_TOKEN KEY); /* and again */
    config_unref(second);
    token_is(third, 0, TOKEN);
    assert_string_equal(third->providers[0].keys[0].bytes, "key-canary-1");
    config_unref(third);
}

/* A provider's key may become a token: both are read. A token's hash is no key. */
static void test_variables_of_others(void **state)
{
    (void)state;
    variable("T_TOKEN", TOKEN);
    variable("T_KEY", "key-canary-1");
    struct config *first = start(WITH_TOKEN KEY);
    struct config *second = reload(first, BASE "grants: [{name: g, token: {env: T_KEY}}]\n" KEY);

    token_is(second, 0, "key-canary-1");
    reload_fails(first,
                 BASE "grants: [{name: g}]\n"
                      "providers: [{name: p, type: openai, keys: [{env: T_TOKEN}]}]\n",
                 "provider p: environment variable T_TOKEN" NEW_NAME);
    config_unref(second);
    config_unref(first);
}

static void test_new_variables_are_refused(void **state)
{
    (void)state;
    variable("T_TOKEN", TOKEN);
    variable("T_NEW", "canary-new");
    struct config *c = start(WITH_TOKEN);

    reload_fails(c, BASE "grants: [{name: g, token: {env: T_NEW}}]\n",
                 "grant g: token: environment variable T_NEW" NEW_NAME);
    reload_fails(c,
                 BASE "grants: [{name: g}]\nadmin: {listen: ['tcp://127.0.0.1:0'], token: {env: "
                      "T_NEW}}\n",
                 "admin.token: environment variable T_NEW" NEW_NAME);
    reload_fails(c,
                 BASE "grants: [{name: g}]\n"
                      "providers: [{name: p, type: openai, keys: [{env: T_NEW}]}]\n",
                 "provider p: environment variable T_NEW" NEW_NAME);
    struct config *more = reload(c, BASE "grants: [{name: g, token: {command: [echo, new]}}]\n");
    token_is(more, 0, "new"); /* what is no variable is read anew */
    reload_fails(more, WITH_TOKEN, "grant g: token: environment variable T_TOKEN" NEW_NAME);
    config_unref(more);
    config_unref(c);
}

static void spend(const struct grant *g, uint64_t tokens)
{
    struct meter_cost claim = {.tokens = 1};
    struct meter_cost used = {.tokens = tokens};
    uint32_t retry = 0;

    assert_int_equal(meter_reserve(g->meter, &g->limits, 1, WALL, &claim, &retry), METER_PASSED);
    meter_settle(g->meter, &g->limits, WALL, &claim, &used);
}

static uint64_t spent(const struct grant *g)
{
    struct meter_state s;

    meter_read(g->meter, &g->limits, WALL, &s);
    return s.spent_tokens;
}

static void test_meters_are_carried(void **state)
{
    (void)state;
    struct config *first = start(BASE "grants: [{name: g}, {name: h}]\n");

    spend(first->grants[0], 10);
    spend(first->grants[1], 20);
    struct config *second =
        reload(first, BASE "grants: [{name: new}, {name: h, budget_tokens: 21}, {name: g}]\n");
    assert_int_equal(spent(second->grants[0]), 0);
    assert_int_equal(spent(second->grants[1]), 20);
    assert_int_equal(spent(second->grants[2]), 10);
    spend(first->grants[0], 5); /* a call that began before */
    assert_int_equal(spent(second->grants[2]), 15);
    config_unref(first);
    spend(second->grants[1], 1);
    struct meter_cost claim = {.tokens = 1};
    uint32_t retry = 0;
    const struct grant *h = second->grants[1];
    assert_int_equal(meter_reserve(h->meter, &h->limits, 1, WALL, &claim, &retry),
                     METER_BUDGET_TOKENS);
    config_unref(second);
}

/* Calls that began with the secrets of before are in flight. */
static void test_old_secrets_stay_redacted(void **state)
{
    (void)state;
    variable("T_KEY", "key-canary-1");
    variable("T_ADMIN", "admin-canary-0123456789-0123456789");
    struct config *first =
        start(BASE "grants: [{name: g}]\nadmin: {listen: ['tcp://127.0.0.1:0'], token: {env: "
                   "T_ADMIN}}\n" KEY);
    struct config *second = reload(
        first, BASE "grants: [{name: g}]\nproviders: [{name: p, type: openai, keys: [{command: "
                    "[echo, key-canary-2]}]}]\n");

    config_unref(first);
    assert_true(redacts(second, "x key-canary-1 y"));
    assert_true(redacts(second, "x key-canary-2 y"));
    assert_true(redacts(second, "x admin-canary-0123456789-0123456789 y"));
    assert_false(redacts(second, "x key-canary-3 y"));
    unsigned char old[SHA256_SIZE];
    assert_true(sha256_of(SPAN("key-canary-1"), old));
    assert_false(config_has_secret(second, old)); /* known to the redactor alone */
    config_unref(second);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] =
        BASE "grants: [{name: g, token: {env: T_TOKEN}}, {name: h, token: {env: T_KEY}}]\n" KEY;
    variable("T_TOKEN", TOKEN);
    variable("T_KEY", "key-canary-1");
    struct config *first = start(text);
    enum err err = ERR_NOMEM;
    size_t n = 0;

    for (; err != ERR_OK; n++) {
        struct config *c = parse(text);
        torture_fail_after(n);
        err = config_load_secrets_again(c, first, true, NULL);
        torture_off();
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        if (err == ERR_OK) {
            assert_ptr_equal(c->grants[0]->meter, first->grants[0]->meter);
            token_is(c, 0, TOKEN);
        } else {
            assert_ptr_not_equal(c->grants[0]->meter, first->grants[0]->meter);
        }
        config_unref(c);
    }
    assert_true(n > 2);
    config_unref(first);
}

static int group_setup(void **state)
{
    (void)state;
    bool locked = false;

    log_setup(LOG_ERROR, LOG_FORMAT_TEXT, NULL);
    return secret_arena_init(&locked, NULL) == ERR_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_variables_are_carried),
        cmocka_unit_test(test_variables_of_others),
        cmocka_unit_test(test_new_variables_are_refused),
        cmocka_unit_test(test_meters_are_carried),
        cmocka_unit_test(test_old_secrets_stay_redacted),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, group_setup, NULL);
}
