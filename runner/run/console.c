/* See console.h. Writes to our stdout and stderr wait for their reader: then the container waits.
 */
#include "run/console.h"

#include "base/log.h"
#include "relay/container_log.h"
#include "relay/relay.h"
#include "relay/result.h"
#include "relay/stderr_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct console {
    struct console_options options;
    struct result result;
    struct stderr_lines lines;
    struct container_log log;
    bool out_gone;
    bool err_gone;
    bool unasked; /* said that requests come where none are served */
};

/* ---- our own ends ---- */

static void write_all(int fd, bool *gone, struct span s)
{
    while (s.n > 0 && !*gone) {
        ssize_t n = write(fd, s.p, s.n);
        if (n >= 0) {
            s = span_after(s, (size_t)n);
        } else if (errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1);
        } else if (errno != EINTR) {
            *gone = true;
        }
    }
}

static void on_output(void *ctx, struct span piece)
{
    struct console *c = ctx;

    write_all(c->options.out_fd, &c->out_gone, piece);
}

/* ---- stderr ---- */

/* Line by line: the log escapes line ends. */
static void on_record(void *ctx, enum log_level level, const char *logger, const char *message)
{
    struct span rest = span_str(message);
    struct buf line;

    (void)ctx;
    if (!log_enabled(level)) {
        return;
    }
    buf_init(&line, CONTAINER_LOG_MAX + 16);
    do {
        const char *end = memchr(rest.p, '\n', rest.n);
        size_t n = end == NULL ? rest.n : (size_t)(end - rest.p);
        buf_clear(&line);
        buf_put(&line, rest.p, n);
        const struct log_field field = LOG_MSG(buf_cstr(&line));
        log_event(level, logger, &field, 1);
        rest = span_after(rest, end == NULL ? n : n + 1);
    } while (rest.n > 0);
    buf_fini(&line);
}

static void on_line(void *ctx, struct span line, bool more)
{
    struct console *c = ctx;

    if (c->options.raw_log) {
        write_all(STDERR_FILENO, &c->err_gone, line);
        write_all(STDERR_FILENO, &c->err_gone, more ? SPAN("") : SPAN("\n"));
    } else {
        container_log_line(&c->log, line, more);
    }
}

static void on_request(void *ctx, struct span piece)
{
    struct console *c = ctx;

    if (c->options.relay != NULL) {
        relay_request(c->options.relay, piece);
    } else if (!c->unasked) {
        c->unasked = true;
        log_warn("runner", LOG_MSG("the container asks the broker over stderr, which is not this "
                                   "run's transport: it gets no reply"));
    }
}

static void on_request_end(void *ctx)
{
    struct console *c = ctx;

    if (c->options.relay != NULL) {
        relay_request_end(c->options.relay);
    }
}

static const struct stderr_lines_handler lines_handler = {
    .on_request = on_request,
    .on_request_end = on_request_end,
    .on_line = on_line,
};

/* ---- life ---- */

enum err console_new(const struct console_options *options, struct console **out, struct error *e)
{
    struct console *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    c->options = *options;
    result_init(&c->result, on_output, c);
    stderr_lines_init(&c->lines, &lines_handler, c);
    container_log_init(&c->log, on_record, c);
    *out = c;
    return ERR_OK;
}

void console_free(struct console *c)
{
    if (c == NULL) {
        return;
    }
    result_fini(&c->result);
    stderr_lines_fini(&c->lines);
    container_log_fini(&c->log);
    free(c);
}

void console_stdout(struct console *c, struct span bytes)
{
    unsigned skipped = c->result.skipped;

    result_feed(&c->result, bytes);
    if (c->result.skipped != skipped) {
        log_warn("runner", LOG_MSG("a result block that is no JSON object was skipped"));
    }
}

void console_stderr(struct console *c, struct span bytes)
{
    stderr_lines_feed(&c->lines, bytes);
}

void console_quiet(struct console *c)
{
    container_log_flush(&c->log);
}

void console_end(struct console *c)
{
    result_end(&c->result);
    if (!stderr_lines_end(&c->lines)) {
        log_warn("runner", LOG_MSG("the container's last request was cut off"));
    }
    container_log_flush(&c->log);
}

struct span console_result(const struct console *c)
{
    return result_block(&c->result);
}

struct span console_text(struct console *c, bool *truncated)
{
    *truncated = c->result.truncated;
    return result_text(&c->result);
}
