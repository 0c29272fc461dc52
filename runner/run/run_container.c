/*
 * What the container is furnished with: the shim's directory with the heartbeat, the working
 * directory, mounts, environment, and from them the create request.
 */
#include "run/run.h"

#include "base/log.h"
#include "base/text.h"
#include "net/client.h"
#include "run/shim.h"
#include "spec/create_request.h"
#include "spec/environment.h"
#include "spec/owner.h"
#include "spec/workspace.h"
#include "tactus/init.h"
#include "tactus/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHIM_TARGET   "/.tactus"
#define SOCKET_TARGET "/run/tactus-broker"
#define TTL_EXTRA_S   60u /* the shim's own limit: for an engine that lost the runner's */
#define OURS_MAX      8   /* variables of ours */

/* ---- mounts ---- */

static enum err add_mount(struct run *r, struct mount m, struct error *e)
{
    if (r->nmounts == RUN_MOUNTS_MAX) {
        mount_fini(&m);
        return err_set(e, ERR_CONFIG, "more than %d mounts", RUN_MOUNTS_MAX);
    }
    r->mounts[r->nmounts++] = m;
    return ERR_OK;
}

static enum err bind(struct run *r, const char *source, const char *target, bool read_only,
                     struct error *e)
{
    struct mount m = {.kind = MOUNT_BIND,
                      .source = strdup(source),
                      .target = strdup(target),
                      .read_only = read_only};

    if (m.source == NULL || m.target == NULL) {
        mount_fini(&m);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return add_mount(r, m, e);
}

/* The directory of `path`, for a list of places that nobody may mount. */
static const char *parent_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL || slash == path ? 0 : (size_t)(slash - path);

    if (n == 0 || n >= PATH_MAX) {
        return NULL;
    }
    memcpy(out, path, n);
    out[n] = '\0';
    return out;
}

struct places {
    char text[3][PATH_MAX];
    const char *v[3];
    struct volume_rules rules;
};

/* The engine's socket, the broker's directories. */
static void find_places(const struct run *r, struct places *p)
{
    const char *sockets[] = {r->grants.admin.peer.unix_socket,
                             r->grant.endpoint[0] == '/' ? r->grant.endpoint : NULL};
    size_t n = 0;

    if (r->engine != NULL && engine_socket(r->engine) != NULL) {
        p->v[n++] = engine_socket(r->engine);
    }
    for (size_t i = 0; i < 2; i++) {
        const char *parent = sockets[i] == NULL ? NULL : parent_of(sockets[i], p->text[i]);
        if (parent != NULL) {
            p->v[n++] = parent;
        }
    }
    p->rules = (struct volume_rules){
        .base_dir = r->directory, .home = getenv("HOME"), .forbidden = p->v, .nforbidden = n};
}

static enum err add_volumes(struct run *r, const struct volume_rules *rules, struct error *e)
{
    enum err rc = ERR_OK;

    for (size_t i = 0; i < r->settings.nvolumes && rc == ERR_OK; i++) {
        struct mount m = {0};
        rc = volume_parse(r->settings.volumes[i], rules, &m, e);
        if (rc == ERR_OK) {
            rc = add_mount(r, m, e);
        }
    }
    return rc;
}

/* ---- directories ---- */

/* Who is to own the copy, when that is not this process and it may give files away. */
static bool other_owner(const char *user, struct workspace_owner *out)
{
    uint64_t uid = 0;
    uint64_t gid = 0;
    size_t n = user == NULL ? 0 : strcspn(user, ":");

    if (user == NULL || geteuid() != 0 || !text_u64(span_of(user, n), &uid)) {
        return false;
    }
    if (user[n] == ':' && !text_u64(span_str(user + n + 1), &gid)) {
        return false;
    }
    *out = (struct workspace_owner){.uid = (uid_t)uid, .gid = (gid_t)gid};
    return true;
}

static enum err add_workspace(struct run *r, const struct volume_rules *rules, struct error *e)
{
    const struct settings *s = &r->settings;
    enum err rc = ERR_OK;

    if (!s->mount_current_dir) {
        return ERR_OK;
    }
    if (s->working_dir != NULL) {
        if (realpath(s->working_dir, r->workspace) == NULL) {
            r->workspace[0] = '\0';
            return err_sys(e, ERR_CONFIG, errno, "--working-dir %s", s->working_dir);
        }
        rc = volume_check_path(r->workspace, rules, e);
    } else if (r->options->dry_run) {
        snprintf(r->workspace, sizeof(r->workspace), "/tmp/tactus-sandbox-COPY");
    } else {
        struct workspace_owner owner;
        rc = workspace_copy(r->directory, other_owner(s->user, &owner) ? &owner : NULL,
                            r->workspace, e);
        if (rc == ERR_OK) {
            r->workspace_is_copy = true;
            keeper_note(&r->keeper, KEEPER_DIRECTORY, r->workspace);
        }
    }
    return rc == ERR_OK ? bind(r, r->workspace, "/workspace", false, e) : rc;
}

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A checkout's package: TACTUS_DEV_PATH, then the directories above the procedure and above us. */
static bool find_dev_source(const struct run *r, char out[PATH_MAX])
{
    const char *named = getenv("TACTUS_DEV_PATH");
    char here[PATH_MAX] = "";
    char starts[2][PATH_MAX];

    if (named != NULL && named[0] != '\0') {
        int n = snprintf(out, PATH_MAX, "%s/tactus", named);
        return n > 0 && n < PATH_MAX && is_directory(out);
    }
    snprintf(starts[0], sizeof(starts[0]), "%s", r->directory);
    snprintf(starts[1], sizeof(starts[1]), "%s", getcwd(here, sizeof(here)) == NULL ? "" : here);
    for (size_t i = 0; i < 2; i++) {
        char *slash = starts[i] + strlen(starts[i]);
        while (slash != NULL) {
            *slash = '\0';
            char mark[PATH_MAX];
            int n = snprintf(mark, sizeof(mark), "%s/tactus/__init__.py", starts[i]);
            int m = snprintf(out, PATH_MAX, "%s/tactus", starts[i]);
            if (n > 0 && n < PATH_MAX && m > 0 && access(mark, F_OK) == 0) {
                return true;
            }
            slash = strrchr(starts[i], '/');
        }
    }
    return false;
}

static enum err add_optional(struct run *r, struct error *e)
{
    const struct settings *s = &r->settings;
    char source[PATH_MAX];
    enum err rc = ERR_OK;

    if (s->mcp_servers_path != NULL && is_directory(s->mcp_servers_path)) {
        rc = bind(r, s->mcp_servers_path, "/mcp-servers", true, e);
    }
    if (rc == ERR_OK && s->dev_mode && find_dev_source(r, source)) {
        rc = bind(r, source, "/app/tactus", true, e);
    } else if (rc == ERR_OK && s->dev_mode) {
        log_warn("runner", LOG_MSG("--dev: no source of tactus found (TACTUS_DEV_PATH, or a "
                                   "checkout around the procedure): the image's own is used"));
    }
    return rc;
}

static enum err add_shim(struct run *r, struct error *e)
{
    enum err rc = ERR_OK;

    if (r->options->dry_run) {
        return bind(r, "/tmp/tactus-sandbox-SHIM", SHIM_TARGET, true, e);
    }
    rc = shim_make(r->grant.ca_file[0] == '\0' ? NULL : r->grant.ca_file, r->shim_dir,
                   &r->heartbeat, e);
    if (rc == ERR_OK) {
        keeper_note(&r->keeper, KEEPER_DIRECTORY, r->shim_dir);
        rc = bind(r, r->shim_dir, SHIM_TARGET, true, e);
    }
    return rc;
}

/* The grant's own directory, or the one socket of a broker that was given. */
static enum err add_socket(struct run *r, struct error *e)
{
    char parent[PATH_MAX];
    const char *path = r->grant.endpoint;

    if (r->settings.transport != TRANSPORT_UNIX) {
        return ERR_OK;
    }
    if (r->options->broker != NULL) {
        return bind(r, path, SOCKET_TARGET "/broker.sock", false, e);
    }
    if (parent_of(path, parent) == NULL) {
        return err_set(e, ERR_PROTO, "the broker's endpoint %s is no socket path", path);
    }
    return bind(r, parent, SOCKET_TARGET, true, e);
}

/* ---- environment ---- */

static enum err put_env(struct run *r, const char *name, const char *value, struct error *e)
{
    struct env_entry entry = {.name = strdup(name), .value = strdup(value)};

    if (entry.name == NULL || entry.value == NULL) {
        free(entry.name);
        free(entry.value);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    r->env[r->nenv++] = entry;
    return ERR_OK;
}

static void refused(const char *name, const char *why)
{
    log_warn("runner", LOG_MSG("a variable is not passed into the container"),
             LOG_STR("name", name), LOG_STR("why", why));
}

/* Secrets by their value: asked of the broker, as hashes. */
static enum err find_secrets(struct run *r, bool *secret, struct error *e)
{
    if (!r->has_grants || r->options->dry_run || r->settings.nenv == 0) {
        return ERR_OK;
    }
    return grants_match(&r->grants, r->settings.env, r->settings.nenv, secret, e);
}

static bool allowed(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < s->nallow_env; i++) {
        if (strcmp(s->allow_env[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static enum err add_user_env(struct run *r, struct error *e)
{
    const struct settings *s = &r->settings;
    bool *secret = calloc(s->nenv + 1, sizeof(*secret));
    enum err rc =
        secret == NULL ? err_set(e, ERR_NOMEM, "out of memory") : find_secrets(r, secret, e);

    for (size_t i = 0; i < s->nenv && rc == ERR_OK; i++) {
        const char *name = s->env[i].name;
        const char *why = environment_refusal(name, s->allow_env, s->nallow_env);
        if (why == NULL && secret[i] && !allowed(s, name)) {
            why = "its value is a secret of the broker (--allow-env passes it)";
        }
        if (why != NULL) {
            refused(name, why);
        } else {
            rc = put_env(r, name, s->env[i].value, e);
        }
    }
    free(secret);
    return rc;
}

static bool has_env(const struct run *r, const char *name)
{
    for (size_t i = 0; i < r->nenv; i++) {
        if (strcmp(r->env[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* What TACTUS_BROKER_SOCKET says inside. */
static enum err inside_endpoint(const struct run *r, char *out, size_t size, struct error *e)
{
    const struct settings *s = &r->settings;
    struct client_endpoint at;

    if (s->transport == TRANSPORT_STDIO) {
        snprintf(out, size, "stdio");
        return ERR_OK;
    }
    if (s->transport == TRANSPORT_UNIX) {
        const char *slash = strrchr(r->grant.endpoint, '/');
        snprintf(out, size, "%s%s", SOCKET_TARGET,
                 r->options->broker != NULL || slash == NULL ? "/broker.sock" : slash);
        return ERR_OK;
    }
    if (r->options->broker != NULL) {
        snprintf(out, size, "%s", r->options->broker);
        return ERR_OK;
    }
    enum err rc = client_endpoint_parse(r->grant.endpoint, &at, e);
    if (rc == ERR_OK) {
        snprintf(out, size, "%s://%s:%u", transport_name(s->transport), s->broker_host,
                 (unsigned)at.port);
    }
    return rc;
}

static enum err add_own_env(struct run *r, struct error *e)
{
    char endpoint[PATH_MAX];
    enum err rc = inside_endpoint(r, endpoint, sizeof(endpoint), e);

    if (rc == ERR_OK) {
        rc = put_env(r, TACTUS_ENV_SOCKET, endpoint, e);
    }
    if (rc == ERR_OK && r->settings.transport == TRANSPORT_TLS && r->grant.ca_file[0] != '\0') {
        rc = put_env(r, TACTUS_ENV_TLS_CA_FILE, SHIM_TARGET "/" SHIM_CA, e);
    }
    if (rc == ERR_OK && r->settings.callback_url != NULL) {
        rc = put_env(r, "TACTUS_CALLBACK_URL", r->settings.callback_url, e);
    }
    if (rc == ERR_OK && r->settings.user == NULL && !has_env(r, "HOME")) {
        rc = put_env(r, "HOME", "/workspace", e);
    }
    return rc;
}

/* ---- all of it ---- */

enum err run_furnish(struct run *r, struct error *e)
{
    struct places places;

    find_places(r, &places);
    r->env = calloc(r->settings.nenv + OURS_MAX, sizeof(*r->env));
    enum err rc = r->env == NULL ? err_set(e, ERR_NOMEM, "out of memory") : add_user_env(r, e);
    if (rc == ERR_OK) {
        rc = add_own_env(r, e);
    }
    if (rc == ERR_OK) {
        rc = add_volumes(r, &places.rules, e);
    }
    if (rc == ERR_OK) {
        rc = add_workspace(r, &places.rules, e);
    }
    if (rc == ERR_OK) {
        rc = add_optional(r, e);
    }
    if (rc == ERR_OK) {
        rc = add_socket(r, e);
    }
    return rc == ERR_OK ? add_shim(r, e) : rc;
}

/* The image's own entrypoint and command in one; the caller frees the array, not the strings. */
static enum err image_command(const struct run *r, const char ***out, size_t *n, struct error *e)
{
    const struct engine_image *image = &r->image;
    size_t total = image->entrypoint.n + image->command.n;
    const char **v = calloc(total + 1, sizeof(*v));

    if (v == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < total; i++) {
        v[i] = i < image->entrypoint.n ? image->entrypoint.v[i]
                                       : image->command.v[i - image->entrypoint.n];
    }
    if (total == 0) {
        free(v);
        return err_set(e, ERR_CONFIG, "image %s has neither entrypoint nor command",
                       r->settings.image);
    }
    *out = v;
    *n = total;
    return ERR_OK;
}

enum err run_create_json(struct run *r, bool redact_env, struct buf *out, struct error *e)
{
    const struct settings *s = &r->settings;
    struct owner owner;
    char ttl[24];
    char user[48];
    const char **command = NULL;
    size_t ncommand = 0;
    enum err rc = image_command(r, &command, &ncommand, e);

    if (rc != ERR_OK) {
        return rc;
    }
    owner_self(&owner);
    snprintf(ttl, sizeof(ttl), "%u", s->timeout_ms / 1000 + TTL_EXTRA_S);
    snprintf(user, sizeof(user), "%u:%u", (unsigned)getuid(), (unsigned)getgid());
    const char *const shim[] = {SHIM_TARGET "/" SHIM_PROGRAM,
                                TACTUS_INIT_OPT_HEARTBEAT,
                                SHIM_TARGET "/" SHIM_HEARTBEAT,
                                TACTUS_INIT_OPT_TTL,
                                ttl,
                                "--"};
    const struct label labels[] = {{RUN_LABEL, r->id},
                                   {RUN_LABEL_PID, owner.pid},
                                   {RUN_LABEL_TIME, owner.start},
                                   {RUN_LABEL_BOOT, owner.boot}};
    const struct create_request request = {
        .image = s->image,
        .entrypoint = shim,
        .nentrypoint = sizeof(shim) / sizeof(shim[0]),
        .command = command,
        .ncommand = ncommand,
        .env = r->env,
        .nenv = r->nenv,
        .user = s->user == NULL ? user : s->user,
        .working_dir = "/workspace",
        .labels = labels,
        .nlabels = sizeof(labels) / sizeof(labels[0]),
        .mounts = r->mounts,
        .nmounts = r->nmounts,
        .network = s->network,
        .host_gateway = r->network.gateway[0] == '\0' ? NULL : r->network.gateway,
        .memory = s->memory,
        .nano_cpus = s->nano_cpus,
        .pids = s->pids,
        .read_only_root = !s->writable_root,
    };
    create_request_put(&request, redact_env, out);
    free(command);
    return buf_status(out) == ERR_OK
               ? ERR_OK
               : err_set(e, buf_status(out), "the create request is too long");
}
