/*
 * The sandbox image and what it was built from. Labels on it say which version of the runner built
 * it and the hash of its sources (spec/source_hash.h); it is stale when either differs. Only an
 * image whose build context somebody names (sandbox.build_context, or `image build --context`) is
 * ever built: no other image says where its sources are.
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
    const char *file;           /* its path in there */
    const char *const *sources; /* hashed; none: the context */
    size_t nsources;
};

enum image_freshness { IMAGE_MISSING, IMAGE_FRESH, IMAGE_STALE };

struct image_status {
    enum image_freshness freshness;
    char version[64]; /* of its label, unprintable bytes as "?"; "": none */
    char hash[SOURCE_HASH_SIZE];
    char wanted_hash[SOURCE_HASH_SIZE];
};

/* ERR_CONFIG: a source cannot be read; else as engine_image_inspect. */
enum err image_status(struct engine *engine, const struct image_plan *plan,
                      struct image_status *out, struct error *e) MUST_CHECK;

/* Builds it; what the build says goes to stderr. ERR_CONFIG: a source or the Dockerfile cannot be
 * read, or the Dockerfile lies outside the context; ERR_LIMIT: the context has more than
 * IMAGE_CONTEXT_MAX bytes; else as engine_image_build. */
enum err image_build(struct engine *engine, const struct image_plan *plan,
                     struct error *e) MUST_CHECK;

/*
 * What a run does about an image. One that is missing is built: nothing can run without it. A stale
 * one is built, but only warned of when `automatic` (the value of IMAGE_ENV_AUTO, NULL: not set) is
 * anything but true, 1 or yes, or when somebody watches the run's events and waits. Pure.
 */
enum image_action { IMAGE_USE, IMAGE_WARN, IMAGE_BUILD };
enum image_action image_action(enum image_freshness freshness, const char *automatic, bool watched);

/* Before a run: does that. `watched`: a callback URL or a sink for events is set. */
enum err image_refresh(struct engine *engine, const struct image_plan *plan, bool watched,
                       struct error *e) MUST_CHECK;

#endif
