/*
 * brokerctl's commands: see commands.h. run() is the way of all of them: connect, send one line,
 * read events until the terminal one. Requests are written, and what passes through (a tool's
 * arguments and result) keeps its bytes; only the info document becomes a cJSON tree. Called by
 * brokerctl.c.
 */
#include "ctl/commands.h"

#include "base/json.h"
#include "base/json_span.h"
#include "tactus/protocol.h"

#include <cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define REQUEST_ID  "1"
#define REQUEST_MAX ((size_t)256 * 1024 * 1024)
#define INFO_MAX    ((size_t)4 * 1024 * 1024)
#define LABEL_WIDTH 11u

/* One request on its way. A handler returns an exit code; anything but EX_OK ends it. */
struct exchange {
    struct ctl *ctl;
    int (*on_delta)(struct exchange *x, struct json_value data); /* may be NULL */
    int (*on_done)(struct exchange *x, struct json_value data);
    struct buf scratch; /* for one decoded string */
    bool streamed;      /* text was shown */
    bool over;          /* the terminal event came */
};

/* ---- what goes wrong ---- */

int ctl_fail(struct output *err, int code, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    output_str(err, CTL_NAME ": ");
    output_remote_line(err, span_str(text));
    output_str(err, "\n");
    (void)output_flush(err, NULL); /* there is no other place to say it */
    return code;
}

static int exit_code_of_status(uint64_t status)
{
    if (status == 408 || status == 409 || status == 429) {
        return EX_TEMPFAIL;
    }
    if (status == 401 || status == 403) {
        return EX_NOPERM;
    }
    if (status >= 500) {
        return EX_UNAVAILABLE;
    }
    return status >= 400 ? EX_DATAERR : EX_SOFTWARE;
}

int ctl_exit_code(struct span type, uint64_t status)
{
    static const struct {
        const char *type;
        int code;
    } map[] = {
        {TACTUS_E_BAD_REQUEST, EX_DATAERR},
        {TACTUS_E_MESSAGE_TOO_LARGE, EX_DATAERR},
        {TACTUS_E_METHOD_NOT_FOUND, EX_DATAERR},
        {TACTUS_E_UNSUPPORTED_PROVIDER, EX_DATAERR},
        {TACTUS_E_API_BAD_REQUEST, EX_DATAERR},
        {TACTUS_E_API_UNPROCESSABLE, EX_DATAERR},
        {TACTUS_E_API_NOT_FOUND, EX_DATAERR},
        {TACTUS_E_MODEL_NOT_ALLOWED, EX_NOPERM},
        {TACTUS_E_TOOL_NOT_ALLOWED, EX_NOPERM},
        {TACTUS_E_UNAUTHENTICATED, EX_NOPERM},
        {TACTUS_E_API_AUTHENTICATION, EX_NOPERM},
        {TACTUS_E_API_PERMISSION, EX_NOPERM},
        {"BudgetExceeded", EX_NOPERM},
        {"Unprocessable", EX_DATAERR}, /* of the admin API */
        {TACTUS_E_TOO_MANY_REQUESTS, EX_TEMPFAIL},
        {TACTUS_E_OVERLOADED, EX_TEMPFAIL},
        {TACTUS_E_SHUTTING_DOWN, EX_TEMPFAIL},
        {TACTUS_E_CANCELLED, EX_TEMPFAIL},
        {TACTUS_E_API_RATE_LIMIT, EX_TEMPFAIL},
        {TACTUS_E_API_TIMEOUT, EX_TEMPFAIL},
        {TACTUS_E_API_CONFLICT, EX_TEMPFAIL},
        {"ToolTimeout", EX_TEMPFAIL},
        {TACTUS_E_API_SERVER, EX_UNAVAILABLE},
        {TACTUS_E_API_CONNECTION, EX_UNAVAILABLE},
        {TACTUS_E_API_RESPONSE, EX_PROTOCOL},
        {TACTUS_E_INTERNAL, EX_SOFTWARE},
    };

    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
        if (span_eq(type, span_str(map[i].type))) {
            return map[i].code;
        }
    }
    return exit_code_of_status(status);
}

static int client_failed(struct ctl *c, const struct error *e)
{
    int code = EX_UNAVAILABLE;

    if (e->code == ERR_LIMIT || e->code == ERR_PROTO) {
        code = EX_PROTOCOL;
    } else if (e->code == ERR_NOMEM || e->code == ERR_BUG) {
        code = EX_SOFTWARE;
    } else if (e->code == ERR_IO && e->sys == ETIMEDOUT) {
        code = EX_TEMPFAIL;
    }
    return ctl_fail(c->err, code, "%s", e->msg);
}

static int connect_failed(struct ctl *c, const struct error *e)
{
    int code = EX_UNAVAILABLE;

    if (e->code == ERR_CONFIG) {
        code = EX_USAGE;
    } else if (e->code == ERR_NOMEM) {
        code = EX_SOFTWARE;
    }
    return ctl_fail(c->err, code, "%s: %s", c->endpoint_text, e->msg);
}

int ctl_flush(struct ctl *c)
{
    struct error e = {.code = ERR_OK};
    enum err rc = output_flush(c->out, &e);

    if (rc == ERR_OK || rc == ERR_CLOSED) {
        return rc == ERR_OK ? EX_OK : EX_IOERR;
    }
    return ctl_fail(c->err, EX_IOERR, "%s", e.msg);
}

static int broken_event(struct ctl *c, const char *what)
{
    return ctl_fail(c->err, EX_PROTOCOL, "the broker sent what is no event: %s", what);
}

/* ---- events ---- */

/* The decoded text of a string; absent for any other type. Valid until the next call. */
static struct span decoded(struct exchange *x, struct json_value v)
{
    if (v.type != JSON_STRING) {
        return (struct span){0};
    }
    buf_clear(&x->scratch);
    json_string_decode(v, &x->scratch, NULL);
    return buf_span(&x->scratch);
}

/* " (status 429, retry after 1 s, after 12 bytes of text)", of it what was said. */
static void put_error_details(struct output *o, struct json_value error, uint64_t status)
{
    const char *before = " (";
    double seconds = 0;
    uint64_t bytes = 0;

    if (status != 0) {
        output_printf(o, "%sstatus %llu", before, (unsigned long long)status);
        before = ", ";
    }
    if (json_number_double(json_find(error, "retry_after"), &seconds)) {
        output_printf(o, "%sretry after %g s", before, seconds);
        before = ", ";
    }
    if (json_number_u64(json_find(error, "partial_text_bytes"), &bytes)) {
        output_printf(o, "%safter %llu bytes of text", before, (unsigned long long)bytes);
        before = ", ";
    }
    if (before[0] == ',') {
        output_str(o, ")");
    }
}

static int show_error(struct exchange *x, struct json_value error)
{
    struct output *o = x->ctl->err;
    uint64_t status = 0;

    if (error.type != JSON_OBJECT) {
        return broken_event(x->ctl, "an error without its object");
    }
    if (!json_number_u64(json_find(error, "status"), &status)) {
        status = 0;
    }
    /* The broken-off text is on its own line, also when both streams are one terminal. */
    output_end_line(x->ctl->out);
    (void)ctl_flush(x->ctl);
    output_str(o, CTL_NAME ": ");
    struct span type = decoded(x, json_find(error, "type"));
    int code = ctl_exit_code(type, status);
    output_style(o, OUTPUT_RED);
    output_remote_line(o, type.n > 0 ? type : SPAN("Error"));
    output_style(o, OUTPUT_PLAIN);
    output_str(o, ": ");
    struct span message = decoded(x, json_find(error, "message"));
    output_remote_line(o, message.n > 0 ? message : SPAN("no reason given"));
    put_error_details(o, error, status);
    output_str(o, "\n");
    (void)output_flush(o, NULL);
    return code;
}

/* Ours, or an error that concerns the connection. */
static bool is_for_us(const struct json_members *event, struct json_value kind)
{
    struct json_value id = json_get(event, "id");

    return id.type == JSON_STRING && (json_string_is(id, REQUEST_ID) ||
                                      (json_string_is(id, "") && json_string_is(kind, "error")));
}

static int handle_event(struct exchange *x, struct span line)
{
    const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX, .allow_lone_surrogate = true};
    struct json_members event;
    struct json_fault fault = {0};

    if (json_check_object(line, &rules, &event, &fault) != ERR_OK) {
        return broken_event(x->ctl, fault.what);
    }
    struct json_value kind = json_get(&event, "event");
    struct json_value data = json_get(&event, "data");
    if (kind.type != JSON_STRING) {
        return broken_event(x->ctl, "no name of an event");
    }
    if (!is_for_us(&event, kind)) {
        return EX_OK;
    }
    bool failed = json_string_is(kind, "error");
    bool done = json_string_is(kind, "done");
    x->over = failed || done;
    if (x->ctl->json) {
        output_remote(x->ctl->out, line);
        output_str(x->ctl->out, "\n");
        int code = ctl_flush(x->ctl);
        if (code != EX_OK) {
            return code;
        }
    }
    if (failed) {
        return show_error(x, json_get(&event, "error"));
    }
    if (x->ctl->json) {
        return EX_OK;
    }
    if (done) {
        return x->on_done(x, data);
    }
    return x->on_delta != NULL && json_string_is(kind, "delta") ? x->on_delta(x, data) : EX_OK;
}

static int read_events(struct exchange *x, struct client *client)
{
    int code = EX_OK;

    while (code == EX_OK && !x->over) {
        struct error e = {.code = ERR_OK};
        struct span line = {0};
        if (client_read_line(client, &line, &e) != ERR_OK) {
            output_end_line(x->ctl->out);
            (void)ctl_flush(x->ctl);
            return client_failed(x->ctl, &e);
        }
        code = handle_event(x, line);
        if (code == EX_OK && buf_status(&x->scratch) != ERR_OK) {
            return ctl_fail(x->ctl->err, EX_SOFTWARE, "out of memory");
        }
    }
    return code;
}

/* Sends `request` and handles events until the end. Frees the request. */
static int run(struct exchange *x, struct buf *request)
{
    struct ctl *c = x->ctl;
    struct client *client = NULL;
    struct error e = {.code = ERR_OK};
    enum err rc = buf_status(request);
    int code = EX_OK;

    buf_init(&x->scratch, CLIENT_LINE_MAX);
    if (rc != ERR_OK) {
        code = rc == ERR_LIMIT ? ctl_fail(c->err, EX_DATAERR, "the request is too large")
                               : ctl_fail(c->err, EX_SOFTWARE, "out of memory");
        goto out;
    }
    if (client_connect(&c->endpoint, &c->options, &client, &e) != ERR_OK) {
        code = connect_failed(c, &e);
        goto out;
    }
    rc = client_send(client, buf_span(request), &e);
    if (rc != ERR_OK && rc != ERR_AGAIN) { /* AGAIN: the answer is there already */
        code = client_failed(c, &e);
        goto out;
    }
    code = read_events(x, client);
out:
    client_close(client);
    buf_fini(&x->scratch);
    buf_fini(request);
    return code;
}

/* ---- requests ---- */

/* Up to the inside of `params`; `}}` ends it. */
static void begin_request(struct buf *b, const char *method)
{
    buf_init(b, REQUEST_MAX);
    buf_put_str(b, "{\"id\":\"" REQUEST_ID "\",\"method\":");
    json_put_string(b, span_str(method));
    buf_put_str(b, ",\"params\":{");
}

static void end_request(struct buf *b)
{
    buf_put_str(b, "}}");
}

/*
 * A user's JSON as it is; but a newline, which only stands between its tokens, would end our line
 * and becomes a space.
 */
static void put_json(struct buf *b, struct span json)
{
    size_t from = b->len;

    buf_put_span(b, json);
    for (size_t i = from; i < b->len; i++) {
        if (b->p[i] == '\n' || b->p[i] == '\r') {
            b->p[i] = ' ';
        }
    }
}

/* EX_OK when `json` is an object; else EX_DATAERR and a line about it. */
static int check_object(struct ctl *c, const char *what, struct span json)
{
    const struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_value value;
    struct json_fault fault = {0};

    if (json_check_value(json, &rules, &value, &fault) != ERR_OK) {
        return ctl_fail(c->err, EX_DATAERR, "%s: no valid JSON: %s at byte %zu", what, fault.what,
                        fault.offset);
    }
    if (value.type != JSON_OBJECT) {
        return ctl_fail(c->err, EX_DATAERR, "%s: no JSON object", what);
    }
    return EX_OK;
}

/* ---- chat ---- */

static void put_message(struct buf *b, const char *role, struct span text)
{
    buf_put_str(b, "{\"role\":");
    json_put_string(b, span_str(role));
    buf_put_str(b, ",\"content\":");
    json_put_string(b, text);
    buf_put_char(b, '}');
}

static void build_chat(struct buf *b, const struct ctl_chat *chat)
{
    begin_request(b, "llm.chat");
    if (chat->provider != NULL) {
        buf_put_str(b, "\"provider\":");
        json_put_string(b, span_str(chat->provider));
        buf_put_char(b, ',');
    }
    buf_put_str(b, "\"model\":");
    json_put_string(b, span_str(chat->model));
    buf_put_str(b, ",\"messages\":[");
    if (chat->system != NULL) {
        put_message(b, "system", span_str(chat->system));
        buf_put_char(b, ',');
    }
    put_message(b, "user", chat->text);
    buf_put_str(b, chat->no_stream ? "],\"stream\":false" : "],\"stream\":true");
    if (chat->temperature != NULL) {
        buf_put_str(b, ",\"temperature\":");
        put_json(b, span_str(chat->temperature));
    }
    if (chat->max_tokens != 0) {
        buf_put_str(b, ",\"max_tokens\":");
        json_put_u64(b, chat->max_tokens);
    }
    end_request(b);
}

static int show_text(struct exchange *x, struct json_value text)
{
    struct span piece = decoded(x, text);

    if (piece.n == 0) {
        return EX_OK;
    }
    x->streamed = true;
    output_remote(x->ctl->out, piece);
    return ctl_flush(x->ctl);
}

static int chat_delta(struct exchange *x, struct json_value data)
{
    return show_text(x, json_find(data, "text"));
}

/* "12 prompt + 5 completion = 17 tokens  gpt-4o  stop" */
static void show_usage(struct exchange *x, struct json_value data)
{
    struct output *o = x->ctl->err;
    struct json_value usage = json_find(data, "usage");
    uint64_t prompt = 0;
    uint64_t completion = 0;
    uint64_t total = 0;
    const char *before = "";

    output_style(o, OUTPUT_DIM);
    if (json_number_u64(json_find(usage, "prompt_tokens"), &prompt) &&
        json_number_u64(json_find(usage, "completion_tokens"), &completion)) {
        if (!json_number_u64(json_find(usage, "total_tokens"), &total)) {
            total = prompt + completion;
        }
        output_printf(o, "%llu prompt + %llu completion = %llu tokens", (unsigned long long)prompt,
                      (unsigned long long)completion, (unsigned long long)total);
        before = "  ";
    }
    static const char *const names[] = {"model", "finish_reason"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct span text = decoded(x, json_find(data, names[i]));
        if (text.n > 0) {
            output_str(o, before);
            output_remote_line(o, text);
            before = "  ";
        }
    }
    output_style(o, OUTPUT_PLAIN);
    output_end_line(o);
    (void)output_flush(o, NULL);
}

static int chat_done(struct exchange *x, struct json_value data)
{
    if (data.type != JSON_OBJECT) {
        return broken_event(x->ctl, "done without its data");
    }
    int code = x->streamed ? EX_OK : show_text(x, json_find(data, "text"));
    if (code != EX_OK) {
        return code;
    }
    output_end_line(x->ctl->out);
    code = ctl_flush(x->ctl);
    show_usage(x, data);
    return code;
}

int ctl_chat(struct ctl *c, const struct ctl_chat *chat)
{
    struct exchange x = {.ctl = c, .on_delta = chat_delta, .on_done = chat_done};
    struct buf request;

    build_chat(&request, chat);
    return run(&x, &request);
}

/* ---- call ---- */

static int call_done(struct exchange *x, struct json_value data)
{
    struct json_value result = json_find(data, "result");

    if (result.type == JSON_ABSENT) {
        return broken_event(x->ctl, "done without a result");
    }
    output_json(x->ctl->out, result.text);
    return ctl_flush(x->ctl);
}

int ctl_call(struct ctl *c, const char *tool, struct span args)
{
    struct exchange x = {.ctl = c, .on_done = call_done};
    struct buf request;

    if (args.p != NULL) {
        int code = check_object(c, "arguments", args);
        if (code != EX_OK) {
            return code;
        }
    }
    begin_request(&request, "tool.call");
    buf_put_str(&request, "\"name\":");
    json_put_string(&request, span_str(tool));
    if (args.p != NULL) {
        buf_put_str(&request, ",\"args\":");
        put_json(&request, args);
    }
    end_request(&request);
    return run(&x, &request);
}

/* ---- emit ---- */

static int emit_done(struct exchange *x, struct json_value data)
{
    (void)data;
    output_str(x->ctl->out, "accepted\n");
    return ctl_flush(x->ctl);
}

int ctl_emit(struct ctl *c, struct span event)
{
    struct exchange x = {.ctl = c, .on_done = emit_done};
    struct buf request;
    size_t i = 0;

    while (i < event.n && memchr(" \t\r\n", event.p[i], 4) != NULL) {
        i++;
    }
    /* What begins as an object and is none is a mistake, and not a text that somebody meant. */
    bool object = i < event.n && event.p[i] == '{';
    if (object) {
        int code = check_object(c, "event", event);
        if (code != EX_OK) {
            return code;
        }
    }
    begin_request(&request, "events.emit");
    buf_put_str(&request, "\"event\":");
    if (object) {
        put_json(&request, event);
    } else {
        buf_put_str(&request, "{\"event_type\":\"log\",\"message\":");
        json_put_string(&request, event);
        buf_put_char(&request, '}');
    }
    end_request(&request);
    return run(&x, &request);
}

/* ---- info ---- */

static void put_label(struct output *o, const char *label)
{
    output_label(o, label, LABEL_WIDTH);
}

/* A string, or the `name` of an object, or "". */
static const char *name_of(const cJSON *item)
{
    const cJSON *name =
        cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "name") : item;

    return cJSON_IsString(name) ? name->valuestring : "";
}

static const char *text_of(const cJSON *object, const char *key)
{
    return name_of(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void put_names(struct output *o, const cJSON *list)
{
    const char *before = "";
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, list)
    {
        output_str(o, before);
        output_remote_line(o, span_str(name_of(item)));
        before = ", ";
    }
}

static void show_list(struct output *o, const cJSON *info, const char *key)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(info, key);

    if (!cJSON_IsArray(list)) {
        return;
    }
    put_label(o, key);
    if (cJSON_GetArraySize(list) == 0) {
        output_str(o, "none");
    }
    put_names(o, list);
    output_str(o, "\n");
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* `width` 0: the last column. */
static void put_column(struct output *o, const char *text, size_t width)
{
    output_remote_line(o, span_str(text));
    output_pad(o, span_str(text), width > 0 ? width + 2 : 0);
}

static void put_provider(struct output *o, const cJSON *item, size_t name_width, size_t type_width)
{
    const cJSON *models = cJSON_GetObjectItemCaseSensitive(item, "models");
    const char *type = text_of(item, "type");

    if (!cJSON_IsArray(models) && type[0] == '\0') {
        output_remote_line(o, span_str(name_of(item)));
    } else {
        put_column(o, name_of(item), name_width);
        put_column(o, type, cJSON_IsArray(models) ? type_width : 0);
        put_names(o, models);
    }
    output_str(o, "\n");
}

static void show_providers(struct output *o, const cJSON *info)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(info, "providers");
    const cJSON *item = NULL;
    const char *label = "providers";
    size_t name_width = 0;
    size_t type_width = 0;

    if (!cJSON_IsArray(list)) {
        return;
    }
    if (cJSON_GetArraySize(list) == 0) {
        show_list(o, info, "providers");
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        name_width = larger(name_width, strlen(name_of(item)));
        type_width = larger(type_width, strlen(text_of(item, "type")));
    }
    cJSON_ArrayForEach(item, list)
    {
        put_label(o, label);
        put_provider(o, item, name_width, type_width);
        label = "";
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Bytes in their largest whole unit, time-outs in seconds, anything else as it is. */
static void put_limit(struct output *o, const char *name, double v)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    uint64_t whole = v >= 0 && v < 9e15 ? (uint64_t)v : 0;
    size_t unit = 0;

    if (!ends_with(name, "_bytes") || (double)whole != v) {
        output_printf(o, "%.15g%s", v, ends_with(name, "_timeout") ? " s" : "");
        return;
    }
    while (unit < 3 && whole >= 1024 && whole % 1024 == 0) {
        whole /= 1024;
        unit++;
    }
    output_printf(o, "%llu %s", (unsigned long long)whole, units[unit]);
}

static void show_limits(struct output *o, const cJSON *info)
{
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(info, "limits");
    const cJSON *item = NULL;
    const char *label = "limits";
    size_t width = 0;

    if (!cJSON_IsObject(limits)) {
        return;
    }
    cJSON_ArrayForEach(item, limits)
    {
        width = larger(width, strlen(item->string));
    }
    cJSON_ArrayForEach(item, limits)
    {
        put_label(o, label);
        put_column(o, item->string, width);
        if (cJSON_IsNumber(item)) {
            put_limit(o, item->string, item->valuedouble);
        } else if (cJSON_IsBool(item)) {
            output_str(o, cJSON_IsTrue(item) ? "yes" : "no");
        } else {
            output_remote_line(o, cJSON_IsString(item) ? span_str(item->valuestring) : SPAN("-"));
        }
        output_str(o, "\n");
        label = "";
    }
}

bool ctl_show_info(struct output *out, const char *endpoint, struct span info)
{
    cJSON *document = json_document(info, INFO_MAX);

    if (!cJSON_IsObject(document)) {
        cJSON_Delete(document);
        return false;
    }
    put_label(out, "endpoint");
    output_remote_line(out, span_str(endpoint));
    output_str(out, "\n");
    const char *version = text_of(document, "version");
    if (version[0] != '\0') {
        put_label(out, "version");
        output_remote_line(out, span_str(version));
        output_str(out, "\n");
    }
    show_providers(out, document);
    show_list(out, document, "tools");
    show_list(out, document, "methods");
    show_limits(out, document);
    cJSON_Delete(document);
    return true;
}

static int info_done(struct exchange *x, struct json_value data)
{
    if (data.type != JSON_OBJECT || !ctl_show_info(x->ctl->out, x->ctl->endpoint_text, data.text)) {
        return broken_event(x->ctl, "no info document");
    }
    return ctl_flush(x->ctl);
}

int ctl_info(struct ctl *c)
{
    struct exchange x = {.ctl = c, .on_done = info_done};
    struct buf request;

    begin_request(&request, "broker.info");
    end_request(&request);
    return run(&x, &request);
}
