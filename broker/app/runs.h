/*
 * Grants of runs: each a policy with a listener of its own, made and ended by the admin API. All
 * of it belongs to loop 0; only a run's door, its grant and its counters are seen by sessions on
 * other loops, which hold references (wire/session.h).
 *
 * A run: LIVE (its listener accepts, its time runs) -> ENDED (listener closed, socket and directory
 * gone, its requests told Cancelled on every loop) -> freed when the last session has gone.
 */
#ifndef TACTUS_APP_RUNS_H
#define TACTUS_APP_RUNS_H

#include "base/buf.h"
#include "http/admin_body.h"

#include <stdbool.h>

#define RUNS_MAX    10000u
#define RUN_ID_SIZE 27u /* 128 random bits in [a-z2-7], and the NUL */

struct broker;
struct runs;
struct run;

/* Loops and doors of `b` are there and not yet running. ERR_NOMEM; ERR_CONFIG: TLS. */
enum err runs_new(struct broker *b, struct runs **out, struct error *e) MUST_CHECK;

/* Those that a process before has left: they listen again where they did, under the same ids,
 * tokens and limits; what they had used is not known any more. One that cannot is told in the log
 * and dropped. Before the loops run. ERR_IO, ERR_NOMEM of the ledger. */
enum err runs_restore(struct runs *runs, struct error *e) MUST_CHECK;

/* Closes every listener and removes what it made, unless a later process goes on with it; sessions
 * go on. No run can be made any more. */
void runs_stop_listening(struct runs *runs);

/* After the loops: nobody holds a door any more. NULL is harmless. */
void runs_free(struct runs *runs);

/* Makes one and listens. `token` (zeroed) gets its token, for secret_fini(): it is kept nowhere
 * else. 422: cannot listen there; 429: too many; 503: shutting down, no memory or no descriptors.
 */
bool runs_create(struct runs *runs, const struct admin_grant *wanted, struct secret *token,
                 struct run **out, struct admin_fault *f);

/* NULL: there is no such live one. */
struct run *runs_find(struct runs *runs, const char *id);
/* Steps through the live ones: start with NULL; NULL at the end. */
struct run *runs_next(struct runs *runs, struct run *after);

/* ttl: its time starts anew. allow_from: for connections from now on (400: not on a Unix socket).
 */
bool run_change(struct run *run, const struct admin_grant *wanted, struct admin_fault *f);

/* Ends it: see above. `why` is for the log. */
void run_end(struct run *run, const char *why);

const char *run_id(const struct run *run);

/* What a caller needs to use it: {"id","run","endpoint","ca_file"?,"expires_at","token"}; endpoint
 * is null when it has no listener of its own. */
void run_put_brief(const struct run *run, const struct secret *token, struct buf *b);
/* All there is to know. */
void run_put_json(struct run *run, struct buf *b);

#endif
