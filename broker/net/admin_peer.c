/*
 * Addresses of the admin API: see admin_peer.h. The token lies behind a '#' because the broker
 * prints addresses that a browser opens, and no browser sends what lies there.
 */
#include "net/admin_peer.h"

#include <stdio.h>
#include <string.h>

static enum err take_socket(struct admin_peer *p, const char *path, struct error *e)
{
    size_t n = strlen(path);

    if (path[0] != '/' || n >= sizeof(p->socket)) {
        return err_set(e, ERR_CONFIG,
                       "admin port: expected an absolute socket path of at most %zu bytes",
                       sizeof(p->socket) - 1);
    }
    memcpy(p->socket, path, n + 1);
    p->peer.unix_socket = p->socket;
    (void)snprintf(p->base_url, sizeof(p->base_url), "http://localhost");
    return ERR_OK;
}

static enum err take_url(struct admin_peer *p, const char *url, const char *token, struct error *e)
{
    static const char mark[] = "#token=";
    const char *fragment = strchr(url, '#');
    size_t n = fragment == NULL ? strlen(url) : (size_t)(fragment - url);

    while (n > 0 && url[n - 1] == '/') {
        n--;
    }
    if (fragment != NULL && strncmp(fragment, mark, sizeof(mark) - 1) == 0) {
        token = fragment + sizeof(mark) - 1;
    }
    if (n >= sizeof(p->base_url) || (token != NULL && strlen(token) >= sizeof(p->token))) {
        return err_set(e, ERR_CONFIG, "admin port: the URL or its token is too long");
    }
    memcpy(p->base_url, url, n);
    p->base_url[n] = '\0';
    if (token != NULL && token[0] != '\0') {
        memcpy(p->token, token, strlen(token) + 1);
        p->peer.bearer = p->token;
    }
    return ERR_OK;
}

static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

enum err admin_peer_parse(const char *text, const char *token, const char *name,
                          struct admin_peer *out, struct error *e)
{
    const char *path = after(text, "http+unix://");
    const char *host = after(text, "http://");

    *out = (struct admin_peer){.peer = {.name = name, .base_url = out->base_url}};
    if (path == NULL) {
        path = after(text, "unix://");
    }
    if (path != NULL || text[0] == '/') {
        return take_socket(out, path == NULL ? text : path, e);
    }
    if (host != NULL && strcspn(host, "/#?") > 0) {
        return take_url(out, text, token, e);
    }
    return err_set(e, ERR_CONFIG,
                   "admin port: expected unix:///PATH or http://127.0.0.1:PORT[/#token=TOKEN]");
}

void admin_peer_fini(struct admin_peer *p)
{
    explicit_bzero(p->token, sizeof(p->token));
}

void admin_peer_address(const struct admin_peer *p, bool token, char out[ADMIN_PEER_TEXT_SIZE])
{
    if (p->socket[0] != '\0') {
        (void)snprintf(out, ADMIN_PEER_TEXT_SIZE, "unix://%s", p->socket);
        return;
    }
    bool with = token && p->token[0] != '\0';
    (void)snprintf(out, ADMIN_PEER_TEXT_SIZE, "%s%s%s", p->base_url, with ? "/#token=" : "",
                   with ? p->token : "");
}
