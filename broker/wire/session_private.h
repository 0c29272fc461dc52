/* Shared by session.c and request.c: one connection and its requests. Nobody else includes it. */
#ifndef TACTUS_WIRE_SESSION_PRIVATE_H
#define TACTUS_WIRE_SESSION_PRIVATE_H

#include "base/arena.h"
#include "net/stream.h"
#include "wire/framing.h"
#include "wire/request.h"
#include "wire/session.h"

enum session_state {
    SESSION_OPENING,
    SESSION_FIRST,
    SESSION_OPEN,
    SESSION_HALF_CLOSED,
    SESSION_FINISHING
};

struct session {
    struct list node; /* wire.sessions */
    struct wire *wire;
    struct wire_door *door; /* a reference */
    struct stream *stream;
    struct framing framing;
    struct list requests;
    unsigned ninflight;
    enum session_state state;
    struct loop_deadline deadline;
    struct loop_task settle; /* after a request ended: finish, or wait for the next */
    uint64_t id;             /* of the connection, for logs */
    uint64_t message_since;  /* when the incomplete message began; 0 = none */
    size_t stuck_at;         /* output waiting when a deadline last saw the client not reading */
    bool over_limit;         /* only here to be told Overloaded */
    bool vouched;            /* the message that is coming has a token of somebody's */
    struct grant *known;     /* by the client's certificate: a reference; NULL: by none */
};

struct request {
    struct list node; /* session.requests */
    struct session *session;
    struct arena arena;
    struct span id;                    /* decoded */
    struct span id_json;               /* as it is echoed, quotes included */
    const struct json_members *params; /* during start only */
    const struct request_handler *handler;
    void *ctx;
    struct bufq_chunk *last_word;
    const struct method *method;
    struct grant *grant; /* a reference */
    struct request_bill bill;
    const char *outcome; /* a failure's type, or "ok"; NULL: it was cut off */
    int64_t began_at;    /* wall clock, ms */
    uint64_t began_us;
    uint64_t first_us; /* when its first event went out; 0: none has */
};

/* session.c */
const struct listener_config *session_listener(const struct session *s);
/* Cancels what is in flight, lets the last words out, closes. */
void session_finish(struct session *s);
void session_settle(struct session *s);
/* Queues {"id":…,"event":…,"<member>":pieces}; `id_json` with its quotes. */
enum err session_event(struct session *s, struct span id_json, const char *event,
                       const char *member, const struct span *pieces, size_t n) MUST_CHECK;

/* caller.c */
/* By the client's certificate, once a connection, and at a reload: auth required. */
void caller_by_certificate(struct session *s);
/* Whether nobody knows yet who sends. */
bool caller_is_unknown(const struct session *s);
/* A reference to the grant of a message with these members, or NULL: nobody's. */
struct grant *caller_find(struct session *s, struct span message, const struct json_members *top);
/*
 * A long message of somebody unknown is not kept to its end to find out. What looks like a token of
 * somebody's near its beginning is let through; the whole message decides then.
 */
bool caller_may_go_on(struct session *s);

/* request.c */
/* Makes and starts one; on failure it has been answered. */
void request_start(struct session *s, const struct method *method, struct grant *grant,
                   struct span id, const struct json_members *params);
struct request *request_find(struct session *s, struct span id);
/* on_cancel, then (when `failure` is not NULL) that last word, then free. */
void request_abort(struct request *r, const struct failure *failure);

#endif
