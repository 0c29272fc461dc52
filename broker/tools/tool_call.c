/*
 * tool.call: the name checked against the grant, then the built-in tools. Arguments pass through as
 * the bytes that came.
 */
#include "base/redact.h"
#include "tactus/protocol.h"
#include "tools/tools.h"
#include "wire/request.h"

#include <string.h>

#define TOOL_NAME_MAX 256u

struct builtin_tool {
    const char *name;
    struct span before; /* of the result, around the arguments */
    struct span after;
};

static const struct builtin_tool builtin_tools[] = {
    {"host.ping", {"{\"ok\":true,\"echo\":", 18}, {"}", 1}},
    {"host.echo", {"{\"echo\":", 8}, {"}", 1}},
};

#define BUILTIN_TOOLS (sizeof(builtin_tools) / sizeof(builtin_tools[0]))

const char *tools_builtin_name(size_t i)
{
    return i < BUILTIN_TOOLS ? builtin_tools[i].name : NULL;
}

static const struct builtin_tool *find_builtin(const char *name)
{
    for (size_t i = 0; i < BUILTIN_TOOLS; i++) {
        if (strcmp(builtin_tools[i].name, name) == 0) {
            return &builtin_tools[i];
        }
    }
    return NULL;
}

/* The tool, if the caller may use it. A caller cannot tell an unknown tool from a forbidden one.
 * `name` ends with a NUL; one inside makes it no tool's name. */
static const struct builtin_tool *find_allowed(struct request *r, const struct buf *name)
{
    if (buf_status(name) != ERR_OK || strlen(name->p) + 1 != name->len) {
        return NULL;
    }
    return grant_allows_tool(request_grant(r), name->p) ? find_builtin(name->p) : NULL;
}

/* Quotes the caller's own words, in which there may be a secret. `name` ends with a NUL. */
static void refuse(struct request *r, const struct buf *name)
{
    struct span text = span_of(name->p, strnlen(name->p == NULL ? "" : name->p, name->len));
    struct buf clean;

    buf_init(&clean, 4 * TOOL_NAME_MAX); /* a mark is longer than the shortest secret */
    redact_text(request_config(r)->redact, text, false, &clean);
    if (buf_status(&clean) == ERR_OK) {
        request_fail_text(r, TACTUS_E_TOOL_NOT_ALLOWED, "Tool not allowlisted: %.*s",
                          (int)clean.len, clean.p == NULL ? "" : clean.p);
    } else {
        request_fail_err(r, ERR_NOMEM);
    }
    buf_fini(&clean);
}

void tool_call_start(struct request *r, void *ctx)
{
    struct json_value name = request_param(r, "name");
    struct json_value args = request_param(r, "args");
    struct buf text;

    (void)ctx;
    if (name.type != JSON_STRING || name.text.n <= 2) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.name must be a string");
        return;
    }
    if (args.type != JSON_OBJECT && args.type != JSON_NULL && args.type != JSON_ABSENT) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.args must be an object");
        return;
    }
    buf_init(&text, TOOL_NAME_MAX);
    json_string_decode(name, &text, NULL);
    buf_put_char(&text, '\0');
    const struct builtin_tool *tool = find_allowed(r, &text);
    if (buf_status(&text) == ERR_NOMEM) {
        request_fail_err(r, ERR_NOMEM);
    } else if (tool == NULL) {
        refuse(r, &text);
    } else {
        const struct span pieces[] = {SPAN("{\"result\":"), tool->before,
                                      args.type == JSON_OBJECT ? args.text : SPAN("{}"),
                                      tool->after, SPAN("}")};
        request_done(r, pieces, sizeof(pieces) / sizeof(pieces[0]));
    }
    buf_fini(&text);
}
