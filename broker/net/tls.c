/* TLS contexts: files in, SSL_CTX out, with errors that name the file. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define HOST_SIZE 254 /* a DNS name and the NUL */

void tls_error_text(char *out, size_t size)
{
    unsigned long code = ERR_get_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);

    if (reason != NULL) {
        snprintf(out, size, "%s", reason);
    } else if (code != 0) {
        ERR_error_string_n(code, out, size);
    } else {
        snprintf(out, size, "no reason given");
    }
    ERR_clear_error();
}

static enum err fail(const char *what, const char *file, struct error *e)
{
    char text[200];

    tls_error_text(text, sizeof(text));
    return err_set(e, ERR_CONFIG, "%s %s: %s", what, file, text);
}

static enum err load_own(SSL_CTX *ctx, const char *cert_file, const char *key_file, struct error *e)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1) {
        return fail("certificate", cert_file, e);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1) {
        return fail("private key", key_file, e);
    }
    if (SSL_CTX_check_private_key(ctx) != 1) {
        ERR_clear_error();
        return err_set(e, ERR_CONFIG, "private key %s does not belong to certificate %s", key_file,
                       cert_file);
    }
    return ERR_OK;
}

static enum err load_client_ca(SSL_CTX *ctx, const char *client_ca, struct error *e)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(client_ca);
    if (names == NULL || SSL_CTX_load_verify_locations(ctx, client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail("client CA", client_ca, e);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return ERR_OK;
}

static bool set_options(SSL_CTX *ctx)
{
    static const unsigned char session_context[] = "tactus";
    char groups[] = "X25519:P-256:P-384"; /* the macro takes no const */

    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets need none */
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set1_groups_list(ctx, groups) == 1 && SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
           SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1) == 1;
}

enum err tls_server_new(const char *cert_file, const char *key_file, const char *client_ca,
                        SSL_CTX **out, struct error *e)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    enum err rc = ERR_OK;

    if (ctx == NULL || !set_options(ctx)) {
        rc = fail("cannot set up TLS for", cert_file, e);
    } else {
        rc = load_own(ctx, cert_file, key_file, e);
    }
    if (rc == ERR_OK && client_ca != NULL) {
        rc = load_client_ca(ctx, client_ca, e);
    }
    if (rc != ERR_OK) {
        SSL_CTX_free(ctx);
        return rc;
    }
    *out = ctx;
    return ERR_OK;
}

enum err tls_client_new(const char *ca_file, const char *cert_file, const char *key_file,
                        SSL_CTX **out, struct error *e)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    enum err rc = ERR_OK;

    if (ctx == NULL || !set_options(ctx)) {
        rc = fail("cannot set up TLS for", cert_file, e);
    } else if (SSL_CTX_load_verify_locations(ctx, ca_file, NULL) != 1) {
        rc = fail("CA", ca_file, e);
    } else {
        rc = load_own(ctx, cert_file, key_file, e);
    }
    if (rc != ERR_OK) {
        SSL_CTX_free(ctx);
        return rc;
    }
    *out = ctx;
    return ERR_OK;
}

void tls_server_free(SSL_CTX *ctx)
{
    SSL_CTX_free(ctx);
}

/* An address is not sent as a server name (RFC 6066). */
bool tls_expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    char name[HOST_SIZE];
    struct in_addr v4;
    size_t n = strcspn(host, "%");
    bool v6 = strchr(host, ':') != NULL;

    if (n >= sizeof(name)) {
        return false;
    }
    memcpy(name, host, n);
    name[n] = '\0';
    if (v6 || inet_pton(AF_INET, name, &v4) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    }
    if (n > 1 && name[n - 1] == '.') {
        name[n - 1] = '\0'; /* the root's dot is in no certificate */
    }
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, name) == 1;
}

static bool give_name(const GENERAL_NAME *name, bool (*take)(void *ctx, const char *name),
                      void *ctx)
{
    int kind = 0;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &kind);

    if (kind != GEN_DNS && kind != GEN_EMAIL && kind != GEN_URI) {
        return false;
    }
    char *text = NULL;
    int n = ASN1_STRING_to_UTF8((unsigned char **)&text, value);
    if (n < 0) {
        return false;
    }
    bool taken = strlen(text) == (size_t)n && take(ctx, text);
    OPENSSL_free(text);
    return taken;
}

void tls_peer_names(SSL *ssl, bool (*take)(void *ctx, const char *name), void *ctx)
{
    X509 *cert = SSL_get_verify_result(ssl) == X509_V_OK ? SSL_get0_peer_certificate(ssl) : NULL;
    GENERAL_NAMES *names =
        cert == NULL ? NULL : X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        if (give_name(sk_GENERAL_NAME_value(names, i), take, ctx)) {
            break;
        }
    }
    GENERAL_NAMES_free(names);
}
