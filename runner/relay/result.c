/*
 * See result.h. Called by the run's console.
 *
 * Outside a block whole reads pass at once: a marker is searched for as bytes, and only then is
 * looked at where its line begins. Every decision about a line is marker_of()'s, so that it is the
 * same however the line was cut. All work is linear in what came, also for the worst output.
 */
#include "relay/result.h"

#include "base/json_span.h"
#include "base/text.h"

/* What fits in a block's buffer: its text and three lines that are no more than markers. */
#define BLOCK_BUFFER_MAX (RESULT_BLOCK_MAX + 3 * RESULT_MARKER_LINE_MAX)

static const struct span start_marker = {RESULT_START, sizeof(RESULT_START) - 1};
static const struct span end_marker = {RESULT_END, sizeof(RESULT_END) - 1};

void result_init(struct result *r, void (*on_output)(void *ctx, struct span piece), void *ctx)
{
    *r = (struct result){.on_output = on_output, .ctx = ctx, .at_line_start = true};
    buf_init(&r->block, BLOCK_BUFFER_MAX);
    buf_init(&r->kept, RESULT_TEXT_MAX);
    buf_init(&r->found, BLOCK_BUFFER_MAX);
}

void result_fini(struct result *r)
{
    buf_fini(&r->block);
    buf_fini(&r->kept);
    buf_fini(&r->found);
}

/* ---- markers ---- */

enum marker { MARKER_NONE, MARKER_MAYBE, MARKER_START, MARKER_END };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static size_t skip_blanks(struct span s, size_t i)
{
    while (i < s.n && is_blank(s.p[i])) {
        i++;
    }
    return i;
}

static bool begins_with(struct span s, struct span prefix)
{
    return s.n >= prefix.n && memcmp(s.p, prefix.p, prefix.n) == 0;
}

/* What the line that begins at `s` is, as far as it came; `over`: nothing comes after `s`. *n is a
 * marker's length with its line end. */
static enum marker marker_of(struct span s, bool over, size_t *n)
{
    struct span line = span_of(s.p, s.n < RESULT_MARKER_LINE_MAX ? s.n : RESULT_MARKER_LINE_MAX);
    enum marker open = line.n < RESULT_MARKER_LINE_MAX && !over ? MARKER_MAYBE : MARKER_NONE;
    size_t i = skip_blanks(line, 0);
    struct span rest = span_after(line, i);
    bool start = begins_with(rest, start_marker);

    if (!start && !begins_with(rest, end_marker)) {
        bool begun =
            rest.n == 0 || begins_with(start_marker, rest) || begins_with(end_marker, rest);
        return begun ? open : MARKER_NONE;
    }
    i = skip_blanks(line, i + (start ? start_marker.n : end_marker.n));
    if (i == line.n && (!over || i == RESULT_MARKER_LINE_MAX)) {
        return open;
    }
    if (i < line.n && line.p[i] != '\n') {
        return MARKER_NONE;
    }
    *n = i < line.n ? i + 1 : i;
    return start ? MARKER_START : MARKER_END;
}

/* Not memmem: what watches memory (ThreadSanitizer) counts all that lies behind a find as read, and
 * many finds then cost the square of the output. */
static struct span find(struct span in, struct span marker)
{
    const char *p = in.n == 0 ? NULL : memchr(in.p, marker.p[0], in.n);

    while (p != NULL) {
        in = span_after(in, (size_t)(p - in.p));
        if (in.n < marker.n) {
            break;
        }
        if (memcmp(in.p, marker.p, marker.n) == 0) {
            return in;
        }
        in = span_after(in, 1);
        p = in.n == 0 ? NULL : memchr(in.p, marker.p[0], in.n);
    }
    return (struct span){NULL, 0};
}

static struct span strip(struct span s)
{
    while (s.n > 0 && (is_blank(s.p[0]) || s.p[0] == '\n')) {
        s = span_after(s, 1);
    }
    while (s.n > 0 && (is_blank(s.p[s.n - 1]) || s.p[s.n - 1] == '\n')) {
        s.n--;
    }
    return s;
}

static bool is_result(struct span text)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_members members;
    struct json_fault fault;

    return json_check_object(text, &rules, &members, &fault) == ERR_OK;
}

static void give(struct result *r, struct span piece)
{
    if (piece.n > 0) {
        r->on_output(r->ctx, piece);
    }
}

/* ---- inside a block ---- */

/* `line` is a start marker's. */
static void begin_block(struct result *r, struct span line)
{
    r->at_line_start = true;
    buf_put_span(&r->block, line);
    if (buf_status(&r->block) != ERR_OK) {
        r->skipped++;
        buf_clear(&r->block);
        give(r, line);
        return;
    }
    r->in_block = true;
    r->block_text = line.n;
    r->block_line = line.n;
}

/* The block is none after all: its lines are output. */
static void drop_block(struct result *r)
{
    r->skipped++;
    r->in_block = false;
    r->at_line_start = r->block.p[r->block.len - 1] == '\n';
    give(r, buf_span(&r->block));
    buf_fini(&r->block);
}

/* The last line of the block is another start marker. */
static void restart_block(struct result *r)
{
    r->skipped++;
    give(r, span_of(r->block.p, r->block_line));
    buf_consume(&r->block, r->block_line);
    r->block_text = r->block.len;
    r->block_line = r->block.len;
}

/* The last line of the block is the end marker. */
static void end_block(struct result *r)
{
    struct span text = span_of(r->block.p + r->block_text, r->block_line - r->block_text);

    text = strip(text);
    if (!is_result(text)) {
        drop_block(r);
        return;
    }
    r->found = r->block;
    r->winner = text;
    r->has_found = true;
    r->in_block = false;
    buf_init(&r->block, BLOCK_BUFFER_MAX);
    buf_fini(&r->kept); /* for who has no result */
}

/* Looks at the block's last line, which is whole, or the last of all. */
static void end_block_line(struct result *r, bool over)
{
    size_t n = 0;

    switch (marker_of(span_after(buf_span(&r->block), r->block_line), over, &n)) {
    case MARKER_START:
        if (!over) {
            restart_block(r);
        }
        break;
    case MARKER_END:
        end_block(r);
        break;
    default:
        r->block_line = r->block.len;
        break;
    }
}

/* The text is too long; a line that may yet be the end marker does not count. */
static bool block_is_too_long(const struct result *r)
{
    bool marker = r->block.len - r->block_line < RESULT_MARKER_LINE_MAX;

    return (marker ? r->block_line : r->block.len) - r->block_text > RESULT_BLOCK_MAX;
}

/* Takes the rest of a line into the block. */
static struct span feed_block(struct result *r, struct span in)
{
    const char *newline = memchr(in.p, '\n', in.n);
    size_t n = newline == NULL ? in.n : (size_t)(newline - in.p) + 1;
    size_t room = BLOCK_BUFFER_MAX - r->block.len;

    if (n > room) {
        n = room;
        newline = NULL;
    }
    if (buf_reserve(&r->block, n) != ERR_OK) {
        drop_block(r);
        return in;
    }
    buf_put(&r->block, in.p, n);
    if (newline != NULL) {
        end_block_line(r, false);
    }
    if (r->in_block && block_is_too_long(r)) {
        drop_block(r);
    }
    return span_after(in, n);
}

/* ---- outside ---- */

/* Where the line begins whose first byte other than a blank is at `at`; false when `in` does not
 * have its beginning, or when that is no line for a marker. */
static bool line_begin(struct span in, bool at_line_start, size_t at, size_t *begin)
{
    size_t i = at;

    while (i > 0 && at - i < RESULT_MARKER_LINE_MAX && is_blank(in.p[i - 1])) {
        i--;
    }
    *begin = i;
    return i == 0 ? at_line_start : in.p[i - 1] == '\n';
}

/* Where the last line begins if it is no longer than a marker's may be; in.n: nowhere. */
static size_t last_line(struct span in, bool at_line_start)
{
    size_t n = in.n < RESULT_MARKER_LINE_MAX ? in.n : RESULT_MARKER_LINE_MAX;
    const char *newline = memrchr(in.p + in.n - n, '\n', n);

    if (newline != NULL) {
        return (size_t)(newline - in.p) + 1;
    }
    return at_line_start && in.n < RESULT_MARKER_LINE_MAX ? 0 : in.n;
}

/* The bytes of `in` up to the first line that is a start marker (its length is *marker_n), or to a
 * last line that may become a marker (0). */
static size_t output_length(struct span in, bool at_line_start, size_t *marker_n)
{
    struct span at = find(in, start_marker);

    while (at.p != NULL) {
        size_t begin = 0;
        if (line_begin(in, at_line_start, in.n - at.n, &begin) &&
            marker_of(span_after(in, begin), false, marker_n) == MARKER_START) {
            return begin;
        }
        at = find(span_after(at, start_marker.n), start_marker);
    }
    *marker_n = 0;
    size_t last = last_line(in, at_line_start);
    size_t n = 0;
    bool maybe = last < in.n && marker_of(span_after(in, last), false, &n) == MARKER_MAYBE;
    return maybe ? last : in.n;
}

static struct span feed_output(struct result *r, struct span in)
{
    size_t marker_n = 0;
    size_t n = output_length(in, r->at_line_start, &marker_n);

    give(r, span_of(in.p, n));
    if (n > 0) {
        r->at_line_start = in.p[n - 1] == '\n';
    }
    in = span_after(in, n);
    if (marker_n > 0) {
        begin_block(r, span_of(in.p, marker_n));
        return span_after(in, marker_n);
    }
    memcpy(r->line, in.p, in.n); /* what is left may become a marker */
    r->line_n = in.n;
    return span_after(in, in.n);
}

/* Goes on with the beginning of a line that is held. */
static struct span feed_line(struct result *r, struct span in)
{
    size_t room = sizeof(r->line) - r->line_n;
    size_t n = in.n < room ? in.n : room;
    const char *newline = memchr(in.p, '\n', n);
    struct span held = span_of(r->line, r->line_n);
    size_t marker_n = 0;

    n = newline == NULL ? n : (size_t)(newline - in.p) + 1;
    memcpy(r->line + r->line_n, in.p, n);
    struct span line = span_of(r->line, r->line_n + n);
    switch (marker_of(line, false, &marker_n)) {
    case MARKER_MAYBE:
        r->line_n = line.n;
        return span_after(in, n);
    case MARKER_START:
        r->line_n = 0;
        begin_block(r, line);
        return span_after(in, n);
    default:
        r->line_n = 0;
        r->at_line_start = false;
        give(r, held); /* the rest of the line is in `in` still */
        return in;
    }
}

static void keep(struct result *r, struct span in)
{
    size_t room = RESULT_TEXT_MAX - r->kept.len;

    r->total += in.n;
    buf_put(&r->kept, in.p, in.n < room ? in.n : room);
    r->truncated = r->total > r->kept.len;
}

void result_feed(struct result *r, struct span in)
{
    if (!r->has_found) {
        keep(r, in);
    }
    while (in.n > 0) {
        if (r->has_found) {
            give(r, in);
            return;
        }
        if (r->in_block) {
            in = feed_block(r, in);
        } else if (r->line_n > 0) {
            in = feed_line(r, in);
        } else {
            in = feed_output(r, in);
        }
    }
}

/* ---- the end ---- */

/* Markers anywhere: a program may print them after a prompt, or without a line end. *end is where
 * in stdout the winner's text ends. Linear: the end marker is searched for once, and what is no
 * JSON shows it at once, or before the start marker after the next. */
static void search_again(struct result *r, uint64_t *end)
{
    struct span all = buf_span(&r->kept);
    struct span start = find(all, start_marker);
    struct span stop = {NULL, 0};

    while (start.p != NULL) {
        struct span rest = span_after(start, start_marker.n);
        if (stop.p == NULL || stop.p < rest.p) {
            stop = find(rest, end_marker);
        }
        if (stop.p == NULL) {
            return;
        }
        struct span text = span_of(rest.p, (size_t)(stop.p - rest.p));
        if (is_result(text)) {
            buf_put_span(&r->found, strip(text));
            r->has_found = buf_status(&r->found) == ERR_OK;
            r->winner = buf_span(&r->found);
            *end = r->has_found ? (uint64_t)(stop.p - all.p) : 0;
            return;
        }
        start = find(rest, start_marker);
    }
}

void result_end(struct result *r)
{
    uint64_t winner_end = 0;

    if (r->in_block && r->block.len > r->block_line) {
        end_block_line(r, true); /* an end marker without its line end */
    }
    struct span last = r->in_block ? buf_span(&r->block) : span_of(r->line, r->line_n);
    if (!r->has_found) {
        search_again(r, &winner_end);
    }
    /* Lines that hold the winner, behind a cut end marker, are not given as output too. */
    if (winner_end <= r->total - last.n) {
        give(r, last);
    }
    buf_fini(&r->block);
    r->in_block = false;
    r->line_n = 0;
    r->at_line_start = true;
}

struct span result_block(const struct result *r)
{
    return r->has_found ? r->winner : (struct span){NULL, 0};
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
    if (buf_status(&valid) != ERR_OK) {
        buf_fini(&valid);
        return (struct span){NULL, 0};
    }
    buf_fini(&r->kept);
    r->kept = valid;
    return buf_span(&r->kept);
}
