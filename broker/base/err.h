/*
 * Results and their details.
 *
 * A function that can fail returns an enum err (a category: what the caller can do about it) and,
 * where a person may read about it, fills a struct error given as its last parameter (NULL is
 * allowed). On success the struct is untouched. There is no allocation on an error path: the
 * message is a fixed array. Log once, where the error is handled, not where it is made.
 */
#ifndef TACTUS_BASE_ERR_H
#define TACTUS_BASE_ERR_H

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

enum err {
    ERR_OK = 0,
    ERR_AGAIN,    /* nothing wrong: call again when there is more */
    ERR_CLOSED,   /* the peer went away, or we closed it */
    ERR_IO,       /* a system call failed; error.sys is its errno */
    ERR_PROTO,    /* the peer sent what the protocol forbids */
    ERR_LIMIT,    /* a configured bound was reached */
    ERR_NOMEM,    /* an allocation failed; the process goes on */
    ERR_UPSTREAM, /* a provider failed */
    ERR_CONFIG,   /* the operator's configuration or command line is wrong */
    ERR_BUG       /* cannot happen; asserts in debug builds */
};

struct error {
    enum err code;
    int sys;       /* errno, or 0 */
    char msg[512]; /* complete sentence part, no newline, never a secret */
};

/* Fills `e` (when not NULL) and returns `code`, so that `return err_set(...)` reads well. */
enum err err_set(struct error *e, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As err_set, and appends ": " and the text of errno value `sys`. */
enum err err_sys(struct error *e, enum err code, int sys, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "context: " before the message that is already in `e`; returns its code. */
enum err err_wrap(struct error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A short name of the category ("limit", "no memory"), for logs. */
const char *err_name(enum err code);

#endif
