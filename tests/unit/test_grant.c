/* Grants: globs over "provider/model" and tool names; an absent list allows nothing. */
#include "gate/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char any[] = "*";
static char openai_any[] = "openai/*";
static char gpt[] = "azure/gpt-4?";
static char host[] = "host.*";

static void test_absent_lists_allow_nothing(void **state)
{
    (void)state;
    struct grant g = {0};

    assert_false(grant_allows_model(&g, "openai", "gpt-4o"));
    assert_false(grant_allows_tool(&g, "host.time"));
    assert_false(grant_allows_tool(&g, ""));
}

static void test_star_allows_all(void **state)
{
    (void)state;
    char *all[] = {any};
    struct grant g = {.models = all, .nmodels = 1, .tools = all, .ntools = 1};

    assert_true(grant_allows_model(&g, "openai", "meta-llama/x"));
    assert_true(grant_allows_model(&g, "p", ""));
    assert_true(grant_allows_tool(&g, "host.time"));
}

static void test_globs(void **state)
{
    (void)state;
    char *models[] = {openai_any, gpt};
    char *tools[] = {host};
    struct grant g = {.models = models, .nmodels = 2, .tools = tools, .ntools = 1};

    assert_true(grant_allows_model(&g, "openai", "gpt-4o"));
    assert_true(grant_allows_model(&g, "openai", "meta-llama/x")); /* no special slash */
    assert_false(grant_allows_model(&g, "openaix", "gpt-4o"));
    assert_false(grant_allows_model(&g, "x", "openai/gpt-4o"));
    assert_true(grant_allows_model(&g, "azure", "gpt-4o"));
    assert_false(grant_allows_model(&g, "azure", "gpt-4"));
    assert_false(grant_allows_model(&g, "azure", "gpt-4oo"));
    assert_true(grant_allows_tool(&g, "host.time"));
    assert_false(grant_allows_tool(&g, "hosts.time"));
}

static void test_fails_closed(void **state)
{
    (void)state;
    char *all[] = {any};
    struct grant g = {.models = all, .nmodels = 1, .tools = all, .ntools = 1};
    char name[2000];

    assert_false(grant_allows_model(&g, NULL, "m"));
    assert_false(grant_allows_model(&g, "p", NULL));
    assert_false(grant_allows_tool(&g, NULL));
    memset(name, 'a', sizeof(name));
    name[1021] = '\0'; /* "p/" and it fill the buffer exactly */
    assert_true(grant_allows_model(&g, "p", name));
    name[1021] = 'a';
    name[1022] = '\0';
    assert_false(grant_allows_model(&g, "p", name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_lists_allow_nothing),
        cmocka_unit_test(test_star_allows_all),
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_fails_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
