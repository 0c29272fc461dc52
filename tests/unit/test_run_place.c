/* Where sockets of runs are: modes, what is refused as a base, what is left. */
#include "app/run_place.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[32];
static char base[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/tactus-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    (void)snprintf(base, sizeof(base), "%s/runs", root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(base);
    (void)rmdir(base);
    assert_int_equal(rmdir(root), 0); /* nothing else was left */
    return 0;
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (unsigned)(st.st_mode & 07777);
}

static void refused(enum err code, const char *id, const char *why)
{
    char path[RUN_PLACE_PATH_SIZE] = "untouched";
    struct error e = {.code = ERR_OK};
    bool made = false;

    assert_int_equal(run_place_make(base, id, false, &made, path, &e), code);
    assert_string_equal(path, "untouched");
    assert_non_null(strstr(e.msg, why));
}

static void make_with(mode_t mask)
{
    char path[RUN_PLACE_PATH_SIZE];
    char place[128];
    bool made = false;
    mode_t before = umask(mask);

    assert_int_equal(run_place_make(base, "abc", false, &made, path, NULL), ERR_OK);
    (void)umask(before);
    assert_true(made);
    (void)snprintf(place, sizeof(place), "%s/abc", base);
    assert_int_equal(mode_of(base), 0700);
    assert_int_equal(mode_of(place), 0711);
    (void)snprintf(place, sizeof(place), "%s/abc/broker.sock", base);
    assert_string_equal(path, place);
    run_place_remove(path);
    assert_int_equal(rmdir(base), 0);
}

static void test_made_on_demand(void **state)
{
    (void)state;
    make_with(0);
    make_with(0077);
}

static void test_again(void **state)
{
    (void)state;
    char first[RUN_PLACE_PATH_SIZE];
    char second[RUN_PLACE_PATH_SIZE];
    bool made = false;

    assert_int_equal(run_place_make(base, "abc", false, &made, first, NULL), ERR_OK);
    made = false;
    assert_int_equal(run_place_make(base, "abd", false, &made, second, NULL), ERR_OK);
    assert_false(made);
    refused(ERR_IO, "abd", "cannot make the directory");
    assert_int_equal(fclose(fopen(first, "w")), 0);
    run_place_remove(first);
    run_place_remove(second); /* whose socket is not there */
    assert_int_equal(rmdir(base), 0);
}

/* A directory that others can write to or list does not keep the sockets from them. */
static void test_bases(void **state)
{
    (void)state;
    static const unsigned good[] = {0700, 0711, 0701, 0710};
    static const unsigned bad[] = {0755, 0777, 0722, 0750, 0704, 0702, 0720, 01777};
    char path[RUN_PLACE_PATH_SIZE];
    bool made = false;

    assert_int_equal(mkdir(base, 0700), 0);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(chmod(base, good[i]), 0);
        assert_int_equal(run_place_make(base, "abc", false, &made, path, NULL), ERR_OK);
        run_place_remove(path);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chmod(base, bad[i]), 0);
        refused(ERR_CONFIG, "abc", "others must neither write to it nor list it");
    }
    assert_false(made);
}

static void test_no_directory(void **state)
{
    (void)state;
    assert_int_equal(symlink("/tmp", base), 0);
    refused(ERR_CONFIG, "abc", "is no directory of the broker's user");
    assert_int_equal(unlink(base), 0);
    assert_int_equal(fclose(fopen(base, "w")), 0);
    refused(ERR_CONFIG, "abc", "is no directory of the broker's user");
    assert_int_equal(unlink(base), 0);
    (void)snprintf(base, sizeof(base), "%s/no/runs", root);
    refused(ERR_IO, "abc", "cannot make the directory");
}

static void test_lengths(void **state)
{
    (void)state;
    char path[RUN_PLACE_PATH_SIZE];
    char id[RUN_PLACE_PATH_SIZE + 1];
    bool made = false;

    /* BASE "/" ID "/broker.sock" NUL */
    size_t fits = RUN_PLACE_PATH_SIZE - strlen(base) - strlen("//broker.sock") - 1;
    memset(id, 'a', sizeof(id));
    id[fits] = '\0';
    assert_int_equal(run_place_make(base, id, false, &made, path, NULL), ERR_OK);
    assert_int_equal(strlen(path), RUN_PLACE_PATH_SIZE - 1);
    run_place_remove(path);
    id[fits] = 'a';
    id[fits + 1] = '\0';
    refused(ERR_CONFIG, id, "too long");
}

/* What somebody else put there is not ours to remove. */
static void test_not_empty(void **state)
{
    (void)state;
    char path[RUN_PLACE_PATH_SIZE];
    char other[160];
    bool made = false;

    log_setup(LOG_ERROR, LOG_FORMAT_TEXT, NULL);
    assert_int_equal(run_place_make(base, "abc", false, &made, path, NULL), ERR_OK);
    (void)snprintf(other, sizeof(other), "%s/abc/other", base);
    assert_int_equal(fclose(fopen(other, "w")), 0);
    run_place_remove(path);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(unlink(other), 0);
    run_place_remove(path);
    assert_int_equal(rmdir(base), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_made_on_demand), TEST(test_again),   TEST(test_bases),
        TEST(test_no_directory),   TEST(test_lengths), TEST(test_not_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
