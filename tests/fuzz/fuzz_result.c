/*
 * The result in any stdout: whole, and in pieces whose size is the first byte, the same is found
 * and the same passes. What passes is what came, but for one run of bytes that holds the result.
 */
#include "base/json_span.h"
#include "base/text.h"
#include "relay/result.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct buf output;
    struct buf block;
    struct buf text;
    unsigned skipped;
    bool found;
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void on_output(void *ctx, struct span piece)
{
    struct seen *s = ctx;

    require(piece.n > 0);
    buf_put_span(&s->output, piece);
}

static void run(struct span in, size_t step, struct seen *s)
{
    struct result r;

    buf_init(&s->output, 1u << 30);
    buf_init(&s->block, 1u << 30);
    buf_init(&s->text, 1u << 30);
    result_init(&r, on_output, s);
    while (in.n > 0) {
        struct span piece = span_of(in.p, step < in.n ? step : in.n);
        in = span_after(in, piece.n);
        result_feed(&r, piece);
    }
    result_end(&r);
    struct span block = result_block(&r);
    s->found = block.p != NULL;
    s->skipped = r.skipped;
    require(s->found == r.has_found);
    buf_put_span(&s->block, block);
    buf_put_span(&s->text, s->found ? (struct span){NULL, 0} : result_text(&r));
    result_fini(&r);
}

static void check_block(struct span block, struct span in)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_members members;
    struct json_fault fault;

    require(memmem(in.p, in.n, block.p, block.n) != NULL);
    require(block.p[0] == '{' && block.p[block.n - 1] == '}');
    require(json_check_object(block, &rules, &members, &fault) == ERR_OK);
}

/* `out` is `in` without one run of bytes, in which `block` is. */
static void check_output(struct span out, struct span in, struct span block)
{
    size_t before = 0;
    size_t after = 0;

    require(out.n <= in.n);
    while (before < out.n && out.p[before] == in.p[before]) {
        before++;
    }
    while (after < out.n && out.p[out.n - 1 - after] == in.p[in.n - 1 - after]) {
        after++;
    }
    require(before + after >= out.n);
    if (out.n < in.n) {
        size_t begin = out.n > after ? out.n - after : 0;
        size_t end = before + (in.n - out.n);
        require(block.p != NULL && memmem(in.p + begin, end - begin, block.p, block.n) != NULL);
    }
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void check_text(struct span text)
{
    if (text.n > 0) {
        require(text_utf8_valid(text.p, text.n));
        require(!is_white(text.p[0]) && !is_white(text.p[text.n - 1]));
    }
}

static void fini(struct seen *s)
{
    buf_fini(&s->output);
    buf_fini(&s->block);
    buf_fini(&s->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole;
    struct seen cut;

    if (size < 2) {
        return 0;
    }
    struct span in = span_of((const char *)data + 1, size - 1);
    run(in, size, &whole);
    run(in, (size_t)data[0] + 1, &cut);
    require(span_eq(buf_span(&whole.output), buf_span(&cut.output)));
    require(span_eq(buf_span(&whole.block), buf_span(&cut.block)));
    require(span_eq(buf_span(&whole.text), buf_span(&cut.text)));
    require(whole.found == cut.found && whole.skipped == cut.skipped);
    if (whole.found) {
        check_block(buf_span(&whole.block), in);
    }
    check_output(buf_span(&whole.output), in, buf_span(&whole.block));
    check_text(buf_span(&whole.text));
    fini(&whole);
    fini(&cut);
    return 0;
}
