/*
 * Which of the user's variables may enter a container. Pure.
 *
 * Judged are names, in any case; a value that equals one of the broker's secrets is found elsewhere
 * (run/grants), by its hash. Every variable of the user is judged, wherever it was named.
 */
#ifndef TACTUS_RUNNER_ENVIRONMENT_H
#define TACTUS_RUNNER_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Why `name` is not passed: a text for the warning ("a provider's key: the broker holds it …"), or
 * NULL when it is. Refused are
 *   the runner's own: TACTUS_BROKER_*, TACTUS_CALLBACK_URL, always;
 *   the keys of providers, and what ends in _API_KEY, _SECRET, _TOKEN or _PASSWORD, unless it is
 *   one of `allowed` (--allow-env NAME: the very name, in its case).
 */
const char *environment_refusal(const char *name, char *const *allowed, size_t nallowed);

/* A name that can be one: letters, digits, '_', '.', '-', not starting with a digit. */
bool environment_name_ok(const char *name);

#endif
