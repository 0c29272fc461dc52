/* Waiting for an exit, with a scripted engine: the order of things, and every way to fail. */
#include "fixtures/engine_bed.h"

#include <signal.h>

#define HEAD     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define WAIT(id) .start = "POST /v1.41/containers/" id "/wait?condition=next-exit "

/* Takes its time, so that a start that did not wait for the head would come first. */
static void watch_late(struct peer_conn *c, struct bed *b)
{
    peer_sleep(50);
    bed_note(b, "WATCHED\n");
    (void)peer_send_str(c, HEAD);
    (void)peer_wait(c, 1);
    (void)peer_send_str(c, "1e\r\n{\"StatusCode\":3,\"Error\":null}\n\r\n0\r\n\r\n");
}

/* Something between that keeps the head until the body is there. */
static void hold_head(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_wait(c, 1);
    (void)peer_send_str(c, HEAD "1e\r\n{\"StatusCode\":5,\"Error\":null}\n\r\n0\r\n\r\n");
}

static void lose(struct peer_conn *c, struct bed *b)
{
    (void)b;
    (void)peer_send_str(c, HEAD);
    (void)peer_wait(c, 1);
    peer_reset(c);
}

static void interrupt(struct peer_conn *c, struct bed *b)
{
    (void)b;
    assert(raise(SIGTERM) == 0);
    (void)peer_expect_close(c);
}

SAYS(failed, "200 OK", "{\"StatusCode\":1,\"Error\":{\"Message\":\"gone\\nbad\"}}")
SAYS(empty_error, "200 OK", "{\"StatusCode\":7,\"Error\":{}}")
SAYS(minus, "200 OK", "{\"StatusCode\":-1}")
SAYS(large, "200 OK", "{\"StatusCode\": 256}")
SAYS(no_code, "200 OK", "{}")
SAYS(page, "200 OK", "<html>")
SAYS(refused, "404 Not Found", "{\"message\":\"No such container: x\"}")

static const struct answer answers[] = {
    {WAIT("late"), .session = watch_late},
    {WAIT("held"), .session = hold_head},
    {WAIT("lost"), .session = lose},
    {WAIT("unasked"), .then = CLOSE},
    {WAIT("refused"), .says = &refused, .dribble = true},
    {WAIT("failed"), .says = &failed},
    {WAIT("empty-error"), .says = &empty_error},
    {WAIT("minus"), .says = &minus},
    {WAIT("large"), .says = &large},
    {WAIT("no-code"), .says = &no_code},
    {WAIT("page"), .says = &page},
    {WAIT("cut"), .text = HEAD "1e\r\n{\"StatusCode\":0,", .then = CLOSE},
    {WAIT("endless"), .text = HEAD, .then = HANG},
    {WAIT("signal"), .session = interrupt},
    {.start = "POST /v1.41/containers/late/start", .text = "HTTP/1.1 204 No Content\r\n\r\n"},
    {.start = NULL},
};

static enum err exit_of(struct bed *b, struct engine_exit *x, int *code, struct error *e)
{
    struct driver *d = &b->driver;

    assert_int_equal(driver_wait(d, engine_exit_done(x), driver_deadline(d, PEER_WAIT_MS)), ERR_OK);
    enum err rc = engine_exit_code(x, code, e);
    enum err again = engine_exit_code(x, code, NULL); /* asked twice it says the same */
    assert_int_equal(again, rc);
    engine_exit_end(x);
    return rc;
}

/* The engine says that it watches before the container may be started. */
static void test_order(void **state)
{
    struct bed b;
    struct engine_exit *x = NULL;
    struct error e = {0};
    int code = -5;

    (void)state;
    bed_open(&b, answers);
    assert_int_equal(engine_exit_watch(b.engine, "late", &x, &e), ERR_OK);
    assert_int_equal(bed_asked(&b, "WATCHED"), 1);
    assert_int_equal(engine_start(b.engine, "late", &e), ERR_OK);
    assert_false(*engine_exit_done(x));
    peer_step(b.peer);
    assert_int_equal(exit_of(&b, x, &code, &e), ERR_OK);
    assert_int_equal(code, 3);
    bed_close(&b);
}

static void test_held_head(void **state)
{
    struct bed b;
    struct engine_exit *x = NULL;
    struct error e = {0};
    int code = -5;

    (void)state;
    bed_open(&b, answers);
    b.engine->limits.watch_ms = 20;
    assert_int_equal(engine_exit_watch(b.engine, "held", &x, &e), ERR_OK);
    peer_step(b.peer);
    assert_int_equal(exit_of(&b, x, &code, &e), ERR_OK);
    assert_int_equal(code, 5);
    bed_close(&b);
}

static void test_refused(void **state)
{
    struct bed b;
    struct engine_exit *x = NULL;
    struct error e = {0};

    (void)state;
    bed_open(&b, answers);
    assert_int_equal(engine_exit_watch(b.engine, "refused", &x, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: wait: No such container: x");
    assert_int_equal(e.sys, 404);
    assert_int_equal(engine_exit_watch(b.engine, "unasked", &x, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "the engine: wait: "));
    assert_int_equal(engine_exit_watch(b.engine, ".", &x, &e), ERR_CONFIG);
    assert_int_equal(engine_exit_watch(b.engine, "signal", &x, &e), ERR_CLOSED);
    assert_null(x);
    bed_close(&b);
}

/* No failure is ever an exit code, least of all 0. */
static void test_no_code(void **state)
{
    static const struct {
        const char *id;
        enum err rc;
        const char *message;
    } rows[] = {
        {"lost", ERR_IO, "the engine: wait: "},
        {"cut", ERR_IO, "the engine: wait: "},
        {"failed", ERR_UPSTREAM, "the engine: wait: gone bad"},
        {"minus", ERR_PROTO, "no StatusCode"},
        {"large", ERR_PROTO, "no StatusCode"},
        {"no-code", ERR_PROTO, "no StatusCode"},
        {"page", ERR_PROTO, "cannot be read"},
        {"empty-error", ERR_OK, ""},
    };
    struct bed b;

    (void)state;
    bed_open(&b, answers);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct engine_exit *x = NULL;
        struct error e = {0};
        int code = -5;
        assert_int_equal(engine_exit_watch(b.engine, rows[i].id, &x, &e), ERR_OK);
        if (i == 0) {
            peer_step(b.peer);
        }
        assert_int_equal(exit_of(&b, x, &code, &e), rows[i].rc);
        assert_int_equal(code, rows[i].rc == ERR_OK ? 7 : -5);
        assert_non_null(strstr(e.msg, rows[i].message));
    }
    bed_close(&b);
}

static void test_ended_early(void **state)
{
    struct bed b;
    struct engine_exit *x = NULL;
    struct error e = {0};

    (void)state;
    bed_open(&b, answers);
    assert_int_equal(engine_exit_watch(b.engine, "endless", &x, &e), ERR_OK);
    bed_pass(&b);
    assert_false(*engine_exit_done(x));
    unsigned closed = peer_closed(b.peer);
    engine_exit_end(x);
    while (peer_closed(b.peer) == closed) { /* the engine sees that nobody waits any more */
        bed_pass(&b);
    }
    engine_exit_end(NULL);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_held_head),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_no_code),
        cmocka_unit_test(test_ended_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
