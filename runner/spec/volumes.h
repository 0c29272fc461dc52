/*
 * Volume specs `host:container[:mode]` of users, made absolute and checked. Looks at the file
 * system only to resolve symbolic links.
 */
#ifndef TACTUS_RUNNER_VOLUMES_H
#define TACTUS_RUNNER_VOLUMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum mount_kind { MOUNT_BIND, MOUNT_VOLUME };

struct mount {
    enum mount_kind kind;
    char *source; /* an absolute host path, or a volume's name; NULL: an anonymous volume */
    char *target; /* absolute, in the container */
    bool read_only;
    bool z; /* SELinux: private (Z) or shared (z) relabelling, by podman and docker's Binds only */
};

void mount_fini(struct mount *m);

struct volume_rules {
    const char *base_dir; /* what relative host paths start from: the procedure's directory */
    const char *home;     /* what ~ is */
    const char *const *forbidden; /* absolute paths besides the fixed ones: engine sockets, the
                                     broker's directories */
    size_t nforbidden;
};

/*
 * Reads one spec. ERR_CONFIG names the spec and what is wrong: an empty part, a container path that
 * is not absolute, an unknown mode, a host path that is, contains, or lies in a forbidden place (/,
 * /proc, /sys, /dev, /run, engine sockets, ~/.ssh, ~/.aws, ~/.docker, …) after symbolic links were
 * resolved, a host path that does not exist.
 */
enum err volume_parse(const char *spec, const struct volume_rules *rules, struct mount *out,
                      struct error *e) MUST_CHECK;

/* The same judgement for a path that the runner mounts itself (--working-dir, …). */
enum err volume_check_path(const char *path, const struct volume_rules *rules,
                           struct error *e) MUST_CHECK;

#endif
