/*
 * A neutral request as the HTTP request of models.generateContent or
 * models.streamGenerateContent: the URL, and the messages as contents. Texts that came from the
 * caller are copied as the bytes that they were.
 */
#include "llm/gemini_private.h"

#include "base/json.h"

struct writer {
    struct buf *b;
    struct arena *arena;
    struct failure *failure;
    bool any; /* a part of this turn was written */
};

/* ---- URL ---- */

/* The name without "models/", as ListModels gives it. */
static struct span bare_model(struct span model)
{
    struct span before = SPAN("models/");

    return model.n >= before.n && memcmp(model.p, before.p, before.n) == 0
               ? span_after(model, before.n)
               : model;
}

/* As one segment of a path, whatever a server in between decodes. */
static enum err put_model(struct span model, struct buf *url, struct failure *failure)
{
    if (model.n == 0 || span_eq(model, SPAN(".")) || span_eq(model, SPAN("..")) ||
        memchr(model.p, '/', model.n) != NULL || memchr(model.p, '\\', model.n) != NULL) {
        return provider_cannot(failure, "model: not a name that gemini can have: "
                                        "a path's segment with letters, digits, '-', '.', '_'");
    }
    return provider_put_model(url, model, failure);
}

/* ---- parts ---- */

static void start_part(struct writer *w, const char *text)
{
    buf_put_str(w->b, w->any ? "," : "");
    buf_put_str(w->b, text);
    w->any = true;
}

static void put_signature(struct writer *w, struct json_value signature)
{
    if (signature.type == JSON_STRING) {
        buf_put_str(w->b, ",\"thoughtSignature\":");
        buf_put_span(w->b, signature.text);
    }
}

/* What Gemini wants back of a part: nothing when somebody else signed it. */
static struct json_value own_signature(const struct part *p)
{
    bool own = p->signature.type == JSON_STRING && p->format.type == JSON_STRING &&
               json_string_is(p->format, GEMINI_FORMAT);

    return own ? p->signature : (struct json_value){.type = JSON_ABSENT};
}

/* ids that replies make up for calls without one (reply.h) were never Gemini's. */
static bool made_up(struct json_value id)
{
    static const char start[] = "\"call_";
    size_t n = sizeof start - 1;

    if (id.text.n < n + 2 || memcmp(id.text.p, start, n) != 0) {
        return false;
    }
    for (size_t i = n; i + 1 < id.text.n; i++) {
        if (id.text.p[i] < '0' || id.text.p[i] > '9') {
            return false;
        }
    }
    return true;
}

static void put_call_head(struct writer *w, const char *kind, const struct part *p)
{
    start_part(w, "{\"");
    buf_put_str(w->b, kind);
    buf_put_str(w->b, "\":{");
    if (p->id.type == JSON_STRING && !made_up(p->id)) {
        buf_put_str(w->b, "\"id\":");
        buf_put_span(w->b, p->id.text);
        buf_put_char(w->b, ',');
    }
    buf_put_str(w->b, "\"name\":");
    json_put_string(w->b, p->name);
}

static void put_call(struct writer *w, const struct part *p)
{
    put_call_head(w, "functionCall", p);
    buf_put_str(w->b, ",\"args\":");
    buf_put_span(w->b, p->arguments);
    buf_put_char(w->b, '}');
    put_signature(w, own_signature(p));
    buf_put_char(w->b, '}');
}

static void put_inline(struct writer *w, const struct part *p)
{
    start_part(w, "{\"inlineData\":{\"mimeType\":");
    json_put_string(w->b, p->media_type);
    buf_put_str(w->b, ",\"data\":\"");
    buf_put_span(w->b, p->data);
    buf_put_str(w->b, "\"}}");
}

static bool ends_like(struct span s, const char *end)
{
    size_t n = strlen(end);

    if (s.n < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = s.p[s.n - n + i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != end[i]) {
            return false;
        }
    }
    return true;
}

/* By the end of its path; NULL when that says nothing. */
static const char *media_type_of(struct span url)
{
    static const char *const map[][2] = {
        {".png", "image/png"},   {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},
        {".webp", "image/webp"}, {".bmp", "image/bmp"},
    };
    size_t n = 0;

    while (n < url.n && url.p[n] != '?' && url.p[n] != '#') {
        n++;
    }
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (ends_like(span_of(url.p, n), map[i][0])) {
            return map[i][1];
        }
    }
    return NULL;
}

/* Gemini fetches what anybody can read over https; it wants to know what that is if we do. */
static enum err put_url(struct writer *w, const struct part *p)
{
    struct buf url;
    const char *type = NULL;
    bool https = false;

    buf_init(&url, p->url.text.n + 4);
    json_string_decode(p->url, &url, NULL);
    enum err err = buf_status(&url);
    if (err == ERR_OK) {
        https = url.len > 8 && ends_like(span_of(url.p, 8), "https://");
        type = media_type_of(buf_span(&url));
    }
    buf_fini(&url);
    if (err != ERR_OK) {
        return err;
    }
    if (!https) {
        return provider_cannot(
            w->failure, "messages[%zu]: gemini takes images as base64 data URLs or from https URLs",
            p->message);
    }
    start_part(w, "{\"fileData\":{");
    if (type != NULL) {
        buf_printf(w->b, "\"mimeType\":\"%s\",", type);
    }
    buf_put_str(w->b, "\"fileUri\":");
    buf_put_span(w->b, p->url.text);
    buf_put_str(w->b, "}}");
    return ERR_OK;
}

/* ---- results ---- */

/* A response is an object: the result's text itself if it is one, else {"result":text}. */
static enum err put_response(struct writer *w, const struct part *p)
{
    static const struct json_rules rules = {.max_depth = ANSWER_DEPTH_MAX};
    struct json_value value = {.type = JSON_ABSENT};
    struct json_fault fault;
    struct buf text;
    enum err err = ERR_OK;

    buf_init(&text, w->b->max);
    for (size_t i = 0; i < p->nparts; i++) {
        if (p->parts[i].kind == PART_TEXT) {
            json_string_decode(p->parts[i].text, &text, NULL);
        }
    }
    err = buf_status(&text);
    if (err == ERR_OK && json_check_value(buf_span(&text), &rules, &value, &fault) == ERR_OK &&
        value.type == JSON_OBJECT) {
        buf_put_span(w->b, value.text);
    } else if (err == ERR_OK) {
        buf_put_str(w->b, "{\"result\":");
        json_put_string(w->b, buf_span(&text));
        buf_put_char(w->b, '}');
    }
    buf_fini(&text);
    return err;
}

/* Images of a result are parts of the response. */
static enum err put_result_images(struct writer *w, const struct part *p)
{
    struct writer inner = *w;

    inner.any = false;
    for (size_t i = 0; i < p->nparts; i++) {
        const struct part *image = &p->parts[i];

        if (image->kind != PART_IMAGE) {
            continue;
        }
        if (image->media_type.p == NULL) {
            return provider_cannot(
                w->failure,
                "messages[%zu]: gemini takes images of a tool's result as base64 data URLs only",
                image->message);
        }
        buf_put_str(w->b, inner.any ? "" : ",\"parts\":[");
        put_inline(&inner, image);
    }
    buf_put_str(w->b, inner.any ? "]" : "");
    return ERR_OK;
}

static enum err put_result(struct writer *w, const struct part *p)
{
    if (p->name.n == 0) {
        return provider_cannot(w->failure, "messages[%zu].name: gemini needs the name of the tool",
                               p->message);
    }
    put_call_head(w, "functionResponse", p);
    buf_put_str(w->b, ",\"response\":");
    enum err err = put_response(w, p);
    if (err == ERR_OK) {
        err = put_result_images(w, p);
    }
    buf_put_str(w->b, "}}");
    return err;
}

/* ---- turns ---- */

/* The signature of encrypted reasoning that goes with this text: of the nearest before it in its
 * message with no other text in between. */
static struct json_value signature_before(const struct turn *t, size_t i)
{
    struct json_value none = {.type = JSON_ABSENT};

    for (size_t k = i; k > 0; k--) {
        const struct part *p = &t->parts[k - 1];

        if (p->message != t->parts[i].message || p->kind == PART_TEXT) {
            return none;
        }
        if (p->kind == PART_REASONING && p->encrypted && own_signature(p).type == JSON_STRING) {
            return own_signature(p);
        }
    }
    return none;
}

/* True when a later text of its message takes this signature along (signature_before). */
static bool text_takes(const struct turn *t, size_t i)
{
    for (size_t k = i + 1; k < t->n && t->parts[k].message == t->parts[i].message; k++) {
        const struct part *p = &t->parts[k];

        if (p->kind == PART_TEXT) {
            return true;
        }
        if (p->kind == PART_REASONING && p->encrypted && own_signature(p).type == JSON_STRING) {
            return false;
        }
    }
    return false;
}

static void put_reasoning(struct writer *w, const struct turn *t, size_t i)
{
    const struct part *p = &t->parts[i];
    struct json_value signature = own_signature(p);

    if (signature.type != JSON_STRING || (p->encrypted && text_takes(t, i))) {
        return;
    }
    start_part(w, "{\"text\":");
    if (p->encrypted || p->text.type != JSON_STRING) {
        buf_put_str(w->b, "\"\"");
    } else {
        buf_put_span(w->b, p->text.text);
        buf_put_str(w->b, ",\"thought\":true");
    }
    put_signature(w, signature);
    buf_put_char(w->b, '}');
}

static enum err put_part(struct writer *w, const struct turn *t, size_t i)
{
    const struct part *p = &t->parts[i];

    switch (p->kind) {
    case PART_TEXT:
        start_part(w, "{\"text\":");
        buf_put_span(w->b, p->text.text);
        put_signature(w, signature_before(t, i));
        buf_put_char(w->b, '}');
        return ERR_OK;
    case PART_IMAGE:
        if (p->media_type.p == NULL) {
            return put_url(w, p);
        }
        put_inline(w, p);
        return ERR_OK;
    case PART_REASONING:
        put_reasoning(w, t, i);
        return ERR_OK;
    case PART_CALL:
        put_call(w, p);
        return ERR_OK;
    case PART_RESULT:
        break;
    }
    return put_result(w, p);
}

static enum err put_turns(struct writer *w, const struct conversation *c)
{
    bool first = true;
    enum err err = ERR_OK;

    for (size_t k = 0; k < c->nturns && err == ERR_OK; k++) {
        const struct turn *t = &c->turns[k];
        size_t before = w->b->len;

        buf_put_str(w->b, first ? "" : ",");
        buf_put_str(w->b, t->assistant ? "{\"role\":\"model\",\"parts\":["
                                       : "{\"role\":\"user\",\"parts\":[");
        w->any = false;
        for (size_t i = 0; i < t->n && err == ERR_OK; i++) {
            err = put_part(w, t, i);
        }
        if (w->any) {
            buf_put_str(w->b, "]}");
            first = false;
        } else if (buf_status(w->b) == ERR_OK) {
            buf_truncate(w->b, before); /* nothing but another provider's reasoning */
        }
    }
    if (err == ERR_OK && first) {
        return provider_cannot(w->failure, "messages: gemini needs one that is not of the system");
    }
    return err;
}

static enum err put_body(const struct chat_request *request, struct writer *w)
{
    struct conversation c;
    enum err err = conversation_read(request, w->arena, &c, w->failure);

    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(w->b, "{\"contents\":[");
    err = put_turns(w, &c);
    buf_put_char(w->b, ']');
    for (size_t i = 0; i < c.nsystem; i++) {
        buf_put_str(w->b, i == 0 ? ",\"systemInstruction\":{\"parts\":[{\"text\":" : ",{\"text\":");
        buf_put_span(w->b, c.system[i].text.text);
        buf_put_char(w->b, '}');
    }
    buf_put_str(w->b, c.nsystem > 0 ? "]}" : "");
    gemini_put_tools(&c, w->b);
    if (err == ERR_OK) {
        struct chat_request bare = *request;

        bare.model = bare_model(request->model);
        err = gemini_put_config(&bare, &c, w->b, w->failure);
    }
    buf_put_char(w->b, '}');
    return err;
}

enum err gemini_build(const struct provider *p, const struct chat_request *request,
                      struct provider_http *out, struct failure *failure)
{
    struct arena arena;
    struct writer w = {.b = &out->body, .arena = &arena, .failure = failure};

    buf_put_str(&out->url, p->base_url);
    buf_put_str(&out->url, "/models/");
    enum err err = put_model(bare_model(request->model), &out->url, failure);
    if (err != ERR_OK) {
        return err;
    }
    buf_put_str(&out->url, request->stream ? ":streamGenerateContent?alt=sse" : ":generateContent");
    buf_put_str(provider_http_header(out, "Content-Type"), "application/json");
    buf_put_str(provider_http_header(out, "Accept"),
                request->stream ? "text/event-stream" : "application/json");
    arena_init(&arena, out->body.max);
    err = put_body(request, &w);
    arena_fini(&arena);
    return err == ERR_OK ? provider_http_status(out) : err;
}
