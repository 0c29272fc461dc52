/*
 * Prices of models, from a YAML file:
 *
 *     prices:
 *       - { model: "openai/gpt-4o-mini*", input: 0.15, cached_input: 0.075, output: 0.60 }
 *
 * model is a glob over "provider/model", the numbers are USD per million tokens. cached_input is
 * `input` and reasoning is `output` where a row does not say. The first row that matches counts; a
 * model that no row matches has no price, the builtin provider's too. Numbers are kept as
 * they are written: whole nano-USD (1e-9 USD) per million tokens, no floating point anywhere.
 *
 * Immutable once read; any thread.
 */
#ifndef TACTUS_GATE_PRICES_H
#define TACTUS_GATE_PRICES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRICES_ROWS_MAX 4096u

struct prices;
struct conf_map;

/* Tokens of one request. The four are apart from each other: `input` is without the cached ones,
 * `output` without those of reasoning. */
struct price_usage {
    uint64_t input;
    uint64_t cached;
    uint64_t output;
    uint64_t reasoning;
};

/*
 * Reads the file `path`; *out is the caller's, for prices_free(). ERR_CONFIG with
 * "file:line:column: key: what is wrong, what was expected": what base/conf refuses, a price that
 * is no plain decimal number (digits, a point, digits), is more than 1000000 USD or has more than 9
 * decimals, and a model that cannot match any. ERR_NOMEM.
 */
enum err prices_read(const char *path, struct prices **out, struct error *e) MUST_CHECK;

/* The same for a `text`; `name` stands for the file in messages. */
enum err prices_parse(const char *name, const char *text, size_t n, struct prices **out,
                      struct error *e) MUST_CHECK;

void prices_free(struct prices *p);

/* The table of keys of the file. */
const struct conf_map *prices_keys(void);

/*
 * What `usage` of `model` at `provider` costs in nano-USD, the sum rounded up, at most INT64_MAX.
 * False, *nano untouched: no price is known (also when `p`, a name or the price list is not there,
 * or "provider/model" has 1024 bytes or more).
 */
bool prices_cost(const struct prices *p, const char *provider, const char *model,
                 const struct price_usage *usage, int64_t *nano);

/* The most that `input` and `output` tokens can cost, whatever kind they turn out to be: for a
 * reservation. Otherwise as prices_cost(). */
bool prices_upper(const struct prices *p, const char *provider, const char *model, uint64_t input,
                  uint64_t output, int64_t *nano);

#endif
