/*
 * The admin section: listeners that only this machine can reach, the token that callers over TCP
 * must show, and the directory for the sockets of runs. Used by config.c.
 */
#include "gate/config_private.h"

#include "base/redact.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADMIN_SOCKET_MODE  0600u
#define RUNS_DIRECTORY     "runs"
#define RUNS_DIRECTORY_MAX 68u /* with "/ID/broker.sock" it must fit a socket's address */

/* Only this machine can connect there. */
static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (strcmp(host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* NULL, or why `l` cannot be an admin listener of `c`. */
static const char *place_fault(const struct config *c, const struct listener_config *l)
{
    if (l->kind == LISTENER_TLS) {
        return "has a tls:// URL, expected unix:///PATH or tcp:// on a loopback address";
    }
    if (l->kind == LISTENER_TCP && !is_loopback(l->host)) {
        return "has an address that others can reach, expected a loopback address";
    }
    for (size_t i = 0; i < c->nlisteners; i++) {
        if (config_same_place(&c->listeners[i], l)) {
            return "is where a listener for clients is too, expected a new one";
        }
    }
    for (size_t i = 0; i < c->admin.nlisteners; i++) {
        if (config_same_place(&c->admin.listeners[i], l)) {
            return "has the same place twice, expected different ones";
        }
    }
    return NULL;
}

/* Adds `url` to c->admin.listeners, which has room. ERR_CONFIG with *why, ERR_NOMEM. */
static enum err add_listener(struct config *c, const char *url, const char **why)
{
    struct listener_config l = {.mode = ADMIN_SOCKET_MODE};
    enum err err = config_parse_url(&l, url, why);

    if (err == ERR_OK) {
        *why = place_fault(c, &l);
        err = *why == NULL ? ERR_OK : ERR_CONFIG;
    }
    if (err == ERR_OK) {
        l.url = strdup(url);
        err = l.url == NULL ? ERR_NOMEM : ERR_OK;
    }
    if (err != ERR_OK) {
        config_listener_fini(&l);
        return err;
    }
    c->admin.listeners[c->admin.nlisteners++] = l;
    return ERR_OK;
}

static enum err make_room(struct config *c, size_t n)
{
    c->admin.listeners = calloc(n, sizeof(*c->admin.listeners));
    return c->admin.listeners == NULL ? ERR_NOMEM : ERR_OK;
}

static const struct listener_config *first_of(const struct admin_config *a, enum listener_kind kind)
{
    for (size_t i = 0; i < a->nlisteners; i++) {
        if (a->listeners[i].kind == kind) {
            return &a->listeners[i];
        }
    }
    return NULL;
}

/* Beside the first Unix socket, when nothing was configured and there is one. */
static enum err default_runs_directory(struct admin_config *a)
{
    const struct listener_config *l = first_of(a, LISTENER_UNIX);

    if (a->runs_directory != NULL || l == NULL) {
        return ERR_OK;
    }
    size_t n = (size_t)(strrchr(l->path, '/') - l->path);
    size_t size = n + sizeof("/" RUNS_DIRECTORY);
    a->runs_directory = malloc(size);
    if (a->runs_directory == NULL) {
        return ERR_NOMEM;
    }
    (void)snprintf(a->runs_directory, size, "%.*s/" RUNS_DIRECTORY, (int)n, l->path);
    return ERR_OK;
}

static enum err build_runs_directory(struct config_build *b)
{
    struct admin_file *f = &b->file->admin;
    struct admin_config *a = &b->c->admin;
    size_t n = f->runs_directory == NULL ? 0 : strlen(f->runs_directory);

    if (n > 0 && (f->runs_directory[0] != '/' || f->runs_directory[n - 1] == '/')) {
        return conf_fault(b->doc, f, "runs_directory", b->e,
                          "is no full path of a directory, expected one like /run/tactus/runs");
    }
    a->runs_directory = config_steal(&f->runs_directory);
    if (default_runs_directory(a) != ERR_OK) {
        return config_no_memory(b->e);
    }
    if (a->runs_directory != NULL && strlen(a->runs_directory) > RUNS_DIRECTORY_MAX) {
        return conf_fault(b->doc, f, "runs_directory", b->e,
                          "is %s, longer than %u bytes: sockets below it would have no valid "
                          "address, expected a shorter path",
                          n > 0 ? "a path" : "beside the Unix socket", RUNS_DIRECTORY_MAX);
    }
    return ERR_OK;
}

enum err config_build_admin(struct config_build *b)
{
    struct admin_file *f = &b->file->admin;
    struct admin_config *a = &b->c->admin;
    char **urls = f->listen.items;
    const char *why = NULL;

    if (!conf_has(b->doc, b->file, "admin")) {
        return ERR_OK;
    }
    if (f->listen.n == 0) {
        return conf_fault(b->doc, f, "listen", b->e,
                          "is missing, expected a list of unix:///PATH and tcp:// URLs");
    }
    if (make_room(b->c, f->listen.n) != ERR_OK) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < f->listen.n; i++) {
        enum err err = add_listener(b->c, urls[i], &why);
        if (err != ERR_OK) {
            return err == ERR_NOMEM ? config_no_memory(b->e)
                                    : conf_fault(b->doc, f, "listen", b->e, "%s", why);
        }
    }
    if (f->token.kind == CONF_SECRET_NONE && first_of(a, LISTENER_TCP) != NULL) {
        return conf_fault(b->doc, f, "token", b->e,
                          "is missing, expected one for the tcp:// URL in listen");
    }
    if (f->token.kind != CONF_SECRET_NONE) {
        a->token = config_secret(&f->token);
    }
    return build_runs_directory(b);
}

enum err config_dev_admin(struct config *c, const char *path, struct error *e)
{
    const char *why = "";
    enum err err = make_room(c, 2);

    err = err != ERR_OK ? err : add_listener(c, path, &why);
    err = err != ERR_OK ? err : add_listener(c, "tcp://127.0.0.1:0", &why);
    err = err != ERR_OK ? err : default_runs_directory(&c->admin);
    if (err == ERR_CONFIG) {
        return err_set(e, err, "admin socket %.200s: %s", path, why);
    }
    if (err != ERR_OK) {
        return config_no_memory(e);
    }
    return secret_make(&c->admin.token, e);
}

void config_admin_fini(struct admin_config *a)
{
    for (size_t i = 0; i < a->nlisteners; i++) {
        config_listener_fini(&a->listeners[i]);
    }
    free(a->listeners);
    secret_fini(&a->token);
    free(a->runs_directory);
    *a = (struct admin_config){0};
}
