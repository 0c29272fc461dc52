/* Prices: what the file may say, which row counts, and that sums are exact, rounded up and never
 * overflow. */
#include "gate/prices.h"

#include "base/conf.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MILLION UINT64_C(1000000)
#define USD     INT64_C(1000000000) /* in nano-USD */

static struct prices *parsed(const char *text)
{
    struct prices *p = NULL;
    struct error e = {.code = ERR_OK, .msg = "untouched"};

    enum err err = prices_parse("p.yml", text, strlen(text), &p, &e);
    if (err != ERR_OK) {
        print_error("%s\n", e.msg);
    }
    assert_int_equal(err, ERR_OK);
    assert_string_equal(e.msg, "untouched");
    assert_non_null(p);
    return p;
}

static void refused(const char *text, const char *message)
{
    struct prices *p = NULL;
    struct error e = {.code = ERR_OK};

    assert_int_equal(prices_parse("p.yml", text, strlen(text), &p, &e), ERR_CONFIG);
    assert_null(p);
    assert_int_equal(e.code, ERR_CONFIG);
    if (strncmp(e.msg, message, strlen(message)) != 0) { /* how it starts */
        assert_string_equal(e.msg, message);
    }
    assert_int_equal(prices_parse("p.yml", text, strlen(text), &p, NULL), ERR_CONFIG);
}

/* -1: no price is known. */
static int64_t cost(const struct prices *p, const char *provider, const char *model,
                    struct price_usage usage)
{
    int64_t nano = -77;

    if (!prices_cost(p, provider, model, &usage, &nano)) {
        assert_int_equal(nano, -77);
        return -1;
    }
    return nano;
}

static int64_t upper(const struct prices *p, const char *model, uint64_t input, uint64_t output)
{
    int64_t nano = -77;

    if (!prices_upper(p, "a", model, input, output, &nano)) {
        assert_int_equal(nano, -77);
        return -1;
    }
    return nano;
}

/* ---- numbers ---- */

/* `number` as the price of a million tokens. */
static int64_t price(const char *number)
{
    char text[128];

    assert_true(snprintf(text, sizeof(text), "prices: [{model: '*', input: %s, output: 0}]",
                         number) < (int)sizeof(text));
    struct prices *p = parsed(text);
    int64_t nano = cost(p, "a", "b", (struct price_usage){.input = MILLION});
    prices_free(p);
    return nano;
}

static void test_numbers(void **state)
{
    (void)state;

    assert_int_equal(price("0"), 0);
    assert_int_equal(price("0.0"), 0);
    assert_int_equal(price("2"), 2 * USD);
    assert_int_equal(price("2.50"), 2500000000);
    assert_int_equal(price("\"2.50\""), 2500000000);
    assert_int_equal(price("0.15"), 150000000);
    assert_int_equal(price("0.1"), 100000000); /* no binary fraction is */
    assert_int_equal(price("0.000000001"), 1);
    assert_int_equal(price("0.123456789"), 123456789);
    assert_int_equal(price("10.000000000"), 10 * USD);
    assert_int_equal(price("999999.999999999"), INT64_C(999999999999999));
    assert_int_equal(price("1000000"), 1000000 * USD);
    assert_int_equal(price("1000000.000000000"), 1000000 * USD);
}

static void test_numbers_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "-1",
        "-0",
        "+1",
        "1e3",
        "1E3",
        ".5",
        "5.",
        ".",
        "'1,5'",
        "1_000",
        "0x10",
        "010",
        "00",
        "00.5",
        "0.0000000001",
        "1.1.1",
        "1000001",
        "1000000.1",
        "1000000.000000001",
        "$2",
        "2 USD",
        ".inf",
        ".nan",
        "1/2",
        "true",
        "'1\xc2\xa0'",
        "18446744073709551616",
        "18446744073709551615",
        "' 1'",
    };
    static const char *const keys[] = {"input", "output", "cached_input", "reasoning"};
    char text[256];
    char message[128];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(text, sizeof(text), "prices: [{model: '*', input: %s, output: 0}]", bad[i]);
        refused(text, "p.yml:1:30: prices[0].input: is no price, expected USD per million tokens");
    }
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof(text), "prices:\n- model: '*'\n%s%s  %s: -1\n",
                       i == 0 ? "" : "  input: 1\n", i == 1 ? "" : "  output: 1\n", keys[i]);
        (void)snprintf(message, sizeof(message), ":%zu: prices[0].%s: is no price",
                       strlen(keys[i]) + 5, keys[i]);
        struct prices *p = NULL;
        struct error e = {.code = ERR_OK};
        assert_int_equal(prices_parse("p.yml", text, strlen(text), &p, &e), ERR_CONFIG);
        assert_non_null(strstr(e.msg, message));
    }
}

/* ---- the file ---- */

static void test_file_refused(void **state)
{
    (void)state;

    refused("", "p.yml:1:1: prices: is missing");
    refused("prices:\n", "p.yml:1:8: prices: has no value");
    refused("prices: {}\n", "p.yml:1:9: prices: is a map");
    refused("price: []\n", "p.yml:1:1: price: is an unknown key");
    refused("prices: []\nmore: 1\n", "p.yml:2:1: more: is an unknown key");
    refused("prices: [x]\n", "p.yml:1:10: prices[0]: is a single value");
    refused("prices: [{}]\n", "p.yml:1:10: prices[0].model: is missing");
    refused("prices:\n- {model: '*', output: 1}\n", "p.yml:2:3: prices[0].input: is missing");
    refused("prices:\n- {model: '*', input: 1}\n", "p.yml:2:3: prices[0].output: is missing");
    refused("prices:\n- {model: '*', input: 1, output: 1, cached: 1}\n",
            "p.yml:2:37: prices[0].cached: is an unknown key");
    refused("prices:\n- {model: '*', input: 1, input: 1, output: 1}\n",
            "p.yml:2:26: prices[0].input: ");
    refused("prices:\n- {model: '*', input: [1], output: 1}\n",
            "p.yml:2:23: prices[0].input: is a list");
    refused("prices:\n- {model: '*', input: , output: 1}\n",
            "p.yml:2:23: prices[0].input: has no value");
    refused("prices:\n- {model: '', input: 1, output: 1}\n",
            "p.yml:2:11: prices[0].model: is empty");
    refused("prices:\n- {model: gpt-4o, input: 1, output: 1}\n",
            "p.yml:2:11: prices[0].model: matches no model, expected a pattern of provider/model");
    refused("prices:\n- {model: '*', input: 1, output: 1}\n- {model: '*', input: 1, output: x}\n",
            "p.yml:3:34: prices[1].output: is no price");
    refused("prices: &a []\n", "p.yml:1:9: yaml: an anchor");
    refused("prices: [\n", "p.yml:");
}

static void test_rows_max(void **state)
{
    (void)state;
    static const char row[] = "- {model: '?*', input: 1, output: 1}\n";
    size_t n = sizeof("prices:\n") - 1;
    char *text = malloc(n + (PRICES_ROWS_MAX + 1) * sizeof(row));

    assert_non_null(text);
    memcpy(text, "prices:\n", n + 1);
    for (size_t i = 0; i < PRICES_ROWS_MAX; i++) {
        memcpy(text + n, row, sizeof(row));
        n += sizeof(row) - 1;
    }
    struct prices *p = parsed(text);
    assert_int_equal(cost(p, "a", "b", (struct price_usage){.input = MILLION}), USD);
    prices_free(p);
    memcpy(text + n, row, sizeof(row));
    refused(text, "p.yml:2:1: prices: has 4097 items");
    free(text);
}

static void test_read(void **state)
{
    (void)state;
    static const char text[] = "prices:\n- {model: 'a/*', input: 1, output: x}\n";
    char path[64];
    char message[128];
    struct prices *p = NULL;
    struct error e = {.code = ERR_OK};

    assert_int_equal(prices_read("/nonexistent/prices.yml", &p, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "/nonexistent/prices.yml: cannot be opened: "
                               "No such file or directory");
    assert_true(snprintf(path, sizeof(path), "/tmp/test_prices.%ld", (long)getpid()) > 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(prices_read(path, &p, &e), ERR_CONFIG);
    assert_true(snprintf(message, sizeof(message), "%s:2:36: prices[0].output: is no", path) > 0);
    assert_memory_equal(e.msg, message, strlen(message));
    assert_null(p);
    assert_int_equal(pwrite(fd, "2", 1, (off_t)(strchr(text, 'x') - text)), 1);
    assert_int_equal(prices_read(path, &p, &e), ERR_OK);
    assert_int_equal(cost(p, "a", "b", (struct price_usage){.output = MILLION}), 2 * USD);
    prices_free(p);
    assert_int_equal(close(fd) + unlink(path), 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] = "prices:\n"
                               "- {model: 'a/*', input: 1, output: 2, cached_input: 1}\n"
                               "- {model: '*', input: 3, output: 4, reasoning: 5}\n";
    char path[64];
    enum err err = ERR_NOMEM;
    size_t n = 0;
    struct prices *p = NULL;

    assert_true(snprintf(path, sizeof(path), "/tmp/test_prices.%ld", (long)getpid()) > 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    while (err != ERR_OK) {
        struct error e = {.code = ERR_OK};
        torture_fail_after(n++);
        err = prices_read(path, &p, &e);
        torture_off();
        assert_true(err == ERR_OK || (err == ERR_NOMEM && e.code == ERR_NOMEM && p == NULL));
    }
    assert_true(n > 15);
    assert_int_equal(cost(p, "z", "b", (struct price_usage){.reasoning = MILLION}), 5 * USD);
    prices_free(p);
    prices_free(NULL);
    assert_int_equal(close(fd) + unlink(path), 0);
}

static void test_example(void **state)
{
    (void)state;
    struct prices *p = NULL;

    assert_int_equal(prices_read("deploy/prices.example.yml", &p, NULL), ERR_OK);
    assert_int_equal(cost(p, "openai", "gpt-4o-mini-x", (struct price_usage){.input = MILLION}),
                     150000000);
    assert_int_equal(cost(p, "builtin", "echo", (struct price_usage){.input = MILLION}), 0);
    prices_free(p);
}

/* Every key has a line for people. */
static void test_keys(void **state)
{
    (void)state;
    const struct conf_map *map = prices_keys();

    assert_int_equal(map->nkeys, 1);
    assert_string_equal(map->keys[0].name, "prices");
    for (size_t i = 0; i < map->keys[0].map->nkeys; i++) {
        assert_true(strlen(map->keys[0].map->keys[i].doc) > 10);
    }
}

/* ---- which row ---- */

static void test_first_row_counts(void **state)
{
    (void)state;
    static const struct price_usage m = {.input = MILLION};
    struct prices *p = parsed("prices:\n"
                              "- {model: openai/gpt-4o-mini, input: 1, output: 0}\n"
                              "- {model: 'openai/gpt-4o*', input: 2, output: 0}\n"
                              "- {model: 'openai/gpt-4o-mini*', input: 3, output: 0}\n"
                              "- {model: '*/llama-[0-9]', input: 4, output: 0}\n"
                              "- {model: 'local/*', input: 0, output: 0}\n"
                              "- {model: '[', input: 9, output: 0}\n");

    assert_int_equal(cost(p, "openai", "gpt-4o-mini", m), 1 * USD);
    assert_int_equal(cost(p, "openai", "gpt-4o", m), 2 * USD);
    assert_int_equal(cost(p, "openai", "gpt-4o-mini-2024", m), 2 * USD);
    assert_int_equal(cost(p, "a", "llama-3", m), 4 * USD);
    assert_int_equal(cost(p, "a", "meta/llama-3", m), 4 * USD);
    assert_int_equal(cost(p, "local", "qwen", m), 0); /* known, and nothing */
    assert_int_equal(cost(p, "openai", "gpt-3", m), -1);
    assert_int_equal(cost(p, "OpenAI", "gpt-4o", m), -1);
    assert_int_equal(cost(p, "builtin", "echo", m), -1);
    assert_int_equal(cost(p, "", "", m), -1);
    prices_free(p);
}

static void test_unknown(void **state)
{
    (void)state;
    static const struct price_usage m = {.input = MILLION};
    static char name[1024];
    struct prices *none = parsed("prices: []\n");
    struct prices *all = parsed("prices: [{model: '*', input: 1, output: 1}]\n");

    assert_int_equal(cost(NULL, "a", "b", m), -1);
    assert_int_equal(cost(none, "a", "b", m), -1);
    assert_int_equal(cost(all, NULL, "b", m), -1);
    assert_int_equal(cost(all, "a", NULL, m), -1);
    assert_int_equal(upper(NULL, "b", 1, 1), -1);
    assert_int_equal(upper(none, "b", 1, 1), -1);
    assert_int_equal(upper(all, NULL, 1, 1), -1);
    memset(name, 'm', sizeof(name) - 1);
    assert_int_equal(cost(all, "a", name, m), -1);
    name[1022] = '\0'; /* "a/" and 1022: one too many */
    assert_int_equal(cost(all, "a", name, m), -1);
    assert_int_equal(upper(all, name, 1, 1), -1);
    name[1021] = '\0';
    assert_int_equal(cost(all, "a", name, m), USD);
    prices_free(none);
    prices_free(all);
}

/* ---- sums ---- */

static void test_kinds(void **state)
{
    (void)state;
    struct prices *p =
        parsed("prices:\n"
               "- {model: 'a/full', input: 2, cached_input: 0.5, output: 8, reasoning: 16}\n"
               "- {model: 'a/*', input: 2, output: 8}\n");

    assert_int_equal(cost(p, "a", "full", (struct price_usage){.input = 10}), 20000);
    assert_int_equal(cost(p, "a", "full", (struct price_usage){.cached = 10}), 5000);
    assert_int_equal(cost(p, "a", "full", (struct price_usage){.output = 10}), 80000);
    assert_int_equal(cost(p, "a", "full", (struct price_usage){.reasoning = 10}), 160000);
    assert_int_equal(cost(p, "a", "full", (struct price_usage){1, 2, 3, 4}),
                     2000 + 1000 + 24000 + 64000);
    assert_int_equal(cost(p, "a", "half", (struct price_usage){1, 2, 3, 4}), 6000 + 56000);
    assert_int_equal(cost(p, "a", "half", (struct price_usage){0}), 0);
    prices_free(p);
}

static void test_rounded_up(void **state)
{
    (void)state;
    struct prices *p = parsed("prices:\n"
                              "- {model: 'a/*', input: 0.000000001, output: 0.000000001}\n"
                              "- {model: 'b/*', input: 0.15, output: 0.000001}\n");

    /* A millionth of a nano-USD a token: the sum is rounded, not its parts. */
    assert_int_equal(cost(p, "a", "m", (struct price_usage){.input = 1}), 1);
    assert_int_equal(cost(p, "a", "m", (struct price_usage){1, 1, 1, 1}), 1);
    assert_int_equal(cost(p, "a", "m", (struct price_usage){.input = MILLION}), 1);
    assert_int_equal(cost(p, "a", "m", (struct price_usage){.input = MILLION, .output = 1}), 2);
    assert_int_equal(cost(p, "a", "m", (struct price_usage){999999, 1, 0, 0}), 1);
    assert_int_equal(cost(p, "a", "m", (struct price_usage){999999, 999999, 999999, 999999}), 4);
    assert_int_equal(cost(p, "b", "m", (struct price_usage){.input = 1}), 150);
    assert_int_equal(cost(p, "b", "m", (struct price_usage){.input = 7, .output = 1}), 1051);
    prices_free(p);
}

static void test_saturates(void **state)
{
    (void)state;
    struct prices *p = parsed("prices:\n"
                              "- {model: 'a/dear', input: 1000000, output: 999999.999999999}\n"
                              "- {model: 'a/one', input: 1, output: 1}\n"
                              "- {model: 'a/2^49', input: 562949.953421312, output: 0}\n"
                              "- {model: 'a/free', input: 0, output: 0}\n");
    const uint64_t most = UINT64_MAX;

    assert_int_equal(cost(p, "a", "dear", (struct price_usage){.input = most}), INT64_MAX);
    assert_int_equal(cost(p, "a", "dear", (struct price_usage){most, most, most, most}), INT64_MAX);
    assert_int_equal(upper(p, "dear", most, most), INT64_MAX);
    /* 2^15 millions at 2^49 nano-USD: a product of 2^64. */
    assert_int_equal(cost(p, "a", "2^49", (struct price_usage){.input = 32768 * MILLION}),
                     INT64_MAX);
    assert_int_equal(cost(p, "a", "free", (struct price_usage){most, most, most, most}), 0);
    /* 1 USD a million tokens is 1000 nano-USD a token: up to the edge it is exact. */
    uint64_t edge = (uint64_t)INT64_MAX / 1000;
    assert_int_equal(cost(p, "a", "one", (struct price_usage){.input = edge}),
                     INT64_MAX - INT64_MAX % 1000);
    assert_int_equal(cost(p, "a", "one", (struct price_usage){.input = edge + 1}), INT64_MAX);
    assert_int_equal(cost(p, "a", "one", (struct price_usage){.input = edge, .output = 1}),
                     INT64_MAX);
    /* Parts that fit, a sum that does not; twice over, so that it would wrap. */
    assert_int_equal(cost(p, "a", "one", (struct price_usage){edge, edge, edge, edge}), INT64_MAX);
    /* 999999.999999999 USD: 999999 tokens are 999998999999.999000001 … rounded up. */
    assert_int_equal(cost(p, "a", "dear", (struct price_usage){.output = 999999}),
                     INT64_C(999999000000000));
    prices_free(p);
}

static void test_upper(void **state)
{
    (void)state;
    struct prices *p =
        parsed("prices:\n"
               "- {model: 'a/usual', input: 2, cached_input: 0.5, output: 8, reasoning: 16}\n"
               "- {model: 'a/odd', input: 2, cached_input: 3, output: 8, reasoning: 4}\n"
               "- {model: 'a/plain', input: 2, output: 0.000000001}\n");

    assert_int_equal(upper(p, "usual", 10, 100), 20000 + 1600000);
    assert_int_equal(upper(p, "odd", 10, 100), 30000 + 800000);
    assert_int_equal(upper(p, "plain", 10, 1), 20001);
    assert_int_equal(upper(p, "plain", 0, 0), 0);
    assert_int_equal(upper(p, "other", 10, 1), -1);
    for (uint64_t cached = 0; cached <= 10; cached++) {
        for (uint64_t reasoning = 0; reasoning <= 10; reasoning++) {
            const struct price_usage u = {10 - cached, cached, 10 - reasoning, reasoning};
            assert_true(cost(p, "a", "usual", u) <= upper(p, "usual", 10, 10));
            assert_true(cost(p, "a", "odd", u) <= upper(p, "odd", 10, 10));
        }
    }
    prices_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_refused),
        cmocka_unit_test(test_file_refused),
        cmocka_unit_test(test_rows_max),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_first_row_counts),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_rounded_up),
        cmocka_unit_test(test_saturates),
        cmocka_unit_test(test_upper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
