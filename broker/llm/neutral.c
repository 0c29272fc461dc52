/* The names of the neutral chat's parameters and finish reasons, as they appear in JSON. */
#include "llm/neutral.h"

const char *const chat_param_names[CHAT_PARAM_COUNT] = {
    [CHAT_TEMPERATURE] = "temperature",
    [CHAT_MAX_TOKENS] = "max_tokens",
    [CHAT_TOOLS] = "tools",
    [CHAT_TOOL_CHOICE] = "tool_choice",
    [CHAT_TOP_P] = "top_p",
    [CHAT_STOP] = "stop",
    [CHAT_SEED] = "seed",
    [CHAT_RESPONSE_FORMAT] = "response_format",
    [CHAT_MAX_COMPLETION_TOKENS] = "max_completion_tokens",
    [CHAT_REASONING_EFFORT] = "reasoning_effort",
    [CHAT_PARALLEL_TOOL_CALLS] = "parallel_tool_calls",
    [CHAT_FREQUENCY_PENALTY] = "frequency_penalty",
    [CHAT_PRESENCE_PENALTY] = "presence_penalty",
    [CHAT_LOGIT_BIAS] = "logit_bias",
    [CHAT_METADATA] = "metadata",
    [CHAT_USER] = "user",
};

const char *chat_finish_name(enum chat_finish f)
{
    switch (f) {
    case CHAT_FINISH_STOP:
        return "stop";
    case CHAT_FINISH_LENGTH:
        return "length";
    case CHAT_FINISH_TOOL_CALLS:
        return "tool_calls";
    case CHAT_FINISH_CONTENT_FILTER:
        return "content_filter";
    case CHAT_FINISH_NONE:
        break;
    }
    return NULL;
}

bool chat_given(const struct chat_request *request, enum chat_param param)
{
    enum json_type type = request->params[param].type;

    return type != JSON_ABSENT && type != JSON_NULL;
}
