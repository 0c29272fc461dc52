/*
 * tactus-init: PID 1 of a container that the runner starts. A static program without libraries, so
 * that it runs in any image of this architecture: read-only root, no /proc, any user, no
 * capabilities. tactus/init.h is what it promises.
 */
#include "init/fds.h"
#include "init/options.h"
#include "init/say.h"
#include "init/supervise.h"
#include "tactus/init.h"
#include "tactus/version.h"

#include <unistd.h>

static const char help[] =
    "Usage: " TACTUS_INIT_NAME " [OPTIONS] -- COMMAND [ARGUMENT]...\n"
    "Runs COMMAND as the main process of a container: reaps processes, forwards signals,\n"
    "ends everything when nobody waits for it any more.\n"
    "\n"
    "  --heartbeat FIFO  end when nobody has FIFO open for writing (nor at the start)\n"
    "  --ttl SECONDS     end after so long; default: never\n"
    "  --grace SECONDS   how long COMMAND may take from TERM to KILL then; default 5\n"
    "  --help            show this help\n"
    "  --version         show the version\n"
    "\n"
    "SECONDS may have a fraction.\n"
    "\n"
    "Exit codes: COMMAND's; 128 + N when signal N ended it; 64 wrong command line;\n"
    "124 time-to-live over; 125 " TACTUS_INIT_NAME " failed; 126 COMMAND cannot be run;\n"
    "127 no such COMMAND; 143 heartbeat over.\n";

static int run(int argc, char **argv)
{
    struct options o = {0};
    struct options_fault fault = {0};

    if (!options_read(argc, argv, &o, &fault)) {
        say("%s: %s; see " TACTUS_INIT_NAME " --help", fault.word, fault.why);
        return TACTUS_INIT_EX_USAGE;
    }
    if (o.help || o.version) {
        return say_stdout(o.help ? help : TACTUS_INIT_NAME " " TACTUS_VERSION "\n")
                   ? 0
                   : TACTUS_INIT_EX_FAILED;
    }
    fds_close_inherited();
    return supervise(&o);
}

int main(int argc, char **argv)
{
    _exit(run(argc, argv)); /* whatever is to be written was written */
}
