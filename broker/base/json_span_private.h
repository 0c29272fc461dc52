/* Shared by json_span.c and json_walk.c. Nobody else includes it. */
#ifndef TACTUS_BASE_JSON_SPAN_PRIVATE_H
#define TACTUS_BASE_JSON_SPAN_PRIVATE_H

#include "base/json_span.h"

/* Four hexadecimal digits at `p`. */
bool json_hex4(const char *p, unsigned *out);

/* Adds a member; NULL, or why it cannot be added. */
const char *json_members_add(struct json_members *out, const struct json_member *m);

#endif
