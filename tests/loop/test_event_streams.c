/*
 * Event streams over the real HTTP server and bus: what a subscriber is told, in order and whole,
 * replay, heartbeats, a slow one, one who left, memory that is out.
 */
#include "http/event_streams.h"

#include "base/log.h"
#include "events/bus.h"
#include "fixtures/net_bed.h"
#include "fixtures/torture.h"
#include "gate/grant.h"
#include "http/httpd.h"

#define CAP     ((size_t)96 * 1024 * 1024)
#define REQUEST "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct bed {
    struct net net;
    struct bus *bus;
    struct httpd *httpd;
    struct event_streams *streams;
    const char *run;
    const uint64_t *since;
    enum err rc;
    unsigned asked;
};

static void on_request(void *ctx, struct httpd_request *r)
{
    struct bed *b = ctx;

    b->asked++;
    b->rc = event_streams_start(b->streams, r, b->run, b->since);
    if (b->rc != ERR_OK) {
        httpd_reply(r, &(struct httpd_reply){.status = 503});
    }
}

static void open_bed(struct bed *b, uint32_t heartbeat_ms)
{
    static const struct httpd_handler handler = {.on_request = on_request};
    static const struct httpd_options options = {.max_body = 10,
                                                 .max_connections = 8,
                                                 .max_streams = 2,
                                                 .request_timeout = 60000,
                                                 .idle_timeout = 60000,
                                                 .write_timeout = 60000};

    memset(b, 0, sizeof(*b));
    log_setup(LOG_ERROR, LOG_FORMAT_TEXT, NULL);
    net_open(&b->net);
    b->bus = bus_new();
    assert_non_null(b->bus);
    assert_int_equal(httpd_new(b->net.loop, &options, &handler, b, &b->httpd, NULL), ERR_OK);
    b->streams = event_streams_new(b->net.loop, b->bus, heartbeat_ms);
    assert_non_null(b->streams);
}

static void close_bed(struct bed *b)
{
    httpd_free(b->httpd);
    event_streams_free(b->streams);
    net_close(&b->net);
    bus_free(b->bus);
}

static void publish(struct bed *b, const char *run, const char *event)
{
    static const struct json_rules rules = {.max_depth = 8};
    char grant_name[] = "g";
    char run_name[32];
    const struct grant g = {.name = grant_name, .run = run == NULL ? NULL : run_name};
    struct json_value v;
    struct json_fault fault;

    (void)snprintf(run_name, sizeof(run_name), "%s", run == NULL ? "" : run);
    assert_int_equal(json_check_value(span_str(event), &rules, &v, &fault), ERR_OK);
    assert_int_equal(bus_publish(b->bus, &g, json_find(v, "event_type"), v.text, NULL), ERR_OK);
}

/* Allocation `fail` of ours from the accept on fails; SIZE_MAX: none. */
static void subscribe_failing(struct bed *b, struct far *f, size_t fail)
{
    static const struct httpd_peer peer = {.is_unix = true};
    unsigned before = b->asked;
    int fd[2];

    net_pair(NET_UNIX, fd);
    far_open(&b->net, f, fd[1], CAP, NULL);
    if (fail != SIZE_MAX) {
        torture_fail_after(fail);
    }
    httpd_accept(b->httpd, fd[0], &peer);
    far_say(f, REQUEST);
    while (b->asked == before && !far_ended(f)) {
        net_turn(&b->net);
    }
}

static void subscribe(struct bed *b, struct far *f)
{
    subscribe_failing(b, f, SIZE_MAX);
}

/* ---- what a subscriber was told ---- */

/* The chunks' content, up to the last whole one. The caller frees it. */
static char *content(const struct far *f)
{
    char *out = malloc(f->n + 1);
    size_t n = 0;
    const char *p = strstr(f->in, "\r\n\r\n");
    const char *end = f->in + f->n;

    assert_non_null(out);
    for (p = p == NULL ? end : p + 4; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t size = nl == NULL ? 0 : strtoul(p, NULL, 16);
        if (size == 0 || (size_t)(end - nl - 1) < size + 2) {
            break;
        }
        memcpy(out + n, nl + 1, size);
        n += size;
        p = nl + 1 + size + 2;
    }
    out[n] = '\0';
    return out;
}

struct wanted {
    struct far *far;
    const char *text; /* to be the end of what was told */
    size_t seen;      /* bytes that were looked at */
};

static bool is_told(void *ctx)
{
    struct wanted *w = ctx;
    const struct far *f = w->far;

    /* An event ends a chunk; nothing else is worth unpacking all of it. */
    if (f->n == w->seen || f->n < 4 || memcmp(f->in + f->n - 4, "\n\n\r\n", 4) != 0) {
        return false;
    }
    w->seen = f->n;
    char *all = content(w->far);
    size_t n = strlen(all);
    size_t want = strlen(w->text);
    bool told = n >= want && strcmp(all + n - want, w->text) == 0;

    free(all);
    return told;
}

static void expect_end(struct bed *b, struct far *f, const char *text)
{
    struct wanted w = {.far = f, .text = text};

    assert_true(net_until(&b->net, is_told, &w));
}

/* Waits for event `n` to be the last, and gives all that was told. The caller frees it. */
static char *told_until(struct bed *b, struct far *f, const char *end)
{
    expect_end(b, f, end);
    return content(f);
}

#define LOG(n) "{\"event_type\":\"log\",\"n\":" n "}"
#define END(n) ",\"event\":" LOG(n) "}\n\n"

/* The numbers after "id: ", each with a data line that has the same number. */
static unsigned ids(const char *text, uint64_t *out, unsigned max)
{
    unsigned n = 0;

    for (const char *p = strstr(text, "id: "); p != NULL; p = strstr(p + 1, "\nid: ")) {
        p += p[0] == '\n';
        char data[64];
        unsigned long long id = strtoull(p + 4, NULL, 10);
        (void)snprintf(data, sizeof(data), "id: %llu\ndata: {\"seq\":%llu,", id, id);
        assert_memory_equal(p, data, strlen(data));
        assert_true(n < max);
        out[n++] = id;
    }
    return n;
}

static void test_live(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    uint64_t id[8];

    open_bed(&b, 60000);
    publish(&b, "a", LOG("0"));
    subscribe(&b, &f);
    expect_end(&b, &f, ":\n\n"); /* it is connected */
    assert_non_null(strstr(f.in, "Content-Type: text/event-stream\r\n"));
    publish(&b, "a", LOG("1"));
    publish(&b, NULL, LOG("2"));
    char *all = told_until(&b, &f, END("2"));
    assert_int_equal(ids(all, id, 8), 2);
    assert_int_equal(id[0], 2);
    assert_int_equal(id[1], 3);
    free(all);
    publish(&b, NULL, LOG("3"));
    expect_end(&b, &f, END("3"));
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_one_run(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    uint64_t since = 0;
    uint64_t id[8];

    open_bed(&b, 60000);
    b.run = "a";
    b.since = &since;
    publish(&b, "b", LOG("1"));
    publish(&b, "a", LOG("2"));
    for (int i = 0; i < 3000; i++) { /* more than a reader steps over at once */
        publish(&b, "b", LOG("3"));
    }
    publish(&b, "a", LOG("4"));
    subscribe(&b, &f);
    char *all = told_until(&b, &f, END("4"));
    assert_int_equal(ids(all, id, 8), 2);
    assert_int_equal(id[0], 2);
    assert_int_equal(id[1], 3003);
    free(all);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_since(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    uint64_t since = 2;
    uint64_t id[8];

    open_bed(&b, 60000);
    b.since = &since;
    publish(&b, NULL, LOG("1"));
    publish(&b, NULL, LOG("2"));
    publish(&b, NULL, LOG("3"));
    publish(&b, NULL, LOG("4"));
    subscribe(&b, &f);
    char *all = told_until(&b, &f, END("4"));
    assert_int_equal(ids(all, id, 8), 2);
    assert_int_equal(id[0], 3);
    free(all);
    far_close(&b.net, &f);
    close_bed(&b);
}

/* Byte by byte: an event is whole whatever the client reads at once, and all come in order. */
static void test_reader_of_bytes(void **state)
{
    (void)state;
    struct bed b;
    struct far f;
    uint64_t id[64];
    char event[64];

    open_bed(&b, 60000);
    subscribe(&b, &f);
    f.read_size = 1;
    for (int i = 1; i <= 50; i++) {
        (void)snprintf(event, sizeof(event), "{\"event_type\":\"log\",\"n\":%d}", i);
        publish(&b, NULL, event);
    }
    char *all = told_until(&b, &f, END("50"));
    assert_int_equal(ids(all, id, 64), 50);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(id[i], i + 1);
    }
    free(all);
    far_close(&b.net, &f);
    close_bed(&b);
}

static void test_heartbeat(void **state)
{
    (void)state;
    struct bed b;
    struct far f;

    open_bed(&b, 5);
    subscribe(&b, &f);
    expect_end(&b, &f, ":\n\n:\n\n:\n\n:\n\n");
    publish(&b, NULL, LOG("1"));
    expect_end(&b, &f, END("1") ":\n\n:\n\n");
    /* Who left is noticed by it, without any event. */
    far_hang_up(&f, false);
    while (httpd_streams(b.httpd) > 0) {
        net_turn(&b.net);
    }
    far_close(&b.net, &f);
    close_bed(&b);
}

/* One that does not read holds nobody up, and is told what it missed. */
static void test_slow(void **state)
{
    (void)state;
    struct bed b;
    struct far slow;
    struct far quick;
    static char event[1024 * 1024];
    uint64_t id[80];

    open_bed(&b, 60000);
    subscribe(&b, &slow);
    subscribe(&b, &quick);
    slow.read_size = 0;
    memset(event, 'x', sizeof(event) - 1);
    memcpy(event, "{\"x\":\"", 6);
    memcpy(event + sizeof(event) - 3, "\"}", 2);
    for (int i = 0; i < 75; i++) { /* the ring holds 63 of these */
        publish(&b, NULL, event);
        while (quick.n < (size_t)(i + 1) * sizeof(event)) {
            net_turn(&b.net);
        }
    }
    publish(&b, NULL, LOG("1"));
    char *all = told_until(&b, &quick, END("1"));
    assert_int_equal(ids(all, id, 80), 76);
    assert_null(strstr(all, "dropped"));
    free(all);
    slow.read_size = ALL;
    all = told_until(&b, &slow, END("1"));
    const char *dropped = strstr(all, "\nevent: dropped\ndata: {\"dropped\":");
    assert_non_null(dropped);
    unsigned long lost = strtoul(strstr(dropped, "\":") + 2, NULL, 10);
    unsigned got = ids(all, id, 80);
    assert_int_equal(got + lost, 76);
    assert_true(lost >= 9);
    for (unsigned i = 1; i < got; i++) { /* in order, with one gap */
        assert_true(id[i] == id[i - 1] + 1 || id[i] == id[i - 1] + 1 + lost);
    }
    free(all);
    far_close(&b.net, &slow);
    far_close(&b.net, &quick);
    close_bed(&b);
}

static void test_limit(void **state)
{
    (void)state;
    struct bed b;
    struct far f[3];

    open_bed(&b, 60000);
    for (int i = 0; i < 3; i++) {
        subscribe(&b, &f[i]);
    }
    assert_int_equal(b.rc, ERR_LIMIT);
    assert_int_equal(httpd_streams(b.httpd), 2);
    for (int i = 0; i < 3; i++) {
        far_close(&b.net, &f[i]);
    }
    close_bed(&b);
}

static bool is_answered(void *ctx)
{
    const struct far *f = ctx;

    return f->n > 0 || f->eof || f->gone;
}

static void test_no_memory(void **state)
{
    (void)state;
    size_t n = 0;
    bool failed = true;

    for (; failed; n++) {
        struct bed b;
        struct far f;
        open_bed(&b, 60000);
        subscribe_failing(&b, &f, n);
        assert_true(net_until(&b.net, is_answered, &f));
        net_settle(&b.net);
        failed = torture_count() > n;
        torture_off();
        assert_true(failed || b.rc == ERR_OK);
        far_close(&b.net, &f);
        subscribe(&b, &f); /* the next one is served */
        assert_int_equal(b.rc, ERR_OK);
        publish(&b, NULL, LOG("1"));
        expect_end(&b, &f, END("1"));
        far_close(&b.net, &f);
        close_bed(&b);
        assert_true(n < 100);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live),      cmocka_unit_test(test_one_run),
        cmocka_unit_test(test_since),     cmocka_unit_test(test_reader_of_bytes),
        cmocka_unit_test(test_heartbeat), cmocka_unit_test(test_slow),
        cmocka_unit_test(test_limit),     cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
