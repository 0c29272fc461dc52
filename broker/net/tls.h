/*
 * TLS server contexts from PEM files, and certificates for --dev. One context a listener, shared by
 * all loops, so that a session ticket issued by one is accepted by the others.
 *
 * TLS 1.2 and 1.3, X25519 first, one session ticket, no renegotiation, no compression, no ALPN
 * needed.
 */
#ifndef TACTUS_NET_TLS_H
#define TACTUS_NET_TLS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

/*
 * `client_ca` NULL: clients need no certificate; else one that this CA signed is required.
 * ERR_CONFIG with a message that names the file and what is wrong: cannot be read, no PEM, key and
 * certificate do not match. Any thread.
 */
enum err tls_server_new(const char *cert_file, const char *key_file, const char *client_ca,
                        SSL_CTX **out, struct error *e) MUST_CHECK;
void tls_server_free(SSL_CTX *ctx);

/* For a client that trusts `ca_file` alone and shows `cert_file` and `key_file`. ERR_CONFIG as
 * above. Freed with tls_server_free. */
enum err tls_client_new(const char *ca_file, const char *cert_file, const char *key_file,
                        SSL_CTX **out, struct error *e) MUST_CHECK;

/* For a client's `ssl`, before its handshake: the certificate must be that of `host`, a name or a
 * literal address; a name is told to the server too. False: out of memory, or no name. */
bool tls_expect_host(SSL *ssl, const char *host);

/* Calls `take` for each name (DNS, e-mail, URI) in the verified certificate that the peer of `ssl`
 * showed, until it returns true. Names with NUL inside are left out. */
void tls_peer_names(SSL *ssl, bool (*take)(void *ctx, const char *name), void *ctx);

/* Appends the text of OpenSSL's oldest queued error of this thread, and empties the queue. */
void tls_error_text(char *out, size_t size);

/*
 * Makes a fresh CA and a server certificate (localhost, 127.0.0.1, ::1, host.docker.internal; 30
 * days) in the existing directory `dir`: ca.pem, server.pem, server.key (mode 0600). The CA's key
 * is never written.
 */
enum err tls_make_dev_certificates(const char *dir, struct error *e) MUST_CHECK;

#endif
