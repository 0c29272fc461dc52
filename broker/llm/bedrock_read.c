/*
 * What Bedrock says, as neutral events: the messages of a ConverseStream, and the reply of
 * Converse. Kinds of content that were not asked for (citations, images, guardrail traces) are
 * passed over, as are events that are not known here.
 */
#include "llm/bedrock_private.h"

#include "tactus/protocol.h"

/* ---- calls ---- */

static size_t ncalls(const struct bedrock_answer *r)
{
    return r->calls.len / sizeof(struct bedrock_call);
}

static struct bedrock_call *call_at(struct bedrock_answer *r, size_t i)
{
    return (struct bedrock_call *)(void *)r->calls.p + i;
}

static enum err tell_arguments(struct answer_feed *f, size_t call, struct span arguments)
{
    struct chat_event event = {.kind = CHAT_EVENT_TOOL,
                               .tool = {.call = (uint32_t)call, .arguments = arguments}};

    call_at(bedrock_answer(f->answer), call)->arguments = true;
    return answer_emit(f, &event);
}

/* A new call, with its id and name; `arguments` may be empty. */
static enum err take_call(struct answer_feed *f, struct json_value use, uint64_t block,
                          struct span arguments)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    struct bedrock_call call = {.block = block, .arguments = arguments.n > 0};
    struct json_value id = json_find(use, "toolUseId");
    struct json_value name = json_find(use, "name");

    size_t number = ncalls(r);
    enum err err = answer_read_call(&r->base, id, name);
    buf_put(&r->calls, &call, sizeof call);
    err = err == ERR_OK ? buf_status(&r->calls) : err;
    if (err != ERR_OK) {
        return err;
    }
    struct chat_event event = {.kind = CHAT_EVENT_TOOL,
                               .tool = {.call = (uint32_t)number,
                                        .id = buf_span(&r->base.id),
                                        .name = buf_span(&r->base.name),
                                        .arguments = arguments}};
    return answer_emit(f, &event);
}

/* The call of that block; the last one first, since calls come one after another. */
static bool find_call(struct bedrock_answer *r, uint64_t block, size_t *out)
{
    for (size_t i = ncalls(r); i-- > 0;) {
        if (call_at(r, i)->block == block) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* A call without parameters may come without a piece of arguments; a whole one has at least {}. */
static enum err fill_calls(struct answer_feed *f)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    enum err err = ERR_OK;

    for (size_t i = 0; i < ncalls(r) && err == ERR_OK; i++) {
        if (!call_at(r, i)->arguments) {
            err = tell_arguments(f, i, SPAN("{}"));
        }
    }
    return err;
}

/* ---- the end of a block ---- */

static enum err tell_signature(struct answer_feed *f, struct span data, bool encrypted)
{
    return answer_emit_signature(
        f,
        &(struct chat_signature){.data = data, .format = BEDROCK_FORMAT, .encrypted = encrypted});
}

/* Halves of surrogate pairs whose other half will not come, and a signature that is whole now. */
static enum err end_block(struct answer_feed *f)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    enum err err = answer_flush_carry(f, CHAT_EVENT_REASONING, &r->reasoning_carry);

    if (err == ERR_OK) {
        err = tell_signature(f, buf_span(&r->signature), false);
        buf_clear(&r->signature);
    }
    if (err == ERR_OK) {
        err = answer_flush_carry(f, CHAT_EVENT_TEXT, &r->text_carry);
    }
    if (err == ERR_OK && r->arguments_carry != 0) {
        r->arguments_carry = 0;
        err = tell_arguments(f, r->arguments_call, SPAN("\xEF\xBF\xBD"));
    }
    return err;
}

/* ---- pieces of content ---- */

static enum err take_redacted(struct answer_feed *f, struct json_value v)
{
    struct buf *text = &f->answer->text;

    if (v.type != JSON_STRING) {
        return ERR_OK;
    }
    buf_clear(text);
    json_string_decode(v, text, NULL);
    enum err err = buf_status(text);
    return err == ERR_OK ? tell_signature(f, buf_span(text), true) : err;
}

/* Of a delta, or of a block: `text` and `signature` are the members of either. */
static enum err take_reasoning(struct answer_feed *f, struct json_value part)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    struct json_value signature = json_find(part, "signature");
    enum err err =
        answer_emit_string(f, CHAT_EVENT_REASONING, json_find(part, "text"), &r->reasoning_carry);

    if (err == ERR_OK && signature.type == JSON_STRING) {
        json_string_decode(signature, &r->signature, NULL);
        err = buf_status(&r->signature);
    }
    return err == ERR_OK ? take_redacted(f, json_find(part, "redactedContent")) : err;
}

static enum err take_arguments(struct answer_feed *f, size_t call, struct json_value input)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    struct buf *text = &f->answer->text;

    if (input.type != JSON_STRING) {
        return ERR_OK;
    }
    if (r->arguments_carry != 0 && r->arguments_call != call) {
        enum err err = end_block(f);
        if (err != ERR_OK) {
            return err;
        }
    }
    r->arguments_call = (uint32_t)call;
    buf_clear(text);
    json_string_decode(input, text, &r->arguments_carry);
    enum err err = buf_status(text);
    return err == ERR_OK && text->len > 0 ? tell_arguments(f, call, buf_span(text)) : err;
}

/* ---- the end ---- */

static enum err take_finish(struct answer_feed *f, struct json_value reason)
{
    static const struct {
        const char *name;
        enum chat_finish finish;
    } map[] = {
        {"tool_use", CHAT_FINISH_TOOL_CALLS},
        {"max_tokens", CHAT_FINISH_LENGTH},
        {"model_context_window_exceeded", CHAT_FINISH_LENGTH},
        {"guardrail_intervened", CHAT_FINISH_CONTENT_FILTER},
        {"content_filtered", CHAT_FINISH_CONTENT_FILTER},
    };
    struct chat_event event = {.kind = CHAT_EVENT_FINISH, .finish = CHAT_FINISH_STOP};
    enum err err = end_block(f);

    for (size_t i = 0; i < sizeof map / sizeof map[0] && reason.type == JSON_STRING; i++) {
        if (json_string_is(reason, map[i].name)) {
            event.finish = map[i].finish;
        }
    }
    if (err == ERR_OK &&
        (event.finish == CHAT_FINISH_STOP || event.finish == CHAT_FINISH_TOOL_CALLS)) {
        err = fill_calls(f);
    }
    f->answer->finished = err == ERR_OK;
    return err == ERR_OK ? answer_emit(f, &event) : err;
}

/* True when the reply ended with a reason that says that the model failed. */
static bool take_failure(struct answer_feed *f, struct json_value reason)
{
    static const char *const names[] = {"malformed_model_output", "malformed_tool_use"};

    for (size_t i = 0; i < sizeof names / sizeof names[0] && reason.type == JSON_STRING; i++) {
        if (json_string_is(reason, names[i])) {
            failure_init(f->failure, TACTUS_E_API_SERVER, "The provider ended its reply with %s",
                         names[i]);
            f->failure->retryable = FAILURE_YES;
            return true;
        }
    }
    return false;
}

static enum err take_usage(struct answer_feed *f, struct json_value usage)
{
    struct chat_usage u;

    u.cached_tokens = answer_count(usage, "cacheReadInputTokens");
    u.prompt_tokens = answer_sum(answer_count(usage, "inputTokens"), u.cached_tokens);
    u.prompt_tokens = answer_sum(u.prompt_tokens, answer_count(usage, "cacheWriteInputTokens"));
    u.completion_tokens = answer_count(usage, "outputTokens");
    u.total_tokens = answer_count(usage, "totalTokens");
    u.reasoning_tokens = CHAT_UNKNOWN;
    /* Whether the total has cached tokens in it is not said. */
    uint64_t both = answer_sum(u.prompt_tokens, u.completion_tokens);
    if (u.total_tokens != CHAT_UNKNOWN && both != CHAT_UNKNOWN && u.total_tokens < both) {
        u.total_tokens = both;
    }
    return answer_emit_usage(f, &u);
}

/* ---- a stream ---- */

static enum answer_status status_of(struct answer_feed *f, enum err err)
{
    return err == ERR_OK ? ANSWER_MORE : answer_stop(f->failure, err);
}

static uint64_t block_of(struct json_value event)
{
    return answer_count(event, "contentBlockIndex");
}

static enum answer_status on_start(struct answer_feed *f, struct json_value event)
{
    struct json_value use = json_find(json_find(event, "start"), "toolUse");
    enum err err = end_block(f);

    if (err == ERR_OK && use.type == JSON_OBJECT) {
        err = take_call(f, use, block_of(event), SPAN(""));
    }
    return status_of(f, err);
}

static enum answer_status on_delta(struct answer_feed *f, struct json_value event)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);
    struct json_value delta = json_find(event, "delta");
    struct json_value use = json_find(delta, "toolUse");
    size_t call = 0;
    enum err err = answer_emit_string(f, CHAT_EVENT_TEXT, json_find(delta, "text"), &r->text_carry);

    if (err == ERR_OK) {
        err = take_reasoning(f, json_find(delta, "reasoningContent"));
    }
    if (err == ERR_OK && use.type == JSON_OBJECT) {
        if (!find_call(r, block_of(event), &call)) {
            return answer_invalid(
                f, "The provider's stream has a piece of a tool call that did not begin");
        }
        err = take_arguments(f, call, json_find(use, "input"));
    }
    return status_of(f, err);
}

static enum answer_status on_block_stop(struct answer_feed *f, struct json_value event)
{
    (void)event;
    return status_of(f, end_block(f));
}

static enum answer_status on_stop(struct answer_feed *f, struct json_value event)
{
    struct json_value reason = json_find(event, "stopReason");

    return take_failure(f, reason) ? ANSWER_FAILED : status_of(f, take_finish(f, reason));
}

/* The last event. */
static enum answer_status on_metadata(struct answer_feed *f, struct json_value event)
{
    enum answer_status status = status_of(f, take_usage(f, json_find(event, "usage")));

    return status == ANSWER_MORE && f->answer->finished ? ANSWER_COMPLETE : status;
}

static enum answer_status take_event(struct answer_feed *f, struct span type, struct span payload)
{
    static const struct {
        const char *type;
        enum answer_status (*take)(struct answer_feed *f, struct json_value event);
    } map[] = {
        {"contentBlockDelta", on_delta},     {"contentBlockStart", on_start},
        {"contentBlockStop", on_block_stop}, {"messageStop", on_stop},
        {"metadata", on_metadata},
    };
    struct json_value event;
    struct json_fault fault;
    size_t i = 0;

    while (i < sizeof map / sizeof map[0] && !span_eq(type, span_str(map[i].type))) {
        i++;
    }
    if (i == sizeof map / sizeof map[0]) {
        return ANSWER_MORE; /* messageStart says nothing that we need */
    }
    enum err err = json_check_value(payload, &answer_rules, &event, &fault);
    if (err != ERR_OK) {
        return err == ERR_PROTO
                   ? answer_invalid_json(f, "An event of the provider's stream", &fault)
                   : answer_stop(f->failure, err);
    }
    if (event.type != JSON_OBJECT) {
        return answer_invalid(f, "An event of the provider's stream is not a JSON object");
    }
    return map[i].take(f, event);
}

/* ---- failures in a stream ---- */

/* The status that the API reference gives an exception; 0 for one that is not in it. */
static int status_of_exception(struct span type)
{
    static const struct {
        const char *type;
        int status;
    } map[] = {
        {"internalServerException", 500}, {"modelStreamErrorException", 424},
        {"modelTimeoutException", 408},   {"serviceUnavailableException", 503},
        {"throttlingException", 429},     {"validationException", 400},
        {"accessDeniedException", 403},   {"resourceNotFoundException", 404},
        {"modelErrorException", 424},     {"modelNotReadyException", 429},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        /* Unlike members of the stream, errors of the service begin with a capital. */
        if (type.n == strlen(map[i].type) && (type.p[0] | 0x20) == map[i].type[0] &&
            memcmp(type.p + 1, map[i].type + 1, type.n - 1) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

static void set_kind(struct answer_feed *f, struct span type)
{
    int status = status_of_exception(type);

    failure_init(f->failure, TACTUS_E_API_SERVER, "The provider reported an error");
    f->failure->retryable = FAILURE_YES;
    if (status != 0) {
        failure_from_status(f->failure, status);
    }
    if (status == 424) {
        f->failure->retryable = FAILURE_YES; /* "Retry your request", says the reference */
    }
}

static enum answer_status take_exception(struct answer_feed *f, const struct eventstream_message *m)
{
    static const char *const names[] = {"message", "Message", "originalMessage"};
    struct buf *text = &f->answer->text;
    struct json_value value;
    struct json_fault fault;

    set_kind(f, m->exception_type);
    buf_clear(text);
    if (json_check_value(m->payload, &answer_rules, &value, &fault) == ERR_OK) {
        for (size_t i = 0; i < sizeof names / sizeof names[0] && text->len == 0; i++) {
            struct json_value v = json_find(value, names[i]);
            if (v.type == JSON_STRING) {
                json_string_decode(v, text, NULL);
            }
        }
    }
    if (buf_status(text) == ERR_OK && text->len > 0) {
        failure_set_message(f->failure, f->answer->provider->redact, buf_span(text));
    }
    return ANSWER_FAILED;
}

static enum answer_status take_error(struct answer_feed *f, const struct eventstream_message *m)
{
    set_kind(f, m->error_code);
    if (m->error_message.n > 0) {
        failure_set_message(f->failure, f->answer->provider->redact, m->error_message);
    }
    return ANSWER_FAILED;
}

enum answer_status bedrock_message(struct answer_feed *f, const struct eventstream_message *m)
{
    if (span_eq(m->message_type, SPAN("exception"))) {
        return take_exception(f, m);
    }
    if (span_eq(m->message_type, SPAN("error"))) {
        return take_error(f, m);
    }
    return take_event(f, m->event_type, m->payload);
}

/* ---- a whole reply ---- */

static enum err take_block(struct answer_feed *f, struct json_value block)
{
    struct json_value use = json_find(block, "toolUse");
    struct json_value reasoning = json_find(block, "reasoningContent");
    enum err err = answer_emit_string(f, CHAT_EVENT_TEXT, json_find(block, "text"), NULL);

    if (err == ERR_OK && use.type == JSON_OBJECT) {
        struct json_value input = json_find(use, "input");
        err = take_call(f, use, CHAT_UNKNOWN, input.type == JSON_OBJECT ? input.text : SPAN(""));
    }
    if (err == ERR_OK) {
        err = take_reasoning(f, json_find(reasoning, "reasoningText"));
    }
    if (err == ERR_OK) {
        err = take_redacted(f, json_find(reasoning, "redactedContent"));
    }
    return err == ERR_OK ? end_block(f) : err;
}

static enum err take_reply(struct answer_feed *f, struct json_value reply,
                           struct json_value message)
{
    struct json_value content = json_find(message, "content");
    struct json_value block;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_array_next(content, &cursor, &block)) {
        err = take_block(f, block);
    }
    if (err == ERR_OK) {
        err = take_finish(f, json_find(reply, "stopReason"));
    }
    return err == ERR_OK ? take_usage(f, json_find(reply, "usage")) : err;
}

enum answer_status bedrock_body(struct answer_feed *f, struct span text)
{
    struct json_value reply;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_value(f, text, &reply, &status)) {
        return status;
    }
    if (provider_error_object(f->answer->provider, reply, f->failure)) {
        return ANSWER_FAILED; /* of a proxy in between */
    }
    struct json_value message = json_find(json_find(reply, "output"), "message");
    if (message.type != JSON_OBJECT) {
        return answer_invalid(f, "The provider's reply has no message in it");
    }
    if (take_failure(f, json_find(reply, "stopReason"))) {
        return ANSWER_FAILED;
    }
    enum err err = take_reply(f, reply, message);
    return err == ERR_OK ? ANSWER_COMPLETE : answer_stop(f->failure, err);
}
