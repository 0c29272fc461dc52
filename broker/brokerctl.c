/*
 * tactus-brokerctl: the command line of a broker's client and of its operator. Reads options and
 * operands, then hands over to a command (ctl/commands.h, ctl/operate.h). The exit codes are those
 * of sysexits.h; Ctrl-C ends with 130, and the kernel closes the connection, which cancels the
 * request.
 */
#include "base/clock.h"
#include "base/json_span.h"
#include "base/text.h"
#include "ctl/commands.h"
#include "ctl/help.h"
#include "ctl/operate.h"
#include "net/admin_peer.h"
#include "tactus/protocol.h"
#include "tactus/version.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define INPUT_MAX     ((size_t)64 * 1024 * 1024)
#define LINE_MAX_SIZE ((size_t)512 * 1024 * 1024) /* `done` has all text, escaped */
#define CONNECT_MS    10000u
#define WAIT_MS       600000u
#define OPERATE_MS    30000u
#define TIMEOUT_MAX   86400.0
#define EXIT_SIGINT   130

enum {
    OPT_ENDPOINT = 256,
    OPT_CA,
    OPT_JSON,
    OPT_TIMEOUT,
    OPT_VERSION,
    OPT_HELP,
    OPT_PROVIDER,
    OPT_MODEL,
    OPT_SYSTEM,
    OPT_NO_STREAM,
    OPT_TEMPERATURE,
    OPT_MAX_TOKENS,
    OPT_ADMIN,
    OPT_BY,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_RUN,
    OPT_MODELS,
    OPT_TOOLS,
    OPT_LISTENER,
    OPT_TTL,
    OPT_RPM,
    OPT_TPM,
    OPT_BUDGET_USD,
    OPT_BUDGET_TOKENS,
    OPT_MAX_INFLIGHT
};

/* clang-format off */
/* What every command knows, */
#define COMMON_OPTIONS                                \
    {"json", no_argument, NULL, OPT_JSON},            \
    {"timeout", required_argument, NULL, OPT_TIMEOUT}, \
    {"help", no_argument, NULL, OPT_HELP}
/* a client's, */
#define CLIENT_OPTIONS                                \
    {"endpoint", required_argument, NULL, OPT_ENDPOINT}, \
    {"ca", required_argument, NULL, OPT_CA}
/* and an operator's. */
#define OPERATOR_OPTIONS \
    {"admin", required_argument, NULL, OPT_ADMIN}

static const struct option program_options[] = {
    COMMON_OPTIONS,
    CLIENT_OPTIONS,
    OPERATOR_OPTIONS,
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};
static const struct option plain_options[] = {
    COMMON_OPTIONS,
    CLIENT_OPTIONS,
    {NULL, 0, NULL, 0},
};
static const struct option chat_options[] = {
    COMMON_OPTIONS,
    CLIENT_OPTIONS,
    {"provider", required_argument, NULL, OPT_PROVIDER},
    {"model", required_argument, NULL, OPT_MODEL},
    {"system", required_argument, NULL, OPT_SYSTEM},
    {"no-stream", no_argument, NULL, OPT_NO_STREAM},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"max-tokens", required_argument, NULL, OPT_MAX_TOKENS},
    {NULL, 0, NULL, 0},
};
static const struct option operator_options[] = {
    COMMON_OPTIONS,
    OPERATOR_OPTIONS,
    {NULL, 0, NULL, 0},
};
static const struct option usage_options[] = {
    COMMON_OPTIONS,
    OPERATOR_OPTIONS,
    {"by", required_argument, NULL, OPT_BY},
    {"since", required_argument, NULL, OPT_SINCE},
    {"until", required_argument, NULL, OPT_UNTIL},
    {NULL, 0, NULL, 0},
};
static const struct option grants_options[] = {
    COMMON_OPTIONS,
    OPERATOR_OPTIONS,
    {"run", required_argument, NULL, OPT_RUN},
    {"models", required_argument, NULL, OPT_MODELS},
    {"tools", required_argument, NULL, OPT_TOOLS},
    {"listener", required_argument, NULL, OPT_LISTENER},
    {"ttl", required_argument, NULL, OPT_TTL},
    {"rpm", required_argument, NULL, OPT_RPM},
    {"tpm", required_argument, NULL, OPT_TPM},
    {"budget-usd", required_argument, NULL, OPT_BUDGET_USD},
    {"budget-tokens", required_argument, NULL, OPT_BUDGET_TOKENS},
    {"max-inflight", required_argument, NULL, OPT_MAX_INFLIGHT},
    {NULL, 0, NULL, 0},
};
/* clang-format on */

struct arguments {
    struct ctl ctl;
    const char *admin_text;
    struct admin_peer admin;
    char address[ADMIN_PEER_TEXT_SIZE]; /* its, without the token */
    struct ctl_chat chat;
    struct ctl_usage usage;
    struct ctl_grant grant;
    bool describes_grant; /* an option of `grants create` was given */
    bool help;
    bool version;
    char **operands;
    size_t operands_n;
    struct buf input; /* the text made of operands and stdin */
};

struct command {
    const char *name;
    const struct option *options;
    int (*run)(struct arguments *a);
    const char *help;
    int (*find)(struct arguments *a); /* whom to talk to */
};

/* ---- operands ---- */

static int read_stdin(struct arguments *a)
{
    struct buf *b = &a->input;

    for (;;) {
        if (buf_reserve(b, 64 * 1024) != ERR_OK) {
            return b->err == ERR_LIMIT
                       ? ctl_fail(a->ctl.err, EX_DATAERR, "more on stdin than %zu MiB",
                                  INPUT_MAX / 1024 / 1024)
                       : ctl_fail(a->ctl.err, EX_SOFTWARE, "out of memory");
        }
        ssize_t n = read(STDIN_FILENO, b->p + b->len, 64 * 1024);
        if (n < 0 && errno != EINTR) {
            return ctl_fail(a->ctl.err, EX_DATAERR, "cannot read stdin: %s", strerror(errno));
        }
        if (n == 0) {
            break;
        }
        b->len += n > 0 ? (size_t)n : 0;
    }
    if (b->len > 0 && b->p[b->len - 1] == '\n') {
        b->len--; /* the end of the last line is not part of the text */
    }
    return EX_OK;
}

/* Operands from number `from` on, joined by spaces; - is stdin, once. */
static int gather_text(struct arguments *a, size_t from)
{
    bool stdin_read = false;

    for (size_t i = from; i < a->operands_n; i++) {
        if (i > from) {
            buf_put_char(&a->input, ' ');
        }
        if (strcmp(a->operands[i], "-") != 0 || stdin_read) {
            buf_put_str(&a->input, a->operands[i]);
            continue;
        }
        stdin_read = true;
        int code = read_stdin(a);
        if (code != EX_OK) {
            return code;
        }
    }
    if (buf_status(&a->input) != ERR_OK) {
        return ctl_fail(a->ctl.err, EX_SOFTWARE, "out of memory");
    }
    return EX_OK;
}

static int wrong_usage(struct arguments *a, const char *command, const char *what)
{
    return ctl_fail(a->ctl.err, EX_USAGE, "%s: %s; see " CTL_NAME " %s --help", command, what,
                    command);
}

static int run_chat(struct arguments *a)
{
    int code = gather_text(a, 0);

    if (code != EX_OK) {
        return code;
    }
    if (a->input.len == 0) {
        return wrong_usage(a, "chat", "no text");
    }
    if (a->chat.model == NULL) {
        if (a->chat.provider == NULL) {
            a->chat.model = "builtin/echo";
        } else if (strcmp(a->chat.provider, "builtin") == 0) {
            a->chat.model = "echo";
        } else {
            return wrong_usage(a, "chat", "--provider needs a --model");
        }
    }
    a->chat.text = buf_span(&a->input);
    return ctl_chat(&a->ctl, &a->chat);
}

static int run_call(struct arguments *a)
{
    struct span args = {0};

    if (a->operands_n == 0 || a->operands[0][0] == '\0') {
        return wrong_usage(a, "call", "no tool");
    }
    if (a->operands_n > 2) {
        return wrong_usage(a, "call", "more than a tool and its arguments");
    }
    if (a->operands_n == 2) {
        int code = gather_text(a, 1);
        if (code != EX_OK) {
            return code;
        }
        args = a->input.len > 0 ? buf_span(&a->input) : span_of("", 0);
    }
    return ctl_call(&a->ctl, a->operands[0], args);
}

static int run_emit(struct arguments *a)
{
    int code = gather_text(a, 0);

    if (code != EX_OK) {
        return code;
    }
    return a->input.len == 0 ? wrong_usage(a, "emit", "no event")
                             : ctl_emit(&a->ctl, buf_span(&a->input));
}

static int run_info(struct arguments *a)
{
    return a->operands_n > 0 ? wrong_usage(a, "info", "takes no arguments") : ctl_info(&a->ctl);
}

/* ---- an operator's commands ---- */

static int run_status(struct arguments *a)
{
    return a->operands_n > 0 ? wrong_usage(a, "status", "takes no arguments") : ctl_status(&a->ctl);
}

static int run_reload(struct arguments *a)
{
    return a->operands_n > 0 ? wrong_usage(a, "reload", "takes no arguments") : ctl_reload(&a->ctl);
}

static int run_drain(struct arguments *a)
{
    return a->operands_n > 0 ? wrong_usage(a, "drain", "takes no arguments") : ctl_drain(&a->ctl);
}

static bool is_time(const char *text)
{
    int64_t ignored = 0;

    return text == NULL || clock_parse(span_str(text), &ignored);
}

static int run_usage(struct arguments *a)
{
    struct ctl_usage *u = &a->usage;

    if (a->operands_n > 0) {
        return wrong_usage(a, "usage", "takes no arguments");
    }
    struct span fault = u->by == NULL ? (struct span){0} : ctl_usage_by_fault(u->by);
    if (fault.p != NULL) {
        return ctl_fail(a->ctl.err, EX_USAGE, "--by: \"%.*s\" is none of run, grant, model, day",
                        (int)fault.n, fault.p);
    }
    if (!is_time(u->since) || !is_time(u->until)) {
        return ctl_fail(a->ctl.err, EX_USAGE, "%s: no time like 2026-12-31 or 2026-12-31T23:59:59Z",
                        is_time(u->since) ? "--until" : "--since");
    }
    return ctl_usage(&a->ctl, u);
}

static int run_grants(struct arguments *a)
{
    const char *what = a->operands_n > 0 ? a->operands[0] : "";
    bool create = strcmp(what, "create") == 0;

    if (a->describes_grant && !create) {
        return wrong_usage(a, "grants", "an option that goes with create only");
    }
    if (a->operands_n == 0) {
        return ctl_grants(&a->ctl);
    }
    if (create) {
        return a->operands_n > 1 ? wrong_usage(a, "grants", "create takes options only")
                                 : ctl_grant_create(&a->ctl, &a->grant);
    }
    if (strcmp(what, "revoke") != 0) {
        return wrong_usage(a, "grants", "expected create, revoke ID or nothing");
    }
    return a->operands_n != 2 || a->operands[1][0] == '\0'
               ? wrong_usage(a, "grants", "revoke takes one ID")
               : ctl_grant_revoke(&a->ctl, a->operands[1]);
}

/* ---- whom to talk to ---- */

/* Where the broker is, and how far it is trusted. */
static int find_broker(struct arguments *a)
{
    struct ctl *c = &a->ctl;
    struct error e = {.code = ERR_OK};

    if (c->endpoint_text == NULL || c->endpoint_text[0] == '\0') {
        return ctl_fail(c->err, EX_USAGE,
                        "no broker is named: give --endpoint URL or set " TACTUS_ENV_SOCKET);
    }
    if (client_endpoint_parse(c->endpoint_text, &c->endpoint, &e) != ERR_OK) {
        return ctl_fail(c->err, EX_USAGE, "endpoint %s: %s", c->endpoint_text, e.msg);
    }
    c->options.insecure = client_insecure_value(getenv(TACTUS_ENV_TLS_INSECURE));
    if (c->options.insecure && c->endpoint.transport == CLIENT_TLS) {
        (void)ctl_fail(c->err, EX_OK,
                       "warning: " TACTUS_ENV_TLS_INSECURE
                       " is set: the broker's certificate is not verified");
    }
    c->options.wait_ms = c->options.wait_ms != 0 ? c->options.wait_ms : WAIT_MS;
    c->options.connect_ms = c->options.wait_ms < CONNECT_MS ? c->options.wait_ms : CONNECT_MS;
    return EX_OK;
}

/* Where its admin API is. */
static int find_admin(struct arguments *a)
{
    struct ctl *c = &a->ctl;
    struct error e = {.code = ERR_OK};
    const char *text = a->admin_text;

    if (text == NULL || text[0] == '\0') {
        text = ADMIN_PEER_SOCKET;
    }
    if (admin_peer_parse(text, getenv(ADMIN_PEER_ENV_TOKEN), "admin API", &a->admin, &e) !=
        ERR_OK) {
        return ctl_fail(c->err, EX_USAGE, "%s", e.msg);
    }
    admin_peer_address(&a->admin, false, a->address);
    a->admin.peer.name = a->address;
    c->admin = &a->admin;
    c->options.wait_ms = c->options.wait_ms != 0 ? c->options.wait_ms : OPERATE_MS;
    c->options.connect_ms = c->options.wait_ms < CONNECT_MS ? c->options.wait_ms : CONNECT_MS;
    return EX_OK;
}

static const struct command commands[] = {
    {"chat", chat_options, run_chat, ctl_help_chat, find_broker},
    {"call", plain_options, run_call, ctl_help_call, find_broker},
    {"emit", plain_options, run_emit, ctl_help_emit, find_broker},
    {"info", plain_options, run_info, ctl_help_info, find_broker},
    {"status", operator_options, run_status, ctl_help_status, find_admin},
    {"grants", grants_options, run_grants, ctl_help_grants, find_admin},
    {"usage", usage_options, run_usage, ctl_help_usage, find_admin},
    {"reload", operator_options, run_reload, ctl_help_reload, find_admin},
    {"drain", operator_options, run_drain, ctl_help_drain, find_admin},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* ---- options ---- */

static bool is_number(const char *text, double *out)
{
    const struct json_rules rules = {.max_depth = 1};
    struct json_value value;
    struct json_fault fault;

    return json_check_value(span_str(text), &rules, &value, &fault) == ERR_OK &&
           json_number_double(value, out);
}

static int set_timeout(struct arguments *a, const char *text)
{
    double seconds = 0;

    if (!is_number(text, &seconds) || !(seconds > 0) || seconds > TIMEOUT_MAX) {
        return ctl_fail(a->ctl.err, EX_USAGE, "--timeout: %s: no number of seconds up to %.0f",
                        text, TIMEOUT_MAX);
    }
    uint64_t ms = (uint64_t)(seconds * 1000);
    a->ctl.options.wait_ms = ms > 0 ? ms : 1;
    return EX_OK;
}

static int set_chat_number(struct arguments *a, int option, const char *text)
{
    double ignored = 0;

    if (option == OPT_TEMPERATURE) {
        a->chat.temperature = text;
        return is_number(text, &ignored)
                   ? EX_OK
                   : ctl_fail(a->ctl.err, EX_USAGE, "--temperature: %s: no number", text);
    }
    if (!text_u64(span_str(text), &a->chat.max_tokens) || a->chat.max_tokens == 0) {
        return ctl_fail(a->ctl.err, EX_USAGE, "--max-tokens: %s: no number from 1 on", text);
    }
    return EX_OK;
}

/* Those of usage and of grants. */
static int set_operator_option(struct arguments *a, int option, const char *text)
{
    struct ctl_grant *g = &a->grant;
    const struct {
        int option;
        const char **value;
        const char *name; /* of a number */
    } values[] = {
        {OPT_BY, &a->usage.by, NULL},
        {OPT_SINCE, &a->usage.since, NULL},
        {OPT_UNTIL, &a->usage.until, NULL},
        {OPT_RUN, &g->run, NULL},
        {OPT_MODELS, &g->models, NULL},
        {OPT_TOOLS, &g->tools, NULL},
        {OPT_LISTENER, &g->listener, NULL},
        {OPT_TTL, &g->ttl, "--ttl"},
        {OPT_RPM, &g->rpm, "--rpm"},
        {OPT_TPM, &g->tpm, "--tpm"},
        {OPT_BUDGET_USD, &g->budget_usd, "--budget-usd"},
        {OPT_BUDGET_TOKENS, &g->budget_tokens, "--budget-tokens"},
        {OPT_MAX_INFLIGHT, &g->max_inflight, "--max-inflight"},
    };
    double ignored = 0;

    a->describes_grant = a->describes_grant || option >= OPT_RUN;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i].option != option) {
            continue;
        }
        *values[i].value = text;
        if (values[i].name != NULL && !is_number(text, &ignored)) {
            return ctl_fail(a->ctl.err, EX_USAGE, "%s: %s: no number", values[i].name, text);
        }
    }
    if (option == OPT_LISTENER && strcmp(text, "unix") != 0 && strcmp(text, "tcp") != 0 &&
        strcmp(text, "tls") != 0) {
        return ctl_fail(a->ctl.err, EX_USAGE, "--listener: %s: none of unix, tcp, tls", text);
    }
    return EX_OK;
}

static int set_option(struct arguments *a, int option)
{
    if (option >= OPT_BY) {
        return set_operator_option(a, option, optarg);
    }
    switch (option) {
    case OPT_ADMIN:
        a->admin_text = optarg;
        return EX_OK;
    case OPT_ENDPOINT:
        a->ctl.endpoint_text = optarg;
        return EX_OK;
    case OPT_CA:
        a->ctl.options.ca_file = optarg;
        return EX_OK;
    case OPT_JSON:
        a->ctl.json = true;
        return EX_OK;
    case OPT_TIMEOUT:
        return set_timeout(a, optarg);
    case OPT_VERSION:
        a->version = true;
        return EX_OK;
    case 'h':
    case OPT_HELP:
        a->help = true;
        return EX_OK;
    case OPT_PROVIDER:
        a->chat.provider = optarg;
        return EX_OK;
    case OPT_MODEL:
        a->chat.model = optarg;
        return EX_OK;
    case OPT_SYSTEM:
        a->chat.system = optarg;
        return EX_OK;
    case OPT_NO_STREAM:
        a->chat.no_stream = true;
        return EX_OK;
    default:
        return set_chat_number(a, option, optarg);
    }
}

/* Options of `argv` from its second word on; optind is the first operand then. A '+' at the start
 * of `letters` stops at the first operand. */
static int read_options(struct arguments *a, int argc, char **argv, const char *letters,
                        const struct option *options)
{
    int code = EX_OK;

    opterr = 0;
    optind = 0; /* GNU: start anew */
    for (;;) {
        int option = getopt_long(argc, argv, letters, options, NULL);
        if (option == -1 || code != EX_OK) {
            return code;
        }
        if (option == ':') {
            return ctl_fail(a->ctl.err, EX_USAGE, "%s: needs a value", argv[optind - 1]);
        }
        if (option == '?' && optopt > 0 && optopt < 256) {
            return ctl_fail(a->ctl.err, EX_USAGE,
                            "-%c: no such option (text that begins so: "
                            "put -- before it)",
                            optopt);
        }
        if (option == '?') {
            return ctl_fail(a->ctl.err, EX_USAGE, "%s: no such option, or not so",
                            argv[optind - 1]);
        }
        code = set_option(a, option);
        if (code != EX_OK) {
            return code;
        }
    }
}

static int show(struct arguments *a, const char *text)
{
    struct error e = {.code = ERR_OK};

    output_str(a->ctl.out, text);
    return output_flush(a->ctl.out, &e) == ERR_OK ? EX_OK
                                                  : ctl_fail(a->ctl.err, EX_IOERR, "%s", e.msg);
}

/* ---- main ---- */

static int run(struct arguments *a, int argc, char **argv)
{
    int code = read_options(a, argc, argv, "+:h", program_options);

    if (code != EX_OK) {
        return code;
    }
    if (a->version) {
        return show(a, CTL_NAME " " TACTUS_VERSION "\n");
    }
    if (a->help) {
        return show(a, ctl_help_program);
    }
    if (optind >= argc) {
        return ctl_fail(a->ctl.err, EX_USAGE, "no command; see " CTL_NAME " --help");
    }
    argc -= optind;
    argv += optind;
    const struct command *command = find_command(argv[0]);
    if (command == NULL) {
        return ctl_fail(a->ctl.err, EX_USAGE, "%s: no such command; see " CTL_NAME " --help",
                        argv[0]);
    }
    code = read_options(a, argc, argv, ":h", command->options);
    if (code != EX_OK) {
        return code;
    }
    if (a->help) {
        return show(a, command->help);
    }
    a->operands = argv + optind;
    a->operands_n = (size_t)(argc - optind);
    code = command->find(a);
    return code == EX_OK ? command->run(a) : code;
}

static void on_sigint(int number)
{
    (void)number;
    _exit(EXIT_SIGINT); /* nothing is held back: output is sent piece by piece */
}

static void set_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction interrupt = {.sa_handler = on_sigint};
    struct sigaction before = {0};

    sigemptyset(&ignore.sa_mask);
    sigemptyset(&interrupt.sa_mask);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* A shell's background job ignores Ctrl-C, and so do we then. */
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        (void)sigaction(SIGINT, &interrupt, NULL);
    }
}

int main(int argc, char **argv)
{
    struct output out;
    struct output err;
    bool colour = output_colour(getenv("NO_COLOR"), getenv("TERM"));
    struct arguments a = {
        .admin_text = getenv(ADMIN_PEER_ENV),
        .ctl = {.out = &out,
                .err = &err,
                .endpoint_text = getenv(TACTUS_ENV_SOCKET),
                .options = {.ca_file = getenv(TACTUS_ENV_TLS_CA_FILE), .max_line = LINE_MAX_SIZE}},
    };

    set_signals();
    output_init(&out, STDOUT_FILENO, output_terminal(STDOUT_FILENO), colour);
    output_init(&err, STDERR_FILENO, output_terminal(STDERR_FILENO), colour);
    buf_init(&a.input, INPUT_MAX + 64 * 1024);
    int code = run(&a, argc, argv);
    buf_fini(&a.input);
    admin_peer_fini(&a.admin);
    return code;
}
