/* Subscribers of the bus over HTTP: see event_streams.h. Used by app/admin, on its loop. */
#include "http/event_streams.h"

#include "base/buf.h"
#include "base/list.h"
#include "events/bus.h"
#include "http/httpd.h"
#include "net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX  (BUS_RING_BYTES + 256u) /* one event with what is around it */
#define TEXT_KEEP (16u * 1024u)           /* memory that a waiting subscriber keeps */
#define COMMENT   ":\n\n"

struct event_streams {
    struct loop *loop;
    struct bus *bus;
    struct list subscribers;
    struct loop_deadline heartbeat;
    struct loop_task again; /* somebody was interrupted */
    uint32_t heartbeat_ms;
};

struct subscriber {
    struct list node;
    struct event_streams *streams;
    struct httpd_request *request;
    struct bus_reader *reader;
    struct buf text;  /* what goes out next */
    size_t sent;      /* of it */
    bool beat;        /* a comment is due */
    bool interrupted; /* the ring has more that was not looked at yet */
    bool last;        /* its run is over: it ends where the ring ends */
    char run[];       /* "": all */
};

static void wake_all(void *ctx)
{
    struct event_streams *s = ctx;

    for (struct list *n = s->subscribers.next; n != &s->subscribers; n = n->next) {
        httpd_stream_wake(LIST_ENTRY(n, struct subscriber, node)->request);
    }
}

static void arm_heartbeat(struct event_streams *s)
{
    /* Without memory for it subscribers who left are noticed at their next event. */
    if (s->heartbeat.at == 0 &&
        loop_deadline_set(s->loop, &s->heartbeat, loop_now(s->loop) + s->heartbeat_ms) != ERR_OK) {
        s->heartbeat.at = 0;
    }
}

static void on_heartbeat(void *ctx)
{
    struct event_streams *s = ctx;

    if (list_empty(&s->subscribers)) {
        return;
    }
    for (struct list *n = s->subscribers.next; n != &s->subscribers; n = n->next) {
        LIST_ENTRY(n, struct subscriber, node)->beat = true;
    }
    wake_all(s);
    arm_heartbeat(s);
}

/* The next event into sub->text, whose first bytes say which one it is, so the line is read behind
 * room for them. False: nothing now, or *end. */
static bool next_event(struct subscriber *sub, bool *end)
{
    static const char room[] = "id: 18446744073709551615\ndata: "; /* the longest */
    size_t head_n = sizeof(room) - 1;
    char head[sizeof(room)];
    uint64_t n = 0;

    if (sub->text.cap > TEXT_KEEP) {
        buf_fini(&sub->text);
    }
    buf_clear(&sub->text);
    sub->sent = 0;
    sub->interrupted = false;
    buf_put_str(&sub->text, room);
    switch (bus_reader_next(sub->reader, &sub->text, &n)) {
    case BUS_READ_EVENT:
        head_n = (size_t)snprintf(head, sizeof(head), "id: %llu\ndata: ", (unsigned long long)n);
        sub->sent = sizeof(room) - 1 - head_n;
        memcpy(sub->text.p + sub->sent, head, head_n);
        buf_put_str(&sub->text, "\n\n");
        break;
    case BUS_READ_LOST:
        buf_clear(&sub->text);
        buf_printf(&sub->text, "event: dropped\ndata: {\"dropped\":%llu}\n\n",
                   (unsigned long long)n);
        break;
    case BUS_READ_MORE:
        sub->interrupted = true;
        loop_defer(sub->streams->loop, &sub->streams->again);
        buf_clear(&sub->text);
        return false;
    case BUS_READ_NONE:
        buf_clear(&sub->text);
        return false;
    case BUS_READ_NOMEM:
        *end = true; /* the client comes again with the number that it has */
        break;
    }
    *end = *end || buf_status(&sub->text) != ERR_OK;
    return !*end;
}

static size_t on_read(void *ctx, char *p, size_t max, bool *end)
{
    struct subscriber *sub = ctx;
    size_t done = 0;

    while (done < max && !*end) {
        size_t left = sub->text.len - sub->sent;
        if (left > 0) {
            size_t n = left < max - done ? left : max - done;
            memcpy(p + done, sub->text.p + sub->sent, n);
            sub->sent += n;
            done += n;
            continue;
        }
        bool event = next_event(sub, end);
        if (!event && sub->beat && !*end) {
            buf_put_str(&sub->text, COMMENT);
            *end = buf_status(&sub->text) != ERR_OK;
        } else if (!event) {
            *end = *end || (sub->last && done == 0 && !sub->interrupted);
            break;
        }
        sub->beat = false;
    }
    return done;
}

static void subscriber_free(struct subscriber *sub)
{
    list_remove(&sub->node);
    bus_reader_free(sub->reader);
    buf_fini(&sub->text);
    free(sub);
}

static void on_gone(void *ctx)
{
    subscriber_free(ctx);
}

enum err event_streams_start(struct event_streams *s, struct httpd_request *r, const char *run,
                             const uint64_t *since)
{
    static const struct httpd_stream_handler handler = {.read = on_read, .on_gone = on_gone};
    size_t run_n = run == NULL ? 0 : strlen(run);
    struct subscriber *sub = calloc(1, sizeof(*sub) + run_n + 1);

    if (sub == NULL) {
        return ERR_NOMEM;
    }
    memcpy(sub->run, run == NULL ? "" : run, run_n);
    sub->streams = s;
    sub->request = r;
    buf_init(&sub->text, TEXT_MAX);
    buf_put_str(&sub->text, COMMENT); /* the client sees at once that it is connected */
    list_push_back(&s->subscribers, &sub->node);
    sub->reader = bus_reader_new(s->bus, run, since);
    enum err rc = buf_status(&sub->text);
    rc = rc != ERR_OK || sub->reader == NULL ? ERR_NOMEM
                                             : httpd_stream(r, "text/event-stream", &handler, sub);
    if (rc != ERR_OK) {
        subscriber_free(sub);
        return rc;
    }
    arm_heartbeat(s);
    return ERR_OK;
}

void event_streams_end_run(struct event_streams *s, const char *run)
{
    for (struct list *n = s->subscribers.next; n != &s->subscribers; n = n->next) {
        struct subscriber *sub = LIST_ENTRY(n, struct subscriber, node);
        if (strcmp(sub->run, run) == 0) {
            sub->last = true;
            httpd_stream_wake(sub->request);
        }
    }
}

struct event_streams *event_streams_new(struct loop *loop, struct bus *bus, uint32_t heartbeat_ms)
{
    struct event_streams *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->loop = loop;
        s->bus = bus;
        s->heartbeat_ms = heartbeat_ms;
        list_init(&s->subscribers);
        loop_deadline_init(&s->heartbeat, on_heartbeat, s);
        loop_task_init(&s->again, wake_all, s);
        bus_watch(bus, loop, wake_all, s);
    }
    return s;
}

void event_streams_free(struct event_streams *s)
{
    if (s == NULL) {
        return;
    }
    bus_watch(s->bus, NULL, NULL, NULL);
    loop_deadline_clear(s->loop, &s->heartbeat);
    loop_task_cancel(&s->again);
    free(s);
}
