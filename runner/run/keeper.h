/*
 * A second process that cleans up after the runner when that is killed: told what there is to
 * remove as it is made, it waits for the runner's end and removes what was not given up before.
 *
 * The container itself ends by its heartbeat even without the keeper; `tactus-runner gc` removes
 * what both left.
 */
#ifndef TACTUS_RUNNER_KEEPER_H
#define TACTUS_RUNNER_KEEPER_H

#include "base/err.h"

#include <sys/types.h>

enum keeper_item { KEEPER_ENGINE, KEEPER_ADMIN, KEEPER_CONTAINER, KEEPER_GRANT, KEEPER_DIRECTORY };

struct keeper {
    int fd; /* a pipe to it; -1: none */
    pid_t pid;
};

/* Forks: before any thread, loop or library is there. ERR_IO. */
enum err keeper_start(struct keeper *k, struct error *e) MUST_CHECK;

/* KEEPER_ENGINE and KEEPER_ADMIN are addresses, the others name what to remove: before it is made.
 */
void keeper_note(struct keeper *k, enum keeper_item item, const char *value);

/* All is removed already: ends it and waits. Harmless when there is none. */
void keeper_end(struct keeper *k);

#endif
