/* What tactus-init says. */
#ifndef TACTUS_INIT_SAY_H
#define TACTUS_INIT_SAY_H

#include <stdbool.h>

/* One line on stderr, "tactus-init: " before it, cut at about a kilobyte. Never waits: a line that
 * stderr does not take now is lost, so that nobody who does not read keeps a container alive. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes `text` as it is to stdout; false when it could not. May wait. */
bool say_stdout(const char *text);

#endif
