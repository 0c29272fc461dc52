/* Descriptors: 0, 1 and 2 belong to the command, all others are tactus-init's own. */
#ifndef TACTUS_INIT_FDS_H
#define TACTUS_INIT_FDS_H

/* Closes everything above 2 that whoever started us left open. Call it before anything is opened.
 */
void fds_close_inherited(void);

/* Moves `fd` to a number above 2, close-on-exec, where one of 0, 1, 2 was closed and `fd` got its
 * number. Returns the new number or, when there is none (errno), -1; `fd` is closed then. A
 * negative `fd` is returned. */
int fds_above_stdio(int fd);

#endif
