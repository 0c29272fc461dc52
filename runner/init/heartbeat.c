/*
 * The kernel tells a FIFO's reader that the last writer is gone, however it went. So the runner
 * needs no thread and no timer for it, and SIGKILL does not spare it.
 */
#include "init/heartbeat.h"

#include "init/fds.h"
#include "init/say.h"
#include "tactus/init.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READS_MAX 16 /* a call; a writer that never stops must not keep us from our deadlines */

int heartbeat_open(const char *path, int *fd)
{
    struct stat st = {0};
    int opened = fds_above_stdio(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));

    if (opened < 0 || fstat(opened, &st) != 0) {
        say("heartbeat %s: %s", path, strerror(errno));
    } else if (!S_ISFIFO(st.st_mode)) {
        say("heartbeat %s: not a FIFO", path);
    } else {
        *fd = opened;
        return 0;
    }
    if (opened >= 0) {
        (void)close(opened);
    }
    return TACTUS_INIT_EX_FAILED;
}

bool heartbeat_ended(int fd)
{
    char ignored[512];

    for (int i = 0; i < READS_MAX; i++) {
        ssize_t n = read(fd, ignored, sizeof(ignored));
        if (n == 0) {
            return true;
        }
        if (n < 0 && errno != EINTR) {
            return errno != EAGAIN;
        }
    }
    return false;
}
