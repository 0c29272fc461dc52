/*
 * AWS Signature Version 4, header form: what a request needs so that AWS believes whose it is.
 * Pure: no clock, no I/O; any thread.
 *
 * Sources: "Create a signed AWS API request" in the AWS IAM User Guide (canonical request, string
 * to sign, derived key, Authorization); "Signature Calculations for the Authorization Header" in
 * the Amazon S3 API Reference (S3: path encoded once and not normalised, x-amz-content-sha256);
 * the signing test suite of awslabs/aws-c-auth (repeated headers and query names, white space).
 *
 * What is signed is what goes out: `url` is the URL given to the HTTP client. Its path already has
 * each segment percent-encoded (":" too: ".../anthropic.claude-v1%3A0/converse"); encoding it once
 * more gives the double encoding that every service but S3 signs.
 */
#ifndef TACTUS_NET_AWS_SIGN_H
#define TACTUS_NET_AWS_SIGN_H

#include "base/err.h"
#include "base/span.h"
#include "net/http_client.h"
#include "net/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AWS_DATE_SIZE          17   /* "20150830T123600Z" and the NUL */
#define AWS_AUTHORIZATION_SIZE 1024 /* the NUL included */
#define AWS_SIGN_HEADERS_MAX   16   /* of the caller's */
#define AWS_SIGN_QUERY_MAX     64   /* parameters */
#define AWS_SIGN_SEGMENTS_MAX  64   /* of a path */
#define AWS_SECRET_MAX         256  /* bytes of a secret access key */

/* All borrowed for the call. */
struct aws_sign_input {
    struct span access_key_id;
    struct span secret;
    struct span session_token; /* absent: none. Sent as X-Amz-Security-Token, which is signed */
    const char *region;        /* "eu-west-1" */
    const char *service;       /* the name to sign for: "bedrock", "s3", "ecs" */
    int64_t time;              /* seconds since 1970; AWS takes what is within 5 minutes */
    const char *method;
    const char *url;
    const struct http_header *headers; /* to be signed beside Host and ours, e.g. Content-Type;
                                          each must be sent as it is here */
    size_t nheaders;
    struct span body;
    bool content_sha256; /* sign X-Amz-Content-Sha256 too (S3 requires it); then it must be sent */
};

/* Values of the headers to send; none is secret. */
struct aws_signature {
    char authorization[AWS_AUTHORIZATION_SIZE]; /* Authorization */
    char date[AWS_DATE_SIZE];                   /* X-Amz-Date */
    char content_sha256[SHA256_HEX_SIZE];       /* X-Amz-Content-Sha256, to be sent if asked for */
};

/*
 * ERR_CONFIG: a URL, key, region, service, time or method that cannot be signed with; a header
 * that is ours (Host, Authorization, X-Amz-Date, X-Amz-Security-Token, X-Amz-Content-Sha256).
 * ERR_LIMIT: more than the maxima above. ERR_NOMEM. *out is untouched then. Derived keys are wiped
 * whatever the outcome; the token is never copied.
 */
enum err aws_sign(const struct aws_sign_input *in, struct aws_signature *out,
                  struct error *e) MUST_CHECK;

#endif
