/*
 * Tools: the methods tool.call, mcp.list_tools and mcp.call_tool. Built in are host.ping and
 * host.echo. Starts are methods' starts (wire/methods.h); their ctx is NULL.
 */
#ifndef TACTUS_TOOLS_TOOLS_H
#define TACTUS_TOOLS_TOOLS_H

#include "base/span.h"

#include <stddef.h>

struct request;

void tool_call_start(struct request *r, void *ctx);
void mcp_list_tools_start(struct request *r, void *ctx);
void mcp_call_tool_start(struct request *r, void *ctx);

/* The names of the built-in tools; NULL past the last. */
const char *tools_builtin_name(size_t i);

#endif
