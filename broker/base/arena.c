/*
 * Memory with one lifetime: see arena.h. Used by requests.
 *
 * The first block of the list is the one that small pieces come from; a piece too large for a block
 * has one of its own behind it, so that the rest of the first is not lost.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCK_SIZE 1024u

struct arena_block {
    struct arena_block *next;
    size_t cap;
    size_t used;
    alignas(max_align_t) char data[];
};

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){.max = max};
}

void arena_fini(struct arena *a)
{
    while (a->blocks != NULL) {
        struct arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
    a->used = 0;
}

static struct arena_block *block_new(struct arena *a, size_t n)
{
    const size_t usual = BLOCK_SIZE - sizeof(struct arena_block);
    const size_t cap = n > usual ? n : usual;
    struct arena_block *b = malloc(sizeof(*b) + cap);

    if (b == NULL) {
        return NULL;
    }
    *b = (struct arena_block){.cap = cap};
    if (n > usual && a->blocks != NULL) {
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        b->next = a->blocks;
        a->blocks = b;
    }
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    const size_t align = alignof(max_align_t);

    if (n > a->max || a->used > a->max - n || n > SIZE_MAX - sizeof(struct arena_block) - align) {
        return NULL;
    }
    size_t rounded = (n + align - 1) / align * align;
    struct arena_block *b = a->blocks;
    if (b == NULL || b->cap - b->used < rounded) {
        b = block_new(a, rounded);
        if (b == NULL) {
            return NULL;
        }
    }
    void *p = b->data + b->used;
    b->used += rounded;
    a->used += n;
    return p;
}

char *arena_dup(struct arena *a, struct span s)
{
    char *p = s.n == SIZE_MAX ? NULL : arena_alloc(a, s.n + 1);

    if (p == NULL) {
        return NULL;
    }
    if (s.n > 0) {
        memcpy(p, s.p, s.n);
    }
    p[s.n] = '\0';
    return p;
}
