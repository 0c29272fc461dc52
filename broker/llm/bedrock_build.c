/*
 * A neutral request as the HTTP request of Converse or ConverseStream: the URL, and the messages.
 * Texts that came from the caller are copied as the bytes that they were.
 */
#include "llm/bedrock_private.h"

#include "base/json.h"
#include "llm/messages_put.h"

/* ---- blocks ---- */

static void put_text(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"text\":");
    buf_put_span(w->b, p->text.text);
    buf_put_char(w->b, '}');
}

static enum err put_image(struct messages_writer *w, const struct part *p)
{
    static const struct {
        const char *media_type;
        const char *format;
    } map[] = {
        {"image/png", "png"}, {"image/jpeg", "jpeg"}, {"image/gif", "gif"}, {"image/webp", "webp"}};

    if (p->media_type.p == NULL) {
        return provider_cannot(
            w->failure, "messages[%zu]: bedrock takes images as base64 data URLs only", p->message);
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (span_eq(p->media_type, span_str(map[i].media_type))) {
            messages_start_block(w, "{\"image\":{\"format\":\"");
            buf_printf(w->b, "%s\",\"source\":{\"bytes\":\"", map[i].format);
            buf_put_span(w->b, p->data);
            buf_put_str(w->b, "\"}}}");
            return ERR_OK;
        }
    }
    return provider_cannot(w->failure,
                           "messages[%zu]: bedrock takes images of the types image/png, "
                           "image/jpeg, image/gif and image/webp",
                           p->message);
}

static enum err put_call(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"toolUse\":{\"toolUseId\":\"");
    enum err err = messages_put_id(w, p);

    buf_put_str(w->b, "\",\"name\":");
    json_put_string(w->b, p->name);
    buf_put_str(w->b, ",\"input\":");
    buf_put_span(w->b, p->arguments);
    buf_put_str(w->b, "}}");
    return err;
}

static enum err put_result(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"toolResult\":{\"toolUseId\":\"");
    enum err err = messages_put_id(w, p);

    buf_put_str(w->b, "\",\"content\":[");
    if (err == ERR_OK) {
        err = messages_put_content(w, p);
    }
    buf_put_str(w->b, p->is_error ? "],\"status\":\"error\"}}" : "]}}");
    return err;
}

static void put_reasoning(struct messages_writer *w, const struct part *p)
{
    messages_start_block(w, "{\"reasoningContent\":{");
    if (p->encrypted) {
        buf_put_str(w->b, "\"redactedContent\":");
        buf_put_span(w->b, p->signature.text);
        buf_put_str(w->b, "}}");
        return;
    }
    buf_put_str(w->b, "\"reasoningText\":{\"text\":");
    buf_put_span(w->b, p->text.type == JSON_STRING ? p->text.text : SPAN("\"\""));
    buf_put_str(w->b, ",\"signature\":");
    buf_put_span(w->b, p->signature.text);
    buf_put_str(w->b, "}}}");
}

static const struct messages_style style = {
    .type = "bedrock",
    .format = BEDROCK_FORMAT,
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
    buf_put_str(b, "{\"messages\":");
    err = messages_put(&w, &c);
    messages_put_system(&w, &c);
    if (err == ERR_OK) {
        err = bedrock_put_config(request, &c, b, failure);
    }
    buf_put_char(b, '}');
    return err;
}

enum err bedrock_build(const struct provider *p, const struct chat_request *request,
                       struct provider_http *out, struct failure *failure)
{
    struct arena arena;

    if (p->base_url != NULL) {
        buf_put_str(&out->url, p->base_url);
    } else {
        buf_printf(&out->url, "https://bedrock-runtime.%s.amazonaws.com", p->region);
    }
    buf_put_str(&out->url, "/model/");
    enum err err = provider_put_model(&out->url, request->model, failure);
    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(&out->url, request->stream ? "/converse-stream" : "/converse");
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? BEDROCK_STREAM : "application/json");
    arena_init(&arena, out->body.max);
    err = put_body(request, &arena, &out->body, failure);
    arena_fini(&arena);
    return err == ERR_OK ? provider_http_status(out) : err;
}
