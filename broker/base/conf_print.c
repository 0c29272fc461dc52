/*
 * A struct that a table describes, printed as the YAML that would read into it, defaults included.
 * Secrets are references in the struct and in the text. Pure. Called for --print-config.
 */
#include "base/conf_private.h"

#include "base/json.h"

#include <string.h>

#define INDENT 2u

struct printer {
    const struct conf_doc *doc;
    struct buf *out;
    unsigned items; /* of lists that we are inside of: there defaults may not fit the item's kind */
};

/* JSON's quoting is YAML's too. */
static void put_text(struct buf *out, const char *text)
{
    if (text == NULL) {
        buf_put_str(out, "null");
    } else {
        json_put_string(out, span_str(text));
    }
}

static void put_texts(struct buf *out, const struct conf_list *list)
{
    char *const *items = list->items;

    buf_put_char(out, '[');
    for (size_t i = 0; i < list->n; i++) {
        buf_put_str(out, i > 0 ? ", " : "");
        put_text(out, items[i]);
    }
    buf_put_char(out, ']');
}

static void put_secret(struct buf *out, const struct conf_secret *s)
{
    static const char *const keys[] = {[CONF_SECRET_ENV] = "env",
                                       [CONF_SECRET_FILE] = "file",
                                       [CONF_SECRET_CREDENTIAL] = "credential",
                                       [CONF_SECRET_COMMAND] = "command"};

    if (s->kind == CONF_SECRET_NONE) {
        buf_put_str(out, "null");
        return;
    }
    buf_printf(out, "{%s: ", keys[s->kind]);
    if (s->kind == CONF_SECRET_COMMAND) {
        put_texts(out, &s->command);
    } else {
        put_text(out, s->source);
    }
    buf_put_char(out, '}');
}

static uint64_t number_of(const struct conf_key *k, const void *field)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;

    if (k->size == sizeof(wide)) {
        memcpy(&wide, field, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, field, sizeof(narrow));
    return narrow;
}

static void put_scalar(struct buf *out, const struct conf_key *k, const void *field)
{
    unsigned long long n = 0;

    switch (k->type) {
    case CONF_BOOL:
        buf_put_str(out, *(const bool *)field ? "true" : "false");
        return;
    case CONF_STRING:
    case CONF_NAME:
    case CONF_URL:
        put_text(out, *(char *const *)field);
        return;
    case CONF_SECRET:
        put_secret(out, field);
        return;
    default:
        n = number_of(k, field);
        break;
    }
    if (k->type == CONF_ENUM) {
        buf_put_str(out, k->choices[n]);
    } else if (k->type == CONF_MODE) {
        buf_printf(out, "\"%04llo\"", n);
    } else if (k->type == CONF_DURATION) {
        buf_printf(out, n % 1000 == 0 ? "%llu" : "%llu.%03llu", n / 1000, n % 1000);
    } else if (k->type == CONF_NANO) {
        buf_printf(out, n % 1000000000 == 0 ? "%llu" : "%llu.%09llu", n / 1000000000,
                   n % 1000000000);
    } else {
        buf_printf(out, "%llu", n);
    }
}

static void put_map(struct printer *p, const struct conf_map *map, const void *target,
                    unsigned depth);

static void put_list(struct printer *p, const struct conf_key *k, const struct conf_list *list,
                     unsigned depth)
{
    struct buf *out = p->out;

    if (k->type == CONF_LIST_OF_STRING) {
        buf_put_char(out, ' ');
        put_texts(out, list);
        buf_put_char(out, '\n');
        return;
    }
    if (list->n == 0) {
        buf_put_str(out, " []\n");
        return;
    }
    buf_put_char(out, '\n');
    for (size_t i = 0; i < list->n; i++) {
        if (k->type == CONF_LIST_OF_SECRET) {
            buf_printf(out, "%*s- ", (int)((depth + 1) * INDENT), "");
            put_secret(out, (const struct conf_secret *)list->items + i);
            buf_put_char(out, '\n');
        } else {
            buf_printf(out, "%*s-\n", (int)((depth + 1) * INDENT), "");
            p->items++;
            put_map(p, k->map, (const char *)list->items + i * k->map->size, depth + 2);
            p->items--;
        }
    }
}

static void put_pairs(struct buf *out, const struct conf_list *list, unsigned depth)
{
    const struct conf_pair *pairs = list->items;

    buf_put_str(out, list->n == 0 ? " {}\n" : "\n");
    for (size_t i = 0; i < list->n; i++) {
        buf_printf(out, "%*s", (int)((depth + 1) * INDENT), "");
        put_text(out, pairs[i].name);
        buf_put_str(out, ": ");
        put_text(out, pairs[i].value);
        buf_put_char(out, '\n');
    }
}

static void put_value(struct printer *p, const struct conf_key *k, const void *field,
                      unsigned depth)
{
    size_t before = 0;

    switch (k->type) {
    case CONF_MAP:
        buf_put_char(p->out, '\n');
        before = p->out->len;
        put_map(p, k->map, field, depth + 1);
        if (p->out->len == before) { /* {} is a map, nothing is none */
            buf_truncate(p->out, before - 1);
            buf_put_str(p->out, " {}\n");
        }
        break;
    case CONF_LIST_OF_STRING:
    case CONF_LIST_OF_SECRET:
    case CONF_LIST_OF_MAP:
        put_list(p, k, field, depth);
        break;
    case CONF_MAP_OF_STRING:
        put_pairs(p->out, field, depth);
        break;
    default:
        buf_put_char(p->out, ' ');
        put_scalar(p->out, k, field);
        buf_put_char(p->out, '\n');
        break;
    }
}

/* Whether a map that is not there has keys with defaults. */
static bool has_defaults(const struct conf_map *map)
{
    bool has = false;

    for (size_t i = 0; i < map->nkeys && !has; i++) {
        has = map->keys[i].fallback != NULL;
    }
    return has;
}

/* What is neither there nor has a default is left out: to be absent means something. */
static void put_map(struct printer *p, const struct conf_map *map, const void *target,
                    unsigned depth)
{
    for (size_t i = 0; i < map->nkeys; i++) {
        const struct conf_key *k = &map->keys[i];
        bool known = k->fallback != NULL || (k->type == CONF_MAP && has_defaults(k->map));
        bool shown = (known && p->items == 0) || conf_has(p->doc, target, k->name);
        if (shown) {
            buf_printf(p->out, "%*s%s:", (int)(depth * INDENT), "", k->name);
            put_value(p, k, (const char *)target + k->offset, depth);
        }
    }
}

void conf_print(const struct conf_map *map, const void *target, const struct conf_doc *doc,
                struct buf *out)
{
    struct printer p = {.doc = doc, .out = out};

    put_map(&p, map, target, 0);
}
