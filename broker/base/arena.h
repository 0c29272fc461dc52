/*
 * Memory with one lifetime: allocated piece by piece, freed at once. A request owns one for its
 * id, names and decoded strings. Blocks are 1 KiB or as large as the piece needs; `max` bounds the
 * sum of what was asked for.
 */
#ifndef TACTUS_BASE_ARENA_H
#define TACTUS_BASE_ARENA_H

#include "base/span.h"

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;
    size_t used;
    size_t max;
};

void arena_init(struct arena *a, size_t max);
void arena_fini(struct arena *a);

/* `n` bytes aligned for any type, not zeroed; NULL when out of memory or over the maximum. */
void *arena_alloc(struct arena *a, size_t n);

/* A copy of `s` with a NUL after it; NULL as above. */
char *arena_dup(struct arena *a, struct span s);

#endif
