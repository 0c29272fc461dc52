/* Which process made something that may outlive it, and whether that process still lives. */
#ifndef TACTUS_RUNNER_OWNER_H
#define TACTUS_RUNNER_OWNER_H

#include <stdbool.h>

struct owner {
    char pid[24];
    char start[24]; /* clock ticks from boot to its start */
    char boot[64];  /* the machine's boot id */
};

/* This process. */
void owner_self(struct owner *out);

/*
 * False when no process of that pid and start time is there, in this boot. An owner that cannot be
 * judged (an empty or malformed pid) counts as living: nothing of others is touched.
 */
bool owner_lives(const struct owner *owner);

#endif
