/*
 * The TLS half of a stream: OpenSSL over two memory BIOs.
 *
 * Ciphertext in: socket -> rbio -> SSL_read -> owner. Out: s->out -> SSL_write -> wbio -> `cipher`
 * -> socket. A memory BIO grows without bound, so plaintext is only fed while little ciphertext
 * waits (CIPHER_MAX). After any SSL call the wbio is flushed: alerts, tickets and key updates too.
 */
#include "base/log.h"
#include "net/stream_private.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#define CIPHER_MAX (64u * 1024u) /* ciphertext waiting, above which no more is made */
#define RECORD_MAX (16u * 1024u) /* plaintext of one TLS record */
/* Ciphertext waiting that OpenSSL made by itself, above which the peer is cut off: one that asks
 * for answers (key updates) and does not read them. */
#define ANSWERS_MAX (4u * CIPHER_MAX)

struct stream_tls {
    SSL *ssl;
    BIO *rbio;
    BIO *wbio;
    struct buf cipher; /* taken from wbio, not yet taken by the socket */
    bool failed;       /* a fatal TLS error: no SSL call any more */
};

static enum err tls_failed(struct stream *s, const char *what)
{
    char text[160];

    s->tls->failed = true;
    tls_error_text(text, sizeof(text));
    log_debug("tls", LOG_MSG(what), LOG_STR("reason", text));
    stream_want_flush(s); /* an alert may be waiting */
    return ERR_PROTO;
}

static enum err handshake(struct stream *s)
{
    struct stream_tls *t = s->tls;

    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    int why = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, rc);
    stream_want_flush(s);
    if (why == SSL_ERROR_NONE) {
        stream_opened(s);
        return ERR_OK;
    }
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        return ERR_AGAIN;
    }
    return tls_failed(s, "handshake failed");
}

/* Decrypts and delivers until nothing is left or the owner wants no more. */
static enum err pump_in(struct stream *s)
{
    struct stream_tls *t = s->tls;
    char *plain = loop_plain_buffer(s->loop);

    while (stream_wants_input(s)) {
        ERR_clear_error();
        int n = SSL_read(t->ssl, plain, (int)LOOP_READ_SIZE);
        if (n > 0) {
            (void)stream_deliver(s, plain, (size_t)n);
            continue;
        }
        int why = SSL_get_error(t->ssl, n);
        stream_want_flush(s);
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
            return ERR_OK;
        }
        if (why == SSL_ERROR_ZERO_RETURN) {
            stream_saw_eof(s);
            return ERR_OK;
        }
        return tls_failed(s, "read failed");
    }
    return ERR_OK;
}

static enum err advance(struct stream *s)
{
    if (s->tls->failed) {
        return ERR_PROTO;
    }
    if (s->state == STREAM_OPENING) {
        enum err rc = handshake(s);
        if (rc != ERR_OK) {
            return rc == ERR_AGAIN ? ERR_OK : rc;
        }
    }
    return pump_in(s);
}

static enum err tls_output(struct stream *s);

static enum err tls_input(struct stream *s, const char *p, size_t n)
{
    ERR_clear_error();
    if (BIO_write(s->tls->rbio, p, (int)n) != (int)n) {
        return ERR_NOMEM;
    }
    enum err rc = advance(s);
    if (rc == ERR_PROTO && s->state != STREAM_CLOSED) {
        (void)tls_output(s); /* the alert, as far as it goes */
    }
    if (rc == ERR_OK && s->state != STREAM_CLOSED && s->ops->pending(s) > ANSWERS_MAX) {
        return ERR_LIMIT;
    }
    return rc;
}

/* ---- output ---- */

/* Makes ciphertext of queued plaintext while little of it waits. */
static enum err encrypt(struct stream *s)
{
    struct stream_tls *t = s->tls;

    while (s->out.bytes > 0 && s->state != STREAM_OPENING && !t->failed &&
           BIO_ctrl_pending(t->wbio) < CIPHER_MAX) {
        struct iovec iov;
        if (bufq_peek(&s->out, &iov, 1) == 0) {
            break;
        }
        size_t n = iov.iov_len < RECORD_MAX ? iov.iov_len : RECORD_MAX;
        ERR_clear_error();
        int rc = SSL_write(t->ssl, iov.iov_base, (int)n);
        if (rc > 0) {
            bufq_consume(&s->out, (size_t)rc);
            continue;
        }
        int why = SSL_get_error(t->ssl, rc);
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
            break;
        }
        return tls_failed(s, "write failed");
    }
    return ERR_OK;
}

static enum err send_cipher(struct stream *s)
{
    struct stream_tls *t = s->tls;

    while (t->cipher.len > 0) {
        struct iovec iov = {.iov_base = t->cipher.p, .iov_len = t->cipher.len};
        size_t done = 0;
        enum err rc = stream_send(s, &iov, 1, &done);
        if (rc != ERR_OK) {
            return rc;
        }
        buf_consume(&t->cipher, done);
    }
    return ERR_OK;
}

/* One round: encrypt, then move what the wbio holds through the loop's buffer to the socket. */
static enum err output_round(struct stream *s)
{
    struct stream_tls *t = s->tls;
    enum err rc = encrypt(s);

    if (rc != ERR_OK) {
        return rc;
    }
    while (BIO_ctrl_pending(t->wbio) > 0) {
        char *buffer = loop_plain_buffer(s->loop);
        int n = BIO_read(t->wbio, buffer, (int)LOOP_READ_SIZE);
        if (n <= 0) {
            break;
        }
        struct iovec iov = {.iov_base = buffer, .iov_len = (size_t)n};
        size_t done = 0;
        rc = stream_send(s, &iov, 1, &done);
        if (rc != ERR_OK && rc != ERR_AGAIN) {
            return rc;
        }
        if (done < (size_t)n) {
            buf_put(&t->cipher, buffer + done, (size_t)n - done);
            enum err kept = buf_status(&t->cipher);
            return kept != ERR_OK ? kept : ERR_AGAIN;
        }
    }
    return ERR_OK;
}

static enum err tls_output(struct stream *s)
{
    struct stream_tls *t = s->tls;
    enum err rc = send_cipher(s);

    if (rc != ERR_OK) {
        return rc;
    }
    buf_fini(&t->cipher);
    for (int round = 0; round < 16; round++) {
        rc = output_round(s);
        if (rc != ERR_OK) {
            return rc;
        }
        if (s->out.bytes == 0 || s->state == STREAM_OPENING) {
            return ERR_OK;
        }
    }
    stream_want_flush(s);
    return ERR_OK;
}

static void tls_end(struct stream *s)
{
    struct stream_tls *t = s->tls;

    if (t->failed || !SSL_is_init_finished(t->ssl)) {
        return;
    }
    if (s->eof && s->eof_means_gone && (SSL_get_shutdown(t->ssl) & SSL_RECEIVED_SHUTDOWN) == 0) {
        return; /* a bare FIN: nobody is there to read it */
    }
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl);
}

static size_t tls_pending(const struct stream *s)
{
    return BIO_ctrl_pending(s->tls->wbio) + s->tls->cipher.len;
}

static void tls_free(struct stream *s)
{
    if (s->tls != NULL) {
        SSL_free(s->tls->ssl); /* and both BIOs */
        buf_fini(&s->tls->cipher);
        free(s->tls);
        s->tls = NULL;
    }
}

const struct stream_ops stream_tls_ops = {
    .input = tls_input,
    .resume = advance,
    .output = tls_output,
    .end = tls_end,
    .pending = tls_pending,
    .free = tls_free,
};

/* As the client: the handshake begins with us, and the certificate must be the host's. */
static bool expect_host(SSL *ssl, const char *host)
{
    SSL_set_connect_state(ssl);
    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    return tls_expect_host(ssl, host);
}

enum err stream_tls_new(struct stream *s, const struct stream_options *options, struct error *e)
{
    struct stream_tls *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a TLS connection");
    }
    buf_init(&t->cipher, 4 * CIPHER_MAX);
    ERR_clear_error();
    t->ssl = SSL_new(options->tls);
    t->rbio = BIO_new(BIO_s_mem());
    t->wbio = BIO_new(BIO_s_mem());
    if (t->ssl == NULL || t->rbio == NULL || t->wbio == NULL) {
        SSL_free(t->ssl);
        BIO_free(t->rbio);
        BIO_free(t->wbio);
        free(t);
        ERR_clear_error();
        return err_set(e, ERR_NOMEM, "out of memory for a TLS connection");
    }
    BIO_set_mem_eof_return(t->rbio, -1);
    BIO_set_mem_eof_return(t->wbio, -1);
    SSL_set_bio(t->ssl, t->rbio, t->wbio);
    s->tls = t;
    s->ops = &stream_tls_ops;
    if (options->tls_host == NULL) {
        SSL_set_accept_state(t->ssl);
    } else if (!expect_host(t->ssl, options->tls_host)) {
        tls_free(s);
        return err_set(e, ERR_NOMEM, "out of memory for a TLS connection");
    }
    return ERR_OK;
}

void stream_peer_names(struct stream *s, bool (*take)(void *ctx, const char *name), void *ctx)
{
    if (s->tls != NULL) {
        tls_peer_names(s->tls->ssl, take, ctx);
    }
}
