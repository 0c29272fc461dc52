/*
 * The parameters of a chat that other APIs put elsewhere: tools, which of them to call, when to
 * stop, the reply's form, how long and how hard.
 */
#include "llm/conversation_private.h"

#include "llm/tool_names.h"

static struct json_value param(const struct reader *r, enum chat_param which)
{
    struct json_value v = r->request->params[which];

    return v.type == JSON_NULL ? (struct json_value){0} : v;
}

static struct where at_param(enum chat_param which)
{
    return (struct where){.top = chat_param_names[which]};
}

/* A string of the caller's that is none of those that are known. */
static enum err unknown(struct reader *r, struct where w, struct json_value given, const char *what)
{
    struct span text = reader_excerpt(r, given);

    return reader_bad(r, w, ": expected %s, not %.*s", what, (int)text.n, text.p);
}

/* ---- tools ---- */

static enum err read_tool(struct reader *r, struct where w, struct json_value v, struct tool *out)
{
    struct json_members m;
    struct json_members f;
    struct json_value type;
    struct json_value name;
    struct span text;
    enum err err = reader_members(r, w, NULL, v, &m);

    if (err == ERR_OK) {
        err = reader_string(r, w, &m, "type", &type);
    }
    if (err == ERR_OK && !json_string_is(type, "function")) {
        text = reader_excerpt(r, type);
        err = reader_bad(r, w, ": type is %.*s, which is not supported (expected function)",
                         (int)text.n, text.p);
    }
    if (err == ERR_OK) {
        err = reader_members(r, w, "function", json_get(&m, "function"), &f);
    }
    w.member = "function";
    if (err == ERR_OK) {
        err = reader_string(r, w, &f, "name", &name);
    }
    if (err == ERR_OK) {
        err = reader_text(r, name, &text);
    }
    if (err == ERR_OK) {
        out->name = tool_names_changed(r->request->names, text);
        err = reader_optional(r, w, &f, "description", JSON_STRING, &out->description);
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, &f, "parameters", JSON_OBJECT, &out->parameters);
    }
    return err == ERR_OK ? reader_bool(r, w, &f, "strict", &out->strict) : err;
}

static enum err read_tools(struct reader *r)
{
    struct where w = at_param(CHAT_TOOLS);
    struct json_value v = param(r, CHAT_TOOLS);
    struct json_value item;
    size_t cursor = 0;
    void *kept = NULL;
    enum err err = ERR_OK;

    if (v.type != JSON_ABSENT && v.type != JSON_ARRAY) {
        return reader_expected(r, w, NULL, "a list");
    }
    buf_clear(&r->list);
    w.in_top = true;
    for (; err == ERR_OK && json_array_next(v, &cursor, &item); w.i++) {
        struct tool tool = {.strict = false};
        err = read_tool(r, w, item, &tool);
        buf_put(&r->list, &tool, sizeof(tool));
    }
    if (err == ERR_OK) {
        err = reader_keep(r, &r->list, &kept);
    }
    r->out->tools = kept;
    r->out->ntools = w.i;
    return err;
}

static enum err read_chosen(struct reader *r, struct where w, struct json_value v)
{
    struct json_members m;
    struct json_members f;
    struct json_value name;
    struct span text;
    enum err err = reader_members(r, w, NULL, v, &m);

    if (err == ERR_OK && !json_string_is(json_get(&m, "type"), "function")) {
        err = reader_expected(r, w, "type", "function");
    }
    if (err == ERR_OK) {
        err = reader_members(r, w, "function", json_get(&m, "function"), &f);
    }
    if (err == ERR_OK) {
        w.member = "function";
        err = reader_string(r, w, &f, "name", &name);
    }
    if (err == ERR_OK) {
        err = reader_text(r, name, &text);
    }
    if (err != ERR_OK) {
        return err;
    }
    r->out->choice = TOOL_CHOICE_ONE;
    r->out->choice_name = tool_names_changed(r->request->names, text);
    for (size_t i = 0; i < r->out->ntools; i++) {
        if (span_eq(r->out->tools[i].name, r->out->choice_name)) {
            return ERR_OK;
        }
    }
    text = reader_excerpt(r, name);
    return reader_bad(r, w, ".name: no tool is named %.*s", (int)text.n, text.p);
}

static enum err read_choice(struct reader *r)
{
    static const struct {
        const char *name;
        enum tool_choice choice;
    } words[] = {
        {"auto", TOOL_CHOICE_AUTO}, {"none", TOOL_CHOICE_NONE}, {"required", TOOL_CHOICE_ANY}};
    struct where w = at_param(CHAT_TOOL_CHOICE);
    struct json_value v = param(r, CHAT_TOOL_CHOICE);

    if (v.type == JSON_ABSENT) {
        return ERR_OK;
    }
    if (v.type == JSON_OBJECT) {
        return read_chosen(r, w, v);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (json_string_is(v, words[i].name)) {
            r->out->choice = words[i].choice;
            return ERR_OK;
        }
    }
    return reader_expected(r, w, NULL, "auto, none, required or an object that names a function");
}

/* ---- the rest ---- */

static enum err read_stop(struct reader *r)
{
    struct where w = at_param(CHAT_STOP);
    struct json_value v = param(r, CHAT_STOP);
    struct json_value item;
    size_t cursor = 0;
    void *kept = NULL;
    size_t n = 0;

    buf_clear(&r->list);
    if (v.type == JSON_STRING) {
        buf_put(&r->list, &v, sizeof(v));
        n = 1;
    } else if (v.type != JSON_ABSENT && v.type != JSON_ARRAY) {
        return reader_expected(r, w, NULL, "a string or a list of strings");
    }
    w.in_top = true;
    for (; json_array_next(v, &cursor, &item); n++) {
        if (item.type != JSON_STRING) {
            w.i = n;
            return reader_expected(r, w, NULL, "a string");
        }
        buf_put(&r->list, &item, sizeof(item));
    }
    enum err err = reader_keep(r, &r->list, &kept);
    r->out->stop = kept;
    r->out->nstop = n;
    return err;
}

static enum err read_schema(struct reader *r, struct where w, const struct json_members *m)
{
    struct json_members s;
    bool strict = false; /* its form is checked; no other API knows a lenient schema */
    enum err err = reader_members(r, w, "json_schema", json_get(m, "json_schema"), &s);

    w.member = "json_schema";
    if (err == ERR_OK) {
        err = reader_optional(r, w, &s, "name", JSON_STRING, &r->out->schema_name);
    }
    if (err == ERR_OK) {
        err = reader_bool(r, w, &s, "strict", &strict);
    }
    if (err == ERR_OK) {
        err = reader_optional(r, w, &s, "schema", JSON_OBJECT, &r->out->schema);
    }
    if (err == ERR_OK && r->out->schema.type == JSON_ABSENT) {
        err = reader_expected(r, w, "schema", "an object");
    }
    r->out->format = REPLY_JSON_SCHEMA;
    return err;
}

static enum err read_format(struct reader *r)
{
    struct where w = at_param(CHAT_RESPONSE_FORMAT);
    struct json_value v = param(r, CHAT_RESPONSE_FORMAT);
    struct json_value type;
    struct json_members m;

    if (v.type == JSON_ABSENT) {
        return ERR_OK;
    }
    enum err err = reader_members(r, w, NULL, v, &m);
    if (err == ERR_OK) {
        err = reader_string(r, w, &m, "type", &type);
    }
    if (err != ERR_OK || json_string_is(type, "text")) {
        return err;
    }
    if (json_string_is(type, "json_object")) {
        r->out->format = REPLY_JSON;
        return ERR_OK;
    }
    if (json_string_is(type, "json_schema")) {
        return read_schema(r, w, &m);
    }
    w.member = "type";
    return unknown(r, w, type, "text, json_object or json_schema");
}

/* Both are checked; the newer name counts. */
static enum err read_max_tokens(struct reader *r)
{
    static const enum chat_param names[] = {CHAT_MAX_TOKENS, CHAT_MAX_COMPLETION_TOKENS};

    for (size_t i = 0; i < 2; i++) {
        struct json_value v = param(r, names[i]);
        uint64_t n = 0;
        if (v.type == JSON_ABSENT) {
            continue;
        }
        if (!json_number_u64(v, &n) || n == 0) {
            return reader_expected(r, at_param(names[i]), NULL, "a whole number above 0");
        }
        r->out->max_tokens = n;
    }
    return ERR_OK;
}

static enum err read_effort(struct reader *r)
{
    static const struct {
        const char *name;
        enum chat_effort effort;
    } words[] = {{"none", EFFORT_NONE},     {"minimal", EFFORT_MINIMAL}, {"low", EFFORT_LOW},
                 {"medium", EFFORT_MEDIUM}, {"high", EFFORT_HIGH},       {"xhigh", EFFORT_HIGH}};
    static const char what[] = "none, minimal, low, medium, high or xhigh";
    struct where w = at_param(CHAT_REASONING_EFFORT);
    struct json_value v = param(r, CHAT_REASONING_EFFORT);

    if (v.type == JSON_ABSENT) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (json_string_is(v, words[i].name)) {
            r->out->effort = words[i].effort;
            return ERR_OK;
        }
    }
    return v.type == JSON_STRING ? unknown(r, w, v, what) : reader_expected(r, w, NULL, what);
}

static enum err read_parallel(struct reader *r)
{
    struct json_value v = param(r, CHAT_PARALLEL_TOOL_CALLS);

    if (v.type != JSON_ABSENT && v.type != JSON_TRUE && v.type != JSON_FALSE) {
        return reader_expected(r, at_param(CHAT_PARALLEL_TOOL_CALLS), NULL, "a boolean");
    }
    r->out->no_parallel_calls = v.type == JSON_FALSE;
    return ERR_OK;
}

enum err reader_params(struct reader *r)
{
    static enum err (*const steps[])(struct reader *) = {read_tools,   read_choice,     read_stop,
                                                         read_format,  read_max_tokens, read_effort,
                                                         read_parallel};
    enum err err = ERR_OK;

    for (size_t i = 0; err == ERR_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        err = steps[i](r);
    }
    return err;
}

/* ---- what is left to the types ---- */

static bool listed(enum chat_param which, const enum chat_param *known, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (known[i] == which) {
            return true;
        }
    }
    return false;
}

enum chat_param conversation_unknown(const struct chat_request *request,
                                     const enum chat_param *known, size_t n)
{
    static const enum chat_param read[] = {CHAT_TOOLS,
                                           CHAT_TOOL_CHOICE,
                                           CHAT_STOP,
                                           CHAT_RESPONSE_FORMAT,
                                           CHAT_MAX_TOKENS,
                                           CHAT_MAX_COMPLETION_TOKENS,
                                           CHAT_REASONING_EFFORT,
                                           CHAT_PARALLEL_TOOL_CALLS,
                                           CHAT_METADATA,
                                           CHAT_USER};

    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        enum json_type type = request->params[i].type;
        enum chat_param which = (enum chat_param)i;
        if (type != JSON_ABSENT && type != JSON_NULL &&
            !listed(which, read, sizeof(read) / sizeof(read[0])) && !listed(which, known, n)) {
            return which;
        }
    }
    return CHAT_PARAM_COUNT;
}
