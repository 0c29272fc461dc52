/*
 * Listening sockets: opened once (any thread, before the loops run), then watched by one loop,
 * which accepts with our own accept4(2): libuv accepts and drops clients when descriptors run out,
 * this waits and serves those it has.
 */
#ifndef TACTUS_NET_LISTENER_H
#define TACTUS_NET_LISTENER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct loop;
struct listener;

struct listener_address {
    const char *path; /* a Unix socket; NULL: TCP */
    unsigned mode;    /* its file mode */
    const char *host; /* a literal IPv4 or IPv6 address, or "localhost" */
    uint16_t port;    /* 0: any free one */
    bool shared;      /* TCP: several sockets on this port (SO_REUSEPORT), one a loop */
};

/*
 * Opens and binds. A stale Unix socket file (nobody accepts) is replaced; a living one, or a file
 * that is no socket, is an error. *port is the bound TCP port. ERR_CONFIG, ERR_IO with a message
 * that names the address.
 */
enum err listener_open(const struct listener_address *address, int *fd, uint16_t *port,
                       struct error *e) MUST_CHECK;

/* The socket address of TCP `address`. False, nothing written: host is no literal address. */
bool listener_tcp_address(const struct listener_address *address, struct sockaddr_storage *out,
                          socklen_t *size) MUST_CHECK;

/* `fd` is a connected socket, non-blocking and close-on-exec; the callee owns it. */
typedef void listener_accept_fn(void *ctx, int fd);

/* Starts to accept on `loop`. Takes over `fd`, also on failure. */
enum err listener_start(struct loop *loop, int fd, listener_accept_fn *on_accept, void *ctx,
                        struct listener **out, struct error *e) MUST_CHECK;

/* Stops accepting and closes the socket (who is still in the backlog is refused). */
void listener_stop(struct listener *l);

#endif
