/*
 * Bodies and headers of admin calls. The first byte says which: g(rant), p(atch), m(atch), a (the
 * header Host). A refusal has a status and a message of UTF-8 once it is JSON; what is accepted is
 * within its bounds.
 */
#include "base/json_span.h"
#include "http/admin_auth.h"
#include "http/admin_body.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good) {
        abort();
    }
}

static void check_fault(const struct admin_fault *f)
{
    static const struct json_rules rules = {.max_depth = 4};
    struct json_members m;
    struct json_fault fault;
    struct buf b;

    check(f->status == 400 || f->status == 403 || f->status == 422);
    check(f->type != NULL && f->message[0] != '\0');
    buf_init(&b, 16384);
    admin_fault_put_json(f, NULL, &b);
    check(json_check_object(buf_span(&b), &rules, &m, &fault) == ERR_OK);
    buf_fini(&b);
}

static void check_grant(const struct admin_grant *g)
{
    const struct admin_listener *l = &g->listener;

    check(g->ttl_ms <= ADMIN_TTL_MAX_MS);
    check(g->run == NULL || (g->run[0] != '\0' && strlen(g->run) <= 128));
    check(g->models.n <= 1024 && g->tools.n <= 1024 && l->allow_from.n <= 1024);
    check(l->path == NULL || (l->path[0] == '/' && l->kind == LISTENER_UNIX));
    check((l->cert_file == NULL) == (l->key_file == NULL));
    check(l->cert_file == NULL || l->kind == LISTENER_TLS);
    check(!l->allow_from.given || l->kind != LISTENER_UNIX);
    for (size_t i = 0; i < g->models.n; i++) {
        check(g->models.items[i][0] != '\0');
    }
}

static void host(const uint8_t *data, size_t size)
{
    char text[512] = "";
    struct admin_fault f = {0};
    const struct admin_caller c = {.host = text, .origin = NULL};

    memcpy(text, data, size < sizeof(text) - 1 ? size : sizeof(text) - 1);
    if (!admin_auth_place(&c, &f)) {
        check_fault(&f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct admin_grant grant;
    struct admin_fault f = {0};
    const struct config none = {0};
    struct buf out;
    bool good = true;

    if (size == 0) {
        return 0;
    }
    struct span body = span_of((const char *)data + 1, size - 1);
    arena_init(&arena, ADMIN_BODY_ARENA);
    buf_init(&out, 1 << 20);
    if (data[0] == 'g') {
        good = admin_body_grant(body, &arena, &grant, &f);
        if (good) {
            check_grant(&grant);
        }
    } else if (data[0] == 'p') {
        good = admin_body_patch(body, &arena, &grant, &f);
    } else if (data[0] == 'm') {
        good = admin_body_match(body, &none, &out, &f);
        check(!good || strcmp(buf_cstr(&out), "{\"match\":[]}") == 0);
    } else {
        host(data + 1, size - 1);
    }
    if (!good) {
        check_fault(&f);
    }
    buf_fini(&out);
    arena_fini(&arena);
    return 0;
}
