/* The table of methods: filled by main, one per loop, so that wire knows none of them. */
#ifndef TACTUS_WIRE_METHODS_H
#define TACTUS_WIRE_METHODS_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

struct request;

#define METHODS_MAX 16

struct method {
    const char *name;
    void (*start)(struct request *r, void *ctx);
    void *ctx;
    bool metered;   /* counts for the grant's limits, and has a row in the ledger */
    bool unlimited; /* answers at once and is never refused for too many in flight */
};

struct methods {
    struct method m[METHODS_MAX];
    size_t n;
};

/* `name` must outlive the table. More than METHODS_MAX is a programming error (asserted). */
void methods_add(struct methods *t, struct method m);
const struct method *methods_find(const struct methods *t, struct span name);

#endif
