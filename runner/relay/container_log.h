/*
 * A container's log lines as records: "2025-01-31 12:34:56,789 [INFO] some.logger: text", with the
 * lines that continue them (blank ones, those that begin with a blank, a tab, "Context:", "{" or
 * "["). Any other line is a warning of the logger "container.stderr", which is continued likewise.
 * Levels that are not known count as INFO. Blank lines that continue nothing are left away.
 *
 * Pure. Holds one record of at most CONTAINER_LOG_MAX bytes; what is longer is cut, on a character,
 * and ends with an ellipsis. Bytes that are no UTF-8 become U+FFFD, NUL becomes a blank.
 */
#ifndef TACTUS_RUNNER_CONTAINER_LOG_H
#define TACTUS_RUNNER_CONTAINER_LOG_H

#include "base/buf.h"
#include "base/log.h"
#include "base/span.h"

#define CONTAINER_LOG_MAX    65536u
#define CONTAINER_LOGGER_MAX 200u

/* `message` may have several lines, without blank ones at its end; `logger` is cut after
 * CONTAINER_LOGGER_MAX bytes, on a character, and has no control characters (U+FFFD stands for
 * them). Both are valid during the call. */
typedef void container_log_fn(void *ctx, enum log_level level, const char *logger,
                              const char *message);

struct container_log {
    container_log_fn *on_record;
    void *ctx;
    bool open;    /* a record is held */
    bool in_line; /* the line before goes on */
    bool cut;     /* the record held is as long as it may be */
    enum log_level level;
    char logger[CONTAINER_LOGGER_MAX + 1];
    struct buf message;
};

void container_log_init(struct container_log *l, container_log_fn *on_record, void *ctx);
void container_log_fini(struct container_log *l);

/* A line without its end. `more`: the next call brings its next part, which is not looked at for
 * itself. A part ends between characters. */
void container_log_line(struct container_log *l, struct span line, bool more);

/* Gives the record that is held, as its continuation may never come. If it comes after all, it is a
 * further record of the same level and logger. */
void container_log_flush(struct container_log *l);

#endif
