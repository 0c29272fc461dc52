/*
 * A short hash over source directories, by which an image tells what it was built from: SHA-256
 * over relative paths, lengths and contents of all regular files, in a fixed order. Left out:
 * hidden entries, __pycache__, *.pyc; links are not followed.
 */
#ifndef TACTUS_RUNNER_SOURCE_HASH_H
#define TACTUS_RUNNER_SOURCE_HASH_H

#include "base/err.h"

#include <stddef.h>

#define SOURCE_HASH_SIZE 17 /* 16 hex digits and the NUL */

/*
 * Over all `directories`, in the order given; where they lie does not count. The form that is
 * hashed: for each directory "directory:", for each file in it "N:PATH" (N: the path's length) and
 * "M:" with its M bytes. ERR_CONFIG names the directory or file that cannot be read; ERR_LIMIT: a
 * tree is too deep (spec/tree.h); ERR_NOMEM.
 */
enum err source_hash(const char *const *directories, size_t n, char out[SOURCE_HASH_SIZE],
                     struct error *e) MUST_CHECK;

#endif
