/* Every process that tactus-init answers for, and how to signal them all. */
#ifndef TACTUS_INIT_TREE_H
#define TACTUS_INIT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TREE_MAX 65536u /* processes that are looked at in one walk, strangers included */

struct tree_process;

struct tree {
    pid_t self;
    bool pid1;                  /* the whole PID namespace is ours */
    struct tree_process *table; /* room for a walk; NULL: none is needed, or there is no memory */
};

/* Finds out who we are. Not as PID 1: makes us the adopter of orphans below us and reserves room
 * for walks (untouched pages until then), so that later nothing is allocated. There is no end to
 * it: the process ends. */
void tree_init(struct tree *t);

/* Sends `number` to every other process of ours. As PID 1 to the namespace; otherwise to our
 * descendants as /proc shows them now, some that are born meanwhile left out: repeat KILL until
 * there is no child. Where /proc is missing or of another namespace, to process group `group`. */
void tree_signal(struct tree *t, pid_t group, int number);

#endif
