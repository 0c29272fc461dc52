/* Directories of runs' sockets: see run_place.h. Used by runs.c on loop 0. */
#include "app/run_place.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BASE_MODE      0700u
#define BASE_FORBIDDEN 0066u /* others that write to it or list it */
#define RUN_MODE       0711u
#define SOCKET_NAME    "/broker.sock"

static enum err make_base(const char *base, bool *made, struct error *e)
{
    struct stat st;

    if (mkdir(base, BASE_MODE) == 0) {
        *made = true;
        return ERR_OK;
    }
    if (errno != EEXIST) {
        return err_sys(e, ERR_IO, errno, "cannot make the directory %s", base);
    }
    if (lstat(base, &st) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot examine %s", base);
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
        return err_set(e, ERR_CONFIG, "%s is no directory of the broker's user", base);
    }
    if ((st.st_mode & BASE_FORBIDDEN) != 0) {
        return err_set(e, ERR_CONFIG,
                       "%s has mode %04o: others must neither write to it nor list it", base,
                       (unsigned)(st.st_mode & 07777));
    }
    return ERR_OK;
}

/* After mkdir said EEXIST: a directory (no link to one) of the broker's user. */
static bool is_ours(const char *place)
{
    struct stat st;

    return errno == EEXIST && lstat(place, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

enum err run_place_make(const char *base, const char *id, bool again, bool *made,
                        char path[RUN_PLACE_PATH_SIZE], struct error *e)
{
    char place[RUN_PLACE_PATH_SIZE];
    int n = snprintf(place, sizeof(place), "%s/%s", base, id);

    if (n < 0 || (size_t)n + sizeof(SOCKET_NAME) > sizeof(place)) {
        return err_set(e, ERR_CONFIG, "%s is too long for sockets below it", base);
    }
    enum err rc = make_base(base, made, e);
    if (rc != ERR_OK) {
        return rc;
    }
    if (mkdir(place, RUN_MODE) != 0 && !(again && is_ours(place))) {
        return err_sys(e, ERR_IO, errno, "cannot make the directory %s", place);
    }
    if (chmod(place, RUN_MODE) != 0) { /* whatever the umask is */
        rc = err_sys(e, ERR_IO, errno, "cannot set the mode of %s", place);
        (void)rmdir(place);
        return rc;
    }
    memcpy(path, place, (size_t)n);
    memcpy(path + n, SOCKET_NAME, sizeof(SOCKET_NAME));
    return ERR_OK;
}

bool run_place_path(const char *base, const char *id, char path[RUN_PLACE_PATH_SIZE])
{
    int n = snprintf(path, RUN_PLACE_PATH_SIZE, "%s/%s" SOCKET_NAME, base, id);

    return n > 0 && (size_t)n < RUN_PLACE_PATH_SIZE;
}

void run_place_remove(const char *path)
{
    char place[RUN_PLACE_PATH_SIZE];
    size_t n = strlen(path) - (sizeof(SOCKET_NAME) - 1);

    if (unlink(path) != 0 && errno != ENOENT) {
        log_warn("runs", LOG_MSG("cannot remove a socket"), LOG_STR("path", path),
                 LOG_STR("why", strerror(errno)));
    }
    memcpy(place, path, n);
    place[n] = '\0';
    if (rmdir(place) != 0 && errno != ENOENT) {
        log_warn("runs", LOG_MSG("cannot remove a directory"), LOG_STR("path", place),
                 LOG_STR("why", strerror(errno)));
    }
}
