/*
 * Where an engine is looked for, in which order and with which certificates; addresses; versions;
 * names in paths. Connecting is tests/loop/test_engine_places.c.
 */
#include "engine/engine_private.h"

#include "fixtures/place.h"
#include "net/sha256.h"
#include "spec/workspace.h"

/* ---- the order ---- */

struct told {
    char text[16384];
    unsigned stop_at; /* 0: never */
    unsigned n;
};

/* "source|address|tls|fault|given" a line, with the place as "@". */
static void add(struct told *t, const char *text)
{
    size_t n = strlen(place);
    size_t used = strlen(t->text);

    while (*text != '\0') {
        assert_true(used + 2 < sizeof(t->text));
        bool ours = strncmp(text, place, n) == 0;
        t->text[used++] = ours ? '@' : *text;
        text += ours ? n : 1;
    }
    t->text[used] = '\0';
}

static bool on_hint(void *ctx, const struct engine_hint *hint)
{
    struct told *t = ctx;

    add(t, hint->source);
    add(t, "|");
    add(t, hint->address);
    add(t, hint->tls_dir == NULL ? "" : "|tls ");
    add(t, hint->tls_dir == NULL ? "" : hint->tls_dir);
    add(t, hint->fault == NULL ? "" : "|fault");
    add(t, hint->given ? "|given\n" : "\n");
    t->n++;
    return t->n == t->stop_at;
}

static const char *tell(const struct engine_surroundings *s, const char *flag)
{
    static struct told t;

    t = (struct told){.stop_at = 0};
    engine_hints(s, flag, on_hint, &t);
    return t.text;
}

#define USUAL_DOCKER                                                                               \
    "|unix:///var/run/docker.sock\n"                                                               \
    "|unix:///run/user/7/docker.sock\n"                                                            \
    "|unix://@/.docker/run/docker.sock\n"                                                          \
    "|unix://@/.docker/desktop/docker.sock\n"                                                      \
    "|unix://@/.colima/default/docker.sock\n"                                                      \
    "|unix://@/.colima/docker.sock\n"                                                              \
    "|unix://@/.orbstack/run/docker.sock\n"                                                        \
    "|unix://@/.rd/docker.sock\n"
#define USUAL_PODMAN                                                                               \
    "|unix:///run/user/7/podman/podman.sock\n"                                                     \
    "|unix:///run/podman/podman.sock\n"                                                            \
    "|unix://@/.local/share/containers/podman/machine/podman.sock\n"                               \
    "|unix://@/.local/share/containers/podman/machine/qemu/podman.sock\n"

static void test_usual_order(void **state)
{
    struct engine_surroundings s = {.home = place, .uid = 7};

    (void)state;
    assert_string_equal(tell(&s, NULL), USUAL_DOCKER USUAL_PODMAN);
    s.docker_host = s.docker_context = s.docker_config = s.container_host = s.runtime_dir = "";
    assert_string_equal(tell(&s, NULL), USUAL_DOCKER USUAL_PODMAN);
    s = (struct engine_surroundings){.runtime_dir = "/r", .root = "/t", .home = ""};
    assert_string_equal(tell(&s, NULL), "|unix:///t/var/run/docker.sock\n"
                                        "|unix:///r/docker.sock\n"
                                        "|unix:///r/podman/podman.sock\n"
                                        "|unix:///t/run/podman/podman.sock\n");
    for (unsigned n = 1; n <= 12; n++) { /* what is found ends the search */
        struct told t = {.stop_at = n};
        s = (struct engine_surroundings){.home = place, .uid = 7};
        engine_hints(&s, NULL, on_hint, &t);
        assert_int_equal(t.n, n);
    }
}

static void test_given(void **state)
{
    struct engine_surroundings s = {.home = place,
                                    .uid = 7,
                                    .docker_host = "unix:///d",
                                    .docker_context = "other",
                                    .container_host = "unix:///c"};

    (void)state;
    assert_string_equal(tell(&s, "tcp://flag:1"), "--engine|tcp://flag:1|given\n");
    assert_string_equal(tell(&s, ""), "--engine||given\n");
    assert_string_equal(tell(&s, NULL), "DOCKER_HOST|unix:///d|given\n");
    s.docker_host = NULL;
    assert_string_equal(tell(&s, NULL), "DOCKER_CONTEXT|other|fault|given\n");
    s.docker_context = "default";
    assert_string_equal(tell(&s, NULL), USUAL_DOCKER "CONTAINER_HOST|unix:///c|given\n");
}

static void test_tls(void **state)
{
    struct engine_surroundings s = {
        .home = place, .docker_host = "tcp://h:2376", .docker_tls_verify = "1"};

    (void)state;
    assert_string_equal(tell(&s, NULL), "DOCKER_HOST|tcp://h:2376|tls @/.docker|given\n");
    assert_string_equal(tell(&s, "unix:///x"), "--engine|unix:///x|given\n");
    s.docker_config = "/conf";
    assert_string_equal(tell(&s, NULL), "DOCKER_HOST|tcp://h:2376|tls /conf|given\n");
    s.docker_cert_path = "/certs";
    assert_string_equal(tell(&s, "tcp://h:1"), "--engine|tcp://h:1|tls /certs|given\n");
    s.docker_tls_verify = "";
    assert_string_equal(tell(&s, NULL), "DOCKER_HOST|tcp://h:2376|given\n");
    s = (struct engine_surroundings){.docker_host = "tcp://h:2376", .docker_tls_verify = "1"};
    assert_string_equal(tell(&s, NULL), "DOCKER_HOST|tcp://h:2376|fault|given\n");
}

/* ---- docker's contexts ---- */

static void make_dirs(const char *path)
{
    char part[PATH_MAX];

    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] == '/') {
            memcpy(part, path, i);
            part[i] = '\0';
            assert_true(mkdir(part, 0755) == 0 || there(part));
        }
    }
}

static void put_file(const char *dir, const char *hash, const char *rest, const char *text)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s%s%s", place, dir, hash, rest);
    make_dirs(path);
    put(path, text);
}

static void put_context(const char *name, const char *meta, bool tls)
{
    char hash[SHA256_HEX_SIZE];

    assert_true(sha256_hex(span_str(name), hash));
    put_file(".docker/contexts/meta/", hash, "/meta.json", meta);
    if (tls) {
        put_file(".docker/contexts/tls/", hash, "/docker/ca.pem", "");
    }
}

static void test_contexts(void **state)
{
    struct engine_surroundings s = {.home = place, .uid = 7};

    (void)state;
    put_context("far", "{\"Name\":\"far\",\"Endpoints\":{\"docker\":{\"Host\":\"tcp://f:2376\"}}}",
                true);
    put_context("near", "{\"Endpoints\":{\"docker\":{\"Host\":\"unix:///n\"}}}", false);
    put_context("empty", "{\"Endpoints\":{}}", false);
    put_context("broken", "{\"Endpoints\":{\"docker\":{\"Host\":\"unix:///n\"}}", false);
    put_file(".docker/", "", "config.json", "{\"auths\":{},\"currentContext\":\"near\"}");
    assert_string_equal(tell(&s, NULL), "docker context|unix:///n|given\n");
    s.docker_context = "far";
    char *far = strdup(tell(&s, NULL));
    assert_non_null(far);
    assert_non_null(strstr(far, "DOCKER_CONTEXT|tcp://f:2376|tls @/.docker/contexts/tls/"));
    assert_non_null(strstr(far, "/docker|given\n"));
    /* Its certificates go with its address, whoever names it, whatever DOCKER_TLS_VERIFY is. */
    assert_string_equal(tell(&s, "tcp://f:2376") + strlen("--engine"),
                        far + strlen("DOCKER_CONTEXT"));
    s.docker_tls_verify = "1";
    assert_string_equal(tell(&s, "tcp://f:2376") + strlen("--engine"),
                        far + strlen("DOCKER_CONTEXT"));
    assert_string_equal(tell(&s, "tcp://g:2376"), "--engine|tcp://g:2376|tls @/.docker|given\n");
    free(far);
    static const char *const missing[] = {"empty", "broken", "nobody", "../near"};
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        char expected[64];
        s.docker_context = missing[i];
        (void)snprintf(expected, sizeof(expected), "DOCKER_CONTEXT|%s|fault|given\n", missing[i]);
        assert_string_equal(tell(&s, NULL), expected);
    }
    /* What is left in the file from a Docker that is gone does not hide one that runs. */
    s.docker_context = NULL;
    put_file(".docker/", "", "config.json", "{\"currentContext\":\"desktop-linux\"}");
    assert_string_equal(tell(&s, NULL),
                        "docker context|desktop-linux|fault\n" USUAL_DOCKER USUAL_PODMAN);
    put_file(".docker/", "", "config.json", "{\"currentContext\":\"default\"}");
    assert_string_equal(tell(&s, NULL), USUAL_DOCKER USUAL_PODMAN);
    put_file(".docker/", "", "config.json", "not JSON");
    assert_string_equal(tell(&s, NULL), USUAL_DOCKER USUAL_PODMAN);
    /* DOCKER_CONFIG stands for ~/.docker. */
    put_file("conf/", "", "config.json", "{\"currentContext\":\"elsewhere\"}");
    s.docker_config = at("conf");
    assert_non_null(strstr(tell(&s, NULL), "docker context|elsewhere|fault\n"));
}

/* ---- addresses ---- */

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        const char *tls_dir;
        const char *address;
        const char *socket;
        const char *base_url;
    } good[] = {
        {"unix:///var/run/docker.sock", NULL, "unix:///var/run/docker.sock", "/var/run/docker.sock",
         "http://localhost"},
        {"/x", "/tls", "unix:///x", "/x", "http://localhost"},
        {"tcp://h:2375", NULL, "tcp://h:2375", "", "http://h:2375"},
        {"tcp://[::1]:2376", "/t", "tcp://[::1]:2376", "", "https://[::1]:2376"},
    };
    static const char *const bad[] = {
        "",        "unix://",       "unix://relative",      "relative",      "tcp://h", "tcp://:1",
        "tcp://",  "ssh://u@h",     "npipe:////./pipe/dev", "http://h:2375", "fd://",   "tcp://h:0",
        "tcp:///", "tcp://h:65536", "tcp://u@h:1",          "unix:relative"};
    struct engine_place p;
    struct error e = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(engine_place_read(good[i].text, good[i].tls_dir, &p, &e), ERR_OK);
        assert_string_equal(p.address, good[i].address);
        assert_string_equal(p.socket, good[i].socket);
        assert_string_equal(p.base_url, good[i].base_url);
    }
    assert_string_equal(p.ca_file, "/t/ca.pem");
    assert_string_equal(p.cert_file, "/t/cert.pem");
    assert_string_equal(p.key_file, "/t/key.pem");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        e = (struct error){0};
        assert_int_equal(engine_place_read(bad[i], NULL, &p, &e), ERR_CONFIG);
        assert_true(e.msg[0] != '\0');
    }
    assert_int_equal(engine_place_read("ssh://h", NULL, &p, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "ssh://"));
    char lengthy[128] = "unix:///";
    memset(lengthy + 8, 'x', 106); /* 107 with the slash: all that sun_path takes */
    assert_int_equal(engine_place_read(lengthy, NULL, &p, &e), ERR_OK);
    lengthy[8 + 106] = 'x';
    assert_int_equal(engine_place_read(lengthy, NULL, &p, &e), ERR_CONFIG);
    assert_non_null(strstr(e.msg, "at most 107 bytes, this one 108"));
}

/* ---- versions ---- */

static void test_versions(void **state)
{
    static const struct {
        const char *newest;
        const char *oldest;
        const char *forced;
        const char *expected; /* NULL: refused */
    } rows[] = {
        {"1.41", "1.12", NULL, "1.41"},   {"1.41", "", "", "1.41"},
        {"1.60", "1.44", NULL, "1.51"},   {"1.51", "1.44", NULL, "1.51"},
        {"1.100", "1.44", NULL, "1.51"},  {"1.60", "1.44", "1.45", "1.45"},
        {"1.60", "1.44", "1.55", "1.55"}, {"1.60", "1.44", "1.60", "1.60"},
        {"1.60", "1.44", "1.61", NULL},   {"1.60", "1.44", "1.43", NULL},
        {"1.45", "1.24", "1.5", NULL},    {"1.60", "1.44", "1.45x", NULL},
        {"1.60", "1.44", "2.45", NULL},   {"1.60", "1.44", "45", NULL},
        {"1.60", "1.55", NULL, NULL},     {"1.60", "1.100", NULL, NULL},
        {"1.40", "1.12", NULL, NULL},     {"1.9", "1.1", NULL, NULL},
        {"1.41", "1.41", NULL, "1.41"},   {"1.41", "1.42", NULL, NULL},
    };
    char version[16];
    struct error e = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum err rc = engine_negotiate(rows[i].newest, rows[i].oldest, rows[i].forced, version, &e);
        assert_int_equal(rc, rows[i].expected == NULL ? ERR_CONFIG : ERR_OK);
        if (rc == ERR_OK) {
            assert_string_equal(version, rows[i].expected);
        } else {
            assert_non_null(strstr(e.msg, rows[i].newest));
            assert_non_null(strstr(e.msg, rows[i].forced == NULL ? "1.41" : rows[i].forced));
        }
    }
    static const char *const none[] = {"", "two", "2.0", "1.", "1.x", "1.41.0", "-1.41"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(engine_negotiate(none[i], "1.12", NULL, version, &e), ERR_PROTO);
    }
}

/* ---- names in paths ---- */

static void test_names(void **state)
{
    static const struct {
        const char *name;
        bool slashes;
        const char *expected; /* NULL: refused */
    } rows[] = {
        {"tactus-sandbox-1a2b", false, "tactus-sandbox-1a2b"},
        {"a/b", false, "a%2Fb"},
        {"a/b", true, "a/b"},
        {"r:5000/a/b:t@sha256:0f", true, "r%3A5000/a/b%3At%40sha256%3A0f"},
        {"a b?c#d%2e&\xc3\xa9", false, "a%20b%3Fc%23d%252e%26%C3%A9"},
        {"...", true, "..."},
        {"", false, NULL},
        {".", false, NULL},
        {"..", true, NULL},
        {"../x", true, NULL},
        {"x/..", true, NULL},
        {"x/../y", false, NULL},
        {"/x", true, NULL},
        {"x/", true, NULL},
        {"x//y", true, NULL},
    };
    char out[64];
    struct error e = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum err rc = engine_encode_name(rows[i].name, rows[i].slashes, out, sizeof(out), &e);
        assert_int_equal(rc, rows[i].expected == NULL ? ERR_CONFIG : ERR_OK);
        if (rc == ERR_OK) {
            assert_string_equal(out, rows[i].expected);
        }
    }
    assert_int_equal(engine_encode("aaa", out, 7, &e), ERR_OK);
    assert_int_equal(engine_encode("aaaa", out, 6, &e), ERR_CONFIG);
    struct engine engine = {.version = "1.41"};
    char path[ENGINE_PATH_MAX];
    char lengthy[ENGINE_PATH_MAX + 8];
    assert_int_equal(engine_path_of(&engine, path, "/a/", "b/c", "/d?e=1", &e), ERR_OK);
    assert_string_equal(path, "/v1.41/a/b%2Fc/d?e=1");
    memset(lengthy, 'x', sizeof(lengthy));
    lengthy[sizeof(lengthy) - 1] = '\0';
    assert_int_equal(engine_path_of(&engine, path, "/a/", lengthy, "", &e), ERR_CONFIG);
    assert_int_equal(engine_path(&engine, path, &e, "/%s", lengthy), ERR_CONFIG);
}

static void test_one_line(void **state)
{
    char text[] = "a\r\n\tb\x7f \n";
    char blank[] = " \n";

    (void)state;
    engine_one_line(text);
    assert_string_equal(text, "a   b");
    engine_one_line(blank);
    assert_string_equal(blank, "");
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
        cmocka_unit_test(test_usual_order), cmocka_unit_test(test_given),
        cmocka_unit_test(test_tls),         cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_addresses),   cmocka_unit_test(test_versions),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_one_line),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
