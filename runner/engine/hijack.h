/*
 * The answer to a request for raw streams over an HTTP connection ("hijacking"): 101 or 200 and a
 * blank line, after which every byte is the stream's, also what came in the same read; or another
 * status and a body that says why. Source: Docker Engine API reference, "Attach to a container".
 *
 * Pure. Called by attach for what comes before the streams are open.
 */
#ifndef TACTUS_RUNNER_HIJACK_H
#define TACTUS_RUNNER_HIJACK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define HIJACK_HEAD_MAX 16384u
#define HIJACK_BODY_MAX 16384u /* of a refusal; the rest is not waited for */

struct hijack {
    struct buf in; /* the head, then a refusal's body as it comes */
    size_t head;   /* its length with the blank line; 0: it has not come whole */
    int status;    /* 0: as above */
    bool chunked;
    bool has_length;
    size_t length;
};

void hijack_init(struct hijack *h);
void hijack_fini(struct hijack *h);

/*
 * Takes all of `in`. ERR_OK: the streams are open; *rest (valid until hijack_fini) is what has come
 * of them. ERR_AGAIN: more is needed. ERR_UPSTREAM: refused; hijack_refusal says more. ERR_PROTO:
 * no such answer. ERR_NOMEM, ERR_LIMIT (a read over 64 KiB). After anything but ERR_AGAIN it is not
 * called again.
 */
enum err hijack_feed(struct hijack *h, struct span in, struct span *rest,
                     struct error *e) MUST_CHECK;

/* Nothing more comes: ERR_UPSTREAM as above when a refusal's head is there, else ERR_IO. */
enum err hijack_end(const struct hijack *h, struct error *e) MUST_CHECK;

/* Appends a refusal's body as far as it came, without the sizes of its chunks. */
void hijack_refusal(const struct hijack *h, struct buf *out);

#endif
