/*
 * The patterns of a .dockerignore: one a line, # begins a comment, ! takes back, the last that
 * matches decides; a directory that matches takes its content along. Pure.
 */
#ifndef TACTUS_RUNNER_IGNORE_H
#define TACTUS_RUNNER_IGNORE_H

#include "base/span.h"

#include <stdbool.h>

/* Whether `path` (relative, "a/b") is left out by the file's `text`. */
bool ignore_matches(struct span text, const char *path);

#endif
