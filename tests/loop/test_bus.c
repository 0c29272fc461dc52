/*
 * The event bus: numbers, lines, the ring's bounds, a follower that writes all in order, one that
 * is too slow and is told, and publishers on several threads.
 */
#include "events/bus.h"

#include "base/log.h"
#include "base/redact.h"
#include "fixtures/torture.h"
#include "gate/grant.h"
#include "net/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define THREADS    4
#define PER_THREAD 3000

static const struct json_rules rules = {.max_depth = 64};

static struct json_value value(const char *json)
{
    struct json_value v = {0};
    struct json_fault fault;

    assert_int_equal(json_check_value(span_str(json), &rules, &v, &fault), ERR_OK);
    return v;
}

static enum err publish(struct bus *bus, const char *grant, const char *event,
                        const struct redact *redact)
{
    struct json_value v = value(event);
    char name[64];
    const struct grant g = {.name = name};

    (void)snprintf(name, sizeof(name), "%s", grant);
    return bus_publish(bus, &g, json_find(v, "event_type"), v.text, redact);
}

static void publish_ok(struct bus *bus, const char *event)
{
    assert_int_equal(publish(bus, "g", event, NULL), ERR_OK);
}

static uint64_t publish_number(struct bus *bus, uint64_t n)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "{\"event_type\":\"log\",\"n\":%llu}",
                   (unsigned long long)n);
    publish_ok(bus, text);
    return n;
}

/* ---- a bus with a follower, and what it wrote ---- */

struct followed {
    struct loop *loop;
    struct bus *bus;
    char path[64];
    char *text; /* the file's */
    size_t n;
    struct span rest; /* lines not looked at yet */
    uint64_t seq;     /* of the last line looked at */
};

static void follow_path(struct followed *f, const char *path)
{
    struct error e = {0};

    assert_int_equal(loop_new(&f->loop, &e), ERR_OK);
    f->bus = bus_new();
    assert_non_null(f->bus);
    assert_int_equal(bus_follow(f->bus, f->loop, path, &e), ERR_OK);
}

static void follow(struct followed *f)
{
    *f = (struct followed){.path = "/tmp/tactus-test-XXXXXX"};
    int fd = mkostemp(f->path, O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    follow_path(f, f->path);
}

static void turns(struct loop *loop, int n)
{
    for (int i = 0; i < n; i++) {
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
        uv_sleep(1);
    }
}

static void read_file(struct followed *f)
{
    FILE *file = fopen(f->path, "r");

    assert_non_null(file);
    free(f->text);
    f->text = malloc(64u * 1024 * 1024);
    assert_non_null(f->text);
    f->n = fread(f->text, 1, 64u * 1024 * 1024, file);
    f->rest = span_of(f->text, f->n);
    (void)fclose(file);
}

/* As the broker does at its end: the loop first. */
static void end(struct followed *f)
{
    loop_free(f->loop);
    bus_unfollow(f->bus);
    bus_free(f->bus);
    read_file(f);
    (void)unlink(f->path);
}

/* The next line's members; false: there is none. */
static bool next_line(struct followed *f, struct json_members *m)
{
    struct json_fault fault;
    const char *nl = f->rest.n == 0 ? NULL : memchr(f->rest.p, '\n', f->rest.n);

    if (nl == NULL) {
        assert_int_equal(f->rest.n, 0); /* no half line */
        return false;
    }
    size_t n = (size_t)(nl - f->rest.p);
    assert_int_equal(json_check_object(span_of(f->rest.p, n), &rules, m, &fault), ERR_OK);
    f->rest = span_of(nl + 1, f->rest.n - n - 1);
    assert_true(json_number_u64(json_get(m, "seq"), &f->seq));
    return true;
}

/* ---- lines ---- */

static void expect(const struct json_members *m, const char *name, const char *text)
{
    struct json_value v = json_get(m, name);

    assert_true(span_eq(v.text, span_str(text)));
}

static void test_lines(void **state)
{
    static const struct {
        const char *event;
        const char *type;
        const char *written; /* NULL: as it came */
    } cases[] = {
        {"{\"event_type\":\"log\",\"n\":9007199254740993}", "\"log\"", NULL},
        {"{\"a\":1.0}", "\"event\"", NULL},
        {"{\"event_type\":5}", "\"event\"", NULL},
        {"{\"event_type\":\"\"}", "\"event\"", NULL},
        {"{\"event_type\":\"a\\\"b\\u0041\",\"t\":\"\\n\"}", "\"a\\\"bA\"", NULL},
        {"{\"event_type\":\"\xe6\xbc\xa2\"}", "\"\xe6\xbc\xa2\"", NULL},
        {"{ \"a\" :\r\n\n[1,\n2] }", "\"event\"", "{ \"a\" :   [1, 2] }"},
        {"{\"k\":\"a hidden-secret b\"}", "\"event\"", "{\"k\":\"a [redacted] b\"}"},
        {"{\"event_type\":\"hidden\\u002dsecret\"}", "\"[redacted]\"", NULL},
    };
    struct followed f;
    struct json_members m;
    struct redact *redact = redact_new();

    (void)state;
    assert_non_null(redact);
    assert_int_equal(redact_add(redact, SPAN("hidden-secret")), ERR_OK);
    follow(&f);
    assert_int_equal(bus_count(f.bus), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(publish(f.bus, "a \"b\"", cases[i].event, redact), ERR_OK);
        assert_int_equal(bus_count(f.bus), i + 1);
    }
    end(&f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(next_line(&f, &m));
        assert_int_equal(f.seq, i + 1);
        assert_int_equal(m.n, 5);
        expect(&m, "grant", "\"a \\\"b\\\"\"");
        expect(&m, "type", cases[i].type);
        expect(&m, "event", cases[i].written == NULL ? cases[i].event : cases[i].written);
        assert_int_equal(json_get(&m, "time").text.n, 26);
    }
    assert_false(next_line(&f, &m));
    free(f.text);
    redact_free(redact);
}

/* ---- the follower ---- */

/* Written while the loop runs, not only at the end; then what is left. */
static void test_follower_writes_all(void **state)
{
    struct followed f;
    struct json_members m;
    uint64_t n = 0;

    (void)state;
    follow(&f);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 500; i++) {
            n += publish_number(f.bus, n) == n;
        }
        turns(f.loop, 1);
    }
    for (int i = 0; i < 5000 && f.seq < n; i++) {
        turns(f.loop, 1);
        read_file(&f);
        while (f.rest.n > 0 && f.text[f.n - 1] == '\n' && next_line(&f, &m)) {
        }
    }
    assert_int_equal(f.seq, n);
    for (int i = 0; i < 500; i++) {
        n += publish_number(f.bus, n) == n;
    }
    end(&f);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = 0;
        assert_true(next_line(&f, &m));
        assert_int_equal(f.seq, i + 1);
        assert_true(json_number_u64(json_find(json_get(&m, "event"), "n"), &number));
        assert_int_equal(number, i);
    }
    assert_false(next_line(&f, &m));
    free(f.text);
}

/* An existing file is appended to. */
static void test_appends(void **state)
{
    struct followed f;
    struct json_members m;

    (void)state;
    follow(&f);
    publish_ok(f.bus, "{\"first\":1}");
    loop_free(f.loop);
    bus_free(f.bus); /* unfollows too */
    follow_path(&f, f.path);
    publish_ok(f.bus, "{\"second\":1}");
    end(&f);
    assert_true(next_line(&f, &m));
    expect(&m, "event", "{\"first\":1}");
    assert_true(next_line(&f, &m));
    expect(&m, "event", "{\"second\":1}");
    assert_int_equal(f.seq, 1); /* numbers count from the start of the process */
    free(f.text);
}

static void test_cannot_follow(void **state)
{
    struct error e = {0};
    struct loop *loop = NULL;
    struct bus *bus = bus_new();

    (void)state;
    assert_int_equal(loop_new(&loop, &e), ERR_OK);
    assert_int_equal(bus_follow(bus, loop, "/no/such/directory/events", &e), ERR_IO);
    assert_non_null(strstr(e.msg, "/no/such/directory/events"));
    torture_fail_after(0);
    assert_int_equal(bus_follow(bus, loop, "/dev/null", &e), ERR_NOMEM);
    torture_off();
    publish_ok(bus, "{}"); /* it works without */
    assert_int_equal(bus_count(bus), 1);
    bus_free(bus);
    loop_free(loop);
    bus_free(NULL);
}

/* ---- the ring ---- */

/* What `fn` makes the log say. */
static void logged(void (*fn)(void *ctx), void *ctx, char *out, size_t size)
{
    FILE *sink = tmpfile();
    int keep = dup(STDERR_FILENO);

    assert_true(sink != NULL && keep >= 0);
    log_setup(LOG_WARN, LOG_FORMAT_JSON, NULL);
    assert_true(dup2(fileno(sink), STDERR_FILENO) >= 0);
    fn(ctx);
    assert_true(dup2(keep, STDERR_FILENO) >= 0);
    close(keep);
    ssize_t n = pread(fileno(sink), out, size - 1, 0);
    out[n < 0 ? 0 : n] = '\0';
    (void)fclose(sink);
}

static void end_of(void *ctx)
{
    end(ctx);
}

/* Nobody runs the follower's loop: the oldest go, it is told how many, the rest is in order. */
static void test_slow_follower_loses_the_oldest(void **state)
{
    struct followed f;
    struct json_members m;
    char said[1024];
    const uint64_t n = BUS_RING_EVENTS + 1000;

    (void)state;
    follow(&f);
    for (uint64_t i = 0; i < n; i++) {
        (void)publish_number(f.bus, i);
    }
    assert_int_equal(bus_count(f.bus), n);
    logged(end_of, &f, said, sizeof(said));
    assert_non_null(strstr(said, "the events file is too slow"));
    assert_non_null(strstr(said, "\"lost\":1000"));
    for (uint64_t i = 1000; i < n; i++) {
        assert_true(next_line(&f, &m));
        assert_int_equal(f.seq, i + 1);
    }
    assert_false(next_line(&f, &m));
    free(f.text);
}

/* Bounded in bytes too; one that keeps up loses nothing when the ring turns over. */
static void test_ring_bytes(void **state)
{
    const size_t size = 1024u * 1024;
    char *event = malloc(size + 1);
    struct json_members m;
    char said[1024];

    (void)state;
    assert_non_null(event);
    memset(event, 'x', size);
    memcpy(event, "{\"t\":\"", 6);
    memcpy(event + size - 2, "\"}", 3);
    for (int keeps_up = 0; keeps_up < 2; keeps_up++) {
        struct followed f;
        follow(&f);
        if (keeps_up == 1) { /* one that takes all at once */
            loop_free(f.loop);
            bus_free(f.bus);
            follow_path(&f, "/dev/null");
        }
        for (int i = 0; i < 100; i++) {
            publish_ok(f.bus, event);
            if (keeps_up == 1) {
                turns(f.loop, 3);
            }
        }
        logged(end_of, &f, said, sizeof(said));
        if (keeps_up == 1) {
            assert_string_equal(said, "");
            assert_int_equal(f.n, 0);
        } else {
            /* 64 MiB hold 63 of them, each with what surrounds it. */
            assert_non_null(strstr(said, "\"lost\":37"));
            assert_true(next_line(&f, &m));
            assert_int_equal(f.seq, 38);
        }
        free(f.text);
    }
    free(event);
}

/* A file that cannot be written: it is said, events are accepted all the same. */
static void publish_to_full(void *ctx)
{
    struct followed *f = ctx;

    follow_path(f, "/dev/full");
    for (int i = 0; i < 5; i++) {
        publish_ok(f->bus, "{}");
        turns(f->loop, 5);
    }
    assert_int_equal(bus_count(f->bus), 5);
    loop_free(f->loop);
    bus_unfollow(f->bus);
    bus_free(f->bus);
}

static void test_full_disk(void **state)
{
    struct followed f = {0};
    char said[4096];

    (void)state;
    logged(publish_to_full, &f, said, sizeof(said));
    assert_non_null(strstr(said, "cannot write the events file"));
}

/* ---- memory and threads ---- */

/* Not accepted is not numbered: the next one has the next number. */
static void test_publish_without_memory(void **state)
{
    struct followed f;
    struct json_members m;
    unsigned failures = 0;

    (void)state;
    follow(&f);
    for (bool failed = true; failed; failures += failed) {
        torture_fail_after(failures);
        enum err rc = publish(f.bus, "g", "{\"event_type\":\"log\"}", NULL);
        failed = torture_count() > failures;
        torture_off();
        assert_int_equal(rc, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(bus_count(f.bus), failed ? 0 : 1);
        assert_true(failures < 20);
    }
    assert_true(failures >= 2);
    end(&f);
    assert_true(next_line(&f, &m));
    assert_int_equal(f.seq, 1);
    expect(&m, "type", "\"log\"");
    assert_false(next_line(&f, &m));
    free(f.text);
    torture_fail_after(0);
    assert_null(bus_new());
    torture_off();
}

struct publisher {
    struct bus *bus;
    unsigned thread;
    pthread_t id;
};

static void *publish_all(void *ctx)
{
    const struct publisher *p = ctx;
    char text[64];

    for (unsigned i = 0; i < PER_THREAD; i++) {
        (void)snprintf(text, sizeof(text), "{\"t\":%u,\"n\":%u}", p->thread, i);
        if (publish(p->bus, "g", text, NULL) != ERR_OK) {
            return NULL;
        }
    }
    return NULL;
}

static void *run_loop(void *ctx)
{
    loop_run(ctx);
    return NULL;
}

/* Numbers without gaps, each thread's events in its order, all in the file. */
static void test_threads(void **state)
{
    struct publisher p[THREADS];
    unsigned next[THREADS] = {0};
    struct followed f;
    struct json_members m;
    pthread_t follower;

    (void)state;
    follow(&f);
    assert_int_equal(pthread_create(&follower, NULL, run_loop, f.loop), 0);
    for (unsigned t = 0; t < THREADS; t++) {
        p[t] = (struct publisher){.bus = f.bus, .thread = t};
        assert_int_equal(pthread_create(&p[t].id, NULL, publish_all, &p[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        (void)pthread_join(p[t].id, NULL);
    }
    loop_stop(f.loop);
    (void)pthread_join(follower, NULL);
    assert_int_equal(bus_count(f.bus), THREADS * PER_THREAD);
    end(&f);
    for (unsigned i = 0; i < THREADS * PER_THREAD; i++) {
        uint64_t t = 0;
        uint64_t n = 0;
        assert_true(next_line(&f, &m));
        assert_int_equal(f.seq, i + 1);
        assert_true(json_number_u64(json_find(json_get(&m, "event"), "t"), &t));
        assert_true(json_number_u64(json_find(json_get(&m, "event"), "n"), &n));
        assert_int_equal(n, next[t]);
        next[t]++;
    }
    assert_false(next_line(&f, &m));
    free(f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_follower_writes_all),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_cannot_follow),
        cmocka_unit_test(test_slow_follower_loses_the_oldest),
        cmocka_unit_test(test_ring_bytes),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_publish_without_memory),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
