/*
 * The store thread: the only one that touches the database after the open.
 *
 * It sleeps until something is due. A turn is: write all that waits in one transaction, answer the
 * questions that were there, delete a few old rows, tell what was lost. A batch that could not be
 * written stays, and is tried again with what came meanwhile; nothing is written out of order.
 */
#include "ledger/ledger_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/item.h"
#include "ledger/store.h"

#include <time.h>

#define GROUP_MS      4 /* from the first row to its commit: others come along */
#define RETRY_MS      50
#define DELIVER_MS    20
#define TELL_EVERY_MS 1000
#define NEVER         UINT64_MAX

/* ---- writing ---- */

/* Moves all of `from` behind `to`. */
static void append(struct list *to, struct list *from)
{
    if (!list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        list_init(from);
    }
}

static void take(struct ledger *l)
{
    (void)pthread_mutex_lock(&l->lock);
    append(&l->batch, &l->waiting);
    l->first_ms = 0;
    (void)pthread_mutex_unlock(&l->lock);
}

/* How much of the batch counts against the bounds. */
struct load {
    size_t items;
    size_t bytes;
    uint64_t rows;
};

static struct load measure(const struct ledger *l)
{
    struct load load = {0};

    for (struct list *n = l->batch.next; n != &l->batch; n = n->next) {
        const struct ledger_item *item = LIST_ENTRY(n, struct ledger_item, node);
        load.items++;
        load.bytes += item->bytes;
        load.rows += item->kind == LEDGER_ITEM_ROW ? 1 : 0;
    }
    return load;
}

/* The batch is in the file, or given up. */
static void forget_batch(struct ledger *l, bool written)
{
    struct load load = measure(l);

    (void)pthread_mutex_lock(&l->lock);
    l->items -= load.items;
    l->bytes -= load.bytes;
    l->stats.waiting -= load.rows;
    l->stats.written += written ? load.rows : 0;
    l->stats.lost += written ? 0 : load.items;
    l->stats.failing = !written;
    (void)pthread_mutex_unlock(&l->lock);
    ledger_items_free(&l->batch);
}

static void on_write_failed(struct ledger *l)
{
    uint64_t max = l->tuning.retry_max_ms;

    if (l->retry_at == 0) {
        log_warn("ledger", LOG_MSG("rows cannot be written; they wait, requests go on"),
                 LOG_STR("why", l->why.msg));
        l->retry_ms = RETRY_MS;
    } else {
        l->retry_ms *= 2;
    }
    l->retry_ms = l->retry_ms < max ? l->retry_ms : max;
    l->retry_at = clock_mono_ms() + l->retry_ms;
    (void)pthread_mutex_lock(&l->lock);
    l->stats.failing = true;
    (void)pthread_mutex_unlock(&l->lock);
}

static void on_written(struct ledger *l)
{
    if (l->retry_at != 0) {
        log_info("ledger", LOG_MSG("rows can be written again"));
        l->retry_at = 0;
    }
    if (l->retention_ms > 0 && clock_mono_ms() >= l->prune_at) {
        l->pruning = true;
    }
}

enum err ledger_write_now(struct ledger *l)
{
    take(l);
    if (list_empty(&l->batch)) {
        return ERR_OK;
    }
    enum err rc = store_write(l->store, &l->batch, &l->why);
    if (rc != ERR_OK) {
        on_write_failed(l);
        return rc;
    }
    forget_batch(l, true);
    on_written(l);
    return ERR_OK;
}

/* When what waits is to be written. Under the lock. */
static uint64_t write_at(const struct ledger *l)
{
    if (l->retry_at != 0) {
        return l->retry_at;
    }
    return list_empty(&l->waiting) ? NEVER : l->first_ms + GROUP_MS;
}

bool ledger_write_due(struct ledger *l)
{
    (void)pthread_mutex_lock(&l->lock);
    uint64_t at = write_at(l);
    (void)pthread_mutex_unlock(&l->lock);
    return at != NEVER && clock_mono_ms() >= at;
}

/* ---- the other parts of a turn ---- */

/* The next of `asked`. A cancel may take any of them out of the list meanwhile, so under the lock.
 */
static struct ledger_read *next_read(struct ledger *l, struct list *asked)
{
    struct ledger_read *r = NULL;

    (void)pthread_mutex_lock(&l->lock);
    if (l->stop) {
        append(&l->reads, asked); /* for drop_reads */
    } else if (!list_empty(asked)) {
        r = LIST_ENTRY(list_pop(asked), struct ledger_read, node);
        r->queued = false;
        l->nreads--;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return r;
}

/* Answers what was asked until now, and nothing else: what was put before it is written first. */
static void answer(struct ledger *l)
{
    struct list asked;

    (void)pthread_mutex_lock(&l->lock);
    list_take(&asked, &l->reads);
    bool none = list_empty(&asked);
    (void)pthread_mutex_unlock(&l->lock);
    if (none) {
        return;
    }
    enum err before = ledger_write_now(l);
    for (struct ledger_read *r = next_read(l, &asked); r != NULL; r = next_read(l, &asked)) {
        r->run(l, r, before, &l->why);
    }
}

/* A few old rows, so that new ones do not wait for the rest. */
static void prune(struct ledger *l)
{
    struct error e = {0};
    int64_t now = clock_wall_ms();
    bool more = false;

    if (!l->pruning || l->retry_at != 0) {
        return;
    }
    if (now > 0 && (uint64_t)now > l->retention_ms &&
        store_prune(l->store, (uint64_t)now - l->retention_ms, &more, &e) != ERR_OK) {
        log_warn("ledger", LOG_MSG("old rows cannot be deleted"), LOG_STR("why", e.msg));
        more = false;
    }
    l->pruning = more;
    l->prune_at = clock_mono_ms() + l->tuning.prune_every_ms;
}

static void tell_lost(struct ledger *l, bool at_the_end)
{
    uint64_t now = clock_mono_ms();

    (void)pthread_mutex_lock(&l->lock);
    uint64_t lost = l->stats.lost - l->lost_told;
    struct ledger_stats stats = l->stats;
    bool tell = lost > 0 && (now >= l->lost_at || at_the_end);
    if (tell) {
        l->lost_told = stats.lost;
        l->lost_at = now + TELL_EVERY_MS;
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (tell) {
        log_error("ledger", LOG_MSG("rows are lost"), LOG_U64("lost", lost),
                  LOG_U64("lost_in_all", stats.lost), LOG_U64("waiting", stats.waiting));
    }
}

static void turn(struct ledger *l)
{
    if (ledger_write_due(l)) {
        (void)ledger_write_now(l);
    }
    answer(l);
    ledger_deliver(l);
    prune(l);
    tell_lost(l, false);
}

/* ---- sleeping ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the next turn is; 0: now. Under the lock. */
static uint64_t next_turn(const struct ledger *l)
{
    uint64_t at = write_at(l);

    if (l->nreads > 0 || (l->pruning && l->retry_at == 0)) {
        return 0;
    }
    if (l->stats.lost != l->lost_told) {
        at = sooner(at, l->lost_at);
    }
    if (!list_empty(&l->answered)) {
        at = sooner(at, clock_mono_ms() + DELIVER_MS);
    }
    return at;
}

/* Until `at` or a wake-up. Under the lock. */
static void sleep_until(struct ledger *l, uint64_t at)
{
    const struct timespec then = {.tv_sec = (time_t)(at / 1000),
                                  .tv_nsec = (long)(at % 1000) * 1000000};

    if (at == NEVER) {
        (void)pthread_cond_wait(&l->wake, &l->lock);
    } else {
        (void)pthread_cond_timedwait(&l->wake, &l->lock, &then);
    }
}

/* ---- the end ---- */

static void write_rest(struct ledger *l)
{
    uint64_t end = clock_mono_ms() + l->tuning.close_ms;

    l->retry_ms = RETRY_MS;
    while (ledger_write_now(l) != ERR_OK && clock_mono_ms() < end) {
        (void)pthread_mutex_lock(&l->lock);
        sleep_until(l, sooner(l->retry_at, end));
        (void)pthread_mutex_unlock(&l->lock);
    }
    if (!list_empty(&l->batch)) {
        forget_batch(l, false);
    }
    tell_lost(l, true);
}

static void drop_reads(struct ledger *l)
{
    (void)pthread_mutex_lock(&l->lock);
    for (struct list *n = list_pop(&l->reads); n != NULL; n = list_pop(&l->reads)) {
        struct ledger_read *r = LIST_ENTRY(n, struct ledger_read, node);
        r->drop(r);
    }
    l->nreads = 0;
    (void)pthread_mutex_unlock(&l->lock);
    ledger_drop_answered(l);
}

void *ledger_thread(void *ledger)
{
    struct ledger *l = ledger;

    (void)pthread_setname_np(pthread_self(), "ledger");
    (void)pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        uint64_t at = next_turn(l);
        if (at > clock_mono_ms()) {
            sleep_until(l, at);
            continue;
        }
        (void)pthread_mutex_unlock(&l->lock);
        turn(l);
        (void)pthread_mutex_lock(&l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    write_rest(l);
    drop_reads(l);
    return NULL;
}
