/* spec/settings: files, flags, what does not fit together; quantities. */
#include "spec/settings.h"

#include "fixtures/torture.h"
#include "spec/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static enum err parse(struct settings *s, const char *text, struct error *e)
{
    return settings_parse(s, "x.tac.yml", text, strlen(text), e);
}

/* After settings_check. */
static void assert_defaults(const struct settings *p)
{
    struct settings s = *p;

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
    assert_false(s.writable_root);
    assert_null(s.build_context);
    assert_string_equal(s.build_file, "Dockerfile");
    assert_null(s.cert_file);
    assert_null(s.key_file);
    assert_null(s.user);
    assert_null(s.working_dir);
    assert_null(s.callback_url);
    assert_int_equal(s.nmodels, 1);
    assert_string_equal(s.models[0], "*");
    assert_int_equal(s.ntools, 1);
    assert_string_equal(s.tools[0], "*");
    assert_false(s.models_named);
    assert_false(s.tools_named);
}

static void test_defaults(void **state)
{
    struct settings s;

    (void)state;
    assert_int_equal(setenv("HOME", "/home/ada", 1), 0);
    assert_int_equal(settings_init(&s, NULL), ERR_OK);
    assert_int_equal(settings_check(&s, NULL), ERR_OK);
    assert_defaults(&s);
    assert_int_equal(s.nenv, 0);
    assert_int_equal(s.nvolumes, 0);
    assert_int_equal(s.nallow_env, 0);
    settings_fini(&s);
    assert_null(s.image);
    settings_fini(&s); /* twice is harmless */
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
        {"sandbox:\n  env:\n    1A: hidden\n",
         "x.tac.yml:3:9: sandbox.env.1A: cannot be used, expected a name"},
        {"sandbox: { env: { A=B: 1 } }\n", "sandbox.env.A=B: cannot be used"},
        {"sandbox: { models: ~ }\n", "sandbox.models: has no value, expected a list"},
        {"sandbox: { tools: ~ }\n", "sandbox.tools: has no value, expected a list"},
        {"sandbox: { limits: { cpus: 0.009 } }\n", "sandbox.limits.cpus: cannot be used"},
        {"sandbox: { broker_port: 70000 }\n", "expected a port from 0 to 65535"},
        {"sandbox: { enabled: perhaps }\n", "expected auto, true or false"},
        {"sandbox: { dev_mode: 1 }\n", "expected true or false"},
        {"sandbox: { volumes: [ '' ] }\n", "sandbox.volumes[0]: is empty, expected a text"},
        {"sandbox: { image: &i a }\n", "yaml: an anchor"},
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
        assert_null(strstr(e.msg, "hidden"));
        settings_fini(&s);
    }
}

/* A null in a file is the default again; of lists and maps it is nothing. */
static void test_null(void **state)
{
    static const char before[] =
        "sandbox:\n  enabled: true\n  image: a\n  build_context: b\n  build_file: c\n"
        "  mcp_servers_path: /m\n  mount_current_dir: false\n  network: bridge\n"
        "  broker_transport: tls\n  broker_host: h\n  broker_bind_host: 10.0.0.1\n"
        "  broker_port: 99\n  broker_tls_cert_file: c\n  broker_tls_key_file: k\n"
        "  limits: { memory: 1g, cpus: 1, pids: 9 }\n  timeout: 9\n  dev_mode: true\n"
        "  user: '7'\n  writable_root: true\n  env: { A: 1 }\n  volumes: [ /v ]\n";
    static const char nulls[] =
        "sandbox:\n  enabled: null\n  image: ~\n  build_context:\n  build_file:\n"
        "  mcp_servers_path:\n  mount_current_dir:\n  network:\n  broker_transport:\n"
        "  broker_host:\n  broker_bind_host:\n  broker_port:\n  broker_tls_cert_file:\n"
        "  broker_tls_key_file:\n  limits: { memory: ~, cpus: ~, pids: ~ }\n  timeout:\n"
        "  dev_mode:\n  user:\n  writable_root:\n  env:\n  volumes:\n  build_sources:\n";
    static const char *const nothing[] = {"sandbox:\n", "sandbox: {}\n", "", "a: &a 1\nb: *a\n",
                                          "sandbox: { limits: ~ }\n"};
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    assert_int_equal(parse(&s, before, &e), ERR_OK);
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        assert_int_equal(parse(&s, nothing[i], &e), ERR_OK);
    }
    assert_int_equal(s.enabled, SANDBOX_REQUIRED);
    assert_int_equal(s.pids, 9);
    assert_string_equal(s.user, "7");
    assert_int_equal(parse(&s, nulls, &e), ERR_OK);
    assert_int_equal(settings_check(&s, &e), ERR_OK);
    assert_defaults(&s);
    assert_int_equal(s.nenv, 1);
    assert_int_equal(s.nvolumes, 1);
    settings_fini(&s);
}

/* A sidecar is the procedure's: anchors, tags and depth in its part are not ours to judge. */
static void test_sidecar_of_others(void **state)
{
    static const char text[] = "defaults: &d { model: x, deep: [[[[[[[[[[[[[ 1 ]]]]]]]]]]]]] }\n"
                               "stage:\n  <<: *d\n  file: !include y.yml\n"
                               "sandbox: { image: ours }\n";
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    assert_int_equal(parse(&s, text, &e), ERR_OK);
    assert_string_equal(s.image, "ours");
    settings_fini(&s);
}

static void test_files(void **state)
{
    char path[] = "/tmp/tactus-settings-XXXXXX";
    int fd = mkstemp(path);
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "sandbox: { timeout: 7 }\n", 24), 24);
    close(fd);
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    assert_int_equal(settings_read(&s, path, false, &e), ERR_OK);
    assert_int_equal(s.timeout_ms, 7000);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(settings_read(&s, path, true, &e), ERR_OK);
    assert_int_equal(settings_read(&s, path, false, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(settings_read(&s, "/tmp", true, &e), ERR_CONFIG); /* there, and no file */
    settings_fini(&s);
}

static const struct {
    const char *name;
    const char *value;
    enum err rc;
} flag_rows[] = {
    {"memory", "6m", ERR_OK},
    {"memory", "5m", ERR_CONFIG},
    {"memory", "0", ERR_OK},
    {"memory", "", ERR_CONFIG},
    {"memory", "1024t", ERR_OK},
    {"memory", "1025t", ERR_CONFIG},
    {"memory", "18446744073709551615", ERR_CONFIG},
    {"memory", "-1g", ERR_CONFIG},
    {"cpus", "0.25", ERR_OK},
    {"cpus", "two", ERR_CONFIG},
    {"cpus", "0.01", ERR_OK},
    {"cpus", "0.009999999", ERR_CONFIG},
    {"cpus", "0", ERR_OK},
    {"cpus", "1e3", ERR_CONFIG},
    {"cpus", "+1", ERR_CONFIG},
    {"cpus", "0.1234567891", ERR_CONFIG},
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
    {"env", "A=\xff", ERR_CONFIG},
    {"env", "A=\xc3\xa9", ERR_OK},
    {"image", "", ERR_CONFIG},
    {"writable-root", "true", ERR_OK},
    {"dev", "maybe", ERR_CONFIG},
    {"nonsense", "x", ERR_CONFIG},
    {"enabled", "false", ERR_OK},
    {"enabled", "auto", ERR_OK},
    {"enabled", "perhaps", ERR_CONFIG},
};

static void test_flags(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(flag_rows) / sizeof(flag_rows[0]); i++) {
        struct settings s;
        struct error e = {0};
        assert_int_equal(settings_init(&s, &e), ERR_OK);
        enum err rc = settings_flag(&s, flag_rows[i].name, flag_rows[i].value, &e);
        if (rc != flag_rows[i].rc) {
            print_error("--%s %s: %d %s\n", flag_rows[i].name, flag_rows[i].value, (int)rc, e.msg);
        }
        assert_int_equal(rc, flag_rows[i].rc);
        assert_true(rc == ERR_OK || strstr(e.msg, flag_rows[i].name) != NULL);
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
        rc = rc == ERR_OK ? settings_flag(&s, "env", "A=2", &e) : rc;
        rc = rc == ERR_OK ? settings_flag(&s, "allow-env", "A", &e) : rc;
        rc = rc == ERR_OK ? settings_flag(&s, "user", "1:1", &e) : rc;
        rc = rc == ERR_OK ? settings_check(&s, &e) : rc;
        bool over = torture_count() < n;
        torture_off();
        assert_int_equal(rc, over ? ERR_OK : ERR_NOMEM);
        settings_fini(&s);
        if (over) {
            return;
        }
    }
    fail_msg("it never came to its end");
}

/* A thousand of each and no more; what a variable is last, it is. */
static void test_adding_up(void **state)
{
    static const char *const flags[] = {"env", "volume", "allow-env", "model", "tool"};
    char value[32];
    struct settings s;
    struct error e = {0};

    (void)state;
    assert_int_equal(settings_init(&s, &e), ERR_OK);
    for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++) {
        for (int i = 0; i < 1000; i++) {
            snprintf(value, sizeof(value), "%s%d%s", k == 0 ? "V" : "/V", i, k == 0 ? "=x" : "");
            assert_int_equal(settings_flag(&s, flags[k], value, &e), ERR_OK);
        }
        assert_int_equal(settings_flag(&s, flags[k], "one=more", &e), ERR_CONFIG);
        assert_non_null(strstr(e.msg, "expected fewer of them"));
    }
    assert_int_equal(settings_flag(&s, "env", "V999=again", &e), ERR_OK);
    assert_int_equal(s.nenv, 1000);
    assert_string_equal(s.env[999].value, "again");
    assert_int_equal(s.nvolumes, 1000);
    assert_int_equal(s.nallow_env, 1000);
    assert_int_equal(s.nmodels, 1000); /* the first took the place of * */
    assert_string_equal(s.models[0], "/V0");
    settings_fini(&s);
}

/* A sidecar cut anywhere is read or refused with its name, and never half taken for whole. */
static void test_cut_anywhere(void **state)
{
    static const char text[] = "x: &x [ 1 ]\nsandbox:\n  image: a:b\n  env: { A: \"1\\n\" }\n"
                               "  volumes: [ a:/b ]\n  limits: { memory: 1g, cpus: 1.5 }\ny: *x\n";

    (void)state;
    for (size_t n = 0; n <= sizeof(text) - 1; n++) {
        char *part = malloc(n + 1); /* of this very size, for the address sanitizer */
        struct settings s;
        struct error e = {0};
        assert_non_null(part);
        memcpy(part, text, n);
        assert_int_equal(settings_init(&s, &e), ERR_OK);
        enum err rc = settings_parse(&s, "cut.yml", part, n, &e);
        assert_true(rc == ERR_OK || rc == ERR_CONFIG);
        assert_true(rc == ERR_OK || strncmp(e.msg, "cut.yml:", 8) == 0);
        settings_fini(&s);
        free(part);
    }
}

/* ---- quantities ---- */

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
        {"16777215t", UINT64_C(16777215) << 40, true},
        {"16777216t", 0, false},
        {"2147483648k", UINT64_C(2147483648) << 10, true},
        {"1073741824b", UINT64_C(1) << 30, true},
        {"0.1k", 102, true},
        {"1.9b", 1, true},
        {"00512m", UINT64_C(1) << 29, true},
        {"-1", 0, false},
        {"+1", 0, false},
        {" 1", 0, false},
        {"0x10", 0, false},
        {"1e3", 0, false},
        {"1p", 0, false},
        {"1k.", 0, false},
        {"1..5g", 0, false},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),     cmocka_unit_test(test_order),
        cmocka_unit_test(test_file_faults),  cmocka_unit_test(test_flags),
        cmocka_unit_test(test_env_flag),     cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_null),         cmocka_unit_test(test_sidecar_of_others),
        cmocka_unit_test(test_files),        cmocka_unit_test(test_adding_up),
        cmocka_unit_test(test_cut_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
