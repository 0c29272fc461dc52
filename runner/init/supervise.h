/* The life of a container's main process: one loop, from its start to the end of everything. */
#ifndef TACTUS_INIT_SUPERVISE_H
#define TACTUS_INIT_SUPERVISE_H

#include "init/options.h"

/* Runs o->command as tactus/init.h promises; returns the exit code when there is nothing left to do
 * but _exit. Takes over all signals of the process, closes its stdin and stdout once the command
 * has them. Call it once, with descriptors above 2 closed. */
int supervise(const struct options *o);

#endif
