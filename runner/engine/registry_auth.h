/* Credentials for a registry out of ~/.docker/config.json (`auths`), for X-Registry-Auth. */
#ifndef TACTUS_RUNNER_REGISTRY_AUTH_H
#define TACTUS_RUNNER_REGISTRY_AUTH_H

#include "base/buf.h"

/* Appends the header's value for `image`; nothing when there are none. Credential helpers are not
 * run. The buffer then holds a secret: buf_wipe. */
void registry_auth(const char *image, struct buf *out);

#endif
