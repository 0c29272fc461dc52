/*
 * brokerctl's commands: each makes one request on a connection of its own, shows what comes, and
 * returns the program's exit code (sysexits.h). What went wrong is said in one line on `err`.
 */
#ifndef TACTUS_CTL_COMMANDS_H
#define TACTUS_CTL_COMMANDS_H

#include "base/buf.h"
#include "base/span.h"
#include "ctl/output.h"
#include "net/client.h"

#include <stdbool.h>
#include <stdint.h>

#define CTL_NAME "tactus-brokerctl"

struct admin_peer;

/* Borrowed members outlive every command. */
struct ctl {
    struct output *out;
    struct output *err;
    const char *endpoint_text; /* as the user wrote it */
    struct client_endpoint endpoint;
    struct client_options options;
    bool json; /* show the events (the admin API's answer) as they come, one a line */
    const struct admin_peer *admin; /* for an operator's commands (ctl/operate.h) */
};

struct ctl_chat {
    const char *provider; /* NULL: not said */
    const char *model;
    const char *system; /* NULL: none */
    bool no_stream;
    const char *temperature; /* a JSON number; NULL: not said */
    uint64_t max_tokens;     /* 0: not said */
    struct span text;
};

int ctl_chat(struct ctl *c, const struct ctl_chat *chat);

/* `args` is a JSON object, or absent. */
int ctl_call(struct ctl *c, const char *tool, struct span args);

/* `event` is a JSON object, or any text that does not begin like one. */
int ctl_emit(struct ctl *c, struct span event);

int ctl_info(struct ctl *c);

/* "tactus-brokerctl: …" as one line on `err`, whatever the text holds. Returns `code`. */
int ctl_fail(struct output *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Sends what `out` holds. EX_IOERR with a line about it, but for a reader that went away (head, a
 * closed pager): it knows why. */
int ctl_flush(struct ctl *c);

/* The exit code for an `error` event's type; `status` (0: unsaid) decides where the type is not
 * known. */
int ctl_exit_code(struct span type, uint64_t status);

/* Shows a broker.info document; false when `info` is none. */
bool ctl_show_info(struct output *out, const char *endpoint, struct span info);

#endif
