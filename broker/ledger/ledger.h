/*
 * The ledger of requests: one row a request in an SQLite database, and the grants of runs that
 * outlive the process. A thread of its own, the store thread, does all that touches the disk: it
 * writes what waits in group commits and answers questions; nobody else ever waits for it.
 *
 * A row that was put is in the file within 5 ms and the time of one commit, unless the database
 * fails: then rows wait, up to a bound, until it can be written again.
 */
#ifndef TACTUS_LEDGER_LEDGER_H
#define TACTUS_LEDGER_LEDGER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define LEDGER_WAITING_MAX       65536u
#define LEDGER_WAITING_BYTES_MAX (64u * 1024u * 1024u)
#define LEDGER_NAME_MAX          512u            /* bytes of each name in a row; longer is cut */
#define LEDGER_TEXT_MAX          (1024u * 1024u) /* bytes of a prompt or a reply; longer is cut */
#define LEDGER_GRANT_MAX         (1024u * 1024u) /* bytes of the JSON of a grant */
#define LEDGER_ANSWER_ROWS       10000u          /* of one reading */
#define LEDGER_ANSWER_BYTES      (16u * 1024u * 1024u)
#define LEDGER_READINGS_MAX      64u /* that wait at a time */

struct ledger;
struct ledger_reading;
struct loop;

/* What is known of a request at its end. Everything is copied. */
struct ledger_row {
    uint64_t time_ms;     /* its start: wall clock, milliseconds since 1970 */
    const char *run;      /* NULL: of no run */
    const char *grant;    /* its name */
    const char *method;   /* "llm.chat" */
    const char *provider; /* NULL: none was chosen */
    const char *model;    /* the provider's name of it, or the caller's; NULL: none */
    const char *outcome;  /* "ok", "cancelled", or the type of the error */
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t cached_tokens;
    uint64_t reasoning_tokens;
    int64_t cost_nano;      /* billionths of a USD; -1: no price is known */
    bool estimated;         /* tokens and cost are an estimate */
    uint64_t first_byte_us; /* 0: none came */
    uint64_t total_us;
    const char *prompt; /* NULL unless log.prompts */
    const char *reply;  /* NULL unless log.prompts */
};

/*
 * Opens the database `path`, makes it (mode 0600) when there is none, brings an older schema to
 * ours, and starts the store thread. What an earlier process left unfinished is recovered, and an
 * info line says what was found. `retention_ms`: rows older than that are deleted, at the open and
 * then once an hour while rows are written; 0: never.
 *
 * ERR_CONFIG: the file is no database, is damaged, belongs to another program, or has a schema that
 * is newer than this program's (the message has path, version found and version expected). ERR_IO:
 * the file or its directory cannot be read and written; ERR_NOMEM. A failed open leaves the file's
 * content as it was.
 */
enum err ledger_open(const char *path, uint64_t retention_ms, struct ledger **out,
                     struct error *e) MUST_CHECK;

/*
 * Writes all that waits (for at most 5 s when the database fails; what is left then is logged as
 * lost), makes one file of the database, stops the thread, frees. Readings that were not answered
 * are cancelled, and their handles are invalid. Nobody may use the ledger at the same time. An
 * answer that is already on its way still arrives when its loop turns, and is freed by that: turn
 * the loop (loop_run_closing) before loop_free. NULL is harmless.
 */
void ledger_close(struct ledger *l);

/*
 * Any thread; one short lock, no disk. `grant`, `method` and `outcome` are not NULL. Over
 * LEDGER_WAITING_MAX rows or LEDGER_WAITING_BYTES_MAX bytes that wait, or out of memory, the row is
 * lost: counted, and said in the log by the store thread at most once a second.
 */
void ledger_put(struct ledger *l, const struct ledger_row *row);

/* Rows, not grants. */
struct ledger_stats {
    uint64_t written; /* committed since the open */
    uint64_t lost;    /* with changes of grants that were lost */
    uint64_t waiting; /* put and not yet committed */
    bool failing;     /* the last write failed; it is tried again, at least every 5 s */
};

/* Any thread. */
void ledger_get_stats(struct ledger *l, struct ledger_stats *out);

/* ---- questions ---- */

enum {
    LEDGER_BY_RUN = 1,
    LEDGER_BY_GRANT = 2,
    LEDGER_BY_MODEL = 4, /* "provider/model" */
    LEDGER_BY_DAY = 8,   /* in UTC */
    LEDGER_BY_ALL = 15
};

struct ledger_query {
    unsigned by;       /* bits LEDGER_BY_*; 0: one row, the sum of all */
    uint64_t since_ms; /* first of the rows' times; 0: from the beginning */
    uint64_t until_ms; /* the first that no longer counts; 0: to the end */
};

/*
 * Asks for sums. `done(ctx, rc, rows)` runs once on `loop`, whose thread this must be, after the
 * return of this function. All that was put before is counted. With ERR_OK `rows` is the text of a
 * JSON array, ordered by day, run, grant, model, valid during the call:
 *   [{"day":"2026-12-02","run":null,"grant":"ci","model":"openai/gpt-4o","requests":3,"errors":1,
 *     "input_tokens":9,"output_tokens":4,"cached_tokens":0,"cost_usd":0.0123,"unpriced":0,
 *     "estimated":1}]
 * The first four are there when asked for, and null where rows have none. errors: rows whose
 * outcome is neither "ok" nor "cancelled". cost_usd: null when no row has a price; unpriced: how
 * many have none. Sums end at 2^63 - 1 and never wrap.
 *
 * Otherwise `rows` is empty: ERR_LIMIT (more than LEDGER_ANSWER_ROWS or LEDGER_ANSWER_BYTES: ask
 * for less time or coarser), ERR_NOMEM, ERR_IO (the database cannot be read, or what waits cannot
 * be written).
 *
 * Returns ERR_LIMIT (LEDGER_READINGS_MAX wait) or ERR_NOMEM: `done` is not called then. `*out` is
 * valid until `done` is called.
 */
enum err ledger_ask(struct ledger *l, const struct ledger_query *q, struct loop *loop,
                    void (*done)(void *ctx, enum err rc, struct buf *rows), void *ctx,
                    struct ledger_reading **out, struct error *e) MUST_CHECK;

/* On the loop of the reading, before its `done`, which is not called any more; a scan that runs is
 * broken off. NULL is harmless. */
void ledger_reading_cancel(struct ledger_reading *r);

/*
 * What a grant without a run has used since `since_ms`, so that budgets outlive a restart: the sum
 * of costs (a row without a price counts 0) and of input and output tokens. Waits for the disk:
 * only before the loops run. ERR_IO, ERR_NOMEM.
 */
enum err ledger_spent(struct ledger *l, const char *grant, uint64_t since_ms, int64_t *nano,
                      uint64_t *tokens, struct error *e) MUST_CHECK;

/* ---- grants of runs that outlive a restart ---- */

/*
 * Any thread, no disk; in order with each other and with rows. Keeping an id again replaces what
 * was kept. They are held to twice the bounds of rows, so that a flood of rows does not cost a
 * grant; over that, over LEDGER_GRANT_MAX or out of memory the change is lost, and logged.
 */
void ledger_keep_grant(struct ledger *l, const char *id, struct span json, uint64_t expires_ms);
void ledger_drop_grant(struct ledger *l, const char *id);

/*
 * Calls `fn` on the calling thread for each grant that is kept, expired ones included (the caller
 * drops them), in the order of their ids; `id` and `json` are valid during the call, and `fn` may
 * use the ledger. Waits for the disk: only before the loops run. ERR_LIMIT: more than
 * LEDGER_WAITING_BYTES_MAX of them. ERR_IO, ERR_NOMEM; `fn` was not called then.
 */
enum err ledger_grants(struct ledger *l,
                       void (*fn)(void *ctx, const char *id, struct span json, uint64_t expires_ms),
                       void *ctx, struct error *e) MUST_CHECK;

#endif
