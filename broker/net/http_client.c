/*
 * A call's life. Its state is the list it is in; call_move() is the only way from one to another.
 * All ends go through ENDED and are told by http_client_settle(), at the top of the stack: a
 * handler may start, cancel or release any call there.
 */
#include "net/http_client_private.h"

#include <assert.h>
#include <stdlib.h>

/* ---- states ---- */

static bool call_may_move(enum http_call_state from, enum http_call_state to)
{
    switch (from) {
    case HTTP_CALL_QUEUED:
        return to == HTTP_CALL_ACTIVE || to == HTTP_CALL_ENDED;
    case HTTP_CALL_ACTIVE: /* back to QUEUED: a kept connection was dead, once more */
        return to == HTTP_CALL_DEAD || to == HTTP_CALL_ENDED || to == HTTP_CALL_QUEUED;
    case HTTP_CALL_ENDED:
        return to == HTTP_CALL_ENDING;
    default:
        return false;
    }
}

static void call_move(struct http_call *call, enum http_call_state to)
{
    assert(call_may_move(call->state, to));
    (void)call_may_move;
    list_remove(&call->node);
    list_push_back(&call->client->calls[to], &call->node);
    call->state = to;
}

static struct http_call *first_of(struct http_client *client, enum http_call_state state)
{
    struct list *l = &client->calls[state];

    return list_empty(l) ? NULL : LIST_ENTRY(l->next, struct http_call, node);
}

static void call_detach(struct http_call *call)
{
    struct http_client *client = call->client;

    if (call->in_multi) {
        client->in_curl++;
        (void)curl_multi_remove_handle(client->multi, call->easy);
        client->in_curl--;
        call->in_multi = false;
    }
}

/* Never inside libcurl while the call is in the multi handle. */
static void call_free(struct http_call *call)
{
    call_detach(call);
    loop_deadline_clear(call->client->loop, &call->deadline);
    list_remove(&call->node);
    list_remove(&call->resume_node);
    http_request_finish(call);
    arena_fini(&call->head_mem);
    call->client->ncalls--;
    free(call);
}

static void call_end(struct http_call *call)
{
    struct http_end end = {.outcome = call->outcome, .detail = call->detail};

    call_detach(call);
    call_move(call, HTTP_CALL_ENDING);
    loop_deadline_clear(call->client->loop, &call->deadline);
    if (!call->released) {
        call->handler.on_end(call->ctx, &end);
    }
    call_free(call);
}

/* ---- time-outs ---- */

static void earliest(uint64_t *at, uint64_t since, uint32_t ms)
{
    if (ms > 0 && since + ms < *at) {
        *at = since + ms;
    }
}

static uint64_t call_due(const struct http_call *call)
{
    uint64_t at = UINT64_MAX;

    if (call->released) {
        return call->release_at;
    }
    earliest(&at, call->started_at, call->total_ms);
    if (!call->answering) {
        earliest(&at, call->started_at, call->first_byte_ms);
    } else if (!call->paused) {
        earliest(&at, call->last_byte_at, call->stall_ms);
    }
    return at;
}

/* The deadline is armed from start to end, so moving it cannot fail. A later byte does not move it:
 * on_deadline looks again. */
void http_call_rearm(struct http_call *call)
{
    if (call->state == HTTP_CALL_QUEUED || call->state == HTTP_CALL_ACTIVE) {
        enum err rc = loop_deadline_set(call->client->loop, &call->deadline, call_due(call));
        assert(rc == ERR_OK);
        (void)rc;
    }
}

static void on_deadline(void *ctx)
{
    struct http_call *call = ctx;
    struct http_client *client = call->client;
    uint64_t now = loop_now(client->loop);

    if (call_due(call) > now) {
        http_call_rearm(call);
        return;
    }
    if (call->released) {
        call_free(call);
        return;
    }
    call_detach(call);
    call_move(call, HTTP_CALL_ENDED);
    if (call->total_ms > 0 && call->started_at + call->total_ms <= now) {
        http_call_time_out(call, HTTP_TIMEOUT_TOTAL, "not finished", call->total_ms);
    } else if (!call->answering) {
        http_call_time_out(call, HTTP_TIMEOUT_FIRST_BYTE, "no answer", call->first_byte_ms);
    } else {
        http_call_time_out(call, HTTP_TIMEOUT_STALL, "nothing more came", call->stall_ms);
    }
    http_client_settle(client);
}

/* ---- what libcurl finished ---- */

static void call_done(struct http_call *call, CURLcode code)
{
    struct http_client *client = call->client;

    if (call->state != HTTP_CALL_ACTIVE) {
        call_detach(call);
        return;
    }
    bool stale = http_answer_stale(call, code);
    if (!stale) {
        http_answer_end(call, code);
    }
    call_detach(call);
    if (stale && curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK) {
        call->retried = true;
        call->detail[0] = '\0';
        call_move(call, HTTP_CALL_QUEUED);
        loop_defer(client->loop, &client->task);
        return;
    }
    call_move(call, HTTP_CALL_ENDED);
}

static void drain(struct http_client *client)
{
    int left = 0;

    for (CURLMsg *m = curl_multi_info_read(client->multi, &left); m != NULL;
         m = curl_multi_info_read(client->multi, &left)) {
        if (m->msg != CURLMSG_DONE) {
            continue;
        }
        /* The message is gone once the handle is removed. */
        CURLcode code = m->data.result;
        char *private = NULL;
        if (curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK &&
            private != NULL) {
            call_done((struct http_call *)(void *)private, code);
        }
    }
}

/* What was cancelled inside libcurl. */
static void bury(struct http_client *client)
{
    for (struct http_call *call = first_of(client, HTTP_CALL_DEAD); call != NULL;
         call = first_of(client, HTTP_CALL_DEAD)) {
        call_free(call);
    }
}

/* An error of a multi function leaves every transfer in an unknown state, and the handle too: 7.88
 * divides by zero when it meets a socket again whose table could not be allocated. */
static void end_all(struct http_client *client)
{
    bool nomem = client->broken == CURLM_OUT_OF_MEMORY ||
                 client->broken == CURLM_ABORTED_BY_CALLBACK; /* on_curl_socket had no memory */

    for (struct http_call *call = first_of(client, HTTP_CALL_ACTIVE); call != NULL;
         call = first_of(client, HTTP_CALL_ACTIVE)) {
        call_detach(call);
        http_call_set_end(call, nomem ? HTTP_NOMEM : HTTP_RESET, "%s",
                          curl_multi_strerror(client->broken));
        call_move(call, HTTP_CALL_ENDED);
    }
    bury(client);
    http_driver_restart(client);
}

void http_client_settle(struct http_client *client)
{
    if (client->multi != NULL) {
        drain(client);
    }
    if (client->broken != CURLM_OK) {
        end_all(client);
    }
    bury(client);
    for (struct http_call *call = first_of(client, HTTP_CALL_ENDED); call != NULL;
         call = first_of(client, HTTP_CALL_ENDED)) {
        call_end(call);
    }
}

/* ---- the task: before the loop waits ---- */

static void start_queued(struct http_client *client)
{
    for (struct http_call *call = first_of(client, HTTP_CALL_QUEUED); call != NULL;
         call = first_of(client, HTTP_CALL_QUEUED)) {
        CURLMcode rc = CURLM_OUT_OF_MEMORY;
        if (http_driver_ready(client)) {
            client->in_curl++;
            rc = curl_multi_add_handle(client->multi, call->easy);
            client->in_curl--;
        }
        if (rc == CURLM_OK) {
            call->in_multi = true;
            client->kick = true;
            call_move(call, HTTP_CALL_ACTIVE);
        } else {
            http_call_set_end(call, HTTP_NOMEM, "%s", curl_multi_strerror(rc));
            call_move(call, HTTP_CALL_ENDED);
        }
    }
}

static void resume_waiting(struct http_client *client)
{
    struct list batch;

    list_take(&batch, &client->resuming);
    for (struct list *n = list_pop(&batch); n != NULL; n = list_pop(&batch)) {
        struct http_call *call = LIST_ENTRY(n, struct http_call, resume_node);
        if (call->state != HTTP_CALL_ACTIVE || !call->blocked || call->paused ||
            client->broken != CURLM_OK) {
            continue;
        }
        call->blocked = false;
        client->in_curl++;
        CURLcode code = curl_easy_pause(call->easy, CURLPAUSE_CONT);
        client->in_curl--;
        client->kick = true;
        if (code == CURLE_OUT_OF_MEMORY || code == CURLE_ABORTED_BY_CALLBACK) {
            client->broken = CURLM_OUT_OF_MEMORY; /* the socket table is touched too: end_all */
        } else if (code != CURLE_OK && call->state == HTTP_CALL_ACTIVE) {
            http_answer_end(call, code); /* held bytes are lost: the transfer is over */
            call_detach(call);
            call_move(call, HTTP_CALL_ENDED);
        }
    }
}

static void on_task(void *ctx)
{
    struct http_client *client = ctx;

    start_queued(client);
    resume_waiting(client);
    if (client->kick && client->broken == CURLM_OK) {
        http_driver_kick(client);
    }
    http_client_settle(client);
    http_driver_apply(client);
}

/* ---- API ---- */

enum err http_client_new(struct http_client **out, struct loop *loop, struct error *e)
{
    struct http_client *client = calloc(1, sizeof(*client));

    if (client == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for the HTTP client");
    }
    client->loop = loop;
    for (size_t i = 0; i < HTTP_CALL_NSTATES; i++) {
        list_init(&client->calls[i]);
    }
    list_init(&client->resuming);
    loop_task_init(&client->task, on_task, client);
    enum err rc = http_driver_init(client, e);
    if (rc != ERR_OK) {
        free(client);
        return rc;
    }
    *out = client;
    return ERR_OK;
}

static void stop_calls(struct http_client *client, enum http_call_state state)
{
    for (struct http_call *call = first_of(client, state); call != NULL;
         call = first_of(client, state)) {
        if (state != HTTP_CALL_ENDED) {
            call_detach(call);
            http_call_set_end(call, HTTP_STOPPED, "the broker is stopping");
            call_move(call, HTTP_CALL_ENDED);
        }
        call_end(call);
    }
}

void http_client_free(struct http_client *client)
{
    if (client == NULL) {
        return;
    }
    client->closing = true;
    stop_calls(client, HTTP_CALL_ENDED);
    stop_calls(client, HTTP_CALL_QUEUED);
    stop_calls(client, HTTP_CALL_ACTIVE);
    for (size_t i = 0; i < client->npool; i++) {
        curl_easy_cleanup(client->pool[i]);
    }
    http_driver_fini(client);
    loop_task_cancel(&client->task);
    free(client);
}

enum err http_client_start(struct http_client *client, const struct http_request *request,
                           const struct http_handler *handler, void *ctx, struct http_call **out,
                           struct error *e)
{
    if (client->closing) {
        return err_set(e, ERR_CLOSED, "the HTTP client is stopping");
    }
    struct http_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return err_set(e, ERR_NOMEM, "out of memory for a request");
    }
    list_init(&call->node);
    list_init(&call->resume_node);
    loop_deadline_init(&call->deadline, on_deadline, call);
    call->client = client;
    call->handler = *handler;
    call->ctx = ctx;
    call->started_at = loop_now(client->loop);
    call->connect_ms = request->connect_ms;
    call->first_byte_ms = request->first_byte_ms;
    call->stall_ms = request->stall_ms;
    call->total_ms = request->total_ms;
    call->nomem_before = http_memory_failures();
    client->ncalls++;
    enum err rc = http_request_prepare(call, request, e);
    if (rc == ERR_OK &&
        loop_deadline_set(client->loop, &call->deadline, call_due(call)) != ERR_OK) {
        rc = err_set(e, ERR_NOMEM, "out of memory for a request");
    }
    if (rc != ERR_OK) {
        call_free(call);
        return rc;
    }
    list_push_back(&client->calls[HTTP_CALL_QUEUED], &call->node);
    loop_defer(client->loop, &client->task);
    *out = call;
    return ERR_OK;
}

static bool call_gone(const struct http_call *call)
{
    return call->state == HTTP_CALL_DEAD || call->state == HTTP_CALL_ENDING || call->released;
}

void http_call_pause(struct http_call *call)
{
    if (!call_gone(call)) {
        call->paused = true;
    }
}

static void call_unpause(struct http_call *call)
{
    struct http_client *client = call->client;

    call->paused = false;
    call->last_byte_at = loop_now(client->loop);
    if (call->blocked) {
        list_remove(&call->resume_node);
        list_push_back(&client->resuming, &call->resume_node);
        loop_defer(client->loop, &client->task);
    }
}

void http_call_resume(struct http_call *call)
{
    if (call_gone(call) || !call->paused) {
        return;
    }
    call_unpause(call);
    http_call_rearm(call);
}

void http_call_cancel(struct http_call *call)
{
    if (call == NULL || call_gone(call)) {
        return;
    }
    if (call->client->in_curl > 0 && call->in_multi) {
        loop_deadline_clear(call->client->loop, &call->deadline);
        list_remove(&call->resume_node);
        call_move(call, HTTP_CALL_DEAD);
        return;
    }
    call_free(call);
}

void http_call_release(struct http_call *call, uint32_t grace_ms)
{
    curl_off_t sent = 0;

    if (call == NULL || call_gone(call)) {
        return;
    }
    bool known = curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK;
    /* Part of the body is still to be sent: it is the caller's and may go away now. */
    if (!call->head_done || !known || (uint64_t)sent < call->body_size || grace_ms == 0) {
        http_call_cancel(call);
        return;
    }
    call->released = true;
    call->release_at = loop_now(call->client->loop) + grace_ms;
    call_unpause(call);
    http_call_rearm(call);
}

size_t http_client_calls(const struct http_client *client)
{
    return client->ncalls;
}
