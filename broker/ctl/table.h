/*
 * A table for people: cells row by row, then shown with a line of titles and aligned columns. Text
 * of cells may come from elsewhere: it stays in its line and steers no terminal.
 */
#ifndef TACTUS_CTL_TABLE_H
#define TACTUS_CTL_TABLE_H

#include "base/buf.h"
#include "base/span.h"
#include "ctl/output.h"

#include <stdbool.h>
#include <stddef.h>

#define TABLE_COLUMNS_MAX 16u
#define TABLE_SIZE_MAX    ((size_t)64 * 1024 * 1024)

struct table_column {
    const char *title; /* borrowed */
    bool right;        /* aligned: numbers */
};

struct table {
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t widths[TABLE_COLUMNS_MAX]; /* of the widest cell, in characters */
    size_t ncolumns;
    size_t ncells;
    struct buf cells; /* each ended by a NUL */
    bool incomplete;  /* a cell could not be built */
};

void table_init(struct table *t);
void table_fini(struct table *t);

/* All columns come before the first cell. One more than TABLE_COLUMNS_MAX is not added. */
void table_column(struct table *t, const char *title, bool right);

/* The next cell. A NUL in it ends it; an empty one is shown as "-". */
void table_put(struct table *t, struct span text);
void table_printf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* What was built in `text`, which is empty then; a failure of it is one of the table. */
void table_take(struct table *t, struct buf *text);

/* False, with nothing shown: out of memory, or more than TABLE_SIZE_MAX. */
bool table_show(struct table *t, struct output *o);

#endif
