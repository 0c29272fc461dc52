/* Memory with one lifetime: see arena.h. Used by requests. */
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

void *arena_alloc(struct arena *a, size_t n)
{
    const size_t align = alignof(max_align_t);

    if (n > a->max || a->used > a->max - n || n > SIZE_MAX - align) {
        return NULL;
    }
    size_t rounded = (n + align - 1) / align * align;
    struct arena_block *b = a->blocks;
    if (b == NULL || b->cap - b->used < rounded) {
        size_t cap = rounded > BLOCK_SIZE - sizeof(*b) ? rounded : BLOCK_SIZE - sizeof(*b);
        b = malloc(sizeof(*b) + cap);
        if (b == NULL) {
            return NULL;
        }
        *b = (struct arena_block){.next = a->blocks, .cap = cap};
        a->blocks = b;
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
