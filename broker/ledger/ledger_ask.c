/*
 * Questions to the store thread: readings, whose answer is posted to the loop that asked, and the
 * two of the start, whose caller waits.
 *
 * A reading belongs to the store thread until its answer is posted, then to its loop; while it
 * waits in the queue a cancel takes it out, later a cancel only marks it, and its owner frees it.
 */
#include "ledger/ledger_private.h"

#include "base/log.h"
#include "ledger/item.h"
#include "ledger/store.h"
#include "net/loop.h"

#include <stdlib.h>

struct ledger_reading {
    struct ledger_read read;
    struct loop_message message;
    struct ledger *l;
    struct ledger_query query;
    struct loop *loop;
    void (*done)(void *ctx, enum err rc, struct buf *rows);
    void *ctx;
    enum err rc;
    struct buf rows;
    bool cancelled; /* under the lock, until it is posted */
};

enum err ledger_read_queue(struct ledger *l, struct ledger_read *r)
{
    enum err rc = ERR_OK;

    (void)pthread_mutex_lock(&l->lock);
    if (l->nreads >= LEDGER_READINGS_MAX) {
        rc = ERR_LIMIT;
    } else {
        r->queued = true;
        list_push_back(&l->reads, &r->node);
        l->nreads++;
        (void)pthread_cond_signal(&l->wake);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

/* ---- readings ---- */

static struct ledger_reading *reading_of(struct ledger_read *r)
{
    return LIST_ENTRY(r, struct ledger_reading, read);
}

static void reading_free(struct ledger_reading *r)
{
    buf_fini(&r->rows);
    free(r);
}

static void drop_reading(struct ledger_read *read)
{
    reading_free(reading_of(read));
}

static bool is_cancelled(struct ledger_reading *r)
{
    (void)pthread_mutex_lock(&r->l->lock);
    bool cancelled = r->cancelled || r->l->stop;
    (void)pthread_mutex_unlock(&r->l->lock);
    return cancelled;
}

/* During a scan: rows that came meanwhile do not wait for its end. */
static bool on_pause(void *ctx)
{
    struct ledger_reading *r = ctx;

    if (ledger_write_due(r->l)) {
        (void)ledger_write_now(r->l);
    }
    return !is_cancelled(r);
}

/* On the loop. */
static void on_answer(struct loop_message *m, struct loop *loop)
{
    struct ledger_reading *r = LIST_ENTRY(m, struct ledger_reading, message);

    (void)loop;
    if (!r->cancelled) {
        r->done(r->ctx, r->rc, &r->rows);
    }
    reading_free(r);
}

static void run_reading(struct ledger *l, struct ledger_read *read, enum err before,
                        const struct error *why)
{
    struct ledger_reading *r = reading_of(read);
    struct error e = {0};

    r->rc = before;
    if (before == ERR_OK) {
        r->rc = store_usage(l->store, &r->query, on_pause, r, &r->rows, &e);
    } else {
        e = *why;
    }
    if (r->rc != ERR_OK) {
        buf_fini(&r->rows);
    }
    if (r->rc == ERR_IO || r->rc == ERR_CONFIG || r->rc == ERR_NOMEM) {
        log_warn("ledger", LOG_MSG("a question could not be answered"), LOG_STR("why", e.msg));
        r->rc = r->rc == ERR_CONFIG ? ERR_IO : r->rc; /* damaged: no fault of who asks */
    }
    list_push_back(&l->answered, &read->node);
    ledger_deliver(l);
}

void ledger_deliver(struct ledger *l)
{
    struct list answered;

    list_take(&answered, &l->answered);
    for (struct list *n = list_pop(&answered); n != NULL; n = list_pop(&answered)) {
        struct ledger_reading *r = reading_of(LIST_ENTRY(n, struct ledger_read, node));
        (void)pthread_mutex_lock(&l->lock);
        bool cancelled = r->cancelled || l->stop; /* no answer after a close */
        (void)pthread_mutex_unlock(&l->lock);
        if (cancelled) {
            reading_free(r);
        } else if (loop_post(r->loop, &r->message) != ERR_OK) {
            list_push_back(&l->answered, n);
        }
    }
}

void ledger_drop_answered(struct ledger *l)
{
    for (struct list *n = list_pop(&l->answered); n != NULL; n = list_pop(&l->answered)) {
        drop_reading(LIST_ENTRY(n, struct ledger_read, node));
    }
}

enum err ledger_ask(struct ledger *l, const struct ledger_query *q, struct loop *loop,
                    void (*done)(void *ctx, enum err rc, struct buf *rows), void *ctx,
                    struct ledger_reading **out, struct error *e)
{
    struct ledger_reading *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a reading of the ledger");
    }
    r->read.run = run_reading;
    r->read.drop = drop_reading;
    r->message.fn = on_answer;
    r->l = l;
    r->query = *q;
    r->loop = loop;
    r->done = done;
    r->ctx = ctx;
    buf_init(&r->rows, LEDGER_ANSWER_BYTES);
    if (ledger_read_queue(l, &r->read) != ERR_OK) {
        reading_free(r);
        return err_set(e, ERR_LIMIT, "%u readings of the ledger wait already", LEDGER_READINGS_MAX);
    }
    *out = r;
    return ERR_OK;
}

void ledger_reading_cancel(struct ledger_reading *r)
{
    if (r == NULL) {
        return;
    }
    struct ledger *l = r->l;
    (void)pthread_mutex_lock(&l->lock);
    bool ours = r->read.queued;
    if (ours) {
        list_remove(&r->read.node);
        l->nreads--;
    } else {
        r->cancelled = true;
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (ours) {
        reading_free(r);
    }
}

/* ---- questions of the start ---- */

struct waited {
    struct ledger_read read;
    enum err (*fn)(struct waited *w, struct store *s, struct error *e);
    pthread_cond_t ready;
    bool done; /* under the lock */
    enum err rc;
    struct error e;
    const char *grant;
    uint64_t since_ms;
    int64_t nano;
    uint64_t tokens;
    struct list grants;
};

static void finish(struct ledger *l, struct waited *w)
{
    (void)pthread_mutex_lock(&l->lock);
    w->done = true;
    (void)pthread_cond_signal(&w->ready);
    (void)pthread_mutex_unlock(&l->lock);
}

static void run_waited(struct ledger *l, struct ledger_read *read, enum err before,
                       const struct error *why)
{
    struct waited *w = LIST_ENTRY(read, struct waited, read);

    w->rc = before;
    if (before == ERR_OK) {
        w->rc = w->fn(w, l->store, &w->e);
    } else {
        w->e = *why;
    }
    finish(l, w);
}

/* Nobody may wait when the ledger closes: see ledger_close. */
static void drop_waited(struct ledger_read *read)
{
    (void)read;
}

static enum err wait_for(struct ledger *l, struct waited *w, struct error *e)
{
    w->read.run = run_waited;
    w->read.drop = drop_waited;
    (void)pthread_cond_init(&w->ready, NULL);
    enum err queued = ledger_read_queue(l, &w->read);
    if (queued == ERR_OK) {
        (void)pthread_mutex_lock(&l->lock);
        while (!w->done) {
            (void)pthread_cond_wait(&w->ready, &l->lock);
        }
        (void)pthread_mutex_unlock(&l->lock);
    } else {
        w->rc = err_set(&w->e, queued, "too many readings of the ledger wait");
    }
    (void)pthread_cond_destroy(&w->ready);
    if (w->rc != ERR_OK && e != NULL) {
        *e = w->e;
    }
    return w->rc;
}

static enum err get_spent(struct waited *w, struct store *s, struct error *e)
{
    return store_spent(s, w->grant, w->since_ms, &w->nano, &w->tokens, e);
}

enum err ledger_spent(struct ledger *l, const char *grant, uint64_t since_ms, int64_t *nano,
                      uint64_t *tokens, struct error *e)
{
    struct waited w = {.fn = get_spent, .grant = grant, .since_ms = since_ms};
    enum err rc = wait_for(l, &w, e);

    if (rc == ERR_OK) {
        *nano = w.nano;
        *tokens = w.tokens;
    }
    return rc;
}

static enum err get_grants(struct waited *w, struct store *s, struct error *e)
{
    return store_grants(s, &w->grants, e);
}

enum err ledger_grants(struct ledger *l,
                       void (*fn)(void *ctx, const char *id, struct span json, uint64_t expires_ms),
                       void *ctx, struct error *e)
{
    struct waited w = {.fn = get_grants};

    list_init(&w.grants);
    enum err rc = wait_for(l, &w, e);
    if (rc == ERR_OK) {
        for (struct list *n = w.grants.next; n != &w.grants; n = n->next) {
            const struct ledger_item *item = LIST_ENTRY(n, struct ledger_item, node);
            fn(ctx, item->id, item->json, item->expires_ms);
        }
    }
    ledger_items_free(&w.grants);
    return rc;
}
