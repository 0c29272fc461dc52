/*
 * What --dev sets up: a private directory with Unix sockets for clients and for the admin API, a
 * fresh CA and certificates, and loopback listeners on free ports. The directory goes with the
 * process.
 */
#ifndef TACTUS_APP_DEV_H
#define TACTUS_APP_DEV_H

#include "base/err.h"
#include "gate/config.h"

#include <limits.h>

struct dev {
    char dir[PATH_MAX / 2];
    char ca_file[PATH_MAX];
    char cert_file[PATH_MAX];
    char key_file[PATH_MAX];
    char socket[PATH_MAX];
    char admin_socket[PATH_MAX];
};

/* Makes the directory (in XDG_RUNTIME_DIR, else TMPDIR, else /tmp) and adds the listeners. The
 * admin API needs secure memory (secret_arena_init() comes first). */
enum err dev_init(struct dev *dev, struct config *config, struct error *e) MUST_CHECK;

/* Removes what dev_init made; harmless on a zeroed struct. */
void dev_fini(struct dev *dev);

#endif
