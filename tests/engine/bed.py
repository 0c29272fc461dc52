"""Two real container engines for the tests: Debian's dockerd and podman's service, each with directories of its own,
and the images that the tests run. Started once a run (tests/e2e/run.py --kind engine), ended with it.

The whole run, tests too, lives in namespaces of its own for mounts, processes and the network, so that no other engine of
the machine is disturbed, and the kernel ends, unmounts and forgets all of it, however the run ends. No test can reach
any host.

TACTUS_ENGINES="docker podman" chooses; what is chosen and cannot start is a failure, not a skip.

    bed.py        a shell beside the engines, which end with it
"""
import contextlib
import ctypes
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
import tempfile
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

ENGINES = os.environ.get("TACTUS_ENGINES", "docker podman").split()
PYTHON = "/usr/bin/python3"
BUSYBOX = "tactus-test/busybox:latest"
CLIENT = "tactus-test/client:latest"  # Python and client.py
HERE = pathlib.Path(__file__).resolve().parent
SUBNET = "10.215.7.1/24"
# What engines keep outside the directories that they are given.
SHARED_PLACES = ("/run/netns", "/run/libpod", "/run/containers", "/var/lib/cni", "/dev/shm")
LIBC = ctypes.CDLL(None, use_errno=True)
NAMESPACES = 0x00020000 | 0x20000000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET
PR_SET_PDEATHSIG = 1
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


# ---- a place of their own -----------------------------------------------------------------------------------


def missing() -> str:
    """What this place lacks for any container engine; "" when it may work."""
    try:
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        mounts = []  # not even /proc
    if "TACTUS_ENGINES" in os.environ:  # somebody means it
        return ""
    if os.geteuid() != 0:
        return "container engines need root"
    if not any(kind in ("cgroup", "cgroup2") and os.path.isdir(point) for _, point, kind, *_ in mounts):
        return "no cgroups are mounted here"
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"no namespaces can be made here: {done.stderr.strip()}"


def attend(child: int) -> None:
    """Waits for `child`, hands on what asks us to end, and ends as it did. Buries orphans meanwhile."""
    def hand_on(*_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hand_on)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def go_on_in_child() -> None:
    """This process becomes its child's attendant; the child dies when it does."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        attend(child)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enclose() -> None:
    """Goes on in the new namespaces; the calling process only waits for that. Raises OSError."""
    if missing():
        return
    go_on_in_child()
    os.setsid()  # a terminal's interrupt is for the one outside, which hands it on once
    if LIBC.unshare(NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), f"no namespaces of its own: {os.strerror(ctypes.get_errno())}")
    go_on_in_child()  # the first process there, whose end is everybody's
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    for place in SHARED_PLACES:
        os.makedirs(place, exist_ok=True)
        mount_memory(place)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    go_on_in_child()


def mount_memory(place: pathlib.Path | str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777" if place == "/dev/shm" else "mode=755", "tmpfs", place], check=True)


# ---- the engines --------------------------------------------------------------------------------------------


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
        if not ENGINES or set(ENGINES) - {"docker", "podman"}:
            sys.exit(f"TACTUS_ENGINES={' '.join(ENGINES)}: expected docker, podman or both")
        # Layers in memory: also where the temporary directory is of a kind that cannot carry them.
        mount_memory(self.directory)
        self.storage = self.storage_driver()
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

    def engine(self, name: str) -> Engine:
        """For a test: the running engine, or why there is none."""
        if self.missing:
            raise harness.Skip(self.missing)
        if name not in ENGINES:
            raise harness.Skip(f"TACTUS_ENGINES={' '.join(ENGINES)} leaves {name} out")
        if name in self.faults:
            raise harness.Failure(f"engine {name} does not start: {self.faults[name]}")
        return self.engines[name]

    def storage_driver(self) -> str:
        """overlay2, or vfs where the kernel has no overlays."""
        probe = self.directory / "probe"
        for name in ("lower", "upper", "work", "merged"):
            (probe / name).mkdir(parents=True)
        done = subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work",
                               "overlay", probe / "merged"], capture_output=True)
        if done.returncode == 0:
            subprocess.run(["umount", probe / "merged"], check=True)
        shutil.rmtree(probe)
        return "overlay2" if done.returncode == 0 else "vfs"

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
        certs = harness.certificates("engine-certs")
        for name, source in (("ca.pem", "ca.pem"), ("cert.pem", "client.pem"), ("key.pem", "client.key")):
            shutil.copy(certs / source, home / name)  # as DOCKER_CERT_PATH has them
        self.docker_home, self.docker_tcp = home, "tcp://127.0.0.1:2376"
        self.run("docker", ["dockerd", "-H", f"unix://{home}/docker.sock", "-H", self.docker_tcp, "--tlsverify",
                            "--tlscacert", certs / "ca.pem", "--tlscert", certs / "server.pem", "--tlskey", certs / "server.key",
                            "--data-root", home / "data", "--exec-root", home / "exec", "--pidfile", home / "pid",
                            f"--storage-driver={self.storage}", "--bip", SUBNET], home / "docker.sock")

    def start_podman(self, home: pathlib.Path) -> None:
        home.mkdir()
        conf = home / "containers.conf"
        conf.write_text('[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'
                        '[engine]\nruntime="runc"\n'
                        f'[network]\nnetwork_config_dir="{home}/networks"\n')
        self.run("podman", ["podman", "--root", home / "root", "--runroot", home / "run", "--cgroup-manager", "cgroupfs",
                            "--storage-driver", self.storage.rstrip("2"),
                            "system", "service", "--time=0", f"unix://{home}/podman.sock"], home / "podman.sock",
                 {"CONTAINERS_CONF": str(conf)})

    def stop(self) -> None:
        """Containers first, so that nothing of them stays in the machine's cgroups."""
        for engine in self.engines.values():
            with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException, ValueError):
                for c in engine.containers():
                    engine.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.unmount()

    def unmount(self) -> None:
        """Our directory, so that it can be removed, and what an engine left mounted below, deepest first."""
        points = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for point in sorted(points, key=len, reverse=True):
            if point.startswith(str(self.directory)):
                subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)


def by_hand() -> int:
    enclose()
    with tempfile.TemporaryDirectory(prefix="tactus-engines-") as directory:
        harness.SHARED = pathlib.Path(directory)
        bed = Bed(harness.SHARED)
        try:
            bed.start()
            addresses = {name: engine.address for name, engine in bed.engines.items()}
            print(addresses, flush=True)
            more = {"DOCKER_HOST": addresses.get("docker", ""), "CONTAINER_HOST": addresses.get("podman", "")}
            return subprocess.run([os.environ.get("SHELL", "/bin/sh")], env={**os.environ, **more}).returncode
        finally:
            bed.stop()


if __name__ == "__main__":
    sys.exit(by_hand())
