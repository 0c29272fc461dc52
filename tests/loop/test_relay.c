/*
 * relay/relay over a real Unix socket: requests and replies pass as they are, ids in flight, a lost
 * connection, back-pressure both ways.
 */
#include "relay/relay.h"

#include "fixtures/net_bed.h"

#include <sys/un.h>

#define IN_MAX (8u * 1024u * 1024u)

struct bed {
    struct net net;
    char dir[64];
    char path[108];
    int listener;
    struct relay *relay;
    struct far broker;
    bool connected;
    char in[65536]; /* replies */
    size_t n;
    unsigned drains;
};

static enum err on_reply(void *ctx, const struct span *pieces, size_t n)
{
    struct bed *b = ctx;

    for (size_t i = 0; i < n; i++) {
        assert_true(b->n + pieces[i].n < sizeof(b->in));
        memcpy(b->in + b->n, pieces[i].p, pieces[i].n);
        b->n += pieces[i].n;
        b->in[b->n] = '\0';
    }
    return ERR_OK;
}

static void on_drain(void *ctx)
{
    struct bed *b = ctx;

    b->drains++;
}

static const struct relay_handler handler = {.on_reply = on_reply, .on_drain = on_drain};

static void listen_at(struct bed *b)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    b->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(b->listener >= 0);
    memcpy(a.sun_path, b->path, sizeof(a.sun_path));
    assert_int_equal(bind(b->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(b->listener, 8), 0);
}

static void stop_listening(struct bed *b)
{
    close(b->listener);
    b->listener = -1;
    unlink(b->path);
}

static void bed_open(struct bed *b)
{
    struct error e = {0};

    memset(b, 0, sizeof(*b));
    net_open(&b->net);
    memcpy(b->dir, "/tmp/tactus-relay-XXXXXX", 25);
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof(b->path), "%s/b.sock", b->dir);
    listen_at(b);
    assert_int_equal(relay_new(b->net.loop, b->path, &handler, b, &b->relay, &e), ERR_OK);
}

static void accept_broker(struct bed *b)
{
    int fd = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    assert_true(fd >= 0);
    far_open(&b->net, &b->broker, fd, IN_MAX, NULL);
    b->connected = true;
}

static void drop_broker(struct bed *b)
{
    if (b->connected) {
        far_close(&b->net, &b->broker);
        b->connected = false;
    }
}

static void bed_close(struct bed *b)
{
    relay_free(b->relay);
    drop_broker(b);
    if (b->listener >= 0) {
        stop_listening(b);
    }
    rmdir(b->dir);
    net_close(&b->net);
}

static void ask(struct bed *b, const char *line)
{
    relay_request(b->relay, span_str(line));
    relay_request_end(b->relay);
}

static void settle(struct bed *b)
{
    net_settle(&b->net);
}

/* ---- what passes ---- */

static void test_both_ways(void **state)
{
    static const char first[] = "{\"id\":\"a\",\"method\":\"x\",\"params\":{\"n\":1.0}}";
    static const char events[] = "{\"id\":\"a\",\"event\":\"delta\",\"data\":{}}\n"
                                 "{\"id\":\"b\",\"event\":\"done\",\"data\":{}}\n";
    struct bed b;

    (void)state;
    bed_open(&b);
    for (size_t i = 0; i < sizeof(first) - 1; i++) { /* byte by byte */
        relay_request(b.relay, span_of(first + i, 1));
    }
    relay_request_end(b.relay);
    relay_request_end(b.relay); /* a blank line is nothing */
    ask(&b, "{\"id\":\"b\"}");
    assert_int_equal(relay_inflight(b.relay), 2);
    accept_broker(&b);
    settle(&b);
    assert_string_equal(b.broker.in,
                        "{\"id\":\"a\",\"method\":\"x\",\"params\":{\"n\":1.0}}\n{\"id\":\"b\"}\n");
    far_say(&b.broker, events);
    settle(&b);
    assert_string_equal(b.in, events);
    assert_int_equal(relay_inflight(b.relay), 1);
    bed_close(&b);
}

/* A long request is not kept: its id comes from its head. */
static void test_long_request(void **state)
{
    struct bed b;
    char *filler = malloc(1u << 20);

    (void)state;
    assert_non_null(filler);
    memset(filler, 'x', 1u << 20);
    bed_open(&b);
    relay_request(b.relay, SPAN("{\"id\":\"long\",\"method\":\"x\",\"params\":{\"text\":\""));
    accept_broker(&b);
    for (int i = 0; i < 4; i++) {
        relay_request(b.relay, span_of(filler, 1u << 20));
        assert_true(relay_congested(b.relay));
        settle(&b);
    }
    assert_int_equal(relay_inflight(b.relay), 1); /* before its end */
    relay_request(b.relay, SPAN("\"}}"));
    relay_request_end(b.relay);
    for (int i = 0; i < 100 && relay_queued(b.relay) > 0; i++) {
        settle(&b);
    }
    settle(&b);
    assert_int_equal(b.broker.n, 4u * (1u << 20) + strlen("{\"id\":\"long\",\"method\":\"x\","
                                                          "\"params\":{\"text\":\"\"}}\n"));
    assert_false(relay_congested(b.relay));
    assert_true(b.drains > 0);
    assert_int_equal(relay_inflight(b.relay), 1);
    free(filler);
    bed_close(&b);
}

/* ---- a lost broker ---- */

#define LOST(id)                                                                                   \
    "{\"id\":\"" id "\",\"event\":\"error\",\"error\":{\"type\":\"APIConnectionError\","           \
    "\"message\":\"The connection to the broker was lost\"}}\n"

static void test_lost_in_mid_event(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b);
    ask(&b, "{\"id\":\"a\"}");
    ask(&b, "{\"id\":\"b\"}");
    ask(&b, "{\"id\":\"c\"}");
    accept_broker(&b);
    far_say(&b.broker, "{\"id\":\"b\",\"event\":\"done\",\"data\":{}}\n{\"id\":\"a\",\"ev");
    settle(&b);
    far_hang_up(&b.broker, false);
    settle(&b);
    assert_string_equal(
        b.in,
        "{\"id\":\"b\",\"event\":\"done\",\"data\":{}}\n{\"id\":\"a\",\"ev\n" LOST("a") LOST("c"));
    assert_int_equal(relay_inflight(b.relay), 0);
    /* the next request finds the broker that is back */
    drop_broker(&b);
    b.n = 0;
    ask(&b, "{\"id\":\"d\"}");
    accept_broker(&b);
    settle(&b);
    assert_string_equal(b.broker.in, "{\"id\":\"d\"}\n");
    assert_int_equal(b.n, 0);
    bed_close(&b);
}

/* In the middle of a request: its rest goes nowhere, its id gets an end, once. */
static void test_lost_in_mid_request(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b);
    relay_request(b.relay, SPAN("{\"id\":\"a\",\"meth"));
    accept_broker(&b);
    settle(&b);
    far_hang_up(&b.broker, true);
    settle(&b);
    drop_broker(&b);
    assert_int_equal(b.n, 0);
    relay_request(b.relay, SPAN("od\":\"x\"}"));
    relay_request_end(b.relay);
    assert_string_equal(b.in, "{\"id\":\"a\",\"event\":\"error\",\"error\":{"
                              "\"type\":\"APIConnectionError\","
                              "\"message\":\"No connection to the broker\"}}\n");
    ask(&b, "{\"id\":\"b\"}");
    accept_broker(&b);
    settle(&b);
    assert_string_equal(b.broker.in, "{\"id\":\"b\"}\n");
    bed_close(&b);
}

/* The broker reads no more after an error that ends the connection: the next request goes over a
 * new one, also when the old one's end was not seen yet. */
static void test_ended_by_the_broker(void **state)
{
    static const char *const errors[] = {"MessageTooLarge", "Overloaded", "InternalError"};

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct bed b;
        char line[128];
        bed_open(&b);
        ask(&b, "{\"id\":\"a\"}");
        relay_request(b.relay, SPAN("{\"id\":\"long\",\"pad\":\""));
        accept_broker(&b);
        snprintf(line, sizeof(line),
                 "{\"id\":\"\",\"event\":\"error\",\"error\":{\"type\":\"%s\"}}\n", errors[i]);
        far_say(&b.broker, line);
        settle(&b);
        assert_string_equal(b.in, line);
        relay_request(b.relay, SPAN("\"}")); /* goes nowhere */
        relay_request_end(b.relay);
        settle(&b);
        assert_string_equal(b.broker.in, "{\"id\":\"a\"}\n{\"id\":\"long\",\"pad\":\"");
        b.n = 0;
        ask(&b, "{\"id\":\"next\"}");
        drop_broker(&b);
        accept_broker(&b);
        settle(&b);
        assert_string_equal(b.in, LOST("a") LOST("long"));
        assert_string_equal(b.broker.in, "{\"id\":\"next\"}\n");
        assert_int_equal(relay_inflight(b.relay), 1);
        bed_close(&b);
    }
}

/* One that is about a single line does not. */
static void test_error_of_a_line(void **state)
{
    static const char bad[] =
        "{\"id\":\"\",\"event\":\"error\",\"error\":{\"type\":\"BadRequest\"}}\n";
    struct bed b;

    (void)state;
    bed_open(&b);
    ask(&b, "{\"id\":\"a\"}");
    ask(&b, "nonsense");
    accept_broker(&b);
    far_say(&b.broker, bad);
    settle(&b);
    ask(&b, "{\"id\":\"b\"}");
    settle(&b);
    assert_string_equal(b.in, bad);
    assert_string_equal(b.broker.in, "{\"id\":\"a\"}\nnonsense\n{\"id\":\"b\"}\n");
    assert_int_equal(relay_inflight(b.relay), 2);
    bed_close(&b);
}

/* What waited for a broker that is gone, or reads no more, waits no longer: more may come. */
static void test_congested_at_the_end(void **state)
{
    char *filler = malloc(1u << 20);

    (void)state;
    assert_non_null(filler);
    memset(filler, 'x', 1u << 20);
    for (int lost = 0; lost < 2; lost++) {
        struct bed b;
        bed_open(&b);
        relay_request(b.relay, SPAN("{\"id\":\"a\",\"pad\":\""));
        accept_broker(&b);
        b.broker.read_size = 0;
        for (int i = 0; i < 8; i++) {
            relay_request(b.relay, span_of(filler, 1u << 20));
        }
        settle(&b);
        assert_true(relay_congested(b.relay));
        b.drains = 0;
        if (lost) {
            drop_broker(&b);
        } else {
            far_say(&b.broker, "{\"id\":\"\",\"event\":\"error\",\"error\":{\"type\":"
                               "\"MessageTooLarge\"}}\n");
        }
        settle(&b);
        assert_false(relay_congested(b.relay));
        assert_int_equal(relay_queued(b.relay), 0);
        assert_int_equal(b.drains, 1);
        bed_close(&b);
    }
    free(filler);
}

static void test_nobody_there(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b);
    stop_listening(&b);
    ask(&b, "{\"id\":\"q\\\"\",\"method\":\"x\"}");
    ask(&b, "no JSON");
    assert_string_equal(b.in, "{\"id\":\"q\\\"\",\"event\":\"error\",\"error\":{"
                              "\"type\":\"APIConnectionError\","
                              "\"message\":\"No connection to the broker\"}}\n");
    assert_int_equal(relay_inflight(b.relay), 0);
    bed_close(&b);
}

/* ---- back-pressure ---- */

static void test_hold(void **state)
{
    struct bed b;

    (void)state;
    bed_open(&b);
    relay_hold(b.relay, true); /* before there is a connection */
    ask(&b, "{\"id\":\"a\"}");
    accept_broker(&b);
    far_say(&b.broker, "{\"id\":\"a\",\"event\":\"done\",\"data\":{}}\n");
    settle(&b);
    assert_int_equal(b.n, 0);
    relay_hold(b.relay, false);
    settle(&b);
    assert_string_equal(b.in, "{\"id\":\"a\",\"event\":\"done\",\"data\":{}}\n");
    bed_close(&b);
}

static void test_endpoints(void **state)
{
    struct bed b;
    struct relay *r = NULL;
    struct error e = {0};

    (void)state;
    bed_open(&b);
    assert_int_equal(relay_new(b.net.loop, "tls://h:1", &handler, &b, &r, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "tls://h:1"));
    assert_int_equal(relay_new(b.net.loop, "nonsense", &handler, &b, &r, &e), ERR_CONFIG);
    assert_null(r);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_long_request),
        cmocka_unit_test(test_lost_in_mid_event),
        cmocka_unit_test(test_lost_in_mid_request),
        cmocka_unit_test(test_ended_by_the_broker),
        cmocka_unit_test(test_error_of_a_line),
        cmocka_unit_test(test_congested_at_the_end),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_endpoints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
