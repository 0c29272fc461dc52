/*
 * AWS event streams (application/vnd.amazon.eventstream) from bytes cut anywhere. Pure.
 *
 * A frame: total length, length of the headers, CRC of these two; headers; payload; CRC of all
 * before it. Numbers are big-endian, both checksums are CRC-32 (gzip's) and are checked. A header:
 * one byte of name length, the name, one byte of type, the value. Sources: "Amazon Event Stream
 * Specification" (Smithy 2.0, AWS protocols), "Event stream encoding" (Amazon Lex V2 Developer
 * Guide).
 */
#ifndef TACTUS_LLM_EVENTSTREAM_H
#define TACTUS_LLM_EVENTSTREAM_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>

struct eventstream {
    struct buf frame; /* a frame that is not whole yet */
    size_t need;      /* its total length; 0: its prelude is not whole yet */
    const char *why;  /* after ERR_PROTO: what is wrong, a literal */
};

/* Of headers, those of type string that the protocol names; absent when the frame has them not. */
struct eventstream_message {
    struct span message_type;   /* :message-type: "event", "exception", "error" */
    struct span event_type;     /* :event-type */
    struct span exception_type; /* :exception-type */
    struct span error_code;     /* :error-code */
    struct span error_message;  /* :error-message */
    struct span payload;
};

/* All spans are valid during the call only. Returns false to stop: the rest of the bytes is not
 * looked at. */
typedef bool eventstream_fn(void *ctx, const struct eventstream_message *message);

/* `max` bounds one frame, headers and checksums included. */
void eventstream_init(struct eventstream *s, size_t max);
void eventstream_fini(struct eventstream *s);

/* ERR_OK; ERR_CLOSED when `fn` said stop; ERR_LIMIT for a frame over the maximum (its length alone
 * tells); ERR_PROTO with s->why; ERR_NOMEM. After an error nothing more may be fed. */
enum err eventstream_feed(struct eventstream *s, const char *bytes, size_t n, eventstream_fn *fn,
                          void *ctx) MUST_CHECK;

/* True between two frames: the body may end here. */
bool eventstream_idle(const struct eventstream *s);

#endif
