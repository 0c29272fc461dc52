/*
 * The result that a procedure prints on its stdout, between two marker lines:
 *
 *   <<<TACTUS_RESULT_START>>>
 *   {"status":"success",…}
 *   <<<TACTUS_RESULT_END>>>
 *
 * The first block that holds a valid JSON object wins. One that does not is skipped, and is output
 * like everything else; so is a block whose end never comes. A start marker inside a block begins
 * the block anew. Pure. Holds one block of at most RESULT_BLOCK_MAX and the first RESULT_TEXT_MAX
 * of all stdout.
 */
#ifndef TACTUS_RUNNER_RESULT_H
#define TACTUS_RUNNER_RESULT_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>

#define RESULT_START     "<<<TACTUS_RESULT_START>>>"
#define RESULT_END       "<<<TACTUS_RESULT_END>>>"
#define RESULT_BLOCK_MAX (64u * 1024u * 1024u)
#define RESULT_TEXT_MAX  (8u * 1024u * 1024u)

struct result {
    /* The container's own output: everything but the block that won, as it comes. */
    void (*on_output)(void *ctx, struct span piece);
    void *ctx;
    int state;        /* private */
    struct buf line;  /* the beginning of a line that may be a marker */
    struct buf block; /* the lines since the start marker */
    struct buf kept;  /* the first of all stdout */
    struct buf found; /* the winner */
    bool has_found;
    bool truncated;   /* there was more stdout than is kept */
    unsigned skipped; /* blocks that were no result */
};

void result_init(struct result *r, void (*on_output)(void *ctx, struct span piece), void *ctx);
void result_fini(struct result *r);

void result_feed(struct result *r, struct span in);

/* Stdout is over: what is held becomes output; without a result yet the kept text is searched once
 * more, for markers anywhere in a line. */
void result_end(struct result *r);

/* The winner's text, absent when there is none (yet). */
struct span result_block(const struct result *r);

/* After result_end: what is kept of stdout, without white space around it, as valid UTF-8 (bytes
 * that are none become U+FFFD). Built once; may be absent when out of memory. */
struct span result_text(struct result *r);

#endif
