/*
 * From a command line to what is to run: the procedure's source, its settings, its id, and the
 * request line that the container reads. Nothing outside this process is touched.
 */
#include "run/run.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE_MAX (64u * 1024u * 1024u)

/* ---- the procedure ---- */

static enum err read_all(int fd, const char *path, struct buf *out, struct error *e)
{
    char block[65536];
    ssize_t n = 0;

    do {
        n = read(fd, block, sizeof(block));
        if (n > 0) {
            buf_put(out, block, (size_t)n);
        }
    } while ((n > 0 && buf_status(out) == ERR_OK) || (n < 0 && errno == EINTR));
    if (n < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", path);
    }
    if (buf_status(out) != ERR_OK) {
        return err_set(e, ERR_CONFIG, "%s: more than %u bytes", path, SOURCE_MAX);
    }
    if (out->len > 0 && !text_utf8_valid(out->p, out->len)) {
        return err_set(e, ERR_CONFIG, "%s: not valid UTF-8", path);
    }
    return ERR_OK;
}

static enum err read_source(struct run *r, struct error *e)
{
    const char *path = r->options->file;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return err_sys(e, ERR_CONFIG, errno, "%s", path);
    }
    enum err rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                      ? read_all(fd, path, &r->source, e)
                      : err_set(e, ERR_CONFIG, "%s: expected a regular file", path);
    close(fd);
    return rc;
}

static enum err find_directory(struct run *r, struct error *e)
{
    char path[PATH_MAX];

    if (realpath(r->options->file, path) == NULL) {
        return err_sys(e, ERR_CONFIG, errno, "%s", r->options->file);
    }
    char *slash = strrchr(path, '/');
    if (strlen(slash + 1) >= sizeof(r->file_name)) {
        return err_set(e, ERR_CONFIG, "%s: its name is too long", r->options->file);
    }
    memcpy(r->file_name, slash + 1, strlen(slash + 1) + 1);
    slash[slash == path ? 1 : 0] = '\0';
    memcpy(r->directory, path, strlen(path) + 1);
    return ERR_OK;
}

/* ---- settings ---- */

static enum err read_settings(struct run *r, struct error *e)
{
    char sidecar[PATH_MAX];
    int n = snprintf(sidecar, sizeof(sidecar), "%s.yml", r->options->file);

    if (n < 0 || (size_t)n >= sizeof(sidecar)) {
        return err_set(e, ERR_CONFIG, "%s: the path is too long", r->options->file);
    }
    enum err rc = settings_read(&r->settings, sidecar, true, e);
    if (rc == ERR_OK && r->options->config != NULL) {
        rc = settings_read(&r->settings, r->options->config, false, e);
    }
    return rc;
}

/* The first eight hex digits of a fresh random UUID: all of them are random. */
static enum err make_id(struct run *r, struct error *e)
{
    unsigned char random[4];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return err_sys(e, ERR_IO, errno, "no random bytes");
    }
    snprintf(r->id, sizeof(r->id), "%02x%02x%02x%02x", random[0], random[1], random[2], random[3]);
    snprintf(r->name, sizeof(r->name), "tactus-sandbox-%s", r->id);
    return ERR_OK;
}

enum err run_read(struct run *r, struct error *e)
{
    enum err rc = make_id(r, e);

    if (rc == ERR_OK) {
        rc = read_source(r, e);
    }
    if (rc == ERR_OK) {
        rc = find_directory(r, e);
    }
    return rc == ERR_OK ? read_settings(r, e) : rc;
}

/* ---- the execution request ---- */

static void put_member(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_string(out, span_str(value));
}

static bool is_lua(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && strcmp(name + n - 4, ".tac") == 0;
}

void run_put_request(const struct run *r, struct buf *out)
{
    buf_put_str(out, "{\"source\":");
    json_put_string(out, buf_span(&r->source));
    put_member(out, "working_dir", "/workspace");
    buf_put_str(out, ",\"params\":");
    buf_put_span(out, buf_span(&r->options->params));
    put_member(out, "execution_id", r->id);
    if (r->options->run_id != NULL) {
        put_member(out, "run_id", r->options->run_id);
    }
    put_member(out, "source_file_path", r->options->file);
    put_member(out, "format", is_lua(r->file_name) ? "lua" : "yaml");
    if (r->options->task != NULL) {
        put_member(out, "task_name", r->options->task);
    }
    buf_put_str(out, "}\n");
}
