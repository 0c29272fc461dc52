/*
 * Sessions under pressure and under their deadlines: clients that do not read, that read slowly,
 * that say nothing or only half of it.
 */
#include "fixtures/tls_pair.h"
#include "fixtures/wire_bed.h"
#include "net/stream.h"
#include "tactus/protocol.h"
#include "wire/session_private.h"

#define LINE(json) json "\n"

static void shut(struct wire_bed *b, struct far *f)
{
    client_close(b, f);
    wait_empty(b);
    wire_bed_close(b);
}

/* "token token …", `n` of them: how many bytes, and their sum. */
static uint64_t tokens_sum(size_t n, size_t *bytes)
{
    uint64_t sum = 0;

    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct span word = i == 0 ? SPAN("token") : SPAN(" token");
        sum = text_sum(sum, word);
        *bytes += word.n;
    }
    return sum;
}

static bool all_is_out(void *ctx)
{
    struct wire_bed *b = ctx;

    return atomic_load(&b->totals.inflight) == 0 && atomic_load(&b->totals.buffered) == 0;
}

/* MAXeaglet/commandcode-proxy#20: a client that does not read costs bounded memory, and nobody else
 * waits for it. When it reads at last it gets all of it. */
static void check_stalled(const struct tls_pair *tls)
{
    struct wire_bed b;
    struct far stalled;
    struct far other;
    size_t bytes = 0;

    wire_bed_open(&b, NET_UNIX, tls == NULL ? NULL : tls->server);
    client_open(&b, &stalled, NET_UNIX, tls == NULL ? NULL : tls->client);
    client_open(&b, &other, NET_UNIX, tls == NULL ? NULL : tls->client);
    far_say(&other, LINE(PING("0")));
    expect_done(&b, &other, "0");
    far_say(&stalled, LINE(PING("0")));
    expect_done(&b, &stalled, "0");
    stalled.n = 0;
    stalled.read_size = 0;
    far_say(&stalled, LINE(CHAT("1", "tokens-50000", "x")));
    assert_true(net_until(&b.net, far_sent, &stalled));
    for (int i = 0; i < 20; i++) {
        net_settle(&b.net);
        assert_true(atomic_load(&b.totals.buffered) < 2u * STREAM_HIGH);
        other.n = 0;
        far_say(&other, LINE(CHAT("2", "tokens-20", "x")));
        expect_done(&b, &other, "2");
    }
    assert_int_equal(atomic_load(&b.totals.inflight), 1);
    uint64_t sum = tokens_sum(50000, &bytes);
    stalled.read_size = ALL;
    assert_true(net_until(&b.net, all_is_out, &b)); /* not read meanwhile: it is long */
    struct told t = answer(&b, &stalled, NDJSON, "1");
    assert_string_equal(t.type, "");
    assert_int_equal(t.text_bytes, bytes);
    assert_true(t.text_sum == sum);
    client_close(&b, &other);
    shut(&b, &stalled);
}

static void test_stalled_reader(void **state)
{
    check_stalled(NULL);
    check_stalled(*state);
}

/* It is not read from either: what it asks for does not pile up. */
static void test_stalled_writer(void **state)
{
    struct wire_bed b;
    struct far f;
    struct buf much;

    (void)state;
    wire_bed_open(&b, NET_UNIX, NULL);
    client_open(&b, &f, NET_UNIX, NULL);
    buf_init(&much, 16u * 1024 * 1024);
    while (much.len < 4u * 1024 * 1024) {
        frame(&much, NDJSON,
              CALL("x", "tool.call", "{\"name\":\"host.echo\",\"args\":{\"t\":\"0123456789\"}}"));
    }
    f.read_size = 0;
    far_send(&f, buf_span(&much));
    for (int i = 0; i < 20; i++) {
        net_settle(&b.net);
        assert_true(atomic_load(&b.totals.buffered) < 4u * STREAM_HIGH);
    }
    assert_true(f.out.n > much.len / 2);
    /* Paused, it still is seen to go. */
    far_hang_up(&f, false);
    wait_empty(&b);
    buf_fini(&much);
    shut(&b, &f);
}

static bool both_drained(void *ctx)
{
    const struct wire_bed *b = ctx;

    return b->drained >= 2;
}

/* A handler that waits is told once the client has read. */
static void test_on_drain(void **state)
{
    struct wire_bed b;
    struct far f;
    static char big[STREAM_HIGH + 100];

    (void)state;
    memset(big, '1', sizeof(big));
    wire_bed_open(&b, NET_UNIX, NULL);
    client_open(&b, &f, NET_UNIX, NULL);
    f.read_size = 0;
    far_say(&f, LINE(HOLD("1")) LINE(HOLD("2")));
    wait_held(&b, 2);
    assert_false(request_congested(b.held[0]));
    assert_int_equal(request_event(b.held[0], "delta", span_of(big, sizeof(big))), ERR_OK);
    assert_true(request_congested(b.held[0]));
    assert_true(request_congested(b.held[1])); /* they share the way */
    net_settle(&b.net);
    assert_int_equal(b.drained, 0);
    f.read_size = ALL;
    assert_true(net_until(&b.net, both_drained, &b));
    assert_false(request_congested(b.held[0]));
    held_done(&b, 0);
    held_done(&b, 1);
    expect_done(&b, &f, "1");
    expect_done(&b, &f, "2");
    assert_int_equal(b.drained, 2);
    shut(&b, &f);
}

/* Cancelled, or shut down, while the client does not read: the last word waits for it. */
static void test_ends_while_stalled(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_UNIX, NULL);
        client_open(&b, &f, NET_UNIX, NULL);
        f.read_size = 0;
        far_say(&f, LINE(CHAT("1", "tokens-100000", "x")));
        assert_true(net_until(&b.net, far_sent, &f));
        net_settle(&b.net);
        if (how == 0) {
            struct failure failure;
            failure_init(&failure, TACTUS_E_INTERNAL, "the test ends it");
            struct session *s = LIST_ENTRY(b.wire.sessions.next, struct session, node);
            request_abort(LIST_ENTRY(s->requests.next, struct request, node), &failure);
        } else {
            wire_shut_down(&b.wire);
        }
        assert_int_equal(atomic_load(&b.totals.inflight), 0);
        f.read_size = ALL;
        expect_error(&b, &f, "1", how == 0 ? TACTUS_E_INTERNAL : TACTUS_E_SHUTTING_DOWN);
        shut(&b, &f);
    }
}

/* ---- deadlines ---- */

static void check_timed_out(struct wire_bed *b, struct far *f, uint64_t n)
{
    assert_true(net_until(&b->net, far_ended, f));
    assert_false(f->gone);
    assert_int_equal(atomic_load(&b->totals.timed_out), n);
    shut(b, f);
}

static void test_first_byte_timeout(void **state)
{
    const struct tls_pair *tls = *state;

    for (int secure = 0; secure < 2; secure++) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_TCP, secure ? tls->server : NULL);
        b.config->limits.first_byte_timeout = 20;
        client_open(&b, &f, NET_TCP, secure ? tls->client : NULL);
        check_timed_out(&b, &f, 1);
        assert_int_equal(f.n, 0);
    }
}

static void test_handshake_timeout(void **state)
{
    const struct tls_pair *tls = *state;
    struct wire_bed b;
    struct far f;

    wire_bed_open(&b, NET_TCP, tls->server);
    b.config->limits.handshake_timeout = 20;
    client_open(&b, &f, NET_TCP, tls->client);
    f.write_size = 0;
    check_timed_out(&b, &f, 1);
}

/* From the first byte of a message to its last, however many come between. */
static void test_request_timeout(void **state)
{
    static const char *const begun[] = {"{", LINE(PING("0")) "{\"id\":", "0", "0000000099\n{"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_UNIX, NULL);
        b.config->limits.request_timeout = 30;
        client_open(&b, &f, NET_UNIX, NULL);
        far_say(&f, begun[i]);
        check_timed_out(&b, &f, 1);
    }
    struct wire_bed b;
    struct far f;
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.request_timeout = 100;
    client_open(&b, &f, NET_UNIX, NULL);
    while (!far_ended(&f)) { /* a byte now and then is no progress */
        assert_true(b.net.ticks < NET_TICKS / 10);
        if (f.out.n == 0) {
            far_say(&f, "x");
        }
        net_turn(&b.net);
    }
    assert_int_equal(atomic_load(&b.totals.timed_out), 1);
    shut(&b, &f);
}

static void test_idle_timeout(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.idle_timeout = 30;
    client_open(&b, &f, NET_UNIX, NULL);
    far_say(&f, LINE(HOLD("1")));
    wait_held(&b, 1);
    for (unsigned end = b.net.ticks + 60; b.net.ticks < end;) {
        net_turn(&b.net);
    }
    assert_false(f.eof); /* a request in flight is not idle */
    held_done(&b, 0);
    expect_done(&b, &f, "1");
    check_timed_out(&b, &f, 1);
}

/* A client that takes nothing of its reply and asks for nothing more is not kept for ever. */
static void test_idle_timeout_stuck(void **state)
{
    static char text[6000000]; /* more than a socket takes */
    struct wire_bed b;
    struct far f;
    struct buf message;

    (void)state;
    memset(text, 'x', sizeof(text));
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.idle_timeout = 30;
    b.config->limits.stall_timeout = 30;
    client_open(&b, &f, NET_UNIX, NULL);
    f.read_size = 0;
    buf_init(&message, WIRE_CAP);
    buf_put_str(&message,
                "{\"id\":\"1\",\"method\":\"tool.call\",\"params\":{\"name\":\"host.echo\","
                "\"args\":{\"x\":\"");
    buf_put(&message, text, sizeof(text));
    buf_put_str(&message, "\"}}}\n");
    assert_int_equal(buf_status(&message), ERR_OK);
    far_send(&f, buf_span(&message));
    wait_empty(&b);
    buf_fini(&message);
    assert_int_equal(atomic_load(&b.totals.timed_out), 1);
    f.read_size = ALL;
    shut(&b, &f);
}

/* A slow message of a client whose requests are in flight: they get their end. */
static void test_request_timeout_in_flight(void **state)
{
    struct wire_bed b;
    struct far f;

    (void)state;
    wire_bed_open(&b, NET_UNIX, NULL);
    b.config->limits.request_timeout = 30;
    client_open(&b, &f, NET_UNIX, NULL);
    far_say(&f, LINE(HOLD("1")) "{");
    wait_held(&b, 1);
    expect_error(&b, &f, "1", TACTUS_E_CANCELLED);
    assert_int_equal(b.cancelled, 1);
    check_timed_out(&b, &f, 1);
}

/* The whole call's time, also while the provider is paused for a client that does not read. */
static void test_total_timeout(void **state)
{
    (void)state;
    for (int stalled = 0; stalled < 2; stalled++) {
        struct wire_bed b;
        struct far f;
        wire_bed_open(&b, NET_UNIX, NULL);
        b.config->limits.total_timeout = 40;
        client_open(&b, &f, NET_UNIX, NULL);
        f.read_size = stalled == 1 ? 0 : ALL;
        far_say(&f, stalled == 1 ? LINE(CHAT("1", "tokens-100000", "x"))
                                 : LINE(CHAT("1", "slow-60000", "x y")));
        for (unsigned end = b.net.ticks + 80; b.net.ticks < end;) {
            net_turn(&b.net);
        }
        f.read_size = ALL;
        expect_error(&b, &f, "1", TACTUS_E_API_TIMEOUT);
        shut(&b, &f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stalled_reader),     cmocka_unit_test(test_stalled_writer),
        cmocka_unit_test(test_on_drain),           cmocka_unit_test(test_ends_while_stalled),
        cmocka_unit_test(test_first_byte_timeout), cmocka_unit_test(test_handshake_timeout),
        cmocka_unit_test(test_request_timeout),    cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_idle_timeout_stuck), cmocka_unit_test(test_request_timeout_in_flight),
        cmocka_unit_test(test_total_timeout),
    };

    return cmocka_run_group_tests(tests, tls_pair_setup, tls_pair_teardown);
}
