/*
 * One HTTP exchange of the runner or of brokerctl, with an engine or with the broker's admin port:
 * waited for (fetch), or going on beside others (fetch_start, fetch_done, fetch_end).
 */
#ifndef TACTUS_NET_FETCH_H
#define TACTUS_NET_FETCH_H

#include "base/buf.h"
#include "base/span.h"
#include "net/driver.h"

#define FETCH_BODY_MAX (16u * 1024u * 1024u) /* of an answer that is kept */

/* Whom to talk to. Strings are borrowed and outlive every exchange. */
struct fetch_peer {
    const char *name;        /* for messages: "the engine", "the broker's admin port" */
    const char *unix_socket; /* NULL: TCP to base_url's host */
    const char *base_url;    /* "http://localhost", no slash at its end */
    const char *ca_file;     /* https; NULL: the system's */
    const char *cert_file;   /* NULL: none */
    const char *key_file;
    const char *bearer; /* NULL: no Authorization */
};

struct fetch_request {
    const char *method;
    const char *path; /* with query, encoded */
    struct span body; /* JSON unless `type` says else; borrowed until the exchange is over */
    const char *type; /* NULL: application/json when there is a body */
    struct http_header extra[2]; /* those with a name are sent */
    uint32_t connect_ms;         /* 0: 5000 */
    uint32_t total_ms;           /* 0: without end (a wait) */
    uint32_t stall_ms;           /* between bytes; 0: none */
    /* NULL: the body is collected. Else gets a body of status 2xx as it comes. */
    void (*on_bytes)(void *ctx, const char *p, size_t n);
    void *ctx;
};

struct fetch_answer {
    int status;
    struct buf body; /* at most FETCH_BODY_MAX; the owner ends it with buf_fini */
};

/*
 * ERR_OK: an answer came, whatever its status. ERR_IO: none came, `e` names peer, method and why
 * (e->sys is ETIMEDOUT for a time-out); ERR_CLOSED: a signal; ERR_LIMIT: a body over the maximum;
 * ERR_NOMEM. *out is initialised in every case.
 */
enum err fetch(struct driver *d, const struct fetch_peer *peer, const struct fetch_request *request,
               struct fetch_answer *out, struct error *e) MUST_CHECK;

/* The same, not waited for. `request->path` and method are copied. */
struct fetch_call;
enum err fetch_start(struct driver *d, const struct fetch_peer *peer,
                     const struct fetch_request *request, struct fetch_call **out,
                     struct error *e) MUST_CHECK;
/* For driver_wait: becomes true once, with the answer or a failure. */
const bool *fetch_done(const struct fetch_call *call);
/* What came of it (after done); *out as in fetch(), taken out of the call. */
enum err fetch_take(struct fetch_call *call, struct fetch_answer *out, struct error *e) MUST_CHECK;
/* Cancels when it is not done; frees. NULL is harmless. */
void fetch_end(struct fetch_call *call);

/*
 * The message of an error answer: the engine's {"message":…} or the broker's
 * {"error":{"message":…}}, else its first line; cut at 300 bytes, control characters blanked.
 */
void fetch_message(const struct fetch_answer *answer, char out[320]);

#endif
