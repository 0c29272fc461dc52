/* See tar.h. The format is libarchive's business. */
#include "engine/tar.h"

#include "base/conf.h"
#include "spec/ignore.h"
#include "spec/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tar {
    struct archive *archive;
    struct buf *out;
    struct span ignore;
};

static la_ssize_t on_write(struct archive *archive, void *ctx, const void *bytes, size_t n)
{
    struct tar *t = ctx;

    buf_put(t->out, bytes, n);
    if (buf_status(t->out) != ERR_OK) {
        archive_set_error(archive, ENOMEM, "the archive is too large");
        return ARCHIVE_FATAL;
    }
    return (la_ssize_t)n;
}

static enum err failed(const struct tar *t, const char *path, struct error *e)
{
    if (buf_status(t->out) != ERR_OK) {
        return err_set(e, buf_status(t->out), "the build context is larger than %zu MiB",
                       t->out->max >> 20);
    }
    return err_set(e, ERR_CONFIG, "%s: %s", path, archive_error_string(t->archive));
}

static enum err put_content(struct tar *t, const struct tree_entry *entry, struct error *e)
{
    char block[65536];
    la_int64_t left = entry->st->st_size;
    int fd = openat(entry->dirfd, entry->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    enum err rc = ERR_OK;

    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
    }
    while (left > 0 && rc == ERR_OK) { /* what grew meanwhile is cut, what shrank is padded */
        ssize_t n = read(fd, block, sizeof(block));
        if (n <= 0) {
            break;
        }
        size_t part = n < left ? (size_t)n : (size_t)left;
        left -= (la_int64_t)part;
        rc = archive_write_data(t->archive, block, part) < 0 ? failed(t, entry->path, e) : ERR_OK;
    }
    close(fd);
    return rc;
}

static bool set_link(struct archive_entry *a, const struct tree_entry *entry)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(entry->dirfd, entry->name, target, sizeof(target) - 1);

    if (n < 0) {
        return false;
    }
    target[n] = '\0';
    archive_entry_set_symlink(a, target);
    return true;
}

static enum err on_entry(void *ctx, const struct tree_entry *entry, struct error *e)
{
    struct tar *t = ctx;
    mode_t kind = entry->st->st_mode & S_IFMT;

    if (ignore_matches(t->ignore, entry->path)) {
        return S_ISDIR(kind) ? ERR_OK : ERR_AGAIN; /* a later pattern may take something back */
    }
    if (!S_ISREG(kind) && !S_ISDIR(kind) && !S_ISLNK(kind)) {
        return ERR_OK;
    }
    struct archive_entry *a = archive_entry_new();
    if (a == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    archive_entry_set_pathname(a, entry->path);
    archive_entry_set_filetype(a, kind);
    archive_entry_set_perm(a, entry->st->st_mode & 07777);
    archive_entry_set_mtime(a, entry->st->st_mtime, 0);
    archive_entry_set_size(a, S_ISREG(kind) ? entry->st->st_size : 0);
    enum err rc = ERR_OK;
    if (S_ISLNK(kind) && !set_link(a, entry)) {
        rc = err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
    } else if (archive_write_header(t->archive, a) != ARCHIVE_OK) {
        rc = failed(t, entry->path, e);
    } else if (S_ISREG(kind)) {
        rc = put_content(t, entry, e);
    }
    archive_entry_free(a);
    return rc;
}

static enum err write_all(struct tar *t, const char *directory, struct error *e)
{
    if (archive_write_set_format_pax_restricted(t->archive) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(t->archive, 0) != ARCHIVE_OK ||
        archive_write_open(t->archive, t, NULL, on_write, NULL) != ARCHIVE_OK) {
        return failed(t, directory, e);
    }
    enum err rc = tree_walk(directory, on_entry, t, e);
    if (rc == ERR_OK && archive_write_close(t->archive) != ARCHIVE_OK) {
        rc = failed(t, directory, e);
    }
    return rc;
}

enum err tar_directory(const char *directory, struct buf *out, struct error *e)
{
    char path[PATH_MAX];
    char *ignore = NULL;
    size_t n = 0;
    struct tar t = {.archive = archive_write_new(), .out = out};

    if (t.archive == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    snprintf(path, sizeof(path), "%s/.dockerignore", directory);
    if (access(path, R_OK) == 0 && conf_load(path, &ignore, &n, NULL) == ERR_OK) {
        t.ignore = span_of(ignore, n);
    }
    enum err rc = write_all(&t, directory, e);
    archive_write_free(t.archive);
    free(ignore);
    return rc;
}
