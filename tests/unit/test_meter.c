/*
 * Meters: every edge of rates, debts and budgets, periods and clocks that go back, limits that
 * change between two calls, and amounts too large to be added.
 */
#include "gate/meter.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DAY    INT64_C(86400000)
#define JAN_15 INT64_C(1736899200000) /* 2025-01-15T00:00:00Z */
#define JAN_1  (JAN_15 - 14 * DAY)
#define FEB_1  (JAN_15 + 17 * DAY)
#define NOW    UINT64_C(1000000)
#define CUT    (UINT64_C(1) << 50)

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

static struct meter_state read_at(const struct meter_limits *l, int64_t wall)
{
    struct meter_state s;

    meter_read(m, l, wall, &s);
    return s;
}

static void begins(const struct meter_limits *l, uint64_t now, enum meter_answer want,
                   uint32_t want_retry)
{
    uint32_t retry = 77;

    assert_int_equal(meter_begin(m, l, now, &retry), want);
    assert_int_equal(retry, want_retry);
}

static struct meter_cost cost(uint64_t tokens, uint64_t nano)
{
    return (struct meter_cost){.tokens = tokens, .nano = nano, .priced = true};
}

static struct meter_cost reserves_at(const struct meter_limits *l, uint64_t now, int64_t wall,
                                     struct meter_cost c, enum meter_answer want,
                                     uint32_t want_retry)
{
    uint32_t retry = 77;

    c.taken = 99; /* nothing of the caller's is kept */
    assert_int_equal(meter_reserve(m, l, now, wall, &c, &retry), want);
    assert_int_equal(retry, want_retry);
    return c;
}

static struct meter_cost reserves(const struct meter_limits *l, uint64_t now, struct meter_cost c)
{
    return reserves_at(l, now, JAN_15, c, METER_PASSED, 0);
}

static void refuses(const struct meter_limits *l, struct meter_cost c, enum meter_answer want)
{
    (void)reserves_at(l, NOW, JAN_15, c, want, 0);
}

static void settles(const struct meter_limits *l, struct meter_cost claim, struct meter_cost used)
{
    meter_settle(m, l, JAN_15, &claim, &used);
}

/* How many tokens the minute has at `now`: the most that passes, found and given back. */
static uint64_t tokens_there(const struct meter_limits *l, uint64_t now)
{
    uint64_t low = 0;
    uint64_t high = l->tpm;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        struct meter_cost c = cost(middle, 0);
        uint32_t retry = 0;
        if (meter_reserve(m, l, now, JAN_15, &c, &retry) == METER_PASSED) {
            low = middle;
            struct meter_cost nothing = cost(0, 0);
            settles(l, c, nothing);
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* ---- requests a minute ---- */

static void test_no_limits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        begins(&none, NOW, METER_PASSED, 0);
        (void)reserves(&none, NOW, cost(CUT / 2000, CUT / 2000));
    }
    struct meter_state s = read_at(&none, JAN_15);
    assert_int_equal(s.requests, 1000);
    assert_int_equal(s.inflight, 1000);
    assert_int_equal(s.refused, 0);
    assert_int_equal(s.reserved_tokens, 1000 * (CUT / 2000));
    assert_int_equal(s.spent_tokens, 0);
}

/* Exactly as many as fit; the time that is told is the first at which one more does. */
static void test_rpm(void **state)
{
    (void)state;
    static const struct {
        uint32_t rpm;
        uint32_t retry; /* when empty */
    } cases[] = {{1, 60000}, {7, 8572}, {60, 1000}, {61, 984}, {60000, 1}, {100000, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct meter_limits l = none;
        l.rpm = cases[i].rpm;
        meter_unref(m);
        m = meter_new();
        assert_non_null(m);
        for (uint32_t n = 0; n < l.rpm; n++) {
            begins(&l, NOW, METER_PASSED, 0);
        }
        begins(&l, NOW, METER_RATE, cases[i].retry);
        begins(&l, NOW - 5, METER_RATE, cases[i].retry); /* another loop's clock is behind */
        if (cases[i].retry > 1) {
            begins(&l, NOW + cases[i].retry - 1, METER_RATE, 1);
        }
        begins(&l, NOW + cases[i].retry, METER_PASSED, 0);
        struct meter_state s = read_at(&l, JAN_15);
        assert_int_equal(s.requests, l.rpm + 1);
        assert_int_equal(s.inflight, l.rpm + 1);
        assert_int_equal(s.refused, cases[i].retry > 1 ? 3 : 2);
    }
}

/* Nothing is lost to rounding, however often one asks. */
static void test_rpm_refills_by_the_millisecond(void **state)
{
    (void)state;
    struct meter_limits l = none;
    unsigned passed = 0;

    l.rpm = 7;
    for (uint64_t now = NOW; now <= NOW + 600000; now++) {
        uint32_t retry = 0;
        passed += meter_begin(m, &l, now, &retry) == METER_PASSED ? 1 : 0;
    }
    assert_int_equal(passed, 7 + 70);
}

/* Never more than a minute's worth, after whatever time, from the first moment of a clock on. */
static void test_rpm_is_full_at_most(void **state)
{
    (void)state;
    static const uint64_t moments[] = {0,           0 /* still empty */, 60000, 60000 + 59999,
                                       10000000000, UINT64_MAX};
    static const unsigned want[] = {3, 0, 3, 2, 3, 3};
    struct meter_limits l = none;

    l.rpm = 3;
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        unsigned passed = 0;
        uint32_t retry = 0;
        while (meter_begin(m, &l, moments[i], &retry) == METER_PASSED) {
            passed++;
        }
        assert_int_equal(passed, want[i]);
    }
}

/* A reload: a grant of the same name with other limits counts on in the same meter. */
static void test_rpm_changes(void **state)
{
    (void)state;
    struct meter_limits large = none;
    struct meter_limits small = none;
    struct meter_limits most = none;

    large.rpm = 1000;
    small.rpm = 2;
    most.rpm = UINT32_MAX;
    begins(&large, NOW, METER_PASSED, 0);
    begins(&small, NOW, METER_PASSED, 0); /* one of two was used */
    begins(&small, NOW, METER_RATE, 30000);
    for (unsigned i = 0; i < 998; i++) {
        begins(&large, NOW, METER_PASSED, 0);
    }
    begins(&large, NOW, METER_RATE, 60);
    begins(&small, NOW, METER_RATE, 30000); /* 1000 used: of the two, both */
    begins(&small, NOW + 29999, METER_RATE, 1);
    begins(&small, NOW + 30000, METER_PASSED, 0);
    begins(&most, NOW + 30000, METER_PASSED, 0);
    begins(&none, NOW + 30000, METER_PASSED, 0);
    begins(&small, NOW + 30000, METER_RATE, 30000);
    begins(&small, NOW + 90000, METER_PASSED, 0);
    begins(&small, NOW + 90000, METER_PASSED, 0);
    begins(&small, NOW + 90000, METER_RATE, 30000);
}

static void test_inflight(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.max_inflight = 2;
    l.rpm = 4;
    begins(&l, NOW, METER_PASSED, 0);
    begins(&l, NOW, METER_PASSED, 0);
    begins(&l, NOW, METER_INFLIGHT, 1000); /* takes nothing of the minute */
    meter_end(m);
    begins(&l, NOW, METER_PASSED, 0);
    begins(&l, NOW, METER_INFLIGHT, 1000);
    meter_end(m);
    begins(&l, NOW, METER_PASSED, 0);
    meter_end(m);
    begins(&l, NOW, METER_RATE, 15000); /* takes no place */
    l.max_inflight = 1;                 /* a reload: one is there already */
    begins(&l, NOW + 60000, METER_INFLIGHT, 1000);
    meter_end(m);
    begins(&l, NOW + 60000, METER_PASSED, 0);
    meter_end(m);
    struct meter_state s = read_at(&l, JAN_15);
    assert_int_equal(s.inflight, 0);
    assert_int_equal(s.requests, 5);
    assert_int_equal(s.refused, 4);
}

/* ---- tokens a minute ---- */

static void test_tpm(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.tpm = 600; /* ten a second */
    struct meter_cost a = reserves(&l, NOW, cost(599, 0));
    (void)reserves_at(&l, NOW, JAN_15, cost(2, 0), METER_TOKEN_RATE, 100);
    struct meter_cost b = reserves(&l, NOW, cost(1, 0));
    (void)reserves_at(&l, NOW, JAN_15, cost(1, 0), METER_TOKEN_RATE, 100);
    (void)reserves_at(&l, NOW + 99, JAN_15, cost(1, 0), METER_TOKEN_RATE, 1);
    struct meter_cost c = reserves(&l, NOW + 100, cost(1, 0));
    struct meter_cost zero = reserves(&l, NOW + 100, cost(0, 0));
    assert_int_equal(read_at(&l, JAN_15).refused, 3);
    settles(&l, b, cost(1, 0));
    settles(&l, a, cost(99, 0)); /* 500 come back */
    settles(&l, c, cost(1, 0));
    settles(&l, zero, cost(0, 0));
    assert_int_equal(tokens_there(&l, NOW + 100), 500);
    assert_int_equal(tokens_there(&l, NOW + 10099), 599);
    assert_int_equal(tokens_there(&l, NOW + 10100), 600);
    assert_int_equal(tokens_there(&l, NOW + 1000000), 600);
}

/* One that asks for more than a minute has waits for a whole minute and takes it. */
static void test_tpm_larger_than_a_minute(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.tpm = 100;
    (void)reserves(&l, NOW, cost(1, 0));
    (void)reserves_at(&l, NOW, JAN_15, cost(101, 0), METER_TOKEN_RATE, 600);
    (void)reserves_at(&l, NOW, JAN_15, cost(UINT64_MAX, 0), METER_TOKEN_RATE, 600);
    struct meter_cost c = reserves(&l, NOW + 600, cost(UINT64_MAX, 0));
    assert_int_equal(c.taken, 100);
    assert_int_equal(tokens_there(&l, NOW + 600), 0);
    settles(&l, c, cost(5000, 0)); /* less than claimed, more than a minute: that was the price */
    assert_int_equal(tokens_there(&l, NOW + 600), 0);
    assert_int_equal(tokens_there(&l, NOW + 60600), 100);
    c = reserves(&l, NOW + 60600, cost(1000, 0));
    settles(&l, c, cost(40, 0));
    assert_int_equal(tokens_there(&l, NOW + 60600), 60);
}

/* What a call costs above its claim is owed, to the token, and a whole minute at most. */
static void test_tpm_debt(void **state)
{
    (void)state;
    static const struct {
        uint64_t claim;
        uint64_t used;
        int64_t level; /* after it; the minute has 60: one a second */
    } cases[] = {
        {10, 10, 50},   {10, 61, -1},          {10, 60, 0},   {60, 61, -1},  {60, 120, -60},
        {60, 121, -60}, {60, UINT64_MAX, -60}, {0, 119, -59}, {0, 120, -60}, {0, 121, -60},
        {100, 90, 0},   {100, 101, -1},        {100, 30, 30}, {1, 0, 60},    {60, 0, 60}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct meter_limits l = none;
        l.tpm = 60;
        meter_unref(m);
        m = meter_new();
        assert_non_null(m);
        struct meter_cost c = reserves(&l, NOW, cost(cases[i].claim, 0));
        settles(&l, c, cost(cases[i].used, 0));
        int64_t wait = cases[i].level >= 1 ? 0 : (1 - cases[i].level) * 1000;
        if (wait > 0) {
            (void)reserves_at(&l, NOW, JAN_15, cost(1, 0), METER_TOKEN_RATE, (uint32_t)wait);
            (void)reserves_at(&l, NOW + (uint64_t)wait - 1, JAN_15, cost(1, 0), METER_TOKEN_RATE,
                              1);
        } else {
            assert_int_equal(tokens_there(&l, NOW), cases[i].level);
        }
        assert_int_equal(tokens_there(&l, NOW + (uint64_t)wait), wait > 0 ? 1 : cases[i].level);
        /* A whole minute is there again when debt and minute are paid, not a millisecond before. */
        uint64_t paid = NOW + (uint64_t)(60 - cases[i].level) * 1000;
        assert_int_equal(tokens_there(&l, paid), 60);
        if (cases[i].level < 60) {
            meter_unref(m);
            m = meter_new();
            assert_non_null(m);
            c = reserves(&l, NOW, cost(cases[i].claim, 0));
            settles(&l, c, cost(cases[i].used, 0));
            assert_int_equal(tokens_there(&l, paid - 1), 59);
        }
    }
}

/* Debts do not add up beyond a minute. */
static void test_tpm_debts_of_many(void **state)
{
    (void)state;
    struct meter_limits l = none;
    struct meter_cost claims[10];

    l.tpm = 60;
    for (size_t i = 0; i < 10; i++) {
        claims[i] = reserves(&l, NOW, cost(6, 0));
    }
    for (size_t i = 0; i < 10; i++) {
        settles(&l, claims[i], cost(1000, 0));
    }
    (void)reserves_at(&l, NOW, JAN_15, cost(60, 0), METER_TOKEN_RATE, 120000);
    (void)reserves_at(&l, NOW + 119999, JAN_15, cost(60, 0), METER_TOKEN_RATE, 1);
    (void)reserves(&l, NOW + 120000, cost(60, 0));
}

/* What was not taken is not given back; what was taken is, whatever the limit is now. */
static void test_tpm_changes(void **state)
{
    (void)state;
    struct meter_limits l = none;
    struct meter_limits larger = none;
    struct meter_limits smaller = none;

    l.tpm = 100;
    larger.tpm = 1000;
    smaller.tpm = 10;
    struct meter_cost without = reserves(&none, NOW, cost(80, 0)); /* no limit yet */
    assert_int_equal(without.taken, 0);
    (void)reserves(&l, NOW, cost(90, 0));
    settles(&l, without, cost(0, 0));
    assert_int_equal(tokens_there(&l, NOW), 10); /* and not 90 */

    struct meter_cost huge = reserves_at(&l, NOW + 60000, JAN_15, cost(5000, 0), METER_PASSED, 0);
    assert_int_equal(tokens_there(&larger, NOW + 60000), 900);
    settles(&larger, huge, cost(50, 0));
    assert_int_equal(tokens_there(&larger, NOW + 60000), 950); /* 100 were taken, not 5000 */

    struct meter_cost c = reserves(&larger, NOW + 180000, cost(1000, 0));
    assert_int_equal(c.taken, 1000);
    (void)reserves_at(&smaller, NOW + 180000, JAN_15, cost(10, 0), METER_TOKEN_RATE, 120000);
    settles(&smaller, c, cost(1000, 0));
    (void)reserves_at(&smaller, NOW + 180000, JAN_15, cost(10, 0), METER_TOKEN_RATE, 120000);
    (void)reserves(&smaller, NOW + 300000, cost(10, 0));
    settles(&none, c, cost(UINT64_MAX, 0)); /* no limit any more: nothing is owed */
    assert_int_equal(tokens_there(&smaller, NOW + 306000), 1);
}

/* A large debt under a large limit is a small one under a small limit. */
static void test_tpm_debt_under_a_new_limit(void **state)
{
    (void)state;
    struct meter_limits most = none;
    struct meter_limits least = none;

    most.tpm = UINT32_MAX;
    least.tpm = 1;
    struct meter_cost c = reserves(&most, NOW, cost(UINT64_MAX, 0));
    struct meter_cost d = reserves_at(&most, NOW, JAN_15, cost(0, 0), METER_PASSED, 0);
    settles(&most, c, cost(UINT64_MAX, 0));
    settles(&most, d, cost(UINT64_MAX, 0));
    (void)reserves_at(&most, NOW, JAN_15, cost(UINT64_MAX, 0), METER_TOKEN_RATE, 120000);
    settles(&least, reserves(&none, NOW, cost(0, 0)), cost(5, 0)); /* forgives nothing */
    (void)reserves_at(&most, NOW, JAN_15, cost(UINT64_MAX, 0), METER_TOKEN_RATE, 120000);
    (void)reserves_at(&least, NOW, JAN_15, cost(1, 0), METER_TOKEN_RATE, 120000);
    (void)reserves(&least, NOW + 120000, cost(1, 0));
}

/* ---- budgets ---- */

static void test_budget_edges(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.budget_nano = 0;
    refuses(&l, cost(1, 1), METER_BUDGET_NANO);
    settles(&l, reserves(&l, NOW, cost(1, 0)), cost(0, 0)); /* free of charge */
    l.budget_nano = METER_NO_BUDGET;
    l.budget_tokens = 0;
    refuses(&l, cost(1, 0), METER_BUDGET_TOKENS);
    settles(&l, reserves(&l, NOW, cost(0, 5)), cost(0, 0));

    l.budget_nano = 100;
    l.budget_tokens = 50;
    refuses(&l, cost(0, 101), METER_BUDGET_NANO);
    refuses(&l, cost(51, 0), METER_BUDGET_TOKENS);
    refuses(&l, cost(UINT64_MAX, 0), METER_BUDGET_TOKENS);
    refuses(&l, cost(0, UINT64_MAX), METER_BUDGET_NANO);
    struct meter_cost a = reserves(&l, NOW, cost(50, 100)); /* exactly */
    refuses(&l, cost(0, 1), METER_BUDGET_NANO);
    refuses(&l, cost(1, 0), METER_BUDGET_TOKENS);
    settles(&l, a, cost(20, 40));
    refuses(&l, cost(31, 60), METER_BUDGET_TOKENS);
    refuses(&l, cost(30, 61), METER_BUDGET_NANO);
    a = reserves(&l, NOW, cost(30, 60));
    settles(&l, a, cost(30, 60)); /* exactly used */
    refuses(&l, cost(1, 0), METER_BUDGET_TOKENS);
    settles(&l, reserves(&l, NOW, cost(0, 0)), cost(1, 1)); /* over it */
    refuses(&l, cost(0, 0), METER_BUDGET_NANO);
    struct meter_state s = read_at(&l, JAN_15);
    assert_int_equal(s.spent_nano, 101);
    assert_int_equal(s.spent_tokens, 51);
    assert_int_equal(s.reserved_nano, 0);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.refused, 12);
    l.budget_nano = 102; /* a reload: one is left */
    l.budget_tokens = 52;
    (void)reserves(&l, NOW, cost(1, 1));
}

/* A budget that does not suffice takes nothing of the minute, and the other way round. */
static void test_refused_takes_nothing(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.tpm = 100;
    l.budget_tokens = 150;
    refuses(&l, cost(151, 0), METER_BUDGET_TOKENS);
    assert_int_equal(tokens_there(&l, NOW), 100);
    (void)reserves(&l, NOW, cost(60, 0));
    (void)reserves_at(&l, NOW, JAN_15, cost(90, 0), METER_TOKEN_RATE, 30000);
    assert_int_equal(read_at(&l, JAN_15).reserved_tokens, 60);
    assert_int_equal(tokens_there(&l, NOW), 40);
}

static void test_unpriced(void **state)
{
    (void)state;
    struct meter_limits l = none;
    const struct meter_cost unknown = {.tokens = 5, .nano = 7};

    struct meter_cost a = reserves(&l, NOW, unknown);
    assert_int_equal(read_at(&l, JAN_15).reserved_nano, 0); /* not known counts as 0 */
    settles(&l, a, unknown);
    assert_int_equal(read_at(&l, JAN_15).spent_nano, 0);
    assert_int_equal(read_at(&l, JAN_15).spent_tokens, 5);
    l.budget_tokens = 10;
    (void)reserves(&l, NOW, unknown);
    l.budget_nano = 1000;
    refuses(&l, unknown, METER_UNPRICED);
    (void)reserves(&l, NOW, cost(0, 1000));
}

/* In whatever order calls end, what is left is the same. */
static void test_order_of_release(void **state)
{
    (void)state;
    static const size_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    struct meter_limits l = none;

    l.budget_tokens = 60;
    for (size_t o = 0; o < 4; o++) {
        struct meter_cost c[3];
        meter_restore(m, &l, JAN_15, 0, 0);
        for (size_t i = 0; i < 3; i++) {
            c[i] = reserves(&l, NOW, cost(10 * (i + 1), 0));
        }
        refuses(&l, cost(1, 0), METER_BUDGET_TOKENS);
        uint64_t held = 60;
        uint64_t spent = 0;
        for (size_t i = 0; i < 3; i++) {
            size_t k = orders[o][i];
            settles(&l, c[k], cost(k + 1, 0));
            held -= 10 * (k + 1);
            spent += k + 1;
            struct meter_state s = read_at(&l, JAN_15);
            assert_int_equal(s.reserved_tokens, held);
            assert_int_equal(s.spent_tokens, spent);
        }
        assert_int_equal(spent, 6);
    }
}

/* Sums of what does not fit are cut, do not wrap, and come back to zero. */
static void test_huge(void **state)
{
    (void)state;
    struct meter_limits l = none;
    struct meter_cost c = cost(UINT64_MAX, UINT64_MAX);
    const unsigned many = 40000; /* of 2^50: more than 2^64 */

    for (unsigned i = 0; i < many; i++) {
        c = reserves(&l, NOW, c);
        assert_true(read_at(&l, JAN_15).reserved_tokens >= CUT);
    }
    assert_true(read_at(&l, JAN_15).reserved_nano == UINT64_MAX);
    l.budget_tokens = UINT64_MAX - 1;
    refuses(&l, cost(1, 0), METER_BUDGET_TOKENS); /* a reload that brings a budget */
    l.budget_tokens = METER_NO_BUDGET;
    for (unsigned i = 0; i < many; i++) {
        settles(&l, c, cost(UINT64_MAX, UINT64_MAX));
    }
    struct meter_state s = read_at(&l, JAN_15);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.reserved_nano, 0);
    assert_true(s.spent_tokens == CUT && s.spent_nano == CUT);
    meter_restore(m, &l, JAN_15, UINT64_MAX, UINT64_MAX);
    s = read_at(&l, JAN_15);
    assert_true(s.spent_tokens == CUT && s.spent_nano == CUT);
    l.budget_nano = UINT64_C(1000000000000000); /* the largest of a configuration */
    refuses(&l, cost(0, 1), METER_BUDGET_NANO);
}

/* ---- periods ---- */

static void test_period_start(void **state)
{
    (void)state;
    static const struct {
        int64_t wall;
        int64_t day;
        int64_t month;
    } cases[] = {
        {0, 0, 0},
        {1, 0, 0},
        {DAY - 1, 0, 0},
        {DAY, DAY, 0},
        {-1, -DAY, -31 * DAY},
        {-DAY, -DAY, -31 * DAY},
        {JAN_15, JAN_15, JAN_1},
        {JAN_15 - 1, JAN_15 - DAY, JAN_1},
        {JAN_15 + DAY - 1, JAN_15, JAN_1},
        {JAN_1 - 1, JAN_1 - DAY, JAN_1 - 31 * DAY},
        {JAN_1, JAN_1, JAN_1},
        {FEB_1 - 1, FEB_1 - DAY, JAN_1},
        {FEB_1, FEB_1, FEB_1},
        {FEB_1 + 28 * DAY - 1, FEB_1 + 27 * DAY, FEB_1},
        {FEB_1 + 28 * DAY, FEB_1 + 28 * DAY, FEB_1 + 28 * DAY},
        {INT64_C(1709251199999), INT64_C(1709164800000), INT64_C(1706745600000)}, /* 29 Feb 2024 */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(meter_period_start(METER_TOTAL, cases[i].wall), 0);
        assert_int_equal(meter_period_start(METER_DAY, cases[i].wall), cases[i].day);
        assert_int_equal(meter_period_start(METER_MONTH, cases[i].wall), cases[i].month);
    }
}

static void spend_at(const struct meter_limits *l, int64_t wall, uint64_t tokens)
{
    struct meter_cost used = cost(tokens, 2 * tokens);
    struct meter_cost c = reserves_at(l, NOW, wall, cost(0, 0), METER_PASSED, 0);

    meter_settle(m, l, wall, &c, &used);
}

/* What was reserved in one period is settled, and charged, in the next. */
static void test_roll_over(void **state)
{
    (void)state;
    static const struct {
        enum meter_period period;
        int64_t last; /* moment of it */
    } cases[] = {{METER_DAY, JAN_15 + DAY - 1}, {METER_MONTH, FEB_1 - 1}};

    for (size_t i = 0; i < 2; i++) {
        struct meter_limits l = none;
        int64_t last = cases[i].last;
        l.period = cases[i].period;
        l.budget_tokens = 100;
        meter_restore(m, &l, JAN_15, 0, 0);
        spend_at(&l, JAN_15, 30);
        struct meter_cost a = reserves_at(&l, NOW, JAN_15, cost(50, 0), METER_PASSED, 0);
        (void)reserves_at(&l, NOW, last, cost(21, 0), METER_BUDGET_TOKENS, 0);
        assert_int_equal(read_at(&l, last).spent_tokens, 30);
        assert_int_equal(read_at(&l, last).spent_nano, 60);
        (void)reserves_at(&l, NOW, last + 1, cost(51, 0), METER_BUDGET_TOKENS, 0);
        struct meter_state s = read_at(&l, last + 1);
        assert_int_equal(s.spent_tokens, 0);
        assert_int_equal(s.spent_nano, 0);
        assert_int_equal(s.reserved_tokens, 50);
        struct meter_cost used = cost(40, 9);
        meter_settle(m, &l, last + 2, &a, &used);
        s = read_at(&l, last + 3);
        assert_int_equal(s.spent_tokens, 40);
        assert_int_equal(s.spent_nano, 9);
        assert_int_equal(s.reserved_tokens, 0);
        meter_unref(m);
        m = meter_new();
        assert_non_null(m);
    }
}

static void test_total_never_rolls_over(void **state)
{
    (void)state;
    struct meter_limits l = none;

    spend_at(&l, JAN_15, 5);
    assert_int_equal(read_at(&l, JAN_15 + 10000 * DAY).spent_tokens, 5);
    assert_int_equal(read_at(&l, 0).spent_tokens, 5);
}

/* At midnight one thread's clock may be behind another's: the day begins once. */
static void test_clock_goes_back(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.period = METER_DAY;
    spend_at(&l, JAN_15 - 1, 1);
    spend_at(&l, JAN_15, 10);
    spend_at(&l, JAN_15 - 1, 20); /* the other thread */
    assert_int_equal(read_at(&l, JAN_15 + 1).spent_tokens, 30);
    assert_int_equal(read_at(&l, JAN_15 - DAY).spent_tokens, 30);
    assert_int_equal(read_at(&l, JAN_15).spent_tokens, 30);
    /* One that was years ahead: periods go on from where it is now. */
    spend_at(&l, JAN_15 + 3650 * DAY, 7);
    assert_int_equal(read_at(&l, JAN_15 + 5).spent_tokens, 7);
    assert_int_equal(read_at(&l, JAN_15 + DAY).spent_tokens, 0);
}

/* Spent amounts stay with a reload that makes the period longer, and end with a new one. */
static void test_period_changes(void **state)
{
    (void)state;
    struct meter_limits day = none;
    struct meter_limits month = none;

    day.period = METER_DAY;
    month.period = METER_MONTH;
    spend_at(&day, JAN_15 + 5, 10);
    assert_int_equal(read_at(&month, JAN_15 + 6).spent_tokens, 10);
    assert_int_equal(read_at(&day, JAN_15 + 7).spent_tokens, 10);
    assert_int_equal(read_at(&none, JAN_15 + 8).spent_tokens, 10);
    assert_int_equal(read_at(&month, FEB_1 - 1).spent_tokens, 10);
    assert_int_equal(read_at(&month, FEB_1).spent_tokens, 0);
}

static void test_restore(void **state)
{
    (void)state;
    struct meter_limits l = none;

    l.period = METER_DAY;
    l.budget_nano = 100;
    l.budget_tokens = 50;
    meter_restore(m, &l, JAN_15 + 5, 99, 49);
    struct meter_state s = read_at(&l, JAN_15 + 6);
    assert_int_equal(s.spent_nano, 99);
    assert_int_equal(s.spent_tokens, 49);
    assert_int_equal(s.requests, 0);
    refuses(&l, cost(1, 2), METER_BUDGET_NANO);
    refuses(&l, cost(2, 1), METER_BUDGET_TOKENS);
    (void)reserves_at(&l, NOW, JAN_15 + 7, cost(1, 1), METER_PASSED, 0);
    assert_int_equal(read_at(&l, JAN_15 + DAY).spent_nano, 0);
    assert_int_equal(read_at(&l, JAN_15 + DAY).reserved_nano, 1);
}

static void test_no_memory(void **state)
{
    (void)state;
    torture_fail_after(0);
    assert_null(meter_new());
    torture_off();
    assert_null(meter_ref(NULL));
    meter_unref(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_limits),
        TEST(test_rpm),
        TEST(test_rpm_refills_by_the_millisecond),
        TEST(test_rpm_is_full_at_most),
        TEST(test_rpm_changes),
        TEST(test_inflight),
        TEST(test_tpm),
        TEST(test_tpm_larger_than_a_minute),
        TEST(test_tpm_debt),
        TEST(test_tpm_debts_of_many),
        TEST(test_tpm_changes),
        TEST(test_tpm_debt_under_a_new_limit),
        TEST(test_budget_edges),
        TEST(test_refused_takes_nothing),
        TEST(test_unpriced),
        TEST(test_order_of_release),
        TEST(test_huge),
        TEST(test_period_start),
        TEST(test_roll_over),
        TEST(test_total_never_rolls_over),
        TEST(test_clock_goes_back),
        TEST(test_period_changes),
        TEST(test_restore),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
