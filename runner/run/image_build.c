/* See image_build.h. */
#include "run/image_build.h"

#include "base/log.h"
#include "engine/tar.h"
#include "tactus/version.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static enum err hash_sources(const struct image_plan *plan, char out[SOURCE_HASH_SIZE],
                             struct error *e)
{
    return plan->nsources > 0 ? source_hash(plan->sources, plan->nsources, out, e)
                              : source_hash(&plan->context, 1, out, e);
}

/* A label is anybody's text, and is shown on terminals. */
static void copy_label(char *out, size_t size, const char *label)
{
    size_t n = 0;

    for (const char *p = label == NULL ? "" : label; *p != '\0' && n + 1 < size; p++) {
        out[n++] = (char)(*p >= 0x20 && *p < 0x7f ? *p : '?');
    }
    out[n] = '\0';
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
    copy_label(out->version, sizeof(out->version), image.version_label);
    copy_label(out->hash, sizeof(out->hash), image.hash_label);
    bool fresh = image.version_label != NULL && image.hash_label != NULL &&
                 strcmp(image.version_label, TACTUS_VERSION) == 0 &&
                 strcmp(image.hash_label, out->wanted_hash) == 0;
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

/* Its path as the archive has it: below the context, without "./". */
static enum err find_file(const struct image_plan *plan, const char **out, struct error *e)
{
    char path[PATH_MAX];
    const char *file = plan->file;

    while (strncmp(file, "./", 2) == 0) {
        file += 2 + strspn(file + 2, "/");
    }
    for (const char *p = file; *p != '\0'; p += strcspn(p, "/"), p += strspn(p, "/")) {
        if (p[0] == '/' || (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))) {
            return err_set(e, ERR_CONFIG, "%.200s: a Dockerfile lies in the build context",
                           plan->file);
        }
    }
    int n = snprintf(path, sizeof(path), "%s/%s", plan->context, file);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return err_set(e, ERR_CONFIG, "%.200s: the path is too long", plan->context);
    }
    if (access(path, R_OK) != 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", path);
    }
    *out = file;
    return ERR_OK;
}

enum err image_build(struct engine *engine, const struct image_plan *plan, struct error *e)
{
    char hash[SOURCE_HASH_SIZE];
    char hash_label[64];
    const char *file = NULL;
    struct span context = {NULL, 0};

    enum err rc = find_file(plan, &file, e);
    if (rc == ERR_OK) { /* before the context is read: what changes meanwhile makes it stale */
        rc = hash_sources(plan, hash, e);
    }
    if (rc == ERR_OK) {
        rc = tar_directory(plan->context, file, IMAGE_CONTEXT_MAX, &context, e);
    }
    if (rc == ERR_OK) {
        snprintf(hash_label, sizeof(hash_label), "tactus.source_hash=%s", hash);
        const char *const labels[] = {"tactus.version=" TACTUS_VERSION, hash_label};
        rc = engine_image_build(engine, plan->image, file, context, labels, 2, on_line, NULL, e);
    }
    tar_free(&context);
    return rc;
}

enum image_action image_action(enum image_freshness freshness, const char *automatic, bool watched)
{
    bool may = automatic == NULL || strcasecmp(automatic, "true") == 0 ||
               strcmp(automatic, "1") == 0 || strcasecmp(automatic, "yes") == 0;

    if (freshness == IMAGE_FRESH) {
        return IMAGE_USE;
    }
    return freshness == IMAGE_MISSING || (may && !watched) ? IMAGE_BUILD : IMAGE_WARN;
}

enum err image_refresh(struct engine *engine, const struct image_plan *plan, bool watched,
                       struct error *e)
{
    struct image_status status;
    enum err rc = image_status(engine, plan, &status, e);

    if (rc != ERR_OK) {
        return rc;
    }
    switch (image_action(status.freshness, getenv(IMAGE_ENV_AUTO), watched)) {
    case IMAGE_BUILD:
        log_info("runner", LOG_MSG("building the image"), LOG_STR("image", plan->image));
        return image_build(engine, plan, e);
    case IMAGE_WARN:
        log_warn("runner", LOG_MSG("the image is older than its sources, and is not rebuilt now"),
                 LOG_STR("image", plan->image));
        return ERR_OK;
    default:
        return ERR_OK;
    }
}
