/*
 * A grant: the policy under which a request runs. Here its allowlists: glob patterns of models
 * ("provider/model") and tools. An absent list allows nothing, ["*"] all.
 */
#ifndef TACTUS_GATE_GRANT_H
#define TACTUS_GATE_GRANT_H

#include <stdbool.h>
#include <stddef.h>

struct grant {
    char *name;
    char *run; /* whose grant it is; NULL: a configured one */
    char **models;
    size_t nmodels;
    char **tools;
    size_t ntools;
};

/* `provider` and `model` as the router chose them; matched as "provider/model". */
bool grant_allows_model(const struct grant *g, const char *provider, const char *model);
bool grant_allows_tool(const struct grant *g, const char *tool);

/* Frees what it owns. */
void grant_fini(struct grant *g);

#endif
