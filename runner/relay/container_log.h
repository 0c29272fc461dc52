/*
 * A container's log lines as records: "2025-01-31 12:34:56,789 [INFO] some.logger: text", with the
 * lines that continue them (blank ones, those that begin with a blank, a tab, "Context:", "{" or
 * "["). Any other line is a warning of the logger "container.stderr".
 *
 * Pure. Holds one record of at most CONTAINER_LOG_MAX bytes; what is longer is cut.
 */
#ifndef TACTUS_RUNNER_CONTAINER_LOG_H
#define TACTUS_RUNNER_CONTAINER_LOG_H

#include "base/buf.h"
#include "base/log.h"
#include "base/span.h"

#define CONTAINER_LOG_MAX    65536u
#define CONTAINER_LOGGER_MAX 200u

/* `message` may have several lines; all texts end with NUL and are valid during the call. */
typedef void container_log_fn(void *ctx, enum log_level level, const char *logger,
                              const char *message);

struct container_log {
    container_log_fn *on_record;
    void *ctx;
    bool open; /* a record is held */
    enum log_level level;
    char logger[CONTAINER_LOGGER_MAX + 1];
    struct buf message;
};

void container_log_init(struct container_log *l, container_log_fn *on_record, void *ctx);
void container_log_fini(struct container_log *l);

/* A line without its end. `more`: it goes on in the next one. */
void container_log_line(struct container_log *l, struct span line, bool more);

/* Gives the record that is held. */
void container_log_flush(struct container_log *l);

#endif
