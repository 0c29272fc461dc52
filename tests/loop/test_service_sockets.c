/*
 * Sockets that the service manager passes: children of the test are given them from descriptor 3
 * on, as a manager gives them.
 */
#include "app/service.h"

#include "fixtures/torture.h"
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST 3 /* where passed descriptors begin */
#define MANY  4
#define HIGH  100 /* where tests keep theirs meanwhile */

static char directory[] = "/tmp/tactus-sockets-XXXXXX";

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

/* What a child is given: a descriptor each, and what the environment says of them. */
struct gift {
    int fds[MANY];
    int n;
    const char *names; /* LISTEN_FDNAMES; NULL: not set */
    const char *count; /* LISTEN_FDS; NULL: n */
    const char *pid;   /* LISTEN_PID; NULL: the child's */
};

/* In the child; the line of the first check that failed, 0: none. */
typedef int child_fn(struct service **s);

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

static int in_child(const struct gift *gift, child_fn *fn)
{
    struct service *s = NULL;
    char text[32];

    for (int i = 0; i < gift->n; i++) { /* out of each other's way first */
        EXPECT(dup2(gift->fds[i], HIGH + i) == HIGH + i);
    }
    for (int i = 0; i < gift->n; i++) {
        EXPECT(dup2(HIGH + i, FIRST + i) == FIRST + i);
    }
    (void)snprintf(text, sizeof(text), "%d", gift->n);
    EXPECT(setenv("LISTEN_FDS", gift->count != NULL ? gift->count : text, 1) == 0);
    (void)snprintf(text, sizeof(text), "%d", (int)getpid());
    EXPECT(setenv("LISTEN_PID", gift->pid != NULL ? gift->pid : text, 1) == 0);
    if (gift->names != NULL) {
        EXPECT(setenv("LISTEN_FDNAMES", gift->names, 1) == 0);
    }
    EXPECT(service_new(&s, NULL) == ERR_OK);
    int line = fn(&s);
    EXPECT(getenv("LISTEN_FDS") == NULL);
    EXPECT(getenv("LISTEN_PID") == NULL);
    EXPECT(getenv("LISTEN_FDNAMES") == NULL);
    service_free(s);
    return line;
}

/* Line numbers do not fit an exit code. */
static void give(const struct gift *gift, child_fn *fn)
{
    int tell[2];
    int line = -1;
    int status = -1;

    assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int out = dup2(tell[1], HIGH + MANY);
        line = in_child(gift, fn);
        _exit(write(out, &line, sizeof(line)) == sizeof(line) ? 0 : 1);
    }
    close(tell[1]);
    ssize_t n = read(tell[0], &line, sizeof(line));
    close(tell[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(n, sizeof(line));
    if (line != 0) {
        fail_msg("in the child, line %d", line);
    }
}

static int listening(int family, const void *address, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static int listening_unix(const char *name)
{
    struct sockaddr_un sa = unix_address(name);

    return listening(AF_UNIX, &sa, sizeof(sa));
}

static void forget_unix(const char *name)
{
    struct sockaddr_un sa = unix_address(name);

    assert_int_equal(unlink(sa.sun_path), 0);
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t size = sizeof(at);

    assert_int_equal(getsockname(fd, &at.any, &size), 0);
    return ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
}

/* What the children need to know. */
static char a_path[108];
static char b_path[108];
static uint16_t v4_port;
static uint16_t v6_port;

static int look_for_path(struct service *s, const char *path)
{
    return service_socket_for(s, &(struct listener_address){.path = path});
}

static int look_for(struct service *s, const char *host, uint16_t port)
{
    return service_socket_for(s, &(struct listener_address){.host = host, .port = port});
}

static int all_found(struct service **s)
{
    struct error e = {0};
    int on = 0;
    socklen_t size = sizeof(on);

    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    for (int fd = FIRST; fd < FIRST + 3; fd++) {
        EXPECT((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        EXPECT((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    }
    EXPECT(look_for_path(*s, "/nonexistent") == -1);
    EXPECT(look_for_path(*s, "") == -1);
    EXPECT(look_for(*s, "127.0.0.1", (uint16_t)(v4_port ^ 1)) == -1);
    EXPECT(look_for(*s, "127.0.0.2", v4_port) == -1);
    EXPECT(look_for(*s, "0.0.0.0", v4_port) == -1);
    EXPECT(look_for(*s, "127.0.0.1", 0) == -1);
    EXPECT(look_for(*s, "::1", v4_port) == -1);
    EXPECT(look_for(*s, "no.literal", v4_port) == -1);
    EXPECT(service_no_leftovers(*s, &e) == ERR_CONFIG);
    EXPECT(look_for_path(*s, b_path) == FIRST + 1);
    EXPECT(look_for_path(*s, b_path) == -1); /* once */
    EXPECT(look_for(*s, "localhost", v4_port) == FIRST + 2);
    EXPECT(getsockopt(FIRST + 2, IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0 && on != 0);
    EXPECT(look_for_path(*s, a_path) == FIRST);
    EXPECT(service_no_leftovers(*s, &e) == ERR_OK);
    service_free(*s);
    *s = NULL; /* what was asked for is the caller's */
    EXPECT(fcntl(FIRST, F_GETFD) >= 0);
    return 0;
}

static int leftovers_named(struct service **s)
{
    struct error e = {0};
    char part[300];

    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    EXPECT(look_for(*s, "127.0.0.1", v4_port) == FIRST + 2);
    EXPECT(service_no_leftovers(*s, &e) == ERR_CONFIG);
    (void)snprintf(part, sizeof(part), "unix://%s (clients.socket), unix://%s (admin)", a_path,
                   b_path);
    EXPECT(strstr(e.msg, part) != NULL);
    (void)snprintf(part, sizeof(part), "127.0.0.1:%u", (unsigned)v4_port);
    EXPECT(strstr(e.msg, part) == NULL);
    return 0;
}

static int found_by_v6(struct service **s)
{
    struct error e = {0};
    char part[300];

    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    EXPECT(look_for(*s, "::2", v6_port) == -1);
    EXPECT(look_for(*s, "127.0.0.1", v6_port) == -1);
    EXPECT(look_for(*s, "::1", (uint16_t)(v6_port ^ 1)) == -1);
    (void)snprintf(part, sizeof(part), "tcp://[::1]:%u (unknown)", (unsigned)v6_port);
    EXPECT(service_no_leftovers(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, part) != NULL);
    EXPECT(look_for(*s, "0:0::1", v6_port) == FIRST);
    return 0;
}

static int found_abstract(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    EXPECT(look_for_path(*s, "") == -1);
    EXPECT(service_no_leftovers(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, "unix://@tactus-service-test-") != NULL);
    return 0;
}

static int for_another(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    EXPECT(look_for_path(*s, a_path) == -1);
    EXPECT(service_no_leftovers(*s, &e) == ERR_OK);
    EXPECT(fcntl(FIRST, F_GETFD) == 0); /* untouched */
    return 0;
}

static int refused_as_dgram(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, "descriptor 4 (second) of the service manager on tcp://127.0.0.1:"));
    EXPECT(strstr(e.msg, "not a stream socket") != NULL);
    service_free(*s);
    *s = NULL; /* closes all of them, the good one too */
    EXPECT(fcntl(FIRST, F_GETFD) == -1 && errno == EBADF);
    EXPECT(fcntl(FIRST + 1, F_GETFD) == -1 && errno == EBADF);
    return 0;
}

static int refused_as_silent(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, "not a listening socket") != NULL);
    EXPECT(strstr(e.msg, "descriptor 3 (unknown)") != NULL);
    return 0;
}

static int refused_as_file(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, "descriptor 3 (unknown)") != NULL);
    EXPECT(strstr(e.msg, "not a socket") != NULL);
    return 0;
}

static int refused_as_nonsense(struct service **s)
{
    struct error e = {0};

    EXPECT(service_take_sockets(*s, &e) == ERR_CONFIG);
    EXPECT(strstr(e.msg, "LISTEN_FDS") != NULL);
    EXPECT(service_no_leftovers(*s, &e) == ERR_OK);
    return 0;
}

static int refused_for_memory(struct service **s)
{
    struct error e = {0};

    torture_fail_after(0);
    enum err rc = service_take_sockets(*s, &e);
    torture_off();
    EXPECT(rc == ERR_NOMEM);
    EXPECT(service_no_leftovers(*s, &e) == ERR_OK);
    return 0;
}

static struct gift three_sockets(void)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct gift gift = {.n = 3, .names = "clients.socket:admin:x"};

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    gift.fds[0] = listening_unix("a");
    gift.fds[1] = listening_unix("b");
    gift.fds[2] = listening(AF_INET, &v4, sizeof(v4));
    (void)snprintf(a_path, sizeof(a_path), "%s/a", directory);
    (void)snprintf(b_path, sizeof(b_path), "%s/b", directory);
    v4_port = port_of(gift.fds[2]);
    return gift;
}

static void close_three(const struct gift *gift)
{
    for (int i = 0; i < gift->n; i++) {
        close(gift->fds[i]);
    }
    forget_unix("a");
    forget_unix("b");
}

static void test_sockets_found(void **state)
{
    (void)state;
    struct gift gift = three_sockets();

    give(&gift, all_found);
    close_three(&gift);
}

static void test_leftovers_are_named(void **state)
{
    (void)state;
    struct gift gift = three_sockets();

    give(&gift, leftovers_named);
    close_three(&gift);
}

static void test_ipv6_socket(void **state)
{
    (void)state;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&v6, sizeof(v6)) != 0) {
        skip(); /* this machine has no IPv6 */
    }
    assert_int_equal(listen(fd, 8), 0);
    v6_port = port_of(fd);
    give(&(struct gift){.fds = {fd}, .n = 1}, found_by_v6);
    close(fd);
}

static void test_abstract_socket(void **state)
{
    (void)state;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    int n =
        snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "tactus-service-test-%d", (int)getpid());
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int fd = listening(AF_UNIX, &sa, size);
    give(&(struct gift){.fds = {fd}, .n = 1}, found_abstract);
    close(fd);
}

/* They are meant for our parent: not looked at, but what tells of them is gone from the environment
 * all the same. */
static void test_sockets_of_another_process(void **state)
{
    (void)state;
    struct gift gift = three_sockets();
    char parent[32];

    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    gift.pid = parent;
    give(&gift, for_another);
    close_three(&gift);
}

static void test_no_stream_socket(void **state)
{
    (void)state;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    int dgram = socket(AF_INET, SOCK_DGRAM, 0);

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(dgram, (struct sockaddr *)&v4, sizeof(v4)), 0);
    int good = listening_unix("good");
    give(&(struct gift){.fds = {good, dgram}, .n = 2, .names = "first:second"}, refused_as_dgram);
    close(dgram);
    close(good);
    forget_unix("good");
}

static void test_no_listening_socket(void **state)
{
    (void)state;
    int pair[2];
    int unbound = socket(AF_INET, SOCK_STREAM, 0);

    give(&(struct gift){.fds = {unbound}, .n = 1}, refused_as_silent);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    give(&(struct gift){.fds = {pair[0]}, .n = 1}, refused_as_silent);
    close(pair[0]);
    close(pair[1]);
    close(unbound);
}

static void test_no_socket(void **state)
{
    (void)state;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    give(&(struct gift){.fds = {file}, .n = 1}, refused_as_file);
    close(file);
}

static void test_nonsense(void **state)
{
    (void)state;
    struct gift gift = three_sockets();

    gift.names = "only-one";
    give(&gift, refused_as_nonsense);
    gift.names = NULL;
    gift.count = "many";
    give(&gift, refused_as_nonsense);
    gift.count = "50"; /* more than there are */
    give(&gift, refused_as_nonsense);
    close_three(&gift);
}

static void test_sockets_out_of_memory(void **state)
{
    (void)state;
    struct gift gift = three_sockets();

    give(&gift, refused_for_memory);
    close_three(&gift);
}

static int nothing_passed(struct service **s)
{
    struct error e = {0};

    EXPECT(unsetenv("LISTEN_FDS") == 0);
    EXPECT(service_take_sockets(*s, &e) == ERR_OK);
    EXPECT(look_for_path(*s, "/nonexistent") == -1);
    EXPECT(service_no_leftovers(*s, &e) == ERR_OK);
    return 0;
}

static void test_nothing_passed(void **state)
{
    (void)state;

    give(&(struct gift){.n = 0}, nothing_passed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets_found),
        cmocka_unit_test(test_leftovers_are_named),
        cmocka_unit_test(test_ipv6_socket),
        cmocka_unit_test(test_abstract_socket),
        cmocka_unit_test(test_sockets_of_another_process),
        cmocka_unit_test(test_no_stream_socket),
        cmocka_unit_test(test_no_listening_socket),
        cmocka_unit_test(test_no_socket),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_sockets_out_of_memory),
        cmocka_unit_test(test_nothing_passed),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
