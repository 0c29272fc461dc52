/*
 * A worker: one loop with its HTTP client, router, sessions and listeners. Connections live and die
 * on one worker; those of a Unix socket come in on worker 0 and are handed round.
 */
#include "app/app_private.h"
#include "base/log.h"
#include "events/events.h"
#include "llm/chat.h"
#include "net/http_client.h"
#include "tools/tools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- connections ---- */

/* A connection on its way to another worker. */
struct handover {
    struct loop_message message;
    struct worker *worker;
    struct wire_door *door; /* a reference */
    int fd;
};

static void on_handover(struct loop_message *m, struct loop *loop)
{
    struct handover *h = LIST_ENTRY(m, struct handover, message);

    (void)loop;
    if (h->worker->draining) {
        close(h->fd);
    } else {
        session_start(&h->worker->wire, h->door, h->fd);
    }
    wire_door_unref(h->door);
    free(h);
}

static void hand_over(struct worker *to, struct wire_door *door, int fd)
{
    struct handover *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        close(fd);
        return;
    }
    *h = (struct handover){.message.fn = on_handover, .worker = to, .door = door, .fd = fd};
    wire_door_ref(door);
    if (loop_post(to->loop, &h->message) != ERR_OK) {
        wire_door_unref(door);
        close(fd);
        free(h);
    }
}

void worker_serve(struct broker *b, struct wire_door *door, int fd)
{
    struct worker *to = &b->workers[b->next_worker++ % b->nworkers];

    if (to->index == 0) {
        session_start(&to->wire, door, fd);
    } else {
        hand_over(to, door, fd);
    }
}

static void on_accept(void *ctx, int fd)
{
    struct worker_door *d = ctx;

    bool one_socket =
        d->worker->wire.config->listeners[d->door->index].kind == LISTENER_UNIX || d->door->passed;

    if (one_socket) {
        worker_serve(d->worker->broker, d->door, fd);
    } else {
        session_start(&d->worker->wire, d->door, fd);
    }
}

enum err worker_listen(struct worker *w, size_t door, int fd, struct error *e)
{
    struct worker_door *d = &w->doors[door];

    return listener_start(w->loop, fd, on_accept, d, &d->listener, e);
}

/* ---- draining ---- */

static void stop_listening(struct worker *w)
{
    for (size_t i = 0; w->doors != NULL && i < w->broker->nlisteners; i++) {
        listener_stop(w->doors[i].listener);
        w->doors[i].listener = NULL;
    }
}

static void tell_if_drained(void *ctx)
{
    struct worker *w = ctx;

    if (w->draining && !w->drained && list_empty(&w->wire.sessions)) {
        w->drained = true;
        if (loop_post(w->broker->workers[0].loop, &w->done) != ERR_OK) {
            w->drained = false; /* the deadline of the broker ends it anyway */
        }
    }
}

static void on_drain(struct loop_message *m, struct loop *loop)
{
    struct worker *w = LIST_ENTRY(m, struct worker, drain);

    (void)loop;
    w->draining = true;
    stop_listening(w);
    wire_drain(&w->wire);
    tell_if_drained(w);
}

static void on_shut_down(struct loop_message *m, struct loop *loop)
{
    struct worker *w = LIST_ENTRY(m, struct worker, shut_down);

    (void)loop;
    wire_shut_down(&w->wire);
}

/* ---- reload ---- */

static void on_use(struct loop_message *m, struct loop *loop)
{
    struct worker *w = LIST_ENTRY(m, struct worker, use);
    struct snapshot *before = w->snapshot;

    (void)loop;
    atomic_store(&w->use_posted, false); /* before the look: what comes later is posted again */
    struct snapshot *next = atomic_exchange(&w->next, NULL);
    if (next == NULL) {
        return;
    }
    w->snapshot = next;
    wire_use(&w->wire, next->config, next->tls);
    router_use(w->router, next->providers);
    snapshot_unref(before);
}

bool worker_use(struct worker *w, struct snapshot *s)
{
    if (s != NULL) {
        snapshot_unref(atomic_exchange(&w->next, snapshot_ref(s)));
    }
    if (atomic_exchange(&w->use_posted, true)) {
        return true; /* it is on its way, and finds the newest */
    }
    if (loop_post(w->loop, &w->use) == ERR_OK) {
        return true;
    }
    atomic_store(&w->use_posted, false);
    return false;
}

/* ---- life ---- */

static void add_methods(struct worker *w)
{
    struct methods *m = &w->wire.methods;
    struct bus *bus = w->broker->bus;

    methods_add(m, (struct method){
                       .name = "llm.chat", .start = chat_start, .ctx = w->router, .metered = true});
    methods_add(m, (struct method){.name = "tool.call", .start = tool_call_start, .metered = true});
    methods_add(m, (struct method){.name = "events.emit", .start = events_emit_start, .ctx = bus});
    methods_add(m, (struct method){.name = "control.request", .start = control_request_start});
    methods_add(m, (struct method){.name = "mcp.list_tools", .start = mcp_list_tools_start});
    methods_add(
        m, (struct method){.name = "mcp.call_tool", .start = mcp_call_tool_start, .metered = true});
    methods_add(m, (struct method){.name = "broker.info", .start = self_info_start, .ctx = w});
    methods_add(
        m, (struct method){
               .name = "broker.cancel", .start = self_cancel_start, .ctx = w, .unlimited = true});
}

enum err worker_init(struct worker *w, struct broker *b, unsigned index, struct error *e)
{
    w->broker = b;
    w->index = index;
    w->drain.fn = on_drain;
    w->shut_down.fn = on_shut_down;
    w->use.fn = on_use;
    enum err rc = loop_new(&w->loop, e);
    if (rc != ERR_OK) {
        return rc;
    }
    w->snapshot = snapshot_ref(b->snapshot);
    wire_init(&w->wire, w->loop, w->snapshot->config, &b->totals);
    w->wire.tls = w->snapshot->tls;
    w->wire.grants = b->grants;
    w->wire.ledger = b->ledger;
    w->wire.on_session_gone = tell_if_drained;
    w->wire.on_session_gone_ctx = w;
    rc = http_client_new(&w->http, w->loop, e);
    if (rc != ERR_OK) {
        return rc;
    }
    w->router = router_new(w->loop, w->http, b->snapshot->providers, b->aws);
    w->doors = calloc(b->nlisteners + 1, sizeof(*w->doors));
    if (w->router == NULL || w->doors == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a worker");
    }
    for (size_t i = 0; i < b->nlisteners; i++) {
        w->doors[i] = (struct worker_door){.worker = w, .door = &b->doors[i]};
    }
    add_methods(w);
    return ERR_OK;
}

/* All that must be closed on the worker's own thread. */
static void close_all(struct worker *w)
{
    w->wire.on_session_gone = NULL;
    w->draining = true; /* what is still handed over is closed */
    stop_listening(w);
    wire_close_all(&w->wire);
}

static void *run(void *ctx)
{
    struct worker *w = ctx;

    loop_run(w->loop);
    close_all(w);
    return NULL;
}

enum err worker_start(struct worker *w, struct error *e)
{
    int rc = pthread_create(&w->thread, NULL, run, w);

    if (rc != 0) {
        return err_sys(e, ERR_IO, rc, "cannot start a thread");
    }
    w->thread_started = true;
    return ERR_OK;
}

void worker_stop(struct worker *w)
{
    if (w->loop == NULL) {
        return;
    }
    if (w->thread_started) {
        loop_stop(w->loop);
        (void)pthread_join(w->thread, NULL);
    } else {
        close_all(w);
    }
}

void worker_fini(struct worker *w)
{
    if (w->loop == NULL) {
        return;
    }
    loop_run_closing(w->loop); /* messages that were on the way own what they carry */
    router_free(w->router);
    if (w->http != NULL) {
        http_client_free(w->http);
    }
    snapshot_unref(atomic_exchange(&w->next, NULL));
    snapshot_unref(w->snapshot);
    loop_free(w->loop);
    free(w->doors);
}
