/*
 * Any JSON as a chat request: {"messages":…, parameters by their names}. What is read keeps the
 * promises of conversation.h; refusals are BadRequests with words; changed names are fit and come
 * back; and writing them changes names alone.
 */
#include "base/text.h"
#include "fixtures/conversation_dump.h"
#include "llm/tool_names.h"
#include "tactus/protocol.h"

#include <stdlib.h>

#define ARENA_MAX (16u * 1024u * 1024u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void must_fit(struct span name)
{
    must(name.n > 0 && name.n <= TOOL_NAME_MAX);
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        must((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-');
    }
}

static void check_names(const struct tool_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const struct tool_name *name = &names->items[i];
        must_fit(name->changed);
        must(span_eq(tool_names_changed(names, name->original), name->changed));
        must(span_eq(tool_names_original(names, name->changed), name->original));
    }
}

static void check_part(const struct part *p, bool assistant, bool inner)
{
    static const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX,
                                            .allow_lone_surrogate = true};
    struct json_value v;
    struct json_fault fault;

    must(p->kind == PART_RESULT || (p->parts == NULL && p->nparts == 0));
    must(p->signature.type == JSON_ABSENT || p->signature.text.n > 2);
    switch (p->kind) {
    case PART_TEXT:
        must(p->text.type == JSON_STRING && p->text.text.n > 2);
        break;
    case PART_IMAGE:
        must(!assistant);
        must((p->media_type.p != NULL && p->data.n > 0) != (p->url.type == JSON_STRING));
        break;
    case PART_REASONING:
        must(assistant && !inner);
        must(p->encrypted ? p->text.type == JSON_ABSENT && p->signature.type == JSON_STRING
                          : p->text.type == JSON_STRING || p->signature.type == JSON_STRING);
        break;
    case PART_CALL:
        must(assistant && !inner);
        must_fit(p->name);
        must(json_check_value(p->arguments, &rules, &v, &fault) == ERR_OK && v.type == JSON_OBJECT);
        break;
    case PART_RESULT:
        must(!assistant && !inner);
        must_fit(p->name);
        for (size_t i = 0; i < p->nparts; i++) {
            check_part(&p->parts[i], false, true);
        }
        break;
    }
}

static void check(const struct conversation *c)
{
    for (size_t i = 0; i < c->nsystem; i++) {
        must(c->system[i].kind == PART_TEXT);
        check_part(&c->system[i], false, true);
    }
    for (size_t i = 0; i < c->nturns; i++) {
        must(c->turns[i].n > 0);
        must(i == 0 || c->turns[i].assistant != c->turns[i - 1].assistant);
        for (size_t j = 0; j < c->turns[i].n; j++) {
            check_part(&c->turns[i].parts[j], c->turns[i].assistant, false);
        }
    }
    for (size_t i = 0; i < c->ntools; i++) {
        must_fit(c->tools[i].name);
    }
    must((c->choice == TOOL_CHOICE_ONE) == (c->choice_name.p != NULL));
    must((c->format == REPLY_JSON_SCHEMA) == (c->schema.type == JSON_OBJECT));
}

/* Written with changed names it is still JSON, and needs no change any more. */
static void check_put(const struct chat_request *r, const struct tool_names *names)
{
    static const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct chat_request again = *r;
    struct tool_names none;
    struct json_fault fault;
    struct arena arena;
    struct buf b;

    if (r->messages.type == JSON_ABSENT) {
        return;
    }
    arena_init(&arena, ARENA_MAX);
    buf_init(&b, ARENA_MAX);
    tool_names_put(names, TOOL_NAMES_MESSAGES, r->messages, &b);
    must(buf_status(&b) == ERR_OK);
    must(json_check_value(buf_span(&b), &rules, &again.messages, &fault) == ERR_OK);
    must(names->n > 0 || span_eq(buf_span(&b), r->messages.text));
    for (size_t i = 0; i < CHAT_PARAM_COUNT; i++) {
        again.params[i] = (struct json_value){0};
    }
    must(tool_names_read(&again, &arena, &none) == ERR_OK && none.n == 0);
    buf_fini(&b);
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tool_names names = {.n = 0};
    struct conversation c;
    struct failure f = {.message = ""};
    struct chat_request r;
    struct arena arena;
    struct buf dump;

    if (size > 1 << 16 || !dump_request(span_of((const char *)data, size), &r)) {
        return 0;
    }
    arena_init(&arena, ARENA_MAX);
    buf_init(&dump, ARENA_MAX);
    enum err err = tool_names_read(&r, &arena, &names);
    must(err == ERR_OK || err == ERR_LIMIT);
    if (err == ERR_OK) {
        check_names(&names);
        check_put(&r, &names);
        r.names = &names;
        err = conversation_read(&r, &arena, &c, &f);
        must(err == ERR_OK || err == ERR_PROTO || err == ERR_LIMIT);
        must(err != ERR_PROTO || (strcmp(f.type, TACTUS_E_BAD_REQUEST) == 0 && f.message[0] != 0));
        must(text_utf8_valid(f.message, strlen(f.message)));
    }
    if (err == ERR_OK) {
        check(&c);
        dump_conversation(&dump, &c); /* every text is there to be read */
    }
    buf_fini(&dump);
    arena_fini(&arena);
    return 0;
}
