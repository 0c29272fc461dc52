/* What conf.c, conf_events.c and conf_scalar.c share: the text, single values, and messages. */
#ifndef TACTUS_BASE_CONF_PRIVATE_H
#define TACTUS_BASE_CONF_PRIVATE_H

#include "base/conf.h"
#include "base/span.h"

#include <stdarg.h>

struct yaml_parser_s;

#define CONF_SHOWN_SIZE  48u  /* of a value in a message */
#define CONF_WANTED_SIZE 320u /* of what was expected, in a message */

/* ERR_CONFIG with "name:line:column: path: …"; of a long name its end. */
enum err conf_fault_at(const char *name, size_t line, size_t column, const char *path,
                       struct error *e, const char *fmt, va_list args) PRINTF_LIKE(6, 0);

/* What `parser` (of libyaml) stumbled over in `text`. ERR_CONFIG, ERR_NOMEM. */
enum err conf_fault_parser(const char *name, const struct yaml_parser_s *parser, struct span text,
                           struct error *e);

/* Refuses what conf.h says no configuration has. ERR_CONFIG, ERR_NOMEM. */
enum err conf_check_events(const char *name, struct span text, const struct conf_map *map,
                           struct error *e) MUST_CHECK;

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
