/*
 * See workspace.h. Trees are walked by descriptors (openat with O_NOFOLLOW), so that nobody who
 * changes a tree meanwhile leads us out of it.
 */
#include "spec/workspace.h"

#include "spec/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "tactus-sandbox-"

static const char *temporary(void)
{
    const char *dir = getenv("TMPDIR");

    return dir != NULL && dir[0] == '/' ? dir : "/tmp";
}

enum err workspace_make(char dir[PATH_MAX], struct error *e)
{
    struct owner self;

    owner_self(&self);
    int n = snprintf(dir, PATH_MAX, "%s/" PREFIX "%s-%s-XXXXXX", temporary(), self.pid,
                     self.start[0] == '\0' ? "0" : self.start);
    if (n < 0 || n >= PATH_MAX || mkdtemp(dir) == NULL) {
        dir[0] = '\0';
        return err_sys(e, ERR_IO, errno, "cannot make a directory in %s", temporary());
    }
    return ERR_OK;
}

/* ---- walking ---- */

/* The directory's entries; takes `fd` over. NULL with errno. */
static DIR *open_entries(int fd)
{
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);

    if (entries == NULL && fd >= 0) {
        close(fd);
    }
    return entries;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- copying ---- */

struct copy {
    uint64_t left; /* bytes that may still come */
    const struct workspace_owner *owner;
    struct error *e;
};

static enum err copy_level(struct copy *c, DIR *from, int to, unsigned depth);

static enum err copy_bytes(struct copy *c, const char *name, int in, int out)
{
    ssize_t n = 1;

    while (n > 0) {
        n = copy_file_range(in, NULL, out, NULL, 1u << 26, 0);
        if (n < 0 &&
            (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
            char block[65536];
            n = read(in, block, sizeof(block));
            if (n > 0 && write(out, block, (size_t)n) != n) {
                n = -1;
            }
        }
        if (n > 0 && (uint64_t)n > c->left) {
            return err_set(c->e, ERR_LIMIT,
                           "the procedure's directory has more than %llu MiB: --working-dir mounts "
                           "one without a copy, mount_current_dir: false none",
                           (unsigned long long)(WORKSPACE_MAX_BYTES >> 20));
        }
        c->left -= n > 0 ? (uint64_t)n : 0;
    }
    return n < 0 ? err_sys(c->e, ERR_IO, errno, "cannot copy %s", name) : ERR_OK;
}

/* What was made gets its mode, and the owner that was asked for. */
static enum err finish(const struct copy *c, const char *name, int fd, mode_t mode)
{
    bool ok = fchmod(fd, mode) == 0 &&
              (c->owner == NULL || fchown(fd, c->owner->uid, c->owner->gid) == 0);

    return ok ? ERR_OK : err_sys(c->e, ERR_IO, errno, "cannot copy %s", name);
}

static void keep_times(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    (void)futimens(fd, times);
}

static enum err copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
    int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat now;

    if (in < 0) {
        return err_sys(c->e, ERR_CONFIG, errno, "the procedure's directory: %s", name);
    }
    if (fstat(in, &now) != 0 || !S_ISREG(now.st_mode)) { /* it changed under us */
        close(in);
        return ERR_OK;
    }
    int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    enum err rc = out < 0 ? err_sys(c->e, ERR_IO, errno, "cannot copy %s", name)
                          : copy_bytes(c, name, in, out);
    if (rc == ERR_OK) {
        rc = finish(c, name, out, (st->st_mode & 0777) | 0600);
    }
    if (out >= 0) {
        keep_times(out, st);
        close(out);
    }
    close(in);
    return rc;
}

static enum err copy_directory(struct copy *c, int from, int to, const char *name,
                               const struct stat *st, unsigned depth)
{
    if (depth >= WORKSPACE_MAX_DEPTH) {
        return err_set(c->e, ERR_LIMIT, "the procedure's directory is deeper than %u levels",
                       WORKSPACE_MAX_DEPTH);
    }
    DIR *entries =
        open_entries(openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (entries == NULL) {
        return err_sys(c->e, ERR_CONFIG, errno, "the procedure's directory: %s", name);
    }
    int out = mkdirat(to, name, 0700) == 0
                  ? openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                  : -1;
    enum err rc = out < 0 ? err_sys(c->e, ERR_IO, errno, "cannot copy %s", name)
                          : copy_level(c, entries, out, depth + 1);
    if (rc == ERR_OK) {
        rc = finish(c, name, out, (st->st_mode & 0777) | 0700);
    }
    if (out >= 0) {
        keep_times(out, st);
        close(out);
    }
    closedir(entries);
    return rc;
}

/* A relative link whose parts never climb above the tree's root, seen from `depth` below it. */
static bool stays_inside(const char *target, unsigned depth)
{
    long level = (long)depth;
    const char *p = target;

    if (target[0] == '/') {
        return false;
    }
    while (*p != '\0') {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            level--;
        } else if (n > 0 && !(n == 1 && p[0] == '.')) {
            level++;
        }
        if (level < 0) {
            return false;
        }
        p += n + (p[n] == '/' ? 1 : 0);
    }
    return true;
}

static enum err copy_link(struct copy *c, int from, int to, const char *name, unsigned depth)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n < 0) {
        return err_sys(c->e, ERR_CONFIG, errno, "the procedure's directory: %s", name);
    }
    target[n] = '\0';
    if (!stays_inside(target, depth)) {
        return ERR_OK;
    }
    return symlinkat(target, to, name) == 0 ? ERR_OK
                                            : err_sys(c->e, ERR_IO, errno, "cannot copy %s", name);
}

static enum err copy_level(struct copy *c, DIR *from, int to, unsigned depth)
{
    struct stat st;
    enum err rc = ERR_OK;

    errno = 0;
    for (struct dirent *d = readdir(from); d != NULL && rc == ERR_OK; d = readdir(from)) {
        if (d->d_name[0] == '.' || fstatat(dirfd(from), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue; /* hidden, or gone meanwhile */
        }
        if (S_ISREG(st.st_mode)) {
            rc = copy_file(c, dirfd(from), to, d->d_name, &st);
        } else if (S_ISDIR(st.st_mode)) {
            rc = copy_directory(c, dirfd(from), to, d->d_name, &st, depth);
        } else if (S_ISLNK(st.st_mode)) {
            rc = copy_link(c, dirfd(from), to, d->d_name, depth);
        }
        errno = 0;
    }
    return rc;
}

enum err workspace_copy(const char *source, const struct workspace_owner *owner, char dir[PATH_MAX],
                        struct error *e)
{
    struct copy c = {.left = WORKSPACE_MAX_BYTES, .owner = owner, .e = e};
    DIR *entries = open_entries(open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    dir[0] = '\0';
    if (entries == NULL) {
        return err_sys(e, ERR_CONFIG, errno, "%s", source);
    }
    enum err rc = workspace_make(dir, e);
    if (rc == ERR_OK) {
        int to = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = to < 0 ? err_sys(e, ERR_IO, errno, "%s", dir) : copy_level(&c, entries, to, 0);
        if (rc == ERR_OK) {
            rc = finish(&c, dir, to, 0700);
        }
        if (to >= 0) {
            close(to);
        }
        if (rc != ERR_OK) {
            (void)!workspace_remove(dir, NULL);
            dir[0] = '\0';
        }
    }
    closedir(entries);
    return rc;
}

/* ---- removing ---- */

static enum err remove_level(int parent, const char *name, unsigned depth, struct error *e);

/* A container may have taken our own rights to its directories away. */
static int open_to_empty(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0) {
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd >= 0) {
        (void)fchmod(fd, 0700);
    }
    return fd;
}

static enum err remove_entry(int parent, const char *name, unsigned depth, struct error *e)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        return remove_level(parent, name, depth, e);
    }
    return unlinkat(parent, name, 0) == 0 || errno == ENOENT
               ? ERR_OK
               : err_sys(e, ERR_IO, errno, "cannot remove %s", name);
}

/* Goes on after a failure: as little as possible is left. */
static enum err remove_level(int parent, const char *name, unsigned depth, struct error *e)
{
    enum err rc = ERR_OK;

    if (depth > 4 * WORKSPACE_MAX_DEPTH) {
        return err_set(e, ERR_LIMIT, "cannot remove %s: too deep", name);
    }
    DIR *entries = open_entries(open_to_empty(parent, name));
    if (entries == NULL) {
        return errno == ENOENT ? ERR_OK : err_sys(e, ERR_IO, errno, "cannot remove %s", name);
    }
    for (struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        if (!is_dots(d->d_name)) {
            enum err one = remove_entry(dirfd(entries), d->d_name, depth + 1, e);
            rc = rc == ERR_OK ? one : rc;
        }
    }
    closedir(entries);
    if (rc == ERR_OK && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        rc = err_sys(e, ERR_IO, errno, "cannot remove %s", name);
    }
    return rc;
}

enum err workspace_remove(const char *dir, struct error *e)
{
    const char *slash = strrchr(dir, '/');

    if (slash == NULL || strncmp(slash + 1, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return err_set(e, ERR_BUG, "%s is no directory of a run", dir);
    }
    return remove_level(AT_FDCWD, dir, 0, e);
}

/* ---- sweeping ---- */

/* "tactus-sandbox-PID-START-…" */
static bool read_owner(const char *name, struct owner *owner)
{
    const char *pid = name + sizeof(PREFIX) - 1;
    size_t n = strspn(pid, "0123456789");
    const char *start = pid + n + 1;

    *owner = (struct owner){.pid = ""};
    if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0 || n == 0 || n >= sizeof(owner->pid) ||
        pid[n] != '-') {
        return false;
    }
    size_t m = strspn(start, "0123456789");
    if (m == 0 || m >= sizeof(owner->start) || start[m] != '-') {
        return false;
    }
    memcpy(owner->pid, pid, n);
    memcpy(owner->start, start, m);
    return true;
}

static bool is_left(int parent, const char *name)
{
    struct owner owner;
    struct stat st;

    return read_owner(name, &owner) && !owner_lives(&owner) &&
           fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

enum err workspace_sweep(size_t *removed, struct error *e)
{
    DIR *entries = open_entries(open(temporary(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    enum err rc = ERR_OK;

    *removed = 0;
    if (entries == NULL) {
        return err_sys(e, ERR_IO, errno, "%s", temporary());
    }
    for (struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        if (is_left(dirfd(entries), d->d_name)) {
            enum err one = remove_level(dirfd(entries), d->d_name, 0, e);
            *removed += one == ERR_OK ? 1 : 0;
            rc = rc == ERR_OK ? one : rc;
        }
    }
    closedir(entries);
    return rc;
}
