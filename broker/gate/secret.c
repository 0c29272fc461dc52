/*
 * Secrets read from the environment or a file straight into OpenSSL's secure memory: no copy of
 * one ever lies in the ordinary heap or on the stack. Messages name the source, never the content.
 * Called by gate/config at start and reload.
 */
#include "gate/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_BYTES     (1024u * 1024u)
#define ARENA_SMALLEST  16
#define SECRET_MAX      (64u * 1024u)
#define MADE_BYTES      32u
#define READ_BUFFER_MAX (SECRET_MAX + 2) /* a newline at the end, and one byte that is too many */

enum err secret_arena_init(bool *locked, struct error *e)
{
    if (CRYPTO_secure_malloc_initialized()) {
        *locked = true; /* whoever made it has been told */
        return ERR_OK;
    }
    int rc = CRYPTO_secure_malloc_init(ARENA_BYTES, ARENA_SMALLEST);
    if (rc == 0) {
        return err_set(e, ERR_NOMEM, "secure memory of %u bytes cannot be had", ARENA_BYTES);
    }
    *locked = rc == 1;
    return ERR_OK;
}

/* Checks `n` bytes at `p` and keeps a copy of them in `s`. `what` is "variable" or "file". */
static enum err take(struct secret *s, const char *what, const char *p, size_t n, struct error *e)
{
    if (n > 0 && p[n - 1] == '\n') {
        n--;
    }
    if (n == 0) {
        return err_set(e, ERR_CONFIG, "secret from %s %s is empty", what, s->source);
    }
    if (n > SECRET_MAX) {
        return err_set(e, ERR_CONFIG, "secret from %s %s is longer than 64 KiB", what, s->source);
    }
    if (memchr(p, '\r', n) != NULL || memchr(p, '\n', n) != NULL || memchr(p, '\0', n) != NULL) {
        return err_set(e, ERR_CONFIG,
                       "secret from %s %s has a carriage return, a line feed or a NUL inside", what,
                       s->source);
    }
    char *copy = OPENSSL_secure_malloc(n + 1);
    if (copy == NULL) {
        return err_set(e, ERR_NOMEM, "no secure memory for the secret from %s %s", what, s->source);
    }
    memcpy(copy, p, n);
    copy[n] = '\0';
    OPENSSL_secure_clear_free(s->bytes, s->n);
    s->bytes = copy;
    s->n = n;
    (void)SHA256((const unsigned char *)copy, n, s->sha256);
    return ERR_OK;
}

static enum err load_env(struct secret *s, struct error *e)
{
    const char *value = getenv(s->source);

    if (value == NULL) {
        return err_set(e, ERR_CONFIG, "secret from variable %s is not set", s->source);
    }
    return take(s, "variable", value, strnlen(value, READ_BUFFER_MAX), e);
}

/* Fills `p` (READ_BUFFER_MAX bytes) up to the end of the file. */
static enum err read_all(int fd, char *p, size_t *n, const char *path, struct error *e)
{
    *n = 0;
    while (*n < READ_BUFFER_MAX) {
        ssize_t got = read(fd, p + *n, READ_BUFFER_MAX - *n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_sys(e, ERR_CONFIG, errno, "secret file %s cannot be read", path);
        }
        if (got == 0) {
            break;
        }
        *n += (size_t)got;
    }
    return ERR_OK;
}

static enum err load_file(struct secret *s, struct error *e)
{
    struct stat st;
    char *content = NULL;
    size_t n = 0;
    enum err err;

    int fd = open(s->source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "secret file %s cannot be opened", s->source);
    }
    if (fstat(fd, &st) != 0) {
        err = err_sys(e, ERR_CONFIG, errno, "secret file %s cannot be examined", s->source);
        goto out;
    }
    if (S_ISREG(st.st_mode) && (st.st_mode & 0077) != 0) {
        err = err_set(e, ERR_CONFIG,
                      "secret file %s is open to others (mode %04o), expected 0600 or less",
                      s->source, (unsigned)(st.st_mode & 07777));
        goto out;
    }
    content = OPENSSL_secure_malloc(READ_BUFFER_MAX);
    if (content == NULL) {
        err = err_set(e, ERR_NOMEM, "no secure memory for secret file %s", s->source);
        goto out;
    }
    err = read_all(fd, content, &n, s->source, e);
    if (err == ERR_OK) {
        err = take(s, "file", content, n, e);
    }

out:
    OPENSSL_secure_clear_free(content, READ_BUFFER_MAX);
    (void)close(fd);
    return err;
}

enum err secret_load(struct secret *s, struct error *e)
{
    switch (s->kind) {
    case SECRET_NONE:
    case SECRET_MADE:
        return ERR_OK;
    case SECRET_ENV:
        return load_env(s, e);
    case SECRET_FILE:
        return load_file(s, e);
    }
    return err_set(e, ERR_BUG, "secret of kind %d", (int)s->kind);
}

enum err secret_make(struct secret *s, struct error *e)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *random = OPENSSL_secure_malloc(MADE_BYTES);
    char *text = OPENSSL_secure_malloc(2 * MADE_BYTES + 1);
    enum err err = ERR_OK;

    if (random == NULL || text == NULL) {
        err = err_set(e, ERR_NOMEM, "no secure memory for a new secret");
        goto out;
    }
    if (RAND_priv_bytes(random, (int)MADE_BYTES) != 1) {
        err = err_set(e, ERR_IO, "the system gives no random bytes");
        goto out;
    }
    for (size_t i = 0; i < MADE_BYTES; i++) {
        text[2 * i] = digits[random[i] >> 4];
        text[2 * i + 1] = digits[random[i] & 15];
    }
    text[2 * MADE_BYTES] = '\0';
    secret_fini(s);
    s->kind = SECRET_MADE;
    s->n = 2 * MADE_BYTES;
    s->bytes = text;
    text = NULL;
    (void)SHA256((const unsigned char *)s->bytes, s->n, s->sha256);

out:
    OPENSSL_secure_clear_free(random, MADE_BYTES);
    OPENSSL_secure_clear_free(text, 2 * MADE_BYTES + 1);
    return err;
}

bool secret_equal(const struct secret *s, struct span text)
{
    unsigned char sha256[SECRET_SHA256_SIZE];

    if (s->bytes == NULL || text.n > SECRET_MAX) {
        return false;
    }
    /* Hashes have one length and share no prefix with what was guessed. */
    (void)SHA256((const unsigned char *)text.p, text.n, sha256);
    return CRYPTO_memcmp(sha256, s->sha256, sizeof(sha256)) == 0;
}

bool secret_has_sha256(const struct secret *s, const unsigned char *sha256)
{
    /* Who asks is told the answer: its time need not be hidden. */
    return s->bytes != NULL && memcmp(sha256, s->sha256, SECRET_SHA256_SIZE) == 0;
}

void secret_forget_env(const struct secret *s)
{
    if (s->kind != SECRET_ENV || s->source == NULL || environ == NULL) {
        return;
    }
    size_t n = strlen(s->source);
    for (char **entry = environ; *entry != NULL; entry++) {
        /* The name may be there twice: getenv sees the first, /proc/PID/environ both. */
        if (strncmp(*entry, s->source, n) == 0 && (*entry)[n] == '=') {
            char *value = *entry + n + 1;
            explicit_bzero(value, strlen(value));
        }
    }
}

void secret_fini(struct secret *s)
{
    OPENSSL_secure_clear_free(s->bytes, s->n);
    free(s->source);
    *s = (struct secret){.kind = SECRET_NONE};
}
