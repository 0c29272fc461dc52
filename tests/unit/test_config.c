/*
 * The broker's configuration: defaults, everything set, what the table cannot check, secrets, and
 * the annotated example, which must have every key of the table with its line of documentation.
 */
#include "gate/config.h"

#include "base/conf.h"
#include "base/redact.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXAMPLE "deploy/broker.example.yml"
#define GRANTS  "grants: [{name: g}]\n"
#define MINIMAL "listeners: [{url: /s, grant: g}]\n" GRANTS

static struct config *parse(const char *text)
{
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};

    enum err err = config_parse("b.yml", text, strlen(text), &c, &e);
    if (err != ERR_OK) {
        print_error("%s\n", e.msg);
    }
    assert_int_equal(err, ERR_OK);
    assert_non_null(c);
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

static void check_limits(const struct limits *l)
{
    assert_true(l->max_connections >= 16);
    assert_int_equal(l->max_message_bytes, 100 << 20);
    assert_int_equal(l->max_reply_bytes, 64 << 20);
    assert_int_equal(l->max_buffered_bytes, 1 << 30);
    assert_int_equal(l->max_event_bytes, 1 << 20);
    assert_int_equal(l->max_json_depth, 128);
    assert_int_equal(l->max_inflight_per_connection, 64);
    assert_int_equal(l->max_inflight, 10000);
    assert_int_equal(l->handshake_timeout, 10000);
    assert_int_equal(l->first_byte_timeout, 10000);
    assert_int_equal(l->request_timeout, 30000);
    assert_int_equal(l->idle_timeout, 600000);
    assert_int_equal(l->connect_timeout, 10000);
    assert_int_equal(l->provider_first_byte_timeout, 120000);
    assert_int_equal(l->stall_timeout, 120000);
    assert_int_equal(l->total_timeout, 1800000);
}

static void check_builtin(const struct config *c)
{
    assert_int_equal(c->nproviders, 1);
    assert_string_equal(c->providers[0].name, "builtin");
    assert_string_equal(c->providers[0].type, "builtin");
    assert_null(c->providers[0].base_url);
    assert_int_equal(c->providers[0].keys[0].kind, SECRET_NONE);
}

static void test_minimal(void **state)
{
    (void)state;
    struct config *c = parse(MINIMAL);

    assert_in_range(c->workers, 1, 256);
    assert_int_equal(c->drain_timeout, 30000);
    check_limits(&c->limits);
    check_builtin(c);
    assert_int_equal(c->log_level, LOG_INFO);
    assert_int_equal(c->log_format, LOG_FORMAT_JSON);
    assert_non_null(c->redact);
    assert_int_equal(c->nlisteners, 1);
    assert_int_equal(c->listeners[0].kind, LISTENER_UNIX);
    assert_string_equal(c->listeners[0].url, "/s");
    assert_string_equal(c->listeners[0].path, "/s");
    assert_int_equal(c->listeners[0].mode, 0660);
    assert_true(c->listeners[0].half_close_finish);
    assert_int_equal(c->listeners[0].grant, 0);
    assert_int_equal(c->ngrants, 1);
    assert_string_equal(c->grants[0]->name, "g");
    assert_int_equal(c->grants[0]->nmodels, 0);
    assert_false(grant_allows_model(c->grants[0], "p", "m"));
    config_unref(c);
    config_unref(NULL);
}

static const char EVERYTHING[] =
    "broker: {workers: 256, drain_timeout: 0.5}\n"
    "listeners:\n"
    "- {url: 'unix:///run/b.sock', mode: '0600', half_close: cancel, auth: none, grant: b}\n"
    "- {url: 'tcp://127.0.0.1:0', grant: a}\n"
    "- {url: 'tcp://127.0.0.1:0', half_close: finish, grant: a}\n"
    "- {url: 'tls://[::1]:65535', cert: c.pem, key: k.pem, client_ca: ca.pem, grant: a}\n"
    "- {url: 'tcp://localhost:65535', grant: a}\n"
    "providers:\n"
    "- {name: openai, type: openai, keys: [{env: K}, {env: L}], ca_file: ca, proxy: "
    "'socks5h://p:1'}\n"
    "- {name: local, type: openai, base_url: 'http://127.0.0.1:11434/v1//', keys: [], "
    "stream_usage: false}\n"
    "- {name: f, type: openai, keys: [{file: /k}]}\n"
    "- {name: builtin, type: builtin}\n"
    "- {name: az, type: azure_openai, base_url: 'https://x.openai.azure.com'}\n"
    "- {name: aws, type: bedrock, region: eu-west-1, profile: 'my work'}\n"
    "models: [{name: smart, targets: [openai/gpt-4o, local/meta/llama]}, {name: 'a/b', targets: "
    "[f/x]}]\n"
    "routing: {retries: 3, backoff: 0.1, max_backoff: 1, max_retry_after: 5, key_rest: 2, "
    "breaker_failures: 0, breaker_rest: 1m}\n"
    "grants: [{name: a, models: ['*', 'bu*/x'], tools: [t]}, {name: b}]\n"
    "limits: {max_connections: 5, max_message_bytes: 64KiB, max_json_depth: 1024, "
    "stall_timeout: 0.05, total_timeout: 2m}\n"
    "events: {max_event_bytes: 4096}\n"
    "log: {level: debug, format: text}\n";

#define TYPES "azure_openai, anthropic, gemini, bedrock, builtin"

static void check_listeners(const struct config *c)
{
    assert_int_equal(c->nlisteners, 5);
    const struct listener_config *l = c->listeners;
    assert_string_equal(l[0].url, "unix:///run/b.sock");
    assert_string_equal(l[0].path, "/run/b.sock");
    assert_int_equal(l[0].mode, 0600);
    assert_false(l[0].half_close_finish);
    assert_int_equal(l[0].grant, 1);
    assert_int_equal(l[1].kind, LISTENER_TCP);
    assert_string_equal(l[1].host, "127.0.0.1");
    assert_int_equal(l[1].port, 0);
    assert_null(l[1].path);
    assert_false(l[1].half_close_finish);
    assert_true(l[2].half_close_finish);
    assert_int_equal(l[3].kind, LISTENER_TLS);
    assert_string_equal(l[3].host, "::1");
    assert_int_equal(l[3].port, 65535);
    assert_string_equal(l[3].cert_file, "c.pem");
    assert_string_equal(l[3].key_file, "k.pem");
    assert_string_equal(l[3].client_ca, "ca.pem");
    assert_string_equal(l[4].host, "localhost");
}

static void check_providers(const struct config *c)
{
    assert_int_equal(c->nproviders, 6);
    const struct provider_config *p = c->providers;
    assert_null(p[0].base_url);
    assert_int_equal(p[0].nkeys, 2);
    assert_int_equal(p[0].keys[0].kind, SECRET_ENV);
    assert_string_equal(p[0].keys[0].source, "K");
    assert_null(p[0].keys[0].bytes);
    assert_string_equal(p[0].keys[1].source, "L");
    assert_string_equal(p[0].ca_file, "ca");
    assert_string_equal(p[0].proxy, "socks5h://p:1");
    assert_true(p[0].stream_usage);
    assert_string_equal(p[1].base_url, "http://127.0.0.1:11434/v1");
    assert_int_equal(p[1].nkeys, 0);
    assert_false(p[1].stream_usage);
    assert_int_equal(p[2].keys[0].kind, SECRET_FILE);
    assert_string_equal(p[3].type, "builtin");
    assert_string_equal(p[4].type, "azure_openai");
    assert_string_equal(p[4].api_version, "2024-10-21");
    assert_null(p[4].region);
    assert_string_equal(p[5].type, "bedrock");
    assert_string_equal(p[5].region, "eu-west-1");
    assert_string_equal(p[5].profile, "my work");
    assert_null(p[5].base_url);
}

static void check_models(const struct config *c)
{
    const struct routing_config *r = &c->routing;

    assert_int_equal(c->nmodels, 2);
    assert_string_equal(c->models[0].name, "smart");
    assert_int_equal(c->models[0].ntargets, 2);
    assert_int_equal(c->models[0].targets[0].provider, 0);
    assert_string_equal(c->models[0].targets[0].model, "gpt-4o");
    assert_int_equal(c->models[0].targets[1].provider, 1);
    assert_string_equal(c->models[0].targets[1].model, "meta/llama");
    assert_string_equal(c->models[1].name, "a/b");
    assert_int_equal(r->retries, 3);
    assert_int_equal(r->backoff, 100);
    assert_int_equal(r->max_backoff, 1000);
    assert_int_equal(r->max_retry_after, 5000);
    assert_int_equal(r->key_rest, 2000);
    assert_int_equal(r->breaker_failures, 0);
    assert_int_equal(r->breaker_rest, 60000);
}

static void test_everything(void **state)
{
    (void)state;
    struct config *c = parse(EVERYTHING);

    assert_int_equal(c->workers, 256);
    assert_int_equal(c->drain_timeout, 500);
    check_listeners(c);
    check_providers(c);
    check_models(c);
    assert_true(grant_allows_model(c->grants[0], "p", "m"));
    assert_true(grant_allows_tool(c->grants[0], "t"));
    assert_int_equal(c->limits.max_connections, 5);
    assert_int_equal(c->limits.max_message_bytes, 65536);
    assert_int_equal(c->limits.max_json_depth, 1024);
    assert_int_equal(c->limits.stall_timeout, 50);
    assert_int_equal(c->limits.total_timeout, 120000);
    assert_int_equal(c->limits.max_event_bytes, 4096);
    assert_int_equal(c->log_level, LOG_DEBUG);
    assert_int_equal(c->log_format, LOG_FORMAT_TEXT);
    config_unref(c);
}

static void test_listeners(void **state)
{
    (void)state;

    fails(GRANTS, "b.yml:1:1: listeners: is missing, expected a list of 1 to 256 maps");
    fails("listeners: []\n",
          "b.yml:1:12: listeners: has 0 items, expected a list of 1 to 256 maps");
    fails("listeners: [{url: /s, grant: x}]\n" GRANTS,
          "b.yml:1:30: listeners[0].grant: names no grant, expected one of those in grants");
    fails("listeners: [{url: /s, grant: g}]\n",
          "b.yml:1:30: listeners[0].grant: names no grant, expected one of those in grants");
    fails("listeners: [{url: /s}]\n" GRANTS,
          "b.yml:1:13: listeners[0].grant: is missing, expected the name of a grant (or auth: "
          "required)");
    fails("listeners: [{url: /s, grant: g, auth: required}]\n" GRANTS,
          "b.yml:1:30: listeners[0].grant: is only for auth none: with auth required the client's "
          "own "
          "is taken");
    fails("listeners: [{url: /s, auth: token}]\n" GRANTS,
          "b.yml:1:29: listeners[0].auth: is \"token\", expected one of none, required");
    fails("log: {prompts: true}\nlisteners: [{url: /s, grant: g}]\n" GRANTS,
          "b.yml:1:16: log.prompts: is \"true\", expected one of false");
    fails("listeners: [{url: /s, grant: g, cert: x}]\n" GRANTS,
          "b.yml:1:39: listeners[0].cert: is only for a listener with TLS, expected a url with "
          "tls://");
    fails("listeners: [{url: 'tcp://127.0.0.1:1', grant: g, key: x}]\n" GRANTS,
          "b.yml:1:55: listeners[0].key: is only for a listener with TLS, expected a url with "
          "tls://");
    fails(
        "listeners: [{url: /s, grant: g, client_ca: x}]\n" GRANTS,
        "b.yml:1:44: listeners[0].client_ca: is only for a listener with TLS, expected a url with "
        "tls://");
    fails("listeners: [{url: 'tls://127.0.0.1:1', grant: g, key: x}]\n" GRANTS,
          "b.yml:1:13: listeners[0].cert: is missing, expected a PEM file for the url with tls://");
    fails("listeners: [{url: 'tls://127.0.0.1:1', grant: g, cert: x}]\n" GRANTS,
          "b.yml:1:13: listeners[0].key: is missing, expected a PEM file for the url with tls://");
    fails("listeners: [{url: 'tcp://127.0.0.1:1', grant: g, mode: '0600'}]\n" GRANTS,
          "b.yml:1:56: listeners[0].mode: is only for a Unix socket, expected a url with unix://");
    fails("listeners:\n- {url: /s, grant: g}\n- {url: 'unix:///s', grant: g}\n" GRANTS,
          "b.yml:3:9: listeners[1].url: is where another listener is too, expected a new one");
    fails(
        "listeners:\n- {url: 'tcp://127.0.0.1:1', grant: g}\n- {url: 'tls://127.0.0.1:1', cert: c, "
        "key: k, grant: g}\n" GRANTS,
        "b.yml:3:9: listeners[1].url: is where another listener is too, expected a new one");
}

static const char NO_URL[] = "is no URL of a listener, expected unix:///PATH, /PATH, "
                             "tcp://HOST:PORT or tls://HOST:PORT";
static const char NO_PORT[] = "has no good port, expected HOST:PORT with a port from 0 to 65535";
static const char NO_HOST[] = "has a host that is no address, expected an IPv4 address, an IPv6 "
                              "address in brackets or localhost";
static const char NO_V6[] = "has a host in brackets that is no IPv6 address";

static void test_urls(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"x", NO_URL},
        {"relative/path", NO_URL},
        {"unix://relative", NO_URL},
        {"unix://", NO_URL},
        {"unix:///", NO_URL},
        {"/", NO_URL},
        {"/dir/", NO_URL},
        {"http://127.0.0.1:80", NO_URL},
        {"TCP://127.0.0.1:80", NO_URL},
        {"tcp:127.0.0.1:80", NO_URL},
        {"tcp://", NO_PORT},
        {"tcp://127.0.0.1", NO_PORT},
        {"tcp://127.0.0.1:", NO_PORT},
        {"tcp://127.0.0.1:65536", NO_PORT},
        {"tcp://127.0.0.1:000080", NO_PORT},
        {"tcp://127.0.0.1:80/", NO_PORT},
        {"tcp://127.0.0.1:-1", NO_PORT},
        {"tcp://[::1]", NO_PORT},
        {"tcp://[::1", NO_PORT},
        {"tcp://[::1]x:1", NO_PORT},
        {"tcp://::1:80", NO_PORT},
        {"tcp://:80", NO_HOST},
        {"tcp://example.com:80", NO_HOST},
        {"tcp://127.1:80", NO_HOST},
        {"tcp://[localhost]:80", NO_V6},
        {"tcp://[127.0.0.1]:80", NO_V6},
        {"tcp://[]:80", NO_HOST},
    };
    char text[300];
    char want[400];
    char path[109];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_true(snprintf(text, sizeof(text), "listeners: [{url: '%s', grant: g}]\n" GRANTS,
                             wrong[i][0]) > 0);
        assert_true(snprintf(want, sizeof(want), "b.yml:1:19: listeners[0].url: %s", wrong[i][1]) >
                    0);
        fails(text, want);
    }
    memset(path, 'p', sizeof(path));
    path[0] = '/';
    path[108] = '\0'; /* 108 bytes: one too many */
    assert_true(snprintf(text, sizeof(text), "listeners: [{url: %s, grant: g}]\n" GRANTS, path) >
                0);
    fails(text, "b.yml:1:19: listeners[0].url: has a path that is too long for a Unix socket, "
                "expected at most 107 bytes");
    path[107] = '\0';
    assert_true(snprintf(text, sizeof(text), "listeners: [{url: 'unix://%s', grant: g}]\n" GRANTS,
                         path) > 0);
    struct config *c = parse(text);
    assert_string_equal(c->listeners[0].path, path);
    config_unref(c);
}

static void test_names(void **state)
{
    (void)state;

    fails(MINIMAL "providers:\n- {name: a, type: builtin}\n- {name: a, type: openai}\n",
          "b.yml:5:10: providers[1].name: is the name of another provider too, expected a new one");
    fails("listeners: [{url: /s, grant: g}]\ngrants:\n- name: g\n- name: h\n- name: g\n",
          "b.yml:5:9: grants[2].name: is the name of another grant too, expected a new one");
    fails(MINIMAL "providers: [{name: 'a/b', type: openai}]\n",
          "b.yml:3:20: providers[0].name: has a character that a name cannot have, expected a name "
          "of 1 to 63 of the characters A-Z a-z 0-9 _ . -");
}

static void test_providers(void **state)
{
    (void)state;

    fails(MINIMAL "providers: []\n",
          "b.yml:3:12: providers: has 0 items, expected a list of 1 to 256 maps");
    fails(MINIMAL "providers: [{name: a}]\n",
          "b.yml:3:13: providers[0].type: is missing, expected one of openai, " TYPES);
    fails(MINIMAL "providers: [{name: a, type: palm}]\n",
          "b.yml:3:29: providers[0].type: is \"palm\", expected one of openai, " TYPES);
    fails(MINIMAL "providers: [{name: a, type: azure_openai}]\n",
          "b.yml:3:13: providers[0].base_url: is missing, expected https://NAME.openai.azure.com");
    fails(MINIMAL "providers: [{name: a, type: openai, api_version: v}]\n",
          "b.yml:3:50: providers[0].api_version: is not for type openai, expected it only with "
          "type azure_openai");
    fails(MINIMAL "providers: [{name: a, type: bedrock}]\n",
          "b.yml:3:13: providers[0].region: is missing, expected an AWS region, such as eu-west-1");
    fails(MINIMAL "providers: [{name: a, type: bedrock, region: r, keys: [{env: A}]}]\n",
          "b.yml:3:55: providers[0].keys: is not for type bedrock, expected none: builtin wants "
          "none, and bedrock has AWS's chain of credentials");
    fails(MINIMAL "providers: [{name: a, type: openai, region: r}]\n",
          "b.yml:3:45: providers[0].region: is not for type openai, expected it only with type "
          "bedrock");
    fails(MINIMAL "providers: [{name: a, type: gemini, profile: p}]\n",
          "b.yml:3:46: providers[0].profile: is not for type gemini, expected it only with type "
          "bedrock");
    fails(MINIMAL "models: [{name: m, targets: [openai/x]}]\n",
          "b.yml:3:29: models[0].targets: has \"openai/x\", expected PROVIDER/MODEL of one in "
          "providers");
    fails(MINIMAL "models: [{name: m, targets: [builtin/x]}, {name: m, targets: [builtin/y]}]\n",
          "b.yml:3:50: models[1].name: is the name of another model too, expected a new one");
    fails(MINIMAL "models: [{name: m, targets: []}]\n",
          "b.yml:3:29: models[0].targets: has 0 items, expected a list of 1 to 16 texts");
    fails(MINIMAL "models: [{name: m, targets: ['builtin/']}]\n",
          "b.yml:3:29: models[0].targets: has \"builtin/\", expected PROVIDER/MODEL of one in "
          "providers");
    fails(MINIMAL "providers: [{name: a, type: openai, keys: {env: A}}]\n",
          "b.yml:3:43: providers[0].keys: is a map, expected a list of 0 to 64 secrets");
    fails(MINIMAL "providers: [{name: a, type: openai, keys: [sk-canary]}]\n",
          "b.yml:3:44: providers[0].keys[0]: is a single value, expected { env: NAME }, { file: "
          "PATH }, { credential: NAME } or { command: [PROGRAM] }");
    fails(MINIMAL "providers: [{name: a, type: builtin, base_url: 'http://h'}]\n",
          "b.yml:3:48: providers[0].base_url: is not for type builtin, expected it only with a "
          "type that has a network");
    fails(MINIMAL "providers: [{name: a, type: openai}, {name: b, type: openai, base_url: h}]\n",
          "b.yml:3:72: providers[1].base_url: is no such URL, expected a URL (http://HOST, "
          "https://HOST) without user, query and fragment");
}

static void test_ranges(void **state)
{
    (void)state;

    fails(MINIMAL "broker: {workers: 257}\n",
          "b.yml:3:19: broker.workers: is \"257\", expected a whole number from 0 to 256");
    fails(MINIMAL "limits: {max_json_depth: 0}\n",
          "b.yml:3:26: limits.max_json_depth: is \"0\", expected a whole number from 1 to 1024");
    fails(MINIMAL "limits: {max_json_depth: 1025}\n",
          "b.yml:3:26: limits.max_json_depth: is \"1025\", expected a whole number from 1 to 1024");
    fails(
        MINIMAL "limits: {idle_timeout: 0}\n",
        "b.yml:3:24: limits.idle_timeout: is \"0\", expected a time from 0.001 to 604800 seconds, "
        "such as 30, 0.5 or 10m");
    fails(MINIMAL "events: {max_event_bytes: 65MiB}\n",
          "b.yml:3:27: events.max_event_bytes: is \"65MiB\", expected a size from 64 to 67108864 "
          "bytes, such as 4096 or 64KiB");
    fails(MINIMAL "log: {level: trace}\n",
          "b.yml:3:14: log.level: is \"trace\", expected one of error, warn, info, debug");
    fails(MINIMAL "colours: {}\n",
          "b.yml:3:1: colours: is an unknown key, expected one of broker, listeners, admin, "
          "providers, models, routing, grants, prices, usage, limits, events, log");
}

static void test_connections_follow_the_descriptor_limit(void **state)
{
    (void)state;
    static const rlim_t soft[] = {64, 231, 232, 1000};
    static const uint64_t want[] = {16, 16, 16, 400};
    struct rlimit saved;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
    for (size_t i = 0; i < 4; i++) {
        struct rlimit limit = {soft[i], saved.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        struct config *c = parse(MINIMAL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
        assert_int_equal(c->limits.max_connections, want[i]);
        config_unref(c);
    }
}

static void test_read(void **state)
{
    (void)state;
    char path[] = "/tmp/test_config.XXXXXX";
    char want[128];
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, MINIMAL "x: 1", sizeof(MINIMAL) - 1), sizeof(MINIMAL) - 1);
    assert_int_equal(config_read(path, &c, &e), ERR_OK);
    config_unref(c);
    assert_int_equal(write(fd, "x: 1", 4), 4);
    c = NULL;
    assert_int_equal(config_read(path, &c, &e), ERR_CONFIG);
    assert_null(c);
    assert_true(snprintf(want, sizeof(want), "%s:3:1: x: is an unknown key", path) > 0);
    assert_memory_equal(e.msg, want, strlen(want));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(config_read(path, &c, &e), ERR_CONFIG);
    assert_null(c);
}

static void add_fails(struct config *c, const char *url, const char *cert, const char *key,
                      const char *want)
{
    struct error e = {.code = ERR_OK};
    size_t n = c->nlisteners;

    assert_int_equal(config_add_listener(c, url, cert, key, &e), ERR_CONFIG);
    assert_int_equal(c->nlisteners, n);
    assert_non_null(strstr(e.msg, want));
}

static void test_dev(void **state)
{
    (void)state;
    struct config *c = NULL;

    assert_int_equal(config_dev(&c, NULL), ERR_OK);
    check_limits(&c->limits);
    check_builtin(c);
    assert_int_equal(c->nlisteners, 0);
    assert_int_equal(c->ngrants, 1);
    assert_string_equal(c->grants[0]->name, "dev");
    assert_true(grant_allows_model(c->grants[0], "any", "model"));
    assert_true(grant_allows_tool(c->grants[0], "any.tool"));
    assert_int_equal(config_add_listener(c, "unix:///tmp/x", NULL, NULL, NULL), ERR_OK);
    assert_int_equal(config_add_listener(c, "tcp://127.0.0.1:0", NULL, NULL, NULL), ERR_OK);
    assert_int_equal(config_add_listener(c, "tcp://127.0.0.1:0", NULL, NULL, NULL), ERR_OK);
    assert_int_equal(config_add_listener(c, "tls://127.0.0.1:1", "c", "k", NULL), ERR_OK);
    assert_int_equal(c->nlisteners, 4);
    assert_true(c->listeners[0].half_close_finish);
    assert_int_equal(c->listeners[0].mode, 0660);
    assert_false(c->listeners[1].half_close_finish);
    assert_string_equal(c->listeners[3].cert_file, "c");
    assert_string_equal(c->listeners[3].key_file, "k");
    assert_int_equal(c->listeners[3].grant, 0);
    add_fails(c, "/tmp/x", NULL, NULL, "another listener");
    add_fails(c, "ftp://x", NULL, NULL, "no URL of a listener");
    add_fails(c, "tls://127.0.0.1:2", NULL, NULL, "needs a certificate");
    add_fails(c, "tls://127.0.0.1:2", "c", NULL, "needs a certificate");
    add_fails(c, "/tmp/y", "c", "k", "tls://");
    add_fails(c, "/tmp/y", "c", NULL, "tls://");
    config_unref(c);
}

/* ---- secrets ---- */

static void scrubbed(const struct config *c, const char *text, bool gone)
{
    struct buf out;

    buf_init(&out, 4096);
    redact_text(c->redact, span_str(text), false, &out);
    assert_int_equal(strcmp(buf_cstr(&out), text) != 0, gone);
    buf_fini(&out);
}

#define TWO_KEYS                                                                                   \
    MINIMAL "providers:\n- {name: a, type: openai, keys: [{env: T_KEY_A}]}\n"                      \
            "- {name: b, type: openai, keys: [{env: T_KEY_B}]}\n- {name: c, type: openai}\n"

static void test_load_secrets(void **state)
{
    (void)state;
    struct error e = {.code = ERR_OK};
    struct config *c = parse(TWO_KEYS);

    assert_int_equal(setenv("T_KEY_A", "canary-key-one", 1), 0);
    assert_int_equal(unsetenv("T_KEY_B"), 0);
    assert_int_equal(config_load_secrets(c, false, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "provider b: secret from variable T_KEY_B is not set");
    assert_int_equal(config_load_secrets(c, true, &e), ERR_OK);
    assert_string_equal(c->providers[0].keys[0].bytes, "canary-key-one");
    assert_int_equal(c->providers[1].keys[0].kind,
                     SECRET_ENV); /* keyless, but not a local server */
    assert_null(c->providers[1].keys[0].bytes);
    assert_null(c->providers[2].keys[0].bytes);
    scrubbed(c, "x canary-key-one", true);
    scrubbed(c, "Y2FuYXJ5LWtleS1vbmU", true);
    assert_int_equal(setenv("T_KEY_B", "abc", 1), 0); /* too short to be matched: a warning */
    assert_int_equal(config_load_secrets(c, false, &e), ERR_OK);
    assert_string_equal(c->providers[1].keys[0].bytes, "abc");
    scrubbed(c, "abc", false);
    config_unref(c);
}

/* ---- no memory ---- */

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] =
        "listeners:\n- {url: 'tls://[::1]:1', cert: c, key: k, client_ca: ca, grant: g}\n"
        "- {url: /s, grant: g}\nproviders:\n- {name: a, type: openai, keys: [{env: T_KEY_A}], "
        "proxy: 'http://p'}\n- {name: b, type: builtin}\ngrants: [{name: g, models: [a/m], tools: "
        "[b]}]\n";
    struct config *c = NULL;
    enum err err = ERR_NOMEM;
    size_t n = 0;

    while (err != ERR_OK) {
        torture_fail_after(n++);
        err = config_parse("b.yml", text, sizeof(text) - 1, &c, NULL);
        torture_off();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && c == NULL));
    }
    assert_true(n > 30);
    assert_int_equal(setenv("T_KEY_A", "canary-key-one", 1), 0);
    for (n = 0, err = ERR_NOMEM; err != ERR_OK; n++) {
        torture_fail_after(n);
        err = config_load_secrets(c, true, NULL);
        torture_off();
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    for (n = 0, err = ERR_NOMEM; err != ERR_OK; n++) {
        torture_fail_after(n);
        err = config_add_listener(c, "tls://127.0.0.1:3", "c", "k", NULL);
        torture_off();
        assert_int_equal(c->nlisteners, err == ERR_OK ? 3 : 2);
    }
    assert_true(n > 3);
    config_unref(c);
    for (n = 0, c = NULL, err = ERR_NOMEM; err != ERR_OK; n++) {
        torture_fail_after(n);
        err = config_dev(&c, NULL);
        torture_off();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && c == NULL));
    }
    assert_true(n > 8);
    config_unref(c);
}

/* ---- the example ---- */

static void test_example_loads(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct error e = {.code = ERR_OK};

    enum err err = config_read(EXAMPLE, &c, &e);
    if (err != ERR_OK) {
        print_error("%s\n", e.msg);
    }
    assert_int_equal(err, ERR_OK);
    check_limits(&c->limits); /* every limit of it is the default */
    config_unref(c);
}

/* Does the line at `p`, without blanks and a list's dash, start with `start`? */
static bool line_starts(const char *p, const char *start)
{
    p += strspn(p, " ");
    if (strncmp(p, "- ", 2) == 0 && start[0] != '-') {
        p += 2;
    }
    return strncmp(p, start, strlen(start)) == 0;
}

/* True when `text` has "# DOC Default: X." followed, at once, by "KEY:". */
static bool documents(const char *text, const struct conf_key *k)
{
    char line[256];
    char key[64];

    assert_true(snprintf(line, sizeof(line), "# %s%s%s%s\n", k->doc,
                         k->fallback != NULL ? " Default: " : "",
                         k->fallback != NULL ? k->fallback : "",
                         k->fallback != NULL ? "." : "") > 0);
    assert_true(snprintf(key, sizeof(key), "%s:", k->name) > 0);
    for (const char *p = strstr(text, line); p != NULL; p = strstr(p + 1, line)) {
        if (line_starts(p + strlen(line), key)) {
            return true;
        }
    }
    return false;
}

static size_t check_documented(const char *text, const struct conf_map *map)
{
    size_t n = 0;

    for (size_t i = 0; i < map->nkeys; i++) {
        const struct conf_key *k = &map->keys[i];
        assert_non_null(k->doc);
        if (!documents(text, k)) {
            print_error(EXAMPLE " lacks %s, or its line: %s\n", k->name, k->doc);
        }
        assert_true(documents(text, k));
        n += 1 + (k->map != NULL ? check_documented(text, k->map) : 0);
    }
    return n;
}

static void test_example_has_every_key(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;

    assert_int_equal(conf_load(EXAMPLE, &text, &n, NULL), ERR_OK);
    char *z = realloc(text, n + 1);
    assert_non_null(z);
    z[n] = '\0';
    assert_int_equal(check_documented(z, config_keys()), 79);
    free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minimal),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_listeners),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_providers),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_connections_follow_the_descriptor_limit),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_dev),
        cmocka_unit_test(test_load_secrets),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_example_loads),
        cmocka_unit_test(test_example_has_every_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
