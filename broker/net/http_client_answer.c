/*
 * The answer: libcurl's header and body callbacks, and what the end of a transfer means.
 *
 * Both callbacks run inside libcurl. To end a transfer from there they refuse the bytes; libcurl
 * may call again all the same (a resumed transfer, curl#13337), so they refuse every time.
 */
#include "net/http_client_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

void http_call_set_end(struct http_call *call, enum http_outcome outcome, const char *fmt, ...)
{
    va_list ap;

    call->outcome = outcome;
    va_start(ap, fmt);
    (void)vsnprintf(call->detail, sizeof(call->detail), fmt, ap);
    va_end(ap);
}

void http_call_time_out(struct http_call *call, enum http_outcome outcome, const char *what,
                        uint32_t ms)
{
    bool whole = ms % 1000 == 0;

    http_call_set_end(call, outcome, "%s within %u %s", what, whole ? ms / 1000 : ms,
                      whole ? "s" : "ms");
}

/* ---- head ---- */

static const char *keep(struct http_call *call, struct span s)
{
    const char *p = arena_dup(&call->head_mem, s);

    if (p == NULL) {
        http_call_set_end(call, HTTP_NOMEM, "out of memory for an answer's head");
        call->aborted = true;
        return "";
    }
    return p;
}

static void head_reset(struct http_call *call)
{
    arena_fini(&call->head_mem);
    arena_init(&call->head_mem, (size_t)2 * HTTP_HEAD_MAX);
    call->head = (struct http_head){.content_type = "",
                                    .content_encoding = "",
                                    .request_id = "",
                                    .retry_after = "",
                                    .retry_after_ms = ""};
}

static bool is_name(struct span s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void head_field(struct http_call *call, struct span line)
{
    const char *colon = memchr(line.p, ':', line.n);

    if (colon == NULL) {
        return;
    }
    struct span name = {line.p, (size_t)(colon - line.p)};
    struct span value = {colon + 1, line.n - name.n - 1};
    while (value.n > 0 && is_blank(value.p[0])) {
        value = span_of(value.p + 1, value.n - 1);
    }
    while (value.n > 0 && is_blank(value.p[value.n - 1])) {
        value.n--;
    }
    if (is_name(name, "content-type")) {
        call->head.content_type = keep(call, value);
    } else if (is_name(name, "content-encoding")) {
        call->head.content_encoding = keep(call, value);
    } else if (is_name(name, "x-request-id")) {
        call->head.request_id = keep(call, value);
    } else if (is_name(name, "request-id") && call->head.request_id[0] == '\0') {
        call->head.request_id = keep(call, value);
    } else if (is_name(name, "retry-after")) {
        call->head.retry_after = keep(call, value);
    } else if (is_name(name, "retry-after-ms")) {
        call->head.retry_after_ms = keep(call, value);
    }
}

/* "HTTP/1.1 200 OK": libcurl has checked the form. */
static void head_status(struct http_call *call, struct span line)
{
    const char *p = memchr(line.p, ' ', line.n);
    int status = 0;

    head_reset(call);
    for (int i = 1; p != NULL && i <= 3; i++) {
        if (p + i >= line.p + line.n || p[i] < '0' || p[i] > '9') {
            status = 0;
            break;
        }
        status = status * 10 + (p[i] - '0');
    }
    call->status = status;
    if (status < 100 || status == 101) {
        http_call_set_end(call, HTTP_BAD_RESPONSE, "not a usable status line");
        call->aborted = true;
        return;
    }
    if (status >= 200 && !call->answering) {
        call->answering = true;
        http_call_rearm(call);
    }
}

static void head_end(struct http_call *call)
{
    if (call->status < 200) {
        return;
    }
    call->head_done = true;
    call->head.status = call->status;
    if (!call->released) {
        call->handler.on_head(call->ctx, &call->head);
    }
    arena_fini(&call->head_mem);
}

size_t http_answer_on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct http_call *call = ctx;
    size_t total = size * n;
    struct span s = {line, total};

    if (call->state == HTTP_CALL_DEAD || call->aborted) {
        return 0;
    }
    call->last_byte_at = loop_now(call->client->loop);
    call->head_bytes += total;
    if (call->head_bytes > HTTP_HEAD_MAX) {
        http_call_set_end(call, HTTP_BAD_RESPONSE, "the answer's headers are larger than %u bytes",
                          HTTP_HEAD_MAX);
        call->aborted = true;
        return 0;
    }
    if (call->head_done) {
        return total; /* a trailer */
    }
    if (total > 5 && memcmp(line, "HTTP/", 5) == 0) {
        head_status(call, s);
    } else if (line[0] == '\r' || line[0] == '\n') {
        head_end(call);
    } else {
        head_field(call, s);
    }
    return call->state == HTTP_CALL_DEAD || call->aborted ? 0 : total;
}

size_t http_answer_on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct http_call *call = ctx;
    size_t total = size * n;

    if (call->state == HTTP_CALL_DEAD || call->aborted) {
        return CURL_WRITEFUNC_ERROR;
    }
    if (call->released || total == 0) {
        return total;
    }
    if (call->paused) {
        call->blocked = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    call->last_byte_at = loop_now(call->client->loop);
    call->handler.on_bytes(call->ctx, p, total);
    return call->state == HTTP_CALL_DEAD ? CURL_WRITEFUNC_ERROR : total;
}

/* ---- end ---- */

static long info_long(const struct http_call *call, CURLINFO what)
{
    long value = 0;

    return curl_easy_getinfo(call->easy, what, &value) == CURLE_OK ? value : 0;
}

bool http_answer_stale(const struct http_call *call, CURLcode code)
{
    return (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING) &&
           !call->retried && !call->released && call->head_bytes == 0 &&
           info_long(call, CURLINFO_NUM_CONNECTS) == 0;
}

static enum http_outcome broken_off(const struct http_call *call, CURLcode code)
{
    if (info_long(call, CURLINFO_HTTP_CONNECTCODE) >= 300) {
        return HTTP_CONNECT_FAILED; /* the proxy refused the tunnel */
    }
    /* 7.88 gives this code for a bad chunk too; only the text tells. */
    if (call->head_done && strstr(call->detail, "chunk") != NULL) {
        return HTTP_BAD_RESPONSE;
    }
    /* No error of the socket: TLS found its records cut. */
    if (code == CURLE_RECV_ERROR && info_long(call, CURLINFO_OS_ERRNO) == 0 && call->answering) {
        return HTTP_TRUNCATED;
    }
    return HTTP_RESET;
}

static enum http_outcome outcome_of(const struct http_call *call, CURLcode code)
{
    switch (code) {
    case CURLE_PARTIAL_FILE:
        return HTTP_TRUNCATED;
    case CURLE_GOT_NOTHING:
        return call->answering ? HTTP_TRUNCATED : HTTP_RESET;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return broken_off(call, code);
    case CURLE_OUT_OF_MEMORY: /* also a header line longer than libcurl's own limit */
        return http_memory_failures() != call->nomem_before ? HTTP_NOMEM : HTTP_BAD_RESPONSE;
    case CURLE_FAILED_INIT:
        return HTTP_NOMEM;
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9 */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
    case CURLE_WRITE_ERROR:
        return HTTP_BAD_RESPONSE;
    case CURLE_OPERATION_TIMEDOUT: /* the connect time-out is the only one libcurl was given */
        return HTTP_TIMEOUT_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_SHUTDOWN_FAILED:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_USE_SSL_FAILED:
        return HTTP_TLS_FAILED;
    default:
        return call->answering ? HTTP_TRUNCATED : HTTP_CONNECT_FAILED;
    }
}

void http_answer_end(struct http_call *call, CURLcode code)
{
    if (call->aborted) {
        return;
    }
    if (code == CURLE_OK) {
        if (call->head_done) {
            http_call_set_end(call, HTTP_OK, "complete");
        } else {
            http_call_set_end(call, call->head_bytes == 0 ? HTTP_RESET : HTTP_TRUNCATED,
                              "the connection closed inside the answer's head");
        }
        return;
    }
    call->outcome = outcome_of(call, code);
    if (call->outcome == HTTP_TIMEOUT_CONNECT) {
        http_call_time_out(call, call->outcome, "no connection", call->connect_ms);
    } else if (call->detail[0] == '\0') {
        http_call_set_end(call, call->outcome, "%s", curl_easy_strerror(code));
    }
}
