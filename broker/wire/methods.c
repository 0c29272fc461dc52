/* The table of methods: see methods.h. */
#include "wire/methods.h"

#include <assert.h>

void methods_add(struct methods *t, struct method m)
{
    assert(t->n < METHODS_MAX);
    if (t->n < METHODS_MAX) {
        t->m[t->n++] = m;
    }
}

const struct method *methods_find(const struct methods *t, struct span name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (span_eq(span_str(t->m[i].name), name)) {
            return &t->m[i];
        }
    }
    return NULL;
}
