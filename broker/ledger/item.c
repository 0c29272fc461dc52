/* Copies of rows and grants for the queue: sizes first, then one allocation. */
#include "ledger/item.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* A text of the row: where it stands in the struct, and how much of it is kept. */
struct part {
    const char **to;
    const char *from;
    size_t n;
};

enum { PARTS = 8 };

static void measure(struct part parts[PARTS], struct ledger_row *to, const struct ledger_row *from)
{
    const struct part all[PARTS] = {
        {&to->run, from->run, LEDGER_NAME_MAX},
        {&to->grant, from->grant, LEDGER_NAME_MAX},
        {&to->method, from->method, LEDGER_NAME_MAX},
        {&to->provider, from->provider, LEDGER_NAME_MAX},
        {&to->model, from->model, LEDGER_NAME_MAX},
        {&to->outcome, from->outcome, LEDGER_NAME_MAX},
        {&to->prompt, from->prompt, LEDGER_TEXT_MAX},
        {&to->reply, from->reply, LEDGER_TEXT_MAX},
    };

    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = all[i];
        if (parts[i].from != NULL) {
            parts[i].n = text_cut(parts[i].from, strlen(parts[i].from), parts[i].n);
        }
    }
}

struct ledger_item *ledger_item_row(const struct ledger_row *row)
{
    struct ledger_row copy = *row;
    struct part parts[PARTS];
    size_t bytes = sizeof(struct ledger_item);

    measure(parts, &copy, row);
    for (size_t i = 0; i < PARTS; i++) {
        bytes += parts[i].from == NULL ? 0 : parts[i].n + 1; /* bounded: cannot overflow */
    }
    struct ledger_item *item = malloc(bytes);
    if (item == NULL) {
        return NULL;
    }
    char *p = (char *)(item + 1);
    for (size_t i = 0; i < PARTS; i++) {
        if (parts[i].from != NULL) {
            memcpy(p, parts[i].from, parts[i].n);
            p[parts[i].n] = '\0';
            *parts[i].to = p;
            p += parts[i].n + 1;
        }
    }
    *item = (struct ledger_item){.kind = LEDGER_ITEM_ROW, .bytes = bytes, .row = copy};
    list_init(&item->node);
    return item;
}

static struct ledger_item *of_grant(enum ledger_item_kind kind, struct span id, struct span json)
{
    if (id.n > LEDGER_NAME_MAX || json.n > LEDGER_GRANT_MAX) {
        return NULL;
    }
    size_t bytes = sizeof(struct ledger_item) + id.n + 1 + json.n;
    struct ledger_item *item = malloc(bytes);
    if (item == NULL) {
        return NULL;
    }
    char *p = (char *)(item + 1);
    if (id.n > 0) {
        memcpy(p, id.p, id.n);
    }
    p[id.n] = '\0';
    if (json.n > 0) {
        memcpy(p + id.n + 1, json.p, json.n);
    }
    *item = (struct ledger_item){
        .kind = kind, .bytes = bytes, .id = p, .json = span_of(p + id.n + 1, json.n)};
    list_init(&item->node);
    return item;
}

struct ledger_item *ledger_item_keep(struct span id, struct span json, uint64_t expires_ms)
{
    struct ledger_item *item = of_grant(LEDGER_ITEM_KEEP, id, json);

    if (item != NULL) {
        item->expires_ms = expires_ms;
    }
    return item;
}

struct ledger_item *ledger_item_drop(struct span id)
{
    return of_grant(LEDGER_ITEM_DROP, id, span_of(NULL, 0));
}

void ledger_items_free(struct list *items)
{
    for (struct list *n = list_pop(items); n != NULL; n = list_pop(items)) {
        free(LIST_ENTRY(n, struct ledger_item, node));
    }
}
