/* See tree.h. */
#include "spec/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
    tree_fn *fn;
    void *ctx;
    struct error *e;
    char path[PATH_MAX];
};

static int not_dots(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum err walk_level(struct walk *w, int fd, size_t length, unsigned depth);

static enum err walk_entry(struct walk *w, int fd, const char *name, size_t length, unsigned depth)
{
    struct stat st;
    int n =
        snprintf(w->path + length, sizeof(w->path) - length, "%s%s", length == 0 ? "" : "/", name);

    if (n < 0 || (size_t)n >= sizeof(w->path) - length || depth > TREE_MAX_DEPTH) {
        return err_set(w->e, ERR_LIMIT, "%.200s: too deep", w->path);
    }
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? ERR_OK /* gone meanwhile */
                               : err_sys(w->e, ERR_CONFIG, errno, "%.300s", w->path);
    }
    struct tree_entry entry = {.path = w->path, .name = name, .dirfd = fd, .st = &st};
    enum err rc = w->fn(w->ctx, &entry, w->e);
    if (rc == ERR_AGAIN) {
        return ERR_OK;
    }
    if (rc != ERR_OK || !S_ISDIR(st.st_mode)) {
        return rc;
    }
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        return err_sys(w->e, ERR_CONFIG, errno, "%.300s", w->path);
    }
    rc = walk_level(w, below, length + (size_t)n, depth + 1);
    close(below);
    return rc;
}

static enum err walk_level(struct walk *w, int fd, size_t length, unsigned depth)
{
    struct dirent **entries = NULL;
    int n = scandirat(fd, ".", &entries, not_dots, by_bytes);
    enum err rc = n < 0 ? err_sys(w->e, errno == ENOMEM ? ERR_NOMEM : ERR_CONFIG, errno, "%.300s",
                                  length == 0 ? "." : w->path)
                        : ERR_OK;

    for (int i = 0; i < n; i++) {
        if (rc == ERR_OK) {
            rc = walk_entry(w, fd, entries[i]->d_name, length, depth);
            w->path[length] = '\0';
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

enum err tree_walk(const char *root, tree_fn *fn, void *ctx, struct error *e)
{
    struct walk w = {.fn = fn, .ctx = ctx, .e = e};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", root);
    }
    enum err rc = walk_level(&w, fd, 0, 0);
    close(fd);
    if (rc != ERR_OK) {
        (void)err_wrap(e, "%.200s", root);
    }
    return rc;
}

/* Neither a link nor a FIFO that took its place since may hold us up or lead us away. */
int tree_open(const struct tree_entry *entry)
{
    struct stat now;
    int fd = openat(entry->dirfd, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && (fstat(fd, &now) != 0 || !S_ISREG(now.st_mode))) {
        close(fd);
        errno = ESTALE;
        return -1; /* as open(2) */
    }
    return fd;
}
