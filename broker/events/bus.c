/*
 * The bus: a ring of finished JSON lines under one mutex, and at most one follower. The follower
 * is woken by a message to its loop, copies a batch of lines and hands it to libuv to write.
 */
#include "events/bus.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/redact.h"
#include "net/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MAX (256u * 1024u)

struct entry {
    struct entry *next;
    size_t n;
    char line[];
};

struct bus {
    pthread_mutex_t lock;
    struct entry *head;
    struct entry *tail;
    struct entry *unwritten; /* the follower's next */
    size_t count;
    size_t bytes;
    uint64_t seq;
    uint64_t lost;     /* dropped before the follower wrote them, not yet reported */
    struct loop *loop; /* the follower's; NULL: none */
    bool woken;        /* its message is on the way */
    struct loop_message wake;
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

static void drop_oldest(struct bus *bus)
{
    struct entry *e = bus->head;

    if (bus->unwritten == e) {
        bus->unwritten = e->next;
        bus->lost += bus->loop != NULL ? 1 : 0;
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
    if (bus->unwritten == NULL) {
        bus->unwritten = e;
    }
}

/* Everything of the line but its number, which is only known under the lock. */
static enum err make_tail(const char *grant, struct json_value type, struct span event,
                          const struct redact *redact, struct buf *b)
{
    char time[CLOCK_RFC3339_SIZE];
    struct buf decoded;
    struct buf name;

    buf_init(&decoded, 256);
    buf_init(&name, BUS_RING_BYTES);
    clock_rfc3339(clock_wall_ms(), time);
    json_string_decode(type, &decoded, NULL);
    enum err rc = buf_status(&decoded);
    if (rc == ERR_OK) {
        redact_text(redact, buf_span(&decoded), false, &name);
        rc = buf_status(&name);
    }
    buf_printf(b, ",\"time\":\"%s\",\"grant\":", time);
    json_put_string(b, span_str(grant));
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

static void wake_follower(struct bus *bus)
{
    if (bus->loop != NULL && !bus->woken && loop_post(bus->loop, &bus->wake) == ERR_OK) {
        bus->woken = true;
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

enum err bus_publish(struct bus *bus, const char *grant, struct json_value type, struct span event,
                     const struct redact *redact)
{
    struct buf tail;
    struct buf line;

    buf_init(&tail, BUS_RING_BYTES);
    enum err rc = make_tail(grant, type, event, redact, &tail);
    if (rc != ERR_OK) {
        buf_fini(&tail);
        return rc;
    }
    struct entry *e = malloc(sizeof(*e) + tail.len + 40);
    if (e == NULL) {
        buf_fini(&tail);
        return ERR_NOMEM;
    }
    buf_init(&line, 40);
    pthread_mutex_lock(&bus->lock);
    buf_printf(&line, "{\"seq\":%llu", (unsigned long long)bus->seq + 1);
    rc = buf_status(&line);
    if (rc == ERR_OK) {
        memcpy(e->line, line.p, line.len);
        memcpy(e->line + line.len, tail.p, tail.len);
        e->n = line.len + tail.len;
        e->next = NULL;
        one_line(e->line, e->n);
        bus->seq++;
        append(bus, e);
        wake_follower(bus);
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

/* ---- following ---- */

/* The next lines into bus->batch; false when there are none. */
static bool take_batch(struct bus *bus)
{
    buf_clear(&bus->batch);
    bus->batch_events = 0;
    pthread_mutex_lock(&bus->lock);
    while (bus->unwritten != NULL && bus->batch.len < BATCH_MAX) {
        buf_put(&bus->batch, bus->unwritten->line, bus->unwritten->n);
        if (buf_status(&bus->batch) != ERR_OK) {
            break;
        }
        bus->unwritten = bus->unwritten->next;
        bus->batch_events++;
    }
    uint64_t lost = bus->lost;
    bus->lost = 0;
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
    loop_write_free(bus->write);
    close(bus->fd);
    bus->fd = -1;
}
