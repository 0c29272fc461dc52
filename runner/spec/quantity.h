/* Numbers as users write them for containers. Whole text, no sign, no overflow. Pure. */
#ifndef TACTUS_RUNNER_QUANTITY_H
#define TACTUS_RUNNER_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#define QUANTITY_MEMORY_MIN (UINT64_C(6) * 1024 * 1024) /* no engine takes less */
#define QUANTITY_MEMORY_MAX (UINT64_C(1) << 50) /* nor, as a limit, so much that it is none */
#define QUANTITY_CPUS_MIN   UINT64_C(10000000)  /* a hundredth: the kernel takes no less */

bool quantity_u64(const char *text, uint64_t *out);

/* Billionths: "2" is 2000000000, "0.5" 500000000. At most nine digits after the point. */
bool quantity_nano(const char *text, uint64_t *out);

/* Bytes: a number, with a fraction or not, and b, k, m, g, t (also kb, mb, kib, …), powers of 1024,
 * in any case. */
bool quantity_bytes(const char *text, uint64_t *out);

#endif
