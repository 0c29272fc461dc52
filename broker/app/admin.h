/*
 * The admin API: HTTP on the listeners of the section `admin`, for the operator and the runner.
 * All of it on loop 0. Calls, bodies, replies: README.md of broker/http.
 */
#ifndef TACTUS_APP_ADMIN_H
#define TACTUS_APP_ADMIN_H

#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>

struct admin;
struct broker;

/* Opens and accepts. b->runs is there. ERR_CONFIG, ERR_IO, ERR_NOMEM. */
enum err admin_new(struct broker *b, struct admin **out, struct error *e) MUST_CHECK;

/* Closes everything and removes the sockets. Before loop 0 is freed. NULL is harmless. */
void admin_free(struct admin *a);

/* One line a listener: http+unix:///PATH, http://HOST:PORT/, and with `token` the latter followed
 * by #token=TOKEN. NULL prints nothing. */
void admin_print_endpoints(const struct admin *a, bool token, FILE *out);

#endif
