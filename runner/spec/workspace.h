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

/* Where temporary files belong: TMPDIR when it is absolute, else /tmp. Borrowed. */
const char *workspace_parent(void);

/* An empty directory of mode 0700 in workspace_parent(). ERR_IO. */
enum err workspace_make(char dir[PATH_MAX], struct error *e) MUST_CHECK;

/* Who the files of a copy belong to. */
struct workspace_owner {
    uid_t uid;
    gid_t gid;
};

/*
 * A copy of the directory `source`, and its path: files and directories with their modes (without
 * set-id bits) and times; the copy itself has mode 0700. `owner` (NULL: this process) gets all of
 * it. Left out, at every level: hidden entries, temporary directories of runs, whatever is no file,
 * directory or link, and links that might lead out of the tree (absolute ones, and those that climb
 * anywhere but at their beginning or above `source`). Nothing is followed.
 * ERR_CONFIG (something cannot be read), ERR_LIMIT (more than WORKSPACE_MAX_BYTES, deeper than
 * WORKSPACE_MAX_DEPTH), ERR_IO. After a failure nothing is left, and `dir` is "".
 */
enum err workspace_copy(const char *source, const struct workspace_owner *owner, char dir[PATH_MAX],
                        struct error *e) MUST_CHECK;

/*
 * Removes the whole tree, however deep and whatever rights were taken away in it, never following a
 * link nor entering another file system. Only paths whose last part begins with "tactus-sandbox-"
 * (else ERR_BUG). ERR_OK when there is none (any more); ERR_IO names the first that could not be
 * removed, the rest is gone.
 */
enum err workspace_remove(const char *dir, struct error *e) MUST_CHECK;

/* Removes those whose process is gone and that belong to this user, and counts them. */
enum err workspace_sweep(size_t *removed, struct error *e) MUST_CHECK;

#endif
