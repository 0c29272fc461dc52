/* See sha256.h. */
#include "net/sha256.h"

#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct sha256 {
    EVP_MD_CTX *ctx;
    bool failed;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        return NULL;
    }
    h->ctx = EVP_MD_CTX_new();
    if (h->ctx == NULL || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        sha256_free(h);
        return NULL;
    }
    return h;
}

void sha256_add(struct sha256 *h, struct span bytes)
{
    if (bytes.n > 0 && EVP_DigestUpdate(h->ctx, bytes.p, bytes.n) != 1) {
        h->failed = true;
    }
}

bool sha256_end(struct sha256 *h, char out[SHA256_HEX_SIZE])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    bool ok = !h->failed && EVP_DigestFinal_ex(h->ctx, hash, &n) == 1 && n == 32;

    if (ok) {
        text_put_hex(hash, SHA256_SIZE, out);
    }
    out[ok ? SHA256_HEX_SIZE - 1 : 0] = '\0';
    sha256_free(h);
    return ok;
}

void sha256_free(struct sha256 *h)
{
    if (h != NULL) {
        EVP_MD_CTX_free(h->ctx);
        free(h);
    }
}

bool sha256_hex(struct span bytes, char out[SHA256_HEX_SIZE])
{
    struct sha256 *h = sha256_new();

    out[0] = '\0';
    if (h == NULL) {
        return false;
    }
    sha256_add(h, bytes);
    return sha256_end(h, out);
}

bool sha256_of(struct span bytes, unsigned char out[SHA256_SIZE])
{
    unsigned n = 0;

    return EVP_Digest(bytes.p, bytes.n, out, &n, EVP_sha256(), NULL) == 1 && n == SHA256_SIZE;
}

struct sha256_method {
    EVP_MD *md;
};

struct sha256_method *sha256_method_new(void)
{
    struct sha256_method *m = calloc(1, sizeof(*m));

    if (m == NULL) {
        return NULL;
    }
    m->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (m->md == NULL) {
        free(m);
        return NULL;
    }
    return m;
}

void sha256_method_free(struct sha256_method *m)
{
    if (m != NULL) {
        EVP_MD_free(m->md);
        free(m);
    }
}

bool sha256_with(const struct sha256_method *m, struct span bytes, unsigned char out[SHA256_SIZE])
{
    unsigned n = 0;

    return EVP_Digest(bytes.p, bytes.n, out, &n, m->md, NULL) == 1 && n == SHA256_SIZE;
}

bool sha256_equal(const unsigned char *a, const unsigned char *b)
{
    return CRYPTO_memcmp(a, b, SHA256_SIZE) == 0;
}
