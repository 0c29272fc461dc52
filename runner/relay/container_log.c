/*
 * See container_log.h. Called by the run's console with every line of stderr that is no request.
 * Work is linear in what came; of a record over its limit the rest is only looked at.
 */
#include "relay/container_log.h"

#include "base/text.h"

#include <ctype.h>

#define CUT_MARK "…"

void container_log_init(struct container_log *l, container_log_fn *on_record, void *ctx)
{
    *l = (struct container_log){.on_record = on_record, .ctx = ctx};
    buf_init(&l->message, CONTAINER_LOG_MAX + 16);
}

void container_log_fini(struct container_log *l)
{
    buf_fini(&l->message);
}

/* ---- one line ---- */

/* '9' stands for a digit. */
static bool has_form(struct span s, const char *form)
{
    size_t n = strlen(form);

    for (size_t i = 0; i < n; i++) {
        bool same =
            i < s.n && (form[i] == '9' ? isdigit((unsigned char)s.p[i]) != 0 : s.p[i] == form[i]);
        if (!same) {
            return false;
        }
    }
    return true;
}

static enum log_level level_of(struct span name)
{
    static const struct {
        struct span name;
        enum log_level level;
    } table[] = {
        {{"DEBUG", 5}, LOG_DEBUG}, {{"INFO", 4}, LOG_INFO},   {{"WARNING", 7}, LOG_WARN},
        {{"WARN", 4}, LOG_WARN},   {{"ERROR", 5}, LOG_ERROR}, {{"CRITICAL", 8}, LOG_ERROR},
        {{"FATAL", 5}, LOG_ERROR},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (span_eq(name, table[i].name)) {
            return table[i].level;
        }
    }
    return LOG_INFO;
}

struct head {
    enum log_level level;
    struct span logger;
    struct span text;
};

static bool read_head(struct span line, struct head *out)
{
    static const char time_form[] = "9999-99-99 99:99:99,999 [";
    static const size_t time_n = sizeof(time_form) - 1;

    if (!has_form(line, time_form)) {
        return false;
    }
    struct span rest = span_after(line, time_n);
    const char *bracket = memchr(rest.p, ']', rest.n);
    if (bracket == NULL) {
        return false;
    }
    out->level = level_of(span_of(rest.p, (size_t)(bracket - rest.p)));
    rest = span_after(rest, (size_t)(bracket - rest.p) + 1);
    const char *colon = rest.n > 1 && rest.p[0] == ' ' ? memmem(rest.p, rest.n, ": ", 2) : NULL;
    if (colon == NULL && rest.n > 2 && rest.p[0] == ' ' && rest.p[rest.n - 1] == ':') {
        colon = rest.p + rest.n - 1; /* an empty text */
    }
    if (colon == NULL || memchr(rest.p + 1, ' ', (size_t)(colon - rest.p) - 1) != NULL) {
        return false;
    }
    out->logger = span_of(rest.p + 1, (size_t)(colon - rest.p) - 1);
    rest = span_after(rest, (size_t)(colon - rest.p) + 1);
    out->text = rest.n > 0 ? span_after(rest, 1) : rest;
    return out->logger.n > 0;
}

static bool is_blank(struct span line)
{
    size_t n = 0;

    while (n < line.n && isspace((unsigned char)line.p[n])) {
        n++;
    }
    return n == line.n;
}

static bool continues(struct span line)
{
    static const struct span context = {"Context:", 8};

    return line.n == 0 || isspace((unsigned char)line.p[0]) || line.p[0] == '{' ||
           line.p[0] == '[' || (line.n >= context.n && memcmp(line.p, context.p, context.n) == 0);
}

/* ---- records ---- */

/* The next character of *s as it may stand in a log: valid, and no NUL. */
static struct span next_character(struct span *s)
{
    size_t width = text_utf8_char(s->p, s->n);
    struct span c = width == 0 ? SPAN("\xef\xbf\xbd") : span_of(s->p, width);

    if (s->p[0] == '\0') {
        c = SPAN(" ");
    }
    *s = span_after(*s, width == 0 ? 1 : width);
    return c;
}

/* A control character, C0 or C1. In a message the log shows it; a logger's name it takes as it is.
 */
static bool is_control(struct span c)
{
    unsigned char first = (unsigned char)c.p[0];

    return c.n == 1 ? first < 0x20 || first == 0x7f
                    : c.n == 2 && first == 0xc2 && (unsigned char)c.p[1] < 0xa0;
}

static void put_text(struct container_log *l, struct span s)
{
    while (s.n > 0 && !l->cut) {
        struct span c = next_character(&s);
        l->cut = l->message.len + c.n > CONTAINER_LOG_MAX;
        buf_put_span(&l->message, l->cut ? SPAN(CUT_MARK) : c);
    }
}

static void open_record(struct container_log *l, enum log_level level, struct span logger,
                        struct span text)
{
    size_t n = 0;

    container_log_flush(l);
    l->open = true;
    l->level = level;
    while (logger.n > 0) {
        struct span c = next_character(&logger);
        c = is_control(c) ? SPAN("\xef\xbf\xbd") : c;
        if (n + c.n > CONTAINER_LOGGER_MAX) {
            break;
        }
        memcpy(l->logger + n, c.p, c.n);
        n += c.n;
    }
    l->logger[n] = '\0';
    put_text(l, text);
}

void container_log_line(struct container_log *l, struct span line, bool more)
{
    struct head head;
    bool rest = l->in_line;
    bool had_record = l->logger[0] != '\0';

    l->in_line = more;
    if (line.n > 0 && line.p[line.n - 1] == '\r' && !more) {
        line.n--;
    }
    if (rest) {
        l->open = l->open || line.n > 0;
        put_text(l, line);
    } else if (read_head(line, &head)) {
        open_record(l, head.level, head.logger, head.text);
    } else if (l->open && continues(line)) {
        put_text(l, SPAN("\n"));
        put_text(l, line);
    } else if (had_record && continues(line) && !is_blank(line)) {
        l->open = true;
        put_text(l, line);
    } else if (!is_blank(line) || more) {
        open_record(l, LOG_WARN, SPAN("container.stderr"), line);
    }
}

void container_log_flush(struct container_log *l)
{
    if (!l->open) {
        return;
    }
    l->open = false;
    while (l->message.len > 0 && isspace((unsigned char)l->message.p[l->message.len - 1])) {
        buf_truncate(&l->message, l->message.len - 1);
    }
    l->on_record(l->ctx, l->level, l->logger, buf_cstr(&l->message));
    buf_clear(&l->message);
    l->cut = false;
}
