/* Secrets: where they come from, what is refused, that messages never have the content, that the
 * environment is overwritten in place, and what becomes of copies. Commands: test_secret_command.c.
 */
#include "fixtures/secret_bed.h"
#include "fixtures/torture.h"

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

/* ---- credentials ---- */

static void test_credential_name(void **state)
{
    (void)state;

    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/tmp", 1), 0);
    refused(SECRET_CREDENTIAL, "", "is no name");
    refused(SECRET_CREDENTIAL, ".", "is no name");
    refused(SECRET_CREDENTIAL, "..", "is no name");
    refused(SECRET_CREDENTIAL, "../etc/shadow", "is no name");
    refused(SECRET_CREDENTIAL, "/etc/shadow", "is no name");
    refused(SECRET_CREDENTIAL, "no-such-credential", "No such file");
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "", 1), 0);
    refused(SECRET_CREDENTIAL, "key", "CREDENTIALS_DIRECTORY is not set");
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    refused(SECRET_CREDENTIAL, "key", "CREDENTIALS_DIRECTORY is not set");
    static char deep[5000];
    memset(deep, 'd', sizeof(deep) - 1);
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", deep, 1), 0);
    refused(SECRET_CREDENTIAL, "key", "too long");
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

static void test_credential(void **state)
{
    (void)state;
    static const mode_t bits[] = {0020, 0010, 0004, 0002, 0001, 0044};
    const char *name = strrchr(path, '/') + 1;

    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/tmp", 1), 0);
    write_file(CANARY "\n", sizeof(CANARY), 0400);
    loaded(SECRET_CREDENTIAL, name, CANARY);
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        write_file(CANARY, sizeof(CANARY) - 1, 0400 | bits[i]);
        refused(SECRET_CREDENTIAL, name, "open to others");
    }
    write_file("", 0, 0400);
    refused(SECRET_CREDENTIAL, name, "is empty");
    write_file(CANARY "\r\n", sizeof(CANARY) + 1, 0400);
    refused(SECRET_CREDENTIAL, name, "carriage return");
    /* The group's bits of an ACL, where root made the file; anybody else's are the group's. */
    write_file(CANARY, sizeof(CANARY) - 1, 0440);
    if (geteuid() == 0) {
        loaded(SECRET_CREDENTIAL, name, CANARY);
        refused(SECRET_FILE, path, "open to others");
        assert_int_equal(chown(path, 1, 0), 0);
    }
    refused(SECRET_CREDENTIAL, name, "open to others");
    assert_int_equal(unlink(path), 0);
    write_file("", 0, 0600);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

/* ---- memory ---- */

static void load_tortured(struct secret s, size_t most)
{
    enum err err = ERR_NOMEM;
    size_t n = 0;

    while (err != ERR_OK) {
        struct error e = {.code = ERR_OK};
        torture_fail_after(n++);
        err = secret_load(&s, &e);
        torture_off();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && s.bytes == NULL));
        assert_true(err == ERR_OK || e.code == ERR_NOMEM);
        assert_true(n <= most + 1);
    }
    assert_int_equal(n, most + 1);
    assert_true(secret_equal(&s, SPAN(CANARY)));
    secret_fini(&s);
}

static void test_no_memory(void **state)
{
    (void)state;

    assert_int_equal(setenv("T_SECRET", CANARY, 1), 0);
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/tmp", 1), 0);
    write_file(CANARY, sizeof(CANARY) - 1, 0400);
    load_tortured(from(SECRET_ENV, "T_SECRET"), 0);
    load_tortured(from(SECRET_FILE, path), 0);
    load_tortured(from(SECRET_CREDENTIAL, strrchr(path, '/') + 1), 0);
    load_tortured(command("echo", CANARY, NULL), 1);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    assert_no_children();
}

#define BLOCK  65536u
#define BLOCKS 16

/* Takes all of the arena in blocks; returns how many. */
static size_t take_arena(char *blocks[BLOCKS])
{
    size_t n = 0;

    while (n < BLOCKS) {
        blocks[n] = OPENSSL_secure_malloc(BLOCK);
        if (blocks[n] == NULL) {
            break;
        }
        n++;
    }
    return n;
}

static void give_back(char *blocks[BLOCKS], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        OPENSSL_secure_free(blocks[i]);
    }
}

/* … and the rest of it in small ones. */
static void fill_arena(char *blocks[BLOCKS], size_t *n, char *small[], size_t max, size_t *nsmall)
{
    *n = take_arena(blocks);
    for (size_t size = BLOCK / 2; size >= 16; size /= 2) {
        char *p = OPENSSL_secure_malloc(size);
        while (p != NULL) {
            assert_true(*nsmall < max);
            small[(*nsmall)++] = p;
            p = OPENSSL_secure_malloc(size);
        }
    }
}

static void no_secure_memory(struct secret s)
{
    struct error e = {.code = ERR_OK};
    struct secret to = {.kind = SECRET_MADE};
    char *blocks[BLOCKS];
    char *small[64];
    size_t nsmall = 0;
    size_t n = 0;

    fill_arena(blocks, &n, small, 64, &nsmall);
    assert_true(n > 2);
    assert_int_equal(secret_load(&s, &e), ERR_NOMEM);
    assert_non_null(strstr(e.msg, "no secure memory"));
    assert_null(s.bytes);
    give_back(blocks, n);
    assert_int_equal(secret_load(&s, &e), ERR_OK);
    n = take_arena(blocks);
    assert_int_equal(secret_copy(&to, &s), ERR_NOMEM);
    assert_int_equal(to.kind, SECRET_MADE);
    give_back(blocks, n);
    for (size_t i = 0; i < nsmall; i++) {
        OPENSSL_secure_free(small[i]);
    }
    secret_fini(&s);
}

static void test_no_secure_memory(void **state)
{
    (void)state;
    static char big[32769];

    /* More than half a block, so that it takes a whole one. */
    memset(big, 'k', sizeof(big) - 1);
    assert_int_equal(setenv("T_SECRET", big, 1), 0);
    no_secure_memory(from(SECRET_ENV, "T_SECRET"));
    write_file(big, sizeof(big) - 1, 0600);
    no_secure_memory(from(SECRET_FILE, path));
    no_secure_memory(command("cat", path, NULL));
    assert_int_equal(setenv("T_SECRET", "", 1), 0);
}

/* Nothing stays in the arena, where no sanitizer would see it; what goes back to it is wiped. */
static void test_arena_given_back(void **state)
{
    (void)state;
    struct secret copy = {.kind = SECRET_NONE};
    struct secret s = SH("echo " CANARY);
    size_t before = CRYPTO_secure_used();

    write_file(CANARY, sizeof(CANARY) - 1, 0600);
    loaded(SECRET_FILE, path, CANARY);
    write_file("\n\n", 2, 0600);
    refused(SECRET_FILE, path, "line feed");
    loads(SH("echo " CANARY), CANARY);
    refuses(SH("echo " CANARY "; exit 3"), "sh", "code 3");
    refuses(SH("echo " CANARY "; echo"), "sh", "line feed");
    assert_int_equal(CRYPTO_secure_used(), before);
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_int_equal(secret_copy(&copy, &s), ERR_OK);
    assert_int_equal(secret_copy(&copy, &s), ERR_OK);
    secret_fini(&s);
    assert_true(CRYPTO_secure_used() > before);
    secret_fini(&copy);
    assert_int_equal(CRYPTO_secure_used(), before);
}

/* ---- copied, described, compared ---- */

static void test_copy(void **state)
{
    (void)state;
    struct secret a = SH("echo " CANARY);
    struct secret b = from(SECRET_ENV, "T_SECRET");
    struct secret c = {.kind = SECRET_NONE};

    assert_int_equal(setenv("T_SECRET", CANARY, 1), 0);
    assert_int_equal(secret_load(&b, NULL), ERR_OK);
    assert_int_equal(secret_copy(&c, &b), ERR_OK);
    secret_forget_env(&b);
    secret_fini(&b);
    assert_int_equal(c.kind, SECRET_ENV);
    assert_string_equal(c.source, "T_SECRET");
    assert_true(span_eq(secret_span(&c), SPAN(CANARY)));
    assert_int_equal(c.bytes[c.n], '\0');
    assert_int_equal(CRYPTO_secure_allocated(c.bytes), 1);
    assert_true(secret_equal(&c, SPAN(CANARY)));
    /* Over one that is loaded, from one that is not. */
    assert_int_equal(secret_copy(&c, &a), ERR_OK);
    assert_int_equal(c.kind, SECRET_COMMAND);
    assert_null(c.bytes);
    assert_null(c.source);
    assert_int_equal(c.argc, 3);
    assert_string_equal(c.argv[2], "echo " CANARY);
    assert_false(secret_equal(&c, SPAN(CANARY)));
    assert_int_equal(secret_load(&c, NULL), ERR_OK);
    secret_fini(&a);
    assert_int_equal(secret_copy(&c, &a), ERR_OK); /* from none */
    assert_int_equal(c.kind, SECRET_NONE);
    assert_null(c.bytes);
    secret_fini(&c);
}

static void test_copy_no_memory(void **state)
{
    (void)state;
    struct secret a = SH("echo " CANARY);
    struct secret to = from(SECRET_FILE, "/old");
    enum err err = ERR_NOMEM;
    size_t n = 0;

    assert_int_equal(secret_load(&a, NULL), ERR_OK);
    while (err != ERR_OK) {
        torture_fail_after(n++);
        err = secret_copy(&to, &a);
        torture_off();
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_int_equal(to.kind, err == ERR_OK ? SECRET_COMMAND : SECRET_FILE);
    }
    assert_int_equal(n, 5); /* the list and three words */
    assert_true(secret_equal(&to, SPAN(CANARY)));
    secret_fini(&a);
    secret_fini(&to);
}

static void test_same_source(void **state)
{
    (void)state;
    struct secret list[] = {
        {.kind = SECRET_NONE},    {.kind = SECRET_MADE},   from(SECRET_ENV, "A"),
        from(SECRET_ENV, "B"),    from(SECRET_FILE, "A"),  from(SECRET_CREDENTIAL, "A"),
        command("A", NULL, NULL), command("A", "B", NULL), command("A", "C", NULL),
        command("A", "B", "C"),
    };
    size_t n = sizeof(list) / sizeof(list[0]);

    for (size_t i = 0; i < n; i++) {
        struct secret copy = {.kind = SECRET_NONE};
        assert_int_equal(secret_copy(&copy, &list[i]), ERR_OK);
        for (size_t j = 0; j < n; j++) {
            assert_int_equal(secret_same_source(&copy, &list[j]), i == j);
        }
        secret_fini(&copy);
    }
    for (size_t i = 0; i < n; i++) {
        secret_fini(&list[i]);
    }
}

static void describes(struct secret s, size_t size, const char *text)
{
    char out[64];

    memset(out, '#', sizeof(out));
    secret_describe(&s, out, size);
    assert_string_equal(out, text);
    assert_int_equal(out[size], '#');
    secret_fini(&s);
}

static void test_describe(void **state)
{
    (void)state;
    struct secret loaded_one = SH("echo " CANARY);

    describes((struct secret){.kind = SECRET_NONE}, 60, "none");
    describes((struct secret){.kind = SECRET_MADE}, 60, "made at start");
    describes(from(SECRET_ENV, "OPENAI_API_KEY"), 60, "env OPENAI_API_KEY");
    describes(from(SECRET_FILE, "/x"), 60, "file /x");
    describes(from(SECRET_CREDENTIAL, "openai"), 60, "credential openai");
    describes(command("/usr/bin/pass", "show", CANARY), 60, "command /usr/bin/pass");
    assert_int_equal(secret_load(&loaded_one, NULL), ERR_OK);
    describes(loaded_one, 60, "command sh");
    describes(from(SECRET_FILE, "/tr\xc3\xa4ger"), 9, "file /tr"); /* not half a character */
    describes(from(SECRET_FILE, "/tr\xc3\xa4ger"), 10, "file /tr");
    describes(from(SECRET_FILE, "/tr\xc3\xa4ger"), 11, "file /tr\xc3\xa4");
    describes(from(SECRET_FILE, "/x"), 4, "fil");
    describes(from(SECRET_FILE, "/x"), 1, "");
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
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_open_to_others),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_failure_keeps_value),
        cmocka_unit_test(test_forget_env),
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_credential_name),
        cmocka_unit_test(test_credential),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_secure_memory),
        cmocka_unit_test(test_arena_given_back),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_no_memory),
        cmocka_unit_test(test_same_source),
        cmocka_unit_test(test_describe),
    };

    return cmocka_run_group_tests(tests, secret_bed_setup, secret_bed_teardown);
}
