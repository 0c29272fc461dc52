/*
 * Single values of a configuration: from text to the field of the struct, and what a value has to
 * be, in words. Pure. Called by conf.c for what stands in the file and for the table's defaults.
 */
#include "base/conf_private.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LENGTH 63u /* bytes of a CONF_NAME, at most */

const char *conf_shown(struct span text, char out[CONF_SHOWN_SIZE])
{
    size_t n = text.n < CONF_SHOWN_SIZE - 4 ? text.n : CONF_SHOWN_SIZE - 4;

    for (size_t i = 0; i < n; i++) {
        out[i] = text.p[i] >= ' ' && text.p[i] <= '~' ? text.p[i] : '?';
    }
    memcpy(out + n, n < text.n ? "..." : "", n < text.n ? 4 : 1);
    return out;
}

void conf_join(const char *const *choices, const char *suffix, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; choices[i] != NULL && n < size; i++) {
        int more = snprintf(out + n, size - n, "%s%s%s", i == 0 ? "" : ", ", choices[i], suffix);
        n += more > 0 ? (size_t)more : 0;
    }
}

static void wanted_number(const struct conf_key *k, char out[CONF_WANTED_SIZE])
{
    unsigned long long min = k->min;
    unsigned long long max = k->max;

    switch (k->type) {
    case CONF_UINT:
        (void)snprintf(out, CONF_WANTED_SIZE, "a whole number from %llu to %llu", min, max);
        break;
    case CONF_SIZE:
        (void)snprintf(out, CONF_WANTED_SIZE,
                       "a size from %llu to %llu bytes, such as 4096 or 64KiB", min, max);
        break;
    case CONF_DURATION:
        (void)snprintf(out, CONF_WANTED_SIZE,
                       "a time from %llu.%03llu to %llu seconds, such as 30, 0.5 or 10m",
                       min / 1000, min % 1000, max / 1000);
        break;
    case CONF_NANO:
        (void)snprintf(out, CONF_WANTED_SIZE, "a number from %llu to %llu, such as 20 or 0.5",
                       min / 1000000000, max / 1000000000);
        break;
    default:
        break;
    }
}

const char *conf_wanted(const struct conf_key *k, char out[CONF_WANTED_SIZE])
{
    char list[CONF_WANTED_SIZE / 2];
    unsigned long long min = k->min;
    unsigned long long max = k->max;

    switch (k->type) {
    case CONF_STRING:
        (void)snprintf(out, CONF_WANTED_SIZE, "a text");
        break;
    case CONF_NAME:
        (void)snprintf(out, CONF_WANTED_SIZE,
                       "a name of 1 to 63 of the characters A-Z a-z 0-9 _ . -");
        break;
    case CONF_URL:
        conf_join(k->choices, "://HOST", list, sizeof(list));
        (void)snprintf(out, CONF_WANTED_SIZE, "a URL (%s) without user, query and fragment", list);
        break;
    case CONF_BOOL:
        (void)snprintf(out, CONF_WANTED_SIZE, "true or false");
        break;
    case CONF_UINT:
    case CONF_SIZE:
    case CONF_DURATION:
    case CONF_NANO:
        wanted_number(k, out);
        break;
    case CONF_ENUM:
        conf_join(k->choices, "", list, sizeof(list));
        (void)snprintf(out, CONF_WANTED_SIZE, "one of %s", list);
        break;
    case CONF_MODE:
        (void)snprintf(out, CONF_WANTED_SIZE, "a file mode of octal digits, such as \"0660\"");
        break;
    case CONF_SECRET:
        (void)snprintf(
            out, CONF_WANTED_SIZE,
            "{ env: NAME }, { file: PATH }, { credential: NAME } or { command: [PROGRAM] }");
        break;
    case CONF_LIST_OF_STRING:
    case CONF_LIST_OF_SECRET:
    case CONF_LIST_OF_MAP:
        (void)snprintf(out, CONF_WANTED_SIZE, "a list of %llu to %llu %s", min, max,
                       k->type == CONF_LIST_OF_MAP      ? "maps"
                       : k->type == CONF_LIST_OF_STRING ? "texts"
                                                        : "secrets");
        break;
    case CONF_MAP:
        (void)snprintf(out, CONF_WANTED_SIZE, "a map");
        break;
    case CONF_MAP_OF_STRING:
        (void)snprintf(out, CONF_WANTED_SIZE, "a map of %llu to %llu keys", min, max);
        break;
    }
    return out;
}

enum err conf_put_text(void *field, struct span text)
{
    char *copy = malloc(text.n + 1);
    char *old;

    if (copy == NULL) {
        return ERR_NOMEM;
    }
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    memcpy(&old, field, sizeof(old));
    free(old);
    memcpy(field, &copy, sizeof(copy));
    return ERR_OK;
}

static void put_number(const struct conf_key *k, void *field, uint64_t v)
{
    if (k->size == sizeof(uint64_t)) {
        memcpy(field, &v, sizeof(v));
    } else {
        uint32_t narrow = (uint32_t)v; /* the table's range fits: conf_parse's caller saw to it */
        memcpy(field, &narrow, sizeof(narrow));
    }
}

const char *conf_text_fault(struct span text, uint64_t max)
{
    if (text.n == 0) {
        return "is empty";
    }
    if (text.n > (max != 0 ? max : CONF_MAX_STRING)) {
        return "is too long";
    }
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c < 0x20 || c == 0x7f) {
            return "has a control character";
        }
    }
    return NULL;
}

static const char *name_fault(struct span text)
{
    if (text.n == 0 || text.n > NAME_LENGTH) {
        return text.n == 0 ? "is empty" : "is too long";
    }
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.' || c == '-';
        if (!good) {
            return "has a character that a name cannot have";
        }
    }
    return NULL;
}

/* Is "HOST", "HOST:PORT", "[V6]" or "[V6]:PORT" well-formed? */
static bool authority_good(struct span a)
{
    const char *end = a.n > 0 && a.p[0] == '[' ? memchr(a.p, ']', a.n) : NULL;
    struct span rest = a;

    if (a.n == 0 || (a.p[0] == '[' && (end == NULL || end == a.p + 1))) {
        return false;
    }
    if (end != NULL) {
        rest = span_of(end + 1, a.n - (size_t)(end + 1 - a.p));
        if (rest.n == 0) {
            return true;
        }
    }
    const char *colon = memchr(rest.p, ':', rest.n);
    if (colon == NULL) {
        return end == NULL;
    }
    uint64_t port = 0;
    bool host_good = end != NULL ? colon == rest.p : colon > rest.p;
    return host_good &&
           text_u64(span_of(colon + 1, rest.n - (size_t)(colon + 1 - rest.p)), &port) &&
           port >= 1 && port <= 65535;
}

/* As text_fault; drops the slashes at the end of *text. */
static const char *url_fault(const struct conf_key *k, struct span *text)
{
    const char *what = conf_text_fault(*text, k->max);
    size_t skip = 0;

    if (what != NULL) {
        return what;
    }
    for (size_t i = 0; k->choices[i] != NULL && skip == 0; i++) {
        size_t n = strlen(k->choices[i]);
        if (text->n > n + 3 && memcmp(text->p, k->choices[i], n) == 0 &&
            memcmp(text->p + n, "://", 3) == 0) {
            skip = n + 3;
        }
    }
    if (skip == 0) {
        return "is no such URL";
    }
    for (size_t i = 0; i < text->n; i++) {
        if (strchr(" @?#\\\"<>", text->p[i]) != NULL) {
            return "has a character that this URL cannot have";
        }
    }
    struct span rest = span_of(text->p + skip, text->n - skip);
    const char *slash = memchr(rest.p, '/', rest.n);
    if (!authority_good(span_of(rest.p, slash != NULL ? (size_t)(slash - rest.p) : rest.n))) {
        return "has no good host or port";
    }
    while (text->p[text->n - 1] == '/') {
        text->n--;
    }
    return NULL;
}

/* "30", "0.5", "10m" as milliseconds; at most three digits after the point. */
static bool parse_duration(struct span t, uint64_t *ms)
{
    static const char UNITS[] = "smhd";
    static const uint64_t SECONDS[] = {1, 60, 3600, 86400};
    static const uint64_t SCALE[] = {1000, 100, 10, 1};
    uint64_t factor = 1;
    uint64_t whole = 0;
    uint64_t part = 0;

    const char *unit = t.n > 0 && t.p[t.n - 1] != '\0' ? strchr(UNITS, t.p[t.n - 1]) : NULL;
    if (unit != NULL) {
        factor = SECONDS[unit - UNITS];
        t.n--;
    }
    const char *point = t.n > 0 ? memchr(t.p, '.', t.n) : NULL;
    if (point != NULL) {
        struct span digits = span_of(point + 1, t.n - (size_t)(point + 1 - t.p));
        if (digits.n > 3 || !text_u64(digits, &part)) {
            return false;
        }
        part *= SCALE[digits.n];
        t.n = (size_t)(point - t.p);
    }
    if (!text_u64(t, &whole) || whole > UINT32_MAX) {
        return false;
    }
    *ms = (whole * 1000 + part) * factor;
    return true;
}

static bool parse_nano(struct span t, uint64_t *v)
{
    char text[32];
    const char *rest = NULL;

    if (t.n >= sizeof(text)) {
        return false;
    }
    memcpy(text, t.p, t.n);
    text[t.n] = '\0';
    return text_nano(text, v, &rest) && *rest == '\0';
}

static bool parse_mode(struct span t, uint64_t *mode)
{
    *mode = 0;
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < '0' || t.p[i] > '7') {
            return false;
        }
        *mode = *mode * 8 + (uint64_t)(t.p[i] - '0');
    }
    return t.n >= 1 && t.n <= 4 && *mode <= 0777;
}

static bool parse_choice(const char *const *choices, struct span t, uint64_t *index)
{
    for (*index = 0; choices[*index] != NULL; (*index)++) {
        if (span_eq(t, span_str(choices[*index]))) {
            return true;
        }
    }
    return false;
}

/* A number, time, mode or choice; false when `t` is none, or out of range. */
static bool parse_number(const struct conf_key *k, struct span t, uint64_t *v)
{
    switch (k->type) {
    case CONF_UINT: /* 010 is eight to YAML and ten to people */
        return !(t.n > 1 && t.p[0] == '0') && text_u64(t, v) && *v >= k->min && *v <= k->max;
    case CONF_SIZE:
        return text_size(t, v) && *v >= k->min && *v <= k->max;
    case CONF_DURATION:
        return parse_duration(t, v) && *v >= k->min && *v <= k->max;
    case CONF_NANO:
        return parse_nano(t, v) && *v >= k->min && *v <= k->max;
    case CONF_MODE:
        return parse_mode(t, v);
    case CONF_ENUM:
        return parse_choice(k->choices, t, v);
    default:
        return false;
    }
}

enum err conf_set_scalar(const struct conf_key *k, struct span text, bool plain, void *field,
                         const char **what)
{
    uint64_t v = 0;

    *what = NULL;
    if (k->type == CONF_STRING || k->type == CONF_NAME || k->type == CONF_URL ||
        k->type == CONF_LIST_OF_STRING) {
        *what = k->type == CONF_NAME  ? name_fault(text)
                : k->type == CONF_URL ? url_fault(k, &text)
                                      : conf_text_fault(text, k->type == CONF_STRING ? k->max : 0);
        return *what != NULL ? ERR_CONFIG : conf_put_text(field, text);
    }
    if (!plain && (k->type == CONF_BOOL || k->type == CONF_UINT)) {
        *what = "is a text in quotes";
        return ERR_CONFIG;
    }
    if (k->type == CONF_BOOL) {
        bool yes = span_eq(text, SPAN("true"));
        if (!yes && !span_eq(text, SPAN("false"))) {
            return ERR_CONFIG;
        }
        memcpy(field, &yes, sizeof(yes));
        return ERR_OK;
    }
    if (!parse_number(k, text, &v)) {
        return ERR_CONFIG;
    }
    put_number(k, field, v);
    return ERR_OK;
}
