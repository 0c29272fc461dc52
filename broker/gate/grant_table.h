/*
 * Who is calling: from a token, or a name in a client's certificate, to a grant. One table for the
 * process; grants of the configuration and of runs are in it. Looked up on any thread for each
 * request of a listener with auth required; changed on loop 0.
 *
 * Of tokens only the SHA-256 is kept, and hashes are compared in constant time.
 */
#ifndef TACTUS_GATE_GRANT_TABLE_H
#define TACTUS_GATE_GRANT_TABLE_H

#include "base/err.h"
#include "base/span.h"
#include "gate/grant.h"

#define GRANT_TOKEN_MAX 4096u /* bytes of a token that is looked at */

struct grant_table;

struct grant_table *grant_table_new(void); /* NULL when out of memory */
void grant_table_free(struct grant_table *t);

/* Takes a reference. ERR_CONFIG: another one has the same token; ERR_NOMEM. */
enum err grant_table_add(struct grant_table *t, struct grant *g, struct error *e) MUST_CHECK;
/* One that is not there is harmless. Who has it already keeps it. */
void grant_table_remove(struct grant_table *t, struct grant *g);

/*
 * Puts `in` in the place of `out`, in one step for those who look: all or nothing. After a
 * failure the table is as it was, its order too. ERR_CONFIG as above, ERR_NOMEM.
 */
enum err grant_table_replace(struct grant_table *t, struct grant *const *out, size_t nout,
                             struct grant *const *in, size_t nin, struct error *e) MUST_CHECK;

/* A reference, or NULL: nobody's. */
struct grant *grant_table_by_token(struct grant_table *t, struct span token);
/* The first (in the order of adding) whose cert_san matches `name`. */
struct grant *grant_table_by_cert(struct grant_table *t, const char *name);

#endif
