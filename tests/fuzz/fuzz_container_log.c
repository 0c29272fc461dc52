/*
 * A container's stderr from any bytes: its requests and lines are those that a plain reader sees,
 * its log records are the same whole and in pieces whose size is the first byte, and each is text
 * within its limits.
 */
#include "base/text.h"
#include "relay/container_log.h"
#include "relay/stderr_lines.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct container_log log;
    uint64_t records; /* hashes */
    uint64_t lines;
    size_t nlines;
    size_t flush_every; /* lines: as if nothing came for a while */
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void mix(uint64_t *hash, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *hash = (*hash ^ (unsigned char)p[i]) * 1099511628211u;
    }
}

static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    struct seen *s = ctx;
    char c = (char)('0' + (int)level);
    size_t logger_n = strlen(logger);
    size_t n = strlen(message);

    require(level >= LOG_ERROR && level <= LOG_DEBUG);
    require(logger_n > 0 && logger_n <= CONTAINER_LOGGER_MAX && text_utf8_valid(logger, logger_n));
    for (size_t i = 0; i < logger_n; i++) {
        require((unsigned char)logger[i] >= ' ' && logger[i] != 0x7f);
    }
    require(n <= CONTAINER_LOG_MAX + sizeof("…") - 1 && text_utf8_valid(message, n));
    require(n == 0 || (message[n - 1] != '\n' && message[n - 1] != ' '));
    mix(&s->records, &c, 1);
    mix(&s->records, logger, logger_n + 1);
    mix(&s->records, message, n + 1);
}

static void on_line(void *ctx, struct span line, bool more)
{
    struct seen *s = ctx;

    require(line.n <= STDERR_LINE_MAX);
    mix(&s->lines, line.p, line.n);
    mix(&s->lines, "|", more ? 0 : 1);
    container_log_line(&s->log, line, more);
    s->nlines += more ? 0 : 1;
    if (!more && s->nlines % s->flush_every == 0) {
        container_log_flush(&s->log);
    }
}

static void on_request(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    require(piece.n > 0);
    mix(&s->lines, piece.p, piece.n);
}

static void on_request_end(void *ctx)
{
    struct seen *s = ctx;

    mix(&s->lines, "R|", 2);
}

static const struct stderr_lines_handler handler = {
    .on_request = on_request, .on_request_end = on_request_end, .on_line = on_line};

static bool run(struct span in, size_t step, struct seen *s)
{
    struct stderr_lines lines;

    container_log_init(&s->log, on_record, s);
    stderr_lines_init(&lines, &handler, s);
    while (in.n > 0) {
        struct span piece = span_of(in.p, step < in.n ? step : in.n);
        in = span_after(in, piece.n);
        stderr_lines_feed(&lines, piece);
    }
    bool whole = stderr_lines_end(&lines);
    container_log_flush(&s->log);
    stderr_lines_fini(&lines);
    container_log_fini(&s->log);
    return whole;
}

/* Requests and lines of all of a stream. */
static bool read_lines(struct span in, uint64_t *hash)
{
    static const struct span prefix = {TACTUS_STDIO_PREFIX, sizeof(TACTUS_STDIO_PREFIX) - 1};

    while (in.n > 0) {
        const char *newline = memchr(in.p, '\n', in.n);
        struct span line = span_of(in.p, newline == NULL ? in.n : (size_t)(newline - in.p));
        in = span_after(in, line.n + (newline == NULL ? 0 : 1));
        bool request = line.n >= prefix.n && memcmp(line.p, prefix.p, prefix.n) == 0;
        line = request ? span_after(line, prefix.n) : line;
        mix(hash, line.p, line.n);
        if (request && newline == NULL) {
            return false;
        }
        mix(hash, request ? "R|" : "|", request ? 2 : 1);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct seen whole = {.flush_every = (size_t)data[0] % 7 + 1};
    struct seen cut = whole;
    uint64_t plain = 0;
    struct span in = span_of((const char *)data + 1, size - 1);
    bool a = run(in, size, &whole);
    bool b = run(in, (size_t)data[0] + 1, &cut);
    bool c = read_lines(in, &plain);
    require(a == b && a == c);
    require(whole.records == cut.records && whole.nlines == cut.nlines);
    require(whole.lines == cut.lines && whole.lines == plain);
    return 0;
}
