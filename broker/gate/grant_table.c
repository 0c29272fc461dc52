/*
 * The table of known callers; see grant_table.h. Tokens: chained hashing by the first bytes of the
 * SHA-256, which are as random as any. Certificates: a list, since each has a pattern.
 */
#include "gate/grant_table.h"

#include "base/list.h"
#include "base/text.h"
#include "net/sha256.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u

struct entry {
    struct list node;   /* all, in order */
    struct entry *next; /* of its bucket */
    struct grant *grant;
};

struct grant_table {
    pthread_rwlock_t lock;
    struct list all;
    struct entry **buckets;
    size_t nbuckets; /* a power of two */
    size_t n;
};

struct grant_table *grant_table_new(void)
{
    struct grant_table *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    t->buckets = calloc(BUCKETS_MIN, sizeof(struct entry *));
    if (t->buckets == NULL || pthread_rwlock_init(&t->lock, NULL) != 0) {
        free(t->buckets);
        free(t);
        return NULL;
    }
    t->nbuckets = BUCKETS_MIN;
    list_init(&t->all);
    return t;
}

void grant_table_free(struct grant_table *t)
{
    if (t == NULL) {
        return;
    }
    for (struct list *n = list_pop(&t->all); n != NULL; n = list_pop(&t->all)) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        grant_unref(entry->grant);
        free(entry);
    }
    pthread_rwlock_destroy(&t->lock);
    free(t->buckets);
    free(t);
}

static struct entry **bucket_of(const struct grant_table *t, const unsigned char *sha256)
{
    uint64_t first = 0;

    memcpy(&first, sha256, sizeof(first));
    return &t->buckets[first & (t->nbuckets - 1)];
}

static struct entry *find(const struct grant_table *t, const unsigned char *sha256)
{
    struct entry *entry = *bucket_of(t, sha256);

    while (entry != NULL && !sha256_equal(entry->grant->token_sha256, sha256)) {
        entry = entry->next;
    }
    return entry;
}

/* Twice the buckets; the old ones stay when there is no memory. */
static void grow(struct grant_table *t)
{
    struct entry **buckets = calloc(t->nbuckets * 2, sizeof(struct entry *));

    if (buckets == NULL) {
        return;
    }
    free(t->buckets);
    t->buckets = buckets;
    t->nbuckets *= 2;
    for (struct list *n = t->all.next; n != &t->all; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant->has_token) {
            struct entry **bucket = bucket_of(t, entry->grant->token_sha256);
            entry->next = *bucket;
            *bucket = entry;
        }
    }
}

static enum err add(struct grant_table *t, struct grant *g, struct error *e)
{
    const struct entry *same = g->has_token ? find(t, g->token_sha256) : NULL;

    if (same != NULL) {
        return err_set(e, ERR_CONFIG, "grant %s has the same token as grant %s", g->name,
                       same->grant->name);
    }
    struct entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a grant");
    }
    entry->grant = grant_ref(g);
    list_push_back(&t->all, &entry->node);
    t->n++;
    if (g->has_token) {
        struct entry **bucket = bucket_of(t, g->token_sha256);
        entry->next = *bucket;
        *bucket = entry;
    }
    if (t->n > t->nbuckets) {
        grow(t);
    }
    return ERR_OK;
}

static struct entry *entry_of(const struct grant_table *t, const struct grant *g)
{
    for (struct list *n = t->all.next; n != &t->all; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant == g) {
            return entry;
        }
    }
    return NULL;
}

static void drop(struct grant_table *t, struct grant *g)
{
    struct entry *entry = g->has_token ? find(t, g->token_sha256) : entry_of(t, g);

    if (entry == NULL || entry->grant != g) {
        return;
    }
    if (g->has_token) {
        struct entry **at = bucket_of(t, g->token_sha256);
        while (*at != entry) {
            at = &(*at)->next;
        }
        *at = entry->next;
    }
    list_remove(&entry->node);
    t->n--;
    grant_unref(g);
    free(entry);
}

enum err grant_table_add(struct grant_table *t, struct grant *g, struct error *e)
{
    pthread_rwlock_wrlock(&t->lock);
    enum err rc = add(t, g, e);
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

void grant_table_remove(struct grant_table *t, struct grant *g)
{
    pthread_rwlock_wrlock(&t->lock);
    drop(t, g);
    pthread_rwlock_unlock(&t->lock);
}

/* Puts back what was there: the entries were free()d a moment ago, so this fits but for other
 * threads' greed; what does not fit is told by the caller's error. */
static enum err replace(struct grant_table *t, struct grant *const *out, size_t nout,
                        struct grant *const *in, size_t nin, struct error *e)
{
    enum err rc = ERR_OK;
    size_t done = 0;

    for (size_t i = 0; i < nout; i++) {
        drop(t, out[i]);
    }
    while (done < nin && rc == ERR_OK) {
        rc = add(t, in[done], e);
        done += rc == ERR_OK ? 1 : 0;
    }
    if (rc == ERR_OK) {
        return rc;
    }
    while (done > 0) {
        drop(t, in[--done]);
    }
    for (size_t i = 0; i < nout; i++) {
        (void)!add(t, out[i], NULL);
    }
    return rc;
}

enum err grant_table_replace(struct grant_table *t, struct grant *const *out, size_t nout,
                             struct grant *const *in, size_t nin, struct error *e)
{
    for (size_t i = 0; i < nout; i++) { /* the caller's own references may be all that is left */
        (void)grant_ref(out[i]);
    }
    pthread_rwlock_wrlock(&t->lock);
    enum err rc = replace(t, out, nout, in, nin, e);
    pthread_rwlock_unlock(&t->lock);
    for (size_t i = 0; i < nout; i++) {
        grant_unref(out[i]);
    }
    return rc;
}

struct grant *grant_table_by_token(struct grant_table *t, struct span token)
{
    unsigned char sha256[GRANT_TOKEN_SHA256];

    if (token.n == 0 || token.n > GRANT_TOKEN_MAX || !sha256_of(token, sha256)) {
        return NULL;
    }
    pthread_rwlock_rdlock(&t->lock);
    struct entry *entry = find(t, sha256);
    struct grant *g = entry == NULL ? NULL : grant_ref(entry->grant);
    pthread_rwlock_unlock(&t->lock);
    return g;
}

struct grant *grant_table_by_cert(struct grant_table *t, const char *name)
{
    struct grant *g = NULL;

    pthread_rwlock_rdlock(&t->lock);
    for (struct list *n = t->all.next; n != &t->all && g == NULL; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant->cert_san != NULL && text_glob(entry->grant->cert_san, name)) {
            g = grant_ref(entry->grant);
        }
    }
    pthread_rwlock_unlock(&t->lock);
    return g;
}
