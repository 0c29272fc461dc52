/*
 * From a request to an easy handle ready to run. Handles are reused: what never changes is set
 * once, what a request brings is set each time and cleared when the handle goes back to the pool.
 *
 * Everything the environment or a server could slip in is off here: proxy variables, redirects,
 * other protocols, decompression, HTTP/0.9, credentials in URLs.
 */
#include "net/http_client_private.h"

#include <stdlib.h>
#include <strings.h>

#define CA_BUNDLE "/etc/ssl/certs/ca-certificates.crt"

static bool set_network(struct http_client *client, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           /* Without it, cancelling a call that waits for a silent resolver blocks the loop. */
           curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SHARE, client->share) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, http_driver_open) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, http_driver_close) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 60L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 20L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, HTTP_READ_SIZE) == CURLE_OK;
}

/* An empty CAPATH (not Debian's default directory) lets libcurl keep the parsed bundle. */
static bool set_tls(CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, CA_BUNDLE) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) ==
               CURLE_OK;
}

static bool set_http(CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOPROXY, "") == CURLE_OK &&
           /* A proxy must not see what is meant for the provider behind it. */
           curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_answer_on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_answer_on_body) == CURLE_OK;
}

static CURL *easy_take(struct http_client *client)
{
    if (client->npool > 0) {
        return client->pool[--client->npool];
    }
    CURL *easy = curl_easy_init();
    if (easy == NULL) {
        return NULL;
    }
    if (!set_network(client, easy) || !set_tls(easy) || !set_http(easy)) {
        curl_easy_cleanup(easy);
        return NULL;
    }
    return easy;
}

static bool easy_clear(CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK && /* last: it sets the method */
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_URL, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, NULL) == CURLE_OK;
}

void http_request_finish(struct http_call *call)
{
    struct http_client *client = call->client;

    if (call->easy != NULL) {
        /* A proxy's credentials live on inside a handle: such a handle is not kept. */
        if (easy_clear(call->easy) && !call->proxied && !client->closing &&
            client->npool < HTTP_POOL_MAX) {
            client->pool[client->npool++] = call->easy;
        } else {
            curl_easy_cleanup(call->easy);
        }
        call->easy = NULL;
    }
    http_memory_free(call->headers);
    call->headers = NULL;
}

/* ---- headers ---- */

static bool is_token(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && (c == 0 || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return s.n > 0;
}

static bool is_field_value(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_name(struct span s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static struct span trim(struct span s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s = span_of(s.p + 1, s.n - 1);
    }
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) {
        s.n--;
    }
    return s;
}

static enum err check_header(const struct http_header *h, struct error *e)
{
    if (!is_token(h->name)) {
        return err_set(e, ERR_CONFIG, "a header name cannot be sent");
    }
    if (!is_field_value(h->value)) {
        return err_set(e, ERR_CONFIG, "the value of header %.*s has a line break or control byte",
                       h->name.n > 64 ? 64 : (int)h->name.n, h->name.p);
    }
    if (is_name(h->name, "content-length") || is_name(h->name, "transfer-encoding") ||
        is_name(h->name, "expect")) {
        return err_set(e, ERR_CONFIG, "header %.*s is not the caller's to set", (int)h->name.n,
                       h->name.p);
    }
    return ERR_OK;
}

struct header_block {
    struct curl_slist *nodes;
    size_t n;
    char *text;
};

static void put_text(struct header_block *b, const char *p, size_t n)
{
    if (n > 0) {
        memcpy(b->text, p, n);
        b->text += n;
    }
}

/* libcurl's grammar: "Name: value", "Name;" to send an empty value, "Name:" to send none at all. */
static void put_header(struct header_block *b, struct span name, const char *mark,
                       struct span value)
{
    struct curl_slist *node = &b->nodes[b->n];

    node->data = b->text;
    node->next = NULL;
    if (b->n > 0) {
        b->nodes[b->n - 1].next = node;
    }
    b->n++;
    put_text(b, name.p, name.n);
    put_text(b, mark, strlen(mark));
    put_text(b, value.p, value.n);
    *b->text++ = '\0';
}

/* One block instead of a libcurl list: one allocation, and one place to wipe. */
static enum err build_headers(struct http_call *call, const struct http_request *request,
                              struct error *e)
{
    size_t size = 2 * (sizeof(struct curl_slist) + sizeof("Content-Type:"));
    bool typed = false;

    for (size_t i = 0; i < request->nheaders; i++) {
        const struct http_header *h = &request->headers[i];
        enum err rc = check_header(h, e);
        if (rc != ERR_OK) {
            return rc;
        }
        typed = typed || is_name(h->name, "content-type");
        size += sizeof(struct curl_slist) + h->name.n + h->value.n + sizeof(": ");
        if (size > HTTP_REQUEST_HEAD_MAX) {
            return err_set(e, ERR_CONFIG, "the request's headers are larger than %u bytes",
                           HTTP_REQUEST_HEAD_MAX);
        }
    }
    call->headers = http_memory_alloc(size);
    if (call->headers == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a request's headers");
    }
    struct header_block b = {.nodes = call->headers};
    b.text = (char *)(b.nodes + request->nheaders + 2);
    put_header(&b, SPAN("Expect"), ":", (struct span){NULL, 0});
    for (size_t i = 0; i < request->nheaders; i++) {
        struct span value = trim(request->headers[i].value);
        put_header(&b, request->headers[i].name, value.n == 0 ? ";" : ": ", value);
    }
    if (!typed) { /* libcurl would name a form's type */
        put_header(&b, SPAN("Content-Type"), ":", (struct span){NULL, 0});
    }
    return ERR_OK;
}

/* ---- the request line and the rest ---- */

static enum err check_url(const char *url, struct error *e)
{
    size_t scheme = strncasecmp(url, "http://", 7) == 0    ? 7
                    : strncasecmp(url, "https://", 8) == 0 ? 8
                                                           : 0;

    if (scheme == 0) {
        return err_set(e, ERR_CONFIG, "the URL does not begin with http:// or https://");
    }
    if (url[scheme] == '/') { /* libcurl would take the path's first part for the host */
        return err_set(e, ERR_CONFIG, "the URL names no host");
    }
    CURLU *u = curl_url();
    if (u == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a URL");
    }
    CURLUcode rc = curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    curl_url_cleanup(u);
    if (rc == CURLUE_OUT_OF_MEMORY) {
        return err_set(e, ERR_NOMEM, "out of memory for a URL");
    }
    if (rc != CURLUE_OK) {
        return err_set(e, ERR_CONFIG, "the URL cannot be used: %s", curl_url_strerror(rc));
    }
    return ERR_OK;
}

static bool set_method(CURL *easy, const struct http_request *request)
{
    bool get = strcmp(request->method, "GET") == 0;
    bool post = strcmp(request->method, "POST") == 0;

    if (request->body.n > 0 || post) {
        const char *body = request->body.n > 0 ? request->body.p : "";
        if (curl_easy_setopt(easy, CURLOPT_POST, 1L) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.n) !=
                CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) != CURLE_OK) {
            return false;
        }
        return post || curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK;
    }
    return curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           (get || curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK);
}

static bool set_request(struct http_call *call, const struct http_request *request)
{
    CURL *easy = call->easy;
    /* libcurl's 0 is its own default, not "none". */
    long connect_ms = request->connect_ms == 0 ? INT32_MAX : (long)request->connect_ms;
    const char *ca = request->ca_file == NULL ? CA_BUNDLE : request->ca_file;
    const char *proxy = request->proxy == NULL ? "" : request->proxy;

    return set_method(easy, request) &&
           curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLCERT, request->cert_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLKEY, request->key_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, proxy) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CAINFO, ca) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->detail) == CURLE_OK;
}

enum err http_request_prepare(struct http_call *call, const struct http_request *request,
                              struct error *e)
{
    if (!is_token(span_str(request->method)) || strcmp(request->method, "HEAD") == 0) {
        return err_set(e, ERR_CONFIG, "the request method cannot be sent");
    }
    enum err rc = check_url(request->url, e);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = build_headers(call, request, e);
    if (rc != ERR_OK) {
        return rc;
    }
    call->body_size = request->body.n;
    call->proxied = request->proxy != NULL && request->proxy[0] != '\0';
    call->easy = easy_take(call->client);
    if (call->easy == NULL || !set_request(call, request)) {
        return err_set(e, ERR_NOMEM, "out of memory for a request");
    }
    return ERR_OK;
}
