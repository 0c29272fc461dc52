/*
 * Admin bodies through tables of keys, as the configuration is read: one row a key, one function a
 * type, and what the rows cannot say (which key goes with which transport) at the end.
 */
#include "http/admin_body.h"

#include "base/json_span.h"
#include "base/text.h"
#include "tactus/protocol.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_DEPTH     16u
#define LIST_MAX       1024u
#define RUN_MAX        128u
#define GLOB_MAX       512u
#define FILE_MAX_BYTES 4096u
#define SOCKET_MAX     107u /* a Unix socket's address without its NUL */

enum value {
    TEXT,      /* const char *, 1 to `max` bytes */
    FULL_PATH, /* likewise, starting with a slash */
    ADDRESS,   /* likewise, a literal IPv4 or IPv6 address */
    TTL,       /* uint32_t: milliseconds */
    PORT,      /* uint16_t */
    FLAG,      /* bool */
    COUNT,     /* uint32_t, 1 to `max` */
    AMOUNT,    /* uint64_t, 0 to `max` */
    DOLLARS,   /* uint64_t, billionths of a number from 0 to `max` */
    TRANSPORT, /* enum listener_kind */
    TEXTS,     /* struct admin_texts, each 1 to `max` bytes */
    SOURCES,   /* struct admin_sources */
    LISTENER,  /* struct admin_listener */
    NOT_YET    /* of the policy, and nobody keeps it yet: better refused than ignored */
};

struct key {
    const char *name;
    enum value type;
    size_t offset;
    size_t max;
};

struct table {
    const char *prefix; /* of keys in messages */
    const struct key *keys;
    size_t n;
};

struct reader {
    struct arena *arena;
    struct admin_fault *f;
    const struct table *table;
    const char *name; /* of the key being read */
};

#define ROW(key_, type_, struct_, member, max_)                                                    \
    {                                                                                              \
        .name = (key_), .type = (type_), .offset = offsetof(struct struct_, member), .max = (max_) \
    }
#define TABLE(prefix_, rows)                                                                       \
    {                                                                                              \
        .prefix = (prefix_), .keys = (rows), .n = sizeof(rows) / sizeof((rows)[0])                 \
    }

static const struct key LISTENER_KEYS[] = {
    ROW("transport", TRANSPORT, admin_listener, kind, 0),
    ROW("bind", ADDRESS, admin_listener, bind, 64),
    ROW("port", PORT, admin_listener, port, 0),
    ROW("path", FULL_PATH, admin_listener, path, SOCKET_MAX),
    ROW("allow_from", SOURCES, admin_listener, allow_from, 0),
    ROW("relay", FLAG, admin_listener, relay, 0),
    ROW("cert_file", FULL_PATH, admin_listener, cert_file, FILE_MAX_BYTES),
    ROW("key_file", FULL_PATH, admin_listener, key_file, FILE_MAX_BYTES),
    ROW("ca_file", FULL_PATH, admin_listener, ca_file, FILE_MAX_BYTES),
};
static const struct table LISTENER_TABLE = TABLE("listener.", LISTENER_KEYS);

static const struct key GRANT_KEYS[] = {
    ROW("run", TEXT, admin_grant, run, RUN_MAX),
    ROW("name", TEXT, admin_grant, name, RUN_MAX),
    ROW("ttl", TTL, admin_grant, ttl_ms, 0),
    ROW("models", TEXTS, admin_grant, models, GLOB_MAX),
    ROW("tools", TEXTS, admin_grant, tools, GLOB_MAX),
    ROW("listener", LISTENER, admin_grant, listener, 0),
    {.name = "mcp", .type = NOT_YET},
    ROW("rpm", COUNT, admin_grant, limits.rpm, 10000000),
    ROW("tpm", COUNT, admin_grant, limits.tpm, 1000000000),
    ROW("max_inflight", COUNT, admin_grant, limits.max_inflight, 10000000),
    ROW("budget_usd", DOLLARS, admin_grant, limits.budget_nano, 1000000),
    ROW("budget_tokens", AMOUNT, admin_grant, limits.budget_tokens, 1000000000000),
    {.name = "callback_url", .type = NOT_YET},
};
static const struct table GRANT_TABLE = TABLE("", GRANT_KEYS);

static const struct key PATCH_KEYS[] = {
    ROW("ttl", TTL, admin_grant, ttl_ms, 0),
    ROW("allow_from", SOURCES, admin_grant, allow_from, 0),
};
static const struct table PATCH_TABLE = TABLE("", PATCH_KEYS);

static bool read_object(struct reader *r, const struct table *table,
                        const struct json_members *members, void *target, uint64_t *seen);

/* ---- messages ---- */

static bool wrong(struct reader *r, const char *expected)
{
    return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST, "%s%s must be %s", r->table->prefix,
                           r->name, expected);
}

/* ---- single values ---- */

/* Valid UTF-8 without control characters, neither C0 nor C1 (U+0080 to U+009F, which terminals obey
 * as they do ESC): names go to logs and terminals, paths to the kernel. */
static bool is_printable(struct span s)
{
    size_t i = 0;

    while (i < s.n) {
        unsigned char first = (unsigned char)s.p[i];
        size_t n = text_utf8_char(s.p + i, s.n - i);
        bool c1 = n == 2 && first == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0;
        if (n == 0 || first < 0x20 || first == 0x7f || c1) {
            return false;
        }
        i += n;
    }
    return true;
}

/* A string of 1 to `max` bytes; *out stays NULL when it is not good. False: out of memory. */
static bool read_text(struct reader *r, struct json_value v, size_t max, const char **out)
{
    struct buf text;
    bool good = true;

    *out = NULL;
    if (v.type != JSON_STRING || v.text.n <= 2) {
        return true;
    }
    buf_init(&text, max);
    json_string_decode(v, &text, NULL);
    if (buf_status(&text) == ERR_OK && is_printable(buf_span(&text))) {
        *out = arena_dup(r->arena, buf_span(&text));
        good = *out != NULL;
    } else {
        good = buf_status(&text) != ERR_NOMEM;
    }
    buf_fini(&text);
    return good || admin_fault_no_memory(r->f);
}

static bool read_string(struct reader *r, const struct key *k, struct json_value v,
                        const char **out)
{
    const char *text = NULL;
    struct in6_addr address;
    char expected[96];

    if (!read_text(r, v, k->max, &text)) {
        return false;
    }
    if (text == NULL || (k->type == FULL_PATH && (text[0] != '/' || text[1] == '\0'))) {
        (void)snprintf(expected, sizeof(expected), "a %s of 1 to %zu bytes",
                       k->type == FULL_PATH ? "full path" : "text", k->max);
        return wrong(r, expected);
    }
    if (k->type == ADDRESS && inet_pton(AF_INET, text, &address) != 1 &&
        inet_pton(AF_INET6, text, &address) != 1) {
        return wrong(r, "a literal IPv4 or IPv6 address");
    }
    *out = text;
    return true;
}

static bool read_ttl(struct reader *r, struct json_value v, uint32_t *out)
{
    double seconds = 0;

    if (!json_number_double(v, &seconds) || !(seconds >= 0.001) ||
        !(seconds * 1000 <= ADMIN_TTL_MAX_MS)) {
        return wrong(r, "a number of seconds from 0.001 to 86400");
    }
    *out = (uint32_t)(seconds * 1000);
    return true;
}

static bool read_port(struct reader *r, struct json_value v, uint16_t *out)
{
    uint64_t n = 0;

    if (!json_number_u64(v, &n) || n > UINT16_MAX) {
        return wrong(r, "a whole number from 0 to 65535");
    }
    *out = (uint16_t)n;
    return true;
}

static bool read_flag(struct reader *r, struct json_value v, bool *out)
{
    if (v.type != JSON_TRUE && v.type != JSON_FALSE) {
        return wrong(r, "true or false");
    }
    *out = v.type == JSON_TRUE;
    return true;
}

static bool read_amount(struct reader *r, const struct key *k, struct json_value v, void *field)
{
    uint64_t least = k->type == COUNT ? 1 : 0;
    uint64_t n = 0;
    char expected[96];

    if (!json_number_u64(v, &n) || n < least || n > k->max) {
        (void)snprintf(expected, sizeof(expected), "a whole number from %u to %zu", (unsigned)least,
                       k->max);
        return wrong(r, expected);
    }
    if (k->type == COUNT) {
        uint32_t count = (uint32_t)n;
        memcpy(field, &count, sizeof(count));
    } else {
        memcpy(field, &n, sizeof(n));
    }
    return true;
}

/* As it is written: a double would not hold a tenth of a cent exactly. */
static bool read_dollars(struct reader *r, const struct key *k, struct json_value v, uint64_t *out)
{
    const char *rest = NULL;
    char text[32];
    char expected[96];

    (void)snprintf(text, sizeof(text), "%.*s", (int)(v.text.n < 31 ? v.text.n : 31), v.text.p);
    if (v.type != JSON_NUMBER || v.text.n >= sizeof(text) || !text_nano(text, out, &rest) ||
        *rest != '\0' || *out > k->max * UINT64_C(1000000000)) {
        (void)snprintf(expected, sizeof(expected),
                       "a number from 0 to %zu with at most nine digits behind the point", k->max);
        return wrong(r, expected);
    }
    return true;
}

static bool read_transport(struct reader *r, struct json_value v, enum listener_kind *out)
{
    static const struct {
        const char *name;
        enum listener_kind kind;
    } kinds[] = {{"unix", LISTENER_UNIX}, {"tcp", LISTENER_TCP}, {"tls", LISTENER_TLS}};

    for (size_t i = 0; v.type == JSON_STRING && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (json_string_is(v, kinds[i].name)) {
            *out = kinds[i].kind;
            return true;
        }
    }
    return wrong(r, "\"unix\", \"tcp\" or \"tls\"");
}

/* ---- lists ---- */

/* False: no list, or too long. */
static bool count_items(struct json_value list, size_t *n)
{
    struct json_value item;
    size_t cursor = 0;

    *n = 0;
    while (json_array_next(list, &cursor, &item) && *n <= LIST_MAX) {
        (*n)++;
    }
    return list.type == JSON_ARRAY && *n <= LIST_MAX;
}

static bool read_texts(struct reader *r, const struct key *k, struct json_value v,
                       struct admin_texts *out)
{
    struct json_value item;
    size_t cursor = 0;
    size_t n = 0;
    static const char expected[] = "a list of at most 1024 texts of 1 to 512 bytes";

    if (!count_items(v, &n)) {
        return wrong(r, expected);
    }
    const char **items = arena_alloc(r->arena, (n + 1) * sizeof(*items));
    if (items == NULL) {
        return admin_fault_no_memory(r->f);
    }
    for (size_t i = 0; i < n && json_array_next(v, &cursor, &item); i++) {
        if (!read_text(r, item, k->max, &items[i])) {
            return false;
        }
        if (items[i] == NULL) {
            return wrong(r, expected);
        }
    }
    *out = (struct admin_texts){.items = items, .n = n};
    return true;
}

static bool read_sources(struct reader *r, struct json_value v, struct admin_sources *out)
{
    struct json_value item;
    size_t cursor = 0;
    size_t n = 0;
    static const char expected[] = "a list of at most 1024 addresses or networks like 10.0.0.0/8";

    if (!count_items(v, &n)) {
        return wrong(r, expected);
    }
    struct grant_source *items = arena_alloc(r->arena, (n + 1) * sizeof(*items));
    if (items == NULL) {
        return admin_fault_no_memory(r->f);
    }
    for (size_t i = 0; i < n && json_array_next(v, &cursor, &item); i++) {
        const char *text = NULL;
        if (!read_text(r, item, GRANT_SOURCE_TEXT, &text)) {
            return false;
        }
        if (text == NULL || !grant_source_parse(span_str(text), &items[i])) {
            return wrong(r, expected);
        }
    }
    *out = (struct admin_sources){.given = true, .items = items, .n = n};
    return true;
}

/* ---- objects ---- */

static bool read_listener(struct reader *r, struct json_value v, struct admin_listener *out);

static bool read_value(struct reader *r, const struct key *k, struct json_value v, void *field)
{
    switch (k->type) {
    case TEXT:
    case FULL_PATH:
    case ADDRESS:
        return read_string(r, k, v, field);
    case TTL:
        return read_ttl(r, v, field);
    case PORT:
        return read_port(r, v, field);
    case FLAG:
        return read_flag(r, v, field);
    case COUNT:
    case AMOUNT:
        return read_amount(r, k, v, field);
    case DOLLARS:
        return read_dollars(r, k, v, field);
    case TRANSPORT:
        return read_transport(r, v, field);
    case TEXTS:
        return read_texts(r, k, v, field);
    case SOURCES:
        return read_sources(r, v, field);
    case LISTENER:
        return read_listener(r, v, field);
    case NOT_YET:
        break;
    }
    return admin_fault_set(r->f, 422, ADMIN_E_UNPROCESSABLE, "%s is not supported yet", k->name);
}

static const struct key *find_key(const struct table *table, struct json_value name)
{
    for (size_t i = 0; i < table->n; i++) {
        if (json_string_is(name, table->keys[i].name)) {
            return &table->keys[i];
        }
    }
    return NULL;
}

/* A bit of *seen for each key that is there and not null, in the order of the table. */
static bool read_object(struct reader *r, const struct table *table,
                        const struct json_members *members, void *target, uint64_t *seen)
{
    for (size_t i = 0; i < members->n; i++) {
        const struct json_member *m = &members->m[i];
        const struct key *k = find_key(table, m->key);
        if (k == NULL) {
            struct span name = span_of(m->key.text.p + 1, m->key.text.n - 2);
            return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST, "unknown key: %s%.*s",
                                   table->prefix, (int)(name.n < 100 ? name.n : 100), name.p);
        }
        if (m->value.type == JSON_NULL) {
            continue;
        }
        *seen |= UINT64_C(1) << (k - table->keys);
        r->table = table;
        r->name = k->name;
        if (!read_value(r, k, m->value, (char *)target + k->offset)) {
            return false;
        }
    }
    r->table = table;
    return true;
}

static bool has(const struct table *table, uint64_t seen, const char *name)
{
    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->keys[i].name, name) == 0) {
            return (seen & UINT64_C(1) << i) != 0;
        }
    }
    return false;
}

/* Which key goes with which transport. */
static bool check_listener(struct reader *r, uint64_t seen, const struct admin_listener *l)
{
    static const struct {
        const char *key;
        bool unix_;
        bool tcp;
        bool tls;
    } rules[] = {
        {"path", true, false, false},      {"bind", false, true, true},
        {"port", false, true, true},       {"allow_from", false, true, true},
        {"cert_file", false, false, true}, {"key_file", false, false, true},
        {"ca_file", false, false, true},
    };

    if (!has(&LISTENER_TABLE, seen, "transport")) {
        return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST,
                               "listener.transport is required: \"unix\", \"tcp\" or \"tls\"");
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        bool fits = l->kind == LISTENER_UNIX  ? rules[i].unix_
                    : l->kind == LISTENER_TCP ? rules[i].tcp
                                              : rules[i].tls;
        if (!fits && has(&LISTENER_TABLE, seen, rules[i].key)) {
            return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST,
                                   "listener.%s does not go with this transport", rules[i].key);
        }
    }
    if ((l->cert_file == NULL) != (l->key_file == NULL)) {
        return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST,
                               "listener.cert_file and listener.key_file go together");
    }
    if (l->path != NULL && l->path[strlen(l->path) - 1] == '/') {
        return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST,
                               "listener.path must be the path of a socket, not of a directory");
    }
    return true;
}

static bool read_listener(struct reader *r, struct json_value v, struct admin_listener *out)
{
    struct json_members members;
    struct json_fault fault;
    uint64_t seen = 0;

    if (v.type != JSON_OBJECT) {
        return wrong(r, "an object");
    }
    if (json_object_members(v, &members, &fault) != ERR_OK) {
        return admin_fault_set(r->f, 400, TACTUS_E_BAD_REQUEST, "listener: %s", fault.what);
    }
    return read_object(r, &LISTENER_TABLE, &members, out, &seen) && check_listener(r, seen, out);
}

/* ---- whole bodies ---- */

static bool read_members(struct span json, struct json_members *members, struct admin_fault *f)
{
    static const struct json_rules rules = {.max_depth = BODY_DEPTH};
    struct json_fault fault;

    if (json_check_object(json, &rules, members, &fault) == ERR_OK) {
        return true;
    }
    return admin_fault_set(f, 400, TACTUS_E_BAD_REQUEST,
                           "the body is no valid JSON object: %s at byte %zu", fault.what,
                           fault.offset);
}

bool admin_body_grant(struct span json, struct arena *arena, struct admin_grant *out,
                      struct admin_fault *f)
{
    struct reader r = {.arena = arena, .f = f, .table = &GRANT_TABLE};
    struct json_members members;
    uint64_t seen = 0;

    *out = (struct admin_grant){
        .limits = {.budget_nano = METER_NO_BUDGET, .budget_tokens = METER_NO_BUDGET}};
    if (!read_members(json, &members, f) || !read_object(&r, &GRANT_TABLE, &members, out, &seen)) {
        return false;
    }
    out->has_listener = has(&GRANT_TABLE, seen, "listener");
    return true;
}

bool admin_body_patch(struct span json, struct arena *arena, struct admin_grant *out,
                      struct admin_fault *f)
{
    struct reader r = {.arena = arena, .f = f, .table = &PATCH_TABLE};
    struct json_members members;
    uint64_t seen = 0;

    *out = (struct admin_grant){0};
    return read_members(json, &members, f) && read_object(&r, &PATCH_TABLE, &members, out, &seen);
}

/* A JSON string of 64 hexadecimal digits. */
static bool read_sha256(struct json_value v, unsigned char out[SECRET_SHA256_SIZE])
{
    return v.type == JSON_STRING &&
           text_hex(span_of(v.text.p + 1, v.text.n - 2), out, SECRET_SHA256_SIZE);
}

bool admin_body_match(struct span json, const struct config *c, struct buf *out,
                      struct admin_fault *f)
{
    unsigned char sha256[SECRET_SHA256_SIZE];
    struct json_members members;
    struct json_value item;
    size_t cursor = 0;
    size_t found = 0;
    size_t n = 0;

    if (!read_members(json, &members, f)) {
        return false;
    }
    struct json_value list = json_get(&members, "sha256");
    if (list.type != JSON_ARRAY || members.n != 1) {
        return admin_fault_set(f, 400, TACTUS_E_BAD_REQUEST,
                               "sha256 must be a list, and the only key");
    }
    buf_put_str(out, "{\"match\":[");
    while (json_array_next(list, &cursor, &item)) {
        if (++n > ADMIN_MATCH_MAX || !read_sha256(item, sha256)) {
            return admin_fault_set(f, 400, TACTUS_E_BAD_REQUEST,
                                   "sha256 must be a list of at most 10000 texts of 64 "
                                   "hexadecimal digits");
        }
        if (config_has_secret(c, sha256)) {
            buf_put_str(out, found++ > 0 ? "," : "");
            buf_put_span(out, item.text);
        }
    }
    buf_put_str(out, "]}");
    return buf_status(out) == ERR_OK || admin_fault_no_memory(f);
}
