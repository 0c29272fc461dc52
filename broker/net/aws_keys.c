/*
 * AWS credentials: see aws_keys.h. A set is one block of secure memory with the bytes behind the
 * struct, so that there is one thing to wipe. Decoding goes through a buffer that is made as large
 * as it can get before, and wiped.
 */
#include "net/aws_keys.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json_span.h"

#include <openssl/crypto.h>

static size_t block_size(const struct aws_keys *k)
{
    return sizeof(*k) + k->access_key_id.n + k->secret.n + k->session_token.n;
}

static enum err check(struct span s, size_t max, const char *what, struct error *e)
{
    if (s.n == 0) {
        return err_set(e, ERR_CONFIG, "the %s is missing", what);
    }
    if (s.n > max) {
        return err_set(e, ERR_CONFIG, "the %s is longer than %zu bytes", what, max);
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~') {
            return err_set(e, ERR_CONFIG, "the %s has a character that cannot be in one", what);
        }
    }
    return ERR_OK;
}

static struct span copy(char **to, struct span from)
{
    if (from.n == 0) {
        return (struct span){NULL, 0};
    }
    char *at = *to;
    memcpy(at, from.p, from.n);
    *to += from.n;
    return span_of(at, from.n);
}

enum err aws_keys_new(const struct aws_keys *from, struct aws_keys **out, struct error *e)
{
    enum err rc = check(from->access_key_id, AWS_KEY_MAX, "access key id", e);

    if (rc == ERR_OK) {
        rc = check(from->secret, AWS_KEY_MAX, "secret access key", e);
    }
    if (rc == ERR_OK && from->session_token.n > 0) {
        rc = check(from->session_token, AWS_TOKEN_MAX, "session token", e);
    }
    if (rc != ERR_OK) {
        return rc;
    }
    struct aws_keys *k = OPENSSL_secure_malloc(block_size(from));
    if (k == NULL) {
        return err_set(e, ERR_NOMEM, "no secure memory for AWS credentials");
    }
    char *at = (char *)(k + 1);
    k->access_key_id = copy(&at, from->access_key_id);
    k->secret = copy(&at, from->secret);
    k->session_token = copy(&at, from->session_token);
    k->expires_ms = from->expires_ms;
    *out = k;
    return ERR_OK;
}

void aws_keys_free(struct aws_keys *keys)
{
    if (keys != NULL) {
        OPENSSL_secure_clear_free(keys, block_size(keys));
    }
}

/* ---- JSON ---- */

struct answer {
    struct json_members members;
    struct buf text; /* what was decoded, one after the other */
};

/* The member's text, absent when there is none (or null, which some endpoints send). */
static enum err take(struct answer *a, const char *name, struct span *out, struct error *e)
{
    struct json_value v = json_get(&a->members, name);

    *out = (struct span){NULL, 0};
    if (v.type == JSON_ABSENT || v.type == JSON_NULL) {
        return ERR_OK;
    }
    if (v.type != JSON_STRING) {
        return err_set(e, ERR_PROTO, "%s in the answer is no string", name);
    }
    size_t start = a->text.len;
    json_string_decode(v, &a->text, NULL);
    enum err rc = buf_status(&a->text);
    if (rc != ERR_OK) {
        return err_set(e, rc, "out of memory for AWS credentials");
    }
    *out = span_of(a->text.p + start, a->text.len - start);
    return ERR_OK;
}

static enum err take_expiration(struct answer *a, bool required, int64_t *out, struct error *e)
{
    struct span text;
    enum err rc = take(a, "Expiration", &text, e);

    *out = 0;
    if (rc != ERR_OK || (text.n == 0 && !required)) {
        return rc;
    }
    if (!clock_parse(text, out) || *out <= 0) {
        return err_set(e, ERR_PROTO, "Expiration in the answer is missing or no time");
    }
    return ERR_OK;
}

static enum err read_members(struct answer *a, bool instance, struct aws_keys *k, struct error *e)
{
    struct json_value code = json_get(&a->members, "Code");

    if (instance && (code.type != JSON_STRING || !json_string_is(code, "Success"))) {
        return err_set(e, ERR_PROTO, "the answer's Code is not Success");
    }
    enum err rc = take(a, "AccessKeyId", &k->access_key_id, e);
    if (rc == ERR_OK) {
        rc = take(a, "SecretAccessKey", &k->secret, e);
    }
    if (rc == ERR_OK) {
        rc = take(a, "Token", &k->session_token, e);
    }
    if (rc == ERR_OK) {
        rc = take_expiration(a, instance, &k->expires_ms, e);
    }
    if (rc == ERR_OK && instance && k->session_token.n == 0) {
        rc = err_set(e, ERR_PROTO, "the session token is missing");
    }
    return rc;
}

enum err aws_keys_read(struct span json, bool instance, struct aws_keys **out, struct error *e)
{
    const struct json_rules rules = {.max_depth = 8};
    struct json_fault fault;
    struct aws_keys k = {0};
    struct answer a;

    if (json_check_object(json, &rules, &a.members, &fault) != ERR_OK) {
        return err_set(e, ERR_PROTO, "the answer is no JSON object");
    }
    /* Room for all: growth would leave copies of the secret, and move what spans point to. */
    buf_init(&a.text, json.n);
    enum err rc = buf_reserve(&a.text, json.n);
    if (rc != ERR_OK) {
        return err_set(e, rc, "out of memory for AWS credentials");
    }
    rc = read_members(&a, instance, &k, e);
    if (rc == ERR_OK) {
        struct error why = {0};
        rc = aws_keys_new(&k, out, &why);
        if (rc != ERR_OK) {
            rc = err_set(e, rc == ERR_CONFIG ? ERR_PROTO : rc, "the answer: %s", why.msg);
        }
    }
    buf_wipe(&a.text);
    return rc;
}
