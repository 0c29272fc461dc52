/*
 * What the environment says about AWS, read once: the process may overwrite secrets there
 * afterwards. Never changes; may be shared by all loops. Values are in secure memory.
 *
 * Source of the names: "Settings reference" of the AWS SDKs and Tools Reference Guide.
 */
#ifndef TACTUS_NET_AWS_ENVIRONMENT_H
#define TACTUS_NET_AWS_ENVIRONMENT_H

#include "base/err.h"

#define AWS_VARIABLE_MAX 32768u /* bytes of a value */

enum aws_variable {
    AWS_ENV_ACCESS_KEY_ID,
    AWS_ENV_SECRET_ACCESS_KEY,
    AWS_ENV_SESSION_TOKEN,
    AWS_ENV_PROFILE,
    AWS_ENV_SHARED_CREDENTIALS_FILE,
    AWS_ENV_CONFIG_FILE,
    AWS_ENV_HOME,
    AWS_ENV_ROLE_ARN,
    AWS_ENV_WEB_IDENTITY_TOKEN_FILE,
    AWS_ENV_CONTAINER_RELATIVE_URI,
    AWS_ENV_CONTAINER_FULL_URI,
    AWS_ENV_CONTAINER_TOKEN,
    AWS_ENV_CONTAINER_TOKEN_FILE,
    AWS_ENV_METADATA_DISABLED,
    AWS_ENV_METADATA_ENDPOINT,
    AWS_ENV_METADATA_ENDPOINT_MODE,
    AWS_VARIABLES
};

struct aws_environment;

/* `lookup` gives a variable's value or NULL (as getenv); called in here only. ERR_CONFIG: a value
 * longer than AWS_VARIABLE_MAX; ERR_NOMEM. */
enum err aws_environment_new(const char *(*lookup)(void *ctx, const char *name), void *ctx,
                             struct aws_environment **out, struct error *e) MUST_CHECK;

/* After everybody who was given it. Wipes; NULL is harmless. */
void aws_environment_free(struct aws_environment *env);

/* NULL: not set, or empty. */
const char *aws_environment_get(const struct aws_environment *env, enum aws_variable v);

/* "AWS_ACCESS_KEY_ID" */
const char *aws_environment_name(enum aws_variable v);

#endif
