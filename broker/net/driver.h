/*
 * What a program that is no server waits with (the runner, brokerctl): one event loop, one HTTP
 * client, the signals that end it. Such a program is a straight line of steps; each step starts
 * something on the loop and turns the loop until it is done, so that everything else (streams,
 * relays) moves on meanwhile.
 *
 * One thread. No callback that the loop calls may call driver_wait.
 */
#ifndef TACTUS_NET_DRIVER_H
#define TACTUS_NET_DRIVER_H

#include "base/err.h"
#include "net/http_client.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct driver {
    struct loop *loop;
    struct http_client *http;
    struct loop_signals *signals;
    int signal;           /* the first of SIGINT, SIGTERM, SIGHUP that came; 0: none */
    bool uninterruptible; /* clean-up: a signal does not end a wait */
};

/* Zeroed or initialised before driver_fini. Also ignores SIGPIPE. ERR_NOMEM, ERR_IO. */
enum err driver_init(struct driver *d, struct error *e) MUST_CHECK;
void driver_fini(struct driver *d);

/* `at` of a moment `ms` from now, for driver_wait. */
uint64_t driver_deadline(struct driver *d, uint64_t ms);

/*
 * Turns the loop until *done. ERR_AGAIN: `at` (driver_deadline; 0: none) has come first;
 * ERR_CLOSED: a signal came, before or while waiting, and it is not uninterruptible.
 */
enum err driver_wait(struct driver *d, const bool *done, uint64_t at) MUST_CHECK;

#endif
