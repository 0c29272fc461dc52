/* tactus-runner image build|status. */
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
    "  --file NAME      the Dockerfile in it (Dockerfile)\n"
    "  --source DIR     a directory whose content counts (repeatable; the context)\n"
    "  --engine URL     the container engine; without it one is looked for\n"
    "  --json           the answer as JSON\n"
    "  --help           print this\n"
    "\n"
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

static void print_status(const struct image_line *line, const struct image_status *s)
{
    static const char *const words[] = {"missing", "fresh", "stale"};

    if (line->json) {
        printf("{\"image\":\"%s\",\"state\":\"%s\",\"version\":\"%s\",\"source_hash\":\"%s\","
               "\"wanted_version\":\"%s\",\"wanted_source_hash\":\"%s\"}\n",
               line->plan.image, words[s->freshness], s->version, s->hash, TACTUS_VERSION,
               s->wanted_hash);
        return;
    }
    printf("%s: %s", line->plan.image, words[s->freshness]);
    if (s->freshness == IMAGE_STALE && strcmp(s->version, TACTUS_VERSION) != 0) {
        printf(", built by version %s, this is %s", s->version[0] == '\0' ? "unknown" : s->version,
               TACTUS_VERSION);
    }
    if (s->freshness == IMAGE_STALE && strcmp(s->hash, s->wanted_hash) != 0) {
        printf(", sources %s, now %s", s->hash[0] == '\0' ? "unknown" : s->hash, s->wanted_hash);
    }
    puts("");
}

static enum err act(const struct image_line *line, struct image_status *status, struct error *e)
{
    struct driver driver;
    struct engine *engine = NULL;
    enum err rc = driver_init(&driver, e);

    if (rc == ERR_OK) {
        rc = engine_find(&driver, line->engine, &engine, NULL, e);
    }
    if (rc == ERR_OK && line->build) {
        rc = image_build(engine, &line->plan, e);
    }
    if (rc == ERR_OK) {
        rc = image_status(engine, &line->plan, status, e);
    }
    engine_free(engine);
    driver_fini(&driver);
    return rc;
}

int image_command(int argc, char **argv)
{
    struct image_line line;
    struct image_status status;
    struct error e = {0};
    int code = read_line(&line, argc, argv);

    if (code != GO_ON) {
        return code;
    }
    enum err rc = act(&line, &status, &e);
    if (rc != ERR_OK) {
        fprintf(stderr, RUNNER_NAME " image: %s\n", e.msg);
        return rc == ERR_CONFIG ? EX_CONFIG : EX_UNAVAILABLE;
    }
    print_status(&line, &status);
    return line.build || status.freshness == IMAGE_FRESH ? EX_OK
           : status.freshness == IMAGE_STALE             ? 1
                                                         : 2;
}
