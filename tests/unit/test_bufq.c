/*
 * The output queue: bytes come out as they went in whatever the pieces are, an append is all or
 * nothing, the meter holds what is queued or reserved, an idle queue holds nothing.
 */
#include "base/bufq.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

struct bed {
    struct bufq_pool pool;
    struct bufq q;
    atomic_size_t meter;
};

static int set_up(void **state)
{
    static struct bed bed;

    torture_off();
    bufq_pool_init(&bed.pool, 2);
    atomic_init(&bed.meter, 0);
    bufq_init(&bed.q, &bed.pool, &bed.meter);
    *state = &bed;
    return 0;
}

static int tear_down(void **state)
{
    struct bed *bed = *state;

    torture_off();
    bufq_fini(&bed->q);
    bufq_pool_fini(&bed->pool);
    return atomic_load(&bed->meter) == 0 ? 0 : 1;
}

static char byte_at(size_t i)
{
    return (char)(i * 31 + i / 251);
}

static size_t held(const struct bed *bed)
{
    size_t n = 0;
    struct iovec iov[64];
    size_t count = bufq_peek(&bed->q, iov, 64);

    for (size_t i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0);
        n += iov[i].iov_len;
    }
    return n;
}

/* Takes `n` bytes out, `step` at most at once, and checks that they are those from `from` on. */
static void take(struct bed *bed, size_t from, size_t n, size_t step)
{
    while (n > 0) {
        struct iovec iov[1];
        assert_int_equal(bufq_peek(&bed->q, iov, 1), 1);
        size_t some = iov[0].iov_len < step ? iov[0].iov_len : step;
        some = some < n ? some : n;
        for (size_t i = 0; i < some; i++) {
            if (((const char *)iov[0].iov_base)[i] != byte_at(from + i)) {
                fail_msg("byte %zu differs", from + i);
            }
        }
        bufq_consume(&bed->q, some);
        from += some;
        n -= some;
    }
}

static void test_empty(void **state)
{
    struct bed *bed = *state;
    struct iovec iov[2];
    const struct span nothing[] = {{NULL, 0}, {"", 0}};

    assert_int_equal(bufq_peek(&bed->q, iov, 2), 0);
    assert_int_equal(bufq_append(&bed->q, nothing, 2), ERR_OK);
    assert_int_equal(bufq_append(&bed->q, NULL, 0), ERR_OK);
    bufq_consume(&bed->q, 0);
    assert_int_equal(torture_count(), 0);
    assert_null(bed->q.head);
    assert_int_equal(atomic_load(&bed->meter), 0);
}

/* Every length around a chunk's, cut in two pieces (and an empty one) at every distance. */
static void test_bytes_come_out_in_order(void **state)
{
    struct bed *bed = *state;
    static char text[3 * BUFQ_CHUNK_SIZE];

    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = byte_at(i);
    }
    for (size_t n = BUFQ_CHUNK_SIZE - 70; n < BUFQ_CHUNK_SIZE + 10; n++) {
        for (size_t cut = 0; cut <= n; cut += 97) {
            const struct span pieces[] = {{text, cut}, {NULL, 0}, {text + cut, n - cut}};
            const struct span more[] = {{text + n, 100}, {text + n + 100, n / 2}};
            assert_int_equal(bufq_append(&bed->q, pieces, 3), ERR_OK);
            assert_int_equal(bufq_append(&bed->q, more, 2), ERR_OK);
            assert_int_equal(bed->q.bytes, n + 100 + n / 2);
            assert_int_equal(held(bed), bed->q.bytes);
            take(bed, 0, n + 100 + n / 2, 1 + cut);
            assert_int_equal(bed->q.bytes, 0);
            assert_null(bed->q.head);
            assert_null(bed->q.tail);
            assert_int_equal(atomic_load(&bed->meter), 0);
        }
    }
}

static void test_large_piece_has_one_chunk(void **state)
{
    struct bed *bed = *state;
    static char text[100000];
    struct iovec iov[4];
    const struct span piece = {text, sizeof(text)};

    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    assert_int_equal(torture_count(), 1);
    assert_int_equal(bufq_peek(&bed->q, iov, 4), 1);
    assert_int_equal(iov[0].iov_len, sizeof(text));
    assert_in_range(atomic_load(&bed->meter), sizeof(text), sizeof(text) + 64);
    bufq_consume(&bed->q, sizeof(text));
    assert_int_equal(atomic_load(&bed->meter), 0);
    assert_int_equal(bed->pool.nfree, 0); /* not of the pooled size */
}

/* The rest that the last chunk has no room for decides how large the new one is. */
static void test_rest_decides_the_size(void **state)
{
    struct bed *bed = *state;
    static char text[3 * BUFQ_CHUNK_SIZE];
    const struct span first = {text, 10};
    const struct span piece = {text, sizeof(text)};
    struct iovec iov[3];

    assert_int_equal(bufq_append(&bed->q, &first, 1), ERR_OK);
    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    assert_int_equal(bufq_peek(&bed->q, iov, 3), 2);
    const size_t header = BUFQ_CHUNK_SIZE - iov[0].iov_len;
    assert_int_equal(iov[1].iov_len, 10 + sizeof(text) - iov[0].iov_len);
    assert_int_equal(atomic_load(&bed->meter), BUFQ_CHUNK_SIZE + header + iov[1].iov_len);
}

static void test_peek_is_bounded(void **state)
{
    struct bed *bed = *state;
    static char text[BUFQ_CHUNK_SIZE];
    struct iovec iov[3];
    const struct span piece = {text, sizeof(text)};

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    }
    assert_int_equal(bufq_peek(&bed->q, iov, 0), 0);
    assert_int_equal(bufq_peek(&bed->q, iov, 1), 1);
    assert_int_equal(bufq_peek(&bed->q, iov, 3), 3);
    assert_int_equal(bed->q.bytes, 4 * sizeof(text));
}

/* What was peeked stays where it is while more is queued: a write may be under way. */
static void test_chunks_never_move(void **state)
{
    struct bed *bed = *state;
    struct iovec before[1];
    struct iovec after[1];
    const struct span piece = SPAN("0123456789");

    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    assert_int_equal(bufq_peek(&bed->q, before, 1), 1);
    for (size_t i = 0; i < 2000; i++) {
        assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    }
    assert_int_equal(bufq_peek(&bed->q, after, 1), 1);
    assert_ptr_equal(before[0].iov_base, after[0].iov_base);
    assert_memory_equal(before[0].iov_base, "0123456789", 10);
}

static void test_steady_traffic_allocates_nothing(void **state)
{
    struct bed *bed = *state;
    const struct span piece = SPAN("a small event");

    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    assert_int_equal(atomic_load(&bed->meter), BUFQ_CHUNK_SIZE);
    bufq_consume(&bed->q, piece.n);
    assert_int_equal(bed->pool.nfree, 1);
    torture_off();
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
        assert_int_equal(atomic_load(&bed->meter), BUFQ_CHUNK_SIZE);
        bufq_consume(&bed->q, piece.n);
        assert_int_equal(atomic_load(&bed->meter), 0);
    }
    assert_int_equal(torture_count(), 0);
}

static void test_pool_is_bounded(void **state)
{
    struct bed *bed = *state;
    static char text[BUFQ_CHUNK_SIZE / 2];
    const struct span piece = {text, sizeof(text)};

    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
    }
    assert_true(atomic_load(&bed->meter) >= 5 * BUFQ_CHUNK_SIZE);
    bufq_consume(&bed->q, bed->q.bytes);
    assert_int_equal(bed->pool.nfree, 2);
    assert_int_equal(atomic_load(&bed->meter), 0);
}

static void test_append_is_all_or_nothing(void **state)
{
    struct bed *bed = *state;
    static char text[BUFQ_CHUNK_SIZE];
    const struct span first = SPAN("first");
    const struct span pieces[] = {{text, 10}, {text, sizeof(text)}, {text, sizeof(text)}};

    torture_fail_after(0);
    assert_int_equal(bufq_append(&bed->q, &first, 1), ERR_NOMEM);
    assert_null(bed->q.head);
    assert_int_equal(bufq_append(&bed->q, &first, 1), ERR_OK);
    const size_t meter = atomic_load(&bed->meter);
    for (size_t n = 0; n < 5; n++) {
        torture_fail_after(n);
        enum err err = bufq_append(&bed->q, pieces, 3);
        torture_off();
        if (err == ERR_OK) {
            assert_true(n > 0);
            assert_int_equal(bed->q.bytes, 5 + 10 + 2 * sizeof(text));
            return;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_int_equal(bed->q.bytes, 5);
        assert_int_equal(held(bed), 5);
        assert_int_equal(atomic_load(&bed->meter), meter);
    }
    fail_msg("never succeeded");
}

static void test_sizes_do_not_wrap(void **state)
{
    struct bed *bed = *state;
    const struct span pieces[] = {{"x", 1}, {"x", SIZE_MAX}};
    const struct span piece = {"x", SIZE_MAX - 8};

    assert_int_equal(bufq_append(&bed->q, pieces, 2), ERR_NOMEM);
    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_NOMEM);
    assert_null(bufq_chunk_new(&bed->q, SIZE_MAX));
    assert_null(bufq_chunk_new(&bed->q, SIZE_MAX - 8));
    assert_int_equal(bed->q.bytes, 0);
    assert_int_equal(atomic_load(&bed->meter), 0);
}

/* The reserve of a request's last event: queued without any allocation, behind what is queued. */
static void test_reserved_chunk(void **state)
{
    struct bed *bed = *state;
    const struct span first = SPAN("first,");
    const struct span last[] = {SPAN("re"), {NULL, 0}, SPAN("served")};
    struct bufq_chunk *c = bufq_chunk_new(&bed->q, 8);

    assert_non_null(c);
    assert_in_range(atomic_load(&bed->meter), 8, 8 + 64);
    assert_int_equal(bed->q.bytes, 0);
    assert_int_equal(bufq_append(&bed->q, &first, 1), ERR_OK);
    torture_fail_after(0);
    bufq_append_reserved(&bed->q, c, last, 3);
    assert_int_equal(torture_count(), 0);
    torture_off();

    struct iovec iov[3];
    assert_int_equal(bed->q.bytes, 14);
    assert_int_equal(bufq_peek(&bed->q, iov, 3), 2);
    assert_memory_equal(iov[0].iov_base, "first,", 6);
    assert_int_equal(iov[1].iov_len, 8);
    assert_memory_equal(iov[1].iov_base, "reserved", 8);
    assert_int_equal(bufq_append(&bed->q, &first, 1), ERR_OK); /* the reserve is full */
    assert_int_equal(bufq_peek(&bed->q, iov, 3), 3);
    bufq_consume(&bed->q, 20);
    assert_int_equal(atomic_load(&bed->meter), 0);
}

static void test_reserved_is_cut(void **state)
{
    struct bed *bed = *state;
    const struct span pieces[] = {SPAN("1234"), SPAN("5678")};
    struct bufq_chunk *c = bufq_chunk_new(&bed->q, 6);
    struct iovec iov[1];

    assert_non_null(c);
    bufq_append_reserved(&bed->q, c, pieces, 2);
    assert_int_equal(bed->q.bytes, 6);
    assert_int_equal(bufq_peek(&bed->q, iov, 1), 1);
    assert_int_equal(iov[0].iov_len, 6);
    assert_memory_equal(iov[0].iov_base, "123456", 6);
}

/* A reserve that carries nothing is given back: an idle queue holds no memory. */
static void test_reserved_empty(void **state)
{
    struct bed *bed = *state;

    for (size_t capacity = 0; capacity <= BUFQ_CHUNK_SIZE; capacity += BUFQ_CHUNK_SIZE / 2) {
        struct bufq_chunk *c = bufq_chunk_new(&bed->q, capacity);
        assert_non_null(c);
        bufq_append_reserved(&bed->q, c, NULL, 0);
        assert_null(bed->q.head);
        assert_int_equal(bed->q.bytes, 0);
        assert_int_equal(atomic_load(&bed->meter), 0);
    }
    torture_fail_after(0);
    assert_null(bufq_chunk_new(&bed->q, 100));
    torture_off();
    bufq_chunk_free(&bed->q, NULL);
    bufq_chunk_free(&bed->q, bufq_chunk_new(&bed->q, 100));
    assert_int_equal(atomic_load(&bed->meter), 0);
}

static void test_without_meter(void **state)
{
    struct bed *bed = *state;
    struct bufq q;
    const struct span piece = SPAN("abc");

    bufq_init(&q, &bed->pool, NULL);
    assert_int_equal(bufq_append(&q, &piece, 1), ERR_OK);
    bufq_fini(&q);
    bufq_fini(&q);
    assert_int_equal(bed->pool.nfree, 1);
    assert_int_equal(q.bytes, 0);
}

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(test_empty),
        BED_TEST(test_bytes_come_out_in_order),
        BED_TEST(test_large_piece_has_one_chunk),
        BED_TEST(test_rest_decides_the_size),
        BED_TEST(test_peek_is_bounded),
        BED_TEST(test_chunks_never_move),
        BED_TEST(test_steady_traffic_allocates_nothing),
        BED_TEST(test_pool_is_bounded),
        BED_TEST(test_append_is_all_or_nothing),
        BED_TEST(test_sizes_do_not_wrap),
        BED_TEST(test_reserved_chunk),
        BED_TEST(test_reserved_is_cut),
        BED_TEST(test_reserved_empty),
        BED_TEST(test_without_meter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
