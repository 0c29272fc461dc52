"""tactus-runner run in real containers: the four transports, every ending, nothing left, nothing secret inside."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import bed
import harness
from harness import Rows, bound, check, equal, spawn, wait_until
from place import Place, Result, each_engine, peak

KEY = harness.KEY
MARKED = "echo '<<<TACTUS_RESULT_START>>>'; echo '{}'; echo '<<<TACTUS_RESULT_END>>>'"


# ---- the four transports ------------------------------------------------------------------------------------

WORDS = "wörd one  two"


def transports(engine: str) -> None:
    rows = Rows()
    with Place(engine, image=bed.CLIENT) as p:
        for transport, framings in (("stdio", ["ndjson"]), ("unix", ["ndjson", "framed"]), ("tcp", ["ndjson", "framed"]),
                                    ("TLS", ["ndjson", "framed"])):
            with rows(transport):
                events = p.directory / f"events-{transport}"
                # podman with CNI gives an internal network no address on the host.
                network = ["--network", "bridge"] if engine == "podman" and transport in ("tcp", "TLS") else []
                r = p.run("--transport", transport, *network, "--param", f"text={WORDS}", "--param", "n=[1,2.0]",
                          "--events", str(events), "--run-id", f"run-{transport}")
                r.is_(0, "success")
                for framing in framings:
                    equal(r["result"]["work"][framing],
                          {"deltas": 3, "text": WORDS, "done": WORDS, "tool": {"result": {"echo": {"n": 1}}},
                           "event": {"ok": True}}, framing)
                request = r["result"]["request"]
                equal({k: request[k] for k in ("source", "working_dir", "params", "run_id", "format")},
                      {"source": "-- a procedure\n", "working_dir": "/workspace", "params": {"text": WORDS, "n": [1, 2.0]},
                       "run_id": f"run-{transport}", "format": "lua"})
                check("end of the events was not seen" not in r.err, r.err)
                lines = [json.loads(line) for line in events.read_text().splitlines()]
                equal([(e["run"], e["event"]["n"]) for e in lines], [(f"run-{transport}", f) for f in framings])
                p.nothing_left()
    rows.close()


@bound(120)
def test_transports_on_docker():
    transports("docker")


@bound(120)
def test_transports_on_podman():
    transports("podman")


# ---- endings ------------------------------------------------------------------------------------------------


def endings(engine: str) -> None:
    rows = Rows()
    table = [
        ("nothing said", "exit 0", (), 0, "success", None, None),
        ("text is the result", "echo; echo ' one'; echo two; exit 0", (), 0, "success", None, None),
        ("three", "exit 3", (), 3, "error", None, "Container exited with code 3"),
        ("four with words", "echo broken; exit 4", (), 4, "error", None, "broken"),
        ("124", "exit 124", (), 124, "error", "TimeoutError", "Container killed: execution timeout (3600s)"),
        ("killed, no limit", "kill -9 $$", ("--memory", "0"), 137, "error", "Killed", "Container killed"),
        ("killed, with limit", "kill -9 $$", (), 137, "error", "OutOfMemoryError",
         "Container killed: out of memory (limit: 2g)"),
        ("time-out", "sleep 60", ("--timeout", "1"), 124, "timeout", "TimeoutError",
         "Container killed: execution timeout (1s)"),
        ("a result before the time-out stands", f"{MARKED.replace('{}', json.dumps({'status': 'success'}))}; sleep 60",
         ("--timeout", "1"), 0, "success", None, None),
        ("malformed result", f"{MARKED.replace('{}', 'no json')}; exit 5", (), 5, "error", None, None),
        ("cut markers", "echo '<<<TACTUS_RESULT_START>>>'; echo '{\"status\":\"success\"}'; exit 6", (), 6, "error", None, None),
        ("first valid block", "echo '<<<TACTUS_RESULT_START>>>'; echo nothing; echo '<<<TACTUS_RESULT_END>>>'; "
         + MARKED.replace("{}", '{"status":"error","error":"e","error_type":"T","exit_code":7}'), (), 7, "error", "T", "e"),
    ]
    with Place(engine) as p:
        for name, script, args, code, status, kind, error in table:
            with rows(name):
                (p.procedure / "run.sh").write_text(script)
                r = p.run(*args).is_(code, status, kind, error)
                if name == "nothing said":
                    equal(r["result"], None)
                if name == "text is the result":
                    equal(r["result"], "one\ntwo")
                if name == "killed, with limit":
                    equal(r["metadata"], {"oom_certainty": "likely"})
                p.nothing_left()
    rows.close()


@bound(150)
def test_endings_on_docker():
    endings("docker")


@bound(150)
def test_endings_on_podman():
    endings("podman")


@each_engine
@bound(60)
def test_out_of_memory(engine):
    """The main process takes more than it may have: the engine's word for it where it has one, else what is likely."""
    with Place(engine, "exec dd if=/dev/zero of=/dev/null bs=300M count=1") as p:
        r = p.run("--memory", "48m").is_(137, "error", "OutOfMemoryError", "Container killed: out of memory (limit: 48m)")
        check(r["metadata"] in ([{}] if engine == "docker" else [{}, {"oom_certainty": "likely"}]), r["metadata"])
        equal(p.run("--memory", "1g").is_(0, "success")["result"], None)
        p.nothing_left()


def fast_exits(engine: str, count: int) -> None:
    with Place(engine, "exit 3") as p:
        for start in range(0, count, 4):
            batch = [p.start() for _ in range(min(4, count - start))]
            for process in batch:
                out, err = process.communicate(timeout=60)
                equal((process.returncode, json.loads(out)["exit_code"]), (3, 3), err.decode()[-300:])
        p.nothing_left()


@bound(400)
def test_fast_exits():
    """The exit code of a container that is gone at once is never lost."""
    fast_exits("docker", 200 if harness.FULL else 60)
    if harness.FULL and "podman" in bed.ENGINES:
        fast_exits("podman", 200)


# ---- the runner ends before its run -------------------------------------------------------------------------


def interrupted(engine: str) -> None:
    rows = Rows()
    with Place(engine, "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done") as p:
        other = p.start("--transport", "unix")
        wait_until(lambda: len(p.running()) == 1, "the other run", 20)
        name = p.running()[0]["Names"]
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with rows(number.name):
                process = p.start("--transport", "tcp", *(["--network", "bridge"] if engine == "podman" else []))
                wait_until(lambda: len(p.running()) == 2, "the run", 20)
                wait_until(lambda: len(p.grants()) == 2, "its grant", 20)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
                equal(process.returncode, code, err.decode()[-300:])
                if code > 0:
                    document = json.loads(out)
                    equal((document["status"], document["exit_code"]), ("cancelled", code))
                wait_until(lambda: len(p.containers()) == 1, f"one container {[c['Names'] for c in p.containers()]}", 15)
                wait_until(lambda: len(p.grants()) == 1, "one grant", 15)
                wait_until(lambda: len(list(p.tmp.iterdir())) == 2, f"two directories {list(p.tmp.iterdir())}", 15)
                equal(p.running()[0]["Names"], name, "the other run's container lives on")
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=30)
        p.nothing_left()
    rows.close()


@bound(120)
def test_interrupted_on_docker():
    interrupted("docker")


@bound(120)
def test_interrupted_on_podman():
    interrupted("podman")


@bound(60, alone=True)  # another run's start would clean up too
def test_runner_and_keeper_killed():
    """Nobody is there to clean up: the container ends by its heartbeat, the next gc removes the rest."""
    with Place("docker", "trap '' TERM; while :; do sleep 0.1; done") as p:
        process = p.start("--transport", "unix")
        wait_until(lambda: len(p.running()) == 1, "the run", 20)
        keeper = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in [*keeper, process.pid]:
            os.kill(int(pid), signal.SIGKILL)
        process.communicate(timeout=10)
        wait_until(lambda: not p.running(), "the container to end by its heartbeat", 20)
        equal(len(p.containers()), 1)
        done = harness.run([harness.BUILD / "tactus-runner", "gc", "--json", "--engine", p.engine.address], env=p.env)
        equal((done.returncode, json.loads(done.stdout)["directories"]), (0, 2), done.stderr)
        # Another run's start may be removing it at the same time: that is as good.
        wait_until(lambda: not p.containers() and not list(p.tmp.iterdir()), "nothing to be left", 10)


# ---- nothing secret inside ----------------------------------------------------------------------------------

LOOK = """
env > /workspace/seen; ls -aR /workspace >> /workspace/seen; cat /proc/1/environ /proc/self/environ /proc/1/cmdline >> /workspace/seen
cat /workspace/.env /workspace/sub/.hidden/x >> /workspace/seen 2>&1
cat /workspace/seen; cat /workspace/seen >&2
sleep 1
"""


class Argv(threading.Thread):
    """Every command line of the machine, looked at again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over, self.seen = threading.Event(), {b""}
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.005):
            for entry in pathlib.Path("/proc").iterdir():
                if entry.name.isdigit():
                    with contextlib.suppress(OSError):
                        self.seen.add((entry / "cmdline").read_bytes())

    def close(self) -> bytes:
        self.over.set()
        self.join()
        return b"\n".join(self.seen)


def files_with(key: str, directory: pathlib.Path) -> list[str]:
    return [str(path) for path in directory.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


@bound(90, alone=True)  # other tests have the key in command lines of theirs
def test_canary():
    """A key of the broker's and the user's environment, a sidecar, a .env: nowhere but there."""
    rows = Rows()
    for engine in bed.ENGINES:
        for transport in ("stdio", "unix"):
            with rows(f"{engine} {transport}"), Place(engine, LOOK, env={"SOME_PROVIDER": KEY}) as p:
                (p.procedure / ".env").write_text(f"KEY={KEY}\n")
                (p.procedure / "sub" / ".hidden").mkdir(parents=True)
                (p.procedure / "sub" / ".hidden" / "x").write_text(KEY)
                p.env |= {"OPENAI_API_KEY": KEY, "MY_TOKEN": KEY}
                p.file.with_name(".job.tac.yml").write_text(KEY)
                p.file.with_name("job.tac.yml").write_text("sandbox:\n  env: { GH_TOKEN: 'a-secret-of-the-sidecar' }\n")
                argv = Argv()
                process = p.start("--env", "OPENAI_API_KEY", "--env", "FINE=1", "--transport", transport)
                container = p.wait_running()[0]
                inspect = json.dumps(p.engine.json("GET", f"/containers/{container['Id']}/json"))
                inside = p.engine.json("GET", f"/containers/{container['Id']}/json")["State"]["Pid"]
                environ = pathlib.Path(f"/proc/{inside}/environ").read_text()
                check("TACTUS_BROKER_SOCKET=" in environ, "the container's environment is not seen")
                copied = files_with(KEY, p.tmp)
                logs = p.engine.call("GET", f"/containers/{container['Id']}/logs?stdout=1&stderr=1")[1].decode(errors="replace")
                out, err = process.communicate(timeout=30)
                equal(process.returncode, 0, err.decode()[-400:])
                equal(copied, [], "files of the copy with the key")
                lines = argv.close().decode(errors="replace")
                check("tactus-init" in lines, "the container's command line was not seen")
                for what, text in (("inspect", inspect), ("argv", lines), ("output", out.decode()), ("log", err.decode()),
                                   ("environment", environ), ("engine's log", logs), ("broker's log", p.broker.stderr())):
                    check(KEY not in text, f"the key is in {what}")
                    if what not in ("log", "broker's log"):
                        check("a-secret-of-the-sidecar" not in text, f"the sidecar's secret is in {what}")
                seen = json.loads(out)["result"]
                check("FINE=1" in seen, "a harmless variable is missing")
                for name in ("OPENAI_API_KEY", "GH_TOKEN", "MY_TOKEN", ".env", ".hidden"):
                    check(name not in seen.replace("cat: can't open '/workspace/.env'", "").replace(
                        "cat: can't open '/workspace/sub/.hidden/x'", ""), f"{name} is inside")
                check("OPENAI_API_KEY" in err.decode() and "GH_TOKEN" in err.decode(), "a refusal is not said")
    rows.close()


@bound(60)
def test_secret_by_value():
    """A secret that the broker holds is known by its value, whatever the variable's name is."""
    fake = {"name": "openai", "type": "openai", "base_url": "http://127.0.0.1:1/v1", "keys": [{"env": "OPENAI_API_KEY"}]}
    with Place("docker", "env; exit 0") as p:
        config = harness.configuration(fake, admin={"listen": [f"unix://{p.directory}/admin.sock"]})
        with harness.Broker(config):
            p.env["TACTUS_BROKER_ADMIN"] = f"unix://{p.directory}/admin.sock"
            # By name: another test looks for the key in every command line.
            r = p.run("--env", "HARMLESS", "--env", "OTHER=x", env={"HARMLESS": KEY}).is_(0, "success")
            check("HARMLESS" not in r["result"] and "OTHER=x" in r["result"], r["result"])
            check("HARMLESS" in r.err and KEY not in r.err, r.err)
            r = p.run("--env", "HARMLESS", "--allow-env", "HARMLESS", env={"HARMLESS": KEY}).is_(0, "success")
            check(f"HARMLESS={KEY}" in r["result"], r["result"])


# ---- wild children ------------------------------------------------------------------------------------------


@each_engine
@bound(60)
def test_fork_bomb(engine):
    """The limit holds, others go on, and the time-out ends it."""
    # A shell that cannot fork gives up: the first one starts the bomb and only waits.
    with Place(engine, "read -r request; bomb() { while :; do bomb & done; }; bomb & read -r never") as p:
        process = p.start("--pids", "64", "--timeout", "10")
        c = p.wait_running()[0]
        time.sleep(1)
        # The engine asks ps, which does not always see what comes and goes so fast, or fails of it.
        seen = wait_until(lambda: (p.engine.json("GET", f"/containers/{c['Id']}/top") or {}).get("Processes"), "its processes")
        check(2 <= len(seen) <= 64, f"{len(seen)} processes")
        memory = peak(process.pid)
        with Place(engine, "echo beside") as other:
            equal(other.run().is_(0, "success")["result"], "beside")
        r = Result.of(process).is_(124, "timeout", "TimeoutError")
        check("can't fork" in r.err, r.err[-300:])
        check(harness.SANITIZED or 0 < memory < 64 << 20, f"the runner's memory was {memory >> 20} MiB")
        p.nothing_left()


@each_engine
@bound(60)
def test_a_child_that_ignores_term(engine):
    with Place(engine, "trap '' TERM INT; while :; do sleep 0.1; done") as p:
        process = p.start()
        p.wait_running()
        process.send_signal(signal.SIGTERM)
        Result.of(process).is_(143, "cancelled", "Cancelled")
        p.nothing_left()


@each_engine
@bound(60)
def test_zombies(engine):
    """Orphans of orphans are reaped by PID 1."""
    script = """
i=0; while [ $i -lt 500 ]; do (echo x >> /tmp/born; true & ); i=$((i+1)); done
sleep 0.5
wc -l < /tmp/born; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l
"""
    with Place(engine, script) as p:
        equal(p.run(json_only=True).is_(0, "success")["result"], "500\n0")


# ---- bad input ----------------------------------------------------------------------------------------------


@bound(90)
def test_refused_before_the_start():
    rows = Rows()
    with Place("docker", "exit 0") as p:
        silent = socket.socket(socket.AF_UNIX)
        silent.bind(str(p.directory / "silent.sock"))
        silent.listen(8)
        (p.procedure / "a:b").mkdir()
        table = [
            ("tcp and none", ("--transport", "tcp", "--network", "none"), 64, "network is none"),
            ("unknown transport", ("--transport", "pigeon"), 64, "stdio, unix, tcp or tls"),
            ("certificate alone", ("--transport", "tls", "--cert", "x.pem"), 64, "the key is missing"),
            ("key alone", ("--transport", "tls", "--key", "x.pem"), 64, "the certificate is missing"),
            ("memory", ("--memory", "lots"), 64, "--memory lots: expected a size"),
            ("no such image", ("--image", "tactus-test/nothing:latest", "--no-pull"), 78, "tactus-test/nothing"),
            ("no such image to pull", ("--image", "localhost:1/nothing:latest"), 69, "cannot be pulled"),
            ("no such network", ("--transport", "tcp", "--network", "nowhere"), 78, "no network nowhere"),
            ("engine's socket", ("--volume", f"{p.engine.path}:/x"), 78, "is not mounted"),
            ("root", ("--volume", "/:/host"), 78, "is not mounted"),
            ("proc", ("--volume", "/proc:/x"), 78, "is not mounted"),
            ("broker's directory", ("--volume", f"{pathlib.Path(p.admin).parent}:/x"), 78, "is not mounted"),
            ("volume without a target", ("--volume", "./a:"), 78, "volume ./a:"),
            ("no engine", ("--engine", "unix:///nowhere/e.sock"), 69, "no container engine answered"),
            ("a silent engine", ("--engine", f"unix://{p.directory}/silent.sock"), 69, "no container engine answered"),
            ("an engine address", ("--engine", "ssh://x"), 78, "expected unix:///PATH or tcp://HOST:PORT"),
            ("no broker", ("--admin", "unix:///nowhere/admin.sock"), 69, "admin port"),
            ("no such file", ("--config", "/nowhere.yml"), 78, "/nowhere.yml"),
        ]
        for name, args, code, words in table:
            with rows(name):
                r = p.run(*args)
                equal((r.code, r["exit_code"], r["status"]), (code, code, "error"), r.document)
                check(words in r["error"], f"{words!r} is not in {r['error']!r}")
                p.nothing_left()
        with rows("sidecar"):
            sidecar = p.file.with_name("job.tac.yml")
            sidecar.write_text("name: x\nsandbox:\n  image: a\n  memroy: 1g\n")
            r = p.run()
            equal(r.code, 78)
            check("job.tac.yml:4:3: sandbox.memroy: is an unknown key" in r["error"], r["error"])
            sidecar.unlink()
    rows.close()


@bound(60)
def test_volumes_and_settings():
    """Colons in a host path, a volume's name, one part, a sidecar's settings."""
    with Place("docker") as p:
        odd = p.procedure / "a:b"
        odd.mkdir()
        (odd / "x").write_text("in a:b\n")
        (p.procedure / "run.sh").write_text("cat /odd/x; touch /odd/y 2>/dev/null || echo read-only; stat -f / > /dev/null; "
                                            "touch /x 2>/dev/null || echo root read-only; echo $COLOUR $FLAG; ls -d /named /one; "
                                            "id -u; touch /workspace/new /tmp/new && echo written")
        p.file.with_name("job.tac.yml").write_text(
            "sandbox:\n  env: { COLOUR: blue, FLAG: 1 }\n  volumes: [ './a:b:/odd:ro', 'named-volume:/named', '/one' ]\n"
            "  limits: { memory: 64m, cpus: 0.5 }\n  network: null\n")
        r = p.run("--env", "COLOUR=red").is_(0, "success")
        equal(r["result"].split("\n"), ["in a:b", "read-only", "root read-only", "red 1", "/named", "/one", "0", "written"])
        check(not (p.procedure / "new").exists(), "the procedure's own directory was written to")
        p.engine.call("DELETE", "/volumes/named-volume")


@bound(60)
def test_limits_are_in_force():
    for engine in bed.ENGINES:
        with Place(engine, "sleep 30") as p:
            process = p.start("--memory", "64m", "--cpus", "0.5", "--pids", "33")
            wait_until(lambda: len(p.running()) == 1, "the run", 20)
            c = p.engine.json("GET", f"/containers/{p.running()[0]['Id']}/json")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            host = c["HostConfig"]
            equal((host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"], host["ReadonlyRootfs"],
                   host["NetworkMode"], host["Privileged"], host["AutoRemove"]),
                  (64 << 20, 64 << 20, 500000000, 33, True, "none", False, False), engine)
            check("no-new-privileges" in str(host["SecurityOpt"]), host["SecurityOpt"])
            if engine == "docker":
                equal(host["CapDrop"], ["ALL"])
            equal(c["Config"]["User"], f"{os.getuid()}:{os.getgid()}")


# ---- other options ------------------------------------------------------------------------------------------


@bound(60)
def test_dry_run_and_keep():
    with Place("docker", "exit 0") as p:
        done = harness.run(p.argv("--dry-run", "--env", "COLOUR=blue", "--transport", "unix"), env=p.env)
        request = json.loads(done.stdout)
        equal((done.returncode, request["HostConfig"]["NetworkMode"], request["Cmd"]),
              (0, "none", ["sh", "/workspace/run.sh"]), done.stderr)
        check("COLOUR=[redacted]" in request["Env"], request["Env"])
        p.nothing_left()
        p.run("--keep").is_(0, "success")
        equal([c["State"] for c in p.containers()], ["exited"])
        for c in p.containers():
            p.engine.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")


@bound(60)
def test_what_is_mounted():
    script = ("ls /workspace; cat /mcp-servers/m /app/tactus/__init__.py; touch /mcp-servers/x || touch /app/tactus/x || echo read-only; "
              "echo $TACTUS_CALLBACK_URL")
    rows = Rows()
    with Place("docker", script) as p:
        (p.directory / ".tactus" / "mcp-servers").mkdir(parents=True)
        (p.directory / ".tactus" / "mcp-servers" / "m").write_text("mcp\n")
        (p.directory / "checkout" / "tactus").mkdir(parents=True)
        (p.directory / "checkout" / "tactus" / "__init__.py").write_text("# tactus\n")
        with rows("servers, source, callback"):
            r = p.run("--dev", "--callback-url", "http://x:1/cb", env={"TACTUS_DEV_PATH": str(p.directory / "checkout")})
            equal(r.is_(0, "success")["result"].split("\n"),
                  ["job.tac", "run.sh", "mcp", "# tactus", "read-only", "http://x:1/cb"])
        with rows("a working directory itself"):
            work = p.directory / "work"
            work.mkdir()
            (work / "run.sh").write_text("echo here > /workspace/made; echo done")
            p.run("--working-dir", str(work)).is_(0, "success")
            equal((work / "made").read_text(), "here\n")
        with rows("none"):
            r = p.run("--no-mount").is_(2, "error")
            check("can't open" in r.err, r.err)
        with rows("no source"):
            check("no source of tactus found" in p.run("--dev", env={"TACTUS_DEV_PATH": "/nowhere"}).err, "no warning")
    rows.close()


@bound(60)
def test_a_given_broker():
    """Without a grant: the endpoint as it is, over a mounted socket, stdio, and a network."""
    rows = Rows()
    with Place("docker", image=bed.CLIENT) as p:
        for transport, endpoint in (("unix", p.broker.endpoint("unix")), ("stdio", p.broker.endpoint("unix")),
                                    ("stdio", p.broker.endpoint("tcp"))):
            with rows(f"{transport} {endpoint}"):
                r = p.run("--broker", endpoint, "--transport", transport).is_(0, "success")
                equal(r["result"]["work"]["ndjson"]["text"], "wörd one two")
                equal(p.grants(), [])
        with rows("tls with a certificate of ours"):
            certs = harness.certificates()
            r = p.run("--transport", "tls", "--cert", str(certs / "server.pem"), "--key", str(certs / "server.key"),
                      env={"TACTUS_BROKER_TLS_CA_FILE": str(certs / "ca.pem")}).is_(0, "success")
            equal(r["result"]["work"]["framed"]["text"], "wörd one two")
        with rows("a broker that is not there"):
            r = p.run("--broker", "unix:///nowhere/b.sock", "--transport", "stdio")
            equal((r.code, r["status"]), (0, "success"))  # the client's own result; its chat failed
            check("APIConnectionError" in json.dumps(r.document), r.document)
        with rows("events without a grant"):
            r = p.run("--broker", p.broker.endpoint("unix"), "--events", "-")
            equal(r.code, 78)
    rows.close()


@bound(60)
def test_engine_over_tls():
    """DOCKER_HOST=tcp://… with the files that docker's own client uses."""
    with Place("docker", image=bed.CLIENT) as p:
        env = {"DOCKER_HOST": harness.BED.docker_tcp, "DOCKER_TLS_VERIFY": "1",
               "DOCKER_CERT_PATH": str(harness.BED.docker_home)}
        argv = [a for a in p.argv() if a not in ("--engine", p.engine.address)]
        r = Result(harness.run(argv, env={**p.env, **env})).is_(0, "success")
        equal(r["result"]["work"]["ndjson"]["text"], "wörd one two")
        r = Result(harness.run(argv, env={**p.env, **env, "DOCKER_CERT_PATH": "/nowhere"}))
        equal(r.code, 69)
        p.nothing_left()


@bound(30)
def test_no_sandbox():
    with Place("docker") as p:
        tools = p.directory / "bin"
        tools.mkdir()
        (tools / "tactus").write_text('#!/bin/sh\necho "$1 $2"\nexit 5\n')
        (tools / "tactus").chmod(0o755)
        done = harness.run(p.argv("--no-sandbox"), env={**p.env, "PATH": f"{tools}:{p.env['PATH']}"})
        equal((done.returncode, done.stdout), (5, f"run {p.file}\n"))
        done = harness.run(p.argv("--no-sandbox"), env={**p.env, "PATH": "/nowhere"})
        equal(done.returncode, 69)


@bound(60)
def test_another_user():
    """A mounted directory of mode 0700 is usable by the caller's own uid, with all capabilities dropped."""
    with Place("docker", "id -u; cat /workspace/x; touch /workspace/y && echo written; echo $HOME") as p:
        (p.procedure / "x").write_text("readable\n")
        os.chmod(p.procedure / "x", 0o600)
        r = p.run().is_(0, "success")
        equal(r["result"].split("\n"), ["0", "readable", "written", "/workspace"])
        r = p.run("--user", "1001:1001", "--env", "HOME=/tmp").is_(0, "success")
        equal(r["result"].split("\n"), ["1001", "readable", "written", "/tmp"])
