/*
 * The program whose output is a secret: started without a shell, with a bare environment and
 * nothing of ours but a pipe, read up to its end, waited for under one deadline. The output goes
 * straight into the caller's secure memory; stderr goes to /dev/null, because a failing program may
 * print what it has read and our log's redactor does not know it yet. Called by secret.c.
 */
#include "gate/secret_private.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED_GRACE 1000u /* ms for a killed program to be gone */
#define WAIT_STEP    5     /* ms between two looks at a program that has closed its output */

/* What the program may know of our environment. */
static const char *const passed_on[] = {"PATH=", "HOME=", "LANG="};
#define PASSED_ON (sizeof(passed_on) / sizeof(passed_on[0]))

struct command {
    const char *program; /* for messages */
    pid_t pid;
    int fd; /* its output */
    uint64_t deadline;
    uint32_t deadline_ms;
};

static void fill_environment(char *out[PASSED_ON + 1])
{
    size_t n = 0;

    for (size_t i = 0; i < PASSED_ON && environ != NULL; i++) {
        char **entry = environ;
        while (*entry != NULL && strncmp(*entry, passed_on[i], strlen(passed_on[i])) != 0) {
            entry++;
        }
        if (*entry != NULL) {
            out[n++] = *entry;
        }
    }
    out[n] = NULL;
}

/* stdin and stderr are /dev/null, stdout is `out`; nothing else stays open, whatever we inherited.
 * An errno or 0. */
static int set_files(posix_spawn_file_actions_t *files, int out)
{
    /* First, for `out` may be one of the other two. */
    int rc = posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);

    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    return rc != 0 ? rc : posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1);
}

/* A group of its own, and no signal blocked or ignored. An errno or 0. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
    if (rc == 0) {
        rc = posix_spawnattr_setpgroup(attributes, 0);
    }
    if (rc == 0) {
        rc = posix_spawnattr_setsigmask(attributes, &none);
    }
    return rc != 0 ? rc : posix_spawnattr_setsigdefault(attributes, &all);
}

/* An errno or 0. */
static int spawn(struct command *c, char *const *argv, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char *environment[PASSED_ON + 1];

    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) {
        goto out_files;
    }
    rc = set_files(&files, out);
    if (rc == 0) {
        rc = set_attributes(&attributes);
    }
    if (rc == 0) {
        fill_environment(environment);
        rc = posix_spawnp(&c->pid, c->program, &files, &attributes, argv, environment);
    }
    (void)posix_spawnattr_destroy(&attributes);

out_files:
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

static enum err start(struct command *c, char *const *argv, struct error *e)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return err_sys(e, ERR_IO, errno, "no pipe for the secret from command %s", c->program);
    }
    int rc = spawn(c, argv, fds[1]);
    (void)close(fds[1]);
    if (rc != 0) {
        (void)close(fds[0]);
        enum err err = rc == ENOMEM                                   ? ERR_NOMEM
                       : rc == EAGAIN || rc == EMFILE || rc == ENFILE ? ERR_IO
                                                                      : ERR_CONFIG;
        return err_sys(e, err, rc, "secret from command %s: it cannot be started", c->program);
    }
    c->fd = fds[0];
    return ERR_OK;
}

static enum err too_slow(const struct command *c, const char *what, struct error *e)
{
    return err_set(e, ERR_CONFIG, "secret from command %s: %s after %u ms, it was killed",
                   c->program, what, (unsigned)c->deadline_ms);
}

static enum err read_output(const struct command *c, char *p, size_t *n, struct error *e)
{
    *n = 0;
    while (*n < SECRET_BUFFER_SIZE) {
        uint64_t now = clock_mono_ms();
        struct pollfd wait = {.fd = c->fd, .events = POLLIN};
        if (now >= c->deadline) {
            return too_slow(c, "its output has not ended", e);
        }
        int ready = poll(&wait, 1, (int)(c->deadline - now));
        ssize_t got = ready > 0 ? read(c->fd, p + *n, SECRET_BUFFER_SIZE - *n) : ready;
        if (got < 0 && errno != EINTR) {
            return err_sys(e, ERR_IO, errno, "secret from command %s: its output cannot be read",
                           c->program);
        }
        if (ready > 0 && got == 0) {
            return ERR_OK;
        }
        *n += got > 0 ? (size_t)got : 0;
    }
    return err_set(e, ERR_CONFIG, "secret from command %s is longer than 64 KiB", c->program);
}

/* Waits until the program has ended and leaves it to be reaped, so that its number stays its own.
 * ERR_AGAIN: `deadline` came first. ERR_IO: nobody knows how it ended. */
static enum err wait_end(const struct command *c, uint64_t deadline, siginfo_t *end)
{
    for (;;) {
        end->si_pid = 0;
        int rc = waitid(P_PID, (id_t)c->pid, end, WEXITED | WNOHANG | WNOWAIT);
        if (rc != 0 && errno != EINTR) {
            return ERR_IO;
        }
        if (rc == 0 && end->si_pid == c->pid) {
            return ERR_OK;
        }
        if (clock_mono_ms() >= deadline) {
            return ERR_AGAIN;
        }
        (void)poll(NULL, 0, WAIT_STEP);
    }
}

static enum err check_end(const struct command *c, struct error *e)
{
    siginfo_t end = {0};

    switch (wait_end(c, c->deadline, &end)) {
    case ERR_OK:
        break;
    case ERR_AGAIN:
        return too_slow(c, "it has not ended", e);
    default:
        return err_sys(e, ERR_IO, errno, "secret from command %s: how it ended is not known",
                       c->program);
    }
    if (end.si_code != CLD_EXITED) {
        return err_set(e, ERR_CONFIG, "secret from command %s: it was ended by signal %d",
                       c->program, end.si_status);
    }
    if (end.si_status != 0) {
        return err_set(e, ERR_CONFIG, "secret from command %s: it ended with code %d, expected 0",
                       c->program, end.si_status);
    }
    return ERR_OK;
}

/* Kills what is left of the program and its group. */
static void kill_group(const struct command *c)
{
    siginfo_t end = {0};

    (void)kill(-c->pid, SIGKILL);
    (void)wait_end(c, clock_mono_ms() + KILLED_GRACE, &end);
}

enum err secret_command_run(char *const *argv, size_t argc, uint32_t deadline_ms, char *p,
                            size_t *n, struct error *e)
{
    struct command c = {.deadline = clock_mono_ms() + deadline_ms, .deadline_ms = deadline_ms};

    if (argc == 0) {
        return err_set(e, ERR_CONFIG, "secret from a command: it names no program");
    }
    c.program = argv[0];
    char **words = calloc(argc + 1, sizeof(*words)); /* with a NULL at their end */
    if (words == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the secret from command %s", c.program);
    }
    memcpy(words, argv, argc * sizeof(*words));
    enum err err = start(&c, words, e);
    free(words);
    if (err != ERR_OK) {
        return err;
    }
    err = read_output(&c, p, n, e);
    if (err == ERR_OK) {
        err = check_end(&c, e);
    }
    (void)close(c.fd);
    if (err != ERR_OK) {
        kill_group(&c);
    }
    (void)waitpid(c.pid, NULL, WNOHANG);
    return err;
}
