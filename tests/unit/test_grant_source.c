/* Networks that a grant's clients may come from: what is one, and who is inside. */
#include "gate/grant_source.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static bool parses(const char *text)
{
    struct grant_source s;

    return grant_source_parse(span_str(text), &s);
}

static bool has(const char *rule, const char *address)
{
    struct grant_source s;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    assert_true(grant_source_parse(span_str(rule), &s));
    assert_string_equal(s.text, rule);
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        return grant_source_has(&s, 1, (const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return grant_source_has(&s, 1, (const struct sockaddr *)&v6);
}

static void test_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "*",
                                      "10.0.0.0/33",
                                      "10.0.0.0/",
                                      "10.0.0.0/-1",
                                      "10.0.0.0/1x",
                                      "10.0.0/8",
                                      "localhost",
                                      "10.0.0.1/0008",
                                      "::/129",
                                      "::1/",
                                      ":::",
                                      "10.0.0.1 ",
                                      " 10.0.0.1",
                                      "1.2.3.4/8/8",
                                      "[::1]",
                                      "fe80::1%lo",
                                      "1.2.3.4:80",
                                      "0000:0000:0000:0000:0000:ffff:255.255.255.255/128000000000"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(parses(bad[i]));
    }
    struct grant_source s;
    assert_false(grant_source_parse(span_of("10.0.0.1\0x", 10), &s));
    assert_true(parses("0000:0000:0000:0000:0000:ffff:255.255.255.255/128"));
    assert_true(parses("0.0.0.0/0"));
}

static void test_ipv4(void **state)
{
    (void)state;
    assert_true(has("192.0.2.7", "192.0.2.7"));
    assert_false(has("192.0.2.7", "192.0.2.6"));
    assert_true(has("10.0.0.0/8", "10.255.0.1"));
    assert_false(has("10.0.0.0/8", "11.0.0.0"));
    assert_true(has("10.1.2.3/8", "10.9.9.9")); /* bits behind the prefix do not matter */
    assert_true(has("172.16.0.0/12", "172.31.255.255"));
    assert_false(has("172.16.0.0/12", "172.32.0.0"));
    assert_true(has("192.0.2.128/25", "192.0.2.128"));
    assert_false(has("192.0.2.128/25", "192.0.2.127"));
    assert_true(has("192.0.2.6/31", "192.0.2.7"));
    assert_false(has("192.0.2.6/31", "192.0.2.8"));
    assert_true(has("0.0.0.0/0", "255.255.255.255"));
    assert_true(has("0.0.0.0/1", "127.0.0.1"));
    assert_false(has("0.0.0.0/1", "128.0.0.1"));
}

static void test_ipv6(void **state)
{
    (void)state;
    assert_true(has("fd00::/8", "fdff::1"));
    assert_false(has("fd00::/8", "fe80::1"));
    assert_true(has("2001:db8::1", "2001:db8::1"));
    assert_false(has("2001:db8::1", "2001:db8::2"));
    assert_true(has("2001:db8::/127", "2001:db8::1"));
    assert_false(has("2001:db8::/127", "2001:db8::2"));
    assert_true(has("::/0", "fe80::1"));
}

/* An IPv4 client of an IPv6 socket is the IPv4 client. */
static void test_mapped(void **state)
{
    (void)state;
    assert_true(has("10.0.0.0/8", "::ffff:10.1.1.1"));
    assert_false(has("10.0.0.0/8", "::ffff:11.1.1.1"));
    assert_true(has("::ffff:10.0.0.0/104", "10.1.1.1"));
    assert_false(has("::ffff:10.0.0.0/104", "11.1.1.1"));
    assert_false(has("::/0", "10.1.1.1"));
    assert_false(has("::/0", "::ffff:10.1.1.1"));
    assert_false(has("0.0.0.0/0", "2001:db8::1"));
}

static void test_lists(void **state)
{
    (void)state;
    struct grant_source list[2];
    struct sockaddr_in peer = {.sin_family = AF_INET};
    const struct sockaddr_un local = {.sun_family = AF_UNIX};

    assert_true(grant_source_parse(SPAN("10.0.0.0/8"), &list[0]));
    assert_true(grant_source_parse(SPAN("127.0.0.1"), &list[1]));
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr), 1);
    assert_true(grant_source_has(list, 2, (const struct sockaddr *)&peer));
    assert_false(grant_source_has(list, 1, (const struct sockaddr *)&peer));
    assert_false(grant_source_has(list, 0, (const struct sockaddr *)&peer));
    assert_false(grant_source_has(list, 2, (const struct sockaddr *)&local));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_none), cmocka_unit_test(test_ipv4),
        cmocka_unit_test(test_ipv6),         cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
