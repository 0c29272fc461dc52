/*
 * Ids of tool calls as providers take them that want ^[a-zA-Z0-9_-]{1,64}$ (Anthropic, Bedrock).
 * Ids that other providers made may have other characters, or be longer. Pure.
 */
#ifndef TACTUS_LLM_CALL_ID_H
#define TACTUS_LLM_CALL_ID_H

#include "base/buf.h"
#include "base/json_span.h"

#define CALL_ID_MAX 64u

/*
 * Appends `id` (a JSON string), decoded and without quotes: as it is when it fits, else its SHA-256
 * in hexadecimal digits, so that a call and its result have the same. Nobody sees a changed one:
 * ids of requests do not come back. ERR_NOMEM, ERR_LIMIT.
 */
enum err call_id_put(struct json_value id, struct buf *b) MUST_CHECK;

#endif
