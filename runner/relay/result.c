/*
 * See result.h. Outside a block only the first bytes of a line are held, and only while they may
 * still become a marker, so output passes promptly and without a copy.
 */
#include "relay/result.h"

#include "base/json_span.h"
#include "base/text.h"

enum { AT_LINE_START, IN_LINE, IN_BLOCK };

#define MARKER_LINE_MAX 256u /* a marker with blanks around it */

static const struct span start_marker = {RESULT_START, sizeof(RESULT_START) - 1};
static const struct span end_marker = {RESULT_END, sizeof(RESULT_END) - 1};

void result_init(struct result *r, void (*on_output)(void *ctx, struct span piece), void *ctx)
{
    *r = (struct result){.on_output = on_output, .ctx = ctx, .state = AT_LINE_START};
    buf_init(&r->line, MARKER_LINE_MAX);
    buf_init(&r->block, RESULT_BLOCK_MAX);
    buf_init(&r->kept, RESULT_TEXT_MAX);
    buf_init(&r->found, RESULT_BLOCK_MAX);
}

void result_fini(struct result *r)
{
    buf_fini(&r->line);
    buf_fini(&r->block);
    buf_fini(&r->kept);
    buf_fini(&r->found);
}

/* ---- markers ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

static struct span strip(struct span s)
{
    while (s.n > 0 && is_blank(s.p[0])) {
        s = span_after(s, 1);
    }
    while (s.n > 0 && is_blank(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

/* Whether the beginning of a line may still become the start marker's line. */
static bool may_be_start(struct span line)
{
    struct span s = line;

    while (s.n > 0 && is_blank(s.p[0])) {
        s = span_after(s, 1);
    }
    size_t n = s.n < start_marker.n ? s.n : start_marker.n;
    return line.n < MARKER_LINE_MAX && span_eq(span_of(s.p, n), span_of(start_marker.p, n)) &&
           strip(span_after(s, n)).n == 0;
}

static bool is_result(struct span block)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_members members;
    struct json_fault fault;

    return json_check_object(block, &rules, &members, &fault) == ERR_OK;
}

/* ---- blocks ---- */

static void give(struct result *r, struct span piece)
{
    if (piece.n > 0) {
        r->on_output(r->ctx, piece);
    }
}

/* The block is none after all: its lines are output. */
static void drop_block(struct result *r)
{
    give(r, buf_span(&r->block));
    buf_fini(&r->block);
    r->state = AT_LINE_START;
}

/* Without the first line, which is the start marker's. */
static struct span inside(struct span block)
{
    const char *newline = memchr(block.p, '\n', block.n);

    return newline == NULL ? span_of(block.p, 0)
                           : span_after(block, (size_t)(newline - block.p) + 1);
}

/* `line` begins the last line of r->block. */
static void on_block_line(struct result *r, size_t line)
{
    struct span text = strip(span_after(buf_span(&r->block), line));
    struct span block = span_of(r->block.p, line);

    if (span_eq(text, start_marker)) {
        r->skipped++;
        give(r, block);
        buf_consume(&r->block, line);
    } else if (span_eq(text, end_marker)) {
        struct span result = strip(inside(block));
        if (is_result(result)) {
            buf_put_span(&r->found, result);
            r->has_found = buf_status(&r->found) == ERR_OK;
            buf_fini(&r->block);
            r->state = AT_LINE_START;
        } else {
            r->skipped++;
            drop_block(r);
        }
    }
}

/* Where the block's last line begins, whether it has its end or not. */
static size_t last_line(const struct result *r)
{
    const char *before = r->block.len < 2 ? NULL : memrchr(r->block.p, '\n', r->block.len - 1);

    return before == NULL ? 0 : (size_t)(before - r->block.p) + 1;
}

/* Takes the rest of a line into the block. */
static struct span feed_block(struct result *r, struct span in)
{
    const char *newline = memchr(in.p, '\n', in.n);
    size_t n = newline == NULL ? in.n : (size_t)(newline - in.p) + 1;

    if (r->block.len + n > RESULT_BLOCK_MAX || buf_reserve(&r->block, n) != ERR_OK) {
        bool inside_line = r->block.p[r->block.len - 1] != '\n';
        r->skipped++;
        drop_block(r);
        r->state = inside_line ? IN_LINE : AT_LINE_START;
        return in;
    }
    buf_put(&r->block, in.p, n);
    if (newline != NULL) {
        on_block_line(r, last_line(r));
    }
    return span_after(in, n);
}

/* ---- outside ---- */

/* The beginning of a line: held while it may become the start marker. */
static struct span feed_start(struct result *r, struct span in)
{
    const char *newline = memchr(in.p, '\n', in.n);
    size_t n = newline == NULL ? in.n : (size_t)(newline - in.p);

    n = n < MARKER_LINE_MAX - r->line.len ? n : MARKER_LINE_MAX - r->line.len;
    size_t held = r->line.len;
    buf_put(&r->line, in.p, n);
    if (buf_status(&r->line) != ERR_OK || !may_be_start(buf_span(&r->line))) {
        give(r, span_of(r->line.p, held)); /* of what came now, `in` has it still */
        buf_clear(&r->line);
        r->state = IN_LINE;
        return in;
    }
    in = span_after(in, n);
    if (newline == NULL) {
        return in;
    }
    buf_put_char(&r->line, '\n');
    if (span_eq(strip(buf_span(&r->line)), start_marker)) {
        buf_put_span(&r->block, buf_span(&r->line));
        r->state = IN_BLOCK;
    } else {
        give(r, buf_span(&r->line));
    }
    buf_clear(&r->line);
    return span_after(in, 1);
}

/* Any other line; whole runs of lines that cannot be markers pass at once. */
static struct span feed_line(struct result *r, struct span in)
{
    const char *newline = memchr(in.p, '\n', in.n);
    size_t n = newline == NULL ? in.n : (size_t)(newline - in.p) + 1;

    while (newline != NULL && n < in.n && in.p[n] != '<' && !is_blank(in.p[n])) {
        newline = memchr(in.p + n, '\n', in.n - n);
        n = newline == NULL ? in.n : (size_t)(newline - in.p) + 1;
    }
    give(r, span_of(in.p, n));
    if (newline != NULL) {
        r->state = AT_LINE_START;
    }
    return span_after(in, n);
}

static void keep(struct result *r, struct span in)
{
    size_t room = RESULT_TEXT_MAX - r->kept.len;
    size_t n = in.n < room ? in.n : room;

    buf_put(&r->kept, in.p, n);
    r->truncated = r->truncated || n < in.n || buf_status(&r->kept) != ERR_OK;
}

void result_feed(struct result *r, struct span in)
{
    keep(r, in);
    while (in.n > 0) {
        if (r->has_found) {
            give(r, in);
            return;
        }
        switch (r->state) {
        case AT_LINE_START:
            in = feed_start(r, in);
            break;
        case IN_LINE:
            in = feed_line(r, in);
            break;
        default:
            in = feed_block(r, in);
            break;
        }
    }
}

/* ---- the end ---- */

static struct span find(struct span in, struct span marker)
{
    const char *p = in.n == 0 ? NULL : memmem(in.p, in.n, marker.p, marker.n);

    return p == NULL ? (struct span){NULL, 0} : span_after(in, (size_t)(p - in.p));
}

/* Markers anywhere: a program may print them after a prompt, or without a line end. */
static void search_again(struct result *r)
{
    struct span rest = find(buf_span(&r->kept), start_marker);

    while (rest.p != NULL && !r->has_found) {
        rest = span_after(rest, start_marker.n);
        struct span end = find(rest, end_marker);
        if (end.p == NULL) {
            return;
        }
        struct span block = strip(span_of(rest.p, (size_t)(end.p - rest.p)));
        if (is_result(block)) {
            buf_put_span(&r->found, block);
            r->has_found = buf_status(&r->found) == ERR_OK;
        }
        rest = find(rest, start_marker);
    }
}

void result_end(struct result *r)
{
    struct buf last;

    if (r->state == IN_BLOCK && r->block.p[r->block.len - 1] != '\n') {
        on_block_line(r, last_line(r)); /* an end marker without its line end */
    }
    last = r->state == IN_BLOCK ? r->block : r->line;
    if (!r->has_found) {
        search_again(r);
    }
    if (!r->has_found) {
        give(r, buf_span(&last));
    }
    buf_fini(&r->block);
    buf_fini(&r->line);
    r->state = AT_LINE_START;
}

struct span result_block(const struct result *r)
{
    return r->has_found ? buf_span(&r->found) : (struct span){NULL, 0};
}

/* A character that the limit cut is left away. */
static size_t whole_characters(struct span s)
{
    size_t n = s.n;

    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        unsigned char c = (unsigned char)s.p[s.n - back];
        if (c >= 0xc0) {
            size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return need > back ? s.n - back : n;
        }
        if (c < 0x80) {
            return n;
        }
    }
    return n;
}

static void put_valid(struct buf *out, struct span s)
{
    while (s.n > 0) {
        size_t n = 0;
        size_t width = text_utf8_char(s.p, s.n);
        while (width > 0 && n < s.n) {
            n += width;
            width = n < s.n ? text_utf8_char(s.p + n, s.n - n) : 0;
        }
        buf_put(out, s.p, n);
        s = span_after(s, n);
        if (s.n > 0) {
            buf_put_str(out, "\xef\xbf\xbd");
            s = span_after(s, 1);
        }
    }
}

struct span result_text(struct result *r)
{
    struct span s = buf_span(&r->kept);
    struct buf valid;

    if (r->truncated) {
        s.n = whole_characters(s);
    }
    s = strip(s);
    if (s.n == 0 || text_utf8_valid(s.p, s.n)) {
        return s;
    }
    buf_init(&valid, 3 * RESULT_TEXT_MAX);
    put_valid(&valid, s);
    buf_fini(&r->kept);
    r->kept = valid;
    return buf_status(&valid) == ERR_OK ? buf_span(&valid) : (struct span){NULL, 0};
}
