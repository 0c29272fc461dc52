/* spec/volumes: what a spec means, and what is not mounted. On a real file system. */
#include "spec/volumes.h"

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
    const char *forbidden[1];
    struct volume_rules rules;
};

static void make(const char *root, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
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
    make(b->home, ".ssh");
    make(b->home, "work");
    make(b->broker, "runs");
    b->forbidden[0] = b->broker;
    b->rules = (struct volume_rules){
        .base_dir = b->base, .home = b->home, .forbidden = b->forbidden, .nforbidden = 1};
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bed *b = *state;
    char command[256];

    /* A tree that this test made, of plain names. */
    static const char *const names[] = {"base/data", "base/a:b",    "base/link", "base/proc",
                                        "base/sock", "base",        "home/.ssh", "home/work",
                                        "home",      "broker/runs", "broker"};
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
    assert_mount(b, ".:/w", MOUNT_BIND, "@/base", "/w", false);
    assert_mount(b, "../base/data:/w:rw", MOUNT_BIND, "@/base/data", "/w", false);
    assert_mount(b, "~/work:/w", MOUNT_BIND, "@/home/work", "/w", false);
    assert_mount(b, "./a:b:/w", MOUNT_BIND, "@/base/a:b", "/w", false);
    assert_mount(b, "./a:b:/w:ro", MOUNT_BIND, "@/base/a:b", "/w", true);
    snprintf(spec, sizeof(spec), "%s/data:/w:ro,z", b->base);
    assert_mount(b, spec, MOUNT_BIND, "@/base/data", "/w", true);
    assert_mount(b, "cache:/cache", MOUNT_VOLUME, "cache", "/cache", false);
    assert_mount(b, "my.cache-2_x:/cache:ro", MOUNT_VOLUME, "my.cache-2_x", "/cache", true);
    assert_mount(b, "/data", MOUNT_VOLUME, NULL, "/data", false);
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
    assert_refused(b, "./missing:/x", "No such file or directory");
    assert_refused(b, "-x:/x", "a volume's name");
    assert_refused(b, "a b:/x", "a volume's name");
    assert_refused(b, "./data:/", "not / itself");
    assert_refused(b, "./data:/x/../y", "not / itself");
    assert_refused(b, "./data:/.tactus", "is the runner's");
    assert_refused(b, "./data:/run", "is the runner's");
    assert_refused(b, "./data:/proc/x", "is the runner's");
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
    assert_refused(b, spec, "is not mounted"); /* lies in the broker's */
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
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_links_and_sockets),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
