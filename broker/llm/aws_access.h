/*
 * AWS credentials of one loop's router: one chain (net/aws_credentials.h) for each profile that
 * providers name, made when it is first asked for and kept over reloads.
 */
#ifndef TACTUS_LLM_AWS_ACCESS_H
#define TACTUS_LLM_AWS_ACCESS_H

#include "base/err.h"
#include "net/aws_credentials.h"

struct aws_access;

/* All borrowed. `environment` NULL: every request for credentials fails. NULL: out of memory. */
struct aws_access *aws_access_new(struct loop *loop, struct http_client *client,
                                  const struct aws_environment *environment);
/* Nobody may wait any more. Before http_client_free; NULL is harmless. */
void aws_access_free(struct aws_access *a);

/* As aws_credentials_get, for `profile` (NULL: the usual chain). ERR_NOMEM, ERR_CONFIG. */
enum err aws_access_get(struct aws_access *a, const char *profile, struct aws_waiter *w,
                        struct error *e) MUST_CHECK;

/* As aws_credentials_refused. */
void aws_access_refused(struct aws_access *a, const char *profile);

#endif
