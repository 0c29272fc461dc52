/* llm.chat's parameters: read, checked in the protocol's order, and matched to targets. */
#ifndef TACTUS_LLM_CHAT_PARAMS_H
#define TACTUS_LLM_CHAT_PARAMS_H

#include "llm/neutral.h"
#include "llm/router.h"
#include "wire/failure.h"

struct request;

struct chat_params {
    struct chat_request chat; /* model: as the caller names it, without a provider; borrows from the
                                 request's message and arena */
    struct chat_route route;
    uint32_t total_ms;
};

/*
 * Checks, in this order: provider known, model a non-empty string, messages a list, the rest's
 * types, the grant's policy. False with `failure` filled at the first that does not hold.
 */
bool chat_params_read(struct request *r, const struct providers *providers, struct chat_params *out,
                      struct failure *failure);

#endif
