/*
 * See relay.h. Two directions that know of each other only through the ids in flight: a request's
 * id is read from the head of its line, an event's from the beginning that the broker always gives
 * it ({"id":…,"event":…).
 */
#include "relay/relay.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/json_span.h"
#include "base/list.h"
#include "base/log.h"
#include "net/client.h"
#include "net/stream.h"
#include "relay/event_head.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_HEAD_MAX 65536u /* where a request's id is looked for */
#define CONNECT_MS       5000u

struct waiting {
    struct list node;
    size_t n;
    char id[]; /* decoded */
};

struct relay {
    struct loop *loop;
    struct client_endpoint endpoint;
    const struct relay_handler *handler;
    void *ctx;
    struct stream *stream; /* NULL: not connected */
    bool held;
    struct list ids;
    size_t nids;
    struct buf head;         /* of the request that is coming */
    bool head_done;          /* its id was looked for */
    bool ending;             /* the broker reads no more of this connection */
    bool dropping;           /* the rest of the request goes nowhere: its connection is lost */
    struct event_head event; /* of the event that is coming */
};

static const struct stream_handler stream_handler;

/* ---- ids in flight ---- */

static void remember(struct relay *r, struct span id)
{
    struct waiting *w = r->nids < RELAY_IDS_MAX ? malloc(sizeof(*w) + id.n) : NULL;

    if (w == NULL) {
        return;
    }
    w->n = id.n;
    memcpy(w->id, id.p, id.n);
    list_push_back(&r->ids, &w->node);
    r->nids++;
}

static void forget(struct relay *r, struct waiting *w)
{
    list_remove(&w->node);
    r->nids--;
    free(w);
}

static void forget_id(struct relay *r, struct span id)
{
    for (struct list *n = r->ids.next; n != &r->ids; n = n->next) {
        struct waiting *w = LIST_ENTRY(n, struct waiting, node);
        if (span_eq(id, span_of(w->id, w->n))) {
            forget(r, w);
            return;
        }
    }
}

/* ---- a lost connection ---- */

static void say_lost(struct relay *r, struct span id, const char *why)
{
    struct buf line;

    buf_init(&line, 8 * REQUEST_HEAD_MAX);
    buf_put_str(&line, "{\"id\":");
    json_put_string(&line, id);
    buf_put_str(&line,
                ",\"event\":\"error\",\"error\":{\"type\":\"APIConnectionError\",\"message\":");
    json_put_string(&line, span_str(why));
    buf_put_str(&line, "}}\n");
    struct span piece = buf_span(&line);
    if (buf_status(&line) == ERR_OK && r->handler->on_reply(r->ctx, &piece, 1) != ERR_OK) {
        log_warn("relay", LOG_MSG("a reply did not reach the container"));
    }
    buf_fini(&line);
}

static void lose(struct relay *r, const char *why)
{
    struct span newline = SPAN("\n");

    stream_close(r->stream);
    r->stream = NULL;
    r->ending = false;
    /* until the request that is coming has ended; between two it means nothing */
    r->dropping = true;
    if (event_head_partial(&r->event)) {
        (void)r->handler->on_reply(r->ctx, &newline, 1);
    }
    event_head_init(&r->event);
    while (!list_empty(&r->ids)) {
        struct waiting *w = LIST_ENTRY(r->ids.next, struct waiting, node);
        say_lost(r, span_of(w->id, w->n), why);
        forget(r, w);
    }
    r->handler->on_drain(r->ctx); /* nothing waits any more */
}

/* ---- from the broker ---- */

static void on_data(void *ctx, const char *p, size_t n)
{
    struct relay *r = ctx;
    struct span in = span_of(p, n);
    struct event_end end;

    if (r->handler->on_reply(r->ctx, &in, 1) != ERR_OK) {
        log_warn("relay", LOG_MSG("a reply did not reach the container"));
    }
    while (event_head_next(&r->event, &in, &end)) {
        forget_id(r, end.id);
        r->ending = r->ending || end.connection;
    }
    if (r->ending && !r->dropping) {
        r->dropping = true;
        r->handler->on_drain(r->ctx);
    }
}

static void on_eof(void *ctx)
{
    lose(ctx, "The connection to the broker was lost");
}

static void on_close(void *ctx, enum err why)
{
    struct relay *r = ctx;

    (void)why;
    r->stream = NULL;
    lose(r, "The connection to the broker was lost");
}

static void on_drain(void *ctx)
{
    struct relay *r = ctx;

    r->handler->on_drain(r->ctx);
}

static const struct stream_handler stream_handler = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_close = on_close,
};

/* ---- to the broker ---- */

static enum err connect_broker(struct relay *r, struct error *e)
{
    struct stream_options options = {.eof_means_gone = true};
    int fd = -1;
    enum err rc = client_dial(&r->endpoint, CONNECT_MS, &fd, e);

    if (rc == ERR_OK) {
        rc = stream_new(r->loop, fd, &options, &stream_handler, r, &r->stream, e);
    }
    if (rc == ERR_OK && r->held) {
        stream_pause(r->stream);
    }
    return rc;
}

static void send(struct relay *r, struct span piece)
{
    if (!r->dropping && piece.n > 0 && stream_write(r->stream, &piece, 1) != ERR_OK) {
        lose(r, "The connection to the broker was lost");
    }
}

/* Reads the id from what there is of the line; a line without one is the broker's to answer. */
static void read_id(struct relay *r)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_members members = {0};
    struct json_fault fault;
    struct buf id;

    r->head_done = true;
    (void)!json_check_object(buf_span(&r->head), &rules, &members, &fault);
    struct json_value v = json_get(&members, "id");
    buf_init(&id, REQUEST_HEAD_MAX);
    if (v.type == JSON_STRING) {
        json_string_decode(v, &id, NULL);
    }
    if (buf_status(&id) == ERR_OK && id.len > 0) {
        remember(r, buf_span(&id));
    }
    buf_fini(&id);
}

/* The first bytes of a request. One after the error that ends a connection is not lost with it. */
static void begin(struct relay *r)
{
    if (r->ending) {
        lose(r, "The connection to the broker was lost");
    }
    r->dropping = false;
    if (r->stream == NULL) {
        struct error e = {0};
        if (connect_broker(r, &e) != ERR_OK) {
            log_warn("relay", LOG_MSG("no connection to the broker"), LOG_STR("why", e.msg));
            r->dropping = true;
        }
    }
}

void relay_request(struct relay *r, struct span piece)
{
    if (r->head.len == 0 && !r->head_done && piece.n > 0) {
        begin(r);
    }
    if (!r->head_done) {
        size_t room = REQUEST_HEAD_MAX - r->head.len;
        buf_put(&r->head, piece.p, piece.n < room ? piece.n : room);
        if (r->head.len == REQUEST_HEAD_MAX) {
            read_id(r);
        }
    }
    send(r, piece);
}

void relay_request_end(struct relay *r)
{
    if (r->head.len == 0 && !r->head_done) {
        return; /* a blank line */
    }
    if (!r->head_done) {
        read_id(r);
    }
    send(r, SPAN("\n"));
    if (r->stream == NULL) {
        lose(r, "No connection to the broker");
    }
    buf_clear(&r->head);
    r->head_done = false;
}

bool relay_congested(const struct relay *r)
{
    return r->stream != NULL && !r->ending && stream_congested(r->stream);
}

void relay_hold(struct relay *r, bool hold)
{
    if (hold == r->held) {
        return;
    }
    r->held = hold;
    if (r->stream != NULL && hold) {
        stream_pause(r->stream);
    } else if (r->stream != NULL) {
        stream_resume(r->stream);
    }
}

size_t relay_queued(const struct relay *r)
{
    return r->stream == NULL || r->ending ? 0 : stream_queued(r->stream);
}

size_t relay_inflight(const struct relay *r)
{
    return r->nids;
}

/* ---- life ---- */

enum err relay_new(struct loop *loop, const char *endpoint, const struct relay_handler *handler,
                   void *ctx, struct relay **out, struct error *e)
{
    struct relay *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    r->loop = loop;
    r->handler = handler;
    r->ctx = ctx;
    list_init(&r->ids);
    buf_init(&r->head, REQUEST_HEAD_MAX);
    event_head_init(&r->event);
    enum err rc = client_endpoint_parse(endpoint, &r->endpoint, e);
    if (rc == ERR_OK && r->endpoint.transport == CLIENT_TLS) {
        rc = err_set(e, ERR_CONFIG,
                     "transport stdio relays to a broker on a Unix socket or tcp://, not %s",
                     endpoint);
    }
    if (rc != ERR_OK) {
        relay_free(r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

void relay_free(struct relay *r)
{
    if (r == NULL) {
        return;
    }
    stream_close(r->stream);
    while (!list_empty(&r->ids)) {
        forget(r, LIST_ENTRY(r->ids.next, struct waiting, node));
    }
    buf_fini(&r->head);
    free(r);
}
