/* Addresses of the admin API: what is read of them, what is refused, and where the token goes. */
#include "net/admin_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define LONG_PATH                                                                                  \
    "/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" \
    "123456789012345" /* 107 bytes, the most that a socket's address holds */

static void is(const char *text, const char *token, const char *socket, const char *url,
               const char *bearer)
{
    struct admin_peer p;
    struct error e = {.code = ERR_OK};

    if (admin_peer_parse(text, token, "name", &p, &e) != ERR_OK) {
        fail_msg("%s: %s", text, e.msg);
    }
    assert_string_equal(p.peer.name, "name");
    assert_string_equal(p.socket, socket);
    assert_string_equal(p.peer.base_url, url);
    assert_ptr_equal(p.peer.unix_socket, socket[0] == '\0' ? NULL : p.socket);
    if (bearer == NULL) {
        assert_null(p.peer.bearer);
    } else {
        assert_string_equal(p.peer.bearer, bearer);
    }

    /* As one text, with the token and without. */
    char address[ADMIN_PEER_TEXT_SIZE];
    struct admin_peer again;
    admin_peer_address(&p, true, address);
    assert_int_equal(admin_peer_parse(address, NULL, "name", &again, NULL), ERR_OK);
    assert_string_equal(again.socket, p.socket);
    assert_string_equal(again.base_url, p.base_url);
    assert_string_equal(again.token, p.token);
    admin_peer_address(&p, false, address);
    assert_null(strchr(address, '#'));
    admin_peer_fini(&again);
    admin_peer_fini(&p);
    assert_string_equal(p.token, "");
}

static void test_read(void **state)
{
    (void)state;
    is("/a/b.sock", NULL, "/a/b.sock", "http://localhost", NULL);
    is("unix:///a", "T", "/a", "http://localhost", NULL);
    is("http+unix:///a", "", "/a", "http://localhost", NULL);
    is(LONG_PATH, NULL, LONG_PATH, "http://localhost", NULL);
    is("http://127.0.0.1:8081", NULL, "", "http://127.0.0.1:8081", NULL);
    is("http://127.0.0.1:8081///", "T", "", "http://127.0.0.1:8081", "T");
    is("http://[::1]:8081/#token=abc", "T", "", "http://[::1]:8081", "abc");
    is("http://h:1#token=abc", NULL, "", "http://h:1", "abc");
    is("http://h:1/#other=abc", "T", "", "http://h:1", "T");
    is("http://h:1/#token=", "T", "", "http://h:1", NULL);
}

static void refused(const char *text, const char *token)
{
    struct admin_peer p;
    struct error e = {.code = ERR_OK};

    if (admin_peer_parse(text, token, "name", &p, &e) != ERR_CONFIG) {
        fail_msg("taken: %s", text);
    }
    assert_true(strlen(e.msg) > 0);
    assert_null(strstr(e.msg, "secret"));
    admin_peer_fini(&p);
}

static void test_refused(void **state)
{
    char text[1024];
    char token[300];

    (void)state;
    static const char *const texts[] = {"",        "a",         "a/b",      "unix://a",
                                        "unix://", "http://",   "http:///", "http://#token=secret",
                                        "ftp://x", "https://x", "HTTP://x", LONG_PATH "x"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        refused(texts[i], "secret");
    }
    memset(token, 's', sizeof(token));
    token[257] = '\0';
    refused("http://h:1", token);
    assert_in_range(snprintf(text, sizeof(text), "http://h:1/#token=%s", token), 1, 1023);
    refused(text, NULL);
    token[256] = '\0';
    is("http://h:1", token, "", "http://h:1", token);
    memset(text, 'h', 400);
    memcpy(text, "http://", 7);
    text[300] = '\0';
    refused(text, NULL);
    text[299] = '\0';
    is(text, NULL, "", text, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
