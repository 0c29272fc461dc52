/* spec/workspace, owner: on a real file system. */
#include "spec/workspace.h"

#include "fixtures/place.h"
#include "spec/owner.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mount.h>
#include <sys/resource.h>

static int setup(void **state)
{
    (void)state;
    make_place();
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return workspace_remove(place, NULL) == ERR_OK && !there(".") ? 0 : 1;
}

/* Temporary directories that are in the place: each test ends with none. */
static unsigned left(void)
{
    DIR *entries = opendir(place);
    unsigned n = 0;

    assert_non_null(entries);
    for (const struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        n += strncmp(d->d_name, "tactus-sandbox-", 15) == 0 ? 1 : 0;
    }
    closedir(entries);
    return n;
}

static void copy(const char *source, char dir[PATH_MAX])
{
    struct error e = {0};

    if (workspace_copy(at(source), NULL, dir, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
}

static void remove_tree(const char *dir)
{
    struct error e = {0};

    if (workspace_remove(dir, &e) != ERR_OK) {
        fail_msg("%s", e.msg);
    }
    assert_false(there(dir));
}

static void assert_left_out(const char *dir, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (there(in(dir, names[i]))) {
            fail_msg("%s is in the copy", names[i]);
        }
    }
}

#define ASSERT_LEFT_OUT(dir, names)                                                                \
    assert_left_out((dir), (names), sizeof(names) / sizeof((names)[0]))

/* ---- copies ---- */

static void test_copy(void **state)
{
    static const char *const hidden[] = {".env",        ".git", "sub/.secret",
                                         "sub/.hidden", "fifo", ".link"};
    char dir[PATH_MAX];

    (void)state;
    put_directory("src");
    put_directory("src/sub");
    put_directory("src/.git");
    put_directory("src/sub/.hidden");
    put("src/a.tac", "a procedure");
    put("src/empty", "");
    put("src/.env", "KEY=1");
    put("src/.git/config", "x");
    put("src/sub/.secret", "x");
    put("src/sub/.hidden/x", "x");
    put("src/sub/\xc3\xbc and blank", "named");
    put_link("src/.link", "a.tac");
    assert_int_equal(mkfifo(at("src/fifo"), 0600), 0);
    copy("src", dir);
    assert_int_equal(mode_of(dir), 0700);
    assert_int_equal(strncmp(dir, place, strlen(place)), 0);
    assert_non_null(strstr(dir, "/tactus-sandbox-"));
    assert_text(in(dir, "a.tac"), "a procedure");
    assert_text(in(dir, "empty"), "");
    assert_text(in(dir, "sub/\xc3\xbc and blank"), "named");
    ASSERT_LEFT_OUT(dir, hidden);
    remove_tree(dir);
    remove_tree(dir); /* gone is fine */
}

static void test_copy_modes_and_times(void **state)
{
    static const mode_t modes[] = {0400, 0444, 0640, 0755, 0777};
    const struct timespec then[2] = {{1000000000, 123}, {1234567890, 987654321}};
    struct stat st;
    char dir[PATH_MAX];
    char name[32];

    (void)state;
    put_directory("src");
    put_directory("src/sub");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        snprintf(name, sizeof(name), "src/sub/%o", (unsigned)modes[i]);
        put_bytes(name, "x", 1, modes[i]);
    }
    put_bytes("src/setuid", "x", 1, 04755);
    assert_int_equal(utimensat(AT_FDCWD, at("src/setuid"), then, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, at("src/sub"), then, 0), 0);
    assert_int_equal(chmod(at("src/sub"), 0550), 0);
    copy("src", dir);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        snprintf(name, sizeof(name), "sub/%o", (unsigned)modes[i]);
        assert_int_equal(mode_of(in(dir, name)), modes[i]);
    }
    assert_int_equal(mode_of(in(dir, "setuid")), 0755); /* not that bit */
    assert_int_equal(mode_of(in(dir, "sub")), 0550);
    assert_int_equal(stat(in(dir, "setuid"), &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1234567890);
    assert_int_equal(st.st_mtim.tv_nsec, 987654321);
    assert_int_equal(stat(in(dir, "sub"), &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1234567890);
    remove_tree(dir);
}

static void test_copy_links(void **state)
{
    static const char *const outside[] = {"out",      "sub/out", "abs",     "sly",
                                          "chained",  "dots",    "dots2",   "self",
                                          "sub/self", "sly/x",   "sub/far", "sub/sly"};
    char dir[PATH_MAX];
    char target[64] = "";

    (void)state;
    put("outside", "outside");
    put_directory("src");
    put_directory("src/sub");
    put_directory("src/sub/deep");
    put("src/a.tac", "a procedure");
    put("src/sub/x", "x");
    put_link("src/in", "sub/x");
    put_link("src/sub/up", "../a.tac");
    put_link("src/sub/deep/root", "../..");
    put_link("src/dangling", "nowhere");
    put_link("src/directory", "./sub//deep/");
    /* Not these. */
    put_link("src/out", "../outside");
    put_link("src/sub/out", "../../outside");
    put_link("src/sub/far", "../../../../../../../etc/passwd");
    put_link("src/abs", "/etc/passwd");
    put_link("src/sly", "sub/../../outside");
    put_link("src/sub/sly", "deep/../x"); /* harmless, but nobody can tell what deep will be */
    /* By its letters it ends at sub; by the file system, three levels above the tree. */
    put_link("src/chained", "sub/deep/root/../../../outside");
    put_link("src/dots", "..");
    put_link("src/dots2", "./..");
    copy("src", dir);
    assert_text(in(dir, "in"), "x");
    assert_text(in(dir, "sub/up"), "a procedure");
    assert_text(in(dir, "sub/deep/root/a.tac"), "a procedure");
    assert_int_equal(readlink(in(dir, "dangling"), target, sizeof(target)), 7);
    assert_text(in(dir, "directory/root/a.tac"), "a procedure");
    ASSERT_LEFT_OUT(dir, outside);
    remove_tree(dir);
    assert_text("outside", "outside");
}

/* The procedure lies where temporary directories are: neither its own copy nor other runs'. */
static void test_copy_of_the_parent(void **state)
{
    char other[PATH_MAX];
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    put("a.tac", "a procedure");
    put_directory("tactus-sandbox-mine"); /* a name that only looks like it */
    put_directory("tactus-sandbox-12");
    put_directory("tactus-sandbox-12-34");
    put_directory("tactus-sandbox-");
    put_directory("tactus");
    put_directory("sub");
    put_directory("sub/tactus-sandbox-1-2-abcdef");
    assert_int_equal(workspace_make(other, &e), ERR_OK);
    put(in(other, "secret"), "of another run");
    copy(".", dir);
    assert_text(in(dir, "a.tac"), "a procedure");
    assert_true(there(in(dir, "tactus-sandbox-mine")));
    assert_true(there(in(dir, "tactus-sandbox-12")));
    assert_true(there(in(dir, "tactus-sandbox-12-34")));
    assert_true(there(in(dir, "tactus-sandbox-")));
    assert_true(there(in(dir, "tactus")));
    assert_false(there(in(dir, strrchr(other, '/') + 1)));
    assert_false(there(in(dir, strrchr(dir, '/') + 1)));
    assert_false(there(in(dir, "sub/tactus-sandbox-1-2-abcdef")));
    remove_tree(dir);
    remove_tree(other);
}

static void test_copy_large(void **state)
{
    static char block[200000]; /* several pieces, and a part of one */
    static char got[sizeof(block) + 1];
    char dir[PATH_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = (char)(i * 7 + i / 256);
    }
    put_directory("src");
    put_bytes("src/block", block, sizeof(block), 0600);
    int fd = open(at("src/holes"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    close(fd);
    copy("src", dir);
    fd = open(in(dir, "block"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, got, sizeof(got)), (ssize_t)sizeof(block));
    assert_memory_equal(got, block, sizeof(block));
    close(fd);
    struct stat st;
    assert_int_equal(stat(in(dir, "holes"), &st), 0);
    assert_int_equal(st.st_size, 1 << 20);
    remove_tree(dir);
}

/* Files whose size says 0 and which the kernel copies as empty. */
static void test_copy_sizeless(void **state)
{
    char dir[PATH_MAX];
    char got[64] = "";
    struct stat st;
    struct error e = {0};

    (void)state;
    if (stat("/proc/sys/kernel/random/boot_id", &st) != 0 || st.st_size != 0) {
        skip();
    }
    if (workspace_copy("/proc/sys/kernel/random", NULL, dir, &e) != ERR_OK) {
        assert_int_equal(e.code, ERR_CONFIG); /* one of its files is nobody's to read */
        skip();
    }
    int fd = open(in(dir, "boot_id"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, got, sizeof(got)), 37);
    close(fd);
    remove_tree(dir);
}

static void test_copy_owner(void **state)
{
    static const char *const names[] = {"", "x", "sub", "sub/link"};
    const struct workspace_owner owner = {.uid = 12345, .gid = 23456};
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    put_directory("src");
    put_directory("src/sub");
    put("src/x", "x");
    put_link("src/sub/link", "../x");
    assert_int_equal(workspace_copy(at("src"), &owner, dir, &e), ERR_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat st;
        assert_int_equal(lstat(in(dir, names[i]), &st), 0);
        assert_int_equal(st.st_uid, 12345);
        assert_int_equal(st.st_gid, 23456);
    }
    remove_tree(dir);
}

static void make_deep(const char *name, unsigned levels)
{
    int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; i < levels; i++) { /* longer than a path may be */
        assert_int_equal(mkdirat(fd, i == 0 ? name : "d", 0700), 0);
        int below = openat(fd, i == 0 ? name : "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        close(fd);
        fd = below;
    }
    close(fd);
}

static void test_copy_bounds(void **state)
{
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    make_deep("most", WORKSPACE_MAX_DEPTH + 1); /* the source, and as many below it */
    copy("most", dir);
    remove_tree(dir);
    make_deep("deep", WORKSPACE_MAX_DEPTH + 2);
    assert_int_equal(workspace_copy(at("deep"), NULL, dir, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "deeper than 64 levels"));
    assert_string_equal(dir, "");
    put_directory("large");
    put("large/a", "x");
    int fd = open(at("large/b"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, (off_t)WORKSPACE_MAX_BYTES), 0); /* no block of it exists */
    close(fd);
    assert_int_equal(workspace_copy(at("large"), NULL, dir, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "/large has more than 2048 MiB"));
    assert_non_null(strstr(e.msg, "--working-dir"));
    assert_string_equal(dir, "");
    assert_int_equal(left(), 0);
}

static int copy_unreadable(void)
{
    static const char *const sources[] = {"src", "src2", "src3"};
    static const char *const said[] = {"src: locked cannot", "src2: locked cannot", "src3"};
    char dir[PATH_MAX];
    struct error e = {0};

    for (size_t i = 0; i < 3; i++) {
        if (workspace_copy(at(sources[i]), NULL, dir, &e) != ERR_CONFIG || dir[0] != '\0' ||
            strstr(e.msg, said[i]) == NULL || strstr(e.msg, "Permission denied") == NULL) {
            return (int)i + 1;
        }
    }
    return 0;
}

static void test_copy_faults(void **state)
{
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    assert_int_equal(workspace_copy(at("nowhere"), NULL, dir, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "nowhere: No such file"));
    put("file", "x");
    assert_int_equal(workspace_copy(at("file"), NULL, dir, &e), ERR_CONFIG);
    put_directory("src");
    put_directory("src/sub");
    put("src/sub/copied before", "x");
    put_bytes("src/locked", "x", 1, 0000);
    put_directory("src2");
    put_directory("src2/locked");
    put_directory("src3");
    assert_int_equal(chmod(at("src2/locked"), 0000), 0);
    assert_int_equal(chmod(at("src3"), 0000), 0);
    put_directory("tmp");
    give_to_nobody("tmp");
    assert_int_equal(setenv("TMPDIR", at("tmp"), 1), 0);
    assert_int_equal(as_nobody(copy_unreadable), 0);
    assert_int_equal(rmdir(at("tmp")), 0); /* what was begun is gone */
    assert_int_equal(setenv("TMPDIR", at("no such place"), 1), 0);
    assert_int_equal(workspace_copy(place, NULL, dir, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "no such place: No such file"));
    assert_string_equal(dir, "");
}

static void test_parent(void **state)
{
    (void)state;
    assert_int_equal(setenv("TMPDIR", "/var/tmp", 1), 0);
    assert_string_equal(workspace_parent(), "/var/tmp");
    assert_int_equal(setenv("TMPDIR", "relative", 1), 0);
    assert_string_equal(workspace_parent(), "/tmp");
    assert_int_equal(setenv("TMPDIR", "", 1), 0);
    assert_string_equal(workspace_parent(), "/tmp");
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_string_equal(workspace_parent(), "/tmp");
}

/* ---- removing ---- */

static void test_remove_refuses(void **state)
{
    static const char *const names[] = {
        "precious",           "tactus-sandbox-x/", "tactus-sandbox-x/..",
        "tactus-sandbox-x/.", "tactus-sandbox",    ""};
    struct error e = {0};

    (void)state;
    put_directory("precious");
    put_directory("tactus-sandbox-x");
    put_directory("tactus-sandbox");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(workspace_remove(at(names[i]), &e), ERR_BUG);
    }
    assert_int_equal(workspace_remove("/", &e), ERR_BUG);
    assert_int_equal(workspace_remove("", &e), ERR_BUG);
    assert_int_equal(workspace_remove("tactus-sandbox-x", &e), ERR_BUG); /* whose directory? */
    assert_true(there("precious"));
    assert_true(there("tactus-sandbox-x"));
    assert_true(there("tactus-sandbox"));
    /* A link in the place of the tree: nothing happens to where it leads, nor to itself. */
    put_link("tactus-sandbox-link", "precious");
    put("precious/x", "x");
    assert_int_equal(workspace_remove(at("tactus-sandbox-link"), &e), ERR_IO);
    assert_true(there("precious/x"));
}

/* Links in a tree are removed, not what they name. */
static void test_remove_links(void **state)
{
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    put("kept", "kept");
    put_directory("kept too");
    put("kept too/x", "x");
    assert_int_equal(workspace_make(dir, &e), ERR_OK);
    put_link(in(dir, "file"), at("kept"));
    put_link(in(dir, "directory"), at("kept too"));
    put_link(in(dir, "up"), "..");
    assert_int_equal(mkfifo(in(dir, "fifo"), 0600), 0);
    remove_tree(dir);
    assert_text("kept", "kept");
    assert_text("kept too/x", "x");
}

/* A tree whose owner has no rights in it any more, made and removed by one who is not root. */
static int remove_locked(void)
{
    char dir[PATH_MAX];
    char target[PATH_MAX];
    struct error e = {0};

    if (workspace_make(dir, &e) != ERR_OK) {
        return 1;
    }
    put_directory(in(dir, "a"));
    put_directory(in(dir, "a/b"));
    put(in(dir, "a/b/x"), "x");
    put_bytes(in(dir, "a/none"), "x", 1, 0000);
    put_directory(in(dir, "a/target"));
    put(in(dir, "a/target/x"), "x");
    snprintf(target, sizeof(target), "%s", in(dir, "a/target"));
    if (chmod(target, 0500) != 0 || chmod(in(dir, "a/b"), 0000) != 0 ||
        chmod(in(dir, "a"), 0100) != 0 || chmod(dir, 0000) != 0) {
        return 2;
    }
    if (workspace_remove(dir, &e) != ERR_OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 3;
    }
    return there(dir) ? 4 : 0;
}

static void test_remove_locked(void **state)
{
    (void)state;
    put_directory("tmp");
    give_to_nobody("tmp");
    assert_int_equal(setenv("TMPDIR", at("tmp"), 1), 0);
    assert_int_equal(as_nobody(remove_locked), 0);
    assert_int_equal(rmdir(at("tmp")), 0);
}

/* Deeper than one goes at once, than there are descriptors, than a path is long; locked as well. */
static int remove_deep(void)
{
    struct rlimit few;
    struct error e = {0};

    if (getrlimit(RLIMIT_NOFILE, &few) != 0) {
        return 4;
    }
    few.rlim_cur = 128;
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) {
        return 5;
    }
    snprintf(place, sizeof(place), "%s", getenv("TMPDIR"));
    make_deep("tactus-sandbox-deep", 3000);
    /* One level in the middle, at the end of what is gone through at once. */
    char path[PATH_MAX];
    size_t n = (size_t)snprintf(path, sizeof(path), "%s", at("tactus-sandbox-deep"));
    for (unsigned i = 0; i < WORKSPACE_MAX_DEPTH + 1; i++) {
        n += (size_t)snprintf(path + n, sizeof(path) - n, "/d");
    }
    if (chmod(path, 0000) != 0) {
        return 1;
    }
    if (workspace_remove(at("tactus-sandbox-deep"), &e) != ERR_OK) {
        fprintf(stderr, "%s\n", e.msg);
        return 2;
    }
    return there("tactus-sandbox-deep") ? 3 : 0;
}

static void test_remove_deep(void **state)
{
    (void)state;
    put_directory("t");
    give_to_nobody("t");
    assert_int_equal(setenv("TMPDIR", at("t"), 1), 0);
    assert_int_equal(as_nobody(remove_deep), 0);
    assert_int_equal(rmdir(at("t")), 0);
}

/* What others own in it is told by name; all else is gone. */
static int remove_others(void)
{
    struct error e = {0};

    return workspace_remove(at("t/tactus-sandbox-x"), &e) == ERR_IO &&
                   strstr(e.msg, "cannot remove y: Permission denied") != NULL
               ? 0
               : 1;
}

static void test_remove_others(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    put_directory("t");
    put_directory("t/tactus-sandbox-x");
    put_directory("t/tactus-sandbox-x/theirs"); /* root's */
    put("t/tactus-sandbox-x/theirs/y", "y");
    put_directory("t/tactus-sandbox-x/ours");
    put("t/tactus-sandbox-x/ours/z", "z");
    put("t/tactus-sandbox-x/a", "a file of root in our directory");
    give_to_nobody("t");
    give_to_nobody("t/tactus-sandbox-x");
    give_to_nobody("t/tactus-sandbox-x/ours");
    assert_int_equal(as_nobody(remove_others), 0);
    assert_true(there("t/tactus-sandbox-x/theirs/y"));
    assert_false(there("t/tactus-sandbox-x/ours"));
    assert_false(there("t/tactus-sandbox-x/a"));
}

/* A file system that somebody mounted in the tree is not emptied. */
static void test_remove_mounted(void **state)
{
    struct error e = {0};

    (void)state;
    put_directory("tactus-sandbox-x");
    put_directory("tactus-sandbox-x/mounted");
    put("tactus-sandbox-x/y", "y");
    if (mount("none", at("tactus-sandbox-x/mounted"), "tmpfs", 0, "size=64k") != 0) {
        skip();
    }
    put("tactus-sandbox-x/mounted/kept", "kept");
    enum err rc = workspace_remove(at("tactus-sandbox-x"), &e);
    bool kept = there("tactus-sandbox-x/mounted/kept");
    bool other = there("tactus-sandbox-x/y");
    assert_int_equal(umount(at("tactus-sandbox-x/mounted")), 0);
    assert_int_equal(rc, ERR_IO);
    assert_non_null(strstr(e.msg, "cannot remove mounted"));
    assert_true(kept);
    assert_false(other);
}

/* ---- sweeping ---- */

/* A process that made a directory and is gone. */
static void make_orphan(char dir[PATH_MAX])
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool ok = workspace_make(dir, NULL) == ERR_OK;
        _exit(ok && write(ends[1], dir, PATH_MAX) == PATH_MAX ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], dir, PATH_MAX), PATH_MAX);
    close(ends[0]);
    close(ends[1]);
}

static void test_sweep(void **state)
{
    char orphan[PATH_MAX] = "";
    char another[PATH_MAX] = "";
    char ours[PATH_MAX];
    size_t removed = 7;
    struct error e = {0};

    (void)state;
    assert_int_equal(workspace_sweep(&removed, &e), ERR_OK);
    assert_int_equal(removed, 0);
    make_orphan(orphan);
    make_orphan(another);
    put(in(orphan, "x"), "x");
    assert_int_equal(workspace_make(ours, &e), ERR_OK);
    put_directory("tactus-sandbox-other"); /* no owner in its name */
    put_directory("tactus-sandbox-1-");
    put("tactus-sandbox-999999-1-file", "no directory");
    put_link("tactus-sandbox-999999-1-link", "tactus-sandbox-other");
    assert_int_equal(workspace_sweep(&removed, &e), ERR_OK);
    assert_int_equal(removed, 2);
    assert_false(there(orphan));
    assert_false(there(another));
    assert_true(there(ours));
    assert_true(there("tactus-sandbox-other"));
    assert_true(there("tactus-sandbox-1-"));
    assert_true(there("tactus-sandbox-999999-1-file"));
    assert_true(there("tactus-sandbox-999999-1-link"));
    remove_tree(ours);
}

static void test_sweep_others(void **state)
{
    char orphan[PATH_MAX] = "";
    size_t removed = 7;
    struct error e = {0};

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    make_orphan(orphan);
    give_to_nobody(orphan);
    assert_int_equal(workspace_sweep(&removed, &e), ERR_OK);
    assert_int_equal(removed, 0);
    assert_true(there(orphan));
    remove_tree(orphan);
    assert_int_equal(setenv("TMPDIR", at("nowhere"), 1), 0);
    assert_int_equal(workspace_sweep(&removed, &e), ERR_IO);
}

static void test_owner(void **state)
{
    struct owner self;

    (void)state;
    owner_self(&self);
    assert_true(owner_lives(&self));
    struct owner other = self;
    other.start[0] = other.start[0] == '1' ? '2' : '1'; /* the pid again, in another process */
    assert_false(owner_lives(&other));
    other = self;
    other.boot[0] = other.boot[0] == 'a' ? 'b' : 'a';
    assert_false(owner_lives(&other));
    other = self;
    memcpy(other.pid, "junk", 5);
    assert_true(owner_lives(&other)); /* not ours to judge */
    other.pid[0] = '\0';
    assert_true(owner_lives(&other));
}

#define TEST(name) cmocka_unit_test_setup_teardown((name), setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_copy),           TEST(test_copy_modes_and_times),
        TEST(test_copy_links),     TEST(test_copy_of_the_parent),
        TEST(test_copy_large),     TEST(test_copy_sizeless),
        TEST(test_copy_owner),     TEST(test_copy_bounds),
        TEST(test_copy_faults),    TEST(test_parent),
        TEST(test_remove_refuses), TEST(test_remove_links),
        TEST(test_remove_locked),  TEST(test_remove_deep),
        TEST(test_remove_others),  TEST(test_remove_mounted),
        TEST(test_sweep),          TEST(test_sweep_others),
        TEST(test_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
