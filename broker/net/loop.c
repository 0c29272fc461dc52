/*
 * The event loop: libuv plus a deadline heap, a task queue and a mailbox.
 *
 * One turn: libuv runs timers and socket callbacks; then, in its prepare phase, tasks run and the
 * one timer is armed to the earliest deadline; then libuv waits. A heap entry's key may be older
 * than its deadline (it was moved later): it is put back when it comes up.
 */
#include "net/loop.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

#define MAILBOX_MAX      65536u
#define TASK_PASSES_MAX  8 /* rounds of tasks that queue tasks, before sockets get their turn */
#define POOL_CHUNKS_MAX  1024u
#define SCRATCH_MAX      (1024u * 1024u * 1024u)
#define SCRATCH_KEEP_MAX (256u * 1024u)
#define CLOSE_WAIT_MS    2000

struct loop {
    uv_loop_t uv;
    uv_timer_t timer;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active only while tasks wait: the loop must not sleep then */
    uv_async_t async;
    struct loop_deadline **heap;
    size_t nheap;
    size_t heap_cap;
    uint64_t timer_at; /* what the timer is armed to; 0 = not armed */
    struct list tasks;
    bool by_hand; /* loop_turn: a turn in which a task ran does not sleep */
    pthread_mutex_t mail_lock;
    struct list mail;
    size_t nmail;
    atomic_bool stop;
    char *read_buffer;
    char *plain_buffer;
    struct buf scratch;
    struct bufq_pool pool;
};

/* ---- deadlines: a binary heap on `key` ---- */

static void heap_place(struct loop *loop, size_t i, struct loop_deadline *d)
{
    loop->heap[i] = d;
    d->slot = i + 1;
}

static void heap_up(struct loop *loop, size_t i, struct loop_deadline *d)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (loop->heap[parent]->key <= d->key) {
            break;
        }
        heap_place(loop, i, loop->heap[parent]);
        i = parent;
    }
    heap_place(loop, i, d);
}

static void heap_down(struct loop *loop, size_t i, struct loop_deadline *d)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= loop->nheap) {
            break;
        }
        if (child + 1 < loop->nheap && loop->heap[child + 1]->key < loop->heap[child]->key) {
            child++;
        }
        if (loop->heap[child]->key >= d->key) {
            break;
        }
        heap_place(loop, i, loop->heap[child]);
        i = child;
    }
    heap_place(loop, i, d);
}

static void heap_remove(struct loop *loop, struct loop_deadline *d)
{
    size_t i = d->slot - 1;
    struct loop_deadline *last = loop->heap[--loop->nheap];

    d->slot = 0;
    if (last == d) {
        return;
    }
    if (i > 0 && loop->heap[(i - 1) / 2]->key > last->key) {
        heap_up(loop, i, last);
    } else {
        heap_down(loop, i, last);
    }
}

static enum err heap_grow(struct loop *loop)
{
    size_t cap = loop->heap_cap == 0 ? 64 : loop->heap_cap * 2;
    struct loop_deadline **heap = realloc(loop->heap, cap * sizeof(*heap));

    if (heap == NULL) {
        return ERR_NOMEM;
    }
    loop->heap = heap;
    loop->heap_cap = cap;
    return ERR_OK;
}

void loop_deadline_init(struct loop_deadline *d, void (*fn)(void *ctx), void *ctx)
{
    *d = (struct loop_deadline){.fn = fn, .ctx = ctx};
}

enum err loop_deadline_set(struct loop *loop, struct loop_deadline *d, uint64_t at)
{
    if (d->slot != 0) {
        d->at = at;
        if (at < d->key) {
            d->key = at;
            heap_up(loop, d->slot - 1, d);
        }
        return ERR_OK;
    }
    if (loop->nheap == loop->heap_cap && heap_grow(loop) != ERR_OK) {
        return ERR_NOMEM;
    }
    d->at = at;
    d->key = at;
    loop->nheap++;
    heap_up(loop, loop->nheap - 1, d);
    return ERR_OK;
}

void loop_deadline_clear(struct loop *loop, struct loop_deadline *d)
{
    d->at = 0;
    if (d->slot != 0) {
        heap_remove(loop, d);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    uint64_t now = uv_now(&loop->uv);

    loop->timer_at = 0;
    while (loop->nheap > 0 && loop->heap[0]->key <= now) {
        struct loop_deadline *d = loop->heap[0];
        if (d->key < d->at) { /* moved later: others may come first, also when all are due */
            d->key = d->at;
            heap_down(loop, 0, d);
            continue;
        }
        heap_remove(loop, d);
        d->at = 0;
        d->fn(d->ctx);
    }
}

static void arm_timer(struct loop *loop)
{
    uint64_t at = loop->nheap == 0 ? 0 : loop->heap[0]->key;

    if (at == loop->timer_at) {
        return;
    }
    loop->timer_at = at;
    if (at == 0) {
        uv_timer_stop(&loop->timer);
        return;
    }
    uint64_t now = uv_now(&loop->uv);
    uv_timer_start(&loop->timer, on_timer, at > now ? at - now : 0, 0);
}

/* ---- tasks ---- */

void loop_task_init(struct loop_task *t, void (*fn)(void *ctx), void *ctx)
{
    list_init(&t->node);
    t->fn = fn;
    t->ctx = ctx;
}

void loop_defer(struct loop *loop, struct loop_task *t)
{
    if (list_empty(&t->node)) {
        list_push_back(&loop->tasks, &t->node);
    }
}

void loop_task_cancel(struct loop_task *t)
{
    list_remove(&t->node);
}

static void run_tasks(struct loop *loop)
{
    for (int pass = 0; pass < TASK_PASSES_MAX && !list_empty(&loop->tasks); pass++) {
        struct list batch;
        list_take(&batch, &loop->tasks);
        for (struct list *n = list_pop(&batch); n != NULL; n = list_pop(&batch)) {
            struct loop_task *t = LIST_ENTRY(n, struct loop_task, node);
            t->fn(t->ctx);
        }
    }
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct loop *loop = prepare->data;
    bool ran = !list_empty(&loop->tasks);

    run_tasks(loop);
    /* Who turns the loop by hand may have waited for just what a task did. */
    if (list_empty(&loop->tasks) && !(ran && loop->by_hand)) {
        uv_idle_stop(&loop->idle);
    } else {
        uv_idle_start(&loop->idle, on_idle);
    }
    if (loop->scratch.cap > SCRATCH_KEEP_MAX) {
        buf_fini(&loop->scratch);
    }
    arm_timer(loop);
}

/* ---- mailbox ---- */

enum err loop_post(struct loop *loop, struct loop_message *m)
{
    enum err rc = ERR_OK;

    pthread_mutex_lock(&loop->mail_lock);
    if (loop->nmail >= MAILBOX_MAX) {
        rc = ERR_LIMIT;
    } else {
        list_push_back(&loop->mail, &m->node);
        loop->nmail++;
    }
    pthread_mutex_unlock(&loop->mail_lock);
    if (rc == ERR_OK) {
        uv_async_send(&loop->async);
    }
    return rc;
}

static void on_async(uv_async_t *async)
{
    struct loop *loop = async->data;
    struct list batch;

    pthread_mutex_lock(&loop->mail_lock);
    list_take(&batch, &loop->mail);
    loop->nmail = 0;
    pthread_mutex_unlock(&loop->mail_lock);
    for (struct list *n = list_pop(&batch); n != NULL; n = list_pop(&batch)) {
        struct loop_message *m = LIST_ENTRY(n, struct loop_message, node);
        m->fn(m, loop);
    }
    if (atomic_load(&loop->stop)) {
        uv_stop(&loop->uv);
    }
}

/* ---- life ---- */

static enum err open_handles(struct loop *loop, struct error *e)
{
    int rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        return err_set(e, ERR_IO, "cannot make an event loop: %s", uv_strerror(rc));
    }
    rc = uv_async_init(&loop->uv, &loop->async, on_async);
    if (rc != 0) {
        (void)uv_loop_close(&loop->uv);
        return err_set(e, ERR_IO, "cannot make a wake-up descriptor: %s", uv_strerror(rc));
    }
    uv_timer_init(&loop->uv, &loop->timer);
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_idle_init(&loop->uv, &loop->idle);
    loop->async.data = loop;
    loop->timer.data = loop;
    loop->prepare.data = loop;
    loop->idle.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    return ERR_OK;
}

static void free_memory(struct loop *loop)
{
    pthread_mutex_destroy(&loop->mail_lock);
    bufq_pool_fini(&loop->pool);
    buf_fini(&loop->scratch);
    free(loop->read_buffer);
    free(loop->plain_buffer);
    free(loop->heap);
    free(loop);
}

enum err loop_new(struct loop **out, struct error *e)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for an event loop");
    }
    list_init(&loop->tasks);
    list_init(&loop->mail);
    pthread_mutex_init(&loop->mail_lock, NULL);
    bufq_pool_init(&loop->pool, POOL_CHUNKS_MAX);
    buf_init(&loop->scratch, SCRATCH_MAX);
    loop->read_buffer = malloc(LOOP_READ_SIZE);
    loop->plain_buffer = malloc(LOOP_READ_SIZE);
    enum err rc = ERR_OK;
    if (loop->read_buffer == NULL || loop->plain_buffer == NULL) {
        rc = err_set(e, ERR_NOMEM, "out of memory for an event loop");
    } else {
        rc = open_handles(loop, e);
    }
    if (rc != ERR_OK) {
        free_memory(loop);
        return rc;
    }
    *out = loop;
    return ERR_OK;
}

void loop_run(struct loop *loop)
{
    while (!atomic_load(&loop->stop)) {
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    atomic_store(&loop->stop, false);
}

void loop_turn(struct loop *loop)
{
    loop->by_hand = true;
    uv_run(&loop->uv, UV_RUN_ONCE);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stop, true);
    uv_async_send(&loop->async);
}

void loop_run_closing(struct loop *loop)
{
    for (int i = 0; i < TASK_PASSES_MAX; i++) {
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    run_tasks(loop);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->async, NULL);
    loop_run_closing(loop);
    /* A file write may still be under way on a worker thread. */
    for (int ms = 0; ms < CLOSE_WAIT_MS && uv_loop_alive(&loop->uv) != 0; ms++) {
        uv_sleep(1);
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    if (uv_loop_close(&loop->uv) != 0) {
        /* A handle that nobody closed still points into memory: leaking beats a use after free. */
        log_error("loop", LOG_MSG("handles left open at the end"));
        return;
    }
    free_memory(loop);
}

uv_loop_t *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

uint64_t loop_now(const struct loop *loop)
{
    return uv_now(&loop->uv);
}

char *loop_read_buffer(struct loop *loop)
{
    return loop->read_buffer;
}

char *loop_plain_buffer(struct loop *loop)
{
    return loop->plain_buffer;
}

struct buf *loop_scratch(struct loop *loop)
{
    return &loop->scratch;
}

struct bufq_pool *loop_pool(struct loop *loop)
{
    return &loop->pool;
}
