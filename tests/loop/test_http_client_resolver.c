/*
 * The HTTP client while the name server is silent: cancelling, the connect time-out and stopping
 * must not wait for the resolver's thread (libcurl's default does, for seconds).
 *
 * The program gives itself a network and mount namespace of its own with a resolv.conf that names a
 * server on loopback which reads and never answers. Where that is not allowed the tests are
 * skipped.
 */
#include "fixtures/http_bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

static bool isolated;
static int name_server = -1;

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

static bool loopback_up(void)
{
    struct ifreq r;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memset(&r, 0, sizeof(r));
    memcpy(r.ifr_name, "lo", 3);
    r.ifr_flags = IFF_UP;
    bool ok = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
    close(fd);
    return ok;
}

static bool bind_name_server(void)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    name_server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return name_server >= 0 && bind(name_server, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool isolate(void)
{
    char map[64];
    char conf[] = "/tmp/test-resolv-XXXXXX";
    unsigned uid = getuid();

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) != 0) {
        return false;
    }
    (void)snprintf(map, sizeof(map), "0 %u 1", uid);
    if (!write_file("/proc/self/uid_map", map) || !loopback_up() || !bind_name_server() ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return false;
    }
    int fd = mkstemp(conf);
    if (fd < 0) {
        return false;
    }
    close(fd);
    bool ok = write_file(conf, "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n") &&
              mount(conf, "/etc/resolv.conf", NULL, MS_BIND, NULL) == 0;
    unlink(conf);
    return ok;
}

static bool was_asked(void *ctx)
{
    char query[512];

    (void)ctx;
    return recv(name_server, query, sizeof(query), MSG_DONTWAIT) > 0;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct rec *ask(struct bed *bed, uint32_t connect_ms)
{
    struct rec *r = rec_new(bed);

    rec_start(r, &(struct http_request){
                     .method = "GET", .url = "http://provider.test/", .connect_ms = connect_ms});
    assert_true(bed_until(bed, was_asked, NULL));
    return r;
}

/* The bound is the resolver's 10 s: a loop that was blocked was so that long. */
#define NOT_BLOCKED 5.0

static void test_cancel(void **state)
{
    struct bed bed;

    (void)state;
    if (!isolated) {
        skip();
    }
    bed_open(&bed);
    struct rec *r = ask(&bed, 0);
    double before = seconds();
    http_call_cancel(r->call);
    assert_int_equal(http_client_calls(bed.client), 0);
    bed_ticks(&bed, 10);
    assert_true(seconds() - before < NOT_BLOCKED);
    assert_int_equal(r->ends, 0);
    bed_close(&bed);
    free(r);
}

static void test_time_out(void **state)
{
    struct bed bed;

    (void)state;
    if (!isolated) {
        skip();
    }
    bed_open(&bed);
    double before = seconds();
    struct rec *r = ask(&bed, 100);
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_TIMEOUT_CONNECT);
    bed_close(&bed);
    assert_true(seconds() - before < NOT_BLOCKED);
    free(r);
}

static void test_stop(void **state)
{
    struct bed bed;

    (void)state;
    if (!isolated) {
        skip();
    }
    bed_open(&bed);
    struct rec *r = ask(&bed, 0);
    double before = seconds();
    bed_close(&bed);
    assert_true(seconds() - before < NOT_BLOCKED);
    assert_int_equal(r->outcome, HTTP_STOPPED);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_time_out),
        cmocka_unit_test(test_stop),
    };

    isolated = isolate();
    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
