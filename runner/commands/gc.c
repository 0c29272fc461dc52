/* tactus-runner gc: removes what runs left whose runner was killed. */
#include "commands/commands.h"
#include "run/run.h"

#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

static const char usage_text[] =
    "Usage: " RUNNER_NAME " gc [OPTION]...\n"
    "Removes containers and temporary directories of runs whose runner is gone.\n"
    "Those of living runs, and what others made, stay.\n"
    "\n"
    "  --engine URL   unix:///PATH or tcp://HOST:PORT; without it one is looked for\n"
    "  --json         print {\"containers\":N,\"directories\":N}\n"
    "  --help         print this\n"
    "\n"
    "Example:\n"
    "  " RUNNER_NAME " gc --json\n";

enum { OPT_ENGINE = 256, OPT_JSON, OPT_HELP };

static const struct option long_options[] = {
    {"engine", required_argument, NULL, OPT_ENGINE},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static enum err sweep(const char *address, size_t *containers, size_t *directories, struct error *e)
{
    struct driver driver;
    struct engine *engine = NULL;
    enum err rc = driver_init(&driver, e);

    if (rc == ERR_OK) {
        rc = engine_find(&driver, address, &engine, NULL, e);
    }
    if (rc == ERR_OK) {
        rc = run_sweep(engine, containers, directories, e);
    }
    engine_free(engine);
    driver_fini(&driver);
    return rc;
}

int gc_command(int argc, char **argv)
{
    const char *address = NULL;
    bool json = false;
    size_t containers = 0;
    size_t directories = 0;
    struct error e = {0};

    for (int id = getopt_long(argc, argv, "", long_options, NULL); id != -1; /* no option left */
         id = getopt_long(argc, argv, "", long_options, NULL)) {
        if (id == OPT_ENGINE) {
            address = optarg;
        } else if (id == OPT_JSON) {
            json = true;
        } else if (id == OPT_HELP) {
            fputs(usage_text, stdout);
            return EX_OK;
        } else {
            return command_usage("gc", "see above");
        }
    }
    if (optind < argc) {
        return command_usage("gc", "unexpected argument %s", argv[optind]);
    }
    enum err rc = sweep(address, &containers, &directories, &e);
    if (rc != ERR_OK) {
        fprintf(stderr, RUNNER_NAME " gc: %s\n", e.msg);
        return rc == ERR_CONFIG ? EX_CONFIG : EX_UNAVAILABLE;
    }
    if (json) {
        printf("{\"containers\":%zu,\"directories\":%zu}\n", containers, directories);
    } else {
        printf("removed: %zu containers, %zu directories\n", containers, directories);
    }
    return EX_OK;
}
