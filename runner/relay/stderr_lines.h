/*
 * A container's stderr taken apart: lines that begin with TACTUS_STDIO_PREFIX are requests to the
 * broker and passed on as they come, however long; other lines are log text and given whole, or,
 * when they are longer than STDERR_LINE_MAX, in parts that do not cut a character.
 *
 * Pure. Holds the beginning of one line of log text; of a request nothing.
 */
#ifndef TACTUS_RUNNER_STDERR_LINES_H
#define TACTUS_RUNNER_STDERR_LINES_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>

#define TACTUS_STDIO_PREFIX "<<<TACTUS_BROKER>>>"
#define STDERR_LINE_MAX     65536u

struct stderr_lines_handler {
    /* Bytes of a request, without prefix and line end. */
    void (*on_request)(void *ctx, struct span piece);
    void (*on_request_end)(void *ctx);
    /* A line without its end. `more`: it was longer than STDERR_LINE_MAX, its next part follows. */
    void (*on_line)(void *ctx, struct span line, bool more);
};

struct stderr_lines {
    const struct stderr_lines_handler *handler;
    void *ctx;
    int state;       /* private */
    size_t matched;  /* of the prefix, at the start of a line */
    struct buf held; /* the beginning of a log line */
};

void stderr_lines_init(struct stderr_lines *s, const struct stderr_lines_handler *handler,
                       void *ctx);
void stderr_lines_fini(struct stderr_lines *s);

/* Pieces of stderr, cut anywhere. Callbacks come during the call, their spans are valid while they
 * run. Without memory parts of log lines are lost, never of requests. */
void stderr_lines_feed(struct stderr_lines *s, struct span in);

/* The stream is over. A last line without an end is given; a request without one is not complete:
 * false, and on_request_end does not come. */
bool stderr_lines_end(struct stderr_lines *s);

#endif
