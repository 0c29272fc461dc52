/*
 * Writing files without blocking a loop: see loop.h. The bytes stay the caller's; a short write
 * goes on with the rest.
 */
#include "net/loop.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct loop_write {
    uv_fs_t req;
    struct loop *loop;
    void (*on_written)(void *ctx, enum err rc);
    void *ctx;
    int fd;
    struct span rest;
    bool busy;
};

static void on_fs(uv_fs_t *req);

static enum err submit(struct loop_write *w)
{
    uv_buf_t part = {.len = w->rest.n};

    /* libuv only reads through it, but its type has no const. */
    memcpy(&part.base, &w->rest.p, sizeof(part.base));
    return uv_fs_write(loop_uv(w->loop), &w->req, w->fd, &part, 1, -1, on_fs) == 0 ? ERR_OK
                                                                                   : ERR_IO;
}

static void on_fs(uv_fs_t *req)
{
    struct loop_write *w = req->data;
    ssize_t n = req->result;

    uv_fs_req_cleanup(req);
    enum err rc = n <= 0 ? ERR_IO : ERR_OK;
    if (rc == ERR_OK) {
        w->rest = span_after(w->rest, (size_t)n);
        if (w->rest.n > 0) {
            rc = submit(w);
            if (rc == ERR_OK) {
                return;
            }
        }
    }
    w->busy = false;
    w->on_written(w->ctx, rc);
}

struct loop_write *loop_write_new(struct loop *loop, void (*on_written)(void *ctx, enum err rc),
                                  void *ctx)
{
    struct loop_write *w = calloc(1, sizeof(*w));

    if (w != NULL) {
        w->loop = loop;
        w->on_written = on_written;
        w->ctx = ctx;
        w->req.data = w;
    }
    return w;
}

void loop_write_free(struct loop_write *w)
{
    free(w);
}

enum err loop_write(struct loop_write *w, int fd, struct span bytes)
{
    if (w->busy) {
        return ERR_IO;
    }
    w->fd = fd;
    w->rest = bytes;
    enum err rc = submit(w);
    w->busy = rc == ERR_OK;
    return rc;
}
