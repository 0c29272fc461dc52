/* spec/source_hash and spec/tree, on a real file system. */
#include "fixtures/place.h"
#include "fixtures/torture.h"
#include "spec/source_hash.h"
#include "spec/tree.h"
#include "spec/workspace.h"

static int setup(void **state)
{
    (void)state;
    make_place();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return workspace_remove(place, NULL) == ERR_OK && !there(".") ? 0 : 1;
}

/* The hash of one directory. A copy: two are compared. */
struct digits {
    char text[SOURCE_HASH_SIZE];
};

static struct digits hash_of(const char *name)
{
    struct digits out;
    struct error e = {0};
    const char *dir = at(name);

    if (source_hash(&dir, 1, out.text, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    return out;
}

static void assert_same(struct digits a, struct digits b)
{
    assert_string_equal(a.text, b.text);
}

static void assert_other(struct digits a, struct digits b)
{
    assert_string_not_equal(a.text, b.text);
}

/* Images carry these digits: the form may not change unnoticed. Computed by hand with sha256sum
 * from what source_hash.h says. */
static void test_known(void **state)
{
    (void)state;
    put_directory("src");
    assert_string_equal(hash_of("src").text, "cb76f2a353bd082f");
    put_directory("src/b");
    put_directory("src/c");
    put_directory("src/c/d");
    put_bytes("src/c/d/e", "\0\1", 2, 0600);
    put("src/b.c", "x\n");
    put("src/b/a", "");
    put("src/a", "bc");
    assert_string_equal(hash_of("src").text, "ba33d378c644940a");
}

static void test_what_counts(void **state)
{
    (void)state;
    put_directory("src");
    put("src/a", "bc");
    put("src/d", "d");
    struct digits first = hash_of("src");
    put("src/a", "bd"); /* content */
    assert_other(first, hash_of("src"));
    assert_int_equal(rename(at("src/a"), at("src/ab")), 0); /* where name and content meet */
    put("src/ab", "c");
    assert_other(first, hash_of("src"));
    assert_int_equal(unlink(at("src/ab")), 0);
    assert_other(first, hash_of("src"));
    put("src/a", "bc");
    assert_same(first, hash_of("src"));
    put("src/e", ""); /* an empty file is one more */
    assert_other(first, hash_of("src"));
    assert_int_equal(unlink(at("src/e")), 0);
    put_directory("src/sub"); /* the same file elsewhere */
    assert_int_equal(rename(at("src/d"), at("src/sub/d")), 0);
    assert_other(first, hash_of("src"));
}

static void test_what_does_not_count(void **state)
{
    (void)state;
    put_directory("src");
    put("src/a", "bc");
    struct digits first = hash_of("src");
    put_directory("src/.git");
    put("src/.git/HEAD", "x");
    put("src/.env", "KEY=1");
    put("src/m.pyc", "x");
    put_directory("src/__pycache__");
    put("src/__pycache__/y.py", "x");
    put_directory("src/empty");
    put_directory("src/empty/.hidden");
    put("src/empty/.hidden/x", "x");
    put("outside", "x");
    put_link("src/link", "../outside");
    put_link("src/links", "..");
    assert_int_equal(mkfifo(at("src/fifo"), 0600), 0);
    assert_int_equal(chmod(at("src/a"), 0700), 0);
    assert_int_equal(rename(at("src"), at("elsewhere")), 0);
    assert_same(first, hash_of("elsewhere"));
}

static void test_several(void **state)
{
    char a[PATH_MAX];
    char b[PATH_MAX];
    struct digits ab;
    struct digits ba;
    struct digits thrice;

    (void)state;
    put_directory("a");
    put_directory("b");
    put("a/x", "x");
    snprintf(a, sizeof(a), "%s", at("a"));
    snprintf(b, sizeof(b), "%s", at("b"));
    assert_int_equal(source_hash((const char *[]){a, b}, 2, ab.text, NULL), ERR_OK);
    assert_int_equal(source_hash((const char *[]){b, a}, 2, ba.text, NULL), ERR_OK);
    assert_other(ab, ba); /* which of them has the file counts */
    assert_other(ab, hash_of("a"));
    /* A file cannot pass for a directory. */
    assert_int_equal(source_hash((const char *[]){b, b, b}, 3, thrice.text, NULL), ERR_OK);
    put("b/directory", "directory");
    assert_other(thrice, hash_of("b"));
}

static int hash_unreadable(void)
{
    char out[SOURCE_HASH_SIZE] = "before";
    struct error e = {0};
    const char *dir = at("src");
    bool file = source_hash(&dir, 1, out, &e) == ERR_CONFIG &&
                strstr(e.msg, "src: a/locked: Permission denied") != NULL;

    dir = at("src/a");
    bool directory = source_hash(&dir, 1, out, &e) == ERR_CONFIG;
    dir = at("list");
    bool entries = source_hash(&dir, 1, out, &e) == ERR_CONFIG &&
                   strstr(e.msg, "list: .: Permission denied") != NULL;
    return file && directory && entries && strcmp(out, "before") == 0 ? 0 : 1;
}

static void test_faults(void **state)
{
    char out[SOURCE_HASH_SIZE] = "before";
    struct error e = {0};
    const char *missing = "/nowhere/at/all";

    (void)state;
    assert_int_equal(source_hash(&missing, 1, out, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "/nowhere/at/all: No such file or directory");
    put("file", "x");
    missing = at("file");
    assert_int_equal(source_hash(&missing, 1, out, &e), ERR_CONFIG);
    assert_string_equal(out, "before");
    /* What cannot be read is said, never left out in silence. */
    put_directory("src");
    put_directory("src/a");
    put_bytes("src/a/locked", "x", 1, 0000);
    put_directory("list");
    put("list/x", "x");
    assert_int_equal(chmod(at("list"), 0744), 0); /* names, but not what they are */
    if (geteuid() == 0) {
        assert_int_equal(as_nobody(hash_unreadable), 0);
    }
}

static void test_no_memory(void **state)
{
    char out[SOURCE_HASH_SIZE] = "before";
    struct error e = {0};
    size_t n = 0;

    (void)state;
    put_directory("src");
    put("src/a", "x");
    const char *dir = at("src");
    torture_fail_after(0);
    while (source_hash(&dir, 1, out, &e) != ERR_OK) {
        assert_int_equal(e.code, ERR_NOMEM);
        assert_string_equal(out, "before");
        torture_fail_after(++n);
    }
    torture_off();
    assert_int_equal(n, 1);
    assert_int_equal(strlen(out), 16);
}

/* ---- the walk ---- */

struct seen {
    char text[4096];
    const char *skip; /* a directory whose content is not wanted */
    const char *stop; /* where the walk ends */
};

static enum err on_entry(void *ctx, const struct tree_entry *entry, struct error *e)
{
    struct seen *seen = ctx;
    size_t n = strlen(seen->text);

    snprintf(seen->text + n, sizeof(seen->text) - n, "%s ", entry->path);
    if (seen->stop != NULL && strcmp(entry->path, seen->stop) == 0) {
        return err_set(e, ERR_LIMIT, "enough");
    }
    return seen->skip != NULL && strcmp(entry->path, seen->skip) == 0 ? ERR_AGAIN : ERR_OK;
}

static void test_walk(void **state)
{
    struct seen seen = {.skip = NULL};
    struct error e = {0};

    (void)state;
    put_directory("t");
    put_directory("t/b");
    put_directory("t/b/deep");
    put("t/b/deep/x", "");
    put("t/B", "");
    put("t/a", "");
    put("t/\xc3\xbc", "");
    put("t/.h", "");
    put_link("t/l", "b");
    assert_int_equal(tree_walk(at("t"), on_entry, &seen, &e), ERR_OK);
    assert_string_equal(seen.text, ".h B a b b/deep b/deep/x l \xc3\xbc ");
    seen = (struct seen){.skip = "b"};
    assert_int_equal(tree_walk(at("t"), on_entry, &seen, &e), ERR_OK);
    assert_string_equal(seen.text, ".h B a b l \xc3\xbc ");
    seen = (struct seen){.stop = "b/deep"};
    assert_int_equal(tree_walk(at("t"), on_entry, &seen, &e), ERR_LIMIT);
    assert_string_equal(seen.text, ".h B a b b/deep ");
    assert_non_null(strstr(e.msg, "/t: enough"));
}

static void test_walk_depth(void **state)
{
    static char path[PATH_MAX];
    struct seen seen = {.skip = NULL};
    struct error e = {0};
    size_t n = (size_t)snprintf(path, sizeof(path), "%s", at("deep"));

    (void)state;
    for (unsigned i = 0; i <= TREE_MAX_DEPTH + 1; i++) { /* the root and one part a level below */
        assert_int_equal(mkdir(path, 0700), 0);
        n += (size_t)snprintf(path + n, sizeof(path) - n, "/d");
    }
    assert_int_equal(tree_walk(at("deep/d"), on_entry, &seen, &e), ERR_OK);
    put("deep/d/x", "");
    seen = (struct seen){.skip = NULL};
    assert_int_equal(tree_walk(at("deep"), on_entry, &seen, &e), ERR_OK);
    path[n - 2] = '\0';
    assert_int_equal(mkdir(in(path, "more"), 0700), 0);
    assert_int_equal(tree_walk(at("deep"), on_entry, &seen, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "too deep"));
}

/* Between the look at an entry and its opening. */
static enum err on_swapped(void *ctx, const struct tree_entry *entry, struct error *e)
{
    (void)ctx;
    (void)e;
    assert_int_equal(unlink(at("t/x")), 0);
    assert_int_equal(mkfifo(at("t/x"), 0600), 0);
    assert_int_equal(tree_open(entry), -1);
    assert_int_equal(unlink(at("t/x")), 0);
    put_link("t/x", "/etc/passwd");
    assert_int_equal(tree_open(entry), -1);
    assert_int_equal(unlink(at("t/x")), 0);
    put("t/x", "x");
    int fd = tree_open(entry);
    assert_true(fd >= 0);
    close(fd);
    return ERR_OK;
}

static void test_open_swapped(void **state)
{
    struct error e = {0};

    (void)state;
    put_directory("t");
    put("t/x", "x");
    assert_int_equal(tree_walk(at("t"), on_swapped, NULL, &e), ERR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown((name), setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_known),   TEST(test_what_counts), TEST(test_what_does_not_count),
        TEST(test_several), TEST(test_faults),      TEST(test_no_memory),
        TEST(test_walk),    TEST(test_walk_depth),  TEST(test_open_swapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
