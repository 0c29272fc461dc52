/* Shared by admin.c (routing) and admin_operate.c (calls of an operator). Nobody else includes it.
 */
#ifndef TACTUS_APP_ADMIN_PRIVATE_H
#define TACTUS_APP_ADMIN_PRIVATE_H

#include "app/app_private.h"
#include "base/buf.h"
#include "http/admin_fault.h"
#include "http/httpd.h"

#include <sys/types.h>

struct admin_door;

struct admin {
    struct broker *broker;
    struct httpd *httpd;
    struct event_streams *streams;
    struct admin_door *doors; /* one an admin listener of the configuration */
    size_t ndoors;
    uid_t own; /* the broker's user */
};

/* One call while it is answered. */
struct call {
    struct admin *admin;
    struct httpd_request *request;
    const char *id; /* what followed the route's path; "" when nothing does */
    struct admin_fault fault;
    struct buf reply;
    int status;
    const char *location; /* of what was made, or NULL */
    bool streaming;       /* the answer has begun */
};

#define ADMIN_JSON "application/json"

void admin_reply_fault(const struct admin *a, struct httpd_request *r, const struct admin_fault *f,
                       const char *header, const char *value);

/* ---- admin_operate.c; each true when it has answered, or will ---- */

bool admin_answer_ready(struct call *c);
bool admin_answer_status(struct call *c);
bool admin_answer_reload(struct call *c);
bool admin_answer_drain(struct call *c);
bool admin_answer_usage(struct call *c);

#endif
