/*
 * An engine's streams from any bytes: frames of an attached container, progress objects. Whole, and
 * in pieces whose size is the first byte, the same is told; frames also as a plain reader sees
 * them.
 */
#include "engine/frames.h"
#include "engine/progress.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    uint64_t hash;
    size_t n;
    enum err rc;
    bool whole;
};

static void mix(struct seen *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->hash = (s->hash ^ (unsigned char)p[i]) * 1099511628211u;
    }
    s->n += n;
}

/* ---- frames ---- */

static void see_payload(struct seen *s, int stream, const char *p, size_t n)
{
    char c = (char)stream;

    for (size_t i = 0; i < n; i++) {
        mix(s, &c, 1);
        mix(s, p + i, 1);
    }
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
            if (rc == ERR_OK && (piece.n == 0 || from < 0 || from > 3)) {
                abort();
            }
            see_payload(seen, from, rc == ERR_OK ? piece.p : "", rc == ERR_OK ? piece.n : 0);
        } while (rc == ERR_OK);
        if (rc == ERR_AGAIN && in.n > 0) {
            abort();
        }
    }
    seen->rc = rc;
    seen->whole = frames_whole(&f);
}

/* The format as it is written down, for all of a stream. */
static void read_frames(const unsigned char *p, size_t n, struct seen *seen)
{
    size_t at = 0;

    seen->rc = ERR_AGAIN;
    while (n - at >= 8) {
        const unsigned char *h = p + at;
        if (h[0] > 3 || (h[1] | h[2] | h[3]) != 0) {
            seen->rc = ERR_PROTO;
            return;
        }
        size_t length = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | (size_t)h[7];
        at += 8;
        size_t part = length < n - at ? length : n - at;
        see_payload(seen, h[0], (const char *)p + at, part);
        at += part;
        if (part < length) {
            return;
        }
    }
    seen->whole = at == n;
}

/* ---- progress ---- */

static void on_progress(void *ctx, const char *item, const char *status, uint64_t current,
                        uint64_t total)
{
    mix(ctx, item, strlen(item) + 1);
    mix(ctx, status, strlen(status) + 1);
    mix(ctx, (const char *)&current, sizeof(current));
    mix(ctx, (const char *)&total, sizeof(total));
    if (status[0] == '\0') {
        abort();
    }
}

static void run_progress(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct progress p;
    struct error e = {.code = ERR_OK};

    progress_init(&p, on_progress, seen);
    for (size_t at = 0; at < n; at += step) {
        progress_feed(&p, bytes + at, step < n - at ? step : n - at);
    }
    seen->rc = progress_end(&p, "x", &e);
    mix(seen, e.msg, strlen(e.msg));
    progress_fini(&p);
}

static bool same(const struct seen *a, const struct seen *b)
{
    return a->hash == b->hash && a->n == b->n && a->rc == b->rc && a->whole == b->whole;
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
        struct seen plain = {.hash = 1};
        const char *bytes = (const char *)data + 1;
        runs[i](bytes, size - 1, size, &whole);
        runs[i](bytes, size - 1, (size_t)data[0] + 1, &cut);
        read_frames(data + 1, size - 1, &plain);
        if (!same(&whole, &cut) || (i == 0 && whole.rc == ERR_AGAIN && !same(&whole, &plain)) ||
            (i == 0 && whole.rc != plain.rc)) {
            abort();
        }
    }
    return 0;
}
