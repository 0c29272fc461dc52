/*
 * What the service manager is told, and its watchdog, against a manager of our own: a datagram
 * socket that hears what is said.
 */
#include "app/service.h"

#include "fixtures/torture.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/tactus-service-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static struct sockaddr_un unix_address(const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    (void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", directory, name);
    return sa;
}

/* ---- a manager that listens ---- */

struct manager {
    int fd;
    char path[108];
};

static struct manager manager_open(void)
{
    struct manager m = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    struct sockaddr_un sa = unix_address("notify");

    assert_true(m.fd >= 0);
    (void)unlink(sa.sun_path);
    assert_int_equal(bind(m.fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    (void)snprintf(m.path, sizeof(m.path), "%s", sa.sun_path);
    assert_int_equal(setenv("NOTIFY_SOCKET", m.path, 1), 0);
    return m;
}

static void manager_close(struct manager *m)
{
    close(m->fd);
    (void)unlink(m->path);
}

/* The next message, or NULL. */
static const char *heard(const struct manager *m)
{
    static char text[1024];
    ssize_t n = recv(m->fd, text, sizeof(text) - 1, 0);

    if (n < 0) {
        return NULL;
    }
    text[n] = '\0';
    return text;
}

static struct service *service_open(void)
{
    struct service *s = NULL;
    struct error e = {0};

    assert_int_equal(service_new(&s, &e), ERR_OK);
    return s;
}

/* ---- notifications ---- */

static void test_what_is_said(void **state)
{
    (void)state;
    struct manager m = manager_open();
    struct service *s = service_open();
    unsigned long long before = 0;
    unsigned long long said = 0;
    struct timespec now;

    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(heard(&m));
    service_ready(s);
    assert_string_equal(heard(&m), "READY=1");
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    before = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
    service_reloading(s);
    const char *text = heard(&m);
    static const char reloading[] = "RELOADING=1\nMONOTONIC_USEC=";
    assert_non_null(text);
    assert_memory_equal(text, reloading, sizeof(reloading) - 1);
    said = strtoull(text + sizeof(reloading) - 1, NULL, 10);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(said >= before);
    assert_true(said <=
                (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
    service_stopping(s, 0);
    assert_string_equal(heard(&m), "STOPPING=1");
    service_stopping(s, 33000);
    assert_string_equal(heard(&m), "STOPPING=1\nEXTEND_TIMEOUT_USEC=33000000");
    assert_null(heard(&m));
    service_free(s);
    manager_close(&m);
}

static void test_status(void **state)
{
    (void)state;
    struct manager m = manager_open();
    struct service *s = service_open();
    char longest[600];

    service_status(s, "%u connections", 7u);
    assert_string_equal(heard(&m), "STATUS=7 connections");
    service_status(s, "%s", "a\nMAINPID=1\r\nb");
    assert_string_equal(heard(&m), "STATUS=a MAINPID=1  b");
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    service_status(s, "%s", longest);
    assert_int_equal(strlen(heard(&m)), strlen("STATUS=") + 255);
    service_free(s);
    manager_close(&m);
}

/* A manager that has gone, and one that comes back under the same name. */
static void test_manager_restarts(void **state)
{
    (void)state;
    struct manager m = manager_open();
    struct service *s = service_open();

    manager_close(&m);
    service_ready(s);
    m = manager_open();
    service_ready(s);
    assert_string_equal(heard(&m), "READY=1");
    service_free(s);
    manager_close(&m);
    (void)unsetenv("NOTIFY_SOCKET");
}

/* A manager that does not read must not hold up the loop. */
static void test_manager_is_busy(void **state)
{
    (void)state;
    struct manager m = manager_open();
    struct service *s = service_open();
    unsigned n = 0;

    for (unsigned i = 0; i < 5000; i++) {
        service_status(s, "%u", i);
    }
    while (heard(&m) != NULL) {
        n++;
    }
    assert_in_range(n, 1, 4999);
    service_status(s, "again");
    assert_string_equal(heard(&m), "STATUS=again");
    service_free(s);
    manager_close(&m);
}

static void test_abstract_address(void **state)
{
    (void)state;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct manager m = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    char name[64];

    (void)snprintf(name, sizeof(name), "@tactus-service-%d", (int)getpid());
    memcpy(sa.sun_path + 1, name + 1, strlen(name) - 1);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    assert_int_equal(bind(m.fd, (struct sockaddr *)&sa, size), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    struct service *s = service_open();
    service_ready(s);
    assert_string_equal(heard(&m), "READY=1");
    service_free(s);
    close(m.fd);
}

/* Nobody to tell: the service runs all the same, and children see nothing. */
static void test_no_manager(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        NULL, "", "/", "@", "relative", "vsock:2:1", "/nonexistent/notify"};
    char longest[200];

    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i <= sizeof(addresses) / sizeof(addresses[0]); i++) {
        bool last = i == sizeof(addresses) / sizeof(addresses[0]);
        const char *address = last ? longest : addresses[i];
        if (address != NULL) {
            assert_int_equal(setenv("NOTIFY_SOCKET", address, 1), 0);
        }
        struct service *s = service_open();
        assert_null(getenv("NOTIFY_SOCKET"));
        service_ready(s);
        service_reloading(s);
        service_stopping(s, 1);
        service_status(s, "fine");
        service_free(s);
    }
    service_free(NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct service *s = NULL;
    struct error e = {0};

    torture_fail_after(0);
    assert_int_equal(service_new(&s, &e), ERR_NOMEM);
    torture_off();
    assert_null(s);
}

/* ---- watchdog ---- */

struct late {
    struct loop_deadline d;
    struct loop *loop;
};

static void stop_loop(void *ctx)
{
    struct late *late = ctx;

    loop_stop(late->loop);
}

static void run_for(struct loop *loop, uint64_t ms)
{
    struct late late = {.loop = loop};

    loop_deadline_init(&late.d, stop_loop, &late);
    assert_int_equal(loop_deadline_set(loop, &late.d, loop_now(loop) + ms), ERR_OK);
    loop_run(loop);
}

/* Pings in the first `ms` of a loop: deadlines come in order, however slow the machine is. */
static unsigned pings_with(const char *usec, const char *pid, bool with_manager, uint64_t ms)
{
    struct manager m = manager_open();
    struct loop *loop = NULL;
    unsigned n = 0;

    if (!with_manager) {
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    }
    if (usec != NULL) {
        assert_int_equal(setenv("WATCHDOG_USEC", usec, 1), 0);
    }
    if (pid != NULL) {
        assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
    }
    struct service *s = service_open();
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    assert_int_equal(loop_new(&loop, NULL), ERR_OK);
    assert_int_equal(service_watchdog_start(s, loop, NULL), ERR_OK);
    run_for(loop, ms);
    service_watchdog_stop(s);
    for (const char *text = heard(&m); text != NULL; text = heard(&m)) {
        assert_string_equal(text, "WATCHDOG=1");
        n++;
    }
    run_for(loop, ms); /* it was stopped */
    assert_null(heard(&m));
    service_watchdog_stop(s);
    loop_free(loop);
    service_free(s);
    manager_close(&m);
    return n;
}

static void test_watchdog(void **state)
{
    (void)state;
    char own[32];
    char other[32];

    (void)snprintf(own, sizeof(own), "%d", (int)getpid());
    (void)snprintf(other, sizeof(other), "%d", (int)getppid());
    assert_int_equal(pings_with("40000", own, true, 25), 1); /* after 20 ms */
    assert_int_equal(pings_with("60000000", own, true, 15), 0);
    assert_int_equal(pings_with("40000", NULL, true, 25), 1); /* for whoever reads it */
    assert_true(pings_with("1", own, true, 2) > 0);           /* 1 ms is the least */
    assert_int_equal(pings_with("8000", other, true, 15), 0);
    assert_int_equal(pings_with(NULL, NULL, true, 15), 0);
    assert_int_equal(pings_with("never", own, true, 15), 0);
    assert_int_equal(pings_with("8000", own, false, 15), 0);
}

struct listening_manager {
    struct manager m;
    struct loop *loop;
    unsigned pings;
};

static void on_ping_heard(void *ctx)
{
    struct listening_manager *l = ctx;

    for (const char *text = heard(&l->m); text != NULL; text = heard(&l->m)) {
        assert_string_equal(text, "WATCHDOG=1");
        l->pings++;
    }
    if (l->pings >= 3) {
        loop_stop(l->loop);
    }
}

static void test_watchdog_goes_on(void **state)
{
    (void)state;
    struct listening_manager l = {.m = manager_open()};
    struct loop_watch *watch = NULL;

    assert_int_equal(setenv("WATCHDOG_USEC", "4000", 1), 0);
    struct service *s = service_open();
    assert_int_equal(loop_new(&l.loop, NULL), ERR_OK);
    assert_int_equal(loop_watch_new(l.loop, l.m.fd, on_ping_heard, &l, &watch, NULL), ERR_OK);
    assert_int_equal(service_watchdog_start(s, l.loop, NULL), ERR_OK);
    loop_run(l.loop);
    service_watchdog_stop(s);
    loop_watch_free(watch);
    loop_free(l.loop);
    service_free(s);
    manager_close(&l.m);
}

static void test_watchdog_out_of_memory(void **state)
{
    (void)state;
    struct manager m = manager_open();
    struct loop *loop = NULL;
    struct error e = {0};

    assert_int_equal(setenv("WATCHDOG_USEC", "8000", 1), 0);
    struct service *s = service_open();
    assert_int_equal(loop_new(&loop, NULL), ERR_OK);
    torture_fail_after(0);
    enum err rc = service_watchdog_start(s, loop, &e);
    torture_off();
    assert_int_equal(rc, ERR_NOMEM);
    assert_int_equal(service_watchdog_start(s, loop, &e), ERR_OK);
    service_watchdog_stop(s);
    loop_free(loop);
    service_free(s);
    manager_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_said),     cmocka_unit_test(test_status),
        cmocka_unit_test(test_manager_restarts), cmocka_unit_test(test_manager_is_busy),
        cmocka_unit_test(test_abstract_address), cmocka_unit_test(test_no_manager),
        cmocka_unit_test(test_out_of_memory),    cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_watchdog_goes_on), cmocka_unit_test(test_watchdog_out_of_memory),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
