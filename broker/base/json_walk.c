/*
 * Walking JSON text that the scanner has validated: skipping values, finding members, decoding
 * strings. Nothing here looks for errors; see json_span.h.
 */
#include "base/json_span.h"
#include "base/json_span_private.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* ---- skipping ---- */

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) {
        p++;
    }
    return p;
}

/* From the opening quote to after the closing one. */
static const char *skip_string(const char *p, const char *end, bool *escaped)
{
    const char *from = p + 1;
    const char *quote = from;

    for (;;) {
        quote = memchr(quote, '"', (size_t)(end - quote));
        if (quote == NULL) {
            return end; /* not validated text */
        }
        const char *back = quote;
        while (back > from && back[-1] == '\\') {
            back--;
        }
        if ((quote - back) % 2 == 0) {
            break;
        }
        quote++;
    }
    *escaped = memchr(from, '\\', (size_t)(quote - from)) != NULL;
    return quote + 1;
}

static const char *skip_container(const char *p, const char *end)
{
    size_t depth = 0;
    bool escaped = false;

    while (p < end) {
        switch (*p) {
        case '"':
            p = skip_string(p, end, &escaped);
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            if (depth == 0) {
                return p + 1;
            }
            break;
        default:
            break;
        }
        p++;
    }
    return end;
}

static bool ends_scalar(char c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_scalar(const char *p, const char *end)
{
    while (p < end && !ends_scalar(*p)) {
        p++;
    }
    return p;
}

/* The value at `p` (white space before it allowed); returns where it ends. */
static const char *read_value(const char *p, const char *end, struct json_value *out)
{
    p = skip_space(p, end);
    const char *from = p;

    out->escaped = false;
    if (p == end) {
        out->type = JSON_ABSENT;
        out->text = span_of(p, 0);
        return p;
    }
    switch (*p) {
    case '"':
        out->type = JSON_STRING;
        p = skip_string(p, end, &out->escaped);
        break;
    case '{':
        out->type = JSON_OBJECT;
        p = skip_container(p, end);
        break;
    case '[':
        out->type = JSON_ARRAY;
        p = skip_container(p, end);
        break;
    case 't':
        out->type = JSON_TRUE;
        p = skip_scalar(p, end);
        break;
    case 'f':
        out->type = JSON_FALSE;
        p = skip_scalar(p, end);
        break;
    case 'n':
        out->type = JSON_NULL;
        p = skip_scalar(p, end);
        break;
    default:
        out->type = JSON_NUMBER;
        p = skip_scalar(p, end);
        break;
    }
    out->text = span_of(from, (size_t)(p - from));
    return p;
}

/* Moves *cursor to the next item's first byte; false at the container's end. */
static bool next_item(struct json_value container, enum json_type type, size_t *cursor)
{
    if (container.type != type || *cursor >= container.text.n) {
        return false;
    }
    const char *start = container.text.p;
    const char *end = start + container.text.n;
    /* A whole text may have white space before it. */
    const char *p = *cursor == 0 ? skip_space(start, end) : start + *cursor;
    if (*cursor == 0 && p < end) {
        p++;
    }
    p = skip_space(p, end);
    if (p < end && *p == ',') {
        p = skip_space(p + 1, end);
    }
    if (p >= end || *p == (type == JSON_ARRAY ? ']' : '}')) {
        return false;
    }
    *cursor = (size_t)(p - start);
    return true;
}

bool json_array_next(struct json_value array, size_t *cursor, struct json_value *item)
{
    if (!next_item(array, JSON_ARRAY, cursor)) {
        return false;
    }
    const char *start = array.text.p;
    *cursor = (size_t)(read_value(start + *cursor, start + array.text.n, item) - start);
    return true;
}

bool json_object_next(struct json_value object, size_t *cursor, struct json_member *member)
{
    if (!next_item(object, JSON_OBJECT, cursor)) {
        return false;
    }
    const char *start = object.text.p;
    const char *end = start + object.text.n;
    const char *p = read_value(start + *cursor, end, &member->key);
    p = skip_space(p, end);
    if (p < end) {
        p++; /* the colon */
    }
    *cursor = (size_t)(read_value(p, end, &member->value) - start);
    return true;
}

/* ---- decoding ---- */

bool json_hex4(const char *p, unsigned *out)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        unsigned digit = 0;
        if (c >= '0' && c <= '9') {
            digit = c - (unsigned)'0';
        } else if ((c | 0x20u) >= 'a' && (c | 0x20u) <= 'f') {
            digit = (c | 0x20u) - (unsigned)'a' + 10;
        } else {
            return false;
        }
        v = v << 4 | digit;
    }
    *out = v;
    return true;
}

struct decoder {
    const char *p;
    const char *end; /* the closing quote */
};

static struct decoder decoder_new(struct json_value string)
{
    const char *p = string.text.p;

    return (struct decoder){.p = p + 1, .end = p + string.text.n - 1};
}

static bool next_escape_is_low(const struct decoder *d, unsigned *low)
{
    return d->end - d->p >= 6 && d->p[0] == '\\' && d->p[1] == 'u' && json_hex4(d->p + 2, low) &&
           *low >= 0xdc00 && *low <= 0xdfff;
}

static char unescape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

static size_t put_code(char out[4], unsigned high, unsigned low)
{
    return text_utf8_put(out, 0x10000u + ((high - 0xd800u) << 10) + (low - 0xdc00u));
}

static size_t put_replacement(char out[4])
{
    memcpy(out, REPLACEMENT, 3);
    return 3;
}

/* One character (or byte of a raw one) into `out`; *lone is a high surrogate at the string's end.
 */
static size_t decode_next(struct decoder *d, char out[4], unsigned *lone)
{
    unsigned v = 0;
    unsigned low = 0;

    *lone = 0;
    if (*d->p != '\\') {
        out[0] = *d->p++;
        return 1;
    }
    if (d->p[1] != 'u') {
        out[0] = unescape(d->p[1]);
        d->p += 2;
        return 1;
    }
    (void)json_hex4(d->p + 2, &v);
    d->p += 6;
    if (v < 0xd800 || v > 0xdfff) {
        return text_utf8_put(out, v);
    }
    if (v <= 0xdbff && next_escape_is_low(d, &low)) {
        d->p += 6;
        return put_code(out, v, low);
    }
    if (v <= 0xdbff && d->p == d->end) {
        *lone = v;
    }
    return put_replacement(out);
}

/* What a high surrogate left by the string before becomes. */
static void decode_carried(struct decoder *d, struct buf *out, uint16_t *carry)
{
    unsigned low = 0;
    char bytes[4];
    size_t n = 0;

    if (*carry == 0 || d->p == d->end) {
        return;
    }
    if (next_escape_is_low(d, &low)) {
        d->p += 6;
        n = put_code(bytes, *carry, low);
    } else {
        n = put_replacement(bytes);
    }
    buf_put(out, bytes, n);
    *carry = 0;
}

void json_string_decode(struct json_value string, struct buf *out, uint16_t *carry)
{
    if (string.type != JSON_STRING) {
        return;
    }
    struct decoder d = decoder_new(string);
    if (carry != NULL) {
        decode_carried(&d, out, carry);
    }
    while (d.p < d.end) {
        size_t left = (size_t)(d.end - d.p);
        const char *slash = string.escaped ? memchr(d.p, '\\', left) : NULL;
        size_t run = slash == NULL ? left : (size_t)(slash - d.p);
        char bytes[4];
        unsigned lone = 0;
        buf_put(out, d.p, run);
        d.p += run;
        if (slash == NULL) {
            break;
        }
        size_t n = decode_next(&d, bytes, &lone);
        if (lone != 0 && carry != NULL) {
            *carry = (uint16_t)lone;
        } else {
            buf_put(out, bytes, n);
        }
    }
}

static bool strings_equal(struct json_value a, struct json_value b)
{
    if (!a.escaped && !b.escaped) {
        return span_eq(a.text, b.text);
    }
    struct decoder da = decoder_new(a);
    struct decoder db = decoder_new(b);
    char bytes_a[4];
    char bytes_b[4];
    size_t na = 0;
    size_t nb = 0;
    size_t ia = 0;
    size_t ib = 0;
    unsigned lone = 0;
    for (;;) {
        if (ia == na && da.p < da.end) {
            na = decode_next(&da, bytes_a, &lone);
            ia = 0;
        }
        if (ib == nb && db.p < db.end) {
            nb = decode_next(&db, bytes_b, &lone);
            ib = 0;
        }
        if (ia == na || ib == nb) {
            return ia == na && ib == nb;
        }
        if (bytes_a[ia++] != bytes_b[ib++]) {
            return false;
        }
    }
}

bool json_string_is(struct json_value string, const char *name)
{
    if (string.type != JSON_STRING) {
        return false;
    }
    if (!string.escaped) {
        return span_eq(span_of(string.text.p + 1, string.text.n - 2), span_str(name));
    }
    struct decoder d = decoder_new(string);
    unsigned lone = 0;
    while (d.p < d.end) {
        char bytes[4];
        size_t n = decode_next(&d, bytes, &lone);
        /* A decoded NUL is no end of `name`; strncmp would take it for one. */
        if (bytes[0] == '\0' || strncmp(name, bytes, n) != 0) {
            return false;
        }
        name += n;
    }
    return *name == '\0';
}

/* ---- members ---- */

const char *json_members_add(struct json_members *out, const struct json_member *m)
{
    for (size_t i = 0; i < out->n; i++) {
        if (strings_equal(out->m[i].key, m->key)) {
            return "duplicate key";
        }
    }
    if (out->n == JSON_MEMBERS_MAX) {
        return "too many members";
    }
    out->m[out->n++] = *m;
    return NULL;
}

enum err json_object_members(struct json_value object, struct json_members *out,
                             struct json_fault *fault)
{
    struct json_member m;
    size_t cursor = 0;

    out->n = 0;
    while (json_object_next(object, &cursor, &m)) {
        const char *what = json_members_add(out, &m);
        if (what != NULL) {
            fault->offset = (size_t)(m.key.text.p - object.text.p);
            fault->what = what;
            return ERR_PROTO;
        }
    }
    return ERR_OK;
}

struct json_value json_get(const struct json_members *members, const char *name)
{
    for (size_t i = 0; i < members->n; i++) {
        if (json_string_is(members->m[i].key, name)) {
            return members->m[i].value;
        }
    }
    return (struct json_value){0};
}

struct json_value json_find(struct json_value object, const char *name)
{
    struct json_member m;
    size_t cursor = 0;

    while (json_object_next(object, &cursor, &m)) {
        if (json_string_is(m.key, name)) {
            return m.value;
        }
    }
    return (struct json_value){0};
}

/* ---- numbers ---- */

bool json_number_u64(struct json_value number, uint64_t *out)
{
    return number.type == JSON_NUMBER && text_u64(number.text, out);
}

/* More digits than any double needs for correct rounding (767); what follows is one sticky digit.
 */
#define DIGITS_MAX 800

struct decimal {
    char text[DIGITS_MAX + 32]; /* sign, digits, exponent, NUL */
    size_t n;
    size_t digits; /* without leading zeros */
    int64_t exponent;
};

static void decimal_digit(struct decimal *d, char c, bool fraction)
{
    if (fraction) {
        d->exponent--;
    }
    if (c == '0' && d->digits == 0) {
        return;
    }
    if (d->digits < DIGITS_MAX) {
        d->text[d->n++] = c;
        d->digits++;
        return;
    }
    d->exponent++;
    if (c != '0') {
        d->text[d->n - 1] = (char)(d->text[d->n - 1] | 1); /* '0' to '1': not exactly half way */
    }
}

static int64_t read_exponent(const char *p, const char *end)
{
    const bool negative = *p == '-';
    int64_t v = 0;

    if (*p == '-' || *p == '+') {
        p++;
    }
    for (; p < end && v < INT64_MAX / 100; p++) {
        v = v * 10 + (*p - '0');
    }
    return negative ? -v : v;
}

bool json_number_double(struct json_value number, double *out)
{
    struct decimal d = {.n = 0};
    bool fraction = false;

    if (number.type != JSON_NUMBER) {
        return false;
    }
    const char *end = number.text.p + number.text.n;
    for (const char *p = number.text.p; p < end; p++) {
        if (*p == '-') {
            d.text[d.n++] = '-';
        } else if (*p == '.') {
            fraction = true;
        } else if (*p == 'e' || *p == 'E') {
            d.exponent += read_exponent(p + 1, end);
            break;
        } else {
            decimal_digit(&d, *p, fraction);
        }
    }
    if (d.digits == 0) {
        d.text[d.n++] = '0';
    }
    (void)snprintf(d.text + d.n, sizeof(d.text) - d.n, "e%" PRId64, d.exponent);
    *out = strtod(d.text, NULL);
    return true;
}
