/*
 * The command line of tactus-init: what runs as PID 1 takes nothing half right. Seconds at and just
 * beyond every bound, options cut short, a command that looks like options.
 */
#include "init/options.h"

#include "tactus/init.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define WORDS_MAX 12

/* ---- seconds ---- */

static void test_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {
        {"0", 0},
        {"0.0", 0},
        {"1", 1000},
        {"007", 7000},
        {"0.3", 300},
        {"0.30", 300},
        {"1.05", 1050},
        {"1.234", 1234},
        {"1.2340", 1234},
        {"1.2340000000000000000000000", 1234},
        {"1.2341", 1235}, /* up: a deadline never comes early */
        {"0.0001", 1},
        {"0.00000000000000000000000000001", 1},
        {"99.9999", 100000},
        {"100", 100000},
        {"100.000", 100000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ms = 77;
        if (!options_seconds(rows[i].text, 100, &ms) || ms != rows[i].ms) {
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)ms);
        }
    }
}

static void test_no_seconds(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        ".",
        ".5",
        "5.",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1s",
        "1.5s",
        "1..5",
        "1.2.3",
        "0x10",
        "1e3",
        "inf",
        "nan",
        "1,5",
        "1.-5",
        "1. 5",
        "100.001",
        "100.0001",
        "101",
        "1000",
        "\xd9\xa1",
        "1\n",
        "18446744073709551617",
        "99999999999999999999999999999999999999999",
        "18446744073709552",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ms = 77;
        if (options_seconds(rows[i], 100, &ms) || ms != 77) {
            fail_msg("taken as %llu: %s", (unsigned long long)ms, rows[i]);
        }
    }
}

/* ---- words ---- */

struct line {
    char *argv[WORDS_MAX + 2];
    int argc;
    char text[256];
};

/* Splits `text` at each space: two of them, or one at the end, make an empty word. */
static void split(struct line *l, const char *text)
{
    static char name[] = TACTUS_INIT_NAME;
    char *rest = l->text;

    *l = (struct line){.argv = {name}, .argc = 1};
    assert_true(strlen(text) < sizeof(l->text));
    memcpy(l->text, text, strlen(text) + 1);
    while (rest != NULL && text[0] != '\0') {
        assert_true(l->argc <= WORDS_MAX);
        l->argv[l->argc++] = strsep(&rest, " ");
    }
}

static void test_all_options(void **state)
{
    (void)state;
    struct line l;
    struct options o = {0};
    struct options_fault fault = {0};

    split(&l, "--heartbeat /run/beat --ttl 3600 --grace 0.25 -- sh -c true");
    assert_true(options_read(l.argc, l.argv, &o, &fault));
    assert_string_equal(o.heartbeat, "/run/beat");
    assert_int_equal(o.ttl_ms, 3600 * 1000);
    assert_int_equal(o.grace_ms, 250);
    assert_ptr_equal(o.command, l.argv + 8);
    assert_string_equal(o.command[0], "sh");
    assert_null(o.command[3]);
    assert_false(o.help || o.version);
    assert_null(fault.word);
}

static void test_defaults(void **state)
{
    (void)state;
    struct line l;
    struct options o = {.heartbeat = "old", .ttl_ms = 9};
    struct options_fault fault = {0};

    split(&l, "-- --ttl -- --help");
    assert_true(options_read(l.argc, l.argv, &o, &fault));
    assert_null(o.heartbeat);
    assert_int_equal(o.ttl_ms, 0);
    assert_int_equal(o.grace_ms, 5000);
    assert_string_equal(o.command[0], "--ttl"); /* behind -- nothing is an option */
    assert_string_equal(o.command[1], "--");
    assert_string_equal(o.command[2], "--help");
    assert_false(o.help);
}

static void test_last_one_counts(void **state)
{
    (void)state;
    struct line l;
    struct options o = {0};
    struct options_fault fault = {0};

    split(&l, "--ttl 5 --grace 0 --ttl 31622400 -- x");
    assert_true(options_read(l.argc, l.argv, &o, &fault));
    assert_int_equal(o.ttl_ms, (uint64_t)TACTUS_INIT_TTL_MAX_S * 1000);
    assert_int_equal(o.grace_ms, 0);
}

static void test_help_and_version(void **state)
{
    (void)state;
    struct line l;
    struct options o = {0};
    struct options_fault fault = {0};

    split(&l, "--ttl 5 --help --nonsense");
    assert_true(options_read(l.argc, l.argv, &o, &fault));
    assert_true(o.help && !o.version);
    assert_null(o.command);
    split(&l, "--version");
    assert_true(options_read(l.argc, l.argv, &o, &fault));
    assert_true(o.version && !o.help);
}

static void test_wrong_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *word;
    } rows[] = {
        {"", TACTUS_INIT_NAME},
        {"--", "--"},
        {"--ttl 5", TACTUS_INIT_NAME},
        {"--ttl", "--ttl"},
        {"--ttl -- x", "--"},
        {"--ttl 0 -- x", "0"},
        {"--ttl 0.000 -- x", "0.000"},
        {"--ttl 31622401 -- x", "31622401"},
        {"--ttl=5 -- x", "--ttl=5"},
        {"--tt 5 -- x", "--tt"},
        {"--grace", "--grace"},
        {"--grace 3601 -- x", "3601"},
        {"--grace -1 -- x", "-1"},
        {"--heartbeat", "--heartbeat"},
        {"--nonsense -- x", "--nonsense"},
        {"-h", "-h"},
        {"- x", "-"},
        {"sh -c true", "sh"},
        {"exec -- x", "exec"},
        {"--ttl 5 sh -- x", "sh"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct line l;
        struct options o = {.grace_ms = 123, .ttl_ms = 456};
        struct options_fault fault = {0};

        split(&l, rows[i].line);
        if (options_read(l.argc, l.argv, &o, &fault)) {
            fail_msg("taken: %s", rows[i].line);
        }
        if (strcmp(fault.word, rows[i].word) != 0 || fault.why[0] == '\0') {
            fail_msg("%s: %s: %s", rows[i].line, fault.word, fault.why);
        }
        assert_int_equal(o.grace_ms, 123);
        assert_int_equal(o.ttl_ms, 456);
        assert_null(o.command);
    }
}

static void test_empty_words(void **state)
{
    (void)state;
    char *nothing[] = {NULL}; /* an argv without even a name */
    struct line l;
    struct options o = {0};
    struct options_fault fault = {0};

    split(&l, "--heartbeat  -- x");
    assert_false(options_read(l.argc, l.argv, &o, &fault));
    assert_string_equal(fault.word, "--heartbeat");
    split(&l, "--grace  -- x");
    assert_false(options_read(l.argc, l.argv, &o, &fault));
    split(&l, " -- x");
    assert_false(options_read(l.argc, l.argv, &o, &fault));
    assert_false(options_read(0, nothing, &o, &fault));
    split(&l, "-- ");
    assert_true(options_read(l.argc, l.argv, &o, &fault)); /* execvp says that there is none */
    assert_string_equal(o.command[0], "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seconds),         cmocka_unit_test(test_no_seconds),
        cmocka_unit_test(test_all_options),     cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_last_one_counts), cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_wrong_lines),     cmocka_unit_test(test_empty_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
