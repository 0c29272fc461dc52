"""tactus-init as PID 1 of a PID namespace, and below another init: codes, orphans, signals, and every way to an end.

That all of a container's processes have ended is seen by their common stdout: it ends with the last of them.
"""
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

import harness as h
from harness import Rows, bound, check, equal

INIT = h.BUILD / "tactus-init"
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
             "--pid", "--fork", "--mount-proc", "--kill-child"]
MODES = ("PID 1", "below")
SHORT = ["--grace", "0.3"]
LONG = 60  # seconds; what should have been ended ends by itself then
USAGE, TTL, FAILED, CANNOT_RUN, NOT_FOUND, HEARTBEAT = 64, 124, 125, 126, 127, 143


def need_namespaces() -> None:
    if h.run([*NAMESPACE, "true"]).returncode != 0:
        raise h.Skip("no PID namespaces for this user")


def line(mode: str, *args) -> list:
    if mode == "PID 1":
        need_namespaces()
    return [*(NAMESPACE if mode == "PID 1" else []), INIT, *args]


def python(text: str) -> list:
    return [sys.executable, "-S", "-E", "-c", text]


def children(pid: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has gone
            if pathlib.Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1] == str(pid):
                found.append(int(name))
    return found


def kill_tree(pid: int) -> None:
    for child in children(pid):
        kill_tree(child)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Container:
    """A running tactus-init; `out` is what the command and its children say."""

    def __init__(self, mode: str, *args, **more):
        self.process = h.spawn(line(mode, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **more)
        self.out, self.below = self.process.stdout, mode != "PID 1"

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            kill_tree(self.process.pid)
        self.process.communicate(timeout=20 * h.PATIENCE)

    def pid(self) -> int:
        """Of tactus-init, as seen from here."""
        if self.below:
            return self.process.pid
        (pid,) = children(self.process.pid)
        return pid

    def signal(self, number: int) -> None:
        os.kill(self.pid(), number)

    def line(self) -> str:
        return self.out.readline().decode().rstrip("\n")

    def ready(self) -> None:
        equal(self.line(), "ready")

    def end(self) -> tuple[int, str, str]:
        """Waits until everything has ended: the code, the rest of stdout, stderr."""
        out, err = self.process.communicate(timeout=20 * h.PATIENCE)
        return self.process.returncode, out.decode(), (err or b"").decode()


class Heartbeat:
    """A FIFO with its write end open, as the runner has it."""

    def __init__(self):
        self.path = h.TEMPORARY / f"heartbeat-{next(h.NUMBERS)}"
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR)  # not inheritable

    def end(self) -> None:
        os.close(self.fd)


# ---- codes ----------------------------------------------------------------------------------------------------


@bound(60)
def test_exit_codes():
    rows = Rows()
    table = [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -KILL $$", 137), ("kill -TERM $$", 143),
             ("kill -SEGV $$", 139), ("kill -HUP $$", 129)]
    for mode, (script, code) in itertools.product(MODES, table):
        with rows(f"{mode}: {script}"):
            result = h.run(line(mode, "--", "sh", "-c", script))
            equal((result.returncode, result.stdout, result.stderr), (code, "", ""))
    rows.close()


@bound(60)
def test_200_fast_exits():
    need_namespaces()
    codes = [subprocess.run([*map(str, NAMESPACE), str(INIT), "--", "sh", "-c", "exit 3"]).returncode
             for _ in range(200)]
    equal(codes, [3] * 200)


@bound(60)
def test_commands_that_cannot_run():
    plain = h.TEMPORARY / "plain"
    plain.write_text("exit 5\n")
    orphan = h.TEMPORARY / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    table = [
        ("no-such-command", NOT_FOUND, "No such file or directory"),
        ("/no/such/command", NOT_FOUND, "No such file or directory"),
        ("", NOT_FOUND, "No such file or directory"),
        (orphan, NOT_FOUND, "No such file or directory"),
        (plain, CANNOT_RUN, "Permission denied"),
        (h.TEMPORARY, CANNOT_RUN, "Permission denied"),
        (plain / "below", CANNOT_RUN, "Not a directory"),
    ]
    rows = Rows()
    for mode, (command, code, why) in itertools.product(MODES, table):
        with rows(f"{mode}: {command}"):
            result = h.run(line(mode, "--", command, "argument"))
            equal((result.returncode, result.stdout, result.stderr), (code, "", f"tactus-init: {command}: {why}\n"))
    rows.close()


@bound(20)
def test_command_is_looked_up_on_path():
    for name, text in (("with-interpreter", "#!/bin/sh\nexit $1\n"), ("without-interpreter", "exit $1\n")):
        script = h.TEMPORARY / name
        script.write_text(text)
        script.chmod(0o755)
        result = h.run([INIT, "--", name, "7"], env={"PATH": f"/no/such/directory:{h.TEMPORARY}:/usr/bin:/bin"})
        equal((result.returncode, result.stderr), (7, ""), name)


@bound(20)
def test_wrong_command_lines():
    rows = Rows()
    for args in ([], ["--"], ["sh"], ["exec"], ["--ttl", "5"], ["--nonsense", "--", "echo"], ["--ttl", "--", "echo"],
                 ["--ttl", "soon", "--", "echo"], ["--ttl", "0", "--", "echo"], ["--ttl=5", "--", "echo"],
                 ["--grace", "-1", "--", "echo"], ["--grace", "1e9", "--", "echo"], ["--heartbeat", "", "--", "echo"]):
        with rows(str(args)):
            result = h.run([INIT, *args])
            equal((result.returncode, result.stdout), (USAGE, ""))
            check(result.stderr.startswith("tactus-init: ") and result.stderr.endswith("; see tactus-init --help\n")
                  and result.stderr.count("\n") == 1, result.stderr)
    rows.close()


@bound(20)
def test_version_and_help():
    result = h.run([INIT, "--version"])
    equal((result.returncode, result.stderr), (0, ""))
    check(result.stdout.startswith("tactus-init ") and result.stdout.split()[1][0].isdigit(), result.stdout)
    result = h.run([INIT, "--help"])
    equal((result.returncode, result.stderr), (0, ""))
    for word in ("--heartbeat", "--ttl", "--grace", "--version", "124", "125", "126", "127", "143"):
        check(word in result.stdout, f"--help does not tell of {word}")
    with open("/dev/full", "wb") as full:
        equal(h.spawn([INIT, "--version"], stdout=full).wait(), FAILED, "stdout that cannot be written")


# ---- what the command gets ------------------------------------------------------------------------------------


@bound(20)
def test_stdin_passes():
    rows = Rows()
    for mode in MODES:
        with rows(mode):
            text = "".join(f"line {n}\n" for n in range(50_000))  # more than a pipe holds
            process = h.spawn(line(mode, "--", "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            out, _ = process.communicate(text.encode(), timeout=20 * h.PATIENCE)
            equal((process.returncode, out == text.encode()), (0, True))
    rows.close()


@bound(20)
def test_stdin_and_stdout_are_the_command_s_alone():
    """Whoever waits for the end of one of them does not wait for tactus-init's."""
    process = h.spawn([INIT, "--", "sh", "-c", f"exec <&- >&- 2>&-; sleep {LONG}"], stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE)
    equal(process.stdout.read(), b"", "stdout of a command that closed it")
    try:
        while True:
            process.stdin.write(b"x" * 65536)
            process.stdin.flush()
    except BrokenPipeError:
        pass
    equal(process.poll(), None, "the command goes on")
    process.terminate()
    equal(process.wait(20 * h.PATIENCE), 143)
    process.stdout.close()


LIST_DESCRIPTORS = python("""
import os
for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        if not os.readlink(f"/proc/self/fd/{fd}").startswith("/proc/"): print(fd)
    except OSError: pass # that of the list
""")


@bound(20)
def test_no_further_descriptor():
    left_open = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    beat, rows = Heartbeat(), Rows()
    for closed, want in (("", ["0", "1", "2"]), ("<&-", ["1", "2"]), ("<&- 2>&-", ["1"])):
        with rows(f"closed: {closed}"):
            script = f'exec "$@" {closed}'
            result = h.run(["sh", "-c", script, "sh", INIT, "--heartbeat", beat.path, "--ttl", str(LONG), "--",
                            *LIST_DESCRIPTORS], pass_fds=left_open)
            equal((result.returncode, result.stdout.split()), (0, want))
    rows.close()


@bound(20)
def test_closed_stdin_and_stdout():
    """Ours do not take their place, where they would be closed with them."""
    beat = Heartbeat()
    process = h.spawn(["sh", "-c", 'exec "$@" <&- >&-', "sh", INIT, "--heartbeat", beat.path, *SHORT, "--",
                       *python(TELL.replace("flush=True", "file=sys.stderr, flush=True") + "tell()")], stderr=subprocess.PIPE, bufsize=0)
    equal(process.stderr.readline(), b"ready\n")
    process.send_signal(signal.SIGUSR1)
    equal(process.stderr.readline(), b"SIGUSR1\n")
    beat.end()
    equal(process.stderr.readline(), b"SIGTERM\n")
    equal(process.communicate(timeout=20 * h.PATIENCE), (None, GONE.encode()))
    equal(process.returncode, HEARTBEAT)


@bound(20)
def test_descriptors_left_open_are_closed():
    """Not by us either: whoever waits for the end of such a pipe does not wait for the container's."""
    read_end, write_end = os.pipe()
    with Container("below", "--", "sh", "-c", f"echo ready; exec sleep {LONG}", pass_fds=[write_end]) as c:
        os.close(write_end)
        c.ready()
        equal(os.read(read_end, 1), b"")
        c.signal(signal.SIGTERM)
        equal(c.end()[0], 143)
    os.close(read_end)


def ignore_and_block() -> None:
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2, signal.SIGINT, signal.SIGCHLD})


@bound(20)
def test_signals_are_as_new():
    rows = Rows()
    for mode in MODES:
        with rows(mode):
            result = h.run(line(mode, "--", "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"),
                           preexec_fn=ignore_and_block)
            equal(result.stdout.split()[1::2], ["0" * 16] * 2, result.stdout)
            result = h.run(line(mode, "--", "sh", "-c", "kill -TERM $$"), preexec_fn=ignore_and_block)
            equal(result.returncode, 143, "the code, though SIGCHLD was ignored")
    rows.close()


@bound(20)
def test_command_is_out_of_memory_s_first_choice():
    own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    result = h.run([INIT, "--", "cat", "/proc/self/oom_score_adj"])
    equal(result.stdout, f"{min(own + 500, 1000)}\n")
    result = h.run([INIT, "--", INIT, "--", INIT, "--", "cat", "/proc/self/oom_score_adj"])
    equal(result.stdout, "1000\n", "at most")


# ---- orphans --------------------------------------------------------------------------------------------------

# 500 orphans that end, some of them before their parents. Then how many zombies tactus-init has, asked until it has none.
ORPHANS = python("""
import os, time
ended, ending = os.pipe()
for n in range(500):
    if os.fork() == 0:
        if os.fork() == 0:
            if n % 2: time.sleep(0.01)
            os._exit(n % 256)
        os._exit(0)
    if n % 50 == 49:
        for _ in range(50): os.wait()
os.close(ending)
os.read(ended, 1) # none of them runs any more
def zombies():
    count = 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        try: stat = open(f"/proc/{p}/stat").read()
        except OSError: continue
        count += stat.rsplit(")", 1)[1].split()[:2] == ["Z", str(os.getppid())]
    return count
for _ in range(200):
    if zombies() == 0: break
    time.sleep(0.02)
print(zombies())
""")


@bound(60)
def test_orphans_are_reaped():
    rows = Rows()
    for mode in MODES:
        with rows(mode):
            result = h.run(line(mode, "--", *ORPHANS))
            equal((result.returncode, result.stdout, result.stderr), (0, "0\n", ""))
    rows.close()


@bound(60)
def test_codes_of_orphans_are_not_the_command_s():
    script = "(sh -c 'exit 9' &) ; (sh -c 'kill -KILL $$' &) ; sleep 0.2; exit 4"
    for mode in MODES:
        equal(h.run(line(mode, "--", "sh", "-c", script)).returncode, 4, mode)


# What a command leaves behind: each has the stdout.
LEFT = {
    "in the background": f"sleep {LONG} & exit 6",
    "in a session of its own": f"setsid sleep {LONG} & sleep 0.1; exit 6",
    "an orphan": f"(setsid sh -c 'sleep {LONG} & sleep {LONG}; :' &) ; sleep 0.1; exit 6",
    "that ignores TERM": f"trap '' TERM; setsid sleep {LONG} & sleep 0.1; exit 6",
    "stopped": f"sh -c 'kill -STOP $$; sleep {LONG}' & sleep 0.1; exit 6",
}


@bound(60)
def test_what_the_command_leaves_ends_with_it():
    rows = Rows()
    for mode, (name, script) in itertools.product(MODES, LEFT.items()):
        with rows(f"{mode}: {name}"):
            result = h.run(line(mode, *SHORT, "--", "sh", "-c", script))
            equal((result.returncode, result.stdout, result.stderr), (6, "", ""))
    rows.close()


@bound(60)
def test_what_is_left_may_end_well():
    """Below another init TERM comes first; what ends by it is not killed."""
    script = "sh -c 'trap \"echo well; exit\" TERM; echo ready; while :; do sleep 0.05; done' & read x; exit 6"
    process = h.spawn([INIT, "--", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    equal(process.stdout.readline(), b"ready\n")
    out, _ = process.communicate(b"\n", timeout=20 * h.PATIENCE)
    equal((process.returncode, out), (6, b"well\n"))


@bound(60)
def test_strangers_are_left_alone():
    """Not as PID 1 only what is below gets signals: neither who started us nor its other children."""
    script = (f'sleep {LONG} & other=$!; "$0" --ttl 0.2 --grace 0 -- sleep {LONG}; echo $?; '
              "kill -0 $other && echo lives; kill $other")
    result = h.run(["sh", "-c", script, INIT])
    equal((result.stdout, result.stderr), ("124\nlives\n", "tactus-init: the time-to-live is over\n"))


# ---- signals --------------------------------------------------------------------------------------------------

# Says each signal that comes; TERM ends it with 9.
TELL = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
def tell(name=""):
    print("ready" + name, flush=True)
    while True:
        number = signal.sigwait(signal.valid_signals() - {signal.SIGCHLD})
        print(signal.Signals(number).name + name, flush=True)
        if number == signal.SIGTERM: os._exit(9)
"""


@bound(30)
def test_signals_are_forwarded():
    rows = Rows()
    names = ("SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGALRM", "SIGTSTP", "SIGABRT",
             "SIGRTMIN", "SIGTERM")
    for mode in MODES:
        with Container(mode, "--", *python(TELL + "tell()")) as c:
            c.ready()
            for name in names:
                with rows(f"{mode}: {name}"):
                    c.signal(getattr(signal, name))
                    equal(c.line(), name)
            with rows(f"{mode}: the end"):
                equal(c.end(), (9, "", ""))
    rows.close()


@bound(30)
def test_signals_reach_the_command_s_group():
    for mode in MODES:
        with Container(mode, "--", *python(TELL + """
if os.fork() == 0: tell(" child")
os.wait()
""")) as c:
            equal(c.line(), "ready child")
            c.signal(signal.SIGTERM)
            equal(c.end(), (0, "SIGTERM child\n", ""), mode)


@bound(30)
def test_signals_reach_a_command_that_left_its_group():
    for mode in MODES:
        with Container(mode, "--", *python(TELL + f"""
import time
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    time.sleep({LONG})
while os.getpgid(pid) != pid: time.sleep(0.001)
os.setpgid(0, pid)
tell()
""")) as c:
            c.ready()
            for name in ("SIGUSR1", "SIGUSR2"):
                c.signal(getattr(signal, name))
                equal(c.line(), name)
            c.signal(signal.SIGTERM)
            equal(c.end()[:2], (9, "SIGTERM\n"), mode)


@bound(30)
def test_a_signal_s_default_ends_the_command():
    for mode in MODES:
        with Container(mode, "--", "sh", "-c", f"echo ready; exec sleep {LONG}") as c:
            c.ready()
            c.signal(signal.SIGTERM)
            equal(c.end(), (143, "", ""), mode)


# ---- heartbeat ------------------------------------------------------------------------------------------------

GONE = "tactus-init: the runner is gone\n"
WAIT = "while :; do sleep 0.05; done"
WELL = f"trap 'echo well; exit 0' TERM; echo ready; {WAIT}"
# What a container may be when the heartbeat ends, and what it says then. A shell tells of killed children on stderr.
BUSY = {
    "ends by TERM": (f"echo ready; exec sleep {LONG}", ""),
    "ends well": (f"exec 2>&-; {WELL}", "well\n"),
    "ignores TERM": (f"exec 2>&-; trap '' TERM; echo ready; {WAIT}", ""),
    "is stopped": ("trap 'echo well; exit 0' TERM; (until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done; echo ready) & "
                   f"kill -STOP $$; {WAIT}", "well\n"),
    "has a session below that ends well": (f'exec 2>&-; trap : TERM; setsid sh -c "{WELL}" & {WAIT}', "well\n"),
    "has a session below": (f"exec 2>&-; trap '' TERM; setsid sh -c 'setsid sleep {LONG} & echo ready; wait' & {WAIT}", ""),
    "has orphans that ignore TERM": (f"(trap '' TERM; setsid sh -c '(sleep {LONG} &) ; echo ready; sleep {LONG}' &) ; "
                                     f"exec sleep {LONG}", ""),
}


@bound(60)
def test_heartbeat_ends():
    rows = Rows()
    for mode, (name, (script, says)) in itertools.product(MODES, BUSY.items()):
        with rows(f"{mode}: {name}"):
            beat = Heartbeat()
            with Container(mode, "--heartbeat", beat.path, *SHORT, "--", "sh", "-c", script) as c:
                c.ready()
                beat.end()
                equal(c.end(), (HEARTBEAT, says, GONE))
    rows.close()


@bound(30)
def test_heartbeat_of_a_killed_runner():
    need_namespaces()
    beat = Heartbeat()
    runner = h.spawn(["sleep", str(LONG)], pass_fds=[beat.fd])
    beat.end()
    with Container("PID 1", "--heartbeat", beat.path, *SHORT, "--", "sh", "-c", f"echo ready; exec sleep {LONG}") as c:
        c.ready()
        runner.kill()
        runner.wait()
        equal(c.end(), (HEARTBEAT, "", GONE))


@bound(30)
def test_heartbeat_without_a_writer_at_the_start():
    for mode in MODES:
        beat = Heartbeat()
        beat.end()
        result = h.run(line(mode, "--heartbeat", beat.path, "--", "echo", "started"))
        equal((result.returncode, result.stdout, result.stderr),
              (HEARTBEAT, "", "tactus-init: the runner is gone before the start\n"), mode)


@bound(30)
def test_heartbeat_that_is_none():
    file = h.TEMPORARY / "file"
    file.write_text("")
    table = [(h.TEMPORARY / "missing", "No such file or directory"), (file, "not a FIFO"), (h.TEMPORARY, "not a FIFO"),
             (file / "below", "Not a directory"), ("/dev/null", "not a FIFO")]
    rows = Rows()
    for mode, (path, why) in itertools.product(MODES, table):
        with rows(f"{mode}: {path}"):
            result = h.run(line(mode, "--heartbeat", path, "--", "echo", "started"))
            equal((result.returncode, result.stdout, result.stderr), (FAILED, "", f"tactus-init: heartbeat {path}: {why}\n"))
    rows.close()


@bound(30)
def test_what_is_written_into_the_heartbeat_means_nothing():
    beat = Heartbeat()
    with Container("below", "--heartbeat", beat.path, *SHORT, "--", *python(TELL + "tell()")) as c:
        c.ready()
        os.write(beat.fd, b"x" * 60_000)
        c.signal(signal.SIGUSR1)
        equal(c.line(), "SIGUSR1")
        os.write(beat.fd, b"x" * 60_000)
        beat.end()
        equal(c.end(), (HEARTBEAT, "SIGTERM\n", GONE))


@bound(30)
def test_command_ends_before_the_heartbeat():
    for mode in MODES:
        beat = Heartbeat()
        result = h.run(line(mode, "--heartbeat", beat.path, "--ttl", str(LONG), "--", "sh", "-c", "exit 3"))
        equal((result.returncode, result.stderr), (3, ""), mode)
        beat.end()


# ---- time-to-live ---------------------------------------------------------------------------------------------

OVER = "tactus-init: the time-to-live is over\n"


@bound(30)
def test_time_to_live():
    rows = Rows()
    table = [("ends by TERM", f"exec sleep {LONG}", SHORT, ""),
             ("ends well", f"exec 2>&-; trap 'echo well; exit 0' TERM; {WAIT}", [], "well\n"),
             ("ignores TERM", f"exec 2>&-; trap '' TERM; {WAIT}", SHORT, ""),
             ("no grace", f"exec 2>&-; trap '' TERM; {WAIT}", ["--grace", "0"], "")]
    for mode, (name, script, more, says) in itertools.product(MODES, table):
        with rows(f"{mode}: {name}"):
            result = h.run(line(mode, "--ttl", "0.5", *more, "--", "sh", "-c", script))
            equal((result.returncode, result.stdout, result.stderr), (TTL, says, OVER))
    rows.close()


@bound(30)
def test_time_to_live_against_a_flood():
    """Orphans without end, signals without end: the time comes all the same, and all of it ends."""
    flood = """
import os, signal
for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for n in range(2):
    if os.fork() == 0: break
while True:
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
    if os.getppid(): os.kill(%s, signal.SIGHUP)
"""
    for mode, init in (("PID 1", "1"), ("below", "os.getppid()")):
        result = h.run(line(mode, "--ttl", "0.5", *SHORT, "--", *python(flood % init)))
        equal((result.returncode, result.stdout), (TTL, ""), mode)


@bound(30)
def test_nobody_reads_stderr():
    """A container that fills stderr, which nobody takes, ends all the same."""
    for mode in MODES:
        beat = Heartbeat()
        with Container(mode, "--heartbeat", beat.path, *SHORT, "--", "sh", "-c",
                       "echo ready; yes >&2 & trap '' TERM; while :; do sleep 0.05; done") as c:
            c.ready()
            time.sleep(0.1)  # the pipe is full
            beat.end()
            equal(c.process.wait(20 * h.PATIENCE), HEARTBEAT, mode)


@bound(30)
def test_nobody_has_stderr():
    read_end, write_end = os.pipe()
    os.close(read_end)
    for mode in MODES:
        result = h.spawn(line(mode, "--", "no-such-command"), stderr=write_end, stdout=subprocess.DEVNULL)
        equal(result.wait(20 * h.PATIENCE), NOT_FOUND, mode)
    os.close(write_end)


# ---- surroundings ---------------------------------------------------------------------------------------------


@bound(30)
def test_waiting_costs_nothing():
    beat = Heartbeat()
    with Container("below", "--heartbeat", beat.path, "--ttl", "3600", "--", *python(TELL + "tell()")) as c:
        c.ready()
        os.write(beat.fd, b"x")
        c.signal(signal.SIGUSR1)
        equal(c.line(), "SIGUSR1")
        status = pathlib.Path(f"/proc/{c.process.pid}/status")

        def switches() -> list[str]:
            return [text for text in status.read_text().split("\n") if "ctxt_switches" in text]

        def is_asleep() -> bool:
            before = switches()
            time.sleep(0.05)
            return switches() == before

        h.wait_until(is_asleep, "tactus-init to wait", 5)
        before = switches()
        time.sleep(0.3)
        equal(switches(), before, "switches while there is nothing to do")
        c.signal(signal.SIGTERM)
        equal(c.end()[0], 9)


@bound(30)
def test_bare_surroundings():
    """A read-only root with nothing in it but the program: no /proc, no /dev, another user, no capabilities."""
    need_namespaces()
    root = h.TEMPORARY / "root"
    root.mkdir()
    script = """
mount -t tmpfs -o mode=755 none "$1" && cp "$2" "$1/tactus-init" && mount -o remount,bind,ro "$1" || exit 99
root=$1
shift 2
exec chroot $USER_OPTIONS "$root" "$@"
"""
    user = "--userspec=12345:12345 --groups=" if os.geteuid() == 0 else ""
    own = "/tactus-init"
    rows = Rows()
    for args, code, out, err in (
        ([own, "--", own, "--version"], 0, "tactus-init", ""),
        ([own, "--ttl", "50", "--", own, "--ttl", "40", "--", own, "--version"], 0, "tactus-init", ""),
        ([own, "--", own, "--", "/missing"], NOT_FOUND, "", "tactus-init: /missing: No such file or directory\n"),
        ([own, "--", own], USAGE, "", "tactus-init: tactus-init: no command; see tactus-init --help\n"),
    ):
        with rows(" ".join(args)):
            result = h.run([*NAMESPACE, "--mount", "sh", "-c", script, "sh", root, INIT, *args],
                           env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "USER_OPTIONS": user})
            equal((result.returncode, result.stdout[:len(out)], result.stderr), (code, out, err))
    rows.close()


@bound(30)
def test_without_proc():
    """Below another init and without /proc the command's group is what can be reached; with the /proc of another
    namespace too, where its numbers would be those of strangers."""
    need_namespaces()
    other = [a for a in NAMESPACE if a != "--mount-proc"]
    script = f"trap 'echo TERM' TERM; sleep {LONG} & exec 2>&-; {WAIT}"
    # Not as process 2: elsewhere that may be the parent of many.
    run = """ exec "$0" -- sh -c '"$0" --ttl 0.3 --grace 0.3 -- sh -c "$1"; exit $?' "$0" "$1" """
    for name, argv, prepare in (("empty /proc", NAMESPACE, "mount -t tmpfs none /proc && "), ("another's /proc", other, "")):
        result = h.run([*argv, "--mount", "sh", "-c", prepare + run, INIT, script])
        equal((result.returncode, result.stdout, result.stderr), (TTL, "TERM\n", OVER), name)


@bound(30)
def test_other_users():
    """A command that runs as another user than tactus-init, and both without capabilities."""
    if os.geteuid() != 0:
        raise h.Skip("not root")
    need_namespaces()
    h.TEMPORARY.chmod(0o755)
    program = h.TEMPORARY / "tactus-init"
    program.write_bytes(INIT.read_bytes())
    program.chmod(0o755)
    bare = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--no-new-privs",
            "--bounding-set", "-all", "--inh-caps", "-all"]
    script = f"exec 2>&-; trap '' TERM; setsid sleep {LONG} & {WAIT}"
    rows = Rows()
    for name, argv in (("as that user", [*bare, program]), ("below", [*bare, program, "--", program])):
        with rows(name):
            result = h.run([*NAMESPACE, *argv, "--ttl", "0.5", *SHORT, "--", "sh", "-c", script])
            equal((result.returncode, result.stdout, result.stderr), (TTL, "", OVER))
    with rows("root above it"):
        result = h.run([*NAMESPACE, INIT, "--ttl", "0.5", *SHORT, "--", *bare, "sh", "-c", script])
        equal((result.returncode, result.stdout, result.stderr), (TTL, "", OVER))
    rows.close()
