/*
 * The ledger in trouble: files it must not take, a disk that is full for real, a database that
 * another program locks, a process killed in the middle of its load, no memory, no room in the
 * queue. No row is lost but where the bounds say so, and none is there twice.
 */
#include "fixtures/ledger_bed.h"

#include "base/log.h"
#include "fixtures/torture.h"
#include "ledger/item.h"
#include "ledger/store.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#define LOG_FILE "log"

static void check_refused(const char *path, enum err expected, const char *words)
{
    struct ledger *l = NULL;
    struct error e = {0};

    assert_int_equal(ledger_open(path, 0, &l, &e), expected);
    assert_null(l);
    assert_non_null(strstr(e.msg, path));
    if (strstr(e.msg, words) == NULL) {
        fail_msg("%s", e.msg);
    }
}

/* What the ledger says goes to a file. */
static int catch_log(void)
{
    int saved = dup(STDERR_FILENO);
    int fd = open(at(LOG_FILE), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

    assert_true(saved >= 0 && fd >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    return saved;
}

static void release_log(int saved)
{
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
}

static unsigned logged(const char *words)
{
    static char text[65536];
    unsigned n = 0;
    int fd = open(at(LOG_FILE), O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, sizeof(text) - 1);

    assert_true(got >= 0);
    close(fd);
    text[got] = '\0';
    for (const char *p = strstr(text, words); p != NULL; p = strstr(p + 1, words)) {
        n++;
    }
    return n;
}

/* Rows numbered from..to-1, so that sums tell a missing or a double one. */
static void put_numbered(struct bed *b, const char *grant, uint64_t from, uint64_t to)
{
    struct ledger_row r = bed_row();

    r.grant = grant;
    r.cost_nano = 1;
    r.output_tokens = 0;
    for (uint64_t i = from; i < to; i++) {
        r.input_tokens = i;
        ledger_put(b->l, &r);
    }
}

/* Rows 1..n of the grant are there, each once; gives n. */
static uint64_t check_numbered(struct bed *b, const char *grant)
{
    int64_t n = 0;
    uint64_t sum = 0;
    struct error e = {0};

    assert_int_equal(ledger_spent(b->l, grant, 0, &n, &sum, &e), ERR_OK);
    assert_int_equal(sum, (uint64_t)n * ((uint64_t)n + 1) / 2);
    return (uint64_t)n;
}

/* ---- files that it must not take ---- */

static void test_files_refused(void **state)
{
    char *path = strdup(bed_fresh());
    struct bed b;

    (void)state;
    bed_sql(path, "CREATE TABLE somebody (x)");
    check_refused(path, ERR_CONFIG, "belongs to another program");
    assert_int_equal(bed_number(path, "SELECT count(*) FROM sqlite_master"), 1);
    (void)bed_fresh();
    put_bytes(BED_FILE, "models:\n", 8, 0600);
    check_refused(path, ERR_CONFIG, "no SQLite database");
    assert_text(BED_FILE, "models:\n");
    (void)bed_fresh();
    bed_open(&b, path, 0);
    bed_close(&b);
    bed_sql(path, "PRAGMA user_version = 7");
    check_refused(path, ERR_CONFIG, "schema version 7, this program knows 1 to 1");
    assert_int_equal(bed_number(path, "PRAGMA user_version"), 7);
    check_refused(place, ERR_CONFIG, "not a regular file");
    check_refused(at("no/such/usage.db"), ERR_IO, "No such file or directory");
    free(path);
}

static int opens_as_nobody(void)
{
    struct ledger *l = NULL;
    struct error e = {0};
    enum err rc = ledger_open(at(BED_FILE), 0, &l, &e);

    ledger_close(l);
    if (rc != ERR_IO || strstr(e.msg, at(BED_FILE)) == NULL) {
        return 1;
    }
    return strstr(e.msg, "Permission denied") != NULL ? 0 : 2;
}

static void test_may_not(void **state)
{
    struct bed b;

    (void)state;
    (void)bed_fresh(); /* nobody may not make a file here */
    assert_int_equal(as_nobody(opens_as_nobody), 0);
    bed_open(&b, bed_fresh(), 0);
    bed_close(&b); /* mode 0600, and root's */
    assert_int_equal(as_nobody(opens_as_nobody), 0);
    give_to_nobody(BED_FILE); /* the file alone is not enough */
    assert_int_equal(as_nobody(opens_as_nobody), 0);
}

/* Names that SQLite takes for something else are files. */
static void test_special_names(void **state)
{
    static const char *const names[] = {":memory:", "file:x?mode=memory"};
    char *old = getcwd(NULL, 0);
    struct bed b;

    (void)state;
    assert_int_equal(chdir(place), 0);
    for (size_t i = 0; i < 2; i++) {
        bed_open(&b, names[i], 0);
        bed_close(&b);
        assert_true(there(names[i]));
        assert_int_equal(unlink(names[i]), 0);
    }
    check_refused("", ERR_CONFIG, "a database's path has");
    assert_int_equal(chdir(old), 0);
    free(old);
}

static void test_damaged(void **state)
{
    char *path = strdup(bed_fresh());
    char block[4096];
    struct bed b;

    (void)state;
    bed_open(&b, path, 0);
    put_numbered(&b, "g", 1, 2000);
    bed_close(&b);
    /* As after a crash: a log beside the file, and a page of the file gone. */
    put_bytes(BED_FILE "-wal", "x", 1, 0600);
    memset(block, 0x5a, sizeof(block));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, block, sizeof(block), 4 * 4096), sizeof(block));
    close(fd);
    check_refused(path, ERR_CONFIG, "the database is damaged");
    free(path);
}

/* ---- a database that cannot be written for a while ---- */

/* In a mount namespace of its own, so that nothing of it stays. */
static void test_full_disk(void **state)
{
    char filler[4096] = {0};
    struct bed b;

    (void)state;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) {
        skip();
    }
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    put_directory("small");
    if (mount("tmpfs", at("small"), "tmpfs", 0, "size=1m") != 0) {
        assert_int_equal(rmdir(at("small")), 0);
        skip();
    }
    int log = catch_log();
    bed_open(&b, at("small/usage.db"), 0);
    put_numbered(&b, "g", 1, 11);
    bed_await_written(&b, 10);
    int fd = open(at("small/filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, filler, sizeof(filler)) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
    put_numbered(&b, "g", 11, 3001);
    bed_await_failing(&b);
    put_numbered(&b, "g", 3001, 4001); /* behind those that wait */
    assert_int_equal(bed_stats(&b).waiting, 3990);
    assert_int_equal(bed_stats(&b).written, 10);
    (void)bed_answer(&b, 0, 0, 0); /* what waits cannot be in the answer */
    assert_int_equal(b.rc, ERR_IO);
    usleep(200000); /* a few more tries */
    assert_int_equal(logged("rows cannot be written"), 1);
    assert_int_equal(logged("can be written again"), 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    bed_await_written(&b, 4000);
    assert_int_equal(check_numbered(&b, "g"), 4000);
    struct ledger_stats s = bed_stats(&b);
    assert_true(s.lost == 0 && s.waiting == 0 && !s.failing);
    bed_close(&b);
    release_log(log);
    assert_int_equal(logged("rows cannot be written"), 1);
    assert_int_equal(logged("can be written again"), 1);
    assert_int_equal(logged("lost"), 0);
    /* In the order in which they were put. */
    assert_int_equal(
        bed_number(at("small/usage.db"), "SELECT sum(input_tokens = id) FROM requests"), 4000);
    assert_int_equal(umount(at("small")), 0);
    assert_int_equal(rmdir(at("small")), 0);
}

/* A batch is in the file as a whole or not at all, and can be written again. */
static void test_batch_is_whole(void **state)
{
    char *path = strdup(bed_fresh());
    struct store *store = NULL;
    struct ledger_row r = bed_row();
    struct list items;
    struct error e = {0};

    (void)state;
    list_init(&items);
    for (r.input_tokens = 1; r.input_tokens <= 3; r.input_tokens++) {
        struct ledger_item *item = ledger_item_row(&r);
        list_push_back(&items, &item->node);
    }
    assert_int_equal(store_open(path, &store, NULL), ERR_OK);
    bed_sql(path, "CREATE TRIGGER t BEFORE INSERT ON requests WHEN NEW.input_tokens = 3 BEGIN "
                  "SELECT RAISE(FAIL, 'not this one'); END");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(store_write(store, &items, &e), ERR_IO);
        assert_non_null(strstr(e.msg, "cannot write: not this one"));
        assert_int_equal(bed_number(path, "SELECT count(*) FROM requests"), 0);
    }
    bed_sql(path, "DROP TRIGGER t");
    assert_int_equal(store_write(store, &items, &e), ERR_OK);
    assert_int_equal(bed_number(path, "SELECT sum(input_tokens = id) FROM requests"), 3);
    ledger_items_free(&items);
    store_close(store);
    free(path);
}

static sqlite3 *lock(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 10000), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void unlock(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_locked(void **state)
{
    char *path = strdup(bed_fresh());
    int log = catch_log();
    struct bed b;

    (void)state;
    bed_open(&b, path, 0);
    put_numbered(&b, "g", 1, 3);
    bed_await_written(&b, 2);
    sqlite3 *db = lock(path);
    put_numbered(&b, "g", 3, 6);
    ledger_keep_grant(b.l, "id", SPAN("{}"), 1);
    bed_await_failing(&b);
    assert_int_equal(bed_stats(&b).waiting, 3); /* rows, not the grant */
    unlock(db);
    bed_await_written(&b, 5);
    assert_int_equal(check_numbered(&b, "g"), 5);
    db = lock(path);
    put_numbered(&b, "g", 6, 8);
    bed_await_failing(&b);
    unlock(db);
    bed_close(&b); /* writes what waits, though its next try is not due */
    release_log(log);
    assert_int_equal(logged("rows cannot be written"), 2);
    assert_int_equal(logged("can be written again"), 2);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM requests"), 7);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM grants"), 1);
    free(path);
}

/* The bounds of the queue, counted exactly; the end is not held up for ever. */
static void test_lost(void **state)
{
    static const struct ledger_tuning small = {
        .items_max = 10, .bytes_max = 100000, .retry_max_ms = 20, .close_ms = 1};
    static char text[60000];
    char *path = strdup(bed_fresh());
    int log = catch_log();
    struct ledger_row r = bed_row();
    struct bed b;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    bed_open_tuned(&b, path, 0, &small);
    sqlite3 *db = lock(path);
    put_numbered(&b, "g", 1, 14);
    struct ledger_stats s = bed_stats(&b);
    assert_true(s.waiting == 10 && s.lost == 3 && s.written == 0);
    for (unsigned i = 0; i < 11; i++) { /* rows do not cost a grant its place, to a bound */
        ledger_keep_grant(b.l, i < 5 ? "a" : "b", SPAN("{}"), i);
    }
    s = bed_stats(&b);
    assert_true(s.waiting == 10 && s.lost == 4);
    unlock(db);
    bed_await_written(&b, 10);
    assert_int_equal(check_numbered(&b, "g"), 10);
    db = lock(path);
    r.prompt = text;
    ledger_put(b.l, &r);
    ledger_put(b.l, &r); /* the bytes of two are too many */
    s = bed_stats(&b);
    assert_true(s.waiting == 1 && s.lost == 5);
    r.prompt = NULL;
    ledger_put(b.l, &r);
    assert_int_equal(bed_stats(&b).waiting, 2);
    bed_close(&b); /* gives up */
    unlock(db);
    release_log(log);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM requests"), 10);
    assert_int_equal(bed_number(path, "SELECT count(*) FROM grants"), 2);
    assert_int_equal(logged("lost_in_all=7 waiting=0"), 1);
    assert_in_range(logged("rows are lost"), 2, 4); /* not one a row */
    free(path);
}

/* ---- kill -9 ---- */

#define ROUNDS 20

/* Puts rows without end and reports how many it saw committed. */
static _Noreturn void load_until_killed(const char *path, const char *grant, int fd)
{
    struct ledger *l = NULL;
    struct error e = {0};

    if (ledger_open(path, 0, &l, &e) != ERR_OK) {
        _exit(1);
    }
    struct bed b = {.l = l};
    uint64_t told = 0;
    for (uint64_t i = 1;; i += 7) {
        put_numbered(&b, grant, i, i + 7);
        struct ledger_stats s = bed_stats(&b);
        if (s.lost > 0 || s.waiting > 5000) {
            usleep(500);
        }
        if (s.written != told && write(fd, &s.written, sizeof(s.written)) != sizeof(s.written)) {
            _exit(2);
        }
        told = s.written;
    }
}

/* Kills a child after so many reports; the last number that it could report. */
static uint64_t run_and_kill(const char *path, const char *grant, unsigned reports)
{
    uint64_t seen = 0;
    uint64_t number = 0;
    int status = 0;
    int fd[2];

    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fd[0]);
        load_until_killed(path, grant, fd[1]);
    }
    close(fd[1]);
    while (read(fd[0], &number, sizeof(number)) == sizeof(number)) {
        seen = number;
        reports--;
        if (reports == 0) {
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
    }
    close(fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return seen;
}

/* All that was committed is there, nothing twice, no hole; again and again on the same file. */
static void test_killed(void **state)
{
    char *path = strdup(bed_fresh());
    uint64_t all = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char grant[16];
        char line[64];
        struct bed b;
        (void)snprintf(grant, sizeof(grant), "round %u", i);
        uint64_t seen = run_and_kill(path, grant, 1 + i % 7 * 3);
        assert_true(seen > 0);
        int log = catch_log();
        bed_open(&b, path, 0);
        release_log(log);
        uint64_t found = check_numbered(&b, grant);
        assert_true(found >= seen);
        all += found;
        (void)snprintf(line, sizeof(line), "rows=%llu ", (unsigned long long)all);
        assert_int_equal(logged("recovered after an end without a close"), 1);
        assert_int_equal(logged(line), 1);
        bed_close(&b);
    }
    int log = catch_log();
    struct bed b;
    bed_open(&b, path, 0); /* after a clean end there is nothing to say */
    bed_close(&b);
    release_log(log);
    assert_int_equal(logged("recovered"), 0);
    free(path);
}

/* ---- no memory ---- */

static void test_open_without_memory(void **state)
{
    char *path = strdup(bed_fresh());
    enum err rc = ERR_NOMEM;
    unsigned n = 0;

    (void)state;
    for (; rc != ERR_OK; n++) {
        struct ledger *l = NULL;
        struct error e = {0};
        assert_true(n < 100);
        torture_fail_after(n);
        rc = ledger_open(path, 1, &l, &e);
        torture_off();
        assert_true(rc == ERR_OK || (rc == ERR_NOMEM && l == NULL));
        ledger_close(l);
    }
    assert_true(n > 3);
    free(path);
}

/* A row without memory is lost and counted, a question is answered or fails; the rest goes on. */
static void test_use_without_memory(void **state)
{
    struct bed b;
    struct ledger_row r = bed_row();
    unsigned failed = 0;
    unsigned refused = 0;

    (void)state;
    log_setup(LOG_ERROR, LOG_FORMAT_TEXT, NULL);
    bed_open(&b, bed_fresh(), 0);
    torture_fail_after(0);
    ledger_put(b.l, &r);
    torture_off();
    assert_int_equal(bed_stats(&b).lost, 1);
    for (size_t n = 0; n < 20; n++) {
        const struct ledger_query q = {.by = n % 2 == 0 ? LEDGER_BY_ALL : 0};
        struct ledger_reading *out = NULL;
        unsigned before = b.answers;
        ledger_put(b.l, &r);
        bed_await_written(&b, n + 1);
        torture_fail_after(n);
        if (ledger_ask(b.l, &q, b.loop, bed_on_answer, &b, &out, NULL) != ERR_OK) {
            refused++;
            torture_off();
            continue;
        }
        while (b.answers == before) {
            loop_turn(b.loop);
        }
        torture_off();
        assert_true(b.rc == ERR_OK || b.rc == ERR_NOMEM);
        failed += b.rc == ERR_OK ? 0 : 1;
    }
    assert_int_equal(refused, 1);
    assert_true(failed > 0);
    (void)bed_answer(&b, LEDGER_BY_GRANT, 0, 0);
    assert_non_null(strstr(b.text, "{\"grant\":\"ci\",\"requests\":20,"));
    bed_close(&b);
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
}

static void on_grant(void *ctx, const char *id, struct span json, uint64_t expires_ms)
{
    unsigned *n = ctx;

    assert_true(id[0] == 'g' && json.n == 2 && expires_ms == 9);
    (*n)++;
}

static void test_grants_without_memory(void **state)
{
    struct bed b;
    unsigned calls = 0;

    (void)state;
    bed_open(&b, bed_fresh(), 0);
    ledger_keep_grant(b.l, "g1", SPAN("{}"), 9);
    ledger_keep_grant(b.l, "g2", SPAN("{}"), 9);
    assert_int_equal(ledger_grants(b.l, on_grant, &calls, NULL), ERR_OK);
    assert_int_equal(calls, 2);
    for (size_t n = 0; n < 2; n++) {
        struct error e = {0};
        torture_fail_after(n);
        assert_int_equal(ledger_grants(b.l, on_grant, &calls, &e), ERR_NOMEM);
        torture_off();
        assert_non_null(strstr(e.msg, "out of memory"));
        assert_int_equal(calls, 2);
    }
    torture_fail_after(0);
    ledger_drop_grant(b.l, "g1");
    torture_off();
    assert_int_equal(bed_stats(&b).lost, 1);
    bed_close(&b);
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
    (void)bed_fresh();
    (void)unlink(at(LOG_FILE));
    return rmdir(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_refused),
        cmocka_unit_test(test_may_not),
        cmocka_unit_test(test_special_names),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_batch_is_whole),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_use_without_memory),
        cmocka_unit_test(test_grants_without_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
