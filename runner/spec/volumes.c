/*
 * See volumes.h. Judged is the path with all symbolic links resolved, at the time of the check: who
 * may rename directories of the host between check and mount is trusted anyway.
 */
#include "spec/volumes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void mount_fini(struct mount *m)
{
    free(m->source);
    free(m->target);
    *m = (struct mount){.kind = MOUNT_BIND};
}

/* ---- places ---- */

/* `path` is `place`, or lies in it. */
static bool is_within(const char *path, const char *place)
{
    size_t n = strlen(place);

    while (n > 1 && place[n - 1] == '/') {
        n--;
    }
    return strncmp(path, place, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool touches(const char *path, const char *place)
{
    char resolved[PATH_MAX];
    const char *real = realpath(place, resolved) == NULL ? place : resolved;

    return is_within(path, real) || is_within(real, path);
}

static enum err refuse(const char *shown, const char *path, const char *place, struct error *e)
{
    return err_set(e, ERR_CONFIG, "%.150s: %.150s is not mounted: it is, holds or lies in %.100s",
                   shown, path, place);
}

/* `shown`: what the user wrote. `path` is resolved. */
static enum err check(const char *shown, const char *path, const struct volume_rules *rules,
                      struct error *e)
{
    static const char *const always[] = {"/proc", "/sys", "/dev", "/run", "/boot"};
    static const char *const in_home[] = {".ssh",  ".aws",           ".docker", ".gnupg",
                                          ".kube", ".config/gcloud", ".azure",  ".netrc"};
    char place[PATH_MAX];
    struct stat st;

    if (strcmp(path, "/") == 0) {
        return refuse(shown, path, "/", e);
    }
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        if (touches(path, always[i])) {
            return refuse(shown, path, always[i], e);
        }
    }
    for (size_t i = 0; i < rules->nforbidden; i++) {
        if (touches(path, rules->forbidden[i])) {
            return refuse(shown, path, rules->forbidden[i], e);
        }
    }
    for (size_t i = 0; i < sizeof(in_home) / sizeof(in_home[0]) && rules->home != NULL; i++) {
        int n = snprintf(place, sizeof(place), "%s/%s", rules->home, in_home[i]);
        bool there = n > 0 && (size_t)n < sizeof(place);
        if (there && touches(path, place) && (stat(place, &st) == 0 || is_within(path, place))) {
            return refuse(shown, path, place, e);
        }
    }
    if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFIG, "%.150s: %.150s is not mounted: it is a socket", shown, path);
    }
    return ERR_OK;
}

enum err volume_check_path(const char *path, const struct volume_rules *rules, struct error *e)
{
    return check(path, path, rules, e);
}

/* ---- the parts of a spec ---- */

struct parts {
    char *copy; /* of the spec, cut into: */
    const char *host;
    const char *target; /* NULL: the spec has one part */
    const char *mode;   /* NULL: none */
};

static bool is_mode(const char *text, bool *known)
{
    static const char *const words[] = {"ro", "rw", "z", "Z"};
    const char *p = text;

    *known = true;
    while (*known) {
        size_t n = strcspn(p, ",");
        *known = false;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            *known = *known || (strlen(words[i]) == n && strncmp(words[i], p, n) == 0);
        }
        if (p[n] == '\0') {
            break;
        }
        p += n + 1;
    }
    return *known;
}

/*
 * From the right, because a host path may have colons in it: a last part without a slash is the
 * mode; what is after the last colon before a slash is the container's path.
 */
static enum err split(const char *spec, struct parts *p, struct error *e)
{
    bool known = false;

    p->copy = strdup(spec);
    if (p->copy == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    char *last = strrchr(p->copy, ':');
    if (last != NULL && last[1] != '/') {
        if (!is_mode(last + 1, &known)) {
            return err_set(e, ERR_CONFIG,
                           "volume %.200s: expected HOST:CONTAINER[:MODE], CONTAINER absolute and "
                           "MODE of ro, rw, z, Z",
                           spec);
        }
        *last = '\0';
        p->mode = last + 1;
    }
    char *colon = strstr(p->copy, ":/");
    for (char *next = colon; next != NULL; next = strstr(next + 1, ":/")) {
        colon = next;
    }
    p->host = p->copy;
    if (colon != NULL) {
        *colon = '\0';
        p->target = colon + 1;
    }
    if (p->host[0] == '\0' || (p->mode != NULL && p->target == NULL)) {
        return err_set(e, ERR_CONFIG,
                       "volume %.200s: expected HOST:CONTAINER[:MODE] with nothing empty", spec);
    }
    return ERR_OK;
}

static bool is_path(const char *host)
{
    return host[0] == '/' || host[0] == '~' || strcmp(host, ".") == 0 || strcmp(host, "..") == 0 ||
           strncmp(host, "./", 2) == 0 || strncmp(host, "../", 3) == 0;
}

static bool is_volume_name(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strspn(text, letters);

    return n > 0 && text[n] == '\0' && strchr("_.-", text[0]) == NULL && n <= 255;
}

static enum err resolve(const char *spec, const char *host, const struct volume_rules *rules,
                        char out[PATH_MAX], struct error *e)
{
    char path[PATH_MAX];
    bool home = host[0] == '~' && (host[1] == '\0' || host[1] == '/');
    int n = 0;

    if (home && rules->home == NULL) {
        return err_set(e, ERR_CONFIG, "volume %.200s: ~ is not known: HOME is not set", spec);
    }
    if (home) {
        n = snprintf(path, sizeof(path), "%s%s", rules->home, host + 1);
    } else if (host[0] == '/') {
        n = snprintf(path, sizeof(path), "%s", host);
    } else {
        n = snprintf(path, sizeof(path), "%s/%s", rules->base_dir, host);
    }
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return err_set(e, ERR_CONFIG, "volume %.200s: the path is too long", spec);
    }
    if (realpath(path, out) == NULL) {
        return err_sys(e, ERR_CONFIG, errno, "volume %.200s: %.200s", spec, path);
    }
    return ERR_OK;
}

/* Where in the container: not over what the runner itself puts there. */
static enum err check_target(const char *spec, const char *target, struct error *e)
{
    static const char *const ours[] = {"/.tactus", "/run/tactus-broker", "/proc", "/sys", "/dev"};
    size_t n = strlen(target);

    if (target[0] != '/' || strcmp(target, "/") == 0 || strstr(target, "/../") != NULL ||
        (n >= 3 && strcmp(target + n - 3, "/..") == 0)) {
        return err_set(e, ERR_CONFIG,
                       "volume %.200s: expected an absolute path in the container, not / itself",
                       spec);
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (is_within(target, ours[i]) || is_within(ours[i], target)) {
            return err_set(e, ERR_CONFIG, "volume %.200s: %s of the container is the runner's",
                           spec, ours[i]);
        }
    }
    return ERR_OK;
}

static enum err fill(const char *spec, const struct parts *p, const struct volume_rules *rules,
                     struct mount *out, struct error *e)
{
    char path[PATH_MAX];
    const char *source = NULL;
    const char *target = p->target == NULL ? p->host : p->target;
    enum err rc = check_target(spec, target, e);

    if (rc == ERR_OK && p->target != NULL && is_path(p->host)) {
        rc = resolve(spec, p->host, rules, path, e);
        if (rc == ERR_OK) {
            rc = check(spec, path, rules, e);
        }
        out->kind = MOUNT_BIND;
        source = path;
    } else if (rc == ERR_OK && p->target != NULL) {
        out->kind = MOUNT_VOLUME;
        source = p->host;
        if (!is_volume_name(source)) {
            rc = err_set(e, ERR_CONFIG,
                         "volume %.200s: expected a path (/…, ./…, ~/…) or a volume's name of "
                         "letters, digits, '_', '.', '-'",
                         spec);
        }
    } else {
        out->kind = MOUNT_VOLUME; /* one part: an anonymous volume */
    }
    if (rc != ERR_OK) {
        return rc;
    }
    out->read_only = p->mode != NULL && strstr(p->mode, "ro") != NULL;
    out->z = p->mode != NULL && strpbrk(p->mode, "zZ") != NULL;
    out->target = strdup(target);
    out->source = source == NULL ? NULL : strdup(source);
    if (out->target == NULL || (source != NULL && out->source == NULL)) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return ERR_OK;
}

enum err volume_parse(const char *spec, const struct volume_rules *rules, struct mount *out,
                      struct error *e)
{
    struct parts parts = {0};
    struct mount m = {.kind = MOUNT_BIND};
    enum err rc = split(spec, &parts, e);

    if (rc == ERR_OK) {
        rc = fill(spec, &parts, rules, &m, e);
    }
    free(parts.copy);
    if (rc == ERR_OK) {
        *out = m;
    } else {
        mount_fini(&m);
    }
    return rc;
}
