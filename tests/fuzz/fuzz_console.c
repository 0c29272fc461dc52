/*
 * A container's stdout and stderr from any bytes: whole, and in pieces whose size is the first
 * byte: the same result, output and records; nothing of stdout is lost but the block that won.
 */
#include "relay/container_log.h"
#include "relay/event_head.h"
#include "relay/result.h"
#include "relay/stderr_lines.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    uint64_t hash;
    size_t n;
    struct container_log log;
};

static void mix(struct seen *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->hash = (s->hash ^ (unsigned char)p[i]) * 1099511628211u;
    }
    s->n += n;
}

static void on_piece(void *ctx, struct span piece)
{
    mix(ctx, piece.p, piece.n);
}

static void on_end(void *ctx)
{
    mix(ctx, "|", 1);
}

static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    char c = (char)('0' + (int)level);

    mix(ctx, &c, 1);
    mix(ctx, logger, strlen(logger));
    mix(ctx, message, strlen(message));
}

static void on_line(void *ctx, struct span line, bool more)
{
    struct seen *s = ctx;

    container_log_line(&s->log, line, more);
}

static const struct stderr_lines_handler handler = {
    .on_request = on_piece, .on_request_end = on_end, .on_line = on_line};

static void run_result(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct result r;

    result_init(&r, on_piece, seen);
    for (size_t at = 0; at < n; at += step) {
        result_feed(&r, span_of(bytes + at, step < n - at ? step : n - at));
    }
    result_end(&r);
    struct span block = result_block(&r);
    if (block.p == NULL && seen->n != n) {
        abort();
    }
    mix(seen, block.p == NULL ? "" : block.p, block.n);
    struct span text = result_text(&r);
    mix(seen, text.n == 0 ? "" : text.p, text.n);
    result_fini(&r);
}

static void run_stderr(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct stderr_lines l;

    container_log_init(&seen->log, on_record, seen);
    stderr_lines_init(&l, &handler, seen);
    for (size_t at = 0; at < n; at += step) {
        stderr_lines_feed(&l, span_of(bytes + at, step < n - at ? step : n - at));
    }
    (void)stderr_lines_end(&l);
    container_log_flush(&seen->log);
    stderr_lines_fini(&l);
    container_log_fini(&seen->log);
}

static void run_events(const char *bytes, size_t n, size_t step, struct seen *seen)
{
    struct event_head *h = malloc(sizeof(*h));

    if (h == NULL) {
        return;
    }
    event_head_init(h);
    for (size_t at = 0; at < n; at += step) {
        struct span in = span_of(bytes + at, step < n - at ? step : n - at);
        struct event_end end;
        while (event_head_next(h, &in, &end)) {
            mix(seen, end.id.p, end.id.n);
            mix(seen, end.connection ? "!" : ".", 1);
        }
    }
    free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const runs[])(const char *, size_t, size_t,
                                struct seen *) = {run_result, run_stderr, run_events};

    if (size == 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct seen whole = {.hash = 1};
        struct seen cut = {.hash = 1};
        const char *bytes = (const char *)data + 1;
        runs[i](bytes, size - 1, size, &whole);
        runs[i](bytes, size - 1, (size_t)data[0] + 1, &cut);
        if (whole.hash != cut.hash || whole.n != cut.n) {
            abort();
        }
    }
    return 0;
}
