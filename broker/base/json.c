/* Writing JSON, and cJSON documents from text the scanner has approved: see json.h. */
#include "base/json.h"

#include "base/clock.h"
#include "base/json_span.h"
#include "base/json_span_private.h"
#include "base/text.h"

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCUMENT_DEPTH 32
#define INTEGRAL_MAX   1e15 /* below it every integer has at most 15 digits */

static void put_control(struct buf *b, unsigned char c)
{
    switch (c) {
    case '\b':
        buf_put(b, "\\b", 2);
        break;
    case '\f':
        buf_put(b, "\\f", 2);
        break;
    case '\n':
        buf_put(b, "\\n", 2);
        break;
    case '\r':
        buf_put(b, "\\r", 2);
        break;
    case '\t':
        buf_put(b, "\\t", 2);
        break;
    default:
        buf_printf(b, "\\u%04x", (unsigned)c);
        break;
    }
}

/* How many bytes from `p` on can be copied as they are. */
static size_t plain_run(const char *p, size_t n)
{
    const char *from = p;
    const char *end = p + n;

    while (p < end) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x80) {
            size_t len = text_utf8_char(p, (size_t)(end - p));
            if (len == 0) {
                break;
            }
            p += len;
        } else if (c < 0x20 || c == '"' || c == '\\') {
            break;
        } else {
            p = json_skip_plain(p + 1, end);
        }
    }
    return (size_t)(p - from);
}

void json_put_escaped(struct buf *b, struct span text)
{
    const char *p = text.p;
    size_t n = text.n;

    while (n > 0) {
        size_t run = plain_run(p, n);
        buf_put(b, p, run);
        p += run;
        n -= run;
        if (n == 0) {
            break;
        }
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            char pair[2] = {'\\', (char)c};
            buf_put(b, pair, 2);
        } else if (c < 0x20) {
            put_control(b, c);
        } else {
            buf_put(b, "\xef\xbf\xbd", 3); /* U+FFFD for a byte that is no UTF-8 */
        }
        p++;
        n--;
    }
}

void json_put_string(struct buf *b, struct span text)
{
    buf_put_char(b, '"');
    json_put_escaped(b, text);
    buf_put_char(b, '"');
}

void json_put_key(struct buf *b, const char *name)
{
    if (b->len > 0 && b->p[b->len - 1] != '{') {
        buf_put_char(b, ',');
    }
    buf_printf(b, "\"%s\":", name);
}

void json_put_u64(struct buf *b, uint64_t v)
{
    buf_printf(b, "%llu", (unsigned long long)v);
}

void json_put_time(struct buf *b, int64_t wall_ms)
{
    char time[CLOCK_RFC3339_SIZE];

    clock_rfc3339(wall_ms, time);
    buf_printf(b, "\"%s\"", time);
}

void json_put_double(struct buf *b, double v)
{
    char text[40];

    if (!isfinite(v)) {
        buf_put(b, "null", 4);
        return;
    }
    if (fabs(v) < INTEGRAL_MAX && v == trunc(v)) {
        buf_printf(b, "%.0f", v); /* %g would write 100 as 1e+02 */
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    buf_put_str(b, text);
}

struct cJSON *json_document(struct span text, size_t max_bytes)
{
    const struct json_rules rules = {.max_depth = DOCUMENT_DEPTH};
    struct json_value value;
    struct json_fault fault;

    if (text.n > max_bytes || json_check_value(text, &rules, &value, &fault) != ERR_OK) {
        return NULL;
    }
    return cJSON_ParseWithLength(value.text.p, value.text.n);
}
