/*
 * The strict scanner: one validating pass (this file) and the quick walk over what was validated
 * (json_walk.c). See json_span.h. Called by wire for every message and by providers for every
 * chunk.
 */
#include "base/json_span.h"

#include "base/json_span_private.h"
#include "base/text.h"

#include <string.h>

struct scanner {
    const char *start;
    const char *p;
    const char *end;
    const struct json_rules *rules;
    unsigned depth;                          /* containers open */
    uint64_t is_object[JSON_DEPTH_MAX / 64]; /* a bit a level */
    struct json_fault *fault;
};

static bool fail(struct scanner *s, const char *what)
{
    s->fault->offset = (size_t)(s->p - s->start);
    s->fault->what = what;
    return false;
}

static void skip_space(struct scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) {
        s->p++;
    }
}

static bool at(const struct scanner *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static bool push(struct scanner *s, bool object)
{
    if (s->depth >= s->rules->max_depth || s->depth >= JSON_DEPTH_MAX) {
        return fail(s, "nesting deeper than allowed");
    }
    uint64_t bit = (uint64_t)1 << (s->depth % 64);
    if (object) {
        s->is_object[s->depth / 64] |= bit;
    } else {
        s->is_object[s->depth / 64] &= ~bit;
    }
    s->depth++;
    return true;
}

static bool in_object(const struct scanner *s)
{
    unsigned level = s->depth - 1;

    return (s->is_object[level / 64] >> (level % 64) & 1u) != 0;
}

/* ---- strings ---- */

static bool scan_hex4(struct scanner *s, unsigned *out)
{
    unsigned v = 0;

    if (s->end - s->p < 4) {
        s->p = s->end;
        return fail(s, "text ends inside an escape");
    }
    if (!json_hex4(s->p, &v)) {
        return fail(s, "expected four hexadecimal digits");
    }
    s->p += 4;
    *out = v;
    return true;
}

/* After "\u". A high surrogate must be followed by an escaped low one, unless the rules allow. */
static bool scan_unicode(struct scanner *s, bool key)
{
    unsigned v = 0;

    if (!scan_hex4(s, &v)) {
        return false;
    }
    if (v == 0 && key) {
        return fail(s, "NUL in a key");
    }
    if (v < 0xd800 || v > 0xdfff || s->rules->allow_lone_surrogate) {
        return true;
    }
    if (v > 0xdbff || s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u') {
        return fail(s, "lone surrogate");
    }
    s->p += 2;
    if (!scan_hex4(s, &v)) {
        return false;
    }
    return (v >= 0xdc00 && v <= 0xdfff) || fail(s, "lone surrogate");
}

static bool scan_escape(struct scanner *s, bool key)
{
    s->p++;
    if (s->p == s->end) {
        return fail(s, "text ends inside a string");
    }
    char c = *s->p;
    if (c == 'u') {
        s->p++;
        return scan_unicode(s, key);
    }
    if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
        return fail(s, "unknown escape");
    }
    s->p++;
    return true;
}

static bool scan_utf8(struct scanner *s)
{
    size_t n = text_utf8_char(s->p, (size_t)(s->end - s->p));

    s->p += n;
    return n > 0 || fail(s, "invalid UTF-8");
}

/* At the opening quote; ends after the closing one. */
static bool scan_string(struct scanner *s, bool key, struct json_value *out)
{
    const char *from = s->p;

    out->escaped = false;
    s->p++;
    for (;;) {
        if (s->p == s->end) {
            return fail(s, "text ends inside a string");
        }
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            break;
        }
        if (c >= 0x80) {
            if (!scan_utf8(s)) {
                return false;
            }
        } else if (c == '\\') {
            out->escaped = true;
            if (!scan_escape(s, key)) {
                return false;
            }
        } else if (c < 0x20) {
            return fail(s, "control character in a string");
        } else {
            s->p = json_skip_plain(s->p + 1, s->end);
        }
    }
    s->p++;
    out->type = JSON_STRING;
    out->text = span_of(from, (size_t)(s->p - from));
    return true;
}

/* ---- scalars ---- */

static bool scan_digits(struct scanner *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9') {
        s->p++;
    }
    return s->p > from || fail(s, "expected a digit");
}

static bool scan_number(struct scanner *s)
{
    if (at(s, '-')) {
        s->p++;
    }
    if (at(s, '0')) {
        s->p++;
        if (s->p < s->end && *s->p >= '0' && *s->p <= '9') {
            return fail(s, "number with a leading zero");
        }
    } else if (!scan_digits(s)) {
        return false;
    }
    if (at(s, '.')) {
        s->p++;
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (at(s, 'e') || at(s, 'E')) {
        s->p++;
        if (at(s, '+') || at(s, '-')) {
            s->p++;
        }
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scanner *s, struct span word)
{
    if ((size_t)(s->end - s->p) < word.n || memcmp(s->p, word.p, word.n) != 0) {
        return fail(s, "expected a value");
    }
    s->p += word.n;
    return true;
}

static bool scan_scalar(struct scanner *s, struct json_value *out)
{
    const char *from = s->p;
    bool ok = false;

    switch (*from) {
    case '"':
        return scan_string(s, false, out);
    case 't':
        out->type = JSON_TRUE;
        ok = scan_word(s, SPAN("true"));
        break;
    case 'f':
        out->type = JSON_FALSE;
        ok = scan_word(s, SPAN("false"));
        break;
    case 'n':
        out->type = JSON_NULL;
        ok = scan_word(s, SPAN("null"));
        break;
    default:
        if (*from != '-' && (*from < '0' || *from > '9')) {
            return fail(s, "expected a value");
        }
        out->type = JSON_NUMBER;
        ok = scan_number(s);
        break;
    }
    out->text = span_of(from, (size_t)(s->p - from));
    out->escaped = false;
    return ok;
}

/* ---- containers ---- */

/* A key and its colon; ends before the value. */
static bool scan_key(struct scanner *s, struct json_value *key)
{
    skip_space(s);
    if (!at(s, '"')) {
        return fail(s, "expected a key");
    }
    if (!scan_string(s, true, key)) {
        return false;
    }
    skip_space(s);
    if (!at(s, ':')) {
        return fail(s, "expected a colon");
    }
    s->p++;
    return true;
}

/*
 * Opens containers until a scalar or an empty container has been read. *done tells that a whole
 * value ended (a scalar, or an empty container that is closed again).
 */
static bool scan_start(struct scanner *s, struct json_value *scalar, bool *done)
{
    struct json_value key;

    skip_space(s);
    if (s->p == s->end) {
        return fail(s, "text ends where a value is expected");
    }
    *done = true;
    char open = *s->p;
    if (open != '{' && open != '[') {
        return scan_scalar(s, scalar);
    }
    if (!push(s, open == '{')) {
        return false;
    }
    s->p++;
    skip_space(s);
    if (at(s, open == '{' ? '}' : ']')) {
        s->p++;
        s->depth--;
        return true;
    }
    *done = false;
    return open == '[' || scan_key(s, &key);
}

/* After a value inside a container: closes what ends here. *more tells that a value follows. */
static bool scan_after(struct scanner *s, unsigned base, bool *more)
{
    struct json_value key;

    *more = false;
    while (s->depth > base) {
        skip_space(s);
        if (s->p == s->end) {
            return fail(s, "text ends inside an array or object");
        }
        bool object = in_object(s);
        if (*s->p == ',') {
            s->p++;
            *more = true;
            return !object || scan_key(s, &key);
        }
        if (*s->p != (object ? '}' : ']')) {
            return fail(s, object ? "expected a comma or }" : "expected a comma or ]");
        }
        s->p++;
        s->depth--;
    }
    return true;
}

static bool scan_value(struct scanner *s, struct json_value *out)
{
    const unsigned base = s->depth;
    struct json_value inner;
    bool more = true;

    skip_space(s);
    const char *from = s->p;
    *out = (struct json_value){0};
    if (at(s, '{')) {
        out->type = JSON_OBJECT;
    } else if (at(s, '[')) {
        out->type = JSON_ARRAY;
    }
    bool container = out->type != JSON_ABSENT;
    while (more) {
        bool done = false;
        if (!scan_start(s, container ? &inner : out, &done)) {
            return false;
        }
        if (done && !scan_after(s, base, &more)) {
            return false;
        }
    }
    out->text = span_of(from, (size_t)(s->p - from));
    return true;
}

static bool at_end(struct scanner *s)
{
    skip_space(s);
    return s->p == s->end || fail(s, "something after the end of the JSON text");
}

static struct scanner scanner_new(struct span text, const struct json_rules *rules,
                                  struct json_fault *fault)
{
    struct scanner s = {.start = text.p, .p = text.p, .rules = rules, .fault = fault};

    if (s.p == NULL) {
        s.start = "";
        s.p = s.start;
    }
    s.end = s.p + text.n;
    return s;
}

static bool scan_members(struct scanner *s, struct json_members *out)
{
    struct json_member m;

    skip_space(s);
    if (at(s, '}')) {
        s->p++;
        return true;
    }
    for (;;) {
        if (!scan_key(s, &m.key) || !scan_value(s, &m.value)) {
            return false;
        }
        const char *what = json_members_add(out, &m);
        if (what != NULL) {
            s->p = m.key.text.p;
            return fail(s, what);
        }
        skip_space(s);
        if (at(s, '}')) {
            s->p++;
            return true;
        }
        if (!at(s, ',')) {
            return fail(s, s->p == s->end ? "text ends inside an array or object"
                                          : "expected a comma or }");
        }
        s->p++;
    }
}

enum err json_check_object(struct span text, const struct json_rules *rules,
                           struct json_members *out, struct json_fault *fault)
{
    struct scanner s = scanner_new(text, rules, fault);

    out->n = 0;
    skip_space(&s);
    if (!at(&s, '{')) {
        (void)fail(&s, "expected an object");
        return ERR_PROTO;
    }
    if (!push(&s, true)) {
        return ERR_PROTO;
    }
    s.p++;
    return scan_members(&s, out) && at_end(&s) ? ERR_OK : ERR_PROTO;
}

enum err json_check_value(struct span text, const struct json_rules *rules, struct json_value *out,
                          struct json_fault *fault)
{
    struct scanner s = scanner_new(text, rules, fault);
    struct json_value v;

    if (!scan_value(&s, &v) || !at_end(&s)) {
        return ERR_PROTO;
    }
    *out = v;
    return ERR_OK;
}
