/*
 * The contract between the runner and tactus-init, the static program that is PID 1 of a container.
 * No functions.
 *
 *   tactus-init [--heartbeat FIFO] [--ttl SECONDS] [--grace SECONDS] -- COMMAND [ARGUMENT]...
 *
 * COMMAND is looked up on PATH and runs as a child in a process group of its own, with stdin,
 * stdout and stderr as they are, no other descriptor, no signal blocked or ignored. Signals are
 * forwarded to its group. When it ends, tactus-init exits at once and the kernel ends what is left.
 *
 * --heartbeat FIFO
 *     The runner opens the write end before it starts the container and keeps it open. Without a
 *     writer, at the start too (COMMAND is not started then), the runner is gone. What is written
 *     into it means nothing. The FIFO should be readable and not writable for the container's user:
 *     a writer inside would hide the runner's end, and a read-only mount hinders none. It works
 *     where runner and container share a kernel; elsewhere give --ttl alone.
 * --ttl SECONDS
 *     The longest life, from the start on; time in which the machine sleeps is left out.
 * --grace SECONDS
 *     When the heartbeat or the time-to-live is over, every process gets TERM; COMMAND has this
 *     long to end, then every process gets KILL.
 *
 * SECONDS is decimal digits with an optional fraction ("0.3"), down to a millisecond.
 *
 * Not as PID 1 (another init in the container, shared PID namespace) it adopts the orphans of its
 * tree, and after COMMAND's end gives what is left TERM, the grace, and KILL. It finds the tree in
 * /proc; without /proc it reaches COMMAND's process group only.
 */
#ifndef TACTUS_INIT_H
#define TACTUS_INIT_H

#define TACTUS_INIT_NAME "tactus-init"

#define TACTUS_INIT_OPT_HEARTBEAT "--heartbeat"
#define TACTUS_INIT_OPT_TTL       "--ttl"
#define TACTUS_INIT_OPT_GRACE     "--grace"

#define TACTUS_INIT_GRACE_MS    5000u                /* without --grace */
#define TACTUS_INIT_GRACE_MAX_S 3600u                /* 0 is allowed: KILL follows TERM at once */
#define TACTUS_INIT_TTL_MAX_S   (366u * 24u * 3600u) /* 0 is refused */

/* Exit codes. Otherwise COMMAND's own, or 128 + the number of the signal that ended it: its codes
 * may coincide with these, and the line on stderr tells them apart. */
#define TACTUS_INIT_EX_USAGE      64  /* wrong command line; COMMAND was not started */
#define TACTUS_INIT_EX_TTL        124 /* the time-to-live was over */
#define TACTUS_INIT_EX_FAILED     125 /* tactus-init itself: no FIFO, no process, … */
#define TACTUS_INIT_EX_CANNOT_RUN 126 /* COMMAND was found and cannot be run */
#define TACTUS_INIT_EX_NOT_FOUND  127 /* no such COMMAND */
#define TACTUS_INIT_EX_SIGNAL     128
#define TACTUS_INIT_EX_HEARTBEAT  143 /* the runner was gone */

#endif
