/*
 * brokerctl's output: see output.h. Pure but for write(2). Called by brokerctl.c and commands.c.
 */
#include "ctl/output.h"

#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INDENT     2u
#define INDENT_MAX 64u /* deeper levels are not indented further */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void output_init(struct output *o, int fd, bool terminal, bool colour)
{
    o->fd = fd;
    o->terminal = terminal;
    o->colour = terminal && colour;
    o->sys = 0;
    o->last = '\n';
    o->n = 0;
}

bool output_terminal(int fd)
{
    return isatty(fd) == 1;
}

bool output_colour(const char *no_color, const char *term)
{
    return (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

/* ---- bytes ---- */

/* Somebody may have made the terminal or pipe non-blocking: then wait for room. */
static bool wait_for_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

static void write_held(struct output *o)
{
    size_t sent = 0;

    while (sent < o->n && o->sys == 0) {
        ssize_t n = write(o->fd, o->held + sent, o->n - sent);
        if (n >= 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            if (!wait_for_room(o->fd)) {
                o->sys = errno;
            }
        } else if (errno != EINTR) {
            o->sys = errno;
        }
    }
    o->n = 0;
}

static void put_raw(struct output *o, const char *p, size_t n)
{
    while (n > 0 && o->sys == 0) {
        size_t room = sizeof(o->held) - o->n;
        size_t part = n < room ? n : room;
        memcpy(o->held + o->n, p, part);
        o->n += part;
        p += part;
        n -= part;
        if (o->n == sizeof(o->held)) {
            write_held(o);
        }
    }
}

void output_put(struct output *o, struct span text)
{
    if (text.n > 0) {
        put_raw(o, text.p, text.n);
        o->last = text.p[text.n - 1];
    }
}

void output_str(struct output *o, const char *text)
{
    output_put(o, span_str(text));
}

void output_printf(struct output *o, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n > 0) {
        output_put(o, span_of(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1));
    }
}

void output_end_line(struct output *o)
{
    if (o->last != '\n') {
        output_put(o, SPAN("\n"));
    }
}

void output_style(struct output *o, enum output_style style)
{
    static const char *const codes[] = {
        [OUTPUT_PLAIN] = "\x1b[0m",
        [OUTPUT_BOLD] = "\x1b[1m",
        [OUTPUT_DIM] = "\x1b[2m",
        [OUTPUT_RED] = "\x1b[31m",
    };

    if (o->colour) {
        put_raw(o, codes[style], strlen(codes[style])); /* no text: `last` stays */
    }
}

enum err output_flush(struct output *o, struct error *e)
{
    write_held(o);
    if (o->sys == 0) {
        return ERR_OK;
    }
    return err_sys(e, o->sys == EPIPE ? ERR_CLOSED : ERR_IO, o->sys, "cannot write");
}

/* ---- text from elsewhere ---- */

/* C0 and DEL are one byte; C1 (U+0080 to U+009F) are two, and terminals obey them too. */
static bool is_control(const char *p, size_t len)
{
    unsigned char c = (unsigned char)p[0];

    return len == 1 ? c < 0x20 || c == 0x7f : len == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0;
}

/* What stands for the character of `len` bytes (0: invalid) at `p`; absent: itself. */
static struct span stand_in(const char *p, size_t len, bool one_line)
{
    if (len == 0) {
        return SPAN(replacement);
    }
    bool layout = *p == '\n' || *p == '\t';
    if (one_line && (layout || *p == '\r')) {
        return SPAN(" ");
    }
    if (is_control(p, len) && !layout) {
        return SPAN(replacement);
    }
    return (struct span){0};
}

static void put_clean(struct output *o, struct span text, bool one_line)
{
    size_t run = 0; /* start of what goes out unchanged */
    size_t i = 0;

    while (i < text.n) {
        size_t len = text_utf8_char(text.p + i, text.n - i);
        struct span instead = stand_in(text.p + i, len, one_line);
        size_t next = i + (len == 0 ? 1 : len);
        if (instead.p != NULL) {
            output_put(o, span_of(text.p + run, i - run));
            output_put(o, instead);
            run = next;
        }
        i = next;
    }
    output_put(o, span_of(text.p + run, text.n - run));
}

void output_remote(struct output *o, struct span text)
{
    if (o->terminal) {
        put_clean(o, text, false);
    } else {
        output_put(o, text);
    }
}

void output_remote_line(struct output *o, struct span text)
{
    put_clean(o, text, true);
}

void output_pad(struct output *o, struct span text, size_t width)
{
    size_t characters = 0;

    for (size_t i = 0; i < text.n; i++) {
        characters += ((unsigned char)text.p[i] & 0xc0u) != 0x80u;
    }
    for (; characters < width; characters++) {
        output_put(o, SPAN(" "));
    }
}

void output_label(struct output *o, const char *label, size_t width)
{
    output_style(o, OUTPUT_BOLD);
    output_str(o, label);
    output_style(o, OUTPUT_PLAIN);
    output_pad(o, span_str(label), width);
}

/* ---- JSON ---- */

static void new_line(struct output *o, size_t depth)
{
    size_t spaces = (depth < INDENT_MAX ? depth : INDENT_MAX) * INDENT;

    output_put(o, SPAN("\n"));
    for (size_t i = 0; i < spaces; i++) {
        output_put(o, SPAN(" "));
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Length of the string at `p`, quotes included. */
static size_t string_length(const char *p, size_t n)
{
    size_t i = 1;

    while (i < n && p[i] != '"') {
        i += p[i] == '\\' ? 2 : 1;
    }
    return i < n ? i + 1 : n;
}

/* Length of a number or word at `p`. */
static size_t word_length(const char *p, size_t n)
{
    size_t i = 1;

    while (i < n && !is_space(p[i]) && memchr(",:[]{}\"", p[i], 7) == NULL) {
        i++;
    }
    return i;
}

static size_t skip_spaces(struct span json, size_t i)
{
    while (i < json.n && is_space(json.p[i])) {
        i++;
    }
    return i;
}

/* One token of valid JSON at `i`, on a terminal's lines; returns where the next one may be. Values
 * keep their bytes. */
static size_t put_token(struct output *o, struct span json, size_t i, size_t *depth)
{
    char c = json.p[i];
    size_t next = skip_spaces(json, i + 1);
    bool open = c == '{' || c == '[';

    if (open && next < json.n && (json.p[next] == '}' || json.p[next] == ']')) {
        output_str(o, c == '{' ? "{}" : "[]");
        return next + 1;
    }
    if (open || c == ',') {
        *depth += open ? 1 : 0;
        output_put(o, span_of(&c, 1));
        new_line(o, *depth);
    } else if (c == '}' || c == ']') {
        *depth -= *depth > 0 ? 1 : 0;
        new_line(o, *depth);
        output_put(o, span_of(&c, 1));
    } else if (c == ':') {
        output_str(o, ": ");
    } else {
        size_t n =
            c == '"' ? string_length(json.p + i, json.n - i) : word_length(json.p + i, json.n - i);
        output_remote(o, span_of(json.p + i, n));
        return i + n;
    }
    return next;
}

void output_json(struct output *o, struct span json)
{
    size_t depth = 0;
    size_t i = skip_spaces(json, 0);

    if (!o->terminal) {
        output_put(o, json);
    }
    while (o->terminal && i < json.n) {
        i = skip_spaces(json, put_token(o, json, i, &depth));
    }
    output_put(o, SPAN("\n"));
}
