/* tactus-runner: finds the command and hands its arguments over. */
#include "base/log.h"
#include "commands/commands.h"
#include "tactus/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage_text[] =
    "Usage: " RUNNER_NAME " COMMAND [OPTION]... [ARGUMENT]...\n"
    "Runs agent code in containers that reach the broker and hold no secret.\n"
    "\n"
    "  run FILE       run a procedure in a container of its own and print its result\n"
    "  gc             remove what runs left whose runner was killed\n"
    "  image build    build the sandbox image\n"
    "  image status   say whether it is up to date\n"
    "\n"
    "  --version      print the version\n"
    "  --help         print this; COMMAND --help prints a command's options\n"
    "\n"
    "Examples:\n"
    "  " RUNNER_NAME " run hello.tac --param name='\"Ada\"'\n"
    "  " RUNNER_NAME " run agent.tac --transport tls --timeout 600 --json\n";

int command_usage(const char *command, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, RUNNER_NAME " %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry '" RUNNER_NAME " %s --help'.\n", command);
    return EX_USAGE;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"run", run_command}, {"gc", gc_command}, {"image", image_command}};

    log_setup(LOG_INFO, LOG_FORMAT_TEXT, NULL);
    if (argc < 2) {
        fputs(usage_text, stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(RUNNER_NAME " " TACTUS_VERSION);
        return EX_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage_text, stdout);
        return EX_OK;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, RUNNER_NAME ": unknown command %s\nTry '" RUNNER_NAME " --help'.\n", argv[1]);
    return EX_USAGE;
}
