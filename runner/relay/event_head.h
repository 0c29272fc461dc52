/*
 * Watches the broker's lines of events go by and tells the ids of those that end a request. Pure;
 * relies on the form that the broker gives every event: {"id":…,"event":"…", in this order and
 * without white space (PROTOCOL.md section 5). Keeps at most one id.
 */
#ifndef TACTUS_RUNNER_EVENT_HEAD_H
#define TACTUS_RUNNER_EVENT_HEAD_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define EVENT_HEAD_MAX 32768u /* an id of 4096 bytes, each escaped, and the names around it */

struct event_head {
    size_t n;     /* bytes of `text` */
    bool in_line; /* bytes of a line have come */
    char text[EVENT_HEAD_MAX];
    char id[EVENT_HEAD_MAX];
};

void event_head_init(struct event_head *h);

/* Eats from `in`; true when a line that ends a request was seen: `id` (decoded) is valid until the
 * next call. False: all of `in` was eaten. */
bool event_head_next(struct event_head *h, struct span *in, struct span *id);

/* Bytes of a line have come, and not its end. */
bool event_head_partial(const struct event_head *h);

#endif
