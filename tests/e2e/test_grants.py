"""Grants of runs: a listener each, its policy, its time, its end on every loop, what is left of it."""
import datetime
import json
import os
import pathlib
import signal
import socket
import stat
import threading
import time

import harness as h
from admin import TOKEN, Admin, admin_broker, as_nobody
from harness import Client, Rows, bound, check, equal

SLOW = "builtin/slow-60000"  # a word a minute: in flight until somebody ends it


def client(grant: dict, framing: str = "ndjson", **more) -> Client:
    return Client(grant["endpoint"], framing, **more)


def closed_soon(c: Client) -> None:
    c.closed()
    c.close()


def gone(endpoint: str) -> bool:
    """Nobody listens there any more."""
    try:
        h.connect(endpoint).close()
    except OSError:
        return True
    return False


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# ---- the listener -------------------------------------------------------------------------------------------


@bound(30)
def test_unix():
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        now = time.time()
        grant = admin.grant(run="r-1", ttl=100)
        equal(list(grant), ["id", "run", "endpoint", "expires_at", "token"])
        check(len(grant["token"]) == 64 and set(grant["token"]) <= set("0123456789abcdef"), "256 bits")
        equal(grant["run"], "r-1")
        equal(len(grant["id"]), 26)
        check(set(grant["id"]) <= set("abcdefghijklmnopqrstuvwxyz234567"), grant["id"])
        check(abs(seconds(grant["expires_at"]) - now - 100) < 30, grant["expires_at"])
        sock = pathlib.Path(grant["endpoint"])
        base = sock.parent.parent
        equal(str(base), str(h.TEMPORARY / "runs"))
        for path, mode in ((base, 0o700), (sock.parent, 0o711), (sock, 0o666)):
            equal(stat.S_IMODE(path.stat().st_mode), mode, f"mode of {path.name}")
        for framing in h.FRAMINGS:
            with client(grant, framing) as c:
                c.ping()
                equal(h.done(c.answer("builtin/echo", content="hello run"))["text"], "hello run")
        admin.end(grant)
        check(not sock.parent.exists(), "the directory was left")
        check(base.exists(), "the base went with the grant")
        broker.stop()
        check(not base.exists(), "the base was left")


@bound(40)
def test_tcp_and_tls():
    certs = h.certificates()
    listener = {"ca_file": str(certs / "ca.pem")}
    with admin_broker(transports=("tls",), listener=listener, broker={"workers": 2}) as broker:
        admin = Admin(broker)
        for transport in ("tcp", "tls"):
            grant = admin.grant(transport)
            check(grant["endpoint"].startswith(f"{transport}://127.0.0.1:"), grant["endpoint"])
            equal(grant.get("ca_file"), str(certs / "ca.pem") if transport == "tls" else None)
            for framing in h.FRAMINGS:
                for _ in range(4):  # the loops take turns
                    with client(grant, framing, **({"ca": grant["ca_file"]} if transport == "tls" else {})) as c:
                        c.ping()
            admin.end(grant)
            h.wait_until(lambda: gone(grant["endpoint"]), "the listener to close")


@bound(30)
def test_address_and_port():
    rows = Rows()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    with admin_broker() as broker:
        admin = Admin(broker)
        with rows("port"):
            grant = admin.grant("tcp", {"bind": "127.0.0.1", "port": free})
            equal(grant["endpoint"], f"tcp://127.0.0.1:{free}")
            message = admin.bad(422, "Unprocessable", "POST", "/v1/grants",
                                {"listener": {"transport": "tcp", "port": free}})
            check(f"cannot listen on 127.0.0.1 port {free}" in message, message)
            admin.end(grant)
            grant = admin.grant("tcp", {"bind": "127.0.0.1", "port": free})  # at once again
            with client(grant) as c:
                c.ping()
        with rows("an address that may come up later"):
            check(admin.grant("tcp", {"bind": "192.0.2.1"})["endpoint"].startswith("tcp://192.0.2.1:"), "endpoint")
        with rows("IPv6"):
            if pathlib.Path("/proc/net/if_inet6").exists():
                check(admin.grant("tcp", {"bind": "::1"})["endpoint"].startswith("tcp://[::1]:"), "endpoint")
        rows.close()


@bound(30)
def test_certificates():
    rows = Rows()
    certs = h.certificates()
    own = h.certificates("own")
    with admin_broker() as broker:
        admin = Admin(broker)
        listener = {"transport": "tls", "cert_file": str(own / "server.pem"), "key_file": str(own / "server.key")}
        with rows("none there"):
            message = admin.bad(422, "Unprocessable", "POST", "/v1/grants", {"listener": {"transport": "tls"}})
            check("listener.cert_file and listener.key_file are needed" in message, message)
        with rows("own"):
            grant = admin.good(201, "POST", "/v1/grants", {"tools": ["*"], "listener": listener})
            check("ca_file" not in grant, "ca_file")
            with client(grant, ca=own / "ca.pem") as c:
                c.ping()
        with rows("own, with a CA to tell"):
            equal(admin.good(201, "POST", "/v1/grants", {"listener": {**listener, "ca_file": "/x/ca.pem"}})["ca_file"],
                  "/x/ca.pem")
        for name, change in {"key of another": {"key_file": str(certs / "server.key")},
                             "no certificate": {"cert_file": "/no/such.pem"}}.items():
            with rows(name):
                before = broker.descriptors() + 1  # a connection that was just closed may still count
                admin.bad(422, "Unprocessable", "POST", "/v1/grants", {"listener": {**listener, **change}})
                h.wait_until(lambda: broker.descriptors() <= before, "descriptors to be given back")
    # The listener of the configuration demands certificates of its clients, that of a run does not.
    with admin_broker(transports=("tls",), listener={"client_ca": str(certs / "ca.pem")}) as broker:
        with rows("no client certificate"):
            with client(Admin(broker).grant("tls"), ca=certs / "ca.pem") as c:
                c.ping()
    rows.close()


@bound(30)
def test_paths():
    rows = Rows()
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        path = h.TEMPORARY / "own.sock"

        def refused(where) -> str:
            return admin.bad(422, "Unprocessable", "POST", "/v1/grants",
                             {"listener": {"transport": "unix", "path": str(where)}})

        with rows("its own place"):
            grant = admin.grant("unix", {"path": str(path)})
            equal(grant["endpoint"], str(path))
            with client(grant) as c:
                c.ping()
            check("another process listens there" in refused(path), "occupied")
            admin.end(grant)
            check(not path.exists(), "the socket was left")
        with rows("a stale one"):
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(str(path))
            grant = admin.grant("unix", {"path": str(path)})
            with client(grant) as c:
                c.ping()
            admin.end(grant)
        with rows("a file in the way"):
            path.write_text("x")
            check("no socket is in the way" in refused(path), "message")
            equal(path.read_text(), "x")
            path.unlink()
        with rows("no directory"):
            refused("/no/such/directory/b.sock")
        rows.close()


@bound(20)
def test_runs_directory():
    rows = Rows()
    base = h.TEMPORARY / "elsewhere"
    with admin_broker(tcp=False, admin={"runs_directory": str(base)}) as broker:
        admin = Admin(broker)
        with rows("made on demand"):
            check(not base.exists(), "made too early")
            grant = admin.grant()
            equal(str(pathlib.Path(grant["endpoint"]).parent.parent), str(base))
            admin.end(grant)
        with rows("open to others"):
            base.chmod(0o755)
            message = admin.bad(422, "Unprocessable", "POST", "/v1/grants", {"listener": {"transport": "unix"}})
            check("has mode 0755: others must neither write to it nor list it" in message, message)
            equal(list(base.iterdir()), [], "left in the base")
            base.chmod(0o711)
            admin.end(admin.grant())
    with admin_broker(admin={"listen": ["tcp://127.0.0.1:0"]}) as broker:
        with rows("none"):
            admin = Admin(broker, unix=False, token=TOKEN)
            message = admin.bad(422, "Unprocessable", "POST", "/v1/grants", {"listener": {"transport": "unix"}})
            check("listener.path is needed" in message, message)
    rows.close()


@bound(20)
def test_who_may_connect():
    """Another user inside a container has the run's directory and may; outside it has not and may not."""
    with admin_broker(tcp=False) as broker:
        grant = Admin(broker).grant()
        place = os.open(pathlib.Path(grant["endpoint"]).parent, os.O_PATH)  # as if it were mounted somewhere
        for directory in [p for p in pathlib.Path(grant["endpoint"]).parents if p.is_relative_to(h.TEMPORARY)][2:]:
            directory.chmod(0o711)  # the test's own

        def inside() -> str:
            with Client(f"/proc/self/fd/{place}/broker.sock") as c:
                c.ping()
            return "served"

        def outside() -> str:
            try:
                h.connect(grant["endpoint"])
            except PermissionError:
                return "refused"
            return "connected"

        equal(as_nobody(inside), "served")
        equal(as_nobody(outside), "refused")


# ---- the policy ---------------------------------------------------------------------------------------------


@bound(30)
def test_policy():
    rows = Rows()
    with admin_broker(tcp=False, grant={"models": ["builtin/nothing"], "tools": []}) as broker:
        admin = Admin(broker)
        for name, grant, chat, tool in (
                ("absent lists", {"models": None, "tools": None}, False, False),
                ("empty lists", {"models": [], "tools": []}, False, False),
                ("models", {"models": ["builtin/echo"], "tools": []}, True, False),
                ("tools", {"models": ["other/*"], "tools": ["host.p*"]}, False, True),
                ("all", {"models": ["*"], "tools": ["*"]}, True, True)):
            with rows(name):
                made = admin.grant(**grant)
                with client(made) as c:
                    c.chat("builtin/echo")
                    last = c.until_terminal()[-1]
                    equal(last.get("error", {}).get("type"), None if chat else "ModelNotAllowed")
                    last = c.request("tool.call", {"name": "host.ping"}, "b")[-1]
                    equal(last.get("error", {}).get("type"), None if tool else "ToolNotAllowed")
                    info = c.request("broker.info", id="i")[-1]["data"]
                    equal(bool(info["providers"]), chat, "providers in broker.info")
        with rows("the configured listener has its own"):
            with broker.client() as c:
                h.failure(c.answer("builtin/echo"), "ModelNotAllowed")
        rows.close()


@bound(20)
def test_faults_name_their_key():
    rows = Rows()
    unix = {"listener": {"transport": "unix"}}
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        for body, message in (({**unix, "foo": 1}, "unknown key: foo"),
                              ({**unix, "ttl": "x"}, "ttl must be a number of seconds from 0.001 to 86400"),
                              ({**unix, "ttl": 86401}, "ttl must be a number of seconds from 0.001 to 86400"),
                              ({"listener": {"transport": "unix", "mode": 1}}, "unknown key: listener.mode")):
            with rows(message):
                equal(admin.bad(400, "BadRequest", "POST", "/v1/grants", body), message)
        for key in ("mcp", "callback_url"):
            with rows(key):
                equal(admin.bad(422, "Unprocessable", "POST", "/v1/grants", {**unix, key: 1}),
                      f"{key} is not supported yet")
        rows.close()
        equal(admin.grants(), [], "grants")
        check(not (h.TEMPORARY / "runs").exists(), "something was made")


@bound(20)
def test_shown():
    with admin_broker() as broker:
        admin = Admin(broker)
        a = admin.grant(run="r", name="n", models=["builtin/*"], tools=["host.ping"])
        b = admin.grant("tcp", {"allow_from": ["127.0.0.0/8", "::1"], "relay": True})
        shown = admin.show(a)
        created = shown.pop("created_at")
        check(abs(seconds(a["expires_at"]) - seconds(created) - 60) < 5, "60 seconds by default")
        token = a.pop("token")
        check(token not in json.dumps(admin.good(200, "GET", "/v1/grants")), "a token is shown once")
        equal(shown.pop("used"), {"requests": 0, "refused": 0, "inflight": 0, "tokens": 0, "usd": 0, "reserved_tokens": 0,
                                  "reserved_usd": 0})
        equal(shown, {**a, "name": "n", "transport": "unix", "models": ["builtin/*"], "tools": ["host.ping"],
                      "relay": False, "connections": 0, "inflight": 0, "refused": 0, "events_dropped": 0})
        equal(admin.show(b)["allow_from"], ["127.0.0.0/8", "::1"])
        equal(admin.show(b)["run"], b["id"], "a run without a name of its own")
        equal([g["id"] for g in admin.grants()], [a["id"], b["id"]])
        with client(a) as c, client(a):
            c.chat(SLOW)
            h.wait_until(lambda: admin.show(a)["inflight"] == 1, "the request to count")
            equal(admin.show(a)["connections"], 2)
            equal(admin.show(b)["connections"], 0)
        h.wait_until(lambda: admin.show(a)["connections"] == 0, "the connections to go")
        equal(admin.show(a)["inflight"], 0)


@bound(30)
def test_allow_from():
    with admin_broker() as broker:
        admin = Admin(broker)
        grant = admin.grant("tcp", {"allow_from": ["192.0.2.0/24"]})

        def refused() -> bool:
            try:
                with h.connect(grant["endpoint"]) as s:
                    return s.recv(1) == b""
            except ConnectionError:
                return True

        for n in range(1, 4):
            check(refused(), "a client from elsewhere was served")
            equal(admin.show(grant)["refused"], n)
        check("connection from outside allow_from" in broker.stderr(), "it is not in the log")
        equal(admin.change(grant, allow_from=["10.0.0.0/8", "127.0.0.1"])["allow_from"], ["10.0.0.0/8", "127.0.0.1"])
        with client(grant) as c:
            c.ping()
            admin.change(grant, allow_from=[])
            check(refused(), "an empty list lets somebody in")
            c.ping()  # who is there stays
        admin.change(grant, ttl=50)  # and the list stays
        equal(admin.show(grant)["allow_from"], [])
        admin.bad(400, "BadRequest", "PATCH", f"/v1/grants/{admin.grant()['id']}", {"allow_from": []})


# ---- its time -----------------------------------------------------------------------------------------------


@bound(30)
def test_time_is_over():
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        grant, other = admin.grant(ttl=0.4), admin.grant()
        with client(other) as stays, client(grant) as idle, client(grant) as c:
            c.chat(SLOW)
            h.failure(c.until_terminal(), "Cancelled", message="The grant has ended")
            c.closed()
            idle.closed()
            check(gone(grant["endpoint"]), "it still listens")
            check(not pathlib.Path(grant["endpoint"]).parent.exists(), "the directory was left")
            admin.bad(404, "NotFound", "GET", f"/v1/grants/{grant['id']}")
            stays.ping()
        check("its time is over" in broker.stderr(), "it is not in the log")


@bound(30)
def test_time_is_renewed():
    """A heartbeat: more than its first time, as long as it comes."""
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        grant = admin.grant(ttl=1.5)
        with client(grant) as c:
            for _ in range(5):
                time.sleep(0.5)
                before = admin.show(grant)["expires_at"]
                check(admin.change(grant, ttl=1.5)["expires_at"] > before, "not later")
            c.ping()
            admin.change(grant)  # nothing
            c.ping()
            admin.change(grant, ttl=0.01)
            c.closed()
        for body in ({"models": ["*"]}, {"ttl": 0}, {"ttl": None, "run": "x"}):
            admin.bad(400, "BadRequest", "PATCH", f"/v1/grants/{admin.grant()['id']}", body)


# ---- its end ------------------------------------------------------------------------------------------------


@bound(40)
def test_end_reaches_every_loop():
    with admin_broker(transports=("unix",), broker={"workers": 4}) as broker:
        admin = Admin(broker)
        for transport in ("unix", "tcp"):
            grant, other = admin.grant(transport), admin.grant(transport)
            clients = [client(grant, h.FRAMINGS[i % 2]) for i in range(16)]
            for c in clients[:12]:
                c.chat(SLOW, "x")
                c.chat(SLOW, "y")
            with client(other) as stays, broker.client() as static:
                stays.chat(SLOW)
                h.wait_until(lambda: admin.show(grant)["inflight"] == 24, "the requests to be in flight")
                admin.end(grant)
                for c in clients[:12]:
                    for events in c.gather(2).values():
                        h.failure(events, "Cancelled")
                for c in clients:
                    closed_soon(c)
                admin.bad(404, "NotFound", "DELETE", f"/v1/grants/{grant['id']}")
                equal(admin.show(other)["inflight"], 1, "of another grant")
                static.ping()
            admin.end(other)


@bound(60)
def test_many_come_and_go():
    with admin_broker(tcp=False, broker={"workers": 2}) as broker:
        admin = Admin(broker)
        base = None
        for _ in range(3):
            grants = [admin.grant(("unix", "tcp")[i % 2]) for i in range(100)]
            equal(len({g["id"] for g in grants}), 100)
            clients = [client(g) for g in grants]
            for c in clients:
                c.send("tool.call", {"name": "host.ping"})
            for c in clients:
                h.check(c.until_terminal()[-1]["event"] == "done", "ping")
            for g in grants:
                admin.end(g)
            for c in clients:
                closed_soon(c)
            # The other loop may still have the last of them.
            now = h.wait_until(lambda: broker.descriptors() if base is None or broker.descriptors() <= base + 1 else 0,
                               "the descriptors to go") if broker.descriptors() else 0
            base = base or now
        equal(list((h.TEMPORARY / "runs").iterdir()), [], "directories")


@bound(60)
def test_ends_while_clients_come():
    """Connections that are accepted, handed over, in a handshake, in flight, while grants end."""
    certs = h.certificates()
    with admin_broker(transports=("tls",), listener={"ca_file": str(certs / "ca.pem")},
                      broker={"workers": 4}) as broker:
        admin = Admin(broker)
        stop = threading.Event()
        current: list[dict] = []
        served = [0]

        def hammer() -> None:
            while not stop.is_set():
                try:
                    with client(current[0], ca=certs / "ca.pem", timeout=5) as c:
                        c.ping()
                        c.answer("builtin/tokens-50")
                        served[0] += 1
                except (OSError, EOFError, h.Failure, IndexError, ValueError):
                    pass  # it was the end of that grant

        threads = [threading.Thread(target=hammer) for _ in range(4)]
        current.append(admin.grant("unix"))
        for t in threads:
            t.start()
        try:
            for i in range(60):
                old = current[0]
                current[0] = admin.grant(("unix", "tcp", "tls")[i % 3])
                time.sleep(0.02)
                admin.end(old)
        finally:
            stop.set()
            for t in threads:
                t.join()
        check(served[0] > 10, f"only {served[0]} were served")
        admin.end(current[0])
        h.wait_until(lambda: admin.grants() == [], "no grants")
        with broker.client(ca=certs / "ca.pem", transport="tls") as c:
            c.ping()


@bound(30)
def test_drain():
    """A stop takes the sockets away at once and lets what is in flight end."""
    with admin_broker(tcp=False, broker={"workers": 2, "drain_timeout": 10}) as broker:
        admin = Admin(broker)
        grant, tcp = admin.grant(), admin.grant("tcp")
        with client(grant) as c, client(grant) as last:
            c.chat("builtin/slow-1500", content="one two")
            last.chat(SLOW)
            h.wait_until(lambda: admin.show(grant)["inflight"] == 2, "the requests to be in flight")
            broker.signal(signal.SIGTERM)
            h.wait_until(lambda: not pathlib.Path(grant["endpoint"]).exists(), "the socket to go")
            check(not (h.TEMPORARY / "runs").exists(), "the base was left")
            h.wait_until(lambda: gone(tcp["endpoint"]), "the TCP listener to close")
            equal(admin.bad(503, "ShuttingDown", "POST", "/v1/grants", {"listener": {"transport": "unix"}}),
                  "The broker is shutting down")
            equal(h.done(c.until_terminal())["text"], "one two")
            admin.end(grant)  # also now
            h.failure(last.until_terminal(), "Cancelled")
        equal(broker.wait(), 0)


@bound(20)
def test_stop_with_grants():
    for second in (False, True):
        with admin_broker(broker={"workers": 3, "drain_timeout": 0.2}) as broker:
            admin = Admin(broker)
            grants = [admin.grant(("unix", "tcp")[i % 2]) for i in range(10)]
            clients = [client(g) for g in grants]
            for c in clients:
                c.chat(SLOW)
            h.wait_until(lambda: sum(g["inflight"] for g in admin.grants()) == 10, "in flight")
            broker.signal(signal.SIGTERM)
            if second:
                broker.signal(signal.SIGTERM)
            for c in clients:
                if not second:
                    h.failure(c.until_terminal(), "ShuttingDown")
                c.close()
            equal(broker.wait(), 0)
            check(not (h.TEMPORARY / "runs").exists(), "the base was left")


# ---- events -------------------------------------------------------------------------------------------------


@bound(20)
def test_events_name_their_run():
    file = h.TEMPORARY / "events.jsonl"
    with admin_broker(tcp=False, args=("--events", str(file))) as broker:
        admin = Admin(broker)
        grant = admin.grant(run="run \"7\"", name="seven")
        relay = admin.grant("tcp", {"relay": True})
        with client(grant) as c, client(relay) as r, broker.client() as s:
            for who in (c, r, s):
                equal(who.request("events.emit", {"event": {"event_type": "log"}})[-1]["data"], {"ok": True})
            for bad in ({"event": "text"}, {"event": [1]}, {}):
                equal(r.request("events.emit", bad)[-1]["data"], {"ok": True})
                h.failure(c.request("events.emit", bad), "BadRequest", message="params.event must be an object")
                h.failure(s.request("events.emit", bad), "BadRequest", message="params.event must be an object")
        equal(admin.show(relay)["events_dropped"], 3)
        equal(admin.show(grant)["events_dropped"], 0)
        broker.stop()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    equal([(line.get("run"), line["grant"]) for line in lines],
          [('run "7"', "seven"), (relay["id"], relay["id"]), (None, "all")])
    equal(list(lines[0]), ["seq", "time", "run", "grant", "type", "event"])
