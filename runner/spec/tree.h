/*
 * A directory's tree in a fixed order: names sorted by bytes, a directory before what is in it.
 * Links are told and not followed.
 */
#ifndef TACTUS_RUNNER_TREE_H
#define TACTUS_RUNNER_TREE_H

#include "base/err.h"

#include <sys/stat.h>

#define TREE_MAX_DEPTH 64u

struct tree_entry {
    const char *path; /* below the root, "a/b.c" */
    const char *name; /* its last part */
    int dirfd;        /* the directory that it is in */
    const struct stat *st;
};

/* ERR_OK: go on; ERR_AGAIN: leave a directory's content out; anything else ends the walk. */
typedef enum err tree_fn(void *ctx, const struct tree_entry *entry, struct error *e);

/* ERR_CONFIG: something cannot be read; ERR_LIMIT: too deep; ERR_NOMEM; what `fn` returned. The
 * message begins with `root`. */
enum err tree_walk(const char *root, tree_fn *fn, void *ctx, struct error *e) MUST_CHECK;

/* Opens the regular file that `entry` is, for reading; -1 with errno when it cannot be read, or is
 * none any more. The caller closes it. */
int tree_open(const struct tree_entry *entry) MUST_CHECK;

#endif
