/*
 * A run's events, from the broker's event stream into a file as JSON lines, while the run goes on.
 */
#ifndef TACTUS_RUNNER_EVENTS_TAIL_H
#define TACTUS_RUNNER_EVENTS_TAIL_H

#include "run/grants.h"

struct events_tail;

/* `path` is appended to; "-" is stdout. ERR_CONFIG: it cannot be opened. */
enum err events_tail_start(struct grants *g, const char *run, const char *path,
                           struct events_tail **out, struct error *e) MUST_CHECK;

/* After the grant was deleted: waits for the stream's own end, so that no event is missing, and
 * frees. NULL is harmless. */
void events_tail_end(struct events_tail *t);

#endif
