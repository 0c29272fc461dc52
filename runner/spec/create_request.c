/*
 * See create_request.h. Names and meanings: Docker Engine API reference, "Create a container"; seen
 * to be taken alike by dockerd 20.10 and podman 4.3. Called by run/run_container.
 */
#include "spec/create_request.h"

#include "base/json.h"

#include <string.h>

#define TMPFS_MAX (UINT64_C(1024) * 1024 * 1024)

static void put_key(struct buf *b, const char *key)
{
    buf_printf(b, ",\"%s\":", key);
}

static void put_text(struct buf *b, const char *key, const char *value)
{
    put_key(b, key);
    json_put_string(b, span_str(value));
}

static void put_list(struct buf *b, const char *key, const char *const *v, size_t n)
{
    put_key(b, key);
    buf_put_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        buf_put_str(b, i == 0 ? "" : ",");
        json_put_string(b, span_str(v[i]));
    }
    buf_put_char(b, ']');
}

static void put_env(struct buf *b, const struct create_request *r, bool redact)
{
    put_key(b, "Env");
    buf_put_char(b, '[');
    for (size_t i = 0; i < r->nenv; i++) {
        struct span value = span_str(redact ? "[redacted]" : r->env[i].value);
        buf_put_str(b, i == 0 ? "\"" : ",\"");
        json_put_escaped(b, span_str(r->env[i].name));
        buf_put_char(b, '=');
        json_put_escaped(b, value);
        buf_put_char(b, '"');
    }
    buf_put_char(b, ']');
}

static void put_labels(struct buf *b, const struct create_request *r)
{
    put_key(b, "Labels");
    buf_put_char(b, '{');
    for (size_t i = 0; i < r->nlabels; i++) {
        buf_put_str(b, i == 0 ? "" : ",");
        json_put_string(b, span_str(r->labels[i].key));
        buf_put_char(b, ':');
        json_put_string(b, span_str(r->labels[i].value));
    }
    buf_put_char(b, '}');
}

static void put_mount(struct buf *b, const struct mount *m)
{
    buf_printf(b, "{\"Type\":\"%s\"", m->kind == MOUNT_BIND ? "bind" : "volume");
    if (m->source != NULL) {
        put_text(b, "Source", m->source);
    }
    put_text(b, "Target", m->target);
    put_key(b, "ReadOnly");
    buf_put_str(b, m->read_only ? "true" : "false");
    if (m->kind == MOUNT_BIND) {
        buf_put_str(b, ",\"BindOptions\":{\"Propagation\":\"rprivate\"}");
    }
    buf_put_char(b, '}');
}

/* Mounts need no escaping of ':'; only the older form can ask for SELinux labels, and has no way to
 * write a ':' (volume_parse refuses the two together). */
static void put_mounts(struct buf *b, const struct create_request *r)
{
    size_t n = 0;

    put_key(b, "Mounts");
    buf_put_char(b, '[');
    for (size_t i = 0; i < r->nmounts; i++) {
        if (!r->mounts[i].z) {
            buf_put_str(b, n++ == 0 ? "" : ",");
            put_mount(b, &r->mounts[i]);
        }
    }
    buf_put_char(b, ']');
    n = 0;
    for (size_t i = 0; i < r->nmounts; i++) {
        const struct mount *m = &r->mounts[i];
        if (m->z && m->source != NULL) {
            buf_put_str(b, n++ == 0 ? ",\"Binds\":[\"" : ",\"");
            json_put_escaped(b, span_str(m->source));
            buf_put_char(b, ':');
            json_put_escaped(b, span_str(m->target));
            buf_put_str(b, m->read_only ? ":ro," : ":rw,");
            buf_put_str(b, m->z_private ? "Z\"" : "z\"");
        }
    }
    buf_put_str(b, n > 0 ? "]" : "");
}

static bool has_target(const struct create_request *r, const char *target)
{
    for (size_t i = 0; i < r->nmounts; i++) {
        if (strcmp(r->mounts[i].target, target) == 0) {
            return true;
        }
    }
    return false;
}

/* /tmp counts as memory of the container: half of its limit at most. */
static void put_tmpfs(struct buf *b, const struct create_request *r)
{
    uint64_t size = r->memory == 0 || r->memory / 2 > TMPFS_MAX ? TMPFS_MAX : r->memory / 2;

    put_key(b, "Tmpfs");
    buf_printf(b, "{\"/tmp\":\"rw,exec,nosuid,nodev,mode=1777,size=%llu\"}",
               (unsigned long long)size);
}

static void put_number(struct buf *b, const char *key, uint64_t v)
{
    if (v > 0) {
        put_key(b, key);
        json_put_u64(b, v);
    }
}

static void put_host(struct buf *b, const struct create_request *r)
{
    buf_put_str(b, ",\"HostConfig\":{\"AutoRemove\":false,\"Init\":false,\"CapDrop\":[\"ALL\"],"
                   "\"SecurityOpt\":[\"no-new-privileges\"],\"LogConfig\":{\"Type\":\"none\"}");
    put_number(b, "Memory", r->memory);
    put_number(b, "MemorySwap", r->memory);
    put_number(b, "NanoCpus", r->nano_cpus);
    put_number(b, "PidsLimit", r->pids);
    put_key(b, "ReadonlyRootfs");
    buf_put_str(b, r->read_only_root ? "true" : "false");
    /* docker would hide a mount of that place under the tmpfs, podman refuses both together. */
    if (r->read_only_root && !has_target(r, "/tmp")) {
        put_tmpfs(b, r);
    }
    put_text(b, "NetworkMode", r->network);
    if (r->host_gateway != NULL) {
        put_key(b, "ExtraHosts");
        buf_put_str(b, "[\"host.docker.internal:");
        json_put_escaped(b, span_str(r->host_gateway));
        buf_put_str(b, "\"]");
    }
    put_mounts(b, r);
    buf_put_char(b, '}');
}

void create_request_put(const struct create_request *r, bool redact_env, struct buf *out)
{
    buf_put_str(out, "{\"OpenStdin\":true,\"StdinOnce\":true,\"AttachStdin\":true,"
                     "\"AttachStdout\":true,\"AttachStderr\":true,\"Tty\":false");
    put_text(out, "Image", r->image);
    put_list(out, "Entrypoint", r->entrypoint, r->nentrypoint);
    put_list(out, "Cmd", r->command, r->ncommand);
    put_env(out, r, redact_env);
    put_text(out, "User", r->user);
    put_text(out, "WorkingDir", r->working_dir);
    put_labels(out, r);
    put_host(out, r);
    buf_put_char(out, '}');
}
