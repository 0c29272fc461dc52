/* SHA-256, so that OpenSSL stays out of sight of those who only need a hash. Any thread. */
#ifndef TACTUS_NET_SHA256_H
#define TACTUS_NET_SHA256_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define SHA256_HEX_SIZE 65 /* 64 lower-case digits and the NUL */

struct sha256;

/* NULL when out of memory. Ends in sha256_end or sha256_free. */
struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *h, struct span bytes);
/* Writes the hash of all that was added and frees; false (and "") when OpenSSL failed on the way.
 */
bool sha256_end(struct sha256 *h, char out[SHA256_HEX_SIZE]);
void sha256_free(struct sha256 *h);

#define SHA256_SIZE 32u

/* The hash of one text as bytes; false when OpenSSL fails. */
bool sha256_of(struct span bytes, unsigned char out[SHA256_SIZE]);

/* For who hashes short texts often: the algorithm looked up once, which otherwise takes longer than
 * the hashing. sha256_with is for any thread. */
struct sha256_method;
struct sha256_method *sha256_method_new(void); /* NULL: out of memory, or OpenSSL has none */
void sha256_method_free(struct sha256_method *m);
bool sha256_with(const struct sha256_method *m, struct span bytes, unsigned char out[SHA256_SIZE]);

/* In a time that tells nothing of where they differ. */
bool sha256_equal(const unsigned char *a, const unsigned char *b);

/* Of one text. */
bool sha256_hex(struct span bytes, char out[SHA256_HEX_SIZE]);

#endif
