/*
 * Why a call of the admin API failed, as its caller is told:
 *   {"error":{"type":"BadRequest","message":"ttl must be a number from 0.001 to 86400"}}
 */
#ifndef TACTUS_HTTP_ADMIN_FAULT_H
#define TACTUS_HTTP_ADMIN_FAULT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct redact;

#define ADMIN_E_FORBIDDEN          "Forbidden"
#define ADMIN_E_NOT_FOUND          "NotFound"
#define ADMIN_E_METHOD_NOT_ALLOWED "MethodNotAllowed"
#define ADMIN_E_UNSUPPORTED_MEDIA  "UnsupportedMediaType"
#define ADMIN_E_UNPROCESSABLE      "Unprocessable"
/* and those of tactus/protocol.h */

struct admin_fault {
    int status;       /* of HTTP */
    const char *type; /* a literal */
    char message[640];
};

/* Fills `f`, and returns false so that `return admin_fault_set(…)` reads well. */
bool admin_fault_set(struct admin_fault *f, int status, const char *type, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* 503: memory is out. Returns false. */
bool admin_fault_no_memory(struct admin_fault *f);

/* Appends the JSON above. A message may quote what the caller sent: secrets that `r` (may be NULL)
 * knows are replaced. */
void admin_fault_put_json(const struct admin_fault *f, const struct redact *r, struct buf *b);

#endif
