"""Memory: bounded by what arrived, never by what was announced; a slow reader slows only its own provider."""
import resource
import time

import harness as h
from fake_provider import FakeProvider
from harness import FRAMINGS, TRANSPORTS, Broker, Rows, bound, check, configuration, equal, openai

MIB = 1 << 20


def bounded(broker, before: int, limit: int, what: str, field: str = "VmRSS") -> None:
    grown = broker.memory(field) - before
    print(f"{what}: {grown / MIB:.1f} MiB more")
    check(h.SANITIZED or grown <= limit, f"{what}: {grown / MIB:.1f} MiB more, allowed {limit / MIB:.1f}")


@bound(30)
def test_announced_lengths_cost_nothing():
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        with broker.client("tls") as c:
            c.ping()
        before = broker.memory()
        clients = []
        for n in range(100):
            client = broker.client(("unix", "tcp")[n % 2], "framed")
            client.send_raw(b"0104857600\n{\"id\":\"a\"")
            clients.append(client)
        for transport in TRANSPORTS:
            with broker.client(transport, "framed") as c:
                c.send_raw(b"2147483648\n{")
                h.failure([c.event()], "MessageTooLarge")
                c.closed()
        time.sleep(0.1)
        bounded(broker, before, 4 * MIB, "a hundred clients that announced 100 MiB each")
        for client in clients:
            client.close()


@bound(30)
def test_two_gigabytes_announced_within_the_limit():
    """Where the limit allows it, memory still grows with the bytes that arrive."""
    config = configuration(limits={"max_message_bytes": "3GiB", "max_buffered_bytes": "4GiB"})
    try:
        broker = Broker(config).__enter__()
    except h.Failure as e:
        check("max_message_bytes" in str(e), str(e))  # the range of the key may exclude it
        return
    with broker.client("unix", "framed") as c:
        before = broker.memory()
        c.send_raw(b"2147483648\n{\"id\":\"a\",\"x\":\"" + b"y" * 100_000)
        time.sleep(0.2)
        bounded(broker, before, 2 * MIB, "2 GB announced, 100 KB sent")
    broker.__exit__(None)


def idle_count() -> int:
    """9 000, or what the limit on descriptors allows; the soft one is raised to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(9_000, (hard - 600) // 2)
    if count < 9_000:
        print(f"note: only {count} idle connections: descriptors are limited to {hard}")
    return count


@bound(90, alone=True)
def test_many_idle_connections():
    count = idle_count()
    config = configuration(transports=TRANSPORTS, limits={"first_byte_timeout": 600, "idle_timeout": 600, "max_connections": count + 100})
    with Broker(config) as broker:
        with broker.client("tls") as c:
            c.ping()
        before = broker.memory("RssAnon")
        held = [broker.client(("unix", "tcp")[n % 2], keep=False) for n in range(count)]
        for n, client in enumerate(held):
            if n % 3 == 0:
                client.ping()
        bounded(broker, before, count * 16 * 1024, f"{count} idle connections", "RssAnon")
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                with broker.client(transport, framing) as c:
                    for n in range(50):
                        c.ping(str(n))
                    h.done(c.answer("builtin/echo"))
        for client in held:
            client.close()
        h.wait_until(lambda: broker.descriptors() < 100, "the connections to be closed", 20)


@bound(40, alone=True)
def test_many_idle_tls_connections():
    with Broker(configuration(transports=TRANSPORTS, limits={"first_byte_timeout": 600})) as broker:
        context = h.tls_context(h.certificates() / "ca.pem")
        for n in range(20):
            broker.client("tls", context=context).close()
        before = broker.memory("RssAnon")
        held = [broker.client("tls", context=context, keep=False) for _ in range(500)]
        for client in held:
            client.ping()
        bounded(broker, before, 500 * 64 * 1024, "500 idle TLS connections", "RssAnon")
        for client in held:
            client.close()


@bound(60, alone=True)
def test_clients_that_never_read():
    """MAXeaglet/commandcode-proxy#20: the provider is held back, memory is bounded, the others go on."""
    model = "endless:4096"
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        with broker.client("tls") as other:
            h.done(other.answer("openai/text"))
            before = broker.memory()
            sleepers = [broker.client(t, f, receive_buffer=65536, keep=False) for t in TRANSPORTS for f in FRAMINGS]
            for client in sleepers:
                client.chat(model)
            wait_for_stillness(fake, model, len(sleepers))
            # Each holds its high-water mark and its text so far: what the kernel took for the client, some MiB on TCP.
            bounded(broker, before, len(sleepers) * 5 * MIB, f"{len(sleepers)} clients that never read")
            records = fake.of(model)
            sent = [r.sent for r in records]
            for n in range(50):
                other.ping(str(n))
            h.done(other.answer("openai/text", stream=False))
            equal([r.sent for r in records], sent, "bytes taken from the held-back providers")
            resume(sleepers[0], fake, sum(sent))
            for client in sleepers:
                client.close()
            check(fake.wait(lambda: all(r.closed for r in records), 5 * h.PATIENCE), "a provider did not see its client leave")


def wait_for_stillness(fake, model: str, count: int) -> None:
    def total() -> list[int]:
        return [r.sent for r in fake.of(model)]
    last, since = [], time.monotonic()
    deadline = time.monotonic() + 20 * h.PATIENCE
    while time.monotonic() - since < 1 or len(last) < count:
        check(time.monotonic() < deadline, f"the providers are never held back: {last}")
        time.sleep(0.1)
        if total() != last:
            last, since = total(), time.monotonic()


def resume(client, fake, sent: int) -> None:
    """Reading makes it flow again, with nothing lost."""
    read = 0
    while sum(r.sent for r in fake.records if r.model.startswith("endless")) <= sent + MIB:
        equal(client.event()["data"], {"text": "x" * 4096}, f"delta {read}")
        read += 1
        check(read < 20_000, "the provider is still held back")


@bound(60, alone=True)
def test_client_that_sends_and_never_reads():
    """Replies that nobody fetches stop the reading of further requests, not grow the broker."""
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            with broker.client(transport, receive_buffer=65536, timeout=1.5, keep=False) as c, broker.client() as other:
                before = broker.memory()
                line = c.encode(h.compact({"id": "a", "method": "tool.call", "params": {"name": "host.echo", "args": {"x": "y" * 50_000}}}))
                try:
                    for _ in range(4000):
                        c.sock.sendall(line)
                except TimeoutError:
                    pass  # held back, as it should be
                except OSError:
                    pass
                bounded(broker, before, 24 * MIB, f"{transport}: 200 MB of requests whose replies nobody reads")
                other.ping()


def hundred(method: bytes, params: bytes, size: int = 100 * MIB) -> bytes:
    """A request of exactly `size` bytes with a long text in `params`."""
    head = b'{"id":"a","method":"' + method + b'","params":{' + params + b'{"x":"'
    return head + b"y" * (size - len(head) - 4) + b'"}}}'


@bound(120, alone=True)
def test_a_message_of_100_mib():
    rows = Rows()
    for transport, framing in (("unix", "ndjson"), ("unix", "framed"), ("tcp", "framed"), ("tls", "framed"), ("tls", "ndjson")):
        with Broker(configuration(transports=TRANSPORTS)) as broker, broker.client(transport, framing, timeout=30, keep=False) as c:
            c.ping()
            body = hundred(b"tool.call", b'"name":"host.echo","args":')
            with rows(f"{transport} {framing} echo"):
                c.send_body(body)  # not while another thread reads: this client's TLS stands no two at once
                reply = c.event_bytes()
                check(reply.startswith(b'{"id":"a","event":"done","data":{"result":{"echo":{"x":"yyy'), f"{reply[:200]!r}")
                equal(reply.count(b"y"), body.count(b"y"), "letters")
                del reply
                peak = broker.memory("VmHWM")
                print(f"{transport} {framing}: peak {peak / MIB:.0f} MiB")
                check(h.SANITIZED or peak <= 3 * len(body), f"peak {peak / MIB:.0f} MiB for a message of 100")
            with rows(f"{transport} {framing} goes on"):
                c.ping("after")
                h.wait_until(lambda: h.SANITIZED or broker.memory() < 120 * MIB, "its memory to be given back", 3)
    rows.close()


@bound(60, alone=True)
def test_an_event_of_100_mib():
    rows = Rows()
    for transport, framing in (("unix", "framed"), ("tls", "ndjson")):
        with Broker(configuration(transports=TRANSPORTS)) as broker, broker.client(transport, framing, timeout=30) as c:
            with rows(f"{transport} {framing}"):
                c.send_body(hundred(b"events.emit", b'"event":'))
                event = c.event()
                equal((event["id"], event["event"]), ("a", "error"), h.short(event))
                check(event["error"]["type"] in ("MessageTooLarge", "BadRequest"), h.short(event))
                c.ping("after")
                check(h.SANITIZED or broker.memory("VmHWM") <= 300 * MIB, f"peak {broker.memory('VmHWM') / MIB:.0f} MiB")
    rows.close()


@bound(60, alone=True)
def test_a_long_prompt():
    """40 MB to a provider: there byte for byte, peak within three times the body."""
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        with broker.client("tls", "framed", timeout=30) as c:
            text = b"y" * (40 * MIB)
            c.send_body(b'{"id":"a","method":"llm.chat","params":{"model":"text","messages":[{"role":"user","content":"' + text + b'"}]}}')
            h.done(c.until_terminal())
            check(text in fake.find("text").body, "the prompt did not arrive whole")
            check(h.SANITIZED or broker.memory("VmHWM") <= 120 * MIB + 16 * MIB, f"peak {broker.memory('VmHWM') / MIB:.0f} MiB")


@bound(60, alone=True)
def test_buffered_bytes_altogether():
    """max_buffered_bytes bounds all connections together: Overloaded, and the broker lives."""
    config = configuration(limits={"max_message_bytes": MIB, "max_buffered_bytes": 3 * MIB})
    with Broker(config) as broker, broker.client() as other:
        other.ping()
        before = broker.memory()
        clients = [broker.client("unix", "framed", timeout=3) for _ in range(8)]
        for client in clients:
            client.sock.settimeout(2)
            try:
                client.sock.sendall(b"%010d\n" % MIB + b'{"id":"a","x":"' + b"y" * 900_000)
            except OSError:
                pass  # refused while it sent
        answer = other.request("tool.call", {"name": "host.ping"})[0]
        check(answer["event"] == "done" or answer["error"]["type"] == "Overloaded", h.short(answer))
        bounded(broker, before, 6 * MIB, "eight clients with 0.9 of 1 MiB each")
        told = []
        for client in clients:
            client.sock.settimeout(0.2)
            try:
                told.append(client.event()["error"]["type"])
            except (OSError, EOFError) as e:
                told.append(type(e).__name__)
            client.close()
        check("Overloaded" in told, f"nobody was told: {told}")
        h.wait_until(lambda: not other.ping("after"), "the broker to go on")
