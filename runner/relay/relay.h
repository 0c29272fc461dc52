/*
 * Between a container that talks over its stderr and stdin, and the broker: requests go on as they
 * come, replies come back as they come, many in flight, any length, nothing kept but the ids of
 * requests that wait for their end.
 *
 * When the broker's connection is lost, each of those ends with an `error` of type
 * APIConnectionError, so that no client waits for ever; the next request makes a new connection.
 *
 * For the loop's thread. Callbacks come from the loop and from relay_request* (a lost connection).
 */
#ifndef TACTUS_RUNNER_RELAY_H
#define TACTUS_RUNNER_RELAY_H

#include "base/err.h"
#include "base/span.h"
#include "net/loop.h"

#include <stdbool.h>
#include <stddef.h>

#define RELAY_IDS_MAX 4096u /* requests in flight whose end is watched */

struct relay;

struct relay_handler {
    /* For the container's stdin: all pieces or none (not ERR_OK: the reply is lost). */
    enum err (*on_reply)(void *ctx, const struct span *pieces, size_t n);
    /* What waits for the broker fell below the low mark: more requests may come. */
    void (*on_drain)(void *ctx);
};

/* `endpoint`: /path, unix:///path or tcp://host:port; connects with the first request.
 * ERR_CONFIG, ERR_NOMEM. */
enum err relay_new(struct loop *loop, const char *endpoint, const struct relay_handler *handler,
                   void *ctx, struct relay **out, struct error *e) MUST_CHECK;
void relay_free(struct relay *r);

/* Bytes of a request (one line of JSON, without its end), and its end. */
void relay_request(struct relay *r, struct span piece);
void relay_request_end(struct relay *r);

/* The broker takes less than comes: stop giving until on_drain. */
bool relay_congested(const struct relay *r);

/* The container takes less than comes: no on_reply until `hold` is false again. */
void relay_hold(struct relay *r, bool hold);

/* Bytes that wait for the broker to take them. */
size_t relay_queued(const struct relay *r);

/* How many requests wait for their end. */
size_t relay_inflight(const struct relay *r);

#endif
