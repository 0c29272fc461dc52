/* See run_options.h. Parameters become one JSON object here; a later value of a name wins. */
#include "commands/run_options.h"

#include "base/conf.h"
#include "base/json.h"
#include "base/json_span.h"
#include "commands/commands.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PARAMS_MAX_BYTES (64u * 1024u * 1024u)

static const char usage_text[] =
    "Usage: " RUNNER_NAME " run [OPTION]... FILE\n"
    "Runs the procedure FILE in a container of its own and prints its result as JSON.\n"
    "Settings come from `sandbox:` of FILE.yml, then --config, then these options.\n"
    "\n"
    "  --param NAME=VALUE    a parameter, VALUE is JSON or else text (repeatable)\n"
    "  --params FILE         parameters from a JSON object, - is stdin\n"
    "  --image NAME          the image (tactus-sandbox:local); pulled when missing\n"
    "  --transport T         stdio (default), unix, tcp or tls: how it reaches the broker\n"
    "  --network NAME        none (stdio, unix), tactus (tcp, tls), bridge or another\n"
    "  --timeout SECONDS     the longest life (3600)\n"
    "  --memory SIZE         2g; --cpus N (2); --pids N (512)\n"
    "  --env NAME[=VALUE]    a variable for the container, without VALUE as it is here "
    "(repeatable)\n"
    "  --allow-env NAME      pass a variable that looks like a secret\n"
    "  --volume SPEC         HOST:CONTAINER[:MODE] (repeatable)\n"
    "  --working-dir DIR     mount DIR itself instead of a copy of FILE's directory\n"
    "  --no-mount            mount no working directory\n"
    "  --user UID:GID        the container's user (the caller)\n"
    "  --writable-root       the root file system can be written\n"
    "  --dev                 mount the checkout's tactus package at /app/tactus\n"
    "  --model GLOB          models that the run may use (repeatable; all)\n"
    "  --tool GLOB           tools that the run may use (repeatable; all)\n"
    "  --callback-url URL    TACTUS_CALLBACK_URL for the container\n"
    "  --events FILE         append the run's events as JSON lines, - is stdout\n"
    "  --run-id ID           the run's id for the broker and the procedure\n"
    "  --task NAME           the procedure's task\n"
    "  --config FILE         more settings (as a sidecar)\n"
    "  --admin URL           the broker's admin port: unix:///PATH, http://HOST:PORT\n"
    "  --broker URL          use this broker endpoint as it is, without a grant of its own\n"
    "  --engine URL          the container engine; without it one is looked for\n"
    "  --no-pull             a missing image is an error\n"
    "  --keep                leave container and directories behind\n"
    "  --dry-run             print the create request and start nothing\n"
    "  --json                nothing but the result on stdout\n"
    "  --no-sandbox          no container: run it with `tactus run` from PATH\n"
    "  --help                print this\n"
    "\n"
    "Exit code: the result's own; 64 usage, 69 no engine or broker, 78 settings.\n"
    "\n"
    "Examples:\n"
    "  " RUNNER_NAME " run hello.tac --param name='\"Ada\"'\n"
    "  " RUNNER_NAME " run agent.tac --transport tls --model 'openai/*' --timeout 600 --json\n"
    "  " RUNNER_NAME " run job.tac --image registry:5000/team/sandbox:2 --volume ./data:/data:ro\n";

enum option_id {
    OPT_SETTING = 256, /* by its name */
    OPT_SWITCH,        /* the same, value "true" */
    OPT_NO_MOUNT,
    OPT_NO_SANDBOX,
    OPT_PARAM,
    OPT_PARAMS,
    OPT_EVENTS,
    OPT_RUN_ID,
    OPT_TASK,
    OPT_CONFIG,
    OPT_ADMIN,
    OPT_BROKER,
    OPT_ENGINE,
    OPT_NO_PULL,
    OPT_KEEP,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_HELP
};

static const struct option long_options[] = {
    {"image", required_argument, NULL, OPT_SETTING},
    {"transport", required_argument, NULL, OPT_SETTING},
    {"network", required_argument, NULL, OPT_SETTING},
    {"timeout", required_argument, NULL, OPT_SETTING},
    {"memory", required_argument, NULL, OPT_SETTING},
    {"cpus", required_argument, NULL, OPT_SETTING},
    {"pids", required_argument, NULL, OPT_SETTING},
    {"env", required_argument, NULL, OPT_SETTING},
    {"allow-env", required_argument, NULL, OPT_SETTING},
    {"volume", required_argument, NULL, OPT_SETTING},
    {"working-dir", required_argument, NULL, OPT_SETTING},
    {"user", required_argument, NULL, OPT_SETTING},
    {"model", required_argument, NULL, OPT_SETTING},
    {"tool", required_argument, NULL, OPT_SETTING},
    {"callback-url", required_argument, NULL, OPT_SETTING},
    {"broker-host", required_argument, NULL, OPT_SETTING},
    {"broker-bind-host", required_argument, NULL, OPT_SETTING},
    {"broker-port", required_argument, NULL, OPT_SETTING},
    {"cert", required_argument, NULL, OPT_SETTING},
    {"key", required_argument, NULL, OPT_SETTING},
    {"writable-root", no_argument, NULL, OPT_SWITCH},
    {"dev", no_argument, NULL, OPT_SWITCH},
    {"no-mount", no_argument, NULL, OPT_NO_MOUNT},
    {"no-sandbox", no_argument, NULL, OPT_NO_SANDBOX},
    {"param", required_argument, NULL, OPT_PARAM},
    {"params", required_argument, NULL, OPT_PARAMS},
    {"events", required_argument, NULL, OPT_EVENTS},
    {"run-id", required_argument, NULL, OPT_RUN_ID},
    {"task", required_argument, NULL, OPT_TASK},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"admin", required_argument, NULL, OPT_ADMIN},
    {"broker", required_argument, NULL, OPT_BROKER},
    {"engine", required_argument, NULL, OPT_ENGINE},
    {"no-pull", no_argument, NULL, OPT_NO_PULL},
    {"keep", no_argument, NULL, OPT_KEEP},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* ---- parameters ---- */

/* Adds `"name":value` to the object, without the member of that name that is there already. */
static void set_param(struct buf *params, struct span name_json, struct span value)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_member m;
    struct json_value old;
    struct json_fault fault;
    struct buf out;
    size_t cursor = 0;

    buf_init(&out, PARAMS_MAX_BYTES);
    buf_put_char(&out, '{');
    if (json_check_value(buf_span(params), &rules, &old, &fault) == ERR_OK) {
        while (json_object_next(old, &cursor, &m)) {
            if (!span_eq(m.key.text, name_json)) {
                buf_put_span(&out, m.key.text);
                buf_put_char(&out, ':');
                buf_put_span(&out, m.value.text);
                buf_put_char(&out, ',');
            }
        }
    }
    buf_put_span(&out, name_json);
    buf_put_char(&out, ':');
    buf_put_span(&out, value);
    buf_put_char(&out, '}');
    buf_fini(params);
    *params = out;
}

static int take_param(struct run_line *line, const char *text)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    const char *equals = strchr(text, '=');
    struct json_value v;
    struct json_fault fault;
    struct buf name;
    struct buf quoted;

    if (equals == NULL || equals == text) {
        return command_usage("run", "--param %s: expected NAME=VALUE", text);
    }
    buf_init(&name, PARAMS_MAX_BYTES);
    buf_init(&quoted, PARAMS_MAX_BYTES);
    json_put_string(&name, span_of(text, (size_t)(equals - text)));
    struct span value = span_str(equals + 1);
    if (json_check_value(value, &rules, &v, &fault) == ERR_OK) {
        value = v.text;
    } else {
        json_put_string(&quoted, value);
        value = buf_span(&quoted);
    }
    set_param(&line->options.params, buf_span(&name), value);
    buf_fini(&quoted);
    buf_fini(&name);
    return RUN_GO_ON;
}

static int take_params(struct run_line *line, const char *path)
{
    struct json_rules rules = {.max_depth = JSON_DEPTH_MAX};
    struct json_value top;
    struct json_member m;
    struct json_fault fault;
    struct error e = {0};
    char *text = NULL;
    size_t n = 0;
    size_t cursor = 0;

    if (conf_load(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, &n, &e) != ERR_OK) {
        fprintf(stderr, RUNNER_NAME " run: --params %s\n", e.msg);
        return EX_NOINPUT;
    }
    if (json_check_value(span_of(text, n), &rules, &top, &fault) != ERR_OK) {
        fprintf(stderr, RUNNER_NAME " run: --params %s: byte %zu: %s\n", path, fault.offset,
                fault.what);
    } else if (top.type != JSON_OBJECT) {
        fprintf(stderr, RUNNER_NAME " run: --params %s: expected a JSON object\n", path);
    } else {
        while (json_object_next(top, &cursor, &m)) {
            set_param(&line->options.params, m.key.text, m.value.text);
        }
        free(text);
        return RUN_GO_ON;
    }
    free(text);
    return EX_DATAERR;
}

/* ---- options ---- */

static int take_flag(struct run_line *line, const char *name, const char *value)
{
    if (line->nflags == RUN_FLAGS_MAX) {
        return command_usage("run", "more than %d options", RUN_FLAGS_MAX);
    }
    line->flags[line->nflags++] = (struct run_flag){.name = name, .value = value};
    return RUN_GO_ON;
}

static int take_own(struct run_line *line, int id)
{
    struct run_options *o = &line->options;
    const struct {
        int id;
        const char **text;
        bool *flag;
    } table[] = {
        {OPT_EVENTS, &o->events, NULL}, {OPT_RUN_ID, &o->run_id, NULL},
        {OPT_TASK, &o->task, NULL},     {OPT_CONFIG, &o->config, NULL},
        {OPT_ADMIN, &o->admin, NULL},   {OPT_BROKER, &o->broker, NULL},
        {OPT_ENGINE, &o->engine, NULL}, {OPT_NO_PULL, NULL, &o->no_pull},
        {OPT_KEEP, NULL, &o->keep},     {OPT_DRY_RUN, NULL, &o->dry_run},
        {OPT_JSON, NULL, &o->json},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].id == id && table[i].text != NULL) {
            *table[i].text = optarg;
            return RUN_GO_ON;
        }
        if (table[i].id == id) {
            *table[i].flag = true;
            return RUN_GO_ON;
        }
    }
    return command_usage("run", "see above");
}

static int take(struct run_line *line, int id, int index)
{
    switch (id) {
    case OPT_SETTING:
        return take_flag(line, long_options[index].name, optarg);
    case OPT_SWITCH:
        return take_flag(line, long_options[index].name, "true");
    case OPT_NO_MOUNT:
        return take_flag(line, "mount-current-dir", "false");
    case OPT_NO_SANDBOX:
        return take_flag(line, "enabled", "false");
    case OPT_PARAM:
        return take_param(line, optarg);
    case OPT_PARAMS:
        return take_params(line, optarg);
    case OPT_HELP:
        fputs(usage_text, stdout);
        return EX_OK;
    default:
        return take_own(line, id);
    }
}

/* An id goes into URLs and labels. */
static bool id_ok(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    return n > 0 && n <= 64 && id[n] == '\0';
}

int run_options_read(struct run_line *line, int argc, char **argv)
{
    int index = 0;

    *line = (struct run_line){0};
    buf_init(&line->options.params, PARAMS_MAX_BYTES);
    buf_put_str(&line->options.params, "{}");
    for (int id = getopt_long(argc, argv, "", long_options, &index); id != -1; /* none is left */
         id = getopt_long(argc, argv, "", long_options, &index)) {
        int code = take(line, id, index);
        if (code != RUN_GO_ON) {
            return code;
        }
    }
    if (optind + 1 != argc) {
        return command_usage("run", optind == argc ? "expected a FILE" : "expected one FILE");
    }
    if (line->options.run_id != NULL && !id_ok(line->options.run_id)) {
        return command_usage("run", "--run-id: expected at most 64 letters, digits, '_', '.', '-'");
    }
    line->options.file = argv[optind];
    return RUN_GO_ON;
}

void run_options_fini(struct run_line *line)
{
    buf_fini(&line->options.params);
}
