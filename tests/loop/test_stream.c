/*
 * Streams over real sockets, plain: byte by byte both ways, ends and half-ends, what the owner may
 * do inside a callback, pausing, back-pressure, finishing, resets, memory that is out.
 */
#include "fixtures/stream_bed.h"
#include "fixtures/torture.h"

static void echo(struct near *s)
{
    struct span piece = span_of(s->piece, s->piece_n);

    assert_int_equal(stream_write(s->stream, &piece, 1), ERR_OK);
}

static void check_echo(enum net_kind kind, SSL_CTX *server, SSL_CTX *client, size_t step)
{
    static const char text[] = "{\"a\":\"\xe6\xbc\xa2\"}\n";
    struct bed b;
    char expected[400];
    size_t n = 0;

    bed_open(&b, kind, &(struct stream_options){.tls = server}, client);
    b.far.read_size = step;
    b.far.write_size = step;
    b.near.on_data = echo;
    for (size_t i = 0; i < 20; i++) {
        n += (size_t)snprintf(expected + n, sizeof(expected) - n, "%s", text);
    }
    far_send(&b.far, span_of(expected, n));
    b.want = n;
    assert_true(net_until(&b.net, bed_far_has_all, &b));
    assert_int_equal(b.far.n, n);
    assert_memory_equal(b.far.in, expected, n);
    assert_int_equal(b.near.n, n);
    assert_memory_equal(b.near.in, expected, n);
    assert_int_equal(b.near.opened, server != NULL);
    bed_close(&b);
}

static void test_echo(void **state)
{
    struct tls_pair *tls = *state;

    for (size_t step = 1; step <= ALL; step *= 16) {
        check_echo(NET_UNIX, NULL, NULL, step);
        check_echo(NET_TCP, NULL, NULL, step);
        check_echo(NET_UNIX, tls->server, tls->client, step);
        check_echo(NET_TCP, tls->server, tls->client, step);
    }
}

/* ---- ends ---- */

static void test_unix_half_close(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    far_say(&b.far, "last");
    assert_true(net_until(&b.net, far_sent, &b.far));
    far_shut(&b.far);
    assert_true(net_until(&b.net, near_saw_eof, &b.near));
    assert_string_equal(b.near.in, "last");
    near_say(&b.near, "reply");
    net_settle(&b.net);
    assert_string_equal(b.far.in, "reply"); /* it still reads */
    assert_int_equal(b.near.closed, 0);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_CLOSED);
    assert_int_equal(b.near.eofs, 1);
    bed_close(&b);
}

/* No half-close came before it: the owner hears of the end once. */
static void test_unix_full_close(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    far_say(&b.far, "last");
    assert_true(net_until(&b.net, far_sent, &b.far));
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_CLOSED);
    assert_string_equal(b.near.in, "last");
    assert_int_equal(b.near.eofs, 0);
    bed_close(&b);
}

/* On TCP both look alike: on_eof, and the owner decides. */
static void test_tcp_fin(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        struct bed b;
        bed_plain(&b, NET_TCP);
        far_say(&b.far, "last");
        assert_true(net_until(&b.net, far_sent, &b.far));
        if (full == 1) {
            far_hang_up(&b.far, false);
        } else {
            far_shut(&b.far);
        }
        assert_true(net_until(&b.net, near_saw_eof, &b.near));
        assert_string_equal(b.near.in, "last");
        assert_int_equal(b.near.closed, 0);
        near_say(&b.near, "reply");
        if (full == 1) {
            near_gone(&b, ERR_CLOSED); /* its kernel answers with a reset */
        } else {
            stream_finish(b.near.stream, 1000);
            near_gone(&b, ERR_OK);
            assert_true(net_until(&b.net, far_ended, &b.far));
            assert_string_equal(b.far.in, "reply");
        }
        assert_int_equal(b.near.eofs, 1);
        bed_close(&b);
    }
}

static void test_reset(void **state)
{
    static void (*const before[])(struct near *) = {NULL, near_pause, near_finish};

    (void)state;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        struct bed b;
        bed_plain(&b, NET_TCP);
        if (before[i] != NULL) {
            before[i](&b.near);
            net_settle(&b.net);
        }
        far_hang_up(&b.far, true);
        near_gone(&b, ERR_CLOSED);
        assert_int_equal(b.near.eofs, 0);
        bed_close(&b);
    }
}

/* ---- inside a callback ---- */

static void test_close_in_data(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    b.near.on_data = near_close;
    far_say(&b.far, "x");
    assert_true(net_until(&b.net, far_ended, &b.far));
    net_settle(&b.net);
    assert_int_equal(b.near.closed, 0); /* the owner did it himself */
    assert_int_equal(b.near.n, 1);
    bed_close(&b);
}

static void answer_and_finish(struct near *s)
{
    near_say(s, "bye");
    near_finish(s);
    struct span late = SPAN("late");
    assert_int_equal(stream_write(s->stream, &late, 1), ERR_CLOSED);
    near_finish(s); /* again: nothing */
}

static void test_finish_in_data(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    b.near.on_data = answer_and_finish;
    far_say(&b.far, "first");
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_string_equal(b.far.in, "bye");
    far_say(&b.far, "second");
    net_settle(&b.net);
    assert_string_equal(b.near.in, "first"); /* no on_data any more */
    assert_int_equal(b.near.closed, 0);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_OK);
    assert_int_equal(b.near.eofs, 0);
    bed_close(&b);
}

static void test_pause_in_data(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    b.near.on_data = near_pause;
    far_say(&b.far, "one");
    assert_true(net_until(&b.net, near_has_data, &b.near));
    far_say(&b.far, "two");
    net_settle(&b.net);
    assert_string_equal(b.near.in, "one");
    b.near.n = 0;
    stream_resume(b.near.stream);
    assert_int_equal(b.near.n, 0); /* not before it returns */
    assert_true(net_until(&b.net, near_has_data, &b.near));
    assert_string_equal(b.near.in, "two");
    bed_close(&b);
}

static void test_close_in_eof_and_drain(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    b.near.on_eof = near_close;
    far_shut(&b.far);
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_int_equal(b.near.eofs, 1);
    net_settle(&b.net);
    bed_close(&b);

    bed_plain(&b, NET_UNIX);
    b.near.on_drain = near_close;
    near_fill(&b.near, STREAM_HIGH + 1);
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_int_equal(b.near.drains, 1);
    bed_close(&b);
}

/* ---- a paused stream ---- */

static void test_paused_sees_the_peer_go(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    stream_pause(b.near.stream);
    far_say(&b.far, "unread");
    net_settle(&b.net);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_CLOSED);
    assert_int_equal(b.near.n, 0);
    bed_close(&b);

    bed_open(&b, NET_TCP, &(struct stream_options){.eof_means_gone = true}, NULL);
    stream_pause(b.near.stream);
    far_say(&b.far, "unread");
    net_settle(&b.net);
    far_hang_up(&b.far, false);
    assert_true(net_until(&b.net, near_saw_eof, &b.near));
    assert_int_equal(b.near.n, 0);
    net_settle(&b.net);
    assert_int_equal(b.near.eofs, 1);
    bed_close(&b);
}

/* A half-close is no reason to stop: what was sent before it is delivered after the pause. */
static void test_paused_half_close(void **state)
{
    (void)state;
    for (enum net_kind kind = NET_UNIX; kind <= NET_TCP; kind++) {
        struct bed b;
        bed_plain(&b, kind);
        stream_pause(b.near.stream);
        far_say(&b.far, "unread");
        net_settle(&b.net);
        far_shut(&b.far);
        net_settle(&b.net);
        assert_int_equal(b.near.eofs + b.near.closed, 0);
        stream_resume(b.near.stream);
        assert_true(net_until(&b.net, near_saw_eof, &b.near));
        assert_string_equal(b.near.in, "unread");
        assert_int_equal(b.near.closed, 0);
        bed_close(&b);
    }
    struct bed b;
    bed_plain(&b, NET_UNIX);
    stream_pause(b.near.stream);
    far_shut(&b.far);
    net_settle(&b.net);
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_CLOSED);
    assert_int_equal(b.near.eofs, 0);
    bed_close(&b);
}

/* ---- back-pressure ---- */

static void test_congestion(void **state)
{
    struct tls_pair *tls = *state;

    for (int secure = 0; secure < 2; secure++) {
        struct bed b;
        bed_open(&b, NET_UNIX, &(struct stream_options){.tls = secure ? tls->server : NULL},
                 secure ? tls->client : NULL);
        assert_true(net_until(&b.net, near_is_open, &b.near));
        b.far.read_size = 0;
        near_fill(&b.near, STREAM_HIGH);
        assert_false(stream_congested(b.near.stream));
        near_fill(&b.near, 1);
        assert_true(stream_congested(b.near.stream));
        near_fill(&b.near, 1024 * 1024); /* more than any socket takes */
        net_settle(&b.net);
        assert_true(stream_congested(b.near.stream));
        assert_int_equal(b.near.drains, 0);
        b.far.read_size = 4096;
        assert_true(net_until(&b.net, near_drained, &b.near));
        assert_true(b.near.queued_at_drain <= STREAM_LOW);
        assert_false(stream_congested(b.near.stream));
        b.want = b.near.written;
        assert_true(net_until(&b.net, bed_far_has_all, &b));
        assert_int_equal(b.near.drains, 1);
        assert_true(far_has_pattern(&b.far, b.near.written));
        assert_int_equal(stream_queued(b.near.stream), 0);
        assert_int_equal(atomic_load(&b.meter), 0);
        bed_close(&b);
    }
}

/* ---- finishing ---- */

static void test_finish_flushes(void **state)
{
    struct tls_pair *tls = *state;

    for (int secure = 0; secure < 2; secure++) {
        struct bed b;
        bed_open(&b, NET_TCP, &(struct stream_options){.tls = secure ? tls->server : NULL},
                 secure ? tls->client : NULL);
        assert_true(net_until(&b.net, near_is_open, &b.near));
        b.far.read_size = 4096;
        near_fill(&b.near, 1024 * 1024);
        stream_finish(b.near.stream, 1000);
        assert_true(net_until(&b.net, far_ended, &b.far));
        assert_false(b.far.gone);
        assert_int_equal(b.near.drains, 0);
        assert_true(far_has_pattern(&b.far, 1024 * 1024));
        far_hang_up(&b.far, false);
        near_gone(&b, ERR_OK);
        bed_close(&b);
    }
}

/* Slow is not gone: each bit that the peer takes gives it its time anew. */
static void test_finish_waits_for_the_slow(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    near_fill(&b.near, 1024 * 1024);
    stream_finish(b.near.stream, 400);
    while (!far_ended(&b.far)) {
        unsigned end = b.net.ticks + 10;
        b.far.read_size = 16384;
        net_turn(&b.net);
        for (b.far.read_size = 0; b.net.ticks < end;) {
            net_turn(&b.net);
        }
    }
    assert_true(far_has_pattern(&b.far, 1024 * 1024));
    far_hang_up(&b.far, false);
    near_gone(&b, ERR_OK);
    bed_close(&b);
}

/* One that takes nothing is cut off. */
static void test_finish_gives_up(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    b.far.read_size = 0;
    near_fill(&b.near, 1024 * 1024);
    net_settle(&b.net);
    stream_finish(b.near.stream, 20);
    near_gone(&b, ERR_LIMIT);
    assert_int_equal(atomic_load(&b.meter), 0);
    bed_close(&b);
}

/* What the peer still sends is discarded, but not for ever: neither in bytes nor in time. */
static void test_finish_lingers(void **state)
{
    struct bed b;
    size_t n = 16u * STREAM_LINGER_BYTES;
    char *much = calloc(1, n);

    (void)state;
    assert_non_null(much);
    bed_plain(&b, NET_UNIX);
    stream_finish(b.near.stream, 1000);
    far_send(&b.far, span_of(much, n));
    near_gone(&b, ERR_OK);
    assert_true(b.far.raw_out > STREAM_LINGER_BYTES);
    assert_true(b.far.raw_out < 3u * STREAM_LINGER_BYTES); /* and what the kernel held */
    assert_int_equal(b.near.n, 0);
    bed_close(&b);

    bed_plain(&b, NET_UNIX);
    stream_finish(b.near.stream, 1000);
    near_gone(&b, ERR_OK); /* after STREAM_LINGER_MS: the peer never closes */
    bed_close(&b);
    free(much);
}

/* ---- memory ---- */

static bool is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

static void test_new_fails(void **state)
{
    struct tls_pair *tls = *state;
    struct net net;
    struct near near = {0};
    unsigned failures = 0;

    net_open(&net);
    for (int secure = 0; secure < 2; secure++) {
        enum err rc = ERR_NOMEM;
        for (size_t n = 0; rc != ERR_OK; n++) {
            int fd[2];
            struct error e = {0};
            struct stream_options o = {.tls = secure ? tls->server : NULL};
            net_pair(NET_UNIX, fd);
            torture_fail_after(n);
            rc = stream_new(net.loop, fd[0], &o, &near_handler, &near, &near.stream, &e);
            torture_off();
            assert_true(rc == ERR_OK || (rc == ERR_NOMEM && e.code == ERR_NOMEM));
            assert_true(rc == ERR_OK || is_closed(fd[0]));
            failures += rc != ERR_OK;
            close(fd[1]);
        }
        stream_close(near.stream);
    }
    assert_int_equal(failures, 3); /* the stream; the stream, its TLS half */
    struct error e = {0};
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    for (int secure = 0; secure < 2; secure++) {
        struct stream_options o = {.tls = secure ? tls->server : NULL};
        int fd = dup(file);
        assert_int_equal(stream_new(net.loop, fd, &o, &near_handler, &near, &near.stream, &e),
                         ERR_IO);
        assert_true(is_closed(fd));
    }
    close(file);
    net_close(&net);
}

/* An append that fails queues nothing; what was reserved goes out all the same. */
static void test_write_without_memory(void **state)
{
    struct bed b;
    char big[10000];
    struct span pieces[] = {SPAN("a"), span_of(big, sizeof(big))};
    struct span last = SPAN("last word");

    (void)state;
    memset(big, 'x', sizeof(big));
    bed_plain(&b, NET_UNIX);
    struct bufq_chunk *word = stream_reserve(b.near.stream, 9);
    struct bufq_chunk *unused = stream_reserve(b.near.stream, 100);
    assert_true(word != NULL && unused != NULL);
    assert_true(atomic_load(&b.meter) >= 109);
    torture_fail_after(0);
    assert_int_equal(stream_write(b.near.stream, pieces, 2), ERR_NOMEM);
    torture_fail_after(0);
    assert_null(stream_reserve(b.near.stream, 50));
    torture_fail_after(0);
    stream_write_reserved(b.near.stream, word, &last, 1);
    torture_off();
    stream_unreserve(b.near.stream, unused);
    assert_int_equal(stream_queued(b.near.stream), 9);
    b.want = 9;
    assert_true(net_until(&b.net, bed_far_has_all, &b));
    assert_string_equal(b.far.in, "last word");
    assert_int_equal(atomic_load(&b.meter), 0);
    bed_close(&b);
}

/* No memory for a deadline: the connection ends, by its owner's callback. */
static void test_deadline_without_memory(void **state)
{
    struct bed b;

    (void)state;
    bed_plain(&b, NET_UNIX);
    torture_fail_after(0);
    stream_finish(b.near.stream, 1000);
    torture_off();
    assert_int_equal(b.near.closed, 0);
    near_gone(&b, ERR_NOMEM);
    bed_close(&b);

    bed_plain(&b, NET_TCP);
    far_shut(&b.far);
    torture_fail_after(0);
    near_gone(&b, ERR_NOMEM);
    torture_off();
    assert_int_equal(b.near.eofs, 1);
    bed_close(&b);
}

/* ---- input first, and the end of output alone ---- */

static bool near_over(void *ctx)
{
    const struct near *s = ctx;

    return s->eofs > 0 || s->closed > 0;
}

/* The peer leaves while we have much to say: its last words come all the same. */
static void check_input_first(enum net_kind kind, bool paused)
{
    struct bed b;

    bed_open(&b, kind, &(struct stream_options){.input_first = true}, NULL);
    b.far.read_size = 0;
    if (paused) {
        stream_pause(b.near.stream);
    }
    near_fill(&b.near, BED_CAP / 2);
    far_say(&b.far, "last words");
    assert_true(net_until(&b.net, far_sent, &b.far));
    far_hang_up(&b.far, false);
    net_settle(&b.net);
    if (paused) {
        assert_int_equal(b.near.eofs + b.near.closed + b.near.n, 0);
        stream_resume(b.near.stream);
    }
    assert_true(net_until(&b.net, near_over, &b.near));
    assert_string_equal(b.near.in, "last words");
    if (b.near.stream != NULL) {
        struct span piece = SPAN("x");
        (void)!stream_write(b.near.stream, &piece, 1);
        net_settle(&b.net);
    }
    if (b.near.stream != NULL) {
        near_close(&b.near);
    }
    bed_close(&b);
}

static void test_input_first(void **state)
{
    (void)state;
    check_input_first(NET_UNIX, false);
    check_input_first(NET_UNIX, true);
    /* TCP answers our unread output with a reset, which may overtake what it sent. */
}

/* The peer sees the end of what we say and goes on. */
static void check_end_output(enum net_kind kind, SSL_CTX *server, SSL_CTX *client)
{
    struct bed b;
    struct span piece = SPAN("x");

    bed_open(&b, kind, &(struct stream_options){.tls = server, .input_first = true}, client);
    b.near.on_data = echo;
    far_say(&b.far, "once");
    b.want = 4;
    assert_true(net_until(&b.net, bed_far_has_all, &b));
    b.near.on_data = NULL;
    near_fill(&b.near, 200000);
    stream_end_output(b.near.stream);
    assert_int_equal(stream_write(b.near.stream, &piece, 1), ERR_CLOSED);
    assert_true(net_until(&b.net, far_ended, &b.far));
    assert_int_equal(b.far.n, 200004);
    if (server == NULL) {
        far_say(&b.far, " more");
        assert_true(net_until(&b.net, far_sent, &b.far));
        net_settle(&b.net);
        assert_string_equal(b.near.in, "once more");
    }
    assert_int_equal(b.near.closed, 0);
    near_close(&b.near);
    bed_close(&b);
}

static void test_end_output(void **state)
{
    struct tls_pair *tls = *state;

    check_end_output(NET_UNIX, NULL, NULL);
    check_end_output(NET_TCP, NULL, NULL);
    check_end_output(NET_TCP, tls->server, tls->client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_unix_half_close),
        cmocka_unit_test(test_unix_full_close),
        cmocka_unit_test(test_tcp_fin),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_close_in_data),
        cmocka_unit_test(test_finish_in_data),
        cmocka_unit_test(test_pause_in_data),
        cmocka_unit_test(test_close_in_eof_and_drain),
        cmocka_unit_test(test_paused_sees_the_peer_go),
        cmocka_unit_test(test_paused_half_close),
        cmocka_unit_test(test_congestion),
        cmocka_unit_test(test_finish_flushes),
        cmocka_unit_test(test_finish_waits_for_the_slow),
        cmocka_unit_test(test_finish_gives_up),
        cmocka_unit_test(test_finish_lingers),
        cmocka_unit_test(test_new_fails),
        cmocka_unit_test(test_write_without_memory),
        cmocka_unit_test(test_deadline_without_memory),
        cmocka_unit_test(test_input_first),
        cmocka_unit_test(test_end_output),
    };

    return cmocka_run_group_tests(tests, tls_pair_setup, tls_pair_teardown);
}
