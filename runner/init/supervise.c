/*
 * The loop of tactus-init: signals (through a descriptor, so that nothing runs in a handler), the
 * heartbeat and one deadline. It allocates nothing, waits without waking up, and handles a bounded
 * part of what is waiting in one turn, so that no flood keeps it from a deadline.
 *
 *   RUNNING --command ended, PID 1------------------------------> OVER
 *           --heartbeat or time-to-live over--> ENDING (TERM to all, grace)
 *           --command ended, not PID 1--------> ENDING
 *   ENDING  --all we answer for has ended-----------------------> OVER
 *           --grace over----------------------> KILLING (KILL to all)
 *   KILLING --as above, or PID 1, or enough tried---------------> OVER
 */
#include "init/supervise.h"

#include "init/child.h"
#include "init/fds.h"
#include "init/heartbeat.h"
#include "init/say.h"
#include "init/tree.h"
#include "tactus/init.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_REALTIME 32 /* for the kernel */

#define NEVER      UINT64_MAX
#define REAP_MAX   256  /* a turn */
#define SIGNALS    16   /* a turn */
#define KILL_WAIT  20   /* ms between two walks of the tree */
#define KILL_TRIES 100u /* who is still there then cannot be killed: it hangs in the kernel */

enum phase { PHASE_RUNNING, PHASE_ENDING, PHASE_KILLING, PHASE_OVER };

struct supervisor {
    const struct options *options;
    struct tree tree;
    int signals;
    int heartbeat; /* -1: none, or no longer of interest */
    pid_t command;
    bool command_ended;
    bool childless; /* nothing of ours is left; says nothing about who joined PID 1's namespace */
    bool more;      /* there may be more to reap */
    enum phase phase;
    uint64_t deadline; /* of the phase */
    unsigned tries;
    int code;
    const char *reason; /* why it ended, where that was not the command's choice */
};

static uint64_t now_ms(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- phases ---- */

/* The only place that changes the phase. Phases only go on. */
static void set_phase(struct supervisor *s, enum phase phase)
{
    if (phase < s->phase || s->phase == PHASE_OVER) {
        return;
    }
    s->phase = phase;
    switch (phase) {
    case PHASE_ENDING:
        s->heartbeat = -1;
        s->deadline = now_ms() + s->options->grace_ms;
        tree_signal(&s->tree, s->command, SIGTERM);
        tree_signal(&s->tree, s->command, SIGCONT); /* who is stopped cannot see it otherwise */
        break;
    case PHASE_KILLING:
        s->tries++;
        s->deadline = now_ms() + KILL_WAIT;
        tree_signal(&s->tree, s->command, SIGKILL);
        break;
    default:
        s->deadline = NEVER;
        break;
    }
}

/* Ends what runs, with `code` whatever the command's own will be. */
static void end(struct supervisor *s, int code, const char *reason)
{
    if (s->phase == PHASE_RUNNING) {
        s->code = code;
        s->reason = reason;
        set_phase(s, PHASE_ENDING);
    }
}

static void on_command_ended(struct supervisor *s, int status)
{
    s->command_ended = true;
    if (s->phase == PHASE_RUNNING) {
        s->code =
            WIFSIGNALED(status) ? TACTUS_INIT_EX_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* Looks where the phase leads. */
static void settle(struct supervisor *s)
{
    if (s->command_ended && (s->tree.pid1 || s->childless)) {
        set_phase(s, PHASE_OVER);
    } else if (s->command_ended && s->phase == PHASE_RUNNING) {
        set_phase(s, PHASE_ENDING);
    } else if (now_ms() < s->deadline) {
        return;
    } else if (s->phase == PHASE_RUNNING) {
        end(s, TACTUS_INIT_EX_TTL, "the time-to-live is over");
    } else if (s->phase == PHASE_KILLING && (s->tree.pid1 || s->tries >= KILL_TRIES)) {
        set_phase(s, PHASE_OVER);
    } else {
        set_phase(s, PHASE_KILLING);
    }
}

/* ---- events ---- */

static void forward(const struct supervisor *s, int number)
{
    if (number == SIGCHLD || number == SIGPIPE || s->command_ended) {
        return; /* ours; or its number may be somebody else's by now */
    }
    (void)kill(-s->command, number);
    if (getpgid(s->command) != s->command) { /* it has moved to another group */
        (void)kill(s->command, number);
    }
}

static void read_signals(const struct supervisor *s)
{
    struct signalfd_siginfo infos[SIGNALS];
    ssize_t n = read(s->signals, infos, sizeof(infos));

    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(infos[0]); i++) {
        forward(s, (int)infos[i].ssi_signo);
    }
}

static void reap(struct supervisor *s)
{
    for (int i = 0; i < REAP_MAX; i++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            s->childless = pid < 0 && errno == ECHILD;
            s->more = false;
            return;
        }
        if (pid == s->command) {
            on_command_ended(s, status);
        }
    }
    s->more = true;
}

/* How long nothing need be done, for poll(). */
static int idle_ms(const struct supervisor *s)
{
    uint64_t now = now_ms();

    if (s->more || now >= s->deadline) {
        return 0;
    }
    if (s->deadline == NEVER) {
        return -1; /* for ever */
    }
    return s->deadline - now < INT_MAX ? (int)(s->deadline - now) : INT_MAX;
}

static void turn(struct supervisor *s)
{
    struct pollfd fds[] = {
        {.fd = s->signals, .events = POLLIN},
        {.fd = s->heartbeat, .events = POLLIN},
    };

    if (poll(fds, 2, idle_ms(s)) < 0 && errno != EINTR) {
        /* Not to be expected; but who cannot wait must not spin. */
        end(s, TACTUS_INIT_EX_FAILED, strerror(errno));
        set_phase(s, PHASE_KILLING);
        set_phase(s, PHASE_OVER);
        return;
    }
    if (fds[0].revents != 0) {
        read_signals(s);
    }
    reap(s);
    if (fds[1].revents != 0 && !s->command_ended && heartbeat_ended(s->heartbeat)) {
        end(s, TACTUS_INIT_EX_HEARTBEAT, "the runner is gone");
    }
    settle(s);
}

/* ---- start and end ---- */

/* Default dispositions, which the command inherits (an ignored SIGCHLD would also reap behind our
 * back), and every signal through a descriptor. A fault of our own still ends us. */
static int take_signals(int *fd)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t all;

    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    sigemptyset(&standard.sa_mask);
    for (int number = 1; number <= SIGRTMAX; number++) {
        (void)sigaction(number, &standard, NULL);
    }
    /* The C library keeps the first real-time ones for itself and says EINVAL; whoever started us
     * may have ignored them. All zero is the kernel's form of a default disposition without flags.
     */
    for (int number = FIRST_REALTIME; number < SIGRTMIN; number++) {
        const uint64_t zeros[4] = {0};
        (void)syscall(SYS_rt_sigaction, number, zeros, NULL, sizeof(uint64_t));
    }
    int opened = fds_above_stdio(signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC));
    if (opened < 0) {
        say("cannot receive signals: %s", strerror(errno));
        return TACTUS_INIT_EX_FAILED;
    }
    *fd = opened;
    return 0;
}

static int start(struct supervisor *s)
{
    const struct options *o = s->options;

    if (o->ttl_ms > 0) {
        s->deadline = now_ms() + o->ttl_ms;
    }
    int code = take_signals(&s->signals);
    if (code == 0 && o->heartbeat != NULL) {
        code = heartbeat_open(o->heartbeat, &s->heartbeat);
    }
    if (code != 0) {
        return code;
    }
    if (s->heartbeat >= 0 && heartbeat_ended(s->heartbeat)) {
        say("the runner is gone before the start");
        return TACTUS_INIT_EX_HEARTBEAT;
    }
    tree_init(&s->tree);
    code = child_start(o->command, &s->command);
    if (code == 0) {
        /* They are the command's: who waits for their end must not wait for ours. */
        (void)close(STDIN_FILENO);
        (void)close(STDOUT_FILENO);
    }
    return code;
}

int supervise(const struct options *o)
{
    struct supervisor s = {
        .options = o,
        .signals = -1,
        .heartbeat = -1,
        .phase = PHASE_RUNNING,
        .deadline = NEVER,
    };
    int code = start(&s);

    if (code != 0) {
        return code;
    }
    while (s.phase != PHASE_OVER) {
        turn(&s);
    }
    if (s.reason != NULL) {
        if (s.tree.pid1) {
            /* They die with us anyway, but should not compete for stderr before. */
            tree_signal(&s.tree, s.command, SIGKILL);
        }
        say("%s", s.reason);
    }
    return s.code;
}
