/*
 * Certificates that --dev makes for itself: a throw-away CA and one server certificate for the
 * names under which a container or a person on this host reaches the broker.
 */
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define VALID_SECONDS (30L * 24 * 3600)
#define SERVER_NAMES  "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:host.docker.internal,IP:172.17.0.1"

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = ext != NULL && X509_add_ext(cert, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[16];
    bool ok = false;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
        return false;
    }
    bytes[0] &= 0x7f; /* a serial number is positive */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    if (number != NULL) {
        ok = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    }
    BN_free(number);
    return ok;
}

/* A certificate without its extensions and signature; `issuer` NULL makes it its own issuer. */
static X509 *new_certificate(const char *common_name, EVP_PKEY *key, X509 *issuer)
{
    X509 *cert = X509_new();
    bool ok =
        cert != NULL && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -300) != NULL &&
        X509_gmtime_adj(X509_getm_notAfter(cert), VALID_SECONDS) != NULL &&
        X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                   (const unsigned char *)common_name, -1, -1, 0) == 1 &&
        X509_set_issuer_name(cert, X509_get_subject_name(issuer == NULL ? cert : issuer)) == 1 &&
        X509_set_pubkey(cert, key) == 1;
    if (!ok) {
        X509_free(cert);
        return NULL;
    }
    return cert;
}

static X509 *make_ca(EVP_PKEY *key)
{
    X509 *cert = new_certificate("Tactus development CA", key, NULL);
    bool ok = cert != NULL &&
              add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
              X509_sign(cert, key, EVP_sha256()) > 0;
    if (!ok) {
        X509_free(cert);
        return NULL;
    }
    return cert;
}

static X509 *make_server(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key)
{
    X509 *cert = new_certificate("localhost", key, ca);
    bool ok = cert != NULL && add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") &&
              add_extension(cert, ca, NID_ext_key_usage, "serverAuth") &&
              add_extension(cert, ca, NID_subject_alt_name, SERVER_NAMES) &&
              add_extension(cert, ca, NID_subject_key_identifier, "hash") &&
              add_extension(cert, ca, NID_authority_key_identifier, "keyid") &&
              X509_sign(cert, ca_key, EVP_sha256()) > 0;
    if (!ok) {
        X509_free(cert);
        return NULL;
    }
    return cert;
}

/* Writes `cert` or, when it is NULL, `key` as PEM. */
static enum err write_pem(const char *dir, const char *name, mode_t mode, X509 *cert, EVP_PKEY *key,
                          struct error *e)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path)) {
        return err_set(e, ERR_CONFIG, "path too long: %s/%s", dir, name);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return err_sys(e, ERR_IO, errno, "cannot write %s", path);
    }
    FILE *f = fdopen(fd, "w");
    if (f == NULL) {
        close(fd);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    int ok = cert != NULL ? PEM_write_X509(f, cert)
                          : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    int closed = fclose(f);
    if (ok != 1 || closed != 0) {
        return err_set(e, ERR_IO, "cannot write %s", path);
    }
    return ERR_OK;
}

enum err tls_make_dev_certificates(const char *dir, struct error *e)
{
    EVP_PKEY *ca_key = EVP_EC_gen("P-256");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *ca = ca_key == NULL ? NULL : make_ca(ca_key);
    X509 *server = ca == NULL || key == NULL ? NULL : make_server(key, ca, ca_key);
    enum err rc = ERR_OK;

    if (server == NULL) {
        char text[160];
        tls_error_text(text, sizeof(text));
        rc = err_set(e, ERR_IO, "cannot make certificates: %s", text);
        goto out;
    }
    rc = write_pem(dir, "ca.pem", 0644, ca, NULL, e);
    if (rc == ERR_OK) {
        rc = write_pem(dir, "server.pem", 0644, server, NULL, e);
    }
    if (rc == ERR_OK) {
        rc = write_pem(dir, "server.key", 0600, NULL, key, e);
    }
out:
    X509_free(server);
    X509_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return rc;
}
