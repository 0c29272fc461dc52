/* The runner's heartbeat: a FIFO whose write end it holds open (tactus/init.h). */
#ifndef TACTUS_INIT_HEARTBEAT_H
#define TACTUS_INIT_HEARTBEAT_H

#include <stdbool.h>

/* Opens the read end of `path` into `fd` (close-on-exec, non-blocking; the caller closes it) and
 * returns 0. Otherwise says why and returns TACTUS_INIT_EX_FAILED. Does not wait for a writer. */
int heartbeat_open(const char *path, int *fd);

/* Whether nobody has the write end open, now; asked when `fd` polls as anything, and once after
 * opening: a FIFO that never had a writer does not poll as ended. Takes out what was written, a
 * bounded part a call. */
bool heartbeat_ended(int fd);

#endif
