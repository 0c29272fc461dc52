/* Moments as people write them: what is one, what is none, and that what is written is read. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DAY INT64_C(86400000)

static void test_moments(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01", 0},
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2025-01-31T12:54:56.789Z", INT64_C(1738328096789)},
        {"2025-01-31T12:54:56.78Z", INT64_C(1738328096780)},
        {"2025-01-31T12:54:56.7Z", INT64_C(1738328096700)},
        {"2025-01-31T12:54:56Z", INT64_C(1738328096000)},
        {"2025-01-31", INT64_C(1738281600000)},
        {"2000-02-29", INT64_C(951782400000)},
        {"2024-02-29T23:59:59.999Z", INT64_C(1709251199999)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"1000-01-01", INT64_C(-30610224000000)},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = 42;
        if (!clock_parse(span_str(good[i].text), &ms) || ms != good[i].ms) {
            fail_msg("'%s': %lld", good[i].text, (long long)ms);
        }
    }
}

static void test_no_moments(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2025",
        "2025-01",
        "2025-1-01",
        "2025-01-1",
        "25-01-01",
        "2025-00-01",
        "2025-13-01",
        "2025-01-00",
        "2025-01-32",
        "2025-02-29",
        "1900-02-29",
        "2025-04-31",
        "2025/01/01",
        "2025-01-01 ",
        " 2025-01-01",
        "2025-01-01Z",
        "2025-01-01T00:00Z",
        "2025-01-01T00:00:00",
        "2025-01-01 00:00:00Z",
        "2025-01-01t00:00:00z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T23:60:00Z",
        "2025-01-01T23:59:60Z",
        "2025-01-01T23:59:99Z",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00.1234Z",
        "2025-01-01T00:00:00.12xZ",
        "2025-01-01T00:00:00,5Z",
        "2025-01-01T00:00:00+00:00",
        "2025-01-01T00:00:00.5",
        "-025-01-01",
        "+025-01-01",
        "2025-01-01T-1:00:00Z",
        "12025-01-01",
    };
    int64_t ms = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (clock_parse(span_str(bad[i]), &ms)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_false(clock_parse((struct span){NULL, 0}, &ms));
    assert_false(clock_parse(span_of("2025-01-01\0", 11), &ms));
    assert_int_equal(ms, 42);
}

/* What one writes the other reads: each day of 400 years, at another millisecond of it. */
static void test_what_is_formatted(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 146097; i++) {
        int64_t ms = (i - 40000) * DAY + i * 86399 % DAY;
        int64_t back = 0;
        char text[CLOCK_RFC3339_SIZE];
        clock_rfc3339(ms, text);
        assert_true(clock_parse(span_str(text), &back));
        assert_int_equal(back, ms);
    }
}

/* Cut at each byte only the date alone is one. */
static void test_cut(void **state)
{
    (void)state;
    static const char text[] = "2025-01-31T12:54:56.789Z";
    int64_t ms = 0;

    for (size_t n = 0; n < sizeof(text); n++) {
        assert_int_equal(clock_parse(span_of(text, n), &ms), n == 10 || n == sizeof(text) - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_no_moments),
        cmocka_unit_test(test_what_is_formatted),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
