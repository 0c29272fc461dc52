/*
 * Volume specs `host:container[:mode]` of users, made absolute and checked. Looks at the file
 * system only to resolve symbolic links.
 *
 * What is judged is the file system of that moment. Who can rename or link directories of the host
 * between the judgement and the engine's mount can have something else mounted; no promise is made
 * against it, nor against mounts and hard links that somebody made of a forbidden place before.
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
    char *target; /* absolute, in the container, without "//", "." and ".." */
    bool read_only;
    bool z;         /* SELinux: to be relabelled; by docker's and podman's Binds only, so neither
                       source nor target has a ':' then */
    bool z_private; /* … for this container alone (Z), not shared (z) */
};

void mount_fini(struct mount *m);

struct volume_rules {
    const char *base_dir; /* what relative host paths start from: the procedure's directory */
    const char *home;     /* what ~ is; NULL: not known */
    const char *const *forbidden; /* absolute paths besides the fixed ones: engine sockets, the
                                     broker's directories */
    size_t nforbidden;
};

/*
 * Reads one spec. From the right: the last part is the mode unless it is a path (ro, rw, z, Z, or
 * several with commas); then comes the container's path, which is what follows the last ":/"; all
 * before it is the host's, colons included. ".", "..", "./x", "../x" start from base_dir, "~" and
 * "~/x" from home; another host part without a slash at its start is a volume's name; a spec of one
 * part is an anonymous volume there.
 *
 * ERR_CONFIG names the spec and what is wrong: an empty part, a container path that is not
 * absolute, is the root or one of the runner's own, an unknown mode or two that contradict each
 * other, z with a ':' in the path, a path that is not UTF-8, a host path that does not exist (an
 * engine would make it, as root), and a forbidden one. ERR_NOMEM. After a failure *out is
 * untouched.
 */
enum err volume_parse(const char *spec, const struct volume_rules *rules, struct mount *out,
                      struct error *e) MUST_CHECK;

/*
 * Judges a path that the runner mounts itself (--working-dir, …), after its symbolic links were
 * resolved. ERR_CONFIG when it does not exist, is a socket, or is, contains, or lies in a forbidden
 * place, whether that exists or not: /, /proc, /sys, /dev, /run, /boot, the `forbidden` of the
 * rules, and in the home directory .ssh, .aws, .azure, .config/gcloud, .docker, .gnupg, .kube,
 * .netrc and directories of engines (so the home directory itself never passes).
 */
enum err volume_check_path(const char *path, const struct volume_rules *rules,
                           struct error *e) MUST_CHECK;

#endif
