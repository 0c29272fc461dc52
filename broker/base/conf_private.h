/* What conf.c and conf_scalar.c share: single values, in the file and in messages. */
#ifndef TACTUS_BASE_CONF_PRIVATE_H
#define TACTUS_BASE_CONF_PRIVATE_H

#include "base/conf.h"
#include "base/span.h"

#define CONF_SHOWN_SIZE  48u  /* of a value in a message */
#define CONF_WANTED_SIZE 320u /* of what was expected, in a message */

/* `text` as it may be shown: short, printable ASCII. Returns `out`. */
const char *conf_shown(struct span text, char out[CONF_SHOWN_SIZE]);

/* "a, b, c" with `suffix` after each; what does not fit is cut. `choices` ends with NULL. */
void conf_join(const char *const *choices, const char *suffix, char *out, size_t size);

/* What a value of `k` has to be, in words. Returns `out`. */
const char *conf_wanted(const struct conf_key *k, char out[CONF_WANTED_SIZE]);

/* NULL when `text` may be kept as a text of at most `max` bytes (0: CONF_MAX_STRING), else what is
 * wrong with it. */
const char *conf_text_fault(struct span text, uint64_t max);

/* Puts a copy of `text` in the char * at `field` and frees what was there. ERR_NOMEM. */
enum err conf_put_text(void *field, struct span text) MUST_CHECK;

/*
 * Stores `text` in `field` (for a list of strings: one item). `plain` tells that it stood without
 * quotes. ERR_CONFIG with *what set (NULL: the value itself says it), ERR_NOMEM.
 */
enum err conf_set_scalar(const struct conf_key *k, struct span text, bool plain, void *field,
                         const char **what) MUST_CHECK;

#endif
