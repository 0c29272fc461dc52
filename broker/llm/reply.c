/*
 * The reply that `done` will carry, put together from neutral events while they pass by. Used by
 * llm.chat for streamed and plain requests alike, so both end with the same `done`.
 */
#include "llm/reply.h"

#include "base/json.h"

#include <stdlib.h>

/* A byte of text is at most \u00XX once escaped. */
#define ESCAPED_MAX 6u
#define CALLS_FIRST 4u

void reply_init(struct reply *r, size_t max_bytes)
{
    size_t escaped = max_bytes < SIZE_MAX / ESCAPED_MAX ? max_bytes * ESCAPED_MAX : SIZE_MAX;

    *r = (struct reply){.max_bytes = max_bytes};
    buf_init(&r->text_json, escaped);
    buf_init(&r->thought_json, escaped);
    buf_init(&r->details_json, escaped);
    buf_init(&r->model, max_bytes);
}

void reply_fini(struct reply *r)
{
    for (size_t i = 0; i < r->ncalls; i++) {
        buf_fini(&r->calls[i].id);
        buf_fini(&r->calls[i].name);
        buf_fini(&r->calls[i].arguments);
    }
    free(r->calls);
    r->calls = NULL;
    r->ncalls = 0;
    buf_fini(&r->text_json);
    buf_fini(&r->thought_json);
    buf_fini(&r->details_json);
    buf_fini(&r->model);
}

/* Counts `n` more bytes that will be held. */
static enum err hold(struct reply *r, size_t n)
{
    if (n > r->max_bytes - r->held_bytes) {
        return ERR_LIMIT;
    }
    r->held_bytes += n;
    return ERR_OK;
}

static enum err hold_span(struct reply *r, struct buf *b, struct span s)
{
    enum err err = hold(r, s.n);

    if (err == ERR_OK) {
        buf_put_span(b, s);
        err = buf_status(b);
    }
    return err;
}

static enum err hold_escaped(struct reply *r, struct buf *b, struct span text)
{
    enum err err = hold(r, text.n);

    if (err == ERR_OK) {
        json_put_escaped(b, text);
        err = buf_status(b);
    }
    return err;
}

static enum err add_text(struct reply *r, struct span text)
{
    enum err err = hold_escaped(r, &r->text_json, text);

    if (err == ERR_OK) {
        r->text_bytes += text.n;
    }
    return err;
}

static void put_call_id(const struct reply_call *c, size_t number, struct buf *b)
{
    if (c->id.len > 0) {
        json_put_string(b, buf_span(&c->id));
    } else {
        buf_printf(b, "\"call_%zu\"", number);
    }
}

/* The reasoning so far as an entry without its end. */
static void put_thought(const struct reply *r, struct buf *b)
{
    buf_put_str(b, "{\"type\":\"reasoning.text\",\"text\":\"");
    buf_put_span(b, buf_span(&r->thought_json));
    buf_put_char(b, '"');
}

/* An entry of the form that clients of OpenAI's shape know as reasoning_details. */
static enum err add_signature(struct reply *r, const struct chat_signature *s)
{
    struct buf *b = &r->details_json;
    enum err err = hold(r, s->data.n);

    if (err != ERR_OK || (s->of_call && s->call >= r->ncalls)) {
        return err != ERR_OK ? err : ERR_BUG;
    }
    if (b->len > 0) {
        buf_put_char(b, ',');
    }
    if (s->encrypted || s->of_call) {
        buf_put_str(b, "{\"type\":\"reasoning.encrypted\",\"data\":");
    } else {
        put_thought(r, b);
        buf_clear(&r->thought_json);
        buf_put_str(b, ",\"signature\":");
    }
    json_put_string(b, s->data);
    if (s->of_call) {
        buf_put_str(b, ",\"id\":");
        put_call_id(&r->calls[s->call], s->call, b);
    }
    buf_put_str(b, ",\"format\":");
    json_put_string(b, span_str(s->format));
    buf_put_char(b, '}');
    return buf_status(b);
}

static enum err new_call(struct reply *r)
{
    /* Room grows at 4, 8, 16 …: ncalls is such a number exactly when the room is full. */
    bool full = r->ncalls == 0 || (r->ncalls >= CALLS_FIRST && (r->ncalls & (r->ncalls - 1)) == 0);

    if (r->ncalls == REPLY_CALLS_MAX) {
        return ERR_LIMIT;
    }
    if (full) {
        size_t room = r->ncalls == 0 ? CALLS_FIRST : r->ncalls * 2;
        struct reply_call *calls = realloc(r->calls, room * sizeof *calls);

        if (calls == NULL) {
            return ERR_NOMEM;
        }
        r->calls = calls;
    }
    struct reply_call *c = &r->calls[r->ncalls++];
    buf_init(&c->id, r->max_bytes);
    buf_init(&c->name, r->max_bytes);
    buf_init(&c->arguments, r->max_bytes);
    return ERR_OK;
}

static enum err add_piece(struct reply *r, const struct chat_tool_piece *piece)
{
    enum err err = ERR_OK;

    if (piece->call > r->ncalls) {
        return ERR_BUG;
    }
    if (piece->call == r->ncalls) {
        err = new_call(r);
        if (err != ERR_OK) {
            return err;
        }
    }
    struct reply_call *c = &r->calls[piece->call];
    if (c->id.len == 0) {
        err = hold_span(r, &c->id, piece->id);
    }
    if (err == ERR_OK && c->name.len == 0) {
        err = hold_span(r, &c->name, piece->name);
    }
    if (err == ERR_OK) {
        err = hold_span(r, &c->arguments, piece->arguments);
    }
    return err;
}

enum err reply_add(struct reply *r, const struct chat_event *event)
{
    switch (event->kind) {
    case CHAT_EVENT_MODEL:
        return r->model.len == 0 ? hold_span(r, &r->model, event->text) : ERR_OK;
    case CHAT_EVENT_TEXT:
        return add_text(r, event->text);
    case CHAT_EVENT_REASONING:
        return hold_escaped(r, &r->thought_json, event->text);
    case CHAT_EVENT_SIGNATURE:
        return add_signature(r, &event->signature);
    case CHAT_EVENT_TOOL:
        return add_piece(r, &event->tool);
    case CHAT_EVENT_USAGE:
        r->usage = event->usage;
        r->has_usage = true;
        return ERR_OK;
    case CHAT_EVENT_FINISH:
        if (event->finish != CHAT_FINISH_NONE) {
            r->finish = event->finish;
        }
        return ERR_OK;
    }
    return ERR_BUG;
}

void reply_put_delta(const struct chat_event *event, struct buf *b)
{
    const struct chat_tool_piece *piece = &event->tool;

    if (event->kind != CHAT_EVENT_TOOL) {
        buf_put_str(b, event->kind == CHAT_EVENT_TEXT ? "{\"text\":" : "{\"reasoning\":");
        json_put_string(b, event->text);
        buf_put_char(b, '}');
        return;
    }
    buf_put_str(b, "{\"tool_calls\":[{\"index\":");
    json_put_u64(b, piece->call);
    if (piece->id.n > 0) {
        buf_put_str(b, ",\"id\":");
        json_put_string(b, piece->id);
    }
    if (piece->name.n > 0) {
        buf_put_str(b, ",\"type\":\"function\",\"function\":{\"name\":");
        json_put_string(b, piece->name);
        buf_put_char(b, ',');
    } else {
        buf_put_str(b, ",\"function\":{");
    }
    buf_put_str(b, "\"arguments\":");
    json_put_string(b, piece->arguments);
    buf_put_str(b, "}}]}");
}

static uint64_t known(uint64_t tokens)
{
    return tokens == CHAT_UNKNOWN ? 0 : tokens;
}

static void put_count(struct buf *b, const char *key, uint64_t tokens)
{
    buf_put_str(b, key);
    json_put_u64(b, tokens);
}

static void put_cost(const struct reply *r, struct buf *b)
{
    if (r->cost == REPLY_COST_UNKNOWN) {
        buf_put_str(b, ",\"cost_usd\":null");
    } else if (r->cost == REPLY_COST_KNOWN) {
        buf_put_str(b, ",\"cost_usd\":");
        json_put_double(b, (double)r->cost_nano / 1e9);
    }
}

static void put_usage(const struct reply *r, struct buf *b)
{
    static const struct chat_usage none = {0, 0, 0, CHAT_UNKNOWN, CHAT_UNKNOWN};
    const struct chat_usage *u = r->has_usage ? &r->usage : &none;
    uint64_t prompt = known(u->prompt_tokens);
    uint64_t completion = known(u->completion_tokens);
    uint64_t total = u->total_tokens;

    if (total == CHAT_UNKNOWN) {
        total = prompt < CHAT_UNKNOWN - completion ? prompt + completion : CHAT_UNKNOWN - 1;
    }
    put_count(b, ",\"usage\":{\"prompt_tokens\":", prompt);
    put_count(b, ",\"completion_tokens\":", completion);
    put_count(b, ",\"total_tokens\":", total);
    if (u->cached_tokens != CHAT_UNKNOWN) {
        put_count(b, ",\"cached_tokens\":", u->cached_tokens);
    }
    if (u->reasoning_tokens != CHAT_UNKNOWN) {
        put_count(b, ",\"reasoning_tokens\":", u->reasoning_tokens);
    }
    put_cost(r, b);
    buf_put_char(b, '}');
}

/* A call that may be acted upon. A reply that was cut may have cut its last call's arguments:
 * those are whole when they are JSON. */
static bool call_complete(const struct reply *r, const struct reply_call *c)
{
    static const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX,
                                            .allow_lone_surrogate = true};
    struct json_value value;
    struct json_fault fault;

    if (c->name.len == 0) {
        return false;
    }
    if (r->finish != CHAT_FINISH_LENGTH && r->finish != CHAT_FINISH_CONTENT_FILTER) {
        return true;
    }
    return json_check_value(buf_span(&c->arguments), &rules, &value, &fault) == ERR_OK;
}

static void put_call(const struct reply_call *c, size_t number, struct buf *b)
{
    buf_put_str(b, "{\"id\":");
    put_call_id(c, number, b);
    buf_put_str(b, ",\"type\":\"function\",\"function\":{\"name\":");
    json_put_string(b, buf_span(&c->name));
    buf_put_str(b, ",\"arguments\":");
    json_put_string(b, buf_span(&c->arguments));
    buf_put_str(b, "}}");
}

static void put_calls(const struct reply *r, struct buf *b)
{
    bool any = false;

    for (size_t i = 0; i < r->ncalls; i++) {
        if (call_complete(r, &r->calls[i])) {
            buf_put_str(b, any ? "," : ",\"tool_calls\":[");
            put_call(&r->calls[i], i, b);
            any = true;
        }
    }
    if (any) {
        buf_put_char(b, ']');
    }
}

/* Without a signature nothing of it needs to come back. */
static void put_details(const struct reply *r, struct buf *b)
{
    if (r->details_json.len == 0) {
        return;
    }
    buf_put_str(b, ",\"reasoning_details\":[");
    buf_put_span(b, buf_span(&r->details_json));
    if (r->thought_json.len > 0) {
        buf_put_char(b, ',');
        put_thought(r, b);
        buf_put_char(b, '}');
    }
    buf_put_char(b, ']');
}

void reply_put_done(const struct reply *r, struct buf *b)
{
    const char *finish = chat_finish_name(r->finish);

    buf_put_str(b, "{\"text\":\"");
    buf_put_span(b, buf_span(&r->text_json));
    buf_put_char(b, '"');
    put_usage(r, b);
    put_calls(r, b);
    put_details(r, b);
    if (finish != NULL) {
        buf_printf(b, ",\"finish_reason\":\"%s\"", finish);
    }
    if (r->model.len > 0) {
        buf_put_str(b, ",\"model\":");
        json_put_string(b, buf_span(&r->model));
    }
    buf_put_char(b, '}');
}
