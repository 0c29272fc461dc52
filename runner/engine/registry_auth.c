/* See registry_auth.h. Source: Docker Engine API reference, "Authentication". */
#include "engine/registry_auth.h"

#include "base/conf.h"
#include "base/json.h"
#include "engine/engine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCKER_HUB "https://index.docker.io/v1/"

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

/* The registry of an image name: its first part, when that is a host. */
static void registry_of(const char *image, char *out, size_t size)
{
    const char *slash = strchr(image, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - image);

    snprintf(out, size, "%s", DOCKER_HUB);
    if (n > 0 && n < size &&
        (memchr(image, '.', n) != NULL || memchr(image, ':', n) != NULL ||
         strncmp(image, "localhost/", 10) == 0)) {
        memcpy(out, image, n);
        out[n] = '\0';
    }
}

static void put_login(struct json_value entry, const char *registry, struct buf *json)
{
    char auth[4096];
    struct buf login;

    buf_init(&login, sizeof(auth));
    if (engine_text(entry, "auth", auth, sizeof(auth))) {
        decode_base64(span_str(auth), &login);
        const char *colon = login.len == 0 ? NULL : memchr(login.p, ':', login.len);
        if (colon != NULL) {
            struct span user = span_of(login.p, (size_t)(colon - login.p));
            buf_put_str(json, "{\"username\":");
            json_put_string(json, user);
            buf_put_str(json, ",\"password\":");
            json_put_string(json, span_after(buf_span(&login), user.n + 1));
            buf_put_str(json, ",\"serveraddress\":");
            json_put_string(json, span_str(registry));
            buf_put_char(json, '}');
        }
    }
    explicit_bzero(auth, sizeof(auth));
    buf_wipe(&login);
}

void registry_auth(const char *image, struct buf *out)
{
    const char *home = getenv("HOME");
    char path[PATH_MAX];
    char registry[256];
    char *text = NULL;
    size_t n = 0;
    struct json_rules rules = {.max_depth = 32};
    struct json_fault fault;
    struct json_value top;
    struct buf json;

    snprintf(path, sizeof(path), "%s/.docker/config.json", home == NULL ? "" : home);
    if (conf_load(path, &text, &n, NULL) != ERR_OK) {
        return;
    }
    registry_of(image, registry, sizeof(registry));
    buf_init(&json, 8192);
    if (json_check_value(span_of(text, n), &rules, &top, &fault) == ERR_OK) {
        put_login(json_find(json_find(top, "auths"), registry), registry, &json);
    }
    if (json.len > 0) {
        put_base64url(out, buf_span(&json));
    }
    buf_wipe(&json);
    explicit_bzero(text, n);
    free(text);
}
