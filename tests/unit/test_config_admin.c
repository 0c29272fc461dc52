/* The admin section of the configuration, and a listener's ca_file. */
#include "gate/config.h"

#include "base/redact.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE "listeners: [{url: /run/s, grant: g}]\ngrants: [{name: g}]\n"

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
    assert_string_equal(e.msg, want);
}

static void test_absent(void **state)
{
    (void)state;
    struct config *c = parse(BASE);

    assert_int_equal(c->admin.nlisteners, 0);
    assert_int_equal(c->admin.token.kind, SECRET_NONE);
    assert_null(c->admin.runs_directory);
    config_unref(c);
}

static void test_present(void **state)
{
    (void)state;
    struct config *c = parse(BASE "admin: {listen: ['unix:///run/t/admin.sock', "
                                  "'tcp://127.0.0.1:8081', 'tcp://[::1]:0', "
                                  "'tcp://localhost:8082', 'tcp://127.9.9.9:1'], "
                                  "token: {file: /k}}\n");

    assert_int_equal(c->admin.nlisteners, 5);
    assert_int_equal(c->admin.listeners[0].kind, LISTENER_UNIX);
    assert_string_equal(c->admin.listeners[0].path, "/run/t/admin.sock");
    assert_int_equal(c->admin.listeners[0].mode, 0600);
    assert_int_equal(c->admin.listeners[1].kind, LISTENER_TCP);
    assert_int_equal(c->admin.listeners[1].port, 8081);
    assert_string_equal(c->admin.listeners[2].host, "::1");
    assert_int_equal(c->admin.token.kind, SECRET_FILE);
    assert_string_equal(c->admin.token.source, "/k");
    assert_string_equal(c->admin.runs_directory, "/run/t/runs");
    config_unref(c);
}

static void test_runs_directory(void **state)
{
    (void)state;
    struct config *c = parse(BASE "admin: {listen: [/run/a], runs_directory: /var/r}\n");
    assert_string_equal(c->admin.runs_directory, "/var/r");
    config_unref(c);
    c = parse(BASE "admin: {listen: [/a]}\n");
    assert_string_equal(c->admin.runs_directory, "/runs");
    config_unref(c);
    c = parse(BASE "admin: {listen: ['tcp://127.0.0.1:1'], token: {env: T}}\n");
    assert_null(c->admin.runs_directory); /* nothing that it could be beside */
    config_unref(c);
    fails(BASE "admin:\n  listen: [/a]\n  runs_directory: runs\n",
          "b.yml:5:19: admin.runs_directory: is no full path of a directory, expected one like "
          "/run/tactus/runs");
    fails(BASE "admin:\n  listen: [/a]\n  runs_directory: /runs/\n",
          "b.yml:5:19: admin.runs_directory: is no full path of a directory, expected one like "
          "/run/tactus/runs");
    fails(BASE "admin:\n  listen: [/a]\n  runs_directory: /"
               "12345678901234567890123456789012345678901234567890123456789012345678\n",
          "b.yml:5:19: admin.runs_directory: is a path, longer than 68 bytes: sockets below it "
          "would have no valid address, expected a shorter path");
    c = parse(BASE "admin:\n  listen: [/a]\n  runs_directory: /"
                   "1234567890123456789012345678901234567890123456789012345678901234567\n");
    assert_int_equal(strlen(c->admin.runs_directory), 68);
    config_unref(c);
}

static void test_listen(void **state)
{
    (void)state;
    fails(BASE "admin: {}\n",
          "b.yml:3:8: admin.listen: is missing, expected a list of unix:///PATH and tcp:// URLs");
    fails(BASE "admin: {token: {env: T}}\n",
          "b.yml:3:8: admin.listen: is missing, expected a list of unix:///PATH and tcp:// URLs");
    fails(BASE "admin: {listen: ['tcp://0.0.0.0:1'], token: {env: T}}\n",
          "b.yml:3:17: admin.listen: has an address that others can reach, expected a loopback "
          "address");
    fails(BASE "admin: {listen: ['tcp://[::]:1'], token: {env: T}}\n",
          "b.yml:3:17: admin.listen: has an address that others can reach, expected a loopback "
          "address");
    fails(BASE "admin: {listen: ['tcp://10.0.0.1:1'], token: {env: T}}\n",
          "b.yml:3:17: admin.listen: has an address that others can reach, expected a loopback "
          "address");
    fails(BASE "admin: {listen: ['tls://127.0.0.1:1'], token: {env: T}}\n",
          "b.yml:3:17: admin.listen: has a tls:// URL, expected unix:///PATH or tcp:// on a "
          "loopback address");
    fails(BASE "admin: {listen: ['http://x']}\n",
          "b.yml:3:17: admin.listen: is no URL of a listener, expected unix:///PATH, /PATH, "
          "tcp://HOST:PORT or tls://HOST:PORT");
    fails(BASE "admin: {listen: [/run/s]}\n",
          "b.yml:3:17: admin.listen: is where a listener for clients is too, expected a new one");
    fails(BASE "admin: {listen: [/a, /a]}\n",
          "b.yml:3:17: admin.listen: has the same place twice, expected different ones");
}

static void test_token(void **state)
{
    (void)state;
    fails(BASE "admin:\n  listen: [/a, 'tcp://127.0.0.1:1']\n",
          "b.yml:4:3: admin.token: is missing, expected one for the tcp:// URL in listen");
    fails(BASE "admin:\n  listen: [/a]\n  token: secret\n",
          "b.yml:5:10: admin.token: is a single value, expected { env: NAME }, { file: PATH }, { "
          "credential: NAME } or { command: [PROGRAM] }");
    struct config *c = parse(BASE "admin: {listen: [/a]}\n"); /* the user decides there */
    assert_int_equal(config_load_secrets(c, false, NULL), ERR_OK);
    config_unref(c);
}

static void test_load_token(void **state)
{
    (void)state;
    static const char token[] = "canary-token-0123456789-0123456789";
    struct error e = {.code = ERR_OK};
    struct buf out;
    bool locked = false;

    assert_int_equal(secret_arena_init(&locked, NULL), ERR_OK);
    struct config *c = parse(BASE "admin: {listen: [/a], token: {env: T_ADMIN}}\n");
    assert_int_equal(unsetenv("T_ADMIN"), 0);
    assert_int_equal(config_load_secrets(c, true, &e), ERR_CONFIG); /* also with allow_missing */
    assert_string_equal(e.msg, "admin.token: secret from variable T_ADMIN is not set");
    assert_int_equal(setenv("T_ADMIN", token, 1), 0);
    assert_int_equal(config_load_secrets(c, false, &e), ERR_OK);
    assert_true(secret_equal(&c->admin.token, SPAN(token)));
    assert_true(config_has_secret(c, c->admin.token.sha256));
    buf_init(&out, 1024);
    redact_text(c->redact, SPAN(token), false, &out);
    assert_string_equal(buf_cstr(&out), REDACT_MARK);
    buf_fini(&out);
    config_unref(c);
}

static void test_ca_file(void **state)
{
    (void)state;
    struct config *c = parse("listeners: [{url: 'tls://127.0.0.1:1', cert: c, key: k, ca_file: "
                             "/ca, grant: g}]\ngrants: [{name: g}]\n");

    assert_string_equal(c->listeners[0].ca_file, "/ca");
    assert_int_equal(config_set_ca_file(c, "/other", NULL), ERR_OK);
    assert_string_equal(c->listeners[0].ca_file, "/other");
    config_unref(c);
    fails("listeners: [{url: /s, ca_file: /ca, grant: g}]\ngrants: [{name: g}]\n",
          "b.yml:1:32: listeners[0].ca_file: is only for a listener with TLS, expected a url with "
          "tls://");
}

static void test_dev(void **state)
{
    (void)state;
    struct config *c = NULL;
    bool locked = false;

    assert_int_equal(secret_arena_init(&locked, NULL), ERR_OK);
    assert_int_equal(config_dev(&c, NULL), ERR_OK);
    assert_int_equal(c->admin.nlisteners, 0);
    assert_int_equal(config_dev_admin(c, "/tmp/d/admin.sock", NULL), ERR_OK);
    assert_int_equal(c->admin.nlisteners, 2);
    assert_string_equal(c->admin.listeners[0].path, "/tmp/d/admin.sock");
    assert_string_equal(c->admin.listeners[1].host, "127.0.0.1");
    assert_int_equal(c->admin.listeners[1].port, 0);
    assert_string_equal(c->admin.runs_directory, "/tmp/d/runs");
    assert_int_equal(c->admin.token.n, 64);
    assert_int_equal(config_load_secrets(c, false, NULL), ERR_OK);
    assert_int_equal(c->admin.token.n, 64);
    config_unref(c);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] =
        "listeners: [{url: 'tls://[::1]:1', cert: c, key: k, ca_file: ca, grant: g}]\n"
        "grants: [{name: g}]\nadmin: {listen: [/a, 'tcp://127.0.0.1:1'], token: {env: T_ADMIN}}\n";
    struct config *c = NULL;
    enum err err = ERR_NOMEM;
    bool locked = false;
    size_t n = 0;

    for (; err != ERR_OK; n++) {
        torture_fail_after(n);
        err = config_parse("b.yml", text, sizeof(text) - 1, &c, NULL);
        torture_off();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && c == NULL));
    }
    assert_true(n > 20);
    config_unref(c);
    assert_int_equal(secret_arena_init(&locked, NULL), ERR_OK);
    for (n = 0, err = ERR_NOMEM; err != ERR_OK; n++) {
        assert_int_equal(config_dev(&c, NULL), ERR_OK);
        torture_fail_after(n);
        err = config_dev_admin(c, "/tmp/d/admin.sock", NULL);
        torture_off();
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        config_unref(c);
    }
    assert_true(n > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent),         cmocka_unit_test(test_present),
        cmocka_unit_test(test_runs_directory), cmocka_unit_test(test_listen),
        cmocka_unit_test(test_token),          cmocka_unit_test(test_load_token),
        cmocka_unit_test(test_ca_file),        cmocka_unit_test(test_dev),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
