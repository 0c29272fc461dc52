/*
 * Validating an object and collecting its members: limits, duplicate keys however they are spelt,
 * what is left to answer a broken message with, texts cut at every byte.
 */
#include "base/json_span.h"
#include "fixtures/json_texts.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct json_rules strict = {.max_depth = 128};

static enum err members_of(const char *text, struct json_members *out, struct json_fault *fault)
{
    *fault = (struct json_fault){.offset = SIZE_MAX};
    return json_check_object(span_str(text), &strict, out, fault);
}

static void test_object_members(void **state)
{
    (void)state;
    static const char text[] =
        " { \"id\" : \"a\\n1\" , \"n\":-1.50, \"o\" : {\"x\":[1,{}]} ,\"t\":true,"
        "\"f\":false,\"z\":null,\"a\":[ ]}\r\n";
    static const struct {
        const char *key;
        const char *value;
        enum json_type type;
    } want[] = {
        {"\"id\"", "\"a\\n1\"", JSON_STRING},
        {"\"n\"", "-1.50", JSON_NUMBER},
        {"\"o\"", "{\"x\":[1,{}]}", JSON_OBJECT},
        {"\"t\"", "true", JSON_TRUE},
        {"\"f\"", "false", JSON_FALSE},
        {"\"z\"", "null", JSON_NULL},
        {"\"a\"", "[ ]", JSON_ARRAY},
    };
    struct json_members m;
    struct json_fault fault;

    assert_int_equal(members_of(text, &m, &fault), ERR_OK);
    assert_int_equal(m.n, 7);
    for (size_t i = 0; i < m.n; i++) {
        assert_true(span_eq(m.m[i].key.text, span_str(want[i].key)));
        assert_int_equal(m.m[i].key.type, JSON_STRING);
        assert_true(span_eq(m.m[i].value.text, span_str(want[i].value)));
        assert_int_equal(m.m[i].value.type, want[i].type);
        assert_int_equal(m.m[i].value.escaped, i == 0);
        assert_false(m.m[i].key.escaped);
    }
    assert_int_equal(members_of("{}", &m, &fault), ERR_OK);
    assert_int_equal(m.n, 0);
    assert_int_equal(members_of(" \n{ } ", &m, &fault), ERR_OK);
    assert_int_equal(m.n, 0);
}

static void test_object_refuses_what_values_refuse(void **state)
{
    (void)state;
    for (size_t i = 0; i < JSON_INVALID_COUNT; i++) {
        char text[200];
        struct json_members m;
        struct json_fault fault;
        assert_int_equal(json_check_object(json_invalid[i], &strict, &m, &fault), ERR_PROTO);
        assert_true(fault.offset <= json_invalid[i].n);
        if (json_invalid[i].n == 0 || memchr(json_invalid[i].p, '\0', json_invalid[i].n) != NULL) {
            continue;
        }
        snprintf(text, sizeof(text), "{\"k\":%s,\"z\":0}", json_invalid[i].p);
        assert_int_equal(members_of(text, &m, &fault), ERR_PROTO);
    }
    for (size_t i = 0; i < JSON_VALID_COUNT; i++) {
        struct json_members m;
        struct json_fault fault;
        struct json_value v;
        assert_int_equal(json_check_value(json_valid[i], &strict, &v, &fault), ERR_OK);
        const bool duplicate = span_eq(json_valid[i], SPAN("{\"a\":1,\"a\":2}"));
        assert_int_equal(json_check_object(json_valid[i], &strict, &m, &fault),
                         v.type == JSON_OBJECT && !duplicate ? ERR_OK : ERR_PROTO);
    }
}

static void test_object_at_every_cut(void **state)
{
    (void)state;
    static const char text[] =
        "{\"id\":\"q-1\",\"params\":{\"a\":[1,2,{\"b\":\"\\u00e9\\ud83c\\udf0d\"}],"
        "\"c\":-1.5e+3},\"method\":\"llm.chat\",\"t\":true,\"n\":12}";
    struct json_members whole;
    struct json_fault fault;

    assert_int_equal(members_of(text, &whole, &fault), ERR_OK);
    assert_int_equal(whole.n, 5);
    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        struct json_members m;
        char *p = malloc(n + 1);
        assert_non_null(p);
        memcpy(p + 1, text, n); /* it ends where its memory ends */
        assert_int_equal(json_check_object(span_of(p + 1, n), &strict, &m, &fault), ERR_PROTO);
        assert_true(fault.offset <= n);
        size_t complete = 0;
        for (size_t i = 0; i < whole.n; i++) {
            const struct span v = whole.m[i].value.text;
            complete += (size_t)(v.p - text) + v.n <= n ? 1 : 0;
        }
        /* A number at the very end may go on: it counts as complete, or as not. */
        assert_in_range(m.n, complete == 0 ? 0 : complete - 1, complete + 1);
        for (size_t i = 0; i < m.n && i < complete; i++) {
            assert_true(span_eq(m.m[i].key.text, whole.m[i].key.text));
            assert_true(span_eq(m.m[i].value.text, whole.m[i].value.text));
        }
        free(p);
    }
}

/* A broken message is answered by its id, when the id came before the fault. */
static void test_members_before_the_fault(void **state)
{
    (void)state;
    struct json_members m;
    struct json_fault fault;

    assert_int_equal(members_of("{\"id\":\"7\",\"x\":01}", &m, &fault), ERR_PROTO);
    assert_int_equal(m.n, 1);
    assert_true(json_string_is(json_get(&m, "id"), "7"));
    assert_int_equal(fault.offset, 15);

    assert_int_equal(members_of("{\"id\":\"7\",\"x\":1} x", &m, &fault), ERR_PROTO);
    assert_int_equal(m.n, 2);
    assert_int_equal(fault.offset, 17);
    assert_int_equal(members_of("{\"x\":[}],\"id\":\"7\"}", &m, &fault), ERR_PROTO);
    assert_int_equal(m.n, 0);
    assert_int_equal(members_of("[1]", &m, &fault), ERR_PROTO);
    assert_int_equal(m.n, 0);
    assert_int_equal(fault.offset, 0);
}

static void test_duplicates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t offset; /* of the second key; 0: none */
    } cases[] = {
        {"{\"id\":1, \"id\":2}", 9},
        {"{\"id\":1,\"\\u0069d\":2}", 8},
        {"{\"\\u0069d\":1,\"id\":2}", 13},
        {"{\"\\u0069d\":1,\"i\\u0064\":2}", 13},
        {"{\"\":1,\"\":2}", 6},
        {"{\"/\":1,\"\\/\":2}", 7},
        {"{\"\\ud83c\\udf0d\":1,\"\xf0\x9f\x8c\x8d\":2}", 18},
        {"{\"\\u00e9\":1,\"x\":0,\"\xc3\xa9\":2}", 18},
        {"{\"a\\n\":1,\"a\\u000a\":2}", 9},
        {"{\"id\":1,\"Id\":2,\"iD\":3,\"id \":4,\"i\":5,\"idd\":6,\"\":7}", 0},
        {"{\"a\\u0062\":1,\"a\":2,\"abc\":3,\"\\u0062\":4}", 0},
        {"{\"a\":{\"x\":1,\"x\":2}}", 0}, /* not collected, not looked at */
        {"{\"a\":[{\"a\":1,\"a\":1}]}", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json_members m;
        struct json_fault fault;
        enum err err = members_of(cases[i].text, &m, &fault);
        if (err != (cases[i].offset == 0 ? ERR_OK : ERR_PROTO) ||
            (err != ERR_OK && fault.offset != cases[i].offset)) {
            fail_msg("%s", cases[i].text);
        }
        if (err != ERR_OK) {
            assert_string_equal(fault.what, "duplicate key");
        }
    }
}

static void put_members(struct buf *b, unsigned n)
{
    buf_put_char(b, '{');
    for (unsigned i = 0; i < n; i++) {
        buf_printf(b, "%s\"k%u\":%u", i == 0 ? "" : ",", i, i);
    }
    buf_put_char(b, '}');
}

/* The limit is one of objects that are read: deeper ones may have as many members as they like. */
static void test_member_limit(void **state)
{
    (void)state;
    struct buf b;
    struct json_members m;
    struct json_fault fault;

    buf_init(&b, 1 << 20);
    for (unsigned n = JSON_MEMBERS_MAX - 1; n <= JSON_MEMBERS_MAX + 1; n++) {
        buf_clear(&b);
        put_members(&b, n);
        const bool good = n <= JSON_MEMBERS_MAX;
        assert_int_equal(members_of(buf_cstr(&b), &m, &fault), good ? ERR_OK : ERR_PROTO);
        assert_int_equal(m.n, good ? n : JSON_MEMBERS_MAX);
        struct json_value v;
        assert_int_equal(json_check_value(buf_span(&b), &strict, &v, &fault), ERR_OK);
    }
    buf_clear(&b);
    buf_put_str(&b, "{\"inner\":");
    put_members(&b, 1000);
    buf_put_char(&b, '}');
    assert_int_equal(members_of(buf_cstr(&b), &m, &fault), ERR_OK);
    assert_int_equal(m.n, 1);
    assert_int_equal(json_find(m.m[0].value, "k999").type, JSON_NUMBER);
    assert_int_equal(json_object_members(m.m[0].value, &m, &fault), ERR_PROTO);
    buf_fini(&b);
}

static void test_object_depth(void **state)
{
    (void)state;
    const struct json_rules one = {.max_depth = 1};
    const struct json_rules two = {.max_depth = 2};
    struct json_members m;
    struct json_fault fault;

    assert_int_equal(json_check_object(SPAN("{\"a\":1}"), &one, &m, &fault), ERR_OK);
    assert_int_equal(json_check_object(SPAN("{\"a\":{}}"), &one, &m, &fault), ERR_PROTO);
    assert_string_equal(fault.what, "nesting deeper than allowed");
    assert_int_equal(fault.offset, 5);
    assert_int_equal(json_check_object(SPAN("{\"a\":[],\"b\":{}}"), &two, &m, &fault), ERR_OK);
    assert_int_equal(json_check_object(SPAN("{\"a\":[],\"b\":{\"c\":[]}}"), &two, &m, &fault),
                     ERR_PROTO);
    assert_int_equal(m.n, 1);
}

static void test_never_allocates(void **state)
{
    (void)state;
    struct json_members m;
    struct json_fault fault;

    torture_fail_after(0);
    enum err err = members_of("{\"a\":[1,{\"b\":\"c\"}],\"\\u0062\":2}", &m, &fault);
    const size_t count = torture_count();
    torture_off();
    assert_int_equal(err, ERR_OK);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object_members),
        cmocka_unit_test(test_object_refuses_what_values_refuse),
        cmocka_unit_test(test_object_at_every_cut),
        cmocka_unit_test(test_members_before_the_fault),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_member_limit),
        cmocka_unit_test(test_object_depth),
        cmocka_unit_test(test_never_allocates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
