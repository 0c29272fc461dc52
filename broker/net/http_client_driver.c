/*
 * libcurl's multi handle on the loop.
 *
 * Sockets: libcurl changes its mind about events several times a request, and each uv_poll_start
 * costs two system calls. So its callback only records what is wanted, and http_driver_apply tells
 * the loop the net change once a turn. A connection that goes idle (kept, or paused) stays armed
 * for reading until something comes that nobody waits for. Our own sockets are opened and closed
 * through us, so that a descriptor is never closed while it is polled. Others (the resolver's
 * wake-up pair, a connect attempt that lost) are closed by libcurl right after it says REMOVE:
 * those are dropped at that moment.
 *
 * Timer: libcurl's callback only arms; libcurl is called from the deadline or the task.
 */
#include "net/http_client_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define NEVER UINT64_MAX

struct http_socket {
    uv_poll_t poll;
    struct list node; /* in client->dirty */
    struct http_client *client;
    int fd;
    int wanted; /* UV_READABLE | UV_WRITABLE */
    int armed;
    bool own;       /* opened by http_driver_open: closed by http_driver_close only */
    bool connected; /* reads were asked for */
};

/* ---- sockets ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void socket_drop(struct http_client *client, struct http_socket *s)
{
    client->sockets[s->fd] = NULL;
    list_remove(&s->node);
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_poll_closed);
}

static struct http_socket *socket_find(const struct http_client *client, int fd)
{
    return fd >= 0 && (size_t)fd < client->nsockets ? client->sockets[fd] : NULL;
}

static bool table_fits(struct http_client *client, int fd)
{
    if ((size_t)fd < client->nsockets) {
        return true;
    }
    size_t n = client->nsockets == 0 ? 64 : client->nsockets;
    while (n <= (size_t)fd) {
        n *= 2;
    }
    struct http_socket **table = realloc(client->sockets, n * sizeof(struct http_socket *));
    if (table == NULL) {
        return false;
    }
    for (size_t i = client->nsockets; i < n; i++) {
        table[i] = NULL;
    }
    client->sockets = table;
    client->nsockets = n;
    return true;
}

static struct http_socket *socket_add(struct http_client *client, int fd, bool own)
{
    struct http_socket *old = socket_find(client, fd);

    if (old != NULL) { /* closed behind our back, and the number came again */
        socket_drop(client, old);
    }
    if (!table_fits(client, fd)) {
        return NULL;
    }
    struct http_socket *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    if (uv_poll_init(loop_uv(client->loop), &s->poll, fd) != 0) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    list_init(&s->node);
    s->client = client;
    s->fd = fd;
    s->own = own;
    client->sockets[fd] = s;
    return s;
}

curl_socket_t http_driver_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http_client *client = ctx;

    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    if (socket_add(client, fd, true) == NULL) {
        (void)close(fd);
        errno = ENOMEM;
        return CURL_SOCKET_BAD;
    }
    return fd;
}

int http_driver_close(void *ctx, curl_socket_t fd)
{
    struct http_client *client = ctx;
    struct http_socket *s = socket_find(client, fd);

    if (s != NULL) {
        socket_drop(client, s);
    }
    return close(fd);
}

static void socket_dirty(struct http_client *client, struct http_socket *s)
{
    if (list_empty(&s->node)) {
        list_push_back(&client->dirty, &s->node);
    }
    loop_defer(client->loop, &client->task);
}

static void socket_unwanted(struct http_client *client, struct http_socket *s)
{
    s->wanted = 0;
    if (!s->own || !s->connected) {
        socket_drop(client, s);
    } else if (s->armed != UV_READABLE) {
        socket_dirty(client, s);
    }
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct http_client *client = ctx;
    struct http_socket *s = socket_find(client, fd);

    (void)easy;
    (void)socket_ctx;
    if (what == CURL_POLL_REMOVE) {
        if (s != NULL) {
            socket_unwanted(client, s);
        }
        return 0;
    }
    if (client->deaf) {
        return 0;
    }
    if (s == NULL) {
        s = socket_add(client, fd, false);
        if (s == NULL) {
            return -1; /* ends every call, see http_client_settle */
        }
    }
    s->wanted = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) {
        s->wanted |= UV_READABLE;
        s->connected = true;
    }
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) {
        s->wanted |= UV_WRITABLE;
    }
    if (s->wanted != s->armed) {
        socket_dirty(client, s);
    }
    return 0;
}

static void act(struct http_client *client, curl_socket_t fd, int events)
{
    int running = 0;

    client->in_curl++;
    CURLMcode rc = curl_multi_socket_action(client->multi, fd, events, &running);
    client->in_curl--;
    if (rc != CURLM_OK && client->broken == CURLM_OK) {
        client->broken = rc;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_socket *s = poll->data;
    struct http_client *client = s->client;
    int what = 0;

    if (status < 0) {
        /* libuv stopped polling. libcurl shall read what is left and find the error itself. */
        s->armed = 0;
        what = CURL_CSELECT_IN | CURL_CSELECT_OUT;
    } else {
        what |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
        what |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
    }
    if (s->wanted == 0) {
        uv_poll_stop(poll);
        s->armed = 0;
        return;
    }
    if (s->armed != s->wanted) {
        socket_dirty(client, s);
    }
    act(client, s->fd, what);
    http_client_settle(client);
}

void http_driver_apply(struct http_client *client)
{
    for (struct list *n = list_pop(&client->dirty); n != NULL; n = list_pop(&client->dirty)) {
        struct http_socket *s = LIST_ENTRY(n, struct http_socket, node);
        if (s->wanted == s->armed || (s->wanted == 0 && s->armed == UV_READABLE)) {
            continue;
        }
        if (s->wanted == 0) {
            uv_poll_stop(&s->poll);
            s->armed = 0;
        } else if (uv_poll_start(&s->poll, s->wanted, on_poll) == 0) {
            s->armed = s->wanted;
        } else {
            client->broken = CURLM_INTERNAL_ERROR;
            loop_defer(client->loop, &client->task);
        }
    }
}

/* ---- timer ---- */

static void timer_set(struct http_client *client, uint64_t at)
{
    if (loop_deadline_set(client->loop, &client->timer, at) != ERR_OK) {
        client->kick = true; /* cannot be: its place in the heap is kept */
        loop_defer(client->loop, &client->task);
    }
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct http_client *client = ctx;

    (void)multi;
    if (client->deaf) {
        return 0;
    }
    if (timeout_ms == 0) {
        client->kick = true;
        loop_defer(client->loop, &client->task);
    }
    timer_set(client, timeout_ms <= 0 ? NEVER : loop_now(client->loop) + (unsigned long)timeout_ms);
    return 0;
}

void http_driver_kick(struct http_client *client)
{
    client->kick = false;
    if (client->multi != NULL) {
        act(client, CURL_SOCKET_TIMEOUT, 0);
    }
}

static void on_timer(void *ctx)
{
    struct http_client *client = ctx;

    timer_set(client, NEVER);
    http_driver_kick(client);
    http_client_settle(client);
}

/* ---- life ---- */

static CURLM *multi_new(struct http_client *client)
{
    CURLM *m = curl_multi_init();

    if (m == NULL) {
        return NULL;
    }
    if (curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_curl_socket) != CURLM_OK ||
        curl_multi_setopt(m, CURLMOPT_SOCKETDATA, client) != CURLM_OK ||
        curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_curl_timer) != CURLM_OK ||
        curl_multi_setopt(m, CURLMOPT_TIMERDATA, client) != CURLM_OK ||
        curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, HTTP_CONNECTIONS_KEPT) != CURLM_OK ||
        curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) != CURLM_OK) {
        (void)curl_multi_cleanup(m);
        return NULL;
    }
    return m;
}

static void drop_all(struct http_client *client)
{
    for (size_t i = 0; i < client->nsockets; i++) {
        if (client->sockets[i] != NULL) {
            socket_drop(client, client->sockets[i]);
        }
    }
}

/*
 * libcurl closes its kept connections, and must not ask for events on them any more. We let go of
 * every descriptor first: after an allocation failure libcurl may close one without a word, and its
 * number may be somebody else's a moment later.
 */
static void multi_free(struct http_client *client)
{
    bool was = client->deaf;

    drop_all(client);
    client->deaf = true;
    client->in_curl++;
    (void)curl_multi_cleanup(client->multi);
    client->in_curl--;
    client->multi = NULL;
    client->deaf = was;
}

bool http_driver_ready(struct http_client *client)
{
    if (client->multi == NULL) {
        client->multi = multi_new(client);
    }
    return client->multi != NULL;
}

void http_driver_restart(struct http_client *client)
{
    if (client->multi != NULL) {
        multi_free(client);
    }
    client->broken = CURLM_OK;
    client->kick = false;
    timer_set(client, NEVER);
}

enum err http_driver_init(struct http_client *client, struct error *e)
{
    list_init(&client->dirty);
    loop_deadline_init(&client->timer, on_timer, client);
    client->multi = multi_new(client);
    client->share = curl_share_init();
    if (client->multi == NULL || client->share == NULL ||
        curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) !=
            CURLSHE_OK ||
        loop_deadline_set(client->loop, &client->timer, NEVER) != ERR_OK) {
        http_driver_fini(client);
        return err_set(e, ERR_NOMEM, "out of memory for the HTTP client");
    }
    return ERR_OK;
}

void http_driver_fini(struct http_client *client)
{
    client->deaf = true;
    if (client->multi != NULL) {
        multi_free(client);
    }
    if (client->share != NULL) {
        (void)curl_share_cleanup(client->share);
    }
    loop_deadline_clear(client->loop, &client->timer);
    drop_all(client);
    free(client->sockets);
}
