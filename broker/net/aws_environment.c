/* The environment's AWS variables, copied: see aws_environment.h. All values go into secure memory:
 * which of them somebody has put a secret into is not ours to guess. */
#include "net/aws_environment.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[AWS_VARIABLES] = {
    [AWS_ENV_ACCESS_KEY_ID] = "AWS_ACCESS_KEY_ID",
    [AWS_ENV_SECRET_ACCESS_KEY] = "AWS_SECRET_ACCESS_KEY",
    [AWS_ENV_SESSION_TOKEN] = "AWS_SESSION_TOKEN",
    [AWS_ENV_PROFILE] = "AWS_PROFILE",
    [AWS_ENV_SHARED_CREDENTIALS_FILE] = "AWS_SHARED_CREDENTIALS_FILE",
    [AWS_ENV_CONFIG_FILE] = "AWS_CONFIG_FILE",
    [AWS_ENV_HOME] = "HOME",
    [AWS_ENV_ROLE_ARN] = "AWS_ROLE_ARN",
    [AWS_ENV_WEB_IDENTITY_TOKEN_FILE] = "AWS_WEB_IDENTITY_TOKEN_FILE",
    [AWS_ENV_CONTAINER_RELATIVE_URI] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    [AWS_ENV_CONTAINER_FULL_URI] = "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    [AWS_ENV_CONTAINER_TOKEN] = "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    [AWS_ENV_CONTAINER_TOKEN_FILE] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    [AWS_ENV_METADATA_DISABLED] = "AWS_EC2_METADATA_DISABLED",
    [AWS_ENV_METADATA_ENDPOINT] = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    [AWS_ENV_METADATA_ENDPOINT_MODE] = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"};

struct aws_environment {
    char *value[AWS_VARIABLES];
};

static enum err keep(struct aws_environment *env, unsigned i, const char *value, struct error *e)
{
    if (value == NULL || value[0] == '\0') {
        return ERR_OK;
    }
    size_t n = strnlen(value, AWS_VARIABLE_MAX + 1);
    if (n > AWS_VARIABLE_MAX) {
        return err_set(e, ERR_CONFIG, "variable %s is longer than %u bytes", names[i],
                       AWS_VARIABLE_MAX);
    }
    env->value[i] = OPENSSL_secure_malloc(n + 1);
    if (env->value[i] == NULL) {
        return err_set(e, ERR_NOMEM, "no secure memory for variable %s", names[i]);
    }
    memcpy(env->value[i], value, n + 1);
    return ERR_OK;
}

enum err aws_environment_new(const char *(*lookup)(void *ctx, const char *name), void *ctx,
                             struct aws_environment **out, struct error *e)
{
    struct aws_environment *env = calloc(1, sizeof(*env));

    if (env == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the environment's AWS variables");
    }
    for (unsigned i = 0; i < AWS_VARIABLES; i++) {
        enum err rc = keep(env, i, lookup(ctx, names[i]), e);
        if (rc != ERR_OK) {
            aws_environment_free(env);
            return rc;
        }
    }
    *out = env;
    return ERR_OK;
}

void aws_environment_free(struct aws_environment *env)
{
    if (env == NULL) {
        return;
    }
    for (unsigned i = 0; i < AWS_VARIABLES; i++) {
        if (env->value[i] != NULL) {
            OPENSSL_secure_clear_free(env->value[i], strlen(env->value[i]) + 1);
        }
    }
    free(env);
}

const char *aws_environment_get(const struct aws_environment *env, enum aws_variable v)
{
    return v < AWS_VARIABLES ? env->value[v] : NULL;
}

const char *aws_environment_name(enum aws_variable v)
{
    return v < AWS_VARIABLES ? names[v] : "";
}
