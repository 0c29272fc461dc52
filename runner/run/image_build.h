/*
 * The sandbox image and what it was built from. Labels on it say which version of the runner built
 * it and the hash of its sources (spec/source_hash.h); it is stale when either differs.
 */
#ifndef TACTUS_RUNNER_IMAGE_BUILD_H
#define TACTUS_RUNNER_IMAGE_BUILD_H

#include "engine/engine.h"
#include "spec/source_hash.h"

#define IMAGE_ENV_AUTO    "TACTUS_AUTO_REBUILD_SANDBOX"
#define IMAGE_CONTEXT_MAX ((size_t)2 << 30)

struct image_plan {
    const char *image;
    const char *context;        /* the directory with the Dockerfile */
    const char *file;           /* its name in there */
    const char *const *sources; /* hashed; none: the context */
    size_t nsources;
};

enum image_freshness { IMAGE_MISSING, IMAGE_FRESH, IMAGE_STALE };

struct image_status {
    enum image_freshness freshness;
    char version[64]; /* of its label; "": none */
    char hash[SOURCE_HASH_SIZE];
    char wanted_hash[SOURCE_HASH_SIZE];
};

enum err image_status(struct engine *engine, const struct image_plan *plan,
                      struct image_status *out, struct error *e) MUST_CHECK;

/* Builds it; what the build says goes to stderr. */
enum err image_build(struct engine *engine, const struct image_plan *plan,
                     struct error *e) MUST_CHECK;

/* Before a run: builds when it is missing or stale, unless IMAGE_ENV_AUTO says no or `watched` (an
 * IDE waits for events): then a stale one is only warned of. */
enum err image_refresh(struct engine *engine, const struct image_plan *plan, bool watched,
                       struct error *e) MUST_CHECK;

#endif
