/*
 * libcurl's allocator: every block is wiped before it is freed, for libcurl copies request headers
 * (keys) into many of its own. A block never moves by realloc(3), which would leave the old copy
 * behind. Installed once per process, before any thread.
 */
#include "net/http_client_private.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <stdlib.h>

/* libcurl says "out of memory" for some answers that are too large as well; this tells the two
 * apart. An allocator has no context to keep it in. */
static _Thread_local unsigned failures;

void *http_memory_alloc(size_t n)
{
    void *p = malloc(n == 0 ? 1 : n);

    if (p == NULL) {
        failures++;
    }
    return p;
}

void http_memory_free(void *p)
{
    if (p != NULL) {
        OPENSSL_cleanse(p, malloc_usable_size(p));
        free(p);
    }
}

unsigned http_memory_failures(void)
{
    return failures;
}

static void *wiping_calloc(size_t count, size_t size)
{
    size_t n = 0;

    if (__builtin_mul_overflow(count, size, &n)) {
        return NULL;
    }
    void *p = http_memory_alloc(n);
    if (p != NULL) {
        memset(p, 0, n);
    }
    return p;
}

static void *wiping_realloc(void *old, size_t n)
{
    size_t had = old == NULL ? 0 : malloc_usable_size(old);

    if (old != NULL && n > 0 && n <= had) {
        return old;
    }
    void *p = http_memory_alloc(n);
    if (p == NULL) {
        return NULL;
    }
    if (old != NULL) {
        memcpy(p, old, had < n ? had : n);
        http_memory_free(old);
    }
    return p;
}

static char *wiping_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = http_memory_alloc(n);

    if (p != NULL) {
        memcpy(p, s, n);
    }
    return p;
}

enum err http_client_global_init(struct error *e)
{
    CURLcode rc = curl_global_init_mem(CURL_GLOBAL_DEFAULT, http_memory_alloc, http_memory_free,
                                       wiping_realloc, wiping_strdup, wiping_calloc);

    if (rc != CURLE_OK) {
        return err_set(e, rc == CURLE_OUT_OF_MEMORY ? ERR_NOMEM : ERR_IO,
                       "cannot start libcurl: %s", curl_easy_strerror(rc));
    }
    return ERR_OK;
}

void http_client_global_fini(void)
{
    curl_global_cleanup();
}
