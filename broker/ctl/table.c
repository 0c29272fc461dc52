/*
 * Tables of brokerctl: see table.h. Cells are kept as text, since a column is as wide as its widest
 * cell. Used by operate_show.c.
 */
#include "ctl/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GAP "  "

void table_init(struct table *t)
{
    *t = (struct table){.ncolumns = 0};
    buf_init(&t->cells, TABLE_SIZE_MAX);
}

void table_fini(struct table *t)
{
    buf_fini(&t->cells);
}

/* Characters of valid UTF-8. */
static size_t width_of(struct span text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        n += ((unsigned char)text.p[i] & 0xc0u) != 0x80u;
    }
    return n;
}

void table_column(struct table *t, const char *title, bool right)
{
    if (t->ncolumns < TABLE_COLUMNS_MAX) {
        t->widths[t->ncolumns] = width_of(span_str(title));
        t->columns[t->ncolumns++] = (struct table_column){.title = title, .right = right};
    }
}

void table_put(struct table *t, struct span text)
{
    if (t->ncolumns == 0) {
        return;
    }
    size_t column = t->ncells % t->ncolumns;
    struct span cell = span_of(text.p, text.n == 0 ? 0 : strnlen(text.p, text.n));
    if (cell.n == 0) {
        cell = SPAN("-");
    }
    size_t width = width_of(cell);
    t->widths[column] = width > t->widths[column] ? width : t->widths[column];
    buf_put_span(&t->cells, cell);
    buf_put_char(&t->cells, '\0');
    t->ncells++;
}

void table_printf(struct table *t, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    table_put(t, n > 0 ? span_str(text) : SPAN(""));
}

void table_take(struct table *t, struct buf *text)
{
    t->incomplete = t->incomplete || buf_status(text) != ERR_OK;
    table_put(t, buf_span(text));
    buf_clear(text);
}

static void put_cell(const struct table *t, struct output *o, size_t column, struct span text)
{
    size_t width = t->widths[column];
    size_t own = width_of(text);
    bool last = column + 1 == t->ncolumns;

    if (t->columns[column].right) {
        output_pad(o, SPAN(""), width > own ? width - own : 0);
    }
    output_remote_line(o, text);
    if (!t->columns[column].right && !last) {
        output_pad(o, text, width);
    }
    output_str(o, last ? "\n" : GAP);
}

bool table_show(struct table *t, struct output *o)
{
    size_t at = 0;

    if (t->incomplete || buf_status(&t->cells) != ERR_OK || t->ncolumns == 0) {
        return false;
    }
    output_style(o, OUTPUT_BOLD);
    for (size_t i = 0; i < t->ncolumns; i++) {
        put_cell(t, o, i, span_str(t->columns[i].title));
    }
    output_style(o, OUTPUT_PLAIN);
    for (size_t i = 0; i < t->ncells; i++) {
        struct span cell = span_str(t->cells.p + at);
        put_cell(t, o, i % t->ncolumns, cell);
        at += cell.n + 1;
    }
    return true;
}
