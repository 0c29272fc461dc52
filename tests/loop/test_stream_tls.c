/*
 * The TLS half of streams over real sockets: ends with and without close_notify, what is no TLS,
 * records held back by a pause, a peer that makes us answer and does not read.
 */
#include "fixtures/stream_bed.h"
#include "fixtures/torture.h"

static struct tls_pair *tls_of(void **state)
{
    return *state;
}

static void bed_tls(struct bed *b, enum net_kind kind, const struct tls_pair *tls, bool gone)
{
    bed_open(b, kind, &(struct stream_options){.tls = tls->server, .eof_means_gone = gone},
             tls->client);
    assert_true(net_until(&b->net, near_is_open, &b->near));
    net_settle(&b->net); /* the ticket */
}

static bool far_was_notified(const struct far *f)
{
    return (SSL_get_shutdown(f->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

/* ---- ends ---- */

/* The peer's close_notify is its end; it still reads, and gets ours. */
static void test_close_notify(void **state)
{
    struct bed b;

    bed_tls(&b, NET_TCP, tls_of(state), false);
    far_say(&b.far, "last");
    assert_true(net_until(&b.net, far_sent, &b.far));
    (void)SSL_shutdown(b.far.ssl);
    assert_true(net_until(&b.net, near_saw_eof, &b.near));
    assert_string_equal(b.near.in, "last");
    assert_int_equal(b.near.closed, 0);
    near_say(&b.near, "reply");
    near_finish(&b.near);
    near_gone(&b, ERR_OK);
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_string_equal(b.far.in, "reply");
    assert_true(far_was_notified(&b.far));
    assert_false(b.far.failed);
    bed_close(&b);
}

static void test_finish_notifies(void **state)
{
    struct bed b;

    bed_tls(&b, NET_TCP, tls_of(state), true);
    near_say(&b.near, "bye");
    near_finish(&b.near);
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_string_equal(b.far.in, "bye");
    assert_true(far_was_notified(&b.far));
    assert_int_equal(b.near.closed, 0);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_OK);
    bed_close(&b);
}

/* A bare FIN where an end means gone: nobody is there for a close_notify. */
static void test_bare_fin(void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        struct bed b;
        bed_tls(&b, NET_TCP, tls_of(state), gone == 1);
        far_shut(&b.far);
        assert_true(net_until(&b.net, near_saw_eof, &b.near));
        near_finish(&b.near);
        near_gone(&b, ERR_OK);
        assert_true(net_until(&b.net, far_ended, &b.far));
        assert_int_equal(far_was_notified(&b.far), gone == 0);
        bed_close(&b);
    }
}

/* Gone before the handshake is over: no on_eof of a connection that never was open. */
static void test_cut_handshake(void **state)
{
    for (size_t cut = 0; cut < 200; cut += 33) {
        struct bed b;
        bed_open(&b, NET_TCP, &(struct stream_options){.tls = tls_of(state)->server},
                 tls_of(state)->client);
        b.far.write_size = cut;
        net_turn(&b.net);
        b.far.write_size = 0;
        net_settle(&b.net);
        far_hang_up(&b.far, false);
        near_gone(&b, ERR_CLOSED);
        assert_int_equal(b.near.opened + b.near.eofs, 0);
        bed_close(&b);
    }
}

/* ---- what is no TLS ---- */

static void test_garbage(void **state)
{
    static const char *const garbage[] = {
        "{\"id\":\"1\",\"method\":\"broker.info\"}\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\x16\x03\x01\xff\xff and no such record was ever made",
        "\x16\x03\x01\x01\x04\x01 a hello that is none, with all sorts of text in it",
    };

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct bed b;
        bed_open(&b, NET_TCP, &(struct stream_options){.tls = tls_of(state)->server}, NULL);
        far_say(&b.far, garbage[i]);
        if (i == 3) {
            assert_true(net_until(&b.net, far_sent, &b.far));
            net_settle(&b.net);
            assert_int_equal(b.near.closed, 0); /* the record is not whole */
            far_hang_up(&b.far, false);
            near_gone(&b, ERR_CLOSED);
        } else {
            near_gone(&b, ERR_PROTO);
        }
        assert_int_equal(b.near.opened + b.near.n, 0);
        bed_close(&b);
    }
}

/* A broken record in the middle: what came before it stays, the peer is told by an alert. */
static void test_broken_record(void **state)
{
    struct bed b;

    bed_tls(&b, NET_TCP, tls_of(state), false);
    far_say(&b.far, "good");
    assert_true(net_until(&b.net, near_has_data, &b.near));
    static const char broken[] = "\x17\x03\x03\x00\x20 this is not what the key would make";
    assert_true(far_write_raw(&b.far, broken, sizeof(broken) - 1) > 0);
    near_gone(&b, ERR_PROTO);
    assert_string_equal(b.near.in, "good");
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_true(b.far.failed);
    bed_close(&b);
}

/* ---- callbacks ---- */

static void test_in_open(void **state)
{
    static void (*const hooks[])(struct near *) = {near_close, near_finish, near_pause};

    for (size_t i = 0; i < 3; i++) {
        struct bed b;
        bed_open(&b, NET_UNIX, &(struct stream_options){.tls = tls_of(state)->server},
                 tls_of(state)->client);
        b.near.on_open = hooks[i];
        far_say(&b.far, "x");
        if (i < 2) {
            assert_true(net_until(&b.net, far_ended, &b.far));
        } else {
            net_settle(&b.net);
        }
        assert_int_equal(b.near.opened, 1);
        assert_int_equal(b.near.n, 0);
        if (i == 2) {
            stream_resume(b.near.stream);
            assert_true(net_until(&b.net, near_has_data, &b.near));
        }
        bed_close(&b);
    }
}

static void test_close_in_data(void **state)
{
    struct bed b;

    bed_tls(&b, NET_UNIX, tls_of(state), false);
    b.near.on_data = near_close;
    assert_int_equal(SSL_write(b.far.ssl, "one", 3), 3);
    assert_int_equal(SSL_write(b.far.ssl, "two", 3), 3); /* a second record in the same read */
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_string_equal(b.near.in, "one");
    bed_close(&b);
}

/* The socket has nothing any more, so no event will announce what lies in OpenSSL. */
static void test_records_held_by_a_pause(void **state)
{
    struct bed b;

    bed_tls(&b, NET_UNIX, tls_of(state), false);
    b.near.on_data = near_pause;
    assert_int_equal(SSL_write(b.far.ssl, "one", 3), 3);
    assert_int_equal(SSL_write(b.far.ssl, "two", 3), 3);
    assert_int_equal(SSL_write(b.far.ssl, "three", 5), 5);
    assert_true(net_until(&b.net, near_has_data, &b.near));
    net_settle(&b.net);
    assert_string_equal(b.near.in, "one");
    b.near.n = 0;
    stream_resume(b.near.stream);
    assert_true(net_until(&b.net, near_has_data, &b.near));
    net_settle(&b.net);
    assert_string_equal(b.near.in, "two");
    b.near.n = 0;
    b.near.on_data = NULL;
    stream_resume(b.near.stream);
    assert_true(net_until(&b.net, near_has_data, &b.near));
    assert_string_equal(b.near.in, "three");
    bed_close(&b);
}

/* The end comes after what was held back, also when close_notify came in the same read. */
static void test_end_held_by_a_pause(void **state)
{
    struct bed b;

    bed_tls(&b, NET_UNIX, tls_of(state), false);
    b.near.on_data = near_pause;
    assert_int_equal(SSL_write(b.far.ssl, "one", 3), 3);
    assert_int_equal(SSL_write(b.far.ssl, "two", 3), 3);
    (void)SSL_shutdown(b.far.ssl);
    assert_true(net_until(&b.net, near_has_data, &b.near));
    far_shut(&b.far);
    net_settle(&b.net);
    assert_int_equal(b.near.eofs, 0);
    b.near.on_data = NULL;
    stream_resume(b.near.stream);
    assert_true(net_until(&b.net, near_saw_eof, &b.near));
    assert_string_equal(b.near.in, "onetwo");
    assert_int_equal(b.near.eofs, 1);
    bed_close(&b);
}

static void test_paused_sees_the_peer_go(void **state)
{
    struct bed b;

    bed_tls(&b, NET_TCP, tls_of(state), true);
    stream_pause(b.near.stream);
    far_hang_up(&b.far, false);
    assert_true(net_until(&b.net, near_saw_eof, &b.near));
    bed_close(&b);
    bed_tls(&b, NET_UNIX, tls_of(state), false);
    stream_pause(b.near.stream);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_CLOSED);
    bed_close(&b);
}

/* ---- bounds ---- */

static bool bed_flooded(void *ctx)
{
    const struct bed *b = ctx;

    return b->near.closed > 0 || b->far.raw_out > (size_t)8 * 1024 * 1024;
}

/* Key updates that ask for one in return, from a peer that reads nothing: what we must answer waits
 * in memory, so there is an end to it. */
static void test_key_update_flood(void **state)
{
    struct bed b;

    bed_tls(&b, NET_UNIX, tls_of(state), false);
    b.far.read_size = 0;
    while (!bed_flooded(&b)) {
        for (int i = 0; i < 100 && BIO_ctrl_pending(b.far.wbio) < 65536; i++) {
            assert_int_equal(SSL_key_update(b.far.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
            assert_int_equal(SSL_do_handshake(b.far.ssl), 1);
        }
        net_turn(&b.net);
    }
    assert_int_equal(b.near.closed, 1);
    assert_int_equal(b.near.why, ERR_LIMIT);
    bed_close(&b);
}

/* Each of our allocations fails in turn while much goes out and some comes in: all of it arrives,
 * or the connection ends. */
static void test_nomem(void **state)
{
    bool failed = true;

    for (size_t n = 0; failed; n++) {
        struct bed b;
        bed_tls(&b, NET_UNIX, tls_of(state), false);
        char *text = calloc(1, 600000);
        struct span piece = span_of(text, 600000);
        assert_non_null(text);
        b.far.read_size = 0;
        torture_fail_after(n);
        enum err rc = stream_write(b.near.stream, &piece, 1);
        net_settle(&b.net);
        b.far.read_size = 8192;
        if (b.near.stream != NULL && rc == ERR_OK) {
            near_finish(&b.near);
            assert_true(net_until(&b.net, far_ended, &b.far));
        }
        torture_off();
        failed = b.far.n < 600000;
        assert_true(rc == ERR_OK || (rc == ERR_NOMEM && b.far.n == 0));
        assert_true(b.near.why == ERR_OK || b.near.why == ERR_NOMEM);
        assert_true(n < 50);
        free(text);
        bed_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_notify),
        cmocka_unit_test(test_finish_notifies),
        cmocka_unit_test(test_bare_fin),
        cmocka_unit_test(test_cut_handshake),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_broken_record),
        cmocka_unit_test(test_in_open),
        cmocka_unit_test(test_close_in_data),
        cmocka_unit_test(test_records_held_by_a_pause),
        cmocka_unit_test(test_end_held_by_a_pause),
        cmocka_unit_test(test_paused_sees_the_peer_go),
        cmocka_unit_test(test_key_update_flood),
        cmocka_unit_test(test_nomem),
    };

    return cmocka_run_group_tests(tests, tls_pair_setup, tls_pair_teardown);
}
