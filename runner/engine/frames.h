/*
 * The stream of an attached container without a terminal: frames of an 8-byte header (stream, three
 * zero bytes, length as a big-endian 32-bit number) and as many bytes. Source: Docker Engine API
 * reference, "Attach to a container", stream format.
 *
 * Pure. Holds a header at most; payload is passed on as it comes.
 */
#ifndef TACTUS_RUNNER_FRAMES_H
#define TACTUS_RUNNER_FRAMES_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAMES_HEADER 8

struct frames {
    unsigned char header[FRAMES_HEADER];
    size_t nheader;
    uint32_t left; /* of the frame's payload */
};

void frames_init(struct frames *f);

/*
 * Takes from `in`. ERR_OK: *piece (borrowed from `in`, not empty) belongs to *stream, 0 (stdin), 1
 * (stdout), 2 (stderr) or 3 (the engine's own error). ERR_AGAIN: all of `in` was taken. ERR_PROTO:
 * this is no such stream, and stays none: nothing after a bad header is taken for a frame.
 */
enum err frames_next(struct frames *f, struct span *in, int *stream, struct span *piece,
                     struct error *e) MUST_CHECK;

/* Whether the stream may end here: not inside a frame. */
bool frames_whole(const struct frames *f);

#endif
