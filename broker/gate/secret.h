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

enum secret_kind {
    SECRET_NONE,
    SECRET_ENV,        /* a variable of the environment */
    SECRET_FILE,       /* a file, or a pipe that is read to its end */
    SECRET_COMMAND,    /* the output of a program */
    SECRET_CREDENTIAL, /* a file in $CREDENTIALS_DIRECTORY, as systemd makes them */
    SECRET_MADE        /* by secret_make() */
};

struct secret {
    enum secret_kind kind;
    char *source; /* name of the variable or credential, or path: for messages; else NULL */
    char **argv; /* SECRET_COMMAND: the program and its arguments, each owned; no NULL at the end */
    size_t argc;
    char *bytes; /* secure memory; NULL until loaded */
    size_t n;
    unsigned char sha256[SECRET_SHA256_SIZE]; /* of the bytes, once loaded */
};

/* ERR_NOMEM; *locked tells whether the arena could be locked into memory. */
enum err secret_arena_init(bool *locked, struct error *e) MUST_CHECK;

/*
 * Reads the secret from where it comes; after a failure an older value stays. One trailing newline
 * is dropped. ERR_CONFIG with a message that names the source, never the content: not set or empty,
 * with CR, LF or NUL inside, longer than 64 KiB, and what is said below. One that was made stays as
 * it is. ERR_NOMEM; ERR_IO: a program could not be started for want of processes or descriptors.
 *
 * File: missing, or readable by others (any bit of 0077 when it is a regular file).
 * Credential: $CREDENTIALS_DIRECTORY is not set, the name is no plain file name, the file is
 * missing or readable by others. Its group may read it when root owns it: systemd gives access by
 * an ACL, whose mask is what the group's bits show.
 * Command: it runs without a shell, found in PATH when its name has no slash, with PATH, HOME and
 * LANG as its whole environment, in a process group of its own, without a terminal's input. Not to
 * be started, a code other than 0, a signal, or output that is still open after 10 s (then the
 * group is killed). Its stderr is dropped: a program that fails may well print what it has read,
 * and nothing that could be redacted is known yet.
 *
 * Blocks: up to 11 s for a command, on whatever thread calls (at a reload: loop 0's), as long as it
 * takes for a pipe. No other thread may change the environment meanwhile.
 */
enum err secret_load(struct secret *s, struct error *e) MUST_CHECK;

/* A fresh one: 256 random bits as 64 hexadecimal digits. ERR_NOMEM, ERR_IO. */
enum err secret_make(struct secret *s, struct error *e) MUST_CHECK;

/*
 * Makes `to` what `from` is, its value (when loaded) included; what `to` was is wiped. For a reload
 * that names a variable again: its value was overwritten after start. ERR_NOMEM, `to` untouched.
 */
enum err secret_copy(struct secret *to, const struct secret *from) MUST_CHECK;

/* Whether both come from the same place: kind, and name, path or argument list. Values play no
 * part. */
bool secret_same_source(const struct secret *a, const struct secret *b);

/*
 * "env OPENAI_API_KEY", "file /x", "command /usr/bin/pass" (without its arguments), "credential
 * name", "made at start" or "none", for people; never the content. Cut on a character to fit in
 * `size` (at least 1) bytes with its NUL.
 */
void secret_describe(const struct secret *s, char *out, size_t size);

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
