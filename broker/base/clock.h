/* Time. Monotonic milliseconds for deadlines; wall clock for people, as RFC 3339 UTC. */
#ifndef TACTUS_BASE_CLOCK_H
#define TACTUS_BASE_CLOCK_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_RFC3339_SIZE 25 /* "2025-01-31T12:34:56.789Z" and the NUL */

/* Milliseconds since an arbitrary start; never goes back. */
uint64_t clock_mono_ms(void);

/* The same in microseconds. */
uint64_t clock_mono_us(void);

/* Milliseconds since 1970 UTC. */
int64_t clock_wall_ms(void);

/* "2026-12-31" (its first moment), or "2026-12-31T23:59:59Z", also with up to three digits of the
 * second's fraction; UTC. False: it is none. */
bool clock_parse(struct span text, int64_t *wall_ms);

/* Formats `wall_ms`. */
void clock_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);

#endif
