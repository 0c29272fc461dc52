/* See image_build.h. */
#include "run/image_build.h"

#include "base/log.h"
#include "engine/tar.h"
#include "tactus/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum err hash_sources(const struct image_plan *plan, char out[SOURCE_HASH_SIZE],
                             struct error *e)
{
    return plan->nsources > 0 ? source_hash(plan->sources, plan->nsources, out, e)
                              : source_hash(&plan->context, 1, out, e);
}

enum err image_status(struct engine *engine, const struct image_plan *plan,
                      struct image_status *out, struct error *e)
{
    struct engine_image image;
    bool found = false;

    *out = (struct image_status){.freshness = IMAGE_MISSING};
    enum err rc = hash_sources(plan, out->wanted_hash, e);
    if (rc == ERR_OK) {
        rc = engine_image_inspect(engine, plan->image, &image, &found, e);
    }
    if (rc != ERR_OK || !found) {
        return rc;
    }
    snprintf(out->version, sizeof(out->version), "%s",
             image.version_label == NULL ? "" : image.version_label);
    snprintf(out->hash, sizeof(out->hash), "%s", image.hash_label == NULL ? "" : image.hash_label);
    bool fresh =
        strcmp(out->version, TACTUS_VERSION) == 0 && strcmp(out->hash, out->wanted_hash) == 0;
    out->freshness = fresh ? IMAGE_FRESH : IMAGE_STALE;
    engine_image_fini(&image);
    return ERR_OK;
}

static void on_line(void *ctx, const char *item, const char *status, uint64_t current,
                    uint64_t total)
{
    size_t n = strlen(status);

    (void)ctx;
    (void)item;
    (void)current;
    (void)total;
    fprintf(stderr, "%s%s", status, n > 0 && status[n - 1] == '\n' ? "" : "\n");
}

enum err image_build(struct engine *engine, const struct image_plan *plan, struct error *e)
{
    char hash[SOURCE_HASH_SIZE];
    char hash_label[64];
    struct buf context;

    enum err rc = hash_sources(plan, hash, e);
    if (rc != ERR_OK) {
        return rc;
    }
    snprintf(hash_label, sizeof(hash_label), "tactus.source_hash=%s", hash);
    const char *const labels[] = {"tactus.version=" TACTUS_VERSION, hash_label};
    buf_init(&context, IMAGE_CONTEXT_MAX);
    rc = tar_directory(plan->context, &context, e);
    if (rc == ERR_OK) {
        rc = engine_image_build(engine, plan->image, plan->file, buf_span(&context), labels, 2,
                                on_line, NULL, e);
    }
    buf_fini(&context);
    return rc;
}

static bool may_rebuild(void)
{
    const char *value = getenv(IMAGE_ENV_AUTO);

    return value == NULL || value[0] == '\0' || strcasecmp(value, "true") == 0 ||
           strcmp(value, "1") == 0 || strcasecmp(value, "yes") == 0;
}

enum err image_refresh(struct engine *engine, const struct image_plan *plan, bool watched,
                       struct error *e)
{
    struct image_status status;
    enum err rc = image_status(engine, plan, &status, e);

    if (rc != ERR_OK || status.freshness == IMAGE_FRESH) {
        return rc;
    }
    if (status.freshness == IMAGE_STALE && (watched || !may_rebuild())) {
        log_warn("runner", LOG_MSG("the image is older than its sources, and is not rebuilt now"),
                 LOG_STR("image", plan->image));
        return ERR_OK;
    }
    log_info("runner", LOG_MSG("building the image"), LOG_STR("image", plan->image));
    return image_build(engine, plan, e);
}
