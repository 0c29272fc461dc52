/*
 * Any bytes through the JSON modules. The scanner agrees with a slow recursive reader written from
 * the grammar of RFC 8259; what it approved is walked, decoded and written again without a loss;
 * any bytes written as a string are valid JSON.
 *
 * Input: one byte of rules (bit 0: lone surrogates allowed; the rest: depth), then the text.
 */
#include "base/json.h"
#include "base/json_span.h"
#include "base/text.h"

#include <cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* ---- the slow reader: NULL, or where the thing at `p` ends ---- */

struct slow {
    const char *end;
    const struct json_rules *rules;
};

static const char *slow_value(const struct slow *s, const char *p, unsigned depth);

static const char *slow_space(const struct slow *s, const char *p)
{
    while (p != NULL && p < s->end && *p != '\0' && strchr(" \t\r\n", *p) != NULL) {
        p++;
    }
    return p;
}

static const char *slow_char(const struct slow *s, const char *p, char c)
{
    return p != NULL && p < s->end && *p == c ? p + 1 : NULL;
}

static long slow_hex(const struct slow *s, const char *p)
{
    long v = 0;

    if (s->end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *at = p[i] == '\0' ? NULL : strchr(p[i] < 'a' ? digits + 16 : digits, p[i]);
        if (at == NULL) {
            return -1;
        }
        v = v * 16 + (at - digits) % 16;
    }
    return v;
}

static const char *slow_escape(const struct slow *s, const char *p, bool key)
{
    if (p == s->end || *p == '\0' || strchr("\"\\/bfnrtu", *p) == NULL) {
        return NULL;
    }
    if (*p != 'u') {
        return p + 1;
    }
    long v = slow_hex(s, p + 1);
    if (v < 0 || (v == 0 && key)) {
        return NULL;
    }
    p += 5;
    if (s->rules->allow_lone_surrogate || v < 0xd800 || v > 0xdfff) {
        return p;
    }
    if (v > 0xdbff || s->end - p < 6 || p[0] != '\\' || p[1] != 'u') {
        return NULL;
    }
    v = slow_hex(s, p + 2);
    return v < 0xdc00 || v > 0xdfff ? NULL : p + 6;
}

static const char *slow_string(const struct slow *s, const char *p, bool key)
{
    p = slow_char(s, p, '"');
    while (p != NULL && p < s->end && *p != '"') {
        const unsigned char c = (unsigned char)*p;
        if (c == '\\') {
            p = slow_escape(s, p + 1, key);
        } else {
            size_t n = text_utf8_char(p, (size_t)(s->end - p));
            p = c < 0x20 || n == 0 ? NULL : p + n;
        }
    }
    return p == NULL ? NULL : slow_char(s, p, '"');
}

static const char *slow_digits(const struct slow *s, const char *p)
{
    const char *from = p;

    while (p < s->end && *p >= '0' && *p <= '9') {
        p++;
    }
    return p == from ? NULL : p;
}

static const char *slow_number(const struct slow *s, const char *p)
{
    if (*p == '-') {
        p++;
    }
    const char *zero = slow_char(s, p, '0');
    p = zero != NULL ? zero : slow_digits(s, p);
    const char *dot = slow_char(s, p, '.');
    if (dot != NULL) {
        p = slow_digits(s, dot);
    }
    const char *e = slow_char(s, p, 'e');
    e = e != NULL ? e : slow_char(s, p, 'E');
    if (e != NULL) {
        const char *sign = slow_char(s, e, '+');
        sign = sign != NULL ? sign : slow_char(s, e, '-');
        p = slow_digits(s, sign != NULL ? sign : e);
    }
    return p;
}

static const char *slow_word(const struct slow *s, const char *p, const char *word)
{
    const size_t n = strlen(word);

    return (size_t)(s->end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

static const char *slow_list(const struct slow *s, const char *p, unsigned depth, bool object)
{
    const char close = object ? '}' : ']';
    const char *closed = slow_char(s, slow_space(s, p), close);

    if (closed != NULL) {
        return closed;
    }
    while (p != NULL) {
        if (object) {
            p = slow_space(s, slow_string(s, slow_space(s, p), true));
            p = slow_char(s, p, ':');
        }
        p = p == NULL ? NULL : slow_space(s, slow_value(s, p, depth));
        closed = slow_char(s, p, close);
        if (closed != NULL) {
            return closed;
        }
        p = slow_char(s, p, ',');
    }
    return NULL;
}

static const char *slow_value(const struct slow *s, const char *p, unsigned depth)
{
    p = slow_space(s, p);
    if (p == s->end) {
        return NULL;
    }
    switch (*p) {
    case '{':
    case '[':
        return depth == 0 ? NULL : slow_list(s, p + 1, depth - 1, *p == '{');
    case '"':
        return slow_string(s, p, false);
    case 't':
        return slow_word(s, p, "true");
    case 'f':
        return slow_word(s, p, "false");
    case 'n':
        return slow_word(s, p, "null");
    default:
        return slow_number(s, p);
    }
}

/* ---- what has been approved ---- */

/* The string decoded, written and decoded again is the same text. */
static void string_keeps(struct json_value v)
{
    const struct json_rules strict = {.max_depth = 1};
    struct buf once;
    struct buf json;
    struct buf twice;
    struct json_value again;
    struct json_fault fault;

    buf_init(&once, 1 << 20);
    buf_init(&json, 1 << 23);
    buf_init(&twice, 1 << 20);
    json_string_decode(v, &once, NULL);
    must(text_utf8_valid(once.p, once.len));
    json_put_string(&json, buf_span(&once));
    must(json_check_value(buf_span(&json), &strict, &again, &fault) == ERR_OK);
    json_string_decode(again, &twice, NULL);
    must(buf_status(&twice) == ERR_OK && span_eq(buf_span(&once), buf_span(&twice)));
    if (once.len > 0 && memchr(once.p, '\0', once.len) == NULL) {
        must(json_string_is(v, buf_cstr(&once)));
    }
    buf_fini(&once);
    buf_fini(&json);
    buf_fini(&twice);
}

static void number_keeps(struct json_value v)
{
    double d = 0;
    double back = 0;
    uint64_t u = 0;
    char text[400];

    must(json_number_double(v, &d));
    if (v.text.n < sizeof(text)) {
        memcpy(text, v.text.p, v.text.n);
        text[v.text.n] = '\0';
        back = strtod(text, NULL);
        must(memcmp(&d, &back, sizeof(d)) == 0);
    }
    if (json_number_u64(v, &u)) {
        must((double)u == d);
    }
}

/* Every value is found again, and is just what the slow reader would read there. */
static void walk(struct json_value v, const struct slow *s, unsigned depth)
{
    struct json_value item;
    struct json_member member;
    size_t cursor = 0;

    must(slow_value(&(struct slow){v.text.p + v.text.n, s->rules}, v.text.p, depth) ==
         v.text.p + v.text.n);
    switch (v.type) {
    case JSON_STRING:
        must(v.escaped == (memchr(v.text.p, '\\', v.text.n) != NULL));
        string_keeps(v);
        break;
    case JSON_NUMBER:
        number_keeps(v);
        break;
    case JSON_ARRAY:
        while (json_array_next(v, &cursor, &item)) {
            walk(item, s, depth - 1);
        }
        break;
    case JSON_OBJECT:
        while (json_object_next(v, &cursor, &member)) {
            string_keeps(member.key);
            walk(member.value, s, depth - 1);
        }
        break;
    default:
        break;
    }
}

static bool same_key(struct json_value a, struct json_value b)
{
    struct buf da;
    struct buf db;

    buf_init(&da, 1 << 20);
    buf_init(&db, 1 << 20);
    json_string_decode(a, &da, NULL);
    json_string_decode(b, &db, NULL);
    bool same = span_eq(buf_span(&da), buf_span(&db));
    buf_fini(&da);
    buf_fini(&db);
    return same;
}

/* Whether the members of `v` can be collected, found the slow way. */
static bool collectable(struct json_value v)
{
    struct json_member keys[JSON_MEMBERS_MAX];
    struct json_member m;
    size_t cursor = 0;
    size_t n = 0;

    while (json_object_next(v, &cursor, &m)) {
        for (size_t i = 0; i < n; i++) {
            if (same_key(keys[i].key, m.key)) {
                return false;
            }
        }
        if (n == JSON_MEMBERS_MAX) {
            return false;
        }
        keys[n++] = m;
    }
    return true;
}

static void check_members(struct span text, const struct json_rules *rules,
                          const struct json_value *v)
{
    static struct json_members m;
    static struct json_members again;
    struct json_fault fault = {.offset = 0};
    enum err err = json_check_object(text, rules, &m, &fault);
    const bool want = v != NULL && v->type == JSON_OBJECT && collectable(*v);

    must(err == (want ? ERR_OK : ERR_PROTO));
    must(err == ERR_OK || fault.offset <= text.n);
    for (size_t i = 0; i < m.n; i++) { /* those before a fault, too */
        struct json_value alone;
        must(json_check_value(m.m[i].value.text, rules, &alone, &fault) == ERR_OK);
        must(alone.type == m.m[i].value.type && alone.escaped == m.m[i].value.escaped);
    }
    if (v == NULL || v->type != JSON_OBJECT) {
        return;
    }
    must(json_object_members(*v, &again, &fault) == err);
    must(again.n == m.n);
    for (size_t i = 0; i < m.n; i++) {
        must(m.m[i].key.text.p == again.m[i].key.text.p);
        must(m.m[i].value.text.p == again.m[i].value.text.p);
        must(m.m[i].value.text.n == again.m[i].value.text.n);
    }
}

static void written_is_valid(struct span text)
{
    const struct json_rules strict = {.max_depth = 1};
    struct json_value v;
    struct json_fault fault;
    struct buf b;
    struct buf back;

    buf_init(&b, 1 << 25);
    buf_init(&back, 1 << 25);
    json_put_string(&b, text);
    must(buf_status(&b) == ERR_OK);
    must(json_check_value(buf_span(&b), &strict, &v, &fault) == ERR_OK);
    json_string_decode(v, &back, NULL);
    if (text_utf8_valid(text.p, text.n)) {
        must(span_eq(buf_span(&back), text));
    }
    buf_fini(&b);
    buf_fini(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 16) {
        return 0;
    }
    const struct json_rules rules = {.max_depth = 1 + data[0] / 2u,
                                     .allow_lone_surrogate = (data[0] & 1u) != 0};
    const struct span text = span_of((const char *)data + 1, size - 1);
    const struct slow s = {text.p + text.n, &rules};
    struct json_value v;
    struct json_fault fault = {.offset = 0};

    const enum err err = json_check_value(text, &rules, &v, &fault);
    const char *end = slow_space(&s, slow_value(&s, text.p, rules.max_depth));
    must(err == (end != NULL && end == s.end ? ERR_OK : ERR_PROTO));
    must(err == ERR_OK || (fault.offset <= text.n && fault.what != NULL));
    if (err == ERR_OK) {
        walk(v, &s, rules.max_depth);
    }
    check_members(text, &rules, err == ERR_OK ? &v : NULL);
    written_is_valid(text);
    cJSON_Delete(json_document(text, 1 << 16));
    return 0;
}
