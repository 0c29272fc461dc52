/* run/image_build: what a run does about its image, and what a build refuses before any engine is
 * asked. Building is tests/engine's. */
#include "run/image_build.h"

#include "fixtures/place.h"
#include "spec/workspace.h"

static int setup(void **state)
{
    (void)state;
    make_place();
    put_directory("ctx");
    put("ctx/Dockerfile", "FROM scratch\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return workspace_remove(place, NULL) == ERR_OK ? 0 : 1;
}

static void test_action(void **state)
{
    static const struct {
        enum image_freshness freshness;
        const char *automatic;
        bool watched;
        enum image_action action;
    } rows[] = {
        {IMAGE_FRESH, NULL, false, IMAGE_USE},     {IMAGE_FRESH, "no", true, IMAGE_USE},
        {IMAGE_STALE, NULL, false, IMAGE_BUILD},   {IMAGE_STALE, "true", false, IMAGE_BUILD},
        {IMAGE_STALE, "TRUE", false, IMAGE_BUILD}, {IMAGE_STALE, "1", false, IMAGE_BUILD},
        {IMAGE_STALE, "Yes", false, IMAGE_BUILD},  {IMAGE_STALE, "", false, IMAGE_WARN},
        {IMAGE_STALE, "false", false, IMAGE_WARN}, {IMAGE_STALE, "0", false, IMAGE_WARN},
        {IMAGE_STALE, "no", false, IMAGE_WARN},    {IMAGE_STALE, "11", false, IMAGE_WARN},
        {IMAGE_STALE, " true", false, IMAGE_WARN}, {IMAGE_STALE, NULL, true, IMAGE_WARN},
        {IMAGE_STALE, "true", true, IMAGE_WARN},   {IMAGE_MISSING, NULL, false, IMAGE_BUILD},
        {IMAGE_MISSING, "no", false, IMAGE_BUILD}, {IMAGE_MISSING, NULL, true, IMAGE_BUILD},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (image_action(rows[i].freshness, rows[i].automatic, rows[i].watched) != rows[i].action) {
            fail_msg("row %zu", i);
        }
    }
}

static void assert_refused(struct image_plan plan, enum err code, const char *words)
{
    struct error e = {0};

    assert_int_equal(image_build(NULL, &plan, &e), code);
    if (strstr(e.msg, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, e.msg);
    }
}

static void test_dockerfile(void **state)
{
    static const char *const outside[] = {"../Dockerfile", "/etc/passwd", "a/../Dockerfile",
                                          "./../x", ".//.."};
    struct image_plan plan = {.image = "x:y", .context = at("ctx"), .file = "Dockerfile"};
    const char *source = "/nowhere";

    (void)state;
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        plan.file = outside[i];
        assert_refused(plan, ERR_CONFIG, "lies in the build context");
    }
    plan.file = "..Dockerfile"; /* only a name */
    assert_refused(plan, ERR_CONFIG, "ctx/..Dockerfile: No such file");
    plan.file = "./Dockerfile";
    plan.sources = &source;
    plan.nsources = 1;
    assert_refused(plan, ERR_CONFIG, "/nowhere: No such file");
    plan.context = "/nowhere/at/all";
    assert_refused(plan, ERR_CONFIG, "/nowhere/at/all/Dockerfile: No such file");
}

#define TEST(name) cmocka_unit_test_setup_teardown((name), setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_action), TEST(test_dockerfile)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
