/* Shared by runs.c and runs_keep.c: the table of runs. Nobody else includes it. */
#ifndef TACTUS_APP_RUNS_PRIVATE_H
#define TACTUS_APP_RUNS_PRIVATE_H

#include "app/app_private.h"
#include "app/runs.h"
#include "base/list.h"
#include "gate/grant_source.h"

#define ENDPOINT_SIZE 128u

struct runs {
    struct broker *broker;
    struct list live;
    size_t nlive;
    bool closed; /* no new ones */
    bool made_base;
    pthread_mutex_t lock;
    struct list ended; /* under the lock: a session on any loop may be the last */
};

/* "This run has ended", on its way to one worker. */
struct run_notice {
    struct loop_message message;
    struct run *run;
    struct worker *worker;
};

struct run {
    struct list node; /* runs.live, then runs.ended */
    struct runs *runs;
    char id[RUN_ID_SIZE];
    /* Not changed after the start; read by sessions. */
    struct wire_door door;
    struct grant *grant; /* a reference */
    bool listens;        /* it has a listener of its own; else it is known by its token alone */
    struct listener_config config;
    /* loop 0 only */
    struct listener *listener; /* NULL: it has ended, or the broker stops */
    char endpoint[ENDPOINT_SIZE];
    char *ca_file;
    bool restored;   /* it was made by the process before */
    bool owns_place; /* the socket's directory is one that we made */
    bool ended;
    struct grant_source *sources;
    size_t nsources;
    bool limited; /* to the sources */
    uint64_t refused;
    int64_t created_at;
    int64_t expires_at;
    struct loop_deadline deadline; /* the end of its time; ended: notices to be sent again */
    unsigned notified;             /* workers that have been sent their notice */
    struct run_notice *notices;    /* one a worker */
};

/* ---- runs.c ---- */

/* A run that is in no list yet; NULL: out of memory. Its id and its grant's token are the caller's
 * to fill in. */
struct run *run_new(struct runs *runs);
/* Frees one that is in no list. */
void run_free(struct run *run);
/* Opens it and puts it into the list. False: it is gone. */
bool run_open(struct run *run, const struct admin_grant *wanted, struct admin_fault *f);

/* ---- runs_keep.c: grants of living runs outlive the process, when there is a ledger ---- */

/* After each change. */
void run_keep(const struct run *run);
/* At its end. */
void run_forget(const struct run *run);

#endif
