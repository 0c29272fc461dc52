/* spec/workspace, tree, source_hash, ignore, owner: on a real file system. */
#include "spec/workspace.h"

#include "spec/ignore.h"
#include "spec/owner.h"
#include "spec/source_hash.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char bed[64];

static const char *at(const char *root, const char *name)
{
    static char path[2][PATH_MAX];
    static unsigned turn;

    turn = 1 - turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", root, name);
    return path[turn];
}

static void put(const char *root, const char *name, const char *text, mode_t mode)
{
    int fd = open(at(root, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void assert_file(const char *root, const char *name, const char *text, mode_t mode)
{
    char block[256] = "";
    struct stat st;
    int fd = open(at(root, name), O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, block, sizeof(block) - 1), (ssize_t)strlen(text));
    assert_string_equal(block, text);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, mode);
    close(fd);
}

static bool there(const char *root, const char *name)
{
    struct stat st;

    return lstat(at(root, name), &st) == 0;
}

static int setup(void **state)
{
    (void)state;
    memcpy(bed, "/tmp/tactus-sandbox-bed-XXXXXX", 31); /* so that workspace_remove takes it */
    assert_non_null(mkdtemp(bed));
    assert_int_equal(setenv("TMPDIR", bed, 1), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return workspace_remove(bed, NULL) == ERR_OK && access(bed, F_OK) != 0 ? 0 : 1;
}

static void make_source(void)
{
    assert_int_equal(mkdir(at(bed, "src"), 0700), 0);
    assert_int_equal(mkdir(at(bed, "src/sub"), 0755), 0);
    assert_int_equal(mkdir(at(bed, "src/.git"), 0755), 0);
    assert_int_equal(mkdir(at(bed, "src/sub/.hidden"), 0755), 0);
    put(bed, "src/a.tac", "a procedure", 0644);
    put(bed, "src/.env", "KEY=1", 0644);
    put(bed, "src/.git/config", "x", 0644);
    put(bed, "src/sub/run.sh", "#!", 0755);
    put(bed, "src/sub/.secret", "x", 0644);
    put(bed, "src/sub/.hidden/x", "x", 0644);
    put(bed, "outside", "outside", 0644);
    assert_int_equal(symlink("sub/run.sh", at(bed, "src/in")), 0);
    assert_int_equal(symlink("../a.tac", at(bed, "src/sub/up")), 0);
    assert_int_equal(symlink("../outside", at(bed, "src/out")), 0);
    assert_int_equal(symlink("../../outside", at(bed, "src/sub/out")), 0);
    assert_int_equal(symlink("/etc/passwd", at(bed, "src/abs")), 0);
    assert_int_equal(symlink("sub/../../outside", at(bed, "src/sly")), 0);
    assert_int_equal(mkfifo(at(bed, "src/fifo"), 0600), 0);
}

static void test_copy(void **state)
{
    char dir[PATH_MAX];
    struct error e = {0};
    struct stat a;
    struct stat b;

    (void)state;
    make_source();
    assert_int_equal(workspace_copy(at(bed, "src"), NULL, dir, &e), ERR_OK);
    assert_file(dir, "a.tac", "a procedure", 0644);
    assert_file(dir, "sub/run.sh", "#!", 0755);
    assert_file(dir, "in", "#!", 0755);
    assert_file(dir, "sub/up", "a procedure", 0644);
    static const char *const left_out[] = {".env",    ".git", "sub/.secret", "sub/.hidden", "out",
                                           "sub/out", "abs",  "sly",         "fifo"};
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        if (there(dir, left_out[i])) {
            fail_msg("%s is in the copy", left_out[i]);
        }
    }
    assert_int_equal(stat(at(dir, "a.tac"), &a), 0);
    assert_int_equal(stat(at(bed, "src/a.tac"), &b), 0);
    assert_int_equal(a.st_mtim.tv_sec, b.st_mtim.tv_sec);
    assert_int_equal(stat(dir, &a), 0);
    assert_int_equal(a.st_mode & 0777, 0700);
    assert_int_equal(workspace_remove(dir, &e), ERR_OK);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(workspace_remove(dir, &e), ERR_OK); /* gone is fine */
}

static void test_copy_faults(void **state)
{
    char dir[PATH_MAX];
    char path[PATH_MAX];
    struct error e = {0};
    size_t n = 0;

    (void)state;
    assert_int_equal(workspace_copy(at(bed, "nowhere"), NULL, dir, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "nowhere"));
    n = (size_t)snprintf(path, sizeof(path), "%s/deep", bed);
    for (unsigned i = 0; i <= WORKSPACE_MAX_DEPTH + 1; i++) {
        assert_int_equal(mkdir(path, 0700), 0);
        n += (size_t)snprintf(path + n, sizeof(path) - n, "/d");
    }
    assert_int_equal(workspace_copy(at(bed, "deep"), NULL, dir, &e), ERR_LIMIT);
    assert_string_equal(dir, "");
    size_t left = 0;
    assert_int_equal(workspace_sweep(&left, &e), ERR_OK); /* nothing of ours is taken */
    assert_int_equal(left, 0);
}

static void test_remove_refuses(void **state)
{
    struct error e = {0};

    (void)state;
    assert_int_equal(mkdir(at(bed, "precious"), 0700), 0);
    assert_int_equal(workspace_remove(at(bed, "precious"), &e), ERR_BUG);
    assert_true(there(bed, "precious"));
    assert_int_equal(workspace_remove("/", &e), ERR_BUG);
}

/* Links in a tree are removed, not what they name; rights that were taken away come back. */
static void test_remove_odd_trees(void **state)
{
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    put(bed, "kept", "kept", 0644);
    assert_int_equal(workspace_make(dir, &e), ERR_OK);
    assert_int_equal(symlink(at(bed, "kept"), at(dir, "link")), 0);
    assert_int_equal(symlink(bed, at(dir, "dirlink")), 0);
    assert_int_equal(mkdir(at(dir, "locked"), 0700), 0);
    put(dir, "locked/x", "x", 0000);
    assert_int_equal(chmod(at(dir, "locked"), 0000), 0);
    assert_int_equal(workspace_remove(dir, &e), ERR_OK);
    assert_int_equal(access(dir, F_OK), -1);
    assert_file(bed, "kept", "kept", 0644);
}

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
    char orphan[PATH_MAX];
    char ours[PATH_MAX];
    size_t removed = 0;
    struct error e = {0};

    (void)state;
    make_orphan(orphan);
    assert_int_equal(workspace_make(ours, &e), ERR_OK);
    assert_int_equal(mkdir(at(bed, "tactus-sandbox-other"), 0700), 0); /* no owner in its name */
    assert_int_equal(workspace_sweep(&removed, &e), ERR_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(access(orphan, F_OK), -1);
    assert_int_equal(access(ours, F_OK), 0);
    assert_true(there(bed, "tactus-sandbox-other"));
    assert_int_equal(workspace_remove(ours, &e), ERR_OK);
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

/* ---- hashes, patterns ---- */

static void hash_of(const char *dir, char out[SOURCE_HASH_SIZE])
{
    struct error e = {0};

    assert_int_equal(source_hash(&dir, 1, out, &e), ERR_OK);
}

static void test_source_hash(void **state)
{
    char a[SOURCE_HASH_SIZE];
    char b[SOURCE_HASH_SIZE];
    char dir[PATH_MAX];
    struct error e = {0};

    (void)state;
    snprintf(dir, sizeof(dir), "%s/tree", bed);
    assert_int_equal(mkdir(dir, 0700), 0);
    put(dir, "a", "bc", 0600);
    hash_of(dir, a);
    assert_int_equal(strlen(a), 16);
    assert_int_equal(strspn(a, "0123456789abcdef"), 16);
    hash_of(dir, b);
    assert_string_equal(a, b);
    /* What does not count. */
    put(dir, ".hidden", "x", 0600);
    put(dir, "m.pyc", "x", 0600);
    assert_int_equal(mkdir(at(dir, "__pycache__"), 0700), 0);
    put(dir, "__pycache__/y", "x", 0600);
    assert_int_equal(chmod(at(dir, "a"), 0755), 0);
    hash_of(dir, b);
    assert_string_equal(a, b);
    /* What does: content, names, and where one ends. */
    put(dir, "a", "bd", 0600);
    hash_of(dir, b);
    assert_string_not_equal(a, b);
    assert_int_equal(rename(at(dir, "a"), at(dir, "ab")), 0);
    put(dir, "ab", "c", 0600);
    hash_of(dir, b);
    assert_string_not_equal(a, b);
    const char *missing = "/nowhere/at/all";
    assert_int_equal(source_hash(&missing, 1, b, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, missing));
}

static void test_ignore(void **state)
{
    static const char text[] =
        "# a comment\n*.md\n!keep.md\n/build\nnode_modules/\n **/secret \n\na/*/c\n";
    static const struct {
        const char *path;
        bool ignored;
    } rows[] = {
        {"x.md", true},       {"keep.md", false},         {"sub/x.md", false},
        {"build", true},      {"build/deep/x", true},     {"builder", false},
        {"sub/build", false}, {"node_modules/a/b", true}, {"secret", true},
        {"a/b/secret", true}, {"a/secret/x", true},       {"a/b/c", true},
        {"a/b/d", false},     {"a/b/c/d", true},          {"# a comment", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (ignore_matches(SPAN(text), rows[i].path) != rows[i].ignored) {
            fail_msg("%s: expected %d", rows[i].path, rows[i].ignored);
        }
    }
    assert_false(ignore_matches((struct span){NULL, 0}, "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_copy_faults),
        cmocka_unit_test(test_remove_refuses), cmocka_unit_test(test_remove_odd_trees),
        cmocka_unit_test(test_sweep),          cmocka_unit_test(test_owner),
        cmocka_unit_test(test_source_hash),    cmocka_unit_test(test_ignore),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
