/*
 * Leftovers of killed runs. A runner is known by its pid, the time it started and the boot it
 * started in; labels say so on containers, names on directories (spec/workspace.h).
 */
#include "base/json.h"
#include "base/json_span.h"
#include "base/log.h"
#include "run/run.h"
#include "spec/owner.h"
#include "spec/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_MAX 256 /* containers removed at once; the next sweep takes the rest */

/* ---- containers ---- */

struct found {
    char *ids[SWEEP_MAX];
    size_t n;
};

static void label_text(struct json_value labels, const char *key, char *out, size_t size)
{
    struct json_value v = json_find(labels, key);

    out[0] = '\0';
    if (v.type == JSON_STRING && !v.escaped && v.text.n - 2 < size) {
        memcpy(out, v.text.p + 1, v.text.n - 2);
        out[v.text.n - 2] = '\0';
    }
}

static void on_container(void *ctx, const struct engine_container *c)
{
    struct found *found = ctx;
    struct json_rules rules = {.max_depth = 8};
    struct json_fault fault;
    struct json_value labels;
    struct owner owner;

    if (found->n == SWEEP_MAX || json_check_value(c->labels, &rules, &labels, &fault) != ERR_OK) {
        return;
    }
    label_text(labels, RUN_LABEL_PID, owner.pid, sizeof(owner.pid));
    label_text(labels, RUN_LABEL_TIME, owner.start, sizeof(owner.start));
    label_text(labels, RUN_LABEL_BOOT, owner.boot, sizeof(owner.boot));
    if (!owner_lives(&owner)) {
        char *id = strdup(c->id);
        if (id != NULL) {
            found->ids[found->n++] = id;
        }
    }
}

static enum err sweep_containers(struct engine *engine, size_t *removed, struct error *e)
{
    struct found found = {.n = 0};
    enum err rc = engine_list(engine, RUN_LABEL, on_container, &found, e);

    for (size_t i = 0; i < found.n; i++) {
        if (rc == ERR_OK) {
            rc = engine_remove(engine, found.ids[i], e);
            *removed += rc == ERR_OK ? 1 : 0;
        }
        free(found.ids[i]);
    }
    return rc;
}

enum err run_sweep(struct engine *engine, size_t *containers, size_t *directories, struct error *e)
{
    *containers = 0;
    *directories = 0;
    enum err rc = sweep_containers(engine, containers, e);
    enum err other = workspace_sweep(directories, rc == ERR_OK ? e : NULL);
    return rc == ERR_OK ? other : rc;
}
