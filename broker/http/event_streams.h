/*
 * Events of the bus as server-sent events: one reader of the ring for each subscriber, woken
 * together when events came, a comment from time to time so that a subscriber who left is noticed.
 * A subscriber that is too slow holds one event in memory and costs nobody anything; what the ring
 * drops before it was read is told him.
 *
 *   id: 17                          event: dropped
 *   data: {"seq":17,…}              data: {"dropped":3}
 */
#ifndef TACTUS_HTTP_EVENT_STREAMS_H
#define TACTUS_HTTP_EVENT_STREAMS_H

#include "base/err.h"

#include <stdint.h>

#define EVENT_STREAMS_HEARTBEAT_MS 15000u

struct bus;
struct event_streams;
struct httpd_request;
struct loop;

/* NULL when out of memory. */
struct event_streams *event_streams_new(struct loop *loop, struct bus *bus, uint32_t heartbeat_ms);

/* After the server, which ends its streams. NULL is harmless. */
void event_streams_free(struct event_streams *s);

/* Answers `r` by a stream of events of `run` (NULL: all), from behind number *since, or (NULL) from
 * now on. ERR_LIMIT: too many streams; ERR_NOMEM: then `r` is still to be answered. */
enum err event_streams_start(struct event_streams *s, struct httpd_request *r, const char *run,
                             const uint64_t *since) MUST_CHECK;

/* No more events of `run` will come: its streams end when they have told what there is. */
void event_streams_end_run(struct event_streams *s, const char *run);

#endif
