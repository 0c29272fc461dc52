/*
 * All configured providers and names for models: immutable, shared by all loops and counted. Calls
 * in flight keep those that they began with, and with them the configuration that has their keys.
 * What is known of their health (keys that rest, targets that fail) is atomic, and begins anew with
 * each configuration.
 */
#ifndef TACTUS_LLM_PROVIDERS_H
#define TACTUS_LLM_PROVIDERS_H

#include "base/err.h"
#include "gate/config.h"
#include "llm/provider.h"

#include <stdatomic.h>
#include <stdint.h>

#define TARGETS_MAX 16u /* of one name */

/* A circuit breaker: closed while `failures` are few; open until a time; then one call probes. */
struct breaker {
    atomic_uint failures;        /* in a row */
    _Atomic uint64_t open_until; /* loop_now() milliseconds; 0: closed */
};

/* Where a call may go. */
struct target {
    const struct provider *provider;
    struct span model;       /* as the provider names it; a NUL follows */
    struct breaker *breaker; /* NULL: there is no other target */
};

struct model_alias {
    const char *name;
    struct target *targets;
    size_t ntargets;
};

struct providers {
    atomic_uint refs;
    struct config *config; /* a reference */
    struct provider *items;
    size_t n;
    struct model_alias *aliases;
    size_t naliases;
    struct breaker *breakers;
    atomic_uint *turns; /* one a provider */
};

enum err providers_new(struct config *config, struct providers **out, struct error *e) MUST_CHECK;
struct providers *providers_ref(struct providers *p);
void providers_unref(struct providers *p); /* NULL is harmless */
const struct provider *providers_find(const struct providers *p, struct span name);
const struct model_alias *providers_alias(const struct providers *p, struct span name);

/* ---- keys; any thread ---- */

/* The next key whose turn it is and that does not rest at `now`; when all rest the one that rests
 * least. NULL: the provider has none. */
struct provider_key *provider_key_next(const struct provider *p, uint64_t now);
/* True when some key does not rest. */
bool provider_key_awake(const struct provider *p, uint64_t now);
void provider_key_rest(struct provider_key *key, uint64_t until);

/* ---- breakers; any thread; NULL is harmless, and lets all pass ---- */

/* Whether a call may go there at `now`. When its rest is over one caller may, and the others must
 * wait for what it finds out, at most `rest_ms`. */
bool breaker_pass(struct breaker *b, uint64_t now, uint32_t rest_ms);
/* What a call found out. `most` failures in a row open it for `rest_ms`; 0: never. */
void breaker_success(struct breaker *b);
void breaker_failure(struct breaker *b, uint64_t now, unsigned most, uint32_t rest_ms);

#endif
