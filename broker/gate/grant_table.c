/*
 * The table of known callers; see grant_table.h. Tokens: open addressing with linear probing, at
 * most half full. A slot holds the first bytes of a token's SHA-256, which are as random as any, so
 * that asking touches one line of slots and, when the token is known, the grant. Those bytes tell
 * nobody anything: who learns them by timing still has to find a text with that hash. All the hash
 * is compared in constant time. Certificates: a list, since each has a pattern.
 */
#include "gate/grant_table.h"

#include "base/list.h"
#include "base/text.h"
#include "net/sha256.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 64u

struct entry {
    struct list node; /* all, in order */
    struct grant *grant;
    bool leaves; /* is being replaced: not there for find() and entry_of() */
    struct entry *next_leaving;
};

struct slot {
    uint64_t head;       /* of the hash */
    struct grant *grant; /* NULL: free */
};

struct grant_table {
    pthread_rwlock_t lock;
    struct sha256_method *method;
    struct list all;
    struct slot *slots;
    struct entry **entries; /* the slots' own, apart from what each request looks at */
    size_t nslots;          /* a power of two */
    size_t n;
};

struct grant_table *grant_table_new(void)
{
    struct grant_table *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    t->method = sha256_method_new();
    t->slots = calloc(SLOTS_MIN, sizeof(*t->slots));
    t->entries = calloc(SLOTS_MIN, sizeof(struct entry *));
    if (t->method == NULL || t->slots == NULL || t->entries == NULL ||
        pthread_rwlock_init(&t->lock, NULL) != 0) {
        sha256_method_free(t->method);
        free(t->slots);
        free(t->entries);
        free(t);
        return NULL;
    }
    t->nslots = SLOTS_MIN;
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
    sha256_method_free(t->method);
    free(t->slots);
    free(t->entries);
    free(t);
}

/* ---- slots ---- */

static uint64_t head_of(const unsigned char *sha256)
{
    uint64_t head = 0;

    memcpy(&head, sha256, sizeof(head));
    return head;
}

static size_t after(const struct grant_table *t, size_t i)
{
    return (i + 1) & (t->nslots - 1);
}

/* The slot of that hash from `i` on (the first: head_of(sha256)), or a free one behind all of it.
 */
static size_t slot_of(const struct grant_table *t, uint64_t i, const unsigned char *sha256)
{
    uint64_t head = head_of(sha256);
    size_t at = (size_t)i & (t->nslots - 1);

    while (t->slots[at].grant != NULL &&
           (t->slots[at].head != head || !sha256_equal(t->slots[at].grant->token_sha256, sha256))) {
        at = after(t, at);
    }
    return at;
}

/* One that leaves may be there as well as the one that comes. */
static struct entry *find(const struct grant_table *t, const unsigned char *sha256)
{
    size_t at = slot_of(t, head_of(sha256), sha256);

    while (t->slots[at].grant != NULL && t->entries[at]->leaves) {
        at = slot_of(t, at + 1, sha256);
    }
    return t->slots[at].grant != NULL ? t->entries[at] : NULL;
}

/* There is room. */
static void put(struct grant_table *t, struct entry *entry)
{
    uint64_t head = head_of(entry->grant->token_sha256);
    size_t at = (size_t)head & (t->nslots - 1);

    while (t->slots[at].grant != NULL) {
        at = after(t, at);
    }
    t->slots[at] = (struct slot){.head = head, .grant = entry->grant};
    t->entries[at] = entry;
}

/* Those behind it move up, so that no search ends at the gap before them. */
static void take_out(struct grant_table *t, const struct entry *entry)
{
    size_t mask = t->nslots - 1;
    size_t gap = (size_t)head_of(entry->grant->token_sha256) & mask;

    while (t->entries[gap] != entry) {
        gap = after(t, gap);
    }
    for (size_t at = after(t, gap); t->slots[at].grant != NULL; at = after(t, at)) {
        size_t home = (size_t)t->slots[at].head & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            t->slots[gap] = t->slots[at];
            t->entries[gap] = t->entries[at];
            gap = at;
        }
    }
    t->slots[gap] = (struct slot){.grant = NULL};
    t->entries[gap] = NULL;
}

/* Room for `more`. ERR_NOMEM: all as it was. */
static enum err reserve(struct grant_table *t, size_t more, struct error *e)
{
    size_t nslots = t->nslots;

    while (nslots / 2 < t->n + more) {
        nslots *= 2;
    }
    if (nslots == t->nslots) {
        return ERR_OK;
    }
    struct slot *slots = calloc(nslots, sizeof(*slots));
    struct entry **entries = calloc(nslots, sizeof(struct entry *));
    if (slots == NULL || entries == NULL) {
        free(slots);
        free(entries);
        return err_set(e, ERR_NOMEM, "out of memory for the table of grants");
    }
    free(t->slots);
    free(t->entries);
    t->slots = slots;
    t->entries = entries;
    t->nslots = nslots;
    for (struct list *n = t->all.next; n != &t->all; n = n->next) {
        struct entry *entry = LIST_ENTRY(n, struct entry, node);
        if (entry->grant->has_token) {
            put(t, entry);
        }
    }
    return ERR_OK;
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

/* Into a slot, when it has a token. ERR_CONFIG: that is known. */
static enum err link_token(struct grant_table *t, struct entry *entry, struct error *e)
{
    const struct grant *g = entry->grant;
    const struct entry *same = g->has_token ? find(t, g->token_sha256) : NULL;

    if (same != NULL) {
        return err_set(e, ERR_CONFIG, "grant %s has the same token as grant %s", g->name,
                       same->grant->name);
    }
    if (g->has_token) {
        put(t, entry);
    }
    return ERR_OK;
}

static void unlink_token(struct grant_table *t, const struct entry *entry)
{
    if (entry->grant->has_token) {
        take_out(t, entry);
    }
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

/* All tokens of `entries` into slots, or none. */
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
    enum err rc = reserve(t, nin, e);

    if (rc != ERR_OK) {
        return rc;
    }
    struct entry *leaving = mark(t, out, nout);
    rc = link_all(t, entries, e);
    settle(t, leaving, rc == ERR_OK);
    if (rc == ERR_OK) {
        for (struct list *n = list_pop(entries); n != NULL; n = list_pop(entries)) {
            list_push_back(&t->all, n);
        }
        t->n += nin;
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

    if (token.n == 0 || token.n > GRANT_TOKEN_MAX || !sha256_with(t->method, token, sha256)) {
        return NULL;
    }
    pthread_rwlock_rdlock(&t->lock);
    /* None leaves while the lock is held for reading. */
    struct grant *g = t->slots[slot_of(t, head_of(sha256), sha256)].grant;
    if (g != NULL) {
        (void)grant_ref(g);
    }
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
