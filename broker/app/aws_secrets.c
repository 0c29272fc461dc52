/*
 * AWS's variables of the environment: read once, before there are threads, for providers that sign
 * their requests; what is secret in them is known to every redactor, and overwritten in place.
 */
#include "app/app_private.h"

#include "base/redact.h"
#include "net/aws_environment.h"

#include <stdlib.h>

static const enum aws_variable SECRET_VARIABLES[] = {
    AWS_ENV_SECRET_ACCESS_KEY, AWS_ENV_SESSION_TOKEN, AWS_ENV_CONTAINER_TOKEN};

#define NSECRET (sizeof(SECRET_VARIABLES) / sizeof(SECRET_VARIABLES[0]))

static const char *lookup(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

enum err aws_secrets_read(struct broker *b, struct error *e)
{
    enum err rc = aws_environment_new(lookup, NULL, &b->aws, e);

    for (size_t i = 0; i < NSECRET && rc == ERR_OK; i++) {
        char *name = strdup(aws_environment_name(SECRET_VARIABLES[i]));
        if (name == NULL) {
            return err_set(e, ERR_NOMEM, "out of memory for AWS's environment");
        }
        struct secret variable = {.kind = SECRET_ENV, .source = name};
        secret_forget_env(&variable);
        secret_fini(&variable);
    }
    return rc;
}

enum err aws_secrets_redact(const struct broker *b, struct config *c, struct error *e)
{
    for (size_t i = 0; i < NSECRET; i++) {
        const char *value = aws_environment_get(b->aws, SECRET_VARIABLES[i]);
        if (value != NULL && redact_add(c->redact, span_str(value)) == ERR_NOMEM) {
            return err_set(e, ERR_NOMEM, "out of memory for the redactor");
        }
    }
    return ERR_OK;
}
