/* Shared by broker.c, worker.c, reload.c, self.c, runs.c and admin.c: what the process consists of.
 * Nobody else includes it.
 */
#ifndef TACTUS_APP_PRIVATE_H
#define TACTUS_APP_PRIVATE_H

#include "app/broker.h"
#include "app/snapshot.h"
#include "events/bus.h"
#include "llm/router.h"
#include "net/listener.h"
#include "net/loop.h"
#include "wire/session.h"

#include <pthread.h>

struct admin;
struct event_streams;
struct http_client;
struct runs;

/* One listening socket of one worker. */
struct worker_door {
    struct worker *worker;
    struct wire_door *door;
    struct listener *listener; /* NULL: this worker has none for the door */
};

/* One loop with all that belongs to it. Worker 0 runs on the main thread. */
struct worker {
    struct broker *broker;
    unsigned index;
    struct loop *loop;
    struct http_client *http;
    struct router *router;
    struct wire wire;
    struct worker_door *doors; /* one a configured listener */
    pthread_t thread;
    bool thread_started;
    bool draining;
    bool drained; /* said so to worker 0 */
    struct loop_message drain;
    struct loop_message shut_down;
    struct loop_message done;
    /* A reload: what this loop is to use from now on, a reference that it takes over. NULL: none is
     * on its way. */
    _Atomic(struct snapshot *) next;
    struct loop_message use;
    atomic_bool use_posted;
    struct snapshot *snapshot; /* in force here: a reference */
};

struct broker {
    struct broker_options options;
    const struct config *config; /* that of `snapshot` */
    struct snapshot *snapshot;   /* in force: a reference; loop 0 */
    struct snapshot *before;     /* the one before, kept until the next reload: a log line of some
                                  * thread may still pass its redactor */
    uint64_t generation;         /* counts reloads, from 1 */
    int64_t started_at;
    int64_t loaded_at;
    size_t nlisteners; /* never changes */
    bool listening;    /* sockets of the configuration may be there */
    struct grant_table *grants;
    struct ledger *ledger; /* NULL: none is kept */
    struct aws_environment *aws;
    struct bus *bus;
    struct wire_totals totals;
    struct wire_door *doors; /* one a listener */
    struct worker *workers;
    unsigned nworkers;
    unsigned next_worker; /* for connections that are handed over; worker 0 only */
    unsigned running;     /* workers that have not drained; worker 0 only */
    bool stopping;
    bool shutting_down;
    struct runs *runs;             /* grants of runs; loop 0 */
    struct event_streams *streams; /* the admin API's; NULL: none; loop 0 */
    struct admin *admin;           /* NULL: no admin API; loop 0 */
    struct loop_signals *signals;
    struct loop_deadline drain_deadline;
    struct loop_deadline use_deadline; /* a loop's mailbox was full: the reload is told again */
};

/* aws_secrets.c. Reads b->aws; before there are threads. ERR_CONFIG, ERR_NOMEM. */
enum err aws_secrets_read(struct broker *b, struct error *e) MUST_CHECK;
/* Of a configuration that is not in use yet. ERR_NOMEM. */
enum err aws_secrets_redact(const struct broker *b, struct config *c, struct error *e) MUST_CHECK;

enum err worker_init(struct worker *w, struct broker *b, unsigned index,
                     struct error *e) MUST_CHECK;
/* Serves `fd` (taken over, also on failure) at `door`. A Unix socket's connections are handed
 * round. */
enum err worker_listen(struct worker *w, size_t door, int fd, struct error *e) MUST_CHECK;
/* Serves the connection `fd` (taken over) at `door`, on a worker whose turn it is. From worker 0.
 */
void worker_serve(struct broker *b, struct wire_door *door, int fd);
/* A thread for any worker but 0. */
enum err worker_start(struct worker *w, struct error *e) MUST_CHECK;
/* Ends its thread and closes what is open there; then, when all are stopped, worker_fini(). */
void worker_stop(struct worker *w);
void worker_fini(struct worker *w);

/* Hands the worker `s` (its own reference is taken); false: its mailbox is full, say it again. */
bool worker_use(struct worker *w, struct snapshot *s);

/* broker.c: as SIGTERM. */
void broker_drain(struct broker *b);

/* reload.c: reads the configuration again. Appends what changed, as JSON. A failure leaves all as
 * it was; its message (`e` is not NULL) says why, and is in the log. ERR_CLOSED: the broker is
 * draining, nothing was read and the service manager not told. */
enum err broker_reload(struct broker *b, struct buf *report, struct error *e) MUST_CHECK;
void broker_tell_workers(void *broker);

/* self.c: broker.info and broker.cancel. Their ctx is the struct worker. */
void self_info_start(struct request *r, void *ctx);
void self_cancel_start(struct request *r, void *ctx);

#endif
