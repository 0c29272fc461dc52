/*
 * Messages out of bytes cut anywhere. Pure. The first byte of a connection decides:
 *   '0'-'9'  length-prefixed: ten digits, '\n', that many bytes of JSON
 *   'A'-'Z'  HTTP: not framed here
 *   other    NDJSON: one JSON object a line; '\r' before the '\n' and blank lines are ignored
 * A message that lies whole in the bytes given is not copied. What is kept of an incomplete one
 * grows with the bytes that arrived, never with the length that was announced.
 */
#ifndef TACTUS_WIRE_FRAMING_H
#define TACTUS_WIRE_FRAMING_H

#include "base/buf.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum framing_kind { FRAMING_UNKNOWN, FRAMING_NDJSON, FRAMING_LENGTH, FRAMING_HTTP };

enum framing_result {
    FRAMING_MESSAGE,    /* *message is one, valid until the next call */
    FRAMING_MORE,       /* all bytes were taken; no complete message yet */
    FRAMING_BAD_PREFIX, /* the rest of the connection cannot be read */
    FRAMING_TOO_LARGE,  /* likewise */
    FRAMING_OVERLOADED, /* all connections together hold too much; likewise */
    FRAMING_NOMEM       /* likewise */
};

struct framing {
    enum framing_kind kind;
    size_t max;           /* of one message */
    struct buf kept;      /* an incomplete message, or the prefix's digits */
    size_t need;          /* length-prefixed: the announced length; 0 = in the prefix */
    bool used;            /* `kept` was handed out as the last message */
    atomic_size_t *meter; /* bytes kept by all; may be NULL */
    size_t meter_max;
    size_t metered; /* our part of it */
};

void framing_init(struct framing *f, size_t max, atomic_size_t *meter, size_t meter_max);
void framing_fini(struct framing *f);

/* Frees what is kept: after a failure nothing more can be read. The kind stays. */
void framing_forget(struct framing *f);

/* What a connection that starts with `first` speaks. */
enum framing_kind framing_detect(char first);

/* Takes the next message out of *in, and moves *in past what was used. f->kind is set. */
enum framing_result framing_next(struct framing *f, struct span *in, struct span *message);

/* Whether a message has begun and is not complete. */
bool framing_partial(const struct framing *f);

#endif
