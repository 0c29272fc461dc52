/*
 * What all provider types share: the HTTP request that is being built, and the list of types. A
 * new type is one row in provider_types[].
 */
#include "llm/provider.h"

#include "tactus/protocol.h"

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

enum reader_status provider_stop(struct failure *failure, enum err err)
{
    switch (err) {
    case ERR_NOMEM:
        failure_init(failure, TACTUS_E_INTERNAL, "out of memory");
        break;
    case ERR_LIMIT:
        failure_init(failure, TACTUS_E_API_RESPONSE,
                     "The provider's reply is larger than the configured maximum");
        failure->retryable = FAILURE_NO;
        break;
    case ERR_CLOSED:
        failure_init(failure, TACTUS_E_CANCELLED, "The request was cancelled");
        break;
    default:
        failure_init(failure, TACTUS_E_INTERNAL, "internal error (%s)", err_name(err));
        break;
    }
    return READER_FAILED;
}

const struct provider_ops *provider_ops_find(const char *type)
{
    static const struct provider_ops *const provider_types[] = {&provider_openai,
                                                                &provider_builtin};

    for (size_t i = 0; i < sizeof provider_types / sizeof provider_types[0]; i++) {
        if (span_eq(span_str(type), span_str(provider_types[i]->type))) {
            return provider_types[i];
        }
    }
    return NULL;
}
