/*
 * Sessions and requests over real sockets: one terminal event for each id, limits, cancelling,
 * draining, shutting down, and clients that leave in each phase.
 */
#include "fixtures/tls_pair.h"
#include "fixtures/wire_bed.h"
#include "tactus/protocol.h"

#define LINE(json) json "\n"

static void open_plain(struct wire_bed *b, struct far *f)
{
    wire_bed_open(b, NET_UNIX, NULL);
    client_open(b, f, NET_UNIX, NULL);
}

static void shut(struct wire_bed *b, struct far *f)
{
    client_close(b, f);
    wait_empty(b);
    wire_bed_close(b);
}

/* ---- messages ---- */

static const char *const mixed[] = {PING("a"), CHAT("b", "echo", "x \xe6\xbc\xa2 y"), EMIT("c"),
                                    CHAT("d", "error-429", "x"), CALL("e", "nothing", "{}")};
static const char *const mixed_ids[] = {"a", "b", "c", "d", "e"};
static const char *const mixed_types[] = {"", "", "", TACTUS_E_API_RATE_LIMIT,
                                          TACTUS_E_METHOD_NOT_FOUND};

static void check_mixed(enum net_kind kind, const struct tls_pair *tls, bool counted, size_t step)
{
    struct wire_bed b;
    struct far f;
    struct buf text;

    wire_bed_open(&b, kind, tls == NULL ? NULL : tls->server);
    client_open(&b, &f, kind, tls == NULL ? NULL : tls->client);
    f.read_size = step;
    f.write_size = step;
    buf_init(&text, 65536);
    for (size_t i = 0; i < 5; i++) {
        frame(&text, counted, mixed[i]);
    }
    far_send(&f, buf_span(&text));
    for (size_t i = 0; i < 5; i++) {
        struct told t = answer(&b, &f, counted, mixed_ids[i]);
        assert_string_equal(t.type, mixed_types[i]);
    }
    struct told t = told(&f, counted, "b");
    assert_int_equal(t.text_bytes, 7);
    assert_int_equal(t.text_sum, text_sum(0, SPAN("x \xe6\xbc\xa2 y")));
    assert_true(memmem(t.data.p, t.data.n, "\"x \xe6\xbc\xa2 y\"", 9) != NULL);
    assert_int_equal(bus_count(b.bus), 1);
    assert_int_equal(told(&f, counted, "").events, 0);
    buf_fini(&text);
    shut(&b, &f);
}

/* Byte by byte and all at once, in both framings, plain and over TLS. */
static void test_messages(void **state)
{
    for (int counted = 0; counted < 2; counted++) {
        check_mixed(NET_UNIX, NULL, counted == 1, ALL);
        check_mixed(NET_UNIX, NULL, counted == 1, 1);
        check_mixed(NET_TCP, *state, counted == 1, ALL);
        check_mixed(NET_TCP, *state, counted == 1, 1);
    }
}

/* Each of these is answered, and on lines the connection goes on. */
static void test_bad_messages(void **state)
{
    static const struct {
        const char *line;
        const char *id;
    } cases[] = {
        {"nonsense\n", ""},
        {"[1]\n", ""},
        {"{\"id\":\"x\",\"method\":\"tool.call\",\"params\":{\n", "x"},
        {"{\"id\":\"x\"}\n", "x"},
        {"{\"id\":\"x\",\"method\":5}\n", "x"},
        {"{\"id\":\"x\",\"method\":\"\"}\n", "x"},
        {"{\"id\":\"\",\"method\":\"tool.call\"}\n", ""},
        {"{\"id\":17,\"method\":\"tool.call\"}\n", "17"},
        {"{\"id\":null,\"method\":\"tool.call\"}\n", ""},
        {"{\"id\":\"x\",\"method\":\"tool.call\",\"params\":[]}\n", "x"},
        {"{\"id\":\"x\",\"method\":\"tool.call\",\"params\":{\"a\":1,\"a\":2}}\n", "x"},
        {"{\"id\":\"x\",\"id\":\"y\",\"method\":\"tool.call\"}\n", "x"},
        {"{\"id\":\"x\",\"method\":\"tool.call\"} {}\n", "x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire_bed b;
        struct far f;
        open_plain(&b, &f);
        far_say(&f, cases[i].line);
        expect_error(&b, &f, cases[i].id, TACTUS_E_BAD_REQUEST);
        assert_int_equal(told(&f, NDJSON, cases[i].id).events, 1);
        far_say(&f, LINE(PING("after")));
        expect_done(&b, &f, "after");
        shut(&b, &f);
    }
}

/* The error is the last word: it arrives although more was on its way, then the end. */
static void test_unreadable(void **state)
{
    static const struct {
        const char *text;
        const char *type;
        bool counted;
    } cases[] = {
        {"00000000x", TACTUS_E_BAD_REQUEST, true},
        {"0000000000\n", TACTUS_E_BAD_REQUEST, true},
        {"0000009999\n{", TACTUS_E_MESSAGE_TOO_LARGE, true},
        {"{\"id\":\"111111111111111111111111111111111111111111111111111111111111", /* no end */
         TACTUS_E_MESSAGE_TOO_LARGE, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_TCP, NULL);
        b.config->limits.max_message_bytes = 60;
        client_open(&b, &f, NET_TCP, NULL);
        far_say(&f, cases[i].text);
        struct told t = answer(&b, &f, cases[i].counted, "");
        assert_string_equal(t.type, cases[i].type);
        assert_true(net_until(&b.net, far_ended, &f));
        assert_false(f.gone);
        shut(&b, &f);
    }
}

static void test_http(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    far_say(&f, "GET / HTTP/1.1\r\n\r\n");
    assert_true(net_until(&b.net, far_ended, &f));
    assert_int_equal(strncmp(f.in, "HTTP/1.1 404 ", 13), 0);
    shut(&b, &f);
}

/* ---- limits ---- */

static void test_max_inflight(void **state)
{
    struct wire_bed b;
    struct far f;
    struct far g;

    (void)state;
    open_plain(&b, &f);
    b.config->limits.max_inflight_per_connection = 2;
    b.config->limits.max_inflight = 3;
    far_say(&f, LINE(HOLD("1")) LINE(HOLD("2")) LINE(HOLD("3")) LINE(CANCEL("4", "nobody")));
    struct told t = answer(&b, &f, NDJSON, "3");
    assert_string_equal(t.type, TACTUS_E_TOO_MANY_REQUESTS);
    assert_true(t.retry_after > 0); /* BerriAI/litellm#27823 */
    expect_done(&b, &f, "4");
    client_open(&b, &g, NET_UNIX, NULL);
    far_say(&g, LINE(HOLD("1")) LINE(HOLD("2")));
    t = answer(&b, &g, NDJSON, "2");
    assert_string_equal(t.type, TACTUS_E_OVERLOADED);
    assert_true(t.retry_after > 0);
    assert_int_equal(b.nheld, 3);
    held_done(&b, 0);
    far_say(&g, LINE(HOLD("5")));
    wait_held(&b, 3);
    for (unsigned i = 0; i < 3; i++) {
        held_done(&b, i);
    }
    expect_done(&b, &f, "1");
    expect_done(&b, &f, "2");
    expect_done(&b, &g, "1");
    expect_done(&b, &g, "5");
    client_close(&b, &g);
    shut(&b, &f);
}

static void test_duplicate_id(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    far_say(&f, LINE(HOLD("1")) LINE(PING("1")));
    struct told t = answer(&b, &f, NDJSON, "1");
    assert_string_equal(t.type, TACTUS_E_BAD_REQUEST);
    assert_string_equal(t.message, "Duplicate id");
    assert_int_equal(b.nheld, 1); /* the first one runs on */
    held_done(&b, 0);
    far_say(&f, LINE("{\"id\":\"2\",\"method\":\"test.hold\"}"));
    wait_held(&b, 1);
    /* The same id, written otherwise. */
    far_say(&f, LINE("{\"id\":\"\\u0032\",\"method\":\"test.hold\"}"));
    t = answer(&b, &f, NDJSON, "2");
    assert_string_equal(t.message, "Duplicate id");
    held_done(&b, 0);
    f.n = 0;
    far_say(&f, LINE(PING("1"))); /* it has ended: the id is free */
    expect_done(&b, &f, "1");
    shut(&b, &f);
}

static bool one_is_left(void *ctx)
{
    struct wire_bed *b = ctx;

    return atomic_load(&b->totals.connections) <= 1;
}

static void test_max_connections(void **state)
{
    struct wire_bed b;
    struct far f;
    struct far g;

    (void)state;
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.max_connections = 1;
    client_open(&b, &f, NET_UNIX, NULL);
    client_open(&b, &g, NET_UNIX, NULL);
    far_say(&g, LINE(PING("1")));
    expect_error(&b, &g, "", TACTUS_E_OVERLOADED);
    assert_true(net_until(&b.net, far_ended, &g));
    far_say(&f, LINE(PING("1")));
    expect_done(&b, &f, "1");
    client_close(&b, &g);
    assert_true(net_until(&b.net, one_is_left, &b));
    client_open(&b, &g, NET_UNIX, NULL);
    far_hang_up(&f, false);
    assert_true(net_until(&b.net, one_is_left, &b));
    client_close(&b, &g);
    shut(&b, &f);
}

/* The bound of all buffers together: the one is told, others go on when there is room again. */
static void test_max_buffered(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    b.config->limits.max_buffered_bytes = 1;
    far_say(&f, LINE(PING("1")));
    expect_error(&b, &f, "1", TACTUS_E_OVERLOADED);
    b.config->limits.max_buffered_bytes = 1024 * 1024;
    far_say(&f, LINE(PING("2")));
    expect_done(&b, &f, "2");
    shut(&b, &f);

    /* What is kept of a message that nobody can read any more goes at once. */
    static char much[100000];
    memset(much, '{', sizeof(much));
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.max_buffered_bytes = sizeof(much) / 2;
    client_open(&b, &f, NET_UNIX, NULL);
    far_send(&f, span_of(much, sizeof(much)));
    expect_error(&b, &f, "", TACTUS_E_OVERLOADED);
    assert_true(net_until(&b.net, far_ended, &f));
    assert_false(bed_is_empty(&b));
    assert_int_equal(atomic_load(&b.totals.buffered), 0);
    shut(&b, &f);
}

/* ---- cancel ---- */

static void test_cancel(void **state)
{
    struct wire_bed b;
    struct far f;
    struct far g;

    (void)state;
    open_plain(&b, &f);
    client_open(&b, &g, NET_UNIX, NULL);
    far_say(&g, LINE(HOLD("1")));
    wait_held(&b, 1);
    far_say(&f, LINE(HOLD("1")) LINE(CHAT("2", "slow-60000", "x y")) LINE(CANCEL("c1", "1"))
                    LINE(CANCEL("c2", "2")) LINE(CANCEL("c3", "1")) LINE(CANCEL("c4", "c4")));
    for (size_t i = 0; i < 4; i++) {
        static const char *const ids[] = {"c1", "c2", "c3", "c4"};
        struct told t = answer(&b, &f, NDJSON, ids[i]);
        assert_string_equal(t.type, "");
        struct span yes = SPAN("{\"cancelled\":true}");
        assert_int_equal(span_eq(t.data, yes), i < 2);
    }
    expect_error(&b, &f, "1", TACTUS_E_CANCELLED);
    expect_error(&b, &f, "2", TACTUS_E_CANCELLED);
    assert_int_equal(b.cancelled, 1);
    assert_int_equal(b.nheld, 1); /* of that name, on another connection */
    assert_int_equal(atomic_load(&b.totals.inflight), 1);
    held_done(&b, 0);
    expect_done(&b, &g, "1");
    client_close(&b, &g);
    shut(&b, &f);
}

/* ---- the end of the broker ---- */

static void test_drain(void **state)
{
    struct wire_bed b;
    struct far idle;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    client_open(&b, &idle, NET_UNIX, NULL);
    far_say(&idle, LINE(PING("0")));
    expect_done(&b, &idle, "0");
    far_say(&f, LINE(HOLD("1")));
    wait_held(&b, 1);
    wire_drain(&b.wire);
    assert_true(net_until(&b.net, far_ended, &idle));
    far_say(&f, LINE(PING("2")));
    expect_error(&b, &f, "2", TACTUS_E_SHUTTING_DOWN);
    net_settle(&b.net);
    assert_int_equal(b.nheld, 1);
    assert_false(f.eof);
    held_done(&b, 0);
    expect_done(&b, &f, "1");
    assert_true(net_until(&b.net, far_ended, &f));
    client_close(&b, &idle);
    far_hang_up(&f, false);
    wait_empty(&b);
    assert_int_equal(b.gone, 2);
    shut(&b, &f);
}

/* A request that was on its way when draining began is told why it is not served. */
static void test_drain_reads_on(void **state)
{
    struct wire_bed b;
    struct far idle;
    struct far f;

    (void)state;
    open_plain(&b, &f); /* has said nothing yet */
    client_open(&b, &idle, NET_UNIX, NULL);
    far_say(&idle, LINE(PING("0")));
    expect_done(&b, &idle, "0");
    wire_drain(&b.wire);
    far_say(&f, LINE(PING("1")));
    far_say(&idle, LINE(PING("2")));
    expect_error(&b, &f, "1", TACTUS_E_SHUTTING_DOWN);
    expect_error(&b, &idle, "2", TACTUS_E_SHUTTING_DOWN);
    assert_true(net_until(&b.net, far_ended, &f));
    assert_true(net_until(&b.net, far_ended, &idle));
    assert_int_equal(atomic_load(&b.totals.timed_out), 0);
    client_close(&b, &idle);
    shut(&b, &f);
}

/* askalf/dario#1370: streams that must be cut get an error event. */
static void test_shut_down(void **state)
{
    struct wire_bed b;
    struct far f;
    struct far fresh;

    (void)state;
    open_plain(&b, &f);
    client_open(&b, &fresh, NET_UNIX, NULL);
    far_say(&f,
            LINE(HOLD("1")) LINE(CHAT("2", "slow-60000", "x y")) LINE(CHAT("3", "slow-20", "x y")));
    wait_held(&b, 1);
    wire_shut_down(&b.wire);
    wire_shut_down(&b.wire);
    for (size_t i = 0; i < 3; i++) {
        static const char *const ids[] = {"1", "2", "3"};
        expect_error(&b, &f, ids[i], TACTUS_E_SHUTTING_DOWN);
    }
    assert_int_equal(b.cancelled, 1);
    assert_true(net_until(&b.net, far_ended, &f));
    assert_true(net_until(&b.net, far_ended, &fresh));
    assert_false(f.gone);
    assert_int_equal(fresh.n, 0);
    client_close(&b, &fresh);
    shut(&b, &f);
}

static void test_close_all(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    far_say(&f, LINE(HOLD("1")) LINE(CHAT("2", "slow-60000", "x y")) "{\"half\":");
    wait_held(&b, 1);
    wire_close_all(&b.wire);
    assert_int_equal(b.cancelled, 1);
    assert_int_equal(b.gone, 1);
    shut(&b, &f);
}

/* ---- the client goes ---- */

/* BerriAI/litellm#37140, #31499, #30245: whatever the phase, the work behind it ends. */
static void test_client_gone(void **state)
{
    static const char *const before[] = {
        NULL,                                  /* no byte yet */
        "{\"id\":\"1\",\"met",                 /* inside a message */
        "00000",                               /* inside a prefix */
        LINE(PING("0")),                       /* idle */
        LINE(HOLD("0")),                       /* waiting */
        LINE(CHAT("0", "slow-60000", "x y")),  /* before the first byte of a reply */
        LINE(CHAT("0", "tokens-100000", "x")), /* in mid-stream, congested */
    };

    (void)state;
    for (size_t i = 0; i < 7 * 3; i++) {
        struct wire_bed b;
        struct far f;
        enum net_kind kind = i % 3 == 0 ? NET_UNIX : NET_TCP;
        wire_bed_open(&b, kind, NULL);
        client_open(&b, &f, kind, NULL);
        f.read_size = 0;
        if (before[i / 3] != NULL) {
            far_say(&f, before[i / 3]);
            assert_true(net_until(&b.net, far_sent, &f));
        }
        net_settle(&b.net);
        far_hang_up(&f, i % 3 == 2); /* TCP: closed, and reset */
        wait_empty(&b);
        assert_int_equal(atomic_load(&b.totals.inflight), 0);
        assert_int_equal(b.cancelled, i / 3 == 4 ? 1 : 0);
        shut(&b, &f);
    }
}

static void test_client_gone_in_handshake(void **state)
{
    const struct tls_pair *tls = *state;

    for (size_t n = 0; n < 300; n += 60) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_TCP, tls->server);
        client_open(&b, &f, NET_TCP, tls->client);
        f.write_size = n;
        net_turn(&b.net);
        far_hang_up(&f, false);
        wait_empty(&b);
        shut(&b, &f);
    }
}

/* After a half-close every request read so far finishes, where half-closes are not an end. */
static void test_half_close(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    far_say(&f, LINE(HOLD("1")) LINE(CHAT("2", "slow-5", "a b")) LINE(PING("3")) "{\"id\":\"cut");
    assert_true(net_until(&b.net, far_sent, &f));
    far_shut(&f);
    expect_done(&b, &f, "2");
    expect_done(&b, &f, "3");
    net_settle(&b.net);
    assert_false(f.eof);
    held_done(&b, 0);
    expect_done(&b, &f, "1");
    assert_true(net_until(&b.net, far_ended, &f));
    assert_false(f.gone);
    shut(&b, &f);

    wire_bed_open(&b, NET_TCP, NULL);
    client_open(&b, &f, NET_TCP, NULL);
    far_say(&f, LINE(HOLD("1")));
    wait_held(&b, 1);
    far_shut(&f);
    wait_empty(&b);
    assert_int_equal(b.cancelled, 1);
    expect_error(&b, &f, "1", TACTUS_E_CANCELLED);
    shut(&b, &f);
}

/* A half-closed client that then goes altogether takes its requests with it. */
static void test_half_close_then_gone(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    open_plain(&b, &f);
    far_say(&f, LINE(HOLD("1")));
    wait_held(&b, 1);
    far_shut(&f);
    net_settle(&b.net);
    assert_int_equal(b.cancelled, 0);
    far_hang_up(&f, false);
    wait_empty(&b);
    assert_int_equal(b.cancelled, 1);
    shut(&b, &f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_max_inflight),
        cmocka_unit_test(test_duplicate_id),
        cmocka_unit_test(test_max_connections),
        cmocka_unit_test(test_max_buffered),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_reads_on),
        cmocka_unit_test(test_shut_down),
        cmocka_unit_test(test_close_all),
        cmocka_unit_test(test_client_gone),
        cmocka_unit_test(test_client_gone_in_handshake),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_half_close_then_gone),
    };

    return cmocka_run_group_tests(tests, tls_pair_setup, tls_pair_teardown);
}
