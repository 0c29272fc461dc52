/*
 * Writing JSON into a struct buf (failure shows in buf_status), and the one place where a cJSON
 * document is made from text. Output is compact; text stays UTF-8, only what JSON must escape is
 * escaped.
 */
#ifndef TACTUS_BASE_JSON_H
#define TACTUS_BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <stdint.h>

struct cJSON;

/* "text" with quotes. Bytes that are not valid UTF-8 become U+FFFD. */
void json_put_string(struct buf *b, struct span text);

/* The same without the quotes. */
void json_put_escaped(struct buf *b, struct span text);

void json_put_u64(struct buf *b, uint64_t v);
/* The next member's "name":, with a comma before it unless it is the object's first. `name` needs
 * no escapes. */
void json_put_key(struct buf *b, const char *name);

/* Wall-clock milliseconds as RFC 3339 in UTC, with quotes. */
void json_put_time(struct buf *b, int64_t wall_ms);

/* Shortest form that reads back as the same double; null when not finite. */
void json_put_double(struct buf *b, double v);

/*
 * A cJSON document from a small text (at most `max_bytes`) that passes json_check_value with depth
 * 32. The caller frees it with cJSON_Delete. NULL when the text is refused or out of memory.
 */
struct cJSON *json_document(struct span text, size_t max_bytes);

#endif
