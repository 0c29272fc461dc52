/*
 * A neutral request as the HTTP request of the Messages API: the headers, the system's texts, the
 * messages. Texts that came from the caller are copied as the bytes that they were.
 */
#include "llm/anthropic_private.h"

#include "base/json.h"
#include "llm/messages_put.h"

/* ---- blocks ---- */

static void put_text(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"type\":\"text\",\"text\":");
    buf_put_span(w->b, p->text.text);
    buf_put_char(w->b, '}');
}

static enum err put_image(struct messages_writer *w, const struct part *p)
{
    static const char *const types[] = {"image/jpeg", "image/png", "image/gif", "image/webp"};

    if (p->media_type.p == NULL) {
        messages_start_block(w, "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":");
        buf_put_span(w->b, p->url.text);
        buf_put_str(w->b, "}}");
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (span_eq(p->media_type, span_str(types[i]))) {
            messages_start_block(w, "{\"type\":\"image\",\"source\":{\"type\":\"base64\","
                                    "\"media_type\":\"");
            buf_put_str(w->b, types[i]);
            buf_put_str(w->b, "\",\"data\":\"");
            buf_put_span(w->b, p->data);
            buf_put_str(w->b, "\"}}");
            return ERR_OK;
        }
    }
    return provider_cannot(w->failure,
                           "messages[%zu]: anthropic takes images of the types image/jpeg, "
                           "image/png, image/gif and image/webp",
                           p->message);
}

static enum err put_call(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"type\":\"tool_use\",\"id\":\"");
    enum err err = messages_put_id(w, p);

    buf_put_str(w->b, "\",\"name\":");
    json_put_string(w->b, p->name);
    buf_put_str(w->b, ",\"input\":");
    buf_put_span(w->b, p->arguments);
    buf_put_char(w->b, '}');
    return err;
}

static enum err put_result(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"type\":\"tool_result\",\"tool_use_id\":\"");
    enum err err = messages_put_id(w, p);

    buf_put_str(w->b, p->nparts > 0 ? "\",\"content\":[" : "\"");
    if (err == ERR_OK) {
        err = messages_put_content(w, p);
    }
    buf_put_str(w->b, p->nparts > 0 ? "]" : "");
    buf_put_str(w->b, p->is_error ? ",\"is_error\":true}" : "}");
    return err;
}

static void put_reasoning(struct messages_writer *w, const struct part *p)
{
    if (p->encrypted) {
        messages_start_block(w, "{\"type\":\"redacted_thinking\",\"data\":");
        buf_put_span(w->b, p->signature.text);
        buf_put_char(w->b, '}');
        return;
    }
    messages_start_block(w, "{\"type\":\"thinking\",\"thinking\":");
    buf_put_span(w->b, p->text.type == JSON_STRING ? p->text.text : SPAN("\"\""));
    buf_put_str(w->b, ",\"signature\":");
    buf_put_span(w->b, p->signature.text);
    buf_put_char(w->b, '}');
}

/* Results must be first in a user's message. */
static const struct messages_style style = {
    .type = "anthropic",
    .format = ANTHROPIC_FORMAT,
    .results_first = true,
    .text = put_text,
    .image = put_image,
    .reasoning = put_reasoning,
    .call = put_call,
    .result = put_result,
};

/* ---- all ---- */

static enum err put_body(const struct chat_request *request, struct arena *arena, struct buf *b,
                         struct failure *failure)
{
    struct messages_writer w = {.style = &style, .b = b, .failure = failure};
    struct conversation c;
    enum err err = conversation_read(request, arena, &c, failure);

    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(b, "{\"model\":");
    json_put_string(b, request->model);
    buf_put_str(b, ",\"messages\":");
    err = messages_put(&w, &c);
    messages_put_system(&w, &c);
    if (err == ERR_OK) {
        err = anthropic_put_config(request, &c, b, failure);
    }
    buf_put_char(b, '}');
    return err;
}

enum err anthropic_build(const struct provider *p, const struct chat_request *request,
                         struct provider_http *out, struct failure *failure)
{
    struct arena arena;

    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/v1/messages");
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? "text/event-stream" : "application/json");
    buf_put_str(provider_http_header(out, "anthropic-version"), "2023-06-01");
    arena_init(&arena, out->body.max);
    enum err err = put_body(request, &arena, &out->body, failure);
    arena_fini(&arena);
    return err == ERR_OK ? provider_http_status(out) : err;
}
