/* Descriptors of other libraries as callbacks of a loop: see loop.h. Used by http/httpd. */
#include "net/loop.h"

#include <stdlib.h>
#include <uv.h>

struct loop_watch {
    uv_poll_t poll;
    void (*fn)(void *ctx);
    void *ctx;
};

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct loop_watch *w = poll->data;

    (void)status;
    (void)events;
    w->fn(w->ctx);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void loop_watch_free(struct loop_watch *w)
{
    if (w != NULL) {
        uv_close((uv_handle_t *)&w->poll, on_closed);
    }
}

enum err loop_watch_new(struct loop *loop, int fd, void (*fn)(void *ctx), void *ctx,
                        struct loop_watch **out, struct error *e)
{
    struct loop_watch *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory to watch a descriptor");
    }
    w->fn = fn;
    w->ctx = ctx;
    int rc = uv_poll_init(loop_uv(loop), &w->poll, fd);
    if (rc != 0) {
        free(w);
        return err_set(e, ERR_IO, "cannot watch a descriptor: %s", uv_strerror(rc));
    }
    w->poll.data = w;
    rc = uv_poll_start(&w->poll, UV_READABLE, on_ready);
    if (rc != 0) {
        loop_watch_free(w);
        return err_set(e, ERR_IO, "cannot watch a descriptor: %s", uv_strerror(rc));
    }
    *out = w;
    return ERR_OK;
}
