/*
 * The admin API's answers as an operator reads them: see operate.h. Small documents, so they become
 * cJSON trees. What an answer lacks is shown as "-"; what it has more is not shown.
 */
#include "ctl/operate.h"

#include "base/json.h"
#include "ctl/table.h"
#include "net/fetch.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#define LABEL_WIDTH  13u
#define MODELS_WIDTH 40u /* characters; more is cut */
#define COST_DIGITS  6
#define COST_LEAST   4 /* of the digits, those that are shown though they be 0 */
#define BUDGET_LEAST 2
#define WORDS_MAX    ((size_t)64 * 1024)
#define DAY          86400u

/* ---- values ---- */

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *v = get(object, key);

    return cJSON_IsString(v) ? v->valuestring : "";
}

/* A count; false when it is none. */
static bool count_of(const cJSON *object, const char *key, unsigned long long *n)
{
    const cJSON *v = get(object, key);

    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble >= 1.8e19) {
        *n = 0;
        return false;
    }
    *n = (unsigned long long)v->valuedouble;
    return true;
}

/* ", " between words. */
static void put_comma(struct buf *b)
{
    buf_put_str(b, b->len > 0 ? ", " : "");
}

/* "0.0012", "12.5000", "0.000106": six digits; behind the first `least`, zeros at the end go. */
static void put_cost(struct buf *b, double usd, int least)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%.*f", COST_DIGITS, usd);

    if (n < 0 || (size_t)n >= sizeof(text)) {
        buf_printf(b, "%.6g", usd);
        return;
    }
    if (usd > 0 && strspn(text, "0.") == strlen(text)) {
        buf_put_str(b, "<0.000001");
        return;
    }
    for (int cut = COST_DIGITS; cut > least && text[n - 1] == '0'; cut--) {
        text[--n] = '\0';
    }
    buf_put_str(b, text);
}

/* "2026-12-31T23:59:59.000Z" without the fraction. */
static void put_time(struct buf *b, const char *time)
{
    size_t n = strcspn(time, ".");

    buf_put(b, time, n);
    buf_put_str(b, time[n] == '.' ? "Z" : "");
}

/* "3 d 4 h", "4 h 12 min", "12 min", "5 s": the two largest units. */
static void put_duration(struct buf *b, unsigned long long s)
{
    if (s >= DAY) {
        buf_printf(b, "%llu d %llu h", s / DAY, s % DAY / 3600);
    } else if (s >= 3600) {
        buf_printf(b, "%llu h %llu min", s / 3600, s % 3600 / 60);
    } else if (s >= 60) {
        buf_printf(b, "%llu min", s / 60);
    } else {
        buf_printf(b, "%llu s", s);
    }
}

static bool is_empty(const cJSON *list)
{
    return cJSON_GetArraySize(list) == 0;
}

/* ---- one line of a document ---- */

static void put_line(struct output *o, const char *label, const char *text)
{
    output_label(o, label, LABEL_WIDTH);
    output_remote_line(o, text[0] == '\0' ? SPAN("-") : span_str(text));
    output_str(o, "\n");
}

static bool put_words(struct output *o, const char *label, struct buf *words)
{
    bool good = buf_status(words) == ERR_OK;

    if (good) {
        put_line(o, label, buf_cstr(words));
    }
    buf_fini(words);
    return good;
}

/* Lines of the strings and counts that there are. */
static void put_lines(struct output *o, const cJSON *document, const char *const *keys, size_t n)
{
    unsigned long long count = 0;
    char text[32];

    for (size_t i = 0; i < n; i++) {
        if (cJSON_IsString(get(document, keys[i]))) {
            put_line(o, keys[i], text_of(document, keys[i]));
        } else if (count_of(document, keys[i], &count)) {
            (void)snprintf(text, sizeof(text), "%llu", count);
            put_line(o, keys[i], text);
        }
    }
}

/* An object, or NULL. The caller frees it with cJSON_Delete. */
static cJSON *read_object(struct span json)
{
    cJSON *document = json_document(json, FETCH_BODY_MAX);

    if (!cJSON_IsObject(document)) {
        cJSON_Delete(document);
        return NULL;
    }
    return document;
}

/* A list of objects, or NULL. */
static cJSON *read_list(struct span json)
{
    cJSON *document = json_document(json, FETCH_BODY_MAX);
    const cJSON *item = NULL;
    bool good = cJSON_IsArray(document);

    cJSON_ArrayForEach(item, document)
    {
        good = good && cJSON_IsObject(item);
    }
    if (!good) {
        cJSON_Delete(document);
        return NULL;
    }
    return document;
}

/* ---- status ---- */

static bool show_state(struct output *o, const cJSON *status)
{
    unsigned long long up = 0;
    struct buf words;

    buf_init(&words, WORDS_MAX);
    buf_put_str(&words, text_of(status, "state"));
    if (count_of(status, "uptime_seconds", &up)) {
        put_comma(&words);
        buf_put_str(&words, "up ");
        put_duration(&words, up);
    }
    const char *started = text_of(status, "started_at");
    if (started[0] != '\0') {
        put_comma(&words);
        buf_put_str(&words, "since ");
        put_time(&words, started);
    }
    return put_words(o, "state", &words);
}

static bool show_config(struct output *o, const cJSON *status)
{
    const cJSON *config = get(status, "config");
    unsigned long long generation = 0;
    struct buf words;

    if (!cJSON_IsObject(config)) {
        return true;
    }
    buf_init(&words, WORDS_MAX);
    if (count_of(config, "generation", &generation)) {
        buf_printf(&words, "generation %llu", generation);
    }
    const char *loaded = text_of(config, "loaded_at");
    if (loaded[0] != '\0') {
        put_comma(&words);
        buf_put_str(&words, "loaded ");
        put_time(&words, loaded);
    }
    return put_words(o, "config", &words);
}

static size_t widest(const cJSON *list, const char *key)
{
    const cJSON *item = NULL;
    size_t width = 0;

    cJSON_ArrayForEach(item, list)
    {
        size_t n = strlen(text_of(item, key));
        width = n > width ? n : width;
    }
    return width;
}

static void put_column(struct output *o, const char *text, size_t width)
{
    output_remote_line(o, span_str(text));
    output_pad(o, span_str(text), width + 2);
}

static void show_providers(struct output *o, const cJSON *status)
{
    const cJSON *list = get(status, "providers");
    const cJSON *item = NULL;
    const char *label = "providers";
    size_t name_width = widest(list, "name");
    size_t type_width = widest(list, "type");

    if (cJSON_IsArray(list) && is_empty(list)) {
        put_line(o, label, "none");
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *breaker = text_of(item, "breaker");
        output_label(o, label, LABEL_WIDTH);
        put_column(o, text_of(item, "name"), name_width);
        put_column(o, text_of(item, "type"), type_width);
        output_str(o, "key ");
        output_remote_line(o, span_str(text_of(item, "key")));
        output_str(o, breaker[0] == '\0' ? "" : ", breaker ");
        output_remote_line(o, span_str(breaker));
        output_str(o, "\n");
        label = "";
    }
}

static bool show_ledger(struct output *o, const cJSON *status)
{
    static const char *const keys[] = {"written", "waiting", "lost"};
    const cJSON *ledger = get(status, "ledger");
    unsigned long long n = 0;
    struct buf words;

    if (ledger == NULL) {
        return true;
    }
    buf_init(&words, WORDS_MAX);
    if (cJSON_IsNull(ledger)) {
        buf_put_str(&words, "not kept");
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (count_of(ledger, keys[i], &n)) {
            put_comma(&words);
            buf_printf(&words, "%llu %s", n, keys[i]);
        }
    }
    if (cJSON_IsTrue(get(ledger, "failing"))) {
        put_comma(&words);
        buf_put_str(&words, "failing");
    }
    return put_words(o, "ledger", &words);
}

bool ctl_show_status(struct output *out, struct span json)
{
    static const char *const counts[] = {"workers", "connections", "inflight"};
    cJSON *status = read_object(json);

    if (status == NULL || !cJSON_IsString(get(status, "state"))) {
        cJSON_Delete(status);
        return false;
    }
    put_line(out, "version", text_of(status, "version"));
    bool good = show_state(out, status);
    put_lines(out, status, counts, sizeof(counts) / sizeof(counts[0]));
    good = show_config(out, status) && good;
    show_providers(out, status);
    good = show_ledger(out, status) && good;
    cJSON_Delete(status);
    return good;
}

/* ---- grants ---- */

/* "gpt-4o, openai/gpt-*", or, where that is too long, what fits and how many more there are. */
static void put_models(struct buf *b, const cJSON *list)
{
    const cJSON *item = NULL;
    size_t shown = 0;

    if (cJSON_IsArray(list) && is_empty(list)) {
        buf_put_str(b, "none");
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *model = cJSON_IsString(item) ? item->valuestring : "-";
        if (b->len + strlen(model) > MODELS_WIDTH) {
            put_comma(b);
            buf_printf(b, shown > 0 ? "%d more" : "%d", cJSON_GetArraySize(list) - (int)shown);
            return;
        }
        put_comma(b);
        buf_put_str(b, model);
        shown++;
    }
}

/* "600 rpm, 20000 tpm, 8 at once, $20.00/month, 1000 tokens/month" */
static void put_limits(struct buf *b, const cJSON *grant)
{
    static const struct {
        const char *key;
        const char *unit;
    } counts[] = {{"rpm", "rpm"}, {"tpm", "tpm"}, {"max_inflight", "at once"}};
    const char *period = text_of(grant, "budget_period");
    const cJSON *usd = get(grant, "budget_usd");
    unsigned long long n = 0;
    bool each = period[0] != '\0' && strcmp(period, "total") != 0;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (count_of(grant, counts[i].key, &n)) {
            put_comma(b);
            buf_printf(b, "%llu %s", n, counts[i].unit);
        }
    }
    if (cJSON_IsNumber(usd)) {
        put_comma(b);
        buf_put_char(b, '$');
        put_cost(b, usd->valuedouble, BUDGET_LEAST);
        buf_printf(b, "%s%s", each ? "/" : "", each ? period : "");
    }
    if (count_of(grant, "budget_tokens", &n)) {
        put_comma(b);
        buf_printf(b, "%llu tokens%s%s", n, each ? "/" : "", each ? period : "");
    }
}

/* "12 requests, 3 refused, 340 tokens, $0.0010": zeros are left out. */
static void put_used(struct buf *b, const cJSON *used)
{
    static const char *const keys[] = {"requests", "refused", "tokens"};
    const cJSON *usd = get(used, "usd");
    unsigned long long n = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (count_of(used, keys[i], &n) && n > 0) {
            put_comma(b);
            buf_printf(b, "%llu %.*s", n, (int)strlen(keys[i]) - (n == 1 && i != 1 ? 1 : 0),
                       keys[i]);
        }
    }
    if (cJSON_IsNumber(usd) && usd->valuedouble > 0) {
        put_comma(b);
        buf_put_char(b, '$');
        put_cost(b, usd->valuedouble, COST_LEAST);
    }
}

static void put_grant(struct table *t, struct buf *words, const cJSON *grant)
{
    const cJSON *used = get(grant, "used");
    unsigned long long n = 0;

    table_put(t, span_str(text_of(grant, "id")));
    table_put(t, span_str(text_of(grant, "run")));
    put_models(words, get(grant, "models"));
    table_take(t, words);
    put_limits(words, grant);
    table_take(t, words);
    put_used(words, used);
    table_take(t, words);
    if (count_of(used, "inflight", &n)) {
        table_printf(t, "%llu", n);
    } else {
        table_put(t, SPAN(""));
    }
    put_time(words, text_of(grant, "expires_at"));
    table_take(t, words);
}

bool ctl_show_grants(struct output *out, struct span json)
{
    static const struct table_column columns[] = {
        {"ID", false},   {"RUN", false},     {"MODELS", false}, {"LIMITS", false},
        {"USED", false}, {"INFLIGHT", true}, {"EXPIRES", false}};
    cJSON *list = read_list(json);
    const cJSON *grant = NULL;
    struct table t;
    struct buf words;

    if (list == NULL) {
        return false;
    }
    table_init(&t);
    buf_init(&words, WORDS_MAX);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        table_column(&t, columns[i].title, columns[i].right);
    }
    cJSON_ArrayForEach(grant, list)
    {
        put_grant(&t, &words, grant);
    }
    bool good = table_show(&t, out);
    buf_fini(&words);
    table_fini(&t);
    cJSON_Delete(list);
    return good;
}

bool ctl_show_created(struct output *out, struct span json)
{
    static const char *const keys[] = {"id", "run", "token", "endpoint", "ca_file", "expires_at"};
    cJSON *grant = read_object(json);
    bool good = cJSON_IsString(get(grant, "id")) && cJSON_IsString(get(grant, "token"));

    if (good) {
        put_lines(out, grant, keys, sizeof(keys) / sizeof(keys[0]));
    }
    cJSON_Delete(grant);
    return good;
}

/* ---- usage ---- */

struct usage_column {
    const char *key;
    const char *title;
    bool estimated; /* a "~" before it when parts of it are estimates */
};

static const struct usage_column USAGE_KEYS[] = {{"day", "DAY", false},
                                                 {"run", "RUN", false},
                                                 {"grant", "GRANT", false},
                                                 {"model", "MODEL", false}};
static const struct usage_column USAGE_NUMBERS[] = {{"requests", "REQUESTS", false},
                                                    {"errors", "ERRORS", false},
                                                    {"input_tokens", "INPUT", true},
                                                    {"output_tokens", "OUTPUT", true},
                                                    {"cached_tokens", "CACHED", true}};

#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

/* Whether a sum of money leaves requests out. */
static bool lacks_prices(const cJSON *rows)
{
    const cJSON *row = NULL;
    unsigned long long n = 0;
    bool lacks = false;

    cJSON_ArrayForEach(row, rows)
    {
        lacks = lacks ||
                (cJSON_IsNumber(get(row, "cost_usd")) && count_of(row, "unpriced", &n) && n > 0);
    }
    return lacks;
}

static void put_number(struct table *t, const cJSON *row, const char *key, bool estimated)
{
    unsigned long long n = 0;

    if (count_of(row, key, &n)) {
        table_printf(t, "%s%llu", estimated && n > 0 ? "~" : "", n);
    } else {
        table_put(t, SPAN(""));
    }
}

static void put_usage_row(struct table *t, const cJSON *first, const cJSON *row, bool unpriced)
{
    const cJSON *cost = get(row, "cost_usd");
    unsigned long long n = 0;
    bool estimated = count_of(row, "estimated", &n) && n > 0;
    struct buf usd;

    for (size_t i = 0; i < LENGTH(USAGE_KEYS); i++) {
        if (get(first, USAGE_KEYS[i].key) != NULL) {
            table_put(t, span_str(text_of(row, USAGE_KEYS[i].key)));
        }
    }
    for (size_t i = 0; i < LENGTH(USAGE_NUMBERS); i++) {
        put_number(t, row, USAGE_NUMBERS[i].key, estimated && USAGE_NUMBERS[i].estimated);
    }
    buf_init(&usd, 128);
    if (cJSON_IsNumber(cost)) {
        buf_put_str(&usd, estimated && cost->valuedouble > 0 ? "~" : "");
        put_cost(&usd, cost->valuedouble, COST_LEAST);
    }
    table_take(t, &usd);
    buf_fini(&usd);
    if (unpriced) {
        put_number(t, row, "unpriced", false);
    }
}

bool ctl_show_usage(struct output *out, struct span json)
{
    cJSON *rows = read_list(json);
    const cJSON *row = NULL;
    struct table t;

    if (rows == NULL) {
        return false;
    }
    if (is_empty(rows)) {
        output_str(out, "no requests\n");
        cJSON_Delete(rows);
        return true;
    }
    bool unpriced = lacks_prices(rows);
    table_init(&t);
    for (size_t i = 0; i < LENGTH(USAGE_KEYS); i++) {
        if (get(rows->child, USAGE_KEYS[i].key) != NULL) {
            table_column(&t, USAGE_KEYS[i].title, false);
        }
    }
    for (size_t i = 0; i < LENGTH(USAGE_NUMBERS); i++) {
        table_column(&t, USAGE_NUMBERS[i].title, true);
    }
    table_column(&t, "USD", true);
    if (unpriced) {
        table_column(&t, "UNPRICED", true);
    }
    cJSON_ArrayForEach(row, rows)
    {
        put_usage_row(&t, rows->child, row, unpriced);
    }
    bool good = table_show(&t, out);
    table_fini(&t);
    cJSON_Delete(rows);
    return good;
}

/* ---- reload, drain ---- */

/* "+a, +b" */
static void put_names(struct buf *b, char sign, const cJSON *list)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, list)
    {
        put_comma(b);
        buf_printf(b, "%c", sign);
        buf_put_str(b, cJSON_IsString(item) ? item->valuestring : "");
    }
}

bool ctl_show_reload(struct output *out, struct span json)
{
    cJSON *report = read_object(json);
    unsigned long long generation = 0;
    struct buf names;
    bool good = count_of(report, "generation", &generation);

    buf_init(&names, FETCH_BODY_MAX);
    put_names(&names, '+', get(report, "grants_added"));
    put_names(&names, '-', get(report, "grants_removed"));
    good = good && buf_status(&names) == ERR_OK;
    if (good) {
        output_printf(out, "reloaded: generation %llu, grants ", generation);
        output_remote_line(out, names.len > 0 ? buf_span(&names) : SPAN("unchanged"));
        output_str(out, "\n");
    }
    buf_fini(&names);
    cJSON_Delete(report);
    return good;
}

bool ctl_show_drain(struct output *out, struct span json)
{
    cJSON *report = read_object(json);
    unsigned long long inflight = 0;
    unsigned long long seconds = 0;
    bool good = count_of(report, "inflight", &inflight);

    if (good) {
        output_printf(out, "draining: %llu in flight", inflight);
        if (count_of(report, "drain_timeout", &seconds)) {
            output_printf(out, ", at most %llu s", seconds);
        }
        output_str(out, "\n");
    }
    cJSON_Delete(report);
    return good;
}
