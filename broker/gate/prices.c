/*
 * The price list: read once through one table of keys, then only looked up. Sums are exact: a price
 * is whole nano-USD per million tokens, so a cost is whole millionths of a nano-USD until it is
 * rounded up at the end, and saturates instead of overflowing. Called by gate/config (reading) and
 * by whoever reserves and settles budgets.
 */
#include "gate/prices.h"

#include "base/conf.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLION        UINT64_C(1000000)
#define PRICE_MAX      (MILLION * UINT64_C(1000000000)) /* a million USD in nano-USD */
#define PRICE_TEXT_MAX 32u
#define MODEL_NAME_MAX 1024 /* "provider/model" with its NUL */

/* ---- the file ---- */

struct row_file {
    char *model;
    char *input;
    char *output;
    char *cached;
    char *reasoning;
};

struct file {
    struct conf_list rows;
};

// clang-format off
#define FIELD(key, member) CONF_FIELD(key, struct row_file, member)
static const struct conf_key ROW_KEYS[] = {
    {FIELD("model", model), .type = CONF_STRING, .required = true, .max = 512,
     .doc = "Which models, a glob over provider/model: openai/gpt-4o*. The first row that matches counts."},
    {FIELD("input", input), .type = CONF_STRING, .required = true, .max = PRICE_TEXT_MAX,
     .doc = "USD per million tokens of the prompt."},
    {FIELD("output", output), .type = CONF_STRING, .required = true, .max = PRICE_TEXT_MAX,
     .doc = "USD per million tokens of the reply."},
    {FIELD("cached_input", cached), .type = CONF_STRING, .max = PRICE_TEXT_MAX,
     .doc = "… of the prompt that the provider had in its cache; absent: as input."},
    {FIELD("reasoning", reasoning), .type = CONF_STRING, .max = PRICE_TEXT_MAX,
     .doc = "… of reasoning; absent: as output."},
};
#undef FIELD
static const struct conf_map ROW = {
    .keys = ROW_KEYS, .nkeys = sizeof(ROW_KEYS) / sizeof(ROW_KEYS[0]),
    .size = sizeof(struct row_file),
};

static const struct conf_key FILE_KEYS[] = {
    {CONF_FIELD("prices", struct file, rows), .type = CONF_LIST_OF_MAP, .map = &ROW,
     .required = true, .max = PRICES_ROWS_MAX, .doc = "Prices of models, in order."},
};
static const struct conf_map FILE_MAP = {
    .keys = FILE_KEYS, .nkeys = sizeof(FILE_KEYS) / sizeof(FILE_KEYS[0]),
    .size = sizeof(struct file),
};
// clang-format on

const struct conf_map *prices_keys(void)
{
    return &FILE_MAP;
}

/* ---- reading ---- */

/* In nano-USD per million tokens. */
struct row {
    char *model;
    uint64_t input;
    uint64_t cached;
    uint64_t output;
    uint64_t reasoning;
};

struct prices {
    struct row *rows;
    size_t n;
};

/* What a row is built from. */
struct reading {
    const struct conf_doc *doc;
    const struct row_file *file;
    struct error *e;
};

static enum err no_memory(struct error *e)
{
    return err_set(e, ERR_NOMEM, "out of memory for the prices");
}

/* "2", "0.15": digits, and after a point up to nine more. 010 is eight to YAML and ten to people.
 */
static bool parse_price(const char *text, uint64_t *nano)
{
    bool octal = text[0] == '0' && text[1] >= '0' && text[1] <= '9';
    const char *rest = NULL;

    return !octal && text_nano(text, nano, &rest) && *rest == '\0' && *nano <= PRICE_MAX;
}

/* `text` is the value of `key`; NULL: `fallback`. */
static enum err read_price(const struct reading *r, const char *key, const char *text,
                           uint64_t fallback, uint64_t *nano)
{
    if (text == NULL) {
        *nano = fallback;
        return ERR_OK;
    }
    if (!parse_price(text, nano)) {
        return conf_fault(r->doc, r->file, key, r->e,
                          "is no price, expected USD per million tokens: a number from 0 to "
                          "1000000 with at most 9 decimals, such as 2.50");
    }
    return ERR_OK;
}

/* Takes the model's name out of the file only when all is well. */
static enum err read_row(const struct reading *r, struct row *row)
{
    const struct row_file *f = r->file;

    if (strpbrk(f->model, "/*?[") == NULL) {
        return conf_fault(r->doc, f, "model", r->e,
                          "matches no model, expected a pattern of provider/model");
    }
    enum err err = read_price(r, "input", f->input, 0, &row->input);
    if (err == ERR_OK) {
        err = read_price(r, "output", f->output, 0, &row->output);
    }
    if (err == ERR_OK) {
        err = read_price(r, "cached_input", f->cached, row->input, &row->cached);
    }
    if (err == ERR_OK) {
        err = read_price(r, "reasoning", f->reasoning, row->output, &row->reasoning);
    }
    if (err != ERR_OK) {
        return err;
    }
    row->model = strdup(f->model);
    return row->model != NULL ? ERR_OK : no_memory(r->e);
}

static enum err build(const struct file *file, const struct conf_doc *doc, struct prices **out,
                      struct error *e)
{
    struct prices *p = calloc(1, sizeof(*p));
    enum err err = ERR_OK;

    if (p == NULL) {
        return no_memory(e);
    }
    p->rows = calloc(file->rows.n + 1, sizeof(*p->rows));
    if (p->rows == NULL) {
        err = no_memory(e);
    }
    while (err == ERR_OK && p->n < file->rows.n) {
        struct reading r = {doc, (const struct row_file *)file->rows.items + p->n, e};
        err = read_row(&r, &p->rows[p->n]);
        p->n++;
    }
    if (err != ERR_OK) {
        prices_free(p);
        return err;
    }
    *out = p;
    return ERR_OK;
}

enum err prices_parse(const char *name, const char *text, size_t n, struct prices **out,
                      struct error *e)
{
    struct file file = {0};
    struct conf_doc *doc = NULL;

    enum err err = conf_parse(name, text, n, &FILE_MAP, &file, &doc, e);
    if (err == ERR_OK) {
        err = build(&file, doc, out, e);
    }
    conf_fini(&FILE_MAP, &file);
    conf_doc_free(doc);
    return err;
}

enum err prices_read(const char *path, struct prices **out, struct error *e)
{
    char *text = NULL;
    size_t n = 0;

    enum err err = conf_load(path, &text, &n, e);
    if (err == ERR_OK) {
        err = prices_parse(path, text, n, out, e);
    }
    free(text);
    return err;
}

void prices_free(struct prices *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        free(p->rows[i].model);
    }
    free(p->rows);
    free(p);
}

/* ---- looking up ---- */

static const struct row *find(const struct prices *p, const char *provider, const char *model)
{
    char name[MODEL_NAME_MAX];

    if (p == NULL || provider == NULL || model == NULL) {
        return NULL;
    }
    int n = snprintf(name, sizeof(name), "%s/%s", provider, model);
    if (n < 0 || (size_t)n >= sizeof(name)) {
        return NULL;
    }
    for (size_t i = 0; i < p->n; i++) {
        if (text_glob(p->rows[i].model, name)) {
            return &p->rows[i];
        }
    }
    return NULL;
}

/* A sum of costs: whole nano-USD, and millionths of one. */
struct sum {
    uint64_t nano;
    uint64_t millionths;
};

static void add_nano(struct sum *s, uint64_t nano)
{
    s->nano = nano > UINT64_MAX - s->nano ? UINT64_MAX : s->nano + nano;
}

/* tokens * price / 1e6 in three products: the second and third are below 1e15 and 1e12. */
static void add(struct sum *s, uint64_t tokens, uint64_t price)
{
    uint64_t millions = tokens / MILLION;
    uint64_t rest = tokens % MILLION;

    add_nano(s, price != 0 && millions > UINT64_MAX / price ? UINT64_MAX : millions * price);
    add_nano(s, rest * (price / MILLION));
    s->millionths += rest * (price % MILLION);
}

static int64_t rounded_up(struct sum s)
{
    add_nano(&s, (s.millionths + MILLION - 1) / MILLION);
    return s.nano > INT64_MAX ? INT64_MAX : (int64_t)s.nano;
}

bool prices_cost(const struct prices *p, const char *provider, const char *model,
                 const struct price_usage *usage, int64_t *nano)
{
    const struct row *row = find(p, provider, model);
    struct sum sum = {0};

    if (row == NULL) {
        return false;
    }
    add(&sum, usage->input, row->input);
    add(&sum, usage->cached, row->cached);
    add(&sum, usage->output, row->output);
    add(&sum, usage->reasoning, row->reasoning);
    *nano = rounded_up(sum);
    return true;
}

static uint64_t dearer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool prices_upper(const struct prices *p, const char *provider, const char *model, uint64_t input,
                  uint64_t output, int64_t *nano)
{
    const struct row *row = find(p, provider, model);
    struct sum sum = {0};

    if (row == NULL) {
        return false;
    }
    add(&sum, input, dearer(row->input, row->cached));
    add(&sum, output, dearer(row->output, row->reasoning));
    *nano = rounded_up(sum);
    return true;
}
