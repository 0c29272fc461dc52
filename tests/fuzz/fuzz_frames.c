/* An engine's streams from any bytes (frames of an attached container, progress objects): whole and
 * cut, the same is told. */
#include "engine/frames.h"
#include "engine/progress.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    uint64_t hash;
    enum err rc;
};

static void mix(struct seen *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->hash = (s->hash ^ (unsigned char)p[i]) * 1099511628211u;
    }
}

static void on_progress(void *ctx, const char *item, const char *status, uint64_t current,
                        uint64_t total)
{
    mix(ctx, item, strlen(item));
    mix(ctx, status, strlen(status));
    mix(ctx, (const char *)&current, sizeof(current));
    mix(ctx, (const char *)&total, sizeof(total));
}

static void run_frames(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct frames f;
    struct span piece;
    int from = 0;
    enum err rc = ERR_AGAIN;

    frames_init(&f);
    for (size_t at = 0; at < n && rc == ERR_AGAIN; at += step) {
        struct span in = span_of(bytes + at, step < n - at ? step : n - at);
        do {
            rc = frames_next(&f, &in, &from, &piece, NULL);
            for (size_t i = 0; rc == ERR_OK && i < piece.n; i++) {
                char c = (char)from;
                mix(seen, &c, 1);
                mix(seen, piece.p + i, 1);
            }
        } while (rc == ERR_OK);
    }
    seen->rc = rc;
}

static void run_progress(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct progress p;

    progress_init(&p, on_progress, seen);
    for (size_t at = 0; at < n; at += step) {
        progress_feed(&p, bytes + at, step < n - at ? step : n - at);
    }
    seen->rc = progress_end(&p, "x", NULL);
    progress_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const runs[])(const char *, size_t, size_t, struct seen *) = {run_frames,
                                                                                run_progress};

    if (size < 2) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct seen whole = {.hash = 1};
        struct seen cut = {.hash = 1};
        const char *bytes = (const char *)data + 1;
        runs[i](bytes, size - 1, size, &whole);
        runs[i](bytes, size - 1, (size_t)data[0] + 1, &cut);
        if (whole.hash != cut.hash || whole.rc != cut.rc) {
            abort();
        }
    }
    return 0;
}
