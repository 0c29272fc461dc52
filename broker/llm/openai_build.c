/*
 * A neutral request as the HTTP request of OpenAI's chat completions. Values that came from the
 * caller are copied as the bytes that they were, so numbers, escapes and key order survive.
 */
#include "llm/openai_private.h"

#include "base/json.h"
#include "tactus/protocol.h"

static void put_body(const struct provider *p, const struct chat_request *request, struct buf *b)
{
    buf_put_str(b, "{\"model\":");
    json_put_string(b, request->model);
    buf_put_str(b, ",\"messages\":");
    buf_put_span(b, request->messages.text);
    if (request->stream) {
        buf_put_str(b, ",\"stream\":true");
        if (p->stream_usage) {
            buf_put_str(b, ",\"stream_options\":{\"include_usage\":true}");
        }
    }
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        const struct json_value *v = &request->params[i];

        if (v->type != JSON_ABSENT && v->type != JSON_NULL) {
            buf_put_str(b, ",\"");
            buf_put_str(b, chat_param_names[i]);
            buf_put_str(b, "\":");
            buf_put_span(b, v->text);
        }
    }
    buf_put_char(b, '}');
}

/* A key with a line end in it would let whoever set it add headers of their own. */
static bool header_safe(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\r' || s.p[i] == '\n' || s.p[i] == '\0') {
            return false;
        }
    }
    return true;
}

enum err openai_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure)
{
    enum err err = ERR_OK;

    if (!header_safe(p->key)) {
        failure_init(failure, TACTUS_E_API_AUTHENTICATION,
                     "The provider's key has a character that a header cannot hold");
        failure->retryable = FAILURE_NO;
        return ERR_PROTO;
    }
    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/chat/completions");
    put_body(p, request, &out->body);
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? "text/event-stream" : "application/json");
    if (p->key.n > 0) {
        struct buf *value = provider_http_header(out, "Authorization");

        /* Room first: growth would leave copies of the key that buf_wipe cannot reach. */
        (void)buf_reserve(value, sizeof("Bearer ") - 1 + p->key.n);
        buf_put_str(value, "Bearer ");
        buf_put_span(value, p->key);
    }
    err = buf_status(&out->url);
    if (err == ERR_OK) {
        err = buf_status(&out->body);
    }
    for (size_t i = 0; i < out->nheaders && err == ERR_OK; i++) {
        err = buf_status(&out->header_text[i]);
    }
    return err;
}
