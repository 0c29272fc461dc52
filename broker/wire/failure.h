/*
 * What an `error` event carries. Made by methods and providers, written by request_fail().
 * All but type and message is optional. The message is cut and redacted before it gets here
 * (failure_set_message does both).
 */
#ifndef TACTUS_WIRE_FAILURE_H
#define TACTUS_WIRE_FAILURE_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redact;

#define FAILURE_MESSAGE_MAX 2048u

enum failure_flag { FAILURE_UNSAID = 0, FAILURE_NO, FAILURE_YES };

struct failure {
    const char *type;                      /* a TACTUS_E_… literal */
    char message[FAILURE_MESSAGE_MAX + 1]; /* UTF-8, NUL-terminated */
    int status;                            /* the provider's HTTP status; 0 = unsaid */
    enum failure_flag retryable;
    double retry_after;   /* seconds; < 0 = unsaid */
    char provider[64];    /* configured name; "" = unsaid */
    char request_id[128]; /* the provider's; "" = unsaid */
    bool has_partial;
    uint64_t partial_text_bytes; /* text that was streamed before the failure */
};

/* Type and message (printf), everything else unsaid. For our own, constant texts. */
void failure_init(struct failure *f, const char *type, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Sets the message to a provider's own text: secrets and key forms redacted, invalid UTF-8 and
 * control characters replaced, cut at FAILURE_MESSAGE_MAX on a character bound. */
void failure_set_message(struct failure *f, const struct redact *r, struct span text);

/* Sets type, status and retryable as PROTOCOL's table maps an HTTP status (>= 400, or any other
 * that is not a success: APIResponseValidationError for 1xx-3xx). */
void failure_from_status(struct failure *f, int status);

/* Seconds from a Retry-After value (seconds or HTTP date, relative to `now_wall_ms`) or, preferred,
 * a retry-after-ms value; "" for absent. < 0 when neither can be read. Capped at one day. */
double failure_retry_after(const char *retry_after, const char *retry_after_ms,
                           int64_t now_wall_ms);

/* Appends the error object {"type":…,"message":…,…} to `b`. */
void failure_put_json(const struct failure *f, struct buf *b);

#endif
