/* spec/volumes: what a spec means, and what is not mounted. On a real file system. */
#include "spec/volumes.h"

#include "fixtures/torture.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct bed {
    char dir[64];
    char base[128];
    char home[128];
    char broker[128];
    char later[128];
    const char *forbidden[2];
    struct volume_rules rules;
};

static void make(const char *root, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void link_to(const struct bed *b, const char *name, const char *to)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", b->dir, name);
    assert_int_equal(symlink(to, path), 0);
}

static int setup(void **state)
{
    struct bed *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    memcpy(b->dir, "/tmp/tactus-volumes-XXXXXX", 27);
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->base, sizeof(b->base), "%s/base", b->dir);
    snprintf(b->home, sizeof(b->home), "%s/home", b->dir);
    snprintf(b->broker, sizeof(b->broker), "%s/broker", b->dir);
    make(b->dir, "base");
    make(b->dir, "home");
    make(b->dir, "broker");
    make(b->base, "data");
    make(b->base, "a:b");
    make(b->base, "a:");
    make(b->base, "a:/b");
    make(b->base, "\xff");
    make(b->home, ".ssh");
    make(b->home, "work");
    make(b->broker, "runs");
    link_to(b, "alias", b->base);
    snprintf(b->later, sizeof(b->later), "%s/alias/later", b->dir);
    b->forbidden[0] = b->broker;
    b->forbidden[1] = b->later; /* not there yet, and reached over a link */
    b->rules = (struct volume_rules){
        .base_dir = b->base, .home = b->home, .forbidden = b->forbidden, .nforbidden = 2};
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bed *b = *state;
    char command[256];

    /* A tree that this test made, of plain names. */
    static const char *const names[] = {
        "base/data",  "base/a:b",  "base/a:/b",   "base/a:",   "base/\xff",
        "base/link",  "base/proc", "base/sock",   "base/keys", "base/file",
        "alias",      "base",      "house",       "home/.ssh", "home/work",
        "home/.kube", "home",      "broker/runs", "broker",    "keys"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(command, sizeof(command), "%s/%s", b->dir, names[i]);
        if (rmdir(command) != 0) {
            (void)unlink(command);
        }
    }
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
    return 0;
}

/* `source` below the bed's directory when it begins with "@". */
static void assert_mount(struct bed *b, const char *spec, enum mount_kind kind, const char *source,
                         const char *target, bool read_only)
{
    struct mount m = {.kind = MOUNT_BIND};
    struct error e = {0};
    char path[PATH_MAX];
    enum err rc = volume_parse(spec, &b->rules, &m, &e);

    if (rc != ERR_OK) {
        print_error("%s: %s\n", spec, e.msg);
    }
    assert_int_equal(rc, ERR_OK);
    assert_int_equal(m.kind, kind);
    assert_string_equal(m.target, target);
    assert_int_equal(m.read_only, read_only);
    if (source == NULL) {
        assert_null(m.source);
    } else {
        snprintf(path, sizeof(path), "%s%s", source[0] == '@' ? b->dir : "",
                 source[0] == '@' ? source + 1 : source);
        assert_string_equal(m.source, path);
    }
    mount_fini(&m);
}

static void test_forms(void **state)
{
    struct bed *b = *state;
    char spec[PATH_MAX];

    assert_mount(b, "./data:/data", MOUNT_BIND, "@/base/data", "/data", false);
    assert_mount(b, "./data:/data:ro", MOUNT_BIND, "@/base/data", "/data", true);
    assert_mount(b, "../base/data:/w:rw", MOUNT_BIND, "@/base/data", "/w", false);
    assert_mount(b, "~/work:/w", MOUNT_BIND, "@/home/work", "/w", false);
    assert_mount(b, "./a:b:/w", MOUNT_BIND, "@/base/a:b", "/w", false);
    assert_mount(b, "./a:b:/w:ro", MOUNT_BIND, "@/base/a:b", "/w", true);
    assert_mount(b, "./a:/b:/w", MOUNT_BIND, "@/base/a:/b", "/w", false);
    assert_mount(b, "./a::/w", MOUNT_BIND, "@/base/a:", "/w", false);
    assert_mount(b, "./data/../data/.:/w", MOUNT_BIND, "@/base/data", "/w", false);
    assert_mount(b, "~/work:/w:rw", MOUNT_BIND, "@/home/work", "/w", false);
    snprintf(spec, sizeof(spec), "%s/data:/w:ro,z", b->base);
    assert_mount(b, spec, MOUNT_BIND, "@/base/data", "/w", true);
    assert_mount(b, "cache:/cache", MOUNT_VOLUME, "cache", "/cache", false);
    assert_mount(b, "my.cache-2_x:/cache:ro", MOUNT_VOLUME, "my.cache-2_x", "/cache", true);
    assert_mount(b, "/data", MOUNT_VOLUME, NULL, "/data", false);
    assert_mount(b, "0:/x", MOUNT_VOLUME, "0", "/x", false);
    assert_mount(b, "data:/x", MOUNT_VOLUME, "data", "/x", false); /* no path, though it is there */
}

/* "." and ".." of a directory whose parent holds nothing forbidden. */
static void test_parent(void **state)
{
    struct bed *b = *state;
    char below[256];
    struct volume_rules rules = b->rules;
    struct mount m = {.kind = MOUNT_VOLUME};

    snprintf(below, sizeof(below), "%s/data", b->base);
    rules.base_dir = below;
    assert_int_equal(volume_parse(".:/w", &rules, &m, NULL), ERR_OK);
    assert_string_equal(m.source, below);
    mount_fini(&m);
    rules.nforbidden = 1;
    assert_int_equal(volume_parse("..:/w:ro", &rules, &m, NULL), ERR_OK);
    assert_int_equal(m.kind, MOUNT_BIND);
    assert_string_equal(m.source, b->base);
    assert_true(m.read_only);
    mount_fini(&m);
    assert_null(m.source);
    mount_fini(&m); /* twice is harmless */
}

/* Two names of one place in the container are one. */
static void test_targets(void **state)
{
    static const char *const same[] = {"/w/x", "//w//x", "/w/x/", "/./w/./x/.", "/w/x///"};
    struct bed *b = *state;
    char spec[PATH_MAX];

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        snprintf(spec, sizeof(spec), "./data:%s", same[i]);
        assert_mount(b, spec, MOUNT_BIND, "@/base/data", "/w/x", false);
        snprintf(spec, sizeof(spec), "cache:%s:ro", same[i]);
        assert_mount(b, spec, MOUNT_VOLUME, "cache", "/w/x", true);
        assert_mount(b, same[i], MOUNT_VOLUME, NULL, "/w/x", false);
    }
    assert_mount(b, "./data:/..x/.y/...", MOUNT_BIND, "@/base/data", "/..x/.y/...", false);
    assert_mount(b, "./data:/tmp", MOUNT_BIND, "@/base/data", "/tmp", false);
    assert_mount(b, "./data:/runs", MOUNT_BIND, "@/base/data", "/runs", false);
    assert_mount(b, "./data:/run/other", MOUNT_BIND, "@/base/data", "/run/other", false);
}

static void test_modes(void **state)
{
    static const struct {
        const char *mode;
        bool read_only;
        bool z;
        bool z_private;
    } rows[] = {
        {"", false, false, false},   {":rw", false, false, false},   {":ro", true, false, false},
        {":z", false, true, false},  {":Z", false, true, true},      {":ro,z", true, true, false},
        {":Z,ro", true, true, true}, {":ro,ro", true, false, false}, {":rw,Z", false, true, true},
    };
    struct bed *b = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int k = 0; k < 2; k++) {
            struct mount m = {.kind = MOUNT_BIND};
            char spec[64];
            snprintf(spec, sizeof(spec), "%s:/x%s", k == 0 ? "./data" : "cache", rows[i].mode);
            assert_int_equal(volume_parse(spec, &b->rules, &m, NULL), ERR_OK);
            assert_int_equal(m.kind, k == 0 ? MOUNT_BIND : MOUNT_VOLUME);
            assert_int_equal(m.read_only, rows[i].read_only);
            assert_int_equal(m.z, rows[i].z);
            assert_int_equal(m.z_private, rows[i].z_private);
            mount_fini(&m);
        }
    }
}

static void assert_refused(struct bed *b, const char *spec, const char *words)
{
    struct mount m = {.kind = MOUNT_VOLUME, .z = true};
    struct error e = {0};
    enum err rc = volume_parse(spec, &b->rules, &m, &e);

    if (rc != ERR_CONFIG || strstr(e.msg, words) == NULL) {
        print_error("%s: %d %s\n", spec, (int)rc, e.msg);
    }
    assert_int_equal(rc, ERR_CONFIG);
    assert_non_null(strstr(e.msg, words));
    assert_non_null(strstr(e.msg, spec));
    assert_true(m.z); /* untouched */
}

static void test_malformed(void **state)
{
    struct bed *b = *state;

    assert_refused(b, "data", "expected an absolute path in the container");
    assert_refused(b, "./data:", "expected HOST:CONTAINER");
    assert_refused(b, ":/x", "with nothing empty");
    assert_refused(b, "./data:relative", "expected HOST:CONTAINER");
    assert_refused(b, "./data:/x:fast", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:ro,", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:,ro", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:RO", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:ro ", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:ro,rw", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:z,Z", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/x:", "MODE of ro, rw, z, Z");
    assert_refused(b, "", "nothing empty");
    assert_refused(b, ":", "MODE of ro, rw, z, Z");
    assert_refused(b, ":ro", "nothing empty");
    assert_refused(b, "/x:ro", "nothing empty");
    assert_refused(b, "./a:b:/w:z", "only for paths without ':'");
    assert_refused(b, "./a:b:/w:ro,Z", "only for paths without ':'");
    assert_refused(b, "./\xff:/w", "is not UTF-8");
    assert_refused(b, "./data:/w\xff", "expected an absolute path");
    assert_refused(b, ".hidden:/x", "a volume's name");
    assert_refused(b, "data/sub:/x", "a volume's name");
    assert_refused(b, "C:\\x:/x", "a volume's name");
    assert_refused(b, "~ada:/x", "No such file or directory");
    assert_refused(b, "./missing:/x", "No such file or directory");
    assert_refused(b, "-x:/x", "a volume's name");
    assert_refused(b, "a b:/x", "a volume's name");
    assert_refused(b, "./data:/", "not / itself");
    assert_refused(b, "./data:/x/../y", "not / itself");
    assert_refused(b, "./data:/.tactus", "is the runner's");
    assert_refused(b, "./data:/run", "is the runner's");
    assert_refused(b, "./data:/proc/x", "is the runner's");
    assert_refused(b, "./data://./.tactus/x", "is the runner's");
    assert_refused(b, "/run/./tactus-broker/", "is the runner's");
    assert_refused(b, "cache:/sys", "is the runner's");
    assert_refused(b, "./data:/x/..", "without ..");
    assert_refused(b, "./data:/x:y/z:ro", "and ':'");
    assert_refused(b, "./data:/x:y/z", "MODE of ro, rw, z, Z");
    assert_refused(b, "./data:/..", "without ..");
    assert_refused(b, "./data:/./", "not / itself");
    assert_refused(b, "///", "not / itself");
}

/* Longer than any path may be. */
static void test_long(void **state)
{
    struct bed *b = *state;
    char *spec = calloc(1, 2 * PATH_MAX);
    struct mount m = {.kind = MOUNT_VOLUME, .z = true};
    struct error e = {0};

    assert_non_null(spec);
    memset(spec, 'x', 2 * PATH_MAX - 1);
    memcpy(spec, "./data:/", 8);
    assert_int_equal(volume_parse(spec, &b->rules, &m, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "expected an absolute path"));
    memcpy(spec, "././././", 8);
    memcpy(spec + 2 * PATH_MAX - 4, ":/w", 3);
    assert_int_equal(volume_parse(spec, &b->rules, &m, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "the path is too long"));
    memset(spec, 'x', 256);
    memcpy(spec + 256, ":/w", 4);
    assert_int_equal(volume_parse(spec, &b->rules, &m, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "a volume's name"));
    assert_true(m.z);
    assert_int_equal(volume_parse(spec + 1, &b->rules, &m, &e), ERR_OK); /* 255 */
    mount_fini(&m);
    free(spec);
}

static void test_places(void **state)
{
    struct bed *b = *state;
    char spec[PATH_MAX];
    static const char *const always[] = {"/",        "/proc",     "/sys/kernel", "/dev", "/run",
                                         "/var/run", "/run/x/..", "/etc/..",     "/boot"};

    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        char resolved[PATH_MAX];
        if (realpath(always[i], resolved) != NULL) {
            snprintf(spec, sizeof(spec), "%s:/x", always[i]);
            assert_refused(b, spec, "is not mounted");
        }
    }
    assert_refused(b, "~/.ssh:/x", "is not mounted");
    assert_refused(b, "~:/x", "is not mounted"); /* holds .ssh */
    snprintf(spec, sizeof(spec), "%s:/x", b->dir);
    assert_refused(b, spec, "is not mounted"); /* holds the broker's */
    snprintf(spec, sizeof(spec), "%s/runs:/x", b->broker);
    assert_refused(b, spec, "is not mounted");   /* lies in the broker's */
    assert_refused(b, ".:/x", "is not mounted"); /* would hold what is not there yet */
    snprintf(spec, sizeof(spec), "%s2", b->broker);
    assert_int_equal(mkdir(spec, 0700), 0);
    assert_int_equal(volume_check_path(spec, &b->rules, NULL), ERR_OK); /* only begins alike */
    assert_int_equal(rmdir(spec), 0);
}

/* What is in the home directory, there or not, linked or not; never the directory itself. */
static void test_home(void **state)
{
    struct bed *b = *state;
    char path[PATH_MAX];
    struct error e = {0};
    struct volume_rules rules = {.base_dir = b->base, .home = b->home};
    struct volume_rules other = rules;

    assert_int_equal(volume_check_path(b->home, &rules, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "~/.ssh"));
    /* Without any of them there, too: a container could make ~/.ssh. */
    snprintf(path, sizeof(path), "%s/work", b->home);
    assert_int_equal(volume_check_path(path, &rules, &e), ERR_OK);
    other.home = path;
    assert_int_equal(volume_check_path(path, &other, &e), ERR_CONFIG);
    assert_int_equal(volume_check_path(b->home, &other, &e), ERR_CONFIG); /* holds it */
    /* By a home directory that is a link, and one that ends in slashes. */
    link_to(b, "house", b->home);
    snprintf(path, sizeof(path), "%s/house", b->dir);
    other.home = path;
    assert_int_equal(volume_check_path(b->home, &other, &e), ERR_CONFIG);
    snprintf(path, sizeof(path), "%s//", b->home);
    assert_int_equal(volume_check_path(b->home, &other, &e), ERR_CONFIG);
    /* A place that is a link: where it leads to is one as well. */
    make(b->dir, "keys");
    link_to(b, "home/.kube", "../keys");
    snprintf(path, sizeof(path), "%s/keys", b->dir);
    assert_int_equal(volume_check_path(path, &rules, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "~/.kube"));
    /* Not known: nothing to refuse there. */
    other = (struct volume_rules){.base_dir = b->base};
    assert_int_equal(volume_check_path(b->home, &other, &e), ERR_OK);
    assert_int_equal(volume_parse("~/work:/x", &other, &(struct mount){.kind = MOUNT_BIND}, &e),
                     ERR_CONFIG);
    assert_non_null(strstr(e.msg, "HOME is not set"));
}

/* Where / is home, its hidden directories are refused, and not everything. */
static void test_root_is_home(void **state)
{
    struct bed *b = *state;
    char path[PATH_MAX];
    const struct volume_rules rules = {.base_dir = b->base, .home = "/"};

    snprintf(path, sizeof(path), "%s/data", b->base);
    assert_int_equal(volume_check_path(path, &rules, NULL), ERR_OK);
    assert_int_equal(volume_check_path("/", &rules, NULL), ERR_CONFIG);
}

static void test_check_path(void **state)
{
    struct bed *b = *state;
    char path[PATH_MAX];
    struct error e = {0};

    snprintf(path, sizeof(path), "%s/data", b->base);
    assert_int_equal(volume_check_path(path, &b->rules, &e), ERR_OK);
    snprintf(path, sizeof(path), "%s/missing", b->base);
    assert_int_equal(volume_check_path(path, &b->rules, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "missing is not mounted: No such file or directory"));
    snprintf(path, sizeof(path), "%s/keys", b->base);
    assert_int_equal(symlink("../broker/runs", path), 0);
    assert_int_equal(volume_check_path(path, &b->rules, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "is, holds or lies in"));
    assert_int_equal(volume_check_path("/proc/self/fd", &b->rules, &e), ERR_CONFIG);
    /* A rule of / refuses everything. */
    const char *const root[] = {"/"};
    const struct volume_rules rules = {.base_dir = b->base, .forbidden = root, .nforbidden = 1};
    assert_int_equal(volume_check_path(b->home, &rules, &e), ERR_CONFIG);
}

/* One file is as good as a directory. */
static void test_file(void **state)
{
    struct bed *b = *state;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/file", b->base);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_mount(b, "./file:/etc/one:ro", MOUNT_BIND, "@/base/file", "/etc/one", true);
    assert_refused(b, "./file/x:/y", "Not a directory");
}

static void test_no_memory(void **state)
{
    struct bed *b = *state;
    static const char *const specs[] = {"./data:/x:ro", "cache:/x", "/x"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (size_t n = 0;; n++) {
            struct mount m = {.kind = MOUNT_VOLUME, .z = true};
            struct error e = {0};
            torture_fail_after(n);
            enum err rc = volume_parse(specs[i], &b->rules, &m, &e);
            torture_off();
            if (rc == ERR_OK) {
                assert_true(n > 1);
                mount_fini(&m);
                break;
            }
            assert_int_equal(rc, ERR_NOMEM);
            assert_null(m.target); /* untouched */
            assert_true(m.z);
        }
    }
}

/* Links are resolved before the judgement. */
static void test_links_and_sockets(void **state)
{
    struct bed *b = *state;
    char path[PATH_MAX];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(path, sizeof(path), "%s/link", b->base);
    assert_int_equal(symlink(b->broker, path), 0);
    assert_refused(b, "./link:/x", "is not mounted");
    snprintf(path, sizeof(path), "%s/proc", b->base);
    assert_int_equal(symlink("/proc/self", path), 0);
    assert_refused(b, "./proc:/x", "is not mounted");
    int n = snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/sock", b->base);
    assert_true(n > 0 && (size_t)n < sizeof(a.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_refused(b, "./sock:/x", "it is a socket");
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),      cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_places),     cmocka_unit_test(test_links_and_sockets),
        cmocka_unit_test(test_parent),     cmocka_unit_test(test_targets),
        cmocka_unit_test(test_modes),      cmocka_unit_test(test_long),
        cmocka_unit_test(test_home),       cmocka_unit_test(test_root_is_home),
        cmocka_unit_test(test_check_path), cmocka_unit_test(test_file),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
