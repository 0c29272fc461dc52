/*
 * The growing buffer: its maximum to the byte, sticky failures, every failing allocation, and the
 * NUL that buf_cstr adds without being counted.
 */
#include "base/buf.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void test_starts_empty(void **state)
{
    (void)state;
    struct buf b;

    torture_off();
    buf_init(&b, 10);
    assert_int_equal(buf_reserve(&b, 0), ERR_OK);
    buf_put(&b, NULL, 0);
    buf_put_str(&b, "");
    buf_put_span(&b, (struct span){NULL, 0});
    buf_consume(&b, 0);
    assert_int_equal(torture_count(), 0);
    assert_null(b.p);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(buf_cstr(&b), "");
    buf_fini(&b);
    buf_fini(&b);
}

static void test_appends(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 100);
    buf_put(&b, "ab\0c", 4);
    buf_put_char(&b, '\0');
    buf_put_str(&b, "de");
    buf_put_span(&b, SPAN("fg"));
    buf_printf(&b, "-%d-%s", 42, "x");
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_true(span_eq(buf_span(&b), SPAN("ab\0c\0defg-42-x")));
    assert_int_equal(buf_cstr(&b)[b.len], '\0');
    assert_int_equal(b.len, 14);
    buf_fini(&b);
    assert_null(b.p);
    assert_int_equal(b.max, 100);
    buf_put_char(&b, 'z');
    assert_string_equal(buf_cstr(&b), "z");
    buf_fini(&b);
}

/* At every maximum, also below the first allocation's size: max bytes fit, one more does not. */
static void test_maximum(void **state)
{
    (void)state;
    char text[300];

    memset(text, 'x', sizeof(text));
    for (size_t max = 1; max < sizeof(text) - 1; max++) {
        struct buf b;
        buf_init(&b, max);
        for (size_t i = 0; i < max; i++) {
            buf_put_char(&b, 'x');
        }
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_int_equal(b.len, max);
        assert_int_equal(strlen(buf_cstr(&b)), max);
        buf_put_char(&b, 'y');
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        assert_int_equal(b.len, max);
        buf_fini(&b);

        buf_init(&b, max);
        buf_put(&b, text, max + 1);
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        assert_int_equal(b.len, 0);
        buf_clear(&b);
        buf_put(&b, text, max);
        assert_int_equal(buf_status(&b), ERR_OK);
        buf_fini(&b);
    }
}

/* The content after a first small append must still be bounded by the maximum, not the capacity. */
static void test_capacity_is_no_maximum(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 10);
    buf_put(&b, "12345", 5);
    assert_string_equal(buf_cstr(&b), "12345");
    buf_put(&b, "123456", 6);
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    assert_int_equal(b.len, 5);
    assert_true(b.cap <= 11);
    buf_fini(&b);
}

static void test_huge_sizes(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, SIZE_MAX);
    buf_put_char(&b, 'a');
    assert_int_equal(buf_reserve(&b, SIZE_MAX), ERR_LIMIT);
    buf_clear(&b);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), ERR_NOMEM);
    assert_int_equal(buf_status(&b), ERR_NOMEM);
    buf_clear(&b);
    buf_put_str(&b, "still usable");
    assert_string_equal(buf_cstr(&b), "still usable");
    buf_fini(&b);
}

static void test_sticky(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 4);
    buf_put_str(&b, "abc");
    buf_put_str(&b, "de");
    buf_put_char(&b, 'd'); /* would fit */
    buf_printf(&b, "%c", 'd');
    assert_int_equal(buf_reserve(&b, 1), ERR_LIMIT);
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    assert_string_equal(buf_cstr(&b), "abc");

    buf_truncate(&b, 3);
    assert_int_equal(buf_status(&b), ERR_OK);
    buf_put_char(&b, 'd');
    assert_string_equal(buf_cstr(&b), "abcd");
    buf_truncate(&b, 0);
    assert_string_equal(buf_cstr(&b), "");
    buf_fini(&b);
}

/* A long text is formatted in place; its NUL needs no room within the maximum. */
static void test_printf_lengths(void **state)
{
    (void)state;
    char text[1100];

    memset(text, 'p', sizeof(text));
    for (size_t n = 500; n < sizeof(text) - 1; n++) {
        struct buf b;
        text[n] = '\0';
        buf_init(&b, n + 1);
        buf_put_char(&b, '<');
        buf_printf(&b, "%s", text);
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_int_equal(b.len, n + 1);
        assert_string_equal(buf_cstr(&b) + 1, text);
        buf_clear(&b);
        buf_printf(&b, "%s__", text);
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        assert_int_equal(b.len, 0);
        buf_fini(&b);
        text[n] = 'p';
    }
}

static void test_consume(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 10; n++) {
        struct buf b;
        buf_init(&b, 10);
        buf_put_str(&b, "0123456789");
        buf_consume(&b, n);
        assert_int_equal(b.len, 10 - n);
        assert_string_equal(buf_cstr(&b), &"0123456789"[n]);
        for (size_t i = 0; i < n; i++) {
            buf_put_char(&b, 'x');
        }
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_int_equal(b.len, 10);
        buf_fini(&b);
    }
}

static void test_growth_is_geometric(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 1 << 20);
    torture_off();
    for (size_t i = 0; i < 1 << 20; i++) {
        buf_put_char(&b, 'x');
    }
    assert_in_range(torture_count(), 1, 20);
    assert_int_equal(b.len, 1 << 20);
    buf_clear(&b);
    for (size_t i = 0; i < 1 << 20; i++) {
        buf_put_char(&b, 'x');
    }
    assert_int_equal(torture_count(), 0);
    assert_int_equal(buf_status(&b), ERR_OK);
    buf_fini(&b);
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    bool failed = true;

    for (size_t n = 0; failed; n++) {
        struct buf b;
        buf_init(&b, 4096);
        torture_fail_after(n);
        size_t before = 0;
        for (size_t i = 0; i < 4096 && buf_status(&b) == ERR_OK; i++) {
            before = b.len;
            buf_put_char(&b, (char)('a' + i % 26));
        }
        torture_off();
        failed = buf_status(&b) != ERR_OK;
        if (failed) {
            assert_int_equal(buf_status(&b), ERR_NOMEM);
            assert_int_equal(b.len, before); /* what was there stays */
            for (size_t i = 0; i < b.len; i++) {
                assert_int_equal(b.p[i], 'a' + (int)(i % 26));
            }
        }
        assert_in_range(n, 0, 10);
        buf_fini(&b);
    }
}

static void test_cstr_without_memory(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 10);
    torture_fail_after(0);
    assert_string_equal(buf_cstr(&b), "");
    torture_off();
    buf_put_str(&b, "ok");
    torture_fail_after(0);
    assert_string_equal(buf_cstr(&b), "ok"); /* the room is there already */
    torture_off();
    buf_fini(&b);
}

static void test_wipe(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 100);
    buf_wipe(&b);
    buf_put_str(&b, "secret");
    buf_wipe(&b);
    assert_null(b.p);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.max, 100);
    buf_put_str(&b, "again");
    assert_string_equal(buf_cstr(&b), "again");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_empty),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_capacity_is_no_maximum),
        cmocka_unit_test(test_huge_sizes),
        cmocka_unit_test(test_sticky),
        cmocka_unit_test(test_printf_lengths),
        cmocka_unit_test(test_consume),
        cmocka_unit_test(test_growth_is_geometric),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_cstr_without_memory),
        cmocka_unit_test(test_wipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
