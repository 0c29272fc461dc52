/*
 * Meters; see meter.h. A rate is a bucket that holds one minute's worth and fills evenly. What is
 * missing in it is counted in units of which one request, or one token, has 60 000: then a limit of
 * N a minute adds N units a millisecond, and nothing is lost to rounding. More may be missing of
 * tokens than a minute has when a call cost more than was taken for it; later calls pay.
 *
 * What is missing, and not what is there: so a bucket is full whatever the limit becomes.
 */
#include "gate/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define UNITS   INT64_C(60000) /* of one request or token; milliseconds of a minute */
#define DAY_MS  INT64_C(86400000)
#define BUSY_MS 1000u               /* when too many are in flight: nobody knows when one ends */
#define MOST    (UINT64_C(1) << 50) /* amounts are cut to it: more than any budget */
#define MINUTES 2                   /* of tokens that can be missing: one, and one that is owed */

struct bucket {
    int64_t missing; /* units; 0: full */
    uint64_t at;     /* monotonic ms */
};

/* What is reserved: of any number of calls, so that 64 bits need not do. */
struct sum {
    uint64_t low;
    uint64_t high;
};

struct meter {
    atomic_uint refs;
    pthread_mutex_t lock;
    struct bucket requests;
    struct bucket tokens;
    struct sum reserved_nano;
    struct sum reserved_tokens;
    int64_t period_start;
    struct meter_state state; /* without what is reserved */
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

/* `minutes` of the limit can be missing at most: a limit before may have been larger. */
static void refill(struct bucket *b, uint32_t per_minute, int64_t minutes, uint64_t now)
{
    int64_t most = (int64_t)per_minute * UNITS * minutes;
    uint64_t passed = now > b->at ? now - b->at : 0;
    int64_t ms = passed < (uint64_t)(UNITS * minutes) ? (int64_t)passed : UNITS * minutes;

    b->missing = b->missing < most ? b->missing : most;
    b->missing -= (int64_t)per_minute * ms;
    b->missing = b->missing > 0 ? b->missing : 0;
    b->at = now > b->at ? now : b->at;
}

/* 0: `units` are there; else the milliseconds until they are. */
static uint32_t wait_for(const struct bucket *b, uint32_t per_minute, int64_t units)
{
    int64_t lacks = units + b->missing - (int64_t)per_minute * UNITS;

    return lacks <= 0 ? 0 : (uint32_t)((lacks + per_minute - 1) / per_minute);
}

/* ---- budgets ---- */

int64_t meter_period_start(enum meter_period period, int64_t wall_ms)
{
    int64_t in_day = wall_ms % DAY_MS;
    int64_t day = wall_ms - in_day - (in_day < 0 ? DAY_MS : 0);
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

/*
 * A new period begins with nothing spent; what is reserved is settled in it. A clock that is a
 * little behind (another thread's, or one that was set) does not lead back: the period would begin
 * once more, with nothing spent. One that was far ahead does.
 */
static void enter_period(struct meter *m, const struct meter_limits *l, int64_t wall_ms)
{
    int64_t start = meter_period_start(l->period, wall_ms);

    if (start > m->period_start) {
        m->state.spent_nano = 0;
        m->state.spent_tokens = 0;
    }
    if (start > m->period_start || wall_ms < m->period_start - DAY_MS) {
        m->period_start = start;
    }
}

static uint64_t cut(uint64_t amount)
{
    return amount < MOST ? amount : MOST;
}

static uint64_t money(const struct meter_cost *cost)
{
    return cost->priced ? cut(cost->nano) : 0;
}

static void sum_add(struct sum *s, uint64_t amount)
{
    s->low += amount;
    s->high += s->low < amount ? 1 : 0;
}

static void sum_sub(struct sum *s, uint64_t amount)
{
    s->high -= s->low < amount ? 1 : 0;
    s->low -= amount;
}

static uint64_t sum_value(const struct sum *s)
{
    return s->high == 0 ? s->low : UINT64_MAX;
}

static bool fits(uint64_t budget, uint64_t spent, const struct sum *reserved, uint64_t more)
{
    uint64_t held = sum_value(reserved);

    return budget == METER_NO_BUDGET ||
           (spent <= budget && held <= budget - spent && more <= budget - spent - held);
}

static enum meter_answer check_budgets(const struct meter *m, const struct meter_limits *l,
                                       const struct meter_cost *cost)
{
    if (l->budget_nano != METER_NO_BUDGET && !cost->priced) {
        return METER_UNPRICED;
    }
    if (!fits(l->budget_nano, m->state.spent_nano, &m->reserved_nano, money(cost))) {
        return METER_BUDGET_NANO;
    }
    return fits(l->budget_tokens, m->state.spent_tokens, &m->reserved_tokens, cut(cost->tokens))
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
        refill(&m->requests, l->rpm, 1, now_ms);
        *retry_ms = wait_for(&m->requests, l->rpm, UNITS);
        if (*retry_ms != 0) {
            return METER_RATE;
        }
        m->requests.missing += UNITS;
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
                                 struct meter_cost *claim, uint32_t *retry_ms)
{
    enum meter_answer answer = check_budgets(m, l, claim);

    if (answer != METER_PASSED) {
        return answer;
    }
    if (l->tpm != 0) {
        /* one that asks for more than a minute has takes the whole minute */
        uint32_t taken = claim->tokens < l->tpm ? (uint32_t)claim->tokens : l->tpm;
        refill(&m->tokens, l->tpm, MINUTES, now_ms);
        *retry_ms = wait_for(&m->tokens, l->tpm, taken * UNITS);
        if (*retry_ms != 0) {
            return METER_TOKEN_RATE;
        }
        m->tokens.missing += taken * UNITS;
        claim->taken = taken;
    }
    sum_add(&m->reserved_nano, money(claim));
    sum_add(&m->reserved_tokens, cut(claim->tokens));
    return METER_PASSED;
}

enum meter_answer meter_reserve(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                                int64_t wall_ms, struct meter_cost *claim, uint32_t *retry_ms)
{
    *retry_ms = 0;
    claim->taken = 0;
    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    enum meter_answer answer = reserve(m, l, now_ms, claim, retry_ms);
    m->state.refused += answer != METER_PASSED ? 1 : 0;
    pthread_mutex_unlock(&m->lock);
    return answer;
}

/* What was taken and not used goes back; what was used above the claim is owed. */
static void correct_rate(struct bucket *b, uint32_t per_minute, const struct meter_cost *claim,
                         uint64_t used)
{
    int64_t most = (int64_t)per_minute * UNITS * MINUTES;

    if (used > claim->tokens) {
        uint64_t more = used - claim->tokens;
        int64_t owed = more < (uint64_t)per_minute * MINUTES ? (int64_t)more * UNITS : most;
        int64_t missing = b->missing + owed < most ? b->missing + owed : most;
        b->missing = missing > b->missing ? missing : b->missing;
    } else if (used < claim->taken) {
        b->missing -= (int64_t)(claim->taken - used) * UNITS;
        b->missing = b->missing > 0 ? b->missing : 0;
    }
}

void meter_settle(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                  const struct meter_cost *claim, const struct meter_cost *used)
{
    struct meter_state *s = &m->state;

    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    sum_sub(&m->reserved_nano, money(claim));
    sum_sub(&m->reserved_tokens, cut(claim->tokens));
    s->spent_nano = cut(s->spent_nano + money(used));
    s->spent_tokens = cut(s->spent_tokens + cut(used->tokens));
    if (l->tpm != 0) {
        correct_rate(&m->tokens, l->tpm, claim, used->tokens);
    }
    pthread_mutex_unlock(&m->lock);
}

void meter_read(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                struct meter_state *out)
{
    pthread_mutex_lock(&m->lock);
    enter_period(m, l, wall_ms);
    *out = m->state;
    out->reserved_nano = sum_value(&m->reserved_nano);
    out->reserved_tokens = sum_value(&m->reserved_tokens);
    pthread_mutex_unlock(&m->lock);
}
