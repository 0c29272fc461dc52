/*
 * The schema of a database file: whose it is (PRAGMA application_id), which version it has (PRAGMA
 * user_version), and the steps from each version to the next. Internal to the room; it knows
 * nothing of the ledger's tables, so tests give it steps of their own.
 */
#ifndef TACTUS_LEDGER_SCHEMA_H
#define TACTUS_LEDGER_SCHEMA_H

#include "base/err.h"

#include <stddef.h>

struct sqlite3;

struct schema {
    int application_id;
    const char *const *steps; /* [v] leads from version v to v + 1; version 0 is an empty file */
    size_t n;                 /* our version */
};

/*
 * Brings `db` (named `path` in messages) to the newest version, each step in one transaction with
 * its version number. ERR_CONFIG: no database, damaged, of another program, or newer than ours: the
 * file is not changed then. ERR_IO, ERR_NOMEM: it has the version of the last step that worked.
 */
enum err schema_apply(struct sqlite3 *db, const char *path, const struct schema *schema,
                      struct error *e) MUST_CHECK;

/* The category of an SQLite result, with "PATH: what: SQLite's words" as the message. */
enum err schema_fail(struct sqlite3 *db, int rc, const char *path, const char *what,
                     struct error *e);

/* The first column of the first row of `sql` (constant text). */
enum err schema_number(struct sqlite3 *db, const char *path, const char *sql, long long *out,
                       struct error *e) MUST_CHECK;

#endif
