/* Logins out of docker's config.json: which one an image gets, and in what form. */
#include "engine/registry_auth.h"

#include "fixtures/place.h"
#include "fixtures/torture.h"
#include "spec/workspace.h"

/* {"username":"u","password":"p","serveraddress":S} and the like, as base64url decodes them. */
static const char *decoded(struct buf *b)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    static char out[4096];
    unsigned word = 0;
    unsigned bits = 0;
    size_t n = 0;

    assert_int_equal(b->len % 4, 0);
    for (size_t i = 0; i < b->len && b->p[i] != '='; i++) {
        const char *c = strchr(alphabet, b->p[i]);
        assert_non_null(c);
        word = word << 6 | (unsigned)(c - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            assert_true(n + 1 < sizeof(out));
            out[n++] = (char)(word >> bits & 255);
        }
    }
    out[n] = '\0';
    return out;
}

static const char *login(const char *image)
{
    static char text[4096];
    struct buf b;

    buf_init(&b, 65536);
    registry_auth(at("config.json"), image, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    (void)snprintf(text, sizeof(text), "%s", decoded(&b));
    buf_wipe(&b);
    return text;
}

#define HUB "\"serveraddress\":\"https://index.docker.io/v1/\"}"

static void test_which(void **state)
{
    (void)state;
    /* dTpw is u:p, YTpi is a:b, Yzpk is c:d. */
    put("config.json", "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"dTpw\"},"
                       "\"r.example:5000\":{\"auth\":\"YTpi\"},"
                       "\"https://s.example/v2/\":{\"auth\":\"Yzpk\"},"
                       "\"localhost\":{\"auth\":\"dTpw\"},\"empty.example\":{}},"
                       "\"credHelpers\":{\"h.example\":\"secretservice\"}}");
    assert_string_equal(login("alpine"), "{\"username\":\"u\",\"password\":\"p\"," HUB);
    assert_string_equal(login("someone/image:tag"), "{\"username\":\"u\",\"password\":\"p\"," HUB);
    assert_string_equal(login("docker.io/library/x"),
                        "{\"username\":\"u\",\"password\":\"p\"," HUB);
    assert_string_equal(
        login("r.example:5000/x@sha256:00"),
        "{\"username\":\"a\",\"password\":\"b\",\"serveraddress\":\"r.example:5000\"}");
    assert_string_equal(login("s.example/x/y:1"),
                        "{\"username\":\"c\",\"password\":\"d\",\"serveraddress\":\"s.example\"}");
    assert_string_equal(login("localhost/x"),
                        "{\"username\":\"u\",\"password\":\"p\",\"serveraddress\":\"localhost\"}");
    /* No login of another registry is ever sent. */
    static const char *const none[] = {"r.example/x", "r.example:5001/x",         "other.example/x",
                                       "h.example/x", "empty.example/x",          "s.example:80/x",
                                       "127.0.0.1/x", "r.example:5000.evil.net/x"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_string_equal(login(none[i]), "");
    }
}

static void test_forms(void **state)
{
    static const struct {
        const char *entry;
        const char *expected;
    } rows[] = {
        {"{\"auth\":\"dTpw\"}", "{\"username\":\"u\",\"password\":\"p\"," HUB},
        {"{\"auth\":\"dTpwOnE=\"}", "{\"username\":\"u\",\"password\":\"p:q\"," HUB},
        {"{\"auth\":\"dTpwAAA=\"}", "{\"username\":\"u\",\"password\":\"p\"," HUB}, /* NULs */
        {"{\"auth\":\"dTr7_w==\"}",
         "{\"username\":\"u\",\"password\":\"\xef\xbf\xbd\xef\xbf\xbd\"," HUB},
        {"{\"auth\":\"dTpw\",\"identitytoken\":\"t/1\"}", "{\"identitytoken\":\"t/1\"," HUB},
        {"{\"auth\":\"dTo=\"}", "{\"username\":\"u\",\"password\":\"\"," HUB},
        {"{\"auth\":\"dXA=\"}", ""}, /* no colon */
        {"{\"auth\":\"\"}", ""},
        {"{\"auth\":7}", ""},
        {"{}", ""},
        {"null", ""},
        {"\"dTpw\"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), "{\"auths\":{\"docker.io\":%s}}", rows[i].entry);
        put("config.json", text);
        assert_string_equal(login("alpine"), rows[i].expected);
    }
    put("config.json", "{\"auths\":[]}");
    assert_string_equal(login("alpine"), "");
    put("config.json", "{\"auths\":{\"docker.io\":{\"auth\":\"dTpw\"}}");
    assert_string_equal(login("alpine"), "");
    assert_int_equal(unlink(at("config.json")), 0);
    assert_string_equal(login("alpine"), "");
}

/* Out of memory is no login, or the buffer says so: never half of one. */
static void test_nomem(void **state)
{
    bool whole = false;

    (void)state;
    put("config.json", "{\"auths\":{\"docker.io\":{\"auth\":\"dTpw\"}}}");
    for (size_t n = 0; !whole; n++) {
        struct buf b;
        assert_true(n < 100);
        buf_init(&b, 65536);
        torture_fail_after(n);
        registry_auth(at("config.json"), "alpine", &b);
        torture_off();
        if (buf_status(&b) == ERR_OK && b.len > 0) {
            assert_string_equal(decoded(&b), "{\"username\":\"u\",\"password\":\"p\"," HUB);
            whole = true;
        }
        buf_wipe(&b);
    }
}

static int setup(void **state)
{
    (void)state;
    make_place();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return workspace_remove(place, NULL) == ERR_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_nomem),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
