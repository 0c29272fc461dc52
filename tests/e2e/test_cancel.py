"""A client that goes away ends its request at the provider, in every phase; and nothing of it stays behind."""
import time

import harness as h
from fake_provider import Blackhole, FakeProvider
from harness import TRANSPORTS, Broker, Rows, bound, check, configuration, equal, openai

# A model, whether to stream, the phase in which the provider must see the close
PHASES = [("silence", True, "waiting"), ("silence", False, "waiting"), ("stall", True, "streaming"), ("stall", False, "streaming"),
          ("endless:1000", True, "streaming"), ("slow:1000:20", True, "streaming"), ("slow:1000:20", False, "waiting")]


def close(client) -> None:
    client.close()


def reset(client) -> None:
    client.reset()


def half_close(client) -> None:
    """On TCP and TLS a FIN cancels."""
    client.half_close()


def close_after_half_close(client) -> None:
    """On a Unix socket a half-close lets it finish, but the full close after it is noticed."""
    client.half_close()
    time.sleep(0.2)
    client.close()


def close_notify(client) -> None:
    client.sock.settimeout(0.05)
    try:
        client.sock.unwrap()
    except OSError:
        pass


WAYS = {"unix": [close, close_after_half_close], "tcp": [close, reset, half_close], "tls": [close, reset, half_close, close_notify]}


@bound(90)
def test_client_gone_in_every_phase():
    """BerriAI/litellm#37140, #31499, #30245; QuantumNous/new-api#4186."""
    rows = Rows()
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for go in WAYS[transport]:
                for model, stream, phase in PHASES:
                    with rows(f"{transport} {go.__name__}: {model} stream {stream}"):
                        before = len(fake.of(model))
                        client = broker.client(transport, keep=False)
                        client.chat(model, stream=stream)
                        check(fake.wait(lambda: len(fake.of(model)) > before), "the provider saw no request")
                        record = fake.find(model)
                        check(fake.wait(lambda: record.phase == phase), f"never {phase}")
                        if stream and phase == "streaming":
                            equal(client.event()["event"], "delta")
                        check(not record.closed, "closed too early")
                        go(client)
                        check(fake.wait(lambda: record.closed, 3 * h.PATIENCE), "the provider did not see the close within 3 s")
                        equal(record.closed, phase, "phase of the close")
                        client.close()
        with broker.client() as c:
            c.ping()
    rows.close()


@bound(30)
def test_client_gone_at_once():
    """Queued: the client leaves before the request can have reached the provider, or just as it does."""
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        for n in range(150):
            client = broker.client(TRANSPORTS[n % 3])
            client.chat("silence", stream=bool(n % 2))
            if n % 5 == 0:
                time.sleep(0.002)
            client.close()
        check(fake.wait(lambda: all(r.closed for r in fake.of("silence")), 5 * h.PATIENCE), "a request lives on at the provider")
        with broker.client() as c:
            h.done(c.answer("text"))


@bound(30)
def test_client_gone_while_connecting():
    for transport in TRANSPORTS:
        with Blackhole() as hole:
            entry = {"name": "openai", "type": "openai", "base_url": f"https://127.0.0.1:{hole.port}/v1", "keys": [{"env": "OPENAI_API_KEY"}]}
            with Broker(configuration(entry, transports=TRANSPORTS)) as broker:
                client = broker.client(transport)
                client.chat("x")
                check(hole.accepted.wait(5 * h.PATIENCE), "the broker did not connect")
                client.close()
                check(hole.closed.wait(3 * h.PATIENCE), f"{transport}: still connecting 3 s after the client left")


@bound(30)
def test_all_requests_of_a_connection_end_with_it():
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker:
        client = broker.client()
        for n in range(40):
            client.chat(PHASES[n % len(PHASES)][0], str(n), PHASES[n % len(PHASES)][1])
        check(fake.wait(lambda: len(fake.records) == 40), f"{len(fake.records)} of 40 requests")
        client.close()
        check(fake.wait(lambda: all(r.closed for r in fake.records), 5 * h.PATIENCE), "some live on")


@bound(30)
def test_broker_cancel_reaches_the_provider():
    rows = Rows()
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            with broker.client(transport, "framed") as c:
                for model, stream, phase in PHASES:
                    with rows(f"{transport}: {model} stream {stream}"):
                        before = len(fake.of(model))
                        c.chat(model, "x", stream)
                        check(fake.wait(lambda: len(fake.of(model)) > before and fake.find(model).phase == phase), f"never {phase}")
                        c.send("broker.cancel", {"id": "x"}, "c")
                        events = c.gather(2)
                        h.failure(events["x"], "Cancelled")
                        equal(events["c"][0]["data"], {"cancelled": True})
                        check(fake.wait(lambda: fake.find(model).closed, 3 * h.PATIENCE), "the provider did not see it")
                        c.ping("x")
    rows.close()


@bound(30)
def test_others_are_not_touched():
    """One client leaves in mid-stream; its neighbour on the same provider goes on."""
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker:
        leaving, staying = broker.client(), broker.client()
        leaving.chat("slow:50:20")
        staying.chat("slow:40:20")
        leaving.event()
        leaving.close()
        equal(h.done(staying.until_terminal())["text"], "".join(f" {n}" for n in range(40)))


# ---- many of them ---------------------------------------------------------------------------------------------


def abandon(broker, fake, count: int) -> None:
    """So many clients that leave in one phase or another, fifty at a time."""
    for start in range(0, count, 50):
        before = len(fake.records)
        clients = []
        for n in range(start, start + 50):
            model, stream, _ = PHASES[n % len(PHASES)]
            client = broker.client(TRANSPORTS[n % 40 == 0 and 2 or n % 2], h.FRAMINGS[n % 3 == 0], keep=False)
            client.chat(model, stream=stream)
            clients.append(client)
        if start % 200:
            check(fake.wait(lambda: len(fake.records) >= before + 50, 10), "not all requests reached the provider")
            time.sleep(0.03)
        for client in clients:
            client.close()
        with fake.changed:
            gone = [r for r in fake.records if r.closed]
            if len(gone) > 500:  # the provider's own memory
                fake.records = [r for r in fake.records if not r.closed]


@bound(60 if not h.FULL else 600, alone=True)
def test_a_thousand_clients_that_leave():
    """maximhq/bifrost#828, #6802: memory and descriptors stay flat. TACTUS_E2E_FULL=1: ten thousand."""
    count = 10_000 if h.FULL else 1_000
    # What is freed goes back to the kernel at once: else malloc keeps up to some MiB, as much as chance has it, and memory
    # would not tell what the broker still holds.
    malloc = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS), env=malloc) as broker:
        def settled() -> bool:
            return all(r.closed or r.phase == "complete" for r in list(fake.records)) and broker.descriptors() <= idle + 4
        idle = broker.descriptors()
        abandon(broker, fake, count)
        h.wait_until(settled, "as many before to be forgotten")
        memory = broker.memory()
        abandon(broker, fake, count)
        h.wait_until(settled, f"{broker.descriptors()} descriptors to become {idle} again")
        grown = broker.memory() - memory
        check(h.SANITIZED or grown < h.WORKERS << 20, f"{grown >> 10} KiB more after {count} clients that left")
        with broker.client() as c:
            h.done(c.answer("text"))
