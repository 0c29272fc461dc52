/*
 * brokerctl's commands for operators: each is one call of the admin API (ctl->admin), shown for
 * people, or as it came (ctl->json). They return the program's exit code as those of commands.h do;
 * a refusal is one line on `err` (and, with ctl->json, the API's answer on `out`).
 */
#ifndef TACTUS_CTL_OPERATE_H
#define TACTUS_CTL_OPERATE_H

#include "ctl/commands.h"

int ctl_status(struct ctl *c);
int ctl_drain(struct ctl *c);

/* EX_CONFIG: the new configuration is refused, the old one stays in force. */
int ctl_reload(struct ctl *c);

/* What the caller has checked; NULL: not said. Sent as they are, so they need no encoding. */
struct ctl_usage {
    const char *by; /* a list of run, grant, model, day */
    const char *since;
    const char *until;
};

/* The first name in `by` that is none of run, grant, model and day; absent: all are. */
struct span ctl_usage_by_fault(const char *by);

int ctl_usage(struct ctl *c, const struct ctl_usage *u);

int ctl_grants(struct ctl *c);
int ctl_grant_revoke(struct ctl *c, const char *id);

/* NULL: not said, and left to the broker. */
struct ctl_grant {
    const char *run;
    const char *models; /* patterns with commas between them */
    const char *tools;
    const char *ttl; /* this and the rest: JSON numbers */
    const char *rpm;
    const char *tpm;
    const char *budget_usd;
    const char *budget_tokens;
    const char *max_inflight;
    const char *listener; /* its transport */
};

int ctl_grant_create(struct ctl *c, const struct ctl_grant *g);

/* The body of that call. */
void ctl_grant_body(struct buf *b, const struct ctl_grant *g);

/*
 * Shows an answer of the API for people. Pure but for `out`. False when `json` is not such an
 * answer or memory is out; what was put then is not complete.
 */
bool ctl_show_status(struct output *out, struct span json);
bool ctl_show_grants(struct output *out, struct span json);
bool ctl_show_created(struct output *out, struct span json);
bool ctl_show_usage(struct output *out, struct span json);
bool ctl_show_reload(struct output *out, struct span json);
bool ctl_show_drain(struct output *out, struct span json);

#endif
