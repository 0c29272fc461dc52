/*
 * Temporary directories of a run: the copy of a procedure's directory that is mounted into its
 * container. They are named tactus-sandbox-PID-START-XXXXXX, with pid and start time of the process
 * that made them (spec/owner.h), so that a later run knows what a killed one left.
 */
#ifndef TACTUS_RUNNER_WORKSPACE_H
#define TACTUS_RUNNER_WORKSPACE_H

#include "base/err.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKSPACE_MAX_BYTES (UINT64_C(2) * 1024 * 1024 * 1024)
#define WORKSPACE_MAX_DEPTH 64u

/* An empty directory of mode 0700 in TMPDIR or /tmp. ERR_IO. */
enum err workspace_make(char dir[PATH_MAX], struct error *e) MUST_CHECK;

/*
 * A copy of `source`, and its path: files and directories with their modes and times. Left out:
 * hidden entries at every level, whatever is no file, directory or link, and links that lead out of
 * the tree; nothing is followed. ERR_CONFIG (`source` cannot be read), ERR_LIMIT (it is larger than
 * WORKSPACE_MAX_BYTES or deeper than WORKSPACE_MAX_DEPTH), ERR_IO. After a failure nothing is left.
 * `owner` (NULL: this process) is who all of it belongs to.
 */
struct workspace_owner {
    uid_t uid;
    gid_t gid;
};
enum err workspace_copy(const char *source, const struct workspace_owner *owner, char dir[PATH_MAX],
                        struct error *e) MUST_CHECK;

/* Removes the whole tree, never following a link. Only paths whose last part begins with
 * "tactus-sandbox-". ERR_OK when there is none (any more); ERR_IO names what could not be removed.
 */
enum err workspace_remove(const char *dir, struct error *e) MUST_CHECK;

/* Removes those whose process is gone and that belong to this user, and counts them. */
enum err workspace_sweep(size_t *removed, struct error *e) MUST_CHECK;

#endif
