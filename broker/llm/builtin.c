/*
 * The provider type `builtin`: no network, no key, the same reply each time. Its models are small
 * scripts (BROKER.md, "Providers") that the demo, the tests and the benchmark run. A script keeps
 * what it needs of the request and nothing that grows with the number of words it will say.
 */
#include "base/json.h"
#include "base/text.h"
#include "llm/provider.h"
#include "tactus/protocol.h"

#include <stdlib.h>

#define DELAY_MAX  600000u
#define TOKENS_MAX 10000000u
#define CUT_AFTER  2u

enum model {
    MODEL_UNKNOWN,
    MODEL_ECHO,
    MODEL_SLOW,
    MODEL_TOOL,
    MODEL_ERROR,
    MODEL_CUT,
    MODEL_REASON,
    MODEL_TOKENS
};

struct provider_script {
    enum model model;
    uint64_t number;       /* of slow-, error- and tokens- */
    struct buf model_name; /* as asked for */
    struct buf text;       /* of the last user message */
    struct buf tool_name;  /* of the first tool; empty when there is none */
    bool begun;
    bool reasoned;
    size_t at;      /* how much of `text` was said */
    uint64_t words; /* said so far */
    uint64_t prompt_words;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint64_t count_words(struct span s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (!is_space(s.p[i]) && (i == 0 || is_space(s.p[i - 1]))) {
            n++;
        }
    }
    return n;
}

/* A model name that is `prefix` and a number in range. */
static bool numbered(struct span name, struct span prefix, uint64_t min, uint64_t max,
                     uint64_t *out)
{
    uint64_t n = 0;

    if (name.n <= prefix.n || memcmp(name.p, prefix.p, prefix.n) != 0 ||
        !text_u64(span_of(name.p + prefix.n, name.n - prefix.n), &n) || n < min || n > max) {
        return false;
    }
    *out = n;
    return true;
}

static enum model model_of(struct span name, uint64_t *number)
{
    static const struct {
        const char *name;
        enum model model;
    } plain[] = {
        {"echo", MODEL_ECHO}, {"tool", MODEL_TOOL}, {"cut", MODEL_CUT}, {"reason", MODEL_REASON}};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (span_eq(name, span_str(plain[i].name))) {
            return plain[i].model;
        }
    }
    if (numbered(name, SPAN("slow-"), 0, DELAY_MAX, number)) {
        return MODEL_SLOW;
    }
    if (numbered(name, SPAN("error-"), 400, 599, number)) {
        return MODEL_ERROR;
    }
    if (numbered(name, SPAN("tokens-"), 0, TOKENS_MAX, number)) {
        return MODEL_TOKENS;
    }
    return MODEL_UNKNOWN;
}

/* The text of a message: its content, or the texts of its parts joined. Replaces `out`. */
static void message_text(struct json_value message, struct buf *out)
{
    struct json_value content = json_find(message, "content");
    struct json_value part;
    size_t cursor = 0;

    buf_clear(out);
    if (content.type == JSON_STRING) {
        json_string_decode(content, out, NULL);
    }
    while (json_array_next(content, &cursor, &part)) {
        struct json_value type = json_find(part, "type");
        struct json_value text = json_find(part, "text");

        if (type.type == JSON_STRING && json_string_is(type, "text") && text.type == JSON_STRING) {
            json_string_decode(text, out, NULL);
        }
    }
}

/* Counts the words of all messages and keeps the text of the last one by a user. */
static enum err read_messages(struct provider_script *s, struct json_value messages)
{
    struct buf text;
    struct json_value message;
    struct json_value last = {.type = JSON_ABSENT};
    size_t cursor = 0;
    enum err err = ERR_OK;

    buf_init(&text, messages.text.n + 1);
    while (err == ERR_OK && json_array_next(messages, &cursor, &message)) {
        struct json_value role = json_find(message, "role");

        message_text(message, &text);
        err = buf_status(&text);
        s->prompt_words += count_words(buf_span(&text));
        if (role.type == JSON_STRING && json_string_is(role, "user")) {
            last = message;
        }
    }
    buf_fini(&text);
    if (err == ERR_OK) {
        message_text(last, &s->text);
        err = buf_status(&s->text);
    }
    return err;
}

static enum err read_tools(struct provider_script *s, struct json_value tools)
{
    struct json_value tool;
    size_t cursor = 0;

    if (json_array_next(tools, &cursor, &tool)) {
        struct json_value name = json_find(json_find(tool, "function"), "name");
        if (name.type == JSON_STRING) {
            json_string_decode(name, &s->tool_name, NULL);
        }
    }
    return buf_status(&s->tool_name);
}

static void builtin_script_free(struct provider_script *s)
{
    if (s == NULL) {
        return;
    }
    buf_fini(&s->model_name);
    buf_fini(&s->text);
    buf_fini(&s->tool_name);
    free(s);
}

static struct provider_script *builtin_script_new(const struct provider *p,
                                                  const struct chat_request *request)
{
    struct provider_script *s = malloc(sizeof *s);
    enum err err = ERR_OK;

    (void)p;
    if (s == NULL) {
        return NULL;
    }
    *s = (struct provider_script){.model = MODEL_UNKNOWN};
    s->model = model_of(request->model, &s->number);
    buf_init(&s->model_name, request->model.n + 1);
    buf_init(&s->text, request->messages.text.n + 1);
    buf_init(&s->tool_name, request->params[CHAT_TOOLS].text.n + 1);
    buf_put_span(&s->model_name, request->model);
    err = buf_status(&s->model_name);
    if (err == ERR_OK) {
        err = read_messages(s, request->messages);
    }
    if (err == ERR_OK) {
        err = read_tools(s, request->params[CHAT_TOOLS]);
    }
    if (err != ERR_OK) {
        builtin_script_free(s);
        return NULL;
    }
    return s;
}

static uint32_t builtin_script_delay(const struct provider_script *s)
{
    return s->model == MODEL_SLOW ? (uint32_t)s->number : 0;
}

static enum err emit_text(const struct chat_sink *sink, enum chat_event_kind kind, struct span text)
{
    struct chat_event event = {.kind = kind, .text = text};

    return sink->emit(sink->ctx, &event);
}

/* The next delta: the white space before a word, and the word; the last one also has the white
 * space after it, so that the deltas joined are the text. Empty at the end. */
static struct span next_delta(const struct provider_script *s)
{
    struct span text = buf_span(&s->text);
    size_t end = s->at;
    size_t after = 0;

    while (end < text.n && is_space(text.p[end])) {
        end++;
    }
    while (end < text.n && !is_space(text.p[end])) {
        end++;
    }
    after = end;
    while (after < text.n && is_space(text.p[after])) {
        after++;
    }
    end = after == text.n ? after : end;
    return span_of(text.p + s->at, end - s->at);
}

/* Says one word. `*more` tells whether another will follow. */
static enum err say_word(struct provider_script *s, const struct chat_sink *sink, bool *more)
{
    struct span delta;

    if (s->model == MODEL_TOKENS) {
        *more = s->words + 1 < s->number;
        if (s->words == s->number) {
            return ERR_OK;
        }
        s->words++;
        return emit_text(sink, CHAT_EVENT_TEXT, s->words == 1 ? SPAN("token") : SPAN(" token"));
    }
    *more = false;
    if (s->at == s->text.len) {
        return ERR_OK;
    }
    delta = next_delta(s);
    s->at += delta.n;
    s->words += count_words(delta);
    *more = s->at < s->text.len;
    return emit_text(sink, CHAT_EVENT_TEXT, delta);
}

static enum err call_tool(const struct provider_script *s, const struct chat_sink *sink)
{
    struct chat_event event = {.kind = CHAT_EVENT_TOOL};
    struct buf arguments;
    enum err err = ERR_OK;

    /* A byte of text is at most \u00XX once escaped. */
    buf_init(&arguments, s->text.len * 6 + 16);
    buf_put_str(&arguments, "{\"echo\":");
    json_put_string(&arguments, buf_span(&s->text));
    buf_put_char(&arguments, '}');
    err = buf_status(&arguments);
    if (err == ERR_OK) {
        event.tool.id = SPAN("call_builtin_0");
        event.tool.name = buf_span(&s->tool_name);
        event.tool.arguments = buf_span(&arguments);
        err = sink->emit(sink->ctx, &event);
    }
    buf_fini(&arguments);
    return err;
}

static enum answer_status finish(const struct provider_script *s, const struct chat_sink *sink,
                                 struct failure *failure)
{
    struct chat_event event = {.kind = CHAT_EVENT_USAGE};
    enum err err = ERR_OK;

    event.usage.prompt_tokens = s->prompt_words;
    event.usage.completion_tokens = s->words;
    event.usage.total_tokens = s->prompt_words + s->words;
    event.usage.cached_tokens = CHAT_UNKNOWN;
    event.usage.reasoning_tokens = CHAT_UNKNOWN;
    err = sink->emit(sink->ctx, &event);
    if (err == ERR_OK) {
        event.kind = CHAT_EVENT_FINISH;
        event.finish = s->model == MODEL_TOOL ? CHAT_FINISH_TOOL_CALLS : CHAT_FINISH_STOP;
        err = sink->emit(sink->ctx, &event);
    }
    return err == ERR_OK ? ANSWER_COMPLETE : answer_stop(failure, err);
}

/* The failures that come before anything was said. */
static bool refuse(struct provider_script *s, struct failure *failure)
{
    int status = (int)s->number;

    if (s->model == MODEL_UNKNOWN) {
        failure_init(failure, TACTUS_E_API_NOT_FOUND, "builtin has no model %.200s",
                     buf_cstr(&s->model_name));
        status = 404;
    } else if (s->model == MODEL_ERROR) {
        failure_init(failure, TACTUS_E_API_STATUS, "builtin error %d", status);
        failure->retry_after = status == 429 ? 1.0 : -1.0;
    } else if (s->model == MODEL_TOOL && s->tool_name.len == 0) {
        failure_init(failure, TACTUS_E_API_BAD_REQUEST, "the model tool needs tools to call");
        status = 400;
    } else {
        return false;
    }
    failure_from_status(failure, status);
    return true;
}

static enum answer_status builtin_script_step(struct provider_script *s,
                                              const struct chat_sink *sink, struct failure *failure)
{
    enum err err = ERR_OK;
    bool more = false;

    if (!s->begun) {
        if (refuse(s, failure)) {
            return ANSWER_FAILED;
        }
        s->begun = true;
        err = emit_text(sink, CHAT_EVENT_MODEL, buf_span(&s->model_name));
    }
    if (err == ERR_OK && s->model == MODEL_CUT && (s->words == CUT_AFTER || s->at == s->text.len)) {
        failure_init(failure, TACTUS_E_API_RESPONSE,
                     "The provider's stream ended before its end marker");
        failure->retryable = FAILURE_NO;
        return ANSWER_FAILED;
    }
    if (err == ERR_OK && s->model == MODEL_REASON && !s->reasoned) {
        s->reasoned = true;
        more = true;
        err = emit_text(sink, CHAT_EVENT_REASONING, SPAN("thinking"));
    } else if (err == ERR_OK && s->model == MODEL_TOOL) {
        err = call_tool(s, sink);
    } else if (err == ERR_OK) {
        err = say_word(s, sink, &more);
    }
    if (err != ERR_OK) {
        return answer_stop(failure, err);
    }
    return more || s->model == MODEL_CUT ? ANSWER_MORE : finish(s, sink, failure);
}

const struct provider_ops provider_builtin = {
    .type = "builtin",
    .script_new = builtin_script_new,
    .script_free = builtin_script_free,
    .script_delay = builtin_script_delay,
    .script_step = builtin_script_step,
};
