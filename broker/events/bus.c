/*
 * The bus: a ring of finished JSON lines under one mutex, readers with a place in it each, and at
 * most one follower, which is a reader too. The follower is woken by a message to its loop, copies
 * a batch of lines and hands it to libuv to write; other readers are woken together by a second
 * message.
 */
#include "events/bus.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/redact.h"
#include "gate/grant.h"
#include "net/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MAX (256u * 1024u)
#define SCAN_MAX  1024 /* events of other runs that a reader steps over under the lock */

struct entry {
    struct entry *next;
    uint64_t seq;
    size_t n;
    bool of_run; /* its run's name, with a NUL, follows the line */
    char line[];
};

/* All but `bus` and `run` is under the lock. */
struct bus_reader {
    struct list node; /* bus.readers */
    struct bus *bus;
    char *run;          /* NULL: all */
    struct entry *next; /* NULL: the one that comes */
    uint64_t lost;      /* dropped before they were read, not yet told */
};

struct bus {
    pthread_mutex_t lock;
    struct entry *head;
    struct entry *tail;
    size_t count;
    size_t bytes;
    uint64_t seq;
    struct list readers; /* with the follower */
    size_t nreaders;     /* without it */
    struct loop *loop;   /* the follower's; NULL: none */
    bool woken;          /* its message is on the way */
    struct loop_message wake;
    struct loop *watch_loop; /* NULL: nobody is told */
    bool watch_woken;
    struct loop_message watch_wake;
    void (*watch_fn)(void *ctx);
    void *watch_ctx;
    struct bus_reader follower;
    /* of the follower's loop only */
    struct loop_write *write;
    struct buf batch;
    uint64_t batch_events;
    int fd;
    bool writing;
};

struct bus *bus_new(void)
{
    struct bus *bus = calloc(1, sizeof(*bus));

    if (bus != NULL) {
        pthread_mutex_init(&bus->lock, NULL);
        list_init(&bus->readers);
        list_init(&bus->follower.node);
        buf_init(&bus->batch, BUS_RING_BYTES);
        bus->fd = -1;
    }
    return bus;
}

void bus_free(struct bus *bus)
{
    if (bus == NULL) {
        return;
    }
    bus_unfollow(bus);
    while (bus->head != NULL) {
        struct entry *e = bus->head;
        bus->head = e->next;
        free(e);
    }
    buf_fini(&bus->batch);
    pthread_mutex_destroy(&bus->lock);
    free(bus);
}

/* ---- publishing ---- */

static const char *run_of(const struct entry *e)
{
    return e->of_run ? e->line + e->n : NULL;
}

static bool wants(const struct bus_reader *r, const struct entry *e)
{
    const char *run = run_of(e);

    return r->run == NULL || (run != NULL && strcmp(r->run, run) == 0);
}

static void drop_oldest(struct bus *bus)
{
    struct entry *e = bus->head;

    for (struct list *n = bus->readers.next; n != &bus->readers; n = n->next) {
        struct bus_reader *r = LIST_ENTRY(n, struct bus_reader, node);
        if (r->next == e) {
            r->next = e->next;
            r->lost += wants(r, e) ? 1 : 0;
        }
    }
    bus->head = e->next;
    if (bus->head == NULL) {
        bus->tail = NULL;
    }
    bus->count--;
    bus->bytes -= e->n;
    free(e);
}

static void append(struct bus *bus, struct entry *e)
{
    while (bus->count > 0 &&
           (bus->count >= BUS_RING_EVENTS || bus->bytes + e->n > BUS_RING_BYTES)) {
        drop_oldest(bus);
    }
    if (bus->tail == NULL) {
        bus->head = e;
    } else {
        bus->tail->next = e;
    }
    bus->tail = e;
    bus->count++;
    bus->bytes += e->n;
    for (struct list *n = bus->readers.next; n != &bus->readers; n = n->next) {
        struct bus_reader *r = LIST_ENTRY(n, struct bus_reader, node);
        r->next = r->next == NULL ? e : r->next;
    }
}

/* Everything of the line but its number, which is only known under the lock. */
static enum err make_tail(const struct grant *grant, struct json_value type, struct span event,
                          const struct redact *redact, struct buf *b)
{
    struct buf decoded;
    struct buf name;

    buf_init(&decoded, 256);
    buf_init(&name, BUS_RING_BYTES);
    json_string_decode(type, &decoded, NULL);
    enum err rc = buf_status(&decoded);
    if (rc == ERR_OK) {
        redact_text(redact, buf_span(&decoded), false, &name);
        rc = buf_status(&name);
    }
    buf_put_str(b, ",\"time\":");
    json_put_time(b, clock_wall_ms());
    if (grant->run != NULL) {
        buf_put_str(b, ",\"run\":");
        json_put_string(b, span_str(grant->run));
    }
    buf_put_str(b, ",\"grant\":");
    json_put_string(b, span_str(grant->name));
    buf_put_str(b, ",\"type\":");
    json_put_string(b, rc == ERR_OK && name.len > 0 ? buf_span(&name) : span_str("event"));
    buf_put_str(b, ",\"event\":");
    redact_text(redact, event, false, b);
    buf_put_str(b, "}\n");
    /* No memory for the name is no reason to give the event another one. */
    rc = rc == ERR_NOMEM ? rc : buf_status(b);
    buf_fini(&decoded);
    buf_fini(&name);
    return rc;
}

static void wake_readers(struct bus *bus)
{
    if (bus->loop != NULL && !bus->woken && loop_post(bus->loop, &bus->wake) == ERR_OK) {
        bus->woken = true;
    }
    if (bus->watch_loop != NULL && !bus->watch_woken && bus->nreaders > 0 &&
        loop_post(bus->watch_loop, &bus->watch_wake) == ERR_OK) {
        bus->watch_woken = true;
    }
}

/* A line break inside the event (between tokens it is only white space) would end the line. */
static void one_line(char *p, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i] == '\n' || p[i] == '\r') {
            p[i] = ' ';
        }
    }
}

enum err bus_publish(struct bus *bus, const struct grant *grant, struct json_value type,
                     struct span event, const struct redact *redact)
{
    struct buf tail;
    struct buf line;

    buf_init(&tail, BUS_RING_BYTES);
    enum err rc = make_tail(grant, type, event, redact, &tail);
    if (rc != ERR_OK) {
        buf_fini(&tail);
        return rc;
    }
    size_t run_size = grant->run == NULL ? 0 : strlen(grant->run) + 1;
    struct entry *e = malloc(sizeof(*e) + tail.len + 40 + run_size);
    if (e == NULL) {
        buf_fini(&tail);
        return ERR_NOMEM;
    }
    buf_init(&line, 40);
    pthread_mutex_lock(&bus->lock);
    buf_printf(&line, "{\"seq\":%llu", (unsigned long long)bus->seq + 1);
    rc = buf_status(&line);
    if (rc == ERR_OK) {
        *e = (struct entry){.seq = ++bus->seq, .n = line.len + tail.len, .of_run = run_size > 0};
        memcpy(e->line, line.p, line.len);
        memcpy(e->line + line.len, tail.p, tail.len);
        one_line(e->line, e->n);
        if (run_size > 0) {
            memcpy(e->line + e->n, grant->run, run_size);
        }
        append(bus, e);
        wake_readers(bus);
    }
    pthread_mutex_unlock(&bus->lock);
    buf_fini(&line);
    buf_fini(&tail);
    if (rc != ERR_OK) {
        free(e);
    }
    return rc;
}

uint64_t bus_count(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    uint64_t n = bus->seq;
    pthread_mutex_unlock(&bus->lock);
    return n;
}

/* ---- reading ---- */

/* The place behind number `since`, under the lock. */
static void seek(struct bus_reader *r, uint64_t since)
{
    struct bus *bus = r->bus;
    uint64_t oldest = bus->head == NULL ? bus->seq + 1 : bus->head->seq;

    r->next = bus->head;
    if (since > bus->seq) {
        return; /* of an earlier process: all that there is */
    }
    if (since + 1 < oldest) {
        r->lost = oldest - since - 1; /* of any run: that is no longer known */
        return;
    }
    while (r->next != NULL && r->next->seq <= since) {
        r->next = r->next->next;
    }
}

struct bus_reader *bus_reader_new(struct bus *bus, const char *run, const uint64_t *since)
{
    struct bus_reader *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return NULL;
    }
    r->bus = bus;
    r->run = run == NULL ? NULL : strdup(run);
    if (run != NULL && r->run == NULL) {
        free(r);
        return NULL;
    }
    pthread_mutex_lock(&bus->lock);
    list_push_back(&bus->readers, &r->node);
    bus->nreaders++;
    if (since != NULL) {
        seek(r, *since);
    }
    pthread_mutex_unlock(&bus->lock);
    return r;
}

void bus_reader_free(struct bus_reader *r)
{
    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&r->bus->lock);
    list_remove(&r->node);
    r->bus->nreaders--;
    pthread_mutex_unlock(&r->bus->lock);
    free(r->run);
    free(r);
}

static enum bus_read read_next(struct bus_reader *r, struct buf *line, uint64_t *n)
{
    if (r->lost > 0) {
        *n = r->lost;
        r->lost = 0;
        return BUS_READ_LOST;
    }
    for (int i = 0; i < SCAN_MAX && r->next != NULL; i++) {
        const struct entry *e = r->next;
        if (!wants(r, e)) {
            r->next = e->next;
            continue;
        }
        buf_put(line, e->line, e->n - 1);
        if (buf_status(line) != ERR_OK) {
            return BUS_READ_NOMEM;
        }
        *n = e->seq;
        r->next = e->next;
        return BUS_READ_EVENT;
    }
    return r->next == NULL ? BUS_READ_NONE : BUS_READ_MORE;
}

enum bus_read bus_reader_next(struct bus_reader *r, struct buf *line, uint64_t *n)
{
    pthread_mutex_lock(&r->bus->lock);
    enum bus_read rc = read_next(r, line, n);
    pthread_mutex_unlock(&r->bus->lock);
    return rc;
}

static void on_watch(struct loop_message *m, struct loop *loop)
{
    struct bus *bus = LIST_ENTRY(m, struct bus, watch_wake);

    (void)loop;
    pthread_mutex_lock(&bus->lock);
    bus->watch_woken = false;
    void (*fn)(void *) = bus->watch_loop == NULL ? NULL : bus->watch_fn;
    void *ctx = bus->watch_ctx;
    pthread_mutex_unlock(&bus->lock);
    if (fn != NULL) {
        fn(ctx);
    }
}

void bus_watch(struct bus *bus, struct loop *loop, void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&bus->lock);
    bus->watch_loop = fn == NULL ? NULL : loop;
    bus->watch_fn = fn;
    bus->watch_ctx = ctx;
    if (!bus->watch_woken) {
        bus->watch_wake.fn = on_watch;
        list_init(&bus->watch_wake.node);
    }
    pthread_mutex_unlock(&bus->lock);
}

/* ---- following ---- */

/* The next lines into bus->batch; false when there are none. */
static bool take_batch(struct bus *bus)
{
    buf_clear(&bus->batch);
    bus->batch_events = 0;
    pthread_mutex_lock(&bus->lock);
    struct bus_reader *r = &bus->follower;
    while (r->next != NULL && bus->batch.len < BATCH_MAX) {
        buf_put(&bus->batch, r->next->line, r->next->n);
        if (buf_status(&bus->batch) != ERR_OK) {
            break;
        }
        r->next = r->next->next;
        bus->batch_events++;
    }
    uint64_t lost = r->lost;
    r->lost = 0;
    pthread_mutex_unlock(&bus->lock);
    if (lost > 0) {
        log_warn("events", LOG_MSG("the events file is too slow"), LOG_U64("lost", lost));
    }
    return bus->batch.len > 0;
}

static void write_some(struct bus *bus);

static void batch_failed(const struct bus *bus)
{
    log_error("events", LOG_MSG("cannot write the events file"),
              LOG_U64("lost", bus->batch_events));
}

static void on_written(void *ctx, enum err rc)
{
    struct bus *bus = ctx;

    bus->writing = false;
    if (rc != ERR_OK) {
        batch_failed(bus);
    }
    write_some(bus);
}

static void write_some(struct bus *bus)
{
    if (bus->writing || !take_batch(bus)) {
        return;
    }
    bus->writing = loop_write(bus->write, bus->fd, buf_span(&bus->batch)) == ERR_OK;
    if (!bus->writing) {
        batch_failed(bus);
    }
}

static void on_wake(struct loop_message *m, struct loop *loop)
{
    struct bus *bus = LIST_ENTRY(m, struct bus, wake);

    (void)loop;
    pthread_mutex_lock(&bus->lock);
    bus->woken = false;
    pthread_mutex_unlock(&bus->lock);
    write_some(bus);
}

enum err bus_follow(struct bus *bus, struct loop *loop, const char *path, struct error *e)
{
    int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                    : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

    if (fd < 0) {
        return err_sys(e, ERR_IO, errno, "cannot open the events file %s", path);
    }
    bus->write = loop_write_new(loop, on_written, bus);
    if (bus->write == NULL) {
        close(fd);
        return err_set(e, ERR_NOMEM, "out of memory for the events file");
    }
    bus->fd = fd;
    bus->wake.fn = on_wake;
    list_init(&bus->wake.node);
    bus->loop = loop;
    pthread_mutex_lock(&bus->lock);
    list_push_back(&bus->readers, &bus->follower.node);
    bus->follower.next = bus->head;
    pthread_mutex_unlock(&bus->lock);
    return ERR_OK;
}

static void write_now(int fd, struct span s)
{
    while (s.n > 0) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return;
        }
        s = span_after(s, (size_t)n);
    }
}

void bus_unfollow(struct bus *bus)
{
    if (bus->fd < 0) {
        return;
    }
    bus->loop = NULL;
    while (take_batch(bus)) {
        write_now(bus->fd, buf_span(&bus->batch));
    }
    pthread_mutex_lock(&bus->lock);
    list_remove(&bus->follower.node);
    pthread_mutex_unlock(&bus->lock);
    loop_write_free(bus->write);
    close(bus->fd);
    bus->fd = -1;
}
