/* See aws_access.h. Profiles are few: a list. */
#include "llm/aws_access.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct chain {
    struct list node;
    struct aws_credentials *credentials;
    bool usual;     /* without a profile */
    char profile[]; /* "" when usual */
};

struct aws_access {
    struct loop *loop;
    struct http_client *client;
    const struct aws_environment *environment;
    struct list chains;
};

struct aws_access *aws_access_new(struct loop *loop, struct http_client *client,
                                  const struct aws_environment *environment)
{
    struct aws_access *a = calloc(1, sizeof(*a));

    if (a != NULL) {
        *a = (struct aws_access){.loop = loop, .client = client, .environment = environment};
        list_init(&a->chains);
    }
    return a;
}

void aws_access_free(struct aws_access *a)
{
    if (a == NULL) {
        return;
    }
    while (!list_empty(&a->chains)) {
        struct chain *c = LIST_ENTRY(a->chains.next, struct chain, node);
        list_remove(&c->node);
        aws_credentials_free(c->credentials);
        free(c);
    }
    free(a);
}

static struct chain *find(struct aws_access *a, const char *profile)
{
    for (struct list *n = a->chains.next; n != &a->chains; n = n->next) {
        struct chain *c = LIST_ENTRY(n, struct chain, node);
        if (c->usual == (profile == NULL) &&
            strcmp(c->profile, profile == NULL ? "" : profile) == 0) {
            return c;
        }
    }
    return NULL;
}

static enum err add(struct aws_access *a, const char *profile, struct chain **out, struct error *e)
{
    struct aws_credentials_options options = {.profile = profile, .environment = a->environment};
    size_t n = profile == NULL ? 0 : strlen(profile);
    struct chain *c = calloc(1, sizeof(*c) + n + 1);

    if (c == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for AWS credentials");
    }
    c->usual = profile == NULL;
    if (n > 0) {
        memcpy(c->profile, profile, n);
    }
    enum err rc = aws_credentials_new(&c->credentials, a->loop, a->client, &options, e);
    if (rc != ERR_OK) {
        free(c);
        return rc;
    }
    list_push_back(&a->chains, &c->node);
    *out = c;
    return ERR_OK;
}

enum err aws_access_get(struct aws_access *a, const char *profile, struct aws_waiter *w,
                        struct error *e)
{
    struct chain *c = find(a, profile);
    enum err rc = ERR_OK;

    if (a->environment == NULL) {
        return err_set(e, ERR_CONFIG, "the environment was not read for AWS credentials");
    }
    if (c == NULL) {
        rc = add(a, profile, &c, e);
    }
    if (rc == ERR_OK) {
        aws_credentials_get(c->credentials, w);
    }
    return rc;
}

void aws_access_refused(struct aws_access *a, const char *profile)
{
    struct chain *c = find(a, profile);

    if (c != NULL) {
        aws_credentials_refused(c->credentials);
    }
}
