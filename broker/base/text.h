/* Text as UTF-8 bytes: validity, cutting on character bounds, glob patterns, numbers with units. */
#ifndef TACTUS_BASE_TEXT_H
#define TACTUS_BASE_TEXT_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strict: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool text_utf8_valid(const char *p, size_t n);

/* Length (1-4) of the valid UTF-8 character at `p` with `n` > 0 bytes readable; 0 when it is
 * invalid or incomplete. */
size_t text_utf8_char(const char *p, size_t n);

/* The largest length <= `max` that does not cut a character of the valid text `p`,`n`. At least one
 * character's length when n > 0 and max >= 4. */
size_t text_cut(const char *p, size_t n, size_t max);

/* Writes code point `cp` (valid, not a surrogate) as UTF-8; returns 1-4. */
size_t text_utf8_put(char out[4], uint32_t cp);

/* Shell-style pattern (fnmatch without special slash or dot treatment): * ? [set]. */
bool text_glob(const char *pattern, const char *text);

/* Decimal digits only, whole span, no sign, no overflow. */
bool text_u64(struct span s, uint64_t *out);

/* The value of a hexadecimal digit in any case; -1: it is none. */
int text_hex_digit(char c);

/* Exactly `n` bytes as two hexadecimal digits each, in any case. */
bool text_hex(struct span s, unsigned char *out, size_t n);

/* Writes `n` bytes as 2 * n lower-case digits, without a NUL. */
void text_put_hex(const unsigned char *bytes, size_t n, char *out);

/* The number that `text` begins with, in billionths: at most nine digits, and nine more behind a
 * point. *rest is what follows it. False: it does not begin with one. */
bool text_nano(const char *text, uint64_t *out, const char **rest);

/* "4096", "64KiB", "100MiB", "1GiB", also KB, MB, GB, K, M, G, B: all powers of 1024. */
bool text_size(struct span s, uint64_t *out);

#endif
