/*
 * What a grant has used of its limits: requests and tokens a minute, requests in flight, a budget
 * in money and in tokens. All limits of a grant are checked and taken in one step under one lock,
 * held for some additions: of a burst, exactly as many pass as fit. Any thread; no I/O.
 *
 * Time is given by the caller: monotonic milliseconds for rates, wall-clock milliseconds for the
 * period of a budget. Money is in billionths of a US dollar.
 *
 * Limits are given with each call and may be others than before: a grant that replaces one of the
 * same name counts on where that one was. What was used stays used, of a rate at most all of it (of
 * tokens: and a debt of another minute).
 */
#ifndef TACTUS_GATE_METER_H
#define TACTUS_GATE_METER_H

#include <stdbool.h>
#include <stdint.h>

#define METER_NO_BUDGET UINT64_MAX

enum meter_period { METER_TOTAL, METER_DAY, METER_MONTH }; /* of the calendar, UTC */

struct meter_limits {
    uint32_t rpm;          /* requests a minute, as many at once; 0: no limit */
    uint32_t tpm;          /* tokens a minute; 0: no limit */
    uint32_t max_inflight; /* 0: no limit */
    uint64_t budget_nano;  /* METER_NO_BUDGET: none */
    uint64_t budget_tokens;
    enum meter_period period;
};

enum meter_answer {
    METER_PASSED,
    METER_RATE,          /* requests a minute; retry_ms tells when one would pass */
    METER_TOKEN_RATE,    /* tokens a minute; likewise */
    METER_INFLIGHT,      /* too many at once; retry_ms is a guess */
    METER_BUDGET_NANO,   /* the money does not suffice */
    METER_BUDGET_TOKENS, /* the tokens do not */
    METER_UNPRICED       /* there is a budget in money, and nobody knows a price */
};

/* What is used, for people and the admin API. */
struct meter_state {
    uint64_t inflight;
    uint64_t requests; /* that passed */
    uint64_t refused;
    uint64_t spent_nano; /* in the budget's period */
    uint64_t spent_tokens;
    uint64_t reserved_nano;
    uint64_t reserved_tokens;
};

/* Tokens and money that a call may cost at most, as far as one can tell. */
struct meter_cost {
    uint64_t tokens;
    uint64_t nano;
    bool priced;    /* false: `nano` is not known, and counts as 0 */
    uint32_t taken; /* of a minute's tokens: set by meter_reserve, read by meter_settle */
};

struct meter;

/* One reference. NULL when out of memory. */
struct meter *meter_new(void);
struct meter *meter_ref(struct meter *m);
void meter_unref(struct meter *m); /* NULL is harmless */

/* What was spent in the current period before this process began. */
void meter_restore(struct meter *m, const struct meter_limits *l, int64_t wall_ms, uint64_t nano,
                   uint64_t tokens);

/* A request begins: rate and number in flight. After METER_PASSED meter_end() must follow. */
enum meter_answer meter_begin(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                              uint32_t *retry_ms);
void meter_end(struct meter *m);

/* A model call of it: token rate and budgets. After METER_PASSED meter_settle() must follow, with
 * the same `claim`. A call that asks for more tokens than a minute has passes when the whole minute
 * is there. */
enum meter_answer meter_reserve(struct meter *m, const struct meter_limits *l, uint64_t now_ms,
                                int64_t wall_ms, struct meter_cost *claim, uint32_t *retry_ms);

/* What it did cost. More than was reserved is charged too; to the minute's tokens up to a debt of
 * another minute. */
void meter_settle(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                  const struct meter_cost *claim, const struct meter_cost *used);

void meter_read(struct meter *m, const struct meter_limits *l, int64_t wall_ms,
                struct meter_state *out);

/* When the period of `wall_ms` began, in wall-clock milliseconds; METER_TOTAL: 0. */
int64_t meter_period_start(enum meter_period period, int64_t wall_ms);

#endif
