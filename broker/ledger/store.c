/*
 * Opening the database and writing into it.
 *
 * Write-ahead log with synchronous=NORMAL: a commit is one write(2) into the log, without fsync. A
 * killed process loses nothing by that, for the page cache is the kernel's; a power failure may
 * take the last moments before it, but never leaves a broken file. FULL would cost an fsync every 5
 * ms under load, to save rows of requests that the same power failure cut off. Without fsync at
 * commit a COMMIT that failed has also left nothing behind, so a batch may be written again as it
 * is.
 */
#include "ledger/store_private.h"

#include "base/log.h"
#include "ledger/item.h"
#include "ledger/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x544c4544         /* "TLED" */
#define OPEN_BUSY_MS   5000               /* another process migrates, or a tool reads */
#define BUSY_MS        250                /* then the batch waits for its next turn */
#define CHECK_BYTES    (16 * 1024 * 1024) /* up to here a check of the whole file is cheap */
#define LAST_TIME_MS   253402300799999u   /* the year 9999 */

/* Times are milliseconds since 1970. cost_nano NULL: no price was known. first_byte_us NULL: none
 * came. */
static const char version_1[] =
    "CREATE TABLE requests ("
    " id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, run TEXT, grant_name TEXT NOT NULL,"
    " method TEXT NOT NULL, provider TEXT, model TEXT, outcome TEXT NOT NULL,"
    " input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
    " cached_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,"
    " cost_nano INTEGER, estimated INTEGER NOT NULL,"
    " first_byte_us INTEGER, total_us INTEGER NOT NULL, prompt TEXT, reply TEXT);"
    "CREATE INDEX requests_time ON requests (time_ms);"
    "CREATE INDEX requests_spent ON requests (grant_name, time_ms) WHERE run IS NULL;"
    "CREATE TABLE grants (id TEXT PRIMARY KEY, json TEXT NOT NULL, expires_ms INTEGER NOT NULL);";

static const char *const steps[] = {version_1};

static const struct schema schema = {
    .application_id = APPLICATION_ID, .steps = steps, .n = sizeof(steps) / sizeof(steps[0])};

/* ---- opening ---- */

/* A relative path gets "./": SQLite takes "file:..." and ":memory:" for something else. */
static enum err name_file(struct store *s, const char *path, struct error *e)
{
    size_t n = strlen(path);

    if (n == 0 || n >= PATH_MAX) {
        return err_set(e, ERR_CONFIG, "a database's path has 1 to %d bytes", PATH_MAX - 1);
    }
    s->path = malloc(n + 3);
    if (s->path == NULL) {
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    }
    (void)snprintf(s->path, n + 3, "%s%s", path[0] == '/' ? "" : "./", path);
    return ERR_OK;
}

/* SQLite makes files beside the database. `path` has a slash. */
static enum err check_directory(const char *path, struct error *e)
{
    char name[PATH_MAX + 2];
    int n = (int)(strrchr(path, '/') - path);

    (void)snprintf(name, sizeof(name), "%.*s/", n, path);
    if (faccessat(AT_FDCWD, name, W_OK | X_OK, AT_EACCESS) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot make files beside the database %s", path);
    }
    return ERR_OK;
}

/*
 * Makes a new file with our mode (SQLite gives the same to the files beside it), or looks whether
 * the old one can be used: the system says why not, in better words. It is not opened for that:
 * closing it would drop the locks that this process may hold on it.
 */
static enum err prepare_file(const char *path, bool *made, struct error *e)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0) {
        (void)close(fd);
        *made = true;
        return ERR_OK;
    }
    if (errno != EEXIST) {
        return err_sys(e, ERR_IO, errno, "cannot make the database %s", path);
    }
    if (stat(path, &st) != 0 || faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot read and write the database %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_CONFIG, "%s: not a regular file", path);
    }
    return check_directory(path, e);
}

static long long size_of(const char *path, const char *suffix)
{
    char name[PATH_MAX + 8];
    struct stat st;

    (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (long long)st.st_size : 0;
}

static enum err connect_to(const char *path, sqlite3 **db, struct error *e)
{
    int rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (rc != SQLITE_OK) {
        return schema_fail(*db, rc, path, "cannot open", e);
    }
    (void)sqlite3_extended_result_codes(*db, 1);
    (void)sqlite3_busy_timeout(*db, OPEN_BUSY_MS);
    /* The file is data: what a stranger wrote into its schema is not run. */
    (void)sqlite3_db_config(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return ERR_OK;
}

static enum err set_journal(struct store *s, struct error *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode = WAL", -1, &st, NULL);
    bool wal = false;

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
    }
    if (rc == SQLITE_ROW) {
        const unsigned char *mode = sqlite3_column_text(st, 0);
        wal = mode != NULL && strcmp((const char *)mode, "wal") == 0;
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(st);
    if (rc == SQLITE_OK && wal) {
        /* A log that a burst made long is cut again. */
        rc = sqlite3_exec(s->db, "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 8388608",
                          NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        return schema_fail(s->db, rc, s->path, "cannot use a write-ahead log", e);
    }
    return wal ? ERR_OK
               : err_set(e, ERR_IO, "%s: its file system cannot hold a write-ahead log", s->path);
}

static enum err prepare_statements(struct store *s, struct error *e)
{
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } all[] = {
        {&s->begin, "BEGIN IMMEDIATE"},
        {&s->commit, "COMMIT"},
        {&s->rollback, "ROLLBACK"},
        {&s->put,
         "INSERT INTO requests (time_ms, run, grant_name, method, provider, model, outcome,"
         " input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_nano,"
         " estimated, first_byte_us, total_us, prompt, reply)"
         " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)"},
        {&s->keep, "INSERT OR REPLACE INTO grants (id, json, expires_ms) VALUES (?1, ?2, ?3)"},
        {&s->drop, "DELETE FROM grants WHERE id = ?1"},
        {&s->prune, "DELETE FROM requests WHERE id IN"
                    " (SELECT id FROM requests WHERE time_ms < ?1 LIMIT ?2)"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int rc =
            sqlite3_prepare_v3(s->db, all[i].sql, -1, SQLITE_PREPARE_PERSISTENT, all[i].to, NULL);
        if (rc != SQLITE_OK) {
            return schema_fail(s->db, rc, s->path, "its tables are not as expected", e);
        }
    }
    return ERR_OK;
}

static enum err quick_check(struct store *s, struct error *e)
{
    sqlite3_stmt *st = NULL;
    enum err result = ERR_OK;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &st, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
    }
    if (rc != SQLITE_ROW) {
        result = schema_fail(s->db, rc, s->path, "cannot check", e);
    } else {
        const char *said = (const char *)sqlite3_column_text(st, 0);
        if (said == NULL || strcmp(said, "ok") != 0) {
            result = err_set(e, ERR_CONFIG, "%s: the database is damaged: %s", s->path,
                             said == NULL ? "out of memory" : said);
        }
    }
    (void)sqlite3_finalize(st);
    return result;
}

/*
 * After an end without store_close (its log is still there) SQLite has already taken over what was
 * committed; we check the file, and say what is in it. A large file is neither read nor counted as
 * a whole: its start would take minutes.
 */
static enum err recover(struct store *s, long long log_bytes, struct error *e)
{
    bool small = size_of(s->path, "") + log_bytes <= CHECK_BYTES;
    const char *count = small ? "SELECT count(*) FROM requests"
                              : "SELECT coalesce(max(id) - min(id) + 1, 0) FROM requests";
    long long rows = 0;
    long long grants = 0;
    enum err rc = small ? quick_check(s, e) : ERR_OK;

    if (rc == ERR_OK) {
        rc = schema_number(s->db, s->path, count, &rows, e);
    }
    if (rc == ERR_OK) {
        rc = schema_number(s->db, s->path, "SELECT count(*) FROM grants", &grants, e);
    }
    if (rc == ERR_OK) {
        log_info("ledger", LOG_MSG("recovered after an end without a close"),
                 LOG_STR("database", s->path), LOG_U64("rows", rows), LOG_U64("grants", grants),
                 LOG_U64("log_bytes", log_bytes), LOG_STR("checked", small ? "yes" : "no"));
    }
    return rc;
}

static enum err open_all(struct store *s, struct error *e)
{
    long long log_bytes = size_of(s->path, "-wal");
    enum err rc = connect_to(s->path, &s->db, e);

    if (rc == ERR_OK && sqlite3_db_readonly(s->db, "main") != 0) {
        rc = err_set(e, ERR_IO, "%s: the database can only be read", s->path);
    }
    if (rc == ERR_OK) {
        rc = schema_apply(s->db, s->path, &schema, e);
    }
    if (rc == ERR_OK) {
        rc = set_journal(s, e);
    }
    if (rc == ERR_OK && log_bytes > 0) {
        rc = recover(s, log_bytes, e);
    }
    if (rc == ERR_OK) {
        rc = prepare_statements(s, e);
    }
    if (rc == ERR_OK) {
        rc = connect_to(s->path, &s->reader, e);
    }
    if (rc == ERR_OK) {
        int status = store_read_setup(s);
        rc = status == SQLITE_OK ? ERR_OK
                                 : schema_fail(s->reader, status, s->path, "cannot open", e);
    }
    if (rc == ERR_OK) {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        (void)sqlite3_busy_timeout(s->reader, BUSY_MS);
    }
    return rc;
}

enum err store_open(const char *path, struct store **out, struct error *e)
{
    struct store *s = calloc(1, sizeof(*s));
    bool made = false;

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    }
    enum err rc = name_file(s, path, e);
    if (rc == ERR_OK) {
        rc = prepare_file(s->path, &made, e);
    }
    if (rc == ERR_OK) {
        rc = open_all(s, e);
    }
    if (rc != ERR_OK) {
        store_close(s);
        return rc;
    }
    if (made) {
        log_info("ledger", LOG_MSG("made a new database"), LOG_STR("database", s->path));
    }
    *out = s;
    return ERR_OK;
}

void store_close(struct store *s)
{
    if (s == NULL) {
        return;
    }
    sqlite3_stmt *const all[] = {s->begin, s->commit, s->rollback, s->put,
                                 s->keep,  s->drop,   s->prune};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)sqlite3_finalize(all[i]);
    }
    for (size_t i = 0; i <= LEDGER_BY_ALL; i++) {
        (void)sqlite3_finalize(s->usage[i]);
    }
    /* The last connection that closes takes the log into the file and removes it. */
    (void)sqlite3_close(s->reader);
    (void)sqlite3_close(s->db);
    free(s->path);
    free(s);
}

/* ---- writing ---- */

static int step_once(sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);

    store_done(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int put_row(struct store *s, const struct ledger_row *r)
{
    sqlite3_stmt *st = s->put;
    const struct {
        int i;
        const char *text;
    } texts[] = {
        {2, r->run},   {3, r->grant},   {4, r->method},  {5, r->provider},
        {6, r->model}, {7, r->outcome}, {16, r->prompt}, {17, r->reply},
    };
    const struct {
        int i;
        uint64_t v;
    } numbers[] = {
        {1, r->time_ms < LAST_TIME_MS ? r->time_ms : LAST_TIME_MS},
        {8, r->input_tokens},
        {9, r->output_tokens},
        {10, r->cached_tokens},
        {11, r->reasoning_tokens},
        {13, r->estimated ? 1 : 0},
        {15, r->total_us},
    };
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < sizeof(texts) / sizeof(texts[0]); i++) {
        rc = store_bind_text(st, texts[i].i, texts[i].text);
    }
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        rc = sqlite3_bind_int64(st, numbers[i].i, store_int(numbers[i].v));
    }
    if (rc == SQLITE_OK && r->cost_nano >= 0) {
        rc = sqlite3_bind_int64(st, 12, r->cost_nano);
    }
    if (rc == SQLITE_OK && r->first_byte_us > 0) {
        rc = sqlite3_bind_int64(st, 14, store_int(r->first_byte_us));
    }
    if (rc != SQLITE_OK) {
        store_done(st);
        return rc;
    }
    return step_once(st);
}

static int keep_grant(struct store *s, const struct ledger_item *item)
{
    int rc = store_bind_text(s->keep, 1, item->id);

    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_text(s->keep, 2, item->json.p, (int)item->json.n, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(s->keep, 3, store_int(item->expires_ms));
    }
    if (rc != SQLITE_OK) {
        store_done(s->keep);
        return rc;
    }
    return step_once(s->keep);
}

static int drop_grant(struct store *s, const struct ledger_item *item)
{
    int rc = store_bind_text(s->drop, 1, item->id);

    if (rc != SQLITE_OK) {
        store_done(s->drop);
        return rc;
    }
    return step_once(s->drop);
}

static int write_item(struct store *s, const struct ledger_item *item)
{
    switch (item->kind) {
    case LEDGER_ITEM_ROW:
        return put_row(s, &item->row);
    case LEDGER_ITEM_KEEP:
        return keep_grant(s, item);
    case LEDGER_ITEM_DROP:
        return drop_grant(s, item);
    }
    return SQLITE_OK;
}

enum err store_write(struct store *s, struct list *items, struct error *e)
{
    int rc = step_once(s->begin);

    for (struct list *n = items->next; rc == SQLITE_OK && n != items; n = n->next) {
        rc = write_item(s, LIST_ENTRY(n, struct ledger_item, node));
    }
    if (rc == SQLITE_OK) {
        rc = step_once(s->commit);
    }
    if (rc == SQLITE_OK) {
        return ERR_OK;
    }
    enum err failed = schema_fail(s->db, rc, s->path, "cannot write", e);
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)step_once(s->rollback);
    }
    return failed;
}

enum err store_prune(struct store *s, uint64_t before_ms, bool *more, struct error *e)
{
    int rc = sqlite3_bind_int64(s->prune, 1, store_int(before_ms));

    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int(s->prune, 2, STORE_PRUNE_ROWS);
    }
    if (rc == SQLITE_OK) {
        rc = step_once(s->prune);
    } else {
        store_done(s->prune);
    }
    if (rc != SQLITE_OK) {
        return schema_fail(s->db, rc, s->path, "cannot delete old rows", e);
    }
    *more = sqlite3_changes(s->db) == STORE_PRUNE_ROWS;
    return ERR_OK;
}
