/*
 * Requests: made by the session, answered by handlers through request.h. Each ends by exactly one
 * of request_done, request_fail, request_abort; all three free it.
 */
#include "wire/request.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/redact.h"
#include "ledger/ledger.h"
#include "tactus/protocol.h"
#include "wire/session_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_MAX          (256u * 1024u)
#define LAST_WORD_OVERHEAD 160u /* what surrounds the id in the shortest error */

#define MODEL_TEXT_MAX 8192u

static const char last_word_nomem[] = "{\"type\":\"InternalError\",\"message\":\"out of memory\"}";
static const char last_word_limit[] =
    "{\"type\":\"Overloaded\",\"message\":\"limits.max_buffered_bytes reached\"}";

static const char *outcome_of(const struct request *r)
{
    bool cut = r->outcome == NULL || strcmp(r->outcome, TACTUS_E_CANCELLED) == 0;

    return cut ? "cancelled" : r->outcome;
}

/* One row, whatever became of it. */
static void write_row(const struct request *r)
{
    const struct request_bill *b = &r->bill;
    uint64_t now = clock_mono_us();
    struct buf model; /* the client's own words: there may be a secret in them */

    buf_init(&model, MODEL_TEXT_MAX);
    if (b->model != NULL) {
        redact_text(request_config(r)->redact, span_str(b->model), false, &model);
        buf_put_char(&model, '\0');
    }
    ledger_put(r->session->wire->ledger,
               &(struct ledger_row){
                   .time_ms = (uint64_t)r->began_at,
                   .run = r->grant->run,
                   .grant = r->grant->name,
                   .method = r->method->name,
                   .provider = b->provider,
                   .model = buf_status(&model) == ERR_OK ? model.p : NULL,
                   .outcome = outcome_of(r),
                   .input_tokens = b->input_tokens,
                   .output_tokens = b->output_tokens,
                   .cached_tokens = b->cached_tokens,
                   .reasoning_tokens = b->reasoning_tokens,
                   .cost_nano = b->priced ? (int64_t)b->nano : -1,
                   .estimated = b->estimated,
                   .first_byte_us = r->first_us == 0 ? 0 : r->first_us - r->began_us,
                   .total_us = now - r->began_us,
               });
    buf_fini(&model);
}

static void request_free(struct request *r)
{
    struct session *s = r->session;

    if (r->method->metered) {
        meter_end(r->grant->meter);
        if (s->wire->ledger != NULL) {
            write_row(r);
        }
    }
    grant_unref(r->grant);

    list_remove(&r->node);
    s->ninflight--;
    atomic_fetch_sub_explicit(&s->wire->totals->inflight, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&s->door->inflight, 1, memory_order_relaxed);
    if (r->last_word != NULL) {
        stream_unreserve(s->stream, r->last_word);
    }
    arena_fini(&r->arena);
    free(r);
    session_settle(s);
}

/* The error that needs no memory: what was set aside at the start. */
static void say_last_word(struct request *r, const char *error_json)
{
    struct bufq_chunk *c = r->last_word;
    bool counted = r->session->framing.kind == FRAMING_LENGTH;
    const char *tail = counted ? "}" : "}\n";
    struct span body[] = {SPAN("{\"id\":"), r->id_json, SPAN(",\"event\":\"error\",\"error\":"),
                          span_str(error_json), span_str(tail)};
    char prefix[TACTUS_LENGTH_PREFIX + 1] = "";
    struct span pieces[6];
    size_t total = 0;

    for (size_t i = 0; i < 5; i++) {
        pieces[i + 1] = body[i];
        total += body[i].n;
    }
    if (counted) {
        snprintf(prefix, sizeof(prefix), "%010u\n", (unsigned)total);
    }
    pieces[0] = span_str(prefix);
    r->last_word = NULL;
    stream_write_reserved(r->session->stream, c, pieces, 6);
}

static void end_with(struct request *r, enum err rc)
{
    if (rc == ERR_NOMEM) {
        r->outcome = TACTUS_E_INTERNAL;
        say_last_word(r, last_word_nomem);
    } else if (rc != ERR_OK) {
        r->outcome = TACTUS_E_OVERLOADED;
        say_last_word(r, last_word_limit);
    }
    request_free(r);
}

static bool request_fill(struct request *r, struct span id)
{
    struct buf json;
    bool ok = false;

    char *copy = arena_dup(&r->arena, id);
    buf_init(&json, ARENA_MAX);
    json_put_string(&json, id);
    if (copy != NULL && buf_status(&json) == ERR_OK) {
        char *json_copy = arena_dup(&r->arena, buf_span(&json));
        r->id = span_of(copy, id.n);
        r->id_json = span_of(json_copy, json.len);
        ok = json_copy != NULL;
    }
    buf_fini(&json);
    if (ok) {
        r->last_word = stream_reserve(r->session->stream, r->id_json.n + LAST_WORD_OVERHEAD);
    }
    return ok && r->last_word != NULL;
}

static void refuse_nomem(struct session *s, struct span id)
{
    struct buf json;
    struct span error = SPAN("{\"type\":\"InternalError\",\"message\":\"out of memory\"}");

    buf_init(&json, ARENA_MAX);
    json_put_string(&json, id);
    enum err rc = buf_status(&json);
    if (rc == ERR_OK) {
        rc = session_event(s, buf_span(&json), "error", "error", &error, 1);
    }
    buf_fini(&json);
    if (rc != ERR_OK) {
        session_finish(s); /* not even an error fits: the close tells */
    }
}

void request_start(struct session *s, const struct method *method, struct grant *grant,
                   struct span id, const struct json_members *params)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r != NULL) {
        r->session = s;
        arena_init(&r->arena, ARENA_MAX);
    }
    if (r == NULL || !request_fill(r, id)) {
        refuse_nomem(s, id);
        if (method->metered) {
            meter_end(grant->meter);
        }
        if (r != NULL) {
            arena_fini(&r->arena);
            free(r);
        }
        return;
    }
    r->params = params;
    r->method = method;
    r->grant = grant_ref(grant);
    r->began_at = clock_wall_ms();
    r->began_us = clock_mono_us();
    list_push_back(&s->requests, &r->node);
    s->ninflight++;
    atomic_fetch_add_explicit(&s->wire->totals->inflight, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->door->inflight, 1, memory_order_relaxed);
    log_debug("request", LOG_MSG("started"), LOG_U64("conn", s->id),
              LOG_STR("method", method->name), LOG_STR("grant", grant->name));
    method->start(r, method->ctx);
}

struct request *request_find(struct session *s, struct span id)
{
    for (struct list *n = s->requests.next; n != &s->requests; n = n->next) {
        struct request *r = LIST_ENTRY(n, struct request, node);
        if (span_eq(r->id, id)) {
            return r;
        }
    }
    return NULL;
}

void request_attach(struct request *r, const struct request_handler *handler, void *ctx)
{
    r->handler = handler;
    r->ctx = ctx;
}

struct json_value request_param(const struct request *r, const char *name)
{
    return json_get(r->params, name);
}

const struct grant *request_grant(const struct request *r)
{
    return r->grant;
}

struct request_bill *request_bill(struct request *r)
{
    return &r->bill;
}

bool request_drop_relayed(struct request *r)
{
    struct wire_door *door = r->session->door;

    if (door->relay) {
        atomic_fetch_add_explicit(&door->dropped, 1, memory_order_relaxed);
    }
    return door->relay;
}

struct config *request_config(const struct request *r)
{
    return r->session->wire->config;
}

struct loop *request_loop(const struct request *r)
{
    return r->session->wire->loop;
}

struct arena *request_arena(struct request *r)
{
    return &r->arena;
}

static void note_first(struct request *r)
{
    r->first_us = r->first_us != 0 ? r->first_us : clock_mono_us();
}

enum err request_event(struct request *r, const char *event, struct span data)
{
    note_first(r);
    return session_event(r->session, r->id_json, event, "data", &data, 1);
}

void request_done(struct request *r, const struct span *pieces, size_t n)
{
    note_first(r);
    r->outcome = "ok";
    end_with(r, session_event(r->session, r->id_json, "done", "data", pieces, n));
}

void request_fail(struct request *r, const struct failure *failure)
{
    struct buf *b = loop_scratch(request_loop(r));

    r->outcome = failure->type;
    buf_clear(b);
    failure_put_json(failure, b);
    enum err rc = buf_status(b);
    if (rc == ERR_OK) {
        struct span json = buf_span(b);
        rc = session_event(r->session, r->id_json, "error", "error", &json, 1);
    }
    log_debug("request", LOG_MSG("failed"), LOG_U64("conn", r->session->id),
              LOG_STR("type", failure->type), LOG_U64("status", failure->status));
    end_with(r, rc);
}

void request_fail_text(struct request *r, const char *type, const char *fmt, ...)
{
    struct failure f;
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    failure_init(&f, type, "%s", text);
    request_fail(r, &f);
}

void request_fail_err(struct request *r, enum err rc)
{
    end_with(r, rc == ERR_OK ? ERR_NOMEM : rc);
}

bool request_congested(const struct request *r)
{
    return stream_congested(r->session->stream);
}

void request_abort(struct request *r, const struct failure *failure)
{
    if (r->handler != NULL && r->handler->on_cancel != NULL) {
        r->handler->on_cancel(r->ctx);
    }
    if (failure != NULL) {
        request_fail(r, failure);
    } else {
        request_free(r);
    }
}

bool request_cancel_other(struct request *r, struct json_value id)
{
    struct buf text;
    struct failure f;

    buf_init(&text, ARENA_MAX);
    json_string_decode(id, &text, NULL);
    struct request *other =
        buf_status(&text) == ERR_OK ? request_find(r->session, buf_span(&text)) : NULL;
    buf_fini(&text);
    if (other == NULL || other == r) {
        return false;
    }
    failure_init(&f, TACTUS_E_CANCELLED, "Cancelled by the client");
    request_abort(other, &f);
    return true;
}
