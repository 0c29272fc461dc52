/* See registry_auth.h. Source: Docker Engine API reference, "Authentication". Called by a pull. */
#include "engine/registry_auth.h"

#include "base/json.h"
#include "engine/engine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCKER_HUB  "https://index.docker.io/v1/" /* as docker login writes it */
#define HOST_MAX    256
#define SECRETS_MAX 8192

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void put_base64url(struct buf *out, struct span in)
{
    for (size_t i = 0; i < in.n; i += 3) {
        size_t n = in.n - i < 3 ? in.n - i : 3;
        unsigned word = (unsigned)(unsigned char)in.p[i] << 16;
        word |= n > 1 ? (unsigned)(unsigned char)in.p[i + 1] << 8 : 0;
        word |= n > 2 ? (unsigned)(unsigned char)in.p[i + 2] : 0;
        for (size_t k = 0; k < 4; k++) {
            buf_put_char(out, k <= n ? alphabet[word >> (18 - 6 * k) & 63] : '=');
        }
    }
}

static int value_of(char c)
{
    const char *at = c == '+'   ? strchr(alphabet, '-')
                     : c == '/' ? strchr(alphabet, '_')
                                : strchr(alphabet, c);

    return at == NULL || c == '\0' ? 64 : (int)(at - alphabet);
}

static void decode_base64(struct span in, struct buf *out)
{
    unsigned word = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < in.n; i++) {
        int v = value_of(in.p[i]);
        if (v == 64) {
            return;
        }
        word = word << 6 | (unsigned)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_put_char(out, (char)(word >> bits & 255));
        }
    }
}

/* ---- registries ---- */

/* The host of an image's registry: the name's first part, when that is one. */
static void registry_of(const char *image, char out[HOST_MAX])
{
    size_t n = strcspn(image, "/");

    snprintf(out, HOST_MAX, "docker.io");
    if (n < HOST_MAX && image[n] == '/' &&
        (memchr(image, '.', n) != NULL || memchr(image, ':', n) != NULL ||
         strncmp(image, "localhost/", 10) == 0)) {
        memcpy(out, image, n);
        out[n] = '\0';
    }
}

/* A key of `auths` as a host: "https://index.docker.io/v1/" and its like are docker.io. */
static void host_of_key(struct json_value key, char out[HOST_MAX])
{
    struct span s = span_of(key.text.p + 1, key.text.n - 2);
    const char *scheme = memmem(s.p, s.n, "://", 3);

    if (scheme != NULL) {
        s = span_after(s, (size_t)(scheme - s.p) + 3);
    }
    const char *slash = s.n == 0 ? NULL : memchr(s.p, '/', s.n);
    s.n = slash == NULL ? s.n : (size_t)(slash - s.p);
    s.n = key.escaped || s.n >= HOST_MAX ? 0 : s.n;
    memcpy(out, s.p, s.n);
    out[s.n] = '\0';
    if (strcmp(out, "index.docker.io") == 0 || strcmp(out, "registry-1.docker.io") == 0) {
        snprintf(out, HOST_MAX, "docker.io");
    }
}

/* The entry of `auths` for that host; one that is spelled as the host itself wins. */
static struct json_value entry_for(struct json_value auths, const char *host)
{
    struct json_value found = json_find(auths, host);
    struct json_member m;
    size_t cursor = 0;
    char name[HOST_MAX];

    while (found.type != JSON_OBJECT && json_object_next(auths, &cursor, &m)) {
        host_of_key(m.key, name);
        if (strcmp(name, host) == 0) {
            found = m.value;
        }
    }
    return found;
}

/* ---- logins ---- */

static void put_member(struct buf *json, const char *key, struct span value)
{
    buf_put_str(json, json->len == 0 ? "{" : ",");
    json_put_string(json, span_str(key));
    buf_put_char(json, ':');
    json_put_string(json, value);
}

static void decode_member(struct json_value entry, const char *name, struct buf *out)
{
    struct json_value v = json_find(entry, name);

    if (v.type == JSON_STRING) {
        json_string_decode(v, out, NULL);
    }
}

/* "user:password" in base64; older clients pad the password with NULs. */
static void put_user(struct json_value entry, struct buf *json)
{
    struct buf auth;
    struct buf login;

    buf_init(&auth, SECRETS_MAX);
    buf_init(&login, SECRETS_MAX);
    decode_member(entry, "auth", &auth);
    decode_base64(buf_span(&auth), &login);
    const char *colon = login.len == 0 ? NULL : memchr(login.p, ':', login.len);
    if (colon != NULL) {
        struct span user = span_of(login.p, (size_t)(colon - login.p));
        struct span password = span_after(buf_span(&login), user.n + 1);
        while (password.n > 0 && password.p[password.n - 1] == '\0') {
            password.n--;
        }
        put_member(json, "username", user);
        put_member(json, "password", password);
    }
    buf_wipe(&auth);
    buf_wipe(&login);
}

/* A token that a login was given takes the place of its password. */
static void put_login(struct json_value entry, const char *host, struct buf *json)
{
    struct buf token;

    buf_init(&token, SECRETS_MAX);
    decode_member(entry, "identitytoken", &token);
    if (token.len > 0) {
        put_member(json, "identitytoken", buf_span(&token));
    } else {
        put_user(entry, json);
    }
    buf_wipe(&token);
    if (json->len > 0) {
        put_member(json, "serveraddress",
                   span_str(strcmp(host, "docker.io") == 0 ? DOCKER_HUB : host));
        buf_put_char(json, '}');
    }
}

void registry_auth(const char *path, const char *image, struct buf *out)
{
    char host[HOST_MAX];
    char *text = NULL;
    size_t n = 0;
    struct json_value top;
    struct buf json;

    if (!engine_load_json(path, &text, &n, &top)) {
        return;
    }
    registry_of(image, host);
    buf_init(&json, 4 * SECRETS_MAX);
    put_login(entry_for(json_find(top, "auths"), host), host, &json);
    if (buf_status(&json) == ERR_OK) {
        put_base64url(out, buf_span(&json));
    }
    buf_wipe(&json);
    explicit_bzero(text, n);
    free(text);
}
