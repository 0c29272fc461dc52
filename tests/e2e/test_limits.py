"""Limits: how many, how long, how deep; each names itself and costs only who crossed it."""
import resource
import time

import harness as h
from fake_provider import FakeProvider
from harness import FRAMINGS, TRANSPORTS, Broker, Rows, bound, check, configuration, equal, openai


def limited(**limits):
    return Broker(configuration(transports=TRANSPORTS, limits=limits))


@bound(20)
def test_requests_in_flight_on_a_connection():
    rows = Rows()
    with limited(max_inflight_per_connection=3) as broker:
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                with rows(f"{transport} {framing}"), broker.client(transport, framing) as c:
                    for n in range(3):
                        c.chat("builtin/slow-300", str(n), stream=False)
                    c.chat("builtin/echo", "over")
                    error = h.failure([c.event()], "TooManyRequests")
                    check(error.get("retry_after", 0) > 0, f"no retry_after: {error}")
                    equal(sorted(c.gather(3)), ["0", "1", "2"])
                    h.done(c.answer("builtin/echo"))
    rows.close()


@bound(20)
def test_requests_in_flight_altogether():
    with limited(max_inflight=2) as broker:
        with broker.client() as a, broker.client("tcp") as b, broker.client("tls", "framed") as c:
            a.chat("builtin/slow-300", stream=False)
            b.chat("builtin/slow-300", stream=False)
            time.sleep(0.05)
            events = c.answer("builtin/echo")
            check(events[-1]["event"] == "error" and events[-1]["error"]["type"] in ("TooManyRequests", "Overloaded"), h.short(events))
            check(events[-1]["error"].get("retry_after", 1) > 0, h.short(events))
            h.done(a.until_terminal())
            h.done(b.until_terminal())
            h.done(c.answer("builtin/echo"))


@bound(30)
def test_connections():
    """One more is told so in its own framing; who sends nothing is closed; a place that becomes free is used."""
    rows = Rows()
    with limited(max_connections=4) as broker:
        held = [broker.client(t) for t in ("unix", "tcp", "tls", "unix")]
        for client in held:
            client.ping()
        for transport in ("unix", "tcp", "tls"):
            for framing in FRAMINGS:
                with rows(f"{transport} {framing}"), broker.client(transport, framing) as c:
                    c.send("tool.call", {"name": "host.ping"})
                    event = c.event()
                    equal((event["event"], event["error"]["type"]), ("error", "Overloaded"))
                    c.closed()
        with rows("HTTP"), broker.client("tcp") as c:
            c.send_raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            data = c.sock.recv(4096)
            check(data == b"" or data.startswith(b"HTTP/1.1 "), repr(data[:80]))
        with rows("silent"), broker.client("tcp") as c:
            start = time.monotonic()
            c.closed()
            check(time.monotonic() - start < 5 * h.PATIENCE, "closed late")
        for client in held:
            client.ping("still")
        with rows("free again"):
            held.pop().close()
            h.wait_until(lambda: served(broker), "a place to become free")
        for client in held:
            client.close()
    rows.close()


def served(broker) -> bool:
    try:
        with broker.client() as c:
            c.send("tool.call", {"name": "host.ping"})
            return c.event()["event"] == "done"
    except (OSError, EOFError):
        return False


@bound(30)
def test_many_more_connections_than_allowed():
    with limited(max_connections=10) as broker:
        held = [broker.client("tcp") for _ in range(10)]
        for client in held:
            client.ping()
        crowd = [broker.client("tcp", timeout=5) for _ in range(400)]
        for client in crowd:
            client.send("tool.call", {"name": "host.ping"})
        answers = []
        for client in crowd:
            try:
                answers.append(client.event()["error"]["type"])
            except (EOFError, OSError):
                answers.append("closed")  # beyond 256 at a time
            client.close()
        equal(set(answers) - {"Overloaded", "closed"}, set())
        check("Overloaded" in answers, "nobody was told")
        for client in held:
            client.ping("still")
            client.close()


@bound(30)
def test_slow_sender():
    """A message has request_timeout from its first byte on, however it drips."""
    rows = Rows()
    with limited(request_timeout=1) as broker:
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                for kind in ("drips", "stops", "second message"):
                    with rows(f"{transport} {framing} {kind}"), broker.client(transport, framing) as c:
                        if kind == "second message":
                            c.ping()
                        data = c.encode(h.compact({"id": "a", "method": "tool.call", "params": {"name": "host.ping"}}))
                        start = time.monotonic()
                        for n in range(10 if kind == "drips" else 1):
                            c.send_raw(data[n:n + 1] if kind == "drips" else data[:-3])
                            time.sleep(0.05)
                        c.closed()
                        took = time.monotonic() - start
                        check(0.8 < took < 4 * h.PATIENCE, f"closed after {took:.1f} s")
        with broker.client() as c:
            c.answer("builtin/slow-400", content="a b c d")  # a running request is no message that is late
            c.ping()
    rows.close()


@bound(30)
def test_endless_dribble_does_not_reset_the_time():
    with limited(request_timeout=1) as broker, broker.client("tcp") as c:
        start = time.monotonic()
        try:
            while time.monotonic() - start < 8 * h.PATIENCE:
                c.sock.sendall(b"x")
                time.sleep(0.1)
        except OSError:
            return
        raise h.Failure("a byte every 100 ms keeps a connection open for ever")


@bound(30)
def test_idle_connection():
    rows = Rows()
    with limited(idle_timeout=1) as broker:
        for transport in TRANSPORTS:
            with rows(transport), broker.client(transport) as c:
                c.ping()
                start = time.monotonic()
                c.closed()
                took = time.monotonic() - start
                check(0.8 < took < 4 * h.PATIENCE, f"closed after {took:.1f} s")
            with rows(f"{transport}: not while a request runs"), broker.client(transport) as c:
                equal(h.done(c.answer("builtin/slow-1800", stream=False))["text"], "hi")
                c.ping()
    rows.close()


@bound(30)
def test_first_byte():
    rows = Rows()
    with limited(first_byte_timeout=1, handshake_timeout=1) as broker:
        for transport in TRANSPORTS:
            with rows(transport), broker.client(transport) as c:
                start = time.monotonic()
                c.closed()
                took = time.monotonic() - start
                check(0.8 < took < 4 * h.PATIENCE, f"closed after {took:.1f} s")
        with rows("tls handshake that never begins"):
            sock = h.connect(broker.endpoint("tls"), timeout=5)
            equal(sock.recv(10), b"")
            sock.close()
        with rows("tls handshake that stops"):
            sock = h.connect(broker.endpoint("tls"), timeout=5)
            sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
            while sock.recv(1000):
                pass
            sock.close()
    rows.close()


@bound(20)
def test_depth():
    with limited(max_json_depth=16) as broker, broker.client() as c:
        def args(depth: int) -> dict:
            value: dict = {}
            for _ in range(depth):
                value = {"x": value}
            return value
        equal(c.request("tool.call", {"name": "host.echo", "args": args(8)})[0]["event"], "done")
        h.failure(c.request("tool.call", {"name": "host.echo", "args": args(20)}), "BadRequest")
        c.ping()


@bound(20)
def test_size_of_an_event():
    config = configuration(transports=TRANSPORTS, events={"max_event_bytes": 10_000})
    with Broker(config) as broker:
        for transport in TRANSPORTS:
            with broker.client(transport, "framed") as c:
                equal(c.request("events.emit", {"event": {"x": "y" * 9_000}})[0].get("data"), {"ok": True})
                error = c.request("events.emit", {"event": {"x": "y" * 11_000}})[0]
                equal((error["event"], error.get("error", {}).get("type") in ("MessageTooLarge", "BadRequest")), ("error", True), h.short(error))
                c.ping()


@bound(30)
def test_reply_limit_of_a_provider():
    with FakeProvider() as fake, Broker(configuration(openai(fake), limits={"max_reply_bytes": 1 << 20})) as broker:
        with broker.client(timeout=20) as c:
            events = c.answer("endless:10000")
            equal(events[-1]["event"], "error", "an answer without end")
            check(fake.wait(lambda: fake.find("endless:10000").closed, 5 * h.PATIENCE), "the provider did not see the end")
            h.done(c.answer("text"))


@bound(40)
def test_out_of_descriptors():
    """It stops accepting, keeps serving, and resumes."""
    config = configuration(limits={"max_connections": 1000})
    with FakeProvider() as fake:
        config["providers"].append(openai(fake))
        with Broker(config) as broker, broker.client() as served:
            used = broker.descriptors() or 40
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
            served.ping()
            crowd = []
            for _ in range(60):  # some of them wait in the backlog
                crowd.append(broker.client(timeout=2))
                crowd[-1].send("tool.call", {"name": "host.ping"})
            for n in range(20):
                served.ping(str(n))
            busy = time_of(broker)
            time.sleep(0.5)
            check(time_of(broker) - busy < 0.4 * h.PATIENCE, "the broker spins while it is out of descriptors")
            served.ping("after")
            for client in crowd[:40]:
                client.close()
            for client in crowd[40:]:
                client.sock.settimeout(10 * h.PATIENCE)
                equal(client.event()["event"], "done", "a client that had to wait")
                client.close()


def time_of(broker) -> float:
    """Processor seconds that the broker has used."""
    with open(f"/proc/{broker.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


@bound(20)
def test_an_idle_broker_does_nothing():
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker, broker.client("tls") as c:
        h.done(c.answer("openai/text"))
        time.sleep(0.3)
        before = time_of(broker)
        time.sleep(1.5)
        check(time_of(broker) - before <= 0.03 * h.PATIENCE, f"{time_of(broker) - before:.2f} s of processor time while idle")
