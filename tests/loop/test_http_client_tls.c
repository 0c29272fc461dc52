/*
 * The HTTP client over TLS, with certificates made here; and what stays in memory after a call that
 * carried a key.
 */
#include "fixtures/http_bed.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DAY 86400L

/* ---- certificates ---- */

struct issuer {
    EVP_PKEY *key;
    X509 *cert;
    char file[64];
};

static void add_extension(X509 *cert, X509 *by, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, by, cert, NULL, NULL, 0);
    X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(x);
    assert_int_equal(X509_add_ext(cert, x, -1), 1);
    X509_EXTENSION_free(x);
}

/* `by` NULL: a CA of its own; else a server certificate for `san`, valid for `days`. */
static X509 *make_cert(EVP_PKEY *key, const struct issuer *by, const char *san, long days)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_NAME_new();

    assert_non_null(cert);
    assert_non_null(name);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), by == NULL ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(cert), -2 * DAY);
    X509_gmtime_adj(X509_getm_notAfter(cert), days * DAY);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               (const unsigned char *)(by == NULL ? "test CA" : "server"), -1, -1,
                               0);
    X509_set_subject_name(cert, name);
    X509_set_issuer_name(cert, by == NULL ? name : X509_get_subject_name(by->cert));
    X509_set_pubkey(cert, key);
    if (by == NULL) {
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign");
    } else {
        add_extension(cert, by->cert, NID_subject_alt_name, san);
    }
    assert_true(X509_sign(cert, by == NULL ? key : by->key, EVP_sha256()) > 0);
    X509_NAME_free(name);
    return cert;
}

static void issuer_init(struct issuer *ca)
{
    (void)snprintf(ca->file, sizeof(ca->file), "/tmp/test-ca-XXXXXX");
    int fd = mkstemp(ca->file);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    ca->key = EVP_EC_gen("P-256");
    assert_non_null(ca->key);
    ca->cert = make_cert(ca->key, NULL, NULL, 30);
    assert_int_equal(PEM_write_X509(f, ca->cert), 1);
    assert_int_equal(fclose(f), 0);
}

static void issuer_fini(struct issuer *ca)
{
    unlink(ca->file);
    X509_free(ca->cert);
    EVP_PKEY_free(ca->key);
}

static SSL_CTX *server_ctx(const struct issuer *ca, const char *san, long days)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");

    assert_non_null(ctx);
    assert_non_null(key);
    X509 *cert = make_cert(key, ca, san, days);
    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    return ctx;
}

#define GOOD_SAN "IP:127.0.0.1,DNS:localhost"

/* ---- scripts ---- */

struct plan {
    const char *reply;
    bool keep;
    bool goodbye;
    size_t pattern; /* bytes sent after the reply */
};

static void script(struct peer_conn *c, void *ctx)
{
    const struct plan *plan = ctx;
    char buf[8192];
    const char *body = NULL;

    while (peer_recv_request(c, buf, sizeof(buf), &body)) {
        if (!peer_send_str(c, plan->reply) || !peer_send_pattern(c, 0, plan->pattern)) {
            break;
        }
        if (!plan->keep) {
            break;
        }
    }
    OPENSSL_cleanse(buf, sizeof(buf));
    if (plan->goodbye) {
        peer_goodbye(c);
    }
}

static const struct plan ok_keep = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true, true,
                                    0};
static const struct plan ok_close = {
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false, true, 0};

static struct peer *start(const struct plan *plan, SSL_CTX *tls)
{
    static struct plan copy; /* scripts of one test share it */

    copy = *plan;
    return peer_start(script, &copy, tls);
}

static struct rec *get(struct bed *bed, const struct peer *p, const char *host, const char *ca)
{
    char url[64];
    struct rec *r = rec_new(bed);

    (void)snprintf(url, sizeof(url), "https://%s:%u/", host, peer_port(p));
    rec_start(r, &(struct http_request){.method = "GET", .url = url, .ca_file = ca});
    rec_finish(r);
    return r;
}

/* ---- verification ---- */

static void test_good(void **state)
{
    struct issuer ca;
    struct bed bed;

    (void)state;
    issuer_init(&ca);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    struct peer *p = start(&ok_keep, tls);
    bed_open(&bed);
    for (int i = 0; i < 3; i++) {
        struct rec *r = get(&bed, p, "127.0.0.1", ca.file);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_string_equal(r->body, "ok");
        free(r);
    }
    assert_int_equal(peer_accepted(p), 1);
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
}

static void expect_refused(SSL_CTX *tls, const char *ca_file)
{
    struct bed bed;
    struct peer *p = start(&ok_keep, tls);

    bed_open(&bed);
    struct rec *r = get(&bed, p, "127.0.0.1", ca_file);
    assert_int_equal(r->outcome, HTTP_TLS_FAILED);
    assert_int_equal(r->heads, 0);
    assert_true(r->detail[0] != '\0');
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    free(r);
}

static void test_refused(void **state)
{
    struct issuer ca;
    struct issuer other;

    (void)state;
    issuer_init(&ca);
    issuer_init(&other);
    expect_refused(server_ctx(&ca, GOOD_SAN, 30), other.file); /* not this CA */
    expect_refused(server_ctx(&ca, GOOD_SAN, 30), NULL);       /* not in the system's bundle */
    expect_refused(server_ctx(&ca, GOOD_SAN, 30), "/nonexistent/ca.pem");
    expect_refused(server_ctx(&ca, "DNS:elsewhere.example,IP:127.0.0.2", 30), ca.file);
    expect_refused(server_ctx(&ca, GOOD_SAN, -1), ca.file); /* expired yesterday */
    SSL_CTX *old = server_ctx(&ca, GOOD_SAN, 30);
    SSL_CTX_set_security_level(old, 0);
    SSL_CTX_set_max_proto_version(old, TLS1_1_VERSION);
    expect_refused(old, ca.file);
    issuer_fini(&ca);
    issuer_fini(&other);
}

static void test_plain_server(void **state)
{
    struct plan plan = {"HTTP/1.1 400 Bad\r\n\r\n", false, false, 0};

    (void)state;
    struct bed bed;
    struct peer *p = start(&plan, NULL);
    bed_open(&bed);
    /* The server waits for the end of a request that never comes. */
    char url[64];
    struct rec *r = rec_new(&bed);
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", peer_port(p));
    rec_start(r, &(struct http_request){.method = "GET", .url = url, .connect_ms = 100});
    rec_finish(r);
    assert_int_equal(r->outcome, HTTP_TIMEOUT_CONNECT); /* the handshake is part of connecting */
    bed_close(&bed);
    peer_stop(p);
    free(r);
}

/* A connection kept under one CA must not serve a call that trusts another. */
static void test_ca_separates_connections(void **state)
{
    struct issuer ca;
    struct issuer other;
    struct bed bed;

    (void)state;
    issuer_init(&ca);
    issuer_init(&other);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    struct peer *p = start(&ok_keep, tls);
    bed_open(&bed);
    struct rec *r = get(&bed, p, "127.0.0.1", ca.file);
    assert_int_equal(r->outcome, HTTP_OK);
    free(r);
    r = get(&bed, p, "127.0.0.1", other.file);
    assert_int_equal(r->outcome, HTTP_TLS_FAILED);
    free(r);
    r = get(&bed, p, "127.0.0.1", ca.file);
    assert_int_equal(r->outcome, HTTP_OK);
    free(r);
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
    issuer_fini(&other);
}

/* ---- cost: the bundle is read once, sessions are resumed ---- */

static unsigned opens_seen(int watch)
{
    char events[4096] __attribute__((aligned(8)));
    unsigned n = 0;

    for (;;) {
        ssize_t got = read(watch, events, sizeof(events));
        if (got <= 0) {
            return n;
        }
        n += (unsigned)((size_t)got / sizeof(struct inotify_event));
    }
}

static void test_ca_read_once(void **state)
{
    struct issuer ca;
    struct bed bed;
    unsigned opens = 0;
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    (void)state;
    assert_true(watch >= 0);
    issuer_init(&ca);
    assert_true(inotify_add_watch(watch, ca.file, IN_OPEN) >= 0);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    struct peer *p = start(&ok_close, tls);
    bed_open(&bed);
    for (unsigned i = 0; i < 5; i++) {
        struct rec *r = get(&bed, p, i % 2 == 0 ? "127.0.0.1" : "localhost", ca.file);
        assert_int_equal(r->outcome, HTTP_OK);
        assert_int_equal(peer_accepted(p), i + 1);
        opens += opens_seen(watch); /* now: the kernel merges equal events */
        free(r);
    }
    assert_int_equal(opens, 1);
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
    close(watch);
}

static void test_session_resumed(void **state)
{
    struct issuer ca;
    struct bed bed;

    (void)state;
    issuer_init(&ca);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    SSL_CTX_set_session_id_context(tls, (const unsigned char *)"t", 1);
    struct peer *p = start(&ok_close, tls);
    bed_open(&bed);
    struct rec *r = get(&bed, p, "127.0.0.1", ca.file);
    free(r);
    /* The handle is taken by a call that gets no answer: another one has to know the session. */
    char url[64];
    struct peer *silent = start(&ok_close, NULL);
    struct rec *held = rec_new(&bed);
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", peer_port(silent));
    rec_start(held, &(struct http_request){.method = "GET", .url = url});
    r = get(&bed, p, "127.0.0.1", ca.file);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(held->ends, 0);
    assert_int_equal(peer_accepted(p), 2);
    assert_int_equal(peer_resumed(p), 1);
    bed_close(&bed);
    peer_stop(p);
    peer_stop(silent);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
    free(held);
    free(r);
}

/* ---- ends ---- */

static void expect_end(const struct plan *plan, enum http_outcome outcome)
{
    struct issuer ca;
    struct bed bed;

    issuer_init(&ca);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    struct peer *p = start(plan, tls);
    bed_open(&bed);
    struct rec *r = get(&bed, p, "127.0.0.1", ca.file);
    assert_int_equal(r->outcome, outcome);
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
    free(r);
}

static void test_ends(void **state)
{
    (void)state;
    expect_end(&(struct plan){"HTTP/1.1 200 OK\r\n\r\nby close", false, true, 0}, HTTP_OK);
    /* libcurl 7.88 does not tell this from an orderly close; should that change, so be it. */
    expect_end(&(struct plan){"HTTP/1.1 200 OK\r\n\r\nby cut", false, false, 0}, HTTP_OK);
    expect_end(&(struct plan){"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, false, 0},
               HTTP_OK);
    expect_end(&(struct plan){"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false, true, 0},
               HTTP_TRUNCATED);
    expect_end(&(struct plan){"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false,
                              true, 0},
               HTTP_BAD_RESPONSE);
    expect_end(&(struct plan){"", false, true, 0}, HTTP_RESET);
    expect_end(&(struct plan){"", false, false, 0}, HTTP_RESET);
}

static void pause_now(struct rec *r)
{
    http_call_pause(r->call);
}

/* Data that TLS has read and nobody waits for any more: only a kick after the resume brings it. */
static void test_pause(void **state)
{
    const size_t n = 1000000;
    struct plan plan = {"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", true, true, n};
    struct issuer ca;
    struct bed bed;
    char url[64];

    (void)state;
    issuer_init(&ca);
    SSL_CTX *tls = server_ctx(&ca, GOOD_SAN, 30);
    struct peer *p = start(&plan, tls);
    bed_open(&bed);
    struct rec *r = rec_new(&bed);
    r->on_bytes = pause_now;
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", peer_port(p));
    rec_start(r, &(struct http_request){.method = "GET", .url = url, .ca_file = ca.file});
    for (unsigned i = 0; i < 100000 && r->ends == 0; i++) {
        uv_run(loop_uv(bed.loop), UV_RUN_ONCE);
        if (r->call != NULL) {
            http_call_resume(r->call);
        }
    }
    assert_int_equal(r->ends, 1);
    assert_int_equal(r->outcome, HTTP_OK);
    assert_int_equal(r->bytes, n);
    assert_true(r->intact);
    bed_close(&bed);
    peer_stop(p);
    SSL_CTX_free(tls);
    issuer_fini(&ca);
    free(r);
}

/* ---- what stays in memory ---- */

#define SECRET_SIZE 32

/* Computed, so that the program holds no copy of its own. */
static char secret_byte(int i)
{
    return (char)('A' + (i * i + 5 * i) % 23);
}

static void make_secret(char secret[SECRET_SIZE])
{
    for (int i = 0; i < SECRET_SIZE; i++) {
        secret[i] = secret_byte(i);
    }
}

static bool matches(const char *p)
{
    for (int i = 0; i < SECRET_SIZE; i++) {
        if (p[i] != secret_byte(i)) {
            return false;
        }
    }
    return true;
}

static unsigned found_in(int mem, unsigned long from, unsigned long to)
{
    static char block[65536 + SECRET_SIZE];
    unsigned n = 0;

    for (unsigned long at = from; at < to; at += 65536) {
        ssize_t got = pread(mem, block, sizeof(block), (off_t)at);
        for (ssize_t i = 0; i + SECRET_SIZE <= got && i < 65536; i++) {
            unsigned long where = at + (unsigned long)i;
            bool own = where + SECRET_SIZE > (unsigned long)block &&
                       where < (unsigned long)block + sizeof(block);
            n += !own && matches(block + i);
        }
    }
    OPENSSL_cleanse(block, sizeof(block));
    return n;
}

/* Copies of the secret in all of the process's writable memory. */
static unsigned copies_of_secret(void)
{
    char line[512];
    unsigned n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

    assert_non_null(maps);
    assert_true(mem >= 0);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char *rest = NULL;
        unsigned long from = strtoul(line, &rest, 16);
        unsigned long to = strtoul(rest + 1, &rest, 16);
        /* A sanitizer's shadow is terabytes. */
        if (strncmp(rest, " rw", 3) == 0 && to - from < (256UL << 20)) {
            n += found_in(mem, from, to);
        }
    }
    fclose(maps);
    close(mem);
    return n;
}

enum call_end { END_COMPLETE, END_CANCEL, END_STOP };

static void key_is_wiped(enum call_end how)
{
    struct bed bed;
    char url[64];
    struct peer *p = start(&ok_keep, NULL);
    char *key = malloc(SECRET_SIZE);
    struct rec *r = NULL;

    assert_non_null(key);
    make_secret(key);
    assert_true(copies_of_secret() >= 1); /* the search finds what is there */
    const struct http_header h = {{"Authorization", 13}, {key, SECRET_SIZE}};
    bed_open(&bed);
    r = rec_new(&bed);
    rec_start(r, &(struct http_request){
                     .method = "POST", .url = bed_url(url, p), .headers = &h, .nheaders = 1});
    OPENSSL_cleanse(key, SECRET_SIZE);
    assert_true(copies_of_secret() >= 1); /* the call's own */
    if (how == END_COMPLETE) {
        rec_finish(r);
        assert_int_equal(r->outcome, HTTP_OK);
    } else if (how == END_CANCEL) {
        assert_true(bed_until(&bed, peer_has_accepted, p));
        http_call_cancel(r->call);
    }
    if (how != END_STOP) {
        peer_stop(p); /* the other end's stack */
        p = NULL;
        bed_ticks(&bed, 5);
        assert_int_equal(copies_of_secret(),
                         0); /* the handle waits in the pool: not there either */
    }
    bed_close(&bed);
    peer_stop(p);
    assert_int_equal(copies_of_secret(), 0);
    free(key);
    free(r);
}

static void test_key_is_wiped(void **state)
{
    (void)state;
    key_is_wiped(END_COMPLETE);
    key_is_wiped(END_CANCEL);
    key_is_wiped(END_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_plain_server), cmocka_unit_test(test_ca_separates_connections),
        cmocka_unit_test(test_ca_read_once), cmocka_unit_test(test_session_resumed),
        cmocka_unit_test(test_ends),         cmocka_unit_test(test_pause),
        cmocka_unit_test(test_key_is_wiped),
    };

    return cmocka_run_group_tests(tests, bed_set_up, bed_tear_down);
}
