/*
 * Events of a stream, and plain messages, as neutral events. Blocks of text, thinking and tool_use
 * are told; tools that run at Anthropic and kinds of blocks that are not known are passed over.
 * Counts of tokens are of the whole message so far: what an event says replaces what was said.
 */
#include "llm/anthropic_private.h"

/* ---- text and thinking ---- */

static enum err tell_signature(struct answer_feed *f, struct span data, bool encrypted)
{
    return answer_emit_signature(
        f,
        &(struct chat_signature){.data = data, .format = ANTHROPIC_FORMAT, .encrypted = encrypted});
}

static enum err take_text(struct answer_feed *f, struct json_value text)
{
    return answer_emit_string(f, CHAT_EVENT_TEXT, text, &anthropic_answer(f->answer)->text_carry);
}

static enum err take_thinking(struct answer_feed *f, struct json_value text)
{
    return answer_emit_string(f, CHAT_EVENT_REASONING, text,
                              &anthropic_answer(f->answer)->reasoning_carry);
}

/* It ends its block, so it waits for the block's end. */
static enum err take_signature(struct answer_feed *f, struct json_value v)
{
    struct buf *signature = &anthropic_answer(f->answer)->signature;

    if (v.type == JSON_STRING) {
        json_string_decode(v, signature, NULL);
    }
    return buf_status(signature);
}

static enum err take_redacted(struct answer_feed *f, struct json_value v)
{
    struct buf *text = &f->answer->text;

    if (v.type != JSON_STRING) {
        return ERR_OK;
    }
    buf_clear(text);
    json_string_decode(v, text, NULL);
    return buf_status(text) == ERR_OK ? tell_signature(f, buf_span(text), true) : buf_status(text);
}

/* Halves of surrogate pairs whose other half will not come, and a signature that waits. */
static enum err flush(struct answer_feed *f)
{
    struct anthropic_answer *r = anthropic_answer(f->answer);
    enum err err = answer_flush_carry(f, CHAT_EVENT_REASONING, &r->reasoning_carry);

    if (err == ERR_OK) {
        err = answer_flush_carry(f, CHAT_EVENT_TEXT, &r->text_carry);
    }
    if (err == ERR_OK) {
        err = tell_signature(f, buf_span(&r->signature), false);
        buf_clear(&r->signature);
    }
    return err;
}

/* ---- calls ---- */

static size_t count_calls(const struct anthropic_answer *r)
{
    return r->calls.len / sizeof(struct anthropic_call);
}

static struct anthropic_call *call_at(const struct anthropic_answer *r, size_t i)
{
    return (struct anthropic_call *)(void *)r->calls.p + i; /* memory of malloc */
}

/* The call of a block that is open; *number is the call's. NULL: that block is none. */
static struct anthropic_call *find_call(const struct anthropic_answer *r, uint64_t block,
                                        uint32_t *number)
{
    for (size_t i = count_calls(r); i > 0; i--) {
        struct anthropic_call *c = call_at(r, i - 1);

        if (c->open && c->block == block) {
            *number = (uint32_t)(i - 1);
            return c;
        }
    }
    return NULL;
}

static enum err tell_arguments(struct answer_feed *f, uint32_t number, struct span text)
{
    struct chat_event event = {.kind = CHAT_EVENT_TOOL,
                               .tool = {.call = number, .arguments = text}};

    return text.n == 0 ? ERR_OK : answer_emit(f, &event);
}

static bool has_members(struct json_value object)
{
    struct json_member member;
    size_t cursor = 0;

    return object.type == JSON_OBJECT && json_object_next(object, &cursor, &member);
}

/* A tool_use block begins. Its input comes in pieces; an empty object stands for it until then, but
 * some imitations send all of it here. A block without a name cannot be answered: passed over. */
static enum err start_call(struct answer_feed *f, uint64_t block, struct json_value content)
{
    struct anthropic_answer *r = anthropic_answer(f->answer);
    struct json_value id = json_find(content, "id");
    struct json_value name = json_find(content, "name");
    struct json_value input = json_find(content, "input");
    struct anthropic_call call = {.block = block, .open = true, .whole = has_members(input)};
    struct chat_event event = {.kind = CHAT_EVENT_TOOL};

    enum err err = answer_read_call(&r->base, id, name);
    if (err != ERR_OK || r->base.name.len == 0) {
        return err;
    }
    call.saw_input = call.whole;
    event.tool.call = (uint32_t)count_calls(r);
    event.tool.id = buf_span(&r->base.id);
    event.tool.name = buf_span(&r->base.name);
    event.tool.arguments = call.whole ? input.text : (struct span){NULL, 0};
    buf_put(&r->calls, &call, sizeof call);
    err = buf_status(&r->calls);
    return err == ERR_OK ? answer_emit(f, &event) : err;
}

static enum err take_input(struct answer_feed *f, uint64_t block, struct json_value piece)
{
    struct anthropic_answer *r = anthropic_answer(f->answer);
    struct buf *text = &f->answer->text;
    uint32_t number = 0;
    struct anthropic_call *call = find_call(r, block, &number);

    if (call == NULL || call->whole || piece.type != JSON_STRING) {
        return ERR_OK;
    }
    buf_clear(text);
    json_string_decode(piece, text, &call->carry);
    call->saw_input = call->saw_input || text->len > 0;
    return buf_status(text) == ERR_OK ? tell_arguments(f, number, buf_span(text))
                                      : buf_status(text);
}

static enum err end_call(struct answer_feed *f, struct anthropic_call *call, uint32_t number)
{
    bool half = call->carry != 0;

    call->open = false;
    call->carry = 0;
    call->saw_input = call->saw_input || half;
    return half ? tell_arguments(f, number, SPAN("\xEF\xBF\xBD")) : ERR_OK;
}

/* No pieces of input: there is none. But a reply that was cut may have cut its last call's. */
static enum err end_calls(struct answer_feed *f, bool cut)
{
    struct anthropic_answer *r = anthropic_answer(f->answer);
    size_t n = count_calls(r);
    enum err err = ERR_OK;

    for (size_t i = 0; i < n && err == ERR_OK; i++) {
        struct anthropic_call *call = call_at(r, i);

        err = end_call(f, call, (uint32_t)i);
        if (err == ERR_OK && !call->saw_input && !(cut && i + 1 == n)) {
            call->saw_input = true;
            err = tell_arguments(f, (uint32_t)i, SPAN("{}"));
        }
    }
    return err;
}

/* ---- blocks ---- */

static bool is(struct json_value v, const char *name)
{
    return v.type == JSON_STRING && json_string_is(v, name);
}

/* A block as it begins in a stream, or whole in a plain message. */
static enum err start_block(struct answer_feed *f, uint64_t block, struct json_value content)
{
    struct json_value type = json_find(content, "type");

    if (is(type, "text")) {
        return take_text(f, json_find(content, "text"));
    }
    if (is(type, "thinking")) {
        enum err err = take_thinking(f, json_find(content, "thinking"));
        return err == ERR_OK ? take_signature(f, json_find(content, "signature")) : err;
    }
    if (is(type, "redacted_thinking")) {
        return take_redacted(f, json_find(content, "data"));
    }
    return is(type, "tool_use") ? start_call(f, block, content) : ERR_OK;
}

static enum err take_delta(struct answer_feed *f, uint64_t block, struct json_value delta)
{
    struct json_value type = json_find(delta, "type");

    if (is(type, "text_delta")) {
        return take_text(f, json_find(delta, "text"));
    }
    if (is(type, "input_json_delta")) {
        return take_input(f, block, json_find(delta, "partial_json"));
    }
    if (is(type, "thinking_delta")) {
        return take_thinking(f, json_find(delta, "thinking"));
    }
    return is(type, "signature_delta") ? take_signature(f, json_find(delta, "signature")) : ERR_OK;
}

static enum err end_block(struct answer_feed *f, uint64_t block)
{
    uint32_t number = 0;
    struct anthropic_call *call = find_call(anthropic_answer(f->answer), block, &number);
    enum err err = flush(f);

    return err == ERR_OK && call != NULL ? end_call(f, call, number) : err;
}

/* ---- the message ---- */

static enum err take_stop_reason(struct answer_feed *f, struct json_value reason)
{
    static const struct {
        const char *name;
        enum chat_finish finish;
    } map[] = {
        {"max_tokens", CHAT_FINISH_LENGTH},
        {"model_context_window_exceeded", CHAT_FINISH_LENGTH},
        {"tool_use", CHAT_FINISH_TOOL_CALLS},
        {"refusal", CHAT_FINISH_CONTENT_FILTER},
    };
    struct chat_event event = {.kind = CHAT_EVENT_FINISH, .finish = CHAT_FINISH_STOP};

    if (reason.type != JSON_STRING || reason.text.n == 2) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (json_string_is(reason, map[i].name)) {
            event.finish = map[i].finish;
        }
    }
    enum err err = flush(f);
    if (err == ERR_OK) {
        err = end_calls(f, event.finish == CHAT_FINISH_LENGTH ||
                               event.finish == CHAT_FINISH_CONTENT_FILTER);
    }
    f->answer->finished = true;
    return err == ERR_OK ? answer_emit(f, &event) : err;
}

/* True when it was said. */
static bool take_count(struct json_value object, const char *name, uint64_t *count)
{
    uint64_t n = answer_count(object, name);

    if (n == CHAT_UNKNOWN) {
        return false;
    }
    *count = n;
    return true;
}

static enum err take_usage(struct answer_feed *f, struct json_value usage)
{
    struct anthropic_answer *r = anthropic_answer(f->answer);
    struct chat_event event = {.kind = CHAT_EVENT_USAGE};
    struct chat_usage *u = &event.usage;
    bool said = take_count(usage, "input_tokens", &r->input);

    said = take_count(usage, "cache_read_input_tokens", &r->cache_read) || said;
    said = take_count(usage, "cache_creation_input_tokens", &r->cache_creation) || said;
    said = take_count(usage, "output_tokens", &r->output) || said;
    said = take_count(json_find(usage, "output_tokens_details"), "thinking_tokens", &r->thinking) ||
           said;
    if (!said) {
        return ERR_OK;
    }
    u->prompt_tokens = answer_sum(r->input, answer_sum(r->cache_read, r->cache_creation));
    u->completion_tokens = r->output;
    u->total_tokens = u->prompt_tokens == CHAT_UNKNOWN || r->output == CHAT_UNKNOWN
                          ? CHAT_UNKNOWN
                          : answer_sum(u->prompt_tokens, r->output);
    u->cached_tokens = r->cache_read;
    u->reasoning_tokens = r->thinking;
    return answer_emit(f, &event);
}

static enum err take_content(struct answer_feed *f, struct json_value content)
{
    struct json_value block;
    size_t cursor = 0;
    enum err err = ERR_OK;

    for (uint64_t i = 0; err == ERR_OK && json_array_next(content, &cursor, &block); i++) {
        err = start_block(f, i, block);
        if (err == ERR_OK) {
            err = end_block(f, i);
        }
    }
    return err;
}

/* A message: whole in a plain body, without content in message_start. */
static enum err take_message(struct answer_feed *f, struct json_value message)
{
    enum err err = answer_emit_model(f, json_find(message, "model"));

    anthropic_answer(f->answer)->saw_message = true;
    if (err == ERR_OK) {
        err = take_content(f, json_find(message, "content"));
    }
    if (err == ERR_OK) {
        err = take_stop_reason(f, json_find(message, "stop_reason"));
    }
    return err == ERR_OK ? take_usage(f, json_find(message, "usage")) : err;
}

enum answer_status anthropic_complete(struct answer_feed *f)
{
    enum err err = ERR_OK;

    if (!anthropic_answer(f->answer)->saw_message) {
        return answer_invalid(f, "The provider's reply ended without an answer in it");
    }
    err = flush(f);
    if (err == ERR_OK && !f->answer->finished) {
        err = end_calls(f, false);
    }
    return err == ERR_OK ? ANSWER_COMPLETE : answer_stop(f->failure, err);
}

/* ---- events ---- */

static enum err take_block_event(struct answer_feed *f, struct json_value event,
                                 struct json_value type)
{
    uint64_t block = answer_count(event, "index");

    if (is(type, "content_block_delta")) {
        return take_delta(f, block, json_find(event, "delta"));
    }
    if (is(type, "content_block_start")) {
        anthropic_answer(f->answer)->saw_message = true;
        return start_block(f, block, json_find(event, "content_block"));
    }
    return is(type, "content_block_stop") ? end_block(f, block) : ERR_OK;
}

static enum err take_event(struct answer_feed *f, struct json_value event, struct json_value type)
{
    if (is(type, "message_start")) {
        return take_message(f, json_find(event, "message"));
    }
    if (is(type, "message_delta")) {
        enum err err = take_stop_reason(f, json_find(json_find(event, "delta"), "stop_reason"));
        return err == ERR_OK ? take_usage(f, json_find(event, "usage")) : err;
    }
    return take_block_event(f, event, type);
}

enum answer_status anthropic_event(struct answer_feed *f, struct span text)
{
    struct json_value event = {.text = text, .type = JSON_OBJECT};
    struct json_members m;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_object(f, text, &m, &status)) {
        return status;
    }
    struct json_value type = json_get(&m, "type");
    if (is(type, "message_stop")) {
        return anthropic_complete(f);
    }
    enum err err = take_event(f, event, type);
    return err == ERR_OK ? ANSWER_MORE : answer_stop(f->failure, err);
}

enum answer_status anthropic_body(struct answer_feed *f, struct span text)
{
    struct json_value message = {.text = text, .type = JSON_OBJECT};
    struct json_members m;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_object(f, text, &m, &status)) {
        return status;
    }
    if (json_get(&m, "content").type != JSON_ARRAY) {
        return answer_invalid(f, "The provider's reply has no message in it");
    }
    enum err err = take_message(f, message);
    return err == ERR_OK ? anthropic_complete(f) : answer_stop(f->failure, err);
}
