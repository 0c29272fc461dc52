/*
 * One secret in OpenSSL's secure memory: where it comes from, how it is wiped. secret_arena_init()
 * once at start (1 MiB; memory that cannot be locked is a warning, not a failure).
 */
#ifndef TACTUS_GATE_SECRET_H
#define TACTUS_GATE_SECRET_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define SECRET_SHA256_SIZE 32u

enum secret_kind { SECRET_NONE, SECRET_ENV, SECRET_FILE, SECRET_MADE };

struct secret {
    enum secret_kind kind;
    char *source; /* variable name or path: for messages */
    char *bytes;  /* secure memory; NULL until loaded */
    size_t n;
    unsigned char sha256[SECRET_SHA256_SIZE]; /* of the bytes, once loaded */
};

/* ERR_NOMEM; *locked tells whether the arena could be locked into memory. */
enum err secret_arena_init(bool *locked, struct error *e) MUST_CHECK;

/*
 * Reads the secret from where it comes. One trailing newline is dropped. ERR_CONFIG with a message
 * that names the source, never the content: not set or empty, file missing, readable by others
 * (any bit of 0077 beyond the owner's, when it is a regular file), with CR, LF or NUL inside,
 * longer than 64 KiB. One that was made stays as it is.
 */
enum err secret_load(struct secret *s, struct error *e) MUST_CHECK;

/* A fresh one: 256 random bits as 64 hexadecimal digits. ERR_NOMEM, ERR_IO. */
enum err secret_make(struct secret *s, struct error *e) MUST_CHECK;

/* Whether `text` is the secret; in a time that tells nothing of either. False: not loaded. */
bool secret_equal(const struct secret *s, struct span text);

/* Whether `sha256` (SECRET_SHA256_SIZE bytes) is its hash. False: not loaded. */
bool secret_has_sha256(const struct secret *s, const unsigned char *sha256);

/* Overwrites in place the value of the environment variable that the secret came from. */
void secret_forget_env(const struct secret *s);

/* Wipes and frees. */
void secret_fini(struct secret *s);

static inline struct span secret_span(const struct secret *s)
{
    return (struct span){s->bytes, s->n};
}

#endif
