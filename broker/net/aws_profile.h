/*
 * One profile of AWS's shared files, ~/.aws/config and ~/.aws/credentials, read from their text.
 * Pure; any thread.
 *
 * Source: "Using shared config and credentials files to globally configure AWS SDKs and tools" in
 * the AWS SDKs and Tools Reference Guide; where that is silent, what AWS's own tools do.
 *   - A section is [name] in credentials, [profile name] in config; [default] and [profile default]
 *     are one in config, of which the second wins. Other sections (sso-session, services) are none.
 *   - "key = value", keys in any case. What begins with # or ; is a comment, so is what follows
 *     white space and one of the two. No quotes, no escapes.
 *   - A line indented deeper than the key before it belongs to that key: nested settings when the
 *     key has no value of its own, else more of the value (which no key of ours can have: such a
 *     value has a line feed in it and is refused by whoever looks at it).
 *   - Sections of one name are one; of a key given twice the later counts; credentials over config,
 *     id, secret and token being taken together from one of the two.
 *   - A line that is nothing of this, or stands in no section, is passed over; after a broken
 *     header up to the next one.
 */
#ifndef TACTUS_NET_AWS_PROFILE_H
#define TACTUS_NET_AWS_PROFILE_H

#include "base/span.h"

#include <stdbool.h>

enum aws_profile_file { AWS_PROFILE_CONFIG, AWS_PROFILE_CREDENTIALS };

/* The keys we know. */
enum aws_profile_key {
    AWS_PROFILE_ACCESS_KEY_ID,
    AWS_PROFILE_SECRET_ACCESS_KEY,
    AWS_PROFILE_SESSION_TOKEN,
    /* What follows says that the profile needs more than keys. */
    AWS_PROFILE_ROLE_ARN,
    AWS_PROFILE_WEB_IDENTITY_TOKEN_FILE,
    AWS_PROFILE_SSO_SESSION,
    AWS_PROFILE_SSO_START_URL,
    AWS_PROFILE_SSO_ACCOUNT_ID,
    AWS_PROFILE_LOGIN_SESSION,
    AWS_PROFILE_CREDENTIAL_PROCESS,
    AWS_PROFILE_KEYS
};

struct aws_profile_value {
    struct span text; /* into the file's text; absent or empty: not set */
    enum aws_profile_file file;
};

struct aws_profile {
    bool found; /* there is a section of that name */
    struct aws_profile_value value[AWS_PROFILE_KEYS];
};

/*
 * Adds what `text` says of profile `name` to *p (zeroed before the first file): config first, then
 * credentials. Both texts must outlive *p.
 */
void aws_profile_read(struct span text, enum aws_profile_file file, struct span name,
                      struct aws_profile *p);

/* "aws_access_key_id" */
const char *aws_profile_key_name(enum aws_profile_key key);

/*
 * The first key because of which the profile cannot be used (a role, single sign-on; a program
 * when there are no keys), or AWS_PROFILE_KEYS.
 */
enum aws_profile_key aws_profile_unsupported(const struct aws_profile *p);

#endif
