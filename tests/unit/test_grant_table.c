/*
 * The table of known callers, and references of grants: who is found by which token or certificate,
 * replacing that happens wholly or not at all (whatever allocation fails), growth, and threads that
 * look while one replaces.
 */
#include "gate/grant_table.h"

#include "fixtures/torture.h"
#include "net/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY    100000u
#define READERS 4
#define SWAPS   2000

static struct grant_table *t;

static int setup(void **state)
{
    (void)state;
    t = grant_table_new();
    return t == NULL ? 1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    grant_table_free(t);
    return 0;
}

/* NULL: none of it. */
static struct grant *make(const char *name, const char *token, const char *san)
{
    struct grant *g = grant_new();

    assert_non_null(g);
    g->name = strdup(name);
    assert_non_null(g->name);
    if (token != NULL) {
        g->has_token = true;
        assert_true(sha256_of(span_str(token), g->token_sha256));
    }
    if (san != NULL) {
        g->cert_san = strdup(san);
        assert_non_null(g->cert_san);
    }
    return g;
}

static unsigned refs(const struct grant *g)
{
    return atomic_load(&g->refs);
}

static void adds(struct grant *g)
{
    unsigned before = refs(g);

    assert_int_equal(grant_table_add(t, g, NULL), ERR_OK);
    assert_int_equal(refs(g), before + 1);
}

/* Whose `token` is; NULL: nobody's. */
static void token_is(const char *token, const struct grant *want)
{
    struct grant *g = grant_table_by_token(t, span_str(token));

    assert_ptr_equal(g, want);
    grant_unref(g);
}

static void cert_is(const char *name, const struct grant *want)
{
    struct grant *g = grant_table_by_cert(t, name);

    assert_ptr_equal(g, want);
    grant_unref(g);
}

static void test_references(void **state)
{
    (void)state;
    struct grant *g = make("g", "token", NULL);
    struct meter *meter = meter_ref(g->meter);
    uint32_t retry = 0;

    assert_int_equal(refs(g), 1);
    assert_true(g->limits.budget_nano == METER_NO_BUDGET);
    assert_true(g->limits.budget_tokens == METER_NO_BUDGET);
    assert_false(grant_allows_model(g, "p", "m"));
    assert_ptr_equal(grant_ref(g), g);
    grant_unref(g);
    assert_int_equal(refs(g), 1);
    adds(g);
    grant_unref(g); /* the table's is left */
    struct grant *found = grant_table_by_token(t, SPAN("token"));
    assert_ptr_equal(found, g);
    grant_table_remove(t, g);
    token_is("token", NULL);
    assert_int_equal(refs(found), 1);
    assert_string_equal(found->name, "g"); /* who has it keeps it */
    grant_unref(found);
    assert_int_equal(meter_begin(meter, &(struct meter_limits){0}, 1, &retry), METER_PASSED);
    meter_unref(meter); /* outlives the grant */
    grant_unref(NULL);
    grant_table_free(NULL);
}

static void test_find(void **state)
{
    (void)state;
    struct grant *a = make("a", "token-a", NULL);
    struct grant *b = make("b", "token-b", NULL);
    struct grant *none = make("none", NULL, NULL);

    token_is("token-a", NULL); /* an empty table */
    adds(a);
    adds(b);
    adds(none);
    token_is("token-a", a);
    token_is("token-b", b);
    token_is("token-", NULL);
    token_is("token-a ", NULL);
    token_is("Token-a", NULL);
    assert_null(grant_table_by_token(t, span_of("token-a\0", 8)));
    grant_table_remove(t, a);
    token_is("token-a", NULL);
    token_is("token-b", b);
    grant_table_remove(t, a); /* not there: harmless */
    grant_table_remove(t, none);
    grant_table_remove(t, none);
    assert_int_equal(refs(a), 1);
    assert_int_equal(refs(none), 1);
    adds(a);
    token_is("token-a", a);
    grant_unref(a);
    grant_unref(b);
    grant_unref(none);
}

/* A grant that is all zeros has no token, and the hash of none is not a token's. */
static void test_odd_tokens(void **state)
{
    (void)state;
    static char text[GRANT_TOKEN_MAX + 2];
    struct grant *none = make("none", NULL, NULL);
    struct grant *empty = make("empty", "", NULL);

    adds(none);
    adds(empty);
    assert_null(grant_table_by_token(t, (struct span){NULL, 0}));
    token_is("", NULL);
    memset(text, 'x', GRANT_TOKEN_MAX);
    struct grant *longest = make("longest", text, NULL);
    text[GRANT_TOKEN_MAX] = 'x';
    struct grant *longer = make("longer", text, NULL);
    adds(longest);
    adds(longer);
    token_is(text, NULL);
    text[GRANT_TOKEN_MAX] = '\0';
    token_is(text, longest);
    grant_unref(none);
    grant_unref(empty);
    grant_unref(longest);
    grant_unref(longer);
}

static void test_duplicate(void **state)
{
    (void)state;
    struct grant *a = make("a", "same", "san");
    struct grant *b = make("b", "same", "san");
    struct error e = {.code = ERR_OK};

    adds(a);
    assert_int_equal(grant_table_add(t, b, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "grant b has the same token as grant a");
    assert_int_equal(grant_table_add(t, a, &e), ERR_CONFIG); /* itself */
    assert_int_equal(refs(b), 1);
    grant_table_remove(t, b); /* another's entry stays */
    token_is("same", a);
    cert_is("san", a);
    grant_table_remove(t, a);
    cert_is("san", NULL);
    adds(b);
    token_is("same", b);
    grant_unref(a);
    grant_unref(b);
}

static void test_certificates(void **state)
{
    (void)state;
    struct grant *one = make("one", NULL, "ci-1.example");
    struct grant *any = make("any", "token", "ci-*.example");
    struct grant *last = make("last", NULL, "*");

    cert_is("ci-1.example", NULL);
    adds(any);
    adds(one);
    cert_is("other", NULL);
    adds(last);
    cert_is("ci-1.example", any); /* the first that was added */
    cert_is("ci-2.example", any);
    cert_is("other", last);
    cert_is("", last);
    grant_table_remove(t, any);
    cert_is("ci-1.example", one);
    cert_is("ci-2.example", last);
    adds(any); /* behind the others now */
    cert_is("ci-1.example", one);
    cert_is("ci-2.example", last);
    grant_unref(one);
    grant_unref(any);
    grant_unref(last);
}

/* ---- replacing ---- */

struct scene {
    struct grant *old[3];
    struct grant *new[4];
    struct grant *run; /* stays */
};

static struct scene scene_open(void)
{
    struct scene s = {
        .old = {make("o0", "t0", "a*"), make("o1", NULL, "*"), make("o2", "t2", NULL)},
        .new = {make("n0", "t0", "*"), make("n1", "t9", "b*"), make("n2", NULL, "c*"),
                make("n3", "t2", "a*")},
        .run = make("run", "t-run", "a*"),
    };

    adds(s.old[0]);
    adds(s.old[1]);
    adds(s.run);
    adds(s.old[2]);
    return s;
}

static void is_old(const struct scene *s)
{
    token_is("t0", s->old[0]);
    token_is("t2", s->old[2]);
    token_is("t9", NULL);
    token_is("t-run", s->run);
    cert_is("ab", s->old[0]); /* in the old order, too */
    cert_is("bb", s->old[1]);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(refs(s->old[i]), 2);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(refs(s->new[i]), 1);
    }
    assert_int_equal(refs(s->run), 2);
}

static void is_new(const struct scene *s)
{
    token_is("t0", s->new[0]);
    token_is("t2", s->new[3]);
    token_is("t9", s->new[1]);
    token_is("t-run", s->run);
    cert_is("ab", s->run);
    cert_is("bb", s->new[0]);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(refs(s->old[i]), 1);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(refs(s->new[i]), 2);
    }
}

static void scene_close(struct scene *s)
{
    for (size_t i = 0; i < 3; i++) {
        grant_unref(s->old[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        grant_unref(s->new[i]);
    }
    grant_unref(s->run);
}

static void test_replace(void **state)
{
    (void)state;
    struct scene s = scene_open();

    is_old(&s);
    assert_int_equal(grant_table_replace(t, s.old, 3, s.new, 4, NULL), ERR_OK);
    is_new(&s);
    assert_int_equal(grant_table_replace(t, s.new, 4, s.new, 4, NULL), ERR_OK); /* by itself */
    is_new(&s);
    assert_int_equal(grant_table_replace(t, s.old, 3, NULL, 0, NULL), ERR_OK); /* are not there */
    is_new(&s);
    assert_int_equal(grant_table_replace(t, s.new, 4, s.old, 3, NULL), ERR_OK);
    token_is("t0", s.old[0]);
    token_is("t9", NULL);
    cert_is("ab", s.run);
    assert_int_equal(grant_table_replace(t, s.old, 3, NULL, 0, NULL), ERR_OK);
    token_is("t0", NULL);
    cert_is("ab", s.run);
    cert_is("bb", NULL);
    scene_close(&s);
}

/* A token that is there twice: among the new ones, or with one that stays. */
static void test_replace_with_a_duplicate(void **state)
{
    (void)state;
    struct scene s = scene_open();
    struct error e = {.code = ERR_OK};
    struct grant *twice[] = {s.new[0], s.new[1], s.new[2], s.new[1]};
    struct grant *runs = make("thief", "t-run", NULL);
    struct grant *stolen[] = {s.new[0], s.new[1], s.new[2], runs};

    assert_int_equal(grant_table_replace(t, s.old, 3, twice, 4, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "grant n1 has the same token as grant n1");
    is_old(&s);
    assert_int_equal(grant_table_replace(t, s.old, 3, stolen, 4, &e), ERR_CONFIG);
    assert_string_equal(e.msg, "grant thief has the same token as grant run");
    assert_int_equal(refs(runs), 1);
    is_old(&s);
    assert_int_equal(grant_table_replace(t, s.old, 2, s.new, 4, &e), ERR_CONFIG); /* o2 stays */
    assert_string_equal(e.msg, "grant n3 has the same token as grant o2");
    is_old(&s);
    assert_int_equal(grant_table_replace(t, NULL, 0, s.new, 1, &e), ERR_CONFIG);
    is_old(&s);
    struct grant *same[] = {s.old[0], s.old[0], s.old[1], s.old[1], s.old[2]};
    assert_int_equal(grant_table_replace(t, same, 5, s.new, 4, &e), ERR_OK);
    is_new(&s);
    grant_unref(runs);
    scene_close(&s);
}

/* ---- no memory ---- */

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t n = 0; n < 4; n++) {
        torture_fail_after(n);
        assert_null(grant_table_new());
    }
    for (size_t n = 0; n < 2; n++) {
        torture_fail_after(n);
        assert_null(grant_new());
    }
    torture_off();
    struct scene s = scene_open();
    struct error e = {.code = ERR_OK};
    enum err rc = ERR_NOMEM;
    size_t n = 0;
    for (; rc != ERR_OK; n++) {
        is_old(&s);
        torture_fail_after(n);
        rc = grant_table_replace(t, s.old, 3, s.new, 4, &e);
        torture_off();
        assert_true(rc == ERR_OK || rc == ERR_NOMEM);
    }
    assert_int_equal(n, 4 + 1);
    is_new(&s);
    torture_fail_after(0);
    assert_int_equal(grant_table_add(t, s.old[1], NULL), ERR_NOMEM);
    torture_off();
    assert_int_equal(refs(s.old[1]), 1);
    scene_close(&s);
}

/* ---- many ---- */

static void numbered(char out[32], unsigned i)
{
    assert_true(snprintf(out, 32, "token-%u", i) > 0);
}

static struct grant *make_numbered(unsigned i)
{
    char token[32];

    numbered(token, i);
    return make(token, token, NULL);
}

static void find_numbered(unsigned i, bool there)
{
    char token[32];

    numbered(token, i);
    struct grant *g = grant_table_by_token(t, span_str(token));
    assert_int_equal(g != NULL, there);
    if (g != NULL) {
        assert_string_equal(g->name, token);
    }
    grant_unref(g);
}

static void test_many(void **state)
{
    (void)state;
    struct grant **all = calloc(MANY, sizeof(struct grant *));

    assert_non_null(all);
    for (unsigned i = 0; i < MANY; i++) {
        all[i] = make_numbered(i);
        adds(all[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        find_numbered(i, true);
    }
    find_numbered(MANY, false);
    for (unsigned i = 0; i < MANY; i += 2) {
        grant_table_remove(t, all[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        find_numbered(i, i % 2 == 1);
    }
    /* All at once, into a table that has room for half of them. */
    assert_int_equal(grant_table_replace(t, all, MANY, all, MANY, NULL), ERR_OK);
    for (unsigned i = 0; i < MANY; i++) {
        find_numbered(i, true);
        assert_int_equal(refs(all[i]), 2);
        grant_unref(all[i]);
    }
    free(all);
}

/* A table that cannot grow takes no more and is as it was; it grows later. */
static void test_growth_without_memory(void **state)
{
    (void)state;
    unsigned n = 0;
    enum err rc = ERR_OK;
    struct error e = {.code = ERR_OK};

    for (; rc == ERR_OK; n++) {
        struct grant *g = make_numbered(n);
        torture_fail_after(1); /* after the entry: the slots */
        rc = grant_table_add(t, g, &e);
        torture_off();
        assert_int_equal(refs(g), rc == ERR_OK ? 2 : 1);
        grant_unref(g);
    }
    assert_int_equal(rc, ERR_NOMEM);
    assert_string_equal(e.msg, "out of memory for the table of grants");
    n--;
    assert_in_range(n, 8, 1000);
    struct grant *g = make_numbered(n);
    torture_fail_after(2); /* the slots' entries */
    assert_int_equal(grant_table_add(t, g, NULL), ERR_NOMEM);
    torture_off();
    for (unsigned i = 0; i <= n; i++) {
        find_numbered(i, i < n);
    }
    adds(g);
    grant_unref(g);
    for (unsigned i = 0; i <= n; i++) {
        find_numbered(i, true);
    }
}

/* Small tables, as full as they get, emptied in some order: what is left is found each time. */
static void test_gaps(void **state)
{
    (void)state;
    enum { FULL = 32 };
    struct grant *all[FULL];

    for (unsigned round = 0; round < 200; round++) {
        unsigned first = 1000 * round;
        for (unsigned i = 0; i < FULL; i++) {
            all[i] = make_numbered(first + i);
            adds(all[i]);
        }
        for (unsigned k = 0; k < FULL; k++) {
            unsigned gone = (k * 5 + round) % FULL;
            grant_table_remove(t, all[gone]);
            assert_int_equal(refs(all[gone]), 1);
            grant_unref(all[gone]);
            for (unsigned j = 0; j < FULL; j++) {
                unsigned i = (j * 5 + round) % FULL;
                find_numbered(first + i, j > k);
            }
        }
    }
}

/* Hashes that differ at their end only. */
static void test_hashes_that_begin_alike(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 4; order++) {
        struct grant *a = make("a", "token-a", NULL);
        struct grant *like = make("like", "token-a", NULL);
        like->token_sha256[SHA256_SIZE - 1] ^= 1;
        adds(order % 2 == 0 ? a : like);
        token_is("token-a", order % 2 == 0 ? a : NULL);
        adds(order % 2 == 0 ? like : a);
        token_is("token-a", a);
        grant_table_remove(t, order < 2 ? a : like);
        token_is("token-a", order < 2 ? NULL : a);
        grant_table_remove(t, order < 2 ? like : a);
        token_is("token-a", NULL);
        assert_int_equal(refs(a), 1);
        assert_int_equal(refs(like), 1);
        grant_unref(a);
        grant_unref(like);
    }
}

/* ---- threads ---- */

struct swapping {
    struct grant *a[2];
    struct grant *b[2];
    atomic_bool over;
    atomic_uint missed;
};

static void *look(void *ctx)
{
    struct swapping *s = ctx;
    unsigned missed = 0;

    while (!atomic_load(&s->over)) {
        struct grant *g = grant_table_by_token(t, SPAN("shared"));
        struct grant *h = grant_table_by_cert(t, "name");
        missed += (g == NULL || (g != s->a[0] && g != s->b[0]) || g->name[0] == '\0') ? 1 : 0;
        missed += (h == NULL || (h != s->a[1] && h != s->b[1])) ? 1 : 0;
        grant_unref(g);
        grant_unref(h);
    }
    atomic_fetch_add(&s->missed, missed);
    return NULL;
}

/* Who looks finds the old ones or the new ones, and never nobody. */
static void test_threads(void **state)
{
    (void)state;
    struct swapping s = {
        .a = {make("a", "shared", NULL), make("a1", NULL, "na*")},
        .b = {make("b", "shared", NULL), make("b1", "token", "n*")},
    };
    pthread_t threads[READERS];

    adds(s.a[0]);
    adds(s.a[1]);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look, &s), 0);
    }
    for (unsigned i = 0; i < SWAPS; i++) {
        struct grant **out = i % 2 == 0 ? s.a : s.b;
        struct grant **in = i % 2 == 0 ? s.b : s.a;
        struct grant *twice[] = {in[0], in[1], in[0]};
        assert_int_equal(grant_table_replace(t, out, 2, twice, 3, NULL), ERR_CONFIG);
        assert_int_equal(grant_table_replace(t, out, 2, in, 2, NULL), ERR_OK);
    }
    atomic_store(&s.over, true);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&s.missed), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(refs(s.a[i]), 2);
        assert_int_equal(refs(s.b[i]), 1);
        grant_unref(s.a[i]);
        grant_unref(s.b[i]);
    }
}

/* ---- hashes ---- */

static void test_sha256(void **state)
{
    (void)state;
    static const unsigned char abc[SHA256_SIZE] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                                   0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                                   0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                                   0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    static const unsigned char nothing[] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14};
    unsigned char hash[SHA256_SIZE];
    unsigned char other[SHA256_SIZE];

    assert_true(sha256_of(SPAN("abc"), hash));
    assert_memory_equal(hash, abc, SHA256_SIZE);
    assert_true(sha256_equal(hash, abc));
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        memcpy(other, hash, SHA256_SIZE);
        other[i] ^= 1;
        assert_false(sha256_equal(hash, other));
    }
    assert_true(sha256_of(SPAN(""), hash));
    assert_memory_equal(hash, nothing, sizeof(nothing));
    assert_true(sha256_of((struct span){NULL, 0}, hash));
    assert_memory_equal(hash, nothing, sizeof(nothing));
    struct sha256_method *m = sha256_method_new();
    assert_non_null(m);
    assert_true(sha256_with(m, SPAN("abc"), hash));
    assert_memory_equal(hash, abc, SHA256_SIZE);
    assert_true(sha256_with(m, SPAN(""), hash));
    assert_memory_equal(hash, nothing, sizeof(nothing));
    sha256_method_free(m);
    sha256_method_free(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_references),
        TEST(test_find),
        TEST(test_odd_tokens),
        TEST(test_duplicate),
        TEST(test_certificates),
        TEST(test_replace),
        TEST(test_replace_with_a_duplicate),
        TEST(test_no_memory),
        TEST(test_many),
        TEST(test_growth_without_memory),
        TEST(test_gaps),
        TEST(test_hashes_that_begin_alike),
        TEST(test_threads),
        cmocka_unit_test(test_sha256),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
