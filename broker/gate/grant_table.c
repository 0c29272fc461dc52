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
    bool leaves; /* is being replaced: not there for find() and entry_of() */
    struct entry *next_leaving;
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

static void entry_free(struct entry *entry)
{
    grant_unref(entry->grant);
    free(entry);
}

static void free_all(struct list *entries)
{
    for (struct list *n = list_pop(entries); n != NULL; n = list_pop(entries)) {
        entry_free(LIST_ENTRY(n, struct entry, node));
    }
}

void grant_table_free(struct grant_table *t)
{
    if (t == NULL) {
        return;
    }
    free_all(&t->all);
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

    while (entry != NULL && (entry->leaves || !sha256_equal(entry->grant->token_sha256, sha256))) {
        entry = entry->next;
    }
    return entry;
}

/* As many buckets as grants, if not yet; the old ones stay when there is no memory. */
static void grow(struct grant_table *t)
{
    size_t nbuckets = t->nbuckets;

    while (nbuckets < t->n) {
        nbuckets *= 2;
    }
    struct entry **buckets =
        nbuckets == t->nbuckets ? NULL : calloc(nbuckets, sizeof(struct entry *));
    if (buckets == NULL) {
        return;
    }
    free(t->buckets);
    t->buckets = buckets;
    t->nbuckets = nbuckets;
    for (struct list *n = t->all.next; n != &t->all; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant->has_token) {
            struct entry **bucket = bucket_of(t, entry->grant->token_sha256);
            entry->next = *bucket;
            *bucket = entry;
        }
    }
}

static struct entry *entry_new(struct grant *g)
{
    struct entry *entry = calloc(1, sizeof(*entry));

    if (entry != NULL) {
        list_init(&entry->node);
        entry->grant = grant_ref(g);
    }
    return entry;
}

/* Into its bucket, when it has one. ERR_CONFIG: its token is known. */
static enum err link_token(struct grant_table *t, struct entry *entry, struct error *e)
{
    const struct grant *g = entry->grant;
    const struct entry *same = g->has_token ? find(t, g->token_sha256) : NULL;

    if (same != NULL) {
        return err_set(e, ERR_CONFIG, "grant %s has the same token as grant %s", g->name,
                       same->grant->name);
    }
    if (g->has_token) {
        struct entry **bucket = bucket_of(t, g->token_sha256);
        entry->next = *bucket;
        *bucket = entry;
    }
    return ERR_OK;
}

static void unlink_token(struct grant_table *t, struct entry *entry)
{
    if (!entry->grant->has_token) {
        return;
    }
    struct entry **at = bucket_of(t, entry->grant->token_sha256);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
}

static struct entry *entry_of(const struct grant_table *t, const struct grant *g)
{
    if (g->has_token) {
        struct entry *entry = find(t, g->token_sha256);
        return entry != NULL && entry->grant == g ? entry : NULL;
    }
    for (struct list *n = t->all.next; n != &t->all; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant == g && !entry->leaves) {
            return entry;
        }
    }
    return NULL;
}

static void drop(struct grant_table *t, struct entry *entry)
{
    unlink_token(t, entry);
    list_remove(&entry->node);
    t->n--;
    entry_free(entry);
}

void grant_table_remove(struct grant_table *t, struct grant *g)
{
    pthread_rwlock_wrlock(&t->lock);
    struct entry *entry = entry_of(t, g);
    if (entry != NULL) {
        drop(t, entry);
    }
    pthread_rwlock_unlock(&t->lock);
}

/* ---- replacing ---- */

/* All memory that is needed, before anything is changed. */
static enum err prepare(struct list *entries, struct grant *const *in, size_t nin, struct error *e)
{
    for (size_t i = 0; i < nin; i++) {
        struct entry *entry = entry_new(in[i]);
        if (entry == NULL) {
            free_all(entries);
            return err_set(e, ERR_NOMEM, "out of memory for a grant");
        }
        list_push_back(entries, &entry->node);
    }
    return ERR_OK;
}

static struct entry *mark(struct grant_table *t, struct grant *const *out, size_t nout)
{
    struct entry *leaving = NULL;

    for (size_t i = 0; i < nout; i++) {
        struct entry *entry = entry_of(t, out[i]);
        if (entry != NULL) {
            entry->leaves = true;
            entry->next_leaving = leaving;
            leaving = entry;
        }
    }
    return leaving;
}

/* Those that were marked: gone, or back as they were. */
static void settle(struct grant_table *t, struct entry *leaving, bool gone)
{
    while (leaving != NULL) {
        struct entry *entry = leaving;
        leaving = entry->next_leaving;
        entry->leaves = false;
        if (gone) {
            drop(t, entry);
        }
    }
}

/* All tokens of `entries` into their buckets, or none. */
static enum err link_all(struct grant_table *t, struct list *entries, struct error *e)
{
    enum err rc = ERR_OK;
    struct list *n = entries->next;

    while (n != entries && rc == ERR_OK) {
        rc = link_token(t, LIST_ENTRY(n, struct entry, node), e);
        n = rc == ERR_OK ? n->next : n;
    }
    if (rc == ERR_OK) {
        return rc;
    }
    for (n = n->prev; n != entries; n = n->prev) {
        unlink_token(t, LIST_ENTRY(n, struct entry, node));
    }
    return rc;
}

static enum err replace(struct grant_table *t, struct grant *const *out, size_t nout,
                        struct list *entries, size_t nin, struct error *e)
{
    struct entry *leaving = mark(t, out, nout);
    enum err rc = link_all(t, entries, e);

    settle(t, leaving, rc == ERR_OK);
    if (rc == ERR_OK) {
        for (struct list *n = list_pop(entries); n != NULL; n = list_pop(entries)) {
            list_push_back(&t->all, n);
        }
        t->n += nin;
        grow(t);
    }
    return rc;
}

enum err grant_table_replace(struct grant_table *t, struct grant *const *out, size_t nout,
                             struct grant *const *in, size_t nin, struct error *e)
{
    struct list entries;

    list_init(&entries);
    enum err rc = prepare(&entries, in, nin, e);
    if (rc == ERR_OK) {
        pthread_rwlock_wrlock(&t->lock);
        rc = replace(t, out, nout, &entries, nin, e);
        pthread_rwlock_unlock(&t->lock);
    }
    free_all(&entries);
    return rc;
}

enum err grant_table_add(struct grant_table *t, struct grant *g, struct error *e)
{
    return grant_table_replace(t, NULL, 0, &g, 1, e);
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
