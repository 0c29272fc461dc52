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
    {.kind = MOUNT_BIND, .source = source, .target = target, .z = true},
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
    .nmounts = 4,
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
        "\"Binds\":[\"/host/a:b:/w:rw,z\"]}}");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_least),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
