/*
 * Which descriptors we have. An engine may leave some open, and one of 0, 1, 2 may be closed, in
 * which case the next descriptor that we open would take its place.
 */
#include "init/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST    3u
#define LOOP_MAX 65536u /* where the kernel cannot close a range (before 5.9) */

void fds_close_inherited(void)
{
    struct rlimit limit = {.rlim_cur = LOOP_MAX};

    if (syscall(SYS_close_range, FIRST, UINT_MAX, 0) == 0) {
        return;
    }
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = FIRST; fd < limit.rlim_cur && fd < LOOP_MAX; fd++) {
        (void)close((int)fd);
    }
}

int fds_above_stdio(int fd)
{
    if (fd < 0 || fd >= (int)FIRST) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, (int)FIRST);
    int why = errno;
    (void)close(fd);
    errno = why;
    return moved;
}
