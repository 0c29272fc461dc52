/*
 * A reply being put together: what `done` will say. Takes neutral events, keeps all text (as
 * escaped JSON, so that `done` is a copy), assembles tool calls, keeps signed reasoning, remembers
 * the last usage, the finish reason and the model. Pure.
 */
#ifndef TACTUS_LLM_REPLY_H
#define TACTUS_LLM_REPLY_H

#include "base/buf.h"
#include "llm/neutral.h"

struct reply_call {
    struct buf id;
    struct buf name;
    struct buf arguments;
};

/* Of a complete reply: unsaid without prices, unknown without one for its model. */
enum reply_cost { REPLY_COST_UNSAID, REPLY_COST_UNKNOWN, REPLY_COST_KNOWN };

struct reply {
    struct buf text_json;    /* all text, escaped, without quotes */
    uint64_t text_bytes;     /* of it before escaping */
    struct buf thought_json; /* reasoning since the last signature, escaped, without quotes */
    struct buf details_json; /* entries of reasoning_details, a comma before each but the first */
    struct buf model;
    struct reply_call *calls;
    size_t ncalls;
    size_t max_bytes; /* bounds text and arguments together */
    size_t held_bytes;
    struct chat_usage usage;
    bool has_usage;
    enum chat_finish finish;
    enum reply_cost cost; /* charge.h */
    uint64_t cost_nano;   /* billionths of a US dollar */
};

#define REPLY_CALLS_MAX 256

void reply_init(struct reply *r, size_t max_bytes);
void reply_fini(struct reply *r);

/* ERR_LIMIT when the reply grows over its maximum (or has more than REPLY_CALLS_MAX calls),
 * ERR_NOMEM. */
enum err reply_add(struct reply *r, const struct chat_event *event) MUST_CHECK;

/*
 * Appends the `data` object of a streamed `delta` for one event of kind TEXT, REASONING or TOOL:
 * {"text":…}, {"reasoning":…} or {"tool_calls":[{"index","id","type","function":{…}}]} (id, type
 * and name only in a call's first piece, arguments always).
 */
void reply_put_delta(const struct chat_event *event, struct buf *b);

/*
 * Appends the `data` object of `done`: text, usage (zeros when the provider reported none;
 * total = prompt + completion when only the total is missing; cached_tokens, reasoning_tokens when
 * known; cost_usd when there are prices, null when not for this model), tool_calls (OpenAI's shape;
 * only complete calls: with a name, and when the reply was cut by length or filter with arguments
 * that are valid JSON; a missing id becomes call_N; absent when there are none), reasoning_details
 * (when the provider signed any of its reasoning), finish_reason (absent when none), model (absent
 * when unknown), in this order.
 */
void reply_put_done(const struct reply *r, struct buf *b);

#endif
