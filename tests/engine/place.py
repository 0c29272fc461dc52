"""Where a test runs tactus-runner: a broker with an admin socket, a procedure's directory, one engine."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess

import bed
import harness
from harness import Failure, equal, spawn, wait_until


class Unix(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Place:
    """A broker with an admin socket, a procedure's directory, and runs of it on one engine.

    The broker is one for a try (--dev), or with `providers` one that is configured with them."""

    def __init__(self, engine: str, script: str = "", image: str = bed.BUSYBOX, providers: tuple = (), **more):
        self.engine = harness.BED.engine(engine)
        self.image = image
        self.directory = harness.TEMPORARY / f"place-{next(harness.NUMBERS)}"
        self.procedure = self.directory / "proc"
        self.procedure.mkdir(parents=True)
        self.file = self.procedure / "job.tac"
        self.file.write_text("-- a procedure\n")
        if script:
            self.script(script)
        self.tmp = self.directory / "tmp"
        self.tmp.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "TMPDIR": str(self.tmp),
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
        self.providers, self.more = providers, more

    def __enter__(self) -> "Place":
        self.stack = contextlib.ExitStack()
        if self.providers:
            config = harness.configuration(*self.providers, admin={"listen": [f"unix://{self.directory}/admin.sock"]})
            broker = harness.Broker(config, endpoints=2, **self.more)
        else:
            broker = harness.Broker(args=("--dev",), endpoints=6, **self.more)
        self.broker = self.stack.enter_context(broker)
        admin = next(line for line in self.broker.endpoints if line.startswith("http+unix"))
        self.admin = admin.removeprefix("http+unix://")
        self.env["TACTUS_BROKER_ADMIN"] = admin
        return self

    def __exit__(self, *exception) -> None:
        self.stack.__exit__(*exception)

    def script(self, text: str) -> None:
        """What the container runs from now on."""
        (self.procedure / "run.sh").write_text(text)

    # -- runs --
    def argv(self, *args: str, json_only: bool = True) -> list:
        return [harness.BUILD / "tactus-runner", "run", "--engine", self.engine.address, "--image", self.image,
                *(["--json"] if json_only else []), *args, self.file]

    def run(self, *args: str, seconds: float = 60, env: dict | None = None, **more) -> "Result":
        done = harness.run(self.argv(*args, **more), seconds, env={**self.env, **(env or {})})
        return Result(done)

    def start(self, *args: str) -> subprocess.Popen:
        return spawn(self.argv(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)

    # -- what is there --
    def containers(self) -> list[dict]:
        """Of runs whose runner was started with our TMPDIR: their mounts lie in it."""
        return [c for c in self.engine.containers() if any(m.get("Source", "").startswith(str(self.directory))
                                                           for m in c.get("Mounts") or [])]

    def running(self) -> list[dict]:
        return [c for c in self.containers() if c["State"] == "running"]

    def wait_running(self, count: int = 1) -> list[dict]:
        return wait_until(lambda: len(r := self.running()) == count and r, f"{count} running", 20)

    def grants(self) -> list:
        connection = Unix(self.admin)
        connection.request("GET", "/v1/grants")
        answer = connection.getresponse()
        return [g for g in json.loads(answer.read()) if g["run"] is not None]

    def mounts(self) -> list[str]:
        return [line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if str(self.directory) in line]

    def left(self) -> list:
        return [*self.containers(), *self.grants(), *self.tmp.iterdir(), *self.mounts()]

    def nothing_left(self, seconds: float = 15) -> None:
        wait_until(lambda: not self.left(), f"nothing to be left (there is {self.left()})", seconds)


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        try:
            self.document = json.loads(self.out.strip().split("\n")[-1])
        except ValueError:
            raise Failure(f"no result document: {self.out[-400:]!r}, stderr {self.err[-600:]!r}")

    def __getitem__(self, key: str):
        return self.document.get(key)

    @staticmethod
    def of(process: subprocess.Popen, seconds: float = 60) -> "Result":
        """Of a run that was started, when it has ended."""
        out, err = process.communicate(timeout=seconds * harness.PATIENCE)
        return Result(subprocess.CompletedProcess(process.args, process.returncode, out.decode(errors="replace"),
                                                  err.decode(errors="replace")))

    def is_(self, code: int, status: str, error_type=None, error: str | None = None) -> "Result":
        got = (self.code, self["exit_code"], self["status"], self["error_type"])
        equal(got, (code, code, status, error_type), f"stderr {self.err[-500:]!r}, document {self.document}")
        if error is not None:
            equal(self["error"], error)
        return self


def each_engine(function):
    """The test once an engine."""
    def test():
        for engine in bed.ENGINES:
            function(engine)
    test.seconds, test.alone = getattr(function, "seconds", 120), getattr(function, "alone", False)
    test.__name__ = function.__name__
    return test


def peak(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
