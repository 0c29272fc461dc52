/*
 * A client's connection: see client.h. The socket is non-blocking and each wait is a poll(2) with
 * what is left until the deadline, so that TLS and plain connections share one way of waiting:
 * transfer() moves what it can now, or says for which events to wait. Called by brokerctl.
 */
#include "net/client.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_SIZE ((size_t)16 * 1024)

struct client {
    int fd;
    SSL_CTX *ctx; /* NULL: plain */
    SSL *ssl;
    uint64_t wait_ms;
    size_t max_line;
    struct buf in;  /* what came; lines before `start` are done with */
    size_t start;   /* of the next line */
    size_t scanned; /* no newline between `start` and here */
    bool ended;     /* the peer sends no more */
};

/* ---- endpoints ---- */

static enum err parse_path(const char *path, struct client_endpoint *out, struct error *e)
{
    size_t n = strlen(path);

    if (n >= sizeof(out->path)) {
        return err_set(e, ERR_CONFIG, "the socket's path has %zu bytes; %zu are possible", n,
                       sizeof(out->path) - 1);
    }
    *out = (struct client_endpoint){.transport = CLIENT_UNIX};
    memcpy(out->path, path, n + 1);
    return ERR_OK;
}

static bool host_ok(const char *host, bool bracketed)
{
    struct in6_addr v6;
    char address[INET6_ADDRSTRLEN];
    size_t n = strcspn(host, "%"); /* fe80::1%eth0 */

    if (!bracketed) {
        return host[0] != '\0' &&
               host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789.-_")] == '\0';
    }
    if (n >= sizeof(address)) {
        return false;
    }
    memcpy(address, host, n);
    address[n] = '\0';
    return inet_pton(AF_INET6, address, &v6) == 1;
}

/* `rest` is host:port or [v6]:port, and perhaps '/' and more. */
static enum err parse_address(const char *rest, enum client_transport transport,
                              struct client_endpoint *out, struct error *e)
{
    struct client_endpoint made = {.transport = transport};
    bool bracketed = rest[0] == '[';
    const char *host = bracketed ? rest + 1 : rest;
    size_t host_n = strcspn(host, bracketed ? "]" : ":/");
    uint64_t number = 0;

    if (host_n >= sizeof(made.host)) {
        return err_set(e, ERR_CONFIG, "the host has %zu bytes; %zu are possible", host_n,
                       sizeof(made.host) - 1);
    }
    memcpy(made.host, host, host_n);
    if ((bracketed && host[host_n] != ']') || !host_ok(made.host, bracketed)) {
        return err_set(e, ERR_CONFIG, "no valid host; a v6 address stands in brackets");
    }
    const char *port = host + host_n + (bracketed ? 1 : 0);
    if (port[0] != ':') {
        return err_set(e, ERR_CONFIG, "no port after the host");
    }
    struct span digits = span_of(port + 1, strcspn(port + 1, "/"));
    if (!text_u64(digits, &number) || number == 0 || number > UINT16_MAX) {
        return err_set(e, ERR_CONFIG, "the port is no number from 1 to %d%s", UINT16_MAX,
                       bracketed || memchr(digits.p, ':', digits.n) == NULL
                           ? ""
                           : "; a v6 address stands in brackets");
    }
    made.port = (uint16_t)number;
    *out = made;
    return ERR_OK;
}

enum err client_endpoint_parse(const char *text, struct client_endpoint *out, struct error *e)
{
    static const char forms[] = "/path, unix:///path, tcp://host:port or tls://host:port";

    if (text[0] == '/') {
        return parse_path(text, out, e);
    }
    if (strncmp(text, "unix:///", 8) == 0) {
        return parse_path(text + 7, out, e);
    }
    if (strncmp(text, "tcp://", 6) == 0) {
        return parse_address(text + 6, CLIENT_TCP, out, e);
    }
    if (strncmp(text, "tls://", 6) == 0) {
        return parse_address(text + 6, CLIENT_TLS, out, e);
    }
    if (strcmp(text, "stdio") == 0) {
        return err_set(e, ERR_CONFIG, "stdio is for a program inside a container; expected %s",
                       forms);
    }
    return err_set(e, ERR_CONFIG, "expected %s", forms);
}

bool client_insecure_value(const char *value)
{
    return value != NULL &&
           (strcmp(value, "1") == 0 || strcmp(value, "true") == 0 || strcmp(value, "yes") == 0);
}

/* ---- waiting and moving bytes ---- */

static enum err timed_out(struct error *e)
{
    (void)err_set(e, ERR_IO, "no answer from the broker in time");
    if (e != NULL) {
        e->sys = ETIMEDOUT;
    }
    return ERR_IO;
}

/* Waits for one of `events`; ERR_IO with ETIMEDOUT at the deadline. */
static enum err wait_for(int fd, short events, uint64_t deadline, short *got, struct error *e)
{
    for (;;) {
        uint64_t now = clock_mono_ms();
        uint64_t left = deadline > now ? deadline - now : 0;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left);

        if (n > 0) {
            *got = p.revents;
            return ERR_OK;
        }
        if (n < 0 && errno != EINTR) {
            return err_sys(e, ERR_IO, errno, "cannot wait for the broker");
        }
        if (n == 0 && left <= INT_MAX) {
            return timed_out(e);
        }
    }
}

/* The outcome of a TLS operation that did not succeed: AGAIN with the events it waits for. */
static enum err tls_outcome(struct client *c, int result, short *events, struct error *e)
{
    int sys = errno;
    char text[160];

    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *events = POLLIN;
        return ERR_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        *events = POLLOUT;
        return ERR_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return err_set(e, ERR_CLOSED, "the broker closed the connection");
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        if (sys == 0 || sys == EPIPE || sys == ECONNRESET) {
            return err_set(e, ERR_CLOSED, "the connection was cut");
        }
        return err_sys(e, ERR_IO, sys, "the connection failed");
    default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
            ERR_clear_error();
            return err_set(e, ERR_CLOSED, "the connection was cut");
        }
        tls_error_text(text, sizeof(text));
        return err_set(e, ERR_IO, "TLS: %s", text);
    }
}

static enum err plain_outcome(short wanted, short *events, struct error *e)
{
    int sys = errno;

    if (sys == EAGAIN || sys == EINTR) {
        *events = wanted;
        return ERR_AGAIN;
    }
    if (sys == EPIPE || sys == ECONNRESET) {
        return err_set(e, ERR_CLOSED, "the connection was cut");
    }
    return err_sys(e, ERR_IO, sys, "the connection failed");
}

/* Sends what can go now. ERR_AGAIN: wait for *events. */
static enum err push(struct client *c, struct span bytes, size_t *sent, short *events,
                     struct error *e)
{
    if (c->ssl != NULL) {
        ERR_clear_error();
        errno = 0;
        int n = SSL_write_ex(c->ssl, bytes.p, bytes.n, sent);
        return n == 1 ? ERR_OK : tls_outcome(c, n, events, e);
    }
    ssize_t n = send(c->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
    if (n < 0) {
        return plain_outcome(POLLOUT, events, e);
    }
    *sent = (size_t)n;
    return ERR_OK;
}

/* Takes in what is there now. ERR_AGAIN: wait for *events; ERR_CLOSED: there will be no more. */
static enum err pull(struct client *c, short *events, struct error *e)
{
    size_t n = 0;
    enum err rc = ERR_OK;

    if (c->start > 0) {
        buf_consume(&c->in, c->start);
        c->scanned -= c->start;
        c->start = 0;
    }
    rc = buf_reserve(&c->in, READ_SIZE);
    if (rc != ERR_OK) {
        buf_truncate(&c->in, c->in.len);
        return err_set(e, rc, "no room for what the broker sends");
    }
    if (c->ssl != NULL) {
        ERR_clear_error();
        errno = 0;
        int ok = SSL_read_ex(c->ssl, c->in.p + c->in.len, READ_SIZE, &n);
        rc = ok == 1 ? ERR_OK : tls_outcome(c, ok, events, e);
    } else {
        ssize_t got = recv(c->fd, c->in.p + c->in.len, READ_SIZE, 0);
        n = got > 0 ? (size_t)got : 0;
        rc = got < 0 ? plain_outcome(POLLIN, events, e) : ERR_OK;
        if (got == 0) {
            rc = err_set(e, ERR_CLOSED, "the broker closed the connection");
        }
    }
    c->in.len += n;
    c->ended = c->ended || rc == ERR_CLOSED;
    return rc;
}

/* ---- lines ---- */

/* True when pull() got something: while we send, the peer may have its say (too large, overloaded)
 * and stop reading. *rc is what pull() returned. */
static bool peer_spoke(struct client *c, enum err *rc, struct error *e)
{
    size_t before = c->in.len - c->start;
    short events = 0;

    *rc = pull(c, &events, e);
    return c->in.len - c->start > before;
}

static enum err send_all(struct client *c, struct span bytes, uint64_t deadline, struct error *e)
{
    while (bytes.n > 0) {
        short events = 0;
        short got = 0;
        size_t sent = 0;
        enum err heard = ERR_AGAIN;
        enum err rc = push(c, bytes, &sent, &events, e);

        if (rc == ERR_OK) {
            bytes = span_after(bytes, sent);
            continue;
        }
        if (rc == ERR_AGAIN) {
            rc = wait_for(c->fd, (short)(events | POLLIN), deadline, &got, e);
        }
        /* A closed connection may still hold the peer's reason. */
        if ((rc == ERR_CLOSED || (got & POLLIN) != 0) && peer_spoke(c, &heard, NULL)) {
            return ERR_AGAIN;
        }
        if (rc != ERR_OK) {
            return rc;
        }
        if (heard != ERR_OK && heard != ERR_AGAIN) {
            return err_set(e, heard, "the connection ended before the request was sent");
        }
    }
    return ERR_OK;
}

enum err client_send(struct client *c, struct span line, struct error *e)
{
    uint64_t deadline = clock_mono_ms() + c->wait_ms;
    struct buf out;
    enum err rc = ERR_OK;

    if (c->start < c->in.len) {
        return ERR_AGAIN;
    }
    /* One write for line and end: a second small one would wait for the peer's ACK. */
    buf_init(&out, line.n + 1);
    buf_put_span(&out, line);
    buf_put_char(&out, '\n');
    rc = buf_status(&out);
    if (rc != ERR_OK) {
        rc = err_set(e, rc, "no memory for the request");
    } else {
        rc = send_all(c, buf_span(&out), deadline, e);
    }
    buf_fini(&out);
    return rc;
}

/* The next complete line in the buffer, blank ones skipped. */
static bool take_line(struct client *c, struct span *line)
{
    while (c->scanned < c->in.len) {
        const char *from = c->in.p + c->scanned;
        const char *end = memchr(from, '\n', c->in.len - c->scanned);

        if (end == NULL) {
            c->scanned = c->in.len;
            break;
        }
        *line = span_of(c->in.p + c->start, (size_t)(end - c->in.p) - c->start);
        c->start += line->n + 1;
        c->scanned = c->start;
        if (line->n > 0 && line->p[line->n - 1] == '\r') {
            line->n--;
        }
        if (line->n > 0) {
            return true;
        }
    }
    return false;
}

enum err client_read_line(struct client *c, struct span *line, struct error *e)
{
    uint64_t deadline = clock_mono_ms() + c->wait_ms;
    struct span found = {0};

    for (;;) {
        short events = POLLIN;
        short got = 0;
        bool complete = take_line(c, &found);
        size_t held = complete ? found.n : c->in.len - c->start;

        /* One byte more may be the '\r' of a line whose end has not come yet. */
        if (held > c->max_line + (complete ? 0 : 1)) {
            return err_set(e, ERR_LIMIT, "the broker sent a line of more than %zu bytes",
                           c->max_line);
        }
        if (complete) {
            *line = found;
            return ERR_OK;
        }
        if (c->ended) {
            return err_set(e, ERR_CLOSED, "the broker closed the connection%s",
                           held > 0 ? " inside a line" : "");
        }
        enum err rc = pull(c, &events, e);
        if (rc == ERR_AGAIN) {
            rc = wait_for(c->fd, events, deadline, &got, e);
        }
        if (rc != ERR_OK && rc != ERR_CLOSED) {
            return rc;
        }
    }
}

/* ---- connecting ---- */

static enum err cannot_connect(struct error *e, int sys)
{
    return err_sys(e, ERR_IO, sys, "cannot connect");
}

static enum err connect_fd(int fd, const struct sockaddr *sa, socklen_t size, uint64_t deadline,
                           struct error *e)
{
    int sys = 0;
    socklen_t sys_size = sizeof(sys);
    short got = 0;

    if (connect(fd, sa, size) == 0) {
        return ERR_OK;
    }
    /* A Unix socket whose backlog is full says EAGAIN and cannot be waited for. */
    if (errno != EINPROGRESS && errno != EINTR) {
        return cannot_connect(e, errno);
    }
    if (wait_for(fd, POLLOUT, deadline, &got, NULL) != ERR_OK) {
        return cannot_connect(e, ETIMEDOUT);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &sys_size) != 0) {
        sys = errno;
    }
    return sys == 0 ? ERR_OK : cannot_connect(e, sys);
}

static enum err open_socket(int family, const struct sockaddr *sa, socklen_t size,
                            uint64_t deadline, int *out, struct error *e)
{
    int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(e, ERR_IO, errno, "cannot make a socket");
    }
    if (family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    enum err rc = connect_fd(fd, sa, size, deadline, e);
    if (rc != ERR_OK) {
        close(fd);
        return rc;
    }
    *out = fd;
    return ERR_OK;
}

static enum err open_unix(const struct client_endpoint *endpoint, uint64_t deadline, int *out,
                          struct error *e)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    _Static_assert(sizeof(sa.sun_path) == CLIENT_PATH_SIZE, "a path fits");
    memcpy(sa.sun_path, endpoint->path, sizeof(sa.sun_path));
    return open_socket(AF_UNIX, (const struct sockaddr *)&sa, sizeof(sa), deadline, out, e);
}

/* Tries the host's addresses in turn; each gets its share of the time that is left. */
static enum err open_tcp(const struct client_endpoint *endpoint, uint64_t deadline, int *out,
                         struct error *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    uint64_t left = 0;
    enum err rc = ERR_IO;

    snprintf(port, sizeof(port), "%u", (unsigned)endpoint->port);
    int failed = getaddrinfo(endpoint->host, port, &hints, &list);
    if (failed != 0) {
        return err_set(e, ERR_IO, "cannot find the host %s: %s", endpoint->host,
                       gai_strerror(failed));
    }
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        left++;
    }
    for (const struct addrinfo *a = list; a != NULL && rc != ERR_OK; a = a->ai_next) {
        uint64_t now = clock_mono_ms();
        uint64_t share = deadline > now ? (deadline - now) / left : 0;
        rc = open_socket(a->ai_family, a->ai_addr, a->ai_addrlen, now + share, out, e);
        left--;
    }
    freeaddrinfo(list);
    return rc;
}

static enum err dial(const struct client_endpoint *endpoint, uint64_t deadline, int *fd,
                     struct error *e)
{
    return endpoint->transport == CLIENT_UNIX ? open_unix(endpoint, deadline, fd, e)
                                              : open_tcp(endpoint, deadline, fd, e);
}

enum err client_dial(const struct client_endpoint *endpoint, uint64_t connect_ms, int *fd,
                     struct error *e)
{
    return dial(endpoint, clock_mono_ms() + connect_ms, fd, e);
}

/* ---- TLS ---- */

static enum err tls_failed(const char *what, enum err code, struct error *e)
{
    char text[160];

    tls_error_text(text, sizeof(text));
    return err_set(e, code, "%s: %s", what, text);
}

static enum err tls_trust(SSL_CTX *ctx, const struct client_options *options, struct error *e)
{
    if (options->insecure) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
        return ERR_OK;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return tls_failed("cannot read the system's certificates", ERR_IO, e);
    }
    if (options->ca_file == NULL || options->ca_file[0] == '\0') {
        return ERR_OK;
    }
    if (access(options->ca_file, R_OK) != 0) { /* OpenSSL's word for it is hard to read */
        return err_sys(e, ERR_CONFIG, errno, "CA file %s", options->ca_file);
    }
    if (SSL_CTX_load_verify_file(ctx, options->ca_file) != 1) {
        enum err rc = tls_failed("cannot be used", ERR_CONFIG, e);
        (void)err_wrap(e, "CA file %s", options->ca_file);
        return rc;
    }
    return ERR_OK;
}

static enum err tls_handshake(struct client *c, uint64_t deadline, struct error *e)
{
    for (;;) {
        short events = 0;
        short got = 0;

        ERR_clear_error();
        errno = 0;
        int n = SSL_connect(c->ssl);
        if (n == 1) {
            return ERR_OK;
        }
        long verdict = SSL_get_verify_result(c->ssl);
        enum err rc = tls_outcome(c, n, &events, e);
        if (rc == ERR_AGAIN) {
            rc = wait_for(c->fd, events, deadline, &got, e);
            if (rc != ERR_OK) {
                return rc;
            }
            continue;
        }
        if (verdict != X509_V_OK && SSL_get_verify_mode(c->ssl) != SSL_VERIFY_NONE) {
            return err_set(e, ERR_IO, "TLS: the broker's certificate is not trusted: %s",
                           X509_verify_cert_error_string(verdict));
        }
        /* Whoever hangs up now is not there for us. */
        return rc == ERR_CLOSED ? err_set(e, ERR_IO, "TLS: the broker ended the handshake") : rc;
    }
}

static enum err start_tls(struct client *c, const char *host, const struct client_options *options,
                          uint64_t deadline, struct error *e)
{
    ERR_clear_error();
    c->ctx = SSL_CTX_new(TLS_client_method());
    if (c->ctx == NULL || SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION) != 1) {
        return tls_failed("cannot set up TLS", ERR_IO, e);
    }
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    enum err rc = tls_trust(c->ctx, options, e);
    if (rc != ERR_OK) {
        return rc;
    }
    c->ssl = SSL_new(c->ctx);
    if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1 || !tls_expect_host(c->ssl, host)) {
        return tls_failed("cannot set up TLS", ERR_IO, e);
    }
    return tls_handshake(c, deadline, e);
}

/* ---- lifetime ---- */

enum err client_adopt(int fd, const struct client_options *options, struct client **out,
                      struct error *e)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        enum err rc = err_sys(e, ERR_IO, errno, "cannot use the socket");
        close(fd);
        return rc;
    }
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        close(fd);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    c->fd = fd;
    c->wait_ms = options->wait_ms;
    c->max_line = options->max_line;
    buf_init(&c->in, options->max_line + 2 + READ_SIZE);
    *out = c;
    return ERR_OK;
}

enum err client_connect(const struct client_endpoint *endpoint,
                        const struct client_options *options, struct client **out, struct error *e)
{
    uint64_t deadline = clock_mono_ms() + options->connect_ms;
    struct client *c = NULL;
    int fd = -1;
    enum err rc = dial(endpoint, deadline, &fd, e);

    if (rc == ERR_OK) {
        rc = client_adopt(fd, options, &c, e);
    }
    if (c != NULL && endpoint->transport == CLIENT_TLS) {
        rc = start_tls(c, endpoint->host, options, deadline, e);
    }
    if (rc != ERR_OK) {
        client_close(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void client_close(struct client *c)
{
    if (c == NULL) {
        return;
    }
    if (c->ssl != NULL && SSL_is_init_finished(c->ssl) == 1) {
        (void)SSL_shutdown(c->ssl); /* says good-bye if that is possible at once */
        ERR_clear_error();
    }
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    close(c->fd);
    buf_fini(&c->in);
    free(c);
}
