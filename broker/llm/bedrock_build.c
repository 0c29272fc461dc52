/*
 * A neutral request as the HTTP request of Converse or ConverseStream: the URL, and the messages.
 * Texts that came from the caller are copied as the bytes that they were.
 */
#include "llm/bedrock_private.h"

#include "base/json.h"
#include "net/sha256.h"

#define ID_MAX 64u /* ToolUseBlock.toolUseId: ^[a-zA-Z0-9_-]{1,64}$ */

struct writer {
    struct buf *b;
    struct arena *arena;
    struct failure *failure;
    bool open;      /* a message is being written */
    bool assistant; /* its side */
    bool any;       /* a block of the list at hand was written */
};

/* The next block of a list. */
static void start_block(struct writer *w, const char *text)
{
    buf_put_str(w->b, w->any ? "," : "");
    buf_put_str(w->b, text);
    w->any = true;
}

/* ---- blocks ---- */

static void put_text(struct writer *w, const struct part *p)
{
    start_block(w, "{\"text\":");
    buf_put_span(w->b, p->text.text);
    buf_put_char(w->b, '}');
}

static enum err put_image(struct writer *w, const struct part *p)
{
    static const struct {
        const char *media_type;
        const char *format;
    } map[] = {{"image/png", "png"},
               {"image/jpeg", "jpeg"},
               {"image/jpg", "jpeg"},
               {"image/gif", "gif"},
               {"image/webp", "webp"}};

    if (p->media_type.p == NULL) {
        return provider_cannot(
            w->failure, "messages[%zu]: bedrock takes images as base64 data URLs only", p->message);
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (span_eq(p->media_type, span_str(map[i].media_type))) {
            start_block(w, "{\"image\":{\"format\":\"");
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

static bool id_fits(struct span id)
{
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return id.n >= 1 && id.n <= ID_MAX;
}

/* Ids that other providers made may have other characters, or be longer: such a one is given out as
 * its hash, the same for a call and its result. Nobody sees it: ids do not come back. */
static enum err put_id(struct writer *w, const struct part *p)
{
    char hash[SHA256_HEX_SIZE];
    struct buf id;
    enum err err = ERR_OK;

    if (p->id.type != JSON_STRING || p->id.text.n == 2) {
        return provider_cannot(w->failure, "messages[%zu]: bedrock needs the id of each tool call",
                               p->message);
    }
    buf_init(&id, w->b->max);
    json_string_decode(p->id, &id, NULL);
    err = buf_status(&id);
    if (err == ERR_OK && id_fits(buf_span(&id))) {
        buf_put_span(w->b, buf_span(&id));
    } else if (err == ERR_OK && sha256_hex(buf_span(&id), hash)) {
        buf_put_str(w->b, hash);
    } else if (err == ERR_OK) {
        err = ERR_NOMEM; /* hashing fails only so */
    }
    buf_fini(&id);
    return err;
}

static enum err put_call(struct writer *w, const struct part *p)
{
    start_block(w, "{\"toolUse\":{\"toolUseId\":\"");
    enum err err = put_id(w, p);

    buf_put_str(w->b, "\",\"name\":");
    json_put_string(w->b, p->name);
    buf_put_str(w->b, ",\"input\":");
    buf_put_span(w->b, p->arguments);
    buf_put_str(w->b, "}}");
    return err;
}

static enum err put_result(struct writer *w, const struct part *p)
{
    struct writer inner = *w;

    start_block(w, "{\"toolResult\":{\"toolUseId\":\"");
    enum err err = put_id(w, p);
    buf_put_str(w->b, "\",\"content\":[");
    inner.any = false;
    for (size_t i = 0; i < p->nparts && err == ERR_OK; i++) {
        if (p->parts[i].kind == PART_IMAGE) {
            err = put_image(&inner, &p->parts[i]);
        } else {
            put_text(&inner, &p->parts[i]);
        }
    }
    buf_put_str(w->b, p->is_error ? "],\"status\":\"error\"}}" : "]}}");
    return err;
}

/* True for reasoning that Bedrock signed; any other is left out. */
static bool is_own(const struct part *p)
{
    return p->signature.type == JSON_STRING && p->signature.text.n > 2 &&
           p->format.type == JSON_STRING && json_string_is(p->format, BEDROCK_FORMAT);
}

static void put_reasoning(struct writer *w, const struct part *p)
{
    start_block(w, "{\"reasoningContent\":{");
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

/* ---- messages ---- */

static void close_message(struct writer *w)
{
    buf_put_str(w->b, w->open ? "]}" : "");
}

/* Sides must alternate: when all of a turn was left out, the ones around it are one message. */
static void turn_to(struct writer *w, bool assistant)
{
    if (w->open && w->assistant == assistant) {
        return;
    }
    close_message(w);
    buf_put_str(w->b, w->open ? "," : "");
    buf_put_str(w->b, assistant ? "{\"role\":\"assistant\",\"content\":["
                                : "{\"role\":\"user\",\"content\":[");
    w->open = true;
    w->assistant = assistant;
    w->any = false;
}

static enum err put_part(struct writer *w, bool assistant, const struct part *p)
{
    if (p->kind == PART_REASONING && !is_own(p)) {
        return ERR_OK;
    }
    turn_to(w, assistant);
    switch (p->kind) {
    case PART_TEXT:
        put_text(w, p);
        return ERR_OK;
    case PART_IMAGE:
        return put_image(w, p);
    case PART_REASONING:
        put_reasoning(w, p);
        return ERR_OK;
    case PART_CALL:
        return put_call(w, p);
    case PART_RESULT:
        break;
    }
    return put_result(w, p);
}

static enum err put_messages(struct writer *w, const struct conversation *c)
{
    enum err err = ERR_OK;

    for (size_t k = 0; k < c->nturns && err == ERR_OK; k++) {
        for (size_t i = 0; i < c->turns[k].n && err == ERR_OK; i++) {
            err = put_part(w, c->turns[k].assistant, &c->turns[k].parts[i]);
        }
    }
    close_message(w);
    if (err == ERR_OK && !w->open) {
        return provider_cannot(w->failure, "messages: bedrock needs one that is not of the system");
    }
    return err;
}

static void put_system(struct writer *w, const struct conversation *c)
{
    if (c->nsystem == 0) {
        return;
    }
    buf_put_str(w->b, ",\"system\":[");
    w->any = false;
    for (size_t i = 0; i < c->nsystem; i++) {
        put_text(w, &c->system[i]);
    }
    buf_put_char(w->b, ']');
}

static enum err put_body(const struct chat_request *request, struct writer *w)
{
    struct conversation c;
    enum err err = conversation_read(request, w->arena, &c, w->failure);

    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(w->b, "{\"messages\":[");
    err = put_messages(w, &c);
    buf_put_char(w->b, ']');
    put_system(w, &c);
    if (err == ERR_OK) {
        err = bedrock_put_config(request, &c, w->b, w->failure);
    }
    buf_put_char(w->b, '}');
    return err;
}

enum err bedrock_build(const struct provider *p, const struct chat_request *request,
                       struct provider_http *out, struct failure *failure)
{
    struct arena arena;
    struct writer w = {.b = &out->body, .arena = &arena, .failure = failure};

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
    err = put_body(request, &w);
    arena_fini(&arena);
    return err == ERR_OK ? provider_http_status(out) : err;
}
