/* spec/create_request: the whole body, character for character. */
#include "spec/create_request.h"

#include "base/json_span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char source[] = "/host/a:b";
static char target[] = "/w";
static char plain[] = "/host/plain";
static char volume[] = "cache";
static char name[] = "A";
static char value[] = "x\"y";

static const char *const entrypoint[] = {"/.tactus/tactus-init", "--"};
static const char *const command[] = {"sh", "-c", "echo \"\xc3\xa9\""};
static const struct label labels[] = {{"tactus.run", "0badcafe"}};
static const struct env_entry env[] = {{name, value}};
static const struct mount mounts[] = {
    {.kind = MOUNT_BIND, .source = source, .target = target, .read_only = true},
    {.kind = MOUNT_VOLUME, .source = volume, .target = target},
    {.kind = MOUNT_VOLUME, .target = target},
    {.kind = MOUNT_BIND, .source = plain, .target = target, .z = true},
    {.kind = MOUNT_VOLUME,
     .source = volume,
     .target = target,
     .read_only = true,
     .z = true,
     .z_private = true},
};
static const struct create_request whole = {
    .image = "registry:5000/x@sha256:00",
    .entrypoint = entrypoint,
    .nentrypoint = 2,
    .command = command,
    .ncommand = 3,
    .env = env,
    .nenv = 1,
    .user = "1000:1000",
    .working_dir = "/workspace",
    .labels = labels,
    .nlabels = 1,
    .mounts = mounts,
    .nmounts = 5,
    .network = "tactus",
    .host_gateway = "172.18.0.1",
    .memory = 1048576,
    .nano_cpus = 500000000,
    .pids = 64,
    .read_only_root = true,
};

static void test_whole(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 65536);
    create_request_put(&whole, false, &out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"OpenStdin\":true,\"StdinOnce\":true,\"AttachStdin\":true,\"AttachStdout\":true,"
        "\"AttachStderr\":true,\"Tty\":false,\"Image\":\"registry:5000/x@sha256:00\","
        "\"Entrypoint\":[\"/.tactus/tactus-init\",\"--\"],"
        "\"Cmd\":[\"sh\",\"-c\",\"echo \\\"\xc3\xa9\\\"\"],\"Env\":[\"A=x\\\"y\"],"
        "\"User\":\"1000:1000\",\"WorkingDir\":\"/"
        "workspace\",\"Labels\":{\"tactus.run\":\"0badcafe\"},"
        "\"HostConfig\":{\"AutoRemove\":false,\"Init\":false,\"CapDrop\":[\"ALL\"],"
        "\"SecurityOpt\":[\"no-new-privileges\"],\"LogConfig\":{\"Type\":\"none\"},"
        "\"Memory\":1048576,\"MemorySwap\":1048576,\"NanoCpus\":500000000,\"PidsLimit\":64,"
        "\"ReadonlyRootfs\":true,"
        "\"Tmpfs\":{\"/tmp\":\"rw,exec,nosuid,nodev,mode=1777,size=524288\"},"
        "\"NetworkMode\":\"tactus\",\"ExtraHosts\":[\"host.docker.internal:172.18.0.1\"],"
        "\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/host/a:b\",\"Target\":\"/"
        "w\",\"ReadOnly\":true,"
        "\"BindOptions\":{\"Propagation\":\"rprivate\"}},"
        "{\"Type\":\"volume\",\"Source\":\"cache\",\"Target\":\"/w\",\"ReadOnly\":false},"
        "{\"Type\":\"volume\",\"Target\":\"/w\",\"ReadOnly\":false}],"
        "\"Binds\":[\"/host/plain:/w:rw,z\",\"cache:/w:ro,Z\"]}}");
    buf_clear(&out);
    create_request_put(&whole, true, &out);
    assert_null(strstr(buf_cstr(&out), "x\\\"y"));
    assert_non_null(strstr(buf_cstr(&out), "\"Env\":[\"A=[redacted]\"]"));
    buf_fini(&out);
}

/* No limit is no key; a root that can be written needs no tmpfs. */
static void test_least(void **state)
{
    const struct create_request r = {
        .image = "i", .user = "0:0", .working_dir = "/", .network = "none"};
    struct json_rules rules = {.max_depth = 16};
    struct json_fault fault;
    struct json_value v;
    struct buf out;

    (void)state;
    buf_init(&out, 65536);
    create_request_put(&r, false, &out);
    assert_int_equal(json_check_value(buf_span(&out), &rules, &v, &fault), ERR_OK);
    static const char *const absent[] = {"\"Memory", "NanoCpus",   "PidsLimit",
                                         "Tmpfs",    "ExtraHosts", "Binds"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_null(strstr(buf_cstr(&out), absent[i]));
    }
    assert_non_null(
        strstr(buf_cstr(&out), "\"ReadonlyRootfs\":false,\"NetworkMode\":\"none\",\"Mounts\":[]"));
    buf_fini(&out);
}

static void assert_tmpfs(const struct create_request *r, const char *words)
{
    struct buf out;

    buf_init(&out, 65536);
    create_request_put(r, false, &out);
    assert_int_equal(buf_status(&out), ERR_OK);
    if (words == NULL) {
        assert_null(strstr(buf_cstr(&out), "Tmpfs"));
    } else {
        assert_non_null(strstr(buf_cstr(&out), words));
    }
    buf_fini(&out);
}

/* Half of the memory, at most 1 GiB; none where a volume of the user's is. */
static void test_tmpfs(void **state)
{
    static char tmp[] = "/tmp";
    static char in_tmp[] = "/tmp/x";
    static const struct mount at[] = {{.kind = MOUNT_BIND, .source = plain, .target = tmp}};
    static const struct mount below[] = {{.kind = MOUNT_BIND, .source = plain, .target = in_tmp}};
    struct create_request r = whole;

    (void)state;
    r.memory = UINT64_C(2) << 30;
    assert_tmpfs(&r, ",size=1073741824\"}");
    r.memory = (UINT64_C(2) << 30) - 2;
    assert_tmpfs(&r, ",size=1073741823\"}");
    r.memory = UINT64_C(1) << 50;
    assert_tmpfs(&r, ",size=1073741824\"}");
    r.memory = 0;
    assert_tmpfs(&r, ",size=1073741824\"}");
    r.mounts = below;
    r.nmounts = 1;
    assert_tmpfs(&r, ",size=1073741824\"}");
    r.mounts = at;
    assert_tmpfs(&r, NULL);
    r.nmounts = 0;
    r.read_only_root = false;
    assert_tmpfs(&r, NULL);
}

/* Whatever texts come in, one JSON value comes out, and what is no UTF-8 does not break it. */
static void test_odd_texts(void **state)
{
    static char odd[] = "\x01\xff\"\\\n\xc3";
    static const char *const one[] = {odd};
    static const struct label label[] = {{odd, odd}};
    static const struct env_entry entry[] = {{odd, odd}};
    static const struct mount mount[] = {
        {.kind = MOUNT_BIND, .source = odd, .target = odd},
        {.kind = MOUNT_BIND, .source = odd, .target = odd, .z = true}};
    const struct create_request r = {.image = odd,
                                     .entrypoint = one,
                                     .nentrypoint = 1,
                                     .command = one,
                                     .ncommand = 1,
                                     .env = entry,
                                     .nenv = 1,
                                     .user = odd,
                                     .working_dir = odd,
                                     .labels = label,
                                     .nlabels = 1,
                                     .mounts = mount,
                                     .nmounts = 2,
                                     .network = odd,
                                     .host_gateway = odd};
    const struct json_rules rules = {.max_depth = 16};
    struct json_fault fault;
    struct json_value v;
    struct buf out;

    (void)state;
    for (int redact = 0; redact < 2; redact++) {
        buf_init(&out, 65536);
        create_request_put(&r, redact != 0, &out);
        assert_int_equal(json_check_value(buf_span(&out), &rules, &v, &fault), ERR_OK);
        buf_fini(&out);
    }
}

/* Too long for the buffer at any byte: told by its status, never a piece taken for the whole. */
static void test_limit(void **state)
{
    struct buf out;
    size_t n = 0;

    (void)state;
    buf_init(&out, 65536);
    create_request_put(&whole, false, &out);
    n = buf_span(&out).n;
    buf_fini(&out);
    for (size_t max = 1; max < n; max += 7) {
        buf_init(&out, max);
        create_request_put(&whole, false, &out);
        assert_int_equal(buf_status(&out), ERR_LIMIT);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole), cmocka_unit_test(test_least),
        cmocka_unit_test(test_tmpfs), cmocka_unit_test(test_odd_texts),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
