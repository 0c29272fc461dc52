"""The broker under a service manager: what it is told and when, its watchdog, sockets that it passes."""
import contextlib
import os
import re
import signal
import socket
import sys
import time

import harness as h
from harness import EX_CONFIG, Broker, bound, check, configuration, equal

# Gives descriptors from 3 on to the program, as a manager does: with the process id of who reads it.
GIVE = """
import os, sys
fds, argv = [int(n) for n in sys.argv[1].split(",")], sys.argv[2:]
kept = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
for i, fd in enumerate(kept):
    os.dup2(fd, 3 + i)
os.closerange(3 + len(kept), 200)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(kept)))
os.execv(argv[0], argv)
"""


class Manager:
    """Hears what a service says."""

    def __init__(self):
        self.path = str(h.TEMPORARY / "notify.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.env = {"NOTIFY_SOCKET": self.path}

    def next(self, what: str, seconds: float = 10) -> dict[str, str]:
        self.socket.settimeout(seconds * h.PATIENCE)
        try:
            text = self.socket.recv(4096).decode()
        except TimeoutError:
            raise h.Failure(f"not told of {what}")
        return dict(line.split("=", 1) for line in text.split("\n"))

    def wait_for(self, key: str) -> dict[str, str]:
        """The next message with `key`; what people read and pings are passed over."""
        while True:
            told = self.next(key)
            if key in told:
                return told
            check(set(told) <= {"STATUS", "WATCHDOG"}, f"told {told}, {key} was expected")

    def silent(self) -> None:
        """Of a service that has ended: nothing was told since."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raise h.Failure(f"told {self.socket.recv(4096)!r}")


class Passed(Broker):
    """A broker that is given listening sockets."""

    def __init__(self, config, sockets: list, **more):
        super().__init__(config, **more)
        numbers = [s.fileno() for s in sockets]
        self.given = numbers
        self.argv = [sys.executable, "-S", "-E", "-c", GIVE, ",".join(map(str, numbers)), *self.argv]

    def __enter__(self):
        for fd in self.given:
            os.set_inheritable(fd, True)
        original = h.spawn

        def spawn(argv, **more):
            return original(argv, pass_fds=self.given, **more)
        h.spawn = spawn
        try:
            return super().__enter__()
        finally:
            h.spawn = original


def listening(address) -> socket.socket:
    s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    s.bind(address)
    s.listen(64)
    return s


@bound(30)
def test_told_of_start_and_end():
    manager = Manager()
    with Broker(configuration(), env=manager.env) as broker:
        equal(manager.wait_for("READY"), {"READY": "1"})
        equal(broker.client().request("broker.info")[-1]["event"], "done")  # ready means: it answers
        broker.signal(signal.SIGTERM)
        told = manager.wait_for("STOPPING")
        equal(told["STOPPING"], "1")
        check(int(told["EXTEND_TIMEOUT_USEC"]) >= 2_000_000, f"drain_timeout is 2 s: {told}")
        equal(broker.wait(), 0)


@bound(30)
def test_watchdog_is_fed():
    manager = Manager()
    with Broker(configuration(), env={**manager.env, "WATCHDOG_USEC": "200000"}):
        manager.wait_for("READY")
        for _ in range(3):
            manager.wait_for("WATCHDOG")


@bound(30)
def test_reload_is_told():
    manager = Manager()
    with Broker(configuration(), env=manager.env) as broker:
        manager.wait_for("READY")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        broker.signal(signal.SIGHUP)
        told = manager.wait_for("RELOADING")
        equal(told["RELOADING"], "1")
        check(before <= int(told["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000, str(told))
        equal(manager.wait_for("READY"), {"READY": "1"})


@bound(30)
def test_no_reload_is_told_while_stopping():
    """READY after STOPPING would take the end back; and nothing is read any more."""
    manager = Manager()
    with Broker(configuration(), env=manager.env) as broker, broker.client() as c:
        manager.wait_for("READY")
        c.chat("builtin/slow-100", content="a b c d e f g h")
        events = [c.event()]
        broker.signal(signal.SIGTERM)
        manager.wait_for("STOPPING")
        broker.file.unlink()  # a reload would fail
        broker.signal(signal.SIGHUP)
        h.wait_until(lambda: "no reload: the broker is shutting down" in broker.stderr(), "a line of the log")
        equal(h.done(events + c.until_terminal())["text"], "a b c d e f g h")
        equal(broker.wait(), 0)
        check("reload failed" not in broker.stderr(), broker.stderr())
        manager.silent()


@bound(60)
def test_passed_sockets_serve():
    for workers in (1, 3):
        config = configuration(transports=("unix", "tcp"), broker={"workers": workers})
        path = config["listeners"][0]["url"].removeprefix("unix://")
        tcp = listening(("127.0.0.1", 0))
        config["listeners"][1]["url"] = "tcp://127.0.0.1:%d" % tcp.getsockname()[1]
        with contextlib.closing(tcp), contextlib.closing(listening(path)) as unix:
            waiting = h.Client(path)  # before anybody accepts
            with Passed(config, [tcp, unix]) as broker:
                for client in (waiting, *(broker.client(t) for t in ("unix", "tcp") for _ in range(2 * workers))):
                    equal(client.request("broker.info")[-1]["event"], "done")
                    client.close()
            check(os.path.exists(path), "the socket file is the manager's, and was removed")
            h.Client(path).close()  # the manager's socket is still open: nobody is refused
        os.unlink(path)


@bound(30)
def test_leftover_stops_the_start():
    config = configuration()
    with contextlib.closing(listening(("127.0.0.1", 0))) as tcp:
        broker = Passed(config, [tcp])
        try:
            broker.__enter__()
        except h.Failure:
            pass
        equal(broker.process.returncode, EX_CONFIG)
        check(re.search(rf"tcp://127\.0\.0\.1:{tcp.getsockname()[1]}\b", broker.stderr()), broker.stderr())
