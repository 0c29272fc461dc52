/* The snapshot of providers and names, keys that take turns, and breakers. */
#include "llm/providers.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char FILE_TEXT[] =
    "listeners: [{url: 'unix:///run/b.sock', grant: a}]\n"
    "providers:\n"
    "- {name: one, type: openai, keys: [{env: T_PROV_A}, {env: T_PROV_B}, {env: T_PROV_C}]}\n"
    "- {name: two, type: openai, base_url: 'http://h/v1'}\n"
    "- {name: lost, type: openai, keys: [{env: T_PROV_NONE}]}\n"
    "models: [{name: m, targets: [two/x, one/y/z]}, {name: single, targets: [two/x]}]\n"
    "grants: [{name: a}]\n";

static struct config *load(void)
{
    struct config *c = NULL;
    struct error e = {0};

    assert_int_equal(setenv("T_PROV_A", "key-a", 1), 0);
    assert_int_equal(setenv("T_PROV_B", "key-b", 1), 0);
    assert_int_equal(setenv("T_PROV_C", "key-c", 1), 0);
    assert_int_equal(config_parse("b.yml", FILE_TEXT, sizeof(FILE_TEXT) - 1, &c, &e), ERR_OK);
    assert_int_equal(config_load_secrets(c, true, &e), ERR_OK);
    return c;
}

static void test_snapshot(void **state)
{
    struct config *c = load();
    struct providers *p = NULL;
    struct error e = {0};

    (void)state;
    assert_int_equal(providers_new(c, &p, &e), ERR_OK);
    config_unref(c); /* it has its own reference */
    assert_string_equal(providers_find(p, SPAN("one"))->base_url, "https://api.openai.com/v1");
    assert_string_equal(providers_find(p, SPAN("two"))->base_url, "http://h/v1");
    assert_int_equal(providers_find(p, SPAN("one"))->nkeys, 3);
    assert_false(providers_find(p, SPAN("two"))->key_missing);
    assert_true(providers_find(p, SPAN("lost"))->key_missing);
    assert_null(providers_find(p, SPAN("three")));
    assert_null(providers_alias(p, SPAN("one")));
    const struct model_alias *m = providers_alias(p, SPAN("m"));
    assert_int_equal(m->ntargets, 2);
    assert_ptr_equal(m->targets[0].provider, providers_find(p, SPAN("two")));
    assert_true(span_eq(m->targets[1].model, SPAN("y/z")));
    assert_true(m->targets[0].breaker != NULL && m->targets[0].breaker != m->targets[1].breaker);
    assert_null(providers_alias(p, SPAN("single"))->targets[0].breaker);
    providers_unref(p);
}

static void test_no_memory(void **state)
{
    struct config *c = load();
    size_t n = 0;

    (void)state;
    for (;; n++) {
        struct providers *p = NULL;
        struct error e = {0};
        torture_fail_after(n);
        enum err err = providers_new(c, &p, &e);
        torture_off();
        if (err == ERR_OK) {
            providers_unref(p);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_null(p);
    }
    assert_true(n > 5);
    config_unref(c);
}

static const char *next(const struct provider *p, uint64_t now)
{
    return provider_key_next(p, now)->secret.p;
}

static void test_keys(void **state)
{
    struct config *c = load();
    struct providers *p = NULL;
    struct error e = {0};

    (void)state;
    assert_int_equal(providers_new(c, &p, &e), ERR_OK);
    const struct provider *one = providers_find(p, SPAN("one"));
    assert_string_equal(next(one, 1), "key-a");
    assert_string_equal(next(one, 1), "key-b");
    assert_string_equal(next(one, 1), "key-c");
    provider_key_rest(&one->keys[0], 100);
    assert_string_equal(next(one, 1), "key-b");
    provider_key_rest(&one->keys[1], 50);
    provider_key_rest(&one->keys[2], 70);
    assert_false(provider_key_awake(one, 49));
    assert_string_equal(next(one, 49), "key-b"); /* the one that rests least */
    assert_true(provider_key_awake(one, 50));
    assert_string_equal(next(one, 50), "key-b");
    assert_null(provider_key_next(providers_find(p, SPAN("two")), 1));
    assert_false(provider_key_awake(providers_find(p, SPAN("two")), 1));
    providers_unref(p);
    config_unref(c);
}

static void test_breaker(void **state)
{
    struct breaker b = {0};

    (void)state;
    assert_true(breaker_pass(NULL, 1, 100));
    breaker_success(NULL);
    breaker_failure(NULL, 1, 1, 100);
    breaker_failure(&b, 1000, 2, 100);
    assert_true(breaker_pass(&b, 1000, 100));
    breaker_success(&b); /* what came before does not count any more */
    breaker_failure(&b, 1000, 2, 100);
    assert_true(breaker_pass(&b, 1000, 100));
    breaker_failure(&b, 1000, 2, 100);
    assert_false(breaker_pass(&b, 1000, 100));
    assert_false(breaker_pass(&b, 1100, 100));
    assert_true(breaker_pass(&b, 1101, 100)); /* one probes */
    assert_false(breaker_pass(&b, 1101, 100));
    breaker_failure(&b, 1110, 2, 100); /* in vain: one failure is enough now */
    assert_false(breaker_pass(&b, 1210, 100));
    assert_true(breaker_pass(&b, 1211, 100));
    breaker_success(&b);
    assert_true(breaker_pass(&b, 1211, 100));
    for (int i = 0; i < 10; i++) {
        breaker_failure(&b, 1300, 0, 100); /* never */
    }
    assert_true(breaker_pass(&b, 1300, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_breaker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
