/*
 * The parts of a URL that signing and the credential endpoints look at. Strict: what our HTTP
 * client and another reader could understand differently is refused. Pure; any thread.
 */
#ifndef TACTUS_NET_AWS_URL_H
#define TACTUS_NET_AWS_URL_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>

/* Borrowed from the text. */
struct aws_url {
    bool https;
    struct span host;      /* an IPv6 address without its brackets */
    struct span authority; /* what goes into the Host header: host, and a port that is not the
                              scheme's own */
    struct span path;      /* as it goes out; absent when there is none */
    struct span query;     /* without '?' */
};

/*
 * ERR_CONFIG: not http:// or https://, no host, a user name, a fragment, a backslash, a space or
 * control character, a port that is none. Messages repeat nothing of `text`.
 */
enum err aws_url_parse(const char *text, struct aws_url *out, struct error *e) MUST_CHECK;

/*
 * Whether plain HTTP may carry credentials from `host`: 127.0.0.0/8, ::1, localhost, and the link
 * addresses of the container agents, 169.254.170.2 (ECS), 169.254.170.23 and fd00:ec2::23 (EKS).
 * Source: "Container credential provider" in the AWS SDKs and Tools Reference Guide, and the
 * module aws_config::ecs of AWS's SDK for Rust. Names are not looked up: an address that only a
 * resolver gives is not trusted.
 */
bool aws_url_is_local(struct span host);

#endif
