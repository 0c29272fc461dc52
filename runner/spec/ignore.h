/*
 * The patterns of a .dockerignore, as docker reads them: one a line, # in the first column begins a
 * comment, ! takes back, the last that matches decides; a directory that matches takes its content
 * along. A pattern is a path whose parts may have * ? [set] (none of which matches a slash) and \
 * before a character that is meant; a part ** is any number of directories, also none. Pure.
 */
#ifndef TACTUS_RUNNER_IGNORE_H
#define TACTUS_RUNNER_IGNORE_H

#include "base/span.h"

#include <stdbool.h>

/* Whether `path` (relative, "a/b") is left out by the file's `text`. */
bool ignore_matches(struct span text, const char *path);

/* Whether a line of `text` takes something back, so that what lies in a directory that is left out
 * may be wanted. */
bool ignore_takes_back(struct span text);

#endif
