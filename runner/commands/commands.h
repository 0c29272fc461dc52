/* The runner's commands: each reads its own arguments (argv[0] is its name) and returns the exit
 * code (sysexits.h, or a run's own). */
#ifndef TACTUS_RUNNER_COMMANDS_H
#define TACTUS_RUNNER_COMMANDS_H

#define RUNNER_NAME "tactus-runner"

int run_command(int argc, char **argv);
int gc_command(int argc, char **argv);
int image_command(int argc, char **argv);

/* "tactus-runner COMMAND: message" and where help is, on stderr. Returns EX_USAGE. */
int command_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
