/*
 * Doors of sessions: who holds a reference, when the last is gone, the end of a door's grant while
 * others go on, and what a runner's relay may say.
 */
#include "fixtures/wire_bed.h"
#include "tactus/protocol.h"

static struct wire_bed bed;
static struct wire_door other; /* of a run: it is counted */
static struct listener_config other_listener;
static unsigned unused;

static void on_unused(struct wire_door *door)
{
    assert_ptr_equal(door, &other);
    assert_int_equal(atomic_load(&door->connections), 0);
    assert_int_equal(atomic_load(&door->inflight), 0);
    unused++;
}

static void open_doors(bool relay)
{
    static char url[] = "other";
    static char name[] = "run-1";
    static struct grant grant;

    wire_bed_open(&bed, NET_UNIX, NULL);
    const struct grant *dev = bed.config->grants[0];
    grant = (struct grant){.name = name,
                           .run = name,
                           .models = dev->models,
                           .nmodels = dev->nmodels,
                           .tools = dev->tools,
                           .ntools = dev->ntools,
                           .meter = dev->meter};
    atomic_store(&grant.refs, 1);
    other_listener = (struct listener_config){.url = url, .half_close_finish = true};
    other = (struct wire_door){
        .listener = &other_listener, .grant = &grant, .relay = relay, .on_unused = on_unused};
    atomic_store(&other.refs, 1);
    unused = 0;
}

static void open_at(struct far *f, struct wire_door *door)
{
    int fd[2];

    net_pair(NET_UNIX, fd);
    far_open(&bed.net, f, fd[1], WIRE_CAP, NULL);
    session_start(&bed.wire, door, fd[0]);
}

static void test_references(void **state)
{
    (void)state;
    struct far f[2];

    open_doors(false);
    open_at(&f[0], &other);
    open_at(&f[1], &other);
    assert_int_equal(atomic_load(&other.refs), 3);
    assert_int_equal(atomic_load(&other.connections), 2);
    far_say(&f[0], HOLD("a") "\n");
    wait_held(&bed, 1);
    assert_int_equal(atomic_load(&other.inflight), 1);
    wire_door_unref(&other); /* the owner is gone: the sessions stay */
    held_done(&bed, 0);
    expect_done(&bed, &f[0], "a");
    assert_int_equal(atomic_load(&other.inflight), 0);
    client_close(&bed, &f[0]);
    net_settle(&bed.net);
    assert_int_equal(unused, 0);
    client_close(&bed, &f[1]);
    wait_empty(&bed);
    assert_int_equal(unused, 1);
    wire_bed_close(&bed);
}

/* A configured door is not counted: it outlives all. */
static void test_static_door(void **state)
{
    (void)state;
    struct far f;

    open_doors(false);
    open_at(&f, &bed.door);
    assert_int_equal(atomic_load(&bed.door.refs), 0);
    assert_int_equal(atomic_load(&bed.door.connections), 1);
    client_close(&bed, &f);
    wait_empty(&bed);
    assert_int_equal(atomic_load(&bed.door.refs), 0);
    assert_int_equal(atomic_load(&bed.door.connections), 0);
    wire_bed_close(&bed);
}

/* Its requests end with Cancelled, its connections are closed; nobody else feels it. */
static void test_end_door(void **state)
{
    (void)state;
    struct far busy;
    struct far idle;
    struct far half;
    struct far stays;

    open_doors(false);
    open_at(&busy, &other);
    open_at(&idle, &other);
    open_at(&half, &other);
    open_at(&stays, &bed.door);
    far_say(&busy, HOLD("a") "\n" HOLD("b") "\n");
    far_say(&half, HOLD("c") "\n");
    far_say(&stays, HOLD("d") "\n");
    wait_held(&bed, 4);
    far_shut(&half);
    net_settle(&bed.net);
    wire_end_door(&bed.wire, &other);
    wire_end_door(&bed.wire, &other); /* once more does no harm */
    expect_error(&bed, &busy, "a", TACTUS_E_CANCELLED);
    expect_error(&bed, &busy, "b", TACTUS_E_CANCELLED);
    expect_error(&bed, &half, "c", TACTUS_E_CANCELLED);
    assert_string_equal(told(&busy, NDJSON, "a").message, "The grant has ended");
    assert_true(net_until(&bed.net, far_ended, &busy));
    assert_true(net_until(&bed.net, far_ended, &idle));
    assert_true(net_until(&bed.net, far_ended, &half));
    assert_int_equal(bed.cancelled, 3);
    assert_int_equal(bed.nheld, 1);
    client_close(&bed, &busy);
    client_close(&bed, &idle);
    client_close(&bed, &half);
    wire_door_unref(&other);
    while (unused == 0) {
        net_turn(&bed.net);
    }
    for (unsigned i = 0; i < HELD_MAX; i++) {
        if (bed.held[i] != NULL) {
            held_done(&bed, i);
        }
    }
    expect_done(&bed, &stays, "d");
    client_close(&bed, &stays);
    wait_empty(&bed);
    assert_int_equal(unused, 1);
    wire_bed_close(&bed);
}

/* Requests that come while the last words go out are not served. */
static void test_nothing_after_the_end(void **state)
{
    (void)state;
    struct far f;

    open_doors(false);
    open_at(&f, &other);
    far_say(&f, PING("a") "\n");
    expect_done(&bed, &f, "a");
    wire_end_door(&bed.wire, &other);
    far_say(&f, PING("b") "\n");
    assert_true(net_until(&bed.net, far_ended, &f));
    assert_int_equal(told(&f, NDJSON, "b").events, 0);
    client_close(&bed, &f);
    wait_empty(&bed);
    wire_door_unref(&other);
    assert_int_equal(unused, 1);
    wire_bed_close(&bed);
}

#define EMIT_TEXT(id) CALL(id, "events.emit", "{\"event\":\"text\"}")
#define EMIT_NONE(id) CALL(id, "events.emit", "{}")

static void test_relay(void **state)
{
    (void)state;
    struct far f;

    open_doors(true);
    open_at(&f, &other);
    far_say(&f, EMIT_TEXT("a") "\n" EMIT_NONE("b") "\n" EMIT("c") "\n");
    expect_done(&bed, &f, "a");
    expect_done(&bed, &f, "b");
    expect_done(&bed, &f, "c");
    struct told t = told(&f, NDJSON, "a");
    assert_memory_equal(t.data.p, "{\"ok\":true}", t.data.n);
    assert_int_equal(t.data.n, 11);
    assert_int_equal(atomic_load(&other.dropped), 2);
    assert_int_equal(bus_count(bed.bus), 1);
    client_close(&bed, &f);
    wait_empty(&bed);
    wire_door_unref(&other);
    wire_bed_close(&bed);
}

static void test_no_relay(void **state)
{
    (void)state;
    struct far f;

    open_doors(false);
    open_at(&f, &other);
    far_say(&f, EMIT_TEXT("a") "\n");
    expect_error(&bed, &f, "a", TACTUS_E_BAD_REQUEST);
    assert_int_equal(atomic_load(&other.dropped), 0);
    client_close(&bed, &f);
    wait_empty(&bed);
    wire_door_unref(&other);
    wire_bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references), cmocka_unit_test(test_static_door),
        cmocka_unit_test(test_end_door),   cmocka_unit_test(test_nothing_after_the_end),
        cmocka_unit_test(test_relay),      cmocka_unit_test(test_no_relay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
