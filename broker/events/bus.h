/*
 * The event bus: every accepted event gets a number and a place in one ring, in the order of
 * acceptance. A follower writes them to a file as JSON lines:
 *   {"seq":1,"time":"2025-01-31T12:34:56.789Z","grant":"dev","type":"log","event":{…}}
 *
 * Publishing is for any thread (one short lock, no I/O). Following belongs to one loop; the file is
 * written by libuv's workers, so a slow disk or an unread pipe stops nobody. The ring is bounded: a
 * follower that falls behind it loses the oldest, is told how many, and goes on.
 */
#ifndef TACTUS_EVENTS_BUS_H
#define TACTUS_EVENTS_BUS_H

#include "base/err.h"
#include "base/json_span.h"
#include "base/span.h"

#include <stdint.h>

#define BUS_RING_EVENTS 65536u
#define BUS_RING_BYTES  (64u * 1024u * 1024u)

struct bus;
struct loop;
struct redact;

/* NULL when out of memory. */
struct bus *bus_new(void);
void bus_free(struct bus *bus);

/*
 * Any thread. `type` is a JSON string (any other type: "event" stands for it); `event` is a
 * validated JSON object. Secrets that `redact` knows are replaced. ERR_NOMEM: not accepted.
 */
enum err bus_publish(struct bus *bus, const char *grant, struct json_value type, struct span event,
                     const struct redact *redact) MUST_CHECK;

/*
 * Appends all events from now on to `path` ("-": stdout), on `loop`. Once, before any event.
 * ERR_IO.
 */
enum err bus_follow(struct bus *bus, struct loop *loop, const char *path,
                    struct error *e) MUST_CHECK;

/* The loop has ended: writes what is left, closes the file. */
void bus_unfollow(struct bus *bus);

/* Events accepted so far. */
uint64_t bus_count(struct bus *bus);

#endif
