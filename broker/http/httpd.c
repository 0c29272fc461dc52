/*
 * libmicrohttpd in our loop: external epoll, no thread, no listening socket. Its epoll descriptor
 * is watched; it also runs when its own time-out is over and when we changed something (accept,
 * resume), because its connections are edge-triggered: the descriptor alone does not tell. It is
 * never run from one of its own callbacks.
 */
#include "http/httpd_private.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTION_MEMORY (32u * 1024u) /* request line and headers have to fit */
#define STOP_RUNS_MAX     16            /* for streams to end and answers to leave */

/* ---- the daemon in the loop ---- */

static void run_daemon(struct httpd *h)
{
    MHD_UNSIGNED_LONG_LONG wait = 0;

    if (h->running) {
        return;
    }
    h->running = true;
    (void)MHD_run(h->daemon);
    h->running = false;
    if (MHD_get_timeout(h->daemon, &wait) != MHD_YES) {
        loop_deadline_clear(h->loop, &h->deadline);
    } else if (wait == 0 ||
               loop_deadline_set(h->loop, &h->deadline, loop_now(h->loop) + wait) != ERR_OK) {
        httpd_want_run(h);
    }
}

static void on_run(void *ctx)
{
    run_daemon(ctx);
}

void httpd_want_run(struct httpd *h)
{
    loop_defer(h->loop, &h->task);
}

/* ---- connections ---- */

/* Too slow with its request: the daemon sees the end and cleans up. */
static void on_conn_deadline(void *ctx)
{
    struct httpd_conn *c = ctx;

    log_debug("httpd", LOG_MSG("timed out"));
    (void)shutdown(c->fd, SHUT_RDWR);
    httpd_want_run(c->httpd);
}

static void conn_free(struct httpd_conn *c)
{
    loop_deadline_clear(c->httpd->loop, &c->deadline);
    list_remove(&c->node);
    c->httpd->nconns--;
    free(c);
}

static struct httpd_conn *conn_find(struct httpd *h, int fd)
{
    for (struct list *n = h->conns.next; n != &h->conns; n = n->next) {
        struct httpd_conn *c = LIST_ENTRY(n, struct httpd_conn, node);
        if (c->fd == fd) {
            return c;
        }
    }
    return NULL;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct httpd *h = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = info == NULL ? NULL : conn_find(h, info->connect_fd);
        return;
    }
    if (*socket_context != NULL) {
        conn_free(*socket_context);
        *socket_context = NULL;
    }
}

void httpd_accept(struct httpd *h, int fd, const struct httpd_peer *peer)
{
    /* With AF_INET the library would try TCP options on what may be a Unix socket. */
    static const struct sockaddr_un nowhere = {.sun_family = AF_UNIX};
    struct httpd_conn *old = conn_find(h, fd);

    if (old != NULL) {
        conn_free(old); /* the library closed it without having begun */
    }
    struct httpd_conn *c = h->nconns < h->options.max_connections ? calloc(1, sizeof(*c)) : NULL;
    if (c == NULL) {
        log_warn("httpd", LOG_MSG("connection refused"), LOG_U64("connections", h->nconns));
        close(fd);
        return;
    }
    c->httpd = h;
    c->fd = fd;
    c->peer = *peer;
    loop_deadline_init(&c->deadline, on_conn_deadline, c);
    list_push_back(&h->conns, &c->node);
    h->nconns++;
    if (loop_deadline_set(h->loop, &c->deadline, loop_now(h->loop) + h->options.request_timeout) !=
        ERR_OK) {
        conn_free(c);
        close(fd);
        return;
    }
    if (MHD_add_connection(h->daemon, fd, (const struct sockaddr *)&nowhere, sizeof(nowhere)) !=
        MHD_YES) {
        c = conn_find(h, fd); /* the library has closed the socket */
        if (c != NULL) {
            conn_free(c);
        }
    }
    httpd_want_run(h);
}

unsigned httpd_connections(const struct httpd *h)
{
    return h->nconns;
}

unsigned httpd_streams(const struct httpd *h)
{
    return h->nstreams;
}

/* ---- life ---- */

/* Like the library's, but what would end a C string stays encoded. */
static size_t unescape(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strstr(text, "%00") != NULL ? strlen(text) : MHD_http_unescape(text);
}

static struct MHD_Daemon *start_daemon(struct httpd *h)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
        httpd_on_access, h, MHD_OPTION_NOTIFY_COMPLETED, httpd_on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK, unescape,
        NULL, MHD_OPTION_CONNECTION_LIMIT, h->options.max_connections + 1,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (h->options.write_timeout + 999) / 1000, MHD_OPTION_END);
}

enum err httpd_new(struct loop *loop, const struct httpd_options *options,
                   const struct httpd_handler *handler, void *ctx, struct httpd **out,
                   struct error *e)
{
    struct httpd *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for an HTTP server");
    }
    h->loop = loop;
    h->options = *options;
    h->handler = *handler;
    h->ctx = ctx;
    list_init(&h->conns);
    list_init(&h->requests);
    loop_task_init(&h->task, on_run, h);
    loop_deadline_init(&h->deadline, on_run, h);
    h->daemon = start_daemon(h);
    const union MHD_DaemonInfo *info =
        h->daemon == NULL ? NULL : MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    enum err rc = ERR_OK;
    if (info == NULL) {
        rc = err_set(e, ERR_IO, "cannot start an HTTP server");
    } else {
        rc = loop_watch_new(loop, info->epoll_fd, on_run, h, &h->watch, e);
    }
    if (rc != ERR_OK) {
        httpd_free(h);
        return rc;
    }
    *out = h;
    return ERR_OK;
}

/* The library must not be stopped while a connection is suspended. */
static void end_requests(struct httpd *h)
{
    h->running = true; /* nobody runs it from a callback */
    for (struct list *n = h->requests.next; n != &h->requests; n = n->next) {
        httpd_request_stop(LIST_ENTRY(n, struct httpd_request, node));
    }
    for (int i = 0; i < STOP_RUNS_MAX; i++) {
        (void)MHD_run(h->daemon);
    }
}

void httpd_free(struct httpd *h)
{
    if (h == NULL) {
        return;
    }
    h->stopping = true;
    if (h->daemon != NULL) {
        end_requests(h);
    }
    loop_watch_free(h->watch);
    if (h->daemon != NULL) {
        MHD_stop_daemon(h->daemon);
    }
    while (!list_empty(&h->conns)) {
        conn_free(LIST_ENTRY(h->conns.next, struct httpd_conn, node));
    }
    loop_task_cancel(&h->task);
    loop_deadline_clear(h->loop, &h->deadline);
    free(h);
}
