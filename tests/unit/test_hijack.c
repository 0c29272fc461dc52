/* The answer to a request for raw streams: heads cut anywhere, refusals in every framing. */
#include "engine/hijack.h"

#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds `text` in pieces of `size` bytes as long as more is wanted; *used is what was fed. */
static enum err feed(struct hijack *h, const char *text, size_t n, size_t size, struct span *rest,
                     size_t *used, struct error *e)
{
    enum err rc = ERR_AGAIN;

    hijack_init(h);
    *rest = (struct span){NULL, 0};
    *used = 0;
    while (rc == ERR_AGAIN && *used < n) {
        size_t piece = n - *used < size ? n - *used : size;
        rc = hijack_feed(h, span_of(text + *used, piece), rest, e);
        *used += piece;
    }
    return rc;
}

static void test_open(void **state)
{
    static const char *const heads[] = {
        "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
        "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
        "HTTP/1.1 101 \r\n\r\n",
        "HTTP/1.0 200\r\n\r\n",
        "HTTP/1.1 101 UPGRADED\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        "HTTP/1.1 101 UPGRADED\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char text[512];
        size_t head = strlen(heads[i]);
        memcpy(text, heads[i], head);
        memcpy(text + head, "\1\0\0\0\0\0\0\2\r\n\r\n", 12);
        for (size_t size = 1; size <= head + 12; size++) {
            struct hijack h;
            struct span rest;
            struct error e = {0};
            size_t used = 0;
            assert_int_equal(feed(&h, text, head + 12, size, &rest, &used, &e), ERR_OK);
            /* Not a byte of the streams is lost, and none is asked for to know it. */
            assert_true(used >= head && used - head < size + 1);
            assert_int_equal(rest.n, used - head);
            assert_true(rest.n == 0 || memcmp(rest.p, text + head, rest.n) == 0);
            hijack_fini(&h);
        }
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        const char *body;
        int status;
        bool by_end; /* only the connection's end says that it is whole */
    } rows[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n{\"message\":1}", "{\"message\":1}",
         404, false},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}more", "{}", 404, false},
        {"HTTP/1.1 409 Conflict\r\ntransfer-encoding:  Chunked \r\n\r\n3\r\n{\"m\r\n"
         "A;x=y\r\nessage\":1}\r\n0\r\n\r\n",
         "{\"message\":1}", 409, false},
        {"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "", 500, false},
        {"HTTP/1.1 304 Not Modified\r\n\r\n", "", 304, false},
        {"HTTP/1.1 404 Not Found\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
         "No such container: x\r\n",
         "No such container: x\r\n", 404, true},
        {"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "hel", 500, true},
        {"HTTP/1.1 500 Oh\r\nContent-Length: 50\r\n\r\nhel", "hel", 500, true},
        {"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", "", 500, true},
        {"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", "", 301, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].text);
        for (size_t size = 1; size <= n; size++) {
            struct hijack h;
            struct span rest;
            struct error e = {0};
            struct buf body;
            size_t used = 0;
            enum err rc = feed(&h, rows[i].text, n, size, &rest, &used, &e);
            assert_int_equal(rc, rows[i].by_end ? ERR_AGAIN : ERR_UPSTREAM);
            assert_int_equal(hijack_end(&h, &e), ERR_UPSTREAM);
            assert_int_equal(h.status, rows[i].status);
            buf_init(&body, HIJACK_BODY_MAX);
            hijack_refusal(&h, &body);
            assert_string_equal(buf_cstr(&body), rows[i].body);
            buf_fini(&body);
            hijack_fini(&h);
        }
    }
}

static void test_no_answer(void **state)
{
    static const char *const rows[] = {
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 20 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/2.0 101 OK\r\n\r\n",
        "\r\n\r\n",
        /* A proxy that frames the streams anew passes on none that we could read. */
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hijack h;
        struct span rest;
        struct error e = {0};
        size_t used = 0;
        assert_int_equal(feed(&h, rows[i], strlen(rows[i]), 3, &rest, &used, &e), ERR_PROTO);
        assert_true(e.msg[0] != '\0');
        hijack_fini(&h);
    }
    for (size_t n = 0; n < 20; n++) { /* ended in the head */
        struct hijack h;
        struct span rest;
        struct error e = {0};
        size_t used = 0;
        assert_int_equal(feed(&h, "HTTP/1.1 101 UPGRADED\r\n\r\n", n, 4, &rest, &used, &e),
                         ERR_AGAIN);
        assert_int_equal(hijack_end(&h, &e), ERR_IO);
        hijack_fini(&h);
    }
}

/* A head of exactly the maximum passes with 64 KiB behind it, one byte more does not. */
static void test_bounds(void **state)
{
    static const char start[] = "HTTP/1.1 101 X\r\nA: ";
    size_t size = HIJACK_HEAD_MAX + 65536;
    char *text = malloc(size + 1);

    (void)state;
    assert_non_null(text);
    for (size_t over = 0; over < 2; over++) {
        struct hijack h;
        struct span rest;
        struct error e = {0};
        size_t head = HIJACK_HEAD_MAX + over;
        size_t used = 0;
        memset(text, 'a', size + 1);
        memcpy(text, start, sizeof(start) - 1);
        memcpy(text + head - 4, "\r\n\r\n", 4);
        assert_int_equal(feed(&h, text, head + 65536 - 1, 16383, &rest, &used, &e),
                         over == 0 ? ERR_OK : ERR_PROTO);
        hijack_fini(&h);
        assert_int_equal(feed(&h, text, head + 65536 - over, head + 65536, &rest, &used, &e),
                         over == 0 ? ERR_OK : ERR_PROTO);
        assert_int_equal(rest.n, over == 0 ? 65536 : 0);
        hijack_fini(&h);
    }
    /* A refusal that never ends is cut. */
    struct hijack h;
    struct span rest;
    struct error e = {0};
    size_t used = 0;
    memset(text, 'a', size);
    memcpy(text, "HTTP/1.1 500 X\r\n\r\n", 18);
    assert_int_equal(feed(&h, text, size, 1000, &rest, &used, &e), ERR_UPSTREAM);
    assert_true(used < 20000);
    hijack_fini(&h);
    free(text);
}

static void test_nomem(void **state)
{
    static const char text[] = "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}";
    enum err rc = ERR_NOMEM;

    (void)state;
    for (size_t n = 0; rc == ERR_NOMEM; n++) {
        struct hijack h;
        struct span rest;
        struct error e = {0};
        size_t used = 0;
        assert_true(n < 100);
        torture_fail_after(n);
        rc = feed(&h, text, sizeof(text) - 1, 5, &rest, &used, &e);
        torture_off();
        assert_true(rc == ERR_UPSTREAM || rc == ERR_NOMEM);
        assert_true(n > 0 || rc == ERR_NOMEM);
        hijack_fini(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_answer), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_nomem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
