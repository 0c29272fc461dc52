/*
 * Names of tools as a provider takes them. Providers refuse a name that is not 1 to 64 of
 * A-Z a-z 0-9 _ - (OpenAI, Anthropic, Bedrock: ^[a-zA-Z0-9_-]{1,64}$); callers have others, like
 * "github.search". Such a name is given out changed, always in the same way, and changed back in
 * what the provider answers. Pure; nothing is changed when every name is fit.
 */
#ifndef TACTUS_LLM_TOOL_NAMES_H
#define TACTUS_LLM_TOOL_NAMES_H

#include "base/arena.h"
#include "base/buf.h"
#include "llm/neutral.h"

#define TOOL_NAME_MAX 64u

struct tool_name {
    struct span original; /* decoded */
    struct span changed;
};

struct tool_names {
    struct tool_name *items; /* sorted by the original's bytes */
    size_t n;                /* 0: all names are fit */
};

/*
 * Finds the names that must be changed: in `tools`, `tool_choice` and the messages' tool calls and
 * results (OpenAI's shape). A changed name has `_` for each character that is not allowed, is cut,
 * and ends in `_` and eight hexadecimal digits of a hash of the original; another hash when that
 * name is there already. So no two names become the same, nor the same as a fit one that is in the
 * request. Memory is the arena's. ERR_NOMEM; ERR_LIMIT: over 4096 different names, one of which
 * must be changed.
 */
enum err tool_names_read(const struct chat_request *request, struct arena *arena,
                         struct tool_names *out) MUST_CHECK;

/* `name` as the provider takes it, and back; `name` itself when it is not in the list. `names` may
 * be NULL. */
struct span tool_names_changed(const struct tool_names *names, struct span name);
struct span tool_names_original(const struct tool_names *names, struct span name);

/* Appends validated JSON (messages, tools or tool_choice, by `which`) with the names in it changed,
 * and every other byte as it is. */
enum tool_names_place { TOOL_NAMES_MESSAGES, TOOL_NAMES_TOOLS, TOOL_NAMES_CHOICE };
void tool_names_put(const struct tool_names *names, enum tool_names_place which,
                    struct json_value value, struct buf *b);

#endif
