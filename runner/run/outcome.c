/*
 * Exit codes, kills and result blocks to one document: see outcome.h. Called once a run, when the
 * container is gone.
 */
#include "run/outcome.h"

#include "base/json.h"
#include "base/json_span.h"

#include <signal.h>
#include <stdio.h>

#define CODE_KILLED  137 /* 128 + SIGKILL */
#define CODE_TIMEOUT 124

struct verdict {
    const char *status;
    const char *type; /* NULL: null */
    const char *oom_certainty;
    int code;
    char error[256]; /* "": none, or the text says it */
    bool text_is_error;
};

/* ---- judging ---- */

static void say_timeout(const struct run_facts *f, struct verdict *v)
{
    v->type = "TimeoutError";
    v->code = CODE_TIMEOUT;
    if (f->timeout_ms % 1000 == 0) {
        snprintf(v->error, sizeof(v->error), "Container killed: execution timeout (%us)",
                 (unsigned)(f->timeout_ms / 1000));
    } else {
        snprintf(v->error, sizeof(v->error), "Container killed: execution timeout (%gs)",
                 (double)f->timeout_ms / 1000.0);
    }
}

/* 137 alone says SIGKILL, not why: only the engine knows, and not every engine does. */
static void say_killed(const struct run_facts *f, struct verdict *v)
{
    if (f->oom_killed || f->memory > 0) {
        v->type = "OutOfMemoryError";
        v->oom_certainty = f->oom_killed ? NULL : "likely";
        snprintf(v->error, sizeof(v->error), "Container killed: out of memory (limit: %s)",
                 f->memory > 0 && f->memory_text != NULL ? f->memory_text : "none");
    } else {
        v->type = "Killed";
        snprintf(v->error, sizeof(v->error), "Container killed");
    }
}

static struct verdict judge(const struct run_facts *f)
{
    struct verdict v = {.status = "error", .code = f->code};

    if (f->end == RUN_TIMED_OUT) {
        v.status = "timeout";
        say_timeout(f, &v);
    } else if (f->end == RUN_CANCELLED) {
        v.status = "cancelled";
        v.type = "Cancelled";
        v.code = 128 + f->signal;
        snprintf(v.error, sizeof(v.error), "Cancelled by signal %d", f->signal);
    } else if (f->code == 0) {
        v.status = "success";
    } else if (f->code == CODE_KILLED) {
        say_killed(f, &v);
    } else if (f->code == CODE_TIMEOUT) {
        say_timeout(f, &v);
    } else {
        v.text_is_error = f->text.n > 0;
        snprintf(v.error, sizeof(v.error), "Container exited with code %d", f->code);
    }
    return v;
}

/* ---- writing ---- */

static void put_string_or_null(struct buf *out, struct span text)
{
    if (text.n == 0) {
        buf_put_str(out, "null");
    } else {
        json_put_string(out, text);
    }
}

static void put_duration(struct buf *out, uint64_t ms)
{
    buf_put_str(out, ",\"duration_seconds\":");
    json_put_double(out, (double)ms / 1000.0);
}

static void put_metadata(const struct run_facts *f, const struct verdict *v, struct buf *out)
{
    const char *comma = "";

    buf_put_str(out, ",\"metadata\":{");
    if (f->text_truncated) {
        buf_put_str(out, "\"stdout_truncated\":true");
        comma = ",";
    }
    if (v->oom_certainty != NULL) {
        buf_printf(out, "%s\"oom_certainty\":\"%s\"", comma, v->oom_certainty);
    }
    buf_put_char(out, '}');
}

static void put_verdict(const struct run_facts *f, const struct verdict *v, struct buf *out)
{
    bool success = v->code == 0;

    buf_printf(out, "{\"status\":\"%s\",\"result\":", v->status);
    put_string_or_null(out, success ? f->text : (struct span){NULL, 0});
    buf_put_str(out, ",\"error\":");
    put_string_or_null(out, v->text_is_error ? f->text : span_str(v->error));
    buf_put_str(out, ",\"error_type\":");
    put_string_or_null(out, span_str(v->type));
    buf_put_str(out, ",\"traceback\":null");
    put_duration(out, f->duration_ms);
    buf_printf(out, ",\"exit_code\":%d,\"logs\":[]", v->code);
    put_metadata(f, v, out);
    buf_put_char(out, '}');
}

/* The block's own word on its end; a code that no process can have becomes 1. */
static int block_code(const struct json_members *m)
{
    struct json_value status = json_get(m, "status");
    bool success = status.type == JSON_STRING && json_string_is(status, "success");
    uint64_t code = 0;

    if (!json_number_u64(json_get(m, "exit_code"), &code)) {
        return success ? 0 : 1;
    }
    return code <= 255 ? (int)code : 1;
}

/*
 * The container's document as it came, member by member, but for what only the runner knows: the
 * wall time, and the exit code where it did not say one.
 */
static int put_block(const struct run_facts *f, const struct json_members *m, struct buf *out)
{
    int code = block_code(m);

    buf_put_char(out, '{');
    if (json_get(m, "status").type == JSON_ABSENT) {
        buf_put_str(out, "\"status\":\"error\",");
    }
    for (size_t i = 0; i < m->n; i++) {
        if (!json_string_is(m->m[i].key, "duration_seconds") &&
            !json_string_is(m->m[i].key, "exit_code")) {
            buf_put_span(out, m->m[i].key.text);
            buf_put_char(out, ':');
            buf_put_span(out, m->m[i].value.text);
            buf_put_char(out, ',');
        }
    }
    buf_put_str(out, "\"duration_seconds\":");
    json_put_double(out, (double)f->duration_ms / 1000.0);
    buf_printf(out, ",\"exit_code\":%d}", code);
    return code;
}

int outcome_put(const struct run_facts *facts, struct buf *out)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_members members;
    struct json_fault fault;

    if (facts->block.p != NULL &&
        json_check_object(facts->block, &rules, &members, &fault) == ERR_OK) {
        return put_block(facts, &members, out);
    }
    struct verdict v = judge(facts);
    put_verdict(facts, &v, out);
    return v.code;
}

void outcome_put_failure(bool cancelled, const char *type, const char *message, int code,
                         uint64_t duration_ms, struct buf *out)
{
    buf_printf(out,
               "{\"status\":\"%s\",\"result\":null,\"error\":", cancelled ? "cancelled" : "error");
    json_put_string(out, span_str(message));
    buf_put_str(out, ",\"error_type\":");
    json_put_string(out, span_str(type));
    buf_put_str(out, ",\"traceback\":null");
    put_duration(out, duration_ms);
    buf_printf(out, ",\"exit_code\":%d,\"logs\":[],\"metadata\":{}}", code);
}
