/*
 * Exact secrets: every form of each is a needle; at each byte the needles with that first byte are
 * compared, the longest first. So a text is cut into matches from the left, and the same text in
 * pieces is cut in the same places: nothing is decided while a longer needle could still match.
 *
 * Key forms: a table of prefixes and the characters that follow them. What is already redacted
 * stays as it is, so a text may pass twice.
 *
 * Filled by gate/config, read by log, llm and events from any thread.
 */
#include "base/redact.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECRET_MIN  4 /* bytes; a shorter one is not matched */
#define ENCODED_MIN 8 /* bytes; a shorter one is matched in its plain form only */

struct needle {
    char *p;
    size_t n;
};

struct redact {
    struct needle *needles; /* by first byte, then longest first */
    size_t n;
    size_t cap;
    size_t first[257]; /* needles with first byte b: first[b] .. first[b + 1] */
    size_t longest;
};

/* ---- the needles ---- */

struct redact *redact_new(void)
{
    return calloc(1, sizeof(struct redact));
}

void redact_free(struct redact *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        explicit_bzero(r->needles[i].p, r->needles[i].n);
        free(r->needles[i].p);
    }
    free(r->needles);
    free(r);
}

static bool needle_before(struct needle a, struct needle b)
{
    if (a.p[0] != b.p[0]) {
        return (unsigned char)a.p[0] < (unsigned char)b.p[0];
    }
    return a.n > b.n;
}

static void index_needles(struct redact *r)
{
    size_t i = 0;

    for (size_t b = 0; b <= 256; b++) {
        while (i < r->n && (unsigned char)r->needles[i].p[0] < b) {
            i++;
        }
        r->first[b] = i;
    }
}

/* Keeps a copy of `form`, in its place. */
static enum err add_needle(struct redact *r, struct span form)
{
    for (size_t i = 0; i < r->n; i++) {
        if (span_eq(span_of(r->needles[i].p, r->needles[i].n), form)) {
            return ERR_OK;
        }
    }
    if (r->n == r->cap) {
        size_t cap = r->cap == 0 ? 16 : r->cap * 2;
        struct needle *grown = realloc(r->needles, cap * sizeof(*grown));
        if (grown == NULL) {
            return ERR_NOMEM;
        }
        r->needles = grown;
        r->cap = cap;
    }
    struct needle needle = {malloc(form.n), form.n};
    if (needle.p == NULL) {
        return ERR_NOMEM;
    }
    memcpy(needle.p, form.p, form.n);
    size_t at = r->n;
    while (at > 0 && needle_before(needle, r->needles[at - 1])) {
        r->needles[at] = r->needles[at - 1];
        at--;
    }
    r->needles[at] = needle;
    r->n++;
    r->longest = form.n > r->longest ? form.n : r->longest;
    index_needles(r);
    return ERR_OK;
}

/* The URL-encoded form; `work` has room for three times the secret. */
static enum err add_url_form(struct redact *r, struct span secret, const char *hex, char *work)
{
    size_t n = 0;

    for (size_t i = 0; i < secret.n; i++) {
        unsigned char c = (unsigned char)secret.p[i];
        bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '.' || c == '_' || c == '~';
        if (kept) {
            work[n++] = (char)c;
        } else {
            work[n++] = '%';
            work[n++] = hex[c >> 4];
            work[n++] = hex[c & 15];
        }
    }
    return add_needle(r, span_of(work, n));
}

/*
 * The base64 characters that are the same whatever stands around the secret, when `before` bytes
 * stand in the same group of three before it: those whose six bits all lie in the secret.
 */
static enum err add_base64_form(struct redact *r, struct span secret, size_t before,
                                const char *alphabet, char *work)
{
    size_t from = before * 8;
    size_t to = from + secret.n * 8;
    size_t n = 0;

    for (size_t bit = (from + 5) / 6 * 6; bit + 6 <= to; bit += 6) {
        size_t at = (bit - from) / 8;
        unsigned pair = (unsigned)(unsigned char)secret.p[at] << 8;
        pair |= at + 1 < secret.n ? (unsigned char)secret.p[at + 1] : 0u;
        work[n++] = alphabet[(pair >> (10 - (bit - from) % 8)) & 63u];
    }
    return add_needle(r, span_of(work, n));
}

enum err redact_add(struct redact *r, struct span secret)
{
    static const char *const alphabets[] = {
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    };

    if (secret.n < SECRET_MIN) {
        return ERR_LIMIT;
    }
    enum err err = add_needle(r, secret);
    if (err != ERR_OK || secret.n < ENCODED_MIN) {
        return err;
    }
    char *work = secret.n <= SIZE_MAX / 3 ? malloc(secret.n * 3) : NULL;
    if (work == NULL) {
        return ERR_NOMEM;
    }
    err = add_url_form(r, secret, "0123456789ABCDEF", work);
    err = err != ERR_OK ? err : add_url_form(r, secret, "0123456789abcdef", work);
    for (size_t i = 0; i < 6 && err == ERR_OK; i++) {
        err = add_base64_form(r, secret, i % 3, alphabets[i / 3], work);
    }
    explicit_bzero(work, secret.n * 3);
    free(work);
    return err;
}

/* ---- what looks like a key ---- */

enum key_kind {
    KEY_WHOLE,  /* prefix and what follows are the key */
    KEY_SCHEME, /* a word, blanks, the key: "Bearer KEY" */
    KEY_FIELD   /* a name, a colon or equals sign, the key, perhaps in quotes */
};

struct key_form {
    const char *prefix;
    enum key_kind kind;
    size_t min;  /* characters that have to follow */
    bool inside; /* also found in the middle of a word */
};

/* A prefix that begins with another one stands before it. */
static const struct key_form KEY_FORMS[] = {
    {"sk-", KEY_WHOLE, 8, false},         {"sk_live_", KEY_WHOLE, 8, true},
    {"sk_test_", KEY_WHOLE, 8, true},     {"AKIA", KEY_WHOLE, 12, true},
    {"ASIA", KEY_WHOLE, 12, true},        {"AIza", KEY_WHOLE, 20, true},
    {"github_pat_", KEY_WHOLE, 16, true}, {"ghp_", KEY_WHOLE, 16, true},
    {"gho_", KEY_WHOLE, 16, true},        {"ghu_", KEY_WHOLE, 16, true},
    {"ghs_", KEY_WHOLE, 16, true},        {"ghr_", KEY_WHOLE, 16, true},
    {"glpat-", KEY_WHOLE, 16, true},      {"xoxa-", KEY_WHOLE, 8, true},
    {"xoxb-", KEY_WHOLE, 8, true},        {"xoxe-", KEY_WHOLE, 8, true},
    {"xoxp-", KEY_WHOLE, 8, true},        {"xoxr-", KEY_WHOLE, 8, true},
    {"xoxs-", KEY_WHOLE, 8, true},        {"xapp-", KEY_WHOLE, 8, true},
    {"xai-", KEY_WHOLE, 16, false},       {"gsk_", KEY_WHOLE, 16, false},
    {"hf_", KEY_WHOLE, 20, false},        {"eyJ", KEY_WHOLE, 30, false}, /* a JSON web token */
    {"Bearer", KEY_SCHEME, 6, false},     {"Basic", KEY_SCHEME, 12, false},
    {"x-api-key", KEY_FIELD, 1, true},    {"x-goog-api-key", KEY_FIELD, 1, true},
    {"api-key", KEY_FIELD, 1, true},      {"api_key", KEY_FIELD, 1, true},
    {"apikey", KEY_FIELD, 1, true},       {"x-amz-security-token", KEY_FIELD, 1, true},
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_key_char(char c)
{
    return is_word(c) || (c != '\0' && strchr("-+/=.~", c) != NULL);
}

/* In the value of a field; brackets, so that REDACT_MARK itself is none. */
static bool is_field_char(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f && strchr("\"'\\,;&<>[]{}()", c) == NULL;
}

static size_t run(struct span t, size_t at, bool (*good)(char))
{
    size_t n = 0;

    while (at + n < t.n && good(t.p[at + n])) {
        n++;
    }
    return n;
}

static size_t skip(struct span t, size_t at, const char *set)
{
    while (at < t.n && t.p[at] != '\0' && strchr(set, t.p[at]) != NULL) {
        at++;
    }
    return at;
}

/* Is there a key of form `f` at `at`? Then it is [*from, *to). */
static bool form_at(const struct key_form *f, struct span t, size_t at, size_t *from, size_t *to)
{
    size_t n = strlen(f->prefix);
    size_t here = at + n;

    if (t.n - at < n) {
        return false;
    }
    if (f->kind == KEY_WHOLE) {
        *from = at;
        *to = here + run(t, here, is_key_char);
        while (*to > here && t.p[*to - 1] == '.') { /* the end of a sentence */
            (*to)--;
        }
        return memcmp(t.p + at, f->prefix, n) == 0 && *to - here >= f->min;
    }
    if (strncasecmp(t.p + at, f->prefix, n) != 0) {
        return false;
    }
    if (f->kind == KEY_SCHEME) {
        *from = skip(t, here, " \t");
        *to = *from + run(t, *from, is_key_char);
        return *from > here && *to - *from >= f->min;
    }
    size_t sign = skip(t, here, " \t\"'\\");
    *from = skip(t, sign, ":=");
    if (*from == sign) {
        return false;
    }
    *from = skip(t, *from, " \t\"'\\");
    *to = *from + run(t, *from, is_field_char);
    return *to - *from >= f->min;
}

/* task-… is no sk-…; but \nsk-… and %20sk-… are */
static bool starts_word(struct span t, size_t at)
{
    bool inside = at > 0 && (is_word(t.p[at - 1]) || t.p[at - 1] == '-');
    bool escaped = (at > 1 && t.p[at - 2] == '\\') || (at > 2 && t.p[at - 3] == '%');

    return !inside || escaped;
}

static bool key_at(struct span t, size_t at, size_t *from, size_t *to)
{
    bool starts = starts_word(t, at);

    for (size_t i = 0; i < sizeof(KEY_FORMS) / sizeof(KEY_FORMS[0]); i++) {
        bool likely = (KEY_FORMS[i].prefix[0] | 0x20) == (t.p[at] | 0x20);
        if (likely && (starts || KEY_FORMS[i].inside) && form_at(&KEY_FORMS[i], t, at, from, to)) {
            return true;
        }
    }
    return false;
}

/* ---- texts ---- */

enum match { MATCH_NONE, MATCH_FULL, MATCH_OPEN };

/*
 * What begins at `at`: nothing, a secret of *n bytes, or (only when more text may come) something
 * that could become one, or a longer one.
 */
static enum match match_at(const struct redact *r, struct span t, size_t at, bool more, size_t *n)
{
    unsigned char b = (unsigned char)t.p[at];
    size_t left = t.n - at;

    for (size_t i = r->first[b]; i < r->first[b + 1]; i++) {
        const struct needle *needle = &r->needles[i];
        if (needle->n <= left && memcmp(needle->p, t.p + at, needle->n) == 0) {
            *n = needle->n;
            return MATCH_FULL;
        }
        if (more && needle->n > left && memcmp(needle->p, t.p + at, left) == 0) {
            return MATCH_OPEN;
        }
    }
    return MATCH_NONE;
}

/* Where a key that ends at `to` ends when the secrets that begin in it are counted in. */
static size_t extend(const struct redact *r, struct span t, size_t from, size_t to)
{
    for (size_t at = from; r != NULL && at < to; at++) {
        size_t n = 0;
        if (match_at(r, t, at, false, &n) == MATCH_FULL && at + n > to) {
            to = at + n;
        }
    }
    return to;
}

/* Appends `t`, scrubbed, and returns how many of its bytes are settled. */
static size_t scrub(const struct redact *r, struct span t, bool key_forms, bool more,
                    struct buf *out)
{
    size_t plain = 0; /* where what is not yet written starts */
    size_t at = 0;

    if (t.n == 0) {
        return 0;
    }
    while (at < t.n) {
        size_t n = 0;
        size_t from = at;
        size_t to = at;
        enum match m = r != NULL ? match_at(r, t, at, more, &n) : MATCH_NONE;
        if (m == MATCH_OPEN) {
            break;
        }
        if (m == MATCH_FULL) {
            to = at + n;
        } else if (key_forms && key_at(t, at, &from, &to)) {
            to = extend(r, t, from, to);
        } else {
            at++;
            continue;
        }
        buf_put(out, t.p + plain, from - plain);
        buf_put_str(out, REDACT_MARK);
        at = to;
        plain = to;
    }
    buf_put(out, t.p + plain, at - plain);
    return at;
}

void redact_text(const struct redact *r, struct span text, bool key_forms, struct buf *out)
{
    (void)scrub(r, text, key_forms, false, out);
}

void redact_stream_init(struct redact_stream *s, const struct redact *r)
{
    s->r = r;
    /* What is held is shorter than the longest secret, but a piece joins it for a moment. */
    buf_init(&s->held, SIZE_MAX / 4);
}

void redact_stream_fini(struct redact_stream *s)
{
    buf_wipe(&s->held);
}

/* The stream cannot go on without a gap: let the output say so. */
static void fail_output(const struct redact_stream *s, struct buf *out)
{
    if (out->err == ERR_OK) {
        out->err = buf_status(&s->held);
    }
}

void redact_stream_feed(struct redact_stream *s, struct span text, struct buf *out)
{
    if (s->r == NULL || s->r->n == 0) {
        buf_put_span(out, text);
        return;
    }
    if (text.n == 0) {
        return;
    }
    if (s->held.len == 0 && buf_status(&s->held) == ERR_OK) {
        size_t done = scrub(s->r, text, false, true, out);
        buf_put(&s->held, text.p + done, text.n - done);
    } else {
        buf_put_span(&s->held, text);
        if (buf_status(&s->held) == ERR_OK) {
            buf_consume(&s->held, scrub(s->r, buf_span(&s->held), false, true, out));
        }
    }
    fail_output(s, out);
}

void redact_stream_end(struct redact_stream *s, struct buf *out)
{
    if (s->r != NULL) {
        (void)scrub(s->r, buf_span(&s->held), false, false, out);
    }
    fail_output(s, out);
    buf_wipe(&s->held);
}
