/*
 * The database: one connection that writes and one that reads, with their prepared statements. One
 * thread at a time: ledger_open's, then the store thread. Everything here waits for the disk.
 * Internal to the room.
 */
#ifndef TACTUS_LEDGER_STORE_H
#define TACTUS_LEDGER_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

#define STORE_PRUNE_ROWS 500 /* deleted in one transaction */

struct store;

/* What ledger_open promises, but for the thread. */
enum err store_open(const char *path, struct store **out, struct error *e) MUST_CHECK;

/* Makes one file of the database as far as that works. NULL is harmless. */
void store_close(struct store *s);

/* All ledger_items of the list in one transaction: all or none is in the file. The list stays. */
enum err store_write(struct store *s, struct list *items, struct error *e) MUST_CHECK;

/* Deletes at most STORE_PRUNE_ROWS rows older than `before_ms`; `*more`: there may be others. */
enum err store_prune(struct store *s, uint64_t before_ms, bool *more, struct error *e) MUST_CHECK;

/*
 * The answer of ledger_ask, appended to `out`. `pause(ctx)` is called now and then during a long
 * scan and may write (store_write); false breaks the scan off: ERR_CLOSED.
 */
enum err store_usage(struct store *s, const struct ledger_query *q, bool (*pause)(void *ctx),
                     void *ctx, struct buf *out, struct error *e) MUST_CHECK;

enum err store_spent(struct store *s, const char *grant, uint64_t since_ms, int64_t *nano,
                     uint64_t *tokens, struct error *e) MUST_CHECK;

/* Appends a LEDGER_ITEM_KEEP for each grant to `out`; after a failure the caller frees them too. */
enum err store_grants(struct store *s, struct list *out, struct error *e) MUST_CHECK;

#endif
