/* Who waits for AWS credentials: one fetch for all, cancelling, renewing, a clock that goes on, and
 * the end of it all at any moment. */
#include "fixtures/aws_bed.h"

#define MANY 20

static bool all_called(void *ctx)
{
    const struct asker *a = ctx;

    for (size_t i = 0; i < MANY; i++) {
        if (a[i].calls == 0) {
            return false;
        }
    }
    return true;
}

static bool keys_asked(void *ctx)
{
    struct aws_bed *b = ctx;

    return endpoint_hits(b->endpoint, KEYS_ROUTE) > 0;
}

/* A bed whose metadata service holds back the keys until peer_step(). */
static struct aws_bed *held(void)
{
    struct aws_bed *b = aws_bed_new();

    endpoint_metadata(b->endpoint, KEYS("ONE", IN_AN_HOUR));
    endpoint_hold(b->endpoint, KEYS_ROUTE);
    aws_bed_make(b);
    return b;
}

static void test_many(void **state)
{
    struct aws_bed *b = held();
    struct asker a[MANY];

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        asker_init(&a[i]);
        if (i < MANY / 2) {
            aws_credentials_get(b->c, &a[i].waiter);
            aws_credentials_get(b->c, &a[i].waiter); /* changes nothing */
        }
    }
    assert_true(bed_until(&b->bed, keys_asked, b));
    for (size_t i = MANY / 2; i < MANY; i++) { /* in mid-fetch */
        aws_credentials_get(b->c, &a[i].waiter);
    }
    bed_ticks(&b->bed, 3);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(a[i].calls, 0);
    }
    peer_step(b->endpoint->peer);
    assert_true(bed_until(&b->bed, all_called, a));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(a[i].calls, 1);
        assert_string_equal(a[i].id, "ONE");
    }
    assert_int_equal(endpoint_all_hits(b->endpoint), 3);
    aws_bed_free(b);
}

static void test_cancel(void **state)
{
    struct aws_bed *b = held();
    struct asker a[2];

    (void)state;
    asker_init(&a[0]);
    asker_init(&a[1]);
    aws_waiter_cancel(&a[0].waiter); /* harmless */
    aws_credentials_get(b->c, &a[0].waiter);
    aws_waiter_cancel(&a[0].waiter); /* before anything has begun */
    bed_ticks(&b->bed, 3);
    assert_int_equal(endpoint_all_hits(b->endpoint), 0);
    aws_credentials_get(b->c, &a[0].waiter);
    aws_credentials_get(b->c, &a[1].waiter);
    assert_true(bed_until(&b->bed, keys_asked, b));
    aws_waiter_cancel(&a[0].waiter);
    peer_step(b->endpoint->peer);
    assert_true(bed_until(&b->bed, asker_called, &a[1]));
    assert_true(a[1].keys);
    bed_ticks(&b->bed, 3);
    assert_int_equal(a[0].calls, 0);
    aws_bed_free(b);
}

/* Nobody waits any more: the fetch goes on and serves the next. */
static void test_cancel_all(void **state)
{
    struct aws_bed *b = held();
    struct asker a;

    (void)state;
    asker_init(&a);
    aws_credentials_get(b->c, &a.waiter);
    assert_true(bed_until(&b->bed, keys_asked, b));
    aws_waiter_cancel(&a.waiter);
    peer_step(b->endpoint->peer);
    assert_true(bed_until(&b->bed, bed_no_calls, &b->bed));
    gives(b, "ONE");
    assert_int_equal(a.calls, 0);
    assert_int_equal(endpoint_all_hits(b->endpoint), 3);
    aws_bed_free(b);
}

static void cancel_other(struct asker *a)
{
    aws_waiter_cancel(&a->other->waiter);
}

static void ask_again(struct asker *a)
{
    if (a->calls == 1) {
        struct aws_bed *b = a->ctx;
        aws_credentials_get(b->c, &a->waiter);
    }
}

static bool called_twice(void *ctx)
{
    const struct asker *a = ctx;

    return a->calls == 2;
}

static void test_in_callbacks(void **state)
{
    struct aws_bed *b = held();
    struct asker a[3];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        asker_init(&a[i]);
        aws_credentials_get(b->c, &a[i].waiter);
    }
    a[0].then = cancel_other;
    a[0].other = &a[1];
    a[2].then = ask_again;
    a[2].ctx = b;
    peer_step(b->endpoint->peer);
    assert_true(bed_until(&b->bed, called_twice, &a[2]));
    assert_int_equal(a[0].calls, 1);
    assert_int_equal(a[1].calls, 0);
    assert_int_equal(endpoint_all_hits(b->endpoint), 3);
    aws_bed_free(b);
}

/* Who is told of a failure and asks again begins one more fetch, not two. */
static void test_again_after_failure(void **state)
{
    struct aws_bed *b = aws_bed_new();
    struct asker a[2];

    (void)state;
    endpoint_set(b->endpoint, TOKEN_ROUTE, "403 Forbidden", "");
    aws_bed_make(b);
    for (size_t i = 0; i < 2; i++) {
        asker_init(&a[i]);
        a[i].then = ask_again;
        a[i].ctx = b;
        aws_credentials_get(b->c, &a[i].waiter);
    }
    assert_true(bed_until(&b->bed, called_twice, &a[0]));
    assert_true(bed_until(&b->bed, called_twice, &a[1]));
    assert_true(bed_until(&b->bed, bed_no_calls, &b->bed));
    assert_false(a[0].keys);
    assert_int_equal(endpoint_all_hits(b->endpoint), 2);
    aws_bed_free(b);
}

static void free_all(struct asker *a)
{
    struct aws_bed *b = a->ctx;

    aws_credentials_free(b->c);
    b->c = NULL;
}

static void test_freed(void **state)
{
    struct aws_bed *b = held();
    struct asker a[3];

    (void)state;
    asker_init(&a[0]);
    aws_credentials_get(b->c, &a[0].waiter);
    aws_bed_drop(b); /* before anything has begun */
    assert_int_equal(a[0].calls, 1);
    assert_int_equal(a[0].e.code, ERR_CLOSED);

    aws_bed_make(b);
    asker_init(&a[0]);
    aws_credentials_get(b->c, &a[0].waiter);
    assert_true(bed_until(&b->bed, keys_asked, b));
    aws_bed_drop(b); /* in mid-fetch */
    assert_int_equal(a[0].calls, 1);
    assert_int_equal(a[0].e.code, ERR_CLOSED);
    assert_true(bed_until(&b->bed, bed_no_calls, &b->bed));

    aws_bed_make(b); /* by the first who is called */
    for (size_t i = 0; i < 3; i++) {
        asker_init(&a[i]);
        aws_credentials_get(b->c, &a[i].waiter);
    }
    a[0].then = free_all;
    a[0].ctx = b;
    peer_step(b->endpoint->peer);
    assert_true(bed_until(&b->bed, asker_called, &a[0]));
    assert_true(a[0].keys);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(a[i].calls, 1);
        assert_int_equal(a[i].e.code, ERR_CLOSED);
    }
    aws_bed_free(b);
}

/* ---- time ---- */

static void test_renewed(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("ONE", IN_AN_HOUR));
    aws_bed_make(b);
    gives(b, "ONE");
    endpoint_set(b->endpoint, KEYS_ROUTE, "200 OK", KEYS("TWO", "2030-01-01T02:00:00Z"));
    b->now = START_MS + MINUTES(55) - 1;
    gives(b, "ONE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 3);
    b->now++; /* five minutes before they expire */
    gives(b, "TWO");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    b->now = START_MS + MINUTES(115) - 1;
    gives(b, "TWO");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    aws_bed_free(b);
}

/* Keys that a failing renewal leaves are used to their last millisecond, and not longer. */
static void test_renewal_fails(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("ONE", IN_AN_HOUR));
    aws_bed_make(b);
    gives(b, "ONE");
    endpoint_set(b->endpoint, KEYS_ROUTE, "403 Forbidden", "");
    b->now = START_MS + MINUTES(56);
    gives(b, "ONE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    b->now += AWS_CREDENTIALS_AGAIN_MS - 1;
    gives(b, "ONE"); /* not tried again so soon */
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    b->now++;
    gives(b, "ONE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 9);
    b->now = START_MS + MINUTES(60) - 1;
    gives(b, "ONE");
    b->now++;
    gives_none(b, ERR_UPSTREAM, "instance metadata: status 403 to the request for credentials");
    gives_none(b, ERR_UPSTREAM, "no AWS credentials: ");
    endpoint_set(b->endpoint, KEYS_ROUTE, "200 OK", KEYS("TWO", "2030-01-01T02:00:00Z"));
    gives(b, "TWO");
    aws_bed_free(b);
}

/* A service that hands out keys with little life left is not asked for each request. */
static void test_short_lived(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("ONE", "2030-01-01T00:02:00Z"));
    aws_bed_make(b);
    gives(b, "ONE");
    gives(b, "ONE");
    b->now += AWS_CREDENTIALS_AGAIN_MS - 1;
    gives(b, "ONE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 3);
    b->now++;
    gives(b, "ONE");
    assert_int_equal(endpoint_all_hits(b->endpoint), 6);
    aws_bed_free(b);
}

static void test_refused(void **state)
{
    struct aws_bed *b = aws_bed_new();

    (void)state;
    endpoint_metadata(b->endpoint, KEYS("ONE", IN_AN_HOUR));
    aws_bed_make(b);
    aws_credentials_refused(b->c); /* there are none yet */
    gives(b, "ONE");
    endpoint_set(b->endpoint, KEYS_ROUTE, "200 OK", KEYS("TWO", IN_AN_HOUR));
    aws_credentials_refused(b->c);
    gives(b, "ONE"); /* they have just come */
    b->now += AWS_CREDENTIALS_AGAIN_MS;
    aws_credentials_refused(b->c);
    gives(b, "TWO");
    endpoint_set(b->endpoint, KEYS_ROUTE, "403 Forbidden", "");
    b->now += AWS_CREDENTIALS_AGAIN_MS;
    aws_credentials_refused(b->c);
    gives(b, "TWO"); /* better than none */
    assert_int_equal(endpoint_all_hits(b->endpoint), 9);
    aws_bed_free(b);
}

/* The HTTP client goes first: the fetch ends, without a retry. */
static void test_client_freed(void **state)
{
    struct aws_bed *b = held();
    struct asker a;

    (void)state;
    asker_init(&a);
    aws_credentials_get(b->c, &a.waiter);
    assert_true(bed_until(&b->bed, keys_asked, b));
    http_client_free(b->bed.client);
    assert_true(bed_until(&b->bed, asker_called, &a));
    assert_false(a.keys);
    assert_int_equal(a.e.code, ERR_CLOSED);
    assert_int_equal(endpoint_hits(b->endpoint, KEYS_ROUTE), 1);
    assert_int_equal(http_client_new(&b->bed.client, b->bed.loop, NULL), ERR_OK);
    aws_bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_all),
        cmocka_unit_test(test_in_callbacks),
        cmocka_unit_test(test_again_after_failure),
        cmocka_unit_test(test_freed),
        cmocka_unit_test(test_renewed),
        cmocka_unit_test(test_renewal_fails),
        cmocka_unit_test(test_short_lived),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_client_freed),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
