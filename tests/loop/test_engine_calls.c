/*
 * Calls to a scripted engine: statuses and words that count as success or not, the container that a
 * failed create may have left, networks, lists.
 */
#include "fixtures/engine_bed.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define STATUS(line) "HTTP/1.1 " line "\r\nContent-Length: 0\r\n\r\n"

/* ---- create ---- */

SAYS(created, "201 Created", "{\"Id\":\"0f\",\"Warnings\":[]}")
SAYS(warned, "201 Created",
     "{\"Id\":\"0f\",\"Warnings\":[\"IPv4 forwarding is disabled. Networking will not work.\"]}")
SAYS(swap, "201 Created",
     "{\"Id\":\"0f\",\"Warnings\":[\"x\",\"Your kernel does not support swap limit capabilities or "
     "the cgroup is not mounted.\\nMemory limited without swap.\"]}")
SAYS(pids, "201 Created",
     "{\"Id\":\"0f\",\"Warnings\":[\"Your kernel does not support pids limit capabilities or the "
     "cgroup is not mounted. PIDs limit discarded.\"]}")
SAYS(rootless, "201 Created",
     "{\"Id\":\"0f\",\"Warnings\":[\"Resource limits are Not Supported and Ignored on cgroups V1 "
     "rootless systems\"]}")
SAYS(no_id, "201 Created", "{\"Warnings\":null}")
SAYS(long_id, "201 Created",
     "{\"Id\":\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
     "23456789012345678901234567890123456789012345678901234567890123456789\"}")
SAYS(
    podman_taken, "500 Internal Server Error",
    "{\"cause\":\"that name is already in use\",\"message\":\"container create: the container name "
    "\\\"x\\\" is already in use by 62\",\"response\":500}")
SAYS(docker_taken, "409 Conflict",
     "{\"message\":\"Conflict. The container name \\\"/x\\\" is already in use by container 4a\"}")
SAYS(no_image, "404 Not Found", "{\"message\":\"No such image: nope:1\"}")
SAYS(broken, "500 Internal Server Error", "{\"message\":\"no space left on device\"}")

static const struct answer creating[] = {
    {.start = "POST /v1.41/containers/create?name=created ", .says = &created},
    {.start = "POST /v1.41/containers/create?name=a%2Fb%26c ", .says = &created},
    {.start = "POST /v1.41/containers/create?name=warned ", .says = &warned},
    {.start = "POST /v1.41/containers/create?name=swap ", .says = &swap},
    {.start = "POST /v1.41/containers/create?name=pids ", .says = &pids},
    {.start = "POST /v1.41/containers/create?name=rootless ", .says = &rootless},
    {.start = "POST /v1.41/containers/create?name=no_id ", .says = &no_id},
    {.start = "POST /v1.41/containers/create?name=long_id ", .says = &long_id},
    {.start = "POST /v1.41/containers/create?name=podman_taken ", .says = &podman_taken},
    {.start = "POST /v1.41/containers/create?name=docker_taken ", .says = &docker_taken},
    {.start = "POST /v1.41/containers/create?name=no_image ", .says = &no_image},
    {.start = "POST /v1.41/containers/create?name=broken ", .says = &broken},
    {.start = "POST /v1.41/containers/create?name=cut ", .then = CLOSE},
    {.start = "DELETE ", .text = STATUS("204 No Content")},
    {.start = NULL},
};

static void test_create(void **state)
{
    static const struct {
        const char *name;
        enum err rc;
        int sys;
        const char *message;
        bool removed;
    } rows[] = {
        {"created", ERR_OK, 0, "", false},
        {"a/b&c", ERR_OK, 0, "", false},
        {"warned", ERR_OK, 0, "", false},
        {"swap", ERR_UPSTREAM, 0,
         "the engine drops a limit: Your kernel does not support swap limit capabilities or the "
         "cgroup is not mounted. Memory limited without swap.",
         true},
        {"pids", ERR_UPSTREAM, 0, "PIDs limit discarded.", true},
        {"rootless", ERR_UPSTREAM, 0, "Not Supported and Ignored", true},
        {"no_id", ERR_PROTO, 0, "no Id", true},
        {"long_id", ERR_PROTO, 0, "no Id", true},
        {"podman_taken", ERR_UPSTREAM, 409, "already in use", false},
        {"docker_taken", ERR_UPSTREAM, 409, "already in use", false},
        {"no_image", ERR_UPSTREAM, 404, "the engine: create: No such image: nope:1", false},
        {"broken", ERR_UPSTREAM, 500, "the engine: create: no space left on device", false},
        {"cut", ERR_IO, 0, "the engine: POST /v1.41/containers/create?name=cut", true},
        {"", ERR_CONFIG, 0, "is no name", false},
    };
    struct bed b;

    (void)state;
    bed_open(&b, creating);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char id[ENGINE_ID_SIZE] = "before";
        char removal[128];
        struct error e = {0};
        assert_int_equal(engine_create(b.engine, rows[i].name, SPAN("{\"a\":1}"), id, &e),
                         rows[i].rc);
        assert_string_equal(id, rows[i].rc == ERR_OK ? "0f" : "before");
        assert_int_equal(e.sys, rows[i].sys);
        assert_non_null(strstr(e.msg, rows[i].message));
        (void)snprintf(removal, sizeof(removal), "DELETE /v1.41/containers/%s?force=1&v=1 ",
                       rows[i].name);
        assert_int_equal(bed_asked(&b, removal), rows[i].removed ? 1 : 0);
    }
    /* 13 names, and once more what was cut: its connection was a kept one. */
    assert_int_equal(bed_asked(&b, "\r\n\r\n{\"a\":1}"), 14);
    assert_int_equal(bed_asked(&b, "DELETE"), 6);
    bed_close(&b);
}

/* An engine goes on with a create whose caller has left: the container comes later. */
static const struct answer late[] = {
    {.start = "POST /v1.41/containers/create", .then = HANG},
    {.start = "DELETE /v1.41/containers/late?", .text = STATUS("404 Not Found"), .times = 2},
    {.start = "DELETE /v1.41/containers/late?", .text = STATUS("204 No Content"), .times = 1},
    {.start = "DELETE /v1.41/containers/never?", .text = STATUS("404 Not Found")},
    {.start = "DELETE /v1.41/containers/stuck?", .text = STATUS("500 Oh")},
    {.start = NULL},
};

static void test_create_times_out(void **state)
{
    char id[ENGINE_ID_SIZE] = "";
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, late);
    b.engine->limits.slow_ms = 200;
    b.engine->limits.take_back_ms = 5;
    assert_int_equal(engine_create(b.engine, "late", SPAN("{}"), id, &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/late?force=1&v=1 "), 3);
    assert_int_equal(engine_create(b.engine, "never", SPAN("{}"), id, &e), ERR_IO);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/never?"), 5);
    assert_int_equal(engine_create(b.engine, "stuck", SPAN("{}"), id, &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT); /* what went wrong first */
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/stuck?"), 1);
    bed_close(&b);
}

/* Also a signal does not leave one behind, and is told as what it is. */
static void interrupt(struct peer_conn *c, struct bed *b)
{
    (void)b;
    assert(kill(getpid(), SIGTERM) == 0);
    (void)peer_expect_close(c);
}

static const struct answer interrupted[] = {
    {.start = "POST /v1.41/containers/create", .session = interrupt},
    {.start = "DELETE /v1.41/containers/x?", .text = STATUS("404 Not Found"), .times = 1},
    {.start = "DELETE /v1.41/containers/x?", .text = STATUS("204 No Content")},
    {.start = NULL},
};

static void test_create_interrupted(void **state)
{
    char id[ENGINE_ID_SIZE] = "";
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, interrupted);
    b.engine->limits.take_back_ms = 5;
    assert_int_equal(engine_create(b.engine, "x", SPAN("{}"), id, &e), ERR_CLOSED);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/x?"), 2);
    assert_false(b.driver.uninterruptible);
    assert_int_equal(engine_start(b.engine, "x", &e), ERR_CLOSED);
    bed_close(&b);
}

/* ---- start, kill, remove ---- */

SAYS(
    improper, "500 Internal Server Error",
    "{\"cause\":\"container state improper\",\"message\":\"can only kill running containers. 62 is "
    "in state exited: container state improper\",\"response\":500}")
SAYS(ending, "500 Internal Server Error",
     "{\"cause\":\"container state improper\",\"message\":\"cannot remove container 62 as it could "
     "not be stopped: sending SIGKILL to container 62: container state improper: stopped\"}")
SAYS(not_running, "409 Conflict", "{\"message\":\"Cannot kill container: 4a is not running\"}")
SAYS(going, "409 Conflict", "{\"message\":\"removal of container 4a is already in progress\"}")
SAYS(depended_on, "409 Conflict", "{\"message\":\"container 4a has dependent containers\"}")

static const struct answer verbs[] = {
    {.start = "POST /v1.41/containers/fine/start ", .text = STATUS("204 No Content")},
    {.start = "POST /v1.41/containers/again/start ", .text = STATUS("304 Not Modified")},
    {.start = "POST /v1.41/containers/bad/start ", .says = &broken},
    {.start = "POST /v1.41/containers/fine/kill?signal=SIGTERM ", .text = STATUS("204 No Content")},
    {.start = "POST /v1.41/containers/stopped/kill?signal=SIGTERM ", .says = &not_running},
    {.start = "POST /v1.41/containers/improper/kill?signal=SIGTERM ", .says = &improper},
    {.start = "POST /v1.41/containers/bad/kill?signal=SIGTERM ", .says = &broken},
    {.start = "POST /v1.41/containers/fine/kill?signal=a%26b ", .text = STATUS("400 No")},
    {.start = "DELETE /v1.41/containers/fine?force=1&v=1 ", .text = STATUS("204 No Content")},
    {.start = "DELETE /v1.41/containers/body?force=1&v=1 ",
     .text = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[{}]"},
    {.start = "DELETE /v1.41/containers/going?", .says = &going},
    {.start = "DELETE /v1.41/containers/depended?", .says = &depended_on},
    {.start = "DELETE /v1.41/containers/bad?", .says = &broken},
    {.start = "DELETE /v1.41/containers/ending?", .says = &ending, .times = 2},
    {.start = "DELETE /v1.41/containers/ending?", .text = STATUS("204 No Content")},
    {.start = "DELETE /v1.41/containers/endless?", .says = &ending},
    {.start = "DELETE /v1.41/containers/silent?", .then = HANG},
    {.start = NULL},
};

static void test_verbs(void **state)
{
    static const char *const fine[] = {"fine", "body", "going", "gone"};
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, verbs);
    assert_int_equal(engine_start(b.engine, "fine", &e), ERR_OK);
    assert_int_equal(engine_start(b.engine, "again", &e), ERR_OK);
    assert_int_equal(engine_start(b.engine, "gone", &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 404);
    assert_int_equal(engine_start(b.engine, "bad", &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: start: no space left on device");
    assert_int_equal(engine_kill(b.engine, "fine", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "stopped", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "improper", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "gone", "SIGTERM", &e), ERR_OK);
    assert_int_equal(engine_kill(b.engine, "bad", "SIGTERM", &e), ERR_UPSTREAM);
    assert_int_equal(engine_kill(b.engine, "fine", "a&b", &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 400);
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        assert_int_equal(engine_remove(b.engine, fine[i], &e), ERR_OK);
    }
    assert_int_equal(engine_remove(b.engine, "depended", &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 409);
    assert_int_equal(engine_remove(b.engine, "bad", &e), ERR_UPSTREAM);
    assert_int_equal(engine_remove(b.engine, "", &e), ERR_CONFIG); /* not: all of them */
    assert_int_equal(engine_remove(b.engine, "../images/x", &e), ERR_CONFIG);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/bad?"), 1);
    b.engine->limits.take_back_ms = 5;
    assert_int_equal(engine_remove(b.engine, "ending", &e), ERR_OK);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/ending?"), 3);
    assert_int_equal(engine_remove(b.engine, "endless", &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 500);
    assert_int_equal(bed_asked(&b, "DELETE /v1.41/containers/endless?"), 6);
    b.engine->limits.slow_ms = 50;
    assert_int_equal(engine_remove(b.engine, "silent", &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_non_null(strstr(e.msg, "the engine: DELETE /v1.41/containers/silent"));
    bed_close(&b);
}

/* ---- inspect, list ---- */

SAYS(state_3, "200 OK",
     "{\"Id\":\"4a\",\"State\":{\"Running\":false,\"OOMKilled\":true,\"ExitCode\":137},"
     "\"NetworkSettings\":{\"IPAddress\":\"\",\"Networks\":{\"a\":{\"IPAddress\":\"\"},"
     "\"b\":{\"IPAddress\":\"10.1.2.3\"},\"c\":{\"IPAddress\":\"10.1.2.4\"}}}}")
SAYS(state_running, "200 OK",
     "{\"State\":{\"Running\":true,\"OOMKilled\":false,\"ExitCode\":0},"
     "\"NetworkSettings\":{\"IPAddress\":\"10.9.9.9\",\"Networks\":null}}")
SAYS(state_odd, "200 OK", "{\"State\":{\"ExitCode\":3221225477}}")
SAYS(list, "200 OK",
     "[{\"Id\":\"4a\",\"Names\":[\"/one\",\"/other/"
     "one\"],\"Image\":\"i:1\",\"Labels\":{\"k\":\"v\"}},"
     "{\"Id\":\"5b\",\"Names\":[],\"Image\":\"i\"},{\"Names\":[\"/no-id\"]},"
     "{\"Id\":\"6c\",\"Names\":[\"plain\"],\"Labels\":null}]")
SAYS(object, "200 OK", "{}")

static const struct answer looking[] = {
    {.start = "GET /v1.41/containers/three/json ", .says = &state_3},
    {.start = "GET /v1.41/containers/running/json ", .says = &state_running},
    {.start = "GET /v1.41/containers/odd/json ", .says = &state_odd},
    {.start = "GET /v1.41/containers/page/json ",
     .text = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"},
    {.start =
         "GET /v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22tactus.run%22%5D%7D ",
     .says = &list},
    {.start = "GET /v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22a%5C%22b%22%5D%7D ",
     .says = &object},
    {.start = NULL},
};

static void test_inspect(void **state)
{
    struct bed b;
    struct engine_state s;
    struct error e = {0};

    (void)state;
    bed_open(&b, looking);
    assert_int_equal(engine_inspect(b.engine, "three", &s, &e), ERR_OK);
    assert_false(s.running);
    assert_true(s.oom_killed);
    assert_int_equal(s.exit_code, 137);
    assert_string_equal(s.ip, "10.1.2.3");
    assert_int_equal(engine_inspect(b.engine, "running", &s, &e), ERR_OK);
    assert_true(s.running);
    assert_false(s.oom_killed);
    assert_string_equal(s.ip, "10.9.9.9");
    assert_int_equal(engine_inspect(b.engine, "odd", &s, &e), ERR_OK);
    assert_int_equal(s.exit_code, 255);
    assert_string_equal(s.ip, "");
    assert_int_equal(engine_inspect(b.engine, "page", &s, &e), ERR_PROTO);
    assert_int_equal(engine_inspect(b.engine, "gone", &s, &e), ERR_UPSTREAM);
    assert_int_equal(e.sys, 404);
    bed_close(&b);
}

static void on_container(void *ctx, const struct engine_container *c)
{
    char *out = ctx;
    size_t n = strlen(out);

    (void)snprintf(out + n, 256 - n, "[%s|%s|%s|%.*s]", c->id, c->name, c->image, (int)c->labels.n,
                   c->labels.n == 0 ? "" : c->labels.p);
}

static void test_list(void **state)
{
    char seen[256] = "";
    struct bed b;
    struct error e = {0};

    (void)state;
    bed_open(&b, looking);
    assert_int_equal(engine_list(b.engine, "tactus.run", on_container, seen, &e), ERR_OK);
    assert_string_equal(seen, "[4a|one|i:1|{\"k\":\"v\"}][5b||i|][6c|plain||null]");
    assert_int_equal(engine_list(b.engine, "a\"b", on_container, seen, &e), ERR_PROTO);
    assert_int_equal(engine_list(b.engine, "other", on_container, seen, &e), ERR_UPSTREAM);
    bed_close(&b);
}

/* ---- networks ---- */

SAYS(ours, "200 OK",
     "{\"Id\":\"aa\",\"Internal\":true,\"IPAM\":{\"Config\":[{\"Gateway\":\"fd00::1\"},"
     "{\"Subnet\":\"10.5.0.0/16\",\"Gateway\":\"10.5.0.1/16\"}]}}")
SAYS(none_ip, "200 OK", "{\"Id\":\"bb\",\"IPAM\":{\"Config\":[{\"Gateway\":\"<nil>\"}]}}")
SAYS(podman_raced, "500 Internal Server Error",
     "{\"message\":\"network name raced already used: network already exists\"}")

static const struct answer networks[] = {
    {.start = "GET /v1.41/networks/there ", .says = &ours},
    {.start = "GET /v1.41/networks/nil ", .says = &none_ip},
    {.start = "GET /v1.41/networks/new ", .text = STATUS("404 Not Found"), .times = 1},
    {.start = "GET /v1.41/networks/new ", .says = &ours},
    {.start = "POST /v1.41/networks/create", .text = STATUS("201 Created"), .times = 1},
    {.start = "GET /v1.41/networks/raced ", .text = STATUS("404 Not Found"), .times = 1},
    {.start = "GET /v1.41/networks/raced ", .says = &ours},
    {.start = "POST /v1.41/networks/create", .says = &podman_raced, .times = 1},
    {.start = "POST /v1.41/networks/create", .says = &broken, .times = 1},
    {.start = "POST /v1.41/networks/create", .text = STATUS("201 Created"), .times = 1},
    {.start = "POST /v1.41/networks/create", .then = CLOSE},
    {.start = NULL},
};

static void test_networks(void **state)
{
    struct bed b;
    struct engine_network n;
    bool found = false;
    struct error e = {0};

    (void)state;
    bed_open(&b, networks);
    assert_int_equal(engine_network_inspect(b.engine, "there", &n, &found, &e), ERR_OK);
    assert_true(found);
    assert_string_equal(n.id, "aa");
    assert_string_equal(n.gateway, "10.5.0.1");
    assert_true(n.internal);
    assert_int_equal(engine_network_inspect(b.engine, "nil", &n, &found, &e), ERR_OK);
    assert_string_equal(n.gateway, "");
    assert_false(n.internal);
    assert_int_equal(engine_network_inspect(b.engine, "gone", &n, &found, &e), ERR_OK);
    assert_false(found);
    assert_int_equal(engine_network_ensure(b.engine, "there", &n, &e), ERR_OK);
    assert_int_equal(bed_asked(&b, "POST"), 0);
    assert_int_equal(engine_network_ensure(b.engine, "new", &n, &e), ERR_OK);
    assert_string_equal(n.gateway, "10.5.0.1");
    assert_int_equal(bed_asked(&b, "\"Internal\":true"), 1);
    assert_int_equal(bed_asked(&b, "\"com.docker.network.bridge.enable_icc\":\"false\""), 1);
    assert_int_equal(engine_network_ensure(b.engine, "raced", &n, &e), ERR_OK);
    assert_string_equal(n.id, "aa");
    assert_int_equal(engine_network_ensure(b.engine, "gone", &n, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: network create: no space left on device");
    assert_int_equal(engine_network_ensure(b.engine, "gone", &n, &e), ERR_UPSTREAM);
    assert_string_equal(e.msg, "the engine: network gone is not there after it was made");
    assert_int_equal(engine_network_ensure(b.engine, "gone", &n, &e), ERR_IO);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),   cmocka_unit_test(test_create_times_out),
        cmocka_unit_test(test_verbs),    cmocka_unit_test(test_create_interrupted),
        cmocka_unit_test(test_inspect),  cmocka_unit_test(test_list),
        cmocka_unit_test(test_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
