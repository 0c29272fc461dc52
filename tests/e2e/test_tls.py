"""TLS listeners: versions, client certificates, resumption, certificates that are no good, rubbish in the handshake."""
import os
import ssl
import subprocess
import time

import harness as h
from harness import Broker, Rows, bound, check, configuration, equal

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def context(version=None, client: str = "", ca: str = "certs") -> ssl.SSLContext:
    made = h.tls_context(h.certificates(ca) / "ca.pem")
    if version:
        made.minimum_version = made.maximum_version = version
    if client:
        certs = h.certificates(client)
        made.load_cert_chain(certs / "client.pem", certs / "client.key")
    return made


def tls_broker(listener: dict | None = None, **sections):
    return Broker(configuration(transports=("tls",), listener=listener, **sections))


@bound(20)
def test_versions():
    with tls_broker() as broker:
        for version, name in ((V12, "TLSv1.2"), (V13, "TLSv1.3")):
            for framing in h.FRAMINGS:
                with broker.client("tls", framing, context=context(version)) as c:
                    equal(c.sock.version(), name)
                    c.ping()
                    h.done(c.answer("builtin/echo", content="über TLS 🎉 " * 5_000))


@bound(20)
def test_nothing_older():
    with tls_broker() as broker:
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            old = context()
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version, old.maximum_version = version, version
            try:
                broker.client("tls", context=old).close()
            except (ssl.SSLError, OSError):
                continue
            raise h.Failure(f"{version.name} was accepted")
        with broker.client("tls") as c:
            c.ping()


@bound(20)
def test_the_certificate_is_valid_for_localhost():
    """A client with no trust in the CA refuses; one with it, and the name localhost, does not."""
    with tls_broker() as broker:
        port = int(broker.endpoint("tls").rsplit(":", 1)[1])
        for name in ("localhost", "127.0.0.1", "host.docker.internal"):
            with h.connect(f"tcp://127.0.0.1:{port}") as plain:
                context().wrap_socket(plain, server_hostname=name).close()
        try:
            broker.client("tls", context=context(ca="strangers")).close()
        except ssl.SSLCertVerificationError:
            pass
        else:
            raise h.Failure("a client trusted a stranger's CA")
        with broker.client("tls") as c:
            c.ping()


@bound(20)
def test_client_certificate_required():
    rows = Rows()
    with tls_broker({"client_ca": str(h.certificates() / "ca.pem")}) as broker:
        for version in (V12, V13):
            with rows(f"{version.name} right"), broker.client("tls", context=context(version, "certs")) as c:
                c.ping()
            for client in ("", "strangers"):
                with rows(f"{version.name} {client or 'none'}"):
                    check(refused(broker, context(version, client)), "served without a right certificate")
        with rows("right again"), broker.client("tls", context=context(None, "certs")) as c:
            c.ping()
    rows.close()


def refused(broker, tls: ssl.SSLContext) -> bool:
    try:
        with broker.client("tls", context=tls, timeout=5) as c:
            c.send("tool.call", {"name": "host.ping"})
            c.event()
    except (ssl.SSLError, ConnectionError, EOFError):
        return True
    return False


@bound(30)
def test_resumption():
    """Also on another worker than the one that gave the ticket."""
    rows = Rows()
    for workers in (1, 4):
        with tls_broker(broker={"workers": workers}) as broker:
            for version in (V12, V13):
                tls = context(version)
                with broker.client("tls", context=tls) as c:
                    c.ping()  # a 1.3 ticket comes after the handshake
                    session = c.sock.session
                with rows(f"{version.name}, {workers} workers"):
                    reused = 0
                    for _ in range(12):
                        with broker.client("tls", context=tls, session=session) as c:
                            c.ping()
                            reused += bool(c.sock.session_reused)
                    equal(reused, 12, "resumed of 12")
    rows.close()


@bound(20)
def test_resumption_with_client_certificates():
    with tls_broker({"client_ca": str(h.certificates() / "ca.pem")}) as broker:
        for version in (V12, V13):
            tls = context(version, "certs")
            with broker.client("tls", context=tls) as c:
                c.ping()
                session = c.sock.session
            with broker.client("tls", context=tls, session=session) as c:
                c.ping()
                check(c.sock.session_reused, f"{version.name}: not resumed")


@bound(20)
def test_the_end_is_announced():
    """close_notify before the close: a reply that was cut off cannot pass for a whole one."""
    with tls_broker() as broker:
        for version in (V12, V13):
            port = int(broker.endpoint("tls").rsplit(":", 1)[1])
            with h.connect(f"tcp://127.0.0.1:{port}") as plain:
                tls = context(version).wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
                tls.sendall(b"0000000000\n")
                data = b""
                while more := tls.recv(4096):
                    data += more
                check(b"BadRequest" in data, f"{version.name}: {data!r}")
                tls.close()


@bound(20)
def test_rubbish_in_the_handshake():
    with tls_broker() as broker:
        before = broker.descriptors()
        for data in (b"\x00", b"{\"id\":\"a\"}\n", b"0000000002\n{}", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello",
                     b"\x16\x03\x03\xff\xff" + b"x" * 70_000, os.urandom(5_000), b""):
            sock = h.connect("tcp" + broker.endpoint("tls")[3:], timeout=5)
            try:
                sock.sendall(data)
                sock.shutdown(1)
                while sock.recv(4096):
                    pass
            except OSError:
                pass
            sock.close()
        h.wait_until(lambda: broker.descriptors() <= before, "the descriptors to be closed")
        with broker.client("tls") as c:
            c.ping()


@bound(20)
def test_bytewise_handshake():
    """A TLS client whose every byte comes in a packet of its own."""
    with tls_broker() as broker:
        for version in (V12, V13):
            inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context(version).wrap_bio(inward, outward, server_hostname="127.0.0.1")
            with h.connect("tcp" + broker.endpoint("tls")[3:]) as sock:
                def pump(step):
                    while True:
                        try:
                            return step()
                        except ssl.SSLWantReadError:
                            for byte in outward.read():
                                sock.sendall(bytes([byte]))
                            inward.write(sock.recv(1))
                pump(tls.do_handshake)
                tls.write(b'{"id":"a","method":"tool.call","params":{"name":"host.ping"}}\n')
                equal(pump(lambda: tls.read(4096)), b'{"id":"a","event":"done","data":{"result":{"ok":true,"echo":{}}}}\n')


@bound(60)
def test_files_that_are_no_certificate():
    """Start fails with exit code 78, and names the file."""
    good, other = h.certificates(), h.certificates("strangers")
    empty, rubbish = h.TEMPORARY / "empty.pem", h.TEMPORARY / "rubbish.pem"
    empty.write_text("")
    rubbish.write_text("-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n")
    cert, key, missing = good / "server.pem", good / "server.key", h.TEMPORARY / "missing.pem"
    rows = Rows()
    for name, listener, named in [
            ("certificate missing", {"cert": missing}, missing), ("key missing", {"key": missing}, missing),
            ("certificate empty", {"cert": empty}, empty), ("certificate rubbish", {"cert": rubbish}, rubbish),
            ("key empty", {"key": empty}, empty), ("key is a certificate", {"key": cert}, cert),
            ("certificate is a key", {"cert": key}, key), ("another's key", {"key": other / "server.key"}, other / "server.key"),
            ("a directory", {"cert": h.TEMPORARY}, h.TEMPORARY), ("client CA missing", {"client_ca": missing}, missing),
            ("client CA rubbish", {"client_ca": rubbish}, rubbish), ("client CA empty", {"client_ca": empty}, empty)]:
        with rows(name):
            config = configuration(transports=("tls",), listener={k: str(v) for k, v in listener.items()})
            file = h.TEMPORARY / "bad.yml"
            file.write_text(str(h.json.dumps(config, indent=1)))
            result = h.run([h.BUILD / "tactus-broker", "--config", file], env={"PATH": os.environ["PATH"]})
            equal(result.returncode, h.EX_CONFIG, f"exit code ({result.stderr[-200:]!r})")
            check(str(named) in result.stderr, f"{named} is not named: {result.stderr!r}")
    rows.close()


@bound(30)
def test_a_client_of_the_openssl_program():
    """A TLS client that is not Python's: and it closes properly."""
    with tls_broker() as broker:
        address = broker.endpoint("tls").removeprefix("tls://")
        process = h.spawn(["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", h.certificates() / "ca.pem", "-connect", address],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            process.stdin.write(b'{"id":"a","method":"tool.call","params":{"name":"host.ping"}}\n')
            process.stdin.flush()
            equal(process.stdout.readline(), b'{"id":"a","event":"done","data":{"result":{"ok":true,"echo":{}}}}\n')
        finally:
            process.kill()
            process.wait()


@bound(40, alone=True)
def test_many_handshakes_leave_nothing_behind():
    with tls_broker() as broker:
        tls = context()
        def round_of(count: int) -> None:
            for n in range(count):
                client = broker.client("tls", context=tls, keep=False)
                if n % 3:
                    client.ping()
                client.close()
        round_of(150)
        time.sleep(0.1)
        descriptors, memory = broker.descriptors(), broker.memory()
        round_of(600)
        h.wait_until(lambda: broker.descriptors() <= descriptors, "the descriptors to be closed")
        check(h.SANITIZED or broker.memory() - memory < 2 << 20, f"{(broker.memory() - memory) >> 10} KiB more after 600 handshakes")
