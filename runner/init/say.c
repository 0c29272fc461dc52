/*
 * Messages. They are rare: a wrong command line, a command that cannot be run, an end that the
 * command did not choose. Nothing is kept back, since the program ends by _exit.
 */
#include "init/say.h"

#include "tactus/init.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define START TACTUS_INIT_NAME ": "

void say(const char *fmt, ...)
{
    char line[1024] = START; /* below PIPE_BUF: a pipe that polls as writable takes it whole */
    size_t len = sizeof(START) - 1;
    struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line + len, sizeof(line) - len - 1, fmt, args);
    va_end(args);
    len = strlen(line);
    line[len] = '\n';
    /* Nothing but POLLOUT: a pipe without a reader would end us by SIGPIPE. */
    if (poll(&err, 1, 0) == 1 && err.revents == POLLOUT) {
        ssize_t ignored = write(STDERR_FILENO, line, len + 1);
        (void)ignored; /* there is nobody else to tell */
    }
}

bool say_stdout(const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        ssize_t n = write(STDOUT_FILENO, text, left);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            text += n;
            left -= (size_t)n;
        }
    }
    return true;
}
