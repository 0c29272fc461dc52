/*
 * See events_tail.h. The stream is Server-Sent Events whose data is always one line (the broker's
 * form), so lines that begin with "data:" are all that matters.
 */
#include "run/events_tail.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u * 1024u * 1024u)
#define END_MS         5000u

struct events_tail {
    struct driver *driver;
    struct fetch_call *call;
    int fd;
    bool failed;
    struct buf line;
};

static void write_line(struct events_tail *t, struct span text)
{
    struct span rest = text;

    while (rest.n > 0 && !t->failed) {
        ssize_t n = write(t->fd, rest.p, rest.n);
        if (n > 0) {
            rest = span_after(rest, (size_t)n);
        } else if (n < 0 && errno != EINTR) {
            t->failed = true;
            log_warn("runner", LOG_MSG("events cannot be written any more"));
        }
    }
}

static void on_line(struct events_tail *t)
{
    static const char mark[] = "data:";
    size_t n = sizeof(mark) - 1;

    if (buf_status(&t->line) != ERR_OK) {
        log_warn("runner", LOG_MSG("an event is too long for --events"));
    } else if (t->line.len > n && memcmp(t->line.p, mark, n) == 0) {
        n += t->line.p[n] == ' ' ? 1 : 0;
        buf_put_char(&t->line, '\n');
        write_line(t, span_after(buf_span(&t->line), n));
    }
    buf_clear(&t->line);
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct events_tail *t = ctx;
    struct span in = span_of(p, n);

    while (in.n > 0) {
        const char *end = memchr(in.p, '\n', in.n);
        size_t part = end == NULL ? in.n : (size_t)(end - in.p);
        buf_put(&t->line, in.p, part);
        if (end != NULL) {
            on_line(t);
            part++;
        }
        in = span_after(in, part);
    }
}

enum err events_tail_start(struct grants *g, const char *run, const char *path,
                           struct events_tail **out, struct error *e)
{
    struct events_tail *t = calloc(1, sizeof(*t));
    char url[512];

    if (t == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    t->driver = g->driver;
    buf_init(&t->line, LINE_MAX_BYTES);
    t->fd = strcmp(path, "-") == 0
                ? dup(STDOUT_FILENO)
                : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    enum err rc = t->fd < 0 ? err_sys(e, ERR_CONFIG, errno, "--events %s", path) : ERR_OK;
    if (rc == ERR_OK) {
        snprintf(url, sizeof(url), "/v1/events?run=%s", run);
        struct fetch_request request = {
            .method = "GET", .path = url, .on_bytes = on_bytes, .ctx = t};
        rc = fetch_start(g->driver, &g->admin.peer, &request, &t->call, e);
    }
    if (rc != ERR_OK) {
        events_tail_end(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

void events_tail_end(struct events_tail *t)
{
    if (t == NULL) {
        return;
    }
    if (t->call != NULL &&
        driver_wait(t->driver, fetch_done(t->call), driver_deadline(t->driver, END_MS)) != ERR_OK) {
        log_warn("runner", LOG_MSG("the end of the events was not seen: some may be missing"));
    }
    fetch_end(t->call);
    buf_fini(&t->line);
    if (t->fd >= 0) {
        close(t->fd);
    }
    free(t);
}
