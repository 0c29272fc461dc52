/*
 * Meters under many threads: sums are exact whatever happens at once, and of a burst exactly as
 * many requests pass as fit.
 */
#include "gate/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#define JAN_15  INT64_C(1736899200000) /* 2025-01-15T00:00:00Z */
#define NOW     UINT64_C(1000000)
#define THREADS 8
#define ROUNDS  10000

static const struct meter_limits none = {.budget_nano = METER_NO_BUDGET,
                                         .budget_tokens = METER_NO_BUDGET};

static struct meter *m;

static int setup(void **state)
{
    (void)state;
    m = meter_new();
    return m == NULL ? 1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    meter_unref(m);
    return 0;
}

static struct meter_state read_now(const struct meter_limits *l)
{
    struct meter_state s;

    meter_read(m, l, JAN_15, &s);
    return s;
}

static struct meter_cost cost(uint64_t tokens, uint64_t nano)
{
    return (struct meter_cost){.tokens = tokens, .nano = nano, .priced = true};
}

struct crowd {
    struct meter_limits limits;
    uint64_t passed[THREADS];
    uint64_t refused[THREADS];
};

struct one {
    struct crowd *crowd;
    unsigned i;
};

static void *work(void *ctx)
{
    struct one *one = ctx;
    struct crowd *all = one->crowd;

    for (unsigned n = 0; n < ROUNDS; n++) {
        uint32_t retry = 0;
        struct meter_cost claim = cost(10, 7);
        struct meter_cost used = cost(n % 3, n % 5);
        if (meter_begin(m, &all->limits, NOW, &retry) != METER_PASSED) {
            all->refused[one->i]++;
            continue;
        }
        if (meter_reserve(m, &all->limits, NOW, JAN_15, &claim, &retry) == METER_PASSED) {
            all->passed[one->i]++;
            meter_settle(m, &all->limits, JAN_15, &claim, &used);
        } else {
            all->refused[one->i]++;
        }
        meter_end(m);
    }
    meter_unref(meter_ref(m));
    return NULL;
}

static struct crowd crowd_run(struct meter_limits l)
{
    struct crowd all = {.limits = l};
    struct one ones[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        ones[i] = (struct one){&all, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &ones[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    return all;
}

static void test_threads_without_limits(void **state)
{
    (void)state;
    uint64_t tokens = 0;
    uint64_t nano = 0;

    (void)crowd_run(none);
    for (unsigned n = 0; n < ROUNDS; n++) {
        tokens += n % 3;
        nano += n % 5;
    }
    struct meter_state s = read_now(&none);
    assert_int_equal(s.requests, THREADS * ROUNDS);
    assert_int_equal(s.inflight, 0);
    assert_int_equal(s.refused, 0);
    assert_int_equal(s.reserved_nano, 0);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.spent_tokens, THREADS * tokens);
    assert_int_equal(s.spent_nano, THREADS * nano);
}

/* Of a burst exactly as many pass as fit. */
static void test_threads_with_limits(void **state)
{
    (void)state;
    struct meter_limits l = none;
    uint64_t passed = 0;
    uint64_t refused = 0;

    l.rpm = 12345;
    struct crowd all = crowd_run(l);
    for (unsigned i = 0; i < THREADS; i++) {
        passed += all.passed[i];
        refused += all.refused[i];
    }
    assert_int_equal(passed, 12345);
    assert_int_equal(refused, THREADS * ROUNDS - 12345);
    struct meter_state s = read_now(&l);
    assert_int_equal(s.requests, 12345);
    assert_int_equal(s.refused, refused);
    assert_int_equal(s.inflight, 0);
    l = none;
    l.budget_tokens = 5000;
    l.max_inflight = THREADS;
    meter_restore(m, &l, JAN_15, 0, 0);
    (void)crowd_run(l);
    s = read_now(&l);
    assert_true(s.spent_tokens <= 5000 && s.spent_tokens > 5000 - THREADS * 10);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.inflight, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_threads_without_limits),
        TEST(test_threads_with_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
