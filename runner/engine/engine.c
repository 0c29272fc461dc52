/* What all calls of the engine client share: paths, statuses, JSON. */
#include "engine/engine_private.h"

#include "base/json.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err engine_path(const struct engine *engine, char out[ENGINE_PATH_MAX], struct error *e,
                     const char *fmt, ...)
{
    va_list ap;
    int head = snprintf(out, ENGINE_PATH_MAX, "/v%s", engine->version);

    va_start(ap, fmt);
    int n = vsnprintf(out + head, ENGINE_PATH_MAX - (size_t)head, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= ENGINE_PATH_MAX - head) {
        return err_set(e, ERR_CONFIG, "a name is too long for the engine");
    }
    return ERR_OK;
}

static enum err encode(const char *text, const char *plain, char *out, size_t size, struct error *e)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (n + 4 > size) {
            return err_set(e, ERR_CONFIG, "a name is too long for the engine: %.60s…", text);
        }
        if (isalnum(*p) || strchr(plain, *p) != NULL) {
            out[n++] = (char)*p;
        } else {
            out[n++] = '%';
            out[n++] = digits[*p >> 4];
            out[n++] = digits[*p & 15];
        }
    }
    out[n] = '\0';
    return ERR_OK;
}

enum err engine_encode(const char *text, char *out, size_t size, struct error *e)
{
    return encode(text, "-._~", out, size, e);
}

static bool is_segment(struct span s)
{
    return s.n > 0 && !span_eq(s, SPAN(".")) && !span_eq(s, SPAN(".."));
}

enum err engine_encode_name(const char *text, bool slashes, char *out, size_t size, struct error *e)
{
    const char *rest = text;
    size_t n = strcspn(rest, "/");

    while (is_segment(span_of(rest, n)) && rest[n] == '/') {
        rest += n + 1;
        n = strcspn(rest, "/");
    }
    if (!is_segment(span_of(rest, n))) {
        return err_set(e, ERR_CONFIG, "\"%.100s\" is no name of an image, container or network",
                       text);
    }
    return encode(text, slashes ? "-._~/" : "-._~", out, size, e);
}

enum err engine_path_of(const struct engine *engine, char out[ENGINE_PATH_MAX], const char *before,
                        const char *name, const char *after, struct error *e)
{
    char encoded[ENGINE_PATH_MAX / 2];
    enum err rc = engine_encode_name(name, false, encoded, sizeof(encoded), e);

    return rc == ERR_OK ? engine_path(engine, out, e, "%s%s%s", before, encoded, after) : rc;
}

enum err engine_call(struct engine *engine, const struct fetch_request *request,
                     struct fetch_answer *out, struct error *e)
{
    struct fetch_request r = *request;

    r.total_ms = r.total_ms == 0 ? engine->limits.call_ms : r.total_ms;
    return fetch(engine->driver, &engine->peer, &r, out, e);
}

enum err engine_expect(const struct fetch_answer *answer, const char *what, int expected, int also,
                       struct error *e)
{
    char message[320];

    if (answer->status == expected || (also != 0 && answer->status == also)) {
        return ERR_OK;
    }
    fetch_message(answer, message);
    enum err rc = err_set(e, ERR_UPSTREAM, "the engine: %s: %s", what, message);
    if (e != NULL) {
        e->sys = answer->status;
    }
    return rc;
}

void engine_one_line(char *text)
{
    size_t n = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        bool control = (unsigned char)text[i] < 0x20 || text[i] == 0x7f;
        text[i] = control ? ' ' : text[i];
        n = text[i] == ' ' ? n : i + 1;
    }
    text[n] = '\0';
}

enum err engine_json(const struct fetch_answer *answer, enum json_type type, const char *what,
                     struct json_value *out, struct error *e)
{
    struct json_rules rules = {.max_depth = 128, .allow_lone_surrogate = true};
    struct json_fault fault = {.what = "expected another type"};

    if (json_check_value(buf_span(&answer->body), &rules, out, &fault) != ERR_OK ||
        out->type != type) {
        return err_set(e, ERR_PROTO, "the engine: %s: its answer cannot be read: %s", what,
                       fault.what);
    }
    return ERR_OK;
}

bool engine_text(struct json_value object, const char *name, char *out, size_t size)
{
    struct json_value v = json_find(object, name);
    struct buf text;
    bool ok = false;

    out[0] = '\0';
    if (v.type != JSON_STRING) {
        return false;
    }
    buf_init(&text, size);
    json_string_decode(v, &text, NULL);
    ok = buf_status(&text) == ERR_OK && text.len < size && text.len > 0;
    if (ok) {
        memcpy(out, text.p, text.len);
        out[text.len] = '\0';
    }
    buf_fini(&text);
    return ok;
}

char *engine_strdup(struct json_value string)
{
    struct buf text;

    if (string.type != JSON_STRING) {
        return NULL;
    }
    buf_init(&text, string.text.n + 1);
    json_string_decode(string, &text, NULL);
    char *copy = buf_status(&text) == ERR_OK ? strdup(buf_cstr(&text)) : NULL;
    buf_fini(&text);
    return copy;
}
