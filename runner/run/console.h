/*
 * What a container says: its stdout is searched for the result and passed on, its stderr is taken
 * apart into requests to the broker and log lines.
 */
#ifndef TACTUS_RUNNER_CONSOLE_H
#define TACTUS_RUNNER_CONSOLE_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>

struct relay;
struct console;

struct console_options {
    int out_fd;          /* where the container's own stdout goes */
    bool raw_log;        /* stderr is passed on as it is */
    struct relay *relay; /* NULL: requests on stderr are only logged */
};

enum err console_new(const struct console_options *options, struct console **out,
                     struct error *e) MUST_CHECK;
void console_free(struct console *c);

/* Pieces as they come, cut anywhere. */
void console_stdout(struct console *c, struct span bytes);
void console_stderr(struct console *c, struct span bytes);
/* Nothing came for a while: a log record that might still be continued is given. */
void console_quiet(struct console *c);
/* Both are over: what is held goes out; all of stdout is searched once more when no result came. */
void console_end(struct console *c);

/* The result document, once a valid one came; absent before. Valid until console_free. */
struct span console_result(const struct console *c);

/* What there was on stdout: stripped, valid UTF-8. After console_end. */
struct span console_text(struct console *c, bool *truncated);

#endif
