/* Callers of the admin API: users over the Unix socket; Host, Origin and token over TCP. */
#include "http/admin_auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OWN 1000u

/* The status that refuses the caller's place; 0: it is a good one. */
static int place(const char *host, const char *origin)
{
    const struct admin_caller c = {.host = host, .origin = origin};
    struct admin_fault f = {0};

    if (admin_auth_place(&c, &f)) {
        return 0;
    }
    assert_true(f.type[0] != '\0' && f.message[0] != '\0');
    return f.status;
}

static void test_host(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost",   "LOCALHOST:8081",  "127.0.0.1",
                                       "127.0.0.1:1", "127.3.2.1:65535", "[::1]",
                                       "[::1]:8081"};
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "10.0.0.1",
                                      "localhost:",
                                      "localhost:x",
                                      "localhost:80:80",
                                      "[::1",
                                      "[::1]x",
                                      "[::2]:1",
                                      "::1",
                                      "127.1",
                                      "evil@127.0.0.1",
                                      "127.0.0.1:8081/x",
                                      "0.0.0.0",
                                      "localhost ",
                                      "[::ffff:127.0.0.1]",
                                      "localhost:123456"};
    char lengthy[600];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(place(good[i], NULL), 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(place(bad[i], NULL), 403);
    }
    memset(lengthy, 'a', sizeof(lengthy) - 1);
    lengthy[sizeof(lengthy) - 1] = '\0';
    assert_int_equal(place(lengthy, NULL), 403);
    lengthy[0] = '[';
    assert_int_equal(place(lengthy, NULL), 403);
    assert_int_equal(place(NULL, NULL), 400);
}

static void test_origin(void **state)
{
    (void)state;
    assert_int_equal(place("localhost:8081", "http://localhost:8081"), 0);
    assert_int_equal(place("[::1]:8081", "http://[::1]:8081"), 0);
    assert_int_equal(place("localhost:8081", "http://localhost:8082"), 403);
    assert_int_equal(place("localhost:8081", "http://127.0.0.1:8081"), 403);
    assert_int_equal(place("localhost:8081", "https://localhost:8081"), 403);
    assert_int_equal(place("localhost:8081", "http://evil.example"), 403);
    assert_int_equal(place("localhost:8081", "null"), 403);
    assert_int_equal(place("localhost:8081", ""), 403);
}

static void test_unix(void **state)
{
    (void)state;
    struct admin_caller c = {.is_unix = true, .uid = OWN, .host = "evil.example", .origin = "null"};
    struct secret none = {.kind = SECRET_NONE};
    struct admin_fault f = {0};

    assert_true(admin_auth_place(&c, &f)); /* no page gets to a Unix socket */
    assert_true(admin_auth_caller(&c, OWN, &none, &f));
    c.uid = 0;
    assert_true(admin_auth_caller(&c, OWN, &none, &f));
    c.uid = OWN + 1;
    assert_false(admin_auth_caller(&c, OWN, &none, &f));
    assert_int_equal(f.status, 403);
    assert_string_equal(f.type, "Forbidden");
}

static int shown(const struct secret *token, const char *authorization)
{
    const struct admin_caller c = {.host = "localhost", .authorization = authorization};
    struct admin_fault f = {0};

    if (admin_auth_caller(&c, OWN, token, &f)) {
        return 0;
    }
    assert_string_equal(f.type, "Unauthenticated");
    return f.status;
}

static void test_token(void **state)
{
    (void)state;
    struct secret token = {.kind = SECRET_NONE};
    char header[160];

    assert_int_equal(shown(&token, "Bearer "), 401); /* there is none: nobody has it */
    assert_int_equal(secret_make(&token, NULL), ERR_OK);
    assert_int_equal(shown(&token, NULL), 401);
    assert_int_equal(shown(&token, ""), 401);
    assert_int_equal(shown(&token, "Bearer"), 401);
    assert_int_equal(shown(&token, "Bearer "), 401);
    assert_int_equal(shown(&token, "Bearer x"), 401);
    assert_int_equal(shown(&token, token.bytes), 401);
    (void)snprintf(header, sizeof(header), "Bearer %s", token.bytes);
    assert_int_equal(shown(&token, header), 0);
    (void)snprintf(header, sizeof(header), "bearer  %s", token.bytes);
    assert_int_equal(shown(&token, header), 0);
    (void)snprintf(header, sizeof(header), "Bearer %sx", token.bytes);
    assert_int_equal(shown(&token, header), 401);
    (void)snprintf(header, sizeof(header), "Bearer %.63s", token.bytes);
    assert_int_equal(shown(&token, header), 401);
    (void)snprintf(header, sizeof(header), "Basic %s", token.bytes);
    assert_int_equal(shown(&token, header), 401);
    secret_fini(&token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
