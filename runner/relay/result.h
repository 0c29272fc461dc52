/*
 * The result that a procedure prints on its stdout, between two marker lines:
 *
 *   <<<TACTUS_RESULT_START>>>
 *   {"status":"success",…}
 *   <<<TACTUS_RESULT_END>>>
 *
 * The first block that holds a valid JSON object wins. One that does not is skipped, and is output
 * like everything else; so is a block whose end never comes, or that is longer than
 * RESULT_BLOCK_MAX. A start marker inside a block begins the block anew: the lines before it are
 * what a program left that was interrupted while it printed. A marker is a whole line; blanks
 * around it and a CR do not matter.
 *
 * Pure. Holds one block, the first RESULT_TEXT_MAX of stdout until there is a result, and of other
 * output only the beginning of a line that may become a marker.
 */
#ifndef TACTUS_RUNNER_RESULT_H
#define TACTUS_RUNNER_RESULT_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RESULT_START     "<<<TACTUS_RESULT_START>>>"
#define RESULT_END       "<<<TACTUS_RESULT_END>>>"
#define RESULT_BLOCK_MAX (64u * 1024u * 1024u)
#define RESULT_TEXT_MAX  (8u * 1024u * 1024u)

#define RESULT_MARKER_LINE_MAX 256u /* a marker with blanks around it and its line end */

struct result {
    /* The container's own output: everything but the block that won, in order, as it comes. Called
     * by result_feed and result_end; a piece is valid during the call, and as long as a block at
     * most or as what was fed. */
    void (*on_output)(void *ctx, struct span piece);
    void *ctx;
    /* private: */
    bool at_line_start;
    char line[RESULT_MARKER_LINE_MAX]; /* the beginning of a line that may be a marker */
    size_t line_n;
    bool in_block;
    struct buf block;  /* the lines from the start marker on */
    size_t block_text; /* where its text begins */
    size_t block_line; /* where its last line begins */
    uint64_t total;    /* bytes of stdout */
    struct buf kept;   /* the first of them */
    struct buf found;  /* the block that won */
    struct span winner;
    /* to be read: */
    bool has_found;
    bool truncated;   /* there was more stdout than is kept */
    unsigned skipped; /* blocks that were no result */
};

void result_init(struct result *r, void (*on_output)(void *ctx, struct span piece), void *ctx);
void result_fini(struct result *r);

/* Pieces of stdout, cut anywhere. Without memory a block counts as skipped, and less is kept. */
void result_feed(struct result *r, struct span in);

/* Stdout is over: what is held becomes output; without a result yet the kept text is searched once
 * more, for markers anywhere in a line. */
void result_end(struct result *r);

/* The winner's text, absent when there is none (yet). Valid until result_fini. */
struct span result_block(const struct result *r);

/* After result_end, when there is no result: what is kept of stdout, without white space around it,
 * as valid UTF-8 (bytes that are none become U+FFFD). Built once, valid until result_fini; may be
 * absent when out of memory. */
struct span result_text(struct result *r);

#endif
