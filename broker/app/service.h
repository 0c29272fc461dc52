/*
 * The service manager's side of the process (systemd, or who speaks its protocols): notifications,
 * the watchdog, and listening sockets that it passed. Without a manager everything here is a no-op.
 *
 * All functions are for the main thread, which is also worker 0's. The order of a life:
 *
 *   service_new            first thing in main after the command line, before any thread and before
 *                          harden(): it changes the environment
 *   service_take_sockets   at once after it, for a program that will listen (not --check-config)
 *   service_socket_for     instead of listener_open, for each configured listener (clients', admin)
 *   service_no_leftovers   when every listener of the configuration has its socket
 *   service_watchdog_start before worker 0's loop runs
 *   service_ready          when everything listens: at once before worker 0's loop runs
 *   service_reloading      on SIGHUP, before the configuration is read; then, however that ended,
 *                          service_ready
 *   service_stopping       when the drain begins; after it neither service_reloading nor
 * service_ready service_watchdog_stop  before worker 0's loop is freed service_free           last
 */
#ifndef TACTUS_APP_SERVICE_H
#define TACTUS_APP_SERVICE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct listener_address;
struct loop;
struct service;

/*
 * Reads NOTIFY_SOCKET and WATCHDOG_* and takes them out of the environment: children are not the
 * service. An address that cannot be used is logged, and nobody is notified. ERR_NOMEM.
 */
enum err service_new(struct service **out, struct error *e) MUST_CHECK;

/* Closes the passed sockets that nobody asked for. After service_watchdog_stop; NULL is harmless.
 */
void service_free(struct service *s);

/* ---- notifications: never wait for the manager (but READY, 5 s at most), never fail ---- */

void service_ready(struct service *s);

/* For Type=notify-reload, which wants the time; Type=notify ignores what it does not know. */
void service_reloading(struct service *s);

/* `needed_ms`: how long the end may take, told when it is not 0: the manager waits that long
 * although its own time-out be shorter. */
void service_stopping(struct service *s, uint32_t needed_ms);

/* What people see in `systemctl status`: one line of at most 255 bytes, never a secret. */
void service_status(struct service *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- watchdog ---- */

/* Pings from `loop` twice in each WATCHDOG_USEC; when the manager asked for none, nothing ticks.
 * Once. ERR_NOMEM. */
enum err service_watchdog_start(struct service *s, struct loop *loop, struct error *e) MUST_CHECK;

/* Harmless when it was not started. */
void service_watchdog_stop(struct service *s);

/* ---- sockets ---- */

/*
 * Collects what LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES tell of, once, and takes these variables
 * out of the environment; what is meant for another process is left alone. Each descriptor gets
 * close-on-exec and non-blocking. ERR_CONFIG, naming it, for one that is no listening stream socket
 * of Unix, IPv4 or IPv6, and for more than 64; ERR_IO, ERR_NOMEM.
 */
enum err service_take_sockets(struct service *s, struct error *e) MUST_CHECK;

/*
 * The passed socket that is bound to exactly `address` (path, or host and port; the mode is the
 * manager's), or -1: open one. The descriptor is the caller's from then on and is not found again.
 * One socket for all workers: its connections are to be handed round, as a Unix socket's, and its
 * file is the manager's, not to be removed.
 */
int service_socket_for(struct service *s, const struct listener_address *address) MUST_CHECK;

/* ERR_CONFIG with the addresses of passed sockets that no listener asked for: who set them up
 * believes that they are served. */
enum err service_no_leftovers(const struct service *s, struct error *e) MUST_CHECK;

#endif
