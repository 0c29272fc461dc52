"""Reload while streams run, and what a broker that is killed leaves behind."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import threading
import time

import harness as h
from admin import Admin
from fake_provider import FakeProvider
from harness import Rows, bound, certificates, check, done, equal, failure, tls_context

OLD, NEW = "sk-old-0123456789abcdef", "sk-new-0123456789abcdef"
TOKEN = "0123456789abcdef" * 4


class Reloading(h.Broker):
    """With an admin socket; `change` edits the configuration and reloads."""

    def __init__(self, config: dict, env: dict | None = None):
        config.setdefault("admin", {"listen": [f"unix://{h.TEMPORARY}/admin-{next(h.NUMBERS)}.sock"]})
        self.config = config
        super().__init__(config, env=env, endpoints=len(config["listeners"]) + 1)

    def write(self) -> None:
        self.file.write_text(json.dumps(self.config, indent=1))

    def generation(self) -> int:
        return Admin(self).good(200, "GET", "/v1/status")["config"]["generation"]

    def reload(self) -> dict:
        return Admin(self).good(200, "POST", "/v1/reload")

    def hang_up(self) -> None:
        """SIGHUP, and the reload that follows it."""
        before = self.generation()
        self.signal(signal.SIGHUP)
        h.wait_until(lambda: self.generation() > before, "the reload")

    def refused(self) -> str:
        return Admin(self).bad(422, "Unprocessable", "POST", "/v1/reload")


def private(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@bound(120)
def test_rotation_under_streams():
    """Key, certificate and grant at once, under 200 streams: none breaks, new requests use the new."""
    key = private(h.TEMPORARY / "key", OLD)
    certs = h.TEMPORARY / "rotating"
    shutil.copytree(certificates(), certs)
    other = certificates("other-ca")
    with FakeProvider() as fake:
        config = h.configuration(h.openai(fake, keys=[{"file": str(key)}]), transports=("tls", "tcp"),
                                 grant={"models": ["openai/*"]})
        config["listeners"][0].update(cert=str(certs / "server.pem"), key=str(certs / "server.key"))
        with Reloading(config) as broker:
            clients = [broker.client("tls" if i % 2 else "tcp") for i in range(40)]
            for i in range(200):
                clients[i % 40].chat("openai/slow:60:50", id=str(i))
            h.wait_until(lambda: len(fake.of("slow:60:50")) == 200, "all streams")
            private(key, NEW + "\n")
            for name in ("server.pem", "server.key"):
                shutil.copy(other / name, certs / name)
            config["grants"][0].update(models=["openai/text"], max_inflight=1000)
            broker.write()
            broker.hang_up()
            with broker.client("tcp") as c:
                done(c.answer("openai/text"))
                failure(c.answer("openai/slow:1:1"), "ModelNotAllowed")
            with broker.client("tls", ca=other / "ca.pem") as c:
                done(c.answer("openai/text"))
            for c in clients:
                for events in c.gather(5).values():
                    equal(done(events)["text"], "".join(f" {n}" for n in range(60)))
                c.close()
            equal({r.headers["authorization"] for r in fake.of("slow:60:50")}, {f"Bearer {OLD}"})
            equal({r.headers["authorization"] for r in fake.of("text")}, {f"Bearer {NEW}"})
            check(OLD not in broker.stderr() and NEW not in broker.stderr(), "a key in the log")


@bound(60)
def test_old_connections_have_the_new_policy():
    config = h.configuration(transports=("tcp",))
    with Reloading(config) as broker, broker.client("tcp") as c:
        done(c.answer("builtin/echo"))
        config["grants"][0]["models"] = []
        broker.write()
        broker.reload()
        failure(c.answer("builtin/echo"), "ModelNotAllowed")


@bound(60)
def test_grants_come_and_go():
    """By token, by certificate; what is used goes on; who has left is unknown on old connections too."""
    certs = certificates()
    config = h.configuration(transports=("tls",), listener={"auth": "required", "client_ca": str(certs / "ca.pem")})
    config["listeners"][0].pop("grant")
    config["grants"] = [{"name": "gone", "client_cert": {"san": "*"}, "tools": ["*"]},
                        {"name": "stays", "token": {"env": "STAYS"}, "tools": ["*"], "rpm": 600}]
    config["broker"]["workers"] = 2
    context = tls_context(certs / "ca.pem", certs / "client.pem", certs / "client.key")
    with Reloading(config, {"STAYS": TOKEN}) as broker, broker.client("tls", context=context) as c:
        c.ping()
        config["grants"][0]["client_cert"]["san"] = "nobody"
        config["grants"].append({"name": "new", "token": {"file": str(private(h.TEMPORARY / "t", TOKEN[::-1]))}, "tools": ["*"]})
        broker.write()
        report = broker.reload()
        equal((report["generation"], report["grants_added"], report["grants_removed"]), (2, ["new"], []))
        for token in (TOKEN, TOKEN[::-1]):
            h.wait_until(lambda t=token: answers(c, t), "a grant by token")
        del config["grants"][0]
        broker.write()
        equal(broker.reload()["grants_removed"], ["gone"])
        equal(Admin(broker).good(200, "GET", "/v1/grants/stays")["used"]["requests"] > 0, True)
        c.send("tool.call", {"name": "host.ping", "args": {}}, id="x")
        failure(c.until_terminal("x"), "Unauthenticated")
        c.closed()


def answers(c, token: str) -> bool:
    c.send("tool.call", {"name": "host.ping", "args": {}}, token=token)
    return c.until_terminal()[-1]["event"] == "done"


@bound(60)
def test_a_bad_file_changes_nothing():
    rows = Rows()
    good = h.configuration(transports=("tcp", "tls"), limits={"max_inflight": 100})
    text = json.dumps(good)
    secret = private(h.TEMPORARY / "open", "x" * 40)
    secret.chmod(0o644)
    bad = {
        "no YAML": ("{", "broker.yml:"),
        "unknown key": (text.replace('"limits": {', '"limits": {"colour": 1, '), "limits.colour: is an unknown key"),
        "wrong type": (text.replace('"max_inflight": 100', '"max_inflight": "many"'), "limits.max_inflight: is"),
        "out of range": (text.replace('"max_inflight": 100', '"max_inflight": 0'), "expected a whole number from 1 to"),
        "world-readable secret": (text.replace('"grants": [{', '"grants": [{"token": {"file": "%s"}, ' % secret), "is open to others"),
        "new variable": (text.replace('"grants": [{', '"grants": [{"token": {"env": "BRAND_NEW"}, '), "BRAND_NEW was not read at the start"),
        "no such certificate": (text.replace("server.pem", "nothing.pem"), "nothing.pem"),
        "certificate of another key": (text.replace("server.key", "client.key"), "client.key"),
        "a listener more": (text.replace('"listeners": [', '"listeners": [{"url": "tcp://127.0.0.1:0", "grant": "all"}, '), "listeners"),
        "other workers": (text.replace('"workers": ', '"workers": 1'), "broker.workers"),
        "a ledger": (text[:-1] + ', "usage": {"database": "/tmp/x.db"}}', "usage cannot change"),
    }
    with Reloading(good) as broker, broker.client("tcp") as c:
        text = json.dumps(broker.config)
        for name, (change, why) in bad.items():
            with rows(name):
                change = change if name == "no YAML" else change[:-1] + ', "admin": ' + json.dumps(broker.config["admin"]) + "}"
                broker.file.write_text(change)
                message = broker.refused()
                check(why in message, f"{why!r} not in {message!r}")
                c.ping()
                equal(broker.generation(), 1)
        with rows("SIGHUP"):
            broker.signal(signal.SIGHUP)
            h.wait_until(lambda: broker.stderr().count("reload failed") == len(bad) + 1, "a line of the log")
            c.ping()
        with rows("no file"):
            broker.file.unlink()
            check("broker.yml" in broker.refused(), "names the file")
        with rows("good again"):
            broker.write()
            equal(broker.reload()["generation"], 2)
            c.ping()
    with rows("--dev"), h.Broker(args=("--dev",), endpoints=6) as broker:
        socket = next(line for line in broker.endpoints if line.startswith("http+unix://"))
        check("--dev" in Admin(broker).bad(422, "Unprocessable", "POST", "/v1/reload"), socket)
    rows.close()


@bound(60)
def test_many_reloads():
    """Nothing is left of those before: descriptors and memory."""
    certs = certificates()
    with FakeProvider() as fake:
        config = h.configuration(h.openai(fake), transports=("tcp", "tls"))
        config["broker"]["workers"] = 2
        with Reloading(config) as broker, broker.client("tcp") as c:
            stop = threading.Event()

            def chat() -> None:
                while not stop.is_set():
                    with broker.client("tls", ca=certs / "ca.pem") as one:
                        done(one.answer("openai/text"))

            thread = threading.Thread(target=chat)
            thread.start()
            try:
                for _ in range(20):
                    broker.reload()
                descriptors, memory = broker.descriptors(), broker.memory("RssAnon")
                for _ in range(200):
                    broker.reload()
            finally:
                stop.set()
                thread.join()
            c.ping()
            check(broker.descriptors() <= descriptors + 8, f"{descriptors} descriptors became {broker.descriptors()}")
            grown = broker.memory("RssAnon") - memory
            check(h.SANITIZED or grown < 4 << 20, f"{grown >> 10} KiB more")


# ---- drain -------------------------------------------------------------------------------------------------


@bound(30)
def test_drain():
    with Reloading(h.configuration(transports=("tcp",), broker={"drain_timeout": 20})) as broker, broker.client("tcp") as c:
        admin = Admin(broker)
        equal(admin.good(200, "GET", "/readyz"), {"status": "ready"})
        c.chat("builtin/slow-100", content="word " * 20)
        first = c.event()
        equal(admin.good(200, "POST", "/v1/drain"), {"state": "draining", "inflight": 1, "drain_timeout": 20})
        admin.bad(503, "ShuttingDown", "GET", "/readyz")
        admin.bad(503, "ShuttingDown", "POST", "/v1/reload")
        equal(admin.good(200, "GET", "/healthz"), {"status": "ok"})
        equal(admin.good(200, "GET", "/v1/status")["state"], "draining")
        done([first, *c.until_terminal()])
        equal(broker.wait(), 0)


# ---- killed ------------------------------------------------------------------------------------------------


@bound(240)
def test_killed_under_load():
    """20 times: the ledger opens each time, and no request that had its `done` a second before is missing."""
    path = h.TEMPORARY / "usage.db"
    rounds = 20 if h.FULL else 6
    finished = 0  # requests whose done is more than a second old at the kill
    for _ in range(rounds):
        config = h.configuration(transports=("tcp",), usage={"database": str(path)})
        broker = Reloading(config)
        with broker:
            times: list[float] = []
            lock = threading.Lock()

            def ask() -> None:
                with contextlib.suppress(EOFError, OSError), broker.client("tcp") as c:
                    while True:
                        done(c.answer("builtin/tokens-3"))
                        with lock:
                            times.append(time.monotonic())

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for t in threads:
                t.start()
            time.sleep(1.6)
            killed = time.monotonic()
            broker.signal(signal.SIGKILL)
            broker.process.wait()
            for t in threads:
                t.join()
            finished += sum(t < killed - 1 for t in times)
            equal(broker.process.returncode, -signal.SIGKILL)
            broker.process.returncode = 0  # it is we who killed it
        with contextlib.closing(sqlite3.connect(path)) as db:
            equal(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            count = db.execute("SELECT count(*) FROM requests WHERE outcome = 'ok'").fetchone()[0]
        check(count >= finished > 0, f"{count} rows, {finished} requests had ended a second before")
    config = h.configuration(transports=("tcp",), usage={"database": str(path)})
    with Reloading(config) as broker:
        equal(Admin(broker).good(200, "GET", "/v1/usage")[0]["requests"] >= finished, True)


@bound(60)
def test_databases_that_are_none():
    rows = Rows()
    directory = h.TEMPORARY / "databases"
    directory.mkdir()
    newer, text = directory / "newer.db", directory / "text.db"
    with contextlib.closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 1000")
        db.execute("CREATE TABLE x (y)")
        db.commit()
    text.write_text("this is no database, and longer than a header of one has to be. " * 20)
    for path, words in ((newer, ("newer.db",)), (text, ("text.db",)), (directory / "no" / "dir.db", ("no/dir.db",))):
        with rows(path.name):
            config = h.configuration(usage={"database": str(path)})
            file = directory / "broker.yml"
            file.write_text(json.dumps(config))
            r = h.run([h.BUILD / "tactus-broker", "--config", file], 20)
            check(r.returncode in (os.EX_CONFIG, os.EX_OSERR), f"{r.returncode} {r.stderr}")
            check(all(w in r.stderr for w in words), r.stderr)
    rows.close()


@bound(60)
def test_runs_go_on_in_the_next_process():
    """Killed or stopped: grants of living runs listen where they did, with their tokens' hashes, limits and sources."""
    rows = Rows()
    for how in (signal.SIGKILL, signal.SIGTERM):
        path = h.TEMPORARY / f"grants-{how}.db"
        config = h.configuration(transports=("tcp",), listener={"auth": "required"}, usage={"database": str(path)})
        config["listeners"][0].pop("grant")
        with Reloading(config) as broker:
            admin = Admin(broker)
            unix = admin.grant(run="u", rpm=600, budget_usd=0.25, ttl=60)
            tcp = admin.grant("tcp", {"allow_from": ["127.0.0.0/8"], "relay": True}, ttl=60, models=["builtin/echo"])
            token = admin.good(201, "POST", "/v1/grants", {"run": "t", "tools": ["host.ping"], "ttl": 60})
            short, gone = admin.grant(ttl=60), admin.grant(ttl=60)
            admin.change(short, ttl=0.2)
            admin.end(gone)
            h.wait_until(lambda: len(admin.grants()) == 3, "the end of one's time")
            before = {g["id"]: g for g in admin.grants()}
            place = os.stat(pathlib.Path(unix["endpoint"]).parent)
            h.wait_until(lambda: kept(path) == sorted([unix["id"], tcp["id"], token["id"]]), "what is kept")
            broker.signal(how)
            broker.process.wait()
            broker.process.returncode = 0
        with rows(f"{how.name}: the file"):
            data = b"".join(p.read_bytes() for p in path.parent.glob(path.name + "*"))
            check(token["token"].encode() not in data, "a token in the database")
        with Reloading(config) as broker:
            admin = Admin(broker)
            with rows(f"{how.name}: shown"):
                after = {g["id"]: g for g in admin.grants()}
                equal(sorted(after), sorted(g["id"] for g in (unix, tcp, token)))
                for id, grant in after.items():
                    old = before[id]
                    for volatile in ("expires_at", "used", "connections", "refused"):
                        grant.pop(volatile), old.pop(volatile)
                    equal(grant, old)
            with rows(f"{how.name}: unix"):
                equal(os.stat(pathlib.Path(unix["endpoint"]).parent).st_ino, place.st_ino, "the directory that is mounted")
                with h.Client(unix["endpoint"]) as c:
                    c.ping()
            with rows(f"{how.name}: tcp"), h.Client(tcp["endpoint"]) as c:
                done(c.answer("builtin/echo"))
                failure(c.answer("builtin/tokens-1"), "ModelNotAllowed")
            with rows(f"{how.name}: token"), broker.client("tcp") as c:
                check(answers(c, token["token"]), "the token is not known any more")
            with rows(f"{how.name}: ended"):
                check(not pathlib.Path(short["endpoint"]).parent.exists(), "a directory of an expired run")
                admin.change(unix, ttl=50)
                for grant in (unix, tcp, token):
                    admin.end(grant)
                h.wait_until(lambda: kept(path) == [], "nothing is kept")
                check(not pathlib.Path(unix["endpoint"]).parent.exists(), "its directory")
    rows.close()


def kept(path: pathlib.Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return sorted(row[0] for row in db.execute("SELECT id FROM grants"))
