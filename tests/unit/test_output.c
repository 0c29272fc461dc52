/* What brokerctl writes: cleaned for a terminal, as it came for a pipe; JSON, info, errors and exit
 * codes. */
#include "ctl/output.h"

#include "ctl/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#define FFFD "\xef\xbf\xbd"

/* A file in memory takes what is written, however much. */
struct sink {
    struct output out;
    char text[512 * 1024];
};

static void sink_init(struct sink *s, bool terminal, bool colour)
{
    int fd = memfd_create("output", MFD_CLOEXEC);

    assert_true(fd >= 0);
    output_init(&s->out, fd, terminal, colour);
}

/* Everything that was written, and closes. */
static struct span written(struct sink *s)
{
    assert_int_equal(output_flush(&s->out, NULL), ERR_OK);
    assert_int_equal(lseek(s->out.fd, 0, SEEK_SET), 0);
    ssize_t n = read(s->out.fd, s->text, sizeof(s->text));
    assert_true(n >= 0);
    assert_int_equal(close(s->out.fd), 0);
    return span_of(s->text, (size_t)n);
}

static void assert_written(struct sink *s, struct span expected)
{
    struct span got = written(s);

    if (!span_eq(got, expected)) {
        fail_msg("got %zu bytes: %.*s", got.n, (int)got.n, got.p);
    }
}

static struct sink sink; /* large for a stack */

static void remote_is(bool terminal, struct span text, struct span expected)
{
    sink_init(&sink, terminal, false);
    output_remote(&sink.out, text);
    assert_written(&sink, expected);
}

static void remote_line_is(struct span text, struct span expected)
{
    for (int terminal = 0; terminal < 2; terminal++) {
        sink_init(&sink, terminal == 1, false);
        output_remote_line(&sink.out, text);
        assert_written(&sink, expected);
    }
}

static void json_is(bool terminal, const char *json, const char *expected)
{
    sink_init(&sink, terminal, false);
    output_json(&sink.out, span_str(json));
    assert_written(&sink, span_str(expected));
}

/* ---- text from elsewhere ---- */

static void test_remote(void **state)
{
    (void)state;
    static const char nasty[] = "a\x1b[2J\tb\nc\rd\0e\x7f\xc2\x9b"
                                "1m\xc2\xa0\xc3\xa9\xff\xe2\x82";

    remote_is(false, SPAN(nasty), SPAN(nasty));
    remote_is(
        true, SPAN(nasty),
        SPAN("a" FFFD "[2J\tb\nc" FFFD "d" FFFD "e" FFFD FFFD "1m\xc2\xa0\xc3\xa9" FFFD FFFD FFFD));
    remote_is(true, SPAN(""), SPAN(""));
    remote_is(true, SPAN("\x1b"), SPAN(FFFD));
    remote_is(true, SPAN("\xe4\xb8\xad\xf0\x9f\x99\x82"), SPAN("\xe4\xb8\xad\xf0\x9f\x99\x82"));
    remote_line_is(SPAN("one\ntwo\r\n\tthree\x1b]0;x\x07"),
                   SPAN("one two   three" FFFD "]0;x" FFFD));
}

/* Every C0 and C1 control, and their neighbours. */
static void test_each_control(void **state)
{
    (void)state;
    for (unsigned cp = 0; cp < 0x100; cp++) {
        char text[2] = {(char)cp, 0};
        size_t n = 1;
        if (cp >= 0x80) {
            text[0] = (char)(0xc0u | (cp >> 6));
            text[1] = (char)(0x80u | (cp & 0x3fu));
            n = 2;
        }
        bool control = cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
        bool kept = !control || cp == '\n' || cp == '\t';
        remote_is(true, span_of(text, n), kept ? span_of(text, n) : SPAN(FFFD));
        remote_is(false, span_of(text, n), span_of(text, n));
    }
}

/* Texts around the size of the buffer, with a character lying across its end. */
static void test_sizes(void **state)
{
    (void)state;
    static char text[3 * OUTPUT_SIZE];

    for (size_t n = OUTPUT_SIZE - 4; n <= OUTPUT_SIZE + 4; n++) {
        memset(text, 'x', sizeof(text));
        memcpy(text + n, "\xf0\x9f\x99\x82", 4);
        remote_is(true, span_of(text, sizeof(text)), span_of(text, sizeof(text)));
        remote_is(true, span_of(text, n), span_of(text, n));
    }
}

static void test_end_line_and_pad(void **state)
{
    (void)state;
    sink_init(&sink, false, false);
    output_end_line(&sink.out);
    output_str(&sink.out, "a");
    output_end_line(&sink.out);
    output_end_line(&sink.out);
    output_pad(&sink.out, SPAN("\xc3\xa4"), 3);
    output_pad(&sink.out, SPAN("abc"), 3);
    output_pad(&sink.out, SPAN("abcd"), 3);
    output_printf(&sink.out, "%d|%s", 7, "x");
    assert_written(&sink, SPAN("a\n  7|x"));
}

static void test_style(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        sink_init(&sink, true, on == 1);
        output_str(&sink.out, "a\n");
        output_style(&sink.out, OUTPUT_RED);
        output_style(&sink.out, OUTPUT_PLAIN);
        output_end_line(&sink.out);
        assert_written(&sink, on == 1 ? SPAN("a\n\x1b[31m\x1b[0m") : SPAN("a\n"));
    }
    sink_init(&sink, false, true); /* no terminal, no colour */
    output_style(&sink.out, OUTPUT_BOLD);
    assert_written(&sink, SPAN(""));
    assert_true(output_colour(NULL, "xterm"));
    assert_true(output_colour("", "xterm"));
    assert_false(output_colour("1", "xterm"));
    assert_false(output_colour(NULL, "dumb"));
    assert_false(output_colour(NULL, NULL));
}

/* ---- JSON ---- */

static void test_json(void **state)
{
    (void)state;
    json_is(false, "{ \"a\" : [1,2] }", "{ \"a\" : [1,2] }\n");
    json_is(true, "1", "1\n");
    json_is(true, " null ", "null\n");
    json_is(true, "\"a, b: [c] {d} \\\" \\\\\"", "\"a, b: [c] {d} \\\" \\\\\"\n");
    json_is(true, "{ }", "{}\n");
    json_is(true, "[\n]", "[]\n");
    json_is(true, "[[],{}]", "[\n  [],\n  {}\n]\n");
    json_is(true, "{\"ok\":true,\"echo\":{\"n\":9007199254740993,\"f\":1.0e400}}",
            "{\n  \"ok\": true,\n  \"echo\": {\n    \"n\": 9007199254740993,\n"
            "    \"f\": 1.0e400\n  }\n}\n");
    json_is(true, "\"\x7f\xc2\x9b\"", "\"" FFFD FFFD "\"\n");
}

/* Depth costs neither stack nor, beyond a bound, width. */
static void test_deep_json(void **state)
{
    (void)state;
    static char text[2 * 1000 + 1];

    memset(text, '[', 1000);
    memset(text + 1000, ']', 1000);
    sink_init(&sink, true, false);
    output_json(&sink.out, span_str(text));
    struct span got = written(&sink);
    assert_int_equal(got.p[got.n - 1], '\n');
    assert_null(memmem(got.p, got.n, "[]\n[]", 5));
    assert_true(got.n > 2000 && got.n < sizeof(sink.text));
}

/* ---- failures of the reader ---- */

static void test_reader_gone(void **state)
{
    (void)state;
    struct error e = {.code = ERR_OK};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(close(fds[0]), 0);
    output_init(&sink.out, fds[1], false, false);
    output_str(&sink.out, "x");
    assert_int_equal(output_flush(&sink.out, &e), ERR_CLOSED);
    assert_int_equal(e.sys, EPIPE);
    output_str(&sink.out, "y"); /* dropped, and the failure stays */
    assert_int_equal(output_flush(&sink.out, NULL), ERR_CLOSED);
    assert_int_equal(close(fds[1]), 0);

    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    output_init(&sink.out, full, false, false);
    assert_int_equal(output_flush(&sink.out, &e), ERR_OK);
    output_str(&sink.out, "x");
    assert_int_equal(output_flush(&sink.out, &e), ERR_IO);
    assert_int_equal(e.sys, ENOSPC);
    assert_int_equal(close(full), 0);
}

/* ---- errors and exit codes ---- */

static void test_fail_is_one_line(void **state)
{
    (void)state;
    sink_init(&sink, false, false);
    assert_int_equal(ctl_fail(&sink.out, EX_USAGE, "%s", "a\nb\x1b[m"), EX_USAGE);
    assert_written(&sink, SPAN("tactus-brokerctl: a b" FFFD "[m\n"));
}

static void test_exit_codes(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint64_t status;
        int code;
    } rows[] = {
        {"BadRequest", 0, EX_DATAERR},
        {"MessageTooLarge", 0, EX_DATAERR},
        {"MethodNotFound", 0, EX_DATAERR},
        {"UnsupportedProvider", 0, EX_DATAERR},
        {"BadRequestError", 400, EX_DATAERR},
        {"UnprocessableEntityError", 422, EX_DATAERR},
        {"NotFoundError", 404, EX_DATAERR},
        {"ModelNotAllowed", 0, EX_NOPERM},
        {"ToolNotAllowed", 0, EX_NOPERM},
        {"Unauthenticated", 0, EX_NOPERM},
        {"AuthenticationError", 401, EX_NOPERM},
        {"PermissionDeniedError", 403, EX_NOPERM},
        {"TooManyRequests", 0, EX_TEMPFAIL},
        {"Overloaded", 0, EX_TEMPFAIL},
        {"ShuttingDown", 0, EX_TEMPFAIL},
        {"RateLimitError", 429, EX_TEMPFAIL},
        {"APITimeoutError", 0, EX_TEMPFAIL},
        {"ToolTimeout", 0, EX_TEMPFAIL},
        {"InternalServerError", 529, EX_UNAVAILABLE},
        {"APIConnectionError", 0, EX_UNAVAILABLE},
        {"APIResponseValidationError", 200, EX_PROTOCOL},
        {"InternalError", 0, EX_SOFTWARE},
        {"ToolError", 0, EX_SOFTWARE},
        {"", 0, EX_SOFTWARE},
        {"APIStatusError", 418, EX_DATAERR},
        {"SomethingNew", 401, EX_NOPERM},
        {"SomethingNew", 429, EX_TEMPFAIL},
        {"SomethingNew", 599, EX_UNAVAILABLE},
        {"BadRequestErrorX", 0, EX_SOFTWARE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int code = ctl_exit_code(span_str(rows[i].type), rows[i].status);
        if (code != rows[i].code) {
            fail_msg("%s: %d", rows[i].type, code);
        }
    }
}

/* ---- info ---- */

static void info_is(const char *info, const char *expected)
{
    sink_init(&sink, false, false);
    assert_true(ctl_show_info(&sink.out, "/b.sock", span_str(info)));
    assert_written(&sink, span_str(expected));
}

static void test_info(void **state)
{
    (void)state;
    info_is(
        "{\"version\":\"0.1.0\",\"methods\":[\"llm.chat\",\"tool.call\"],"
        "\"providers\":[{\"name\":\"openai\",\"type\":\"openai\",\"models\":[\"gpt-*\",\"o3\"]},"
        "{\"name\":\"b\",\"type\":\"builtin\",\"models\":[\"*\"]}],\"tools\":[],"
        "\"limits\":{\"max_message_bytes\":104857600,\"max_json_depth\":128,"
        "\"stall_timeout\":120,\"odd_bytes\":1025}}",
        "endpoint   /b.sock\n"
        "version    0.1.0\n"
        "providers  openai  openai   gpt-*, o3\n"
        "           b       builtin  *\n"
        "tools      none\n"
        "methods    llm.chat, tool.call\n"
        "limits     max_message_bytes  100 MiB\n"
        "           max_json_depth     128\n"
        "           stall_timeout      120 s\n"
        "           odd_bytes          1025 bytes\n");
    info_is("{\"version\":\"1\\n2\"}", "endpoint   /b.sock\nversion    1 2\n");
}

/* Members that are missing or of another type are passed over. */
static void test_odd_info(void **state)
{
    (void)state;
    info_is("{}", "endpoint   /b.sock\n");
    info_is("{\"version\":1,\"methods\":null,\"providers\":3,\"tools\":{},\"limits\":[]}",
            "endpoint   /b.sock\n");
    info_is("{\"providers\":[],\"tools\":[{\"name\":\"t\"},\"u\",7],"
            "\"limits\":{\"a_bytes\":-1,\"b\":true,\"c\":\"x\",\"d\":[],\"e_bytes\":1e300}}",
            "endpoint   /b.sock\nproviders  none\ntools      t, u, \nlimits     a_bytes  -1\n"
            "           b        yes\n           c        x\n           d        -\n"
            "           e_bytes  1e+300\n");
    info_is("{\"providers\":[\"x\",{\"type\":\"t\"},{\"name\":\"yy\",\"models\":[\"*\"]}]}",
            "endpoint   /b.sock\nproviders  x\n               t\n           yy     *\n");
}

static void test_no_info(void **state)
{
    (void)state;
    static const char *const no_info[] = {"", "[]", "null", "{", "{\"a\":1}x"};

    sink_init(&sink, false, false);
    for (size_t i = 0; i < sizeof(no_info) / sizeof(no_info[0]); i++) {
        assert_false(ctl_show_info(&sink.out, "/b.sock", span_str(no_info[i])));
    }
    assert_written(&sink, SPAN(""));
}

int main(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remote),
        cmocka_unit_test(test_each_control),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_end_line_and_pad),
        cmocka_unit_test(test_style),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_deep_json),
        cmocka_unit_test(test_reader_gone),
        cmocka_unit_test(test_fail_is_one_line),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_odd_info),
        cmocka_unit_test(test_no_info),
    };

    if (sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
