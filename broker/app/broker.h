/*
 * The broker as a whole: loops, listeners, bus. main() makes one, runs it, frees it.
 */
#ifndef TACTUS_APP_BROKER_H
#define TACTUS_APP_BROKER_H

#include "base/err.h"
#include "gate/config.h"

#include <stdbool.h>
#include <stdio.h>

struct broker;

/*
 * Opens every listener and starts nothing yet. `config` is borrowed. `events_file` (NULL: none)
 * gets every accepted event as a JSON line, "-" is stdout. ERR_CONFIG, ERR_IO, ERR_NOMEM.
 */
enum err broker_new(const struct config *config, const char *events_file, struct broker **out,
                    struct error *e) MUST_CHECK;

/*
 * One line a listener, in their order, as a client writes it: /path, tcp://host:port, tls://…; then
 * one each of the admin API: http+unix:///path, http://host:port/, with `token` the latter followed
 * by #token=TOKEN.
 */
void broker_print_endpoints(const struct broker *b, bool token, FILE *out);

/*
 * Runs until SIGTERM or SIGINT. The first lets streams in flight end for config->drain_timeout,
 * then ends them with ShuttingDown; the second ends at once.
 */
enum err broker_run(struct broker *b, struct error *e) MUST_CHECK;

void broker_free(struct broker *b);

#endif
