/* The command as a child process. */
#ifndef TACTUS_INIT_CHILD_H
#define TACTUS_INIT_CHILD_H

#include <sys/types.h>

/* Starts `command` (words, NULL at the end) in a process group of its own, whose id is in `pid`,
 * and returns 0; no signal is blocked in it, dispositions are ours. A command that cannot be run is
 * a child that says so and exits with TACTUS_INIT_EX_NOT_FOUND or _CANNOT_RUN. When there can be no
 * process: says so and returns TACTUS_INIT_EX_FAILED. */
int child_start(char **command, pid_t *pid);

#endif
