/*
 * From fork to exec. What is done in between needs no memory and nothing of the container but,
 * where it is there, /proc.
 */
#include "init/child.h"

#include "init/say.h"
#include "tactus/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OOM_FILE  "/proc/self/oom_score_adj"
#define OOM_RAISE 500
#define OOM_MAX   1000

/* The number in the file, or 0. */
static int read_oom_score(int fd)
{
    char text[16] = "";
    int number = 0;

    if (read(fd, text, sizeof(text) - 1) <= 0) {
        return 0;
    }
    const char *p = text[0] == '-' ? text + 1 : text;
    for (; *p >= '0' && *p <= '9' && number <= OOM_MAX; p++) {
        number = number * 10 + (*p - '0');
    }
    return text[0] == '-' ? -number : number;
}

/* Out of memory, the kernel shall choose the command and not us, who can tell what happened. */
static void raise_oom_score(void)
{
    char text[16];
    int fd = open(OOM_FILE, O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        return;
    }
    int number = read_oom_score(fd) + OOM_RAISE;
    int len = snprintf(text, sizeof(text), "%d", number < OOM_MAX ? number : OOM_MAX);
    ssize_t ignored = pwrite(fd, text, (size_t)len, 0);
    (void)ignored; /* it was worth a try */
    (void)close(fd);
}

/* Does not return. */
static void become(char **command)
{
    sigset_t none;

    (void)setpgid(0, 0);
    raise_oom_score();
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execvp(command[0], command);
    int why = errno;
    say("%s: %s", command[0], strerror(why));
    _exit(why == ENOENT ? TACTUS_INIT_EX_NOT_FOUND : TACTUS_INIT_EX_CANNOT_RUN);
}

int child_start(char **command, pid_t *pid)
{
    pid_t started = fork();

    if (started == 0) {
        become(command);
    }
    if (started < 0) {
        say("cannot start a process: %s", strerror(errno));
        return TACTUS_INIT_EX_FAILED;
    }
    /* Here too: the group must be there before the first signal is forwarded to it. */
    (void)setpgid(started, started);
    *pid = started;
    return 0;
}
