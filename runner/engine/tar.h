/*
 * A directory as a tar archive, for an engine to build an image from. The archive lies in a file
 * without a name (spec/workspace.h says where) that is mapped into memory: the kernel drops its
 * pages when memory is short, and nothing is left whatever ends the process.
 */
#ifndef TACTUS_RUNNER_TAR_H
#define TACTUS_RUNNER_TAR_H

#include "base/err.h"
#include "base/span.h"

#include <stdint.h>

/* Writes the archive of `directory`, without what its .dockerignore leaves out; the file `always`
 * in it (NULL: none) and .dockerignore itself are never left out, as docker has it. Owners are
 * root, links are archived as links, what is no file, directory or link is left out. *out is valid
 * until tar_free. ERR_CONFIG names what cannot be read or archived; ERR_LIMIT: more than `max`
 * bytes, too deep; ERR_IO: no room; ERR_NOMEM.
 */
enum err tar_directory(const char *directory, const char *always, uint64_t max, struct span *out,
                       struct error *e) MUST_CHECK;
/* Absent is harmless; leaves it absent. */
void tar_free(struct span *archive);

#endif
