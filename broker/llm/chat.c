/*
 * llm.chat: from params to a provider call, from neutral events to `delta` and `done`.
 *
 * A chat owns its call and its reply; it ends once: on_end, or on_cancel when the client left. Text
 * of the provider passes the redactor (exact secrets only), also when a secret is cut over deltas.
 */
#include "llm/chat.h"

#include "base/redact.h"
#include "base/text.h"
#include "llm/charge.h"
#include "llm/chat_params.h"
#include "llm/reply.h"
#include "llm/router.h"
#include "net/loop.h"
#include "tactus/protocol.h"
#include "wire/request.h"

#include <stdlib.h>

struct chat {
    struct request *request;
    struct llm_call *call;
    struct reply reply;
    struct charge charge;
    struct config *config; /* a reference: its redactor is used to the end */
    bool stream;
    uint64_t streamed; /* text bytes sent in deltas */
    /* What the redactor holds back belongs to one channel: text, reasoning, or one call's
     * arguments. */
    struct redact_stream scrub;
    enum chat_event_kind channel;
    uint32_t channel_call;
    struct buf clean;
    struct buf names[2]; /* scrubbed whole: a call's id and name, the model */
};

static void chat_free(struct chat *c, const struct target *target, enum charge_end end)
{
    charge_settle(&c->charge, &c->reply, target, end);
    reply_fini(&c->reply);
    redact_stream_fini(&c->scrub);
    buf_fini(&c->clean);
    buf_fini(&c->names[0]);
    buf_fini(&c->names[1]);
    config_unref(c->config);
    free(c);
}

/* One event into the reply and, when streaming, to the client. */
static enum err pass_on(struct chat *c, const struct chat_event *event)
{
    enum err rc = reply_add(&c->reply, event);
    bool shown = event->kind == CHAT_EVENT_TEXT || event->kind == CHAT_EVENT_REASONING ||
                 event->kind == CHAT_EVENT_TOOL;

    if (rc != ERR_OK || !c->stream || !shown) {
        return rc;
    }
    struct buf *b = loop_scratch(request_loop(c->request));
    buf_clear(b);
    reply_put_delta(event, b);
    rc = buf_status(b);
    if (rc == ERR_OK) {
        rc = request_event(c->request, "delta", buf_span(b));
    }
    if (rc == ERR_OK && event->kind == CHAT_EVENT_TEXT) {
        c->streamed += event->text.n;
    }
    return rc;
}

/* First-generation clients read lines of at most 64 KiB: long text goes in pieces. */
static enum err pass_in_pieces(struct chat *c, struct chat_event event, struct span rest)
{
    enum err rc = ERR_OK;

    do {
        size_t n = text_cut(rest.p, rest.n, TACTUS_DELTA_TEXT_MAX);
        if (event.kind == CHAT_EVENT_TOOL) {
            event.tool.arguments = span_of(rest.p, n);
        } else {
            event.text = span_of(rest.p, n);
        }
        rc = pass_on(c, &event);
        event.tool.id = (struct span){NULL, 0};
        event.tool.name = (struct span){NULL, 0};
        rest = span_after(rest, n);
    } while (rc == ERR_OK && rest.n > 0);
    return rc;
}

/* What the redactor let through, as events of its channel. */
static enum err pass_clean(struct chat *c, struct span id, struct span name)
{
    struct chat_event event = {.kind = c->channel};
    struct span part = buf_span(&c->clean);
    enum err rc = buf_status(&c->clean);

    event.tool.call = c->channel_call;
    event.tool.id = id;
    event.tool.name = name;
    if (rc == ERR_OK && (part.n > 0 || id.n > 0 || name.n > 0)) {
        rc = pass_in_pieces(c, event, part);
    }
    buf_clear(&c->clean);
    return rc;
}

static enum err flush_channel(struct chat *c)
{
    const struct span none = {NULL, 0};

    redact_stream_end(&c->scrub, &c->clean);
    return pass_clean(c, none, none);
}

/* A name comes whole: nothing is held back. */
static struct span scrub_name(struct chat *c, struct span name, struct buf *b)
{
    buf_clear(b);
    redact_text(c->scrub.r, name, false, b);
    return buf_span(b);
}

static enum err pass_model(struct chat *c, struct span name)
{
    struct chat_event event = {.kind = CHAT_EVENT_MODEL};

    event.text = scrub_name(c, name, &c->names[0]);
    enum err rc = buf_status(&c->names[0]);
    return rc == ERR_OK ? pass_on(c, &event) : rc;
}

static enum err pass_tool(struct chat *c, const struct chat_tool_piece *tool)
{
    struct span id = scrub_name(c, tool->id, &c->names[0]);
    struct span name = scrub_name(c, tool->name, &c->names[1]);

    if (buf_status(&c->names[0]) != ERR_OK || buf_status(&c->names[1]) != ERR_OK) {
        return ERR_NOMEM;
    }
    redact_stream_feed(&c->scrub, tool->arguments, &c->clean);
    return pass_clean(c, id, name);
}

/* It signs what came before it. */
static enum err pass_signature(struct chat *c, struct chat_event event)
{
    enum err rc = flush_channel(c);

    event.signature.data = scrub_name(c, event.signature.data, &c->names[0]);
    if (rc == ERR_OK) {
        rc = buf_status(&c->names[0]);
    }
    return rc == ERR_OK ? pass_on(c, &event) : rc;
}

static enum err on_event(void *ctx, const struct chat_event *event)
{
    struct chat *c = ctx;
    enum err rc = ERR_OK;

    if (event->kind == CHAT_EVENT_MODEL) {
        return pass_model(c, event->text);
    }
    if (event->kind == CHAT_EVENT_SIGNATURE) {
        return pass_signature(c, *event);
    }
    if (event->kind != CHAT_EVENT_TEXT && event->kind != CHAT_EVENT_REASONING &&
        event->kind != CHAT_EVENT_TOOL) {
        return pass_on(c, event);
    }
    uint32_t call = event->kind == CHAT_EVENT_TOOL ? event->tool.call : 0;
    if (event->kind != c->channel || call != c->channel_call) {
        rc = flush_channel(c);
        c->channel = event->kind;
        c->channel_call = call;
    }
    if (rc != ERR_OK) {
        return rc;
    }
    if (event->kind == CHAT_EVENT_TOOL) {
        rc = pass_tool(c, &event->tool);
    } else {
        const struct span none = {NULL, 0};
        redact_stream_feed(&c->scrub, event->text, &c->clean);
        rc = pass_clean(c, none, none);
    }
    if (rc == ERR_OK && request_congested(c->request)) {
        llm_call_pause(c->call);
    }
    return rc;
}

static void done(struct chat *c, const struct target *target)
{
    struct request *r = c->request;
    struct buf *b = loop_scratch(request_loop(r));
    enum err rc = flush_channel(c);

    buf_clear(b);
    charge_cost(&c->charge, &c->reply, target);
    if (rc == ERR_OK) {
        reply_put_done(&c->reply, b);
        rc = buf_status(b);
    }
    chat_free(c, target, CHARGE_DONE);
    if (rc != ERR_OK) {
        request_fail_err(r, rc);
        return;
    }
    struct span data = buf_span(b);
    request_done(r, &data, 1);
}

static void on_end(void *ctx, const struct failure *failure, const struct target *target)
{
    struct chat *c = ctx;
    struct request *r = c->request;

    if (failure == NULL) {
        done(c, target);
        return;
    }
    struct failure f = *failure;
    /* Text that was held back is no secret any more: the client gets all that came. */
    if (c->stream && flush_channel(c) == ERR_OK && c->streamed > 0) {
        f.has_partial = true;
        f.partial_text_bytes = c->streamed;
    }
    chat_free(c, target, CHARGE_FAILED);
    request_fail(r, &f);
}

static void on_cancel(void *ctx)
{
    struct chat *c = ctx;

    struct target target = *llm_call_target(c->call);

    llm_call_cancel(c->call);
    chat_free(c, &target, CHARGE_CUT); /* its configuration is the chat's too */
}

static void on_drain(void *ctx)
{
    struct chat *c = ctx;

    llm_call_resume(c->call);
}

static struct chat *chat_new(struct request *r, bool stream)
{
    struct config *config = request_config(r);
    size_t most = (size_t)config->limits.max_reply_bytes;
    struct chat *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->request = r;
    c->config = config_ref(config);
    c->stream = stream;
    c->channel = CHAT_EVENT_TEXT;
    reply_init(&c->reply, most);
    redact_stream_init(&c->scrub, config->redact);
    buf_init(&c->clean, most);
    buf_init(&c->names[0], most);
    buf_init(&c->names[1], most);
    return c;
}

void chat_start(struct request *r, void *ctx)
{
    static const struct request_handler request_handler = {.on_cancel = on_cancel,
                                                           .on_drain = on_drain};
    static const struct llm_handler llm_handler = {.on_event = on_event, .on_end = on_end};
    struct router *router = ctx;
    struct chat_params params = {0};
    struct failure failure;

    if (!chat_params_read(r, router_providers(router), &params, &failure)) {
        request_fail(r, &failure);
        return;
    }
    struct chat *c = chat_new(r, params.chat.stream);
    if (c == NULL) {
        request_fail_err(r, ERR_NOMEM);
        return;
    }
    if (!charge_reserve(&c->charge, r, &params, &failure)) {
        chat_free(c, NULL, CHARGE_FAILED);
        request_fail(r, &failure);
        return;
    }
    enum err rc = router_start(router, &params.route, &params.chat, params.total_ms, &llm_handler,
                               c, &c->call, &failure);
    if (rc != ERR_OK) {
        chat_free(c, NULL, CHARGE_FAILED);
        if (rc == ERR_UPSTREAM) {
            request_fail(r, &failure);
        } else {
            request_fail_err(r, rc);
        }
        return;
    }
    request_attach(r, &request_handler, c);
}
