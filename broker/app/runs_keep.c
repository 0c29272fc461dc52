/*
 * Grants of runs that outlive the process: kept in the ledger's database as the body that would
 * make them anew, with the token's hash beside it. A container whose broker was restarted finds its
 * listener at the same place. On loop 0.
 */
#include "app/grant_json.h"
#include "app/run_place.h"
#include "app/runs_private.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "ledger/ledger.h"

#include <string.h>

/* ---- keeping ---- */

static void put_member(struct buf *b, const char *name, const char *text)
{
    if (text != NULL) {
        buf_printf(b, ",\"%s\":", name);
        json_put_string(b, span_str(text));
    }
}

static void put_listener(const struct run *run, struct buf *b)
{
    static const char *const kinds[] = {
        [LISTENER_UNIX] = "unix", [LISTENER_TCP] = "tcp", [LISTENER_TLS] = "tls"};
    const struct listener_config *c = &run->config;

    buf_printf(b, ",\"listener\":{\"transport\":\"%s\",\"relay\":%s", kinds[c->kind],
               run->door.relay ? "true" : "false");
    if (c->kind == LISTENER_UNIX) {
        put_member(b, "path", run->owns_place ? NULL : c->path);
    } else {
        put_member(b, "bind", c->host);
        buf_printf(b, ",\"port\":%u", (unsigned)run->door.port);
    }
    if (run->limited) {
        buf_put_str(b, ",\"allow_from\":[");
        for (size_t i = 0; i < run->nsources; i++) {
            buf_put_str(b, i > 0 ? "," : "");
            json_put_string(b, span_str(run->sources[i].text));
        }
        buf_put_char(b, ']');
    }
    if (c->kind == LISTENER_TLS) {
        put_member(b, "cert_file", c->cert_file);
        put_member(b, "key_file", c->key_file);
        put_member(b, "ca_file", run->ca_file);
    }
    buf_put_char(b, '}');
}

static void put_kept(const struct run *run, struct buf *b)
{
    buf_printf(b, "{\"created_at\":%lld,\"token_sha256\":\"", (long long)run->created_at);
    for (size_t i = 0; i < GRANT_TOKEN_SHA256; i++) {
        buf_printf(b, "%02x", run->grant->token_sha256[i]);
    }
    buf_put_str(b, "\",\"grant\":{\"run\":");
    json_put_string(b, span_str(run->grant->run));
    grant_put_names(run->grant, b);
    grant_put_limits(&run->grant->limits, b);
    if (run->listens) {
        put_listener(run, b);
    }
    buf_put_str(b, "}}");
}

void run_keep(const struct run *run)
{
    struct ledger *ledger = run->runs->broker->ledger;
    struct buf b;

    if (ledger == NULL) {
        return;
    }
    buf_init(&b, LEDGER_GRANT_MAX);
    put_kept(run, &b);
    if (buf_status(&b) == ERR_OK) {
        ledger_keep_grant(ledger, run->id, buf_span(&b), (uint64_t)run->expires_at);
    } else {
        log_warn("runs", LOG_MSG("a grant is not kept: a restart of the broker would end it"),
                 LOG_STR("grant", run->id));
    }
    buf_fini(&b);
}

void run_forget(const struct run *run)
{
    if (run->runs->broker->ledger != NULL) {
        ledger_drop_grant(run->runs->broker->ledger, run->id);
    }
}

/* ---- restoring ---- */

static bool read_hash(struct json_value v, unsigned char out[GRANT_TOKEN_SHA256])
{
    return v.type == JSON_STRING &&
           text_hex(span_of(v.text.p + 1, v.text.n - 2), out, GRANT_TOKEN_SHA256);
}

/* The grant as it was kept; false: this is none of ours. */
static bool read_kept(struct run *run, struct span json, struct arena *arena,
                      struct admin_grant *wanted, struct admin_fault *f)
{
    static const struct json_rules rules = {.max_depth = 16};
    struct json_members members = {0};
    struct json_fault fault;
    uint64_t created = 0;

    if (json_check_object(json, &rules, &members, &fault) != ERR_OK ||
        !read_hash(json_get(&members, "token_sha256"), run->grant->token_sha256) ||
        !json_number_u64(json_get(&members, "created_at"), &created)) {
        return admin_fault_set(f, 422, ADMIN_E_UNPROCESSABLE, "no such grant was kept");
    }
    run->grant->has_token = true;
    run->created_at = (int64_t)created;
    return admin_body_grant(json_get(&members, "grant").text, arena, wanted, f);
}

static bool restore(struct run *run, struct span json, uint32_t ttl_ms, struct admin_fault *f)
{
    struct admin_grant wanted;
    struct arena arena;

    arena_init(&arena, ADMIN_BODY_ARENA);
    bool good = read_kept(run, json, &arena, &wanted, f);
    if (good) {
        wanted.ttl_ms = ttl_ms;
        good = run_open(run, &wanted, f);
    } else {
        run_free(run);
    }
    arena_fini(&arena);
    return good;
}

/* What an expired run, or one that cannot be restored, has left. */
static void drop(struct runs *runs, const char *id, const char *why)
{
    const char *base = runs->broker->config->admin.runs_directory;
    char path[RUN_PLACE_PATH_SIZE];

    log_info("runs", LOG_MSG("grant not restored"), LOG_STR("grant", id), LOG_STR("why", why));
    ledger_drop_grant(runs->broker->ledger, id);
    if (base != NULL && run_place_path(base, id, path)) {
        run_place_remove(path);
    }
}

static void on_kept(void *ctx, const char *id, struct span json, uint64_t expires_ms)
{
    struct runs *runs = ctx;
    uint64_t now = (uint64_t)clock_wall_ms();
    struct admin_fault f = {.status = 0};

    if (strlen(id) != RUN_ID_SIZE - 1 || expires_ms <= now) {
        drop(runs, id, "its time is over");
        return;
    }
    struct run *run = run_new(runs);
    if (run == NULL) {
        drop(runs, id, "out of memory");
        return;
    }
    uint64_t left = expires_ms - now;
    memcpy(run->id, id, RUN_ID_SIZE);
    run->restored = true;
    if (restore(run, json, (uint32_t)(left < ADMIN_TTL_MAX_MS ? left : ADMIN_TTL_MAX_MS), &f)) {
        log_info("runs", LOG_MSG("grant restored"), LOG_STR("grant", id),
                 LOG_STR("run", run->grant->run), LOG_STR("endpoint", run->endpoint));
    } else {
        drop(runs, id, f.message);
    }
}

enum err runs_restore(struct runs *runs, struct error *e)
{
    struct ledger *ledger = runs->broker->ledger;

    return ledger == NULL ? ERR_OK : ledger_grants(ledger, on_kept, runs, e);
}
