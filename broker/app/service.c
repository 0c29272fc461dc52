/*
 * The service manager's side. What the manager passed is read with libsystemd; notifications are
 * sent here (the protocol is one datagram a message, and stable): sd_notify(3) reads NOTIFY_SOCKET
 * from the environment each time, where children would see it too, and waits when the manager is
 * busy, which an event loop must not.
 *
 * A notification that cannot be sent is lost and logged; a lost ping of the watchdog is followed by
 * another one in time.
 */
#include "app/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/listener.h"
#include "net/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define SOCKETS_MAX   64
#define READY_WAIT_S  5
#define STATUS_SIZE   256
#define MESSAGE_SIZE  320
#define ADDRESS_SIZE  (sizeof(((struct sockaddr_un *)0)->sun_path) + 16)
#define USEC_PER_MS   1000u
#define WATCHDOG_PART 2u

/* One socket that the manager passed. */
struct passed {
    int fd; /* -1: a listener has it */
    char name[64];
    char address[ADDRESS_SIZE]; /* as a listener's url has it */
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
};

struct service {
    int notify; /* datagram socket; -1: nobody is notified */
    struct sockaddr_un manager;
    socklen_t manager_size;
    uint64_t watchdog_ms; /* between two pings; 0: none are wanted */
    struct loop *loop;    /* which pings; NULL: none */
    struct loop_deadline ping;
    struct passed *sockets;
    size_t nsockets;
};

/* ---- notifications ---- */

static void notify(const struct service *s, const char *message, int flags)
{
    if (s->notify < 0) {
        return;
    }
    ssize_t n = 0;
    do {
        n = sendto(s->notify, message, strlen(message), flags | MSG_NOSIGNAL,
                   (const struct sockaddr *)&s->manager, s->manager_size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        log_warn("service", LOG_MSG("the service manager cannot be told"), LOG_STR("what", message),
                 LOG_STR("why", strerror(errno)));
    }
}

void service_ready(struct service *s)
{
    notify(s, "READY=1", 0);
}

void service_reloading(struct service *s)
{
    char message[MESSAGE_SIZE];

    (void)snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%llu",
                   (unsigned long long)clock_mono_us());
    notify(s, message, MSG_DONTWAIT);
}

void service_stopping(struct service *s, uint32_t needed_ms)
{
    char message[MESSAGE_SIZE] = "STOPPING=1";

    if (needed_ms > 0) {
        (void)snprintf(message, sizeof(message), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
                       (unsigned long long)needed_ms * USEC_PER_MS);
    }
    notify(s, message, MSG_DONTWAIT);
}

void service_status(struct service *s, const char *fmt, ...)
{
    char text[STATUS_SIZE];
    char message[MESSAGE_SIZE];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* A line break would begin another variable. */
    for (char *p = strpbrk(text, "\r\n"); p != NULL; p = strpbrk(p, "\r\n")) {
        *p = ' ';
    }
    (void)snprintf(message, sizeof(message), "STATUS=%s", text);
    notify(s, message, MSG_DONTWAIT);
}

/* False: not the address of a Unix socket. */
static bool read_manager(struct service *s, const char *address)
{
    size_t n = strlen(address);

    if ((address[0] != '/' && address[0] != '@') || n < 2 || n >= sizeof(s->manager.sun_path)) {
        return false;
    }
    s->manager.sun_family = AF_UNIX;
    memcpy(s->manager.sun_path, address, n + 1);
    s->manager_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    if (address[0] == '@') { /* an abstract name: it has a NUL before, none behind */
        s->manager.sun_path[0] = '\0';
        s->manager_size--;
    }
    return true;
}

static void open_notify(struct service *s)
{
    struct timeval wait = {.tv_sec = READY_WAIT_S};
    const char *address = getenv("NOTIFY_SOCKET");

    if (address == NULL || address[0] == '\0') {
        return;
    }
    if (!read_manager(s, address)) {
        log_warn("service", LOG_MSG("NOTIFY_SOCKET is no Unix socket: nobody is notified"),
                 LOG_STR("address", address));
        return;
    }
    s->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s->notify < 0) {
        log_warn("service", LOG_MSG("no socket for notifications"),
                 LOG_STR("why", strerror(errno)));
        return;
    }
    (void)setsockopt(s->notify, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

/* ---- watchdog ---- */

static void read_watchdog(struct service *s)
{
    uint64_t usec = 0;
    int rc = sd_watchdog_enabled(1, &usec);

    if (rc > 0) {
        s->watchdog_ms = usec / WATCHDOG_PART / USEC_PER_MS;
        s->watchdog_ms = s->watchdog_ms > 0 ? s->watchdog_ms : 1;
    } else if (rc < 0) {
        log_warn("service", LOG_MSG("WATCHDOG_USEC cannot be read"), LOG_STR("why", strerror(-rc)));
    }
}

static void on_ping(void *ctx)
{
    struct service *s = ctx;

    notify(s, "WATCHDOG=1", MSG_DONTWAIT);
    if (loop_deadline_set(s->loop, &s->ping, loop_now(s->loop) + s->watchdog_ms) != ERR_OK) {
        log_error("service", LOG_MSG("no memory for the watchdog: the manager will end us"));
    }
}

enum err service_watchdog_start(struct service *s, struct loop *loop, struct error *e)
{
    if (s->watchdog_ms == 0 || s->notify < 0) {
        return ERR_OK;
    }
    enum err rc = loop_deadline_set(loop, &s->ping, loop_now(loop) + s->watchdog_ms);
    if (rc != ERR_OK) {
        return err_set(e, rc, "out of memory for the watchdog");
    }
    s->loop = loop;
    return ERR_OK;
}

void service_watchdog_stop(struct service *s)
{
    if (s != NULL && s->loop != NULL) {
        loop_deadline_clear(s->loop, &s->ping);
        s->loop = NULL;
    }
}

/* ---- sockets ---- */

static enum err refuse(const struct passed *p, int number, const char *why, struct error *e)
{
    return err_set(e, ERR_CONFIG, "descriptor %d (%s) of the service manager%s%s: %s", number,
                   p->name, p->address[0] != '\0' ? " on " : "", p->address, why);
}

/* False: a family that no listener has. */
static bool put_address(struct passed *p, socklen_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    size_t before = offsetof(struct sockaddr_un, sun_path);

    switch (p->at.any.sa_family) {
    case AF_UNIX:
        if (size <= before) {
            (void)snprintf(p->address, sizeof(p->address), "an unnamed Unix socket");
        } else if (p->at.un.sun_path[0] == '\0') {
            (void)snprintf(p->address, sizeof(p->address), "unix://@%.*s", (int)(size - before) - 1,
                           p->at.un.sun_path + 1);
        } else {
            (void)snprintf(p->address, sizeof(p->address), "unix://%.*s", (int)(size - before),
                           p->at.un.sun_path);
        }
        return true;
    case AF_INET:
        (void)inet_ntop(AF_INET, &p->at.v4.sin_addr, host, sizeof(host));
        (void)snprintf(p->address, sizeof(p->address), "tcp://%s:%u", host,
                       (unsigned)ntohs(p->at.v4.sin_port));
        return true;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &p->at.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(p->address, sizeof(p->address), "tcp://[%s]:%u", host,
                       (unsigned)ntohs(p->at.v6.sin6_port));
        return true;
    default:
        return false;
    }
}

/* Checks one and readies it. */
static enum err take(struct passed *p, int number, struct error *e)
{
    socklen_t size = sizeof(p->at);
    int on = 1;

    if (getsockname(p->fd, &p->at.any, &size) != 0 || !put_address(p, size)) {
        return refuse(p, number, "not a socket of Unix, IPv4 or IPv6", e);
    }
    if (sd_is_socket(p->fd, AF_UNSPEC, SOCK_STREAM, -1) <= 0) {
        return refuse(p, number, "not a stream socket (ListenStream=)", e);
    }
    if (sd_is_socket(p->fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
        return refuse(p, number, "not a listening socket (Accept=no)", e);
    }
    int flags = fcntl(p->fd, F_GETFL);
    if (flags < 0 || fcntl(p->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return err_sys(e, ERR_IO, errno, "descriptor %d (%s)", number, p->name);
    }
    if (p->at.any.sa_family != AF_UNIX) { /* accepted ones inherit it */
        (void)setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return ERR_OK;
}

/* Owns the `n` descriptors from then on, also on failure. */
static enum err take_all(struct service *s, size_t n, char **names, struct error *e)
{
    enum err rc = ERR_OK;

    for (size_t i = 0; i < n; i++) { /* all of them first: so all are closed after a failure */
        struct passed *p = &s->sockets[i];
        p->fd = SD_LISTEN_FDS_START + (int)i;
        (void)snprintf(p->name, sizeof(p->name), "%s", names[i]);
    }
    s->nsockets = n;
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        rc = take(&s->sockets[i], SD_LISTEN_FDS_START + (int)i, e);
    }
    return rc;
}

enum err service_take_sockets(struct service *s, struct error *e)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);
    enum err rc = ERR_OK;

    if (n == 0) {
        return ERR_OK;
    }
    if (n < 0) {
        return err_sys(e, n == -ENOMEM ? ERR_NOMEM : ERR_CONFIG, -n,
                       "LISTEN_FDS and LISTEN_FDNAMES cannot be used");
    }
    if (n > SOCKETS_MAX) {
        rc = err_set(e, ERR_CONFIG, "the service manager passed %d sockets, expected at most %d", n,
                     SOCKETS_MAX);
    } else {
        s->sockets = calloc((size_t)n, sizeof(*s->sockets));
        rc = s->sockets == NULL ? err_set(e, ERR_NOMEM, "out of memory")
                                : take_all(s, (size_t)n, names, e);
    }
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    return rc;
}

static bool is_at(const struct passed *p, const struct listener_address *a)
{
    struct sockaddr_storage wanted = {0};
    socklen_t size = 0;

    if (a->path != NULL) {
        /* at was zero before: the path ends with a NUL unless it fills the field */
        return p->at.any.sa_family == AF_UNIX && a->path[0] != '\0' &&
               strlen(a->path) < sizeof(p->at.un.sun_path) &&
               strncmp(p->at.un.sun_path, a->path, sizeof(p->at.un.sun_path)) == 0;
    }
    if (!listener_tcp_address(a, &wanted, &size) || wanted.ss_family != p->at.any.sa_family) {
        return false;
    }
    if (wanted.ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &wanted, sizeof(v4));
        return v4.sin_port == p->at.v4.sin_port && v4.sin_addr.s_addr == p->at.v4.sin_addr.s_addr;
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, &wanted, sizeof(v6));
    return v6.sin6_port == p->at.v6.sin6_port &&
           memcmp(&v6.sin6_addr, &p->at.v6.sin6_addr, sizeof(v6.sin6_addr)) == 0;
}

int service_socket_for(struct service *s, const struct listener_address *address)
{
    for (size_t i = 0; i < s->nsockets; i++) {
        struct passed *p = &s->sockets[i];
        if (p->fd >= 0 && is_at(p, address)) {
            int fd = p->fd;
            p->fd = -1;
            return fd;
        }
    }
    return -1; /* none was passed */
}

enum err service_no_leftovers(const struct service *s, struct error *e)
{
    struct error left = {0};
    size_t n = 0;

    for (size_t i = 0; i < s->nsockets; i++) {
        const struct passed *p = &s->sockets[i];
        if (p->fd >= 0) {
            size_t len = strlen(left.msg);
            (void)snprintf(left.msg + len, sizeof(left.msg) - len, "%s%s (%s)", n > 0 ? ", " : "",
                           p->address, p->name);
            n++;
        }
    }
    return n == 0 ? ERR_OK
                  : err_set(e, ERR_CONFIG,
                            "no listener has this url, but the service manager"
                            " passed a socket: %s",
                            left.msg);
}

/* ---- life ---- */

enum err service_new(struct service **out, struct error *e)
{
    struct service *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    s->notify = -1;
    loop_deadline_init(&s->ping, on_ping, s);
    open_notify(s);
    (void)unsetenv("NOTIFY_SOCKET");
    read_watchdog(s);
    *out = s;
    return ERR_OK;
}

void service_free(struct service *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->nsockets; i++) {
        if (s->sockets[i].fd >= 0) {
            close(s->sockets[i].fd);
        }
    }
    if (s->notify >= 0) {
        close(s->notify);
    }
    free(s->sockets);
    free(s);
}
