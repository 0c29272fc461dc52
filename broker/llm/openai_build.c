/*
 * A neutral request as the HTTP request of OpenAI's chat completions. Values that came from the
 * caller are copied as the bytes that they were, so numbers, escapes and key order survive; but for
 * the names of tools that must be changed (tool_names.h).
 */
#include "llm/openai_private.h"

#include "base/json.h"
#include "llm/tool_names.h"

static void put_param(const struct chat_request *request, size_t i, struct buf *b)
{
    struct json_value v = request->params[i];

    if (i == CHAT_TOOLS) {
        tool_names_put(request->names, TOOL_NAMES_TOOLS, v, b);
    } else if (i == CHAT_TOOL_CHOICE) {
        tool_names_put(request->names, TOOL_NAMES_CHOICE, v, b);
    } else {
        buf_put_span(b, v.text);
    }
}

static void put_body(const struct provider *p, const struct chat_request *request, struct buf *b)
{
    buf_put_str(b, "{\"model\":");
    json_put_string(b, request->model);
    buf_put_str(b, ",\"messages\":");
    tool_names_put(request->names, TOOL_NAMES_MESSAGES, request->messages, b);
    if (request->stream) {
        buf_put_str(b, ",\"stream\":true");
        if (p->stream_usage) {
            buf_put_str(b, ",\"stream_options\":{\"include_usage\":true}");
        }
    }
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        if (chat_given(request, (enum chat_param)i)) {
            buf_put_str(b, ",\"");
            buf_put_str(b, chat_param_names[i]);
            buf_put_str(b, "\":");
            put_param(request, i, b);
        }
    }
    buf_put_char(b, '}');
}

enum err openai_put_request(const struct provider *p, const struct chat_request *request,
                            struct provider_http *out)
{
    put_body(p, request, &out->body);
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? "text/event-stream" : "application/json");
    return provider_http_status(out);
}

enum err openai_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure)
{
    (void)failure;
    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/chat/completions");
    return openai_put_request(p, request, out);
}

enum err openai_authorize(const struct provider *p, const struct provider_auth *auth,
                          struct provider_http *out, struct failure *failure)
{
    (void)p;
    return auth->key.n == 0
               ? ERR_OK
               : provider_http_secret(out, "Authorization", "Bearer ", auth->key, failure);
}
