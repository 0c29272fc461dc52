"""tactus-brokerctl for operators: status, grants, usage, reload, drain, for people and with --json."""
import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import threading

import harness as h
from admin import TOKEN, Admin, admin_broker
from harness import Rows, bound, check, done, equal

PROGRAM = h.BUILD / "tactus-brokerctl"
EX_IOERR, EX_TEMPFAIL, EX_PROTOCOL, EX_NOPERM = 74, 75, 76, 77


def ctl(admin: Admin | None, *args, env: dict | None = None, **more):
    address = {} if admin is None else {"TACTUS_BROKER_ADMIN": admin.url}
    return h.run([PROGRAM, *args], env={"PATH": os.environ["PATH"], "TERM": "xterm", **address, **(env or {})}, **more)


def good(admin: Admin | None, *args, **more) -> str:
    result = ctl(admin, *args, **more)
    equal((result.returncode, result.stderr), (0, ""), " ".join(map(str, args)))
    return result.stdout


def bad(code: int, admin: Admin | None, *args, **more) -> str:
    """What it says, in one line."""
    result = ctl(admin, *args, **more)
    equal((result.returncode, result.stdout), (code, ""), f"{args}: {result.stderr}")
    check(result.stderr.startswith("tactus-brokerctl: ") and result.stderr.count("\n") == 1, result.stderr)
    return result.stderr


def table(text: str) -> list[list[str]]:
    """Its rows, cells without spaces in them."""
    return [line.split() for line in text.splitlines()]


def operated(**more):
    path = h.TEMPORARY / f"usage-{next(h.NUMBERS)}.db"
    prices = h.TEMPORARY / f"prices-{next(h.NUMBERS)}.yml"
    prices.write_text(json.dumps({"prices": [{"model": "builtin/tokens*", "input": 2, "output": 10}]}))
    return admin_broker(usage={"database": str(path)}, prices={"file": str(prices)}, **more)


@bound(40)
def test_status():
    with operated() as broker:
        admin = Admin(broker)
        lines = dict(line.split(maxsplit=1) for line in good(admin, "status").splitlines())
        equal(list(lines), ["version", "state", "workers", "connections", "inflight", "config", "providers", "ledger"])
        check(lines["state"].startswith("running, up "), lines["state"])
        check(lines["config"].startswith("generation 1, loaded 20"), lines["config"])
        check("failing" not in lines["ledger"] and "0 lost" in lines["ledger"], lines["ledger"])
        got = json.loads(good(admin, "--json", "status"))
        equal((got["state"], got["config"]["generation"], list(got)), ("running", 1, list(admin.good(200, "GET", "/v1/status"))))


@bound(40)
def test_addresses_and_tokens():
    rows = Rows()
    with operated() as broker:
        unix, tcp = Admin(broker), Admin(broker, unix=False)
        path = unix.url.removeprefix("http+unix://")
        bare = tcp.url.rstrip("/")
        for name, args, env in [("path", ("--admin", path), {}), ("unix", ("--admin", "unix://" + path), {}),
                                ("http+unix", ("--admin", unix.url), {}), ("after the command", None, {}),
                                ("fragment", ("--admin", f"{bare}/#token={TOKEN}"), {}), ("environment", ("--admin", bare), {"TACTUS_BROKER_ADMIN_TOKEN": TOKEN}),
                                ("the URL's token first", ("--admin", f"{bare}#token={TOKEN}"), {"TACTUS_BROKER_ADMIN_TOKEN": "wrong"})]:
            with rows(name):
                argv = ("status", "--admin", path) if args is None else (*args, "status")
                check("running" in good(None, *argv, env=env), "no status")
        for name, url, env in [("no token", bare, {}), ("wrong", bare, {"TACTUS_BROKER_ADMIN_TOKEN": TOKEN[:-1]}),
                               ("wrong in the URL", f"{bare}/#token={TOKEN}x", {"TACTUS_BROKER_ADMIN_TOKEN": TOKEN})]:
            with rows(name):
                said = bad(EX_NOPERM, None, "status", env={"TACTUS_BROKER_ADMIN": url, **env})
                check("status 401" in said and TOKEN[:-1] not in said, said)
        with rows("wrong, as JSON"):
            result = ctl(None, "status", "--json", "--admin", bare)
            equal((result.returncode, json.loads(result.stdout)["error"]["type"]), (EX_NOPERM, "Unauthenticated"))
        with rows("nobody there"):
            for url in (str(h.TEMPORARY / "none.sock"), "http://127.0.0.1:9", f"http://127.0.0.1:9/#token={TOKEN}"):
                said = bad(h.EX_UNAVAILABLE, None, "--admin", url, "status")
                check(TOKEN not in said and url.split("/#")[0] in said, said)
        with rows("a broker's other door"):
            result = ctl(None, "--admin", broker.endpoint("unix"), "--timeout", "5", "status")
            check(result.returncode not in (0, h.EX_USAGE), str(result))
    rows.close()


@bound(40)
def test_grants():
    rows = Rows()
    with operated() as broker:
        admin = Admin(broker)
        with rows("made, shown, used, revoked"):
            made = json.loads(good(admin, "grants", "create", "--run", "nightly", "--ttl", "600", "--models", "builtin/*,x/y", "--tools", "host.*",
                                   "--rpm", "600", "--tpm", "100000", "--budget-usd", "0.000000001", "--budget-tokens", "5000", "--max-inflight", "4",
                                   "--listener", "unix", "--json"))
            kept = admin.show(made)
            equal({k: kept[k] for k in ("run", "transport", "models", "tools", "rpm", "tpm", "budget_usd", "budget_tokens", "max_inflight")},
                  {"run": "nightly", "transport": "unix", "models": ["builtin/*", "x/y"], "tools": ["host.*"], "rpm": 600, "tpm": 100000,
                   "budget_usd": 1e-9, "budget_tokens": 5000, "max_inflight": 4})
            with h.Client(made["endpoint"]) as c:
                c.ping()
                shown = good(admin, "grants")
                row = next(line for line in shown.splitlines() if line.startswith(made["id"]))
                for word in ("nightly", "builtin/*, x/y", "600 rpm, 100000 tpm, 4 at once", "5000 tokens", "1 request", kept["expires_at"][:16]):
                    check(word in row, f"no {word} in {row}")
                equal(table(shown)[0], ["ID", "RUN", "MODELS", "LIMITS", "USED", "INFLIGHT", "EXPIRES"])
                equal(json.loads(good(admin, "grants", "--json")), admin.good(200, "GET", "/v1/grants"))
                equal(good(admin, "grants", "revoke", made["id"]), f"revoked: {made['id']}\n")
                c.closed()
            check(made["id"] not in good(admin, "grants"), "still there")
        with rows("for people"):
            lines = dict(line.split(maxsplit=1) for line in good(admin, "grants", "create", "--listener", "tcp").splitlines())
            equal(list(lines), ["id", "run", "token", "endpoint", "expires_at"])
            check(lines["endpoint"].startswith("tcp://127.0.0.1:"), lines["endpoint"])
            equal(good(admin, "grants", "revoke", "--json", lines["id"]), "")
        for name, args, code, word in [("unknown", ("revoke", "nope"), h.EX_DATAERR, "there is no such grant"),
                                       ("of the configuration", ("revoke", admin.good(200, "GET", "/v1/grants")[0]["id"]), h.EX_DATAERR, "configuration"),
                                       ("a path", ("revoke", "../status"), h.EX_DATAERR, "404"),
                                       ("query", ("revoke", "a?b#c"), h.EX_DATAERR, "there is no such grant"),
                                       ("out of range", ("create", "--ttl", "1e9"), h.EX_DATAERR, "ttl must be"),
                                       ("empty pattern", ("create", "--models", "a,,b"), h.EX_DATAERR, "models must be")]:
            with rows(name):
                check(word in bad(code, admin, "grants", *args), word)
        check(TOKEN not in broker.stderr(), "the token in the log")
    rows.close()


@bound(30)
def test_usage():
    with operated() as broker:
        admin = Admin(broker)
        with broker.client("unix") as c:
            done(c.answer("builtin/tokens-10", content="one two three"))
            done(c.answer("builtin/echo", content="one two"))
            c.answer("builtin/cut", content="a b c d")
        h.wait_until(lambda: json.loads(good(admin, "usage", "--json"))[0]["requests"] == 3, "the ledger")
        rows = table(good(admin, "usage", "--by", "model"))
        equal(rows, [["MODEL", "REQUESTS", "ERRORS", "INPUT", "OUTPUT", "CACHED", "USD"],
                     ["builtin/cut", "1", "1", *rows[1][3:5], "0", "-"],
                     ["builtin/echo", "1", "0", *rows[2][3:5], "0", "-"],
                     ["builtin/tokens-10", "1", "0", "3", "10", "0", "0.000106"]])
        check(rows[1][3].startswith("~") and rows[1][4].startswith("~") and not rows[2][3].startswith("~"), str(rows))
        total = table(good(admin, "usage"))
        equal((total[0][-2:], total[1][-2], total[1][-1]), (["USD", "UNPRICED"], "~0.000106", "2"))
        equal(len(table(good(admin, "usage", "--by", "day,run,grant,model"))[0]), 4 + 6)
        equal(good(admin, "usage", "--by", "day", "--since", "2099-01-01"), "no requests\n")
        equal(good(admin, "usage", "--by", "day", "--until", "2001-01-01T00:00:00Z"), "no requests\n")
        equal(json.loads(good(admin, "usage", "--json", "--by", "run")), admin.good(200, "GET", "/v1/usage?by=run"))
    with admin_broker() as broker:
        check("no ledger is kept" in bad(h.EX_DATAERR, Admin(broker), "usage"), "why")


@bound(40)
def test_reload_and_drain():
    with operated() as broker:
        admin = Admin(broker)
        equal(good(admin, "reload"), "reloaded: generation 2, grants unchanged\n")
        equal(json.loads(good(admin, "reload", "--json"))["generation"], 3)
        path = next(arg for arg in map(str, broker.argv) if arg.endswith((".yml", ".yaml", ".json")))
        with open(path) as f:
            text = f.read()
        config = json.loads(text)
        config["grants"].append({"name": "more", "models": [], "tools": []})
        with open(path, "w") as f:
            f.write(json.dumps(config))
        equal(good(admin, "reload"), "reloaded: generation 4, grants +more\n")
        with open(path, "w") as f:
            f.write(text)
        equal(good(admin, "reload"), "reloaded: generation 5, grants -more\n")
        with open(path, "w") as f:
            f.write(text[:-1] + ',"oops":1}')
        check("oops" in bad(h.EX_CONFIG, admin, "reload"), "the reason")
        result = ctl(admin, "reload", "--json")
        equal((result.returncode, json.loads(result.stdout)["error"]["type"]), (h.EX_CONFIG, "Unprocessable"))
        with broker.client("unix") as c:
            c.chat("builtin/slow-100", content="a b c d e f g h")
            events = [c.event()]
            check(good(admin, "drain").startswith("draining: 1 in flight"), "what it says")
            result = ctl(admin, "status")
            check(result.returncode == h.EX_UNAVAILABLE or "draining" in result.stdout, str(result))
            equal(done(events + c.until_terminal())["text"], "a b c d e f g h")
        h.wait_until(lambda: broker.process.poll() is not None, "the end")
        equal(broker.process.returncode, 0)
        bad(h.EX_UNAVAILABLE, admin, "status")


@bound(30)
def test_wrong_usage():
    rows = Rows()
    for args in [("status", "x"), ("reload", "x"), ("drain", "x"), ("usage", "x"), ("grants", "x"), ("grants", "revoke"), ("grants", "revoke", ""),
                 ("grants", "revoke", "a", "b"), ("grants", "create", "x"), ("grants", "--rpm", "5"), ("grants", "revoke", "a", "--run", "x"),
                 ("grants", "create", "--rpm", "many"), ("grants", "create", "--budget-usd", "1,2"), ("grants", "create", "--ttl", '1,"x":2'),
                 ("grants", "create", "--listener", "smoke"), ("grants", "create", "--colour", "x"), ("usage", "--by", "colour"), ("usage", "--by", ""),
                 ("usage", "--by", "run,"), ("usage", "--since", "yesterday"), ("usage", "--until", "2026-02-30"), ("usage", "--since"),
                 ("status", "--endpoint", "/x"), ("status", "--token", "x"), ("chat", "--admin", "/x", "hi"), ("--admin", "ftp://x", "status"),
                 ("--admin", "relative", "status"), ("--timeout", "0", "status")]:
        with rows(" ".join(args)):
            bad(h.EX_USAGE, None, *args, env={"TACTUS_BROKER_ADMIN": "/nowhere"})
    for command in ("status", "grants", "usage", "reload", "drain"):
        with rows(f"{command} --help"):
            text = good(None, command, "--help")
            for word in (f"Usage: tactus-brokerctl {command}", "Example", "--admin URL", "--json"):
                check(word in text, f"no {word}")
            check(max(map(len, text.splitlines())) <= 90, "a long line")
            check(f"  {command} " in good(None, "--help"), "not in the program's help")
    rows.close()


@contextlib.contextmanager
def server(answer: bytes | None):
    """Says `answer` to whoever asks, whatever it is; None: nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    c, _ = listening.accept()
                    with c:
                        while b"\r\n\r\n" not in c.recv(65536, socket.MSG_PEEK):
                            pass
                        c.recv(65536)
                        if answer is None:
                            c.recv(1)
                        else:
                            c.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def http(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@bound(60)
def test_what_is_no_broker():
    rows = Rows()
    for name, answer, code, word in [
            ("no JSON", http("200 OK", b"<html>"), EX_PROTOCOL, "not a broker's"), ("no body", http("200 OK", b""), EX_PROTOCOL, "not a broker's"),
            ("another's JSON", http("200 OK", b'{"a":1}'), EX_PROTOCOL, "not a broker's"), ("a list", http("200 OK", b"[]"), EX_PROTOCOL, "not a broker's"),
            ("204", http("204 No Content", b""), EX_PROTOCOL, "not a broker's"), ("redirect", http("302 Found", b""), EX_PROTOCOL, "status 302"),
            ("404 of another", http("404 Not Found", b"nothing\x1b[2J\nhere"), h.EX_DATAERR, "nothing"),
            ("500", http("500 Oops", b'{"error":{"type":"InternalServerError\xc2\x9b","message":"a\\u001b[2Jb"}}'), h.EX_UNAVAILABLE, "[2Jb (status 500)"),
            ("503, draining", http("503 x", b'{"error":{"type":"ShuttingDown","message":"m"}}'), EX_TEMPFAIL, "ShuttingDown: m"),
            ("type of a wrong type", http("429 x", b'{"error":{"type":7,"message":["m"]}}'), EX_TEMPFAIL, "status 429"),
            ("no HTTP", b"hello\r\n\r\n", h.EX_UNAVAILABLE, "http://127.0.0.1"), ("closed", b"", h.EX_UNAVAILABLE, "http://127.0.0.1"),
            ("cut", http("200 OK", b"{" * 90)[:-40], h.EX_UNAVAILABLE, "http://127.0.0.1"),
            ("too long", http("200 OK", b" " * (17 << 20)), EX_PROTOCOL, "over 16777216 bytes")]:
        with rows(name), server(answer) as url:
            said = bad(code, None, "--admin", url, "status")
            check(word in said and "\x1b" not in said and "\x9b" not in said, repr(said))
    with rows("silent"), server(None) as url:
        bad(EX_TEMPFAIL, None, "--admin", url, "--timeout", "0.3", "status")
    for number in (signal.SIGINT, signal.SIGTERM):
        with rows(f"interrupted by {number}"), server(None) as url:
            process = h.spawn([PROGRAM, "--admin", url, "status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            h.wait_until(lambda: any(name.startswith("socket:") for name in h.open_files(process.pid)), "its connection")
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
            check(process.returncode in (128 + number, -number), f"{process.returncode} {err!r}")
            equal((out, err), (b"", b""))
    with rows("output that is full"), operated() as broker, open("/dev/full", "w") as full:
        process = h.spawn([PROGRAM, "status"], stdout=full, stderr=subprocess.PIPE, env={"TACTUS_BROKER_ADMIN": Admin(broker).url})
        equal((b"cannot write" in process.communicate(timeout=20)[1], process.returncode), (True, EX_IOERR))
    rows.close()


def on_terminal(url: str, *args) -> bytes:
    """What a person sees."""
    ours, theirs = pty.openpty()
    try:
        process = h.spawn([PROGRAM, *args], stdout=theirs, stderr=theirs, env={"TERM": "xterm", "TACTUS_BROKER_ADMIN": url})
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while data := os.read(ours, 65536):
                seen += data
        process.wait(20)
        return seen
    finally:
        os.close(ours)


@bound(30)
def test_names_that_steer_a_terminal_are_refused():
    """C0, and C1, which terminals obey too; in names of runs and grants, and in patterns."""
    rows = Rows()
    with operated() as broker:
        admin = Admin(broker)
        for name in ("a\x1b[2Jb", "a\x7f", "evil\x9b2J", "\x9d0;title\x9c", "\x80", "\x9f"):
            with rows(repr(name)):
                for key, value in (("run", name), ("name", name), ("models", [name])):
                    check(f"{key} must be" in admin.bad(400, "BadRequest", "POST", "/v1/grants", {key: value}), key)
                check("run must be" in bad(h.EX_DATAERR, admin, "grants", "create", "--run", name), "brokerctl")
        for body in (b'{"run":"a\x9b"}', b'{"run":"a\xc3"}', b'{"run":"\\ud800"}'):
            with rows(repr(body)):
                admin.bad(400, "BadRequest", "POST", "/v1/grants", body)
        equal(admin.grants(), [], "grants that were made")
        for seen in (on_terminal(admin.url, "grants", "revoke", "a\x9b2J"), on_terminal(admin.url, "grants", "create", "--run", "a\x9b2J")):
            check(b"\xc2\x9b" not in seen and seen, repr(seen))
    rows.close()


@bound(30)
def test_remote_text_cannot_steer_a_terminal():
    """Whatever a server that is no broker of ours says."""
    rows = Rows()
    name = "evil\x9b2J\x9d0;title\x9c\x1b[2J"
    clean = "evil\ufffd2J\ufffd0;title\ufffd\ufffd[2J"
    grant = {"id": name, "name": name, "run": name, "transport": "unix", "endpoint": name, "models": [name], "tools": [name], "used": {"requests": 1},
             "expires_at": name, "token": name}
    usage = [{"model": name, "requests": 1, "errors": 0, "input_tokens": 1, "output_tokens": 1}]
    report = {"generation": 2, "grants": 1, "providers": 1, "grants_added": [name], "grants_removed": [name]}
    error = {"error": {"type": "InternalServerError" + name, "message": name}}
    for args, status, answer in ((("grants",), "200 OK", [grant]), (("grants", "create"), "201 Created", grant), (("usage", "--by", "model"), "200 OK", usage),
                                 (("reload",), "200 OK", report), (("status",), "500 Oops", error), (("reload",), "422 x", error)):
        with rows(f"{args} {status}"), server(http(status, json.dumps(answer, ensure_ascii=False).encode())) as url:
            process = ctl(None, *args, env={"TACTUS_BROKER_ADMIN": url})
            bold = on_terminal(url, *args).replace(b"\x1b[1m", b"").replace(b"\x1b[0m", b"")  # which is our own
            for seen in (bold, process.stdout.encode() + process.stderr.encode()):
                check(b"\x1b" not in seen and b"\xc2\x9b" not in seen and b"\xc2\x9d" not in seen and clean.encode() in seen, repr(seen))
    with rows("--json"), server(http("200 OK", json.dumps([grant], ensure_ascii=False).encode())) as url:
        check(b"\xc2\x9b" not in on_terminal(url, "grants", "--json"), "raw JSON on a terminal")
        check("evil\x9b2J" in good(None, "grants", "--json", env={"TACTUS_BROKER_ADMIN": url}), "into a pipe every byte goes as it came")
    rows.close()
