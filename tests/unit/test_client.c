/* The client's connection: endpoints, and lines over a socket pair cut in every way. */
#include "net/client.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_MAX_BYTES 100u
#define LONG_MS        60000u

/* ---- endpoints ---- */

static void is_unix(const char *text, const char *path)
{
    struct client_endpoint p;
    struct error e = {.code = ERR_OK, .msg = "untouched"};

    assert_int_equal(client_endpoint_parse(text, &p, &e), ERR_OK);
    assert_string_equal(e.msg, "untouched");
    assert_int_equal(p.transport, CLIENT_UNIX);
    assert_string_equal(p.path, path);
}

static void is_host(const char *text, enum client_transport transport, const char *host,
                    uint16_t port)
{
    struct client_endpoint p;

    assert_int_equal(client_endpoint_parse(text, &p, NULL), ERR_OK);
    assert_int_equal(p.transport, transport);
    assert_string_equal(p.host, host);
    assert_int_equal(p.port, port);
}

static void is_wrong(const char *text, const char *why)
{
    struct client_endpoint p;
    struct client_endpoint before;
    struct error e = {.code = ERR_OK};

    memset(&p, 0x5a, sizeof(p));
    before = p;
    assert_int_equal(client_endpoint_parse(text, &p, &e), ERR_CONFIG);
    assert_int_equal(e.code, ERR_CONFIG);
    if (strstr(e.msg, why) == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    assert_memory_equal(&p, &before, sizeof(p));
    assert_int_equal(client_endpoint_parse(text, &p, NULL), ERR_CONFIG);
}

static void test_endpoints(void **state)
{
    (void)state;
    is_unix("/run/tactus/broker.sock", "/run/tactus/broker.sock");
    is_unix("/", "/");
    is_unix("unix:///tmp/a b.sock", "/tmp/a b.sock");
    is_host("tcp://127.0.0.1:8080", CLIENT_TCP, "127.0.0.1", 8080);
    is_host("tcp://127.0.0.1:1/what/follows", CLIENT_TCP, "127.0.0.1", 1);
    is_host("tls://host.docker.internal:65535", CLIENT_TLS, "host.docker.internal", 65535);
    is_host("tls://my_host-2.:443/", CLIENT_TLS, "my_host-2.", 443);
    is_host("tls://[::1]:8443", CLIENT_TLS, "::1", 8443);
    is_host("tcp://[fe80::1%eth0]:9", CLIENT_TCP, "fe80::1%eth0", 9);
    is_host("tcp://[::ffff:10.0.0.1]:80/x", CLIENT_TCP, "::ffff:10.0.0.1", 80);
}

static void test_wrong_endpoints(void **state)
{
    (void)state;
    is_wrong("", "expected /path");
    is_wrong("broker.sock", "expected /path");
    is_wrong("unix://relative", "expected /path");
    is_wrong("http://127.0.0.1:80", "expected /path");
    is_wrong("TCP://127.0.0.1:80", "expected /path");
    is_wrong("stdio", "inside a container");
    is_wrong("tcp://", "no valid host");
    is_wrong("tcp://:80", "no valid host");
    is_wrong("tcp://user@host:80", "no valid host");
    is_wrong("tcp://a b:80", "no valid host");
    is_wrong("tcp://a\nb:80", "no valid host");
    is_wrong("tcp://[]:80", "no valid host");
    is_wrong("tcp://[::1:80", "no valid host");
    is_wrong("tcp://[127.0.0.1]:80", "no valid host");
    is_wrong("tcp://[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:1", "no valid host");
    is_wrong("tcp://[::1]", "no port");
    is_wrong("tcp://[::1]80", "no port");
    is_wrong("tcp://host", "no port");
    is_wrong("tcp://host/80", "no port");
    is_wrong("tcp://host:", "from 1 to 65535");
    is_wrong("tcp://host:/80", "from 1 to 65535");
    is_wrong("tcp://host:0", "from 1 to 65535");
    is_wrong("tcp://host:65536", "from 1 to 65535");
    is_wrong("tcp://host:+1", "from 1 to 65535");
    is_wrong("tcp://host:80 ", "from 1 to 65535");
    is_wrong("tcp://host:18446744073709551617", "from 1 to 65535");
    is_wrong("tcp://fe80::1:80", "brackets");
}

static void test_endpoint_lengths(void **state)
{
    (void)state;
    char text[400];
    struct client_endpoint p;

    for (size_t n = CLIENT_PATH_SIZE - 2; n <= CLIENT_PATH_SIZE; n++) {
        memset(text, 'a', n);
        text[0] = '/';
        text[n] = '\0';
        enum err want = n < CLIENT_PATH_SIZE ? ERR_OK : ERR_CONFIG;
        assert_int_equal(client_endpoint_parse(text, &p, NULL), want);
    }
    for (size_t n = CLIENT_HOST_SIZE - 2; n <= CLIENT_HOST_SIZE; n++) {
        snprintf(text, sizeof(text), "tcp://%0*d:80", (int)n, 1);
        enum err want = n < CLIENT_HOST_SIZE ? ERR_OK : ERR_CONFIG;
        assert_int_equal(client_endpoint_parse(text, &p, NULL), want);
    }
}

static void test_insecure(void **state)
{
    (void)state;
    assert_true(client_insecure_value("1"));
    assert_true(client_insecure_value("true"));
    assert_true(client_insecure_value("yes"));
    assert_false(client_insecure_value(NULL));
    assert_false(client_insecure_value(""));
    assert_false(client_insecure_value("0"));
    assert_false(client_insecure_value("no"));
    assert_false(client_insecure_value("11"));
    assert_false(client_insecure_value("yes "));
}

/* ---- lines ---- */

struct pair {
    struct client *client;
    int peer;
};

static struct pair make_pair(size_t max_line, uint64_t wait_ms)
{
    const struct client_options options = {.wait_ms = wait_ms, .max_line = max_line};
    struct pair p;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(client_adopt(fds[0], &options, &p.client, NULL), ERR_OK);
    p.peer = fds[1];
    return p;
}

static void drop_pair(struct pair p)
{
    client_close(p.client);
    if (p.peer >= 0) {
        assert_int_equal(close(p.peer), 0);
    }
}

static void say(struct pair p, const char *bytes, size_t n)
{
    assert_int_equal(write(p.peer, bytes, n), (ssize_t)n);
}

static void hang_up(struct pair *p)
{
    assert_int_equal(close(p->peer), 0);
    p->peer = -1;
}

static void hear(struct pair p, const char *expected)
{
    struct span line = {0};
    struct error e = {.code = ERR_OK, .msg = "untouched"};

    assert_int_equal(client_read_line(p.client, &line, &e), ERR_OK);
    assert_int_equal(line.n, strlen(expected));
    assert_memory_equal(line.p, expected, line.n);
    assert_string_equal(e.msg, "untouched");
}

static void hear_end(struct pair p, const char *why)
{
    struct span line = SPAN("untouched");
    struct error e = {.code = ERR_OK};

    assert_int_equal(client_read_line(p.client, &line, &e), ERR_CLOSED);
    assert_string_equal(e.msg, why);
    assert_true(span_eq(line, SPAN("untouched")));
}

/* The stream is cut in two at every byte: the first part is there, and the rest comes only when the
 * client has taken it (a read with a short deadline in between). */
static void test_cut_everywhere(void **state)
{
    (void)state;
    static const char stream[] =
        "\n\r\n{\"a\":1}\r\nzw\xc3\xb6lf \xf0\x9f\x99\x82\n\n\rx\r\r\n \nend\n";
    size_t n = sizeof(stream) - 1;

    for (size_t cut = 0; cut <= n; cut++) {
        struct pair p = make_pair(LINE_MAX_BYTES, 1);
        struct span line = {0};
        static const char *const lines[] = {"{\"a\":1}", "zw\xc3\xb6lf \xf0\x9f\x99\x82", "\rx\r",
                                            " ", "end"};
        size_t heard = 0;

        say(p, stream, cut);
        while (client_read_line(p.client, &line, NULL) == ERR_OK) {
            assert_true(span_eq(line, span_str(lines[heard])));
            heard++;
        }
        say(p, stream + cut, n - cut);
        for (; heard < 5; heard++) {
            hear(p, lines[heard]);
        }
        hang_up(&p);
        hear_end(p, "the broker closed the connection");
        hear_end(p, "the broker closed the connection");
        drop_pair(p);
    }
}

static void test_end_inside_a_line(void **state)
{
    (void)state;
    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);

    say(p, "whole\nhalf", 10);
    hang_up(&p);
    hear(p, "whole");
    hear_end(p, "the broker closed the connection inside a line");
    drop_pair(p);
}

/* `n` bytes, then `end`; what is expected of a client that takes LINE_MAX_BYTES. */
static void line_of(size_t n, const char *end, bool ok)
{
    char text[LINE_MAX_BYTES + 8];
    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);
    struct span line = {0};
    struct error e = {.code = ERR_OK};

    memset(text, 'x', sizeof(text));
    memcpy(text + n, end, strlen(end));
    say(p, text, n + strlen(end));
    assert_int_equal(client_read_line(p.client, &line, &e), ok ? ERR_OK : ERR_LIMIT);
    if (ok) {
        assert_int_equal(line.n, n);
    } else {
        assert_non_null(strstr(e.msg, "more than 100 bytes"));
    }
    drop_pair(p);
}

static void test_longest_line(void **state)
{
    (void)state;
    line_of(1, "\n", true);
    line_of(LINE_MAX_BYTES, "\n", true);
    line_of(LINE_MAX_BYTES, "\r\n", true);
    line_of(LINE_MAX_BYTES + 1, "\n", false);
    line_of(LINE_MAX_BYTES + 1, "\r\n", false);
    line_of(LINE_MAX_BYTES + 2, "", false); /* known to be too long before its end comes */
}

/* The '\r' of the longest line came, its '\n' did not yet. */
static void test_longest_line_cut(void **state)
{
    (void)state;
    char text[LINE_MAX_BYTES + 2];
    struct pair p = make_pair(LINE_MAX_BYTES, 1);
    struct span line = {0};

    memset(text, 'x', LINE_MAX_BYTES);
    memcpy(text + LINE_MAX_BYTES, "\r\n", 2);
    say(p, text, LINE_MAX_BYTES + 1);
    assert_int_equal(client_read_line(p.client, &line, NULL), ERR_IO);
    say(p, "\n", 1);
    assert_int_equal(client_read_line(p.client, &line, NULL), ERR_OK);
    assert_int_equal(line.n, LINE_MAX_BYTES);
    drop_pair(p);
}

/* Far more than one read, in lines that do not fit into reads. */
static void test_many_lines(void **state)
{
    (void)state;
    static char all[64 * 1024];
    char text[64];
    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);

    for (unsigned round = 0; round < 4; round++) {
        size_t n = 0;
        for (unsigned i = 0; i < 1500; i++) {
            n += (size_t)snprintf(all + n, sizeof(all) - n, "line %u of %u\n", i, round);
        }
        assert_in_range(n, 20000, sizeof(all) - 1);
        say(p, all, n);
        for (unsigned i = 0; i < 1500; i++) {
            snprintf(text, sizeof(text), "line %u of %u", i, round);
            hear(p, text);
        }
    }
    drop_pair(p);
}

/* maximhq/bifrost#7199, aws/agentcore-cli#1388: a peer that accepts and never answers. */
static void test_silence(void **state)
{
    (void)state;
    struct pair p = make_pair(LINE_MAX_BYTES, 5);
    struct span line = {0};
    struct error e = {.code = ERR_OK};

    assert_int_equal(client_read_line(p.client, &line, &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_int_equal(client_read_line(p.client, &line, NULL), ERR_IO);
    /* What came before the deadline is not lost. */
    say(p, "ha", 2);
    assert_int_equal(client_read_line(p.client, &line, &e), ERR_IO);
    say(p, "lf\n", 3);
    hear(p, "half");
    drop_pair(p);
}

/* ---- sending ---- */

static void test_send(void **state)
{
    (void)state;
    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);
    struct error e = {.code = ERR_OK, .msg = "untouched"};
    char got[32];

    assert_int_equal(client_send(p.client, SPAN("{\"id\":\"1\"}"), &e), ERR_OK);
    assert_int_equal(read(p.peer, got, sizeof(got)), 11);
    assert_memory_equal(got, "{\"id\":\"1\"}\n", 11);
    assert_int_equal(client_send(p.client, SPAN(""), &e), ERR_OK);
    assert_int_equal(read(p.peer, got, sizeof(got)), 1);
    assert_string_equal(e.msg, "untouched");
    drop_pair(p);
}

static struct span large_line(void)
{
    size_t n = (size_t)8 * 1024 * 1024;
    char *p = malloc(n);

    assert_non_null(p);
    memset(p, 'x', n);
    return span_of(p, n);
}

static void free_line(struct span line)
{
    union {
        const char *borrowed;
        char *owned;
    } u = {.borrowed = line.p};

    free(u.owned);
}

static void test_send_to_a_peer_that_does_not_read(void **state)
{
    (void)state;
    struct span line = large_line();
    struct pair p = make_pair(LINE_MAX_BYTES, 5);
    struct error e = {.code = ERR_OK};

    assert_int_equal(client_send(p.client, line, &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    drop_pair(p);
    free_line(line);
}

/* The peer says why it takes no more, then stops reading or goes away: its words are heard. */
static void test_answered_before_all_is_sent(void **state)
{
    (void)state;
    struct span line = large_line();

    for (int leaves = 0; leaves < 2; leaves++) {
        struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);
        say(p, "{\"too\":\"large\"}\n", 16);
        if (leaves != 0) {
            hang_up(&p);
        }
        assert_int_equal(client_send(p.client, line, NULL), ERR_AGAIN);
        hear(p, "{\"too\":\"large\"}");
        if (leaves != 0) {
            hear_end(p, "the broker closed the connection");
        }
        drop_pair(p);
    }
    free_line(line);
}

static void test_send_to_nobody(void **state)
{
    (void)state;
    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);
    struct error e = {.code = ERR_OK};

    hang_up(&p); /* and no SIGPIPE, which would end this program */
    assert_int_equal(client_send(p.client, SPAN("x"), &e), ERR_CLOSED);
    assert_int_equal(e.code, ERR_CLOSED);
    drop_pair(p);
}

/* ---- connecting and memory ---- */

static void test_connect_fails(void **state)
{
    (void)state;
    const struct client_options options = {
        .connect_ms = LONG_MS, .wait_ms = LONG_MS, .max_line = LINE_MAX_BYTES};
    struct client_endpoint p;
    struct client *c = NULL;
    struct error e = {.code = ERR_OK};

    assert_int_equal(client_endpoint_parse("/nonexistent/broker.sock", &p, NULL), ERR_OK);
    assert_int_equal(client_connect(&p, &options, &c, &e), ERR_IO);
    assert_int_equal(e.sys, ENOENT);
    assert_null(c);
    assert_int_equal(client_connect(&p, &options, &c, NULL), ERR_IO);
    client_close(NULL);
}

static void test_memory(void **state)
{
    (void)state;
    const struct client_options options = {.wait_ms = LONG_MS, .max_line = LINE_MAX_BYTES};
    struct client *c = NULL;
    struct span line = {0};
    struct error e = {.code = ERR_OK};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    torture_fail_after(0);
    assert_int_equal(client_adopt(fds[0], &options, &c, &e), ERR_NOMEM);
    torture_off();
    assert_null(c);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1); /* taken over and closed */
    assert_int_equal(close(fds[1]), 0);

    struct pair p = make_pair(LINE_MAX_BYTES, LONG_MS);
    torture_fail_after(0);
    assert_int_equal(client_send(p.client, SPAN("x"), &e), ERR_NOMEM);
    say(p, "hello\n", 6);
    torture_fail_after(0);
    assert_int_equal(client_read_line(p.client, &line, &e), ERR_NOMEM);
    torture_off();
    hear(p, "hello");
    drop_pair(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_wrong_endpoints),
        cmocka_unit_test(test_endpoint_lengths),
        cmocka_unit_test(test_insecure),
        cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_end_inside_a_line),
        cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_longest_line_cut),
        cmocka_unit_test(test_many_lines),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_send),
        cmocka_unit_test(test_send_to_a_peer_that_does_not_read),
        cmocka_unit_test(test_answered_before_all_is_sent),
        cmocka_unit_test(test_send_to_nobody),
        cmocka_unit_test(test_connect_fails),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
