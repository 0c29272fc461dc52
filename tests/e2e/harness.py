"""What the end-to-end tests share: the broker as a process, clients of it in every transport and framing.

A configuration is written as a dict (JSON is YAML) or as YAML text. Everything lives in TEMPORARY, one directory
a test; every process that is started is noted there, so that run.py can end what a test could not.
"""
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from typing import Any, Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TACTUS_BUILD", ROOT / "build" / "debug")).resolve()
WORKERS = int(os.environ.get("TACTUS_E2E_WORKERS", "1"))
FULL = os.environ.get("TACTUS_E2E_FULL") == "1"
TEMPORARY = pathlib.Path(tempfile.gettempdir())  # of the test that runs; set by run.py
SHARED = TEMPORARY  # of this run: certificates
BED: Any = None  # what the kind's bed.py started; set by run.py
TRANSPORTS = ("unix", "tcp", "tls")
FRAMINGS = ("ndjson", "framed")
TERMINAL = ("done", "error", "response", "timeout")
NUMBERS = itertools.count()  # names of files and sockets
EX_USAGE, EX_DATAERR, EX_UNAVAILABLE, EX_CONFIG = 64, 65, 69, 78


class Failure(AssertionError):
    """What a test found."""


class Skip(Exception):
    """Something that the test needs is missing on this machine."""


def is_sanitized() -> bool:
    try:
        data = (BUILD / "tactus-broker").read_bytes()
    except OSError:
        return False
    return b"__asan_init" in data or b"__tsan_init" in data


SANITIZED = is_sanitized()  # memory then tells nothing, and all takes longer
PATIENCE = 4 if SANITIZED else 1


def bound(seconds: float, alone: bool = False) -> Callable:
    """The time bound of a test, and whether it must run by itself."""
    def mark(function):
        function.seconds, function.alone = seconds, alone
        return function
    return mark


def check(condition: Any, message: str) -> None:
    if not condition:
        raise Failure(message)


def equal(got: Any, want: Any, what: str = "") -> None:
    if got != want:
        raise Failure(f"{what + ': ' if what else ''}wanted {short(want)}, got {short(got)}")


def short(value: Any, size: int = 400) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= size else text[:size] + f"… ({len(text)} characters)"


class Rows:
    """The rows of a table, all of them judged: `with rows("name"): …` notes a failure and goes on."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.count = 0

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.count += 1
        try:
            yield
        except Failure as e:
            if "ran out of time" in str(e):
                raise
            self.failures.append(f"[{name}] {e}")
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as e:
            self.failures.append(f"[{name}] {type(e).__name__}: {e}")

    def close(self) -> None:
        check(self.count, "the table was empty")
        if self.failures:
            raise Failure(f"{len(self.failures)} of {self.count} rows: " + " ".join(self.failures))


# ---- processes ----------------------------------------------------------------------------------------------


def open_files(pid: int) -> set[str]:
    """What its descriptors are of, like socket:[4711]; one that is closed meanwhile is left out."""
    names = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


def start_time(pid: int) -> str:
    """Distinguishes a process from a later one with the same pid; "" when there is none or it is a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def note_process(pid: int) -> None:
    with open(TEMPORARY / "pids", "a") as f:
        f.write(f"{pid} {start_time(pid)}\n")


def end_leftovers(directory: pathlib.Path) -> int:
    """Kills what is noted in a test's directory and still runs; how many these were."""
    try:
        lines = (directory / "pids").read_text().split("\n")
    except OSError:
        return 0
    count = 0
    for line in filter(None, lines):
        pid, started = line.split(" ")
        if started and start_time(int(pid)) == started:
            os.kill(int(pid), signal.SIGKILL)
            count += 1
    return count


def spawn(argv: list, **more) -> subprocess.Popen:
    process = subprocess.Popen([str(a) for a in argv], stdin=more.pop("stdin", subprocess.DEVNULL), **more)
    note_process(process.pid)
    return process


def run(argv: list, seconds: float = 20, **more) -> subprocess.CompletedProcess:
    """A program that ends by itself; text out."""
    process = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    try:
        out, err = process.communicate(timeout=seconds * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failure(f"{pathlib.Path(str(argv[0])).name} did not end within {seconds} s")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return subprocess.CompletedProcess(argv, process.returncode, out.decode(errors="replace"),
                                       err.decode(errors="replace"))


def wait_until(ready: Callable[[], Any], what: str, seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s for {what}")
        time.sleep(0.01)


# ---- certificates -------------------------------------------------------------------------------------------


def certificates(name: str = "certs") -> pathlib.Path:
    """A directory with ca.pem, server.pem, server.key, client.pem, client.key; one CA a name, made once a run."""
    directory = SHARED / name
    with open(SHARED / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "client.key").exists():
            done = run(["sh", ROOT / "certs" / "make-certs.sh", "--out", directory], 60)
            check(done.returncode == 0, f"make-certs.sh: {done.stderr or done.stdout}")
    return directory


# ---- configuration ------------------------------------------------------------------------------------------


def openai(fake, name: str = "openai", **more) -> dict:
    """A provider entry for a fake provider. Its key is "OPENAI_API_KEY" of the environment unless `keys` says."""
    return {"name": name, "type": "openai", "base_url": fake.url, "keys": [{"env": "OPENAI_API_KEY"}], **more}


def configuration(*providers: dict, transports: tuple = ("unix",), grant: dict | None = None,
                  listener: dict | None = None, **sections) -> dict:
    """A complete configuration: the built-in provider, one listener a transport, one grant; no call is tried again."""
    listeners = []
    for transport in transports:
        entry: dict = {"auth": "none", "grant": "all", **(listener or {})}
        if transport == "unix":
            entry["url"] = f"unix://{TEMPORARY}/broker-{next(NUMBERS)}.sock"
        else:
            entry["url"] = f"{transport}://127.0.0.1:0"
        if transport == "tls":
            certs = certificates()
            entry = {"cert": str(certs / "server.pem"), "key": str(certs / "server.key"), **entry}
        listeners.append(entry)
    return {
        "broker": {"workers": WORKERS, "drain_timeout": 2, **sections.pop("broker", {})},
        "listeners": listeners,
        "providers": [{"name": "builtin", "type": "builtin"}, *providers],
        "routing": {"retries": 0, **sections.pop("routing", {})},
        "grants": [{"name": "all", "models": ["*"], "tools": ["*"], **(grant or {})}],
        **sections,
    }


# ---- the broker ---------------------------------------------------------------------------------------------

KEY = "sk-canary-QWxhZGRpbjpvcGVu+c2VzYW1l/8472=="  # letters that base64 and URL encoding both change


class Broker:
    """A running broker; leaving the `with` block stops it and judges how it ended."""

    def __init__(self, config: dict | str | None = None, args: tuple = (), env: dict | None = None,
                 endpoints: int | None = None, ca: pathlib.Path | None = None):
        self.directory = TEMPORARY / f"run-{next(NUMBERS)}"
        self.directory.mkdir()
        self.argv: list = [BUILD / "tactus-broker"]
        self.ca = ca
        if config is not None:
            self.file = self.directory / "broker.yml"
            self.file.write_text(config if isinstance(config, str) else json.dumps(config, indent=1))
            self.argv += ["--config", self.file]
        self.argv += list(args)
        self.wanted = endpoints if endpoints is not None else len(config["listeners"])  # type: ignore
        sanitizers = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        self.env = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY, **sanitizers, **(env or {})}
        self.process: subprocess.Popen | None = None
        self.endpoints: list[str] = []

    def __enter__(self) -> "Broker":
        with open(self.directory / "stdout", "wb") as out, open(self.directory / "stderr", "wb") as err:
            self.process = spawn(self.argv, stdout=out, stderr=err, env=self.env)
        try:
            wait_until(self._is_up, f"{self.wanted} endpoints", 10)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        died = self.process.poll()
        try:
            if kind is None and died is None:
                self.stop()
        finally:
            self._end()
        self.judge_log()
        check(kind is None or died is None or died >= 0, f"the broker died of signal {-(died or 0)}: {self.stderr()[-600:]}")

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise Failure(f"the broker ended with {self.process.returncode} at start: {self.stderr()[-600:]}")
        said = self.stdout()  # read once: it grows meanwhile
        self.endpoints = said.splitlines()
        return said.count("\n") >= self.wanted

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def judge_log(self) -> None:
        for sign in ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:"):
            check(sign not in self.stderr(), f"a sanitizer's report: {self.stderr()[-2000:]}")

    def stdout(self) -> str:
        return (self.directory / "stdout").read_text(errors="replace")

    def stderr(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 10) -> int:
        try:
            return self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"the broker did not end within {seconds} s")

    def stop(self, seconds: float = 10) -> None:
        self.signal(signal.SIGTERM)
        equal(self.wait(seconds), 0, "exit code after SIGTERM")

    # -- what it uses --
    def descriptors(self) -> int:
        """How many are open; 0 always where only root may look into a process that is not dumpable."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except PermissionError:
            print("descriptors are not counted: not root")
            return 0

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes: VmRSS, VmHWM (its peak), RssAnon."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().split("\n"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise Failure(f"no {field} in /proc/{self.pid}/status")

    def reset_peak(self) -> None:
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    # -- how to reach it --
    def endpoint(self, transport: str) -> str:
        start = "/" if transport == "unix" else transport + "://"
        for line in self.endpoints:
            if line.startswith(start):
                return line
        raise Failure(f"no {transport} endpoint among {self.endpoints}")

    def client(self, transport: str = "unix", framing: str = "ndjson", **more) -> "Client":
        if transport == "tls" and "ca" not in more and "context" not in more:
            more["ca"] = self.ca or certificates() / "ca.pem"
        return Client(self.endpoint(transport), framing, **more)


# ---- a client -----------------------------------------------------------------------------------------------


def tls_context(ca, cert=None, key=None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if cert:
        context.load_cert_chain(str(cert), str(key))
    return context


def connect(endpoint: str, timeout: float = 15, receive_buffer: int = 0, context: ssl.SSLContext | None = None,
            session: ssl.SSLSession | None = None) -> socket.socket:
    if endpoint.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        address: Any = endpoint
    else:
        scheme, rest = endpoint.split("://")
        host, port = rest.rsplit(":", 1)
        sock, address = socket.socket(socket.AF_INET), (host, int(port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout * PATIENCE)
        sock.connect(address)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=address[0], session=session)
    except BaseException:
        sock.close()
        raise
    return sock


def compact(obj: Any) -> bytes:
    return json.dumps(obj, ensure_ascii=False, separators=(",", ":")).encode()


class Client:
    """One connection in one framing. Keeps every byte that it received in `seen` (when `keep`)."""

    def __init__(self, endpoint: str, framing: str = "ndjson", ca=None, context=None, keep: bool = True, **more):
        if endpoint.startswith("tls://") and context is None:
            context = tls_context(ca)
        self.sock = connect(endpoint, context=context, **more)
        self.framing, self.keep = framing, keep
        self.buffer, self.seen = bytearray(), bytearray()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # -- sending --
    def encode(self, body: bytes) -> bytes:
        return body + b"\n" if self.framing == "ndjson" else b"%010d\n" % len(body) + body

    def send_raw(self, data: bytes, bytewise: bool = False) -> None:
        """What the broker closed before all was sent is judged by what it answered."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            if not bytewise:
                return self.sock.sendall(data)
            for n in range(len(data)):
                self.sock.sendall(data[n:n + 1])

    def send_body(self, body: bytes, bytewise: bool = False) -> None:
        self.send_raw(self.encode(body), bytewise)

    def send(self, method: str, params: Any = None, id: Any = "a", **more) -> None:
        self.send_body(compact({"id": id, "method": method, **({} if params is None else {"params": params}), **more}))

    def chat(self, model: str, id: str = "a", stream: bool = True, content: str = "hi", **more) -> None:
        self.send("llm.chat", {"model": model, "stream": stream,
                               "messages": [{"role": "user", "content": content}], **more}, id)

    # -- receiving --
    def _fill(self) -> None:
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError("the broker closed the connection")
        self.buffer += data
        if self.keep:
            self.seen += data

    def _body(self) -> bytes:
        if self.framing == "ndjson":
            start = 0
            while (end := self.buffer.find(b"\n", start)) < 0:
                start = len(self.buffer)
                self._fill()
            body = bytes(self.buffer[:end])
            del self.buffer[:end + 1]
            return body
        while len(self.buffer) < 11:
            self._fill()
        check(self.buffer[:10].isdigit() and self.buffer[10:11] == b"\n", f"bad prefix {bytes(self.buffer[:11])!r}")
        end = 11 + int(self.buffer[:10])
        while len(self.buffer) < end:
            self._fill()
        body = bytes(self.buffer[11:end])
        del self.buffer[:end]
        return body

    def event_bytes(self) -> bytes:
        return self._body()

    def event(self) -> dict:
        event = json.loads(self._body())
        second = list(event)[1] if len(event) > 1 else ""
        check(list(event)[:2] == ["id", "event"] and len(event) <= 3, f"keys of an event: {list(event)} {second}")
        return event

    def until_terminal(self, id: str = "a") -> list[dict]:
        """All events of one request; those of others are an error here."""
        events = []
        while True:
            event = self.event()
            equal(event["id"], id, f"id of an event ({short(event)})")
            events.append(event)
            if event["event"] in TERMINAL:
                return events

    def gather(self, count: int) -> dict[str, list[dict]]:
        """The events of `count` requests, by id, until each has had its terminal one."""
        events: dict[str, list[dict]] = {}
        while count:
            event = self.event()
            events.setdefault(event["id"], []).append(event)
            count -= event["event"] in TERMINAL
        return events

    def request(self, method: str, params: Any = None, id: str = "a") -> list[dict]:
        self.send(method, params, id)
        return self.until_terminal(id)

    def answer(self, model: str, id: str = "a", **more) -> list[dict]:
        self.chat(model, id, **more)
        return self.until_terminal(id)

    def ping(self, id: str = "ping") -> None:
        equal(self.request("tool.call", {"name": "host.ping", "args": {}}, id),
              [{"id": id, "event": "done", "data": {"result": {"ok": True, "echo": {}}}}], "ping")

    def silent(self, seconds: float = 0.1) -> None:
        """Nothing comes, and the connection stays open."""
        check(not self.buffer, f"more came: {bytes(self.buffer[:300])!r}")
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(1000)
        except (TimeoutError, ssl.SSLWantReadError):
            return
        finally:
            self.sock.settimeout(before)
        raise Failure(f"more came: {data!r}" if data else "the connection was closed and should be open")

    def closed(self) -> None:
        """Nothing more comes, and the broker closes the connection."""
        try:
            data = bytes(self.buffer) or self.sock.recv(1000)
        except (ConnectionResetError, ssl.SSLEOFError):
            return
        except TimeoutError:
            raise Failure("the connection should be closed and is open")
        check(not data, f"more came where the connection should close: {data[:300]!r}")

    # -- going --
    def half_close(self) -> None:
        """A FIN; under TLS without close_notify, and what still comes can be read."""
        socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


# ---- judging ------------------------------------------------------------------------------------------------


def text_of(events: list[dict]) -> str:
    return "".join(e["data"].get("text", "") for e in events if e["event"] == "delta")


def done(events: list[dict]) -> dict:
    """The data of the `done`; its text is that of the deltas when there were any."""
    last = events[-1]
    check(last["event"] == "done", f"not done: {short(last)}")
    deltas = [e for e in events[:-1]]
    check(all(e["event"] == "delta" for e in deltas), f"between: {short(events)}")
    if any("text" in e["data"] for e in deltas):
        equal(last["data"]["text"], text_of(events), "done.text against the deltas")
    check(all(e["data"].get("text") != "" for e in deltas), "an empty text delta")
    return last["data"]


def failure(events: list[dict], kind: str, **fields) -> dict:
    """The error object of the `error`, of that type, with those fields."""
    last = events[-1]
    check(last["event"] == "error", f"wanted {kind}, got {short(last)}")
    error = last["error"]
    equal(list(error)[:2], ["type", "message"], "first keys of an error")
    equal(error["type"], kind, f"type of {short(error)}")
    check(isinstance(error["message"], str) and error["message"], f"no message: {error}")
    for name, value in fields.items():
        equal(error.get(name), value, f"{name} of {short(error)}")
    return error


def error(id: str, kind: str, message: str) -> list[dict]:
    return [{"id": id, "event": "error", "error": {"type": kind, "message": message}}]
