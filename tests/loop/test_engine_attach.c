/*
 * Attached streams with a scripted engine: the ways in which it opens them or does not, pauses,
 * back-pressure, ends, TLS. (frames and hijack have unit tests of their own.)
 */
#include "fixtures/engine_bed.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#define OPEN "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

struct heard {
    struct bed *bed;
    struct attach *attach;
    char text[256];    /* "1hello2err": stream and piece */
    size_t bytes[3];   /* of each stream */
    bool pattern;      /* stdout is checked against the peer's pattern, and no text is kept */
    unsigned pause_at; /* the number of the piece in which it pauses; 0: never */
    bool pause_always;
    bool close_at_end;
    unsigned pieces;
    unsigned drains;
    unsigned ends;
    bool over;
    enum err why;
    size_t to_send; /* of the pattern, to stdin */
    size_t sent;
};

static void on_output(void *ctx, int stream, const char *p, size_t n)
{
    struct heard *h = ctx;
    size_t used = strlen(h->text);

    assert_int_equal(h->ends, 0);
    for (size_t i = 0; h->pattern && i < n; i++) {
        if (p[i] != peer_pattern(h->bytes[stream] + i)) {
            fail_msg("byte %zu of stream %d is wrong", h->bytes[stream] + i, stream);
        }
    }
    if (!h->pattern) {
        (void)snprintf(h->text + used, sizeof(h->text) - used, "%d%.*s", stream, (int)n, p);
    }
    h->bytes[stream] += n;
    h->pieces++;
    if (h->pause_always || h->pieces == h->pause_at) {
        attach_pause(h->attach);
    }
}

static void send_some(struct heard *h)
{
    while (h->sent < h->to_send && !attach_congested(h->attach)) {
        char block[8192];
        size_t n = h->to_send - h->sent < sizeof(block) ? h->to_send - h->sent : sizeof(block);
        for (size_t i = 0; i < n; i++) {
            block[i] = peer_pattern(h->sent + i);
        }
        const struct span pieces[] = {{block, n / 2}, {block + n / 2, n - n / 2}};
        assert_int_equal(attach_write(h->attach, pieces, 2), ERR_OK);
        h->sent += n;
    }
    if (h->sent == h->to_send) {
        attach_end_input(h->attach);
    }
}

static void on_drain(void *ctx)
{
    struct heard *h = ctx;

    h->drains++;
    send_some(h);
}

static void on_end(void *ctx, enum err why)
{
    struct heard *h = ctx;

    h->ends++;
    h->over = true;
    h->why = why;
    if (h->close_at_end) {
        attach_close(h->attach);
        h->attach = NULL;
    }
}

static const struct attach_handler handler = {
    .on_output = on_output, .on_drain = on_drain, .on_end = on_end};

static enum err attach(struct bed *b, const char *id, struct heard *h, struct error *e)
{
    h->bed = b;
    return engine_attach(b->engine, id, &handler, h, &h->attach, e);
}

static void wait_for_end(struct heard *h)
{
    struct driver *d = &h->bed->driver;

    assert_int_equal(driver_wait(d, &h->over, driver_deadline(d, PEER_WAIT_MS)), ERR_OK);
    bed_pass(h->bed); /* nothing comes after the end, and it comes once */
    assert_int_equal(h->ends, 1);
    attach_close(h->attach);
}

/* ---- opening ---- */

#define FRAMES "\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\2oh"

static const struct answer opening[] = {
    {.start = "POST /v1.41/containers/at-once/attach", BYTES(OPEN FRAMES), .then = CLOSE},
    {.start = "POST /v1.41/containers/dribbled/attach",
     BYTES(OPEN FRAMES),
     .then = CLOSE,
     .dribble = true},
    {.start = "POST /v1.41/containers/plain/attach",
     BYTES("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n" FRAMES),
     .then = CLOSE},
    {.start = "POST /v1.41/containers/cut/attach",
     BYTES(OPEN "\1\0\0\0\0\0\0\5hel"),
     .then = CLOSE},
    {.start = "POST /v1.41/containers/cut-header/attach",
     BYTES(OPEN "\1\0\0\0\0\0\0\2hi\1\0\0"),
     .then = CLOSE},
    {.start = "POST /v1.41/containers/wrong/attach", BYTES(OPEN "nonsense!"), .then = HANG},
    {.start = "POST /v1.41/containers/empty/attach", BYTES(OPEN), .then = CLOSE},
    {.start = NULL},
};

static void test_output(void **state)
{
    static const struct {
        const char *id;
        const char *text; /* NULL: cut into pieces, of which the bytes are counted */
        enum err why;
    } rows[] = {
        {"at-once", "1hello2err2oh", ERR_OK},
        {"dribbled", NULL, ERR_OK},
        {"plain", "1hello2err2oh", ERR_OK},
        {"cut", "1hel", ERR_CLOSED},
        {"cut-header", "1hi", ERR_CLOSED},
        {"wrong", "", ERR_PROTO},
        {"empty", "", ERR_OK},
    };
    struct bed b;

    (void)state;
    bed_open(&b, opening);
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        size_t row = i / 2;
        struct heard h = {.close_at_end = i % 2 == 1};
        struct error e = {0};
        assert_int_equal(attach(&b, rows[row].id, &h, &e), ERR_OK);
        assert_int_equal(h.pieces + h.ends, 0); /* no callback before it returns */
        wait_for_end(&h);
        if (rows[row].text != NULL) {
            assert_string_equal(h.text, rows[row].text);
        } else {
            assert_int_equal(h.bytes[1], 5);
            assert_int_equal(h.bytes[2], 5);
        }
        assert_int_equal(h.why, rows[row].why);
    }
    assert_int_equal(bed_asked(&b, "attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"), 14);
    assert_int_equal(bed_asked(&b, "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"), 14);
    bed_close(&b);
}

/* ---- refusals ---- */

static const struct answer refusing[] = {
    {.start = "POST /v1.41/containers/json/attach",
     .text = "HTTP/1.1 404 Not Found\r\nContent-Length: 25\r\n\r\n{\"message\":\"no such one\"}"},
    {.start = "POST /v1.41/containers/dribbled/attach",
     .text = "HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n"
             "b\r\n{\"message\":\r\nf\r\n\"it is paused\"}\r\n0\r\n\r\n",
     .dribble = true},
    /* Docker, of a container that is gone: text, and the connection's end. */
    {.start = "POST /v1.41/containers/text/attach",
     .text = "HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
             "No such container: text\r\n",
     .then = CLOSE,
     .dribble = true},
    {.start = "POST /v1.41/containers/bare/attach",
     .text = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"},
    {.start = "POST /v1.41/containers/unfinished/attach",
     .text = "HTTP/1.1 500 Oh\r\nContent-Length: 99\r\n\r\nhalf",
     .then = HANG},
    {.start = "POST /v1.41/containers/proxied/attach",
     .text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
     .then = HANG},
    {.start = "POST /v1.41/containers/other/attach",
     .text = "220 smtp.example\r\n\r\n",
     .then = HANG},
    {.start = "POST /v1.41/containers/closed/attach", .then = CLOSE},
    {.start = "POST /v1.41/containers/in-head/attach", .text = "HTTP/1.1 101 UP", .then = CLOSE},
    {.start = "POST /v1.41/containers/silent/attach", .then = HANG},
    {.start = NULL},
};

static void test_refused(void **state)
{
    static const struct {
        const char *id;
        enum err rc;
        int sys;
        const char *message;
    } rows[] = {
        {"json", ERR_UPSTREAM, 404, "the engine: attach: no such one"},
        {"dribbled", ERR_UPSTREAM, 409, "the engine: attach: it is paused"},
        {"text", ERR_UPSTREAM, 404, "the engine: attach: No such container: text"},
        {"bare", ERR_UPSTREAM, 500, "the engine: attach: HTTP status 500"},
        {"unfinished", ERR_UPSTREAM, 500, "the engine: attach: half"},
        {"proxied", ERR_PROTO, 0, "the engine: attach: something between passes on no raw streams"},
        {"other", ERR_PROTO, 0, "the engine: attach: its answer is not HTTP"},
        {"closed", ERR_IO, 0, "the engine: attach: the connection was closed"},
        {"in-head", ERR_IO, 0, "the engine: attach: the connection was closed"},
        {"silent", ERR_IO, 0, "the engine: attach: no answer"},
        {"nobody", ERR_UPSTREAM, 404, "the engine: attach: no such thing"},
        {"..", ERR_CONFIG, 0, "\"..\" is no name of an image, container or network"},
    };
    struct bed b;

    (void)state;
    bed_open(&b, refusing);
    b.engine->limits.call_ms = 300;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct heard h = {.ends = 0};
        struct error e = {0};
        assert_int_equal(attach(&b, rows[i].id, &h, &e), rows[i].rc);
        assert_string_equal(e.msg, rows[i].message);
        assert_int_equal(e.sys, rows[i].sys);
        assert_null(h.attach);
        bed_pass(&b);
        assert_int_equal(h.pieces + h.ends, 0);
    }
    struct heard h = {.ends = 0};
    struct error e = {0};
    b.engine->limits.call_ms = PEER_WAIT_MS;
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(attach(&b, "silent", &h, &e), ERR_CLOSED);
    bed_close(&b);
}

static void test_nobody_listens(void **state)
{
    struct bed b;
    struct heard h = {.ends = 0};
    struct error e = {0};

    (void)state;
    bed_open(&b, opening);
    (void)snprintf(b.engine->place.address, sizeof(b.engine->place.address), "tcp://127.0.0.1:%u",
                   peer_dead_port());
    assert_int_equal(attach(&b, "x", &h, &e), ERR_IO);
    assert_string_equal(e.msg, "the engine: attach: cannot connect: Connection refused");
    bed_close(&b);
}

/* ---- pausing ---- */

#define FOUR "\1\0\0\0\0\0\0\1a\2\0\0\0\0\0\0\1b\1\0\0\0\0\0\0\1c\2\0\0\0\0\0\0\1d"

static const struct answer four[] = {
    {.start = "POST /v1.41/containers/x/attach", BYTES(OPEN FOUR), .then = CLOSE},
    {.start = NULL},
};

/* The four pieces come in one read, and after a pause none of them. */
static void test_pause_in_callback(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, four);
    for (unsigned at = 1; at <= 4; at++) {
        static const char *const before[] = {"1a", "1a2b", "1a2b1c", "1a2b1c2d"};
        struct heard h = {.pause_at = at};
        struct error e = {0};
        assert_int_equal(attach(&b, "x", &h, &e), ERR_OK);
        bed_pass(&b);
        assert_string_equal(h.text, before[at - 1]);
        assert_int_equal(h.ends, 0);
        attach_resume(h.attach);
        assert_string_equal(h.text, before[at - 1]); /* not from inside a function */
        wait_for_end(&h);
        assert_string_equal(h.text, "1a2b1c2d");
        assert_int_equal(h.why, ERR_OK);
    }
    bed_close(&b);
}

static void pause_at_each(struct bed *b)
{
    struct heard h = {.pause_always = true};
    struct error e = {0};

    assert_int_equal(attach(b, "x", &h, &e), ERR_OK);
    for (unsigned n = 1; n <= 4; n++) {
        bed_pass(b);
        assert_int_equal(h.pieces, n);
        attach_resume(h.attach);
    }
    wait_for_end(&h);
    assert_string_equal(h.text, "1a2b1c2d");
}

static void test_pause_at_each(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, four);
    pause_at_each(&b);
    bed_close(&b);
}

static void test_pause_before_anything(void **state)
{
    struct bed b;
    struct heard h = {.ends = 0};
    struct error e = {0};

    (void)state;
    bed_open(&b, four);
    assert_int_equal(attach(&b, "x", &h, &e), ERR_OK);
    attach_pause(h.attach);
    bed_pass(&b);
    assert_int_equal(h.pieces, 0);
    attach_resume(h.attach);
    attach_pause(h.attach);
    bed_pass(&b);
    assert_int_equal(h.pieces, 0);
    attach_resume(h.attach);
    attach_resume(h.attach);
    wait_for_end(&h);
    assert_string_equal(h.text, "1a2b1c2d");
    /* Closed while something is held: nothing comes, nothing is left. */
    h = (struct heard){.pause_at = 1};
    assert_int_equal(attach(&b, "x", &h, &e), ERR_OK);
    bed_pass(&b);
    attach_resume(h.attach);
    attach_close(h.attach);
    bed_pass(&b);
    assert_int_equal(h.pieces, 1);
    assert_int_equal(h.ends, 0);
    bed_close(&b);
}

/* ---- much of it ---- */

#define MUCH ((size_t)24 << 20)

/* stdout is MUCH of the pattern in frames of 40000, among them empty and small ones of stderr. */
static void send_much(struct peer_conn *c, struct bed *b)
{
    (void)b;
    for (size_t at = 0; at < MUCH;) {
        size_t n = MUCH - at < 40000 ? MUCH - at : 40000;
        const char head[] = {1, 0, 0, 0, 0, 0, (char)(n >> 8), (char)n};
        if (!peer_send(c, head, 8) || !peer_send_pattern(c, at, n) ||
            !peer_send(c, "\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1", 16) ||
            !peer_send(c, &(char){peer_pattern(at / 40000)}, 1)) {
            return;
        }
        at += n;
    }
}

/* Reads nothing until the test says so, then all until the end of stdin, and answers what it had.
 */
static void take_much(struct peer_conn *c, struct bed *b)
{
    char block[65536];
    char frame[64];
    size_t seen = 0;
    bool right = true;

    (void)b;
    (void)peer_wait(c, 1);
    for (size_t n = peer_recv(c, block, sizeof(block)); n > 0;
         n = peer_recv(c, block, sizeof(block))) {
        for (size_t i = 0; i < n; i++) {
            right = right && block[i] == peer_pattern(seen + i);
        }
        seen += n;
    }
    int n = snprintf(frame + 8, sizeof(frame) - 8, "%zu %s", seen, right ? "right" : "wrong");
    memcpy(frame, "\1\0\0\0\0\0\0", 7);
    frame[7] = (char)n;
    (void)peer_send(c, frame, (size_t)n + 8);
    peer_goodbye(c);
}

static const struct answer much[] = {
    {.start = "POST /v1.41/containers/out/attach", BYTES(OPEN), .session = send_much},
    {.start = "POST /v1.41/containers/in/attach", BYTES(OPEN), .session = take_much},
    {.start = "POST /v1.41/containers/hello/attach", BYTES(OPEN FRAMES), .then = CLOSE},
    {.start = NULL},
};

static void read_much(struct bed *b)
{
    struct heard h = {.pattern = true};
    struct error e = {0};

    assert_int_equal(attach(b, "out", &h, &e), ERR_OK);
    wait_for_end(&h);
    assert_int_equal(h.bytes[1], MUCH);
    assert_int_equal(h.bytes[2], (MUCH + 39999) / 40000);
    /* A connection that is cut over TLS is an end all the same: all frames are whole. */
    assert_int_equal(h.why, ERR_OK);
}

static void write_much(struct bed *b)
{
    char expected[64];
    struct heard h = {.to_send = MUCH};
    struct error e = {0};
    const struct span more = SPAN("more");

    assert_int_equal(attach(b, "in", &h, &e), ERR_OK);
    assert_false(attach_congested(h.attach));
    send_some(&h);
    bed_pass(b);
    /* It takes nothing: what is queued stays within the mark and one write. */
    assert_true(attach_congested(h.attach));
    assert_true(attach_queued(h.attach) > 0 && attach_queued(h.attach) < 80u * 1024);
    assert_true(h.sent < MUCH);
    peer_step(b->peer);
    wait_for_end(&h);
    assert_true(h.drains > 0);
    (void)snprintf(expected, sizeof(expected), "1%zu right", MUCH);
    assert_string_equal(h.text, expected);
    assert_int_equal(h.why, ERR_OK);
    h = (struct heard){.ends = 0};
    assert_int_equal(attach(b, "hello", &h, &e), ERR_OK);
    attach_end_input(h.attach);
    assert_int_equal(attach_write(h.attach, &more, 1), ERR_CLOSED);
    attach_end_input(h.attach);
    wait_for_end(&h);
}

static void test_much_output(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, much);
    read_much(&b);
    bed_close(&b);
}

static void test_much_input(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b, much);
    write_much(&b);
    bed_close(&b);
}

/* ---- TLS ---- */

static void move(const char *dir, const char *from, const char *to)
{
    char a[PATH_MAX];
    char b[PATH_MAX];

    (void)snprintf(a, sizeof(a), "%s/%s", dir, from);
    (void)snprintf(b, sizeof(b), "%s/%s", dir, to);
    assert_int_equal(to == NULL ? unlink(a) : rename(a, b), 0);
}

/* Makes a CA with a certificate in `dir`, and a server of it. (Client certificates: tests/engine.)
 */
static SSL_CTX *make_tls(char *dir)
{
    char path[3][PATH_MAX];
    static const char *const names[] = {"server.pem", "server.key", "ca.pem"};
    struct error e = {0};
    SSL_CTX *tls = NULL;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(tls_make_dev_certificates(dir, &e), ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path[i], sizeof(path[i]), "%s/%s", dir, names[i]);
    }
    assert_int_equal(tls_server_new(path[0], path[1], NULL, &tls, &e), ERR_OK);
    move(dir, "server.pem", "cert.pem"); /* as DOCKER_CERT_PATH has them */
    move(dir, "server.key", "key.pem");
    return tls;
}

static void remove_tls(const char *dir, SSL_CTX *tls)
{
    move(dir, "ca.pem", NULL);
    move(dir, "cert.pem", NULL);
    move(dir, "key.pem", NULL);
    assert_int_equal(rmdir(dir), 0);
    tls_server_free(tls);
}

static void test_tls(void **state)
{
    char dir[] = "/tmp/tactus-test-XXXXXX";
    char other_dir[] = "/tmp/tactus-test-XXXXXX";
    SSL_CTX *tls = make_tls(dir);
    SSL_CTX *other = make_tls(other_dir);
    struct bed b;
    struct heard h = {.ends = 0};
    struct error e = {0};

    (void)state;
    assert_int_equal(setenv("DOCKER_CERT_PATH", dir, 1), 0);
    bed_open_tls(&b, four, tls);
    pause_at_each(&b);
    bed_close(&b);
    bed_open_tls(&b, much, tls);
    read_much(&b);
    write_much(&b);
    /* Somebody else's CA. */
    (void)snprintf(b.engine->place.ca_file, PATH_MAX, "%s/ca.pem", other_dir);
    assert_int_equal(attach(&b, "hello", &h, &e), ERR_IO);
    (void)snprintf(b.engine->place.ca_file, PATH_MAX, "%s/nothing.pem", dir);
    assert_int_equal(attach(&b, "hello", &h, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "nothing.pem"));
    bed_close(&b);
    assert_int_equal(unsetenv("DOCKER_CERT_PATH"), 0);
    assert_int_equal(unsetenv("DOCKER_TLS_VERIFY"), 0);
    remove_tls(dir, tls);
    remove_tls(other_dir, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_pause_in_callback),
        cmocka_unit_test(test_pause_at_each),
        cmocka_unit_test(test_pause_before_anything),
        cmocka_unit_test(test_much_output),
        cmocka_unit_test(test_much_input),
        cmocka_unit_test(test_tls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
