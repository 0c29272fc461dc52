/*
 * Memory that is out, at each allocation in turn, over the whole way of a request: from the
 * accepted socket to the last byte. The client sees exactly one terminal event or a closed
 * connection, nothing stays behind, and the next connection is served.
 */
#include "fixtures/tls_pair.h"
#include "fixtures/torture.h"
#include "fixtures/wire_bed.h"
#include "tactus/protocol.h"

#define ALLOCATIONS_MAX 400
#define ESCAPED                                                                                    \
    "{\"id\":\"r\\u0032\",\"method\":\"tool.c\\u0061ll\",\"params\":{\"name\":\"host."             \
    "p\\u0069ng\"}}"

struct way {
    enum net_kind kind;
    bool counted;
    SSL_CTX *server;
    SSL_CTX *client;
    const char *const *messages;
    size_t n;
    const char *const *ids;
    const char *const *types; /* of the errors when memory is there; "": done */
    size_t step;              /* bytes that the client sends at once */
};

struct all_answered {
    const struct way *way;
    struct far *far;
};

static bool all_answered(void *ctx)
{
    const struct all_answered *a = ctx;
    bool all = true;

    for (size_t i = 0; i < a->way->n; i++) {
        all = all && told(a->far, a->way->counted, a->way->ids[i]).terminals > 0;
    }
    /* An error that could not be told of its own has no id. */
    return all || far_ended(a->far);
}

/* Nobody is told that his request was wrong when it was memory that was out. */
static bool may_be_told(const char *type, const char *usual)
{
    return strcmp(type, usual) == 0 || strcmp(type, TACTUS_E_INTERNAL) == 0 ||
           strcmp(type, TACTUS_E_CANCELLED) == 0; /* the connection had to end */
}

static void check_told(const struct way *way, const struct far *f)
{
    for (size_t i = 0; i < way->n; i++) {
        struct told t = told(f, way->counted, way->ids[i]);
        assert_int_equal(t.late, 0);
        assert_true(t.terminals <= 1);
        assert_true(t.terminals == 0 || may_be_told(t.type, way->types[i]));
        assert_true(t.terminals == 1 || far_ended((void *)(uintptr_t)f));
    }
}

static void next_is_served(struct wire_bed *b, const struct way *way)
{
    struct far f;
    struct buf text;

    buf_init(&text, 4096);
    frame(&text, way->counted, PING("next"));
    client_open(b, &f, way->kind, way->client);
    far_send(&f, buf_span(&text));
    struct told t = answer(b, &f, way->counted, "next");
    assert_string_equal(t.type, "");
    client_close(b, &f);
    buf_fini(&text);
}

/* One run in which allocation `n` fails. True when there was one. */
static bool run(const struct way *way, struct span text, size_t n)
{
    struct wire_bed b;
    struct far f;
    int fd[2];
    struct all_answered a = {way, &f};

    wire_bed_open(&b, way->kind, way->server);
    net_pair(way->kind, fd);
    far_open(&b.net, &f, fd[1], WIRE_CAP, way->client);
    f.write_size = way->step;
    torture_fail_after(n);
    session_start(&b.wire, &b.door, fd[0]);
    far_send(&f, text);
    bool ended = net_until(&b.net, all_answered, &a);
    bool failed = torture_count() > n;
    torture_off();
    if (!ended) {
        print_error("allocation %zu: nothing more came after %s\n", n, f.in);
    }
    assert_true(ended);
    check_told(way, &f);
    far_hang_up(&f, false);
    wait_empty(&b);
    next_is_served(&b, way);
    client_close(&b, &f);
    wire_bed_close(&b);
    return failed;
}

static void torture(const struct way *way)
{
    struct buf text;
    size_t n = 0;

    buf_init(&text, 65536);
    for (size_t i = 0; i < way->n; i++) {
        frame(&text, way->counted, way->messages[i]);
    }
    while (run(way, buf_span(&text), n)) {
        n++;
        assert_true(n < ALLOCATIONS_MAX);
    }
    assert_true(n > 4);
    buf_fini(&text);
}

static void each_way(void **state, const char *const *messages, const char *const *ids,
                     const char *const *types, size_t n)
{
    const struct tls_pair *tls = *state;

    for (int counted = 0; counted < 2; counted++) {
        struct way way = {
            .counted = counted == 1, .messages = messages, .ids = ids, .types = types, .n = n};
        way.step = ALL;
        torture(&way);
        way.step = 50; /* messages that come in pieces are kept */
        torture(&way);
        way.step = ALL;
        way.kind = NET_TCP;
        way.server = tls->server;
        way.client = tls->client;
        torture(&way);
    }
}

static void test_chat(void **state)
{
    static const char *const messages[] = {CHAT("c1", "echo", "one two \xe6\xbc\xa2 three")};
    static const char *const ids[] = {"c1"};
    static const char *const types[] = {""};

    each_way(state, messages, ids, types, 1);
}

static void test_tool(void **state)
{
    static const char *const messages[] = {PING("t1")};
    static const char *const ids[] = {"t1"};
    static const char *const types[] = {""};

    each_way(state, messages, ids, types, 1);
}

static void test_emit(void **state)
{
    static const char *const messages[] = {EMIT("e1")};
    static const char *const ids[] = {"e1"};
    static const char *const types[] = {""};

    each_way(state, messages, ids, types, 1);
}

/* What one request cannot have must not cost another one its end. */
static void test_all_together(void **state)
{
    static const char *const messages[] = {
        CHAT("c1", "echo", "one two three four"),
        PING("t1"),
        EMIT("e1"),
        CHAT("c2", "tokens-9", "x"),
        CALL("u1", "no.such.method", "{}"),
        CHAT("c3", "error-500", "x"),
    };
    static const char *const ids[] = {"c1", "t1", "e1", "c2", "u1", "c3"};
    static const char *const types[] = {
        "", "", "", "", TACTUS_E_METHOD_NOT_FOUND, TACTUS_E_API_SERVER};

    each_way(state, messages, ids, types, 6);
}

/* A message that is no JSON, and one with escapes in its id and method. */
static void test_refusals(void **state)
{
    static const char *const messages[] = {"{\"id\":\"r1\",\"method\":", ESCAPED,
                                           "{\"id\":\"r3\"}"};
    static const char *const ids[] = {"r1", "r2", "r3"};
    static const char *const types[] = {TACTUS_E_BAD_REQUEST, "", TACTUS_E_BAD_REQUEST};

    each_way(state, messages, ids, types, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),     cmocka_unit_test(test_tool),
        cmocka_unit_test(test_emit),     cmocka_unit_test(test_all_together),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, tls_pair_setup, tls_pair_teardown);
}
