"""`tactus-broker --dev`: a broker without any configuration."""
import pathlib

import harness as h
from harness import Broker, bound, check, equal


def dev_broker(*args, lines: int = 6) -> Broker:
    home = str(h.TEMPORARY)
    return Broker(None, args=("--dev", *args), endpoints=lines, env={"HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home})


def ca_of(broker) -> pathlib.Path:
    broker.ca = pathlib.Path(broker.endpoints[-1])
    return broker.ca


@bound(20)
def test_dev_prints_endpoints_and_ca_file():
    with dev_broker() as broker:
        *endpoints, ca = broker.endpoints
        admin = [endpoints.pop(), endpoints.pop()]
        check(all(line.startswith("http") for line in admin), f"no admin lines: {admin}")
        equal(sorted("unix" if e.startswith("/") else e.split(":")[0] for e in endpoints), ["tcp", "tls", "unix"])
        check(pathlib.Path(ca).read_text().startswith("-----BEGIN CERTIFICATE-----"), f"no CA file: {ca}")
        ca_of(broker)
        for transport in h.TRANSPORTS:
            for framing in h.FRAMINGS:
                with broker.client(transport, framing) as c:
                    c.ping()
                    equal(h.done(c.answer("builtin/echo", content="hello dev"))["text"], "hello dev")
        for transport in ("tcp", "tls"):
            check(broker.endpoint(transport).startswith(f"{transport}://127.0.0.1:"), "not on loopback")


@bound(30)
def test_two_at_once_and_one_after_another():
    with dev_broker() as one, dev_broker() as two:
        equal(set(one.endpoints[:3]) & set(two.endpoints[:3]), set(), "endpoints in common")
        for broker in (one, two):
            ca_of(broker)
            with broker.client("tls") as c:
                c.ping()
    with dev_broker() as again:
        ca_of(again)
        with again.client("tls") as c:
            c.ping()


@bound(20)
def test_dev_needs_no_key_of_the_environment():
    """And its CA's key is for nobody to read."""
    with dev_broker() as broker:
        for file in pathlib.Path(ca_of(broker)).parent.iterdir():
            if file.suffix == ".key" or "PRIVATE KEY" in read(file):
                equal(file.stat().st_mode & 0o077, 0, f"mode of {file.name}")
        broker.stop()


def read(file: pathlib.Path) -> str:
    return file.read_text(errors="replace") if file.is_file() else ""


@bound(20)
def test_dev_with_more_listeners():
    """Each further --listen is served; with TLS by the certificate that --dev made."""
    with dev_broker("--listen", "tcp://127.0.0.1:0", "--listen", "tls://127.0.0.1:0", lines=8) as broker:
        ca_of(broker)
        for endpoint in broker.endpoints[3:5]:
            with h.Client(endpoint, "ndjson", **({"ca": broker.ca} if endpoint.startswith("tls") else {})) as c:
                c.ping()
