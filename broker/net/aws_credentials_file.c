/*
 * AWS's shared files as a source of credentials: finding, reading and judging; what stands in them
 * is aws_profile's. A file's text lies in ordinary memory while it is looked at, in a block that
 * never grows, and is wiped. Called by aws_credentials.c within a fetch.
 */
#include "net/aws_credentials_private.h"
#include "net/aws_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a small file ---- */

static enum err read_to_end(int fd, size_t max, struct aws_file *f, struct error *e)
{
    while (f->n < f->size) {
        ssize_t got = read(fd, f->p + f->n, f->size - f->n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_sys(e, ERR_IO, errno, "cannot be read");
        }
        if (got == 0) {
            return ERR_OK;
        }
        f->n += (size_t)got;
    }
    if (f->n > max) {
        return err_set(e, ERR_LIMIT, "is larger than %zu bytes", max);
    }
    return err_set(e, ERR_IO, "grows while it is read");
}

static enum err read_fd(int fd, size_t max, struct aws_file *f, struct error *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return err_sys(e, ERR_IO, errno, "cannot be examined");
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_IO, "is no regular file");
    }
    if (st.st_size < 0 || (uintmax_t)st.st_size > max) {
        return err_set(e, ERR_LIMIT, "is larger than %zu bytes", max);
    }
    /* One byte more than it has, so that its end is seen. Files of /proc and the like say 0. */
    f->size = (st.st_size > 0 ? (size_t)st.st_size : max) + 1;
    f->p = malloc(f->size);
    if (f->p == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return read_to_end(fd, max, f, e);
}

enum err aws_file_read(const char *path, size_t max, struct aws_file *out, struct error *e)
{
    struct aws_file f = {0};

    /* Not blocking: opening a pipe that nobody writes to would hold the loop. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(e, ERR_AGAIN, errno, "cannot be opened");
    }
    enum err rc = read_fd(fd, max, &f, e);
    (void)close(fd);
    if (rc != ERR_OK) {
        aws_file_free(&f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

void aws_file_free(struct aws_file *f)
{
    if (f->p != NULL) {
        OPENSSL_cleanse(f->p, f->size);
    }
    free(f->p);
    *f = (struct aws_file){0};
}

/* ---- the profile ---- */

struct search {
    const char *name;
    bool named;    /* by somebody, so that it has to be there */
    bool insisted; /* by the options, so that it has to have keys */
    char path[2][PATH_MAX];
    struct aws_file file[2]; /* by enum aws_profile_file */
    struct aws_profile profile;
    char missing[200]; /* what files were not read, and why */
};

/* Where the file is; "": nowhere. "~/" is the home directory. */
static void find_path(const struct aws_credentials *c, enum aws_profile_file file, char *out,
                      size_t size)
{
    bool config = file == AWS_PROFILE_CONFIG;
    const char *set =
        aws_environment_get(c->env, config ? AWS_ENV_CONFIG_FILE : AWS_ENV_SHARED_CREDENTIALS_FILE);
    const char *home = aws_environment_get(c->env, AWS_ENV_HOME);
    int n = -1;

    if (set != NULL && strncmp(set, "~/", 2) != 0) {
        n = snprintf(out, size, "%s", set);
    } else if (home != NULL) {
        const char *below = config ? ".aws/config" : ".aws/credentials";
        n = snprintf(out, size, "%s/%s", home, set != NULL ? set + 2 : below);
    }
    if (n < 0 || (size_t)n >= size) {
        out[0] = '\0';
    }
}

static enum err read_one(const struct aws_credentials *c, struct search *s,
                         enum aws_profile_file file, struct error *e)
{
    struct error why = {0};

    find_path(c, file, s->path[file], sizeof(s->path[file]));
    if (s->path[file][0] == '\0') {
        return ERR_OK;
    }
    enum err rc = aws_file_read(s->path[file], AWS_FILE_MAX, &s->file[file], &why);
    if (rc == ERR_AGAIN) {
        bool none = why.sys == ENOENT || why.sys == ENOTDIR;
        size_t n = strlen(s->missing);
        (void)snprintf(s->missing + n, sizeof(s->missing) - n, ", %s%s%s%s", none ? "no " : "",
                       s->path[file], none ? "" : " ", none ? "" : why.msg);
        return ERR_OK;
    }
    if (rc != ERR_OK) {
        return err_set(e, rc, "profile %s: %s %s", s->name, s->path[file], why.msg);
    }
    aws_profile_read(span_of(s->file[file].p, s->file[file].n), file, span_str(s->name),
                     &s->profile);
    return ERR_OK;
}

static enum err judge(const struct search *s, struct aws_keys **out, struct error *e)
{
    const struct aws_profile_value *v = s->profile.value;

    if (!s->profile.found) {
        return err_set(e, s->named ? ERR_CONFIG : ERR_AGAIN, "profile %s: not found%s", s->name,
                       s->missing[0] != '\0' ? s->missing : ", HOME is not set");
    }
    enum aws_profile_key key = aws_profile_unsupported(&s->profile);
    if (key != AWS_PROFILE_KEYS) {
        return err_set(e, ERR_CONFIG, "profile %s: %s has %s, which is not supported", s->name,
                       s->path[v[key].file], aws_profile_key_name(key));
    }
    const struct aws_keys keys = {v[AWS_PROFILE_ACCESS_KEY_ID].text,
                                  v[AWS_PROFILE_SECRET_ACCESS_KEY].text,
                                  v[AWS_PROFILE_SESSION_TOKEN].text, 0};
    if (keys.access_key_id.n == 0 && keys.secret.n == 0) {
        return err_set(e, s->insisted ? ERR_CONFIG : ERR_AGAIN, "profile %s: has no keys", s->name);
    }
    enum err rc = aws_keys_new(&keys, out, e);
    if (rc != ERR_OK) {
        unsigned of =
            keys.access_key_id.n > 0 ? AWS_PROFILE_ACCESS_KEY_ID : AWS_PROFILE_SECRET_ACCESS_KEY;
        return err_wrap(e, "profile %s: %s", s->name, s->path[v[of].file]);
    }
    return ERR_OK;
}

enum err aws_profile_source(struct aws_credentials *c, struct aws_keys **out, struct error *e)
{
    const char *set = aws_environment_get(c->env, AWS_ENV_PROFILE);
    struct search *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return err_set(e, ERR_NOMEM, "profile: out of memory");
    }
    s->name = c->profile != NULL ? c->profile : set != NULL ? set : "default";
    s->insisted = c->profile != NULL;
    s->named = s->insisted || set != NULL;
    enum err rc = read_one(c, s, AWS_PROFILE_CONFIG, e);
    if (rc == ERR_OK) {
        rc = read_one(c, s, AWS_PROFILE_CREDENTIALS, e);
    }
    if (rc == ERR_OK) {
        rc = judge(s, out, e);
    }
    aws_file_free(&s->file[AWS_PROFILE_CONFIG]);
    aws_file_free(&s->file[AWS_PROFILE_CREDENTIALS]);
    free(s);
    return rc;
}
