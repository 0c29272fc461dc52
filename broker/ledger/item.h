/*
 * One thing that waits to be written: a row, or a change of a kept grant. One allocation each, with
 * its texts behind it. Internal to the room.
 */
#ifndef TACTUS_LEDGER_ITEM_H
#define TACTUS_LEDGER_ITEM_H

#include "base/list.h"
#include "base/span.h"
#include "ledger/ledger.h"

#include <stddef.h>
#include <stdint.h>

enum ledger_item_kind { LEDGER_ITEM_ROW, LEDGER_ITEM_KEEP, LEDGER_ITEM_DROP };

struct ledger_item {
    struct list node;
    enum ledger_item_kind kind;
    size_t bytes;          /* of the allocation */
    struct ledger_row row; /* LEDGER_ITEM_ROW; its texts are ours */
    const char *id;        /* of a grant */
    struct span json;      /* LEDGER_ITEM_KEEP */
    uint64_t expires_ms;
};

/* A copy with names and texts cut to their bounds; NULL when out of memory. free() frees it. */
struct ledger_item *ledger_item_row(const struct ledger_row *row);

/* The same; NULL also when `id` or `json` is longer than its bound. Not cut: half a grant is none.
 */
struct ledger_item *ledger_item_keep(struct span id, struct span json, uint64_t expires_ms);
struct ledger_item *ledger_item_drop(struct span id);

/* Frees all of a list. */
void ledger_items_free(struct list *items);

#endif
