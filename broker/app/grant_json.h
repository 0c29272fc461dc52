/* Grants as JSON, for the admin API: policy and use, never a token. */
#ifndef TACTUS_APP_GRANT_JSON_H
#define TACTUS_APP_GRANT_JSON_H

#include "base/buf.h"
#include "gate/grant.h"

/* Appends those that there are, each with a comma before it, as POST /v1/grants takes them. */
void grant_put_limits(const struct meter_limits *l, struct buf *b);

/* Likewise name, models, tools. */
void grant_put_names(const struct grant *g, struct buf *b);

/* Appends members, each with a comma before it: name, models, tools, limits, used. */
void grant_put_policy(const struct grant *g, struct buf *b);

/* A configured one as an object: its id is its name, its run null. */
void grant_put_configured(const struct grant *g, struct buf *b);

#endif
