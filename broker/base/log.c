/*
 * The log; see log.h. A value passes the redactor before it is cut or escaped (a cut or an escape
 * could hide a secret from it), the finished line once more. A line that cannot be built for want
 * of memory is replaced by a fixed one: it is lost, but not silently.
 *
 * Level, format, colour and redactor are atomics: set by main, read by every thread.
 */
#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/redact.h"
#include "base/text.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS_MAX 32
#define VALUE_MAX  2048u           /* bytes shown of a value */
#define LINE_BYTES (1024u * 1024u) /* more than FIELDS_MAX such values, escaped */

static atomic_int log_level_now = LOG_INFO;
static atomic_int log_format_now = LOG_FORMAT_TEXT;
static atomic_bool log_colour_now;
static _Atomic(const struct redact *) log_redact_now;

static const char *const LEVELS[] = {"error", "warn", "info", "debug"};
static const char *const LEVELS_TEXT[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
static const char *const COLOURS[] = {"\033[31m", "\033[33m", "\033[32m", "\033[2m"};

void log_setup(enum log_level level, enum log_format format, const struct redact *r)
{
    const char *no_colour = getenv("NO_COLOR");
    bool colour = (no_colour == NULL || no_colour[0] == '\0') && isatty(STDERR_FILENO) == 1;

    atomic_store(&log_level_now, (int)level);
    atomic_store(&log_format_now, (int)format);
    atomic_store(&log_colour_now, colour);
    atomic_store(&log_redact_now, r);
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

/* `text` for a terminal: no control characters, neither C0 nor C1, only valid UTF-8. */
static void put_visible(struct buf *line, struct span text)
{
    for (size_t i = 0; i < text.n;) {
        size_t n = text_utf8_char(text.p + i, text.n - i);
        unsigned char c = (unsigned char)text.p[i];
        if (n == 0) {
            buf_put_str(line, "\xEF\xBF\xBD");
            n = 1;
        } else if (n == 1 && (c < 0x20 || c == 0x7f)) {
            buf_printf(line, "\\x%02x", c);
        } else if (n == 2 && c == 0xC2 && (unsigned char)text.p[i + 1] < 0xA0) {
            buf_printf(line, "\\x%02x", (unsigned char)text.p[i + 1]);
        } else {
            buf_put(line, text.p + i, n);
        }
        i += n;
    }
}

/* A text value that can stand without quotes. */
static bool is_bare(struct span text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' || c == '=') {
            return false;
        }
    }
    return text.n > 0;
}

static void put_quoted(struct buf *line, struct span text)
{
    size_t from = 0;

    buf_put_char(line, '"');
    for (size_t i = 0; i <= text.n; i++) {
        bool escaped = i < text.n && (text.p[i] == '"' || text.p[i] == '\\');
        if (escaped || i == text.n) {
            put_visible(line, span_of(text.p + from, i - from));
            from = i;
        }
        if (escaped) {
            buf_put_char(line, '\\');
        }
    }
    buf_put_char(line, '"');
}

/* A value after the redactor, cut to VALUE_MAX; `work` keeps it. A failure shows in `line`. */
static struct span prepare(const struct redact *r, const char *str, struct buf *work,
                           struct buf *line)
{
    buf_clear(work);
    redact_text(r, span_str(str), true, work);
    if (buf_status(work) != ERR_OK) {
        line->err = buf_status(work);
    }
    size_t n = work->len;
    if (n > VALUE_MAX) { /* not in the middle of a character */
        n = VALUE_MAX;
        while (n > VALUE_MAX - 4 && ((unsigned char)work->p[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    return span_of(n > 0 ? work->p : "", n);
}

static void put_json(struct buf *line, struct buf *work, const struct redact *r,
                     const struct log_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_char(line, ',');
        json_put_string(line, span_str(i == 0 ? "msg" : fields[i].key));
        buf_put_char(line, ':');
        if (fields[i].str != NULL || i == 0) {
            json_put_string(line, prepare(r, fields[i].str, work, line));
        } else {
            json_put_u64(line, fields[i].u64);
        }
    }
    buf_put_char(line, '}');
}

static void put_text(struct buf *line, struct buf *work, const struct redact *r,
                     const struct log_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_char(line, ' ');
        if (i == 0) {
            put_visible(line, prepare(r, fields[i].str, work, line));
            continue;
        }
        put_visible(line, span_str(fields[i].key));
        buf_put_char(line, '=');
        if (fields[i].str == NULL) {
            json_put_u64(line, fields[i].u64);
            continue;
        }
        struct span value = prepare(r, fields[i].str, work, line);
        if (is_bare(value)) {
            buf_put_span(line, value);
        } else {
            put_quoted(line, value);
        }
    }
}

/* One write; what a signal cut is finished, any other failure drops the line. */
static void write_line(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = write(STDERR_FILENO, p, n);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return;
        }
        p += sent;
        n -= (size_t)sent;
    }
}

void log_event(enum log_level level, const char *module, const struct log_field *fields, size_t n)
{
    static const char lost[] = "{\"level\":\"error\",\"module\":\"log\",\"msg\":\"a line was lost: "
                               "out of memory\"}\n";
    const struct redact *r = atomic_load(&log_redact_now);
    bool colour = atomic_load(&log_colour_now);
    int saved = errno;
    char when[CLOCK_RFC3339_SIZE];
    struct buf work;
    struct buf line;
    struct buf out;

    buf_init(&work, SIZE_MAX / 4); /* as long as the value it is given */
    buf_init(&line, LINE_BYTES);
    buf_init(&out, LINE_BYTES * 2);
    n = n < FIELDS_MAX ? n : FIELDS_MAX;
    clock_rfc3339(clock_wall_ms(), when);
    if (atomic_load(&log_format_now) == LOG_FORMAT_JSON) {
        buf_printf(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"module\":", when, LEVELS[level]);
        json_put_string(&line, span_str(module));
        put_json(&line, &work, r, fields, n);
    } else {
        buf_printf(&line, "%s %s%s%s %s:", when, colour ? COLOURS[level] : "", LEVELS_TEXT[level],
                   colour ? "\033[0m" : "", module);
        put_text(&line, &work, r, fields, n);
    }
    redact_text(r, buf_span(&line), true, &out);
    buf_put_char(&out, '\n');
    bool good =
        buf_status(&work) == ERR_OK && buf_status(&line) == ERR_OK && buf_status(&out) == ERR_OK;
    write_line(good ? out.p : lost, good ? out.len : sizeof(lost) - 1);
    buf_fini(&work);
    buf_fini(&line);
    buf_fini(&out);
    errno = saved;
}
