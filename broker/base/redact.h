/*
 * Keeps secrets out of everything that leaves the process.
 *
 * Knows every configured secret in its plain, base64 (three alignments) and URL-encoded form, and
 * replaces them by "[redacted]". For text that people read (errors, logs) it also replaces what
 * has a key's form: sk-…, "Bearer …", x-api-key values, AKIA…, AIza…, gh?_…, xox?-… and the like.
 * A secret shorter than 8 bytes is matched in its plain form only; one shorter than 4 is not
 * matched at all (it would eat ordinary text), which redact_add tells by its result.
 *
 * A redactor is filled at start (or for a new configuration) and then only read, from any thread.
 */
#ifndef TACTUS_BASE_REDACT_H
#define TACTUS_BASE_REDACT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define REDACT_MARK "[redacted]"

struct redact;

struct redact *redact_new(void);    /* NULL when out of memory */
void redact_free(struct redact *r); /* wipes what it knew */

/* Copies `secret`. ERR_LIMIT when it is too short to be matched, ERR_NOMEM. */
enum err redact_add(struct redact *r, struct span secret) MUST_CHECK;

/* Appends `text` to `out` with every configured secret replaced; with `key_forms`, whatever looks
 * like a key too. `r` may be NULL (only key forms then). Failure shows in buf_status(out). */
void redact_text(const struct redact *r, struct span text, bool key_forms, struct buf *out);

/*
 * The same for a text that comes in pieces (exact secrets only): what could be the start of a
 * secret is held back until more comes, and nothing else is. `held` is the caller's, initialised by
 * redact_stream_init, freed by redact_stream_fini.
 */
struct redact_stream {
    const struct redact *r;
    struct buf held;
};

void redact_stream_init(struct redact_stream *s, const struct redact *r);
void redact_stream_fini(struct redact_stream *s);
void redact_stream_feed(struct redact_stream *s, struct span text, struct buf *out);
/* End of the text: what was held back and is no secret comes out. */
void redact_stream_end(struct redact_stream *s, struct buf *out);

#endif
