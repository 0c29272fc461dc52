/*
 * The directory that is mounted into a container as /.tactus: the program tactus-init, the
 * heartbeat FIFO, the CA of a TLS broker.
 */
#ifndef TACTUS_RUNNER_SHIM_H
#define TACTUS_RUNNER_SHIM_H

#include "base/err.h"

#include <limits.h>

#define SHIM_PROGRAM   "tactus-init"
#define SHIM_HEARTBEAT "heartbeat"
#define SHIM_CA        "ca.pem"

/*
 * Makes and fills the directory; `*heartbeat` is the FIFO's write end (close-on-exec): while it is
 * open the container lives. `ca_file` may be NULL. After a failure nothing is left. ERR_CONFIG: a
 * program or file that is missing; ERR_IO.
 */
enum err shim_make(const char *ca_file, char dir[PATH_MAX], int *heartbeat,
                   struct error *e) MUST_CHECK;

#endif
