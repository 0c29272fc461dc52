/*
 * Secrets read from the environment, a file or a program straight into OpenSSL's secure memory: no
 * copy of one ever lies in the ordinary heap or on the stack. Messages name the source, never the
 * content. Called by gate/config at start and reload.
 */
#include "gate/secret.h"

#include "base/text.h"
#include "gate/secret_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_BYTES    (1024u * 1024u)
#define ARENA_SMALLEST 16
#define MADE_BYTES     32u

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

/* What the secret comes from, in messages: "variable", "file", … */
static const char *what_of(const struct secret *s)
{
    switch (s->kind) {
    case SECRET_ENV:
        return "variable";
    case SECRET_COMMAND:
        return "command";
    case SECRET_CREDENTIAL:
        return "credential";
    default:
        return "file";
    }
}

/* … and its name. Arguments of a command may be nobody's business. */
static const char *name_of(const struct secret *s)
{
    if (s->kind == SECRET_COMMAND) {
        return s->argc > 0 ? s->argv[0] : "";
    }
    return s->source != NULL ? s->source : "";
}

/* Checks `n` bytes at `p` and keeps a copy of them in `s`. */
static enum err take(struct secret *s, const char *p, size_t n, struct error *e)
{
    const char *what = what_of(s);
    const char *name = name_of(s);

    if (n > 0 && p[n - 1] == '\n') {
        n--;
    }
    if (n == 0) {
        return err_set(e, ERR_CONFIG, "secret from %s %s is empty", what, name);
    }
    if (n > SECRET_MAX) {
        return err_set(e, ERR_CONFIG, "secret from %s %s is longer than 64 KiB", what, name);
    }
    if (memchr(p, '\r', n) != NULL || memchr(p, '\n', n) != NULL || memchr(p, '\0', n) != NULL) {
        return err_set(e, ERR_CONFIG,
                       "secret from %s %s has a carriage return, a line feed or a NUL inside", what,
                       name);
    }
    char *copy = OPENSSL_secure_malloc(n + 1);
    if (copy == NULL) {
        return err_set(e, ERR_NOMEM, "no secure memory for the secret from %s %s", what, name);
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
    return take(s, value, strnlen(value, SECRET_BUFFER_SIZE), e);
}

/* Fills `p` (SECRET_BUFFER_SIZE bytes) up to the end of the file. */
static enum err read_all(const struct secret *s, int fd, char *p, size_t *n, struct error *e)
{
    *n = 0;
    while (*n < SECRET_BUFFER_SIZE) {
        ssize_t got = read(fd, p + *n, SECRET_BUFFER_SIZE - *n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_sys(e, ERR_CONFIG, errno, "secret %s %s cannot be read", what_of(s),
                           name_of(s));
        }
        if (got == 0) {
            break;
        }
        *n += (size_t)got;
    }
    return ERR_OK;
}

/* A pipe has no mode that says anything. */
static enum err check_mode(const struct secret *s, const struct stat *st, struct error *e)
{
    /* An ACL of systemd's for the service's user shows as a group's right to read. */
    bool by_acl = s->kind == SECRET_CREDENTIAL && st->st_uid == 0;
    mode_t others = by_acl ? 0037 : 0077;

    if (!S_ISREG(st->st_mode) || (st->st_mode & others) == 0) {
        return ERR_OK;
    }
    return err_set(e, ERR_CONFIG, "secret %s %s is open to others (mode %04o), expected %s or less",
                   what_of(s), name_of(s), (unsigned)(st->st_mode & 07777),
                   by_acl ? "0440" : "0600");
}

static enum err load_path(struct secret *s, const char *path, struct error *e)
{
    struct stat st;
    char *content = NULL;
    size_t n = 0;

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "secret %s %s cannot be opened", what_of(s),
                       name_of(s));
    }
    enum err err = fstat(fd, &st) == 0
                       ? check_mode(s, &st, e)
                       : err_sys(e, ERR_CONFIG, errno, "secret %s %s cannot be examined",
                                 what_of(s), name_of(s));
    if (err != ERR_OK) {
        goto out;
    }
    content = OPENSSL_secure_malloc(SECRET_BUFFER_SIZE);
    if (content == NULL) {
        err = err_set(e, ERR_NOMEM, "no secure memory for secret %s %s", what_of(s), name_of(s));
        goto out;
    }
    err = read_all(s, fd, content, &n, e);
    if (err == ERR_OK) {
        err = take(s, content, n, e);
    }

out:
    OPENSSL_secure_clear_free(content, SECRET_BUFFER_SIZE);
    (void)close(fd);
    return err;
}

static enum err load_credential(struct secret *s, struct error *e)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    const char *name = name_of(s);
    char path[PATH_MAX];

    if (*name == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        return err_set(e, ERR_CONFIG, "secret credential %s is no name, expected one without /",
                       name);
    }
    if (directory == NULL || *directory == '\0') {
        return err_set(e, ERR_CONFIG,
                       "secret credential %s cannot be had: CREDENTIALS_DIRECTORY is not set, "
                       "expected a service with LoadCredential= or the like",
                       name);
    }
    int n = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return err_set(e, ERR_CONFIG, "secret credential %s has too long a path", name);
    }
    return load_path(s, path, e);
}

static enum err load_command(struct secret *s, struct error *e)
{
    size_t n = 0;
    char *output = OPENSSL_secure_malloc(SECRET_BUFFER_SIZE);

    if (output == NULL) {
        return err_set(e, ERR_NOMEM, "no secure memory for the secret from command %s", name_of(s));
    }
    enum err err = secret_command_run(s->argv, s->argc, SECRET_COMMAND_DEADLINE, output, &n, e);
    if (err == ERR_OK) {
        err = take(s, output, n, e);
    }
    OPENSSL_secure_clear_free(output, SECRET_BUFFER_SIZE);
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
        return load_path(s, s->source, e);
    case SECRET_COMMAND:
        return load_command(s, e);
    case SECRET_CREDENTIAL:
        return load_credential(s, e);
    }
    return err_set(e, ERR_BUG, "secret of kind %d", (int)s->kind);
}

enum err secret_make(struct secret *s, struct error *e)
{
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
    text_put_hex(random, MADE_BYTES, text);
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

static void argv_free(char **argv, size_t argc)
{
    for (size_t i = 0; i < argc; i++) {
        free(argv[i]);
    }
    free(argv);
}

/* NULL when out of memory. */
static char **argv_dup(char *const *argv, size_t argc)
{
    char **copy = calloc(argc, sizeof(*copy));

    for (size_t i = 0; i < argc && copy != NULL; i++) {
        copy[i] = strdup(argv[i]);
        if (copy[i] == NULL) {
            argv_free(copy, i);
            return NULL;
        }
    }
    return copy;
}

enum err secret_copy(struct secret *to, const struct secret *from)
{
    struct secret copy = {.kind = from->kind};

    if (from->source != NULL) {
        copy.source = strdup(from->source);
        if (copy.source == NULL) {
            goto no_memory;
        }
    }
    if (from->argc > 0) {
        copy.argv = argv_dup(from->argv, from->argc);
        if (copy.argv == NULL) {
            goto no_memory;
        }
        copy.argc = from->argc;
    }
    if (from->bytes != NULL) {
        copy.bytes = OPENSSL_secure_malloc(from->n + 1);
        if (copy.bytes == NULL) {
            goto no_memory;
        }
        memcpy(copy.bytes, from->bytes, from->n + 1);
        copy.n = from->n;
        memcpy(copy.sha256, from->sha256, sizeof(copy.sha256));
    }
    secret_fini(to);
    *to = copy;
    return ERR_OK;

no_memory:
    secret_fini(&copy);
    return ERR_NOMEM;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool secret_same_source(const struct secret *a, const struct secret *b)
{
    bool same = a->kind == b->kind && a->argc == b->argc && same_text(a->source, b->source);

    for (size_t i = 0; same && i < a->argc; i++) {
        same = strcmp(a->argv[i], b->argv[i]) == 0;
    }
    return same;
}

void secret_describe(const struct secret *s, char *out, size_t size)
{
    static const char *const words[] = {
        [SECRET_NONE] = "none",          [SECRET_ENV] = "env ",
        [SECRET_FILE] = "file ",         [SECRET_COMMAND] = "command ",
        [SECRET_MADE] = "made at start", [SECRET_CREDENTIAL] = "credential ",
    };
    const char *word = words[s->kind];
    const char *name = s->kind == SECRET_NONE || s->kind == SECRET_MADE ? "" : name_of(s);
    size_t n = text_cut(word, strlen(word), size - 1);

    memcpy(out, word, n);
    size_t more = text_cut(name, strlen(name), size - 1 - n);
    memcpy(out + n, name, more);
    out[n + more] = '\0';
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
    argv_free(s->argv, s->argc);
    *s = (struct secret){.kind = SECRET_NONE};
}
