/*
 * Finding an engine among real sockets: the first that answers, what the report says of the others,
 * what ends the search. (The order itself: tests/unit/test_engine_find.c.)
 */
#include "fixtures/engine_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- engines on Unix sockets ---- */

struct door {
    const char *version; /* the JSON; NULL: accepts, and never says anything */
    char path[108];
    int fd;
    int stop[2];
    pthread_t thread;
};

/* False: the door closes. (The driver keeps its connections, so their end cannot be waited for.) */
static bool wait_input(const struct door *d, int fd)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = d->stop[0], .events = POLLIN}};

    return poll(p, 2, -1) > 0 && p[1].revents == 0;
}

static void answer_one(const struct door *d, int fd)
{
    char in[4096];
    char out[1024];
    size_t n = 0;

    while (n < sizeof(in) - 1 && wait_input(d, fd)) {
        ssize_t got = read(fd, in + n, sizeof(in) - 1 - n);
        if (got <= 0) {
            return;
        }
        n += (size_t)got;
        in[n] = '\0';
        if (strstr(in, "\r\n\r\n") == NULL) {
            continue;
        }
        const char *body = strstr(in, "GET /version") == in ? d->version : "OK";
        int size = snprintf(out, sizeof(out), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                            strlen(body), body);
        if (write(fd, out, (size_t)size) != size) {
            return;
        }
        n = 0;
    }
}

/* One connection at a time: finding needs no more, but the first, empty one of the look. */
static void *run_door(void *arg)
{
    struct door *d = arg;

    while (wait_input(d, d->fd)) {
        int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            if (d->version != NULL) {
                answer_one(d, fd);
            } else {
                char byte = 0;
                while (wait_input(d, fd) && read(fd, &byte, 1) > 0) {
                }
            }
            close(fd);
        }
    }
    return NULL;
}

static void bind_at(struct door *d, const char *dir, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(d->path, sizeof(d->path), "%s/%s", dir, name);

    assert_true(n > 0 && (size_t)n < sizeof(d->path));
    memcpy(a.sun_path, d->path, sizeof(a.sun_path));
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(d->fd >= 0);
    assert_int_equal(bind(d->fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

static void door_open(struct door *d, const char *dir, const char *name, const char *version)
{
    d->version = version;
    bind_at(d, dir, name);
    assert_int_equal(listen(d->fd, 8), 0);
    assert_int_equal(pipe2(d->stop, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&d->thread, NULL, run_door, d), 0);
}

static void door_close(struct door *d)
{
    assert_int_equal(write(d->stop[1], "", 1), 1);
    pthread_join(d->thread, NULL);
    close(d->stop[0]);
    close(d->stop[1]);
    close(d->fd);
    assert_int_equal(unlink(d->path), 0);
}

/* A socket that somebody left behind. */
static void door_leave(struct door *d, const char *dir, const char *name)
{
    bind_at(d, dir, name);
    close(d->fd);
}

#define V41    "{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}"
#define V20    "{\"ApiVersion\":\"1.20\",\"MinAPIVersion\":\"1.12\"}"
#define PODMAN "{\"ApiVersion\":\"1.41\",\"Components\":[{\"Name\":\"Podman Engine\"}]}"

/* ---- the place ---- */

struct ground {
    char dir[64]; /* home, and XDG_RUNTIME_DIR */
    struct driver driver;
    struct engine *engine;
    struct buf report;
    struct error e;
    struct engine_surroundings s;
};

static void ground_open(struct ground *g)
{
    struct error e = {0};
    char path[PATH_MAX];
    static const char *const dirs[] = {".docker", ".docker/run", ".colima", "podman", "none"};

    memset(g, 0, sizeof(*g));
    (void)snprintf(g->dir, sizeof(g->dir), "/tmp/tactus-test-XXXXXX");
    assert_non_null(mkdtemp(g->dir));
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", g->dir, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_int_equal(driver_init(&g->driver, &e), ERR_OK);
    buf_init(&g->report, 65536);
    /* The machine's own sockets are out of reach. */
    g->s = (struct engine_surroundings){.home = g->dir, .runtime_dir = g->dir, .root = g->dir};
}

static void ground_close(struct ground *g)
{
    static const char *const dirs[] = {".docker/run", ".docker", ".colima", "podman", "none", ""};
    char path[PATH_MAX];

    engine_free(g->engine);
    buf_fini(&g->report);
    driver_fini(&g->driver);
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", g->dir, dirs[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

static enum err look(struct ground *g, const char *flag)
{
    engine_free(g->engine);
    g->engine = NULL;
    buf_clear(&g->report);
    g->e = (struct error){0};
    return engine_find_in(&g->driver, &g->s, flag, &g->engine, &g->report, &g->e);
}

/* The report's line of the socket `name` says `why`. */
static void assert_reported(struct ground *g, const char *name, const char *why)
{
    char address[256];

    (void)snprintf(address, sizeof(address), "unix://%s/%s ", g->dir, name);
    const char *line = strstr(buf_cstr(&g->report), address);
    if (line == NULL) {
        fail_msg("%s is not in: %s", address, buf_cstr(&g->report));
        return;
    }
    const char *at = strstr(line, why);
    if (at == NULL || memchr(line, '\n', (size_t)(at - line)) != NULL) {
        fail_msg("%s: no \"%s\" in: %s", name, why, line);
    }
}

/* ---- tests ---- */

static void test_first_that_answers(void **state)
{
    struct ground g;
    struct door left;
    struct door silent;
    struct door old;
    struct door podman;
    struct door good;

    (void)state;
    ground_open(&g);
    door_open(&podman, g.dir, "podman/podman.sock", PODMAN);
    assert_int_equal(look(&g, NULL), ERR_OK);
    assert_true(engine_is_podman(g.engine));
    assert_string_equal(engine_socket(g.engine), podman.path);
    assert_int_equal(g.report.len, 0);
    door_open(&good, g.dir, ".colima/docker.sock", V41);
    door_leave(&left, g.dir, "docker.sock");
    door_open(&silent, g.dir, ".docker/run/docker.sock", NULL);
    assert_int_equal(look(&g, NULL), ERR_OK);
    assert_false(engine_is_podman(g.engine));
    assert_string_equal(engine_socket(g.engine), good.path);
    assert_string_equal(engine_api_version(g.engine), "1.41");
    door_close(&good);
    /* One that answers and is too old does not hide one that is not. */
    door_open(&old, g.dir, ".colima/docker.sock", V20);
    assert_int_equal(look(&g, NULL), ERR_OK);
    assert_string_equal(engine_socket(g.engine), podman.path);
    door_close(&podman);
    assert_int_equal(look(&g, NULL), ERR_CONFIG);
    assert_non_null(strstr(g.e.msg, "it speaks API versions 1.12 to 1.20"));
    assert_non_null(strstr(g.e.msg, old.path));
    assert_reported(&g, "docker.sock", "Connection refused");
    assert_reported(&g, ".docker/run/docker.sock", "accepts and does not answer");
    assert_reported(&g, ".colima/docker.sock", "it speaks API versions 1.12 to 1.20");
    assert_reported(&g, "podman/podman.sock", "No such file or directory");
    door_close(&silent);
    door_close(&old);
    assert_int_equal(unlink(left.path), 0);
    ground_close(&g);
}

static void test_none(void **state)
{
    struct ground g;
    struct door left;

    (void)state;
    ground_open(&g);
    assert_int_equal(look(&g, NULL), ERR_IO);
    assert_reported(&g, "var/run/docker.sock", "No such file or directory");
    assert_reported(&g, ".rd/docker.sock", "No such file or directory");
    assert_reported(&g, "run/podman/podman.sock", "No such file or directory");
    assert_non_null(strstr(buf_cstr(&g.report), "systemctl start docker"));
    assert_non_null(strstr(buf_cstr(&g.report), "--no-sandbox, or sandbox.enabled: false"));
    assert_non_null(strstr(g.e.msg, "(12 tried)"));
    assert_non_null(strstr(g.e.msg, "systemctl start docker"));
    assert_non_null(strstr(g.e.msg, "--no-sandbox, or sandbox.enabled: false"));
    /* The message has the one reason that tells something. */
    assert_null(strstr(g.e.msg, "No such file"));
    door_leave(&left, g.dir, "docker.sock");
    assert_int_equal(look(&g, NULL), ERR_IO);
    assert_non_null(strstr(g.e.msg, "/docker.sock: Connection refused"));
    assert_int_equal(engine_find_in(&g.driver, &g.s, NULL, &g.engine, NULL, NULL), ERR_IO);
    assert_int_equal(unlink(left.path), 0);
    ground_close(&g);
}

/* What somebody asked for is the only one that is tried. */
static void test_given(void **state)
{
    struct ground g;
    struct door good;
    char address[PATH_MAX];

    (void)state;
    ground_open(&g);
    door_open(&good, g.dir, "docker.sock", V41);
    g.s.docker_host = "unix:///nowhere/d.sock";
    assert_int_equal(look(&g, NULL), ERR_IO);
    assert_non_null(strstr(buf_cstr(&g.report), "DOCKER_HOST unix:///nowhere/d.sock No such file"));
    assert_non_null(strstr(g.e.msg, "DOCKER_HOST unix:///nowhere/d.sock: No such file"));
    assert_non_null(strstr(g.e.msg, "(1 tried)"));
    static const char *const bad[] = {"ssh://me@host", "npipe:////./pipe/docker_engine", "x.sock"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        g.s.docker_host = bad[i];
        assert_int_equal(look(&g, NULL), ERR_CONFIG);
        assert_non_null(strstr(g.e.msg, "DOCKER_HOST"));
        assert_non_null(strstr(g.e.msg, bad[i]));
        assert_non_null(strstr(g.e.msg, "expected unix:///PATH or tcp://HOST:PORT"));
        assert_non_null(strstr(buf_cstr(&g.report), bad[i]));
    }
    (void)snprintf(address, sizeof(address), "unix://%s", good.path);
    assert_int_equal(look(&g, address), ERR_OK); /* the flag stands over DOCKER_HOST */
    assert_string_equal(engine_address(g.engine), address);
    g.s.docker_host = NULL;
    g.s.docker_context = "nobody";
    assert_int_equal(look(&g, NULL), ERR_CONFIG);
    assert_non_null(strstr(g.e.msg, "DOCKER_CONTEXT nobody: there is no such context"));
    g.s.docker_context = NULL;
    g.s.docker_api_version = "1.42";
    assert_int_equal(look(&g, NULL), ERR_CONFIG);
    assert_non_null(strstr(g.e.msg, "DOCKER_API_VERSION is 1.42"));
    /* A home so deep that no socket fits: said, and the others are tried. */
    char deep[300];
    memset(deep, 'x', sizeof(deep));
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    g.s = (struct engine_surroundings){.home = deep, .root = deep, .runtime_dir = g.dir};
    assert_int_equal(look(&g, NULL), ERR_OK);
    assert_string_equal(engine_socket(g.engine), good.path);
    door_close(&good);
    assert_int_equal(look(&g, NULL), ERR_IO);
    assert_non_null(strstr(buf_cstr(&g.report), "a socket's path has at most 107 bytes"));
    ground_close(&g);
}

static int look_as_nobody(void *ctx)
{
    struct ground *g = ctx;

    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
        return 1;
    }
    if (look(g, NULL) != ERR_IO) {
        return 2;
    }
    return strstr(g->e.msg, "/docker.sock: Permission denied (is this user in the") != NULL &&
                   strstr(buf_cstr(&g->report), "Permission denied") != NULL
               ? 0
               : 3;
}

static void test_no_permission(void **state)
{
    struct ground g;
    struct door good;
    int status = 0;

    (void)state;
    if (geteuid() != 0) {
        skip(); /* root alone can become somebody who may not */
    }
    ground_open(&g);
    assert_int_equal(chmod(g.dir, 0755), 0);
    door_open(&good, g.dir, "docker.sock", V41);
    assert_int_equal(chmod(good.path, 0600), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(look_as_nobody(&g));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : 99, 0);
    door_close(&good);
    ground_close(&g);
}

static void test_signal(void **state)
{
    struct ground g;
    struct door silent;

    (void)state;
    ground_open(&g);
    door_open(&silent, g.dir, "docker.sock", NULL);
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(look(&g, NULL), ERR_CLOSED);
    door_close(&silent);
    ground_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_that_answers),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_no_permission),
        cmocka_unit_test(test_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
