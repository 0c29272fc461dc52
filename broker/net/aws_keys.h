/*
 * One set of AWS credentials in OpenSSL's secure memory (ordinary memory when the process has no
 * such arena), and the reading of the JSON in which endpoints hand them out. Pure; any thread.
 */
#ifndef TACTUS_NET_AWS_KEYS_H
#define TACTUS_NET_AWS_KEYS_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define AWS_KEY_MAX   256u   /* bytes of an access key id or a secret access key */
#define AWS_TOKEN_MAX 16384u /* of a session token */

struct aws_keys {
    struct span access_key_id;
    struct span secret;
    struct span session_token; /* absent: none, as with a user's long-lived keys */
    int64_t expires_ms;        /* wall clock, milliseconds since 1970; 0: never */
};

/*
 * A checked copy of *from. ERR_CONFIG: an id or a secret is missing, longer than allowed, or has
 * anything but visible ASCII in it; the message says which, never what. ERR_NOMEM.
 */
enum err aws_keys_new(const struct aws_keys *from, struct aws_keys **out,
                      struct error *e) MUST_CHECK;

/* Wipes and frees; NULL is harmless. */
void aws_keys_free(struct aws_keys *keys);

/*
 * Reads {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}, strings with Expiration in
 * RFC 3339 UTC. From the instance metadata service "Code" must be "Success", and token and
 * expiration must be there; a container's endpoint may leave them out. Sources: "Container
 * credential provider" (AWS SDKs and Tools Reference Guide), "Retrieve security credentials from
 * instance metadata" (Amazon EC2 User Guide). ERR_PROTO with a message that repeats nothing of a
 * value; ERR_NOMEM.
 */
enum err aws_keys_read(struct span json, bool instance, struct aws_keys **out,
                       struct error *e) MUST_CHECK;

#endif
