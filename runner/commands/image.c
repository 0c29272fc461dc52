/* tactus-runner image build|status. */
#include "base/json.h"
#include "commands/commands.h"
#include "run/image_build.h"
#include "tactus/version.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define SOURCES_MAX 64

static const char usage_text[] =
    "Usage: " RUNNER_NAME " image build|status [OPTION]...\n"
    "Builds the sandbox image, or says whether it is as new as its sources.\n"
    "\n"
    "  --image NAME     the image (tactus-sandbox:local)\n"
    "  --context DIR    the directory to build from (.)\n"
    "  --file PATH      the Dockerfile in it (Dockerfile)\n"
    "  --source DIR     a directory whose content counts (repeatable, in the same order for build\n"
    "                   and status; the context)\n"
    "  --engine URL     the container engine; without it one is looked for\n"
    "  --json           the answer as JSON\n"
    "  --help           print this\n"
    "\n"
    "What .dockerignore leaves out is not sent. Hidden entries, __pycache__ and *.pyc do not "
    "count.\n"
    "Exit code of status: 0 fresh, 1 stale, 2 missing.\n"
    "\n"
    "Examples:\n"
    "  " RUNNER_NAME " image build --context sandbox --source src\n"
    "  " RUNNER_NAME " image status --context sandbox --source src --json\n";

enum { OPT_IMAGE = 256, OPT_CONTEXT, OPT_FILE, OPT_SOURCE, OPT_ENGINE, OPT_JSON, OPT_HELP };

static const struct option long_options[] = {
    {"image", required_argument, NULL, OPT_IMAGE},
    {"context", required_argument, NULL, OPT_CONTEXT},
    {"file", required_argument, NULL, OPT_FILE},
    {"source", required_argument, NULL, OPT_SOURCE},
    {"engine", required_argument, NULL, OPT_ENGINE},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct image_line {
    struct image_plan plan;
    const char *sources[SOURCES_MAX];
    const char *engine;
    bool json;
    bool build;
};

#define GO_ON (-1) /* no exit code: the program runs on */

static int take(struct image_line *line, int id)
{
    switch (id) {
    case OPT_IMAGE:
        line->plan.image = optarg;
        return GO_ON;
    case OPT_CONTEXT:
        line->plan.context = optarg;
        return GO_ON;
    case OPT_FILE:
        line->plan.file = optarg;
        return GO_ON;
    case OPT_SOURCE:
        if (line->plan.nsources == SOURCES_MAX) {
            return command_usage("image", "more than %d --source", SOURCES_MAX);
        }
        line->sources[line->plan.nsources++] = optarg;
        return GO_ON;
    case OPT_ENGINE:
        line->engine = optarg;
        return GO_ON;
    case OPT_JSON:
        line->json = true;
        return GO_ON;
    case OPT_HELP:
        fputs(usage_text, stdout);
        return EX_OK;
    default:
        return command_usage("image", "see above");
    }
}

static int read_line(struct image_line *line, int argc, char **argv)
{
    *line = (struct image_line){
        .plan = {.image = "tactus-sandbox:local", .context = ".", .file = "Dockerfile"}};
    line->plan.sources = line->sources;
    for (int id = getopt_long(argc, argv, "", long_options, NULL); id != -1; /* none is left */
         id = getopt_long(argc, argv, "", long_options, NULL)) {
        int code = take(line, id);
        if (code != GO_ON) {
            return code;
        }
    }
    const char *verb = optind + 1 == argc ? argv[optind] : "";
    line->build = strcmp(verb, "build") == 0;
    if (!line->build && strcmp(verb, "status") != 0) {
        return command_usage("image", "expected build or status");
    }
    return GO_ON;
}

static void put_member(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "%s\"%s\":", out->len == 0 ? "{" : ",", key);
    json_put_string(out, span_str(value));
}

static void put_json(struct buf *out, const struct image_line *line, const struct image_status *s,
                     const char *state)
{
    put_member(out, "image", line->plan.image);
    put_member(out, "state", state);
    put_member(out, "version", s->version);
    put_member(out, "source_hash", s->hash);
    put_member(out, "wanted_version", TACTUS_VERSION);
    put_member(out, "wanted_source_hash", s->wanted_hash);
    buf_put_char(out, '}');
}

static void put_text(struct buf *out, const struct image_line *line, const struct image_status *s,
                     const char *state)
{
    buf_printf(out, "%s: %s", line->plan.image, state);
    if (s->freshness == IMAGE_STALE && strcmp(s->version, TACTUS_VERSION) != 0) {
        buf_printf(out, ", built by version %s, this is %s",
                   s->version[0] == '\0' ? "unknown" : s->version, TACTUS_VERSION);
    }
    if (s->freshness == IMAGE_STALE && strcmp(s->hash, s->wanted_hash) != 0) {
        buf_printf(out, ", sources %s, now %s", s->hash[0] == '\0' ? "unknown" : s->hash,
                   s->wanted_hash);
    }
}

static void print_status(const struct image_line *line, const struct image_status *s)
{
    static const char *const words[] = {
        [IMAGE_MISSING] = "missing", [IMAGE_FRESH] = "fresh", [IMAGE_STALE] = "stale"};
    struct buf out;

    buf_init(&out, 65536);
    (line->json ? put_json : put_text)(&out, line, s, words[s->freshness]);
    puts(buf_cstr(&out));
    buf_fini(&out);
}

static enum err find(struct driver *d, const char *address, struct engine **out, struct error *e)
{
    struct buf report;

    buf_init(&report, 65536);
    enum err rc = engine_find(d, address, out, &report, e);
    if (rc == ERR_IO && report.len > 0) {
        fprintf(stderr, "%s\n", buf_cstr(&report));
    }
    buf_fini(&report);
    return rc;
}

static enum err act(const struct image_line *line, struct image_status *status, int *signal,
                    struct error *e)
{
    struct driver driver = {.loop = NULL};
    struct engine *engine = NULL;
    enum err rc = driver_init(&driver, e);

    if (rc == ERR_OK) {
        rc = find(&driver, line->engine, &engine, e);
    }
    if (rc == ERR_OK && line->build) {
        rc = image_build(engine, &line->plan, e);
    }
    if (rc == ERR_OK) {
        rc = image_status(engine, &line->plan, status, e);
    }
    *signal = driver.signal;
    engine_free(engine);
    driver_fini(&driver);
    return rc;
}

static int exit_code(enum err rc, int signal)
{
    if (signal != 0) {
        return 128 + signal;
    }
    return rc == ERR_CONFIG || rc == ERR_LIMIT ? EX_CONFIG : EX_UNAVAILABLE;
}

int image_command(int argc, char **argv)
{
    struct image_line line;
    struct image_status status;
    struct error e = {0};
    int signal = 0;
    int code = read_line(&line, argc, argv);

    if (code != GO_ON) {
        return code;
    }
    enum err rc = act(&line, &status, &signal, &e);
    if (rc != ERR_OK) {
        fprintf(stderr, RUNNER_NAME " image: %s\n", e.msg);
        return exit_code(rc, signal);
    }
    print_status(&line, &status);
    return line.build || status.freshness == IMAGE_FRESH ? EX_OK
           : status.freshness == IMAGE_STALE             ? 1
                                                         : 2;
}
