/* A whole configuration file into memory: see conf.h. */
#include "base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum err conf_load(const char *path, char **text, size_t *n, struct error *e)
{
    size_t have = 0;
    ssize_t got = 1;
    enum err err = ERR_OK;

    char *content = malloc(CONF_MAX_BYTES + 1);
    if (content == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the configuration");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        err = err_sys(e, ERR_CONFIG, errno, "%s: cannot be opened", path);
        goto out;
    }
    while (got > 0 && have <= CONF_MAX_BYTES) {
        got = read(fd, content + have, CONF_MAX_BYTES + 1 - have);
        have += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EINTR) {
            got = 1;
        }
    }
    if (got < 0) {
        err = err_sys(e, ERR_CONFIG, errno, "%s: cannot be read", path);
    } else if (have > CONF_MAX_BYTES) {
        err = err_set(e, ERR_CONFIG, "%s:1:1: file: has more than 1 MiB, expected less", path);
    }
    (void)close(fd);

out:
    if (err == ERR_OK) {
        *text = content;
        *n = have;
    } else {
        free(content);
    }
    return err;
}
