/*
 * What all provider types share: the HTTP request that is being built, and the list of types. A
 * new type is one row in provider_types[].
 */
#include "llm/provider.h"

#include "tactus/protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define URL_MAX   (8u * 1024u)
#define VALUE_MAX (16u * 1024u)

void provider_http_init(struct provider_http *h, size_t max_body)
{
    buf_init(&h->url, URL_MAX);
    buf_init(&h->body, max_body);
    for (size_t i = 0; i < PROVIDER_HEADERS_MAX; i++) {
        buf_init(&h->header_text[i], VALUE_MAX);
        h->header_name[i] = NULL;
    }
    h->nheaders = 0;
    h->plain_headers = 0;
}

void provider_http_fini(struct provider_http *h)
{
    buf_fini(&h->url);
    buf_fini(&h->body);
    for (size_t i = 0; i < PROVIDER_HEADERS_MAX; i++) {
        buf_wipe(&h->header_text[i]);
        h->header_name[i] = NULL;
    }
    h->nheaders = 0;
}

struct buf *provider_http_header(struct provider_http *h, const char *name)
{
    size_t i = h->nheaders;

    /* A provider type sets a fixed handful; one more would be a mistake in its code. */
    if (i == PROVIDER_HEADERS_MAX) {
        i = PROVIDER_HEADERS_MAX - 1;
    } else {
        h->nheaders = i + 1;
    }
    h->header_name[i] = name;
    return &h->header_text[i];
}

enum err provider_put_model(struct buf *url, struct span model, struct failure *failure)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";

    if (span_eq(model, SPAN(".")) || span_eq(model, SPAN(".."))) {
        return provider_cannot(failure, "model: expected the name of a model");
    }
    for (size_t i = 0; i < model.n; i++) {
        unsigned char c = (unsigned char)model.p[i];
        if (c != '\0' && strchr(plain, c) != NULL) {
            buf_put_char(url, (char)c);
        } else {
            buf_put_char(url, '%');
            buf_put_char(url, hex[c >> 4]);
            buf_put_char(url, hex[c & 15]);
        }
    }
    return buf_status(url);
}

static bool header_safe(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\r' || s.p[i] == '\n' || s.p[i] == '\0') {
            return false;
        }
    }
    return true;
}

enum err provider_http_secret(struct provider_http *h, const char *name, const char *before,
                              struct span secret, struct failure *failure)
{
    if (!header_safe(secret)) {
        failure_init(failure, TACTUS_E_API_AUTHENTICATION,
                     "The provider's key has a character that a header cannot hold");
        failure->retryable = FAILURE_NO;
        return ERR_PROTO;
    }
    struct buf *value = provider_http_header(h, name);
    /* Room first: growth would leave copies of the secret that buf_wipe cannot reach. */
    (void)buf_reserve(value, strlen(before) + secret.n);
    buf_put_str(value, before);
    buf_put_span(value, secret);
    return buf_status(value);
}

enum err provider_http_status(const struct provider_http *h)
{
    enum err err = buf_status(&h->url);

    if (err == ERR_OK) {
        err = buf_status(&h->body);
    }
    for (size_t i = 0; i < h->nheaders && err == ERR_OK; i++) {
        err = buf_status(&h->header_text[i]);
    }
    return err;
}

void provider_http_strip(struct provider_http *h)
{
    while (h->nheaders > h->plain_headers) {
        h->nheaders--;
        buf_wipe(&h->header_text[h->nheaders]);
        h->header_name[h->nheaders] = NULL;
    }
}

enum err provider_cannot(struct failure *failure, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    failure_init(failure, TACTUS_E_BAD_REQUEST, "%s", text);
    return ERR_PROTO;
}

const struct provider_ops *provider_ops_find(const char *type)
{
    static const struct provider_ops *const provider_types[] = {
        &provider_openai, &provider_azure_openai, &provider_anthropic,
        &provider_gemini, &provider_bedrock,      &provider_builtin};

    for (size_t i = 0; i < sizeof provider_types / sizeof provider_types[0]; i++) {
        if (span_eq(span_str(type), span_str(provider_types[i]->type))) {
            return provider_types[i];
        }
    }
    return NULL;
}
