/* Secrets that a program gives: what it is started with, what is refused, and how one that does not
 * end is ended. */
#include "fixtures/secret_bed.h"
#include "gate/secret_private.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>

static size_t open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    assert_int_equal(closedir(d), 0);
    return n;
}

static void test_command(void **state)
{
    (void)state;
    size_t before = open_descriptors();

    loads(SH("echo " CANARY), CANARY);
    loads(SH("printf " CANARY), CANARY);
    loads(command("echo", CANARY, NULL), CANARY);
    loads(command("/bin/echo", CANARY, NULL), CANARY);
    loads(SH("printf canary-; sleep 0.05; printf 7d1f3a"), CANARY); /* in pieces */
    loads(SH("cat; echo " CANARY), CANARY);                         /* no input to wait for */
    loads(SH("echo " CANARY "; exec >&-; sleep 0.05"), CANARY);     /* its output ends before it */
    loads(SH("echo no >&2; echo " CANARY), CANARY);
    assert_no_children();
    assert_int_equal(open_descriptors(), before);
}

static void test_command_refused(void **state)
{
    (void)state;
    size_t before = open_descriptors();
    struct secret none = {.kind = SECRET_COMMAND};

    refuses(none, "command", "no program");
    refuses(command("true", NULL, NULL), "command true", "is empty");
    refuses(SH("echo"), "command sh", "is empty");
    refuses(SH("echo " CANARY "; exit 3"), "command sh", "code 3");
    refuses(SH("echo " CANARY "; exit 255"), "command sh", "code 255");
    refuses(SH("echo " CANARY "; kill -9 $$"), "command sh", "signal 9");
    refuses(SH("echo " CANARY "; echo more"), "command sh", "line feed");
    refuses(SH("printf '" CANARY "\\r\\n'"), "command sh", "carriage return");
    refuses(SH("printf '" CANARY "\\0'"), "command sh", "NUL");
    assert_no_children();
    assert_int_equal(open_descriptors(), before);
}

/* Valgrind makes a fork of a vfork: then the C library does not hear that a program is missing. */
static bool spawn_tells(void)
{
    char name[] = "/nonexistent/program";
    char *argv[] = {name, NULL};
    pid_t pid = 0;

    if (posix_spawn(&pid, name, NULL, NULL, argv, environ) != 0) {
        return true;
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return false;
}

static void test_command_missing(void **state)
{
    (void)state;
    size_t before = open_descriptors();

    if (!spawn_tells()) {
        skip();
    }
    refuses(command("/nonexistent/pass", NULL, NULL), "command /nonexistent/pass", "No such file");
    refuses(command("no-such-program-7d1f3a", NULL, NULL), "no-such-", "No such file");
    refuses(command("/", NULL, NULL), "command /", "Permission denied");
    assert_no_children();
    assert_int_equal(open_descriptors(), before);
}

/* What it prints to its stderr is nobody's. */
static void test_command_stderr(void **state)
{
    (void)state;
    struct stat st;

    write_file("", 0, 0600);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    assert_true(fd >= 0 && saved >= 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    struct secret good = SH("echo " CANARY " >&2; echo " CANARY);
    struct secret bad = SH("echo " CANARY " >&2; echo " CANARY "; exit 3");
    enum err first = secret_load(&good, NULL);
    struct error e = {.code = ERR_OK};
    enum err second = secret_load(&bad, &e);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(close(fd) + close(saved), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(first, ERR_OK);
    assert_int_equal(second, ERR_CONFIG);
    assert_string_equal(e.msg, "secret from command sh: it ended with code 3, expected 0");
    secret_fini(&good);
    secret_fini(&bad);
}

static void test_command_sizes(void **state)
{
    (void)state;
    static char big[65536 + 1];

    memset(big, 'k', sizeof(big) - 1);
    loads(SH("head -c 65536 /dev/zero | tr '\\0' k"), big);
    loads(SH("head -c 65536 /dev/zero | tr '\\0' k; echo"), big);
    refuses(SH("head -c 65537 /dev/zero | tr '\\0' k"), "sh", "64 KiB");
    refuses(SH("head -c 65538 /dev/zero | tr '\\0' k"), "sh", "64 KiB");
    refuses(command("cat", "/dev/zero", NULL), "cat", "64 KiB"); /* without end */
    assert_no_children();
}

/* Its raw output, NUL-terminated. */
static void output(const char *const *argv, size_t argc, char *out, size_t size)
{
    char *words[8];
    static char buffer[SECRET_BUFFER_SIZE];
    size_t n = 0;

    assert_true(argc <= 8);
    for (size_t i = 0; i < argc; i++) {
        words[i] = strdup(argv[i]);
    }
    assert_int_equal(secret_command_run(words, argc, SECRET_COMMAND_DEADLINE, buffer, &n, NULL),
                     ERR_OK);
    assert_true(n < size);
    memcpy(out, buffer, n);
    out[n] = '\0';
    for (size_t i = 0; i < argc; i++) {
        free(words[i]);
    }
}

static void test_command_environment(void **state)
{
    (void)state;
    static const char *const print[] = {"/usr/bin/env"};
    char text[][32] = {"OPENAI_API_KEY=canary-7d1f3a",
                       "LANG=C.UTF-8",
                       "PATHS=/x",
                       "HOME=/nowhere",
                       "HOME=/second",
                       "PATH=/bin",
                       "LD_X=1"};
    char *mine[] = {text[0], text[1], text[2], text[3], text[4], text[5], text[6], NULL};
    char *bare[] = {text[0], NULL};
    char **saved = environ;
    char with[256];
    char without[256];
    char none[256];

    environ = mine;
    output(print, 1, with, sizeof(with));
    environ = bare;
    output(print, 1, without, sizeof(without));
    environ = NULL;
    output(print, 1, none, sizeof(none));
    environ = saved;
    assert_string_equal(with, "PATH=/bin\nHOME=/nowhere\nLANG=C.UTF-8\n");
    assert_string_equal(without, "");
    assert_string_equal(none, "");
}

/* Nothing of ours but a pipe: no descriptor, no signal's treatment, no group. */
static void test_command_inherits_nothing(void **state)
{
    (void)state;
    static const char *const ignored[] = {"grep", "SigIgn", "/proc/self/status"};
    static const char *const blocked[] = {"grep", "SigBlk", "/proc/self/status"};
    static const char *const files[] = {"sh", "-c", "cd /proc/self/fd; echo *"};
    static const char *const group[] = {"sh", "-c",
                                        "test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo own"};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    sigset_t block;
    sigset_t old_mask;
    char out[256];

    assert_int_equal(dup2(STDIN_FILENO, 50), 50); /* not closed on exec */
    assert_int_equal(sigaction(SIGPIPE, &ignore, &old), 0);
    assert_int_equal(sigemptyset(&block) + sigaddset(&block, SIGTERM), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &block, &old_mask), 0);
    output(ignored, 3, out, sizeof(out));
    assert_memory_equal(out, "SigIgn:\t", 8);
    /* But for 32 and 33, which the C library keeps for itself. */
    assert_int_equal(strtoull(out + 8, NULL, 16) & ~UINT64_C(0x180000000), 0);
    output(blocked, 3, out, sizeof(out));
    assert_string_equal(out, "SigBlk:\t0000000000000000\n");
    output(files, 3, out, sizeof(out));
    assert_null(strstr(out, "50"));
    output(group, 3, out, sizeof(out));
    assert_string_equal(out, "own\n");
    assert_int_equal(sigprocmask(SIG_SETMASK, &old_mask, NULL), 0);
    assert_int_equal(sigaction(SIGPIPE, &old, NULL), 0);
    assert_int_equal(close(50), 0);
}

/* The pipe's number may be one of those that the program gets. */
static void test_command_closed_stdio(void **state)
{
    (void)state;
    int saved[3];
    enum err err[3];

    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 60);
        assert_true(saved[fd] >= 60);
    }
    for (int fd = 0; fd < 3; fd++) {
        struct secret s = SH("cat; echo x >&2; echo " CANARY);
        for (int i = 0; i <= fd; i++) {
            (void)close(i);
        }
        err[fd] = secret_load(&s, NULL);
        for (int i = 0; i < 3; i++) {
            (void)dup2(saved[i], i);
        }
        err[fd] = secret_equal(&s, SPAN(CANARY)) ? err[fd] : ERR_BUG;
        secret_fini(&s);
    }
    for (int fd = 0; fd < 3; fd++) {
        assert_int_equal(close(saved[fd]), 0);
        assert_int_equal(err[fd], ERR_OK);
    }
}

/* ---- commands that do not end ---- */

static char fifo[80];

static int make_fifo(void)
{
    assert_true(snprintf(fifo, sizeof(fifo), "%s.fifo", path) > 0);
    (void)unlink(fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* One read, once there is something: 0 when nobody has the other end any more. */
static ssize_t read_fifo(int fd, char *p, size_t size)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&wait, 1, 30000), 1);
    return read(fd, p, size);
}

/* Runs `script` ($F is a FIFO) until the deadline. It has to write one byte to the FIFO, and
 * everything that has the FIFO open has to go with it. */
static void hangs(const char *script, const char *why)
{
    static char buffer[SECRET_BUFFER_SIZE];
    char text[256];
    char byte;
    char words[2][3] = {"sh", "-c"};
    char *argv[] = {words[0], words[1], text};
    size_t n = 0;
    struct error e = {.code = ERR_OK};
    int fd = make_fifo();

    assert_true(snprintf(text, sizeof(text), "exec 9>%s; %s", fifo, script) < (int)sizeof(text));
    assert_int_equal(secret_command_run(argv, 3, 1500, buffer, &n, &e), ERR_CONFIG);
    assert_string_equal(e.msg, why);
    assert_int_equal(read_fifo(fd, &byte, 1), 1);
    assert_int_equal(read_fifo(fd, &byte, 1), 0);
    assert_no_children();
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(fifo), 0);
}

static void test_command_hangs(void **state)
{
    (void)state;

    /* With a child of its own, which would live on. */
    hangs("sleep 300 & echo " CANARY "; printf x >&9; wait",
          "secret from command sh: its output has not ended after 1500 ms, it was killed");
    /* It has ended, what it left has not and holds its output. */
    hangs("trap '' HUP TERM; sleep 300 & echo " CANARY "; printf x >&9",
          "secret from command sh: its output has not ended after 1500 ms, it was killed");
    /* Its output has ended, it has not. */
    hangs("echo " CANARY "; exec >&-; printf x >&9; sleep 300",
          "secret from command sh: it has not ended after 1500 ms, it was killed");
}

/* The same when it fails before: what it left does not stay. */
static void test_command_fails_with_child(void **state)
{
    (void)state;
    char text[256];
    char byte;
    int fd = make_fifo();

    assert_true(snprintf(text, sizeof(text), "exec 9>%s; sleep 300 >&- & printf x >&9; exit 4",
                         fifo) < (int)sizeof(text));
    struct secret s = SH(text);
    struct error e = {.code = ERR_OK};
    assert_int_equal(secret_load(&s, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "code 4"));
    assert_int_equal(read_fifo(fd, &byte, 1), 1);
    assert_int_equal(read_fifo(fd, &byte, 1), 0);
    assert_int_equal(close(fd) + unlink(fifo), 0);
    secret_fini(&s);
}

/* An agent that a good program leaves running is its own affair. */
static void test_command_leaves_agent(void **state)
{
    (void)state;
    char text[256];
    char number[32] = "";
    char *end = NULL;
    int fd = make_fifo();

    assert_true(snprintf(text, sizeof(text), "sleep 300 >&- & echo $! >%s; echo " CANARY, fifo) <
                (int)sizeof(text));
    struct secret s = SH(text);
    assert_int_equal(secret_load(&s, NULL), ERR_OK);
    assert_true(secret_equal(&s, SPAN(CANARY)));
    assert_true(read_fifo(fd, number, sizeof(number) - 1) > 0);
    long pid = strtol(number, &end, 10);
    assert_true(pid > 1 && *end == '\n');
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(close(fd) + unlink(fifo), 0);
    secret_fini(&s);
}

/* Children that the system reaps by itself: nobody knows how the program ended. */
static void test_command_end_unknown(void **state)
{
    (void)state;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    struct secret s = SH("echo " CANARY);
    struct error e = {.code = ERR_OK};

    assert_int_equal(sigaction(SIGCHLD, &ignore, &old), 0);
    assert_int_equal(secret_load(&s, &e), ERR_IO);
    assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
    assert_non_null(strstr(e.msg, "command sh: how it ended is not known"));
    assert_null(s.bytes);
    secret_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_command_refused),
        cmocka_unit_test(test_command_missing),
        cmocka_unit_test(test_command_stderr),
        cmocka_unit_test(test_command_sizes),
        cmocka_unit_test(test_command_environment),
        cmocka_unit_test(test_command_inherits_nothing),
        cmocka_unit_test(test_command_closed_stdio),
        cmocka_unit_test(test_command_hangs),
        cmocka_unit_test(test_command_fails_with_child),
        cmocka_unit_test(test_command_leaves_agent),
        cmocka_unit_test(test_command_end_unknown),
    };

    return cmocka_run_group_tests(tests, secret_bed_setup, secret_bed_teardown);
}
