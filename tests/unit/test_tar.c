/* engine/tar: read back by libarchive, as engines read it. */
#include "engine/tar.h"

#include "fixtures/place.h"
#include "fixtures/torture.h"
#include "spec/workspace.h"

#include <archive.h>
#include <archive_entry.h>

#define NO_BOUND UINT64_MAX

static int setup(void **state)
{
    (void)state;
    make_place();
    put_directory("tmp");
    put_directory("ctx");
    return setenv("TMPDIR", at("tmp"), 1);
}

/* Whatever happened, no temporary file has a name. */
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(rmdir(at("tmp")), 0);
    return workspace_remove(place, NULL) == ERR_OK && !there(".") ? 0 : 1;
}

static struct span make(const char *always)
{
    struct span tar = {NULL, 0};
    struct error e = {0};

    if (tar_directory(at("ctx"), always, NO_BOUND, &tar, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    return tar;
}

static struct archive *open_tar(struct span tar)
{
    struct archive *a = archive_read_new();

    assert_non_null(a);
    assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(a, tar.p, tar.n), ARCHIVE_OK);
    return a;
}

/* The names in it, each with a blank after it. */
static void assert_names(const char *always, const char *expected)
{
    char names[4096] = "";
    size_t n = 0;
    struct archive_entry *entry = NULL;
    struct span tar = make(always);
    struct archive *a = open_tar(tar);

    for (int rc = archive_read_next_header(a, &entry); rc != ARCHIVE_EOF;
         rc = archive_read_next_header(a, &entry)) {
        assert_int_equal(rc, ARCHIVE_OK);
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s ", archive_entry_pathname(entry));
    }
    archive_read_free(a);
    tar_free(&tar);
    assert_null(tar.p);
    assert_string_equal(names, expected);
}

/* Goes to the entry `name`. */
static struct archive_entry *find(struct archive *a, const char *name)
{
    struct archive_entry *entry = NULL;

    do {
        assert_int_equal(archive_read_next_header(a, &entry), ARCHIVE_OK);
    } while (strcmp(archive_entry_pathname(entry), name) != 0);
    return entry;
}

static void test_content(void **state)
{
    static char block[100001];
    static char got[sizeof(block) + 1];
    struct timespec then[2] = {{1000000000, 5}, {1234567890, 5}};

    (void)state;
    memset(block, 'x', sizeof(block));
    block[0] = '\0';
    put("ctx/Dockerfile", "FROM scratch\n");
    put_bytes("ctx/block", block, sizeof(block), 0751);
    put_directory("ctx/d");
    put("ctx/d/empty", "");
    put_link("ctx/link", "../outside");
    assert_int_equal(mkfifo(at("ctx/fifo"), 0600), 0);
    assert_int_equal(utimensat(AT_FDCWD, at("ctx/block"), then, 0), 0);
    assert_names(NULL, "Dockerfile block d/ d/empty link ");
    struct span tar = make(NULL);
    assert_int_equal(tar.n % 512, 0);
    assert_memory_equal(tar.p + 257, "ustar", 5); /* not gnu's own */
    struct archive *a = open_tar(tar);
    struct archive_entry *entry = find(a, "block");
    assert_int_equal(archive_entry_mode(entry), S_IFREG | 0751);
    assert_int_equal(archive_entry_uid(entry), 0);
    assert_int_equal(archive_entry_gid(entry), 0);
    assert_int_equal(archive_entry_mtime(entry), 1234567890);
    assert_int_equal(archive_entry_size(entry), (int64_t)sizeof(block));
    assert_int_equal(archive_read_data(a, got, sizeof(got)), (int64_t)sizeof(block));
    assert_memory_equal(got, block, sizeof(block));
    assert_int_equal(archive_entry_filetype(find(a, "d/")), S_IFDIR);
    entry = find(a, "link");
    assert_int_equal(archive_entry_filetype(entry), S_IFLNK);
    assert_string_equal(archive_entry_symlink(entry), "../outside"); /* a link, not its content */
    archive_read_free(a);
    tar_free(&tar);
}

/* Names that are no ASCII, or too long for the old format, whatever the locale. */
static void test_names(void **state)
{
    static const char *const odd[] = {"\xc3\xbc", "\xff\xfe", "a b", "new\nline", "-x"};
    char name[300] = "ctx/";
    struct span tar = {NULL, 0};

    (void)state;
    memset(name + 4, 'n', 200);
    put_directory(name);
    memset(name + 204, 'm', 90);
    name[204] = '/';
    put(name, "deep");
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        put(in("ctx", odd[i]), odd[i]);
    }
    put_link(in("ctx", "link"), "\xc3\xa4\xff");
    tar = make(NULL);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char got[64] = "";
        struct archive *a = open_tar(tar);
        (void)find(a, odd[i]);
        assert_int_equal(archive_read_data(a, got, sizeof(got)), (int64_t)strlen(odd[i]));
        assert_string_equal(got, odd[i]);
        archive_read_free(a);
    }
    struct archive *a = open_tar(tar);
    (void)find(a, name + 4);
    archive_read_free(a);
    a = open_tar(tar);
    assert_string_equal(archive_entry_symlink(find(a, "link")), "\xc3\xa4\xff");
    archive_read_free(a);
    tar_free(&tar);
}

static void test_ignore(void **state)
{
    (void)state;
    put("ctx/.env", "KEY=1");
    put("ctx/a", "");
    put_directory("ctx/d");
    put("ctx/d/keep", "");
    put("ctx/d/x", "");
    put_directory("ctx/e");
    put("ctx/e/Dockerfile", "");
    put("ctx/e/x", "");
    assert_names(NULL, ".env a d/ d/keep d/x e/ e/Dockerfile e/x ");
    put("ctx/.dockerignore", ".env\nd\n");
    assert_names(NULL, ".dockerignore a e/ e/Dockerfile e/x ");
    put("ctx/.dockerignore", "d\n!d/keep\n");
    assert_names(NULL, ".dockerignore .env a d/keep e/ e/Dockerfile e/x ");
    put("ctx/.dockerignore", "*\n!a\n"); /* what the engine itself reads is sent */
    assert_names("e/Dockerfile", ".dockerignore a e/Dockerfile ");
    assert_names(NULL, ".dockerignore a ");
    put("ctx/.dockerignore", "*");
    assert_names("a", ".dockerignore a ");
    put("ctx/.dockerignore", "");
    assert_names(NULL, ".dockerignore .env a d/ d/keep d/x e/ e/Dockerfile e/x ");
}

static int archive_unreadable(void)
{
    struct span tar = {NULL, 0};
    struct error e = {0};

    if (tar_directory(at("ctx"), NULL, NO_BOUND, &tar, &e) != ERR_CONFIG ||
        strstr(e.msg, "ctx: d/locked: Permission denied") == NULL) {
        return 1;
    }
    if (tar_directory(at("ctx2"), NULL, NO_BOUND, &tar, &e) != ERR_OK) {
        return 2; /* what cannot be read is left out by a pattern */
    }
    tar_free(&tar);
    if (tar_directory(at("ctx3"), NULL, NO_BOUND, &tar, &e) != ERR_CONFIG ||
        strstr(e.msg, ".dockerignore: cannot be opened") == NULL) {
        return 3;
    }
    return tar.p == NULL ? 0 : 4;
}

static void test_faults(void **state)
{
    static char block[70000];
    struct span tar = {NULL, 0};
    struct error e = {0};

    (void)state;
    assert_int_equal(tar_directory(at("nowhere"), NULL, NO_BOUND, &tar, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "nowhere: No such file"));
    put_directory("ctx/d");
    put_bytes("ctx/d/locked", "x", 1, 0000);
    put_directory("ctx2");
    put_directory("ctx2/data");
    put("ctx2/.dockerignore", "data\n");
    assert_int_equal(chmod(at("ctx2/data"), 0000), 0);
    put_directory("ctx3");
    put_bytes("ctx3/.dockerignore", "x", 1, 0000); /* what would be in is not guessed */
    give_to_nobody("tmp");
    assert_int_equal(as_nobody(archive_unreadable), 0);
    assert_int_equal(unlink(at("ctx/d/locked")), 0);
    put_link("ctx/.dockerignore", "nowhere");
    assert_int_equal(tar_directory(at("ctx"), NULL, NO_BOUND, &tar, &e), ERR_CONFIG);
    assert_int_equal(unlink(at("ctx/.dockerignore")), 0);
    assert_int_equal(setenv("TMPDIR", at("no such place"), 1), 0);
    assert_int_equal(tar_directory(at("ctx"), NULL, NO_BOUND, &tar, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "no such place: No such file"));
    assert_int_equal(setenv("TMPDIR", at("tmp"), 1), 0);
    /* The bound: exactly so large, and one byte less; over it also in the middle. */
    put_bytes("ctx/block", block, sizeof(block), 0600);
    tar = make(NULL);
    size_t n = tar.n;
    tar_free(&tar);
    assert_int_equal(tar_directory(at("ctx"), NULL, n, &tar, &e), ERR_OK);
    assert_int_equal(tar.n, n);
    tar_free(&tar);
    const uint64_t less[] = {0, 1, 512, 65535, 65536, n - 512, n - 1};
    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
        assert_int_equal(tar_directory(at("ctx"), NULL, less[i], &tar, &e), ERR_LIMIT);
        assert_non_null(strstr(e.msg, "ctx: larger than 0 MiB"));
        assert_null(tar.p);
    }
}

static void test_empty_and_absent(void **state)
{
    struct span none = {NULL, 0};

    (void)state;
    assert_names("Dockerfile", "");
    tar_free(&none);
    assert_null(none.p);
}

static void test_no_memory(void **state)
{
    struct span tar = {NULL, 0};
    struct error e = {0};
    size_t n = 0;

    (void)state;
    put("ctx/.dockerignore", "x\n");
    put("ctx/a", "a");
    torture_fail_after(0);
    while (tar_directory(at("ctx"), NULL, NO_BOUND, &tar, &e) != ERR_OK) {
        assert_int_equal(e.code, ERR_NOMEM);
        assert_null(tar.p);
        torture_fail_after(++n);
    }
    torture_off();
    assert_true(n > 0);
    tar_free(&tar);
}

#define TEST(name) cmocka_unit_test_setup_teardown((name), setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_content),          TEST(test_names),     TEST(test_ignore), TEST(test_faults),
        TEST(test_empty_and_absent), TEST(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
