/*
 * One event loop: a thread with a libuv loop, deadlines behind one timer, tasks that run before the
 * loop waits again, and a mailbox for other threads. Nothing ticks on an idle loop.
 *
 * Everything here but loop_post() and loop_stop() is for the loop's own thread.
 */
#ifndef TACTUS_NET_LOOP_H
#define TACTUS_NET_LOOP_H

#include "base/buf.h"
#include "base/bufq.h"
#include "base/err.h"
#include "base/list.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct uv_loop_s uv_loop_t;

struct loop;

/* The size of loop_read_buffer(): one read(2) at most. */
#define LOOP_READ_SIZE 65536u

/*
 * A point in time at which `fn(ctx)` runs, once. Embedded in its owner; initialise with
 * loop_deadline_init. Moving it later costs nothing (the heap is touched when it fires).
 */
struct loop_deadline {
    void (*fn)(void *ctx);
    void *ctx;
    uint64_t at;  /* when it fires, loop_now() milliseconds; 0 = not set */
    uint64_t key; /* where it stands in the heap; <= at */
    size_t slot;  /* heap position + 1; 0 = not in the heap */
};

/* Work put off to the end of the current turn. Embedded in its owner. */
struct loop_task {
    struct list node;
    void (*fn)(void *ctx);
    void *ctx;
};

/* A message from another thread: embedded in what it carries; `fn` owns it from then on. */
struct loop_message {
    struct list node;
    void (*fn)(struct loop_message *m, struct loop *loop);
};

enum err loop_new(struct loop **out, struct error *e) MUST_CHECK;

/* Closes the loop's own handles, lets every close callback run, frees. All users must have closed
 * theirs. */
void loop_free(struct loop *loop);

/* Runs until loop_stop(). */
void loop_run(struct loop *loop);

/* Waits for something to happen once and handles it: for a program that waits for one thing after
 * the other. */
void loop_turn(struct loop *loop);

/* Any thread. The loop returns from loop_run at the end of the current turn. */
void loop_stop(struct loop *loop);

/* Lets pending close callbacks run without waiting for anything else: for tear-down and tests. */
void loop_run_closing(struct loop *loop);

uv_loop_t *loop_uv(struct loop *loop);

/* Milliseconds, cached for the turn. */
uint64_t loop_now(const struct loop *loop);

void loop_deadline_init(struct loop_deadline *d, void (*fn)(void *ctx), void *ctx);
/* Arms or moves it to `at` (> 0). ERR_NOMEM only when it was not armed before. */
enum err loop_deadline_set(struct loop *loop, struct loop_deadline *d, uint64_t at) MUST_CHECK;
/* Harmless when it is not set. After it the deadline does not fire. */
void loop_deadline_clear(struct loop *loop, struct loop_deadline *d);

void loop_task_init(struct loop_task *t, void (*fn)(void *ctx), void *ctx);
/* Runs t->fn before the loop waits again; queueing a queued task changes nothing. */
void loop_defer(struct loop *loop, struct loop_task *t);
void loop_task_cancel(struct loop_task *t);

/* Any thread. ERR_LIMIT when the mailbox holds its maximum of messages; the caller keeps `m`. */
enum err loop_post(struct loop *loop, struct loop_message *m) MUST_CHECK;

/* Calls fn on the loop for each of these signals (at most 4). Process-wide: one loop only. */
struct loop_signals;
enum err loop_signals_new(struct loop *loop, const int *numbers, size_t n,
                          void (*fn)(void *ctx, int number), void *ctx, struct loop_signals **out,
                          struct error *e) MUST_CHECK;
void loop_signals_free(struct loop_signals *s); /* before loop_free; NULL is harmless */

/*
 * Calls fn while `fd` is readable; for descriptors that belong to a library (an epoll set of its
 * own). The descriptor stays open and the caller's.
 */
struct loop_watch;
enum err loop_watch_new(struct loop *loop, int fd, void (*fn)(void *ctx), void *ctx,
                        struct loop_watch **out, struct error *e) MUST_CHECK;
void loop_watch_free(struct loop_watch *w); /* before `fd` is closed; NULL is harmless */

/*
 * Writes to a file (or pipe) that may be slow, on libuv's worker threads: one write at a time.
 */
struct loop_write;
/* NULL when out of memory. `on_written` runs on the loop after each write of all bytes (ERR_OK) or
 * its failure (ERR_IO). */
struct loop_write *loop_write_new(struct loop *loop, void (*on_written)(void *ctx, enum err rc),
                                  void *ctx);
/* Not while a write is in flight, unless the loop was freed: loop_free waits for it. */
void loop_write_free(struct loop_write *w);
/* `bytes` must stay until on_written. ERR_IO when it could not be started, or one is in flight. */
enum err loop_write(struct loop_write *w, int fd, struct span bytes) MUST_CHECK;

/* Shared by everything on this loop; content is valid until the next user. */
char *loop_read_buffer(struct loop *loop);   /* LOOP_READ_SIZE bytes */
char *loop_plain_buffer(struct loop *loop);  /* LOOP_READ_SIZE bytes: TLS plaintext */
struct buf *loop_scratch(struct loop *loop); /* cleared by its user before use */
struct bufq_pool *loop_pool(struct loop *loop);

#endif
