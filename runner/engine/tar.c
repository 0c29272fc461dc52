/* See tar.h. The format is libarchive's business; what goes in is decided here. */
#include "engine/tar.h"

#include "base/conf.h"
#include "spec/ignore.h"
#include "spec/tree.h"
#include "spec/workspace.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IGNORE_FILE ".dockerignore"

struct tar {
    struct archive *archive;
    struct span ignore;
    const char *always;
    bool takes_back; /* what lies in a directory that is left out may be wanted */
    int fd;
    uint64_t size;
    uint64_t max;
    enum err why; /* of a write that failed */
    int sys;
    bool given_up; /* what libarchive ends the archive with is not written */
};

/* ---- bytes out ---- */

/* A file that has no name, or loses it at once. -1 with errno. */
static int make_file(void)
{
    char path[PATH_MAX];
    int fd = open(workspace_parent(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return fd;
    }
    snprintf(path, sizeof(path), "%.4000s/tactus-context-XXXXXX", workspace_parent());
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

/* libarchive calls again with what was not written. */
static la_ssize_t on_write(struct archive *archive, void *ctx, const void *bytes, size_t n)
{
    struct tar *t = ctx;

    if (t->given_up) {
        return (la_ssize_t)n;
    }
    if (n > t->max - t->size) {
        t->why = ERR_LIMIT;
        archive_set_error(archive, EFBIG, "too large");
        return ARCHIVE_FATAL;
    }
    ssize_t put = write(t->fd, bytes, n);
    if (put < 0 && errno != EINTR) {
        t->why = ERR_IO;
        t->sys = errno;
        archive_set_error(archive, t->sys, "cannot write");
        return ARCHIVE_FATAL;
    }
    put = put < 0 ? 0 : put;
    t->size += (uint64_t)put;
    return put;
}

static enum err failed(const struct tar *t, const char *path, struct error *e)
{
    if (t->why == ERR_LIMIT) {
        return err_set(e, ERR_LIMIT,
                       "larger than %llu MiB as a build context: " IGNORE_FILE " leaves files out",
                       (unsigned long long)(t->max >> 20));
    }
    if (t->why == ERR_IO) {
        return err_sys(e, ERR_IO, t->sys, "the build context does not fit into %s",
                       workspace_parent());
    }
    const char *why = archive_error_string(t->archive);
    return err_set(e, ERR_CONFIG, "%s: %s", path, why == NULL ? "cannot be archived" : why);
}

/* ---- entries ---- */

static enum err put_content(struct tar *t, const struct tree_entry *entry, struct error *e)
{
    char block[65536];
    uint64_t left = (uint64_t)entry->st->st_size;
    int fd = tree_open(entry);
    enum err rc = ERR_OK;

    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
    }
    while (left > 0 && rc == ERR_OK) { /* what grew meanwhile is cut, what shrank is padded */
        ssize_t n = read(fd, block, left < sizeof(block) ? (size_t)left : sizeof(block));
        if (n < 0) {
            rc = err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
        } else if (n == 0) {
            left = 0;
        } else {
            left -= (uint64_t)n;
            rc = archive_write_data(t->archive, block, (size_t)n) != n ? failed(t, entry->path, e)
                                                                       : ERR_OK;
        }
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

static enum err put_entry(struct tar *t, struct archive_entry *a, const struct tree_entry *entry,
                          struct error *e)
{
    mode_t kind = entry->st->st_mode & S_IFMT;

    archive_entry_set_pathname(a, entry->path);
    archive_entry_set_filetype(a, kind);
    archive_entry_set_perm(a, entry->st->st_mode & 07777);
    archive_entry_set_mtime(a, entry->st->st_mtime, 0);
    archive_entry_set_size(a, S_ISREG(kind) ? entry->st->st_size : 0);
    if (S_ISLNK(kind) && !set_link(a, entry)) {
        return err_sys(e, ERR_CONFIG, errno, "%s", entry->path);
    }
    if (archive_write_header(t->archive, a) != ARCHIVE_OK) {
        return failed(t, entry->path, e);
    }
    return S_ISREG(kind) ? put_content(t, entry, e) : ERR_OK;
}

/* The engine reads these two itself. */
static bool is_always(const struct tar *t, const char *path)
{
    return strcmp(path, IGNORE_FILE) == 0 || (t->always != NULL && strcmp(path, t->always) == 0);
}

/* Whether a directory may have something in it that is wanted although it is left out itself. */
static bool may_hold(const struct tar *t, const char *path)
{
    size_t n = strlen(path);

    return t->takes_back ||
           (t->always != NULL && strncmp(t->always, path, n) == 0 && t->always[n] == '/');
}

static enum err on_entry(void *ctx, const struct tree_entry *entry, struct error *e)
{
    struct tar *t = ctx;
    mode_t kind = entry->st->st_mode & S_IFMT;

    if (!is_always(t, entry->path) && ignore_matches(t->ignore, entry->path)) {
        return S_ISDIR(kind) && may_hold(t, entry->path) ? ERR_OK : ERR_AGAIN;
    }
    if (!S_ISREG(kind) && !S_ISDIR(kind) && !S_ISLNK(kind)) {
        return ERR_OK;
    }
    struct archive_entry *a = archive_entry_new();
    if (a == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    enum err rc = put_entry(t, a, entry, e);
    archive_entry_free(a);
    return rc;
}

/* ---- the archive ---- */

/* Names are bytes here: the locale has no say in them. */
static bool set_up(struct tar *t)
{
    return archive_write_set_format_pax_restricted(t->archive) == ARCHIVE_OK &&
           archive_write_set_options(t->archive, "hdrcharset=BINARY") == ARCHIVE_OK &&
           archive_write_set_bytes_per_block(t->archive, 65536) == ARCHIVE_OK &&
           archive_write_set_bytes_in_last_block(t->archive, 1) == ARCHIVE_OK &&
           archive_write_open(t->archive, t, NULL, on_write, NULL) == ARCHIVE_OK;
}

static enum err write_all(struct tar *t, const char *directory, struct error *e)
{
    t->archive = archive_write_new();
    if (t->archive == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    enum err rc = set_up(t) ? tree_walk(directory, on_entry, t, e) : failed(t, directory, e);
    if (rc == ERR_OK && archive_write_close(t->archive) != ARCHIVE_OK) {
        rc = failed(t, directory, e);
        (void)err_wrap(e, "%.200s", directory);
    }
    t->given_up = rc != ERR_OK;
    archive_write_free(t->archive);
    return rc;
}

static enum err map_file(const struct tar *t, struct span *out, struct error *e)
{
    void *p = mmap(NULL, (size_t)t->size, PROT_READ, MAP_PRIVATE, t->fd, 0);

    if (p == MAP_FAILED) {
        return err_sys(e, ERR_IO, errno, "the build context cannot be mapped");
    }
    *out = span_of(p, (size_t)t->size);
    return ERR_OK;
}

/* ERR_OK with *text NULL when there is none. One that cannot be read is a failure: what it leaves
 * out may be secret. */
static enum err load_ignore(const char *directory, char **text, size_t *n, struct error *e)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/" IGNORE_FILE, directory);

    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(e, ERR_CONFIG, "%.200s: the path is too long", directory);
    }
    if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        return ERR_OK;
    }
    return conf_load(path, text, n, e);
}

enum err tar_directory(const char *directory, const char *always, uint64_t max, struct span *out,
                       struct error *e)
{
    struct tar t = {.always = always, .max = max, .fd = -1};
    char *ignore = NULL;
    size_t n = 0;

    enum err rc = load_ignore(directory, &ignore, &n, e);
    if (rc == ERR_OK) {
        t.ignore = span_of(ignore, n);
        t.takes_back = ignore_takes_back(t.ignore);
        t.fd = make_file();
        rc = t.fd < 0 ? err_sys(e, ERR_IO, errno, "no temporary file in %s", workspace_parent())
                      : write_all(&t, directory, e);
    }
    if (rc == ERR_OK) {
        rc = map_file(&t, out, e);
    }
    if (t.fd >= 0) {
        close(t.fd);
    }
    free(ignore);
    return rc;
}

void tar_free(struct span *archive)
{
    if (archive->p != NULL) {
        (void)munmap((void *)(uintptr_t)archive->p, archive->n);
    }
    *archive = span_of(NULL, 0);
}
