/*
 * The provider type `bedrock`: Amazon Bedrock. This file has an answer's life and the proof of who
 * asks; bedrock_read.c reads what the answer says. A stream is not server-sent events but frames
 * (eventstream.h); after its messageStop comes the usage, and then nothing more. The router calls
 * it through provider_bedrock.
 */
#include "llm/bedrock_private.h"

#include "llm/reply.h"
#include "net/aws_keys.h"
#include "net/aws_sign.h"
#include "tactus/protocol.h"

#include <stdlib.h>

/* ---- an answer ---- */

static bool on_message(void *ctx, const struct eventstream_message *m)
{
    struct answer_feed *f = ctx;

    f->status = bedrock_message(f, m);
    return f->status == ANSWER_MORE;
}

static enum answer_status broken(struct answer_feed *f, const char *why)
{
    failure_init(f->failure, TACTUS_E_API_RESPONSE, "The provider's stream is damaged: %s", why);
    f->failure->retryable = FAILURE_NO;
    return ANSWER_FAILED;
}

static enum answer_status on_bytes(struct answer_feed *f, const char *bytes, size_t n)
{
    struct bedrock_answer *r = bedrock_answer(f->answer);

    enum err err = eventstream_feed(&r->frames, bytes, n, on_message, f);
    if (err == ERR_PROTO) {
        return broken(f, r->frames.why);
    }
    return err != ERR_OK && err != ERR_CLOSED ? answer_stop(f->failure, err) : f->status;
}

/* The body ended after messageStop. */
static enum answer_status on_complete(struct answer_feed *f)
{
    return eventstream_idle(&bedrock_answer(f->answer)->frames)
               ? ANSWER_COMPLETE
               : broken(f, "it ended in the middle of a frame");
}

static void bedrock_free(struct answer *a)
{
    struct bedrock_answer *r = bedrock_answer(a);

    answer_fini(&r->base);
    eventstream_fini(&r->frames);
    buf_fini(&r->calls);
    buf_fini(&r->signature);
    free(r);
}

static struct answer *bedrock_answer_new(const struct provider *p, const struct answer_head *head)
{
    static const struct answer_ops ops = {
        .bytes = on_bytes, .body = bedrock_body, .complete = on_complete, .free = bedrock_free};
    struct bedrock_answer *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    answer_init(&r->base, p, &ops, head);
    eventstream_init(&r->frames, p->max_reply_bytes);
    buf_init(&r->calls, REPLY_CALLS_MAX * sizeof(struct bedrock_call));
    buf_init(&r->signature, p->max_reply_bytes);
    return &r->base;
}

/* ---- who asks ---- */

static enum err cannot_sign(struct failure *failure, const char *why)
{
    failure_init(failure, TACTUS_E_API_AUTHENTICATION, "The request cannot be signed: %s", why);
    failure->retryable = FAILURE_NO;
    return ERR_PROTO;
}

/* The plain headers, all of which are signed. */
static size_t plain_headers(const struct provider_http *out, struct http_header *list)
{
    for (size_t i = 0; i < out->nheaders; i++) {
        list[i] =
            (struct http_header){span_str(out->header_name[i]), buf_span(&out->header_text[i])};
    }
    return out->nheaders;
}

static enum err bedrock_authorize(const struct provider *p, const struct provider_auth *auth,
                                  struct provider_http *out, struct failure *failure)
{
    struct http_header headers[PROVIDER_HEADERS_MAX];
    struct aws_sign_input in = {.region = p->region,
                                .service = BEDROCK_SERVICE,
                                .time = auth->now_ms / 1000,
                                .method = "POST",
                                .url = buf_cstr(&out->url),
                                .headers = headers,
                                .body = buf_span(&out->body)};
    struct aws_signature signature;
    struct error e = {0};

    if (auth->aws == NULL) {
        return cannot_sign(failure, "there are no AWS credentials");
    }
    in.nheaders = plain_headers(out, headers);
    in.access_key_id = auth->aws->access_key_id;
    in.secret = auth->aws->secret;
    in.session_token = auth->aws->session_token;
    enum err err = aws_sign(&in, &signature, &e);
    if (err != ERR_OK) {
        return err == ERR_NOMEM ? err : cannot_sign(failure, e.msg);
    }
    buf_put_str(provider_http_header(out, "X-Amz-Date"), signature.date);
    buf_put_str(provider_http_header(out, "Authorization"), signature.authorization);
    if (in.session_token.n > 0) {
        err = provider_http_secret(out, "X-Amz-Security-Token", "", in.session_token, failure);
    }
    return err == ERR_OK ? provider_http_status(out) : err;
}

const struct provider_ops provider_bedrock = {
    .type = "bedrock",
    .signs = true,
    .build = bedrock_build,
    .authorize = bedrock_authorize,
    .answer_new = bedrock_answer_new,
};
