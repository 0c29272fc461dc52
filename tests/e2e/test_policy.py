"""Who may what, and how much of it: callers, rates, budgets, the ledger."""
import contextlib
import json
import pathlib
import sqlite3
import threading
import time

import harness as h
from admin import Admin, admin_broker
from harness import Rows, bound, certificates, check, done, equal, failure, tls_context

TOKEN = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
OTHER = TOKEN[::-1]
UNKNOWN = "This listener wants a token, or a certificate, of a grant"


def tokens(**policy) -> list[dict]:
    """Two grants with tokens of the environment."""
    return [{"name": "ci", "token": {"env": "TOKEN_CI"}, "models": ["builtin/*"], "tools": ["host.*"], **policy},
            {"name": "other", "token": {"env": "TOKEN_OTHER"}, "models": [], "tools": ["host.echo"]}]


def broker_with(grants: list[dict], transports: tuple = ("tcp",), listener: dict | None = None, **sections):
    config = h.configuration(transports=transports, listener=listener, **sections)
    config["grants"] = grants
    for entry in config["listeners"]:
        if entry["auth"] == "required":
            entry.pop("grant")
        else:
            entry["grant"] = grants[0]["name"]
    listen = f"unix://{h.TEMPORARY}/admin-{next(h.NUMBERS)}.sock"
    config["admin"] = {"listen": [listen]}
    return h.Broker(config, env={"TOKEN_CI": TOKEN, "TOKEN_OTHER": OTHER}, endpoints=len(config["listeners"]) + 1)


def prices(**rows) -> dict:
    path = h.TEMPORARY / f"prices-{next(h.NUMBERS)}.yml"
    path.write_text(json.dumps({"prices": [{"model": model.replace("__", "/"), "input": i, "output": o}
                                           for model, (i, o) in rows.items()]}))
    return {"file": str(path)}


def used(broker, name: str) -> dict:
    return Admin(broker).good(200, "GET", f"/v1/grants/{name}")["used"]


# ---- who is calling ----------------------------------------------------------------------------------------


def pinged(client, token: str | None, **more) -> None:
    client.send("tool.call", {"name": "host.ping", "args": {}}, **({} if token is None else {"token": token}), **more)


@bound(30)
def test_tokens():
    rows = Rows()
    with broker_with(tokens(), ("unix", "tcp", "tls"), {"auth": "required"}) as broker:
        for transport in ("unix", "tcp", "tls"):
            for framing in ("ndjson", "length"):
                with rows(f"{transport} {framing}: known"), broker.client(transport, framing) as c:
                    for _ in range(2):
                        pinged(c, TOKEN)
                        equal(done(c.until_terminal())["result"]["ok"], True)
                    pinged(c, OTHER)  # another grant on the same connection: it has its own tools
                    failure(c.until_terminal(), "ToolNotAllowed")
                    c.send("llm.chat", {"model": "builtin/echo", "messages": []}, token=OTHER)
                    failure(c.until_terminal(), "ModelNotAllowed")
                    pinged(c, TOKEN)
                    done(c.until_terminal())
                for name, token in {"none": None, "wrong": TOKEN[:-1] + "0", "cut": TOKEN[:-1], "longer": TOKEN + "f",
                                    "empty": "", "its name": "ci", "null": 0, "a list": [TOKEN]}.items():
                    with rows(f"{transport} {framing}: {name}"), broker.client(transport, framing) as c:
                        pinged(c, token)
                        equal(failure(c.until_terminal(), "Unauthenticated")["message"], UNKNOWN)
                        c.closed()
        rows.close()
        check(TOKEN not in broker.stderr(), "a token in the log")


@bound(30)
def test_token_near_the_beginning():
    """Strangers are not listened to for long."""
    rows = Rows()
    with broker_with(tokens(), ("tcp",), {"auth": "required"}) as broker:
        body = {"id": "a", "method": "tool.call", "params": {"name": "host.echo", "args": {"x": "y" * 100000}}}
        with rows("first"), broker.client("tcp") as c:
            c.send_body(h.compact({"token": TOKEN, **body}))
            done(c.until_terminal())
        with rows("first, in pieces"), broker.client("tcp") as c:
            text = h.compact({"token": TOKEN, **body}) + b"\n"
            for at in range(0, len(text), 3000):
                c.send_raw(text[at:at + 3000])
                time.sleep(0.002)
            done(c.until_terminal())
        for name, text in {"last": h.compact({**body, "token": TOKEN}),
                           "deep": h.compact({**body, "params": {"token": TOKEN, "args": {"x": "y" * 100000}}})}.items():
            with rows(name), broker.client("tcp") as c:
                c.send_body(text)
                equal(failure([c.event()], "Unauthenticated")["message"], UNKNOWN)
                c.closed()
        with rows("no end"), broker.client("tcp") as c:
            c.send_raw(b'{"id":"a","method":"tool.call","params":{"x":"' + b"y" * 5000)
            failure([c.event()], "Unauthenticated")
            c.closed()
        with rows("no end, another's token"), broker.client("tcp") as c:
            c.send_raw(b'{"token":"' + TOKEN[::2].encode() + b'","params":{"x":"' + b"y" * 5000)
            failure([c.event()], "Unauthenticated")
            c.closed()
        with rows("no JSON"), broker.client("tcp") as c:
            c.send_raw(b"{]\n")
            failure([c.event()], "BadRequest")
            c.closed()
        rows.close()


@bound(30)
def test_ignored_where_the_listener_decides():
    with broker_with(tokens(), ("tcp",)) as broker, broker.client("tcp") as c:
        for token in (None, OTHER, "sk-anything"):
            pinged(c, token)
            done(c.until_terminal())


@bound(30)
def test_certificates():
    certs = certificates()
    names = h.run(["openssl", "x509", "-in", certs / "client.pem", "-noout", "-ext", "subjectAltName"], 10).stdout
    name = names.split("DNS:")[1].split(",")[0].strip()
    grants = [{"name": "nobody", "client_cert": {"san": "x" + name}, "models": [], "tools": []},
              {"name": "ci", "client_cert": {"san": name[:2] + "*"}, "models": [], "tools": ["host.ping"]}, *tokens()[1:]]
    with broker_with(grants, ("tls",), {"auth": "required", "client_ca": str(certs / "ca.pem")}) as broker:
        context = tls_context(certs / "ca.pem", certs / "client.pem", certs / "client.key")
        with broker.client("tls", context=context) as c:
            pinged(c, None)
            done(c.until_terminal())
            pinged(c, OTHER)  # the certificate has said who it is
            done(c.until_terminal())
    with broker_with(grants[:1] + grants[2:], ("tls",), {"auth": "required", "client_ca": str(certs / "ca.pem")}) as broker:
        context = tls_context(certs / "ca.pem", certs / "client.pem", certs / "client.key")
        with broker.client("tls", context=context) as c:  # the CA knows it, and it is no grant's
            pinged(c, None)
            failure(c.until_terminal(), "Unauthenticated")
            c.closed()


@bound(30)
def test_grant_of_a_run_by_token():
    """Without a listener of its own; gone with its end."""
    with broker_with(tokens(), ("tcp",), {"auth": "required"}) as broker:
        admin = Admin(broker)
        grant = admin.good(201, "POST", "/v1/grants", {"run": "r", "models": ["builtin/*"], "tools": ["host.ping"], "ttl": 60})
        equal(grant["endpoint"], None)
        with broker.client("tcp") as c, broker.client("tcp") as other:
            pinged(c, grant["token"])
            done(c.until_terminal())
            c.send("llm.chat", {"model": "builtin/slow-200", "stream": True, "messages": [{"role": "user", "content": "a b " * 100}]},
                   token=grant["token"])
            equal(c.event()["event"], "delta")
            pinged(other, TOKEN)
            done(other.until_terminal())
            admin.end(grant)
            failure([e for e in c.until_terminal() if e["event"] == "error"], "Cancelled")
            pinged(other, TOKEN)
            done(other.until_terminal())
            pinged(c, grant["token"], id="b")
            failure(c.until_terminal("b"), "Unauthenticated")
            c.closed()


# ---- how much of it ----------------------------------------------------------------------------------------


def burst(broker, count: int, each) -> list[dict]:
    """The last events of `count` connections that ask at the same moment."""
    gate = threading.Barrier(count)
    last: list = [None] * count

    def one(i: int) -> None:
        with broker.client("tcp") as c:
            gate.wait()
            each(c)
            last[i] = c.until_terminal()[-1]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return last


def kinds(events: list[dict]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for e in events:
        kind = "done" if e["event"] == "done" else e["error"]["type"]
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def grant_with(**limits) -> list[dict]:
    return [{"name": "g", "models": ["*"], "tools": ["*"], **limits}]


@bound(60)
def test_requests_a_minute():
    with broker_with(grant_with(rpm=30)) as broker:
        passed = kinds(burst(broker, 60, lambda c: pinged(c, None)))["done"]
        check(30 <= passed <= 32, f"{passed} of 30 passed")  # one more each two seconds
        with broker.client("tcp") as c:
            pinged(c, None)
            error = failure(c.until_terminal(), "TooManyRequests")
            check("rpm" in error["message"] and 0 < error["retry_after"] <= 2, str(error))
            time.sleep(error["retry_after"])
            pinged(c, None)
            done(c.until_terminal())
            c.send("broker.info")  # does not count
            done(c.until_terminal())
        equal(used(broker, "g")["inflight"], 0)


@bound(60)
def test_requests_at_once():
    with broker_with(grant_with(max_inflight=3)) as broker, broker.client("tcp") as c:
        for i in range(3):
            c.chat("builtin/slow-100", id=str(i), content="a b " * 50)
        pinged(c, None, id="late")
        error = next(e for e in iter(c.event, None) if e["id"] == "late")["error"]
        equal(error["type"], "TooManyRequests")
        check("max_inflight" in error["message"] and error["retry_after"] > 0, str(error))
        c.send("broker.cancel", {"id": "0"}, id="x")
        ended = set()
        while len(ended) < 2:
            e = c.event()
            ended |= {e["id"]} if e["event"] in h.TERMINAL else set()
        equal(ended, {"0", "x"})
        pinged(c, None, id="again")
        equal(next(e for e in iter(c.event, None) if e["id"] == "again")["event"], "done")


@bound(90)
def test_a_budget_for_one():
    """200 ask at once, and the money, or the tokens, suffice for one: exactly one passes."""
    rows = Rows()

    def ask(c) -> None:
        c.chat("builtin/tokens-10", content="one two three", max_tokens=100)

    message = h.compact([{"role": "user", "content": "one two three"}])
    tokens_reserved = -(-len(message) // 4) + 100
    cost = {"builtin__*": (1000000, 1000000)}  # a dollar a token
    for name, limits in (("tokens", {"budget_tokens": tokens_reserved}), ("money", {"budget_usd": tokens_reserved})):
        with rows(name), broker_with(grant_with(**limits), prices=prices(**cost)) as broker:
            answers = burst(broker, 200, ask)
            # What was reserved and not used comes back, and suffices for nobody else.
            equal(kinds(answers), {"done": 1, "BudgetExceeded": 199})
            use = used(broker, "g")
            equal((use["tokens"], use["usd"], use["reserved_tokens"], use["reserved_usd"]), (13, 13, 0, 0))
        with rows(f"{name}, one less"), broker_with(grant_with(**{k: v - 1 for k, v in limits.items()}),
                                                    prices=prices(**cost)) as broker:
            equal(kinds(burst(broker, 5, ask)), {"BudgetExceeded": 5})
    with rows("no price"), broker_with(grant_with(budget_usd=5)) as broker, broker.client("tcp") as c:
        error = failure(c.answer("builtin/echo"), "BudgetExceeded")
        check("no price is known for builtin/echo" in error["message"], error["message"])
        c.ping()  # costs nothing
    rows.close()


@bound(60)
def test_tokens_a_minute():
    with broker_with(grant_with(tpm=1000)) as broker, broker.client("tcp") as c:
        done(c.answer("builtin/tokens-10", max_tokens=900))  # 899 of them come back
        done(c.answer("builtin/tokens-10", max_tokens=900))
        done(c.answer("builtin/tokens-2000", max_tokens=900))  # more than was said: owed
        error = failure(c.answer("builtin/tokens-10", max_tokens=10), "TooManyRequests")
        check("tpm" in error["message"] and 30 < error["retry_after"] <= 120, str(error))
        c.ping()


# ---- the ledger --------------------------------------------------------------------------------------------


def ledger_rows(path: pathlib.Path) -> list[dict]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        return [dict(r) for r in db.execute("SELECT * FROM requests ORDER BY rowid")]


@bound(60)
def test_one_row_a_request():
    path = h.TEMPORARY / "usage.db"
    with broker_with(grant_with(), usage={"database": str(path)}, prices=prices(**{"builtin__tokens*": (2, 10)})) as broker:
        admin = Admin(broker)
        with broker.client("tcp") as c:
            done(c.answer("builtin/tokens-10", content="one two three"))
            done(c.answer("builtin/echo", content="one two"))
            failure(c.answer("builtin/error-500"), "InternalServerError")
            failure(c.answer("builtin/cut", content="a b c d"), "APIResponseValidationError")
            c.ping()
            c.send("events.emit", {"event": {"event_type": "log"}})
            done(c.until_terminal())
            c.chat("builtin/slow-100", content="word " * 100)
            equal(c.event()["event"], "delta")
        h.wait_until(lambda: used(broker, "g")["inflight"] == 0, "the end of the last one")
        usage = admin.good(200, "GET", "/v1/usage?by=model")
        equal([(u["model"], u["requests"], u["errors"]) for u in usage],
              [(None, 1, 0), ("builtin/cut", 1, 1), ("builtin/echo", 1, 0), ("builtin/error-500", 1, 1), ("builtin/slow-100", 1, 0),
               ("builtin/tokens-10", 1, 0)])
        by = {u["model"]: u for u in usage}
        equal((by["builtin/tokens-10"]["input_tokens"], by["builtin/tokens-10"]["output_tokens"]), (3, 10))
        check(abs(by["builtin/tokens-10"]["cost_usd"] - (3 * 2 + 10 * 10) / 1e6) < 1e-12, str(by["builtin/tokens-10"]))
        equal(by["builtin/echo"]["cost_usd"], None)
        equal(by["builtin/error-500"]["input_tokens"], 0, "a failure before the first byte costs nothing")
        equal([by[f"builtin/{m}"]["estimated"] for m in ("cut", "slow-100", "echo")], [1, 1, 0])
        check(by["builtin/slow-100"]["input_tokens"] > 100, "what was sent counts, also when the client left")
        total = admin.good(200, "GET", "/v1/usage")
        equal(len(total), 1)
        equal(total[0]["requests"], 6)
        equal(admin.good(200, "GET", "/v1/usage?since=2099-01-01&by=day"), [])
        for query, word in (("by=colour", "colour"), ("since=yesterday", "since"), ("until=2026-02-30", "until")):
            check(word in admin.bad(400, "BadRequest", "GET", f"/v1/usage?{query}"), query)


@bound(60)
def test_budgets_outlive_a_restart():
    path = h.TEMPORARY / "usage.db"
    for spent in (0, 13):
        with broker_with(grant_with(budget_tokens=200), usage={"database": str(path)}) as broker, broker.client("tcp") as c:
            equal(used(broker, "g")["tokens"], spent)
            done(c.answer("builtin/tokens-10", content="one two three", max_tokens=100))


@bound(30)
def test_no_ledger():
    with broker_with(grant_with()) as broker:
        check("usage.database" in Admin(broker).bad(404, "NotFound", "GET", "/v1/usage"), "says why")
