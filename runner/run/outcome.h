/*
 * How a run ended, and the result document that says so. Pure.
 *
 * The document: {"status","result","error","error_type","traceback","duration_seconds",
 * "exit_code","logs","metadata"}; status is success, error, timeout or cancelled.
 */
#ifndef TACTUS_RUNNER_OUTCOME_H
#define TACTUS_RUNNER_OUTCOME_H

#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

/* What ended the container, as far as the runner itself did it. */
enum run_end { RUN_EXITED, RUN_TIMED_OUT, RUN_CANCELLED };

struct run_facts {
    enum run_end end;
    int signal;      /* RUN_CANCELLED: which */
    int code;        /* the container's exit code */
    bool oom_killed; /* the engine says so */
    uint64_t memory; /* its limit; 0: none */
    const char *memory_text;
    uint32_t timeout_ms;
    uint64_t duration_ms; /* wall time of the run */
    struct span block;    /* the container's own result document (an object); {NULL, 0}: none */
    struct span text;     /* its stdout, stripped, valid UTF-8 */
    bool text_truncated;
};

/*
 * Appends the document of a run that was started, and tells its exit code: a block's own
 * (else 0 for status success, 1), or by the exit code and who ended the run.
 */
int outcome_put(const struct run_facts *facts, struct buf *out);

/* The document of a run that failed, or was cancelled, before or beside its container. `code`
 * 1..255. */
void outcome_put_failure(bool cancelled, const char *type, const char *message, int code,
                         uint64_t duration_ms, struct buf *out);

#endif
