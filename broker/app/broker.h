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
struct service;

struct broker_options {
    const char *config_file; /* what a reload reads; NULL: --dev, there is nothing to read again */
    const char
        *events_file; /* gets every accepted event as a JSON line, "-" is stdout; NULL: none */
    bool allow_missing_keys;
    struct service *service; /* borrowed: app/service.h */
};

/*
 * Opens every listener and starts nothing yet. Takes a reference to `config`, whose secrets are
 * loaded. ERR_CONFIG, ERR_IO, ERR_NOMEM.
 */
enum err broker_new(struct config *config, const struct broker_options *options,
                    struct broker **out, struct error *e) MUST_CHECK;

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
