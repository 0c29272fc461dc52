/*
 * The log: both formats, what is escaped, that no secret gets through in any way of writing it
 * (the kind of BerriAI/litellm#20240, #35678, #39526, #21080), and lack of memory.
 */
#include "base/log.h"

#include "base/json_span.h"
#include "base/redact.h"
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
#include <unistd.h>

#define SECRET  "can\"ary\\secret/\n42"
#define STAMP_N 24 /* 2025-01-31T12:34:56.789Z */

static char got[1 << 19];
static size_t got_n;
static int saved;
static int file;

static void capture(void)
{
    char path[] = "/tmp/test_log.XXXXXX";

    (void)fflush(stderr);
    saved = dup(STDERR_FILENO);
    file = mkstemp(path);
    assert_true(saved >= 0 && file >= 0);
    assert_int_equal(unlink(path), 0);
    assert_true(dup2(file, STDERR_FILENO) == STDERR_FILENO);
}

static void release(void)
{
    assert_true(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
    ssize_t n = pread(file, got, sizeof(got) - 1, 0);
    assert_true(n >= 0);
    got_n = (size_t)n;
    got[n] = '\0';
    assert_int_equal(close(file), 0);
    assert_int_equal(close(saved), 0);
}

/* One line in text format, without the time. */
static void text_is(const char *want)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

    assert_true(got_n > STAMP_N + 1);
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        assert_true(form[i] == 'd' ? got[i] >= '0' && got[i] <= '9' : got[i] == form[i]);
    }
    assert_int_equal(got[got_n - 1], '\n');
    got[got_n - 1] = '\0';
    assert_string_equal(got + sizeof(form) - 1, want);
}

/* One line in JSON format, valid, without the time. */
static void json_is(const char *want)
{
    const struct json_rules rules = {.max_depth = 2};
    struct json_members members;
    struct json_fault fault;

    assert_true(got_n > 0 && got[got_n - 1] == '\n');
    got[--got_n] = '\0';
    assert_null(strchr(got, '\n'));
    assert_int_equal(json_check_object(span_of(got, got_n), &rules, &members, &fault), ERR_OK);
    assert_memory_equal(got, "{\"time\":\"", 9);
    assert_string_equal(got + 9 + STAMP_N, want);
}

static void test_text(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    capture();
    log_info("session", LOG_MSG("closed early"), LOG_U64("conn", 7), LOG_STR("why", "peer"),
             LOG_STR("path", "/a b"), LOG_STR("empty", ""), LOG_STR("quote", "a\"b\\c"),
             LOG_STR("eq", "a=b"), LOG_STR("umlaut", "\xC3\xBC"), LOG_U64("max", UINT64_MAX));
    release();
    text_is("INFO  session: closed early conn=7 why=peer path=\"/a b\" empty=\"\" "
            "quote=\"a\\\"b\\\\c\" eq=\"a=b\" umlaut=\"\xC3\xBC\" max=18446744073709551615");
}

static void test_text_levels(void **state)
{
    (void)state;
    static const char *const want[] = {"ERROR m: x", "WARN  m: x", "INFO  m: x", "DEBUG m: x"};

    log_setup(LOG_DEBUG, LOG_FORMAT_TEXT, NULL);
    for (int level = LOG_ERROR; level <= (int)LOG_DEBUG; level++) {
        capture();
        LOG_AT((enum log_level)level, "m", LOG_MSG("x"));
        release();
        text_is(want[level]);
    }
}

/* A peer's text cannot forge a line or steer the terminal. */
static void test_text_control(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    capture();
    log_warn("m", LOG_MSG("a\nb\x1b[2J\x7f"), LOG_STR("k", "c\r\n\xC2\x9B x\xFF"),
             LOG_STR("l", "\t"));
    release();
    text_is("WARN  m: a\\x0ab\\x1b[2J\\x7f k=\"c\\x0d\\x0a\\x9b x\xEF\xBF\xBD\" l=\"\\x09\"");
}

static void test_json(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_JSON, NULL);
    capture();
    log_error("m\"", LOG_MSG("a\nb \"q\""), LOG_U64("n", 0), LOG_STR("k", "\\ \x01 \xFF \xC3\xBC"),
              LOG_U64("max", UINT64_MAX));
    release();
    json_is("\",\"level\":\"error\",\"module\":\"m\\\"\",\"msg\":\"a\\nb \\\"q\\\"\",\"n\":0,"
            "\"k\":\"\\\\ \\u0001 \xEF\xBF\xBD \xC3\xBC\",\"max\":18446744073709551615}");
    capture();
    log_event(LOG_WARN, "m", &LOG_STR("other", NULL), 1);
    release();
    json_is("\",\"level\":\"warn\",\"module\":\"m\",\"msg\":\"\"}");
}

static int evaluated;

static const char *costly(void)
{
    evaluated++;
    return "x";
}

static void test_level_skips(void **state)
{
    (void)state;
    log_setup(LOG_WARN, LOG_FORMAT_TEXT, NULL);
    assert_true(log_enabled(LOG_ERROR));
    assert_true(log_enabled(LOG_WARN));
    assert_false(log_enabled(LOG_INFO));
    evaluated = 0;
    capture();
    log_info("m", LOG_MSG(costly()));
    log_debug("m", LOG_MSG(costly()));
    release();
    assert_int_equal(evaluated, 0);
    assert_int_equal(got_n, 0);
}

static void test_secrets(void **state)
{
    (void)state;
    struct redact *r = redact_new();

    assert_non_null(r);
    assert_int_equal(redact_add(r, SPAN(SECRET)), ERR_OK);
    for (int format = LOG_FORMAT_TEXT; format <= (int)LOG_FORMAT_JSON; format++) {
        log_setup(LOG_INFO, (enum log_format)format, r);
        capture();
        log_info("m", LOG_MSG("bad " SECRET), LOG_STR("k", SECRET "!"),
                 LOG_STR("header", "Authorization: Bearer abcdef-123"),
                 LOG_STR("key", "sk-abcdefgh12345678"));
        release();
        if (format == LOG_FORMAT_TEXT) {
            text_is("INFO  m: bad [redacted] k=[redacted]! header=\"Authorization: Bearer "
                    "[redacted]\" key=[redacted]");
        } else {
            json_is("\",\"level\":\"info\",\"module\":\"m\",\"msg\":\"bad [redacted]\","
                    "\"k\":\"[redacted]!\",\"header\":\"Authorization: Bearer [redacted]\","
                    "\"key\":\"[redacted]\"}");
        }
    }
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    redact_free(r);
}

/* A long value is cut, but never so that the start of a secret stays. */
static void test_long_values(void **state)
{
    (void)state;
    static char value[70000];
    struct redact *r = redact_new();

    assert_int_equal(redact_add(r, SPAN("canary-secret")), ERR_OK);
    log_setup(LOG_INFO, LOG_FORMAT_JSON, r);
    for (size_t at = 2020; at < 2060; at++) {
        memset(value, 'v', sizeof(value) - 1);
        memcpy(value + at, "canary-secret", 13);
        capture();
        log_info("m", LOG_MSG(value));
        release();
        assert_null(strstr(got, "cana"));
        assert_true(got_n > 2000 && got_n < 2200);
    }
    for (size_t i = 0; i + 3 < sizeof(value); i += 3) { /* 2048 is not a multiple of three */
        memcpy(value + i, "\xE6\x97\xA5", 3);
    }
    capture();
    log_info("m", LOG_MSG(value), LOG_U64("after", 1));
    release();
    assert_null(strstr(got, "\xEF\xBF\xBD"));
    assert_non_null(strstr(got, "\xE6\x97\xA5\",\"after\":1}\n"));
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    redact_free(r);
}

static void test_many_large_fields(void **state)
{
    (void)state;
    static char value[4000];
    struct log_field fields[40];

    memset(value, 1, sizeof(value) - 1); /* six bytes each in JSON */
    for (size_t i = 0; i < 40; i++) {
        fields[i] = LOG_STR("k", value);
    }
    log_setup(LOG_INFO, LOG_FORMAT_JSON, NULL);
    capture();
    log_event(LOG_INFO, "m", fields, 40);
    release();
    assert_true(got_n > 200000);
    assert_int_equal(got[got_n - 1], '\n');
    assert_int_equal(got[got_n - 2], '}');
}

static void test_no_memory(void **state)
{
    (void)state;
    struct redact *r = redact_new();

    assert_int_equal(redact_add(r, SPAN("canary-secret")), ERR_OK);
    for (int format = LOG_FORMAT_TEXT; format <= (int)LOG_FORMAT_JSON; format++) {
        log_setup(LOG_INFO, (enum log_format)format, r);
        for (size_t n = 0;; n++) {
            capture();
            torture_fail_after(n);
            log_info("m", LOG_MSG("a canary-secret"), LOG_STR("k", "v"), LOG_STR("l", "w"));
            bool failed = torture_count() > n;
            torture_off();
            release();
            assert_null(strstr(got, "canary"));
            assert_int_equal(got[got_n - 1], '\n');
            assert_true(failed == (strstr(got, "a line was lost") != NULL));
            if (!failed) {
                assert_true(n >= 3);
                break;
            }
        }
    }
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    redact_free(r);
}

static void test_errno_and_closed_stderr(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    int keep = dup(STDERR_FILENO);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(dup2(full, STDERR_FILENO) == STDERR_FILENO);
    errno = ERANGE;
    log_info("m", LOG_MSG("dropped"));
    assert_int_equal(errno, ERANGE);
    (void)close(STDERR_FILENO);
    log_info("m", LOG_MSG("dropped"));
    assert_true(dup2(keep, STDERR_FILENO) == STDERR_FILENO);
    assert_int_equal(close(keep), 0);
    assert_int_equal(close(full), 0);
}

/* The level in colour on a terminal, in text format, without NO_COLOR. */
static void test_colour(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    char line[256];

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        skip();
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    for (int round = 0; round < 3; round++) {
        int keep = dup(STDERR_FILENO);
        assert_int_equal(round == 1 ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR"), 0);
        assert_true(dup2(slave, STDERR_FILENO) == STDERR_FILENO);
        log_setup(LOG_INFO, round == 2 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT, NULL);
        log_warn("m", LOG_MSG("x"));
        assert_true(dup2(keep, STDERR_FILENO) == STDERR_FILENO);
        assert_int_equal(close(keep), 0);
        ssize_t n = read(master, line, sizeof(line) - 1);
        assert_true(n > 0);
        line[n] = '\0';
        if (round == 0) {
            assert_non_null(strstr(line, " \033[33mWARN \033[0m m: x"));
        } else {
            assert_null(strchr(line, '\033'));
        }
    }
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    assert_int_equal(close(slave), 0);
    assert_int_equal(close(master), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),         cmocka_unit_test(test_text_levels),
        cmocka_unit_test(test_text_control), cmocka_unit_test(test_json),
        cmocka_unit_test(test_level_skips),  cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_long_values),  cmocka_unit_test(test_many_large_fields),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_errno_and_closed_stderr),
        cmocka_unit_test(test_colour),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
