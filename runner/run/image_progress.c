/*
 * See image_progress.h. An engine tells the bytes of each layer apart; the bar shows their sum,
 * which grows while layers become known.
 */
#include "run/image_progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYERS_MAX 128
#define BAR_WIDTH  30
#define REDRAW_MS  100u
#define MIB        (1024.0 * 1024.0)

struct layer {
    char id[72];
    uint64_t current;
    uint64_t total;
};

struct bar {
    const char *name;
    bool terminal;
    uint64_t drawn_at;
    struct layer layers[LAYERS_MAX];
    size_t n;
};

static void draw(const struct bar *b)
{
    uint64_t current = 0;
    uint64_t total = 0;

    for (size_t i = 0; i < b->n; i++) {
        current += b->layers[i].current;
        total += b->layers[i].total;
    }
    int filled = total == 0 ? 0 : (int)((double)current * BAR_WIDTH / (double)total);
    filled = filled > BAR_WIDTH ? BAR_WIDTH : filled;
    fprintf(stderr, "\rpulling %.60s [%.*s%*s] %.1f of %.1f MiB ", b->name, filled,
            "##############################", BAR_WIDTH - filled, "", (double)current / MIB,
            (double)total / MIB);
}

static struct layer *find_layer(struct bar *b, const char *id)
{
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(b->layers[i].id, id) == 0) {
            return &b->layers[i];
        }
    }
    if (b->n == LAYERS_MAX || strlen(id) >= sizeof(b->layers[0].id)) {
        return NULL;
    }
    struct layer *layer = &b->layers[b->n++];
    *layer = (struct layer){.total = 0};
    memcpy(layer->id, id, strlen(id) + 1);
    return layer;
}

static void on_progress(void *ctx, const char *item, const char *status, uint64_t current,
                        uint64_t total)
{
    struct bar *b = ctx;
    struct layer *layer = total > 0 ? find_layer(b, item) : NULL;

    if (layer != NULL && strstr(status, "Extracting") == NULL) {
        layer->current = current;
        layer->total = total;
    }
    if (b->terminal && clock_mono_ms() - b->drawn_at >= REDRAW_MS) {
        b->drawn_at = clock_mono_ms();
        draw(b);
    }
}

enum err image_progress_pull(struct engine *engine, const char *name, struct error *e)
{
    struct bar *b = calloc(1, sizeof(*b));

    if (b == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    b->name = name;
    b->terminal = isatty(STDERR_FILENO) == 1;
    if (!b->terminal) {
        fprintf(stderr, "pulling %s\n", name);
    }
    enum err rc = engine_image_pull(engine, name, on_progress, b, e);
    if (b->terminal) {
        fputs("\n", stderr);
    }
    if (rc == ERR_OK) {
        fprintf(stderr, "pulled %s\n", name);
    }
    free(b);
    return rc;
}
