/* A directory as a tar archive, for an engine to build an image from. */
#ifndef TACTUS_RUNNER_TAR_H
#define TACTUS_RUNNER_TAR_H

#include "base/buf.h"

/* Appends the archive of `directory`, without what its .dockerignore leaves out; owners are root,
 * as docker's own client makes them. ERR_CONFIG names what cannot be read; ERR_LIMIT: larger than
 * `out` may be. */
enum err tar_directory(const char *directory, struct buf *out, struct error *e) MUST_CHECK;

#endif
