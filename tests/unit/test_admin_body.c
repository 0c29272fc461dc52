/*
 * Bodies of admin calls: everything that a grant can say, every fault with its status and a message
 * that names the key, hashes of secrets, and memory that is out.
 */
#include "http/admin_body.h"

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

#define UNIX "\"listener\":{\"transport\":\"unix\"}"

static struct arena arena;
static struct admin_grant grant;
static struct admin_fault fault;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, ADMIN_BODY_ARENA);
    fault = (struct admin_fault){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void good(const char *json)
{
    bool ok = admin_body_grant(span_str(json), &arena, &grant, &fault);

    if (!ok) {
        print_error("%s: %s\n", json, fault.message);
    }
    assert_true(ok);
}

static void refused(bool ok, int status, const char *message)
{
    assert_false(ok);
    assert_string_equal(fault.message, message);
    assert_int_equal(fault.status, status);
    assert_string_equal(fault.type, status == 400 ? "BadRequest" : "Unprocessable");
}

static void bad(const char *json, const char *message)
{
    refused(admin_body_grant(span_str(json), &arena, &grant, &fault), 400, message);
}

/* A fault of a listener's key. */
static void bad_listener(const char *members, const char *message)
{
    char json[1024];

    (void)snprintf(json, sizeof(json), "{\"listener\":{%s}}", members);
    bad(json, message);
}

static void test_smallest(void **state)
{
    (void)state;
    good("{" UNIX "}");
    assert_null(grant.run);
    assert_null(grant.name);
    assert_int_equal(grant.ttl_ms, 0);
    assert_int_equal(grant.models.n, 0);
    assert_int_equal(grant.tools.n, 0);
    assert_int_equal(grant.listener.kind, LISTENER_UNIX);
    assert_null(grant.listener.path);
    assert_false(grant.listener.allow_from.given);
    assert_false(grant.listener.relay);
}

static void test_everything(void **state)
{
    (void)state;
    good("{\"run\":\"r\\u00e9\",\"name\":\"n\",\"ttl\":1.5,\"models\":[\"a/*\",\"b/*\"],"
         "\"tools\":[],\"listener\":{\"transport\":\"tls\",\"bind\":\"::1\",\"port\":65535,"
         "\"allow_from\":[\"10.0.0.0/8\",\"::1\"],\"relay\":true,\"cert_file\":\"/c\","
         "\"key_file\":\"/k\",\"ca_file\":\"/a\"}}");
    assert_string_equal(grant.run, "r\xc3\xa9");
    assert_string_equal(grant.name, "n");
    assert_int_equal(grant.ttl_ms, 1500);
    assert_int_equal(grant.models.n, 2);
    assert_string_equal(grant.models.items[0], "a/*");
    assert_string_equal(grant.models.items[1], "b/*");
    assert_int_equal(grant.tools.n, 0);
    const struct admin_listener *l = &grant.listener;
    assert_int_equal(l->kind, LISTENER_TLS);
    assert_string_equal(l->bind, "::1");
    assert_int_equal(l->port, 65535);
    assert_true(l->allow_from.given);
    assert_int_equal(l->allow_from.n, 2);
    assert_string_equal(l->allow_from.items[1].text, "::1");
    assert_true(l->relay);
    assert_string_equal(l->cert_file, "/c");
    assert_string_equal(l->key_file, "/k");
    assert_string_equal(l->ca_file, "/a");
    good("{\"listener\":{\"transport\":\"unix\",\"path\":\"/x/y.sock\",\"relay\":false}}");
    assert_string_equal(grant.listener.path, "/x/y.sock");
    good("{\"ttl\":86400,\"listener\":{\"transport\":\"tcp\",\"allow_from\":[]}}");
    assert_int_equal(grant.ttl_ms, 86400000);
    assert_int_equal(grant.listener.kind, LISTENER_TCP);
    assert_true(grant.listener.allow_from.given); /* and nobody is in it */
    assert_int_equal(grant.listener.allow_from.n, 0);
}

static void test_null_is_absent(void **state)
{
    (void)state;
    good("{\"run\":null,\"ttl\":null,\"models\":null,\"rpm\":null,\"listener\":{\"transport\":"
         "\"unix\",\"bind\":null,\"allow_from\":null}}");
    assert_null(grant.run);
    assert_false(grant.listener.allow_from.given);
    assert_int_equal(grant.limits.rpm, 0);
    good("{\"listener\":null}");
    assert_false(grant.has_listener);
}

static void test_no_object(void **state)
{
    (void)state;
    static const char *const none[] = {"", "x", "[]", "1", "{", "{\"a\":}", "{" UNIX "} x"};
    static const char begin[] = "the body is no valid JSON object: ";

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_false(admin_body_grant(span_str(none[i]), &arena, &grant, &fault));
        assert_int_equal(fault.status, 400);
        assert_memory_equal(fault.message, begin, sizeof(begin) - 1);
    }
    assert_false(admin_body_grant(SPAN("{" UNIX "," UNIX "}"), &arena, &grant, &fault));
    assert_int_equal(fault.status, 400);
    assert_memory_equal(fault.message, begin, sizeof(begin) - 1);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    static const char json[] = "{\"run\":\"r\",\"models\":[\"*\"]," UNIX "}";

    for (size_t n = 0; n < sizeof(json) - 1; n++) {
        assert_false(admin_body_grant(span_of(json, n), &arena, &grant, &fault));
        assert_int_equal(fault.status, 400);
    }
}

static void test_keys(void **state)
{
    (void)state;
    static const char *const later[] = {"mcp", "callback_url"};
    char json[256];
    char message[128];

    bad("{" UNIX ",\"modles\":[]}", "unknown key: modles");
    bad("{" UNIX ",\"token\":\"x\"}", "unknown key: token");
    bad("{\"listener\":{\"transport\":\"unix\",\"mode\":1}}", "unknown key: listener.mode");
    good("{}");
    assert_false(grant.has_listener);
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        (void)snprintf(json, sizeof(json), "{\"%s\":1," UNIX "}", later[i]);
        (void)snprintf(message, sizeof(message), "%s is not supported yet", later[i]);
        refused(admin_body_grant(span_str(json), &arena, &grant, &fault), 422, message);
    }
}

static void test_limits(void **state)
{
    (void)state;
    static const char count[] = " must be a whole number from 1 to ";
    static const char dollars[] =
        "budget_usd must be a number from 0 to 1000000 with at most nine digits behind the point";
    char message[128];

    good("{" UNIX "}");
    assert_true(grant.has_listener);
    assert_int_equal(grant.limits.rpm + grant.limits.tpm + grant.limits.max_inflight, 0);
    assert_true(grant.limits.budget_nano == METER_NO_BUDGET);
    assert_true(grant.limits.budget_tokens == METER_NO_BUDGET);
    good("{\"rpm\":1,\"tpm\":1000000000,\"max_inflight\":7,\"budget_usd\":0.10,\"budget_tokens\":"
         "0}");
    assert_int_equal(grant.limits.rpm, 1);
    assert_int_equal(grant.limits.tpm, 1000000000);
    assert_int_equal(grant.limits.max_inflight, 7);
    assert_int_equal(grant.limits.budget_nano, 100000000);
    assert_int_equal(grant.limits.budget_tokens, 0);
    good("{\"budget_usd\":1000000}");
    assert_int_equal(grant.limits.budget_nano, UINT64_C(1000000000000000));
    static const char *const none[] = {"0", "-1", "1.5", "\"1\"", "true", "10000001"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"rpm\":%s}", none[i]);
        (void)snprintf(message, sizeof(message), "rpm%s10000000", count);
        bad(json, message);
    }
    bad("{\"budget_tokens\":-1}", "budget_tokens must be a whole number from 0 to 1000000000000");
    static const char *const money[] = {"-1", "1e3", "\"1\"", "1000000.1", "1.0000000001", "[]"};
    for (size_t i = 0; i < sizeof(money) / sizeof(money[0]); i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"budget_usd\":%s}", money[i]);
        bad(json, dollars);
    }
}

static void test_types(void **state)
{
    (void)state;
    static const char seconds[] = "ttl must be a number of seconds from 0.001 to 86400";
    static const char list[] = "models must be a list of at most 1024 texts of 1 to 512 bytes";

    bad("{\"run\":1}", "run must be a text of 1 to 128 bytes");
    bad("{\"run\":\"\"}", "run must be a text of 1 to 128 bytes");
    bad("{\"run\":\"a\\nb\"}", "run must be a text of 1 to 128 bytes");
    bad("{\"run\":\"a\\u0000b\"}", "run must be a text of 1 to 128 bytes");
    bad("{\"name\":[]}", "name must be a text of 1 to 128 bytes");
    bad("{\"ttl\":\"60\"}", seconds);
    bad("{\"ttl\":0}", seconds);
    bad("{\"ttl\":-1}", seconds);
    bad("{\"ttl\":86400.001}", seconds);
    bad("{\"ttl\":1e999}", seconds);
    bad("{\"ttl\":true}", seconds);
    bad("{\"models\":\"*\"}", list);
    bad("{\"models\":{}}", list);
    bad("{\"models\":[1]}", list);
    bad("{\"models\":[\"*\",null]}", list);
    bad("{\"models\":[\"\"]}", list);
    bad("{\"tools\":1}", "tools must be a list of at most 1024 texts of 1 to 512 bytes");
    bad("{\"listener\":\"unix\"}", "listener must be an object");
    bad("{\"listener\":[]}", "listener must be an object");
}

/* C0, DEL, C1 (as bytes and as escapes), lone surrogates and bytes that are no UTF-8; neighbours of
 * each pass. */
static void test_names_cannot_steer_a_terminal(void **state)
{
    (void)state;
    static const char *const bad_texts[] = {
        "\\u001b[2J", "\x7f", "\\u007f", "\xc2\x80", "\xc2\x9b[2J",  "a\xc2\x9f", "a\\u0080b",
        "\\u009f",    "\xff", "a\xc3",   "\xc0\x9b", "\xed\xa0\x80", "\\ud800b",  "\xe2\x82",
    };
    static const char *const good_texts[] = {
        " ", "~", "\xc2\xa0", "\xc3\x9b", "\xe2\x82\x9b", "\xf0\x9f\x8e\x89", "\\u00a0",
    };
    static const char *const starts[] = {"{" UNIX ",\"run\":\"", "{" UNIX ",\"name\":\"",
                                         "{" UNIX ",\"models\":[\""};
    static const char *const ends[] = {"\"}", "\"}", "\"]}"};
    char json[128];

    for (size_t f = 0; f < sizeof(starts) / sizeof(starts[0]); f++) {
        for (size_t i = 0; i < sizeof(bad_texts) / sizeof(bad_texts[0]); i++) {
            (void)snprintf(json, sizeof(json), "%s%s%s", starts[f], bad_texts[i], ends[f]);
            assert_false(admin_body_grant(span_str(json), &arena, &grant, &fault));
            assert_int_equal(fault.status, 400);
        }
        for (size_t i = 0; i < sizeof(good_texts) / sizeof(good_texts[0]); i++) {
            (void)snprintf(json, sizeof(json), "%s%s%s", starts[f], good_texts[i], ends[f]);
            good(json);
        }
    }
    bad("{\"run\":\"a\xc2\x9b\"}", "run must be a text of 1 to 128 bytes");
}

static void test_lengths(void **state)
{
    (void)state;
    struct buf b;

    for (size_t n = 1023; n <= 1025; n++) {
        buf_init(&b, 1 << 20);
        buf_put_str(&b, "{" UNIX ",\"tools\":[");
        for (size_t i = 0; i < n; i++) {
            buf_put_str(&b, i > 0 ? ",\"t\"" : "\"t\"");
        }
        buf_put_str(&b, "]}");
        assert_int_equal(buf_status(&b), ERR_OK);
        bool ok = admin_body_grant(buf_span(&b), &arena, &grant, &fault);
        assert_int_equal(ok, n <= 1024);
        assert_true(!ok || grant.tools.n == n);
        buf_fini(&b);
    }
    for (size_t n = 127; n <= 129; n++) {
        char json[256];
        char run[130];
        memset(run, 'r', n);
        run[n] = '\0';
        (void)snprintf(json, sizeof(json), "{" UNIX ",\"run\":\"%s\"}", run);
        assert_int_equal(admin_body_grant(span_str(json), &arena, &grant, &fault), n <= 128);
    }
}

static void test_listener_values(void **state)
{
    (void)state;
    static const char transport[] = "listener.transport must be \"unix\", \"tcp\" or \"tls\"";
    static const char address[] = "listener.bind must be a literal IPv4 or IPv6 address";
    static const char port[] = "listener.port must be a whole number from 0 to 65535";
    static const char from[] =
        "listener.allow_from must be a list of at most 1024 addresses or networks like 10.0.0.0/8";

    bad_listener("", "listener.transport is required: \"unix\", \"tcp\" or \"tls\"");
    bad_listener("\"transport\":\"udp\"", transport);
    bad_listener("\"transport\":1", transport);
    bad_listener("\"transport\":\"tcp\",\"bind\":\"localhost\"", address);
    bad_listener("\"transport\":\"tcp\",\"bind\":\"host.example\"", address);
    bad_listener("\"transport\":\"tcp\",\"bind\":\"[::1]\"", address);
    bad_listener("\"transport\":\"tcp\",\"bind\":1",
                 "listener.bind must be a text of 1 to 64 bytes");
    bad_listener("\"transport\":\"tcp\",\"port\":65536", port);
    bad_listener("\"transport\":\"tcp\",\"port\":-1", port);
    bad_listener("\"transport\":\"tcp\",\"port\":1.0", port);
    bad_listener("\"transport\":\"tcp\",\"port\":\"1\"", port);
    bad_listener("\"transport\":\"tcp\",\"allow_from\":\"10.0.0.0/8\"", from);
    bad_listener("\"transport\":\"tcp\",\"allow_from\":[\"10.0.0.0/33\"]", from);
    bad_listener("\"transport\":\"tcp\",\"allow_from\":[1]", from);
    bad_listener("\"transport\":\"unix\",\"relay\":1", "listener.relay must be true or false");
    bad_listener("\"transport\":\"unix\",\"path\":\"x.sock\"",
                 "listener.path must be a full path of 1 to 107 bytes");
    bad_listener("\"transport\":\"unix\",\"path\":\"/\"",
                 "listener.path must be a full path of 1 to 107 bytes");
    bad_listener("\"transport\":\"unix\",\"path\":\"/x/\"",
                 "listener.path must be the path of a socket, not of a directory");
}

static void test_what_goes_together(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        bool fits[3]; /* unix, tcp, tls */
    } rows[] = {
        {"path", "\"/x\"", {true, false, false}},
        {"bind", "\"127.0.0.1\"", {false, true, true}},
        {"port", "1", {false, true, true}},
        {"allow_from", "[]", {false, true, true}},
        {"relay", "true", {true, true, true}},
        {"ca_file", "\"/x\"", {false, false, true}},
        {"cert_file", "\"/x\",\"key_file\":\"/x\"", {false, false, true}},
    };
    static const char *const kinds[] = {"unix", "tcp", "tls"};
    char json[256];
    char message[128];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < 3; k++) {
            (void)snprintf(json, sizeof(json), "{\"listener\":{\"transport\":\"%s\",\"%s\":%s}}",
                           kinds[k], rows[i].key, rows[i].value);
            (void)snprintf(message, sizeof(message), "listener.%s does not go with this transport",
                           rows[i].key);
            if (rows[i].fits[k]) {
                good(json);
            } else {
                bad(json, message);
            }
        }
    }
    bad_listener("\"transport\":\"tls\",\"cert_file\":\"/c\"",
                 "listener.cert_file and listener.key_file go together");
    bad_listener("\"transport\":\"tls\",\"key_file\":\"/c\"",
                 "listener.cert_file and listener.key_file go together");
}

static void test_patch(void **state)
{
    (void)state;
    assert_true(admin_body_patch(SPAN("{}"), &arena, &grant, &fault));
    assert_int_equal(grant.ttl_ms, 0);
    assert_false(grant.allow_from.given);
    assert_true(admin_body_patch(SPAN("{\"ttl\":0.3,\"allow_from\":[\"10.0.0.5\"]}"), &arena,
                                 &grant, &fault));
    assert_int_equal(grant.ttl_ms, 300);
    assert_int_equal(grant.allow_from.n, 1);
    refused(admin_body_patch(SPAN("{\"models\":[\"*\"]}"), &arena, &grant, &fault), 400,
            "unknown key: models");
    refused(admin_body_patch(SPAN("{\"ttl\":[]}"), &arena, &grant, &fault), 400,
            "ttl must be a number of seconds from 0.001 to 86400");
    refused(admin_body_patch(SPAN("{\"allow_from\":{}}"), &arena, &grant, &fault), 400,
            "allow_from must be a list of at most 1024 addresses or networks like 10.0.0.0/8");
}

/* ---- hashes of secrets ---- */

#define ABC       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */
#define ABC_UPPER "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"
#define OTHER     "0000000000000000000000000000000000000000000000000000000000000000"

static struct config *config_with_secrets(void)
{
    static const char text[] =
        "listeners: [{url: /s, grant: g}]\ngrants: [{name: g}]\n"
        "providers: [{name: b, type: builtin}, {name: p, type: openai, keys: [{env: T_BODY_P}]}]\n"
        "admin: {listen: [/a], token: {env: T_BODY_A}}\n";
    struct config *c = NULL;
    bool locked = false;

    assert_int_equal(secret_arena_init(&locked, NULL), ERR_OK);
    assert_int_equal(setenv("T_BODY_P", "abc", 1), 0);
    assert_int_equal(setenv("T_BODY_A", "the token, long enough to be one", 1), 0);
    assert_int_equal(config_parse("b.yml", text, strlen(text), &c, NULL), ERR_OK);
    assert_int_equal(config_load_secrets(c, false, NULL), ERR_OK);
    return c;
}

static void test_match(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *reply; /* NULL: refused */
    } rows[] = {
        {"{\"sha256\":[]}", "{\"match\":[]}"},
        {"{\"sha256\":[\"" OTHER "\"]}", "{\"match\":[]}"},
        {"{\"sha256\":[\"" OTHER "\",\"" ABC "\"]}", "{\"match\":[\"" ABC "\"]}"},
        {"{\"sha256\":[\"" ABC_UPPER "\",\"" ABC "\"]}",
         "{\"match\":[\"" ABC_UPPER "\",\"" ABC "\"]}"},
        {"{}", NULL},
        {"{\"sha256\":\"" ABC "\"}", NULL},
        {"{\"sha256\":[1]}", NULL},
        {"{\"sha256\":[\"abc\"]}", NULL},
        {"{\"sha256\":[\"" ABC "0\"]}", NULL},
        {"{\"sha256\":[\"g" OTHER "\"]}", NULL},
        {"{\"sha256\":[\"g000000000000000000000000000000000000000000000000000000000000000\"]}",
         NULL},
        {"{\"sha256\":[],\"x\":1}", NULL},
        {"[]", NULL},
    };
    struct config *c = config_with_secrets();
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&out);
        bool ok = admin_body_match(span_str(rows[i].json), c, &out, &fault);
        assert_int_equal(ok, rows[i].reply != NULL);
        if (ok) {
            assert_string_equal(buf_cstr(&out), rows[i].reply);
        } else {
            assert_int_equal(fault.status, 400);
        }
    }
    buf_fini(&out);
    config_unref(c);
}

static void test_match_count(void **state)
{
    (void)state;
    struct config *c = config_with_secrets();
    struct buf in;
    struct buf out;

    buf_init(&in, 1 << 20);
    buf_init(&out, 1 << 20);
    for (size_t n = ADMIN_MATCH_MAX; n <= ADMIN_MATCH_MAX + 1; n++) {
        buf_clear(&in);
        buf_put_str(&in, "{\"sha256\":[\"" ABC "\"");
        for (size_t i = 1; i < n; i++) {
            buf_put_str(&in, ",\"" OTHER "\"");
        }
        buf_put_str(&in, "]}");
        assert_int_equal(buf_status(&in), ERR_OK);
        buf_clear(&out);
        assert_int_equal(admin_body_match(buf_span(&in), c, &out, &fault), n <= ADMIN_MATCH_MAX);
    }
    buf_fini(&in);
    buf_fini(&out);
    config_unref(c);
}

/* ---- no memory ---- */

static void test_no_memory(void **state)
{
    (void)state;
    static const char json[] =
        "{\"run\":\"r\",\"models\":[\"*\",\"a\"],\"listener\":{\"transport\":\"tcp\","
        "\"allow_from\":[\"10.0.0.0/8\"],\"bind\":\"127.0.0.1\"}}";
    bool ok = false;
    size_t n = 0;

    for (; !ok; n++) {
        arena_fini(&arena);
        arena_init(&arena, ADMIN_BODY_ARENA);
        torture_fail_after(n);
        ok = admin_body_grant(SPAN(json), &arena, &grant, &fault);
        torture_off();
        assert_true(ok || fault.status == 503);
        assert_true(n < 100);
    }
    assert_true(n > 5);
}

/* ---- the form of a fault ---- */

static void test_fault(void **state)
{
    (void)state;
    struct redact *r = redact_new();
    struct buf b;

    assert_non_null(r);
    assert_int_equal(redact_add(r, SPAN("a-secret/of \"one\"")), ERR_OK);
    buf_init(&b, 4096);
    assert_false(admin_fault_set(&fault, 400, "BadRequest", "key \"%s\"", "x\xff"));
    admin_fault_put_json(&fault, NULL, &b);
    assert_string_equal(buf_cstr(&b), "{\"error\":{\"type\":\"BadRequest\",\"message\":"
                                      "\"key \\\"x\xef\xbf\xbd\\\"\"}}");
    buf_clear(&b);
    assert_false(admin_fault_set(&fault, 400, "BadRequest", "no a-secret/of \"one\", none"));
    admin_fault_put_json(&fault, r, &b);
    assert_string_equal(buf_cstr(&b), "{\"error\":{\"type\":\"BadRequest\",\"message\":"
                                      "\"no [redacted], none\"}}");
    buf_clear(&b); /* what is there is room enough */
    torture_fail_after(0);
    admin_fault_put_json(&fault, r, &b);
    torture_off();
    assert_string_equal(buf_cstr(&b), "{\"error\":{\"type\":\"BadRequest\",\"message\":"
                                      "\"(no memory to show it)\"}}");
    buf_fini(&b);
    redact_free(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_smallest),  TEST(test_everything),      TEST(test_null_is_absent),
        TEST(test_no_object), TEST(test_cut_anywhere),    TEST(test_keys),
        TEST(test_limits),    TEST(test_types),           TEST(test_names_cannot_steer_a_terminal),
        TEST(test_lengths),   TEST(test_listener_values), TEST(test_what_goes_together),
        TEST(test_patch),     TEST(test_match),           TEST(test_match_count),
        TEST(test_no_memory), TEST(test_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
