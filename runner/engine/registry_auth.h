/*
 * Credentials for a registry out of docker's own config.json (`auths`), for X-Registry-Auth.
 * Credential helpers (credsStore, credHelpers) are not run: what they keep is not found.
 */
#ifndef TACTUS_RUNNER_REGISTRY_AUTH_H
#define TACTUS_RUNNER_REGISTRY_AUTH_H

#include "base/buf.h"

/* Appends the header's value for `image` by the config.json at `path`; nothing when it has no
 * login for that registry, cannot be read, or is out of memory (buf_status). The buffer then holds
 * a secret: buf_wipe. */
void registry_auth(const char *path, const char *image, struct buf *out);

#endif
