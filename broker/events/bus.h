/*
 * The event bus: every accepted event gets a number and a place in one ring, in the order of
 * acceptance. Readers step through the ring; a follower writes it to a file as JSON lines:
 *   {"seq":1,"time":"2025-01-31T12:34:56.789Z","grant":"dev","type":"log","event":{…}}
 * One under the grant of a run has "run":"…" before "grant".
 *
 * Publishing is for any thread (one short lock, no I/O). Following belongs to one loop; the file is
 * written by libuv's workers, so a slow disk or an unread pipe stops nobody. The ring is bounded: a
 * follower or reader that falls behind it loses the oldest, is told how many, and goes on.
 */
#ifndef TACTUS_EVENTS_BUS_H
#define TACTUS_EVENTS_BUS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json_span.h"
#include "base/span.h"

#include <stdint.h>

#define BUS_RING_EVENTS 65536u
#define BUS_RING_BYTES  (64u * 1024u * 1024u)

struct bus;
struct grant;
struct loop;
struct redact;

/* NULL when out of memory. */
struct bus *bus_new(void);
void bus_free(struct bus *bus);

/*
 * Any thread. `type` is a JSON string (any other type: "event" stands for it); `event` is a
 * validated JSON object. Secrets that `redact` knows are replaced. ERR_NOMEM: not accepted.
 */
enum err bus_publish(struct bus *bus, const struct grant *grant, struct json_value type,
                     struct span event, const struct redact *redact) MUST_CHECK;

/*
 * Appends all events from now on to `path` ("-": stdout), on `loop`. Once, before any event.
 * ERR_IO.
 */
enum err bus_follow(struct bus *bus, struct loop *loop, const char *path,
                    struct error *e) MUST_CHECK;

/* The loop has ended: writes what is left, closes the file. */
void bus_unfollow(struct bus *bus);

/*
 * A place in the ring, for whoever passes events on; any thread, but one at a time. It costs
 * no memory for events. `run` (copied; NULL: all) chooses the events. Starts behind the event
 * number *since (one that the ring no longer has: what is missing counts as lost; one that is not
 * there yet, of an earlier process: at the ring's beginning), or (NULL) with the next event.
 * NULL when out of memory.
 */
struct bus_reader;
struct bus_reader *bus_reader_new(struct bus *bus, const char *run, const uint64_t *since);
void bus_reader_free(struct bus_reader *r); /* before the bus; NULL is harmless */

enum bus_read {
    BUS_READ_EVENT, /* `line` has it, without its line break; *n is its number */
    BUS_READ_LOST,  /* *n events are gone before they were read */
    BUS_READ_NONE,  /* nothing yet */
    BUS_READ_MORE,  /* nothing among those looked at: ask again, after others had their turn */
    BUS_READ_NOMEM  /* `line` is full or memory is out; the event stays the next one */
};
enum bus_read bus_reader_next(struct bus_reader *r, struct buf *line, uint64_t *n);

/* Calls `fn` on `loop` soon after events came, as long as there are readers. NULL: no longer. */
void bus_watch(struct bus *bus, struct loop *loop, void (*fn)(void *ctx), void *ctx);

/* Events accepted so far. */
uint64_t bus_count(struct bus *bus);

#endif
