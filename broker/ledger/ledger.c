/*
 * The ledger as its users see it: opening, closing, and the queue between all threads and the store
 * thread (ledger_thread.c). The lock is held for a few instructions only, never during I/O.
 */
#include "ledger/ledger_private.h"

#include "base/clock.h"
#include "ledger/item.h"
#include "ledger/store.h"

#include <signal.h>
#include <stdlib.h>

static const struct ledger_tuning defaults = {
    .items_max = LEDGER_WAITING_MAX,
    .bytes_max = LEDGER_WAITING_BYTES_MAX,
    .prune_every_ms = 3600000,
    .retry_max_ms = 5000,
    .close_ms = 5000,
};

/* ---- life ---- */

static void init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as clock_mono_ms */
    (void)pthread_cond_init(wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static void free_all(struct ledger *l)
{
    store_close(l->store);
    (void)pthread_cond_destroy(&l->wake);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

/* Signals are for the threads with a loop. */
static int start_thread(struct ledger *l)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&l->thread, NULL, ledger_thread, l);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

enum err ledger_open_tuned(const char *path, uint64_t retention_ms,
                           const struct ledger_tuning *tuning, struct ledger **out, struct error *e)
{
    struct ledger *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    }
    l->tuning = *tuning;
    l->retention_ms = retention_ms;
    l->pruning = retention_ms > 0;
    list_init(&l->waiting);
    list_init(&l->reads);
    list_init(&l->batch);
    list_init(&l->answered);
    (void)pthread_mutex_init(&l->lock, NULL);
    init_wake(&l->wake);
    enum err rc = store_open(path, &l->store, e);
    if (rc != ERR_OK) {
        free_all(l);
        return rc;
    }
    int started = start_thread(l);
    if (started != 0) {
        free_all(l);
        return err_sys(e, ERR_IO, started, "cannot start the store thread");
    }
    *out = l;
    return ERR_OK;
}

enum err ledger_open(const char *path, uint64_t retention_ms, struct ledger **out, struct error *e)
{
    return ledger_open_tuned(path, retention_ms, &defaults, out, e);
}

void ledger_close(struct ledger *l)
{
    if (l == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&l->lock);
    l->stop = true;
    (void)pthread_cond_signal(&l->wake);
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
    free_all(l);
}

/* ---- the queue ---- */

/* Takes over `item`; NULL (there was none to be had) and what is over the bounds is lost. */
static void queue(struct ledger *l, struct ledger_item *item)
{
    bool good = item != NULL;
    bool wake = false;

    (void)pthread_mutex_lock(&l->lock);
    if (good) {
        size_t share = item->kind == LEDGER_ITEM_ROW ? 1 : 2;
        good = l->items < share * l->tuning.items_max &&
               item->bytes <= share * l->tuning.bytes_max &&
               l->bytes <= share * l->tuning.bytes_max - item->bytes;
    }
    if (good) {
        wake = list_empty(&l->waiting);
        l->first_ms = wake ? clock_mono_ms() : l->first_ms;
        list_push_back(&l->waiting, &item->node);
        l->items++;
        l->bytes += item->bytes;
        l->stats.waiting += item->kind == LEDGER_ITEM_ROW ? 1 : 0;
    } else {
        wake = l->stats.lost == l->lost_told; /* it is the store thread that tells */
        l->stats.lost++;
    }
    if (wake) {
        (void)pthread_cond_signal(&l->wake);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (!good) {
        free(item);
    }
}

void ledger_put(struct ledger *l, const struct ledger_row *row)
{
    queue(l, ledger_item_row(row));
}

void ledger_keep_grant(struct ledger *l, const char *id, struct span json, uint64_t expires_ms)
{
    queue(l, ledger_item_keep(span_str(id), json, expires_ms));
}

void ledger_drop_grant(struct ledger *l, const char *id)
{
    queue(l, ledger_item_drop(span_str(id)));
}

void ledger_get_stats(struct ledger *l, struct ledger_stats *out)
{
    (void)pthread_mutex_lock(&l->lock);
    *out = l->stats;
    (void)pthread_mutex_unlock(&l->lock);
}
