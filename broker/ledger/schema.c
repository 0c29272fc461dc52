/*
 * Checks and migrates a database file. A file is ours by its application_id, new when it is empty,
 * and foreign in every other case: nothing is written into it before that is known. The id comes
 * into the file with the first step, in the same transaction.
 */
#include "ledger/schema.h"

#include <sqlite3.h>
#include <stdio.h>

enum err schema_fail(struct sqlite3 *db, int rc, const char *path, const char *what,
                     struct error *e)
{
    const char *words = db == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(db);

    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return err_set(e, ERR_NOMEM, "%s: %s: out of memory", path, what);
    case SQLITE_NOTADB:
        return err_set(e, ERR_CONFIG, "%s: this file is no SQLite database", path);
    case SQLITE_CORRUPT:
        return err_set(e, ERR_CONFIG, "%s: the database is damaged: %s", path, words);
    default:
        return err_set(e, ERR_IO, "%s: %s: %s", path, what, words);
    }
}

enum err schema_number(struct sqlite3 *db, const char *path, const char *sql, long long *out,
                       struct error *e)
{
    sqlite3_stmt *st = NULL;
    long long value = 0;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
    }
    if (rc == SQLITE_ROW) {
        value = sqlite3_column_int64(st, 0);
    } else {
        enum err failed = schema_fail(db, rc, path, "cannot read", e);
        (void)sqlite3_finalize(st);
        return failed;
    }
    (void)sqlite3_finalize(st);
    *out = value;
    return ERR_OK;
}

/* Whose the file is, and its version; 0 for an empty one. */
static enum err look(struct sqlite3 *db, const char *path, const struct schema *schema,
                     long long *version, struct error *e)
{
    long long id = 0;
    long long tables = 0;
    enum err rc = schema_number(db, path, "PRAGMA application_id", &id, e);

    if (rc == ERR_OK) {
        rc = schema_number(db, path, "PRAGMA user_version", version, e);
    }
    if (rc == ERR_OK) {
        rc = schema_number(db, path, "SELECT count(*) FROM sqlite_master", &tables, e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    if (id == 0 && *version == 0 && tables == 0) {
        return ERR_OK;
    }
    if (id != schema->application_id) {
        return err_set(e, ERR_CONFIG,
                       "%s: the database belongs to another program (application id %lld, version "
                       "%lld; expected are %d and at most %zu)",
                       path, id, *version, schema->application_id, schema->n);
    }
    if (*version < 1 || *version > (long long)schema->n) {
        return err_set(e, ERR_CONFIG,
                       "%s: the database has schema version %lld, this program knows 1 to %zu: use "
                       "the newer program, or another file",
                       path, *version, schema->n);
    }
    return ERR_OK;
}

static int run(struct sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* One step, in the transaction that the caller began. */
static int step(struct sqlite3 *db, const struct schema *schema, long long version)
{
    char pragmas[96];

    (void)snprintf(pragmas, sizeof(pragmas),
                   "PRAGMA application_id = %d; PRAGMA user_version = %lld", schema->application_id,
                   version + 1);
    int rc = run(db, schema->steps[version]);
    if (rc == SQLITE_OK) {
        rc = run(db, pragmas);
    }
    return rc == SQLITE_OK ? run(db, "COMMIT") : rc;
}

enum err schema_apply(struct sqlite3 *db, const char *path, const struct schema *schema,
                      struct error *e)
{
    long long version = 0;
    enum err rc = look(db, path, schema, &version, e);

    while (rc == ERR_OK && version < (long long)schema->n) {
        int status = run(db, "BEGIN IMMEDIATE");
        if (status != SQLITE_OK) {
            return schema_fail(db, status, path, "cannot write", e);
        }
        /* Under the lock it is asked again: another process may have been faster. */
        rc = look(db, path, schema, &version, e);
        if (rc == ERR_OK && version < (long long)schema->n) {
            status = step(db, schema, version);
            if (status != SQLITE_OK) {
                rc = schema_fail(db, status, path, "cannot bring the schema up to date", e);
            }
            version++;
        }
        if (sqlite3_get_autocommit(db) == 0) {
            (void)run(db, "ROLLBACK");
        }
    }
    return rc;
}
