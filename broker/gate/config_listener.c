/*
 * Listeners: their URLs, what fits which kind, and the snapshot's entries. Used by config.c while
 * the snapshot is made, and before the loops run for listeners of the command line.
 */
#include "gate/config_private.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

/* ---- URLs of listeners ---- */

/* NULL, or why `host` is none that a listener can bind. */
static const char *host_fault(const char *host)
{
    struct in6_addr address;

    if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &address) == 1 ||
        inet_pton(AF_INET6, host, &address) == 1) {
        return NULL;
    }
    return "has a host that is no address, expected an IPv4 address, an IPv6 address in brackets "
           "or "
           "localhost";
}

/* "HOST:PORT" or "[V6]:PORT" into l->host and l->port. */
static enum err parse_authority(struct listener_config *l, const char *text, const char **why)
{
    bool bracket = text[0] == '[';
    const char *host = bracket ? text + 1 : text;
    const char *end = strchr(host, bracket ? ']' : ':');
    const char *colon = bracket && end != NULL ? end + 1 : end;
    uint64_t port = 0;

    if (end == NULL || *colon != ':' || strlen(colon) > 6 ||
        !text_u64(span_str(colon + 1), &port) || port > UINT16_MAX) {
        *why = "has no good port, expected HOST:PORT with a port from 0 to 65535";
        return ERR_CONFIG;
    }
    l->host = strndup(host, (size_t)(end - host));
    if (l->host == NULL) {
        return ERR_NOMEM;
    }
    l->port = (uint16_t)port;
    *why = host_fault(l->host);
    if (*why == NULL && bracket != (strchr(l->host, ':') != NULL)) {
        *why = "has a host in brackets that is no IPv6 address";
    }
    return *why == NULL ? ERR_OK : ERR_CONFIG;
}

enum err config_parse_url(struct listener_config *l, const char *url, const char **why)
{
    const char *path = strncmp(url, "unix://", 7) == 0 ? url + 7 : url;

    if (strncmp(url, "tcp://", 6) == 0 || strncmp(url, "tls://", 6) == 0) {
        l->kind = url[1] == 'c' ? LISTENER_TCP : LISTENER_TLS;
        return parse_authority(l, url + 6, why);
    }
    l->kind = LISTENER_UNIX;
    if (path[0] != '/' || path[1] == '\0' || path[strlen(path) - 1] == '/') {
        *why = "is no URL of a listener, expected unix:///PATH, /PATH, tcp://HOST:PORT or "
               "tls://HOST:PORT";
        return ERR_CONFIG;
    }
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        *why = "has a path that is too long for a Unix socket, expected at most 107 bytes";
        return ERR_CONFIG;
    }
    l->path = strdup(path);
    return l->path == NULL ? ERR_NOMEM : ERR_OK;
}

bool config_same_place(const struct listener_config *a, const struct listener_config *b)
{
    if (a->path != NULL || b->path != NULL) {
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    }
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

void config_listener_fini(struct listener_config *l)
{
    free(l->url);
    free(l->path);
    free(l->host);
    free(l->cert_file);
    free(l->key_file);
    free(l->client_ca);
    free(l->ca_file);
}

/* ---- from the file ---- */

/* What fits the kind of listener, and the fixed parts. */
static enum err check_listener(const struct config_build *b, const struct listener_file *f,
                               enum listener_kind kind)
{
    static const char *const tls_only[] = {"cert", "key", "client_ca", "ca_file"};

    for (size_t i = 0; i < sizeof(tls_only) / sizeof(tls_only[0]); i++) {
        bool there = conf_has(b->doc, f, tls_only[i]);
        if (kind != LISTENER_TLS && there) {
            return conf_fault(b->doc, f, tls_only[i], b->e,
                              "is only for a listener with TLS, expected a url with tls://");
        }
        if (kind == LISTENER_TLS && !there && i < 2) {
            return conf_fault(b->doc, f, tls_only[i], b->e,
                              "is missing, expected a PEM file for the url with tls://");
        }
    }
    if (kind != LISTENER_UNIX && conf_has(b->doc, f, "mode")) {
        return conf_fault(b->doc, f, "mode", b->e,
                          "is only for a Unix socket, expected a url with unix://");
    }
    if (f->auth == AUTH_REQUIRED && f->grant != NULL) {
        return conf_fault(b->doc, f, "grant", b->e,
                          "is only for auth none: with auth required the client's own is taken");
    }
    if (f->auth != AUTH_REQUIRED && f->grant == NULL) {
        return conf_fault(b->doc, f, "grant", b->e,
                          "is missing, expected the name of a grant (or auth: required)");
    }
    return ERR_OK;
}

static enum err find_grant(struct config_build *b, const struct listener_file *f, size_t *grant)
{
    for (size_t i = 0; i < b->c->ngrants; i++) {
        if (strcmp(b->c->grants[i]->name, f->grant) == 0) {
            *grant = i;
            return ERR_OK;
        }
    }
    return conf_fault(b->doc, f, "grant", b->e, "names no grant, expected one of those in grants");
}

static enum err build_listener(struct config_build *b, struct listener_file *f)
{
    struct config *c = b->c;
    struct listener_config *l = &c->listeners[c->nlisteners++];
    const char *why = NULL;

    enum err err = config_parse_url(l, f->url, &why);
    if (err == ERR_NOMEM) {
        return config_no_memory(b->e);
    }
    if (err != ERR_OK) {
        return conf_fault(b->doc, f, "url", b->e, "%s", why);
    }
    err = check_listener(b, f, l->kind);
    l->auth_required = f->auth == AUTH_REQUIRED;
    if (err == ERR_OK && !l->auth_required) {
        err = find_grant(b, f, &l->grant);
    }
    for (size_t i = 0; i + 1 < c->nlisteners && err == ERR_OK; i++) {
        if (config_same_place(&c->listeners[i], l)) {
            err = conf_fault(b->doc, f, "url", b->e,
                             "is where another listener is too, expected a new one");
        }
    }
    l->half_close_finish =
        conf_has(b->doc, f, "half_close") ? f->half_close == 0 : l->kind == LISTENER_UNIX;
    l->mode = f->mode;
    l->url = config_steal(&f->url);
    l->cert_file = config_steal(&f->cert);
    l->key_file = config_steal(&f->key);
    l->client_ca = config_steal(&f->client_ca);
    l->ca_file = config_steal(&f->ca_file);
    return err;
}

enum err config_build_listeners(struct config_build *b)
{
    struct listener_file *files = b->file->listeners.items;
    enum err err = ERR_OK;

    b->c->listeners = calloc(b->file->listeners.n + 1, sizeof(*b->c->listeners));
    if (b->c->listeners == NULL) {
        return config_no_memory(b->e);
    }
    for (size_t i = 0; i < b->file->listeners.n && err == ERR_OK; i++) {
        err = build_listener(b, &files[i]);
    }
    return err;
}

/* ---- from the command line ---- */

enum err config_add_listener(struct config *c, const char *url, const char *cert_file,
                             const char *key_file, struct error *e)
{
    struct listener_config l = {.mode = CONFIG_MODE_DEFAULT};
    const char *why = NULL;
    enum err err;

    if (c->ngrants == 0) {
        return err_set(e, ERR_CONFIG, "listener %.200s: there is no grant for it", url);
    }
    err = config_parse_url(&l, url, &why);
    bool has_files = l.kind == LISTENER_TLS;
    bool fits = has_files == (cert_file != NULL) && has_files == (key_file != NULL);
    if (err == ERR_OK && !fits) {
        why = l.kind == LISTENER_TLS ? "needs a certificate and a key"
                                     : "has a certificate or a key, expected a URL with tls://";
    }
    for (size_t i = 0; i < c->nlisteners && err == ERR_OK && why == NULL; i++) {
        why = config_same_place(&c->listeners[i], &l) ? "is where another listener is too" : NULL;
    }
    if (why != NULL) {
        err = err_set(e, ERR_CONFIG, "listener %.200s: %s", url, why);
        goto out;
    }
    l.half_close_finish = l.kind == LISTENER_UNIX;
    l.url = strdup(url);
    l.cert_file = cert_file == NULL ? NULL : strdup(cert_file);
    l.key_file = key_file == NULL ? NULL : strdup(key_file);
    struct listener_config *grown = realloc(c->listeners, (c->nlisteners + 1) * sizeof(*grown));
    if (grown != NULL) {
        c->listeners = grown;
    }
    if (err != ERR_OK || grown == NULL || l.url == NULL ||
        (has_files && (l.cert_file == NULL || l.key_file == NULL))) {
        err = config_no_memory(e);
        goto out;
    }
    c->listeners[c->nlisteners++] = l;

out:
    if (err != ERR_OK) {
        config_listener_fini(&l);
    }
    return err;
}

enum err config_set_ca_file(struct config *c, const char *ca_file, struct error *e)
{
    struct listener_config *l = c->nlisteners == 0 ? NULL : &c->listeners[c->nlisteners - 1];

    if (l == NULL || l->kind != LISTENER_TLS) {
        return err_set(e, ERR_BUG, "a CA file needs a listener with TLS before it");
    }
    free(l->ca_file);
    l->ca_file = strdup(ca_file);
    return l->ca_file == NULL ? config_no_memory(e) : ERR_OK;
}
