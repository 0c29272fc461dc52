/*
 * See environment.h. A list of names, and endings of names: a filter against mistakes, not against
 * a user who means to pass a secret under another name. Called by run/run_container for each
 * variable, and by spec/settings for what is a name at all.
 */
#include "spec/environment.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool environment_name_ok(const char *name)
{
    const char *p = name;

    for (; *p != '\0'; p++) {
        if (isalnum((unsigned char)*p) == 0 && strchr("_.-", *p) == NULL) {
            return false;
        }
    }
    return p != name && isdigit((unsigned char)name[0]) == 0;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strcasecmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool ends_with(const char *name, const char *const *suffixes)
{
    size_t n = strlen(name);

    for (size_t i = 0; suffixes[i] != NULL; i++) {
        size_t m = strlen(suffixes[i]);
        if (n >= m && strcasecmp(name + n - m, suffixes[i]) == 0) {
            return true;
        }
    }
    return false;
}

const char *environment_refusal(const char *name, char *const *allowed, size_t nallowed)
{
    static const char *const providers[] = {
        "OPENAI_API_KEY",    "GOOGLE_API_KEY",       "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", NULL};
    static const char *const suffixes[] = {"_API_KEY", "_SECRET", "_TOKEN", "_PASSWORD", NULL};
    static const char ours[] = "TACTUS_BROKER_";

    if (strncasecmp(name, ours, sizeof(ours) - 1) == 0 ||
        strcasecmp(name, "TACTUS_CALLBACK_URL") == 0) {
        return "the runner sets it";
    }
    for (size_t i = 0; i < nallowed; i++) {
        if (strcmp(name, allowed[i]) == 0) {
            return NULL;
        }
    }
    if (is_one_of(name, providers)) {
        return "a provider's key: the broker holds it (--allow-env passes it)";
    }
    return ends_with(name, suffixes) ? "its name is a secret's (--allow-env passes it)" : NULL;
}
