/* Signals as callbacks of a loop: see loop.h. Used by the main thread's loop only. */
#include "net/loop.h"

#include <stdlib.h>
#include <uv.h>

#define SIGNALS_MAX 4

struct loop_signals {
    uv_signal_t handles[SIGNALS_MAX];
    size_t open;
    void (*fn)(void *ctx, int number);
    void *ctx;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop_signals *s = handle->data;

    s->fn(s->ctx, number);
}

static void on_closed(uv_handle_t *handle)
{
    struct loop_signals *s = handle->data;

    s->open--;
    if (s->open == 0) {
        free(s);
    }
}

void loop_signals_free(struct loop_signals *s)
{
    if (s == NULL) {
        return;
    }
    if (s->open == 0) {
        free(s);
        return;
    }
    for (size_t i = 0; i < s->open; i++) {
        uv_close((uv_handle_t *)&s->handles[i], on_closed);
    }
}

enum err loop_signals_new(struct loop *loop, const int *numbers, size_t n,
                          void (*fn)(void *ctx, int number), void *ctx, struct loop_signals **out,
                          struct error *e)
{
    struct loop_signals *s = calloc(1, sizeof(*s));
    int rc = 0;

    if (s == NULL || n > SIGNALS_MAX) {
        free(s);
        return err_set(e, ERR_NOMEM, "out of memory for signals");
    }
    s->fn = fn;
    s->ctx = ctx;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = uv_signal_init(loop_uv(loop), &s->handles[i]);
        if (rc == 0) {
            s->handles[i].data = s;
            s->open++;
            rc = uv_signal_start(&s->handles[i], on_signal, numbers[i]);
        }
    }
    if (rc != 0) {
        loop_signals_free(s);
        return err_set(e, ERR_IO, "cannot watch signals: %s", uv_strerror(rc));
    }
    *out = s;
    return ERR_OK;
}
