/*
 * A chat request read once: see conversation.h. Messages become turns of sides that alternate, with
 * calls and their results. Lists grow beside each other and are cut into turns at the end. Ids are
 * looked up in sorted lists, so that no choice of ids makes a request slow.
 */
#include "llm/conversation_private.h"

#include "base/text.h"
#include "llm/tool_names.h"
#include "tactus/protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define EXCERPT_MAX 100u

/* ---- reading values ---- */

static enum err tell(struct reader *r, struct where w, const char *text)
{
    char top[64] = "";
    char list[64] = "";

    if (w.in_top) {
        (void)snprintf(top, sizeof(top), "[%zu]", w.i);
    }
    if (w.list != NULL) {
        (void)snprintf(list, sizeof(list), ".%s[%zu]", w.list, w.j);
    }
    failure_init(r->failure, TACTUS_E_BAD_REQUEST, "%s%s%s%s%s%s", w.top, top, list,
                 w.member == NULL ? "" : ".", w.member == NULL ? "" : w.member, text);
    return ERR_PROTO;
}

enum err reader_bad(struct reader *r, struct where w, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return tell(r, w, text);
}

enum err reader_expected(struct reader *r, struct where w, const char *member, const char *what)
{
    return member == NULL ? reader_bad(r, w, ": expected %s", what)
                          : reader_bad(r, w, ".%s: expected %s", member, what);
}

enum err reader_members(struct reader *r, struct where w, const char *member, struct json_value v,
                        struct json_members *out)
{
    struct json_fault fault;

    if (v.type != JSON_OBJECT) {
        return reader_expected(r, w, member, "an object");
    }
    if (json_object_members(v, out, &fault) == ERR_OK) {
        return ERR_OK;
    }
    return member == NULL ? reader_bad(r, w, ": %s", fault.what)
                          : reader_bad(r, w, ".%s: %s", member, fault.what);
}

enum err reader_optional(struct reader *r, struct where w, const struct json_members *m,
                         const char *name, enum json_type type, struct json_value *out)
{
    static const char *const what[] = {
        [JSON_STRING] = "a string", [JSON_ARRAY] = "a list", [JSON_OBJECT] = "an object"};
    struct json_value v = json_get(m, name);

    if (v.type == JSON_ABSENT || v.type == JSON_NULL) {
        *out = (struct json_value){0};
        return ERR_OK;
    }
    if (v.type != type) {
        return reader_expected(r, w, name, what[type]);
    }
    *out = v;
    return ERR_OK;
}

enum err reader_string(struct reader *r, struct where w, const struct json_members *m,
                       const char *name, struct json_value *out)
{
    *out = json_get(m, name);
    return out->type == JSON_STRING ? ERR_OK : reader_expected(r, w, name, "a string");
}

enum err reader_bool(struct reader *r, struct where w, const struct json_members *m,
                     const char *name, bool *out)
{
    struct json_value v = json_get(m, name);

    *out = v.type == JSON_TRUE;
    return v.type == JSON_TRUE || v.type == JSON_FALSE || v.type == JSON_NULL ||
                   v.type == JSON_ABSENT
               ? ERR_OK
               : reader_expected(r, w, name, "a boolean");
}

enum err reader_alloc(struct reader *r, size_t n, void **out)
{
    *out = NULL;
    if (n == 0) {
        return ERR_OK;
    }
    if (n > r->arena->max - r->arena->used) {
        return ERR_LIMIT;
    }
    *out = arena_alloc(r->arena, n);
    return *out == NULL ? ERR_NOMEM : ERR_OK;
}

enum err reader_keep(struct reader *r, const struct buf *list, void **out)
{
    enum err err = buf_status(list);

    *out = NULL;
    if (err == ERR_OK) {
        err = reader_alloc(r, list->len, out);
    }
    if (err == ERR_OK && *out != NULL) {
        memcpy(*out, list->p, list->len);
    }
    return err;
}

enum err reader_text(struct reader *r, struct json_value string, struct span *out)
{
    void *kept = NULL;

    *out = span_of(string.text.p + 1, string.text.n - 2);
    if (!string.escaped) {
        return ERR_OK;
    }
    buf_clear(&r->scratch);
    json_string_decode(string, &r->scratch, NULL);
    enum err err = reader_keep(r, &r->scratch, &kept);
    *out = span_of(kept, r->scratch.len);
    return err;
}

struct span reader_excerpt(struct reader *r, struct json_value string)
{
    struct span s = span_of(string.text.p + 1, string.text.n - 2);

    if (string.escaped) {
        /* What there was memory for is enough for a message. */
        buf_clear(&r->scratch);
        json_string_decode(string, &r->scratch, NULL);
        s = buf_span(&r->scratch);
    }
    return span_of(s.p == NULL ? "" : s.p, text_cut(s.p, s.n, EXCERPT_MAX));
}

/* ---- lists ---- */

static struct part *part_at(const struct buf *list, size_t i)
{
    return (struct part *)(void *)list->p + i;
}

static size_t part_count(const struct buf *list)
{
    return list->len / sizeof(struct part);
}

static struct reader_id *id_at(const struct buf *list, size_t i)
{
    return (struct reader_id *)(void *)list->p + i;
}

static size_t id_count(const struct buf *list)
{
    return list->len / sizeof(struct reader_id);
}

static int compare_ids(const struct reader_id *a, const struct reader_id *b)
{
    size_t n = a->id.n < b->id.n ? a->id.n : b->id.n;
    int order = n == 0 ? 0 : memcmp(a->id.p, b->id.p, n);

    if (order == 0) {
        order = (a->id.n > b->id.n) - (a->id.n < b->id.n);
    }
    return order != 0 ? order : (a->part > b->part) - (a->part < b->part);
}

static int compare_void(const void *a, const void *b)
{
    return compare_ids(a, b);
}

static void sort_ids(struct buf *list, size_t from)
{
    if (id_count(list) - from > 1) {
        qsort(id_at(list, from), id_count(list) - from, sizeof(struct reader_id), compare_void);
    }
}

/* Of the sorted ids after `from`: the last call with that id before part `before`; NULL: none. */
static const struct reader_id *find_id(const struct buf *list, size_t from, struct span id,
                                       size_t before)
{
    const struct reader_id wanted = {.id = id, .part = before};
    size_t low = from;
    size_t high = id_count(list);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ids(id_at(list, middle), &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > from && span_eq(id_at(list, low - 1)->id, id) ? id_at(list, low - 1) : NULL;
}

/* ---- calls ---- */

static struct where at_message(const struct reader *r)
{
    return (struct where){.top = "messages", .in_top = true, .i = r->message};
}

/* The arguments' own text is JSON again. Escapes in it are the model's: halves of surrogate pairs
 * are let pass, as they were when the model wrote them. */
static enum err read_arguments(struct reader *r, struct where w, const char *member,
                               struct json_value v, struct span *out)
{
    static const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX,
                                            .allow_lone_surrogate = true};
    struct json_value object;
    struct json_fault fault;
    struct span text = {NULL, 0};

    if (v.type != JSON_STRING) {
        return reader_expected(r, w, member, "a JSON object");
    }
    enum err err = reader_text(r, v, &text);
    if (err != ERR_OK) {
        return err;
    }
    if (text.n == 0) {
        *out = SPAN("{}");
        return ERR_OK;
    }
    if (json_check_value(text, &rules, &object, &fault) != ERR_OK || object.type != JSON_OBJECT) {
        return reader_expected(r, w, member, "a JSON object");
    }
    *out = object.text;
    return ERR_OK;
}

/* {"name", "arguments"}; `member` is what it is in `w`. */
static enum err read_function(struct reader *r, struct where w, const char *member,
                              struct json_value v, struct part *out)
{
    struct json_members f;
    struct json_value name = {0};
    struct span text = {NULL, 0};
    enum err err = reader_members(r, w, member, v, &f);

    w.member = member;
    if (err == ERR_OK) {
        err = reader_string(r, w, &f, "name", &name);
    }
    if (err == ERR_OK) {
        err = reader_text(r, name, &text);
    }
    if (err == ERR_OK) {
        out->name = tool_names_changed(r->request->names, text);
        err = read_arguments(r, w, "arguments", json_get(&f, "arguments"), &out->arguments);
    }
    return err;
}

static enum err add_id(struct reader *r, struct buf *list, struct json_value id, size_t part)
{
    struct reader_id entry = {.part = part};
    enum err err = reader_text(r, id, &entry.id);

    if (err == ERR_OK) {
        buf_put(list, &entry, sizeof(entry));
        err = buf_status(list);
    }
    return err;
}

static enum err read_call(struct reader *r, struct where w, struct json_value v)
{
    struct part part = {.kind = PART_CALL, .message = r->message};
    struct json_members m;
    struct json_value type = {0};
    enum err err = reader_members(r, w, NULL, v, &m);

    if (err == ERR_OK) {
        err = reader_optional(r, w, &m, "type", JSON_STRING, &type);
    }
    if (err == ERR_OK && type.type == JSON_STRING && !json_string_is(type, "function")) {
        struct span text = reader_excerpt(r, type);
        err = reader_bad(r, w, ": type is %.*s, which is not supported (expected function)",
                         (int)text.n, text.p);
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, &m, "id", JSON_STRING, &part.id);
    }
    if (err == ERR_OK) {
        err = read_function(r, w, "function", json_get(&m, "function"), &part);
    }
    if (err == ERR_OK && part.id.type == JSON_STRING) {
        err = add_id(r, &r->calls, part.id, part_count(&r->pending));
    }
    if (err == ERR_OK) {
        buf_put(&r->pending, &part, sizeof(part));
        err = buf_status(&r->pending);
    }
    return err;
}

/* A message's calls, into `pending`: reasoning and text come first, but reasoning may belong to a
 * call. */
static enum err read_calls(struct reader *r, const struct json_members *m)
{
    struct where w = at_message(r);
    struct json_value list = {0};
    struct json_value item;
    struct json_value legacy = {0};
    size_t cursor = 0;
    const size_t before = id_count(&r->calls);
    enum err err = reader_optional(r, w, m, "tool_calls", JSON_ARRAY, &list);

    buf_clear(&r->pending);
    w.list = "tool_calls";
    for (; err == ERR_OK && json_array_next(list, &cursor, &item); w.j++) {
        err = read_call(r, w, item);
    }
    w.list = NULL;
    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "function_call", JSON_OBJECT, &legacy);
    }
    if (err == ERR_OK && legacy.type == JSON_OBJECT) {
        struct part part = {.kind = PART_CALL, .message = r->message};
        err = read_function(r, w, "function_call", legacy, &part);
        buf_put(&r->pending, &part, sizeof(part));
    }
    sort_ids(&r->calls, before);
    return err == ERR_OK ? buf_status(&r->pending) : err;
}

/* ---- reasoning ---- */

/* Proof that is no text: of a call of this message, or the reasoning itself. `calls` is where the
 * message's ids begin. */
static enum err read_encrypted(struct reader *r, struct where w, const struct json_members *m,
                               size_t calls)
{
    struct part part = {.kind = PART_REASONING, .message = r->message, .encrypted = true};
    struct json_value id = {0};
    struct span text = {NULL, 0};
    enum err err = reader_string(r, w, m, "data", &part.signature);

    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "format", JSON_STRING, &part.format);
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "id", JSON_STRING, &id);
    }
    if (err != ERR_OK || part.signature.text.n <= 2) {
        return err;
    }
    if (id.type == JSON_STRING) {
        err = reader_text(r, id, &text);
        const struct reader_id *found =
            err == ERR_OK ? find_id(&r->calls, calls, text, SIZE_MAX) : NULL;
        if (found != NULL) {
            struct part *call = part_at(&r->pending, found->part);
            call->signature = part.signature;
            call->format = part.format;
            return ERR_OK;
        }
    }
    buf_put(&r->parts, &part, err == ERR_OK ? sizeof(part) : 0);
    return err == ERR_OK ? buf_status(&r->parts) : err;
}

static enum err read_thought(struct reader *r, struct where w, const struct json_members *m)
{
    struct part part = {.kind = PART_REASONING, .message = r->message};
    enum err err = reader_optional(r, w, m, "text", JSON_STRING, &part.text);

    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "signature", JSON_STRING, &part.signature);
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "format", JSON_STRING, &part.format);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (part.text.text.n <= 2) {
        part.text = (struct json_value){0};
    }
    if (part.signature.text.n <= 2) {
        part.signature = (struct json_value){0};
    }
    if (part.text.type == JSON_STRING || part.signature.type == JSON_STRING) {
        buf_put(&r->parts, &part, sizeof(part));
    }
    return buf_status(&r->parts);
}

static enum err read_detail(struct reader *r, struct where w, struct json_value v, size_t calls)
{
    struct json_members m;
    struct json_value type = {0};
    enum err err = reader_members(r, w, NULL, v, &m);

    if (err == ERR_OK) {
        err = reader_string(r, w, &m, "type", &type);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (json_string_is(type, "reasoning.text")) {
        return read_thought(r, w, &m);
    }
    if (json_string_is(type, "reasoning.encrypted")) {
        return read_encrypted(r, w, &m, calls);
    }
    if (json_string_is(type, "reasoning.summary")) {
        return ERR_OK; /* for people; no provider wants it back */
    }
    struct span text = reader_excerpt(r, type);
    return reader_bad(r, w,
                      ": type is %.*s, which is not supported (expected reasoning.text or "
                      "reasoning.encrypted)",
                      (int)text.n, text.p);
}

static enum err read_details(struct reader *r, const struct json_members *m, size_t calls)
{
    struct where w = at_message(r);
    struct json_value list = {0};
    struct json_value item;
    size_t cursor = 0;
    enum err err = reader_optional(r, w, m, "reasoning_details", JSON_ARRAY, &list);

    w.list = "reasoning_details";
    for (; err == ERR_OK && json_array_next(list, &cursor, &item); w.j++) {
        err = read_detail(r, w, item, calls);
    }
    return err;
}

/* ---- messages ---- */

static bool nothing(struct json_value v)
{
    return v.type == JSON_ABSENT || v.type == JSON_NULL;
}

/* Parts that a message added since there were `before` are of the side's turn. */
static enum err add_turn(struct reader *r, bool assistant, size_t before)
{
    const size_t n = part_count(&r->parts) - before;
    struct turn turn = {.assistant = assistant, .n = n};

    if (n == 0) {
        return ERR_OK;
    }
    if (r->turns.len > 0) {
        struct turn *last = (struct turn *)(void *)(r->turns.p + r->turns.len) - 1;
        if (last->assistant == assistant) {
            last->n += n;
            return ERR_OK;
        }
    }
    buf_put(&r->turns, &turn, sizeof(turn));
    return buf_status(&r->turns);
}

/* What an assistant says besides `content` in place of it. */
static enum err read_said(struct reader *r, const struct json_members *m)
{
    struct where w = at_message(r);
    struct json_value content = json_get(m, "content");
    struct json_value refusal = {0};
    enum err err = nothing(content) ? ERR_OK : reader_content(r, content, false, &r->parts);

    if (err == ERR_OK && !nothing(json_get(m, "audio"))) {
        err = reader_bad(r, w, ".audio: not supported (expected text)");
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, m, "refusal", JSON_STRING, &refusal);
    }
    if (err == ERR_OK && refusal.type == JSON_STRING) {
        err = reader_content(r, refusal, false, &r->parts);
    }
    return err;
}

static enum err read_assistant(struct reader *r, const struct json_members *m)
{
    const size_t before = part_count(&r->parts);
    const size_t calls = id_count(&r->calls);
    enum err err = read_calls(r, m);

    if (err == ERR_OK) {
        err = read_details(r, m, calls);
    }
    if (err == ERR_OK) {
        err = read_said(r, m);
    }
    if (err != ERR_OK) {
        return err;
    }
    for (size_t i = calls; i < id_count(&r->calls); i++) {
        id_at(&r->calls, i)->part += part_count(&r->parts);
    }
    buf_put_span(&r->parts, buf_span(&r->pending));
    err = buf_status(&r->parts);
    return err == ERR_OK ? add_turn(r, true, before) : err;
}

static enum err read_user(struct reader *r, const struct json_members *m)
{
    const size_t before = part_count(&r->parts);
    enum err err = reader_content(r, json_get(m, "content"), true, &r->parts);

    return err == ERR_OK ? add_turn(r, false, before) : err;
}

static enum err read_system(struct reader *r, const struct json_members *m)
{
    return reader_content(r, json_get(m, "content"), false, &r->system);
}

/* Of a `tool` message, by its call's id; of a `function` message, by the function's name. */
static enum err read_result(struct reader *r, const struct json_members *m, bool tool)
{
    const size_t before = part_count(&r->parts);
    const size_t inner = part_count(&r->inner);
    struct part part = {.kind = PART_RESULT, .message = r->message};
    struct json_value content = json_get(m, "content");
    struct json_value key = {0};
    struct span text = {NULL, 0};
    enum err err = reader_string(r, at_message(r), m, tool ? "tool_call_id" : "name", &key);

    if (err == ERR_OK && tool) {
        part.id = key;
        err = add_id(r, &r->results, key, before);
    } else if (err == ERR_OK) {
        err = reader_text(r, key, &text);
        part.name = err == ERR_OK ? tool_names_changed(r->request->names, text) : part.name;
    }
    if (err == ERR_OK && !nothing(content)) {
        err = reader_content(r, content, true, &r->inner);
    }
    if (err != ERR_OK) {
        return err;
    }
    part.nparts = part_count(&r->inner) - inner;
    buf_put(&r->parts, &part, sizeof(part));
    err = buf_status(&r->parts);
    return err == ERR_OK ? add_turn(r, false, before) : err;
}

static enum err read_message(struct reader *r, struct json_value v)
{
    struct where w = at_message(r);
    struct json_members m;
    struct json_value role = {0};
    enum err err = reader_members(r, w, NULL, v, &m);

    if (err == ERR_OK) {
        err = reader_string(r, w, &m, "role", &role);
    }
    if (err != ERR_OK) {
        return err;
    }
    if (json_string_is(role, "user")) {
        return read_user(r, &m);
    }
    if (json_string_is(role, "assistant")) {
        return read_assistant(r, &m);
    }
    if (json_string_is(role, "tool") || json_string_is(role, "function")) {
        return read_result(r, &m, json_string_is(role, "tool"));
    }
    if (json_string_is(role, "system") || json_string_is(role, "developer")) {
        return read_system(r, &m);
    }
    struct span text = reader_excerpt(r, role);
    return reader_bad(r, w, ".role: expected system, developer, user, assistant or tool, not %.*s",
                      (int)text.n, text.p);
}

static enum err read_messages(struct reader *r)
{
    struct json_value item;
    size_t cursor = 0;
    enum err err = ERR_OK;

    if (r->request->messages.type != JSON_ARRAY) {
        return tell(r, (struct where){.top = "messages"}, ": expected a list");
    }
    for (; err == ERR_OK && json_array_next(r->request->messages, &cursor, &item); r->message++) {
        err = read_message(r, item);
    }
    if (err == ERR_OK && r->message == 0) {
        err = tell(r, (struct where){.top = "messages"}, " must not be empty");
    }
    return err;
}

/* ---- the end ---- */

/* Each result gets the name of the last call before it that has its id. */
static enum err join_results(struct reader *r)
{
    sort_ids(&r->calls, 0);
    for (size_t i = 0; i < id_count(&r->results); i++) {
        const struct reader_id *result = id_at(&r->results, i);
        struct part *part = part_at(&r->parts, result->part);
        const struct reader_id *call = find_id(&r->calls, 0, result->id, result->part);
        if (call == NULL) {
            struct span text = reader_excerpt(r, part->id);
            r->message = part->message;
            return reader_bad(r, at_message(r), ".tool_call_id: no call before it has the id %.*s",
                              (int)text.n, text.p);
        }
        part->name = part_at(&r->parts, call->part)->name;
    }
    return ERR_OK;
}

/* From lists to the caller's arena: turns and results get their pieces, in order. */
static enum err cut(struct reader *r)
{
    struct conversation *out = r->out;
    void *system = NULL;
    void *parts = NULL;
    void *inner = NULL;
    void *turns = NULL;
    enum err err = reader_keep(r, &r->system, &system);

    if (err == ERR_OK) {
        err = reader_keep(r, &r->parts, &parts);
    }
    if (err == ERR_OK) {
        err = reader_keep(r, &r->inner, &inner);
    }
    if (err == ERR_OK) {
        err = reader_keep(r, &r->turns, &turns);
    }
    if (err != ERR_OK) {
        return err;
    }
    out->system = system;
    out->nsystem = part_count(&r->system);
    out->turns = turns;
    out->nturns = parts == NULL ? 0 : r->turns.len / sizeof(struct turn);
    struct part *next = parts;
    struct part *next_inner = inner;
    for (size_t i = 0; i < out->nturns; i++) {
        struct turn *turn = &out->turns[i];
        turn->parts = next;
        next += turn->n;
        for (size_t j = 0; j < turn->n; j++) {
            if (turn->parts[j].nparts > 0) {
                turn->parts[j].parts = next_inner;
                next_inner += turn->parts[j].nparts;
            }
        }
    }
    return ERR_OK;
}

enum err conversation_read(const struct chat_request *request, struct arena *arena,
                           struct conversation *out, struct failure *failure)
{
    struct conversation made = {.nturns = 0};
    struct reader r = {.request = request, .arena = arena, .failure = failure, .out = &made};
    struct buf *const lists[] = {&r.system,  &r.parts,   &r.inner, &r.turns,  &r.calls,
                                 &r.results, &r.pending, &r.list,  &r.scratch};
    const size_t nlists = sizeof(lists) / sizeof(lists[0]);

    for (size_t i = 0; i < nlists; i++) {
        buf_init(lists[i], arena->max);
    }
    enum err err = read_messages(&r);
    if (err == ERR_OK) {
        err = join_results(&r);
    }
    if (err == ERR_OK) {
        err = cut(&r);
    }
    if (err == ERR_OK) {
        err = reader_params(&r);
    }
    for (size_t i = 0; i < nlists; i++) {
        buf_fini(lists[i]);
    }
    if (err == ERR_OK) {
        *out = made;
    }
    return err;
}
