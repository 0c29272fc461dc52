/*
 * Charges; see charge.h. Estimates count a token for each four bytes, of the messages as they came
 * and of the reply's text and arguments.
 */
#include "llm/charge.h"

#include "base/clock.h"
#include "gate/prices.h"
#include "net/loop.h"
#include "tactus/protocol.h"
#include "wire/request.h"

static uint64_t guess(uint64_t bytes)
{
    return bytes / CHARGE_BYTES_A_TOKEN + (bytes % CHARGE_BYTES_A_TOKEN != 0 ? 1 : 0);
}

/* Numbers of callers and providers may be any. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* The caller's bound of the reply; several bounds: the larger one is surely one. */
static uint64_t output_bound(const struct chat_request *chat)
{
    static const enum chat_param bounds[] = {CHAT_MAX_TOKENS, CHAT_MAX_COMPLETION_TOKENS};
    uint64_t most = 0;

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        uint64_t n = 0;
        if (json_number_u64(chat->params[bounds[i]], &n) && n > most) {
            most = n;
        }
    }
    return most == 0 ? CHARGE_OUTPUT_DEFAULT : most;
}

/* Where the answer is not METER_PASSED. */
static void refuse(struct failure *f, enum meter_answer answer, uint32_t retry_ms,
                   const struct request_bill *bill)
{
    switch (answer) {
    case METER_BUDGET_NANO:
        failure_init(f, TACTUS_E_BUDGET_EXCEEDED, "The grant's budget (budget_usd) is used up");
        break;
    case METER_BUDGET_TOKENS:
        failure_init(f, TACTUS_E_BUDGET_EXCEEDED, "The grant's budget_tokens are used up");
        break;
    case METER_UNPRICED:
        failure_init(f, TACTUS_E_BUDGET_EXCEEDED,
                     "The grant has a budget_usd, and no price is known for %.100s/%.200s",
                     bill->provider == NULL ? "" : bill->provider,
                     bill->model == NULL ? "" : bill->model);
        break;
    default:
        failure_init(f, TACTUS_E_TOO_MANY_REQUESTS,
                     "The grant's tokens a minute (tpm) are used up");
        f->retry_after = retry_ms / 1000.0;
        break;
    }
}

static void name_target(struct request *r, const struct target *target)
{
    struct request_bill *bill = request_bill(r);

    bill->provider = arena_dup(request_arena(r), span_str(target->provider->name));
    bill->model = arena_dup(request_arena(r), target->model);
}

/* The most that any of the targets can cost; unpriced when one is. */
static void claim_price(struct charge *c, const struct prices *prices,
                        const struct chat_route *route, uint64_t output)
{
    c->claim.priced = true;
    for (size_t i = 0; i < route->n && c->claim.priced; i++) {
        const struct target *t = &route->targets[i];
        int64_t nano = 0;
        c->claim.priced =
            prices_upper(prices, t->provider->name, t->model.p, c->input_guess, output, &nano);
        if ((uint64_t)nano > c->claim.nano) {
            c->claim.nano = (uint64_t)nano;
        }
    }
}

bool charge_reserve(struct charge *c, struct request *r, const struct chat_params *params,
                    struct failure *failure)
{
    const struct chat_request *chat = &params->chat;
    const struct grant *g = request_grant(r);
    struct request_bill *bill = request_bill(r);
    uint64_t output = output_bound(chat);
    uint32_t retry_ms = 0;

    name_target(r, &params->route.targets[0]);
    c->input_guess = guess(chat->messages.text.n);
    c->claim.tokens = plus(c->input_guess, output);
    claim_price(c, request_config(r)->prices, &params->route, output);
    enum meter_answer answer = meter_reserve(g->meter, &g->limits, loop_now(request_loop(r)),
                                             clock_wall_ms(), &c->claim, &retry_ms);
    if (answer != METER_PASSED) {
        refuse(failure, answer, retry_ms, bill);
        return false;
    }
    c->request = r;
    return true;
}

static uint64_t known(uint64_t tokens, uint64_t otherwise)
{
    return tokens == CHAT_UNKNOWN ? otherwise : tokens;
}

static void fill_bill(const struct charge *c, const struct reply *reply, enum charge_end end,
                      struct request_bill *bill)
{
    const struct chat_usage *u = &reply->usage;
    uint64_t output = guess(reply->held_bytes - reply->model.len); /* its name is no output */
    bool free_of_charge = end == CHARGE_FAILED && !reply->has_usage && reply->held_bytes == 0;
    bool has_input = reply->has_usage && u->prompt_tokens != CHAT_UNKNOWN;
    bool has_output = reply->has_usage && u->completion_tokens != CHAT_UNKNOWN;

    if (free_of_charge) {
        return;
    }
    bill->input_tokens = has_input ? u->prompt_tokens : c->input_guess;
    bill->output_tokens = has_output ? u->completion_tokens : output;
    bill->cached_tokens = reply->has_usage ? known(u->cached_tokens, 0) : 0;
    bill->reasoning_tokens = reply->has_usage ? known(u->reasoning_tokens, 0) : 0;
    bill->estimated = !has_input || !has_output;
}

/* The four kinds apart; a provider that counts more of a part than of the whole is not trusted. */
static struct price_usage kinds_of(const struct request_bill *b)
{
    uint64_t cached = b->cached_tokens < b->input_tokens ? b->cached_tokens : b->input_tokens;
    uint64_t thought =
        b->reasoning_tokens < b->output_tokens ? b->reasoning_tokens : b->output_tokens;

    return (struct price_usage){.input = b->input_tokens - cached,
                                .cached = cached,
                                .output = b->output_tokens - thought,
                                .reasoning = thought};
}

/* Fills the bill but its cost. */
static struct request_bill bill_of(const struct charge *c, const struct reply *reply,
                                   const struct target *target, enum charge_end end)
{
    struct request_bill bill = *request_bill(c->request);

    fill_bill(c, reply, end, &bill);
    struct price_usage kinds = kinds_of(&bill);
    int64_t nano = 0;
    bill.priced =
        target != NULL && prices_cost(request_config(c->request)->prices, target->provider->name,
                                      target->model.p, &kinds, &nano);
    bill.nano = (uint64_t)nano;
    return bill;
}

void charge_cost(const struct charge *c, struct reply *reply, const struct target *target)
{
    if (c->request == NULL || request_config(c->request)->prices == NULL) {
        return;
    }
    struct request_bill bill = bill_of(c, reply, target, CHARGE_DONE);
    reply->cost = bill.priced ? REPLY_COST_KNOWN : REPLY_COST_UNKNOWN;
    reply->cost_nano = bill.nano;
}

void charge_settle(struct charge *c, const struct reply *reply, const struct target *target,
                   enum charge_end end)
{
    struct request *r = c->request;

    if (r == NULL) {
        return;
    }
    const struct grant *g = request_grant(r);
    struct request_bill *bill = request_bill(r);
    if (target != NULL) {
        name_target(r, target);
    }
    *bill = bill_of(c, reply, target, end);
    c->request = NULL;
    const struct meter_cost used = {.tokens = plus(bill->input_tokens, bill->output_tokens),
                                    .nano = bill->nano,
                                    .priced = bill->priced};
    meter_settle(g->meter, &g->limits, clock_wall_ms(), &c->claim, &used);
}
