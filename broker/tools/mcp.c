/* mcp.list_tools and mcp.call_tool: parameters are checked; no MCP server can be configured yet. */
#include "tactus/protocol.h"
#include "tools/tools.h"
#include "wire/request.h"

static bool is_name(struct json_value v)
{
    return v.type == JSON_STRING && v.text.n > 2;
}

static void not_configured(struct request *r)
{
    request_fail_text(r, TACTUS_E_MCP_NOT_CONFIGURED, "No broker MCP servers configured");
}

void mcp_list_tools_start(struct request *r, void *ctx)
{
    (void)ctx;
    if (!is_name(request_param(r, "server"))) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.server must be a string");
        return;
    }
    not_configured(r);
}

void mcp_call_tool_start(struct request *r, void *ctx)
{
    struct json_value args = request_param(r, "args");

    (void)ctx;
    if (!is_name(request_param(r, "server"))) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.server must be a string");
    } else if (!is_name(request_param(r, "name"))) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.name must be a string");
    } else if (args.type != JSON_OBJECT && args.type != JSON_NULL && args.type != JSON_ABSENT) {
        request_fail_text(r, TACTUS_E_BAD_REQUEST, "params.args must be an object");
    } else {
        not_configured(r);
    }
}
