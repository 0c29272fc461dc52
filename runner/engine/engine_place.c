/* Addresses of engines: see engine_private.h. Called by engine_find. */
#include "engine/engine_private.h"

#include "net/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err read_socket(const char *path, struct engine_place *out, struct error *e)
{
    size_t n = strlen(path);

    if (path[0] != '/') {
        return err_set(e, ERR_CONFIG, "expected an absolute path after unix://");
    }
    if (n >= sizeof(out->socket)) {
        return err_set(e, ERR_CONFIG, "a socket's path has at most %zu bytes, this one %zu",
                       sizeof(out->socket) - 1, n);
    }
    memcpy(out->socket, path, n + 1);
    snprintf(out->base_url, sizeof(out->base_url), "http://localhost");
    snprintf(out->address, sizeof(out->address), "unix://%s", path);
    return ERR_OK;
}

/* The names that docker's own client uses for the three files. */
static enum err read_tls(const char *dir, struct engine_place *out, struct error *e)
{
    int a = snprintf(out->ca_file, sizeof(out->ca_file), "%s/ca.pem", dir);
    int b = snprintf(out->cert_file, sizeof(out->cert_file), "%s/cert.pem", dir);
    int c = snprintf(out->key_file, sizeof(out->key_file), "%s/key.pem", dir);

    if (a < 0 || b < 0 || c < 0 || (size_t)b >= sizeof(out->cert_file)) {
        return err_set(e, ERR_CONFIG, "the directory of its certificates has too long a path");
    }
    return ERR_OK;
}

static enum err read_tcp(const char *text, const char *tls_dir, struct engine_place *out,
                         struct error *e)
{
    struct client_endpoint at;
    enum err rc = client_endpoint_parse(text, &at, e);

    if (rc != ERR_OK) {
        return rc;
    }
    bool v6 = strchr(at.host, ':') != NULL;
    int n = snprintf(out->address, sizeof(out->address), "%s", text);
    if (n < 0 || (size_t)n >= sizeof(out->address)) {
        return err_set(e, ERR_CONFIG, "the address is too long");
    }
    snprintf(out->base_url, sizeof(out->base_url), "%s://%s%s%s:%u",
             tls_dir == NULL ? "http" : "https", v6 ? "[" : "", at.host, v6 ? "]" : "",
             (unsigned)at.port);
    return tls_dir == NULL ? ERR_OK : read_tls(tls_dir, out, e);
}

enum err engine_place_read(const char *text, const char *tls_dir, struct engine_place *out,
                           struct error *e)
{
    memset(out, 0, sizeof(*out));
    if (strncmp(text, "unix://", 7) == 0) {
        return read_socket(text + 7, out, e);
    }
    if (text[0] == '/') {
        return read_socket(text, out, e);
    }
    if (strncmp(text, "tcp://", 6) == 0) {
        return read_tcp(text, tls_dir, out, e);
    }
    return err_set(e, ERR_CONFIG,
                   "expected unix:///PATH or tcp://HOST:PORT (ssh:// and npipe:// "
                   "are not spoken here)");
}
