/*
 * What of a request is no message: inferenceConfig, toolConfig, outputConfig, and what Converse
 * cannot express. Numbers that came from the caller are copied as the bytes that they were.
 */
#include "llm/bedrock_private.h"

#include "base/json.h"

/* ---- what cannot be said ---- */

/* A penalty of 0 is what happens without it. */
static bool is_zero(const struct chat_request *request, enum chat_param param)
{
    double d = 1;

    return json_number_double(request->params[param], &d) && d >= 0 && d <= 0;
}

static enum err check_params(const struct chat_request *request, const struct conversation *c,
                             struct failure *failure)
{
    enum chat_param known[4] = {CHAT_TEMPERATURE, CHAT_TOP_P};
    size_t n = 2;

    if (is_zero(request, CHAT_FREQUENCY_PENALTY)) {
        known[n++] = CHAT_FREQUENCY_PENALTY;
    }
    if (is_zero(request, CHAT_PRESENCE_PENALTY)) {
        known[n++] = CHAT_PRESENCE_PENALTY;
    }
    enum chat_param other = conversation_unknown(request, known, n);
    if (other != CHAT_PARAM_COUNT) {
        return provider_cannot(failure, "%s: bedrock has no such parameter",
                               chat_param_names[other]);
    }
    if (c->no_parallel_calls) {
        return provider_cannot(failure,
                               "parallel_tool_calls: bedrock cannot be kept to one call at a time");
    }
    if (c->effort != EFFORT_UNSAID) {
        return provider_cannot(failure, "reasoning_effort: bedrock has no such parameter for all "
                                        "of its models");
    }
    if (c->format == REPLY_JSON) {
        return provider_cannot(failure,
                               "response_format: bedrock takes json_schema, not json_object");
    }
    return ERR_OK;
}

/* Whether there are calls or results in the messages: then there must be a toolConfig. */
static bool tells_of_tools(const struct conversation *c)
{
    for (size_t k = 0; k < c->nturns; k++) {
        for (size_t i = 0; i < c->turns[k].n; i++) {
            enum part_kind kind = c->turns[k].parts[i].kind;

            if (kind == PART_CALL || kind == PART_RESULT) {
                return true;
            }
        }
    }
    return false;
}

static enum err check_tools(const struct conversation *c, struct failure *failure)
{
    if (!tells_of_tools(c)) {
        return ERR_OK;
    }
    if (c->ntools == 0) {
        return provider_cannot(failure, "tools: bedrock needs them when there are tool calls or "
                                        "results in the messages");
    }
    if (c->choice == TOOL_CHOICE_NONE) {
        return provider_cannot(failure, "tool_choice: bedrock cannot be kept from calling tools "
                                        "when there are tool calls or results in the messages");
    }
    return ERR_OK;
}

/* ---- inferenceConfig ---- */

static void put_inference(const struct chat_request *request, const struct conversation *c,
                          struct buf *b)
{
    if (c->max_tokens == 0 && !chat_given(request, CHAT_TEMPERATURE) &&
        !chat_given(request, CHAT_TOP_P) && c->nstop == 0) {
        return;
    }
    buf_put_str(b, ",\"inferenceConfig\":{");
    if (c->max_tokens > 0) {
        json_put_key(b, "maxTokens");
        json_put_u64(b, c->max_tokens);
    }
    if (chat_given(request, CHAT_TEMPERATURE)) {
        json_put_key(b, "temperature");
        buf_put_span(b, request->params[CHAT_TEMPERATURE].text);
    }
    if (chat_given(request, CHAT_TOP_P)) {
        json_put_key(b, "topP");
        buf_put_span(b, request->params[CHAT_TOP_P].text);
    }
    for (size_t i = 0; i < c->nstop; i++) {
        if (i == 0) {
            json_put_key(b, "stopSequences");
        }
        buf_put_char(b, i == 0 ? '[' : ',');
        buf_put_span(b, c->stop[i].text);
    }
    buf_put_str(b, c->nstop > 0 ? "]}" : "}");
}

/* ---- toolConfig ---- */

/* Bedrock wants an object that says that it is one. */
static struct span schema_of(const struct tool *tool)
{
    struct json_member member;
    size_t cursor = 0;

    return tool->parameters.type == JSON_OBJECT &&
                   json_object_next(tool->parameters, &cursor, &member)
               ? tool->parameters.text
               : SPAN("{\"type\":\"object\",\"properties\":{}}");
}

static void put_tool(const struct tool *tool, struct buf *b)
{
    buf_put_str(b, "{\"toolSpec\":{\"name\":");
    json_put_string(b, tool->name);
    if (tool->description.type == JSON_STRING && tool->description.text.n > 2) {
        buf_put_str(b, ",\"description\":");
        buf_put_span(b, tool->description.text);
    }
    buf_put_str(b, ",\"inputSchema\":{\"json\":");
    buf_put_span(b, schema_of(tool));
    buf_put_str(b, tool->strict ? "},\"strict\":true}}" : "}}}");
}

static void put_tools(const struct conversation *c, struct buf *b)
{
    if (c->ntools == 0 || c->choice == TOOL_CHOICE_NONE) {
        return; /* no tools, no calls */
    }
    buf_put_str(b, ",\"toolConfig\":{\"tools\":[");
    for (size_t i = 0; i < c->ntools; i++) {
        buf_put_str(b, i == 0 ? "" : ",");
        put_tool(&c->tools[i], b);
    }
    buf_put_char(b, ']');
    if (c->choice == TOOL_CHOICE_ONE) {
        buf_put_str(b, ",\"toolChoice\":{\"tool\":{\"name\":");
        json_put_string(b, c->choice_name);
        buf_put_str(b, "}}");
    } else if (c->choice != TOOL_CHOICE_UNSAID) {
        buf_printf(b, ",\"toolChoice\":{\"%s\":{}}", c->choice == TOOL_CHOICE_ANY ? "any" : "auto");
    }
    buf_put_char(b, '}');
}

/* ---- outputConfig ---- */

/* The schema is a string that has its JSON in it. */
static void put_format(const struct conversation *c, struct buf *b)
{
    if (c->format != REPLY_JSON_SCHEMA) {
        return;
    }
    buf_put_str(b, ",\"outputConfig\":{\"textFormat\":{\"type\":\"json_schema\",\"structure\":"
                   "{\"jsonSchema\":{");
    if (c->schema_name.type == JSON_STRING) {
        buf_put_str(b, "\"name\":");
        buf_put_span(b, c->schema_name.text);
        buf_put_char(b, ',');
    }
    buf_put_str(b, "\"schema\":");
    json_put_string(b, c->schema.text);
    buf_put_str(b, "}}}}");
}

enum err bedrock_put_config(const struct chat_request *request, const struct conversation *c,
                            struct buf *b, struct failure *failure)
{
    enum err err = check_params(request, c, failure);

    if (err == ERR_OK) {
        err = check_tools(c, failure);
    }
    if (err != ERR_OK) {
        return err;
    }
    put_inference(request, c, b);
    put_tools(c, b);
    put_format(c, b);
    return ERR_OK;
}
