/*
 * What the files of the ledger share: the queue, what the store thread does, and the bounds that
 * tests make small.
 */
#ifndef TACTUS_LEDGER_LEDGER_PRIVATE_H
#define TACTUS_LEDGER_LEDGER_PRIVATE_H

#include "base/err.h"
#include "base/list.h"
#include "ledger/ledger.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct ledger_tuning {
    size_t items_max; /* that wait; changes of grants have twice as much */
    size_t bytes_max;
    uint64_t prune_every_ms;
    uint64_t retry_max_ms; /* between two tries to write */
    uint64_t close_ms;     /* how long ledger_close tries */
};

/* A question that waits for the store thread. */
struct ledger_read {
    struct list node;
    bool queued; /* under the lock: the store thread has not begun with it */
    /* On the store thread, without the lock. `before` is not ERR_OK when what was put before it
     * could not be written; `why` says so. */
    void (*run)(struct ledger *l, struct ledger_read *r, enum err before, const struct error *why);
    void (*drop)(struct ledger_read *r); /* instead, when the ledger closes */
};

struct ledger {
    struct ledger_tuning tuning;
    uint64_t retention_ms;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* of the store thread */

    /* under the lock */
    struct list waiting; /* items that the store thread has not taken */
    struct list reads;
    size_t nreads;
    size_t items; /* waiting and taken */
    size_t bytes;
    uint64_t first_ms; /* when the first of `waiting` came; 0: empty */
    struct ledger_stats stats;
    uint64_t lost_told; /* how many of stats.lost are in the log */
    bool stop;

    /* of the store thread */
    struct store *store;
    struct list batch;    /* taken, not yet committed */
    struct list answered; /* readings whose loop had no room for a message */
    struct error why;     /* of the last write, when it failed */
    uint64_t retry_at;    /* 0: writing works */
    uint64_t retry_ms;
    uint64_t prune_at;
    bool pruning;     /* old rows are being deleted, a few a turn */
    uint64_t lost_at; /* when the next lost rows may be told */
};

/* ledger_open with bounds of its own. */
enum err ledger_open_tuned(const char *path, uint64_t retention_ms,
                           const struct ledger_tuning *tuning, struct ledger **out,
                           struct error *e) MUST_CHECK;

/* The store thread, until `stop`; then it writes what waits, and ends. */
void *ledger_thread(void *ledger);

/* On the store thread, without the lock: takes all that waits and writes it. */
enum err ledger_write_now(struct ledger *l);

/* On the store thread: whether what waits has waited long enough. */
bool ledger_write_due(struct ledger *l);

/* Queues a question. ERR_LIMIT: LEDGER_READINGS_MAX wait. */
enum err ledger_read_queue(struct ledger *l, struct ledger_read *r) MUST_CHECK;

/* On the store thread: posts what is answered; what finds no room stays in `answered`. */
void ledger_deliver(struct ledger *l);
/* At the end: what found no room is freed. */
void ledger_drop_answered(struct ledger *l);

#endif
