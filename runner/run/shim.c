/* See shim.h. The program is copied: the engine then needs to see one directory only. */
#include "run/shim.h"

#include "spec/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the program ---- */

/* Beside the runner, or where `make install` puts it. */
static enum err open_program(int *fd, struct error *e)
{
    static const char *const places[] = {"", "../libexec/tactus-broker/"};
    char self[PATH_MAX];
    char path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0) {
        return err_sys(e, ERR_IO, errno, "cannot find this program's own path");
    }
    self[n] = '\0';
    *(strrchr(self, '/') + 1) = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s%s" SHIM_PROGRAM, self, places[i]);
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        if (*fd >= 0) {
            return ERR_OK;
        }
    }
    return err_sys(e, ERR_CONFIG, errno, SHIM_PROGRAM " is neither in %s nor in %s%s", self, self,
                   places[1]);
}

/* Copies all of `in` to a new file of the directory. */
static enum err copy_into(int dirfd, const char *name, int in, mode_t mode, struct error *e)
{
    int out = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    ssize_t n = out < 0 ? -1 : 1; /* -1: failed, errno says why */

    while (n > 0) {
        n = sendfile(out, in, NULL, 1u << 24);
    }
    if (n == 0 && fchmod(out, mode) != 0) { /* whatever the umask is */
        n = -1;
    }
    int sys = errno;
    if (out >= 0) {
        close(out);
    }
    return n < 0 ? err_sys(e, ERR_IO, sys, "cannot copy %s", name) : ERR_OK;
}

static enum err put_program(int dirfd, struct error *e)
{
    int in = -1;
    enum err rc = open_program(&in, e);

    if (rc == ERR_OK) {
        rc = copy_into(dirfd, SHIM_PROGRAM, in, 0755, e);
        close(in);
    }
    return rc;
}

static enum err put_ca(int dirfd, const char *ca_file, struct error *e)
{
    int in = open(ca_file, O_RDONLY | O_CLOEXEC);

    if (in < 0) {
        return err_sys(e, ERR_CONFIG, errno, "the CA file %s", ca_file);
    }
    enum err rc = copy_into(dirfd, SHIM_CA, in, 0444, e);
    close(in);
    return rc;
}

/*
 * Readable for any user of the container, writable for none: who could write would hide the
 * runner's end. Our own write end is opened before the mode says so.
 */
static enum err put_heartbeat(int dirfd, int *heartbeat, struct error *e)
{
    int fd = -1;

    if (mkfifoat(dirfd, SHIM_HEARTBEAT, 0600) == 0) {
        fd = openat(dirfd, SHIM_HEARTBEAT, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0 || fchmodat(dirfd, SHIM_HEARTBEAT, 0444, 0) != 0) {
        enum err rc = err_sys(e, ERR_IO, errno, "cannot make the heartbeat");
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    *heartbeat = fd;
    return ERR_OK;
}

enum err shim_make(const char *ca_file, char dir[PATH_MAX], int *heartbeat, struct error *e)
{
    enum err rc = workspace_make(dir, e);

    if (rc != ERR_OK) {
        return rc;
    }
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0 || fchmod(dirfd, 0755) != 0) {
        rc = err_sys(e, ERR_IO, errno, "%s", dir);
    } else {
        rc = put_program(dirfd, e);
    }
    if (rc == ERR_OK && ca_file != NULL) {
        rc = put_ca(dirfd, ca_file, e);
    }
    if (rc == ERR_OK) {
        rc = put_heartbeat(dirfd, heartbeat, e);
    }
    if (dirfd >= 0) {
        close(dirfd);
    }
    if (rc != ERR_OK) {
        (void)!workspace_remove(dir, NULL);
        dir[0] = '\0';
    }
    return rc;
}
