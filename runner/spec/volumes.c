/*
 * See volumes.h. Three steps: a spec is split into its parts, the host's part is resolved by
 * realpath, and the result is held against the forbidden places, each of them resolved as well.
 * Called by run/run_container.
 */
#include "spec/volumes.h"

#include "base/text.h"

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

    while (n > 0 && place[n - 1] == '/') {
        n--;
    }
    return strncmp(path, place, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_or_holds(const char *path, const char *place)
{
    return is_within(path, place) || is_within(place, path);
}

/* `place` without symbolic links, as far as it exists: what is missing may be made later, and the
 * way to it may still lead over a link. */
static void real_place(const char *place, char out[PATH_MAX])
{
    char directory[PATH_MAX];
    char real[PATH_MAX];
    const char *slash = strrchr(place, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - place);

    if (realpath(place, out) != NULL) {
        return;
    }
    if (n > 0 && n < sizeof(directory)) {
        memcpy(directory, place, n);
        directory[n] = '\0';
        int m = realpath(directory, real) == NULL
                    ? -1
                    : snprintf(out, PATH_MAX, "%s%s", strcmp(real, "/") == 0 ? "" : real, slash);
        if (m > 0 && m < PATH_MAX) {
            return;
        }
    }
    snprintf(out, PATH_MAX, "%s", place);
}

static bool touches(const char *path, const char *place)
{
    char real[PATH_MAX];

    real_place(place, real);
    return is_or_holds(path, real);
}

/* A place in the home directory. When it is a link, both its ends are one: who can write where the
 * link lies can make it another. */
static bool touches_home(const char *path, const char *home, const char *name)
{
    char place[PATH_MAX];
    int n = snprintf(place, sizeof(place), "%s/%s", strcmp(home, "/") == 0 ? "" : home, name);

    return n > 0 && (size_t)n < sizeof(place) && (is_or_holds(path, place) || touches(path, place));
}

static enum err refuse(const char *shown, const char *path, const char *place, struct error *e)
{
    return err_set(e, ERR_CONFIG, "%.150s: %.150s is not mounted: it is, holds or lies in %.100s",
                   shown, path, place);
}

static enum err check_home(const char *shown, const char *path, const char *home, struct error *e)
{
    static const char *const names[] = {".ssh",    ".aws",           ".docker", ".gnupg",
                                        ".kube",   ".config/gcloud", ".azure",  ".netrc",
                                        ".colima", ".orbstack",      ".rd"};
    char real[PATH_MAX];
    char place[64];

    real_place(home, real);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (touches_home(path, real, names[i])) {
            snprintf(place, sizeof(place), "~/%s", names[i]);
            return refuse(shown, path, place, e);
        }
    }
    return ERR_OK;
}

/* `shown`: what the user wrote. `path` is resolved. */
static enum err check(const char *shown, const char *path, const struct volume_rules *rules,
                      struct error *e)
{
    static const char *const always[] = {"/proc", "/sys", "/dev", "/run", "/var/run", "/boot"};
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
    if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFIG, "%.150s: %.150s is not mounted: it is a socket", shown, path);
    }
    if (!text_utf8_valid(path, strlen(path))) { /* the engine's JSON would name another one */
        return err_set(e, ERR_CONFIG, "%.200s is not mounted: its path is not UTF-8", shown);
    }
    return rules->home == NULL ? ERR_OK : check_home(shown, path, rules->home, e);
}

enum err volume_check_path(const char *path, const struct volume_rules *rules, struct error *e)
{
    char real[PATH_MAX];

    if (realpath(path, real) == NULL) {
        return err_sys(e, ERR_CONFIG, errno, "%.200s is not mounted", path);
    }
    return check(path, real, rules, e);
}

/* ---- the parts of a spec ---- */

struct parts {
    char *copy; /* of the spec, cut into: */
    const char *host;
    const char *target; /* NULL: the spec has one part */
    unsigned mode;      /* bits; 0: none */
};

struct mode {
    const char *word;
    unsigned bit;
};

enum { MODE_RO = 1, MODE_RW = 2, MODE_Z = 4, MODE_Z_PRIVATE = 8 };

/* The words of `text` as bits; 0 when one is none, or when two contradict each other. */
static unsigned read_mode(const char *text)
{
    static const struct mode modes[] = {
        {"ro", MODE_RO}, {"rw", MODE_RW}, {"z", MODE_Z}, {"Z", MODE_Z_PRIVATE}};
    unsigned bits = 0;
    const char *p = text;

    for (;;) {
        size_t n = strcspn(p, ",");
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
            if (strlen(modes[i].word) == n && strncmp(modes[i].word, p, n) == 0) {
                bit = modes[i].bit;
            }
        }
        bits |= bit;
        if (bit == 0 || (bits & (MODE_RO | MODE_RW)) == (MODE_RO | MODE_RW) ||
            (bits & (MODE_Z | MODE_Z_PRIVATE)) == (MODE_Z | MODE_Z_PRIVATE)) {
            return 0;
        }
        if (p[n] == '\0') {
            return bits;
        }
        p += n + 1;
    }
}

/*
 * From the right, because a host path may have colons in it: a last part that is no path is the
 * mode; what is after the last colon before a slash is the container's path.
 */
static enum err split(const char *spec, struct parts *p, struct error *e)
{
    p->copy = strdup(spec);
    if (p->copy == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    char *last = strrchr(p->copy, ':');
    if (last != NULL && last[1] != '/') {
        p->mode = read_mode(last + 1);
        if (p->mode == 0) {
            return err_set(e, ERR_CONFIG,
                           "volume %.200s: expected HOST:CONTAINER[:MODE], CONTAINER absolute and "
                           "MODE of ro, rw, z, Z",
                           spec);
        }
        *last = '\0';
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
    if (p->host[0] == '\0' || (p->mode != 0 && p->target == NULL)) {
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

/* Where in the container, in the form that two names of one place share. */
static enum err read_target(const char *spec, const char *target, char out[PATH_MAX],
                            struct error *e)
{
    size_t n = 0;
    size_t length = strlen(target);
    bool good = *target == '/' && length < PATH_MAX && strchr(target, ':') == NULL &&
                text_utf8_valid(target, length);

    for (const char *p = good ? target : ""; *p != '\0';) {
        p += strspn(p, "/");
        size_t part = strcspn(p, "/");
        if (part == 2 && strncmp(p, "..", 2) == 0) {
            n = 0;
            break;
        }
        if (part > 0 && !(part == 1 && *p == '.')) {
            out[n++] = '/';
            memcpy(out + n, p, part);
            n += part;
        }
        p += part;
    }
    out[n] = '\0';
    return n > 0 ? ERR_OK
                 : err_set(e, ERR_CONFIG,
                           "volume %.200s: expected an absolute path in the container, not / "
                           "itself, without .. and ':'",
                           spec);
}

/* Not over what the runner itself puts there. */
static enum err check_target(const char *spec, const char *target, struct error *e)
{
    static const char *const ours[] = {"/.tactus", "/run/tactus-broker", "/proc", "/sys", "/dev"};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (is_or_holds(target, ours[i])) {
            return err_set(e, ERR_CONFIG, "volume %.200s: %s of the container is the runner's",
                           spec, ours[i]);
        }
    }
    return ERR_OK;
}

/* The host's side: `source` becomes its path, or the volume's name; NULL for an anonymous one. */
static enum err read_source(const char *spec, const struct parts *p,
                            const struct volume_rules *rules, char path[PATH_MAX],
                            const char **source, struct error *e)
{
    *source = NULL;
    if (p->target == NULL) {
        return ERR_OK;
    }
    if (!is_path(p->host)) {
        *source = p->host;
        return is_volume_name(p->host)
                   ? ERR_OK
                   : err_set(e, ERR_CONFIG,
                             "volume %.200s: expected a path (/…, ./…, ~/…) or a volume's name of "
                             "letters, digits, '_', '.', '-'",
                             spec);
    }
    *source = path;
    enum err rc = resolve(spec, p->host, rules, path, e);
    if (rc == ERR_OK) {
        rc = check(spec, path, rules, e);
    }
    if (rc == ERR_OK && (p->mode & (MODE_Z | MODE_Z_PRIVATE)) != 0 && strchr(path, ':') != NULL) {
        rc = err_set(e, ERR_CONFIG,
                     "volume %.200s: engines take z and Z only for paths without ':'", spec);
    }
    return rc;
}

static enum err fill(const char *spec, const struct parts *p, const struct volume_rules *rules,
                     struct mount *out, struct error *e)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    const char *source = NULL;
    enum err rc = read_target(spec, p->target == NULL ? p->host : p->target, target, e);

    if (rc == ERR_OK) {
        rc = check_target(spec, target, e);
    }
    if (rc == ERR_OK) {
        rc = read_source(spec, p, rules, path, &source, e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    out->kind = source == path ? MOUNT_BIND : MOUNT_VOLUME;
    out->read_only = (p->mode & MODE_RO) != 0;
    out->z = (p->mode & (MODE_Z | MODE_Z_PRIVATE)) != 0;
    out->z_private = (p->mode & MODE_Z_PRIVATE) != 0;
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
