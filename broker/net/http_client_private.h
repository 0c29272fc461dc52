/*
 * What the parts of http_client share; nobody else includes it.
 *
 *   http_client.c          a call's life: states, time-outs, ends
 *   http_client_request.c  from a request to a configured easy handle
 *   http_client_answer.c   libcurl's header and body callbacks; what an end means
 *   http_client_driver.c   libcurl's sockets and timer on the loop
 *   http_client_memory.c   the allocator that wipes
 *
 * Two rules of libcurl shape all of it. While one of its functions runs (client->in_curl > 0) no
 * handle may be added or removed: what callbacks ask for is noted and done by
 * http_client_settle() after libcurl returned. And handlers' on_end never runs inside libcurl.
 */
#ifndef TACTUS_NET_HTTP_CLIENT_PRIVATE_H
#define TACTUS_NET_HTTP_CLIENT_PRIVATE_H

#include "base/arena.h"
#include "base/list.h"
#include "net/http_client.h"
#include "net/loop.h"

#include <curl/curl.h>

#define HTTP_POOL_MAX         64u    /* easy handles kept for reuse */
#define HTTP_CONNECTIONS_KEPT 256L   /* idle connections of all providers together */
#define HTTP_READ_SIZE        16384L /* libcurl's receive buffer; what a paused call may hold */
#define HTTP_HEAD_MAX         65536u /* all header lines of an answer: 1xx heads and trailers too */
#define HTTP_REQUEST_HEAD_MAX 1048576u

/* The list a call is in. DEAD: cancelled inside a libcurl callback, taken down right after. ENDED:
 * libcurl is done with it, on_end is due. ENDING: on_end is running. */
enum http_call_state {
    HTTP_CALL_QUEUED,
    HTTP_CALL_ACTIVE,
    HTTP_CALL_DEAD,
    HTTP_CALL_ENDED,
    HTTP_CALL_ENDING,
    HTTP_CALL_NSTATES
};

struct http_socket;

struct http_client {
    struct loop *loop;
    CURLM *multi;  /* NULL after a failure, until the next call */
    CURLSH *share; /* TLS sessions, so that each handle can resume them */
    CURL *pool[HTTP_POOL_MAX];
    size_t npool;
    struct list calls[HTTP_CALL_NSTATES];
    size_t ncalls;
    struct list resuming;
    struct loop_task task;
    struct loop_deadline timer; /* libcurl's; always armed, so that moving it cannot fail */
    bool kick;                  /* libcurl asked to be called at once */
    bool closing;
    bool deaf; /* the multi handle is being freed: what its callbacks ask for is moot */
    unsigned in_curl;
    CURLMcode broken;             /* first error of a multi function; every call ends with it */
    struct http_socket **sockets; /* by descriptor */
    size_t nsockets;
    struct list dirty; /* sockets whose wanted and armed events may differ */
};

struct http_call {
    struct list node;        /* in client->calls[state] */
    struct list resume_node; /* in client->resuming */
    struct http_client *client;
    enum http_call_state state;
    struct http_handler handler;
    void *ctx;
    CURL *easy;
    struct curl_slist *headers; /* one block: nodes and texts */
    size_t body_size;
    struct loop_deadline deadline;
    uint64_t started_at;
    uint64_t last_byte_at;
    uint64_t release_at; /* when a released call is cut off */
    uint32_t connect_ms;
    uint32_t first_byte_ms;
    uint32_t stall_ms;
    uint32_t total_ms;
    unsigned nomem_before; /* http_memory_failures() at the start */
    bool in_multi;
    bool paused;  /* the handler wants no bytes */
    bool blocked; /* libcurl holds bytes for us and waits for curl_easy_pause */
    bool released;
    bool retried;
    bool proxied;
    bool answering; /* the first line of the final head has come */
    bool head_done;
    bool aborted; /* a callback of ours refused to go on: `outcome` and `detail` say why */
    int status;
    size_t head_bytes;
    struct arena head_mem;
    struct http_head head;
    enum http_outcome outcome;
    char detail[CURL_ERROR_SIZE];
};

/* http_client.c: takes what libcurl finished or callbacks asked for to its end. Never inside
 * libcurl. */
void http_client_settle(struct http_client *client);
/* Moves the call's deadline to what its state asks for. */
void http_call_rearm(struct http_call *call);

/* http_client_request.c */
enum err http_request_prepare(struct http_call *call, const struct http_request *request,
                              struct error *e) MUST_CHECK;
/* Gives the easy handle back to the pool and wipes the headers. */
void http_request_finish(struct http_call *call);

/* http_client_answer.c */
size_t http_answer_on_header(char *line, size_t size, size_t n, void *ctx);
size_t http_answer_on_body(char *p, size_t size, size_t n, void *ctx);
/* Sets outcome and detail after libcurl ended the transfer with `code`. */
void http_answer_end(struct http_call *call, CURLcode code);
/* libcurl found a kept connection dead before anything came: worth a fresh one, once. */
bool http_answer_stale(const struct http_call *call, CURLcode code);
void http_call_set_end(struct http_call *call, enum http_outcome outcome, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* "`what` within 120 s" */
void http_call_time_out(struct http_call *call, enum http_outcome outcome, const char *what,
                        uint32_t ms);

/* http_client_driver.c */
enum err http_driver_init(struct http_client *client, struct error *e) MUST_CHECK;
void http_driver_fini(struct http_client *client);
/* False: out of memory for a new multi handle. */
bool http_driver_ready(struct http_client *client);
/* After an error of a multi function, all calls removed from it: throws the handle and its kept
 * connections away. */
void http_driver_restart(struct http_client *client);
/* Lets libcurl look at its time-outs and new transfers. */
void http_driver_kick(struct http_client *client);
/* Tells the loop which socket events are wanted now. */
void http_driver_apply(struct http_client *client);
curl_socket_t http_driver_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address);
int http_driver_close(void *ctx, curl_socket_t fd);

/* http_client_memory.c */
void *http_memory_alloc(size_t n);
void http_memory_free(void *p);
/* How many allocations failed on this thread. */
unsigned http_memory_failures(void);

#endif
