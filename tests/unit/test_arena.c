/* The arena: alignment, its maximum to the byte, large pieces, every failing allocation. */
#include "base/arena.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <string.h>

static void test_pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    struct arena a;
    unsigned char *pieces[200];

    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = arena_alloc(&a, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_equal(pieces[i][k], i);
        }
    }
    assert_int_equal(a.used, 199 * 200 / 2);
    arena_fini(&a);
    arena_fini(&a);
}

static void test_maximum(void **state)
{
    (void)state;
    struct arena a;

    arena_init(&a, 100);
    assert_null(arena_alloc(&a, 101));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_int_equal(a.used, 0);
    assert_non_null(arena_alloc(&a, 60));
    assert_null(arena_alloc(&a, 41));
    assert_non_null(arena_alloc(&a, 40));
    assert_null(arena_alloc(&a, 1));
    assert_non_null(arena_alloc(&a, 0));
    assert_int_equal(a.used, 100);
    arena_fini(&a);
    assert_non_null(arena_alloc(&a, 100)); /* usable again, with the same maximum */
    assert_null(arena_alloc(&a, 1));
    arena_fini(&a);
}

static void test_sizes_do_not_wrap(void **state)
{
    (void)state;
    struct arena a;

    arena_init(&a, SIZE_MAX);
    torture_off();
    for (size_t less = 0; less < 32; less++) {
        assert_null(arena_alloc(&a, SIZE_MAX - less));
    }
    assert_null(arena_dup(&a, (struct span){"x", SIZE_MAX}));
    assert_int_equal(torture_count(), 0); /* refused before anything was added to a size */
    assert_int_equal(a.used, 0);
    arena_fini(&a);
}

/* A large piece has a block of its own and does not end the block that small ones come from. */
static void test_blocks(void **state)
{
    (void)state;
    struct arena a;

    arena_init(&a, 1 << 20);
    torture_off();
    assert_non_null(arena_alloc(&a, 16));
    assert_int_equal(torture_count(), 1);
    char *large = arena_alloc(&a, 10000);
    assert_non_null(large);
    memset(large, 'l', 10000);
    assert_int_equal(torture_count(), 1);
    for (size_t i = 0; i < 50; i++) {
        assert_non_null(arena_alloc(&a, 16));
    }
    assert_int_equal(torture_count(), 0);
    arena_fini(&a);

    large = arena_alloc(&a, 10000); /* the first piece of all */
    assert_non_null(large);
    memset(large, 'l', 10000);
    arena_fini(&a);
}

static void test_dup(void **state)
{
    (void)state;
    struct arena a;

    arena_init(&a, 12);
    char *p = arena_dup(&a, SPAN("a\0b"));
    assert_non_null(p);
    assert_memory_equal(p, "a\0b", 4);
    char *empty = arena_dup(&a, (struct span){NULL, 0});
    assert_non_null(empty);
    assert_string_equal(empty, "");
    assert_null(arena_dup(&a, SPAN("1234567"))); /* 7 bytes are left, the NUL is one too many */
    assert_string_equal(arena_dup(&a, SPAN("123456")), "123456");
    arena_fini(&a);
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    bool failed = true;

    for (size_t n = 0; failed; n++) {
        struct arena a;
        arena_init(&a, 1 << 20);
        torture_fail_after(n);
        failed = false;
        for (size_t i = 0; i < 100; i++) {
            const size_t used = a.used;
            char *p = arena_dup(&a, SPAN("some forty bytes of text, more or less."));
            if (p == NULL) {
                failed = true;
                assert_int_equal(a.used, used);
                p = arena_dup(&a, SPAN("the next one")); /* fails once only */
            }
            assert_non_null(p);
        }
        torture_off();
        assert_in_range(n, 0, 10);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_aligned_and_apart),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_sizes_do_not_wrap),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_dup),
        cmocka_unit_test(test_each_allocation_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
