/*
 * The output queue at every split: what is consumed at any place, in one step or in two, leaves
 * exactly the rest to be seen; a reserve goes where it was queued; a failed append leaves a
 * queue with room, a queue without and an empty one as they were; the meter comes back to zero.
 */
#include "base/bufq.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define VECTORS 32
#define ROOM    (2 * BUFQ_CHUNK_SIZE) /* more than a chunk, header and all */

struct bed {
    struct bufq_pool pool;
    struct bufq q;
    atomic_size_t meter;
    char text[4 * BUFQ_CHUNK_SIZE];
};

static int set_up(void **state)
{
    static struct bed bed;

    torture_off();
    for (size_t i = 0; i < sizeof(bed.text); i++) {
        bed.text[i] = (char)(i * 31 + i / 251);
    }
    bufq_pool_init(&bed.pool, 4);
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
    return atomic_load(&bed->meter) == 0 && bed->pool.nfree == 0 ? 0 : 1;
}

/* The queue holds bytes `from` to `to` of the text and nothing else; returns in how many pieces. */
static size_t holds(const struct bed *bed, size_t from, size_t to)
{
    struct iovec iov[VECTORS];
    size_t count = bufq_peek(&bed->q, iov, VECTORS);

    assert_int_equal(bed->q.bytes, to - from);
    for (size_t i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0 && iov[i].iov_len <= to - from);
        assert_memory_equal(iov[i].iov_base, bed->text + from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
    assert_int_equal(from, to);
    return count;
}

static void append(struct bed *bed, size_t from, size_t to)
{
    const struct span piece = {bed->text + from, to - from};

    assert_int_equal(bufq_append(&bed->q, &piece, 1), ERR_OK);
}

/* How many bytes one pooled chunk holds: what a reserve for them weighs tells it. */
static size_t pooled_room(struct bed *bed)
{
    struct bufq_chunk *c = bufq_chunk_new(&bed->q, 1);

    assert_non_null(c);
    size_t header = atomic_load(&bed->meter) - 1;
    bufq_chunk_free(&bed->q, c);
    assert_int_equal(atomic_load(&bed->meter), 0);
    return BUFQ_CHUNK_SIZE - header;
}

/* Three chunks: a full one, a reserve in the middle, a part. */
static size_t fill_three(struct bed *bed, size_t room)
{
    const size_t end = room + 37 + 100;
    const struct span pieces[] = {{bed->text + room, 30}, {NULL, 0}, {bed->text + room + 30, 7}};
    struct bufq_chunk *c = bufq_chunk_new(&bed->q, 37);

    assert_non_null(c);
    append(bed, 0, room);
    bufq_append_reserved(&bed->q, c, pieces, 3);
    append(bed, room + 37, end);
    assert_int_equal(holds(bed, 0, end), 3);
    return end;
}

static void test_consume_at_every_byte(void **state)
{
    struct bed *bed = *state;
    const size_t room = pooled_room(bed);

    for (size_t n = 0; n <= room + 137; n++) {
        const size_t end = fill_three(bed, room);
        bufq_consume(&bed->q, n);
        const size_t gone = n >= end ? 3 : n >= room + 37 ? 2 : n >= room ? 1 : 0;
        assert_int_equal(holds(bed, n, end), 3 - gone);
        const size_t meter = atomic_load(&bed->meter);
        assert_int_equal(meter, gone == 3   ? 0
                                : gone == 2 ? BUFQ_CHUNK_SIZE
                                : gone == 1 ? 2 * BUFQ_CHUNK_SIZE - room + 37
                                            : 3 * BUFQ_CHUNK_SIZE - room + 37);
        append(bed, end, end + 50); /* goes on behind what is left */
        (void)holds(bed, n, end + 50);
        bufq_consume(&bed->q, end + 50 - n);
        (void)holds(bed, end + 50, end + 50);
        assert_null(bed->q.head);
        assert_null(bed->q.tail);
        assert_int_equal(atomic_load(&bed->meter), 0);
    }
}

/* Short writes: any step, the rest is right after each. */
static void test_consume_in_steps(void **state)
{
    struct bed *bed = *state;
    const size_t room = pooled_room(bed);

    for (size_t step = 1; step <= room + 40; step = step < 9 ? step + 1 : step * 2 + 1) {
        const size_t end = fill_three(bed, room);
        for (size_t at = 0; at < end;) {
            const size_t n = step < end - at ? step : end - at;
            bufq_consume(&bed->q, n);
            at += n;
            (void)holds(bed, at, end);
        }
        assert_int_equal(atomic_load(&bed->meter), 0);
    }
}

/* Around a chunk's room, into an empty queue and behind 1, room - 1 and room bytes. */
static void test_chunk_bounds(void **state)
{
    struct bed *bed = *state;
    const size_t room = pooled_room(bed);
    const size_t before[] = {0, 1, room - 1, room};

    for (size_t i = 0; i < 4; i++) {
        for (size_t n = room - 2; n <= room + 2; n++) {
            append(bed, 0, before[i]);
            append(bed, before[i], before[i] + n);
            const size_t end = before[i] + n;
            /* What is larger than a pooled chunk gets one that is just as large as it must be. */
            const size_t first = before[i] == 0 ? n : room;
            const size_t behind = end > first ? end - first : 0;
            const size_t chunks = behind == 0 ? 1 : 2;
            assert_int_equal(holds(bed, 0, end), chunks);
            const size_t last = behind == 0 ? first : behind;
            size_t weight = last > room ? BUFQ_CHUNK_SIZE - room + last : BUFQ_CHUNK_SIZE;
            assert_int_equal(atomic_load(&bed->meter), weight + (chunks - 1) * BUFQ_CHUNK_SIZE);
            bufq_consume(&bed->q, end);
            assert_int_equal(atomic_load(&bed->meter), 0);
        }
    }
}

/* What was consumed of the last chunk is no room in it: appends around what is left of it. */
static void test_append_behind_a_consumed_part(void **state)
{
    struct bed *bed = *state;
    const size_t room = pooled_room(bed);

    for (size_t consumed = 1; consumed < 300; consumed += 13) {
        for (size_t n = 90; n <= 110 + consumed; n++) {
            append(bed, 0, room - 100);
            bufq_consume(&bed->q, consumed);
            append(bed, room - 100, room - 100 + n);
            assert_int_equal(holds(bed, consumed, room - 100 + n), n > 100 ? 2 : 1);
            bufq_consume(&bed->q, bed->q.bytes);
        }
    }
}

/* An append of several pieces that fails changes nothing, whatever the queue held before. */
static void test_failed_append(void **state)
{
    struct bed *bed = *state;
    const size_t room = pooled_room(bed);
    const size_t before[] = {0, 1, room - 1, room, room + 1};

    for (size_t i = 0; i < 5; i++) {
        for (size_t n = 0; n < ROOM; n += 211) {
            const size_t cut = n / 3;
            const struct span pieces[] = {
                {bed->text + before[i], cut}, {NULL, 0}, {bed->text + before[i] + cut, n - cut}};
            bufq_fini(&bed->q);
            bufq_pool_fini(&bed->pool); /* so that a chunk needs an allocation */
            append(bed, 0, before[i]);
            const size_t meter = atomic_load(&bed->meter);
            torture_fail_after(0);
            enum err err = bufq_append(&bed->q, pieces, 3);
            const size_t asked = torture_count();
            torture_off();
            assert_int_equal(err, asked > 0 ? ERR_NOMEM : ERR_OK);
            assert_in_range(asked, 0, 1);
            (void)holds(bed, 0, err == ERR_OK ? before[i] + n : before[i]);
            assert_true(err == ERR_OK || atomic_load(&bed->meter) == meter);
            if (err != ERR_OK) {
                assert_int_equal(bufq_append(&bed->q, pieces, 3), ERR_OK);
                (void)holds(bed, 0, before[i] + n);
            }
        }
    }
}

/* A reserve taken before other bytes and queued after them stands behind them, cut at any place. */
static void test_reserve_in_pieces(void **state)
{
    struct bed *bed = *state;

    for (size_t cut = 0; cut <= 100; cut++) {
        const struct span pieces[] = {{bed->text + 10, cut}, {bed->text + 10 + cut, 100 - cut}};
        struct bufq_chunk *c = bufq_chunk_new(&bed->q, 100);
        struct bufq_chunk *unused = bufq_chunk_new(&bed->q, 100);
        assert_non_null(c);
        assert_non_null(unused);
        append(bed, 0, 10);
        torture_fail_after(0);
        bufq_append_reserved(&bed->q, c, pieces, 2);
        assert_int_equal(torture_count(), 0);
        torture_off();
        append(bed, 110, 130);
        (void)holds(bed, 0, 130);
        bufq_chunk_free(&bed->q, unused);
        bufq_consume(&bed->q, 130);
        assert_int_equal(atomic_load(&bed->meter), 0);
    }
}

/* Two queues of one loop share pool and meter, and nothing else. */
static void test_two_queues(void **state)
{
    struct bed *bed = *state;
    struct bufq other;
    const struct span piece = {bed->text, 100};

    bufq_init(&other, &bed->pool, &bed->meter);
    append(bed, 0, 100);
    assert_int_equal(bufq_append(&other, &piece, 1), ERR_OK);
    assert_int_equal(atomic_load(&bed->meter), 2 * BUFQ_CHUNK_SIZE);
    bufq_consume(&other, 100);
    assert_int_equal(bed->pool.nfree, 1);
    (void)holds(bed, 0, 100);
    bufq_consume(&bed->q, 60);
    assert_int_equal(atomic_load(&bed->meter), BUFQ_CHUNK_SIZE);
    torture_fail_after(0);
    assert_int_equal(bufq_append(&other, &piece, 1), ERR_OK); /* the chunk that was given back */
    torture_off();
    assert_int_equal(bed->pool.nfree, 0);
    bufq_fini(&other);
    (void)holds(bed, 60, 100);
}

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(test_consume_at_every_byte),
        BED_TEST(test_consume_in_steps),
        BED_TEST(test_chunk_bounds),
        BED_TEST(test_append_behind_a_consumed_part),
        BED_TEST(test_failed_append),
        BED_TEST(test_reserve_in_pieces),
        BED_TEST(test_two_queues),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
