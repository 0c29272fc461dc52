/*
 * Signature Version 4: see aws_sign.h. The canonical request is never built as a text: its pieces
 * go into the hash as they come, so that no copy of a session token is made and nothing has to
 * grow. What a secret key is turned into lies on the stack of derive() and sign(), which wipe it.
 */
#include "net/aws_sign.h"

#include "base/text.h"
#include "net/aws_url.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define ALGORITHM      "AWS4-HMAC-SHA256"
#define KEY_PREFIX     "AWS4"
#define TERMINATION    "aws4_request"
#define OUR_HEADERS    4 /* Host, X-Amz-Date, -Security-Token, -Content-Sha256 */
#define SCOPE_NAME_MAX 64

struct header {
    struct span name;
    struct span value;
    size_t place; /* repeated names keep their order */
};

struct parameter {
    struct span name;
    struct span value;
};

struct signing {
    const struct aws_sign_input *in;
    struct aws_url url;
    bool s3;
    struct header headers[AWS_SIGN_HEADERS_MAX + OUR_HEADERS];
    size_t nheaders;
    struct parameter query[AWS_SIGN_QUERY_MAX];
    size_t nquery;
    char names[512];                     /* "host;x-amz-date" */
    char scope[2 * SCOPE_NAME_MAX + 32]; /* "20150830/us-east-1/iam/aws4_request" */
    char canonical[SHA256_HEX_SIZE];     /* hash of the canonical request */
    struct aws_signature out;
};

/* ---- bytes ---- */

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;

    return u >= 'A' && u <= 'Z' ? (unsigned char)(u + 'a' - 'A') : u;
}

/* Visible ASCII only, at least one. */
static bool is_visible(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~') {
            return false;
        }
    }
    return s.n > 0;
}

static bool is_name(struct span s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

/* One text in the canonical encoding, character by character: unreserved ones as they are, others
 * as %XX. `decode`: what is %XX already is undone first. */
struct encoder {
    struct span rest;
    bool decode;
    unsigned char byte; /* whose digits are still to come */
    unsigned digits;
};

static unsigned char encoder_take(struct encoder *e)
{
    const char *p = e->rest.p;

    if (e->decode && e->rest.n >= 3 && p[0] == '%' && text_hex_digit(p[1]) >= 0 &&
        text_hex_digit(p[2]) >= 0) {
        e->rest = span_after(e->rest, 3);
        return (unsigned char)(text_hex_digit(p[1]) * 16 + text_hex_digit(p[2]));
    }
    e->rest = span_after(e->rest, 1);
    return (unsigned char)p[0];
}

/* The next character, or -1 at the end. */
static int encoder_next(struct encoder *e)
{
    static const char digits[] = "0123456789ABCDEF";

    if (e->digits > 0) {
        e->digits--;
        return digits[e->digits == 1 ? e->byte >> 4 : e->byte & 15];
    }
    if (e->rest.n == 0) {
        return -1; /* the end */
    }
    unsigned char c = encoder_take(e);
    bool alnum = (c >= '0' && c <= '9') || (lower((char)c) >= 'a' && lower((char)c) <= 'z');
    if (alnum || c == '-' || c == '.' || c == '_' || c == '~') {
        return c;
    }
    e->byte = c;
    e->digits = 2;
    return '%';
}

static void put(struct sha256 *h, const char *text)
{
    sha256_add(h, span_str(text));
}

static void put_encoded(struct sha256 *h, struct span s, bool decode)
{
    struct encoder e = {.rest = s, .decode = decode};
    char piece[64];
    size_t n = 0;

    for (int c = encoder_next(&e); c >= 0; c = encoder_next(&e)) {
        piece[n++] = (char)c;
        if (n == sizeof(piece)) {
            sha256_add(h, span_of(piece, n));
            n = 0;
        }
    }
    sha256_add(h, span_of(piece, n));
}

static void put_lower(struct sha256 *h, struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = (char)lower(s.p[i]);
        sha256_add(h, span_of(&c, 1));
    }
}

/* Without white space around it, and one space where there is some inside. */
static void put_folded(struct sha256 *h, struct span s)
{
    bool begun = false;
    size_t at = 0;

    while (at < s.n) {
        size_t start = at;
        while (at < s.n && s.p[at] != ' ' && s.p[at] != '\t') {
            at++;
        }
        if (at > start) {
            put(h, begun ? " " : "");
            sha256_add(h, span_of(s.p + start, at - start));
            begun = true;
        }
        at += at < s.n ? 1 : 0;
    }
}

/* ---- what is signed ---- */

static void add_header(struct signing *s, struct span name, struct span value)
{
    s->headers[s->nheaders] = (struct header){name, value, s->nheaders};
    s->nheaders++;
}

static enum err check_header(const struct http_header *h, struct error *e)
{
    static const char *const ours[] = {"host", "authorization", "x-amz-date",
                                       "x-amz-security-token", "x-amz-content-sha256"};

    if (!is_visible(h->name) || memchr(h->name.p, ':', h->name.n) != NULL) {
        return err_set(e, ERR_CONFIG, "a header name cannot be signed");
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (is_name(h->name, ours[i])) {
            return err_set(e, ERR_CONFIG, "header %s is not the caller's to sign", ours[i]);
        }
    }
    for (size_t i = 0; i < h->value.n; i++) {
        unsigned char c = (unsigned char)h->value.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return err_set(e, ERR_CONFIG, "a header's value has a control character");
        }
    }
    return ERR_OK;
}

static int compare_headers(const void *left, const void *right)
{
    const struct header *a = left;
    const struct header *b = right;

    for (size_t i = 0; i < a->name.n && i < b->name.n; i++) {
        int d = (int)lower(a->name.p[i]) - (int)lower(b->name.p[i]);
        if (d != 0) {
            return d;
        }
    }
    if (a->name.n != b->name.n) {
        return a->name.n < b->name.n ? -1 : 1;
    }
    return a->place < b->place ? -1 : 1;
}

static bool same_name(const struct header *a, const struct header *b)
{
    return a->name.n == b->name.n && strncasecmp(a->name.p, b->name.p, a->name.n) == 0;
}

static bool add_name(struct signing *s, struct span name)
{
    size_t at = strlen(s->names);

    if (at + name.n + 2 > sizeof(s->names)) {
        return false;
    }
    if (at > 0) {
        s->names[at++] = ';';
    }
    for (size_t i = 0; i < name.n; i++) {
        s->names[at++] = (char)lower(name.p[i]);
    }
    s->names[at] = '\0';
    return true;
}

/* All headers in their order, and their list of names. */
static enum err collect_headers(struct signing *s, struct error *e)
{
    const struct aws_sign_input *in = s->in;

    if (in->nheaders > AWS_SIGN_HEADERS_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d headers to sign", AWS_SIGN_HEADERS_MAX);
    }
    for (size_t i = 0; i < in->nheaders; i++) {
        enum err rc = check_header(&in->headers[i], e);
        if (rc != ERR_OK) {
            return rc;
        }
        add_header(s, in->headers[i].name, in->headers[i].value);
    }
    add_header(s, SPAN("host"), s->url.authority);
    add_header(s, SPAN("x-amz-date"), span_str(s->out.date));
    if (in->session_token.n > 0) {
        add_header(s, SPAN("x-amz-security-token"), in->session_token);
    }
    if (in->content_sha256) {
        add_header(s, SPAN("x-amz-content-sha256"), span_str(s->out.content_sha256));
    }
    qsort(s->headers, s->nheaders, sizeof(s->headers[0]), compare_headers);
    for (size_t i = 0; i < s->nheaders; i++) {
        if (i > 0 && same_name(&s->headers[i - 1], &s->headers[i])) {
            continue;
        }
        if (!add_name(s, s->headers[i].name)) {
            return err_set(e, ERR_LIMIT, "the names of the headers to sign are too long");
        }
    }
    return ERR_OK;
}

static int compare_encoded(struct span left, struct span right)
{
    struct encoder a = {.rest = left, .decode = true};
    struct encoder b = {.rest = right, .decode = true};
    int x = 0;
    int y = 0;

    while (x == y && x >= 0) {
        x = encoder_next(&a);
        y = encoder_next(&b);
    }
    return x - y;
}

static int compare_parameters(const void *left, const void *right)
{
    const struct parameter *a = left;
    const struct parameter *b = right;
    int d = compare_encoded(a->name, b->name);

    return d != 0 ? d : compare_encoded(a->value, b->value);
}

static enum err collect_query(struct signing *s, struct error *e)
{
    struct span rest = s->url.query;

    while (rest.n > 0) {
        const char *and = memchr(rest.p, '&', rest.n);
        size_t n = and == NULL ? rest.n : (size_t)(and-rest.p);
        struct span one = span_of(rest.p, n);
        rest = span_after(rest, and == NULL ? n : n + 1);
        if (n == 0) {
            continue;
        }
        if (s->nquery == AWS_SIGN_QUERY_MAX) {
            return err_set(e, ERR_LIMIT, "the URL's query has more than %d parameters",
                           AWS_SIGN_QUERY_MAX);
        }
        const char *equals = memchr(one.p, '=', one.n);
        struct span name = equals == NULL ? one : span_of(one.p, (size_t)(equals - one.p));
        struct span value = equals == NULL ? (struct span){NULL, 0} : span_after(one, name.n + 1);
        s->query[s->nquery++] = (struct parameter){name, value};
    }
    qsort(s->query, s->nquery, sizeof(s->query[0]), compare_parameters);
    return ERR_OK;
}

/* ---- the canonical request ---- */

/* The segment up to the next slash; *rest is what follows that, absent after the last one. */
static struct span next_segment(struct span *rest)
{
    const char *slash = memchr(rest->p, '/', rest->n);
    size_t n = slash == NULL ? rest->n : (size_t)(slash - rest->p);
    struct span segment = span_of(rest->p, n);

    *rest = slash == NULL ? (struct span){NULL, 0} : span_after(*rest, n + 1);
    return segment;
}

/* S3's names of objects may have empty and dotted segments: all stay. */
static void put_path_s3(struct sha256 *h, struct span path)
{
    struct span rest = span_after(path, 1);

    while (rest.p != NULL) {
        put(h, "/");
        put_encoded(h, next_segment(&rest), true);
    }
}

/* "//", "/." and "/.." are resolved, as AWS does before it compares. */
static enum err put_path_normal(struct sha256 *h, struct span path, struct error *e)
{
    struct span kept[AWS_SIGN_SEGMENTS_MAX];
    struct span rest = span_after(path, 1);
    size_t n = 0;
    bool open = false; /* it ends with a slash */

    while (rest.p != NULL) {
        struct span segment = next_segment(&rest);
        bool up = span_eq(segment, SPAN(".."));
        open = up || segment.n == 0 || span_eq(segment, SPAN("."));
        if (up && n > 0) {
            n--;
        }
        if (open) {
            continue;
        }
        if (n == AWS_SIGN_SEGMENTS_MAX) {
            return err_set(e, ERR_LIMIT, "the URL's path has more than %d segments",
                           AWS_SIGN_SEGMENTS_MAX);
        }
        kept[n++] = segment;
    }
    for (size_t i = 0; i < n; i++) {
        put(h, "/");
        put_encoded(h, kept[i], false);
    }
    put(h, n == 0 || open ? "/" : "");
    return ERR_OK;
}

static enum err put_path(struct sha256 *h, const struct signing *s, struct error *e)
{
    if (s->url.path.n == 0) {
        put(h, "/");
        return ERR_OK;
    }
    if (s->s3) {
        put_path_s3(h, s->url.path);
        return ERR_OK;
    }
    return put_path_normal(h, s->url.path, e);
}

static void put_query(struct sha256 *h, const struct signing *s)
{
    for (size_t i = 0; i < s->nquery; i++) {
        put(h, i > 0 ? "&" : "");
        put_encoded(h, s->query[i].name, true);
        put(h, "=");
        put_encoded(h, s->query[i].value, true);
    }
}

static void put_headers(struct sha256 *h, const struct signing *s)
{
    for (size_t i = 0; i < s->nheaders; i++) {
        const struct header *one = &s->headers[i];
        if (i > 0 && same_name(&s->headers[i - 1], one)) {
            put(h, ",");
        } else {
            put(h, i > 0 ? "\n" : "");
            put_lower(h, one->name);
            put(h, ":");
        }
        put_folded(h, one->value);
    }
    put(h, "\n");
}

static enum err hash_request(struct signing *s, struct error *e)
{
    struct sha256 *h = sha256_new();

    if (h == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a signature");
    }
    put(h, s->in->method);
    put(h, "\n");
    enum err rc = put_path(h, s, e);
    if (rc != ERR_OK) {
        sha256_free(h);
        return rc;
    }
    put(h, "\n");
    put_query(h, s);
    put(h, "\n");
    put_headers(h, s);
    put(h, "\n");
    put(h, s->names);
    put(h, "\n");
    put(h, s->out.content_sha256);
    return sha256_end(h, s->canonical) ? ERR_OK
                                       : err_set(e, ERR_NOMEM, "the hash of a request failed");
}

/* ---- the signature ---- */

static bool mac(unsigned char key[SHA256_SIZE], const char *text)
{
    unsigned char result[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    bool ok = HMAC(EVP_sha256(), key, (int)SHA256_SIZE, (const unsigned char *)text, strlen(text),
                   result, &n) != NULL &&
              n == SHA256_SIZE;

    if (ok) {
        memcpy(key, result, SHA256_SIZE);
    }
    OPENSSL_cleanse(result, sizeof(result));
    return ok;
}

/* The key of this day, region and service. */
static bool derive(const struct signing *s, unsigned char key[SHA256_SIZE])
{
    unsigned char first[sizeof(KEY_PREFIX) - 1 + AWS_SECRET_MAX];
    size_t n = sizeof(KEY_PREFIX) - 1;
    unsigned made = 0;
    char day[9];

    memcpy(first, KEY_PREFIX, n);
    memcpy(first + n, s->in->secret.p, s->in->secret.n);
    n += s->in->secret.n;
    memcpy(day, s->out.date, 8);
    day[8] = '\0';
    bool ok = HMAC(EVP_sha256(), first, (int)n, (const unsigned char *)day, 8, key, &made) != NULL;
    OPENSSL_cleanse(first, sizeof(first));
    return ok && mac(key, s->in->region) && mac(key, s->in->service) && mac(key, TERMINATION);
}

static enum err sign(struct signing *s, struct error *e)
{
    unsigned char key[EVP_MAX_MD_SIZE];
    char text[sizeof(ALGORITHM) + AWS_DATE_SIZE + sizeof(s->scope) + SHA256_HEX_SIZE];
    char hex[SHA256_HEX_SIZE];

    (void)snprintf(text, sizeof(text), ALGORITHM "\n%s\n%s\n%s", s->out.date, s->scope,
                   s->canonical);
    bool ok = derive(s, key) && mac(key, text);
    if (ok) {
        text_put_hex(key, SHA256_SIZE, hex);
    }
    OPENSSL_cleanse(key, sizeof(key));
    if (!ok) {
        return err_set(e, ERR_NOMEM, "the signature of a request failed");
    }
    hex[SHA256_HEX_SIZE - 1] = '\0';
    int n = snprintf(s->out.authorization, sizeof(s->out.authorization),
                     ALGORITHM " Credential=%.*s/%s, SignedHeaders=%s, Signature=%s",
                     (int)s->in->access_key_id.n, s->in->access_key_id.p, s->scope, s->names, hex);
    if (n < 0 || (size_t)n >= sizeof(s->out.authorization)) {
        return err_set(e, ERR_LIMIT, "the Authorization header is too long");
    }
    return ERR_OK;
}

/* ---- input ---- */

static bool is_scope_name(const char *name)
{
    struct span s = span_str(name);

    return is_visible(s) && s.n <= SCOPE_NAME_MAX && memchr(s.p, '/', s.n) == NULL;
}

static enum err check_input(const struct aws_sign_input *in, struct error *e)
{
    struct span id = in->access_key_id;

    if (!is_visible(id) || id.n > 128 || memchr(id.p, '/', id.n) != NULL) {
        return err_set(e, ERR_CONFIG, "the access key id cannot be one");
    }
    if (!is_visible(in->secret) || in->secret.n > AWS_SECRET_MAX) {
        return err_set(e, ERR_CONFIG, "the secret access key cannot be one");
    }
    if (in->session_token.n > 0 && !is_visible(in->session_token)) {
        return err_set(e, ERR_CONFIG, "the session token cannot be one");
    }
    if (!is_scope_name(in->region) || !is_scope_name(in->service)) {
        return err_set(e, ERR_CONFIG, "region or service cannot be a name");
    }
    if (!is_visible(span_str(in->method))) {
        return err_set(e, ERR_CONFIG, "the request method cannot be signed");
    }
    return ERR_OK;
}

static bool set_date(struct signing *s)
{
    time_t seconds = (time_t)s->in->time;
    struct tm tm;

    if (s->in->time < 0 || gmtime_r(&seconds, &tm) == NULL || tm.tm_year > 8099 ||
        strftime(s->out.date, sizeof(s->out.date), "%Y%m%dT%H%M%SZ", &tm) != AWS_DATE_SIZE - 1) {
        return false;
    }
    (void)snprintf(s->scope, sizeof(s->scope), "%.8s/%s/%s/" TERMINATION, s->out.date,
                   s->in->region, s->in->service);
    return true;
}

enum err aws_sign(const struct aws_sign_input *in, struct aws_signature *out, struct error *e)
{
    struct signing s = {.in = in};

    enum err rc = check_input(in, e);
    if (rc != ERR_OK) {
        return rc;
    }
    rc = aws_url_parse(in->url, &s.url, e);
    if (rc != ERR_OK) {
        return rc;
    }
    s.s3 = strcmp(in->service, "s3") == 0;
    if (!set_date(&s)) {
        return err_set(e, ERR_CONFIG, "the time of a signature cannot be a date");
    }
    if (!sha256_hex(in->body, s.out.content_sha256)) {
        return err_set(e, ERR_NOMEM, "out of memory for a signature");
    }
    rc = collect_headers(&s, e);
    if (rc == ERR_OK) {
        rc = collect_query(&s, e);
    }
    if (rc == ERR_OK) {
        rc = hash_request(&s, e);
    }
    if (rc == ERR_OK) {
        rc = sign(&s, e);
    }
    if (rc == ERR_OK) {
        *out = s.out;
    }
    return rc;
}
