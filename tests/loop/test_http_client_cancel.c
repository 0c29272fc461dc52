/* Cancelling calls of the HTTP client: in every state, from every callback, many. */
#include "fixtures/http_flow.h"

#include <signal.h>

static void cancel_and_check(struct bed *bed, struct rec *r)
{
    unsigned heads = r->heads;
    size_t bytes = r->bytes;

    http_call_cancel(r->call);
    assert_int_equal(http_client_calls(bed->client), 0);
    bed_ticks(bed, 10);
    assert_int_equal(r->heads, heads);
    assert_int_equal(r->bytes, bytes);
    assert_int_equal(r->ends, 0);
}

static void test_cancel_queued(void **state)
{
    struct bed bed;
    struct peer *p = peer_start(script_silent, NULL, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_get(r, p);
    cancel_and_check(&bed, r);
    assert_int_equal(peer_accepted(p), 0);
    http_call_cancel(NULL);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_cancel_connecting(void **state)
{
    struct bed bed;
    char url[64];
    unsigned port = 0;
    struct peer_blackhole *b = peer_blackhole_start(&port);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    rec_start(r, &(struct http_request){.method = "GET", .url = url, .connect_ms = 60000});
    bed_ticks(&bed, 10);
    assert_int_equal(r->ends, 0);
    cancel_and_check(&bed, r);
    bed_close(&bed);
    peer_blackhole_stop(b);
    free(r);
}

/* BerriAI/litellm#37140, #13774, #31499: before the first byte the provider must see it too. */
static void test_cancel_waiting(void **state)
{
    struct bed bed;
    struct peer *p = peer_start(script_silent, NULL, NULL);

    (void)state;
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_get(r, p);
    assert_true(bed_until(&bed, peer_has_accepted, p));
    bed_ticks(&bed, 5);
    http_call_cancel(r->call);
    /* No turn of the loop: the connection is closed already. */
    for (int i = 0; i < 5000 && peer_closed(p) == 0; i++) {
        peer_sleep(1);
    }
    assert_int_equal(peer_closed(p), 1);
    assert_int_equal(r->ends, 0);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

/* BerriAI/litellm#30245, #30075: and in mid-stream. */
static void cancel_streaming(bool paused)
{
    struct bed bed;
    struct peer *p = peer_start(script_two_parts, NULL, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_bytes = paused ? pause_call : NULL;
    rec_get(r, p);
    assert_true(bed_until(&bed, rec_has_bytes, r));
    if (paused) {
        peer_step(p);
        bed_ticks(&bed, 10); /* more has come and is held back */
    }
    assert_string_equal(r->body, "abc");
    cancel_and_check(&bed, r);
    peer_step(p);
    assert_true(bed_until(&bed, peer_has_closed, p));
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_cancel_streaming(void **state)
{
    (void)state;
    cancel_streaming(false);
    cancel_streaming(true);
}

static void test_cancel_during_upload(void **state)
{
    struct bed bed;
    char url[64];
    struct peer *p = peer_start(script_stuck, NULL, NULL);
    char *body = calloc(1, BIG);

    (void)state;
    assert_non_null(body);
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    rec_start(
        r, &(struct http_request){.method = "POST", .url = bed_url(url, p), .body = {body, BIG}});
    bed_ticks(&bed, 50);
    http_call_cancel(r->call);
    free(body);
    bed_ticks(&bed, 20);
    assert_int_equal(r->ends, 0);
    peer_step(p);
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void cancel_in_own_callback(bool head, bool bytes, bool end)
{
    struct bed bed;
    struct plan plan = {100000, CHUNKED};
    struct peer *p = peer_start(script_framed, &plan, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_head = head ? cancel_call : NULL;
    r->on_bytes = bytes ? cancel_call : NULL;
    r->on_end = end ? cancel_call : NULL;
    rec_get(r, p);
    assert_true(bed_until(&bed, bed_no_calls, &bed));
    bed_ticks(&bed, 5);
    assert_int_equal(r->heads, 1);
    assert_int_equal(r->pieces > 0, !head);
    assert_int_equal(r->ends, end ? 1 : 0);
    assert_true(!bytes || r->pieces == 1);
    if (!end) {
        assert_true(bed_until(&bed, peer_has_closed, p));
    }
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

static void test_cancel_in_own_callback(void **state)
{
    (void)state;
    cancel_in_own_callback(true, false, false);
    cancel_in_own_callback(false, true, false);
    cancel_in_own_callback(false, false, true);
}

static void cancel_other(struct rec *r)
{
    if (r->other->call != NULL) {
        cancel_call(r->other);
    }
}

enum other_state { OTHER_QUEUED, OTHER_WAITING, OTHER_STREAMING, OTHER_PAUSED, OTHER_NSTATES };

static void start_queued_then_cancel(struct rec *r)
{
    if (r->other->ends == 0 && r->other->call == NULL) {
        rec_get(r->other, (struct peer *)(void *)r->other->other);
        cancel_other(r);
    }
}

static void cancel_other_in(int callback, enum other_state other)
{
    struct bed bed;
    struct plan plan = {100, LENGTH};
    struct peer *p = peer_start(script_framed, &plan, NULL);
    struct peer *p2 =
        peer_start(other >= OTHER_STREAMING ? script_two_parts : script_silent, NULL, NULL);

    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    struct rec *r2 = rec_new(&bed);
    void (*hook)(struct rec *) = other == OTHER_QUEUED ? start_queued_then_cancel : cancel_other;
    r->other = r2;
    r2->other = (struct rec *)(void *)p2;
    r->on_head = callback == 0 ? hook : NULL;
    r->on_bytes = callback == 1 ? hook : NULL;
    r->on_end = callback == 2 ? hook : NULL;
    if (other != OTHER_QUEUED) {
        r2->on_bytes = other == OTHER_PAUSED ? pause_call : NULL;
        rec_get(r2, p2);
        assert_true(bed_until(&bed, peer_has_accepted, p2));
        if (other >= OTHER_STREAMING) {
            assert_true(bed_until(&bed, rec_has_bytes, r2));
        }
    }
    rec_get(r, p);
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_null(r2->call);
    assert_int_equal(r2->ends, 0);
    assert_int_equal(http_client_calls(bed.client), 0);
    peer_step(p2);
    if (other != OTHER_QUEUED) {
        assert_true(bed_until(&bed, peer_has_closed, p2));
    }
    bed_close(&bed);
    peer_stop(p);
    peer_stop(p2);
    free(r);
    free(r2);
}

static void test_cancel_other(void **state)
{
    (void)state;
    for (int callback = 0; callback < 3; callback++) {
        for (int other = 0; other < OTHER_NSTATES; other++) {
            cancel_other_in(callback, (enum other_state)other);
        }
    }
}

/* Both end in one turn: the first on_end takes the second away before it is told. */
static void test_cancel_other_that_ended(void **state)
{
    struct bed bed;
    char url[64];
    struct peer *p = peer_start(script_silent, NULL, NULL);
    struct rec *r[2];

    (void)state;
    bed_open(&bed);
    for (int i = 0; i < 2; i++) {
        r[i] = rec_new(&bed);
        rec_start(r[i],
                  &(struct http_request){.method = "GET", .url = bed_url(url, p), .total_ms = 60});
        r[i]->on_end = cancel_other;
    }
    r[0]->other = r[1];
    r[1]->other = r[0];
    assert_true(bed_until(&bed, bed_no_calls, &bed));
    assert_int_equal(r[0]->ends + r[1]->ends, 1);
    bed_close(&bed);
    peer_stop(p);
    free(r[0]);
    free(r[1]);
}

/* maximhq/bifrost#828, #6802: aborted streams leak nothing. */
static void test_many_cancelled(void **state)
{
    struct bed bed;
    struct peer *p = peer_start(script_endless, NULL, NULL);
    unsigned before = 0;

    (void)state;
    bed_open(&bed);
    for (unsigned i = 0; i < 500; i++) {
        struct rec *r = rec_new(&bed);
        rec_get(r, p);
        assert_true(bed_until(&bed, rec_has_head, r));
        http_call_cancel(r->call);
        assert_true(bed_until(&bed, peer_is_quiet, p));
        free(r);
        if (i == 0) {
            before = bed_descriptors();
        }
    }
    assert_int_equal(bed_descriptors(), before);
    assert_int_equal(http_client_calls(bed.client), 0);
    bed_close(&bed);
    peer_stop(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_queued),        cmocka_unit_test(test_cancel_connecting),
        cmocka_unit_test(test_cancel_waiting),       cmocka_unit_test(test_cancel_streaming),
        cmocka_unit_test(test_cancel_during_upload), cmocka_unit_test(test_cancel_in_own_callback),
        cmocka_unit_test(test_cancel_other),         cmocka_unit_test(test_cancel_other_that_ended),
        cmocka_unit_test(test_many_cancelled),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
