"""An engine that fails in the middle: a proxy before the real one refuses, cuts or holds one of its calls."""
import contextlib
import json
import pathlib
import re
import signal
import socket
import threading

import harness
from harness import Rows, bound, check, equal, wait_until
from place import Place, Result, each_engine


class Proxy:
    """On a Unix socket. `rule` is a pattern of "METHOD /path"; what it matches is treated as `how` says:
    "cut" closes the connection, "cut later" closes it after the answer's first bytes, "hold" never answers, "fail" answers
    500. All else passes."""

    def __init__(self, path: pathlib.Path, target: str, rule: str, how: str):
        self.path, self.target, self.rule, self.how = path, target, re.compile(rule), how
        self.seen: list[str] = []  # what matched
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> "Proxy":
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.vanish()

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def vanish(self) -> None:
        """As if the engine were gone."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self.listener.close()
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    # -- inside --
    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """A connection's requests; each is judged by its first line, which comes in one piece."""
        engine, cut = None, threading.Event()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                line = data.split(b"\r\n")[0].decode(errors="replace")
                matched = re.match(r"[A-Z]+ /", line) and self.rule.search(line)
                if matched:
                    self.seen.append(line)
                if matched and self.how == "fail":
                    body = b'{"message":"out of order"}'
                    client.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: "
                                   b"%d\r\n\r\n" % len(body) + body)
                elif matched and self.how == "cut":
                    break
                elif not matched or self.how == "cut later":
                    if matched:
                        cut.set()
                    if engine is None:
                        engine = socket.socket(socket.AF_UNIX)
                        self.sockets.append(engine)
                        engine.connect(self.target)
                        threading.Thread(target=self._back, args=(engine, client, cut), daemon=True).start()
                    engine.sendall(data)
        self._end(engine, client)

    def _back(self, engine: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := engine.recv(65536):
                if cut.is_set():
                    client.sendall(data[:20])
                    break
                client.sendall(data)
        self._end(engine, client)

    @staticmethod
    def _end(*sockets) -> None:
        for s in sockets:
            with contextlib.suppress(OSError, AttributeError):
                s.shutdown(socket.SHUT_RDWR)


# A call, and whether a run that could not make it knows of nothing to remove
CALLS = {"image": r"GET .*/images/", "create": r"POST .*/containers/create", "attach": r"POST .*/attach", "wait": r"POST .*/wait",
         "start": r"POST .*/start"}


def through(p: Place, name: str, how: str) -> Proxy:
    proxy = Proxy(p.directory / f"{name.replace(' ', '-')}-{how.replace(' ', '-')}.sock", p.engine.path, CALLS[name], how)
    return proxy


@each_engine
@bound(120)
def test_a_call_fails(engine):
    """Its failure is the run's: said, with code 69, and nothing is left."""
    rows = Rows()
    with Place(engine, "exit 0") as p:
        for name in CALLS:
            for how in ("fail", "cut", "cut later"):
                with rows(f"{name} {how}"), through(p, name, how) as proxy:
                    r = p.run("--engine", proxy.address, "--transport", "unix", seconds=30)
                    check(proxy.seen, "it was not called")
                    equal((r.code, r["exit_code"], r["status"], r["result"]), (69, 69, "error", None), f"{r.document}")
                    if how == "fail":
                        check("out of order" in r["error"], r["error"])
                    p.nothing_left()
    rows.close()


@each_engine
@bound(120)
def test_a_call_hangs(engine):
    """What waits for it can be ended, and nothing is left."""
    rows = Rows()
    with Place(engine, "exit 0") as p:
        for name in CALLS:
            with rows(name), through(p, name, "hold") as proxy:
                process = p.start("--engine", proxy.address, "--transport", "unix")
                wait_until(lambda: proxy.seen, "its call", 20)
                process.send_signal(signal.SIGTERM)
                Result.of(process, 30).is_(143, "cancelled", "Cancelled")
                p.nothing_left()
    rows.close()


@each_engine
@bound(60)
def test_the_engine_vanishes(engine):
    """In the middle of a run: its outcome is unknown, so it is no success; the next one's start takes away what stayed."""
    with Place(engine, "sleep 60") as p:
        with Proxy(p.directory / "proxy.sock", p.engine.path, "^$", "cut") as proxy:
            process = p.start("--engine", proxy.address, "--transport", "unix")
            p.wait_running()
            proxy.vanish()
            r = Result.of(process, 60)
            equal((r.code, r["exit_code"], r["status"], r["result"]), (69, 69, "error", None), f"{r.document}")
        wait_until(lambda: not p.running(), "the container to end by its heartbeat", 20)
        wait_until(lambda: not p.grants() and not list(p.tmp.iterdir()), "grant and directories to be gone", 15)
        gone = harness.run([harness.BUILD / "tactus-runner", "gc", "--json", "--engine", p.engine.address], env=p.env)
        equal(gone.returncode, 0, gone.stderr)
        check("containers" in json.loads(gone.stdout), gone.stdout)
        p.nothing_left()
