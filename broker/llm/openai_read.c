/*
 * One chunk of a stream, or one plain body, as neutral events. Chunks are checked and walked in
 * place; decoded text goes through one scratch buffer of the answer, so a delta costs no
 * allocation. A piece of a surrogate pair waits in the answer for its other half.
 */
#include "llm/openai_private.h"

#include "tactus/protocol.h"

static enum err take_string(struct answer_feed *f, enum chat_event_kind kind, struct json_value v,
                            uint16_t *carry)
{
    if (v.type == JSON_STRING && v.text.n > 2) {
        openai_answer(f->answer)->saw_output = true;
    }
    return answer_emit_string(f, kind, v, carry);
}

/* Text as a string, or as a list of parts with `text` in them. */
static enum err take_content(struct answer_feed *f, struct json_value content)
{
    struct json_value part;
    size_t cursor = 0;
    uint16_t *carry = &openai_answer(f->answer)->text_carry;
    enum err err = take_string(f, CHAT_EVENT_TEXT, content, carry);

    while (err == ERR_OK && json_array_next(content, &cursor, &part)) {
        struct json_value type = json_find(part, "type");

        if (type.type == JSON_STRING && json_string_is(type, "text")) {
            err = take_string(f, CHAT_EVENT_TEXT, json_find(part, "text"), carry);
        }
    }
    return err;
}

/* What a delta or a message says. */
static enum err take_delta(struct answer_feed *f, struct json_value delta)
{
    struct json_value reasoning = json_find(delta, "reasoning_content");
    struct json_value calls = json_find(delta, "tool_calls");
    struct openai_answer *r = openai_answer(f->answer);
    enum err err = ERR_OK;

    /* Two names for the same; a server in between the two sends both. */
    if (reasoning.type != JSON_STRING || reasoning.text.n == 2) {
        reasoning = json_find(delta, "reasoning");
    }
    err = take_string(f, CHAT_EVENT_REASONING, reasoning, &r->reasoning_carry);
    if (err == ERR_OK) {
        err = take_content(f, json_find(delta, "content"));
    }
    if (err == ERR_OK) {
        /* A refusal is what the model says in place of an answer. */
        err = take_string(f, CHAT_EVENT_TEXT, json_find(delta, "refusal"), &r->text_carry);
    }
    if (err == ERR_OK && calls.type == JSON_ARRAY) {
        err = openai_tools_take(&r->tools, calls, f->sink);
        r->saw_output = r->saw_output || r->tools.n > 0;
    }
    return err;
}

/* Halves of surrogate pairs whose other half will not come. */
static enum err flush(struct answer_feed *f)
{
    struct openai_answer *r = openai_answer(f->answer);
    enum err err = answer_flush_carry(f, CHAT_EVENT_REASONING, &r->reasoning_carry);

    if (err == ERR_OK) {
        err = answer_flush_carry(f, CHAT_EVENT_TEXT, &r->text_carry);
    }
    return err == ERR_OK ? openai_tools_flush(&r->tools, f->sink) : err;
}

enum answer_status openai_complete(struct answer_feed *f)
{
    enum err err = ERR_OK;

    if (!openai_answer(f->answer)->saw_choice) {
        return answer_invalid(f, "The provider's reply ended without an answer in it");
    }
    err = flush(f);
    return err == ERR_OK ? ANSWER_COMPLETE : answer_stop(f->failure, err);
}

static enum chat_finish finish_of(struct json_value reason)
{
    static const struct {
        const char *name;
        enum chat_finish finish;
    } map[] = {
        {"length", CHAT_FINISH_LENGTH},         {"max_tokens", CHAT_FINISH_LENGTH},
        {"tool_calls", CHAT_FINISH_TOOL_CALLS}, {"function_call", CHAT_FINISH_TOOL_CALLS},
        {"tool_use", CHAT_FINISH_TOOL_CALLS},   {"content_filter", CHAT_FINISH_CONTENT_FILTER},
        {"safety", CHAT_FINISH_CONTENT_FILTER},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (json_string_is(reason, map[i].name)) {
            return map[i].finish;
        }
    }
    return CHAT_FINISH_STOP;
}

static enum err take_finish(struct answer_feed *f, struct json_value reason)
{
    struct chat_event event = {.kind = CHAT_EVENT_FINISH};
    enum err err = ERR_OK;

    if (reason.type != JSON_STRING || reason.text.n == 2) {
        return ERR_OK;
    }
    event.finish = finish_of(reason);
    err = flush(f);
    f->answer->finished = true;
    return err == ERR_OK ? answer_emit(f, &event) : err;
}

static enum err take_usage(struct answer_feed *f, struct json_value usage)
{
    struct chat_usage u;

    if (usage.type != JSON_OBJECT) {
        return ERR_OK;
    }
    u.prompt_tokens = answer_count(usage, "prompt_tokens");
    u.completion_tokens = answer_count(usage, "completion_tokens");
    u.total_tokens = answer_count(usage, "total_tokens");
    u.cached_tokens = answer_count(json_find(usage, "prompt_tokens_details"), "cached_tokens");
    u.reasoning_tokens =
        answer_count(json_find(usage, "completion_tokens_details"), "reasoning_tokens");
    return answer_emit_usage(f, &u);
}

/* The choice with index 0, or without one. We never ask for more than one. */
static struct json_value first_choice(struct json_value choices)
{
    struct json_value choice;
    size_t cursor = 0;

    while (json_array_next(choices, &cursor, &choice)) {
        struct json_value index = json_find(choice, "index");
        uint64_t n = 0;

        if (choice.type == JSON_OBJECT && (!json_number_u64(index, &n) || n == 0)) {
            return choice;
        }
    }
    return (struct json_value){.type = JSON_ABSENT};
}

static enum err take_chunk(struct answer_feed *f, const struct json_members *m,
                           struct json_value choice, struct json_value said)
{
    struct json_value usage = json_get(m, "usage");
    enum err err = answer_emit_model(f, json_get(m, "model"));

    if (choice.type == JSON_OBJECT) {
        openai_answer(f->answer)->saw_choice = true;
        if (err == ERR_OK) {
            err = take_delta(f, said);
        }
        if (err == ERR_OK) {
            err = take_finish(f, json_find(choice, "finish_reason"));
        }
        if (usage.type != JSON_OBJECT) {
            usage = json_find(choice, "usage");
        }
    }
    return err == ERR_OK ? take_usage(f, usage) : err;
}

/* A provider that ends with the reason `error` has not answered, whatever came before. */
static bool failed_choice(struct json_value choice)
{
    struct json_value reason = json_find(choice, "finish_reason");

    return reason.type == JSON_STRING && json_string_is(reason, "error");
}

enum answer_status openai_chunk(struct answer_feed *f, struct span text)
{
    struct json_members m;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_object(f, text, &m, &status)) {
        return status;
    }
    struct json_value choice = first_choice(json_get(&m, "choices"));
    struct json_value said = json_find(choice, "delta");

    if (said.type != JSON_OBJECT && !openai_answer(f->answer)->saw_output) {
        said = json_find(choice, "message"); /* a plain reply, sent as a stream of one */
    }
    if (failed_choice(choice)) {
        return answer_failed(f);
    }
    enum err err = take_chunk(f, &m, choice, said);
    return err == ERR_OK ? ANSWER_MORE : answer_stop(f->failure, err);
}

enum answer_status openai_body(struct answer_feed *f, struct span text)
{
    struct json_members m;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_object(f, text, &m, &status)) {
        return status;
    }
    struct json_value choice = first_choice(json_get(&m, "choices"));
    struct json_value said = json_find(choice, "message");

    if (said.type != JSON_OBJECT) {
        return answer_invalid(f, "The provider's reply has no message in it");
    }
    if (failed_choice(choice)) {
        return answer_failed(f);
    }
    enum err err = take_chunk(f, &m, choice, said);
    return err == ERR_OK ? openai_complete(f) : answer_stop(f->failure, err);
}
