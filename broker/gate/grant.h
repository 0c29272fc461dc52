/*
 * A grant: the policy under which a request runs, and what was used of it. Allowlists are glob
 * patterns of models ("provider/model") and tools: an absent list allows nothing, ["*"] all.
 *
 * Nothing of it changes after it was made but the meter. Counted references: the configuration (or
 * the run) that made it has one, and so has each request in flight; any thread.
 */
#ifndef TACTUS_GATE_GRANT_H
#define TACTUS_GATE_GRANT_H

#include "gate/meter.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define GRANT_TOKEN_SHA256 32u

struct grant {
    atomic_uint refs; /* together with what a token is compared with: each request touches both */
    bool has_token;
    unsigned char token_sha256[GRANT_TOKEN_SHA256];
    char *name;
    char *run; /* whose grant it is; NULL: a configured one */
    char **models;
    size_t nmodels;
    char **tools;
    size_t ntools;
    struct meter_limits limits;
    struct meter
        *meter;     /* counts for it; shared with the grant of the same name that it replaces */
    char *cert_san; /* glob of a client certificate's names; NULL: no certificate is this grant's */
};

/* One reference, no limits, a meter of its own, all else absent. NULL when out of memory. */
struct grant *grant_new(void);
struct grant *grant_ref(struct grant *g);
/* The last one frees what it owns. NULL is harmless. */
void grant_unref(struct grant *g);

/* `provider` and `model` as the router chose them; matched as "provider/model". */
bool grant_allows_model(const struct grant *g, const char *provider, const char *model);
/* A name of the configuration's `models`. */
bool grant_allows_name(const struct grant *g, const char *name);
bool grant_allows_tool(const struct grant *g, const char *tool);

/* The part of a "provider/model" pattern that is about models, when it can match one of this
 * provider; else NULL. */
const char *grant_model_glob(const char *pattern, const char *provider);

#endif
