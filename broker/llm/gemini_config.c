/*
 * What of a request is no message: Gemini's tools, toolConfig and generationConfig. Numbers that
 * came from the caller are copied as the bytes that they were.
 */
#include "llm/gemini_private.h"

#include "base/json.h"

/* ---- tools ---- */

static void put_declaration(const struct tool *tool, struct buf *b)
{
    buf_put_str(b, "{\"name\":");
    json_put_string(b, tool->name);
    if (tool->description.type == JSON_STRING) {
        buf_put_str(b, ",\"description\":");
        buf_put_span(b, tool->description.text);
    }
    if (tool->parameters.type == JSON_OBJECT) {
        buf_put_str(b, ",\"parametersJsonSchema\":");
        buf_put_span(b, tool->parameters.text);
    }
    buf_put_char(b, '}');
}

/* NULL: what Gemini does by itself. Calls are made to fit the schema in the modes ANY and
 * VALIDATED, so that is what `strict` asks for. */
static const char *mode_of(const struct conversation *c)
{
    bool strict = false;

    for (size_t i = 0; i < c->ntools; i++) {
        strict = strict || c->tools[i].strict;
    }
    switch (c->choice) {
    case TOOL_CHOICE_UNSAID:
        return strict ? "VALIDATED" : NULL;
    case TOOL_CHOICE_AUTO:
        return strict ? "VALIDATED" : "AUTO";
    case TOOL_CHOICE_NONE:
        return "NONE";
    case TOOL_CHOICE_ANY:
    case TOOL_CHOICE_ONE:
        break;
    }
    return "ANY";
}

void gemini_put_tools(const struct conversation *c, struct buf *b)
{
    const char *mode = mode_of(c);

    if (c->ntools == 0) {
        return;
    }
    buf_put_str(b, ",\"tools\":[{\"functionDeclarations\":[");
    for (size_t i = 0; i < c->ntools; i++) {
        buf_put_str(b, i == 0 ? "" : ",");
        put_declaration(&c->tools[i], b);
    }
    buf_put_str(b, "]}]");
    if (mode == NULL) {
        return;
    }
    buf_printf(b, ",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"%s\"", mode);
    if (c->choice == TOOL_CHOICE_ONE) {
        buf_put_str(b, ",\"allowedFunctionNames\":[");
        json_put_string(b, c->choice_name);
        buf_put_char(b, ']');
    }
    buf_put_str(b, "}}");
}

/* ---- generationConfig ---- */

static void put_numbers(const struct chat_request *request, struct buf *b)
{
    static const struct {
        enum chat_param param;
        const char *name;
    } map[] = {
        {CHAT_TEMPERATURE, "temperature"},
        {CHAT_TOP_P, "topP"},
        {CHAT_SEED, "seed"},
        {CHAT_FREQUENCY_PENALTY, "frequencyPenalty"},
        {CHAT_PRESENCE_PENALTY, "presencePenalty"},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (chat_given(request, map[i].param)) {
            json_put_key(b, map[i].name);
            buf_put_span(b, request->params[map[i].param].text);
        }
    }
}

static void put_stop(const struct conversation *c, struct buf *b)
{
    for (size_t i = 0; i < c->nstop; i++) {
        if (i == 0) {
            json_put_key(b, "stopSequences");
            buf_put_char(b, '[');
        } else {
            buf_put_char(b, ',');
        }
        buf_put_span(b, c->stop[i].text);
    }
    if (c->nstop > 0) {
        buf_put_char(b, ']');
    }
}

static void put_format(const struct conversation *c, struct buf *b)
{
    if (c->format == REPLY_TEXT) {
        return;
    }
    json_put_key(b, "responseMimeType");
    buf_put_str(b, "\"application/json\"");
    if (c->format == REPLY_JSON_SCHEMA) {
        json_put_key(b, "responseJsonSchema");
        buf_put_span(b, c->schema.text);
    }
}

/* "gemini-3-pro", "gemini-3.1-flash", … take a level; older models, and names that do not say how
 * old they are, a budget, which newer models understand too. */
static bool takes_level(struct span model)
{
    static const char family[] = "gemini-";
    size_t n = sizeof family - 1;

    if (model.n < n || memcmp(model.p, family, n) != 0) {
        return false;
    }
    model = span_after(model, n);
    size_t digits = 0;
    while (digits < model.n && model.p[digits] >= '0' && model.p[digits] <= '9') {
        digits++;
    }
    return digits > 1 || (digits == 1 && model.p[0] >= '3');
}

static enum err put_thinking(struct span model, enum chat_effort effort, struct buf *b,
                             struct failure *failure)
{
    static const struct {
        const char *level;
        unsigned budget; /* tokens; "OpenAI compatibility" has the same from low on */
    } map[] = {
        [EFFORT_NONE] = {NULL, 0},       [EFFORT_MINIMAL] = {"MINIMAL", 512},
        [EFFORT_LOW] = {"LOW", 1024},    [EFFORT_MEDIUM] = {"MEDIUM", 8192},
        [EFFORT_HIGH] = {"HIGH", 24576},
    };

    if (effort == EFFORT_UNSAID) {
        return ERR_OK;
    }
    if (effort == EFFORT_NONE && takes_level(model)) {
        return provider_cannot(
            failure,
            "reasoning_effort: none: gemini models from 3 on cannot be kept from thinking");
    }
    json_put_key(b, "thinkingConfig");
    if (takes_level(model)) {
        buf_printf(b, "{\"includeThoughts\":true,\"thinkingLevel\":\"%s\"}", map[effort].level);
    } else {
        buf_printf(b, "{%s\"thinkingBudget\":%u}",
                   effort == EFFORT_NONE ? "" : "\"includeThoughts\":true,", map[effort].budget);
    }
    return ERR_OK;
}

static enum err check(const struct chat_request *request, const struct conversation *c,
                      struct failure *failure)
{
    static const enum chat_param known[] = {CHAT_TEMPERATURE, CHAT_TOP_P, CHAT_SEED,
                                            CHAT_FREQUENCY_PENALTY, CHAT_PRESENCE_PENALTY};
    enum chat_param other = conversation_unknown(request, known, sizeof known / sizeof known[0]);

    if (other != CHAT_PARAM_COUNT) {
        return provider_cannot(failure, "%s: gemini has no such parameter",
                               chat_param_names[other]);
    }
    if (c->no_parallel_calls) {
        return provider_cannot(failure,
                               "parallel_tool_calls: gemini cannot be kept to one call at a time");
    }
    if (c->nstop > GEMINI_STOP_MAX) {
        return provider_cannot(failure, "stop: gemini takes at most %u sequences", GEMINI_STOP_MAX);
    }
    return ERR_OK;
}

enum err gemini_put_config(const struct chat_request *request, const struct conversation *c,
                           struct buf *b, struct failure *failure)
{
    static const char start[] = ",\"generationConfig\":{";
    size_t before = b->len;
    enum err err = check(request, c, failure);

    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(b, start);
    put_numbers(request, b);
    if (c->max_tokens > 0) {
        json_put_key(b, "maxOutputTokens");
        json_put_u64(b, c->max_tokens);
    }
    put_stop(c, b);
    put_format(c, b);
    err = put_thinking(request->model, c->effort, b, failure);
    if (err == ERR_OK && buf_status(b) == ERR_OK && b->len == before + sizeof start - 1) {
        buf_truncate(b, before);
        return ERR_OK;
    }
    buf_put_char(b, '}');
    return err;
}
