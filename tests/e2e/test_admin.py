"""The admin API: who may call, how a call may look, secrets' hashes, its configuration."""
import hashlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import time

import harness as h
from admin import TOKEN, Admin, admin_broker, as_nobody, connection
from harness import Rows, bound, check, equal
from test_dev import dev_broker

GRANTS = "/v1/grants"


# ---- who may call -------------------------------------------------------------------------------------------


@bound(20)
def test_health_needs_nothing():
    with admin_broker() as broker:
        for unix in (True, False):
            equal(Admin(broker, unix).good(200, "GET", "/healthz"), {"status": "ok"})


@bound(20)
def test_token_over_tcp():
    rows = Rows()
    with admin_broker() as broker:
        admin = Admin(broker, unix=False, token=TOKEN)
        equal(admin.grants(), [])
        for name, header in {"none": None, "empty": "", "wrong": "Bearer x", "cut": f"Bearer {TOKEN[:-1]}",
                             "longer": f"Bearer {TOKEN}x", "other scheme": f"Basic {TOKEN}", "bare": TOKEN}.items():
            for method, path in (("GET", GRANTS), ("POST", GRANTS), ("GET", "/v1/nothing"), ("PUT", "/healthz"),
                                 ("DELETE", "/v1/grants/x"), ("POST", "/v1/secrets/match")):
                with rows(f"{name}: {method} {path}"):
                    r = admin.call(method, path, headers={"Authorization": header})
                    equal(r.status, 401)
                    equal(r.headers["WWW-Authenticate"], "Bearer")
                    equal(r.json["error"]["type"], "Unauthenticated")
        rows.close()
        equal(Admin(broker).grants(), [], "the socket needs no token")


@bound(20)
def test_pages_cannot_get_here():
    """A page on another name, rebound to this address, or one that makes a browser send what it has."""
    rows = Rows()
    with admin_broker() as broker:
        admin = Admin(broker, unix=False, token=TOKEN)
        port = admin.url.rsplit(":", 1)[1].split("/")[0]
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "localhost", f"[::1]:{port}", "localhost:9"):
            with rows(host):
                equal(admin.call("GET", GRANTS, headers={"Host": host}).status, 200)
        for path in (GRANTS, "/healthz"):
            for host in ("evil.example", f"evil.example:{port}", "10.0.0.1", f"localhost.evil.example:{port}"):
                with rows(f"{host} {path}"):
                    admin.bad(403, "Forbidden", "GET", path, headers={"Host": host})
            for origin in ("http://evil.example", "null", f"https://localhost:{port}", "http://localhost:1"):
                with rows(f"{origin} {path}"):
                    admin.bad(403, "Forbidden", "GET", path, headers={"Host": f"localhost:{port}", "Origin": origin})
        with rows("own page"):
            equal(admin.call("GET", GRANTS, headers={"Host": f"localhost:{port}",
                                                     "Origin": f"http://localhost:{port}"}).status, 200)
        with rows("no host"):
            with h.connect(f"tcp://127.0.0.1:{port}") as s:
                s.sendall(f"GET {GRANTS} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
                check(s.recv(100).startswith(b"HTTP/1.1 400 "), "no 400 without Host")
        rows.close()


def status_for_nobody(path: str, what: str) -> str:
    """The status that another user gets there; "refused" when it cannot even connect."""
    def ask() -> str:
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
        except PermissionError:
            return "refused"
        s.sendall(f"GET {what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return s.recv(100).split()[1].decode()
    return as_nobody(ask)


@bound(20)
def test_other_users():
    """They cannot connect; if the mode let them, they would be told."""
    if os.geteuid() != 0:
        raise h.Skip("not root: cannot become another user")
    with admin_broker() as broker:
        path = Admin(broker).url.removeprefix("http+unix://")
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of the socket")
        for directory in [p for p in pathlib.Path(path).parents if p.is_relative_to(h.TEMPORARY)]:
            directory.chmod(0o711)
        equal(status_for_nobody(path, GRANTS), "refused")
        os.chmod(path, 0o666)
        equal(status_for_nobody(path, GRANTS), "403")
        equal(status_for_nobody(path, "/healthz"), "200")


# ---- how a call may look ------------------------------------------------------------------------------------


@bound(20)
def test_paths_and_methods():
    rows = Rows()
    with admin_broker() as broker:
        admin = Admin(broker)
        for path in ("/", "/v1", "/v1/grants/", "/v1/grants/a/b", "/v1/grant", "/healthz/", "//v1/grants",
                     "/v1/grants%00", "/V1/grants"):
            with rows(path):
                admin.bad(404, "NotFound", "GET", path)
        for method, path, allowed in (("PUT", GRANTS, "POST, GET"), ("DELETE", GRANTS, "POST, GET"),
                                      ("POST", "/healthz", "GET"), ("GET", "/v1/secrets/match", "POST"),
                                      ("POST", "/v1/grants/x", "GET, PATCH, DELETE"), ("OPTIONS", GRANTS, "POST, GET")):
            with rows(f"{method} {path}"):
                admin.bad(405, "MethodNotAllowed", method, path)
                equal(admin.call(method, path).headers["Allow"], allowed)
        for method in ("GET", "PATCH", "DELETE"):
            with rows(f"{method} of an unknown grant"):
                admin.bad(404, "NotFound", method, "/v1/grants/abcdefghijklmnopqrstuvwxyz", {})
        rows.close()


@bound(30)
def test_bodies():
    rows = Rows()
    big = b'{"x":"' + b"y" * (1 << 20) + b'"}'
    with admin_broker() as broker:
        admin = Admin(broker)
        for name, body in {"nothing": b"", "no JSON": b"{", "a list": b"[]", "text behind": b"{} {}",
                           "no UTF-8": b'{"run":"\xff"}', "twice": b'{"run":"a","run":"b"}'}.items():
            with rows(name):
                check("the body is no valid JSON object" in admin.bad(400, "BadRequest", "POST", GRANTS, body), "message")
        for type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
            with rows(type):
                admin.bad(415, "UnsupportedMediaType", "POST", GRANTS, b"{}", {"Content-Type": type})
        for type in ("application/json", "Application/JSON; charset=utf-8", None):
            with rows(f"{type} is good"):
                equal(admin.call("POST", GRANTS, b"{}", {"Content-Type": type}).status, 201)
        for unix in (True, False):
            with rows(f"too large, unix {unix}"):
                Admin(broker, unix, TOKEN).bad(413, "MessageTooLarge", "POST", GRANTS, big)
            with rows(f"too large and unknown, unix {unix}"):
                equal(Admin(broker, unix, "x").call("POST", GRANTS, big).status, 413 if unix else 401)
        with rows("far too large"):
            c = connection(admin.url)
            c.putrequest("POST", GRANTS)
            c.putheader("Content-Length", "1000000000000")
            c.endheaders()
            equal(c.getresponse().status, 413)
            c.close()
        with rows("chunked"):
            r = admin.call("POST", GRANTS, iter_body([b'{"listener":', b'{"transport":"unix"}}']),
                           {"Transfer-Encoding": "chunked"})
            equal(r.status, 201)
        rows.close()
        equal(admin.good(200, "GET", "/healthz"), {"status": "ok"})


def iter_body(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


@bound(30)
def test_many_calls_on_one_connection():
    with admin_broker() as broker:
        c = connection(Admin(broker).url)
        for i in range(300):
            c.request("POST" if i % 3 else "GET", GRANTS, b"{" if i % 3 else None)
            r = c.getresponse()
            r.read()
            equal(r.status, 400 if i % 3 else 200)
        c.close()


@bound(30)
def test_idle_connections_wake_nobody():
    with admin_broker(broker={"workers": 1}) as broker:
        admin = Admin(broker)
        kept = [connection(admin.url) for _ in range(20)]
        for c in kept:
            c.request("GET", "/healthz")
            c.getresponse().read()

        def switches() -> int:
            status = pathlib.Path(f"/proc/{broker.pid}/status").read_text()
            return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

        time.sleep(0.2)
        before = switches()
        time.sleep(0.5)
        woken = switches() - before
        for c in kept:
            c.close()
        check(woken <= 5, f"woken {woken} times in half a second")


@bound(40)
def test_too_many_connections():
    with admin_broker() as broker:
        admin = Admin(broker)
        path = admin.url.removeprefix("http+unix://")
        base = broker.descriptors()
        kept = [h.connect(path) for _ in range(600)]
        with broker.client() as c:
            c.ping()  # clients are served as before
        for s in kept:
            s.close()
        h.wait_until(lambda: broker.descriptors() <= base + 1, "connections to go")
        equal(admin.good(200, "GET", "/healthz"), {"status": "ok"})


# ---- secrets ------------------------------------------------------------------------------------------------


@bound(20)
def test_match():
    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    provider = {"name": "openai", "type": "openai", "base_url": "http://127.0.0.1:1/v1", "keys": [{"env": "OPENAI_API_KEY"}]}
    with admin_broker(provider) as broker:
        admin = Admin(broker)

        def match(*hashes: str) -> list:
            reply = admin.good(200, "POST", "/v1/secrets/match", {"sha256": list(hashes)})
            equal(list(reply), ["match"])
            return reply["match"]

        equal(match(), [])
        equal(match(sha("something else")), [])
        equal(match(sha("x"), sha(h.KEY), sha(TOKEN), sha(h.KEY + "x")), [sha(h.KEY), sha(TOKEN)])
        equal(len(match(*[sha(str(i)) for i in range(9999)], sha(h.KEY))), 1)
        for body in ({}, {"sha256": "x"}, {"sha256": ["x"]}, {"sha256": [sha("x")] * 10001}, {"sha256": [1]}):
            admin.bad(400, "BadRequest", "POST", "/v1/secrets/match", body)
        text = broker.stdout() + broker.stderr()
        check(h.KEY not in text and TOKEN not in text, "a secret in what the broker said")
        for secret in (h.KEY, TOKEN):
            check(secret.encode() not in pathlib.Path(f"/proc/{broker.pid}/environ").read_bytes(), "secret in environ")


# ---- configuration ------------------------------------------------------------------------------------------


def start(admin: dict, env: dict | None = None) -> subprocess.CompletedProcess:
    file = h.TEMPORARY / f"admin-{next(h.NUMBERS)}.yml"
    config = h.configuration()
    file.write_text(json.dumps({**config, "admin": admin}, indent=1))
    return h.run([h.BUILD / "tactus-broker", "--config", file], env={**os.environ, **(env or {})})


@bound(30)
def test_configuration():
    rows = Rows()
    unix = f"unix://{h.TEMPORARY}/a.sock"
    open_file = h.TEMPORARY / "open-token"
    open_file.write_text(TOKEN)
    open_file.chmod(0o644)
    for name, admin, message in (
            ("no token", {"listen": [unix, "tcp://127.0.0.1:0"]}, "admin.token: is missing"),
            ("no listen", {}, "admin.listen: is missing"),
            ("empty listen", {"listen": []}, "admin.listen: has 0 items"),
            ("any address", {"listen": ["tcp://0.0.0.0:0"], "token": {"env": "X"}}, "admin.listen: has an address that others"),
            ("TLS", {"listen": ["tls://127.0.0.1:0"], "token": {"env": "X"}}, "admin.listen: has a tls:// URL"),
            ("unset token", {"listen": [unix], "token": {"env": "NOT_SET"}}, "admin.token: secret from variable NOT_SET"),
            ("open token", {"listen": [unix], "token": {"file": str(open_file)}}, "is open to others"),
            ("unknown key", {"listen": [unix], "tokn": 1}, "admin.tokn: is an unknown key"),
            ("no such directory", {"listen": ["unix:///no/such/a.sock"]}, "cannot listen on unix:///no/such/a.sock")):
        with rows(name):
            done = start(admin)
            equal(done.returncode, h.EX_CONFIG, done.stderr)
            check(message in done.stderr, f"{message!r} is not in {done.stderr!r}")
            check(TOKEN not in done.stderr, "the token")
    rows.close()


@bound(20)
def test_socket_goes_with_the_broker():
    with admin_broker() as broker:
        path = pathlib.Path(Admin(broker).url.removeprefix("http+unix://"))
        check(path.is_socket(), "no socket")
        broker.stop()
        check(not path.exists(), "the socket was left")


@bound(20)
def test_stop_while_calls_are_under_way():
    with admin_broker() as broker:
        admin = Admin(broker)
        kept = [h.connect(admin.url.removeprefix("http+unix://")) for _ in range(3)]
        kept[1].sendall(b"GET / HT")
        kept[2].sendall(b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        broker.stop()
        for s in kept:
            with s:
                equal(s.recv(100), b"")


@bound(20)
def test_dev():
    """Two lines between the endpoints and the CA file; the token is fresh, and opens."""
    tokens = set()
    for _ in range(2):
        with dev_broker() as broker:
            unix, tcp = broker.endpoints[3:5]
            check(unix.startswith("http+unix:///") and unix.endswith("/admin.sock"), unix)
            address, token = tcp.split("/#token=")
            check(address.startswith("http://127.0.0.1:"), tcp)
            equal(len(token), 64)
            tokens.add(token)
            admin = Admin(broker, unix=False, token=token)
            equal(admin.grants(), [])
            grant = admin.grant("unix")
            directory = pathlib.Path(broker.endpoints[-1]).parent
            check(grant["endpoint"].startswith(f"{directory}/runs/"), grant["endpoint"])
            tls = admin.grant("tls")
            equal(tls["ca_file"], broker.endpoints[-1])
            check(token not in broker.stderr(), "the token is in the log")
            broker.stop()
            check(not directory.exists(), "the directory was left")
    equal(len(tokens), 2)
