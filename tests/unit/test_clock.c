/* Time as people read it: known moments, leap days, before 1970, and what has no such form. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void test_rfc3339(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *want;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000, "1969-12-31T23:59:59.000Z"},
        {INT64_C(1738328096789), "2025-01-31T12:54:56.789Z"},
        {INT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
        {INT64_C(1709251199999), "2024-02-29T23:59:59.999Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
        {INT64_C(253402300800000), "0000-00-00T00:00:00.000Z"},
        {INT64_C(-30610224000000), "1000-01-01T00:00:00.000Z"},
        {INT64_C(-30610224000001), "0000-00-00T00:00:00.000Z"},
        {INT64_MAX, "0000-00-00T00:00:00.000Z"},
        {INT64_MIN, "0000-00-00T00:00:00.000Z"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[CLOCK_RFC3339_SIZE];
        memset(out, '#', sizeof(out));
        clock_rfc3339(cases[i].ms, out);
        assert_string_equal(out, cases[i].want);
        assert_int_equal(strlen(out), CLOCK_RFC3339_SIZE - 1);
    }
}

static void test_clocks_go_on(void **state)
{
    (void)state;
    uint64_t before = clock_mono_ms();

    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_mono_ms();
        assert_true(now >= before);
        before = now;
    }
    assert_true(clock_wall_ms() > INT64_C(1700000000000)); /* milliseconds, not seconds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc3339),
        cmocka_unit_test(test_clocks_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
