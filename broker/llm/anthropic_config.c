/*
 * What of a request is no message: tools, limits, thinking, the reply's format. Numbers that came
 * from the caller are copied as the bytes that they were.
 */
#include "llm/anthropic_private.h"

#include "base/json.h"

#define BUDGET_MIN 1024u

/* How the model is to think. */
struct thinking {
    const char *type;   /* NULL: nothing is said */
    const char *effort; /* NULL: none is said */
    uint64_t budget;    /* tokens; 0: none is said */
    uint64_t max_tokens;
};

/* ---- what cannot be asked ---- */

static bool is_between(struct json_value number, double least, double most)
{
    double d = 0;

    return json_number_double(number, &d) && d >= least && d <= most;
}

static enum err check_params(const struct chat_request *request, const struct conversation *c,
                             struct failure *failure)
{
    static const enum chat_param known[] = {CHAT_TEMPERATURE, CHAT_TOP_P, CHAT_FREQUENCY_PENALTY,
                                            CHAT_PRESENCE_PENALTY};
    static const enum chat_param zero[] = {CHAT_FREQUENCY_PENALTY, CHAT_PRESENCE_PENALTY};
    enum chat_param other = conversation_unknown(request, known, sizeof known / sizeof known[0]);

    for (size_t i = 0; i < sizeof zero / sizeof zero[0] && other == CHAT_PARAM_COUNT; i++) {
        if (chat_given(request, zero[i]) && !is_between(request->params[zero[i]], 0, 0)) {
            other = zero[i];
        }
    }
    if (other != CHAT_PARAM_COUNT) {
        return provider_cannot(failure, "%s: anthropic has no such parameter",
                               chat_param_names[other]);
    }
    if (chat_given(request, CHAT_TEMPERATURE) &&
        !is_between(request->params[CHAT_TEMPERATURE], 0, 1)) {
        return provider_cannot(failure, "temperature: anthropic takes 0 to 1");
    }
    if (c->format == REPLY_JSON) {
        return provider_cannot(failure,
                               "response_format: anthropic takes json_schema, not json_object");
    }
    return ERR_OK;
}

static bool is_blank(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (memchr(" \t\n\v\f\r", s.p[i], 6) == NULL) {
            return false;
        }
    }
    return true;
}

static enum err check_stop(const struct conversation *c, struct failure *failure)
{
    enum err err = ERR_OK;
    bool blank = false;

    for (size_t i = 0; i < c->nstop && err == ERR_OK && !blank; i++) {
        struct buf text;

        buf_init(&text, c->stop[i].text.n + 4);
        json_string_decode(c->stop[i], &text, NULL);
        err = buf_status(&text);
        blank = is_blank(buf_span(&text));
        buf_fini(&text);
    }
    return err == ERR_OK && blank
               ? provider_cannot(failure, "stop: anthropic takes no sequence of white space only")
               : err;
}

/* ---- thinking ---- */

static bool starts_with(struct span s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.p, with, n) == 0;
}

/* The number at the start of `s`, which is cut off; 0 for none, or for one that is a date. */
static unsigned version_number(struct span *s)
{
    unsigned n = 0;
    size_t digits = 0;

    while (digits < s->n && s->p[digits] >= '0' && s->p[digits] <= '9') {
        n = digits < 3 ? n * 10 + (unsigned)(s->p[digits] - '0') : 0;
        digits++;
    }
    *s = span_after(*s, digits);
    return digits < 3 ? n : 0;
}

/* claude-opus-4-6, claude-sonnet-5, claude-mythos-preview, …; not claude-sonnet-4-5-20250929,
 * claude-opus-4-20250514, claude-3-7-sonnet-20250219, nor another maker's. */
static bool is_adaptive(struct span model)
{
    if (!starts_with(model, "claude-")) {
        return false;
    }
    model = span_after(model, strlen("claude-"));
    if (model.n > 0 && model.p[0] >= '0' && model.p[0] <= '9') {
        return false;
    }
    while (model.n > 0 && !(model.p[0] >= '0' && model.p[0] <= '9')) {
        model = span_after(model, 1);
    }
    if (model.n == 0) {
        return true; /* named without a number, as only newer ones are */
    }
    unsigned major = version_number(&model);
    unsigned minor = 0;
    if (model.n > 0 && (model.p[0] == '-' || model.p[0] == '.')) {
        model = span_after(model, 1);
        minor = version_number(&model);
    }
    return major > 4 || (major == 4 && minor >= 6);
}

/* A number of tokens for thinking, and a larger one for all. */
static enum err fit_budget(uint64_t asked, uint64_t max_tokens, struct thinking *t,
                           struct failure *failure)
{
    t->budget = asked;
    t->max_tokens = max_tokens == 0 ? asked + ANTHROPIC_MAX_TOKENS : max_tokens;
    if (t->max_tokens <= BUDGET_MIN) {
        return provider_cannot(
            failure, "max_tokens: anthropic needs more than %u of them with reasoning_effort",
            BUDGET_MIN);
    }
    if (t->budget >= t->max_tokens) {
        t->budget = t->max_tokens / 2 > BUDGET_MIN ? t->max_tokens / 2 : BUDGET_MIN;
    }
    return ERR_OK;
}

/* What thinking forbids. */
static enum err check_thinking(const struct chat_request *request, const struct conversation *c,
                               struct failure *failure)
{
    if (chat_given(request, CHAT_TEMPERATURE) &&
        !is_between(request->params[CHAT_TEMPERATURE], 1, 1)) {
        return provider_cannot(failure, "temperature: anthropic takes none with reasoning_effort");
    }
    if (chat_given(request, CHAT_TOP_P) && !is_between(request->params[CHAT_TOP_P], 0.95, 1)) {
        return provider_cannot(failure, "top_p: anthropic takes 0.95 to 1 with reasoning_effort");
    }
    if (c->choice == TOOL_CHOICE_ANY || c->choice == TOOL_CHOICE_ONE) {
        return provider_cannot(
            failure, "tool_choice: anthropic cannot be made to call a tool with reasoning_effort");
    }
    return ERR_OK;
}

static enum err read_thinking(const struct chat_request *request, const struct conversation *c,
                              struct thinking *t, struct failure *failure)
{
    static const struct {
        const char *effort;
        uint64_t budget;
    } map[] = {
        [EFFORT_MINIMAL] = {"low", 1024},
        [EFFORT_LOW] = {"low", 1024},
        [EFFORT_MEDIUM] = {"medium", 4096},
        [EFFORT_HIGH] = {"high", 16384},
    };

    *t = (struct thinking){.max_tokens = c->max_tokens == 0 ? ANTHROPIC_MAX_TOKENS : c->max_tokens};
    if (c->effort == EFFORT_UNSAID) {
        return ERR_OK;
    }
    if (c->effort == EFFORT_NONE) {
        t->type = "disabled";
        return ERR_OK;
    }
    enum err err = check_thinking(request, c, failure);
    if (err != ERR_OK) {
        return err;
    }
    if (is_adaptive(request->model)) {
        t->type = "adaptive";
        t->effort = map[c->effort].effort;
        t->max_tokens =
            c->max_tokens == 0 ? ANTHROPIC_MAX_TOKENS + map[c->effort].budget : c->max_tokens;
        return ERR_OK;
    }
    t->type = "enabled";
    return fit_budget(map[c->effort].budget, c->max_tokens, t, failure);
}

static void put_thinking(const struct thinking *t, const struct conversation *c, struct buf *b)
{
    bool schema = c->format == REPLY_JSON_SCHEMA;

    if (t->type != NULL) {
        buf_printf(b, ",\"thinking\":{\"type\":\"%s\"", t->type);
        if (t->budget > 0) {
            buf_put_str(b, ",\"budget_tokens\":");
            json_put_u64(b, t->budget);
        }
        /* Newer models leave the text out unless they are asked. */
        buf_put_str(b, t->effort != NULL ? ",\"display\":\"summarized\"}" : "}");
    }
    if (t->effort == NULL && !schema) {
        return;
    }
    buf_put_str(b, ",\"output_config\":{");
    if (t->effort != NULL) {
        buf_printf(b, "\"effort\":\"%s\"%s", t->effort, schema ? "," : "");
    }
    if (schema) {
        buf_put_str(b, "\"format\":{\"type\":\"json_schema\",\"schema\":");
        buf_put_span(b, c->schema.text);
        buf_put_char(b, '}');
    }
    buf_put_char(b, '}');
}

/* ---- tools ---- */

/* A schema must say that it is one of an object. */
static void put_schema(struct json_value schema, struct buf *b)
{
    struct json_member member;
    size_t cursor = 0;

    if (json_find(schema, "type").type != JSON_ABSENT) {
        buf_put_span(b, schema.text);
        return;
    }
    buf_put_str(b, "{\"type\":\"object\"");
    if (schema.type == JSON_OBJECT && json_object_next(schema, &cursor, &member)) {
        buf_put_char(b, ',');
        buf_put_span(b, span_after(schema.text, 1));
    } else {
        buf_put_char(b, '}');
    }
}

static void put_tool(const struct tool *tool, struct buf *b)
{
    buf_put_str(b, "{\"name\":");
    json_put_string(b, tool->name);
    if (tool->description.type == JSON_STRING) {
        buf_put_str(b, ",\"description\":");
        buf_put_span(b, tool->description.text);
    }
    buf_put_str(b, ",\"input_schema\":");
    put_schema(tool->parameters, b);
    buf_put_str(b, tool->strict ? ",\"strict\":true}" : "}");
}

static void put_choice(const struct conversation *c, struct buf *b)
{
    static const char *const types[] = {
        [TOOL_CHOICE_UNSAID] = "auto", [TOOL_CHOICE_AUTO] = "auto", [TOOL_CHOICE_NONE] = "none",
        [TOOL_CHOICE_ANY] = "any",     [TOOL_CHOICE_ONE] = "tool",
    };

    if (c->choice == TOOL_CHOICE_UNSAID && !c->no_parallel_calls) {
        return;
    }
    buf_printf(b, ",\"tool_choice\":{\"type\":\"%s\"", types[c->choice]);
    if (c->choice == TOOL_CHOICE_ONE) {
        buf_put_str(b, ",\"name\":");
        json_put_string(b, c->choice_name);
    }
    if (c->no_parallel_calls && c->choice != TOOL_CHOICE_NONE) {
        buf_put_str(b, ",\"disable_parallel_tool_use\":true");
    }
    buf_put_char(b, '}');
}

static void put_tools(const struct conversation *c, struct buf *b)
{
    if (c->ntools == 0) {
        return;
    }
    buf_put_str(b, ",\"tools\":[");
    for (size_t i = 0; i < c->ntools; i++) {
        buf_put_str(b, i == 0 ? "" : ",");
        put_tool(&c->tools[i], b);
    }
    buf_put_char(b, ']');
    put_choice(c, b);
}

/* ---- all ---- */

static void put_param(const struct chat_request *request, enum chat_param param, const char *name,
                      struct buf *b)
{
    if (chat_given(request, param)) {
        buf_put_str(b, name);
        buf_put_span(b, request->params[param].text);
    }
}

static void put_stop(const struct conversation *c, struct buf *b)
{
    for (size_t i = 0; i < c->nstop; i++) {
        buf_put_str(b, i == 0 ? ",\"stop_sequences\":[" : ",");
        buf_put_span(b, c->stop[i].text);
    }
    buf_put_str(b, c->nstop > 0 ? "]" : "");
}

enum err anthropic_put_config(const struct chat_request *request, const struct conversation *c,
                              struct buf *b, struct failure *failure)
{
    struct thinking thinking;
    enum err err = check_params(request, c, failure);

    if (err == ERR_OK) {
        err = check_stop(c, failure);
    }
    if (err == ERR_OK) {
        err = read_thinking(request, c, &thinking, failure);
    }
    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(b, ",\"max_tokens\":");
    json_put_u64(b, thinking.max_tokens);
    buf_put_str(b, request->stream ? ",\"stream\":true" : "");
    put_param(request, CHAT_TEMPERATURE, ",\"temperature\":", b);
    put_param(request, CHAT_TOP_P, ",\"top_p\":", b);
    put_stop(c, b);
    if (request->params[CHAT_USER].type == JSON_STRING) {
        put_param(request, CHAT_USER, ",\"metadata\":{\"user_id\":", b);
        buf_put_char(b, '}');
    }
    put_tools(c, b);
    put_thinking(&thinking, c, b);
    return ERR_OK;
}
