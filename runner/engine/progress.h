/*
 * The stream of JSON objects by which an engine tells of a pull or a build: concatenated, with or
 * without white space between, cut anywhere. A failure is one of them, in a reply of status 200.
 * Pure.
 */
#ifndef TACTUS_RUNNER_PROGRESS_H
#define TACTUS_RUNNER_PROGRESS_H

#include "engine/engine.h"

#define PROGRESS_OBJECT_MAX (1024u * 1024u)

struct progress {
    engine_progress_fn *fn; /* may be NULL */
    void *ctx;
    struct buf object; /* what has come of the next one */
    unsigned depth;
    bool in_string;
    bool escaped;
    bool broken; /* not JSON */
    bool failed;
    char error[400];
};

void progress_init(struct progress *p, engine_progress_fn *fn, void *ctx);
void progress_fini(struct progress *p);
/* `ctx` is the struct progress. */
void progress_feed(void *ctx, const char *bytes, size_t n);
/* ERR_UPSTREAM: the engine said that it failed; ERR_PROTO: the stream was none. */
enum err progress_end(const struct progress *p, const char *what, struct error *e) MUST_CHECK;

#endif
