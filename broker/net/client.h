/*
 * A client's connection to a broker: one blocking stream of lines in each direction, over a Unix
 * socket, TCP or TLS. For command-line tools and tests; the broker itself never uses it.
 *
 * Every wait has a deadline, every line a maximum. A TLS write cannot ask the kernel to hold back
 * SIGPIPE, so the program ignores that signal. Looking up a host's name takes as long as the
 * system's resolver lets it (a literal address needs none). One thread at a time.
 */
#ifndef TACTUS_NET_CLIENT_H
#define TACTUS_NET_CLIENT_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_PATH_SIZE 108 /* as sockaddr_un has it, with the NUL */
#define CLIENT_HOST_SIZE 254 /* a DNS name's 253 bytes and the NUL */
#define CLIENT_LINE_MAX  ((size_t)1 << 30)

enum client_transport { CLIENT_UNIX, CLIENT_TCP, CLIENT_TLS };

struct client_endpoint {
    enum client_transport transport;
    char path[CLIENT_PATH_SIZE]; /* CLIENT_UNIX */
    char host[CLIENT_HOST_SIZE]; /* else; a v6 address without its brackets */
    uint16_t port;
};

/*
 * Reads an endpoint as TACTUS_BROKER_SOCKET has it: /path, unix:///path, tcp://host:port,
 * tls://host:port; a v6 address in brackets; what follows a further '/' after the port is ignored.
 * ERR_CONFIG with a message that says what is wrong.
 */
enum err client_endpoint_parse(const char *text, struct client_endpoint *out,
                               struct error *e) MUST_CHECK;

/* True for a value of TACTUS_BROKER_TLS_INSECURE that switches verification off: "1", "true",
 * "yes". NULL is allowed. */
bool client_insecure_value(const char *value);

struct client_options {
    const char *ca_file; /* trusted besides the system's store; NULL or "": none */
    bool insecure;       /* TLS without verification; the caller warns */
    uint64_t connect_ms; /* for connecting and the TLS handshake together, > 0 */
    uint64_t wait_ms;    /* for one line to go out or to come in, > 0 */
    size_t max_line; /* the longest line that may come in, without its end; 1..CLIENT_LINE_MAX */
};

struct client;

/*
 * Connects, and with TLS (1.2 at least) verifies the certificate and that it is the host's.
 * `options` is not kept. ERR_CONFIG: the CA file cannot be used; ERR_IO: no connection (sys is the
 * errno if there is one, ETIMEDOUT at the deadline); ERR_NOMEM. The caller frees with client_close.
 */
enum err client_connect(const struct client_endpoint *endpoint,
                        const struct client_options *options, struct client **out,
                        struct error *e) MUST_CHECK;

/* A connected socket (non-blocking, close-on-exec) and nothing more: no TLS. Errors as above. */
enum err client_dial(const struct client_endpoint *endpoint, uint64_t connect_ms, int *fd,
                     struct error *e) MUST_CHECK;

/* A client on `fd`, a connected stream socket, without TLS. Takes over `fd`, also on failure. */
enum err client_adopt(int fd, const struct client_options *options, struct client **out,
                      struct error *e) MUST_CHECK;

/*
 * Sends `line`, which has no newline in it, and its end. ERR_AGAIN: the peer already answered
 * before it had all of it, so the rest was not sent: read, and send nothing more. ERR_CLOSED,
 * ERR_IO (sys ETIMEDOUT at the deadline), ERR_NOMEM: the connection is of no use any more.
 */
enum err client_send(struct client *c, struct span line, struct error *e) MUST_CHECK;

/*
 * The next line that is not blank, without its end ("\n" or "\r\n"), valid until the next call.
 * ERR_CLOSED: the peer ended the connection (the message says whether inside a line); ERR_LIMIT:
 * the line is longer than max_line; ERR_IO (sys ETIMEDOUT at the deadline); ERR_NOMEM.
 */
enum err client_read_line(struct client *c, struct span *line, struct error *e) MUST_CHECK;

/* Closes and frees. */
void client_close(struct client *c);

#endif
