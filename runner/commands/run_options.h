/* The command line of `tactus-runner run`. */
#ifndef TACTUS_RUNNER_RUN_OPTIONS_H
#define TACTUS_RUNNER_RUN_OPTIONS_H

#include "base/err.h"
#include "run/run.h"

#define RUN_FLAGS_MAX 256

/* A flag that is a setting (spec/settings.h): kept until the files before it were read. */
struct run_flag {
    const char *name;
    const char *value;
};

struct run_line {
    struct run_options options;
    struct run_flag flags[RUN_FLAGS_MAX];
    size_t nflags;
};

#define RUN_GO_ON (-1) /* no exit code: the program runs on */

/* RUN_GO_ON, or the exit code after help or a message. End with run_options_fini. */
int run_options_read(struct run_line *line, int argc, char **argv);
void run_options_fini(struct run_line *line);

#endif
