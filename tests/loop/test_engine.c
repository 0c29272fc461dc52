/*
 * The engine client against a scripted server: what real engines do seldom, or only some of them.
 * (tests/engine has the real ones.)
 */
#include "engine/engine.h"

#include "fixtures/peer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the server answers to the request that begins with `start`; every other gets 404. */
struct answer {
    const char *start;
    const char *text; /* all of it, head and body */
    size_t n;         /* of text; 0: strlen */
};

#define JSON(status, body)                                                                         \
    "HTTP/1.1 " status                                                                             \
    "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" body                \
    "\r\n0\r\n\r\n"

struct bed {
    struct peer *peer;
    const struct answer *answers; /* ends with start NULL */
    struct driver driver;
    struct engine *engine;
    char address[64];
    char seen[4096]; /* the first lines of all requests */
};

static const struct answer *find(const struct bed *b, const char *request)
{
    const struct answer *a = b->answers;

    while (a->start != NULL && strncmp(request, a->start, strlen(a->start)) != 0) {
        a++;
    }
    return a->start == NULL ? NULL : a;
}

static void serve(struct peer_conn *c, void *ctx)
{
    struct bed *b = ctx;
    char request[65536];
    const char *body = NULL;

    while (peer_recv_request(c, request, sizeof(request), &body)) {
        const struct answer *a = find(b, request);
        size_t used = strlen(b->seen);
        snprintf(b->seen + used, sizeof(b->seen) - used, "%.*s\n", (int)strcspn(request, "\r"),
                 request);
        if (a == NULL) {
            if (!peer_reply(c, "404 Not Found", "", "{\"message\":\"no such thing\"}\n")) {
                return;
            }
        } else if (!peer_send(c, a->text, a->n == 0 ? strlen(a->text) : a->n)) {
            return;
        } else if (strncmp(a->text, "HTTP/1.1 101", 12) == 0 || strstr(a->text, "close") != NULL) {
            return;
        }
    }
}

#define VERSION_41 "2f\r\n{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"  }\n"

static const struct answer hello[] = {
    {"GET /_ping", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", 0},
    {"GET /version", JSON("200 OK", VERSION_41), 0},
    {NULL, NULL, 0},
};

static enum err bed_open(struct bed *b, const struct answer *answers, struct error *e)
{
    memset(b, 0, sizeof(*b));
    assert_int_equal(unsetenv("DOCKER_API_VERSION"), 0);
    assert_int_equal(unsetenv("DOCKER_TLS_VERIFY"), 0);
    b->answers = answers;
    b->peer = peer_start(serve, b, NULL);
    snprintf(b->address, sizeof(b->address), "tcp://127.0.0.1:%u", peer_port(b->peer));
    assert_int_equal(driver_init(&b->driver, e), ERR_OK);
    return engine_find(&b->driver, b->address, &b->engine, NULL, e);
}

static void bed_close(struct bed *b)
{
    engine_free(b->engine);
    driver_fini(&b->driver);
    peer_stop(b->peer);
}

/* ---- finding ---- */

static void test_versions(void **state)
{
    static const struct {
        const char *version;
        const char *forced;
        const char *expected; /* NULL: refused */
    } rows[] = {
        {"30\r\n{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"   }\n", NULL, "1.41"},
        {"30\r\n{\"ApiVersion\":\"1.60\",\"MinAPIVersion\":\"1.44\"   }\n", NULL, "1.51"},
        {"30\r\n{\"ApiVersion\":\"1.60\",\"MinAPIVersion\":\"1.44\"   }\n", "1.45", "1.45"},
        {"30\r\n{\"ApiVersion\":\"1.60\",\"MinAPIVersion\":\"1.44\"   }\n", "1.43", NULL},
        {"30\r\n{\"ApiVersion\":\"1.60\",\"MinAPIVersion\":\"1.55\"   }\n", NULL, NULL},
        {"30\r\n{\"ApiVersion\":\"1.40\",\"MinAPIVersion\":\"1.12\"   }\n", NULL, NULL},
        {"30\r\n{\"ApiVersion\":\"two\" ,\"MinAPIVersion\":\"1.12\"   }\n", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        struct answer answers[3] = {hello[0], {"GET /version", text, 0}, {NULL, NULL, 0}};
        struct bed b;
        struct error e = {0};
        snprintf(text, sizeof(text),
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n0\r\n\r\n",
                 rows[i].version);
        memset(&b, 0, sizeof(b));
        b.answers = answers;
        b.peer = peer_start(serve, &b, NULL);
        snprintf(b.address, sizeof(b.address), "tcp://127.0.0.1:%u", peer_port(b.peer));
        assert_int_equal(driver_init(&b.driver, &e), ERR_OK);
        if (rows[i].forced != NULL) {
            assert_int_equal(setenv("DOCKER_API_VERSION", rows[i].forced, 1), 0);
        }
        enum err rc = engine_find(&b.driver, b.address, &b.engine, NULL, &e);
        assert_int_equal(unsetenv("DOCKER_API_VERSION"), 0);
        assert_int_equal(rc == ERR_OK, rows[i].expected != NULL);
        if (rc == ERR_OK) {
            assert_string_equal(engine_api_version(b.engine), rows[i].expected);
            assert_string_equal(engine_address(b.engine), b.address);
        } else {
            assert_true(e.msg[0] != '\0');
        }
        bed_close(&b);
    }
}

static void test_report(void **state)
{
    struct driver d;
    struct engine *engine = NULL;
    struct buf report;
    struct error e = {0};
    char address[64];

    (void)state;
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", peer_dead_port());
    assert_int_equal(driver_init(&d, &e), ERR_OK);
    buf_init(&report, 65536);
    assert_int_equal(engine_find(&d, address, &engine, &report, &e), ERR_IO);
    assert_non_null(strstr(buf_cstr(&report), address));
    assert_non_null(strstr(buf_cstr(&report), "--no-sandbox"));
    assert_non_null(strstr(e.msg, "no container engine answered"));
    buf_clear(&report);
    assert_int_equal(engine_find(&d, "unix:///nowhere/x.sock", &engine, &report, &e), ERR_IO);
    assert_non_null(strstr(buf_cstr(&report), "unix:///nowhere/x.sock"));
    assert_non_null(strstr(buf_cstr(&report), "No such file or directory"));
    static const char *const bad[] = {"ssh://host",      "npipe:////./pipe/x", "relative.sock",
                                      "unix://relative", "tcp://nowhere",      ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(engine_find(&d, bad[i], &engine, NULL, &e), ERR_CONFIG);
        assert_non_null(strstr(e.msg, "--engine"));
    }
    char lengthy[300] = "unix:///";
    memset(lengthy + 8, 'x', 200);
    assert_int_equal(engine_find(&d, lengthy, &engine, NULL, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "at most 107 bytes"));
    assert_null(engine);
    buf_fini(&report);
    driver_fini(&d);
}

/* ---- containers ---- */

static const struct answer odd[] = {
    {"GET /_ping", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", 0},
    {"GET /version", JSON("200 OK", VERSION_41), 0},
    {"POST /v1.41/containers/create?name=taken ",
     JSON("500 Internal Server Error",
          "3b\r\n{\"message\":\"the container name \\\"x\\\" is already in use\"  }\n"),
     0},
    {"POST /v1.41/containers/create?name=dropped ",
     JSON("201 Created", "4c\r\n{\"Id\":\"abc\",\"Warnings\":[\"Your kernel does not support x. "
                         "Limit discarded\"]}\n"),
     0},
    {"POST /v1.41/containers/create?name=fine ",
     JSON("201 Created", "1e\r\n{\"Id\":\"abc\",\"Warnings\":null }\n"), 0},
    {"POST /v1.41/containers/create?name=page ",
     "HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\n<html>", 0},
    {"DELETE /v1.41/containers/going?",
     JSON("409 Conflict", "3b\r\n{\"message\":\"removal of container x is already in progress\"}"),
     0},
    {"DELETE /v1.41/containers/", "HTTP/1.1 204 No Content\r\n\r\n", 0},
    {"POST /v1.41/containers/stopped/kill", "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}",
     0},
    {"POST /v1.41/containers/lost/wait",
     "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99\r\n\r\n{", 0},
    {"POST /v1.41/containers/three/wait",
     JSON("200 OK", "22\r\n{\"StatusCode\":3,\"Error\":null    }\n"), 0},
    {NULL, NULL, 0},
};

static void test_create(void **state)
{
    char id[ENGINE_ID_SIZE] = "";
    struct bed b;
    struct error e = {0};

    (void)state;
    assert_int_equal(bed_open(&b, odd, &e), ERR_OK);
    assert_int_equal(engine_create(b.engine, "taken", SPAN("{}"), id, &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 409);
    assert_null(strstr(b.seen, "DELETE")); /* it is somebody else's */
    assert_int_equal(engine_create(b.engine, "dropped", SPAN("{}"), id, &e), ERR_UPSTREAM);
    assert_non_null(strstr(e.msg, "drops a limit"));
    assert_non_null(strstr(b.seen, "DELETE /v1.41/containers/dropped?"));
    assert_int_equal(engine_create(b.engine, "page", SPAN("{}"), id, &e), ERR_PROTO);
    assert_non_null(strstr(b.seen, "DELETE /v1.41/containers/page?"));
    assert_string_equal(id, "");
    assert_int_equal(engine_create(b.engine, "fine", SPAN("{}"), id, &e), ERR_OK);
    assert_string_equal(id, "abc");
    assert_int_equal(engine_create(b.engine, "other", SPAN("{}"), id, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: create: no such thing");
    assert_int_equal(engine_remove(b.engine, "going", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "stopped", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "gone", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_start(b.engine, "gone", &e), ERR_UPSTREAM);
    bed_close(&b);
}

static void test_wait(void **state)
{
    struct engine_exit *x = NULL;
    struct bed b;
    struct error e = {0};
    int code = -5;

    (void)state;
    assert_int_equal(bed_open(&b, odd, &e), ERR_OK);
    assert_int_equal(engine_exit_watch(b.engine, "three", &x, &e), ERR_OK);
    assert_int_equal(driver_wait(&b.driver, engine_exit_done(x), 0), ERR_OK);
    assert_int_equal(engine_exit_code(x, &code, &e), ERR_OK);
    assert_int_equal(code, 3);
    engine_exit_end(x);
    assert_int_equal(engine_exit_watch(b.engine, "lost", &x, &e), ERR_OK);
    assert_int_equal(driver_wait(&b.driver, engine_exit_done(x), 0), ERR_OK);
    assert_int_equal(engine_exit_code(x, &code, &e), ERR_IO); /* never a made-up 0 */
    assert_int_equal(code, 3);
    engine_exit_end(x);
    bed_close(&b);
}

/* ---- attaching ---- */

struct heard {
    char text[256];
    bool over;
    enum err why;
    struct attach *attach;
    bool close_at_once;
};

static void on_output(void *ctx, int stream, const char *p, size_t n)
{
    struct heard *h = ctx;
    size_t used = strlen(h->text);

    snprintf(h->text + used, sizeof(h->text) - used, "%d%.*s", stream, (int)n, p);
    if (h->close_at_once) {
        attach_close(h->attach);
        h->over = true;
    }
}

static void on_end(void *ctx, enum err why)
{
    struct heard *h = ctx;

    h->over = true;
    h->why = why;
}

static void on_drain(void *ctx)
{
    (void)ctx;
}

static const struct attach_handler handler = {
    .on_output = on_output, .on_drain = on_drain, .on_end = on_end};

#define WITH_NULS(text) (text), sizeof(text) - 1

static const struct answer streams[] = {
    {"GET /_ping", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", 0},
    {"GET /version", JSON("200 OK", VERSION_41), 0},
    {"POST /v1.41/containers/upgraded/attach",
     WITH_NULS("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
               "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3err")},
    {"POST /v1.41/containers/plain/attach",
     WITH_NULS("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\1\0\0\0\0\0\0\2hi")},
    {"POST /v1.41/containers/cut/attach",
     WITH_NULS("HTTP/1.1 101 UPGRADED\r\n\r\n\1\0\0\0\0\0\0\5hel")},
    {"POST /v1.41/containers/wrong/attach", WITH_NULS("HTTP/1.1 101 UPGRADED\r\n\r\nnonsense!")},
    {"POST /v1.41/containers/silent/attach", WITH_NULS("HTTP/1.1 101 close\r\n")},
    {NULL, NULL, 0},
};

static enum err listen_to(struct bed *b, const char *id, struct heard *h, struct error *e)
{
    memset(h, 0, sizeof(*h));
    enum err rc = engine_attach(b->engine, id, &handler, h, &h->attach, e);
    if (rc == ERR_OK) {
        assert_int_equal(driver_wait(&b->driver, &h->over, 0), ERR_OK);
        attach_close(h->attach);
    }
    return rc;
}

static void test_attach(void **state)
{
    struct bed b;
    struct heard h;
    struct error e = {0};

    (void)state;
    assert_int_equal(bed_open(&b, streams, &e), ERR_OK);
    /* What follows the head in the same read is output, and comes later than this returns. */
    memset(&h, 0, sizeof(h));
    assert_int_equal(engine_attach(b.engine, "upgraded", &handler, &h, &h.attach, &e), ERR_OK);
    assert_string_equal(h.text, "");
    assert_int_equal(driver_wait(&b.driver, &h.over, 0), ERR_OK);
    attach_close(h.attach);
    assert_string_equal(h.text, "1hello2err");
    assert_int_equal(h.why, ERR_OK);
    /* Closed in its own callback: nothing more comes. */
    memset(&h, 0, sizeof(h));
    h.close_at_once = true;
    assert_int_equal(engine_attach(b.engine, "upgraded", &handler, &h, &h.attach, &e), ERR_OK);
    assert_int_equal(driver_wait(&b.driver, &h.over, 0), ERR_OK);
    assert_string_equal(h.text, "1hello");
    assert_int_equal(listen_to(&b, "plain", &h, &e), ERR_OK);
    assert_string_equal(h.text, "1hi");
    assert_int_equal(listen_to(&b, "cut", &h, &e), ERR_OK);
    assert_string_equal(h.text, "1hel");
    assert_int_not_equal(h.why, ERR_OK);
    assert_int_equal(listen_to(&b, "wrong", &h, &e), ERR_OK);
    assert_int_equal(h.why, ERR_PROTO);
    assert_int_equal(listen_to(&b, "nobody", &h, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: attach: no such thing");
    assert_int_equal(e.sys, 404);
    assert_int_equal(listen_to(&b, "silent", &h, &e), ERR_IO);
    bed_close(&b);
}

int main(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions), cmocka_unit_test(test_report),
        cmocka_unit_test(test_create),   cmocka_unit_test(test_wait),
        cmocka_unit_test(test_attach),
    };

    (void)sigaction(SIGPIPE, &ignore, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
