/*
 * One GenerateContentResponse as neutral events: the first candidate's parts, its finish reason,
 * the model, the counts of tokens. Each chunk of a stream and a plain body are such responses.
 * Kinds of parts that were not asked for (code, images) are passed over.
 */
#include "llm/gemini_private.h"

#include "tactus/protocol.h"

#define IGNORED CHAT_FINISH_NONE

/* ---- parts ---- */

/* A part's signature, after what it signs was told. `signature` says whose it is. */
static enum err take_signature(struct answer_feed *f, struct json_value part,
                               struct chat_signature signature)
{
    struct json_value v = json_find(part, "thoughtSignature");
    struct buf *text = &f->answer->text;

    if (v.type != JSON_STRING || v.text.n == 2) {
        return ERR_OK;
    }
    buf_clear(text);
    json_string_decode(v, text, NULL);
    enum err err = buf_status(text);
    signature.data = buf_span(text);
    signature.format = GEMINI_FORMAT;
    return err == ERR_OK ? answer_emit_signature(f, &signature) : err;
}

static enum err take_text(struct answer_feed *f, struct json_value part, struct json_value text,
                          bool thought)
{
    struct gemini_answer *r = gemini_answer(f->answer);
    struct chat_signature signature = {.encrypted = !thought || text.type != JSON_STRING ||
                                                    text.text.n == 2};
    enum err err = answer_emit_string(f, thought ? CHAT_EVENT_REASONING : CHAT_EVENT_TEXT, text,
                                      thought ? &r->reasoning_carry : &r->text_carry);

    return err == ERR_OK ? take_signature(f, part, signature) : err;
}

/* A call comes whole. Its arguments are an object, in the bytes that came. */
static enum err take_call(struct answer_feed *f, struct json_value part, struct json_value call)
{
    struct gemini_answer *r = gemini_answer(f->answer);
    struct json_value args = json_find(call, "args");
    struct json_value id = json_find(call, "id");
    struct json_value name = json_find(call, "name");

    enum err err = answer_read_call(&r->base, id, name);
    if (err != ERR_OK || r->base.name.len == 0) {
        return err;
    }
    struct chat_event event = {
        .kind = CHAT_EVENT_TOOL,
        .tool = {.call = r->calls,
                 .id = buf_span(&r->base.id),
                 .name = buf_span(&r->base.name),
                 .arguments = args.type == JSON_OBJECT ? args.text : SPAN("{}")}};
    err = answer_emit(f, &event);
    struct chat_signature signature = {.of_call = true, .call = r->calls};
    r->calls++;
    return err == ERR_OK ? take_signature(f, part, signature) : err;
}

static enum err take_part(struct answer_feed *f, struct json_value part)
{
    struct json_value call = json_find(part, "functionCall");
    struct json_value thought = json_find(part, "thought");

    if (call.type == JSON_OBJECT) {
        return take_call(f, part, call);
    }
    return take_text(f, part, json_find(part, "text"), thought.type == JSON_TRUE);
}

static enum err take_parts(struct answer_feed *f, struct json_value parts)
{
    struct json_value part;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while (err == ERR_OK && json_array_next(parts, &cursor, &part)) {
        err = take_part(f, part);
    }
    return err;
}

/* ---- the end ---- */

/* Halves of surrogate pairs whose other half will not come. */
static enum err flush(struct answer_feed *f)
{
    struct gemini_answer *r = gemini_answer(f->answer);
    enum err err = answer_flush_carry(f, CHAT_EVENT_REASONING, &r->reasoning_carry);

    return err == ERR_OK ? answer_flush_carry(f, CHAT_EVENT_TEXT, &r->text_carry) : err;
}

static enum err tell_finish(struct answer_feed *f, enum chat_finish finish)
{
    struct chat_event event = {.kind = CHAT_EVENT_FINISH, .finish = finish};
    enum err err = flush(f);

    f->answer->finished = true;
    return err == ERR_OK ? answer_emit(f, &event) : err;
}

static enum err take_finish(struct answer_feed *f, struct json_value reason)
{
    static const struct {
        const char *name;
        enum chat_finish finish;
    } map[] = {
        {"FINISH_REASON_UNSPECIFIED", IGNORED},
        {"MAX_TOKENS", CHAT_FINISH_LENGTH},
        {"SAFETY", CHAT_FINISH_CONTENT_FILTER},
        {"RECITATION", CHAT_FINISH_CONTENT_FILTER},
        {"LANGUAGE", CHAT_FINISH_CONTENT_FILTER},
        {"OTHER", CHAT_FINISH_CONTENT_FILTER},
        {"BLOCKLIST", CHAT_FINISH_CONTENT_FILTER},
        {"PROHIBITED_CONTENT", CHAT_FINISH_CONTENT_FILTER},
        {"SPII", CHAT_FINISH_CONTENT_FILTER},
        {"IMAGE_SAFETY", CHAT_FINISH_CONTENT_FILTER},
        {"IMAGE_PROHIBITED_CONTENT", CHAT_FINISH_CONTENT_FILTER},
        {"IMAGE_RECITATION", CHAT_FINISH_CONTENT_FILTER},
    };
    enum chat_finish finish =
        gemini_answer(f->answer)->calls > 0 ? CHAT_FINISH_TOOL_CALLS : CHAT_FINISH_STOP;

    if (reason.type != JSON_STRING || reason.text.n == 2) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (json_string_is(reason, map[i].name)) {
            finish = map[i].finish;
        }
    }
    return finish == IGNORED ? ERR_OK : tell_finish(f, finish);
}

/* True when the reply ended with a reason that says that the model, or the request, failed. */
static bool take_failure(struct answer_feed *f, struct json_value candidate)
{
    static const struct {
        const char *name;
        enum failure_flag retryable;
    } map[] = {
        {"MALFORMED_FUNCTION_CALL", FAILURE_YES},  {"UNEXPECTED_TOOL_CALL", FAILURE_YES},
        {"TOO_MANY_TOOL_CALLS", FAILURE_YES},      {"MALFORMED_RESPONSE", FAILURE_YES},
        {"MISSING_THOUGHT_SIGNATURE", FAILURE_NO},
    };
    struct json_value reason = json_find(candidate, "finishReason");
    struct json_value message = json_find(candidate, "finishMessage");
    struct buf *text = &f->answer->text;

    for (size_t i = 0; i < sizeof map / sizeof map[0] && reason.type == JSON_STRING; i++) {
        if (!json_string_is(reason, map[i].name)) {
            continue;
        }
        failure_init(f->failure, TACTUS_E_API_SERVER, "The provider ended its reply with %s",
                     map[i].name);
        f->failure->retryable = map[i].retryable;
        buf_clear(text);
        if (message.type == JSON_STRING && message.text.n > 2) {
            json_string_decode(message, text, NULL);
        }
        if (buf_status(text) == ERR_OK && text->len > 0) {
            failure_set_message(f->failure, f->answer->provider->redact, buf_span(text));
        }
        return true;
    }
    return false;
}

/* ---- a response ---- */

/* The counts of the whole reply so far; a chunk replaces those of the one before. */
static enum err take_usage(struct answer_feed *f, struct json_value usage)
{
    struct chat_usage u;

    u.reasoning_tokens = answer_count(usage, "thoughtsTokenCount");
    u.prompt_tokens = answer_sum(answer_count(usage, "promptTokenCount"),
                                 answer_count(usage, "toolUsePromptTokenCount"));
    u.completion_tokens =
        answer_sum(answer_count(usage, "candidatesTokenCount"), u.reasoning_tokens);
    u.total_tokens = answer_count(usage, "totalTokenCount");
    u.cached_tokens = answer_count(usage, "cachedContentTokenCount");
    return answer_emit_usage(f, &u);
}

/* The candidate with index 0, or without one. We never ask for more than one. */
static struct json_value first_candidate(struct json_value candidates)
{
    struct json_value candidate;
    size_t cursor = 0;

    while (json_array_next(candidates, &cursor, &candidate)) {
        uint64_t n = 0;

        if (candidate.type == JSON_OBJECT &&
            (!json_number_u64(json_find(candidate, "index"), &n) || n == 0)) {
            return candidate;
        }
    }
    return (struct json_value){.type = JSON_ABSENT};
}

static enum err take_all(struct answer_feed *f, struct json_value response,
                         struct json_value candidate)
{
    struct gemini_answer *r = gemini_answer(f->answer);
    struct json_value blocked = json_find(json_find(response, "promptFeedback"), "blockReason");
    enum err err = answer_emit_model(f, json_find(response, "modelVersion"));

    if (candidate.type == JSON_OBJECT) {
        r->saw_candidate = true;
        if (err == ERR_OK) {
            err = take_parts(f, json_find(json_find(candidate, "content"), "parts"));
        }
        if (err == ERR_OK) {
            err = take_finish(f, json_find(candidate, "finishReason"));
        }
    } else if (err == ERR_OK && !r->saw_candidate && blocked.type == JSON_STRING) {
        r->saw_candidate = true; /* that the prompt was refused is all of the answer */
        err = tell_finish(f, CHAT_FINISH_CONTENT_FILTER);
    }
    return err == ERR_OK ? take_usage(f, json_find(response, "usageMetadata")) : err;
}

/* MORE or FAILED. */
static enum answer_status take_response(struct answer_feed *f, struct json_value response)
{
    if (response.type != JSON_OBJECT) {
        return answer_invalid(f, "The provider's reply is not a JSON object");
    }
    if (provider_error_object(f->answer->provider, response, f->failure)) {
        return ANSWER_FAILED;
    }
    struct json_value candidate = first_candidate(json_find(response, "candidates"));
    if (take_failure(f, candidate)) {
        return ANSWER_FAILED;
    }
    enum err err = take_all(f, response, candidate);
    return err == ERR_OK ? ANSWER_MORE : answer_stop(f->failure, err);
}

static enum answer_status take_value(struct answer_feed *f, struct json_value value)
{
    struct json_value item;
    size_t cursor = 0;
    enum answer_status status = ANSWER_MORE;

    if (value.type != JSON_ARRAY) {
        return take_response(f, value);
    }
    while (status == ANSWER_MORE && json_array_next(value, &cursor, &item)) {
        status = take_response(f, item);
    }
    return status;
}

enum answer_status gemini_chunk(struct answer_feed *f, struct span text)
{
    struct json_value value;
    enum answer_status status = ANSWER_FAILED;

    return answer_value(f, text, &value, &status) ? take_value(f, value) : status;
}

enum answer_status gemini_complete(struct answer_feed *f)
{
    enum err err = flush(f);

    return err == ERR_OK ? ANSWER_COMPLETE : answer_stop(f->failure, err);
}

enum answer_status gemini_body(struct answer_feed *f, struct span text)
{
    struct json_value value;
    enum answer_status status = ANSWER_FAILED;

    if (!answer_value(f, text, &value, &status)) {
        return status;
    }
    status = take_value(f, value);
    if (status != ANSWER_MORE) {
        return status;
    }
    if (!gemini_answer(f->answer)->saw_candidate) {
        return answer_invalid(f, "The provider's reply has no message in it");
    }
    if (value.type == JSON_ARRAY && !f->answer->finished) {
        return answer_invalid(f, "The provider's stream ended before its end marker");
    }
    return gemini_complete(f);
}
