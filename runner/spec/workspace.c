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
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "tactus-sandbox-"

const char *workspace_parent(void)
{
    const char *dir = getenv("TMPDIR");

    return dir != NULL && dir[0] == '/' ? dir : "/tmp";
}

enum err workspace_make(char dir[PATH_MAX], struct error *e)
{
    struct owner self;

    owner_self(&self);
    int n = snprintf(dir, PATH_MAX, "%s/" PREFIX "%s-%s-XXXXXX", workspace_parent(), self.pid,
                     self.start[0] == '\0' ? "0" : self.start);
    if (n < 0 || n >= PATH_MAX || mkdtemp(dir) == NULL) {
        dir[0] = '\0';
        return err_sys(e, ERR_IO, errno, "cannot make a directory in %s", workspace_parent());
    }
    return ERR_OK;
}

/* "NUMBER-" at *p, taken; false when there is none, or one that `out` cannot hold. */
static bool take_number(const char **p, char *out, size_t size)
{
    size_t n = strspn(*p, "0123456789");

    if (n == 0 || n >= size || (*p)[n] != '-') {
        return false;
    }
    memcpy(out, *p, n);
    out[n] = '\0';
    *p += n + 1;
    return true;
}

/* "tactus-sandbox-PID-START-…" */
static bool read_owner(const char *name, struct owner *owner)
{
    *owner = (struct owner){.pid = ""};
    if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return false;
    }
    const char *p = name + sizeof(PREFIX) - 1;
    return take_number(&p, owner->pid, sizeof(owner->pid)) &&
           take_number(&p, owner->start, sizeof(owner->start));
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
    const char *source;
    uint64_t left; /* bytes that may still come */
    const struct workspace_owner *owner;
    struct error *e;
};

static enum err copy_level(struct copy *c, DIR *from, int to, unsigned depth);

static enum err too_large(const struct copy *c)
{
    return err_set(c->e, ERR_LIMIT,
                   "%.200s has more than %llu MiB: --working-dir mounts a directory without a "
                   "copy, mount_current_dir: false none",
                   c->source, (unsigned long long)(WORKSPACE_MAX_BYTES >> 20));
}

static enum err cannot_read(const struct copy *c, const char *name)
{
    return err_sys(c->e, ERR_CONFIG, errno, "%.200s: %.200s cannot be copied", c->source, name);
}

static enum err cannot_write(const struct copy *c, const char *name)
{
    return err_sys(c->e, ERR_IO, errno, "the copy of %.200s: %.200s", c->source, name);
}

/* Writes all of it; false with errno. */
static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* The next bytes from `in` to `out`: their number, 0 at the end, -1 with errno. Where the kernel
 * cannot copy by itself (other file systems, a filter of system calls, files whose size says
 * nothing) they pass through here. */
static ssize_t copy_some(int in, int out)
{
    char block[65536];
    ssize_t n = copy_file_range(in, NULL, out, NULL, 1u << 26, 0);

    if (n > 0 || (n < 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))) {
        return n;
    }
    do {
        n = read(in, block, sizeof(block));
    } while (n < 0 && errno == EINTR);
    return n <= 0 || write_all(out, block, (size_t)n) ? n : -1;
}

static enum err copy_bytes(struct copy *c, const char *name, int in, int out)
{
    for (ssize_t n = copy_some(in, out); n != 0; n = copy_some(in, out)) {
        if (n < 0) {
            return cannot_write(c, name);
        }
        if ((uint64_t)n > c->left) {
            return too_large(c);
        }
        c->left -= (uint64_t)n;
    }
    return ERR_OK;
}

/* What was made gets its mode, and the owner that was asked for. */
static enum err finish(const struct copy *c, const char *name, int fd, mode_t mode)
{
    bool ok = fchmod(fd, mode) == 0 &&
              (c->owner == NULL || fchown(fd, c->owner->uid, c->owner->gid) == 0);

    return ok ? ERR_OK : cannot_write(c, name);
}

static void keep_times(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    (void)futimens(fd, times);
}

static enum err copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
    struct stat now;

    if ((uint64_t)st->st_size > c->left) { /* known before the first byte */
        return too_large(c);
    }
    int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0) {
        return cannot_read(c, name);
    }
    if (fstat(in, &now) != 0 || !S_ISREG(now.st_mode)) { /* it changed under us */
        close(in);
        return ERR_OK;
    }
    int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    enum err rc = out < 0 ? cannot_write(c, name) : copy_bytes(c, name, in, out);
    if (rc == ERR_OK) {
        rc = finish(c, name, out, st->st_mode & 0777);
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
        return err_set(c->e, ERR_LIMIT, "%.200s: %.200s is deeper than %u levels", c->source, name,
                       WORKSPACE_MAX_DEPTH);
    }
    DIR *entries =
        open_entries(openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (entries == NULL) {
        return cannot_read(c, name);
    }
    int out = mkdirat(to, name, 0700) == 0
                  ? openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                  : -1;
    enum err rc = out < 0 ? cannot_write(c, name) : copy_level(c, entries, out, depth + 1);
    if (rc == ERR_OK) {
        rc = finish(c, name, out, st->st_mode & 0777);
    }
    if (out >= 0) {
        keep_times(out, st);
        close(out);
    }
    closedir(entries);
    return rc;
}

/*
 * A relative link from `depth` below the root that cannot lead out: it climbs only at its
 * beginning, where each step is a real directory, and not above the root. A later ".." would start
 * from wherever another link led.
 */
static bool stays_inside(const char *target, unsigned depth)
{
    const char *p = target;
    bool down = false;

    if (target[0] == '/') {
        return false;
    }
    while (*p != '\0') {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            if (down || depth == 0) {
                return false;
            }
            depth--;
        } else if (n > 0 && !(n == 1 && p[0] == '.')) {
            down = true;
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
        return cannot_read(c, name);
    }
    target[n] = '\0';
    if (!stays_inside(target, depth)) {
        return ERR_OK;
    }
    bool ok = symlinkat(target, to, name) == 0 &&
              (c->owner == NULL ||
               fchownat(to, name, c->owner->uid, c->owner->gid, AT_SYMLINK_NOFOLLOW) == 0);
    return ok ? ERR_OK : cannot_write(c, name);
}

static enum err copy_entry(struct copy *c, int from, int to, const char *name, unsigned depth)
{
    struct stat st;
    struct owner owner;

    if (name[0] == '.' || read_owner(name, &owner)) {
        return ERR_OK;
    }
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? ERR_OK : cannot_read(c, name);
    }
    if (S_ISREG(st.st_mode)) {
        return copy_file(c, from, to, name, &st);
    }
    if (S_ISDIR(st.st_mode)) {
        return copy_directory(c, from, to, name, &st, depth);
    }
    return S_ISLNK(st.st_mode) ? copy_link(c, from, to, name, depth) : ERR_OK;
}

static enum err copy_level(struct copy *c, DIR *from, int to, unsigned depth)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        errno = 0;
        const struct dirent *d = readdir(from);
        if (d == NULL) {
            return errno == 0 ? ERR_OK : cannot_read(c, "its list of entries");
        }
        rc = copy_entry(c, dirfd(from), to, d->d_name, depth);
    }
    return rc;
}

enum err workspace_copy(const char *source, const struct workspace_owner *owner, char dir[PATH_MAX],
                        struct error *e)
{
    struct copy c = {.source = source, .left = WORKSPACE_MAX_BYTES, .owner = owner, .e = e};
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

struct removal {
    int top; /* the tree's root; -1 before it is open */
    dev_t device;
    unsigned moved; /* directories that were moved up to the root */
    enum err rc;
    struct error *e; /* gets the first failure */
};

static void remove_level(struct removal *r, int parent, const char *name, unsigned depth);

static void cannot_remove(struct removal *r, const char *name)
{
    if (r->rc == ERR_OK) {
        r->rc = err_sys(r->e, ERR_IO, errno, "cannot remove %.200s", name);
    }
}

/* A container may have taken our own rights to its directories away. The mode is changed through a
 * descriptor: chmod by name would follow a link that takes the directory's place. */
static bool give_rights(int parent, const char *name)
{
    char path[64];
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    bool ok = chmod(path, 0700) == 0;
    close(fd);
    return ok;
}

/* The directory, with all rights for us; -1 with errno. What is mounted in the tree is not ours. */
static int open_to_empty(struct removal *r, int parent, const char *name)
{
    struct stat st;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == EACCES && give_rights(parent, name)) {
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) != 0 || (r->top >= 0 && st.st_dev != r->device)) {
        close(fd);
        errno = EXDEV;
        return -1; /* as open(2) */
    }
    r->device = st.st_dev;
    (void)fchmod(fd, 0700);
    return fd;
}

/* Deeper than we go at once: it is taken to the root, which is looked through again. */
static void move_up(struct removal *r, int parent, const char *name)
{
    unsigned char random[8] = {0}; /* nobody in the tree can have taken the name before */
    char moved[2 * sizeof(random) + 1];

    (void)give_rights(parent, name); /* a directory that moves has its ".." written */
    (void)!getrandom(random, sizeof(random), 0);
    for (size_t i = 0; i < sizeof(random); i++) {
        snprintf(moved + 2 * i, 3, "%02x", random[i]);
    }
    if (renameat(parent, name, r->top, moved) != 0) {
        cannot_remove(r, name);
        return;
    }
    r->moved++;
}

static void remove_entry(struct removal *r, int parent, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        if (depth > WORKSPACE_MAX_DEPTH) {
            move_up(r, parent, name);
        } else {
            remove_level(r, parent, name, depth);
        }
    } else if (unlinkat(parent, name, 0) != 0 && errno != ENOENT) {
        cannot_remove(r, name);
    }
}

/* All that is in the directory, which stays open for who looks again. Goes on after a failure: as
 * little as possible is left. */
static void remove_entries(struct removal *r, DIR *entries, unsigned depth)
{
    for (const struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        if (!is_dots(d->d_name)) {
            remove_entry(r, dirfd(entries), d->d_name, depth + 1);
        }
    }
}

static void remove_level(struct removal *r, int parent, const char *name, unsigned depth)
{
    DIR *entries = open_entries(open_to_empty(r, parent, name));

    if (entries == NULL) {
        if (errno != ENOENT) {
            cannot_remove(r, name);
        }
        return;
    }
    if (depth == 0) {
        r->top = dirfd(entries);
    }
    unsigned moved = 0;
    do {
        moved = r->moved;
        remove_entries(r, entries, depth);
        rewinddir(entries);
    } while (depth == 0 && r->moved != moved);
    closedir(entries);
    if (unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        cannot_remove(r, name);
    }
}

static enum err remove_tree(int parent, const char *name, struct error *e)
{
    struct removal r = {.top = -1, .e = e};

    remove_level(&r, parent, name, 0);
    return r.rc;
}

enum err workspace_remove(const char *dir, struct error *e)
{
    const char *slash = strrchr(dir, '/');

    if (slash == NULL || strncmp(slash + 1, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return err_set(e, ERR_BUG, "%s is no directory of a run", dir);
    }
    return remove_tree(AT_FDCWD, dir, e);
}

/* ---- sweeping ---- */

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
    DIR *entries = open_entries(open(workspace_parent(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    enum err rc = ERR_OK;

    *removed = 0;
    if (entries == NULL) {
        return err_sys(e, ERR_IO, errno, "%s", workspace_parent());
    }
    for (struct dirent *d = readdir(entries); d != NULL; d = readdir(entries)) {
        if (is_left(dirfd(entries), d->d_name)) {
            enum err one = remove_tree(dirfd(entries), d->d_name, rc == ERR_OK ? e : NULL);
            *removed += one == ERR_OK ? 1 : 0;
            rc = rc == ERR_OK ? one : rc;
        }
    }
    closedir(entries);
    return rc;
}
