/*
 * Which tool call a piece belongs to. By the book each piece has an index, and the first one an id
 * and a name. In practice indexes are missing, all 0 or start at 1, ids are missing, repeated,
 * changed in mid-call or null, names are repeated, and several calls share one delta. So: by id,
 * then index, then position, then the call that had the last piece; and a new name where that call
 * cannot take one starts another call. No call is told before its name is known.
 */
#include "llm/openai_private.h"

#include <stdlib.h>

struct piece {
    struct span id;
    struct span name;
    bool has_arguments;
    uint64_t index;
    bool has_index;
    size_t position; /* in its delta */
    bool alone;      /* the only one in its delta */
};

void openai_tools_init(struct openai_tools *t, size_t max)
{
    *t = (struct openai_tools){.max = max};
    buf_init(&t->id, OPENAI_ID_MAX);
    buf_init(&t->name, OPENAI_ID_MAX);
    buf_init(&t->arguments, max);
}

void openai_tools_fini(struct openai_tools *t)
{
    for (size_t i = 0; i < t->n; i++) {
        buf_fini(&t->calls[i].id);
        buf_fini(&t->calls[i].name);
        buf_fini(&t->calls[i].early);
    }
    free(t->calls);
    t->calls = NULL;
    t->n = 0;
    buf_fini(&t->id);
    buf_fini(&t->name);
    buf_fini(&t->arguments);
}

/* A piece with a name cannot be more of a call that got its name in the same delta. */
static bool same_delta(const struct openai_tools *t, const struct openai_call *c,
                       const struct piece *p)
{
    return p->name.n > 0 && c->name.len > 0 && c->delta == t->deltas;
}

static struct openai_call *find_id(struct openai_tools *t, const struct piece *p)
{
    struct openai_call *other_index = NULL;

    for (size_t i = t->n; i-- > 0;) {
        struct openai_call *c = &t->calls[i];

        if (!span_eq(buf_span(&c->id), p->id) || same_delta(t, c, p)) {
            continue;
        }
        if (!c->has_index || !p->has_index || c->index == p->index) {
            return c;
        }
        other_index = other_index == NULL ? c : other_index;
    }
    /* One id for calls of different index: a provider that gives all calls the same id. */
    return p->name.n == 0 ? other_index : NULL;
}

static struct openai_call *find_index(struct openai_tools *t, const struct piece *p)
{
    for (size_t i = t->n; i-- > 0;) {
        if (t->calls[i].has_index && t->calls[i].index == p->index) {
            return &t->calls[i];
        }
    }
    /* The call began without an index. */
    if (t->n > 0 && p->name.n == 0 && !t->calls[t->current].has_index) {
        return &t->calls[t->current];
    }
    return NULL;
}

/* True when `p`, which did not name `c` by a known id, can be more of it. */
static bool may_continue(const struct openai_tools *t, const struct openai_call *c,
                         const struct piece *p)
{
    if (p->id.n > 0 && c->id.len > 0) {
        /* Another id. Some servers make up a new one for each delta of one call; but a call that
         * begins has a name. */
        return p->name.n == 0 && p->has_arguments && !c->closed && c->delta != t->deltas;
    }
    if (p->name.n == 0 || c->name.len == 0) {
        return true;
    }
    return !same_delta(t, c, p) && span_eq(p->name, buf_span(&c->name)) &&
           !(c->closed && p->has_arguments);
}

/* The call that `p` belongs to; NULL when it begins one. */
static struct openai_call *find(struct openai_tools *t, const struct piece *p)
{
    struct openai_call *c = p->id.n > 0 ? find_id(t, p) : NULL;

    if (c != NULL) {
        return c;
    }
    if (p->has_index) {
        c = find_index(t, p);
    } else if (!p->alone) {
        c = p->position < t->n ? &t->calls[p->position] : NULL;
    } else if (t->n > 0) {
        c = &t->calls[t->current];
    }
    return c != NULL && may_continue(t, c, p) ? c : NULL;
}

static enum err begin(struct openai_tools *t, struct openai_call **out)
{
    if (t->n == REPLY_CALLS_MAX) {
        return ERR_LIMIT;
    }
    if (t->n == t->room) {
        size_t room = t->room == 0 ? 4 : t->room * 2;
        struct openai_call *calls = realloc(t->calls, room * sizeof *calls);

        if (calls == NULL) {
            return ERR_NOMEM;
        }
        t->calls = calls;
        t->room = room;
    }
    struct openai_call *c = &t->calls[t->n++];
    *c = (struct openai_call){.number = OPENAI_UNNAMED};
    buf_init(&c->id, OPENAI_ID_MAX);
    buf_init(&c->name, OPENAI_ID_MAX);
    buf_init(&c->early, t->max);
    *out = c;
    return ERR_OK;
}

/* Follows the arguments just far enough to know when an object is whole. */
static void follow(struct openai_call *c, struct span arguments)
{
    for (size_t i = 0; i < arguments.n; i++) {
        char ch = arguments.p[i];

        if (c->after_escape) {
            c->after_escape = false;
        } else if (c->in_string) {
            c->after_escape = ch == '\\';
            c->in_string = ch != '"';
        } else if (ch == '"') {
            c->in_string = true;
        } else if (ch == '{' || ch == '[') {
            c->depth++;
            c->closed = false;
        } else if ((ch == '}' || ch == ']') && c->depth > 0) {
            c->depth--;
            c->closed = c->depth == 0;
        }
    }
}

static enum err emit(const struct chat_sink *sink, struct chat_tool_piece piece)
{
    struct chat_event event = {.kind = CHAT_EVENT_TOOL, .tool = piece};

    return sink->emit(sink->ctx, &event);
}

static enum err hold_early(struct openai_tools *t, struct openai_call *c, struct span arguments)
{
    if (arguments.n > t->max - t->early) {
        return ERR_LIMIT;
    }
    t->early += arguments.n;
    buf_put_span(&c->early, arguments);
    return buf_status(&c->early);
}

/* Tells the sink what is new of `c`. */
static enum err tell(struct openai_tools *t, struct openai_call *c, bool new_id,
                     struct span arguments, const struct chat_sink *sink)
{
    enum err err = ERR_OK;

    if (c->name.len == 0) {
        return hold_early(t, c, arguments);
    }
    if (c->number != OPENAI_UNNAMED) {
        struct span id = new_id ? buf_span(&c->id) : span_of(NULL, 0);

        if (id.n == 0 && arguments.n == 0) {
            return ERR_OK;
        }
        return emit(sink,
                    (struct chat_tool_piece){.call = c->number, .id = id, .arguments = arguments});
    }
    if (c->early.len > 0) {
        err = hold_early(t, c, arguments);
        arguments = buf_span(&c->early);
    }
    if (err == ERR_OK) {
        c->number = t->named++;
        err = emit(sink, (struct chat_tool_piece){.call = c->number,
                                                  .id = buf_span(&c->id),
                                                  .name = buf_span(&c->name),
                                                  .arguments = arguments});
    }
    t->early -= c->early.len;
    buf_fini(&c->early);
    return err;
}

/* Decodes a string into `b` (cleared first); anything else leaves it empty. */
static enum err decode(struct json_value v, struct buf *b, uint16_t *carry)
{
    buf_clear(b);
    if (v.type == JSON_STRING) {
        json_string_decode(v, b, carry);
    }
    return buf_status(b);
}

static enum err take_piece(struct openai_tools *t, struct piece *p, struct json_value arguments,
                           const struct chat_sink *sink)
{
    struct openai_call *c = find(t, p);
    enum err err = ERR_OK;
    bool new_id = false;

    if (c == NULL) {
        if (p->id.n == 0 && p->name.n == 0 && !p->has_arguments) {
            return ERR_OK; /* a place-holder */
        }
        err = begin(t, &c);
        if (err != ERR_OK) {
            return err;
        }
    }
    t->current = (size_t)(c - t->calls);
    c->delta = t->deltas;
    if (p->has_index && !c->has_index) {
        c->index = p->index;
        c->has_index = true;
    }
    if (c->id.len == 0) {
        buf_put_span(&c->id, p->id);
        new_id = p->id.n > 0;
    }
    if (c->name.len == 0) {
        buf_put_span(&c->name, p->name);
    }
    err = buf_status(&c->id) == ERR_OK ? buf_status(&c->name) : buf_status(&c->id);
    if (err == ERR_OK) {
        err = decode(arguments, &t->arguments, &c->carry);
    }
    if (err == ERR_OK && arguments.type == JSON_OBJECT) {
        buf_put_span(&t->arguments, arguments.text); /* not by the book, but clear */
        err = buf_status(&t->arguments);
    }
    if (err == ERR_OK) {
        follow(c, buf_span(&t->arguments));
        err = tell(t, c, new_id, buf_span(&t->arguments), sink);
    }
    return err;
}

enum err openai_tools_take(struct openai_tools *t, struct json_value array,
                           const struct chat_sink *sink)
{
    struct json_value item;
    size_t cursor = 0;
    size_t entries = 0;
    struct piece p = {.alone = true};
    enum err err = ERR_OK;

    while (entries < 2 && json_array_next(array, &cursor, &item)) {
        entries++;
    }
    if (entries == 0) {
        return ERR_OK;
    }
    p.alone = entries == 1;
    t->deltas++;
    cursor = 0;
    while (err == ERR_OK && json_array_next(array, &cursor, &item)) {
        struct json_value function = json_find(item, "function");
        struct json_value arguments = json_find(function, "arguments");

        p.has_arguments = arguments.type == JSON_OBJECT ||
                          (arguments.type == JSON_STRING && arguments.text.n > 2);
        p.has_index = json_number_u64(json_find(item, "index"), &p.index);
        err = decode(json_find(item, "id"), &t->id, NULL);
        if (err == ERR_OK) {
            err = decode(json_find(function, "name"), &t->name, NULL);
        }
        if (err == ERR_OK) {
            p.id = buf_span(&t->id);
            p.name = buf_span(&t->name);
            err = take_piece(t, &p, arguments, sink);
        }
        p.position++;
    }
    return err;
}

enum err openai_tools_flush(struct openai_tools *t, const struct chat_sink *sink)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < t->n && err == ERR_OK; i++) {
        struct openai_call *c = &t->calls[i];

        if (c->carry != 0 && c->number != OPENAI_UNNAMED) {
            err = emit(sink, (struct chat_tool_piece){.call = c->number,
                                                      .arguments = SPAN("\xEF\xBF\xBD")});
        }
        c->carry = 0;
    }
    return err;
}
