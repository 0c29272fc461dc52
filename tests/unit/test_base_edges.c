/*
 * Promises of the base modules that a plain use does not show: a buffer that held a secret is wiped
 * over all of its memory, the first failure is the one that is told, reads stop at the end of a
 * text that has no NUL, sizes that would wrap are refused before anything is allocated.
 */
#undef _FORTIFY_SOURCE /* would make explicit_bzero an inline function in here */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct span wiped;

/* In place of the C library's, under either name, to see what is wiped before it is freed. */
void __explicit_bzero_chk(void *p, size_t n, size_t size);

void explicit_bzero(void *p, size_t n)
{
    wiped = span_of(p, n);
    memset(p, 0, n);
}

void __explicit_bzero_chk(void *p, size_t n, size_t size)
{
    assert_true(n <= size);
    explicit_bzero(p, n);
}

/* All of the memory: what was cut off or consumed lies behind the content still. */
static void test_wipe_covers_the_memory(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 1000);
    buf_put_str(&b, "a secret that is longer than what is left of it");
    const char *p = b.p;
    const size_t cap = b.cap;
    buf_truncate(&b, 3);
    wiped = (struct span){NULL, 0};
    buf_wipe(&b);
    assert_ptr_equal(wiped.p, p);
    assert_int_equal(wiped.n, cap);

    wiped = (struct span){NULL, 0};
    buf_wipe(&b); /* nothing there any more */
    assert_null(wiped.p);
}

static void test_first_failure_is_told(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 10);
    torture_fail_after(0);
    buf_put_str(&b, "123");
    torture_off();
    buf_put_str(&b, "this is longer than the maximum");
    assert_int_equal(buf_reserve(&b, 100), ERR_NOMEM);
    buf_printf(&b, "%s", "this is longer than the maximum");
    buf_put_str(&b, "123");
    assert_int_equal(buf_status(&b), ERR_NOMEM);
    assert_int_equal(b.len, 0);
    assert_int_equal(torture_count(), 0); /* and nothing is tried again */
    buf_fini(&b);
}

/* fini and wipe forget a failure as they forget the content. */
static void test_usable_after_failure(void **state)
{
    (void)state;
    struct buf b;

    buf_init(&b, 4);
    for (unsigned i = 0; i < 4; i++) {
        buf_put_str(&b, "12345");
        assert_int_equal(buf_status(&b), ERR_LIMIT);
        if (i % 2 == 0) {
            buf_fini(&b);
        } else {
            buf_wipe(&b);
        }
        assert_int_equal(buf_status(&b), ERR_OK);
        buf_put_str(&b, "1234");
        assert_string_equal(buf_cstr(&b), "1234");
    }
    buf_fini(&b);
}

/* In memory of exactly the text's length: a cut looks at no byte behind it. */
static void test_cut_stays_inside(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe4\xb8\x96\xf0\x9f\x8c\x8d";

    for (size_t n = 1; n < sizeof(text); n++) {
        char *p = malloc(n);
        assert_non_null(p);
        memcpy(p, text, n);
        assert_int_equal(text_cut(p, n, n), n);
        assert_int_equal(text_cut(p, n, n + 1), n);
        assert_int_equal(text_cut(p, n, SIZE_MAX), n);
        assert_true(text_cut(p, n, n - 1) < n);
        free(p);
    }
    /* Behind the text, what would look like its last character going on. */
    assert_int_equal(text_cut("ab\x80\x80", 2, 2), 2);
}

static void test_arena_sum_does_not_wrap(void **state)
{
    (void)state;
    struct arena a;

    arena_init(&a, 100);
    assert_non_null(arena_alloc(&a, 60));
    torture_off();
    for (size_t less = 0; less < 200; less++) {
        assert_null(arena_alloc(&a, SIZE_MAX - less));
    }
    assert_int_equal(torture_count(), 0);
    assert_int_equal(a.used, 60);
    arena_fini(&a);
}

static void test_wrap_without_an_error(void **state)
{
    (void)state;
    assert_int_equal(err_wrap(NULL, "%s", "nothing to wrap"), ERR_BUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wipe_covers_the_memory),
        cmocka_unit_test(test_first_failure_is_told),
        cmocka_unit_test(test_usable_after_failure),
        cmocka_unit_test(test_cut_stays_inside),
        cmocka_unit_test(test_arena_sum_does_not_wrap),
        cmocka_unit_test(test_wrap_without_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
