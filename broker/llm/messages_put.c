/* See messages_put.h. Types that write requests call it once for each. */
#include "llm/messages_put.h"

#include "llm/call_id.h"
#include "llm/provider.h"

void messages_start_block(struct messages_writer *w, const char *text)
{
    buf_put_str(w->b, w->any ? "," : "");
    buf_put_str(w->b, text);
    w->any = true;
}

enum err messages_put_id(struct messages_writer *w, const struct part *p)
{
    if (p->id.type != JSON_STRING || p->id.text.n == 2) {
        return provider_cannot(w->failure, "messages[%zu]: %s needs the id of each tool call",
                               p->message, w->style->type);
    }
    return call_id_put(p->id, w->b);
}

enum err messages_put_content(struct messages_writer *w, const struct part *p)
{
    struct messages_writer inner = *w;
    enum err err = ERR_OK;

    inner.any = false;
    for (size_t i = 0; i < p->nparts && err == ERR_OK; i++) {
        if (p->parts[i].kind == PART_IMAGE) {
            err = w->style->image(&inner, &p->parts[i]);
        } else {
            w->style->text(&inner, &p->parts[i]);
        }
    }
    return err;
}

static bool is_own(const struct messages_writer *w, const struct part *p)
{
    return p->signature.type == JSON_STRING && p->signature.text.n > 2 &&
           p->format.type == JSON_STRING && json_string_is(p->format, w->style->format);
}

static void close_message(struct messages_writer *w)
{
    buf_put_str(w->b, w->open ? "]}" : "");
}

static void turn_to(struct messages_writer *w, bool assistant)
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

static enum err put_part(struct messages_writer *w, bool assistant, const struct part *p)
{
    if (p->kind == PART_REASONING && !is_own(w, p)) {
        return ERR_OK;
    }
    turn_to(w, assistant);
    switch (p->kind) {
    case PART_TEXT:
        w->style->text(w, p);
        return ERR_OK;
    case PART_IMAGE:
        return w->style->image(w, p);
    case PART_REASONING:
        w->style->reasoning(w, p);
        return ERR_OK;
    case PART_CALL:
        return w->style->call(w, p);
    case PART_RESULT:
        break;
    }
    return w->style->result(w, p);
}

static enum err put_turn(struct messages_writer *w, const struct turn *t)
{
    enum err err = ERR_OK;

    /* Once for the results and once for the rest; or all at once. */
    for (int rest = w->style->results_first ? 0 : 1; rest < 2; rest++) {
        for (size_t i = 0; i < t->n && err == ERR_OK; i++) {
            bool result = t->parts[i].kind == PART_RESULT;
            if (!w->style->results_first || result == (rest == 0)) {
                err = put_part(w, t->assistant, &t->parts[i]);
            }
        }
    }
    return err;
}

enum err messages_put(struct messages_writer *w, const struct conversation *c)
{
    enum err err = ERR_OK;

    buf_put_char(w->b, '[');
    for (size_t k = 0; k < c->nturns && err == ERR_OK; k++) {
        err = put_turn(w, &c->turns[k]);
    }
    close_message(w);
    buf_put_char(w->b, ']');
    if (err == ERR_OK && !w->open) {
        return provider_cannot(w->failure, "messages: %s needs one that is not of the system",
                               w->style->type);
    }
    return err;
}

void messages_put_system(struct messages_writer *w, const struct conversation *c)
{
    if (c->nsystem == 0) {
        return;
    }
    buf_put_str(w->b, ",\"system\":[");
    w->any = false;
    for (size_t i = 0; i < c->nsystem; i++) {
        w->style->text(w, &c->system[i]);
    }
    buf_put_char(w->b, ']');
}
