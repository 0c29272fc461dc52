/*
 * Images of a scripted engine: what is asked for, with which login, failures inside a 200, silence.
 * (The stream of progress objects cut anywhere: tests/unit/test_progress.c.)
 */
#include "fixtures/engine_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

/* ---- inspect ---- */

SAYS(whole, "200 OK",
     "{\"Id\":\"sha256:0f\",\"Config\":{\"User\":\"1:2\",\"Entrypoint\":[\"/e\",\"a b\"],\"Cmd\":["
     "\"c\\u00e9\"],\"Env\":[\"A=1\",\"B=\"],\"Labels\":{\"tactus.version\":\"1.2\","
     "\"tactus.source_hash\":\"0123456789abcdef\",\"other\":\"x\"}}}")
SAYS(bare, "200 OK",
     "{\"Id\":\"sha256:0f\",\"Config\":{\"User\":\"\",\"Entrypoint\":null,\"Cmd\":[],"
     "\"Labels\":null}}")
SAYS(odd, "200 OK", "{\"Id\":\"sha256:0f\",\"Config\":{\"Cmd\":[\"a\",7]}}")
SAYS(array, "200 OK", "[]")
SAYS(denied, "500 Internal Server Error", "{\"message\":\"permission denied\"}")

static const struct answer inspecting[] = {
    {.start = "GET /v1.41/images/r.example%3A5000/a/b%3Atag/json ", .says = &whole},
    {.start = "GET /v1.41/images/a%40sha256%3A0f/json ", .says = &bare},
    {.start = "GET /v1.41/images/odd/json ", .says = &odd},
    {.start = "GET /v1.41/images/array/json ", .says = &array},
    {.start = "GET /v1.41/images/denied/json ", .says = &denied},
    {.start = NULL},
};

static void test_inspect(void **state)
{
    struct bed b;
    struct engine_image i;
    bool found = false;
    struct error e = {0};

    (void)state;
    bed_open(&b, inspecting);
    assert_int_equal(engine_image_inspect(b.engine, "r.example:5000/a/b:tag", &i, &found, &e),
                     ERR_OK);
    assert_true(found);
    assert_string_equal(i.id, "sha256:0f");
    assert_string_equal(i.user, "1:2");
    assert_string_equal(i.version_label, "1.2");
    assert_string_equal(i.hash_label, "0123456789abcdef");
    assert_int_equal(i.entrypoint.n, 2);
    assert_string_equal(i.entrypoint.v[1], "a b");
    assert_int_equal(i.command.n, 1);
    assert_string_equal(i.command.v[0], "c\xc3\xa9");
    assert_int_equal(i.env.n, 2);
    assert_string_equal(i.env.v[0], "A=1");
    engine_image_fini(&i);
    assert_null(i.id);
    engine_image_fini(&i);
    assert_int_equal(engine_image_inspect(b.engine, "a@sha256:0f", &i, &found, &e), ERR_OK);
    assert_int_equal(i.entrypoint.n + i.command.n + i.env.n, 0);
    assert_null(i.version_label);
    assert_null(i.hash_label);
    engine_image_fini(&i);
    /* 404, and only that, is "not there": a pull follows it. */
    assert_int_equal(engine_image_inspect(b.engine, "gone", &i, &found, &e), ERR_OK);
    assert_false(found);
    assert_int_equal(engine_image_inspect(b.engine, "denied", &i, &found, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: image inspect: permission denied");
    assert_false(found);
    assert_int_equal(engine_image_inspect(b.engine, "odd", &i, &found, &e), ERR_PROTO);
    assert_int_equal(engine_image_inspect(b.engine, "array", &i, &found, &e), ERR_PROTO);
    assert_int_equal(engine_image_inspect(b.engine, "../../info", &i, &found, &e), ERR_CONFIG);
    bed_close(&b);
}

/* ---- pull ---- */

static void on_progress(void *ctx, const char *item, const char *status, uint64_t current,
                        uint64_t total)
{
    char *out = ctx;
    size_t n = strlen(out);

    (void)snprintf(out + n, 512 - n, "[%s|%s|%u/%u]", item, status, (unsigned)current,
                   (unsigned)total);
}

SAYS(pulled, "200 OK",
     "{\"status\":\"Pulling from x\",\"id\":\"latest\"}\r\n{\"status\":\"Downloading\","
     "\"progressDetail\":{\"current\":5,\"total\":10},\"id\":\"0f\"}\r\n{\"status\":\"Done\"}")
SAYS(failed_inside, "200 OK",
     "{\"status\":\"Pulling from x\"}\n{\"errorDetail\":{\"message\":\"manifest unknown\\r\\n\"},"
     "\"error\":\"manifest unknown\"}")
SAYS(no_access, "404 Not Found", "{\"message\":\"pull access denied for x\"}")
SAYS(page, "200 OK", "<html>")

/* A word each 100 ms, for longer than the silence that is borne. */
static void talk_slowly(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_send_str(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 8; i++) {
        peer_sleep(100);
        (void)peer_send_str(c, "e\r\n{\"status\":\"x\"}\r\n");
    }
    (void)peer_send_str(c, "0\r\n\r\n");
}

static void fall_silent(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_send_str(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "e\r\n{\"status\":\"x\"}\r\n");
    (void)peer_expect_close(c);
}

/* The engine's last word is its error, then it is gone in mid-stream. */
static void fail_and_go(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_send_str(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "10\r\n{\"error\":\"full\"}\r\n");
}

static void go(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_send_str(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "e\r\n{\"status\":\"x\"}\r\n");
}

static void interrupt(struct peer_conn *c, struct bed *b)
{
    (void)b;
    assert(kill(getpid(), SIGTERM) == 0);
    (void)peer_expect_close(c);
}

#define PULL(query) .start = "POST /v1.41/images/create?fromImage=" query " "

static const struct answer pulling[] = {
    {PULL("x&tag=latest"), .says = &pulled},
    {PULL("x%3A1"), .says = &pulled},
    {PULL("x%40sha256%3A0f"), .says = &pulled},
    {PULL("r.example%3A5000%2Fa%2Fb&tag=latest"), .says = &pulled, .dribble = true},
    {PULL("failed%3A1"), .says = &failed_inside},
    {PULL("access%3A1"), .says = &no_access},
    {PULL("page%3A1"), .says = &page},
    {PULL("silent%3A1"), .then = HANG},
    {PULL("stalled%3A1"), .session = fall_silent},
    {PULL("slow%3A1"), .session = talk_slowly},
    {PULL("cut%3A1"), .session = fail_and_go},
    {PULL("gone%3A1"), .session = go},
    {PULL("signal%3A1"), .session = interrupt},
    {.start = NULL},
};

static void test_pull(void **state)
{
    static const struct {
        const char *name;
        enum err rc;
        const char *message;
    } rows[] = {
        {"x", ERR_OK, ""},
        {"x:1", ERR_OK, ""},
        {"x@sha256:0f", ERR_OK, ""},
        {"r.example:5000/a/b", ERR_OK, ""},
        {"failed:1", ERR_UPSTREAM,
         "image failed:1 cannot be pulled: the engine: pull: manifest unknown"},
        {"access:1", ERR_UPSTREAM,
         "image access:1 cannot be pulled: the engine: pull: pull access denied for x"},
        {"page:1", ERR_PROTO, "image page:1 cannot be pulled: "},
        {"cut:1", ERR_UPSTREAM, "image cut:1 cannot be pulled: the engine: pull: full"},
        {"gone:1", ERR_IO, "image gone:1 cannot be pulled: the engine: POST "},
        {"a/../b", ERR_CONFIG, "is no name"},
        {"", ERR_CONFIG, "is no name"},
    };
    struct bed b;

    (void)state;
    bed_open(&b, pulling);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char seen[512] = "";
        struct error e = {0};
        assert_int_equal(engine_image_pull(b.engine, rows[i].name, on_progress, seen, &e),
                         rows[i].rc);
        assert_non_null(strstr(e.msg, rows[i].message));
        if (rows[i].rc == ERR_OK) {
            assert_string_equal(seen,
                                "[latest|Pulling from x|0/0][0f|Downloading|5/10][|Done|0/0]");
        }
    }
    assert_int_equal(engine_image_pull(b.engine, "x", NULL, NULL, NULL), ERR_OK);
    assert_int_equal(engine_image_pull(b.engine, "failed:1", NULL, NULL, NULL), ERR_UPSTREAM);
    assert_int_equal(bed_asked(&b, "X-Registry-Auth"), 0);
    bed_close(&b);
}

static void test_silence(void **state)
{
    static const char *const silent[] = {"silent:1", "stalled:1"};
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, pulling);
    b.engine->limits.pull_ms = 500;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(engine_image_pull(b.engine, silent[i], NULL, NULL, &e), ERR_IO);
        assert_int_equal(e.sys, ETIMEDOUT);
        assert_non_null(strstr(e.msg, "the engine: pull: no word for 500 ms"));
    }
    assert_int_equal(engine_image_pull(b.engine, "slow:1", NULL, NULL, &e), ERR_OK);
    assert_int_equal(engine_image_pull(b.engine, "signal:1", NULL, NULL, &e), ERR_CLOSED);
    bed_close(&b);
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Each registry gets its own login, and nobody else's. */
static void test_login(void **state)
{
    char dir[] = "/tmp/tactus-test-XXXXXX";
    char path[PATH_MAX];
    struct bed b;
    struct error e = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/config.json", dir);
    put(path, "{\"auths\":{\"r.example:5000\":{\"auth\":\"YTpi\"}}}");
    assert_int_equal(setenv("DOCKER_CONFIG", dir, 1), 0);
    bed_open(&b, pulling);
    assert_int_equal(engine_image_pull(b.engine, "x", NULL, NULL, &e), ERR_OK);
    assert_int_equal(bed_asked(&b, "X-Registry-Auth"), 0);
    assert_int_equal(engine_image_pull(b.engine, "r.example:5000/a/b", NULL, NULL, &e), ERR_OK);
    /* {"username":"a","password":"b","serveraddress":"r.example:5000"} */
    assert_int_equal(bed_asked(&b, "\r\nX-Registry-Auth: eyJ1c2VybmFtZSI6ImEiLCJwYXNzd29yZCI6ImIi"
                                   "LCJzZXJ2ZXJhZGRyZXNzIjoici5leGFtcGxlOjUwMDAifQ==\r\n"),
                     1);
    bed_close(&b);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(setenv("DOCKER_CONFIG", "/nowhere", 1), 0);
}

/* ---- build ---- */

SAYS(built, "200 OK",
     "{\"stream\":\"Step 1/1 : FROM x\"}\r\n{\"aux\":{\"ID\":\"sha256:0f\"}}\r\n"
     "{\"stream\":\"Successfully built 0f\\n\"}")
SAYS(not_built, "200 OK",
     "{\"stream\":\"Step 1\"}{\"errorDetail\":{\"code\":7,\"message\":\"returned a non-zero code: "
     "7\"},\"error\":\"x\"}")
SAYS(no_file, "500 Internal Server Error",
     "{\"message\":\"Cannot locate specified Dockerfile: none\"}")

static const struct answer building[] = {
    {.start = "POST /v1.41/build?t=i%3A1&dockerfile=dir%2FDocker%20file&labels=%7B%22a%22%3A%22b%3D"
              "%5C%22c%22%2C%22d%22%3A%22%22%7D&rm=1&forcerm=1 ",
     .says = &built},
    {.start = "POST /v1.41/build?t=i&dockerfile=bad&", .says = &not_built},
    {.start = "POST /v1.41/build?t=i&dockerfile=none&", .says = &no_file},
    {.start = "POST /v1.41/build?t=i&dockerfile=silent&", .then = HANG},
    {.start = NULL},
};

static void test_build(void **state)
{
    static const char *const labels[] = {"a=b=\"c", "d"};
    const struct span context = SPAN("THE-ARCHIVE");
    char seen[512] = "";
    char lengthy[2048];
    const char *const long_label[] = {lengthy};
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, building);
    b.engine->limits.build_ms = 100;
    assert_int_equal(engine_image_build(b.engine, "i:1", "dir/Docker file", context, labels, 2,
                                        on_progress, seen, &e),
                     ERR_OK);
    assert_string_equal(seen, "[|Step 1/1 : FROM x|0/0][|Successfully built 0f\n|0/0]");
    assert_int_equal(bed_asked(&b, "Content-Type: application/x-tar\r\n"), 1);
    assert_int_equal(bed_asked(&b, "\r\n\r\nTHE-ARCHIVE"), 1);
    assert_int_equal(engine_image_build(b.engine, "i", "bad", context, NULL, 0, NULL, NULL, &e),
                     ERR_UPSTREAM);
    assert_string_equal(e.msg,
                        "image i cannot be built: the engine: build: returned a non-zero code: 7");
    assert_int_equal(engine_image_build(b.engine, "i", "none", context, NULL, 0, NULL, NULL, &e),
                     ERR_UPSTREAM);
    assert_non_null(strstr(e.msg, "Cannot locate specified Dockerfile: none"));
    assert_int_equal(engine_image_build(b.engine, "i", "silent", context, NULL, 0, NULL, NULL, &e),
                     ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    memset(lengthy, 'x', sizeof(lengthy));
    lengthy[sizeof(lengthy) - 1] = '\0';
    assert_int_equal(engine_image_build(b.engine, "i", "f", context, long_label, 1, NULL, NULL, &e),
                     ERR_CONFIG);
    assert_int_equal(engine_image_build(b.engine, lengthy, "f", context, NULL, 0, NULL, NULL, &e),
                     ERR_CONFIG);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect), cmocka_unit_test(test_pull),
        cmocka_unit_test(test_silence), cmocka_unit_test(test_login),
        cmocka_unit_test(test_build),
    };

    /* The caller's own logins are none of this test's business. */
    return setenv("DOCKER_CONFIG", "/nowhere", 1) == 0 ? cmocka_run_group_tests(tests, NULL, NULL)
                                                       : 1;
}
