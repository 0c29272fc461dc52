/* Which of the user's variables may enter a container. Pure. */
#ifndef TACTUS_RUNNER_ENVIRONMENT_H
#define TACTUS_RUNNER_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Why `name` is not passed: a text for the warning ("a provider's key: the broker holds it"), or
 * NULL when it is. `allowed`: names that the user allowed by --allow-env. */
const char *environment_refusal(const char *name, char *const *allowed, size_t nallowed);

/* A name that can be one: letters, digits, '_', '.', '-', not starting with a digit. */
bool environment_name_ok(const char *name);

#endif
