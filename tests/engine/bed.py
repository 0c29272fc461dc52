"""Two real container engines for the tests: Debian's dockerd and podman's service, each with directories of its own,
and the images that the tests run. Started once a run (tests/e2e/run.py --kind engine), ended with it.

TACTUS_ENGINES="docker podman" chooses; what is chosen and cannot start is a failure, not a skip.
"""
import contextlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time

import harness

ENGINES = os.environ.get("TACTUS_ENGINES", "docker podman").split()
PYTHON = "/usr/bin/python3"
BUSYBOX = "tactus-test/busybox:latest"
CLIENT = "tactus-test/client:latest"  # Python and client.py
HERE = pathlib.Path(__file__).resolve().parent
SUBNET = "10.215.7.1/24"
APPLETS = ("sh cat echo sleep ls yes head tail printf kill true false id env dd mkdir rm chmod ps grep sed nc tr "
           "stat mount touch cut wc usleep setsid timeout test md5sum sha256sum").split()


class Engine(http.client.HTTPConnection):
    """An engine's API over its Unix socket: one connection a call."""

    def __init__(self, name: str, path: str):
        super().__init__("localhost", timeout=120)
        self.name, self.path, self.address = name, path, f"unix://{path}"

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def call(self, method: str, path: str, body=None, kind: str = "application/json") -> tuple[int, bytes]:
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        try:
            self.request(method, "/v1.41" + path, data, {"Content-Type": kind} if data else {})
            answer = self.getresponse()
            return answer.status, answer.read()
        finally:
            self.close()

    def json(self, method: str, path: str, body=None):
        status, data = self.call(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{self.name}: {method} {path}: {status} {data[:300]!r}")
        return json.loads(data or b"null")

    def containers(self) -> list[dict]:
        return self.json("GET", "/containers/json?all=1")

    def answers(self) -> bool:
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False


# ---- images -------------------------------------------------------------------------------------------------


class Root:
    """A root file system as a tar archive."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w")
        self.names: set[str] = set()
        for name in ("tmp", "workspace", "proc", "sys", "dev", "run", "etc", "app"):
            self.directory(name)
        self.file("etc/passwd", b"root:x:0:0:root:/:/bin/sh\nother:x:1001:1001::/:/bin/sh\n")

    def directory(self, name: str) -> None:
        if name and name not in self.names:
            self.directory(str(pathlib.PurePath(name).parent).strip("."))
            self.names.add(name)
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            self.tar.addfile(info)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        name = name.lstrip("/")
        if name not in self.names:
            self.directory(str(pathlib.PurePath(name).parent).strip("."))
            self.names.add(name)
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            self.tar.addfile(info, io.BytesIO(data))

    def copy(self, path: pathlib.Path | str, name: str = "") -> None:
        path = pathlib.Path(path)
        self.file(name or str(path), path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def link(self, name: str, target: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(info)

    def busybox(self) -> None:
        self.copy(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        for name in APPLETS:
            self.link(f"bin/{name}", "busybox")

    def close(self) -> bytes:
        self.tar.close()
        return self.bytes.getvalue()


def libraries(path: str) -> set[str]:
    out = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return {word for line in out.splitlines() for word in line.split() if word.startswith("/")}


def busybox_image() -> bytes:
    root = Root()
    root.busybox()
    return root.close()


def client_image() -> bytes:
    """Debian's own Python with what the client needs, and the client."""
    root = Root()
    root.busybox()
    program = os.path.realpath(PYTHON)
    library = pathlib.Path("/usr/lib") / pathlib.Path(program).name
    needed = libraries(program)
    root.copy(program)
    root.link("usr/bin/python3", pathlib.Path(program).name)
    for path in sorted(library.rglob("*")):
        if path.is_file() and not {"test", "idlelib", "lib2to3", "__pycache__", "ensurepip", "pydoc_data"} & set(path.parts):
            root.copy(path)
            if path.suffix == ".so":
                needed |= libraries(str(path))
    for path in sorted(needed):
        root.copy(path)
    root.copy(HERE / "client.py", "app/client.py")
    return root.close()


def import_image(engine: Engine, name: str, data: bytes, command: list[str]) -> None:
    repository, tag = name.split(":")
    change = "CMD " + json.dumps(command)
    query = f"fromSrc=-&repo={repository}&tag={tag}&changes={urlquote(change)}"
    status, answer = engine.call("POST", f"/images/create?{query}", data, "application/x-tar")
    if status != 200 or b'"error"' in answer:
        raise RuntimeError(f"{engine.name}: import of {name}: {status} {answer[-300:]!r}")


def urlquote(text: str) -> str:
    return "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in text)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


# ---- the engines --------------------------------------------------------------------------------------------


def missing() -> str:
    """What this place lacks for any container engine; "" when it may work."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    if "TACTUS_ENGINES" in os.environ:  # somebody means it
        return ""
    if os.geteuid() != 0:
        return "container engines need root"
    if not any(kind in ("cgroup", "cgroup2") and os.path.isdir(point) for _, point, kind, *_ in mounts):
        return "no cgroups are mounted here"
    done = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"no namespaces can be made here: {done.stderr.strip()}"


class Bed:
    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.missing = missing()
        self.processes: list[subprocess.Popen] = []
        self.engines: dict[str, Engine] = {}
        self.faults: dict[str, str] = {}

    def start(self) -> None:
        harness.TEMPORARY = self.directory
        if self.missing:
            print(f"NO CONTAINER ENGINE CAN RUN: {self.missing}: every test of this kind is skipped", flush=True)
            return
        for name in ENGINES:
            try:
                getattr(self, f"start_{name}")(self.directory / name)
            except (OSError, RuntimeError) as e:
                self.faults[name] = f"{e}; {self.log_end(name)}"
        for name, fault in self.faults.items():
            print(f"ENGINE {name} DOES NOT START: {fault}", flush=True)
        images = ((BUSYBOX, busybox_image(), ["sh", "/workspace/run.sh"]),
                  (CLIENT, client_image(), ["/usr/bin/python3", "-u", "/app/client.py"]))
        for engine in self.engines.values():
            for name, data, command in images:
                import_image(engine, name, data, command)

    def log_end(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self.directory / f"{name}.log").read_text(errors="replace")[-500:]
        return ""

    def run(self, name: str, argv: list, socket_path: pathlib.Path, env: dict | None = None) -> None:
        with open(self.directory / f"{name}.log", "wb") as log:
            process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                                       env={**os.environ, **(env or {})}, start_new_session=True)
        self.processes.append(process)
        engine = Engine(name, str(socket_path))
        deadline = time.monotonic() + 60
        while not engine.answers():
            if process.poll() is not None:
                raise RuntimeError(f"it ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError("no answer within 60 s")
            time.sleep(0.1)
        self.engines[name] = engine

    def start_docker(self, home: pathlib.Path) -> None:
        home.mkdir()
        bridge = f"tactus{os.getpid() % 100000}"
        # A bridge of its own, so that another daemon of the machine keeps docker0.
        subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
        self.bridge = bridge
        subprocess.run(["ip", "addr", "add", SUBNET, "dev", bridge], check=True)
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        certs = harness.certificates("engine-certs")
        for name, source in (("ca.pem", "ca.pem"), ("cert.pem", "client.pem"), ("key.pem", "client.key")):
            shutil.copy(certs / source, home / name)  # as DOCKER_CERT_PATH has them
        self.docker_home, self.docker_tcp = home, f"tcp://127.0.0.1:{free_port()}"
        self.run("docker", ["dockerd", "-H", self.docker_tcp, "--tlsverify", "--tlscacert", certs / "ca.pem",
                            "--tlscert", certs / "server.pem", "--tlskey", certs / "server.key", "--data-root", home / "data", "--exec-root", home / "exec", "--pidfile",
                            home / "pid", "-H", f"unix://{home}/docker.sock", "--storage-driver=overlay2", "--containerd-namespace", bridge, "--containerd-plugins-namespace",
                            f"{bridge}-plugins",
                            "--bridge", bridge], home / "docker.sock")

    def start_podman(self, home: pathlib.Path) -> None:
        home.mkdir()
        conf = home / "containers.conf"
        conf.write_text('[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'
                        '[engine]\nruntime="runc"\n'
                        f'[network]\nnetwork_config_dir="{home}/networks"\n')
        self.run("podman", ["podman", "--root", home / "root", "--runroot", home / "run", "--cgroup-manager", "cgroupfs",
                            "system", "service", "--time=0", f"unix://{home}/podman.sock"], home / "podman.sock",
                 {"CONTAINERS_CONF": str(conf)})

    def stop(self) -> None:
        for engine in self.engines.values():
            with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException, ValueError):
                for c in engine.containers():
                    engine.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")
                for network in engine.json("GET", "/networks"):
                    if network["Name"] == "tactus":
                        engine.call("DELETE", f"/networks/{network['Id']}")
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if hasattr(self, "bridge"):
            subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL)
        self.unmount()

    def unmount(self) -> None:
        """What an engine left mounted below our directory, deepest first."""
        points = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for point in sorted(points, key=len, reverse=True):
            if point.startswith(str(self.directory)):
                subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)


if __name__ == "__main__":  # by hand: keeps the engines until a key is pressed
    bed = Bed(pathlib.Path(sys.argv[1]))
    try:
        bed.start()
        print({n: e.address for n, e in bed.engines.items()})
        input()
    finally:
        bed.stop()
