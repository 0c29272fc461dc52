/*
 * Watches the broker's lines of events go by and tells those that end a request, or end the
 * connection. Pure; relies on the form that the broker gives every event: {"id":…,"event":"…", and
 * after an "error" ,"error":{"type":"…", in this order and without white space (PROTOCOL.md
 * section 5). Keeps at most one id.
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

/* What a line ended. */
struct event_end {
    struct span id; /* of the request, decoded; valid until the next call */
    /* An error of nobody's request, and not one about a single line: the broker reads no more of
     * this connection and closes it (PROTOCOL.md section 1). */
    bool connection;
};

void event_head_init(struct event_head *h);

/* Eats from `in`; true when a line that ends something was seen. False: all of `in` was eaten. */
bool event_head_next(struct event_head *h, struct span *in, struct event_end *end);

/* Bytes of a line have come, and not its end. */
bool event_head_partial(const struct event_head *h);

#endif
