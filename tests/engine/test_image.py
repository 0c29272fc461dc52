"""tactus-runner image build and status, and the rebuild before a run, on real engines."""
import json
import os
import pathlib
import signal
import subprocess

import bed
import harness
from harness import bound, check, equal, wait_until
from place import Place, each_engine

DOCKERFILE = f"FROM {bed.BUSYBOX}\nCOPY . /app/\nCMD [\"sh\", \"/app/run.sh\"]\n"


class Context:
    """A build context and an image's name of its own, which is removed at the end."""

    def __init__(self, engine: str):
        self.engine = harness.BED.engine(engine)
        number = next(harness.NUMBERS)
        self.path = harness.TEMPORARY / f"context-{number}"
        self.path.mkdir()
        self.image = f"tactus-test/image-{os.getpid()}-{number}:latest"
        self.put("Dockerfile", DOCKERFILE)
        self.put("run.sh", "echo first")

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_) -> None:
        self.engine.call("DELETE", f"/images/{self.image}?force=1")

    def put(self, name: str, text: str) -> pathlib.Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def argv(self, verb: str, *args) -> list:
        return [harness.BUILD / "tactus-runner", "image", verb, "--engine", self.engine.address, "--image", self.image,
                "--context", self.path, *args]

    def command(self, verb: str, *args):
        return harness.run(self.argv(verb, *args), 60)

    def start(self, verb: str) -> subprocess.Popen:
        return harness.spawn(self.argv(verb), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def is_(self, code: int, state: str, *args) -> dict:
        done = self.command("status", "--json", *args)
        equal(done.returncode, code, done.stderr)
        answer = json.loads(done.stdout)
        equal((answer["image"], answer["state"]), (self.image, state))
        return answer

    def build(self, *args) -> str:
        done = self.command("build", *args)
        equal(done.returncode, 0, done.stderr[-600:])
        check(": fresh" in done.stdout, done.stdout)
        return done.stderr

    def labels(self) -> dict:
        labels = self.engine.json("GET", f"/images/{self.image}/json")["Config"]["Labels"]
        return {key: value for key, value in labels.items() if key.startswith("tactus.")}

    def run(self, script: str) -> str:
        """What `script` prints in a container of the image."""
        made = self.engine.json("POST", "/containers/create", {"Image": self.image, "Cmd": ["sh", "-c", script], "Tty": True,
                                                               "HostConfig": {"NetworkMode": "none"}})
        try:
            path = f"/containers/{made['Id']}"
            equal(self.engine.call("POST", path + "/start")[0], 204)
            self.engine.json("POST", path + "/wait")
            return self.engine.call("GET", path + "/logs?stdout=1")[1].decode().replace("\r\n", "\n")
        finally:
            self.engine.call("DELETE", f"/containers/{made['Id']}?force=1")


@each_engine
@bound(120)
def test_build_and_status(engine):
    """missing, built, fresh; stale by a source, by a version; what does not count."""
    with Context(engine) as c:
        missing = c.is_(2, "missing")
        equal((missing["version"], missing["source_hash"]), ("", ""))
        c.build()
        fresh = c.is_(0, "fresh")
        equal(fresh["source_hash"], fresh["wanted_source_hash"])
        equal(c.labels(), {"tactus.version": fresh["wanted_version"], "tactus.source_hash": fresh["source_hash"]})
        c.put(".env", "x")
        c.put("pkg/__pycache__/a.pyc", "x")
        equal(c.is_(0, "fresh")["source_hash"], fresh["source_hash"])
        c.put("run.sh", "echo second")
        stale = c.is_(1, "stale")
        equal(stale["source_hash"], fresh["source_hash"])
        check(stale["wanted_source_hash"] != fresh["source_hash"], "the hash has not changed")
        text = c.command("status")
        equal((text.returncode, text.stdout), (1, f"{c.image}: stale, sources {fresh['source_hash']}, now {stale['wanted_source_hash']}\n"))
        c.build()
        equal(c.is_(0, "fresh")["source_hash"], stale["wanted_source_hash"])
        # An image of another version, and one that says nothing.
        c.put("Dockerfile", DOCKERFILE.replace("COPY", "LABEL tactus.version=9.9.9\nCOPY"))
        c.build()
        c.is_(0, "fresh")  # our label wins over the file's own
        equal(c.engine.call("POST", f"/images/{bed.BUSYBOX}/tag?repo={c.image.split(':')[0]}&tag=latest")[0], 201)
        stranger = c.command("status")
        check(stranger.returncode == 1 and "built by version unknown, this is" in stranger.stdout, stranger.stdout)


@each_engine
@bound(120)
def test_context(engine):
    """What is sent: not what .dockerignore leaves out, but always the Dockerfile; odd names; links as links; other owners."""
    with Context(engine) as c:
        c.put(".dockerignore", "*\n!run.sh\n!src\nsrc/**/*.key\n!src/\u00fc.txt\n")
        c.put("docker/File", DOCKERFILE)
        c.put("src/deep/a", "deep")
        c.put("src/deep/b.key", "secret")
        c.put("src/\u00fc.txt", "umlaut")
        c.put("src/" + 120 * "n", "long")
        c.put("secret.txt", "secret")
        (c.path / "src/link").symlink_to("deep/a")
        (c.path / "src/out").symlink_to("/etc/hostname")
        (c.path / "src/deep/a").chmod(0o750)
        c.build("--file", "./docker/File")
        out = c.run("cd /app && ls -a . src src/deep && cat src/link src/*.txt && readlink src/out; stat -c '%a %u' src/deep/a")
        check("secret" not in out and "b.key" not in out, out)
        for words in ("deepumlaut", 120 * "n", "750 0\n"):
            check(words in out, f"{words!r} is not in {out!r}")


@each_engine
@bound(120)
def test_sources(engine):
    """Directories that count, instead of the context; a build that fails says what the engine says."""
    with Context(engine) as c:
        sources = [f"--source={c.put('a/x', '1').parent}", f"--source={c.put('b/y', '2').parent}"]
        c.build(*sources)
        c.put("run.sh", "echo unseen")
        c.is_(0, "fresh", *sources)
        c.put("b/y", "3")
        c.is_(1, "stale", *sources)
        c.put("Dockerfile", f"FROM {bed.BUSYBOX}\nCOPY nowhere /x\n")
        done = c.command("build", *sources)
        equal(done.returncode, 69, done.stderr)
        check(f"image {c.image} cannot be built" in done.stderr and "nowhere" in done.stderr, done.stderr)
        done = c.command("build", "--file", "Nofile")
        equal((done.returncode, "Nofile: No such file" in done.stderr), (78, True), done.stderr)
        done = c.command("status", "--source", "/nowhere")
        equal((done.returncode, "/nowhere: No such file" in done.stderr), (78, True), done.stderr)
        done = c.command("status", "--engine", "unix:///nowhere/e.sock")
        equal((done.returncode, "no container engine answered" in done.stderr), (69, True), done.stderr)
        for wrong in (["wrong"], ["status", "more"], ["--nothing", "build"], []):
            equal(harness.run([harness.BUILD / "tactus-runner", "image", *wrong]).returncode, 64, wrong)


@each_engine
@bound(180)
def test_before_a_run(engine):
    """An image whose context the settings name: built when missing, rebuilt when stale; not when told so or when watched."""
    with Context(engine) as c, Place(engine, image=c.image) as p:
        p.file.with_name("job.tac.yml").write_text(f"sandbox:\n  build_context: {c.path}\n  mount_current_dir: false\n")
        (p.procedure / "run.sh").unlink(missing_ok=True)
        equal(p.run("--dry-run").code, 78, "a dry run builds nothing")
        c.is_(2, "missing")
        equal(p.run().is_(0, "success")["result"], "first")
        c.put("run.sh", "echo second")
        for args, env in ((("--events", p.directory / "events"), {}), ((), {"TACTUS_AUTO_REBUILD_SANDBOX": "false"})):
            r = p.run(*args, env=env).is_(0, "success")
            equal(r["result"], "first", f"{args} {env}")
            check("older than its sources" in r.err, r.err)
        c.is_(1, "stale")
        equal(p.run(env={"TACTUS_AUTO_REBUILD_SANDBOX": "yes"}).is_(0, "success")["result"], "second")
        c.is_(0, "fresh")
        check("building the image" not in p.run().is_(0, "success").err, "a fresh image was built again")
        p.nothing_left()


@bound(60)
def test_interrupted():
    """A signal ends a build, here and at the engine."""
    with Context("docker") as c:
        c.put("Dockerfile", f"FROM {bed.BUSYBOX}\nRUN sleep 1000\n")
        build = c.start("build")

        def own() -> list:
            return [x for x in c.engine.containers() if "sleep 1000" in x["Command"]]

        wait_until(lambda: [x for x in own() if x["State"] == "running"], "the build to run", 30)
        build.send_signal(signal.SIGINT)
        equal(build.wait(20), 130)
        check("interrupted" in build.stderr.read().decode(), "no word of it")
        wait_until(lambda: not own(), "the build's container to go", 20)
        c.is_(2, "missing")
