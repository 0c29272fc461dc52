/*
 * What clang's analyser cannot see from one file: err_set() and its kind return the code they are
 * given, never ERR_OK; and the first node of a list is another one after it was removed. Included
 * by tests/lint/tidy.sh before every file but err.c; nobody else.
 */
#ifndef TACTUS_LINT_ANALYZER_H
#define TACTUS_LINT_ANALYZER_H

#include "base/err.h"
#include "base/list.h"

void lint_use(struct error *e, const char *fmt, ...);
void *lint_entry(struct list *node);

#define err_set(e, code, ...)      (lint_use((e), __VA_ARGS__), (code))
#define err_sys(e, code, sys, ...) ((void)(sys), lint_use((e), __VA_ARGS__), (code))
#define err_wrap(e, ...)           (lint_use((e), __VA_ARGS__), ERR_IO)

#undef LIST_ENTRY
#define LIST_ENTRY(node, type, member) ((type *)lint_entry(node))

#endif
