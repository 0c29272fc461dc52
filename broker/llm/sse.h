/*
 * Server-sent events (WHATWG HTML, section 9.2.6) from bytes cut anywhere. Pure.
 *
 * Accepts CR, LF and CRLF, a BOM at the start, comments anywhere, `data:` with and without a space,
 * several data lines (joined by LF), fields it does not know. At the end of the body an event
 * without its blank line is still delivered. One event is bounded by `max` bytes.
 */
#ifndef TACTUS_LLM_SSE_H
#define TACTUS_LLM_SSE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>

struct sse {
    struct buf line; /* an incomplete line carried over a feed */
    struct buf data; /* the data of the event so far */
    struct buf name; /* its `event:` field */
    bool have_data;
    bool skip_lf; /* the last byte was CR */
    bool started; /* past a possible BOM */
    size_t max;
};

/* `event` is "" when the stream gave none; both spans are valid during the call only. Returns false
 * to stop: the rest of the bytes is not looked at. */
typedef bool sse_event_fn(void *ctx, struct span event, struct span data);

void sse_init(struct sse *s, size_t max);
void sse_fini(struct sse *s);

/* ERR_OK; ERR_CLOSED when `fn` said stop; ERR_LIMIT for an event over the maximum; ERR_NOMEM. */
enum err sse_feed(struct sse *s, const char *bytes, size_t n, sse_event_fn *fn,
                  void *ctx) MUST_CHECK;

/* The body ended: delivers what is complete but for its blank line. */
enum err sse_end(struct sse *s, sse_event_fn *fn, void *ctx) MUST_CHECK;

#endif
