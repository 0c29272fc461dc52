/*
 * YAML through a table of keys; see conf.h.
 *
 * The text is read twice: once as events (conf_events.c), which refuses what a configuration does
 * not need before anything is built, then as libyaml's document tree, whose nodes keep line and
 * column. The tree is walked along the table, so the walk is never deeper than the table, and lists
 * have a maximum, so it is never longer than that allows. Called by gate/config, at start and on
 * reload, and by the runner's spec/settings.
 */
#include "base/conf_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define NO_PLACE  SIZE_MAX
#define NO_INDEX  SIZE_MAX
#define PATH_SIZE 160u /* of a dotted path in a message */

/* A value of the file: where it stood, and which field it filled. */
struct place {
    const void *base;  /* the struct with the field; NULL: an item */
    const void *inner; /* the struct that a map was read into, or NULL */
    const char *key;   /* NULL: an item of a list, or the whole file */
    size_t index;      /* of the item, or NO_INDEX */
    size_t parent;     /* NO_PLACE: the whole file */
    size_t line;
    size_t column;
    bool given; /* false: a map that is not in the file */
};

struct conf_doc {
    char *name;
    struct place *places; /* [0] is the whole file */
    size_t n;
    size_t cap;
};

/* What a walk needs everywhere. */
struct reader {
    struct conf_doc *doc;
    yaml_document_t *tree; /* NULL: only defaults are wanted */
    struct error *e;
};

static enum err read_map(struct reader *r, const struct conf_map *map, int node, size_t at,
                         void *target);

/* ---- messages ---- */

/* Writes the dotted path of `p`, from its end to its start, and returns where it starts. */
static const char *path_of(const struct conf_doc *doc, const struct place *p, char path[PATH_SIZE])
{
    size_t start = PATH_SIZE - 1;
    bool dot = false; /* what follows is a key */
    char piece[64];
    char shown[CONF_SHOWN_SIZE];

    path[start] = '\0';
    while (p->parent != NO_PLACE) {
        int n = p->key != NULL
                    ? snprintf(piece, sizeof(piece), "%s%s", conf_shown(span_str(p->key), shown),
                               dot ? "." : "")
                    : snprintf(piece, sizeof(piece), "[%zu]%s", p->index, dot ? "." : "");
        if (n < 0 || (size_t)n >= sizeof(piece) || (size_t)n > start) {
            break;
        }
        start -= (size_t)n;
        memcpy(path + start, piece, (size_t)n);
        dot = p->key != NULL;
        p = &doc->places[p->parent];
    }
    return path + start;
}

/* A fault of the value at `p`. */
static enum err fault(const struct reader *r, const struct place *p, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static enum err fault(const struct reader *r, const struct place *p, const char *fmt, ...)
{
    char path[PATH_SIZE];
    va_list args;

    va_start(args, fmt);
    const char *dotted = path_of(r->doc, p, path);
    enum err err = conf_fault_at(r->doc->name, p->line, p->column,
                                 *dotted == '\0' ? "file" : dotted, r->e, fmt, args);
    va_end(args);
    return err;
}

/* ---- places ---- */

static enum err place_add(struct reader *r, const struct place *place, size_t *at)
{
    struct conf_doc *doc = r->doc;

    if (doc->n == doc->cap) {
        size_t cap = doc->cap == 0 ? 64 : doc->cap * 2;
        struct place *grown = realloc(doc->places, cap * sizeof(*grown));
        if (grown == NULL) {
            return err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
        }
        doc->places = grown;
        doc->cap = cap;
    }
    *at = doc->n;
    doc->places[doc->n++] = *place;
    return ERR_OK;
}

/* A place below `parent`, at `mark` or (NULL) where the parent is. */
static struct place place_below(const struct reader *r, size_t parent, const yaml_mark_t *mark)
{
    const struct place *up = &r->doc->places[parent];

    return (struct place){
        .index = NO_INDEX,
        .parent = parent,
        .line = mark != NULL ? mark->line + 1 : up->line,
        .column = mark != NULL ? mark->column + 1 : up->column,
        .given = mark != NULL,
    };
}

static size_t place_find(const struct conf_doc *doc, const void *base, const char *key)
{
    for (size_t i = 0; i < doc->n; i++) {
        const struct place *p = &doc->places[i];
        if (p->base == base && p->key != NULL && strcmp(p->key, key) == 0 && p->given) {
            return i;
        }
    }
    return NO_PLACE;
}

bool conf_has(const struct conf_doc *doc, const void *base, const char *key)
{
    return place_find(doc, base, key) != NO_PLACE;
}

enum err conf_fault(const struct conf_doc *doc, const void *base, const char *key, struct error *e,
                    const char *fmt, ...)
{
    char path[PATH_SIZE];
    size_t at = place_find(doc, base, key);
    size_t map = 0;
    va_list args;

    while (at == NO_PLACE && map + 1 < doc->n && doc->places[map].inner != base) {
        map++;
    }
    struct place missing = {
        .key = key,
        .parent = map,
        .line = doc->places[map].line,
        .column = doc->places[map].column,
    };
    const struct place *p = at == NO_PLACE ? &missing : &doc->places[at];
    va_start(args, fmt);
    enum err err =
        conf_fault_at(doc->name, p->line, p->column, path_of(doc, p, path), e, fmt, args);
    va_end(args);
    return err;
}

void conf_doc_free(struct conf_doc *doc)
{
    if (doc != NULL) {
        free(doc->places);
        free(doc->name);
        free(doc);
    }
}

static struct span node_text(const yaml_node_t *node)
{
    return span_of((const char *)node->data.scalar.value, node->data.scalar.length);
}

static bool node_plain(const yaml_node_t *node)
{
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool node_is_null(const yaml_node_t *node)
{
    struct span t = node_text(node);

    return node_plain(node) && (t.n == 0 || span_eq(t, SPAN("~")) || span_eq(t, SPAN("null")) ||
                                span_eq(t, SPAN("Null")) || span_eq(t, SPAN("NULL")));
}

/* "a map", "nothing", … : what stands at `node`. */
static const char *node_kind(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_MAPPING_NODE:
        return "is a map";
    case YAML_SEQUENCE_NODE:
        return "is a list";
    case YAML_SCALAR_NODE:
        return node_is_null(node) ? "has no value" : "is a single value";
    default:
        return "has no value";
    }
}

static enum err wrong_kind(const struct reader *r, const struct conf_key *k, const struct place *p,
                           const yaml_node_t *node)
{
    char out[CONF_WANTED_SIZE];

    return fault(r, p, "%s, expected %s", node_kind(node), conf_wanted(k, out));
}

/* A scalar, or an item of a list of strings. */
static enum err read_scalar(struct reader *r, const struct conf_key *k, const yaml_node_t *node,
                            const struct place *p, void *field)
{
    const struct conf_key text = {.type = CONF_STRING};
    const struct conf_key *expected = k->type == CONF_LIST_OF_STRING ? &text : k;
    char value[CONF_SHOWN_SIZE];
    char want[CONF_WANTED_SIZE];
    const char *what;

    if (node->type != YAML_SCALAR_NODE || node_is_null(node)) {
        return wrong_kind(r, expected, p, node);
    }
    enum err err = conf_set_scalar(k, node_text(node), node_plain(node), field, &what);
    if (err == ERR_NOMEM) {
        return err_set(r->e, err, "out of memory for the configuration");
    }
    if (err != ERR_OK && what == NULL) {
        return fault(r, p, "is \"%s\", expected %s", conf_shown(node_text(node), value),
                     conf_wanted(expected, want));
    }
    if (err != ERR_OK) {
        return fault(r, p, "%s, expected %s", what, conf_wanted(expected, want));
    }
    return ERR_OK;
}

/* ---- secrets, lists, maps ---- */

static enum err read_list(struct reader *r, const struct conf_key *k, const yaml_node_t *node,
                          size_t at, struct conf_list *list);

/* The ways to a secret, by enum conf_secret_kind. */
static const struct {
    const char *key;
    const char *names; /* what its value does */
} SECRET_KINDS[] = {
    [CONF_SECRET_ENV] = {"env", "variable"},
    [CONF_SECRET_FILE] = {"file", "file"},
    [CONF_SECRET_CREDENTIAL] = {"credential", "credential"},
    [CONF_SECRET_COMMAND] = {"command", "program"},
};

static enum conf_secret_kind secret_kind(struct span name)
{
    for (int kind = CONF_SECRET_ENV; kind <= CONF_SECRET_COMMAND; kind++) {
        if (span_eq(name, span_str(SECRET_KINDS[kind].key))) {
            return (enum conf_secret_kind)kind;
        }
    }
    return CONF_SECRET_NONE;
}

/* A name that no variable, or no file of a credentials directory, can have. */
static bool bad_source(enum conf_secret_kind kind, struct span name)
{
    char no = kind == CONF_SECRET_ENV ? '=' : '/';

    return (kind == CONF_SECRET_ENV || kind == CONF_SECRET_CREDENTIAL) &&
           memchr(name.p, no, name.n) != NULL;
}

/* Nothing of what stands there is shown: it may be the secret itself. */
static enum err read_secret(struct reader *r, const yaml_node_t *node, size_t at,
                            const struct place *p, struct conf_secret *secret)
{
    static const struct conf_key reference = {.type = CONF_SECRET};
    static const struct conf_key command = {.type = CONF_LIST_OF_STRING, .min = 1, .max = 64};
    enum conf_secret_kind kind = CONF_SECRET_NONE;
    char want[CONF_WANTED_SIZE];

    if (node->type != YAML_MAPPING_NODE) {
        return wrong_kind(r, &reference, p, node);
    }
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    if (node->data.mapping.pairs.top - pair == 1) {
        const yaml_node_t *key = yaml_document_get_node(r->tree, pair->key);
        kind = key->type == YAML_SCALAR_NODE ? secret_kind(node_text(key)) : CONF_SECRET_NONE;
    }
    if (kind == CONF_SECRET_NONE) {
        return fault(r, p, "is no secret reference, expected %s", conf_wanted(&reference, want));
    }
    secret->kind = kind;
    const yaml_node_t *value = yaml_document_get_node(r->tree, pair->value);
    if (kind == CONF_SECRET_COMMAND) {
        return read_list(r, &command, value, at, &secret->command);
    }
    if (value->type != YAML_SCALAR_NODE || node_is_null(value) ||
        conf_text_fault(node_text(value), 0) != NULL || bad_source(kind, node_text(value))) {
        return fault(r, p, "names no %s, expected %s", SECRET_KINDS[kind].names,
                     conf_wanted(&reference, want));
    }
    return conf_put_text(&secret->source, node_text(value)) == ERR_OK
               ? ERR_OK
               : err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
}

static size_t item_size(const struct conf_key *k)
{
    return k->type == CONF_LIST_OF_MAP      ? k->map->size
           : k->type == CONF_LIST_OF_STRING ? sizeof(char *)
           : k->type == CONF_MAP_OF_STRING  ? sizeof(struct conf_pair)
                                            : sizeof(struct conf_secret);
}

static enum err read_list(struct reader *r, const struct conf_key *k, const yaml_node_t *node,
                          size_t at, struct conf_list *list)
{
    char want[CONF_WANTED_SIZE];
    size_t size = item_size(k);
    enum err err = ERR_OK;

    if (node->type != YAML_SEQUENCE_NODE) {
        return wrong_kind(r, k, &r->doc->places[at], node);
    }
    const yaml_node_item_t *items = node->data.sequence.items.start;
    size_t n = (size_t)(node->data.sequence.items.top - items);
    if (n < k->min || n > k->max) {
        return fault(r, &r->doc->places[at], "has %zu items, expected %s", n, conf_wanted(k, want));
    }
    list->items = calloc(n == 0 ? 1 : n, size);
    if (list->items == NULL) {
        return err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
    }
    for (size_t i = 0; i < n && err == ERR_OK; i++) {
        const yaml_node_t *item = yaml_document_get_node(r->tree, items[i]);
        void *field = (char *)list->items + i * size;
        struct place place = place_below(r, at, &item->start_mark);
        place.index = i;
        list->n = i + 1; /* what conf_fini has to look at, also when this one fails */
        if (k->type == CONF_LIST_OF_STRING) {
            err = read_scalar(r, k, item, &place, field);
        } else if (k->type == CONF_LIST_OF_SECRET) {
            err = read_secret(r, item, at, &place, field);
        } else {
            size_t here = NO_PLACE;
            place.inner = field;
            err = place_add(r, &place, &here);
            err = err != ERR_OK ? err : read_map(r, k->map, items[i], here, field);
        }
    }
    return err;
}

/* The key of a pair: a text that no pair before it has. */
static enum err read_pair_name(struct reader *r, const yaml_node_t *key, size_t at,
                               const struct conf_list *list, char **out)
{
    const struct conf_pair *pairs = list->items;
    struct place p = place_below(r, at, &key->start_mark);
    char shown[CONF_SHOWN_SIZE];

    p.key = "?";
    if (key->type != YAML_SCALAR_NODE) {
        return fault(r, &p, "is no key, expected a name");
    }
    const char *what = conf_text_fault(node_text(key), 0);
    if (what != NULL) {
        return fault(r, &p, "its name %s, expected a text", what);
    }
    p.key = conf_shown(node_text(key), shown);
    for (size_t i = 0; i + 1 < list->n; i++) {
        if (span_eq(span_str(pairs[i].name), node_text(key))) {
            return fault(r, &p, "is given twice, expected it once");
        }
    }
    return conf_put_text(out, node_text(key)) == ERR_OK
               ? ERR_OK
               : err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
}

/* Any scalar is a text here; nothing is an empty one. */
static enum err read_pair(struct reader *r, const yaml_node_pair_t *node, size_t at,
                          const struct conf_list *list, struct conf_pair *pair)
{
    static const struct conf_key text = {.type = CONF_STRING};
    const yaml_node_t *value = yaml_document_get_node(r->tree, node->value);
    struct place p = place_below(r, at, &value->start_mark);
    size_t here = NO_PLACE;

    enum err err =
        read_pair_name(r, yaml_document_get_node(r->tree, node->key), at, list, &pair->name);
    if (err != ERR_OK) {
        return err;
    }
    p.base = pair;
    p.key = pair->name;
    if (value->type != YAML_SCALAR_NODE) {
        return wrong_kind(r, &text, &p, value);
    }
    struct span v = node_is_null(value) ? SPAN("") : node_text(value);
    if (memchr(v.p, '\0', v.n) != NULL) {
        return fault(r, &p, "has a NUL, expected a text");
    }
    if (conf_put_text(&pair->value, v) != ERR_OK) {
        return err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
    }
    return place_add(r, &p, &here);
}

static enum err read_pairs(struct reader *r, const struct conf_key *k, const yaml_node_t *node,
                           size_t at, struct conf_list *list)
{
    char want[CONF_WANTED_SIZE];
    enum err err = ERR_OK;

    if (node->type != YAML_MAPPING_NODE) {
        return wrong_kind(r, k, &r->doc->places[at], node);
    }
    const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;
    size_t n = (size_t)(node->data.mapping.pairs.top - pairs);
    if (n < k->min || n > k->max) {
        return fault(r, &r->doc->places[at], "has %zu keys, expected %s", n, conf_wanted(k, want));
    }
    list->items = calloc(n == 0 ? 1 : n, sizeof(struct conf_pair));
    if (list->items == NULL) {
        return err_set(r->e, ERR_NOMEM, "out of memory for the configuration");
    }
    for (size_t i = 0; i < n && err == ERR_OK; i++) {
        list->n = i + 1; /* what conf_fini has to look at, also when this one fails */
        err = read_pair(r, &pairs[i], at, list, (struct conf_pair *)list->items + i);
    }
    return err;
}

static enum err read_value(struct reader *r, const struct conf_key *k, int index, size_t at,
                           void *field)
{
    const yaml_node_t *node = yaml_document_get_node(r->tree, index);

    if (k->nullable && node->type == YAML_SCALAR_NODE && node_is_null(node)) {
        return ERR_OK;
    }
    switch (k->type) {
    case CONF_MAP:
        return read_map(r, k->map, index, at, field);
    case CONF_LIST_OF_STRING:
    case CONF_LIST_OF_SECRET:
    case CONF_LIST_OF_MAP:
        return read_list(r, k, node, at, field);
    case CONF_MAP_OF_STRING:
        return read_pairs(r, k, node, at, field);
    case CONF_SECRET:
        return read_secret(r, node, at, &r->doc->places[at], field);
    default:
        return read_scalar(r, k, node, &r->doc->places[at], field);
    }
}

/* The key of that name in `map`; map->nkeys when there is none. */
static size_t find_key(const struct conf_map *map, struct span name)
{
    size_t i = 0;

    while (i < map->nkeys && !span_eq(span_str(map->keys[i].name), name)) {
        i++;
    }
    return i;
}

static enum err unknown_key(struct reader *r, const struct conf_map *map, size_t at,
                            const yaml_node_t *key)
{
    struct place p = place_below(r, at, &key->start_mark);
    const char *names[CONF_MAX_KEYS + 1] = {NULL};
    char list[CONF_WANTED_SIZE];
    char name[CONF_SHOWN_SIZE];

    for (size_t i = 0; i < map->nkeys && i < CONF_MAX_KEYS; i++) {
        names[i] = map->keys[i].name;
    }
    conf_join(names, "", list, sizeof(list));
    bool text = key->type == YAML_SCALAR_NODE;
    p.key = text ? conf_shown(node_text(key), name) : "?";
    return fault(r, &p, "is %s, expected one of %s", text ? "an unknown key" : "no key", list);
}

/* Fills what the file did not give. */
static enum err read_defaults(struct reader *r, const struct conf_map *map, uint64_t seen,
                              size_t at, void *target)
{
    const char *what;

    for (size_t i = 0; i < map->nkeys; i++) {
        const struct conf_key *k = &map->keys[i];
        void *field = (char *)target + k->offset;
        char want[CONF_WANTED_SIZE];
        enum err err = ERR_OK;
        if ((seen & (UINT64_C(1) << i)) != 0) {
            continue;
        }
        struct place place = place_below(r, at, NULL);
        place.base = target;
        place.key = k->name;
        if (k->required && r->tree != NULL) {
            return fault(r, &place, "is missing, expected %s", conf_wanted(k, want));
        }
        if (k->type == CONF_MAP) {
            size_t here = NO_PLACE;
            place.inner = field;
            err = place_add(r, &place, &here);
            err = err != ERR_OK ? err : read_map(r, k->map, 0, here, field);
        } else if (k->fallback != NULL) {
            err = conf_set_scalar(k, span_str(k->fallback), true, field, &what);
        }
        if (err == ERR_NOMEM) {
            return err_set(r->e, err, "out of memory for the configuration");
        }
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

/* Reads the map `node` (0: there is none) into `target`. Calls itself as deep as the table is. */
static enum err read_map(struct reader *r, const struct conf_map *map, int node, size_t at,
                         void *target)
{
    static const struct conf_key a_map = {.type = CONF_MAP};
    uint64_t seen = 0;

    const yaml_node_t *n = node != 0 ? yaml_document_get_node(r->tree, node) : NULL;
    if (n != NULL && n->type != YAML_MAPPING_NODE) {
        return wrong_kind(r, &a_map, &r->doc->places[at], n);
    }
    const yaml_node_pair_t *pair = n != NULL ? n->data.mapping.pairs.start : NULL;
    const yaml_node_pair_t *end = n != NULL ? n->data.mapping.pairs.top : NULL;
    for (; pair != end; pair++) {
        const yaml_node_t *key = yaml_document_get_node(r->tree, pair->key);
        size_t i = key->type == YAML_SCALAR_NODE ? find_key(map, node_text(key)) : map->nkeys;
        if (i == map->nkeys && map->open) {
            continue;
        }
        if (i == map->nkeys) {
            return unknown_key(r, map, at, key);
        }
        const struct conf_key *k = &map->keys[i];
        struct place place = place_below(r, at, &key->start_mark);
        place.key = k->name;
        if ((seen & (UINT64_C(1) << i)) != 0) {
            return fault(r, &place, "is given twice, expected it once");
        }
        seen |= UINT64_C(1) << i;
        place = place_below(r, at, &yaml_document_get_node(r->tree, pair->value)->start_mark);
        place.key = k->name;
        place.base = target;
        place.inner = k->type == CONF_MAP ? (char *)target + k->offset : NULL;
        size_t here = NO_PLACE;
        enum err err = place_add(r, &place, &here);
        if (err == ERR_OK) {
            err = read_value(r, k, pair->value, here, (char *)target + k->offset);
        }
        if (err != ERR_OK) {
            return err;
        }
    }
    return read_defaults(r, map, seen, at, target);
}

static void texts_free(struct conf_list *list)
{
    char **items = list->items;

    for (size_t i = 0; i < list->n; i++) {
        free(items[i]);
    }
    free(items);
}

static void secret_free(struct conf_secret *secret)
{
    free(secret->source);
    texts_free(&secret->command);
}

void conf_fini(const struct conf_map *map, void *target)
{
    for (size_t i = 0; i < map->nkeys; i++) {
        const struct conf_key *k = &map->keys[i];
        char *field = (char *)target + k->offset;
        struct conf_list list = {NULL, 0};
        char *text = NULL;
        if (k->type == CONF_MAP) {
            conf_fini(k->map, field);
        } else if (k->type == CONF_STRING || k->type == CONF_NAME || k->type == CONF_URL) {
            memcpy(&text, field, sizeof(text));
        } else if (k->type == CONF_SECRET) {
            secret_free((struct conf_secret *)(void *)field);
        } else if (k->type == CONF_LIST_OF_STRING || k->type == CONF_LIST_OF_SECRET ||
                   k->type == CONF_LIST_OF_MAP || k->type == CONF_MAP_OF_STRING) {
            memcpy(&list, field, sizeof(list));
        }
        for (size_t j = 0; j < list.n; j++) {
            char *item = (char *)list.items + j * item_size(k);
            if (k->type == CONF_LIST_OF_MAP) {
                conf_fini(k->map, item);
            } else if (k->type == CONF_LIST_OF_STRING) {
                free(*(char **)(void *)item);
            } else if (k->type == CONF_MAP_OF_STRING) {
                free(((struct conf_pair *)(void *)item)->name);
                free(((struct conf_pair *)(void *)item)->value);
            } else {
                secret_free((struct conf_secret *)(void *)item);
            }
        }
        free(list.items);
        free(text);
        if (k->type != CONF_MAP) { /* several maps may fill the same struct */
            memset(field, 0, k->size);
        }
    }
}

/* ---- the text ---- */

static struct conf_doc *doc_new(const char *name)
{
    struct conf_doc *doc = calloc(1, sizeof(*doc));

    if (doc != NULL) {
        doc->name = strdup(name);
        if (doc->name == NULL) {
            free(doc);
            return NULL;
        }
    }
    return doc;
}

/* Walks `tree` (NULL: none, defaults only). */
static enum err walk(struct conf_doc *doc, yaml_document_t *tree, const struct conf_map *map,
                     void *target, struct error *e)
{
    struct reader r = {.doc = doc, .tree = tree, .e = e};
    struct place whole = {
        .inner = target, .index = NO_INDEX, .parent = NO_PLACE, .line = 1, .column = 1};
    size_t at = 0;
    bool has_root = tree != NULL && yaml_document_get_root_node(tree) != NULL;

    enum err err = place_add(&r, &whole, &at);
    return err != ERR_OK ? err : read_map(&r, map, has_root ? 1 : 0, at, target);
}

enum err conf_parse(const char *name, const char *text, size_t n, const struct conf_map *map,
                    void *target, struct conf_doc **doc, struct error *e)
{
    yaml_parser_t parser;
    yaml_document_t tree;
    struct conf_doc *made = NULL;

    *doc = NULL;
    if (n > CONF_MAX_BYTES) {
        return err_set(e, ERR_CONFIG, "%.128s:1:1: file: has more than 1 MiB, expected less", name);
    }
    enum err err = conf_check_events(name, span_of(n > 0 ? text : "", n), map, e);
    if (err != ERR_OK) {
        return err;
    }
    if (!yaml_parser_initialize(&parser)) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(n > 0 ? text : ""), n);
    if (!yaml_parser_load(&parser, &tree)) {
        err = conf_fault_parser(name, &parser, span_of(text, n), e);
        goto out_parser;
    }
    made = doc_new(name);
    err = made == NULL ? err_set(e, ERR_NOMEM, "out of memory for the configuration")
                       : walk(made, &tree, map, target, e);
    yaml_document_delete(&tree);
    if (err == ERR_OK) {
        *doc = made;
    } else {
        conf_doc_free(made);
    }

out_parser:
    yaml_parser_delete(&parser);
    return err;
}

enum err conf_defaults(const struct conf_map *map, void *target, struct error *e)
{
    struct conf_doc *doc = doc_new("defaults");

    if (doc == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    enum err err = walk(doc, NULL, map, target, e);
    conf_doc_free(doc);
    return err;
}
