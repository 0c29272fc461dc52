/*
 * A neutral request as the HTTP request of the Messages API: the headers, the system's texts, the
 * messages. Texts that came from the caller are copied as the bytes that they were.
 */
#include "llm/anthropic_private.h"

#include "base/json.h"
#include "llm/call_id.h"

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
    start_block(w, "{\"type\":\"text\",\"text\":");
    buf_put_span(w->b, p->text.text);
    buf_put_char(w->b, '}');
}

static enum err put_image(struct writer *w, const struct part *p)
{
    static const char *const types[][2] = {{"image/jpeg", "image/jpeg"},
                                           {"image/jpg", "image/jpeg"},
                                           {"image/png", "image/png"},
                                           {"image/gif", "image/gif"},
                                           {"image/webp", "image/webp"}};

    if (p->media_type.p == NULL) {
        start_block(w, "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":");
        buf_put_span(w->b, p->url.text);
        buf_put_str(w->b, "}}");
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (span_eq(p->media_type, span_str(types[i][0]))) {
            start_block(w, "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"");
            buf_put_str(w->b, types[i][1]);
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

static enum err put_id(struct writer *w, const struct part *p)
{
    if (p->id.type != JSON_STRING || p->id.text.n == 2) {
        return provider_cannot(
            w->failure, "messages[%zu]: anthropic needs the id of each tool call", p->message);
    }
    return call_id_put(p->id, w->b);
}

static enum err put_call(struct writer *w, const struct part *p)
{
    start_block(w, "{\"type\":\"tool_use\",\"id\":\"");
    enum err err = put_id(w, p);

    buf_put_str(w->b, "\",\"name\":");
    json_put_string(w->b, p->name);
    buf_put_str(w->b, ",\"input\":");
    buf_put_span(w->b, p->arguments);
    buf_put_char(w->b, '}');
    return err;
}

static enum err put_result(struct writer *w, const struct part *p)
{
    struct writer inner = *w;

    start_block(w, "{\"type\":\"tool_result\",\"tool_use_id\":\"");
    enum err err = put_id(w, p);
    buf_put_str(w->b, p->nparts > 0 ? "\",\"content\":[" : "\"");
    inner.any = false;
    for (size_t i = 0; i < p->nparts && err == ERR_OK; i++) {
        if (p->parts[i].kind == PART_IMAGE) {
            err = put_image(&inner, &p->parts[i]);
        } else {
            put_text(&inner, &p->parts[i]);
        }
    }
    buf_put_str(w->b, p->nparts > 0 ? "]" : "");
    buf_put_str(w->b, p->is_error ? ",\"is_error\":true}" : "}");
    return err;
}

/* True for reasoning that Anthropic signed; any other is left out. */
static bool is_own(const struct part *p)
{
    return p->signature.type == JSON_STRING && p->signature.text.n > 2 &&
           p->format.type == JSON_STRING && json_string_is(p->format, ANTHROPIC_FORMAT);
}

static void put_reasoning(struct writer *w, const struct part *p)
{
    if (p->encrypted) {
        start_block(w, "{\"type\":\"redacted_thinking\",\"data\":");
        buf_put_span(w->b, p->signature.text);
        buf_put_char(w->b, '}');
        return;
    }
    start_block(w, "{\"type\":\"thinking\",\"thinking\":");
    buf_put_span(w->b, p->text.type == JSON_STRING ? p->text.text : SPAN("\"\""));
    buf_put_str(w->b, ",\"signature\":");
    buf_put_span(w->b, p->signature.text);
    buf_put_char(w->b, '}');
}

/* ---- messages ---- */

static void close_message(struct writer *w)
{
    buf_put_str(w->b, w->open ? "]}" : "");
}

/* Sides alternate: when all of a turn was left out, the ones around it are one message. */
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

/* Results must be first in a user's message. */
static enum err put_turn(struct writer *w, const struct turn *t)
{
    enum err err = ERR_OK;

    for (int results = 1; results >= 0; results--) {
        for (size_t i = 0; i < t->n && err == ERR_OK; i++) {
            if ((t->parts[i].kind == PART_RESULT) == (results == 1)) {
                err = put_part(w, t->assistant, &t->parts[i]);
            }
        }
    }
    return err;
}

static enum err put_messages(struct writer *w, const struct conversation *c)
{
    enum err err = ERR_OK;

    for (size_t k = 0; k < c->nturns && err == ERR_OK; k++) {
        err = put_turn(w, &c->turns[k]);
    }
    close_message(w);
    if (err == ERR_OK && !w->open) {
        return provider_cannot(w->failure,
                               "messages: anthropic needs one that is not of the system");
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
    buf_put_str(w->b, "{\"model\":");
    json_put_string(w->b, request->model);
    buf_put_str(w->b, ",\"messages\":[");
    err = put_messages(w, &c);
    buf_put_char(w->b, ']');
    put_system(w, &c);
    if (err == ERR_OK) {
        err = anthropic_put_config(request, &c, w->b, w->failure);
    }
    buf_put_char(w->b, '}');
    return err;
}

enum err anthropic_build(const struct provider *p, const struct chat_request *request,
                         struct provider_http *out, struct failure *failure)
{
    struct arena arena;
    struct writer w = {.b = &out->body, .arena = &arena, .failure = failure};

    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/v1/messages");
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? "text/event-stream" : "application/json");
    buf_put_str(provider_http_header(out, "anthropic-version"), "2023-06-01");
    arena_init(&arena, out->body.max);
    enum err err = put_body(request, &w);
    arena_fini(&arena);
    return err == ERR_OK ? provider_http_status(out) : err;
}
