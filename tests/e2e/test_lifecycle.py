"""Start, stop, drain, and being killed."""
import json
import os
import signal
import stat
import time

import harness as h
from fake_provider import FakeProvider
from harness import FRAMINGS, TRANSPORTS, Broker, Rows, bound, check, configuration, equal, openai


def draining(seconds: int, *providers, **sections):
    return Broker(configuration(*providers, transports=TRANSPORTS, broker={"drain_timeout": seconds}, **sections))


@bound(30)
def test_sigterm_in_mid_stream_ends_with_shutting_down():
    rows = Rows()
    with FakeProvider() as fake, draining(1, openai(fake)) as broker:
        clients = []
        for n, model in enumerate(["openai/slow:1000:50", "openai/silence", "openai/stall", "builtin/slow-10000", "openai/endless:100"]):
            for stream in (False, True):
                for framing in FRAMINGS:
                    client = broker.client(TRANSPORTS[n % 3], framing, keep=False)
                    client.chat(model, stream=stream)
                    if model.startswith("builtin"):
                        client.ping()  # then the chat before it was read, too
                    clients.append((f"{model} {framing} stream {stream}", client))
        check(fake.wait(lambda: len(fake.records) >= 16), "not all requests arrived")
        start = time.monotonic()
        broker.signal(signal.SIGTERM)
        for name, client in clients:
            with rows(name):
                h.failure(client.until_terminal(), "ShuttingDown")
                client.closed()
        equal(broker.wait(10), 0, "exit code")
        check(time.monotonic() - start > 0.9, "it did not wait for the streams in flight")
    rows.close()


@bound(30)
def test_sigterm_lets_streams_end():
    rows = Rows()
    with FakeProvider() as fake, draining(20, openai(fake)) as broker:
        clients = []
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                client = broker.client(transport, framing)
                client.chat("openai/slow:20:50")
                equal(client.event()["event"], "delta")
                clients.append((f"{transport} {framing}", client))
        broker.signal(signal.SIGTERM)
        for name, client in clients:
            with rows(name):
                data = client.until_terminal()[-1]
                equal(data["event"], "done", h.short(data))
                equal(data["data"]["text"], "".join(f" {n}" for n in range(20)))
        equal(broker.wait(5), 0, "exit code, at once after the last stream")
    rows.close()


@bound(30)
def test_drain_refuses_what_is_new():
    with draining(20) as broker:
        busy, other = broker.client("tcp"), broker.client("unix")
        busy.chat("builtin/slow-300", content="a b c d e f")
        busy.event()
        other.ping()
        broker.signal(signal.SIGTERM)
        time.sleep(0.2)
        for transport in TRANSPORTS:
            try:
                with broker.client(transport, timeout=2) as late:
                    late.send("tool.call", {"name": "host.ping"})
                    event = late.event()
                equal(event.get("error", {}).get("type"), "ShuttingDown", f"{transport}: {event}")
            except (OSError, EOFError):
                pass  # refused, or closed
        busy.send("tool.call", {"name": "host.ping"}, "new")
        events = busy.gather(2)
        h.failure(events["new"], "ShuttingDown")
        equal(events["a"][-1]["event"], "done")
        equal(broker.wait(5), 0, "exit code")


@bound(20)
def test_idle_connections_do_not_hold_it_up():
    with draining(30) as broker:
        clients = [broker.client(t) for t in TRANSPORTS for _ in range(5)]
        for client in clients[::2]:
            client.ping()
        start = time.monotonic()
        broker.stop()
        check(time.monotonic() - start < 3 * h.PATIENCE, "it waited for idle connections")
        for client in clients:
            client.closed()


@bound(20)
def test_second_sigterm_ends_at_once():
    with FakeProvider() as fake, draining(60, openai(fake)) as broker, broker.client() as c:
        c.chat("silence")
        check(fake.wait(lambda: fake.records), "no request")
        broker.signal(signal.SIGTERM)
        time.sleep(0.3)
        check(broker.process.poll() is None, "it did not drain")
        broker.signal(signal.SIGTERM)
        code = broker.wait(3)
        check(code >= 0 or code == -signal.SIGTERM, f"ended with {code}")


@bound(20)
def test_sigterm_without_any_client():
    for workers in (1, 4):
        with Broker(configuration(transports=TRANSPORTS, broker={"workers": workers})) as broker:
            broker.stop(5)


@bound(20)
def test_killed_and_started_again():
    """The socket file that is left behind is no obstacle."""
    with FakeProvider() as fake:
        config = configuration(openai(fake))
        with Broker(config) as broker:
            client = broker.client()
            client.chat("endless:100")
            client.event()
            broker.signal(signal.SIGKILL)
            broker.wait()
            check(fake.wait(lambda: fake.find("endless:100").closed, 5), "the provider's connection survived")
        with Broker(config) as broker, broker.client() as c:
            h.done(c.answer("text"))


@bound(20)
def test_mode_of_the_socket():
    for mode in ("0600", "0666", None):
        config = configuration(listener={"mode": mode} if mode else {})
        with Broker(config) as broker:
            equal(oct(stat.S_IMODE(os.stat(broker.endpoint("unix")).st_mode)), oct(int(mode or "0660", 8)), "mode")
            with broker.client() as c:
                c.ping()


@bound(20)
def test_several_listeners_of_a_kind():
    config = configuration(transports=("tcp", "unix", "tcp", "unix", "tls"))
    with Broker(config) as broker:
        equal(["unix" if e.startswith("/") else e[:3] for e in broker.endpoints], ["tcp", "unix", "tcp", "unix", "tls"], "order")
        equal(len(set(broker.endpoints)), 5, "different endpoints")
        for endpoint in broker.endpoints[:4]:
            with h.Client(endpoint) as c:
                c.ping()


@bound(20)
def test_listen_option():
    path = h.TEMPORARY / "more.sock"
    with Broker(configuration(), args=("--listen", f"unix://{path}", "--listen", "tcp://127.0.0.1:0"), endpoints=3) as broker:
        equal(broker.endpoints[1], str(path))
        for transport in ("unix", "tcp"):
            with broker.client(transport) as c:
                c.ping()


@bound(20)
def test_logs_are_json_lines_and_hold_no_prompt():
    marker = "an-unmistakable-prompt"
    with FakeProvider() as fake, Broker(configuration(openai(fake), log={"level": "debug", "format": "json"})) as broker:
        with broker.client() as c:
            for model in ("openai/text", "status:500", "builtin/echo"):
                c.answer(model, content=marker)
            c.send_raw(b'{"id":"a", broken ' + marker.encode() + b"\n")
            c.event()
        broker.stop()
        lines = broker.stderr().splitlines()
        check(lines, "no log")
        for line in lines:
            check(isinstance(json.loads(line), dict), line)
        check(marker not in broker.stderr(), "a prompt is in the log")
