/* spec/settings: files, flags, what does not fit together; quantities and names of variables. */
#include "spec/settings.h"

#include "fixtures/torture.h"
#include "spec/environment.h"
#include "spec/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum err parse(struct settings *s, const char *text, struct error *e)
{
    return settings_parse(s, "x.tac.yml", text, strlen(text), e);
}

static void test_defaults(void **state)
{
    struct settings s;

    (void)state;
    assert_int_equal(setenv("HOME", "/home/ada", 1), 0);
    assert_int_equal(settings_init(&s, NULL), ERR_OK);
    assert_int_equal(settings_check(&s, NULL), ERR_OK);
    assert_int_equal(s.enabled, SANDBOX_AUTO);
    assert_string_equal(s.image, "tactus-sandbox:local");
    assert_string_equal(s.mcp_servers_path, "/home/ada/.tactus/mcp-servers");
    assert_int_equal(s.transport, TRANSPORT_STDIO);
    assert_string_equal(s.network, "none");
    assert_string_equal(s.broker_host, "host.docker.internal");
    assert_null(s.broker_bind_host);
    assert_int_equal(s.broker_port, 0);
    assert_true(s.memory == UINT64_C(2) << 30);
    assert_string_equal(s.memory_text, "2g");
    assert_true(s.nano_cpus == 2000000000u);
    assert_int_equal(s.pids, 512);
    assert_int_equal(s.timeout_ms, 3600000);
    assert_true(s.mount_current_dir);
    assert_false(s.dev_mode);
    assert_int_equal(s.nmodels, 1);
    assert_string_equal(s.models[0], "*");
    settings_fini(&s);
}

/* A sidecar, then --config, then flags: each overrides what it names, variables and volumes add
 * up. */
static void test_order(void **state)
{
    static const char sidecar[] = "name: somebody else's\n"
                                  "anything: [ 1, { x: y } ]\n"
                                  "sandbox:\n"
                                  "  enabled: true\n"
                                  "  image: registry:5000/a/b:2\n"
                                  "  env: { A: 1, B: \"two words\", C: ~, D: \"line\\nline\" }\n"
                                  "  volumes: [ \"./data:/data:ro\", cache:/cache ]\n"
                                  "  network: null\n"
                                  "  broker_transport: TLS\n"
                                  "  limits: { memory: 512m, cpus: 0.5 }\n"
                                  "  timeout: 90\n"
                                  "  models: [ 'openai/*' ]\n";
    static const char more[] = "sandbox: { timeout: 1.5, env: { B: three }, tools: [] }\n";
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    assert_int_equal(parse(&s, sidecar, &e), ERR_OK);
    assert_int_equal(parse(&s, more, &e), ERR_OK);
    assert_int_equal(settings_flag(&s, "memory", "1.5g", &e), ERR_OK);
    assert_int_equal(settings_flag(&s, "env", "A=x=y", &e), ERR_OK);
    assert_int_equal(settings_flag(&s, "volume", "/x", &e), ERR_OK);
    assert_int_equal(settings_flag(&s, "model", "a/*", &e), ERR_OK);
    assert_int_equal(settings_check(&s, &e), ERR_OK);
    assert_int_equal(s.enabled, SANDBOX_REQUIRED);
    assert_string_equal(s.image, "registry:5000/a/b:2");
    assert_int_equal(s.nenv, 4);
    assert_string_equal(s.env[0].value, "x=y");
    assert_string_equal(s.env[1].value, "three");
    assert_string_equal(s.env[2].value, "");
    assert_string_equal(s.env[3].value, "line\nline");
    assert_int_equal(s.nvolumes, 3);
    assert_string_equal(s.volumes[2], "/x");
    assert_int_equal(s.transport, TRANSPORT_TLS);
    assert_string_equal(s.network, "tactus");
    assert_true(s.memory == UINT64_C(3) << 29);
    assert_string_equal(s.memory_text, "1.5g");
    assert_true(s.nano_cpus == 500000000u);
    assert_int_equal(s.timeout_ms, 1500);
    assert_int_equal(s.nmodels, 2);
    assert_string_equal(s.models[0], "openai/*");
    assert_int_equal(s.ntools, 0); /* an empty list is none */
    settings_fini(&s);
}

static void test_file_faults(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"sandbox:\n  memroy: 1g\n", "x.tac.yml:2:3: sandbox.memroy: is an unknown key"},
        {"sandbox:\n  limits: { cpu: 1 }\n", "x.tac.yml:2:13: sandbox.limits.cpu: is an unknown"},
        {"sandbox:\n  timeout: soon\n",
         "x.tac.yml:2:12: sandbox.timeout: cannot be used, expected seconds"},
        {"sandbox:\n  limits:\n    memory: 1x\n", "x.tac.yml:3:13: sandbox.limits.memory: cannot"},
        {"sandbox: { broker_transport: pigeon }\n", "expected stdio, unix, tcp or tls"},
        {"sandbox: { env: [ a ] }\n", "sandbox.env: is a list, expected a map"},
        {"sandbox: { env: { A: [ 1 ] } }\n", "sandbox.env.A: is a list, expected a text"},
        {"sandbox: { env: { A: 1, A: 2 } }\n", "sandbox.env.A: is given twice"},
        {"sandbox: { env: { '1A': 1 } }\n", "sandbox.env: cannot be used"},
        {"sandbox: { volumes: a }\n", "sandbox.volumes: is a single value, expected a list"},
        {"sandbox: 3\n", "sandbox: is a single value, expected a map"},
        {"sandbox: {", "yaml"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct settings s;
        struct error e = {0};
        assert_int_equal(settings_init(&s, &e), ERR_OK);
        assert_int_equal(parse(&s, rows[i].text, &e), ERR_CONFIG);
        if (strstr(e.msg, rows[i].message) == NULL) {
            print_error("%s: %s\n", rows[i].text, e.msg);
        }
        assert_non_null(strstr(e.msg, rows[i].message));
        settings_fini(&s);
    }
}

static void test_flags(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        enum err rc;
    } rows[] = {
        {"memory", "6m", ERR_OK},
        {"memory", "5m", ERR_CONFIG},
        {"memory", "0", ERR_OK},
        {"memory", "", ERR_CONFIG},
        {"memory", "-1g", ERR_CONFIG},
        {"cpus", "0.25", ERR_OK},
        {"cpus", "two", ERR_CONFIG},
        {"pids", "2", ERR_OK},
        {"pids", "1", ERR_CONFIG},
        {"timeout", "0.001", ERR_OK},
        {"timeout", "0", ERR_CONFIG},
        {"timeout", "2592000", ERR_OK},
        {"timeout", "2592001", ERR_CONFIG},
        {"transport", "UNIX", ERR_OK},
        {"transport", "unix ", ERR_CONFIG},
        {"broker-port", "65535", ERR_OK},
        {"broker-port", "65536", ERR_CONFIG},
        {"user", "1000", ERR_OK},
        {"user", "1000:1000", ERR_OK},
        {"user", "root", ERR_CONFIG},
        {"user", "1:", ERR_CONFIG},
        {"callback-url", "https://x/y", ERR_OK},
        {"callback-url", "ftp://x", ERR_CONFIG},
        {"env", "A=", ERR_OK},
        {"env", "=x", ERR_CONFIG},
        {"env", "SURELY_NOT_SET_HERE", ERR_CONFIG},
        {"env", "A B=x", ERR_CONFIG},
        {"image", "", ERR_CONFIG},
        {"writable-root", "true", ERR_OK},
        {"dev", "maybe", ERR_CONFIG},
        {"nonsense", "x", ERR_CONFIG},
        {"enabled", "false", ERR_OK},
        {"enabled", "auto", ERR_OK},
        {"enabled", "perhaps", ERR_CONFIG},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct settings s;
        struct error e = {0};
        assert_int_equal(settings_init(&s, &e), ERR_OK);
        enum err rc = settings_flag(&s, rows[i].name, rows[i].value, &e);
        if (rc != rows[i].rc) {
            print_error("--%s %s: %d %s\n", rows[i].name, rows[i].value, (int)rc, e.msg);
        }
        assert_int_equal(rc, rows[i].rc);
        assert_true(rc == ERR_OK || strstr(e.msg, rows[i].name) != NULL);
        settings_fini(&s);
    }
}

/* A variable's value is never in a message, and comes from our own environment by its name. */
static void test_env_flag(void **state)
{
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    assert_int_equal(settings_flag(&s, "env", "A B=secret", &e), ERR_CONFIG);
    assert_null(strstr(e.msg, "secret"));
    assert_int_equal(setenv("TACTUS_TEST_VALUE", "from here", 1), 0);
    assert_int_equal(settings_flag(&s, "env", "TACTUS_TEST_VALUE", &e), ERR_OK);
    assert_string_equal(s.env[0].name, "TACTUS_TEST_VALUE");
    assert_string_equal(s.env[0].value, "from here");
    settings_fini(&s);
}

static void test_what_does_not_fit(void **state)
{
    static const struct {
        const char *flags[6];
        const char *message;
    } rows[] = {
        {{"transport", "tcp", "network", "none"}, "network is none"},
        {{"transport", "tls", "network", "none"}, "transport tls needs a network"},
        {{"transport", "tls", "cert", "c.pem"}, "the key is missing"},
        {{"key", "k.pem"}, "the certificate is missing"},
        {{"transport", "unix", "network", "none"}, NULL},
        {{"transport", "stdio", "network", "bridge"}, NULL},
        {{"transport", "tls", "cert", "c.pem", "key", "k.pem"}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct settings s;
        struct error e = {0};
        assert_int_equal(settings_init(&s, &e), ERR_OK);
        for (size_t k = 0; k + 1 < 6 && rows[i].flags[k] != NULL; k += 2) {
            assert_int_equal(settings_flag(&s, rows[i].flags[k], rows[i].flags[k + 1], &e), ERR_OK);
        }
        assert_int_equal(settings_check(&s, &e), rows[i].message == NULL ? ERR_OK : ERR_CONFIG);
        assert_true(rows[i].message == NULL || strstr(e.msg, rows[i].message) != NULL);
        settings_fini(&s);
    }
}

static void test_no_memory(void **state)
{
    static const char text[] = "sandbox: { image: a, env: { A: 1, B: 2 }, volumes: [ a:/b ], "
                               "limits: { memory: 1g }, models: [ x ] }\n";

    (void)state;
    for (size_t n = 1; n < 400; n++) {
        struct settings s;
        struct error e = {0};
        torture_fail_after(n - 1);
        enum err rc = settings_init(&s, &e);
        rc = rc == ERR_OK ? parse(&s, text, &e) : rc;
        bool over = torture_count() < n;
        torture_off();
        assert_true(rc == ERR_NOMEM || rc == ERR_OK || rc == ERR_CONFIG);
        settings_fini(&s);
        if (over) {
            assert_int_equal(rc, ERR_OK);
            return;
        }
    }
    fail_msg("it never came to its end");
}

/* ---- quantities, names ---- */

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
        bool ok;
    } rows[] = {
        {"0", 0, true},
        {"4096", 4096, true},
        {"1k", 1024, true},
        {"1K", 1024, true},
        {"1kb", 1024, true},
        {"1KiB", 1024, true},
        {"1.5g", UINT64_C(1610612736), true},
        {"2t", UINT64_C(2) << 40, true},
        {"0.5t", UINT64_C(1) << 39, true},
        {"10b", 10, true},
        {"18446744073709551615", UINT64_MAX, true},
        {"18446744073709551616", 0, false},
        {"999999999t", 0, false},
        {"1bb", 0, false},
        {"1 g", 0, false},
        {"1gg", 0, false},
        {".5g", 0, false},
        {"1.g", 0, false},
        {"", 0, false},
        {"g", 0, false},
        {"1.1234567890g", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t v = 0;
        bool ok = quantity_bytes(rows[i].text, &v);
        if (ok != rows[i].ok || (ok && v != rows[i].value)) {
            print_error("%s: %d %llu\n", rows[i].text, ok, (unsigned long long)v);
        }
        assert_int_equal(ok, rows[i].ok);
        assert_true(!ok || v == rows[i].value);
    }
}

static void test_refusals(void **state)
{
    char allowed_name[] = "GH_TOKEN";
    char *allowed[] = {allowed_name};
    static const char *const refused[] = {
        "OPENAI_API_KEY",       "GOOGLE_API_KEY",     "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",    "ANTHROPIC_API_KEY",  "GEMINI_API_KEY",    "MY_SECRET",
        "DB_PASSWORD",          "openai_api_key",     "X_TOKEN",           "AZURE_OPENAI_API_KEY",
        "TACTUS_BROKER_SOCKET", "TACTUS_CALLBACK_URL"};
    static const char *const passed[] = {"PATH",    "TOKENS",   "SECRET_NAME",
                                         "API_KEY", "GH_TOKEN", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_non_null(environment_refusal(refused[i], allowed, 1));
    }
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        assert_null(environment_refusal(passed[i], allowed, 1));
    }
    /* Ours are never the user's. */
    char ours_name[] = "TACTUS_BROKER_SOCKET";
    char *ours[] = {ours_name};
    assert_non_null(environment_refusal(ours_name, ours, 1));
    assert_true(environment_name_ok("A_1.x-y"));
    assert_false(environment_name_ok("1A"));
    assert_false(environment_name_ok("A=B"));
    assert_false(environment_name_ok(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_file_faults), cmocka_unit_test(test_flags),
        cmocka_unit_test(test_env_flag),    cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
