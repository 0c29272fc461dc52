/*
 * Error objects as providers send them (provider.h): in a body with an error status, in a body with
 * status 200, or in the middle of a stream.
 */
#include "llm/answer.h"
#include "llm/provider.h"

#include "base/text.h"
#include "tactus/protocol.h"

#define WORD_MAX 64u

/* Lower case, without separators: "rate_limit_exceeded" and "RateLimitError" begin alike then. */
static size_t plain_word(struct json_value value, char out[WORD_MAX])
{
    size_t n = 0;

    if (value.type != JSON_STRING) {
        return 0;
    }
    for (size_t i = 1; i + 1 < value.text.n && n < WORD_MAX; i++) {
        char c = value.text.p[i];

        if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        if (c != '_' && c != '-' && c != ' ') {
            out[n++] = c;
        }
    }
    return n;
}

/* The status that a known `type` or `code` stands for; 0 for one we do not know. */
static int status_of_word(struct json_value value)
{
    static const struct {
        const char *start;
        int status;
    } map[] = {
        {"ratelimit", 429},          {"insufficientquota", 429}, {"toomanyrequests", 429},
        {"invalidapikey", 401},      {"authentication", 401},    {"servererror", 500},
        {"internal", 500},           {"overloaded", 529},        {"invalidrequest", 400},
        {"badrequest", 400},         {"notfound", 404},          {"permission", 403},
        {"timeouterror", 504},       {"timeout", 408},           {"resourceexhausted", 429},
        {"unauthenticated", 401},    {"unavailable", 503},       {"invalidargument", 400},
        {"failedprecondition", 400}, {"deadlineexceeded", 504},  {"apierror", 500},
        {"requesttoolarge", 413},    {"billing", 402},
    };
    char word[WORD_MAX];
    size_t n = plain_word(value, word);

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        size_t len = strlen(map[i].start);

        if (n >= len && memcmp(word, map[i].start, len) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

/* A status said as a number, or as a string of digits; 0 for anything else. */
static int status_of_number(struct json_value value)
{
    uint64_t n = 0;
    bool ok = false;

    if (value.type == JSON_NUMBER) {
        ok = json_number_u64(value, &n);
    } else if (value.type == JSON_STRING) {
        ok = text_u64(span_of(value.text.p + 1, value.text.n - 2), &n);
    }
    return ok && n >= 400 && n <= 599 ? (int)n : 0;
}

static void set_type(struct json_value error, struct failure *failure)
{
    struct json_value code = json_find(error, "code");
    struct json_value type = json_find(error, "type");
    int status = status_of_number(code);

    if (status == 0) {
        status = status_of_number(json_find(error, "status"));
    }
    if (status == 0) {
        status = status_of_word(type);
    }
    if (status == 0) {
        status = status_of_word(json_find(error, "status")); /* Google's "RESOURCE_EXHAUSTED" */
    }
    /* "invalid_request_error" is the type of nearly everything; its code says more. */
    if (status == 0 || status == 400) {
        int closer = status_of_word(code);
        status = closer == 0 ? status : closer;
    }
    failure_from_status(failure, status == 0 ? 500 : status);
    if (status == 0) {
        failure->status = 0; /* nobody said one */
    }
}

static bool nonempty_string(struct json_value v)
{
    return v.type == JSON_STRING && v.text.n > 2;
}

/* Where an object says what went wrong, JSON_ABSENT when nowhere. */
static struct json_value message_of(struct json_value object)
{
    static const char *const names[] = {"message", "Message", "error", "detail", "msg"};
    struct json_value error = json_find(object, "error");

    if (error.type == JSON_OBJECT) {
        object = error;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct json_value v = json_find(object, names[i]);
        if (nonempty_string(v)) {
            return v;
        }
    }
    return (struct json_value){.type = JSON_ABSENT};
}

static void set_json_message(const struct provider *p, struct json_value message,
                             struct failure *failure)
{
    struct buf text;

    if (message.type != JSON_STRING) {
        return;
    }
    /* Decoding makes a text shorter or keeps its length, but for lone surrogates: 6 bytes to 3. */
    buf_init(&text, message.text.n + 4);
    json_string_decode(message, &text, NULL);
    if (buf_status(&text) == ERR_OK) {
        failure_set_message(failure, p->redact, buf_span(&text));
    }
    buf_fini(&text);
}

bool provider_error_object(const struct provider *p, struct json_value object,
                           struct failure *failure)
{
    struct json_value error = json_find(object, "error");
    struct json_value kind = json_find(object, "object");

    if (error.type != JSON_OBJECT && !nonempty_string(error) &&
        !(kind.type == JSON_STRING && json_string_is(kind, "error"))) {
        return false;
    }
    failure_init(failure, TACTUS_E_API_SERVER, "The provider reported an error");
    set_type(error.type == JSON_OBJECT ? error : object, failure);
    set_json_message(p, message_of(object), failure);
    return true;
}

void provider_error_event(const struct provider *p, struct span data, struct failure *failure)
{
    struct json_value value;
    struct json_fault fault;

    failure_init(failure, TACTUS_E_API_SERVER, "The provider reported an error");
    failure->retryable = FAILURE_YES;
    if (json_check_value(data, &answer_rules, &value, &fault) != ERR_OK) {
        if (data.n > 0) {
            failure_set_message(failure, p->redact, data);
        }
    } else if (value.type == JSON_STRING) {
        set_json_message(p, value, failure);
    } else if (!provider_error_object(p, value, failure)) {
        set_type(value, failure);
        set_json_message(p, message_of(value), failure);
    }
}

static struct span trim(struct span s)
{
    while (s.n > 0 && (unsigned char)s.p[0] <= ' ') {
        s = span_of(s.p + 1, s.n - 1);
    }
    while (s.n > 0 && (unsigned char)s.p[s.n - 1] <= ' ') {
        s.n--;
    }
    return s;
}

void provider_error_body(const struct provider *p, int status, bool text_plain, struct span body,
                         struct failure *failure)
{
    struct json_value value;
    struct json_fault fault;
    size_t cursor = 0;

    failure_init(failure, TACTUS_E_API_STATUS, "HTTP %d from the provider", status);
    failure_from_status(failure, status);
    body = trim(body);
    if (json_check_value(body, &answer_rules, &value, &fault) != ERR_OK) {
        if (text_plain && body.n > 0) {
            failure_set_message(failure, p->redact, body);
        }
        return;
    }
    if (value.type == JSON_ARRAY) {
        /* Google's imitation sends [{"error":…}]. */
        struct json_value first;
        if (json_array_next(value, &cursor, &first)) {
            value = first;
        }
    }
    set_json_message(p, value.type == JSON_STRING ? value : message_of(value), failure);
}
