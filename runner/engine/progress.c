/* See progress.h. Objects are found by their braces, then read with the strict scanner. */
#include "engine/progress.h"

#include "base/json_span.h"
#include "base/text.h"

#include <stdio.h>

void progress_init(struct progress *p, engine_progress_fn *fn, void *ctx)
{
    *p = (struct progress){.fn = fn, .ctx = ctx};
    buf_init(&p->object, PROGRESS_OBJECT_MAX);
}

void progress_fini(struct progress *p)
{
    buf_fini(&p->object);
}

/* A string member's text into `out`, cut between characters; false (and "") when it says nothing.
 * A build's line, or the command that failed in it, may be of any length. */
static bool read_words(struct json_value object, const char *name, char *out, size_t size)
{
    struct json_value v = json_find(object, name);
    struct buf text;

    out[0] = '\0';
    if (v.type != JSON_STRING) {
        return false;
    }
    buf_init(&text, PROGRESS_OBJECT_MAX);
    json_string_decode(v, &text, NULL);
    if (buf_status(&text) == ERR_OK && text.len > 0) {
        size_t n = text_cut(text.p, text.len, size - 1);
        memcpy(out, text.p, n);
        out[n] = '\0';
    }
    buf_fini(&text);
    return out[0] != '\0';
}

static void on_failure(struct progress *p, struct json_value top)
{
    p->failed = true;
    if (!read_words(json_find(top, "errorDetail"), "message", p->error, sizeof(p->error)) &&
        !read_words(top, "error", p->error, sizeof(p->error))) {
        snprintf(p->error, sizeof(p->error), "it failed without a reason");
    }
}

static void on_object(struct progress *p)
{
    struct json_rules rules = {.max_depth = 32, .allow_lone_surrogate = true};
    struct json_fault fault;
    struct json_value top;
    char item[128];
    char status[512];
    uint64_t current = 0;
    uint64_t total = 0;

    if (json_check_value(buf_span(&p->object), &rules, &top, &fault) != ERR_OK ||
        top.type != JSON_OBJECT) {
        p->broken = true;
        return;
    }
    if (json_find(top, "error").type != JSON_ABSENT ||
        json_find(top, "errorDetail").type != JSON_ABSENT) {
        on_failure(p, top);
        return;
    }
    struct json_value detail = json_find(top, "progressDetail");
    (void)json_number_u64(json_find(detail, "current"), &current);
    (void)json_number_u64(json_find(detail, "total"), &total);
    (void)read_words(top, "id", item, sizeof(item));
    if (!read_words(top, "status", status, sizeof(status))) {
        (void)read_words(top, "stream", status, sizeof(status));
    }
    if (p->fn != NULL && status[0] != '\0') {
        p->fn(p->ctx, item, status, current, total);
    }
}

/* Whether `c` ends an object. */
static bool step(struct progress *p, char c)
{
    if (p->in_string) {
        p->in_string = p->escaped || c != '"';
        p->escaped = !p->escaped && c == '\\';
        return false;
    }
    if (c == '"') {
        p->in_string = true;
    } else if (c == '{' || c == '[') {
        p->depth++;
    } else if ((c == '}' || c == ']') && p->depth > 0) {
        p->depth--;
        return p->depth == 0;
    }
    return false;
}

void progress_feed(void *ctx, const char *bytes, size_t n)
{
    struct progress *p = ctx;

    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
        if (p->object.len == 0 && blank) {
            continue;
        }
        buf_put_char(&p->object, c);
        if (step(p, c) || p->depth == 0) {
            on_object(p);
            buf_clear(&p->object);
        }
    }
    p->broken = p->broken || buf_status(&p->object) != ERR_OK;
}

enum err progress_end(const struct progress *p, const char *what, struct error *e)
{
    if (p->failed) {
        return err_set(e, ERR_UPSTREAM, "the engine: %s: %s", what, p->error);
    }
    if (p->broken || p->object.len > 0) {
        return err_set(e, ERR_PROTO, "the engine: %s: its answer is no stream of JSON objects",
                       what);
    }
    return ERR_OK;
}
