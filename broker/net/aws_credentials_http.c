/*
 * The sources that are asked over HTTP: a container's endpoint, the instance metadata service. One
 * exchange is one block of memory; it goes from step to step, and its last word is one call
 * of aws_credentials_done, which frees it. Called by aws_credentials.c within a fetch.
 *
 * Nothing of an answer's body gets into a message: it may be anybody's, or hold a secret.
 */
#include "net/aws_credentials_private.h"
#include "net/aws_url.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define METADATA_IPV4 "http://169.254.169.254"
#define METADATA_IPV6 "http://[fd00:ec2::254]"
#define ROLES         "/latest/meta-data/iam/security-credentials/"
#define ROLE_MAX      128
#define TOKEN_TTL     "21600" /* seconds, the most there is; one fetch needs it */

static void send_request(struct aws_exchange *x);

static const char *source_of(const struct aws_exchange *x)
{
    return x->step == AWS_STEP_CONTAINER ? "container" : "instance metadata";
}

/* The exchange is gone afterwards. */
static void end_with(struct aws_exchange *x, enum err code, const char *why)
{
    struct error e = {0};

    (void)err_set(&e, code, "%s: %s", source_of(x), why);
    aws_credentials_done(x->owner, NULL, &e);
}

/* ---- answers ---- */

static struct span trimmed(struct span s)
{
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r' || s.p[s.n - 1] == ' ')) {
        s.n--;
    }
    return s;
}

static bool visible(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~') {
            return false;
        }
    }
    return s.n > 0;
}

/* IAM's names of roles: nothing that could lead a path elsewhere. */
static bool is_role(struct span s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && (c == '\0' || strchr("+=,.@-_", c) == NULL)) {
            return false;
        }
    }
    return s.n > 0 && s.n <= ROLE_MAX && !span_eq(s, SPAN(".")) && !span_eq(s, SPAN(".."));
}

static void next_step(struct aws_exchange *x, enum aws_step step, const char *path,
                      struct span more)
{
    int n = snprintf(x->url, sizeof(x->url), "%s%s%.*s", x->base, path, (int)more.n, more.p);

    if (n < 0 || (size_t)n >= sizeof(x->url)) {
        end_with(x, ERR_CONFIG, "the endpoint's URL is too long");
        return;
    }
    x->step = step;
    x->retried = false;
    send_request(x);
}

static void take_token(struct aws_exchange *x)
{
    struct span token = trimmed(span_of(x->answer, x->n));

    if (!visible(token) || token.n > AWS_SESSION_MAX) {
        end_with(x, ERR_UPSTREAM, "the answer to the request for a token is none");
        return;
    }
    memcpy(x->session, token.p, token.n);
    x->session[token.n] = '\0';
    next_step(x, AWS_STEP_ROLE, ROLES, (struct span){"", 0});
}

static void take_role(struct aws_exchange *x)
{
    const char *line = memchr(x->answer, '\n', x->n);
    struct span role =
        trimmed(span_of(x->answer, line != NULL ? (size_t)(line - x->answer) : x->n));

    if (!is_role(role)) {
        end_with(x, ERR_UPSTREAM, "the answer to the request for the role's name is none");
        return;
    }
    next_step(x, AWS_STEP_KEYS, ROLES, role);
}

static void take_keys(struct aws_exchange *x)
{
    struct aws_keys *keys = NULL;
    struct error e = {0};

    enum err rc = aws_keys_read(span_of(x->answer, x->n), x->step == AWS_STEP_KEYS, &keys, &e);
    if (rc != ERR_OK) {
        end_with(x, rc == ERR_PROTO ? ERR_UPSTREAM : rc, e.msg);
        return;
    }
    aws_credentials_done(x->owner, keys, NULL);
}

static void take_answer(struct aws_exchange *x)
{
    static const char *const what[] = {[AWS_STEP_CONTAINER] = "credentials",
                                       [AWS_STEP_TOKEN] = "a token",
                                       [AWS_STEP_ROLE] = "the role's name",
                                       [AWS_STEP_KEYS] = "credentials"};
    char why[128];

    if (x->status == 404 && x->step == AWS_STEP_ROLE) {
        end_with(x, ERR_CONFIG, "the instance has no role");
        return;
    }
    if (x->status != 200) {
        (void)snprintf(why, sizeof(why), "status %d to the request for %s", x->status,
                       what[x->step]);
        end_with(x, ERR_UPSTREAM, why);
        return;
    }
    switch (x->step) {
    case AWS_STEP_TOKEN:
        take_token(x);
        break;
    case AWS_STEP_ROLE:
        take_role(x);
        break;
    case AWS_STEP_CONTAINER:
    case AWS_STEP_KEYS:
        take_keys(x);
        break;
    }
}

/* ---- one request ---- */

static void on_head(void *ctx, const struct http_head *head)
{
    struct aws_exchange *x = ctx;

    x->status = head->status;
}

static void on_bytes(void *ctx, const char *p, size_t n)
{
    struct aws_exchange *x = ctx;

    if (n > sizeof(x->answer) - x->n) {
        end_with(x, ERR_LIMIT, "the answer is too large");
        return;
    }
    memcpy(x->answer + x->n, p, n);
    x->n += n;
}

static bool is_worth_a_retry(const struct aws_exchange *x, enum http_outcome outcome)
{
    if (x->retried || loop_now(x->owner->loop) >= x->end) {
        return false;
    }
    return outcome != HTTP_OK || x->status == 429 || x->status >= 500;
}

static enum err code_of(enum http_outcome outcome)
{
    return outcome == HTTP_NOMEM ? ERR_NOMEM : outcome == HTTP_STOPPED ? ERR_CLOSED : ERR_UPSTREAM;
}

static void on_end(void *ctx, const struct http_end *end)
{
    struct aws_exchange *x = ctx;
    bool late = end->outcome == HTTP_TIMEOUT_TOTAL || end->outcome == HTTP_TIMEOUT_CONNECT;

    x->call = NULL;
    if (is_worth_a_retry(x, end->outcome)) {
        x->retried = true;
        send_request(x);
    } else if (end->outcome == HTTP_OK) {
        take_answer(x);
    } else if (late) {
        char why[128];
        (void)snprintf(why, sizeof(why), "no answer within %u ms%s", x->owner->total_ms,
                       x->step == AWS_STEP_TOKEN ? " (from a container: too few hops allowed?)"
                                                 : "");
        end_with(x, ERR_UPSTREAM, why);
    } else {
        end_with(x, code_of(end->outcome), end->detail);
    }
}

static size_t set_headers(const struct aws_exchange *x, struct http_header headers[2])
{
    size_t n = 0;

    headers[n++] = (struct http_header){SPAN("Accept"), SPAN("*/*")};
    if (x->step == AWS_STEP_TOKEN) {
        headers[n++] =
            (struct http_header){SPAN("X-aws-ec2-metadata-token-ttl-seconds"), SPAN(TOKEN_TTL)};
    } else if (x->step != AWS_STEP_CONTAINER) {
        headers[n++] = (struct http_header){SPAN("X-aws-ec2-metadata-token"), span_str(x->session)};
    } else if (x->authorization[0] != '\0') {
        headers[n++] = (struct http_header){SPAN("Authorization"), span_str(x->authorization)};
    }
    return n;
}

static enum err start(struct aws_exchange *x, struct error *e)
{
    const struct http_handler handler = {on_head, on_bytes, on_end};
    struct aws_credentials *c = x->owner;
    struct http_header headers[2];
    uint64_t now = loop_now(c->loop);
    uint32_t left = now < x->end ? (uint32_t)(x->end - now) : 1;
    const struct http_request request = {.method = x->step == AWS_STEP_TOKEN ? "PUT" : "GET",
                                         .url = x->url,
                                         .headers = headers,
                                         .nheaders = set_headers(x, headers),
                                         .connect_ms = c->connect_ms < left ? c->connect_ms : left,
                                         .total_ms = left};

    x->n = 0;
    x->status = 0;
    return http_client_start(c->client, &request, &handler, x, &x->call, e);
}

static void send_request(struct aws_exchange *x)
{
    struct error e = {0};
    enum err rc = start(x, &e);

    if (rc != ERR_OK) {
        end_with(x, rc, e.msg);
    }
}

/* ---- where ---- */

/* The content of the token file, or the token in the environment, into x->authorization. */
static enum err authorize(struct aws_exchange *x, struct error *e)
{
    const struct aws_environment *env = x->owner->env;
    const char *path = aws_environment_get(env, AWS_ENV_CONTAINER_TOKEN_FILE);
    struct span token = span_str(aws_environment_get(env, AWS_ENV_CONTAINER_TOKEN));
    struct aws_file file = {0};
    struct error why = {0};

    if (path != NULL) {
        enum err rc = aws_file_read(path, AWS_ANSWER_MAX - 1, &file, &why);
        if (rc != ERR_OK) {
            return err_set(e, rc == ERR_AGAIN ? ERR_CONFIG : rc, "container: token file %s %s",
                           path, why.msg);
        }
        token = trimmed(span_of(file.p, file.n));
    }
    enum err rc = ERR_OK;
    for (size_t i = 0; i < token.n; i++) {
        if (token.p[i] < ' ' || token.p[i] > '~') {
            rc = err_set(e, ERR_CONFIG,
                         "container: the authorization token has a line break or the like");
        }
    }
    if (rc == ERR_OK && token.n >= sizeof(x->authorization)) {
        rc = err_set(e, ERR_LIMIT, "container: the authorization token is too long");
    }
    if (rc == ERR_OK && token.n > 0) {
        memcpy(x->authorization, token.p, token.n);
        x->authorization[token.n] = '\0';
    }
    aws_file_free(&file);
    return rc;
}

static enum err to_container(struct aws_exchange *x, struct error *e)
{
    const struct aws_credentials *c = x->owner;
    const char *relative = aws_environment_get(c->env, AWS_ENV_CONTAINER_RELATIVE_URI);
    const char *full = aws_environment_get(c->env, AWS_ENV_CONTAINER_FULL_URI);
    struct aws_url url;

    x->step = AWS_STEP_CONTAINER;
    if (relative != NULL && relative[0] != '/') {
        return err_set(e, ERR_CONFIG, "container: %s does not begin with a slash",
                       aws_environment_name(AWS_ENV_CONTAINER_RELATIVE_URI));
    }
    int n = snprintf(x->url, sizeof(x->url), "%s%s", relative != NULL ? c->container_host : "",
                     relative != NULL ? relative : full);
    if (n < 0 || (size_t)n >= sizeof(x->url)) {
        return err_set(e, ERR_CONFIG, "container: the endpoint's URL is too long");
    }
    if (aws_url_parse(x->url, &url, e) != ERR_OK) {
        return err_wrap(e, "container");
    }
    if (!url.https && !aws_url_is_local(url.host)) {
        return err_set(e, ERR_CONFIG,
                       "container: %s is neither https nor an address of this host or of an agent",
                       aws_environment_name(AWS_ENV_CONTAINER_FULL_URI));
    }
    return authorize(x, e);
}

static enum err to_metadata(struct aws_exchange *x, struct error *e)
{
    const struct aws_environment *env = x->owner->env;
    const char *off = aws_environment_get(env, AWS_ENV_METADATA_DISABLED);
    const char *base = aws_environment_get(env, AWS_ENV_METADATA_ENDPOINT);
    const char *mode = aws_environment_get(env, AWS_ENV_METADATA_ENDPOINT_MODE);
    struct aws_url url;

    x->step = AWS_STEP_TOKEN;
    if (off != NULL && strcasecmp(off, "true") == 0) {
        return err_set(e, ERR_CONFIG, "instance metadata: switched off by %s",
                       aws_environment_name(AWS_ENV_METADATA_DISABLED));
    }
    if (base == NULL && mode != NULL && strcasecmp(mode, "ipv4") != 0 &&
        strcasecmp(mode, "ipv6") != 0) {
        return err_set(e, ERR_CONFIG, "instance metadata: %s is neither IPv4 nor IPv6",
                       aws_environment_name(AWS_ENV_METADATA_ENDPOINT_MODE));
    }
    if (base == NULL) {
        base = mode != NULL && strcasecmp(mode, "ipv6") == 0 ? METADATA_IPV6 : METADATA_IPV4;
    }
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/') {
        n--;
    }
    if (n + sizeof("/latest/api/token") > sizeof(x->url)) {
        return err_set(e, ERR_CONFIG, "instance metadata: the endpoint's URL is too long");
    }
    memcpy(x->base, base, n);
    x->base[n] = '\0';
    if (aws_url_parse(x->base, &url, e) != ERR_OK) {
        return err_wrap(e, "instance metadata");
    }
    (void)snprintf(x->url, sizeof(x->url), "%.*s/latest/api/token", (int)n, base);
    return ERR_OK;
}

enum err aws_exchange_begin(struct aws_credentials *c, struct error *e)
{
    bool container = aws_environment_get(c->env, AWS_ENV_CONTAINER_RELATIVE_URI) != NULL ||
                     aws_environment_get(c->env, AWS_ENV_CONTAINER_FULL_URI) != NULL;
    struct aws_exchange *x = calloc(1, sizeof(*x));

    if (x == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for asking for credentials");
    }
    x->owner = c;
    x->end = loop_now(c->loop) + c->total_ms;
    if (!container) {
        aws_credentials_note(c, "container: no endpoint is set");
    }
    enum err rc = container ? to_container(x, e) : to_metadata(x, e);
    if (rc == ERR_OK) {
        rc = start(x, e);
        if (rc != ERR_OK) {
            (void)err_wrap(e, "%s", source_of(x));
        }
    }
    if (rc != ERR_OK) {
        aws_exchange_free(x);
        return rc;
    }
    c->exchange = x;
    return ERR_OK;
}

void aws_exchange_free(struct aws_exchange *x)
{
    if (x != NULL) {
        http_call_cancel(x->call);
        OPENSSL_cleanse(x, sizeof(*x));
        free(x);
    }
}
