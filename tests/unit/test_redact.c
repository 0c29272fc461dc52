/*
 * The redactor: every form of a secret, key forms, and texts in pieces. The kinds of
 * Infisical/agent-vault#258, denoland/clawpatrol#313 and stacklok/toolhive#5293 (a secret
 * reflected, split over reads, base64) and EdanStarfire/claudecode_webui#1425 (nothing held back
 * that need not be).
 */
#include "base/redact.h"
#include "fixtures/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define SECRET "s3cret/Key+with=odd~chars%"
#define OTHER  "another-secret-value"
#define M      REDACT_MARK

static struct redact *knows(const char *const *secrets, size_t n)
{
    struct redact *r = redact_new();

    assert_non_null(r);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(redact_add(r, span_str(secrets[i])), ERR_OK);
    }
    return r;
}

static void becomes(const struct redact *r, bool key_forms, const char *text, const char *want)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    redact_text(r, span_str(text), key_forms, &out);
    assert_int_equal(buf_status(&out), ERR_OK);
    assert_string_equal(buf_cstr(&out), want);
    buf_fini(&out);
}

static void test_plain(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET, OTHER};
    struct redact *r = knows(secrets, 2);

    becomes(r, false, "", "");
    becomes(r, false, "nothing here", "nothing here");
    becomes(r, false, SECRET, M);
    becomes(r, false, "a" SECRET "b", "a" M "b");
    becomes(r, false, SECRET SECRET OTHER, M M M);
    becomes(r, false, "ss3cret/Key+with=odd~chars" SECRET, "ss3cret/Key+with=odd~chars" M);
    becomes(r, false, "s3cret/Key+with=odd~chars", "s3cret/Key+with=odd~chars");
    becomes(NULL, false, SECRET, SECRET);
    becomes(NULL, true, "plain", "plain");
    redact_free(r);
    redact_free(NULL);
}

static void test_longest_wins(void **state)
{
    (void)state;
    static const char *const secrets[] = {"abcd", "abcdefgh-1", "abcdef"};
    struct redact *r = knows(secrets, 3);

    becomes(r, false, "abcdefgh-1", M);
    becomes(r, false, "abcdefgh-2", M "gh-2");
    becomes(r, false, "abcdeX", M "eX");
    redact_free(r);
}

static void test_short_secrets(void **state)
{
    (void)state;
    struct redact *r = redact_new();

    assert_int_equal(redact_add(r, SPAN("")), ERR_LIMIT);
    assert_int_equal(redact_add(r, SPAN("abc")), ERR_LIMIT);
    becomes(r, false, "abc", "abc");
    assert_int_equal(redact_add(r, SPAN("ab/d")), ERR_OK);
    becomes(r, false, "ab/d ab%2Fd", M " ab%2Fd");
    assert_int_equal(redact_add(r, SPAN("qrs/uvw")), ERR_OK); /* 7: plain only */
    becomes(r, false, "qrs/uvw qrs%2Fuvw", M " qrs%2Fuvw");
    assert_int_equal(redact_add(r, SPAN("QRS/UVWX")), ERR_OK); /* 8: every form */
    becomes(r, false, "QRS/UVWX QRS%2FUVWX QRS%2fUVWX", M " " M " " M);
    redact_free(r);
}

static void test_url_form(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET, "caf\xC3\xA9-\x01 key"};
    struct redact *r = knows(secrets, 2);

    becomes(r, false, "?k=s3cret%2FKey%2Bwith%3Dodd~chars%25&x", "?k=" M "&x");
    becomes(r, false, "?k=s3cret%2fKey%2bwith%3dodd~chars%25&x", "?k=" M "&x");
    becomes(r, false, "caf%C3%A9-%01%20key", M);
    redact_free(r);
}

/* The base64 of `n` bytes, without padding. */
static size_t encode(const char *p, size_t n, const char *alphabet, char *out)
{
    size_t len = 0;

    for (size_t bit = 0; bit < n * 8; bit += 6) {
        unsigned v = 0;
        for (size_t i = bit; i < bit + 6; i++) {
            v = v << 1 | (i / 8 < n ? ((unsigned char)p[i / 8] >> (7 - i % 8)) & 1u : 0u);
        }
        out[len++] = alphabet[v];
    }
    out[len] = '\0';
    return len;
}

/* What depends on the secret alone goes, what its neighbours share a character with stays. */
static void test_base64_forms(void **state)
{
    (void)state;
    static const char *const alphabets[] = {
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    };
    /* Lengths of each remainder of three, with bytes that give + and / (- and _). */
    static const char *const secrets[] = {"k\xFB\xEF\xBE-key8", "k\xFB\xEF\xBE-key-9",
                                          "k\xFF\xFF\xFE-key-10"};
    struct redact *r = knows(secrets, 3);

    for (size_t i = 0; i < 3 * 2 * 9; i++) {
        const char *secret = secrets[i % 3];
        size_t n = strlen(secret);
        size_t before = i / 6 % 3;
        size_t after = i / 18;
        char text[64];
        char coded[128];
        char want[128];
        int len =
            snprintf(text, sizeof(text), "%.*s%s%.*s", (int)before, "ab", secret, (int)after, "yz");
        size_t all = encode(text, (size_t)len, alphabets[i / 3 % 2], coded);
        size_t from = (before * 8 + 5) / 6;
        size_t to = (before + n) * 8 / 6;
        assert_true(to <= all);
        assert_true(snprintf(want, sizeof(want), "%.*s" M "%s", (int)from, coded, coded + to) > 0);
        becomes(r, false, coded, want);
    }
    redact_free(r);
}

static void test_key_forms(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"key sk-proj-abc_DEF-1234567890, bad", "key " M ", bad"},
        {"Incorrect API key provided: sk-abcd1234efgh5678. You",
         "Incorrect API key provided: " M ". You"},
        {"sk-canary-QWxh+c2V/84==", M},
        {"sk-short", "sk-short"},
        {"a task-manager-list and disk-usage-report", "a task-manager-list and disk-usage-report"},
        {"line\\nsk-abcdefgh12345678", "line\\n" M},
        {"Authorization: Bearer abc.DEF-ghi_123", "Authorization: Bearer " M},
        {"bearer  tok/en+12=", "bearer  " M},
        {"Bearer auth is needed", "Bearer auth is needed"},
        {"forbearer abcdefghij", "forbearer abcdefghij"},
        {"Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic " M},
        {"a basic understanding", "a basic " M},
        {"x-api-key: abc", "x-api-key: " M},
        {"X-API-KEY=abc!def next", "X-API-KEY=" M " next"},
        {"{\"x-api-key\":\"v\",\"a\":1}", "{\"x-api-key\":\"" M "\",\"a\":1}"},
        {"{\\\"api_key\\\": \\\"v1\\\"}", "{\\\"api_key\\\": \\\"" M "\\\"}"},
        {"OPENAI_API_KEY=hunter2", "OPENAI_API_KEY=" M},
        {"x-api-key header is required", "x-api-key header is required"},
        {"x-goog-api-key: k", "x-goog-api-key: " M},
        {"AKIAIOSFODNN7EXAMPLE", M},
        {"id=ASIAIOSFODNN7EXAMPLE&", "id=" M "&"},
        {"?key=AIzaSyA1234567890abcdefghijklmnopqrstu&x", "?key=" M "&x"},
        {"ghp_0123456789abcdefghij", M},
        {"gho_0123456789abcdefghij ghs_0123456789abcdefghij", M " " M},
        {"github_pat_11ABCDEFG0123456789_x", M},
        {"xoxb-123456789-abc xoxp-1-2", M " xoxp-1-2"},
        {"glpat-0123456789abcdefghij", M},
        {"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIx.c2ln", M},
        {"", ""},
        {"s", "s"},
        {"Bearer", "Bearer"},
        {"x-api-key", "x-api-key"},
        {"x-api-key:", "x-api-key:"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        becomes(NULL, true, pairs[i][0], pairs[i][1]);
        becomes(NULL, true, pairs[i][1], pairs[i][1]); /* twice is the same */
        becomes(NULL, false, pairs[i][0], pairs[i][0]);
    }
}

static void test_key_forms_and_secrets(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET};
    struct redact *r = knows(secrets, 1);

    becomes(r, true, "Bearer " SECRET " and sk-abcdefghijkl", "Bearer " M " and " M);
    becomes(r, true, "x-api-key: " SECRET, "x-api-key: " M);
    redact_free(r);
}

static void test_bytes_pass(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET};
    struct redact *r = knows(secrets, 1);
    char all[512];
    struct buf out;

    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (char)i;
    }
    buf_init(&out, 4096);
    redact_text(r, span_of(all, sizeof(all)), true, &out);
    assert_int_equal(out.len, sizeof(all));
    assert_memory_equal(out.p, all, sizeof(all));
    buf_fini(&out);
    redact_free(r);
}

/* ---- in pieces ---- */

static void test_every_split(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET, "abcd", "abcdefgh-1", "abababac", "aaaa"};
    static const char *const texts[] = {
        "x" SECRET "y" SECRET,
        "abcdefgh-1 abcdefgh-2 abcd",
        "abababababac abababa",
        "aaaaaaaaaaaaa aaa aaab",
        "czNjcmV0L0tleSt3aXRoPW9kZH5jaGFycyU czNjcmV0L0tleSt3aXRoPW9k",
        "s3cret%2FKey%2Bwith%3Dodd~chars%25 s3cret%2FKey%2Bwith%3Dodd~char",
        "\xE6\x97\xA5\xE6\x9C\xAC\xF0\x9F\x98\x80" SECRET "\xF0\x9F\x98\x80",
    };
    struct redact *r = knows(secrets, 5);

    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        size_t n = strlen(texts[t]);
        struct buf whole;
        buf_init(&whole, 4096);
        redact_text(r, span_str(texts[t]), false, &whole);
        /* Two cuts at every place; and, with cut == n + 1, each byte alone. */
        for (size_t i = 0; i <= n; i++) {
            for (size_t j = i; j <= n + 1; j++) {
                struct redact_stream s;
                struct buf out;
                redact_stream_init(&s, r);
                buf_init(&out, 4096);
                for (size_t k = 0; j == n + 1 && k < n; k++) {
                    redact_stream_feed(&s, span_of(texts[t] + k, 1), &out);
                }
                if (j <= n) {
                    redact_stream_feed(&s, span_of(texts[t], i), &out);
                    redact_stream_feed(&s, span_of(texts[t] + i, j - i), &out);
                    redact_stream_feed(&s, span_of(texts[t] + j, n - j), &out);
                }
                redact_stream_end(&s, &out);
                redact_stream_fini(&s);
                assert_int_equal(buf_status(&out), ERR_OK);
                assert_string_equal(buf_cstr(&out), buf_cstr(&whole));
                buf_fini(&out);
            }
        }
        buf_fini(&whole);
    }
    redact_free(r);
}

static void fed(struct redact_stream *s, const char *piece, const char *want)
{
    struct buf out;

    buf_init(&out, 4096);
    redact_stream_feed(s, span_str(piece), &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_fini(&out);
}

/* EdanStarfire/claudecode_webui#1425: only what could be the start of a secret is held. */
static void test_holds_back_only_a_prefix(void **state)
{
    (void)state;
    static const char *const secrets[] = {"KEY:secret"};
    struct redact *r = knows(secrets, 1);
    struct redact_stream s;
    struct buf out;

    redact_stream_init(&s, r);
    fed(&s, "data: hello", "data: hello");
    fed(&s, "", "");
    fed(&s, "xKEY", "x");
    fed(&s, "!", "KEY!");
    fed(&s, "KEKEY:", "KE");
    fed(&s, "secre", "");
    fed(&s, "t", M);
    fed(&s, "KEY:secreT", "KEY:secreT");
    fed(&s, "KEY:sec", "");
    buf_init(&out, 4096);
    redact_stream_end(&s, &out);
    assert_string_equal(buf_cstr(&out), "KEY:sec");
    redact_stream_end(&s, &out);
    assert_string_equal(buf_cstr(&out), "KEY:sec");
    buf_fini(&out);
    redact_stream_fini(&s);
    redact_free(r);
}

static void test_stream_without_secrets(void **state)
{
    (void)state;
    struct redact *r = redact_new();
    struct redact_stream s;
    struct buf out;

    redact_stream_init(&s, NULL);
    fed(&s, "sk-abcdefghijkl", "sk-abcdefghijkl"); /* exact secrets only */
    redact_stream_fini(&s);
    redact_stream_init(&s, r);
    fed(&s, "text", "text");
    buf_init(&out, 16);
    redact_stream_end(&s, &out);
    assert_int_equal(out.len, 0);
    buf_fini(&out);
    redact_stream_fini(&s);
    redact_free(r);
}

/* ---- no memory, no room ---- */

static void test_no_memory(void **state)
{
    (void)state;
    size_t fails = 0;

    torture_fail_after(0);
    assert_null(redact_new());
    torture_off();
    for (size_t n = 0;; n++) {
        struct redact *r = redact_new();
        assert_non_null(r);
        assert_int_equal(redact_add(r, SPAN("first-one")), ERR_OK);
        torture_fail_after(n);
        enum err err = redact_add(r, SPAN(SECRET));
        torture_off();
        becomes(r, false, "first-one", M); /* what was there works on */
        if (err == ERR_OK) {
            becomes(r, false, SECRET, M);
            redact_free(r);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        fails++;
        redact_free(r);
    }
    assert_true(fails >= 5);
}

static void test_failure_shows_in_output(void **state)
{
    (void)state;
    static const char *const secrets[] = {SECRET};
    struct redact *r = knows(secrets, 1);
    struct redact_stream s;
    struct buf out;

    buf_init(&out, 5);
    redact_text(r, SPAN("123456"), false, &out);
    assert_int_equal(buf_status(&out), ERR_LIMIT);
    buf_fini(&out);
    /* What cannot be held is a gap: the output fails, and goes on failing. */
    redact_stream_init(&s, r);
    buf_init(&out, 4096);
    redact_stream_feed(&s, SPAN("warm"), &out);
    torture_fail_after(0);
    redact_stream_feed(&s, SPAN("s3cret"), &out);
    torture_off();
    assert_int_equal(buf_status(&out), ERR_NOMEM);
    buf_clear(&out);
    redact_stream_feed(&s, SPAN("more"), &out);
    assert_int_equal(buf_status(&out), ERR_NOMEM);
    buf_fini(&out);
    redact_stream_fini(&s);
    redact_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_longest_wins),
        cmocka_unit_test(test_short_secrets),
        cmocka_unit_test(test_url_form),
        cmocka_unit_test(test_base64_forms),
        cmocka_unit_test(test_key_forms),
        cmocka_unit_test(test_key_forms_and_secrets),
        cmocka_unit_test(test_bytes_pass),
        cmocka_unit_test(test_every_split),
        cmocka_unit_test(test_holds_back_only_a_prefix),
        cmocka_unit_test(test_stream_without_secrets),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_failure_shows_in_output),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
