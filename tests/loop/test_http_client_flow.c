/*
 * The HTTP client's flow: pausing and resuming, releasing, calls started from callbacks, and each
 * allocation failing in turn.
 */
#include "fixtures/http_flow.h"
#include "fixtures/torture.h"

#include <signal.h>

/* ---- pause ---- */

struct quiet {
    struct bed *bed;
    struct peer *peer;
    size_t sent;
    unsigned since;
};

/* The server has been stuck in send(2) for a while. */
static bool sends_no_more(void *ctx)
{
    struct quiet *q = ctx;
    size_t sent = peer_sent(q->peer);

    if (sent != q->sent) {
        q->sent = sent;
        q->since = q->bed->ticks;
    }
    return q->bed->ticks - q->since > 100;
}

/* MAXeaglet/commandcode-proxy#20: a stalled reader must hold the provider up, not our memory.
 * curl#6356: no busy loop meanwhile. */
static void paused_is_bounded(enum framing how)
{
    struct bed bed;
    struct plan plan = {BIG, how};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_bytes = pause_call;
    rec_get(r, p);
    assert_true(bed_until(&bed, rec_has_bytes, r));
    r->on_bytes = NULL;
    size_t had = r->bytes;
    struct quiet q = {.bed = &bed, .peer = p};
    assert_true(bed_until(&bed, sends_no_more, &q));
    assert_true(q.sent < BIG / 4); /* what the kernel holds for both ends */
    unsigned turns = bed.turns;
    unsigned ticks = bed.ticks;
    bed_ticks(&bed, 50);
    assert_true(bed.turns - turns <= 2 * (bed.ticks - ticks) + 10);
    assert_int_equal(r->bytes, had); /* nothing came while paused */
    assert_int_equal(r->ends, 0);
    http_call_resume(r->call);
    assert_int_equal(r->bytes, had); /* not from inside resume either */
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->bytes, BIG);
    assert_true(r->intact);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_pause_bounded(void **state)
{
    (void)state;
    paused_is_bounded(LENGTH);
    paused_is_bounded(CHUNKED);
    paused_is_bounded(CLOSE);
}

struct resumer {
    struct loop_task task;
    struct rec *rec;
    unsigned rounds;
};

static void resume_later(void *ctx)
{
    struct resumer *s = ctx;

    s->rounds++;
    if (s->rec->call != NULL) {
        http_call_resume(s->rec->call);
    }
}

static void pause_and_come_back(struct rec *r)
{
    struct resumer *s = (struct resumer *)(void *)r->other;

    http_call_pause(r->call);
    http_call_pause(r->call);
    loop_defer(r->bed->loop, &s->task);
}

/* Paused at the head and after each piece, whole answers in one read among them. */
static void paused_each_piece(size_t n, enum framing how)
{
    struct bed bed;
    struct plan plan = {n, how};
    struct peer *p = peer_start(script_framed, &plan, NULL);
    struct resumer s = {.rounds = 0};

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    s.rec = r;
    loop_task_init(&s.task, resume_later, &s);
    r->other = (struct rec *)(void *)&s;
    r->on_head = pause_and_come_back;
    r->on_bytes = pause_and_come_back;
    rec_get(r, p);
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->bytes, n);
    assert_true(r->intact);
    assert_true(s.rounds >= r->pieces);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_pause_each_piece(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 16383, 16384, 16385, 1000003};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        paused_each_piece(sizes[i], LENGTH);
        paused_each_piece(sizes[i], CHUNKED);
        paused_each_piece(sizes[i], CLOSE);
    }
}

static void pause_resume_pause(struct rec *r)
{
    http_call_pause(r->call);
    http_call_resume(r->call);
    http_call_pause(r->call);
    http_call_resume(r->call);
}

static void test_pause_and_resume_at_once(void **state)
{
    struct bed bed;
    struct plan plan = {1000000, CHUNKED};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_head = pause_resume_pause;
    r->on_bytes = pause_resume_pause;
    rec_get(r, p);
    http_call_pause(r->call); /* while queued */
    http_call_resume(r->call);
    http_call_resume(r->call);
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->bytes, 1000000);
    assert_true(r->intact);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

/* curl#13337: a transfer that is resumed into a cancelling handler. */
static void test_cancel_on_resume(void **state)
{
    struct bed bed;
    struct plan plan = {1000000, CHUNKED};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_bytes = pause_call;
    rec_get(r, p);
    assert_true(bed_until(&bed, rec_has_bytes, r));
    bed_ticks(&bed, 20);
    size_t had = r->bytes;
    r->on_bytes = cancel_call;
    http_call_resume(r->call);
    assert_true(bed_until(&bed, bed_no_calls, &bed));
    assert_true(bed_until(&bed, peer_has_closed, p));
    assert_true(r->bytes > had);
    assert_int_equal(r->pieces, 2);
    assert_int_equal(r->ends, 0);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_stall_not_counted_while_paused(void **state)
{
    struct bed bed;
    char url[64];
    struct peer *p = peer_start(script_two_parts, NULL, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_bytes = pause_call;
    rec_start(r, &(struct http_request){.method = "GET", .url = bed_url(url, p), .stall_ms = 100});
    assert_true(bed_until(&bed, rec_has_bytes, r));
    bed_ticks(&bed, 150); /* 300 ms */
    assert_int_equal(r->ends, 0);
    http_call_resume(r->call);
    bed_ticks(&bed, 10);
    assert_int_equal(r->ends, 0); /* counted from the resume on */
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_TIMEOUT_STALL);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_total_counted_while_paused(void **state)
{
    struct bed bed;
    char url[64];
    struct plan plan = {1000000, LENGTH};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_head = pause_call;
    rec_start(r, &(struct http_request){.method = "GET", .url = bed_url(url, p), .total_ms = 100});
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_TIMEOUT_TOTAL);
    assert_int_equal(r->bytes, 0);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

/* ---- release ---- */

static void release_call(struct rec *r)
{
    struct http_call *call = r->call;

    r->call = NULL;
    http_call_release(call, r->release_ms);
}

/* The end marker was seen in the first part; the body ends in time, or never. */
static void released(bool in_callback, bool paused, bool ends)
{
    struct bed bed;
    char url[64];
    struct peer *p = peer_start(script_two_parts, NULL, NULL);
    char *body = strdup("the request");

    assert_non_null(body);
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->release_ms = ends ? 10000 : 60;
    r->on_bytes = in_callback ? release_call : paused ? pause_call : NULL;
    rec_start(r, &(struct http_request){
                     .method = "POST", .url = bed_url(url, p), .body = span_str(body)});
    assert_true(bed_until(&bed, rec_has_bytes, r));
    if (!in_callback) {
        bed_ticks(&bed, 5);
        release_call(r);
    }
    free(body);
    assert_int_equal(http_client_calls(bed.client), 1);
    if (ends) {
        peer_step(p);
    }
    assert_true(bed_until(&bed, bed_no_calls, &bed));
    assert_string_equal(r->body, "abc");
    assert_int_equal(r->ends, 0);
    struct rec *next = rec_new(&bed);
    peer_step(p);
    rec_get(next, p);
    rec_finish(next);
    assert_string_equal(next->body, "abcde");
    assert_int_equal(peer_accepted(p), ends ? 1 : 2);
    bed_close(&bed);
    peer_stop(p);
    free(r);
    free(next);
}

static void test_release(void **state)
{
    (void)state;
    released(false, false, true);
    released(false, false, false);
    released(true, false, true);
    released(true, false, false);
    released(false, true, true);
    released(false, true, false);
}

static void test_release_before_answer(void **state)
{
    struct bed bed;
    struct peer *p = peer_start(script_silent, NULL, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_get(r, p);
    assert_true(bed_until(&bed, peer_has_accepted, p));
    bed_ticks(&bed, 5);
    http_call_release(r->call, 60000);
    assert_int_equal(http_client_calls(bed.client), 0);
    assert_true(bed_until(&bed, peer_has_closed, p));
    assert_int_equal(r->ends, 0);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

/* The server answers before it has read the request: the rest of the body is the caller's. */
static void script_hasty(struct peer_conn *c, void *ctx)
{
    (void)ctx;
    (void)peer_send_str(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    (void)peer_wait(c, 1);
}

static void test_release_during_upload(void **state)
{
    struct bed bed;
    char url[64];
    struct peer *p = peer_start(script_hasty, NULL, NULL);
    char *body = calloc(1, BIG);

    (void)state;
    assert_non_null(body);
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(
        r, &(struct http_request){.method = "POST", .url = bed_url(url, p), .body = {body, BIG}});
    assert_true(bed_until(&bed, rec_has_bytes, r));
    r->release_ms = 60000;
    release_call(r);
    http_call_release(NULL, 1);
    assert_int_equal(http_client_calls(bed.client), 0);
    free(body);
    peer_step(p);
    bed_ticks(&bed, 20);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_stop_with_released(void **state)
{
    struct bed bed;
    struct peer *p = peer_start(script_two_parts, NULL, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_get(r, p);
    assert_true(bed_until(&bed, rec_has_bytes, r));
    http_call_release(r->call, 60000);
    bed_close(&bed);
    assert_int_equal(r->ends, 0);
    peer_step(p);
    peer_stop(p);
    free(r);
}

/* ---- starting from callbacks ---- */

static void start_other(struct rec *r)
{
    rec_get(r->other, (struct peer *)(void *)r->other->other);
}

static void test_start_in_callbacks(void **state)
{
    struct bed bed;
    struct plan plan = {100, LENGTH};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    (void)state;
    for (int i = 0; i < 3; i++) {
        bed_open(&bed);
        struct rec *r = rec_new(&bed);
        struct rec *r2 = rec_new(&bed);
        r->other = r2;
        r2->other = (struct rec *)(void *)p;
        r->on_head = i == 0 ? start_other : NULL;
        r->on_bytes = i == 1 ? start_other : NULL;
        r->on_end = i == 2 ? start_other : NULL;
        rec_get(r, p);
        rec_finish(r);
        rec_finish(r2);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(r2->outcome, HTTP_OK);
        assert_int_equal(r2->bytes, 100);
        bed_close(&bed);
        free(r);
        free(r2);
    }
    peer_stop(p);
}

/* ---- memory ---- */

static bool outcome_for_nomem(enum http_outcome outcome)
{
    /* libcurl tells of a socket or a connection that failed, not why. */
    return outcome == HTTP_OK || outcome == HTTP_NOMEM || outcome == HTTP_CONNECT_FAILED;
}

static void torture_one(struct rec *r, struct peer *p, struct resumer *s)
{
    char url[64];
    struct error e = {0};
    const struct http_header h = {{"X-Api-Key", 9}, {"key", 3}};
    const struct http_request q = {
        .method = "POST", .url = bed_url(url, p), .headers = &h, .nheaders = 1, .body = SPAN("b")};

    s->rec = r;
    r->other = (struct rec *)(void *)s;
    r->on_bytes = pause_and_come_back;
    enum err rc = rec_try(r, &q, &e);
    if (rc == ERR_OK) {
        rec_finish(r);
        if (!outcome_for_nomem(r->outcome)) {
            print_message("outcome %d: %s\n", (int)r->outcome, r->detail);
        }
        assert_true(outcome_for_nomem(r->outcome));
        assert_int_equal(r->outcome != HTTP_OK || r->bytes == 40000, true);
        assert_true(r->intact);
    } else {
        assert_int_equal(rc, ERR_NOMEM);
    }
    assert_int_equal(http_client_calls(r->bed->client), 0);
    loop_task_cancel(&s->task);
}

/* The n-th allocation fails: a call is refused or ends, and the next one works. Two calls, so that
 * one runs on a kept connection, and both pause. */
static bool torture_calls(struct peer *p, size_t n)
{
    struct bed bed;
    struct resumer s = {.rounds = 0};

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    struct rec *r2 = rec_new(&bed);
    loop_task_init(&s.task, resume_later, &s);
    torture_fail_after(n);
    torture_one(r, p, &s);
    torture_one(r2, p, &s);
    bool over = torture_count() <= n;
    torture_off();
    struct rec *next = rec_new(&bed);
    rec_get(next, p);
    rec_finish(next);
    assert_int_equal(next->outcome, HTTP_OK);
    assert_int_equal(next->bytes, 40000);
    bed_close(&bed);
    free(r);
    free(r2);
    free(next);
    return over;
}

static void test_no_memory(void **state)
{
    struct plan plan = {40000, CHUNKED};
    struct peer *p = peer_start(script_framed, &plan, NULL);
    size_t n = 0;

    (void)state;
    while (!torture_calls(p, n)) {
        n++;
    }
    assert_in_range(n, 20, 1000);
    peer_stop(p);
}

static void test_no_memory_for_a_client(void **state)
{
    struct loop *loop = NULL;
    bool ok = false;

    (void)state;
    assert_int_equal(loop_new(&loop, NULL), ERR_OK);
    for (size_t n = 0; !ok; n++) {
        struct http_client *client = NULL;
        struct error e = {0};
        torture_fail_after(n);
        enum err rc = http_client_new(&client, loop, &e);
        torture_off();
        ok = rc == ERR_OK;
        assert_true(ok || rc == ERR_NOMEM);
        assert_int_equal(client != NULL, ok);
        http_client_free(client);
        assert_in_range(n, 0, 200);
    }
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pause_bounded),
        cmocka_unit_test(test_pause_each_piece),
        cmocka_unit_test(test_pause_and_resume_at_once),
        cmocka_unit_test(test_cancel_on_resume),
        cmocka_unit_test(test_stall_not_counted_while_paused),
        cmocka_unit_test(test_total_counted_while_paused),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_release_before_answer),
        cmocka_unit_test(test_release_during_upload),
        cmocka_unit_test(test_stop_with_released),
        cmocka_unit_test(test_start_in_callbacks),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_for_a_client),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
