/*
 * Bodies of admin calls, from JSON to values. Strict: an unknown key, a wrong type, a value out of
 * range is a fault that names the key. null stands for an absent key. Pure.
 */
#ifndef TACTUS_HTTP_ADMIN_BODY_H
#define TACTUS_HTTP_ADMIN_BODY_H

#include "base/arena.h"
#include "base/span.h"
#include "gate/config.h"
#include "gate/grant_source.h"
#include "http/admin_fault.h"

#define ADMIN_TTL_DEFAULT_MS 60000u
#define ADMIN_TTL_MAX_MS     86400000u
#define ADMIN_BODY_ARENA     (8u * 1024u * 1024u) /* what a body's values need at most */
#define ADMIN_MATCH_MAX      10000u

struct admin_texts {
    const char **items;
    size_t n;
};

struct admin_sources {
    bool given; /* an empty list lets nobody in, an absent one everybody */
    struct grant_source *items;
    size_t n;
};

/* A listener of a run's own. */
struct admin_listener {
    enum listener_kind kind;
    const char *bind; /* tcp, tls: a literal address */
    uint16_t port;
    const char *path; /* unix: NULL: one is made */
    struct admin_sources allow_from;
    bool relay;
    const char *cert_file; /* tls: NULL: that of the configuration */
    const char *key_file;
    const char *ca_file;
};

/* The body of POST /v1/grants, or of PATCH (ttl and allow_from only). */
struct admin_grant {
    const char *run; /* NULL: not given */
    const char *name;
    uint32_t ttl_ms; /* 0: not given */
    struct admin_texts models;
    struct admin_texts tools;
    struct meter_limits limits;
    struct admin_sources allow_from; /* PATCH */
    bool has_listener;               /* else the grant is known by its token alone */
    struct admin_listener listener;
};

/* Values live in `arena`. 400, 422 (a policy key that is not supported yet), 503. */
bool admin_body_grant(struct span json, struct arena *arena, struct admin_grant *out,
                      struct admin_fault *f);
bool admin_body_patch(struct span json, struct arena *arena, struct admin_grant *out,
                      struct admin_fault *f);

/* {"sha256":[hex,…]} -> appends {"match":[hex…]}: those that are hashes of `c`'s secrets. 400, 503.
 */
bool admin_body_match(struct span json, const struct config *c, struct buf *out,
                      struct admin_fault *f);

#endif
