/*
 * Meters; see meter.h. A rate is a bucket that holds one minute's worth and fills evenly. Its level
 * is counted in units of which one request, or one token, has 60 000: then a limit of N a minute
 * adds N units a millisecond, and nothing is lost to rounding. A bucket of tokens may go below
 * zero when a call cost more than was taken for it; later calls pay.
 */
#include "gate/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define UNITS   INT64_C(60000) /* of one request or token; milliseconds of a minute */
#define DAY_MS  INT64_C(86400000)
#define BUSY_MS 1000u               /* when too many are in flight: nobody knows when one ends */
#define MOST    (UINT64_C(1) << 50) /* amounts are cut to it: sums do not overflow */

struct bucket {
    int64_t level;
    uint64_t at; /* monotonic ms; 0: never used, so full */
};

struct meter {
    atomic_uint refs;
    pthread_mutex_t lock;
    struct bucket requests;
    struct bucket tokens;
    int64_t period_start;
    struct meter_state state;
};

struct meter *meter_new(void)
{
    struct meter *m = calloc(1, sizeof(*m));

    if (m != NULL && pthread_mutex_init(&m->lock, NULL) != 0) {
        free(m);
        return NULL;
    }
    if (m != NULL) {
        atomic_init(&m->refs, 1);
    }
    return m;
}

struct meter *meter_ref(struct meter *m)
{
    if (m != NULL) {
        atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    }
    return m;
}

void meter_unref(struct meter *m)
{
    if (m != NULL && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) {
        pthread_mutex_destroy(&m->lock);
        free(m);
    }
}

/* ---- rates ---- */

static void refill(struct bucket *b, uint32_t per_minute, uint64_t now)
{
    int64_t full = (int64_t)per_minute * UNITS;
    uint64_t passed = now > b->at ? now - b->at : 0;

    if (b->at == 0 || passed >= 2 * (uint64_t)UNITS) { /* below zero by at most a minute's worth */
        b->level = full;
    } else {
        b->level += (int64_t)per_minute * (int64_t)passed;
        b->level = b->level < full ? b->level : full;
    }
    b->at = now > b->at ? now : b->at;
}

/* 0: `units` are there; else the milliseconds until they are. */
static uint32_t wait_for(const struct bucket *b, uint32_t per_minute, int64_t units)
{
    if (b->level >= units) {
        return 0;
    }
    uint64_t missing = (uint64_t)(units - b->level);
    uint64_t ms = (missing + per_minute - 1) / per_minute;
    return (uint32_t)(ms < METER_RETRY_MIN_MS ? METER_RETRY_MIN_MS : ms);
}

/* A call that asks for more than a minute has takes the whole minute. */
static int64_t token_units(uint64_t tokens, uint32_t per_minute)
{
    return (int64_t)(tokens < per_minute ? tokens : per_minute) * UNITS;
}

/* ---- budgets ---- */

int64_t meter_period_start(enum meter_period period, int64_t wall_ms)
{
    int64_t day = wall_ms - wall_ms % DAY_MS;
    time_t seconds = (time_t)(day / 1000);
    struct tm tm;

    if (period == METER_TOTAL) {
        return 0;
    }
    if (period == METER_DAY || gmtime_r(&seconds, &tm) == NULL) {
        return day;
    }
    return day - (tm.tm_mday - 1) * DAY_MS;
}

/* A new period begins with nothing spent; what is reserved is settled in it. */
static void enter_period(struct meter *m, const struct meter_limits *l, int64_t wall_ms)
{
    int64_t start = meter_period_start(l->period, wall_ms);

    if (start > m->period_start) {
        m->state.spent_nano = 0;
        m->state.spent_tokens = 0;
    }
    m->period_start = start;
}

static uint64_t cut(uint64_t amount)
{
    return amount < MOST ? amount : MOST;
}

static bool fits(uint64_t budget, uint64_t spent, uint64_t reserved, uint64_t more)
{
    return budget == METER_NO_BUDGET ||
           (spent + reserved <= budget && more <= budget - spent - reserved);
}

static enum meter_answer check_budgets(const struct meter *m, const struct meter_limits *l,
                                       const struct meter_cost *cost)
{
    const struct meter_state *s = &m->state;

    if (l->budget_nano != METER_NO_BUDGET && !cost->priced) {
        return METER_UNPRICED;
    }
    if (!fits(l->budget_nano, s->spent_nano, s->reserved_nano, cut(cost->nano))) {
        return METER_BUDGET_NANO;
    }
    return fits(l->budget_tokens, s->spent_tokens, s->reserved_tokens, cut(cost->tokens))
               ? METER_PASSED
               : METER_BUDGET_TOKENS;
}

void meter_restore(struct meter *m, const struct meter_limits *l, int64_t wall_ms, uint64_t nano,
                   uint64_t tokens)
{
    pthread_mutex_lock(&m->lock);
    m->period_start = meter_period_start(l->period, wall_ms);
    m->state.spent_nano = cut(nano);
    m->state.spent_tokens = cut(tokens);
    pthread_mutex_unlock(&m->lock);
}

/* ---- requests ---- */

static enum meter_answer begin(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                               uint32_t *retry_ms)
{
    if (l->max_inflight != 0 && m->state.inflight >= l->max_inflight) {
        *retry_ms = BUSY_MS;
        return METER_INFLIGHT;
    }
    if (l->rpm != 0) {
        refill(&m->requests, l->rpm, now_ms);
        *retry_ms = wait_for(&m->requests, l->rpm, UNITS);
        if (*retry_ms != 0) {
            return METER_RATE;
        }
        m->requests.level -= UNITS;
    }
    m->state.inflight++;
    m->state.requests++;
    return METER_PASSED;
}

enum meter_answer meter_begin(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                              uint32_t *retry_ms)
{
    *retry_ms = 0;
    pthread_mutex_lock(&m->lock);
    enum meter_answer answer = begin(m, l, now_ms, retry_ms);
    m->state.refused += answer != METER_PASSED ? 1 : 0;
    pthread_mutex_unlock(&m->lock);
    return answer;
}

void meter_end(struct meter *m)
{
    pthread_mutex_lock(&m->lock);
    m->state.inflight--;
    pthread_mutex_unlock(&m->lock);
}

static enum meter_answer reserve(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                                 const struct meter_cost *cost, uint32_t *retry_ms)
{
    enum meter_answer answer = check_budgets(m, l, cost);

    if (answer != METER_PASSED) {
        return answer;
    }
    if (l->tpm != 0) {
        int64_t units = token_units(cost->tokens, l->tpm);
        refill(&m->tokens, l->tpm, now_ms);
        *retry_ms = wait_for(&m->tokens, l->tpm, units);
        if (*retry_ms != 0) {
            return METER_TOKEN_RATE;
        }
        m->tokens.level -= units;
    }
    m->state.reserved_nano += cut(cost->nano);
    m->state.reserved_tokens += cut(cost->tokens);
    return METER_PASSED;
}

enum meter_answer meter_reserve(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                                int64_t wall_ms, const struct meter_cost *cost, uint32_t *retry_ms)
{
    *retry_ms = 0;
    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    enum meter_answer answer = reserve(m, l, now_ms, cost, retry_ms);
    m->state.refused += answer != METER_PASSED ? 1 : 0;
    pthread_mutex_unlock(&m->lock);
    return answer;
}

/* More or less than was taken from the minute; a debt is at most another minute. */
static void correct_rate(struct bucket *b, uint32_t per_minute, uint64_t claimed, uint64_t used)
{
    int64_t full = (int64_t)per_minute * UNITS;
    int64_t back = token_units(claimed, per_minute) - token_units(used, per_minute);

    if (used > claimed && used > per_minute) {
        back = -full; /* all that can be owed */
    }
    b->level += back;
    b->level = b->level > full ? full : b->level < -full ? -full : b->level;
}

void meter_settle(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                  const struct meter_cost *claim, const struct meter_cost *used)
{
    struct meter_state *s = &m->state;

    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    s->reserved_nano -= cut(claim->nano);
    s->reserved_tokens -= cut(claim->tokens);
    s->spent_nano = cut(s->spent_nano + cut(used->nano));
    s->spent_tokens = cut(s->spent_tokens + cut(used->tokens));
    if (l->tpm != 0) {
        correct_rate(&m->tokens, l->tpm, claim->tokens, used->tokens);
    }
    pthread_mutex_unlock(&m->lock);
}

void meter_read(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                struct meter_state *out)
{
    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    *out = m->state;
    pthread_mutex_unlock(&m->lock);
}
