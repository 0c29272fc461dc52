/*
 * Listening sockets. A turn accepts at most ACCEPT_MAX connections, so that those being served are
 * not starved; out of descriptors or memory it pauses for a moment and goes on by itself.
 */
#include "net/listener.h"

#include "base/log.h"
#include "net/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define ACCEPT_MAX     64
#define ACCEPT_REST_MS 100u
#define BACKLOG        4096

struct listener {
    struct loop *loop;
    int fd;
    uv_poll_t poll;
    listener_accept_fn *on_accept;
    void *ctx;
    struct loop_deadline rest;
};

/* ---- opening ---- */

static enum err remove_stale(const char *path, const struct sockaddr_un *sa, struct error *e)
{
    struct stat st;

    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? ERR_OK : err_sys(e, ERR_CONFIG, errno, "unix://%s", path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFIG, "unix://%s: a file that is no socket is in the way", path);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(e, ERR_IO, errno, "cannot make a socket");
    }
    int rc = connect(fd, (const struct sockaddr *)sa, sizeof(*sa));
    int why = errno;
    close(fd);
    if (rc == 0 || why != ECONNREFUSED) {
        return err_set(e, ERR_CONFIG, "unix://%s: another process listens there", path);
    }
    if (unlink(path) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot remove the stale socket %s", path);
    }
    return ERR_OK;
}

static enum err bind_unix(int fd, const struct listener_address *a, struct error *e)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    if (strlen(a->path) >= sizeof(sa.sun_path)) {
        return err_set(e, ERR_CONFIG, "unix://%s: longer than %zu bytes", a->path,
                       sizeof(sa.sun_path) - 1);
    }
    memcpy(sa.sun_path, a->path, strlen(a->path) + 1);
    enum err rc = remove_stale(a->path, &sa, e);
    if (rc != ERR_OK) {
        return rc;
    }
    if (bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) != 0) {
        return err_sys(e, ERR_CONFIG, errno, "cannot listen on unix://%s", a->path);
    }
    /* Nobody can connect before listen(2): the mode is right from the first client on. */
    if (chmod(a->path, a->mode) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot set the mode of %s", a->path);
    }
    return ERR_OK;
}

bool listener_tcp_address(const struct listener_address *a, struct sockaddr_storage *out,
                          socklen_t *size)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
    const char *host = strcmp(a->host, "localhost") == 0 ? "127.0.0.1" : a->host;

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(out, &v4, sizeof(v4));
        *size = sizeof(v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(out, &v6, sizeof(v6));
        *size = sizeof(v6);
        return true;
    }
    return false;
}

static enum err bind_tcp(int fd, const struct listener_address *a, struct error *e)
{
    struct sockaddr_storage sa = {0};
    socklen_t size = 0;
    int on = 1;

    if (!listener_tcp_address(a, &sa, &size)) {
        return err_set(e, ERR_CONFIG, "%s: not a literal address, nor localhost", a->host);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot share port %u", (unsigned)a->port);
    }
    /* A bridge's address may come up after us. */
    (void)setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* accepted ones inherit it */
    if (bind(fd, (const struct sockaddr *)&sa, size) != 0) {
        return err_sys(e, ERR_CONFIG, errno, "cannot listen on %s port %u", a->host,
                       (unsigned)a->port);
    }
    return ERR_OK;
}

static int family_of(const struct listener_address *a)
{
    if (a->path != NULL) {
        return AF_UNIX;
    }
    return strchr(a->host, ':') == NULL ? AF_INET : AF_INET6;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t size = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &size) != 0) {
        return 0;
    }
    if (sa.ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &sa, sizeof(v4));
        return ntohs(v4.sin_port);
    }
    if (sa.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &sa, sizeof(v6));
        return ntohs(v6.sin6_port);
    }
    return 0;
}

enum err listener_open(const struct listener_address *address, int *fd, uint16_t *port,
                       struct error *e)
{
    int s = socket(family_of(address), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (s < 0) {
        return err_sys(e, ERR_IO, errno, "cannot make a socket");
    }
    enum err rc = address->path != NULL ? bind_unix(s, address, e) : bind_tcp(s, address, e);
    if (rc == ERR_OK && listen(s, BACKLOG) != 0) {
        rc = err_sys(e, ERR_CONFIG, errno, "cannot listen on %s",
                     address->path != NULL ? address->path : address->host);
    }
    if (rc != ERR_OK) {
        close(s);
        return rc;
    }
    *fd = s;
    *port = bound_port(s);
    return ERR_OK;
}

/* ---- accepting ---- */

static void on_connection(uv_poll_t *poll, int status, int events);

static void rest_over(void *ctx)
{
    struct listener *l = ctx;

    if (uv_poll_start(&l->poll, UV_READABLE, on_connection) != 0) {
        log_error("listener", LOG_MSG("cannot accept any more"));
    }
}

static void take_a_rest(struct listener *l, int why)
{
    log_warn("listener", LOG_MSG("not accepting for a moment"), LOG_STR("why", strerror(why)));
    if (loop_deadline_set(l->loop, &l->rest, loop_now(l->loop) + ACCEPT_REST_MS) == ERR_OK) {
        uv_poll_stop(&l->poll);
    }
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;

    (void)events;
    if (status < 0) {
        take_a_rest(l, -status);
        return;
    }
    for (int i = 0; i < ACCEPT_MAX && l->fd >= 0; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            l->on_accept(l->ctx, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            take_a_rest(l, errno);
            return;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
        /* ECONNABORTED and the like: that one client is gone, the next may not be. */
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

enum err listener_start(struct loop *loop, int fd, listener_accept_fn *on_accept, void *ctx,
                        struct listener **out, struct error *e)
{
    struct listener *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        close(fd);
        return err_set(e, ERR_NOMEM, "out of memory for a listener");
    }
    l->loop = loop;
    l->fd = fd;
    l->on_accept = on_accept;
    l->ctx = ctx;
    loop_deadline_init(&l->rest, rest_over, l);
    int rc = uv_poll_init(loop_uv(loop), &l->poll, fd);
    if (rc != 0) {
        free(l);
        close(fd);
        return err_set(e, ERR_IO, "cannot watch a listening socket: %s", uv_strerror(rc));
    }
    l->poll.data = l;
    rc = uv_poll_start(&l->poll, UV_READABLE, on_connection);
    if (rc != 0) {
        listener_stop(l);
        return err_set(e, ERR_IO, "cannot watch a listening socket: %s", uv_strerror(rc));
    }
    *out = l;
    return ERR_OK;
}

void listener_stop(struct listener *l)
{
    if (l == NULL) {
        return;
    }
    loop_deadline_clear(l->loop, &l->rest);
    uv_close((uv_handle_t *)&l->poll, on_closed);
    close(l->fd);
    l->fd = -1;
}
