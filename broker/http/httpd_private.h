/* Shared by httpd.c (connections, the loop) and httpd_request.c. Nobody else includes it. */
#ifndef TACTUS_HTTP_HTTPD_PRIVATE_H
#define TACTUS_HTTP_HTTPD_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "http/httpd.h"
#include "net/loop.h"

#include <microhttpd.h>

/* One accepted connection, from httpd_accept() until libmicrohttpd says that it is closed. */
struct httpd_conn {
    struct list node; /* httpd.conns */
    struct httpd *httpd;
    int fd;
    struct httpd_peer peer;
    struct loop_deadline deadline; /* for the next request to be complete */
};

struct httpd {
    struct loop *loop;
    struct httpd_options options;
    struct httpd_handler handler;
    void *ctx;
    struct MHD_Daemon *daemon;
    struct loop_watch *watch;
    struct loop_task task;         /* runs the daemon before the loop waits again */
    struct loop_deadline deadline; /* what the daemon waits for itself */
    struct list conns;
    struct list requests;
    unsigned nconns;
    unsigned nstreams;
    bool running;  /* inside the daemon */
    bool stopping; /* httpd_free() */
};

enum httpd_state {
    HTTPD_READING,  /* headers are there, the body may be coming */
    HTTPD_ASKED,    /* the owner has it */
    HTTPD_LATER,    /* it will answer later; suspended */
    HTTPD_ANSWERED, /* there is an answer that is not queued yet */
    HTTPD_SENDING,  /* queued */
    HTTPD_STREAMING
};

struct httpd_request {
    struct list node; /* httpd.requests */
    struct httpd *httpd;
    struct httpd_conn *conn;
    struct MHD_Connection *connection;
    const char *method;
    const char *path;
    enum httpd_state state;
    bool suspended;
    bool too_large;
    bool dead;        /* no memory for the answer: close */
    size_t discarded; /* bytes of the body that were not kept */
    struct buf body;
    struct MHD_Response *response;
    int status;
    void (*on_gone)(void *ctx); /* LATER */
    const struct httpd_stream_handler *stream;
    void *ctx; /* of on_gone or stream */
};

/* Lets the daemon run before the loop waits again. */
void httpd_want_run(struct httpd *h);

/* httpd_request.c: callbacks of the daemon, and what the end of the server does to a request. */
enum MHD_Result httpd_on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **req_cls);
void httpd_on_completed(void *cls, struct MHD_Connection *connection, void **req_cls,
                        enum MHD_RequestTerminationCode why);
void httpd_request_stop(struct httpd_request *r);
/* Goes on with a suspended request. */
void httpd_request_resume(struct httpd_request *r);

#endif
