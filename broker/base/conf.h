/*
 * A YAML file read through one table of keys into a C struct.
 *
 * The table says of each key its name, type, range, default, documentation and place in the
 * struct; it feeds the reader, the defaults and the test that the annotated example is complete.
 * Reading is strict: an unknown, duplicate or missing key, a wrong type, a value out of range, more
 * than one document, an anchor, alias, tag or a document deeper than CONF_MAX_DEPTH is ERR_CONFIG
 * with "file:line:column: key: what is wrong, what was expected". Values of strings, URLs and
 * secrets are never part of a message.
 *
 * Pure but for conf_load. Used by gate/config and the runner's settings.
 */
#ifndef TACTUS_BASE_CONF_H
#define TACTUS_BASE_CONF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define CONF_MAX_BYTES         (1024u * 1024u)
#define CONF_MAX_DEPTH         12u   /* maps and lists open at once */
#define CONF_MAX_FOREIGN_DEPTH 64u   /* … in a value that is somebody else's */
#define CONF_MAX_STRING        4096u /* bytes, unless the key's `max` says less */
#define CONF_MAX_KEYS          64u   /* keys of one map in the table */

enum conf_type {              /* the field in the struct, and what `min` and `max` bound */
                 CONF_STRING, /* char *; length */
                 CONF_NAME,   /* char *: [A-Za-z0-9_.-]{1,63} */
                 CONF_URL,  /* char *: "scheme://host…", the scheme one of `choices`; no user, no
                               query, no fragment; slashes at its end are dropped */
                 CONF_BOOL, /* bool */
                 CONF_UINT, /* unsigned or uint64_t; value */
                 CONF_SIZE, /* uint64_t, bytes; with a unit: 64KiB, 100MiB; value */
                 CONF_DURATION, /* uint32_t, milliseconds; in the file seconds, with a fraction or
                                   one of s, m, h, d after it; value in milliseconds */
                 CONF_NANO,     /* uint64_t, billionths of a number such as 20 or 0.5; value in
                                   billionths */
                 CONF_ENUM,     /* an enum or int: the index of the value in `choices` */
                 CONF_MODE,     /* unsigned: a file mode, octal digits up to 0777 */
                 CONF_SECRET,   /* struct conf_secret: { env: NAME }, { file: PATH }, { credential:
                                   NAME } or   { command: [PROGRAM, ARGUMENT...] } */
                 CONF_LIST_OF_STRING, /* struct conf_list of char *; number of items */
                 CONF_LIST_OF_SECRET, /* struct conf_list of struct conf_secret; number of items */
                 CONF_MAP_OF_STRING, /* struct conf_list of struct conf_pair, for keys that no table
                                        can name; number of pairs */
                 CONF_MAP,           /* a struct, by `map` */
                 CONF_LIST_OF_MAP    /* struct conf_list of structs, by `map`; number of items */
};

struct conf_list {
    void *items;
    size_t n;
};

/*
 * A pair of a CONF_MAP_OF_STRING. A name is a text of 1 to CONF_MAX_STRING bytes without control
 * characters, given once; what else it has to be is the caller's to say. A value is any scalar as
 * it stands there: `1`, `true` and `0.10` are "1", "true" and "0.10", null is "". It may have lines
 * and other control characters, but no NUL. conf_fault with the pair's address and name points at
 * it, until conf_fini.
 */
struct conf_pair {
    char *name;
    char *value;
};

enum conf_secret_kind {
    CONF_SECRET_NONE,
    CONF_SECRET_ENV,
    CONF_SECRET_FILE,
    CONF_SECRET_CREDENTIAL,
    CONF_SECRET_COMMAND
};

/* Where a secret is to be found; never the secret itself. */
struct conf_secret {
    enum conf_secret_kind kind;
    char *source;             /* command: NULL */
    struct conf_list command; /* of char *: the program and its arguments, at least one */
};

struct conf_key {
    const char *name;
    enum conf_type type;
    size_t offset;
    size_t size; /* of the field */
    bool required;
    bool nullable; /* a value of null is as if the key were not there */
    uint64_t min;
    uint64_t max;
    const char *fallback;       /* the default as it would be written; NULL: zero, NULL or empty */
    const char *const *choices; /* ends with NULL */
    const struct conf_map *map;
    const char *doc; /* one line for people */
};

/* One map: its keys and the size of the struct they fill. At most CONF_MAX_KEYS keys. */
struct conf_map {
    const struct conf_key *keys;
    size_t nkeys;
    size_t size;
    /* Keys that are not in the table are somebody else's: skipped. Where this is the map of a whole
     * file, their values may also have anchors, aliases, tags and CONF_MAX_FOREIGN_DEPTH levels. */
    bool open;
};

/* The name, offset and size of a key: CONF_FIELD("mode", struct listener, mode), .type = … */
#define CONF_FIELD(key, type_, member)                                                             \
    .name = (key), .offset = offsetof(type_, member), .size = sizeof(((type_ *)NULL)->member)

/* Where each value of a file stood, for messages about it. */
struct conf_doc;

/* Reads the file `path`, at most CONF_MAX_BYTES. The caller frees *text. ERR_CONFIG, ERR_NOMEM. */
enum err conf_load(const char *path, char **text, size_t *n, struct error *e) MUST_CHECK;

/*
 * Reads `text` by `map` into the zeroed `target`; keys that are not there get their default. `name`
 * stands for the file in messages (copied). An empty text is an empty map. ERR_CONFIG, ERR_NOMEM.
 * After success and after failure alike the caller ends `target` with conf_fini and, if set,
 * *doc with conf_doc_free (*doc is NULL after failure).
 */
enum err conf_parse(const char *name, const char *text, size_t n, const struct conf_map *map,
                    void *target, struct conf_doc **doc, struct error *e) MUST_CHECK;

/* Fills the zeroed `target` with the defaults; required keys stay empty. Ends in conf_fini. */
enum err conf_defaults(const struct conf_map *map, void *target, struct error *e) MUST_CHECK;

/*
 * Appends `target`, which was read with `doc`, as YAML that reads into the same: what the file gave
 * and every default (of items of lists only what the file gave). Secrets as the references that
 * they are. Failure shows in buf_status(out).
 */
void conf_print(const struct conf_map *map, const void *target, const struct conf_doc *doc,
                struct buf *out);

/* Frees what the fields of `target` own and zeroes them. */
void conf_fini(const struct conf_map *map, void *target);

void conf_doc_free(struct conf_doc *doc);

/* True when the file gave `key` in the map that was read into the struct at `base`. */
bool conf_has(const struct conf_doc *doc, const void *base, const char *key);

/*
 * ERR_CONFIG with the message prefixed by the position and path of `key` in the map that was read
 * into `base` (of the map itself when the file does not have the key).
 */
enum err conf_fault(const struct conf_doc *doc, const void *base, const char *key, struct error *e,
                    const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif
