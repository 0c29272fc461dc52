/*
 * Names of tools as a provider takes them: see tool_names.h. One walk finds every place of a name,
 * in the order of the text; reading collects what it finds, writing copies what lies between. All
 * lists are sorted, so that no choice of names makes a request slow.
 */
#include "llm/tool_names.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES_MAX 4096u
#define HASH_HEX  8u
#define KEPT_MAX  (TOOL_NAME_MAX - 1 - HASH_HEX) /* of the original */

/* ---- every place of a name ---- */

struct visitor {
    enum err (*name)(void *ctx, struct json_value string);
    void *ctx;
};

static enum err visit_name(const struct visitor *v, struct json_value value)
{
    return value.type == JSON_STRING ? v->name(v->ctx, value) : ERR_OK;
}

/* {"name": …} */
static enum err walk_function(const struct visitor *v, struct json_value object)
{
    struct json_member m;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_object_next(object, &cursor, &m)) {
        if (json_string_is(m.key, "name")) {
            err = visit_name(v, m.value);
        }
    }
    return err;
}

/* [{"function": {"name": …}}, …]: tools, and calls of them. */
static enum err walk_functions(const struct visitor *v, struct json_value array)
{
    struct json_value item;
    struct json_member m;
    size_t at = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_array_next(array, &at, &item)) {
        size_t cursor = 0;
        while (err == ERR_OK && json_object_next(item, &cursor, &m)) {
            if (json_string_is(m.key, "function")) {
                err = walk_function(v, m.value);
            }
        }
    }
    return err;
}

/* A message's `name` is a tool's when the message is a result. */
static bool is_result(struct json_value message)
{
    struct json_value role = json_find(message, "role");

    return json_string_is(role, "tool") || json_string_is(role, "function");
}

static enum err walk_message(const struct visitor *v, struct json_value message)
{
    struct json_member m;
    size_t cursor = 0;
    enum { UNSEEN, RESULT, OTHER } kind = UNSEEN;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_object_next(message, &cursor, &m)) {
        if (json_string_is(m.key, "tool_calls")) {
            err = walk_functions(v, m.value);
        } else if (json_string_is(m.key, "function_call")) {
            err = walk_function(v, m.value);
        } else if (json_string_is(m.key, "name")) {
            if (kind == UNSEEN) {
                kind = is_result(message) ? RESULT : OTHER; /* once: keys may repeat */
            }
            err = kind == RESULT ? visit_name(v, m.value) : ERR_OK;
        }
    }
    return err;
}

static enum err walk_messages(const struct visitor *v, struct json_value messages)
{
    struct json_value item;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_array_next(messages, &cursor, &item)) {
        err = walk_message(v, item);
    }
    return err;
}

/* {"function": {"name": …}}, or {"allowed_tools": {"tools": [{"function": {"name": …}}, …]}} */
static enum err walk_choice(const struct visitor *v, struct json_value choice)
{
    struct json_member m;
    struct json_member inner;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_object_next(choice, &cursor, &m)) {
        size_t at = 0;
        if (json_string_is(m.key, "function")) {
            err = walk_function(v, m.value);
        } else if (json_string_is(m.key, "allowed_tools")) {
            while (err == ERR_OK && json_object_next(m.value, &at, &inner)) {
                err = json_string_is(inner.key, "tools") ? walk_functions(v, inner.value) : ERR_OK;
            }
        }
    }
    return err;
}

static enum err walk(const struct visitor *v, enum tool_names_place which, struct json_value value)
{
    switch (which) {
    case TOOL_NAMES_MESSAGES:
        return walk_messages(v, value);
    case TOOL_NAMES_TOOLS:
        return walk_functions(v, value);
    case TOOL_NAMES_CHOICE:
        return walk_choice(v, value);
    }
    return ERR_BUG;
}

static enum err walk_request(const struct visitor *v, const struct chat_request *request)
{
    enum err err = walk(v, TOOL_NAMES_TOOLS, request->params[CHAT_TOOLS]);

    if (err == ERR_OK) {
        err = walk(v, TOOL_NAMES_CHOICE, request->params[CHAT_TOOL_CHOICE]);
    }
    return err == ERR_OK ? walk(v, TOOL_NAMES_MESSAGES, request->messages) : err;
}

/* ---- which names are there ---- */

struct collector {
    struct arena *arena;
    struct buf scratch;
    struct span *names; /* sorted, each once; room for NAMES_MAX; NULL: only looking */
    size_t n;
    bool unfit; /* saw one that must be changed */
};

static bool fit_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool fit(struct span name)
{
    if (name.n == 0 || name.n > TOOL_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.n; i++) {
        if (!fit_char(name.p[i])) {
            return false;
        }
    }
    return true;
}

static int compare(struct span a, struct span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* Where `name` is among the sorted, or belongs. */
static size_t position(const struct collector *c, struct span name, bool *found)
{
    size_t low = 0;
    size_t high = c->n;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(name, c->names[middle]);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static enum err insert(struct collector *c, struct span name)
{
    bool found = false;
    size_t at = position(c, name, &found);

    if (found) {
        return ERR_OK;
    }
    if (c->n == NAMES_MAX) {
        return ERR_LIMIT;
    }
    const char *copy = arena_dup(c->arena, name);
    if (copy == NULL) {
        return ERR_NOMEM;
    }
    memmove(&c->names[at + 1], &c->names[at], (c->n - at) * sizeof(c->names[0]));
    c->names[at] = span_of(copy, name.n);
    c->n++;
    return ERR_OK;
}

static enum err collect(void *ctx, struct json_value string)
{
    struct collector *c = ctx;
    struct span name = span_of(string.text.p + 1, string.text.n - 2);

    if (string.escaped) {
        buf_clear(&c->scratch);
        json_string_decode(string, &c->scratch, NULL);
        if (buf_status(&c->scratch) != ERR_OK) {
            return buf_status(&c->scratch);
        }
        name = buf_span(&c->scratch);
    }
    if (c->names == NULL) {
        c->unfit = c->unfit || !fit(name);
        return ERR_OK;
    }
    return insert(c, name);
}

/* ---- their changed forms ---- */

/* FNV-1a. `round` tells the further tries for one name apart. */
static uint64_t hash(struct span name, uint32_t round)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < name.n; i++) {
        h = (h ^ (unsigned char)name.p[i]) * 1099511628211u;
    }
    for (; round > 0; round >>= 8) {
        h = (h ^ (round & 0xffu)) * 1099511628211u;
    }
    return h;
}

/* `out` has room for TOOL_NAME_MAX and a NUL. */
static size_t change(struct span name, uint32_t round, char *out)
{
    uint64_t h = hash(name, round);
    size_t n = 0;

    for (size_t i = 0; i < name.n && n < KEPT_MAX;) {
        size_t length = text_utf8_char(name.p + i, name.n - i);
        out[n++] = fit_char(name.p[i]) ? name.p[i] : '_';
        i += length > 0 ? length : 1;
    }
    (void)snprintf(out + n, 1 + HASH_HEX + 1, "_%08" PRIx32, (uint32_t)(h ^ (h >> 32)));
    return n + 1 + HASH_HEX;
}

static bool taken(const struct collector *c, const struct tool_names *out, struct span changed)
{
    bool found = false;

    (void)position(c, changed, &found);
    for (size_t i = 0; i < out->n && !found; i++) {
        found = span_eq(out->items[i].changed, changed);
    }
    return found;
}

static enum err add(const struct collector *c, struct span name, struct tool_names *out)
{
    char *text = arena_alloc(c->arena, TOOL_NAME_MAX + 1);

    if (text == NULL) {
        return ERR_NOMEM;
    }
    /* At most NAMES_MAX tries fail for distinct hashes; equal ones cannot go on for ever either,
     * but a bound costs nothing. */
    for (uint32_t round = 0; round < 2 * NAMES_MAX; round++) {
        struct span changed = span_of(text, change(name, round, text));
        if (!taken(c, out, changed)) {
            out->items[out->n++] = (struct tool_name){.original = name, .changed = changed};
            return ERR_OK;
        }
    }
    return ERR_LIMIT;
}

static enum err change_all(const struct collector *c, struct tool_names *out)
{
    size_t unfit = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; i < c->n; i++) {
        unfit += fit(c->names[i]) ? 0 : 1;
    }
    out->items = arena_alloc(c->arena, unfit * sizeof(out->items[0]));
    if (out->items == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->n && err == ERR_OK; i++) {
        err = fit(c->names[i]) ? ERR_OK : add(c, c->names[i], out);
    }
    return err;
}

enum err tool_names_read(const struct chat_request *request, struct arena *arena,
                         struct tool_names *out)
{
    struct collector c = {.arena = arena};
    struct visitor v = {.name = collect, .ctx = &c};
    struct tool_names made = {.n = 0};

    buf_init(&c.scratch, arena->max);
    enum err err = walk_request(&v, request);
    if (err == ERR_OK && c.unfit) {
        c.names = arena_alloc(arena, NAMES_MAX * sizeof(c.names[0]));
        err = c.names == NULL ? ERR_NOMEM : walk_request(&v, request);
        if (err == ERR_OK) {
            err = change_all(&c, &made);
        }
    }
    buf_fini(&c.scratch);
    if (err == ERR_OK) {
        *out = made;
    }
    return err;
}

/* ---- and back ---- */

struct span tool_names_changed(const struct tool_names *names, struct span name)
{
    size_t low = 0;
    size_t high = names == NULL ? 0 : names->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(name, names->items[middle].original);
        if (order == 0) {
            return names->items[middle].changed;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return name;
}

struct span tool_names_original(const struct tool_names *names, struct span name)
{
    for (size_t i = 0; names != NULL && i < names->n; i++) {
        if (span_eq(names->items[i].changed, name)) {
            return names->items[i].original;
        }
    }
    return name;
}

/* ---- writing ---- */

struct writer {
    const struct tool_names *names;
    const char *copied; /* all before it is in `b` */
    struct buf *b;
};

static enum err put_name(void *ctx, struct json_value string)
{
    struct writer *w = ctx;
    struct buf *b = w->b;

    buf_put(b, w->copied, (size_t)(string.text.p - w->copied));
    w->copied = string.text.p;
    const size_t at = b->len;
    struct span name = span_of(string.text.p + 1, string.text.n - 2);
    if (string.escaped) {
        /* Decoded where the name will be written: there is room for it, or the body fails. */
        json_string_decode(string, b, NULL);
    }
    if (buf_status(b) != ERR_OK) {
        return buf_status(b);
    }
    if (string.escaped) {
        name = span_of(b->p + at, b->len - at);
    }
    struct span changed = tool_names_changed(w->names, name);
    bool same = changed.p == name.p;
    buf_truncate(b, at);
    if (!same) {
        buf_put_char(b, '"');
        buf_put_span(b, changed);
        buf_put_char(b, '"');
        w->copied = string.text.p + string.text.n;
    }
    return buf_status(b);
}

void tool_names_put(const struct tool_names *names, enum tool_names_place which,
                    struct json_value value, struct buf *b)
{
    struct writer w = {.names = names, .copied = value.text.p, .b = b};
    struct visitor v = {.name = put_name, .ctx = &w};
    const char *end = value.text.p + value.text.n;

    /* The failure of a name is the buffer's. */
    if (names == NULL || names->n == 0 || walk(&v, which, value) == ERR_OK) {
        buf_put(b, w.copied, (size_t)(end - w.copied));
    }
}
