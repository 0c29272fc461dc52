/*
 * What calls cost their grant, over whole sessions: reserved while they run, settled by what was
 * reported or estimated, whichever way they end; refused when a rate or a budget does not suffice.
 */
#include "base/clock.h"
#include "fixtures/torture.h"
#include "fixtures/wire_bed.h"
#include "gate/prices.h"
#include "llm/charge.h"
#include "tactus/protocol.h"

#define LINE(json) json "\n"

/* A token of a prompt costs 1000 billionths of a dollar, one of a reply 2000. */
#define PRICES "prices: [{model: 'builtin/*', input: 1, output: 2}]"
#define INPUT  UINT64_C(1000)
#define OUTPUT UINT64_C(2000)

/* A call with parameters of its own; its messages have MESSAGE_BYTES and one for each of `text`. */
#define ASK(id, model, more, text)                                                                 \
    CALL(id, "llm.chat",                                                                           \
         "{\"provider\":\"builtin\",\"model\":\"" model "\",\"stream\":true," more                 \
         "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}")
#define MESSAGE_BYTES (sizeof("[{\"role\":\"user\",\"content\":\"\"}]") - 1)
#define GUESS(text)   ((MESSAGE_BYTES + sizeof(text) - 1 + 3) / 4)

struct charge_bed {
    struct wire_bed wire;
    struct far f;
    struct grant *grant;
};

static void open_bed(struct charge_bed *b, bool priced)
{
    static const char prices[] = PRICES;

    wire_bed_open(&b->wire, NET_UNIX, NULL);
    methods_add(&b->wire.wire.methods,
                (struct method){
                    .name = "test.metered", .start = hold_start, .ctx = &b->wire, .metered = true});
    if (priced) {
        assert_int_equal(
            prices_parse("p", prices, sizeof(prices) - 1, &b->wire.config->prices, NULL), ERR_OK);
    }
    b->grant = b->wire.config->grants[0];
    client_open(&b->wire, &b->f, NET_UNIX, NULL);
}

static struct meter_state used(const struct charge_bed *b)
{
    struct meter_state s;

    meter_read(b->grant->meter, &b->grant->limits, clock_wall_ms(), &s);
    return s;
}

/* Nothing is held by a call that is over. */
static void close_bed(struct charge_bed *b)
{
    client_close(&b->wire, &b->f);
    wait_empty(&b->wire);
    struct meter_state s = used(b);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.reserved_nano, 0);
    assert_int_equal(s.inflight, 0);
    wire_bed_close(&b->wire);
}

static void spent_is(const struct charge_bed *b, uint64_t tokens, uint64_t nano)
{
    struct meter_state s = used(b);

    assert_int_equal(s.spent_tokens, tokens);
    assert_int_equal(s.spent_nano, nano);
    assert_int_equal(s.reserved_tokens, 0);
    assert_int_equal(s.reserved_nano, 0);
}

static bool is_reserved(void *ctx)
{
    return used(ctx).reserved_tokens > 0;
}

static void reserved_is(struct charge_bed *b, uint64_t tokens, uint64_t nano)
{
    assert_true(net_until(&b->wire.net, is_reserved, b));
    struct meter_state s = used(b);
    assert_int_equal(s.reserved_tokens, tokens);
    assert_int_equal(s.reserved_nano, nano);
    assert_int_equal(s.spent_tokens, 0);
}

static void is_refused(struct charge_bed *b, const char *id, const char *type, const char *why)
{
    struct told t = answer(&b->wire, &b->f, NDJSON, id);

    assert_string_equal(t.type, type);
    if (strstr(t.message, why) == NULL) {
        fail_msg("%s", t.message);
    }
}

/* ---- what is charged ---- */

static void test_what_was_reported(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, true);
    far_say(&b.f, LINE(CHAT("1", "echo", "one two three")));
    expect_done(&b.wire, &b.f, "1");
    spent_is(&b, 3 + 3, 3 * INPUT + 3 * OUTPUT);
    far_say(&b.f, LINE(CHAT("2", "tokens-1000", "x")));
    expect_done(&b.wire, &b.f, "2");
    spent_is(&b, 6 + 1001, 4 * INPUT + 1003 * OUTPUT);
    assert_int_equal(used(&b).refused, 0);
    close_bed(&b);
}

/* Without a price tokens count, and money does not. */
static void test_without_prices(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, false);
    far_say(&b.f, LINE(CHAT("1", "echo", "one two")));
    expect_done(&b.wire, &b.f, "1");
    spent_is(&b, 4, 0);
    b.grant->limits.budget_nano = UINT64_C(1000000000000000);
    far_say(&b.f, LINE(CHAT("2", "echo", "one two")));
    is_refused(&b, "2", TACTUS_E_BUDGET_EXCEEDED, "no price is known for builtin/echo");
    spent_is(&b, 4, 0);
    assert_int_equal(used(&b).refused, 1);
    close_bed(&b);
}

/* Free when nothing of a reply had come; else estimated. */
static void test_errors(void **state)
{
    (void)state;
    struct charge_bed b;
    uint64_t input = GUESS("one two three");
    uint64_t output = 2; /* "one two" has seven bytes */

    open_bed(&b, true);
    far_say(&b.f, LINE(CHAT("1", "error-500", "x")));
    assert_true(answer(&b.wire, &b.f, NDJSON, "1").type[0] != '\0');
    spent_is(&b, 0, 0);
    far_say(&b.f, LINE(CHAT("2", "no such model", "x")));
    assert_true(answer(&b.wire, &b.f, NDJSON, "2").type[0] != '\0');
    spent_is(&b, 0, 0);
    far_say(&b.f, LINE(CHAT("3", "cut", "one two three")));
    expect_error(&b.wire, &b.f, "3", TACTUS_E_API_RESPONSE);
    spent_is(&b, input + output, input * INPUT + output * OUTPUT);
    close_bed(&b);
}

static bool has_text(void *ctx)
{
    const struct charge_bed *b = ctx;

    return told(&b->f, NDJSON, "1").text_bytes > 0;
}

/* A call that the client cancels, or leaves, is charged by an estimate. */
static void test_cut_off(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        struct charge_bed b;
        uint64_t input = GUESS("a b");

        open_bed(&b, true);
        far_say(&b.f, LINE(CHAT("1", "slow-60000", "a b")));
        reserved_is(&b, input + CHARGE_OUTPUT_DEFAULT,
                    input * INPUT + CHARGE_OUTPUT_DEFAULT * OUTPUT);
        net_settle(&b.wire.net);
        uint64_t output = has_text(&b) ? 1 : 0;
        if (leaves == 1) {
            far_hang_up(&b.f, true);
            wait_empty(&b.wire);
        } else {
            far_say(&b.f, LINE(CANCEL("2", "1")));
            expect_error(&b.wire, &b.f, "1", TACTUS_E_CANCELLED);
        }
        spent_is(&b, input + output, input * INPUT + output * OUTPUT);
        close_bed(&b);
    }
}

/* ---- what is reserved ---- */

static void check_bound(const char *line, uint64_t output)
{
    struct charge_bed b;
    uint64_t input = GUESS("a b");

    open_bed(&b, true);
    far_say(&b.f, line);
    reserved_is(&b, input + output, input * INPUT + output * OUTPUT);
    close_bed(&b);
}

static void test_bounds_of_replies(void **state)
{
    (void)state;
    check_bound(LINE(ASK("1", "slow-60000", "", "a b")), CHARGE_OUTPUT_DEFAULT);
    check_bound(LINE(ASK("1", "slow-60000", "\"max_tokens\":10,", "a b")), 10);
    check_bound(LINE(ASK("1", "slow-60000", "\"max_completion_tokens\":11,", "a b")), 11);
    check_bound(
        LINE(ASK("1", "slow-60000", "\"max_tokens\":12,\"max_completion_tokens\":11,", "a b")), 12);
}

/* A bound beyond all numbers is much, not little. */
static void test_huge_bound(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, false);
    b.grant->limits.budget_tokens = 1000000;
    far_say(&b.f, LINE(ASK("1", "echo", "\"max_tokens\":18446744073709551615,", "a b")));
    is_refused(&b, "1", TACTUS_E_BUDGET_EXCEEDED, "budget_tokens");
    far_say(&b.f, LINE(ASK("2", "echo", "\"max_tokens\":18446744073709551600,", "a b")));
    is_refused(&b, "2", TACTUS_E_BUDGET_EXCEEDED, "budget_tokens");
    b.grant->limits.budget_tokens = METER_NO_BUDGET;
    far_say(&b.f, LINE(ASK("3", "echo", "\"max_tokens\":18446744073709551615,", "a b")));
    expect_done(&b.wire, &b.f, "3");
    spent_is(&b, 4, 0);
    close_bed(&b);
}

static void test_budgets_to_the_last(void **state)
{
    (void)state;
    struct charge_bed b;
    uint64_t tokens = GUESS("a b") + 10;
    uint64_t nano = GUESS("a b") * INPUT + 10 * OUTPUT;

    open_bed(&b, true);
    b.grant->limits.budget_tokens = tokens - 1;
    far_say(&b.f, LINE(ASK("1", "echo", "\"max_tokens\":10,", "a b")));
    is_refused(&b, "1", TACTUS_E_BUDGET_EXCEEDED, "budget_tokens are used up");
    b.grant->limits.budget_tokens = tokens;
    b.grant->limits.budget_nano = nano - 1;
    far_say(&b.f, LINE(ASK("2", "echo", "\"max_tokens\":10,", "a b")));
    is_refused(&b, "2", TACTUS_E_BUDGET_EXCEEDED, "budget (budget_usd) is used up");
    spent_is(&b, 0, 0);
    b.grant->limits.budget_nano = nano;
    far_say(&b.f, LINE(ASK("3", "echo", "\"max_tokens\":10,", "a b")));
    expect_done(&b.wire, &b.f, "3");
    spent_is(&b, 4, 2 * INPUT + 2 * OUTPUT);
    far_say(&b.f, LINE(ASK("4", "echo", "\"max_tokens\":10,", "a b")));
    is_refused(&b, "4", TACTUS_E_BUDGET_EXCEEDED, "budget (budget_usd) is used up");
    assert_int_equal(used(&b).refused, 3);
    close_bed(&b);
}

/* Of calls that come at once as many run as the budget is for. */
static void test_burst(void **state)
{
    (void)state;
    struct charge_bed b;
    uint64_t one = GUESS("a b") + 10;

    open_bed(&b, true);
    b.grant->limits.budget_tokens = 2 * one + one - 1;
    far_say(&b.f, LINE(ASK("1", "slow-60000", "\"max_tokens\":10,", "a b"))
                      LINE(ASK("2", "slow-60000", "\"max_tokens\":10,", "a b"))
                          LINE(ASK("3", "slow-60000", "\"max_tokens\":10,", "a b"))
                              LINE(ASK("4", "slow-60000", "\"max_tokens\":10,", "a b")));
    expect_error(&b.wire, &b.f, "3", TACTUS_E_BUDGET_EXCEEDED);
    expect_error(&b.wire, &b.f, "4", TACTUS_E_BUDGET_EXCEEDED);
    struct meter_state s = used(&b);
    assert_int_equal(s.reserved_tokens, 2 * one);
    assert_int_equal(s.refused, 2);
    assert_int_equal(told(&b.f, NDJSON, "1").terminals, 0);
    assert_int_equal(told(&b.f, NDJSON, "2").terminals, 0);
    close_bed(&b);
}

/* ---- rates ---- */

static void test_tokens_a_minute(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, false);
    b.grant->limits.tpm = (uint32_t)GUESS("a b") + 10;
    far_say(&b.f, LINE(ASK("1", "echo", "\"max_tokens\":10,", "a b")));
    expect_done(&b.wire, &b.f, "1"); /* most of its claim comes back */
    far_say(&b.f, LINE(ASK("2", "slow-60000", "\"max_tokens\":5,", "a b")));
    assert_true(net_until(&b.wire.net, is_reserved, &b));
    far_say(&b.f, LINE(ASK("3", "echo", "\"max_tokens\":10,", "a b")));
    struct told t = answer(&b.wire, &b.f, NDJSON, "3");
    assert_string_equal(t.type, TACTUS_E_TOO_MANY_REQUESTS);
    assert_non_null(strstr(t.message, "(tpm)"));
    assert_true(t.retry_after > 0 && t.retry_after <= 60);
    close_bed(&b);
}

#define METERED(id) CALL(id, "test.metered", "{}")

static void test_requests_a_minute(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, false);
    b.grant->limits.rpm = 2;
    far_say(&b.f, LINE(METERED("1")) LINE(METERED("2")) LINE(METERED("3")) LINE(HOLD("4")));
    wait_held(&b.wire, 3);
    struct told t = answer(&b.wire, &b.f, NDJSON, "3");
    assert_string_equal(t.type, TACTUS_E_TOO_MANY_REQUESTS);
    assert_non_null(strstr(t.message, "(rpm)"));
    assert_true(t.retry_after > 0 && t.retry_after <= 30);
    assert_int_equal(used(&b).inflight, 2);
    held_done(&b.wire, 0);
    expect_done(&b.wire, &b.f, "1");
    assert_int_equal(used(&b).inflight, 1);
    far_say(&b.f, LINE(METERED("5"))); /* its end gives nothing of the minute back */
    expect_error(&b.wire, &b.f, "5", TACTUS_E_TOO_MANY_REQUESTS);
    close_bed(&b); /* the other is cancelled */
}

static void test_requests_at_once(void **state)
{
    (void)state;
    struct charge_bed b;

    open_bed(&b, false);
    b.grant->limits.max_inflight = 1;
    far_say(&b.f, LINE(METERED("1")) LINE(METERED("2")));
    is_refused(&b, "2", TACTUS_E_TOO_MANY_REQUESTS, "max_inflight");
    wait_held(&b.wire, 1);
    held_done(&b.wire, 0);
    expect_done(&b.wire, &b.f, "1");
    far_say(&b.f, LINE(METERED("3")));
    wait_held(&b.wire, 1);
    far_say(&b.f, LINE(CANCEL("c", "3")));
    expect_error(&b.wire, &b.f, "3", TACTUS_E_CANCELLED);
    far_say(&b.f, LINE(METERED("4")));
    wait_held(&b.wire, 1);
    held_done(&b.wire, 0);
    expect_done(&b.wire, &b.f, "4");
    assert_int_equal(used(&b).requests, 3);
    close_bed(&b);
}

/* ---- no memory ---- */

/* Whichever allocation fails: nothing stays reserved or in flight. */
static void test_no_memory(void **state)
{
    (void)state;
    bool failed = true;
    size_t n = 0;

    for (; failed; n++) {
        struct charge_bed b;
        struct wire_answer a = {.far = &b.f, .counted = NDJSON, .id = "1"};
        assert_true(n < 400);
        open_bed(&b, true);
        b.grant->limits.rpm = 10;
        b.grant->limits.budget_tokens = 1000000;
        torture_fail_after(n);
        far_say(&b.f, LINE(CHAT("1", "echo", "one two three")) LINE(METERED("2")));
        assert_true(net_until(&b.wire.net, answered_or_cut, &a));
        net_settle(&b.wire.net);
        failed = torture_count() > n;
        torture_off();
        struct meter_state s = used(&b);
        assert_int_equal(s.reserved_tokens, 0);
        assert_int_equal(s.inflight, b.wire.nheld);
        assert_true(s.spent_tokens <= 6 || failed);
        close_bed(&b);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_reported),
        cmocka_unit_test(test_without_prices),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_bounds_of_replies),
        cmocka_unit_test(test_huge_bound),
        cmocka_unit_test(test_budgets_to_the_last),
        cmocka_unit_test(test_burst),
        cmocka_unit_test(test_tokens_a_minute),
        cmocka_unit_test(test_requests_a_minute),
        cmocka_unit_test(test_requests_at_once),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
