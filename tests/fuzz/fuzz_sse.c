/*
 * Server-sent events from any bytes: fed whole, and in pieces whose size is the first byte, the
 * events and the result are the same.
 */
#include "llm/sse.h"

#include <stdint.h>
#include <stdlib.h>

#define EVENT_MAX 512u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A hash over all events with their lengths: enough to tell two runs apart. */
struct seen {
    uint64_t hash;
    size_t events;
};

static void mix(struct seen *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->hash = (s->hash ^ (unsigned char)p[i]) * 1099511628211u;
    }
    s->hash = (s->hash ^ n) * 1099511628211u;
}

static bool on_event(void *ctx, struct span event, struct span data)
{
    struct seen *s = ctx;

    if (data.n > EVENT_MAX || event.n > EVENT_MAX) {
        abort();
    }
    mix(s, event.p, event.n);
    mix(s, data.p, data.n);
    s->events++;
    return s->events < 100;
}

static enum err run(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct sse s;
    enum err err = ERR_OK;

    sse_init(&s, EVENT_MAX);
    for (size_t at = 0; at < n && err == ERR_OK; at += step) {
        err = sse_feed(&s, bytes + at, step < n - at ? step : n - at, on_event, seen);
    }
    if (err == ERR_OK) {
        err = sse_end(&s, on_event, seen);
    }
    sse_fini(&s);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {.hash = 1};
    struct seen cut = {.hash = 1};

    if (size < 2) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    enum err a = run(bytes, size - 1, size, &whole);
    enum err b = run(bytes, size - 1, (size_t)data[0] + 1, &cut);
    if (a != b || whole.hash != cut.hash || whole.events != cut.events) {
        abort();
    }
    return 0;
}
