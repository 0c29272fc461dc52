/*
 * A strict JSON scanner (RFC 8259) that copies nothing: it says where the members of an object are.
 *
 * Values that only pass through the broker are handed on as the bytes that came, so 2^53+1, 1.0,
 * 1e400, escapes and key order survive. Strict: no `01`, no `1.`, no raw control characters, no
 * invalid UTF-8, no lone surrogates (unless allowed), no trailing text, no duplicate keys in the
 * object whose members are collected, no NUL inside any key, bounded depth. No recursion: depth
 * costs one bit a level.
 *
 * Two steps: json_check_object() validates a whole text once and collects its top-level members;
 * everything else here walks text that has been validated, quickly and without looking twice.
 * Pure: no I/O, no allocation except where a struct buf is given.
 */
#ifndef TACTUS_BASE_JSON_SPAN_H
#define TACTUS_BASE_JSON_SPAN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX   1024 /* the most that json_rules.max_depth can be */
#define JSON_MEMBERS_MAX 64   /* members of one object that we read; one more is an error */

enum json_type {
    JSON_ABSENT = 0, /* json_get found nothing */
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json_value {
    struct span text; /* its bytes; a string's include the quotes */
    enum json_type type;
    bool escaped; /* a string with a backslash in it */
};

struct json_member {
    struct json_value key; /* a string */
    struct json_value value;
};

struct json_members {
    size_t n;
    struct json_member m[JSON_MEMBERS_MAX];
};

struct json_rules {
    unsigned max_depth;        /* containers open at once; 1..JSON_DEPTH_MAX */
    bool allow_lone_surrogate; /* for what providers send: see json_string_decode */
};

struct json_fault {
    size_t offset;    /* where, in bytes from the start */
    const char *what; /* "expected a value", "nesting deeper than allowed", … */
};

/*
 * Validates all of `text` as one JSON object, white space around it allowed, and collects its
 * members in order. ERR_PROTO with `fault` filled when it is not; `out` then holds the members
 * that were complete before the fault (so that a broken request can still be answered by its id).
 */
enum err json_check_object(struct span text, const struct json_rules *rules,
                           struct json_members *out, struct json_fault *fault) MUST_CHECK;

/* Validates all of `text` as one JSON value of any type. */
enum err json_check_value(struct span text, const struct json_rules *rules, struct json_value *out,
                          struct json_fault *fault) MUST_CHECK;

/* ---- walking text that has been validated (white space around a whole text is allowed) ---- */

/*
 * Collects the members of `object` (type JSON_OBJECT). ERR_PROTO with `fault` when it has a
 * duplicate key or more than JSON_MEMBERS_MAX members (fault->offset counts from its start).
 */
enum err json_object_members(struct json_value object, struct json_members *out,
                             struct json_fault *fault) MUST_CHECK;

/* The member of that (unescaped) name, or type JSON_ABSENT. */
struct json_value json_get(const struct json_members *members, const char *name);

/* As json_get, straight from an object's text (first match wins, later duplicates are not looked
 * for); JSON_ABSENT when `object` is not an object. No allocation, no limit on members. */
struct json_value json_find(struct json_value object, const char *name);

/* Steps through an array: start with *cursor = 0; false at the end (or when not an array). */
bool json_array_next(struct json_value array, size_t *cursor, struct json_value *item);

/* Steps through an object's members likewise. */
bool json_object_next(struct json_value object, size_t *cursor, struct json_member *member);

/* True when `string` (type JSON_STRING), decoded, equals `name`. */
bool json_string_is(struct json_value string, const char *name);

/*
 * Appends the decoded text of `string` as UTF-8. `carry` (may be NULL) joins a surrogate pair that
 * a provider cut in two strings: a lone high surrogate at the end is kept in *carry (0 = none)
 * instead of being written, and a low surrogate at the start completes it. Any other lone
 * surrogate becomes U+FFFD. Failure shows in buf_status(out).
 */
void json_string_decode(struct json_value string, struct buf *out, uint16_t *carry);

/* A number as an integer >= 0 without fraction or exponent; false otherwise. */
bool json_number_u64(struct json_value number, uint64_t *out);

/* A number as a double (inf when too large); false when `number` is not a JSON_NUMBER. */
bool json_number_double(struct json_value number, double *out);

#endif
