/* Shared by the secret*.c files. Nobody else includes it. */
#ifndef TACTUS_GATE_SECRET_PRIVATE_H
#define TACTUS_GATE_SECRET_PRIVATE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define SECRET_MAX              (64u * 1024u)
#define SECRET_BUFFER_SIZE      (SECRET_MAX + 2) /* a newline at the end, and one byte too many */
#define SECRET_COMMAND_DEADLINE 10000u           /* milliseconds */

/*
 * Runs the program argv[0] with `argc` - 1 arguments and puts what it writes to its stdout into `p`
 * (SECRET_BUFFER_SIZE bytes of secure memory, the caller wipes it, also after a failure); *n is its
 * length, at most SECRET_MAX + 1. The program has to end with 0 and its output has to be closed
 * before `deadline_ms` are over; else it and its process group are killed and ERR_CONFIG comes
 * back, with a message that names the program alone. What it left running after a good end lives
 * on. ERR_NOMEM, ERR_IO. Blocks for `deadline_ms` and, should the killed program not go, 1 s more.
 */
enum err secret_command_run(char *const *argv, size_t argc, uint32_t deadline_ms, char *p,
                            size_t *n, struct error *e) MUST_CHECK;

#endif
