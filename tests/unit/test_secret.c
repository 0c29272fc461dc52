/* Secrets: where they come from, what is refused, that messages never have the content, and that
 * the environment is overwritten in place. */
#include "gate/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANARY "canary-7d1f3a"

extern char **environ;

static char path[64];

static void write_file(const char *content, size_t n, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, n), (ssize_t)n);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static struct secret from(enum secret_kind kind, const char *source)
{
    struct secret s = {.kind = kind, .source = strdup(source)};

    assert_non_null(s.source);
    return s;
}

static void refused(enum secret_kind kind, const char *source, const char *why)
{
    struct secret s = from(kind, source);
    struct error e = {.code = ERR_OK};

    assert_int_equal(secret_load(&s, &e), ERR_CONFIG);
    assert_null(s.bytes);
    assert_non_null(strstr(e.msg, source));
    assert_non_null(strstr(e.msg, why));
    assert_null(strstr(e.msg, CANARY));
    assert_int_equal(secret_load(&s, NULL), ERR_CONFIG);
    secret_fini(&s);
}

static void loaded(enum secret_kind kind, const char *source, const char *value)
{
    struct secret s = from(kind, source);
    struct error e = {.code = ERR_OK, .msg = "untouched"};

    assert_int_equal(secret_load(&s, &e), ERR_OK);
    assert_string_equal(e.msg, "untouched");
    assert_int_equal(s.n, strlen(value));
    assert_memory_equal(s.bytes, value, s.n);
    assert_int_equal(CRYPTO_secure_allocated(s.bytes), 1);
    assert_true(span_eq(secret_span(&s), span_str(value)));
    /* Again: the new value replaces the old one. */
    assert_int_equal(secret_load(&s, &e), ERR_OK);
    assert_memory_equal(s.bytes, value, s.n);
    secret_fini(&s);
    assert_null(s.bytes);
    assert_int_equal(s.kind, SECRET_NONE);
}

static void test_arena(void **state)
{
    (void)state;
    bool locked = false;

    assert_int_equal(secret_arena_init(&locked, NULL), ERR_OK); /* the second time, after setup */
}

static void test_none(void **state)
{
    (void)state;
    struct secret s = {.kind = SECRET_NONE};

    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_null(s.bytes);
    secret_forget_env(&s);
    secret_fini(&s);
}

static void test_env(void **state)
{
    (void)state;

    assert_int_equal(unsetenv("T_SECRET"), 0);
    refused(SECRET_ENV, "T_SECRET", "not set");
    assert_int_equal(setenv("T_SECRET", "", 1), 0);
    refused(SECRET_ENV, "T_SECRET", "empty");
    assert_int_equal(setenv("T_SECRET", "\n", 1), 0);
    refused(SECRET_ENV, "T_SECRET", "empty");
    assert_int_equal(setenv("T_SECRET", CANARY "\nX-Evil: 1", 1), 0);
    refused(SECRET_ENV, "T_SECRET", "line feed");
    assert_int_equal(setenv("T_SECRET", CANARY "\r\n", 1), 0);
    refused(SECRET_ENV, "T_SECRET", "carriage return");
    assert_int_equal(setenv("T_SECRET", CANARY "\n\n", 1), 0);
    refused(SECRET_ENV, "T_SECRET", "line feed");
    assert_int_equal(setenv("T_SECRET", CANARY, 1), 0);
    loaded(SECRET_ENV, "T_SECRET", CANARY);
    assert_int_equal(setenv("T_SECRET", CANARY "\n", 1), 0);
    loaded(SECRET_ENV, "T_SECRET", CANARY);
    assert_int_equal(setenv("T_SECRET", "x", 1), 0);
    loaded(SECRET_ENV, "T_SECRET", "x");
}

static void test_sizes(void **state)
{
    (void)state;
    static char big[65536 + 3];

    memset(big, 'k', sizeof(big) - 1);
    big[65536] = '\0';
    assert_int_equal(setenv("T_SECRET", big, 1), 0);
    loaded(SECRET_ENV, "T_SECRET", big);
    write_file(big, 65536, 0400);
    loaded(SECRET_FILE, path, big);
    big[65536] = '\n'; /* the largest, and its newline */
    write_file(big, 65537, 0600);
    big[65536] = '\0';
    loaded(SECRET_FILE, path, big);
    big[65536] = 'k';
    big[65537] = '\0';
    assert_int_equal(setenv("T_SECRET", big, 1), 0);
    refused(SECRET_ENV, "T_SECRET", "64 KiB");
    write_file(big, 65537, 0600);
    refused(SECRET_FILE, path, "64 KiB");
    big[65537] = 'k';
    write_file(big, 65538, 0600);
    refused(SECRET_FILE, path, "64 KiB");
    assert_int_equal(unsetenv("T_SECRET"), 0);
}

static void test_file(void **state)
{
    (void)state;

    refused(SECRET_FILE, "/nonexistent/key", "No such file");
    refused(SECRET_FILE, "/", "");
    write_file("", 0, 0600);
    refused(SECRET_FILE, path, "empty");
    write_file(CANARY "\0x", sizeof(CANARY) + 1, 0600);
    refused(SECRET_FILE, path, "NUL");
    write_file(CANARY "\n", sizeof(CANARY), 0600);
    loaded(SECRET_FILE, path, CANARY);
    write_file(CANARY, sizeof(CANARY) - 1, 0400);
    loaded(SECRET_FILE, path, CANARY);
}

static void test_file_open_to_others(void **state)
{
    (void)state;
    static const mode_t bits[] = {0040, 0020, 0010, 0004, 0002, 0001};

    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        write_file(CANARY, sizeof(CANARY) - 1, 0600 | bits[i]);
        refused(SECRET_FILE, path, "open to others");
    }
}

/* A pipe has no mode that says anything: it is read to its end. */
static void test_pipe(void **state)
{
    (void)state;
    int fds[2];
    char name[64];
    struct secret s;

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], CANARY "\n", sizeof(CANARY)), sizeof(CANARY));
    assert_int_equal(snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[0]) > 0, 1);
    assert_int_equal(close(fds[1]), 0);
    s = from(SECRET_FILE, name);
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_true(span_eq(secret_span(&s), SPAN(CANARY)));
    secret_fini(&s);
    assert_int_equal(close(fds[0]), 0);
}

/* The old value survives a load that fails. */
static void test_failure_keeps_value(void **state)
{
    (void)state;
    struct secret s = from(SECRET_ENV, "T_SECRET");

    assert_int_equal(setenv("T_SECRET", CANARY, 1), 0);
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_int_equal(setenv("T_SECRET", "", 1), 0);
    assert_int_equal(secret_load(&s, NULL), ERR_CONFIG);
    assert_true(span_eq(secret_span(&s), SPAN(CANARY)));
    secret_fini(&s);
}

static void test_forget_env(void **state)
{
    (void)state;
    char mine[] = "T_SECRET=" CANARY;
    char again[] = "T_SECRET=" CANARY "-2";
    char longer[] = "T_SECRET_2=keep";
    char bare[] = "T_SECRET";
    char *list[] = {longer, mine, bare, again, NULL};
    char **saved = environ;
    struct secret s = from(SECRET_ENV, "T_SECRET");
    struct secret f = from(SECRET_FILE, "T_SECRET_2");

    environ = list;
    secret_forget_env(&f); /* a path, not a variable */
    secret_forget_env(&s);
    secret_forget_env(&s);
    environ = saved;
    static const char zero[sizeof(CANARY) + 2];
    assert_memory_equal(mine, "T_SECRET=", 9);
    assert_memory_equal(mine + 9, zero, sizeof(CANARY));
    assert_memory_equal(again + 9, zero, sizeof(CANARY) + 2);
    assert_string_equal(longer, "T_SECRET_2=keep");
    assert_string_equal(bare, "T_SECRET");
    secret_fini(&s);
    secret_fini(&f);
}

static int setup(void **state)
{
    (void)state;
    bool locked = false;
    int n = snprintf(path, sizeof(path), "/tmp/test_secret.%ld", (long)getpid());

    return n > 0 && secret_arena_init(&locked, NULL) == ERR_OK ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

/* ---- made, compared ---- */

static void test_make(void **state)
{
    (void)state;
    struct secret a = {.kind = SECRET_NONE};
    struct secret b = {.kind = SECRET_NONE};

    assert_int_equal(secret_make(&a, NULL), ERR_OK);
    assert_int_equal(secret_make(&b, NULL), ERR_OK);
    assert_int_equal(a.kind, SECRET_MADE);
    assert_int_equal(a.n, 64); /* 256 bits */
    assert_int_equal(strspn(a.bytes, "0123456789abcdef"), 64);
    assert_int_equal(CRYPTO_secure_allocated(a.bytes), 1);
    assert_false(span_eq(secret_span(&a), secret_span(&b)));
    assert_int_equal(secret_load(&a, NULL), ERR_OK); /* stays as it is */
    assert_int_equal(a.n, 64);
    secret_forget_env(&a);
    secret_fini(&a);
    secret_fini(&b);
}

static void test_equal(void **state)
{
    (void)state;
    struct secret s = from(SECRET_ENV, "T_SECRET_EQUAL");

    assert_false(secret_equal(&s, SPAN(""))); /* not loaded: nobody knows it */
    assert_false(secret_equal(&s, SPAN(CANARY)));
    assert_int_equal(setenv("T_SECRET_EQUAL", CANARY, 1), 0);
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_true(secret_equal(&s, SPAN(CANARY)));
    assert_false(secret_equal(&s, SPAN("")));
    assert_false(secret_equal(&s, SPAN(CANARY "x")));
    for (size_t n = 0; n < strlen(CANARY); n++) {
        assert_false(secret_equal(&s, span_of(CANARY, n)));
    }
    secret_fini(&s);
}

static void test_sha256(void **state)
{
    (void)state;
    /* SHA-256 of "abc": FIPS 180-2 */
    static const unsigned char abc[SECRET_SHA256_SIZE] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    static const unsigned char zero[SECRET_SHA256_SIZE] = {0};
    struct secret s = from(SECRET_ENV, "T_SECRET_SHA");

    assert_false(secret_has_sha256(&s, zero));               /* not loaded */
    assert_int_equal(setenv("T_SECRET_SHA", "abc\n", 1), 0); /* without its newline */
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_true(secret_has_sha256(&s, abc));
    assert_false(secret_has_sha256(&s, zero));
    secret_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena),      cmocka_unit_test(test_none),
        cmocka_unit_test(test_env),        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_file),       cmocka_unit_test(test_file_open_to_others),
        cmocka_unit_test(test_pipe),       cmocka_unit_test(test_failure_keeps_value),
        cmocka_unit_test(test_forget_env), cmocka_unit_test(test_make),
        cmocka_unit_test(test_equal),      cmocka_unit_test(test_sha256),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
