/*
 * AWS credentials for one loop: found by the chain that AWS's tools use, kept until shortly before
 * they expire, fetched once for all who wait. Everything here is for the loop's thread.
 *
 * The chain. The first source that has something decides; what is set but cannot be used ends the
 * search with an error, because another source would be another identity than the one meant.
 *   1. keys from the options
 *   2. a profile named in the options (named there, it comes before the environment)
 *   3. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. One of the two alone is an
 * error, and without them AWS_WEB_IDENTITY_TOKEN_FILE: roles by web identity are not supported.
 *   4. the profile AWS_PROFILE or "default" in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and
 *      AWS_CONFIG_FILE (~/.aws/config): see aws_profile.h. A profile that needs a role, single
 *      sign-on or a program, or that AWS_PROFILE names and no file has, is an error.
 *   5. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI at 169.254.170.2, else
 *      AWS_CONTAINER_CREDENTIALS_FULL_URI, which is https or aws_url_is_local(). The Authorization
 *      header is what AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE holds (read for each fetch: agents
 *      renew it), else AWS_CONTAINER_AUTHORIZATION_TOKEN.
 *   6. the instance metadata service, version 2 only, unless AWS_EC2_METADATA_DISABLED is "true":
 *      PUT /latest/api/token, GET /latest/meta-data/iam/security-credentials/, and the same with
 *      the role's name. At AWS_EC2_METADATA_SERVICE_ENDPOINT, else 169.254.169.254, or
 *      fd00:ec2::254 when AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is IPv6. Its answers travel as
 *      many hops as the instance allows, usually one: none reaches a container with a network of
 *      its own then, and the time-out tells.
 * Sources: "Standardized credential providers" with its pages "Container credential provider" and
 * "IMDS credential provider" in the AWS SDKs and Tools Reference Guide; "Use the Instance Metadata
 * Service" in the Amazon EC2 User Guide.
 *
 * Files are read on the loop when credentials are fetched: regular ones, at most 1 MiB. Redirects
 * are not followed, no proxy is used. An HTTP source has connect_ms for a connection, one retry of
 * a request that got no answer or 429 or 5xx, and total_ms for all together.
 */
#ifndef TACTUS_NET_AWS_CREDENTIALS_H
#define TACTUS_NET_AWS_CREDENTIALS_H

#include "base/err.h"
#include "base/list.h"
#include "base/span.h"
#include "net/aws_environment.h"
#include "net/aws_keys.h"

#include <stdint.h>

struct http_client;
struct loop;
struct aws_credentials;

#define AWS_CREDENTIALS_EARLY_MS 300000 /* renewed so long before they expire */
#define AWS_CREDENTIALS_AGAIN_MS 30000  /* after a renewal failed, or gave keys that expire soon */
#define AWS_FILE_MAX             (1024u * 1024u)

struct aws_credentials_options {
    struct span access_key_id; /* absent with secret: not from here. Copied. */
    struct span secret;
    struct span session_token;
    const char *profile;                       /* NULL: not named. Copied. */
    const struct aws_environment *environment; /* borrowed until aws_credentials_free */
    int64_t (*now)(void *ctx);                 /* wall clock in milliseconds; NULL: the system's */
    void *now_ctx;
    const char *container_host; /* NULL: "http://169.254.170.2". Borrowed as environment. */
    uint32_t connect_ms;        /* 0: 1000 */
    uint32_t total_ms;          /* 0: 2000 */
};

/* Who waits for credentials. Embedded in its owner; free to move or go while it does not wait. */
struct aws_waiter {
    struct list node;
    /* Once for each aws_credentials_get. `keys` are valid during the call (or until
     * aws_credentials_free in it); NULL: `e` says which sources were asked and why none gave any.
     */
    void (*fn)(void *ctx, const struct aws_keys *keys, const struct error *e);
    void *ctx;
};

/* ERR_CONFIG: keys in the options that are incomplete or cannot be keys; ERR_NOMEM. Fetches nothing
 * yet. `client` and `loop` are borrowed. */
enum err aws_credentials_new(struct aws_credentials **out, struct loop *loop,
                             struct http_client *client,
                             const struct aws_credentials_options *options,
                             struct error *e) MUST_CHECK;

/* Who still waits is told ERR_CLOSED in here, and must not ask again. Allowed in a waiter's
 * function. Before http_client_free and loop_free; NULL is harmless. */
void aws_credentials_free(struct aws_credentials *c);

void aws_waiter_init(struct aws_waiter *w,
                     void (*fn)(void *ctx, const struct aws_keys *keys, const struct error *e),
                     void *ctx);

/*
 * Calls w->fn later, never in here: with the keys that are kept, or when a fetch is over. Keys that
 * are to be renewed are used until they expire when the renewal fails (which is logged); such an
 * attempt is made at most every AWS_CREDENTIALS_AGAIN_MS. Asking again while it waits changes
 * nothing.
 */
void aws_credentials_get(struct aws_credentials *c, struct aws_waiter *w);

/* It is not called any more; the fetch goes on for the others. Harmless when it does not wait. */
void aws_waiter_cancel(struct aws_waiter *w);

/* AWS has refused the keys as expired or unknown: the next who asks waits for a new fetch; should
 * that fail they are still used. At most one in AWS_CREDENTIALS_AGAIN_MS. */
void aws_credentials_refused(struct aws_credentials *c);

#endif
