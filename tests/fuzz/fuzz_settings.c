/* A sidecar from any bytes: read or refused with a message, nothing leaks; what was read fits
 * together or not, with a message; its volumes are absolute in the container or refused, its
 * variables have names. */
#include "spec/environment.h"
#include "spec/settings.h"
#include "spec/volumes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_volumes(const struct settings *s)
{
    static const char *const forbidden[] = {"/tmp"};
    const struct volume_rules rules = {
        .base_dir = "/etc", .home = "/root", .forbidden = forbidden, .nforbidden = 1};

    for (size_t i = 0; i < s->nvolumes; i++) {
        struct mount m = {.kind = MOUNT_BIND};
        struct error e = {.code = ERR_OK};
        if (volume_parse(s->volumes[i], &rules, &m, &e) != ERR_OK) {
            demand(e.msg[0] != '\0' && m.target == NULL);
            continue;
        }
        demand(m.target[0] == '/' && m.target[1] != '\0' && strstr(m.target, "//") == NULL &&
               strstr(m.target, "/../") == NULL);
        demand(m.kind == MOUNT_VOLUME || (m.source[0] == '/' && m.source[1] != '\0'));
        demand(!m.z || (m.source != NULL && strchr(m.source, ':') == NULL &&
                        strchr(m.target, ':') == NULL));
        mount_fini(&m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings s;
    struct error e = {.code = ERR_OK};
    enum err rc = settings_init(&s, &e);

    if (rc == ERR_OK) {
        rc = settings_parse(&s, "x.yml", (const char *)data, size, &e);
    }
    if (rc == ERR_OK) {
        rc = settings_check(&s, &e);
    }
    if (rc == ERR_OK) {
        demand(s.image != NULL && s.network != NULL && s.memory_text != NULL && s.pids >= 2);
        for (size_t i = 0; i < s.nenv; i++) {
            demand(environment_name_ok(s.env[i].name) && s.env[i].value != NULL);
        }
        check_volumes(&s);
    }
    demand(rc == ERR_OK || e.msg[0] != '\0');
    settings_fini(&s);
    return 0;
}
