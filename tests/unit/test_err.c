/* Error details: formatting, wrapping, cutting at the array's end; nothing is allocated. */
#include "base/err.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

static void test_set(void **state)
{
    (void)state;
    struct error e = {.sys = 7};

    assert_int_equal(err_set(&e, ERR_LIMIT, "%s of %d", "one", 2), ERR_LIMIT);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(e.sys, 0);
    assert_string_equal(e.msg, "one of 2");
    assert_int_equal(err_set(NULL, ERR_PROTO, "%s", "unread"), ERR_PROTO);
}

static void test_sys(void **state)
{
    (void)state;
    struct error e;

    torture_off();
    assert_int_equal(err_sys(&e, ERR_IO, ENOENT, "cannot open %s", "x"), ERR_IO);
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.msg, "cannot open x: No such file or directory");
    assert_int_equal(err_sys(NULL, ERR_IO, ENOENT, "x"), ERR_IO);
    (void)err_sys(&e, ERR_IO, 99999, "odd");
    assert_memory_equal(e.msg, "odd: ", 5);
    assert_int_equal(torture_count(), 0);
}

static void test_wrap(void **state)
{
    (void)state;
    struct error e;

    (void)err_sys(&e, ERR_IO, EACCES, "cannot open");
    assert_int_equal(err_wrap(&e, "line %d", 3), ERR_IO);
    assert_int_equal(err_wrap(&e, "broker.yml"), ERR_IO);
    assert_string_equal(e.msg, "broker.yml: line 3: cannot open: Permission denied");
    assert_int_equal(e.sys, EACCES);
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    struct error e;
    char text[1000];

    for (size_t n = 480; n < sizeof(text); n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        (void)err_set(&e, ERR_IO, "%s", text);
        assert_int_equal(strlen(e.msg), n < sizeof(e.msg) ? n : sizeof(e.msg) - 1);
        (void)err_wrap(&e, "abc");
        assert_memory_equal(e.msg, "abc: xxx", 8);
        assert_true(strlen(e.msg) < sizeof(e.msg));
        (void)err_wrap(&e, "%s", text);
        assert_true(strlen(e.msg) < sizeof(e.msg));
        (void)err_sys(&e, ERR_IO, ENOENT, "%s", text);
        assert_true(strlen(e.msg) < sizeof(e.msg));
        text[n] = 'x';
    }
}

static void test_names_differ(void **state)
{
    (void)state;
    for (int a = ERR_OK; a <= ERR_BUG; a++) {
        assert_true(strlen(err_name((enum err)a)) > 1);
        for (int b = ERR_OK; b < a; b++) {
            assert_string_not_equal(err_name((enum err)a), err_name((enum err)b));
        }
    }
    assert_string_equal(err_name(ERR_LIMIT), "limit");
    assert_string_equal(err_name(ERR_NOMEM), "no memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),          cmocka_unit_test(test_sys),
        cmocka_unit_test(test_wrap),         cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_names_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
