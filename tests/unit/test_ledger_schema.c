/* A database file's owner, version, and the steps from one version to the next. */
#include "ledger/schema.h"

#include "fixtures/place.h"

#include <sqlite3.h>

#define APP 4711
#define DB  "schema.db"

static const char *const steps[] = {
    "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)",
    "ALTER TABLE t ADD COLUMN b INTEGER; UPDATE t SET b = a + 1",
    "CREATE TABLE u (c INTEGER); INSERT INTO u SELECT b + 1 FROM t",
};
static const char *const broken[] = {
    "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)",
    "INSERT INTO t VALUES (2); INSERT INTO nowhere VALUES (1)",
};

static sqlite3 *open_db(void)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(at(DB), &db), SQLITE_OK);
    return db;
}

static void close_db(sqlite3 *db)
{
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void fresh(void)
{
    (void)unlink(at(DB));
}

static enum err apply_to(sqlite3 *db, const char *const *list, size_t n, struct error *e)
{
    const struct schema s = {.application_id = APP, .steps = list, .n = n};

    *e = (struct error){0};
    return schema_apply(db, "the.db", &s, e);
}

static void check_number(sqlite3 *db, const char *sql, long long expected)
{
    long long n = -1;
    struct error e = {0};

    assert_int_equal(schema_number(db, "the.db", sql, &n, &e), ERR_OK);
    assert_int_equal(n, expected);
}

static void exec(const char *sql)
{
    sqlite3 *db = open_db();

    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    close_db(db);
}

static void test_new_file(void **state)
{
    struct error e;

    (void)state;
    fresh();
    sqlite3 *db = open_db();
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK);
    check_number(db, "PRAGMA user_version", 3);
    check_number(db, "PRAGMA application_id", APP);
    check_number(db, "SELECT c FROM u", 3);
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK); /* again: nothing to do */
    check_number(db, "SELECT count(*) FROM u", 1);
    close_db(db);
}

/* Each version that was ever in the field comes to the newest with its rows. */
static void test_from_each_version(void **state)
{
    struct error e;

    (void)state;
    for (size_t old = 1; old <= 3; old++) {
        fresh();
        sqlite3 *db = open_db();
        assert_int_equal(apply_to(db, steps, old, &e), ERR_OK);
        check_number(db, "PRAGMA user_version", (long long)old);
        close_db(db);
        exec("UPDATE t SET a = 10");
        db = open_db();
        assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK);
        check_number(db, "PRAGMA user_version", 3);
        check_number(db, "SELECT a FROM t", 10);
        check_number(db, "SELECT c FROM u", old == 1 ? 12 : 3);
        close_db(db);
    }
}

/* A step that fails leaves the version before it, whole. */
static void test_failing_step(void **state)
{
    struct error e;

    (void)state;
    fresh();
    sqlite3 *db = open_db();
    assert_int_equal(apply_to(db, broken, 2, &e), ERR_IO);
    assert_string_equal(e.msg,
                        "the.db: cannot bring the schema up to date: no such table: nowhere");
    assert_int_equal(sqlite3_get_autocommit(db), 1);
    check_number(db, "PRAGMA user_version", 1);
    check_number(db, "SELECT count(*) FROM t", 1);
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK); /* and goes on from there */
    check_number(db, "SELECT c FROM u", 3);
    close_db(db);
}

static void test_newer(void **state)
{
    struct error e;

    (void)state;
    fresh();
    sqlite3 *db = open_db();
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK);
    assert_int_equal(apply_to(db, steps, 2, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "the.db: the database has schema version 3, this program knows 1 to "
                               "2: use the newer program, or another file");
    check_number(db, "PRAGMA user_version", 3);
    close_db(db);
    exec("PRAGMA user_version = -5");
    db = open_db();
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_CONFIG);
    close_db(db);
}

static void test_foreign(void **state)
{
    static const char *const others[] = {
        "PRAGMA application_id = 12; CREATE TABLE x (y)",
        "CREATE TABLE x (y)",
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 12",
    };
    struct error e;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fresh();
        exec(others[i]);
        sqlite3 *db = open_db();
        assert_int_equal(apply_to(db, steps, 3, &e), ERR_CONFIG);
        assert_non_null(strstr(e.msg, "the.db: the database belongs to another program"));
        check_number(db, "SELECT count(*) FROM sqlite_master WHERE name IN ('t', 'u')", 0);
        close_db(db);
    }
}

static void test_no_database(void **state)
{
    static const char text[] = "models:\n  - name: smart\n";
    char big[8192];
    struct error e;

    (void)state;
    memset(big, 'x', sizeof(big));
    for (size_t i = 0; i < 3; i++) {
        fresh();
        put_bytes(DB, i == 0 ? text : big, i == 0 ? strlen(text) : i == 1 ? 2 : sizeof(big), 0600);
        sqlite3 *db = open_db();
        assert_int_equal(apply_to(db, steps, 3, &e), ERR_CONFIG);
        assert_string_equal(e.msg, "the.db: this file is no SQLite database");
        close_db(db);
    }
    fresh();
    put_bytes(DB, text, strlen(text), 0600);
    sqlite3 *db = open_db();
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_CONFIG);
    close_db(db);
    assert_text(DB, text); /* as it was */
}

/* A lock that another holds ends in an error, not in a second migration. */
static void test_locked(void **state)
{
    struct error e;

    (void)state;
    fresh();
    sqlite3 *other = open_db();
    sqlite3 *db = open_db();
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "the.db: cannot write: database is locked"));
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(apply_to(db, steps, 3, &e), ERR_OK);
    close_db(db);
    close_db(other);
}

static void test_failures(void **state)
{
    struct error e = {0};

    (void)state;
    assert_int_equal(schema_fail(NULL, SQLITE_NOMEM, "p", "w", &e), ERR_NOMEM);
    assert_int_equal(schema_fail(NULL, SQLITE_CORRUPT, "p", "w", &e), ERR_CONFIG);
    assert_int_equal(schema_fail(NULL, SQLITE_IOERR_WRITE, "p", "w", &e), ERR_IO);
    assert_string_equal(e.msg, "p: w: disk I/O error");
}

static int set_up(void **state)
{
    (void)state;
    make_place();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fresh();
    return rmdir(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_file),     cmocka_unit_test(test_from_each_version),
        cmocka_unit_test(test_failing_step), cmocka_unit_test(test_newer),
        cmocka_unit_test(test_foreign),      cmocka_unit_test(test_no_database),
        cmocka_unit_test(test_locked),       cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
