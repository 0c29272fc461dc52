/*
 * Sessions: from accepted socket to last byte. The stream calls in with bytes and ends; requests
 * call in when they have something to say or have ended.
 */
#include "wire/session.h"

#include "base/json.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/text.h"
#include "tactus/protocol.h"
#include "wire/session_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ID_MAX              4096u /* of a request's id, decoded */
#define OVER_LIMIT_MS       1000u
#define OVER_LIMIT_SESSIONS 256u
#define EVENT_PIECES_MAX    8
#define DRAIN_READ_MS       50u   /* draining: for requests that are on their way */
#define QUOTED_MAX          200u  /* bytes of a caller's words in a message */
#define QUOTED_FROM         8192u /* and how many are looked through for secrets before the cut */

static const struct stream_handler stream_handler;

const struct listener_config *session_listener(const struct session *s)
{
    const struct wire_door *door = s->door;

    return door->listener != NULL ? door->listener : &s->wire->config->listeners[door->index];
}

static SSL_CTX *door_tls(const struct wire *w, const struct wire_door *door)
{
    if (door->listener == NULL) {
        return w->tls == NULL ? NULL : w->tls[door->index];
    }
    return door->listener->kind == LISTENER_TLS && door->tls == NULL && w->tls != NULL
               ? w->tls[w->config->nlisteners]
               : door->tls;
}

/* ---- deadlines and the end ---- */

static void arm(struct session *s, uint64_t at)
{
    if (loop_deadline_set(s->wire->loop, &s->deadline, at) != ERR_OK) {
        log_warn("session", LOG_MSG("no memory for a deadline"), LOG_U64("conn", s->id));
    }
}

/* One deadline a session: which one depends on what it waits for. */
static void rearm(struct session *s)
{
    const struct limits *l = &s->wire->config->limits;

    if (s->wire->draining && s->ninflight == 0 && s->state <= SESSION_OPEN) {
        arm(s, loop_now(s->wire->loop) + DRAIN_READ_MS);
    } else if (s->state < SESSION_OPEN) {
        return; /* armed when it was accepted, or opened */
    } else if (s->state > SESSION_OPEN) {
        loop_deadline_clear(s->wire->loop, &s->deadline);
    } else if (s->message_since != 0) {
        arm(s, s->message_since + l->request_timeout);
    } else if (s->ninflight > 0) {
        loop_deadline_clear(s->wire->loop, &s->deadline);
    } else {
        arm(s, loop_now(s->wire->loop) + l->idle_timeout);
    }
}

static void abort_requests(struct session *s, const struct failure *failure)
{
    while (!list_empty(&s->requests)) {
        request_abort(LIST_ENTRY(s->requests.next, struct request, node), failure);
    }
}

void session_finish(struct session *s)
{
    struct failure f;

    if (s->state == SESSION_FINISHING) {
        return;
    }
    failure_init(&f, TACTUS_E_CANCELLED, "The connection ends");
    abort_requests(s, &f);
    s->state = SESSION_FINISHING;
    loop_deadline_clear(s->wire->loop, &s->deadline);
    stream_finish(s->stream, s->wire->config->limits.stall_timeout);
}

static void on_deadline(void *ctx)
{
    struct session *s = ctx;

    if (s->wire->draining && s->ninflight == 0) {
        session_finish(s);
        return;
    }
    if (s->state == SESSION_OPEN && stream_congested(s->stream) &&
        stream_queued(s->stream) != s->stuck_at) {
        /* It is we who do not read: the client takes, slowly, what it asked for. */
        s->stuck_at = stream_queued(s->stream);
        s->message_since = s->message_since == 0 ? 0 : loop_now(s->wire->loop);
        rearm(s);
        return;
    }
    log_debug("session", LOG_MSG("timed out"), LOG_U64("conn", s->id));
    atomic_fetch_add_explicit(&s->wire->totals->timed_out, 1, memory_order_relaxed);
    session_finish(s);
}

static void on_settle(void *ctx)
{
    struct session *s = ctx;

    if (s->ninflight == 0 && s->state == SESSION_HALF_CLOSED) {
        session_finish(s);
    } else {
        rearm(s);
    }
}

void session_settle(struct session *s)
{
    loop_defer(s->wire->loop, &s->settle);
}

static void session_free(struct session *s)
{
    struct wire *w = s->wire;
    struct wire_door *door = s->door;

    abort_requests(s, NULL);
    loop_deadline_clear(w->loop, &s->deadline);
    loop_task_cancel(&s->settle);
    framing_fini(&s->framing);
    grant_unref(s->known);
    list_remove(&s->node);
    atomic_fetch_sub(&w->totals->connections, 1);
    if (s->over_limit) {
        atomic_fetch_sub(&w->totals->overloaded, 1);
    }
    log_debug("session", LOG_MSG("closed"), LOG_U64("conn", s->id));
    free(s);
    atomic_fetch_sub_explicit(&door->connections, 1, memory_order_relaxed);
    wire_door_unref(door);
    if (w->on_session_gone != NULL) {
        w->on_session_gone(w->on_session_gone_ctx);
    }
}

/* ---- output ---- */

static enum err write_event(struct session *s, struct span id_json, const char *event,
                            const char *member, const struct span *pieces, size_t n, bool bounded)
{
    bool counted = s->framing.kind == FRAMING_LENGTH;
    struct wire_totals *totals = s->wire->totals;
    char prefix[TACTUS_LENGTH_PREFIX + 1];
    struct span all[EVENT_PIECES_MAX + 10] = {
        {NULL, 0},       SPAN("{\"id\":"), id_json,          SPAN(",\"event\":\""),
        span_str(event), SPAN("\",\""),    span_str(member), SPAN("\":")};
    size_t count = 8;
    size_t total = 0;

    for (size_t i = 0; i < n && i < EVENT_PIECES_MAX; i++) {
        all[count++] = pieces[i];
    }
    all[count++] = counted ? SPAN("}") : SPAN("}\n");
    for (size_t i = 0; i < count; i++) {
        total += all[i].n;
    }
    if (counted) {
        snprintf(prefix, sizeof(prefix), "%010zu\n", total);
        all[0] = span_of(prefix, TACTUS_LENGTH_PREFIX);
    }
    if (bounded && atomic_load_explicit(&totals->buffered, memory_order_relaxed) + total >
                       s->wire->config->limits.max_buffered_bytes) {
        return ERR_LIMIT;
    }
    return stream_write(s->stream, all, count);
}

enum err session_event(struct session *s, struct span id_json, const char *event,
                       const char *member, const struct span *pieces, size_t n)
{
    return write_event(s, id_json, event, member, pieces, n, true);
}

/* An error that belongs to no request in flight: under `id` (decoded, may be empty). */
static void refuse_with(struct session *s, struct span id, const struct failure *f)
{
    struct buf json;

    buf_init(&json, 8 * ID_MAX);
    json_put_string(&json, id);
    size_t id_length = json.len;
    failure_put_json(f, &json);
    enum err rc = buf_status(&json);
    if (rc == ERR_OK) {
        struct span error = span_of(json.p + id_length, json.len - id_length);
        rc = write_event(s, span_of(json.p, id_length), "error", "error", &error, 1, false);
    }
    buf_fini(&json);
    if (rc != ERR_OK) {
        session_finish(s); /* not even an error fits: the close tells */
    }
}

static void refuse(struct session *s, struct span id, const char *type, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static void refuse(struct session *s, struct span id, const char *type, const char *fmt, ...)
{
    struct failure f;
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    failure_init(&f, type, "%s", text);
    refuse_with(s, id, &f);
}

static void refuse_busy(struct session *s, struct span id, const char *type, const char *text)
{
    struct failure f;

    failure_init(&f, type, "%s", text);
    f.retry_after = 1;
    refuse_with(s, id, &f);
}

static void answer_http(struct session *s, const char *status, const char *body)
{
    char head[256];

    snprintf(head, sizeof(head),
             "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
             "Connection: close\r\n\r\n",
             status, strlen(body));
    struct span pieces[] = {span_str(head), span_str(body)};
    if (stream_write(s->stream, pieces, 2) != ERR_OK) {
        log_debug("session", LOG_MSG("no memory for an HTTP answer"), LOG_U64("conn", s->id));
    }
    session_finish(s);
}

/* ---- who is calling (caller.c) ---- */

static void refuse_stranger(struct session *s, struct span id)
{
    refuse(s, id, TACTUS_E_UNAUTHENTICATED,
           "This listener wants a token, or a certificate, of a grant");
    session_finish(s);
}

/* ---- messages ---- */

static bool too_busy(struct session *s, const struct method *m, struct span id)
{
    const struct limits *l = &s->wire->config->limits;

    if (s->wire->draining) {
        refuse(s, id, TACTUS_E_SHUTTING_DOWN, "The broker is shutting down");
        return true;
    }
    if (m->unlimited) {
        return false;
    }
    if (s->ninflight >= l->max_inflight_per_connection) {
        refuse_busy(s, id, TACTUS_E_TOO_MANY_REQUESTS,
                    "limits.max_inflight_per_connection reached");
        return true;
    }
    if (atomic_load_explicit(&s->wire->totals->inflight, memory_order_relaxed) >= l->max_inflight) {
        refuse_busy(s, id, TACTUS_E_OVERLOADED, "limits.max_inflight reached");
        return true;
    }
    return false;
}

static const char *limit_text(enum meter_answer answer)
{
    return answer == METER_INFLIGHT ? "The grant's max_inflight is reached"
                                    : "The grant's requests a minute (rpm) are used up";
}

/* The grant's own limits. */
static bool over_limits(struct session *s, const struct method *m, const struct grant *grant,
                        struct span id)
{
    uint32_t retry_ms = 0;
    struct failure f;

    if (!m->metered) {
        return false;
    }
    enum meter_answer answer =
        meter_begin(grant->meter, &grant->limits, loop_now(s->wire->loop), &retry_ms);
    if (answer == METER_PASSED) {
        return false;
    }
    failure_init(&f, TACTUS_E_TOO_MANY_REQUESTS, "%s", limit_text(answer));
    f.retry_after = retry_ms / 1000.0;
    refuse_with(s, id, &f);
    return true;
}

/* Quotes the caller's own words, in which there may be a secret: replaced before they are cut. */
static void refuse_method(struct session *s, struct span id, struct span name)
{
    struct buf clean;

    buf_init(&clean, 4 * QUOTED_FROM);
    redact_text(s->wire->config->redact, span_of(name.p, text_cut(name.p, name.n, QUOTED_FROM)),
                false, &clean);
    /* Without memory nothing is quoted. */
    struct span text = buf_status(&clean) == ERR_OK ? buf_span(&clean) : (struct span){"", 0};
    refuse(s, id, TACTUS_E_METHOD_NOT_FOUND, "Unknown method: %.*s",
           (int)text_cut(text.p, text.n, QUOTED_MAX), text.n == 0 ? "" : text.p);
    buf_fini(&clean);
}

static void start_request(struct session *s, const struct json_members *top, struct grant *grant,
                          struct span id, struct span name)
{
    struct json_value params = json_get(top, "params");
    struct json_members members = {0};
    struct json_fault fault;

    if (params.type != JSON_ABSENT && params.type != JSON_NULL && params.type != JSON_OBJECT) {
        refuse(s, id, TACTUS_E_BAD_REQUEST, "params must be an object");
        return;
    }
    if (params.type == JSON_OBJECT && json_object_members(params, &members, &fault) != ERR_OK) {
        refuse(s, id, TACTUS_E_BAD_REQUEST, "params: %s", fault.what);
        return;
    }
    if (request_find(s, id) != NULL) {
        refuse(s, id, TACTUS_E_BAD_REQUEST, "Duplicate id");
        return;
    }
    const struct method *m = methods_find(&s->wire->methods, name);
    if (m == NULL) {
        refuse_method(s, id, name);
        return;
    }
    if (!too_busy(s, m, id) && !over_limits(s, m, grant, id)) {
        request_start(s, m, grant, id, &members);
    }
}

/* The decoded text of a string without copying when it has no escapes; else through `b`. */
static struct span string_text(struct json_value v, struct buf *b)
{
    if (v.type != JSON_STRING) {
        return (struct span){NULL, 0};
    }
    if (!v.escaped) {
        return span_of(v.text.p + 1, v.text.n - 2);
    }
    json_string_decode(v, b, NULL);
    return buf_status(b) == ERR_OK ? buf_span(b) : (struct span){NULL, 0};
}

static void on_request(struct session *s, const struct json_members *top, struct grant *grant,
                       struct span id, struct json_value id_value)
{
    struct json_value method = json_get(top, "method");
    struct buf name_text;

    if (id_value.type != JSON_STRING || id.n == 0 || method.type != JSON_STRING ||
        method.text.n <= 2) {
        bool scalar = id_value.type == JSON_NUMBER || id_value.type == JSON_TRUE ||
                      id_value.type == JSON_FALSE;
        refuse(s, scalar && id_value.text.n <= ID_MAX ? id_value.text : id, TACTUS_E_BAD_REQUEST,
               "Missing id/method");
        return;
    }
    buf_init(&name_text, ID_MAX);
    struct span name = string_text(method, &name_text);
    if (buf_status(&name_text) == ERR_NOMEM) {
        refuse(s, id, TACTUS_E_INTERNAL, "out of memory");
    } else {
        start_request(s, top, grant, id, name);
    }
    buf_fini(&name_text);
}

static void on_message(struct session *s, struct span text)
{
    struct json_rules rules = {.max_depth = s->wire->config->limits.max_json_depth};
    struct json_members top = {0};
    struct json_fault fault = {0};
    struct buf id_text;

    enum err rc = json_check_object(text, &rules, &top, &fault);
    struct json_value id_value = json_get(&top, "id");
    buf_init(&id_text, 4 * ID_MAX);
    struct span id = string_text(id_value, &id_text);
    if (id_value.type == JSON_STRING && id_value.text.n > ID_MAX) {
        refuse(s, SPAN(""), TACTUS_E_BAD_REQUEST, "id: longer than %u bytes", ID_MAX);
    } else if (buf_status(&id_text) != ERR_OK) {
        session_finish(
            s); /* no memory to say whose it was, and an error of nobody's reaches nobody */
    } else if (rc == ERR_NOMEM) {
        refuse(s, id, TACTUS_E_INTERNAL, "out of memory");
    } else if (rc != ERR_OK) {
        refuse(s, id, TACTUS_E_BAD_REQUEST, "Invalid request at byte %zu: %s", fault.offset,
               fault.what);
        if (caller_is_unknown(s)) {
            session_finish(s);
        }
    } else {
        struct grant *grant = caller_find(s, text, &top);
        if (grant == NULL) {
            refuse_stranger(s, id);
        } else {
            on_request(s, &top, grant, id, id_value);
        }
        grant_unref(grant);
    }
    buf_fini(&id_text);
}

/* ---- input ---- */

static void framing_failed(struct session *s, enum framing_result rc)
{
    const struct limits *l = &s->wire->config->limits;
    struct span none = SPAN("");

    framing_forget(&s->framing);
    switch (rc) {
    case FRAMING_TOO_LARGE:
        refuse(s, none, TACTUS_E_MESSAGE_TOO_LARGE,
               "Message over limits.max_message_bytes (%llu bytes)",
               (unsigned long long)l->max_message_bytes);
        break;
    case FRAMING_OVERLOADED:
        refuse_busy(s, none, TACTUS_E_OVERLOADED, "limits.max_buffered_bytes reached");
        break;
    case FRAMING_NOMEM:
        refuse(s, none, TACTUS_E_INTERNAL, "out of memory");
        break;
    default:
        refuse(s, none, TACTUS_E_BAD_REQUEST,
               "Length prefix: expected ten digits of a length above zero, then a newline");
        break;
    }
    session_finish(s);
}

static void on_first_byte(struct session *s, char first)
{
    s->state = SESSION_OPEN;
    s->framing.kind = framing_detect(first);
    if (s->framing.kind == FRAMING_HTTP) {
        if (s->over_limit) {
            answer_http(
                s, "503 Service Unavailable",
                "{\"error\":{\"type\":\"Overloaded\",\"message\":\"Too many connections\"}}");
        } else {
            answer_http(s, "404 Not Found",
                        "{\"error\":{\"type\":\"NotFound\",\"message\":\"No HTTP here\"}}");
        }
    } else if (s->over_limit) {
        refuse_busy(s, SPAN(""), TACTUS_E_OVERLOADED, "limits.max_connections reached");
        session_finish(s);
    }
}

static void on_data(void *ctx, const char *p, size_t n)
{
    struct session *s = ctx;
    struct span in = span_of(p, n);
    struct span message;
    enum framing_result rc = FRAMING_MESSAGE;

    if (s->state == SESSION_FIRST || s->state == SESSION_OPENING) {
        on_first_byte(s, p[0]);
    }
    while (s->state == SESSION_OPEN) {
        rc = framing_next(&s->framing, &in, &message);
        if (rc != FRAMING_MESSAGE) {
            break;
        }
        s->message_since = 0;
        s->vouched = false;
        on_message(s, message);
    }
    if (s->state != SESSION_OPEN) {
        return;
    }
    if (rc != FRAMING_MORE) {
        framing_failed(s, rc);
        return;
    }
    if (!caller_may_go_on(s)) {
        framing_forget(&s->framing);
        refuse_stranger(s, SPAN(""));
        return;
    }
    if (framing_partial(&s->framing) && s->message_since == 0) {
        s->message_since = loop_now(s->wire->loop);
    }
    if (stream_congested(s->stream)) {
        stream_pause(s->stream);
    }
    session_settle(s);
}

static void on_open(void *ctx)
{
    struct session *s = ctx;

    s->state = SESSION_FIRST;
    caller_by_certificate(s);
    if (!s->over_limit) {
        arm(s, loop_now(s->wire->loop) + s->wire->config->limits.first_byte_timeout);
    }
}

static void on_eof(void *ctx)
{
    struct session *s = ctx;
    struct failure f;

    if (s->state == SESSION_FINISHING) {
        return;
    }
    if (!session_listener(s)->half_close_finish) {
        failure_init(&f, TACTUS_E_CANCELLED, "The client closed the connection");
        abort_requests(s, &f);
    }
    if (s->ninflight == 0) {
        session_finish(s);
        return;
    }
    s->state = SESSION_HALF_CLOSED;
    rearm(s);
}

static void on_drain(void *ctx)
{
    struct session *s = ctx;
    struct list *next = NULL;

    stream_resume(s->stream);
    /* A handler may end its own request, no other. */
    for (struct list *n = s->requests.next; n != &s->requests; n = next) {
        struct request *r = LIST_ENTRY(n, struct request, node);
        next = n->next;
        if (r->handler != NULL && r->handler->on_drain != NULL) {
            r->handler->on_drain(r->ctx);
        }
    }
}

static void on_close(void *ctx, enum err why)
{
    (void)why;
    session_free(ctx);
}

static const struct stream_handler stream_handler = {
    .on_open = on_open,
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drain = on_drain,
    .on_close = on_close,
};

/* ---- life ---- */

/* Counts the connection in; false when it cannot even be told that there are too many. */
static bool admit(struct wire *w, bool *over_limit)
{
    size_t now = atomic_fetch_add(&w->totals->connections, 1) + 1;

    *over_limit = now > w->config->limits.max_connections;
    if (*over_limit && atomic_fetch_add(&w->totals->overloaded, 1) >= OVER_LIMIT_SESSIONS) {
        atomic_fetch_sub(&w->totals->overloaded, 1);
        atomic_fetch_sub(&w->totals->connections, 1);
        return false;
    }
    return true;
}

static enum err open_stream(struct session *s, int fd, struct error *e)
{
    struct stream_options options = {
        .tls = door_tls(s->wire, s->door),
        .eof_means_gone = !session_listener(s)->half_close_finish,
        .meter = &s->wire->totals->buffered,
    };

    return stream_new(s->wire->loop, fd, &options, &stream_handler, s, &s->stream, e);
}

void session_start(struct wire *w, struct wire_door *door, int fd)
{
    bool over_limit = false;
    const struct limits *l = &w->config->limits;

    if (!admit(w, &over_limit)) {
        close(fd);
        return;
    }
    struct session *s = calloc(1, sizeof(*s));
    struct error e = {0};
    if (s == NULL) {
        atomic_fetch_sub(&w->totals->connections, 1);
        atomic_fetch_sub(&w->totals->overloaded, over_limit ? 1 : 0);
        close(fd);
        return;
    }
    wire_door_ref(door);
    atomic_fetch_add_explicit(&door->connections, 1, memory_order_relaxed);
    s->wire = w;
    s->door = door;
    s->over_limit = over_limit;
    s->id = atomic_fetch_add(&w->totals->next_connection, 1) + 1;
    s->state = door_tls(w, door) == NULL ? SESSION_FIRST : SESSION_OPENING;
    list_init(&s->requests);
    list_push_back(&w->sessions, &s->node);
    loop_deadline_init(&s->deadline, on_deadline, s);
    loop_task_init(&s->settle, on_settle, s);
    framing_init(&s->framing, (size_t)l->max_message_bytes, &w->totals->buffered,
                 (size_t)l->max_buffered_bytes);
    if (open_stream(s, fd, &e) != ERR_OK) {
        log_warn("session", LOG_MSG("refused"), LOG_STR("why", e.msg));
        session_free(s);
        return;
    }
    uint32_t wait = s->state == SESSION_FIRST ? l->first_byte_timeout : l->handshake_timeout;
    arm(s, loop_now(w->loop) + (over_limit ? OVER_LIMIT_MS : wait));
    log_debug("session", LOG_MSG("opened"), LOG_U64("conn", s->id),
              LOG_STR("listener", session_listener(s)->url));
}

void wire_door_ref(struct wire_door *door)
{
    if (door->on_unused != NULL) {
        atomic_fetch_add_explicit(&door->refs, 1, memory_order_relaxed);
    }
}

void wire_door_unref(struct wire_door *door)
{
    /* Who takes the last one sees all that the others did with the door. */
    if (door->on_unused != NULL &&
        atomic_fetch_sub_explicit(&door->refs, 1, memory_order_acq_rel) == 1) {
        door->on_unused(door);
    }
}

void wire_init(struct wire *w, struct loop *loop, struct config *config, struct wire_totals *totals)
{
    *w = (struct wire){.loop = loop, .config = config, .totals = totals};
    list_init(&w->sessions);
}

void wire_use(struct wire *w, struct config *config, SSL_CTX *const *tls)
{
    w->config = config;
    w->tls = tls;
    for (struct list *n = w->sessions.next; n != &w->sessions; n = n->next) {
        struct session *s = LIST_ENTRY(n, struct session, node);
        if (s->state != SESSION_OPENING) {
            caller_by_certificate(s);
        }
    }
}

void wire_drain(struct wire *w)
{
    w->draining = true;
    for (struct list *n = w->sessions.next; n != &w->sessions; n = n->next) {
        session_settle(LIST_ENTRY(n, struct session, node));
    }
}

void wire_shut_down(struct wire *w)
{
    struct failure f;

    failure_init(&f, TACTUS_E_SHUTTING_DOWN, "The broker is shutting down");
    w->draining = true;
    for (struct list *n = w->sessions.next; n != &w->sessions; n = n->next) {
        struct session *s = LIST_ENTRY(n, struct session, node);
        abort_requests(s, &f);
        session_finish(s);
    }
}

/* Those of a grant, on a connection that others have their requests on too. */
static void abort_of_grant(struct session *s, const struct grant *grant, const struct failure *f)
{
    struct list *next = NULL;

    for (struct list *n = s->requests.next; n != &s->requests; n = next) {
        struct request *r = LIST_ENTRY(n, struct request, node);
        next = n->next;
        if (r->grant == grant) {
            request_abort(r, f);
        }
    }
}

void wire_end_door(struct wire *w, const struct wire_door *door)
{
    struct failure f;

    failure_init(&f, TACTUS_E_CANCELLED, "The grant has ended");
    for (struct list *n = w->sessions.next; n != &w->sessions; n = n->next) {
        struct session *s = LIST_ENTRY(n, struct session, node);
        if (s->door == door) {
            abort_requests(s, &f);
            session_finish(s);
        } else {
            abort_of_grant(s, door->grant, &f);
        }
    }
}

void wire_close_all(struct wire *w)
{
    while (!list_empty(&w->sessions)) {
        struct session *s = LIST_ENTRY(w->sessions.next, struct session, node);
        stream_close(s->stream);
        session_free(s);
    }
}
