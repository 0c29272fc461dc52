/*
 * What a model call costs its grant: reserved before, so that a burst of calls cannot pass a budget
 * for one, settled after, from what the provider reported, or from an estimate when it reported
 * nothing: a call that was cut off is charged too. Fills the request's bill for the ledger.
 */
#ifndef TACTUS_LLM_CHARGE_H
#define TACTUS_LLM_CHARGE_H

#include "gate/meter.h"
#include "llm/chat_params.h"
#include "llm/reply.h"

#define CHARGE_OUTPUT_DEFAULT 4096u /* reserved tokens of a reply when the caller sets no bound */
#define CHARGE_BYTES_A_TOKEN  4u    /* of an estimate */

enum charge_end {
    CHARGE_DONE,
    CHARGE_CUT,   /* the client left: the provider went on for a while */
    CHARGE_FAILED /* an error: free when nothing of a reply had come */
};

struct charge {
    struct request *request; /* NULL: nothing is reserved */
    struct meter_cost claim;
    uint64_t input_guess; /* tokens */
};

/* False with `failure`: BudgetExceeded, or TooManyRequests with retry_after. `params` has passed
 * chat_params_read. ERR_NOMEM of the bill's texts is not told: the row lacks them. */
bool charge_reserve(struct charge *c, struct request *r, const struct chat_params *params,
                    struct failure *failure);

/* Once, while the request is there; harmless when nothing is reserved. `target` is the one that was
 * tried last; NULL: none was. */
void charge_settle(struct charge *c, const struct reply *reply, const struct target *target,
                   enum charge_end end);

/* What a complete reply costs, by what was reported: reply->cost is filled. */
void charge_cost(const struct charge *c, struct reply *reply, const struct target *target);

#endif
