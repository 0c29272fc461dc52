/*
 * Where the Unix sockets of runs are: BASE/ID/broker.sock.
 *
 * The directory BASE/ID is mounted into the run's container, whose user may be any: so it can be
 * passed through by all (0711) and its socket be written to by all (0666). On the host nobody but
 * the broker's user and root gets that far, because BASE is theirs alone (0700); inside the
 * container BASE is not to be seen.
 */
#ifndef TACTUS_APP_RUN_PLACE_H
#define TACTUS_APP_RUN_PLACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define RUN_PLACE_SOCKET_MODE 0666u
#define RUN_PLACE_PATH_SIZE   108u /* of a socket's address */

/*
 * Makes `base` when it is not there (*made tells) and the run's directory; `path` is where the
 * socket belongs. ERR_CONFIG: `base` is no directory of ours alone (others may write to it or list
 * it), or the path is too long; ERR_IO. On failure nothing is left of the run's directory.
 * `again`: it may be there, as an earlier process made it: containers have it mounted.
 */
enum err run_place_make(const char *base, const char *id, bool again, bool *made,
                        char path[RUN_PLACE_PATH_SIZE], struct error *e) MUST_CHECK;

/* Where the socket of `id` is; false: too long. */
bool run_place_path(const char *base, const char *id, char path[RUN_PLACE_PATH_SIZE]);

/* Removes the socket `path` and the directory that it is in. What else is in there stays, and is
 * told in the log. */
void run_place_remove(const char *path);

#endif
