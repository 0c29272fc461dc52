/* What the files of the store share. */
#ifndef TACTUS_LEDGER_STORE_PRIVATE_H
#define TACTUS_LEDGER_STORE_PRIVATE_H

#include "ledger/store.h"

#include <sqlite3.h>
#include <stdint.h>

struct store {
    char *path; /* as SQLite gets it: never the name of something special */
    sqlite3 *db;
    sqlite3 *reader;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    sqlite3_stmt *put;
    sqlite3_stmt *keep;
    sqlite3_stmt *drop;
    sqlite3_stmt *prune;
    sqlite3_stmt *usage[LEDGER_BY_ALL + 1]; /* of the reader, made when first asked for */
    bool (*pause)(void *ctx);               /* of the scan that runs */
    void *pause_ctx;
};

/* Gives the reading connection its function and its progress handler. */
int store_read_setup(struct store *s);

/* SQLite's integers have a sign: what is too large becomes the largest. */
static inline sqlite3_int64 store_int(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (sqlite3_int64)v;
}

/* NULL becomes SQL's NULL. `p` stays until the statement is reset. */
static inline int store_bind_text(sqlite3_stmt *st, int i, const char *p)
{
    return p == NULL ? sqlite3_bind_null(st, i) : sqlite3_bind_text(st, i, p, -1, SQLITE_STATIC);
}

/* For the next use; lets go of what was bound. */
static inline void store_done(sqlite3_stmt *st)
{
    (void)sqlite3_reset(st);
    (void)sqlite3_clear_bindings(st);
}

#endif
