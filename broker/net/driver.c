/*
 * The loop and the waiting: see driver.h. Made by main once for a command; everything that talks to
 * an engine or a broker goes through it.
 */
#include "net/driver.h"

#include <signal.h>

static void on_signal(void *ctx, int number)
{
    struct driver *d = ctx;

    if (d->signal == 0) {
        d->signal = number;
    }
}

enum err driver_init(struct driver *d, struct error *e)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    *d = (struct driver){0};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    enum err rc = http_client_global_init(e);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = loop_new(&d->loop, e);
    if (rc == ERR_OK) {
        rc = http_client_new(&d->http, d->loop, e);
    }
    if (rc == ERR_OK) {
        rc = loop_signals_new(d->loop, numbers, sizeof(numbers) / sizeof(numbers[0]), on_signal, d,
                              &d->signals, e);
    }
    return rc;
}

void driver_fini(struct driver *d)
{
    if (d->http != NULL) {
        http_client_free(d->http);
    }
    if (d->loop != NULL) {
        loop_signals_free(d->signals);
        loop_free(d->loop);
        http_client_global_fini();
    }
    *d = (struct driver){0};
}

uint64_t driver_deadline(struct driver *d, uint64_t ms)
{
    return loop_now(d->loop) + ms;
}

static void on_deadline(void *ctx)
{
    *(bool *)ctx = true;
}

enum err driver_wait(struct driver *d, const bool *done, uint64_t at)
{
    struct loop_deadline deadline;
    bool late = false;
    enum err rc = ERR_OK;

    loop_deadline_init(&deadline, on_deadline, &late);
    if (at != 0 && loop_deadline_set(d->loop, &deadline, at) != ERR_OK) {
        return ERR_NOMEM;
    }
    while (rc == ERR_OK && !*done) {
        if (d->signal != 0 && !d->uninterruptible) {
            rc = ERR_CLOSED;
        } else if (late) {
            rc = ERR_AGAIN;
        } else {
            loop_turn(d->loop);
        }
    }
    loop_deadline_clear(d->loop, &deadline);
    return rc;
}
