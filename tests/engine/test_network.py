"""What a container can reach over its network: the broker and nothing else, unless another network is asked for."""
import contextlib
import signal
import socket
import subprocess
import sys
import uuid

import bed
import harness
from harness import Rows, bound, check, equal
from place import Place, Result

METADATA, INTERNET = "169.254.169.254", "203.0.113.9"  # the cloud's own; one that is kept for documents

LOOK = f"""
reach() {{ echo | nc -w 2 $1 $2 > /dev/null 2>&1 && echo "$3 yes" || echo "$3 no"; }}
read -r request
broker=${{TACTUS_BROKER_SOCKET#tcp://}}
reach ${{broker%:*}} ${{broker#*:}} broker
reach {METADATA} 80 metadata
reach {INTERNET} 80 internet
[ -z "$OTHER" ] || reach $OTHER 9000 other
"""
LISTEN = "nc -l -p 9000 > /dev/null & while :; do sleep 0.2; done"


SERVER = """
import socket, threading
def serve(server):
    while True:
        server.accept()[0].close()
servers = [socket.create_server((address, 80)) for address in ADDRESSES]
print("up", flush=True)
for server in servers:
    threading.Thread(target=serve, args=(server,)).start()
"""


def ip(*args: str) -> None:
    done = harness.run(["ip", *args])
    equal(done.returncode, 0, f"ip {' '.join(args)}: {done.stderr}")


@contextlib.contextmanager
def outside():
    """The metadata service and a host of the internet, in a network that this machine routes to."""
    name = "out" + uuid.uuid4().hex[:8]
    ip("netns", "add", name)
    try:
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("addr", "add", "192.0.2.1/30", "dev", name)
        ip("link", "set", name, "up")
        ip("-n", name, "addr", "add", "192.0.2.2/30", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        for address in (METADATA, INTERNET):
            ip("-n", name, "addr", "add", f"{address}/32", "dev", "lo")
            ip("route", "add", f"{address}/32", "via", "192.0.2.2")
        code = SERVER.replace("ADDRESSES", repr((METADATA, INTERNET)))
        server = harness.spawn(["ip", "netns", "exec", name, sys.executable, "-c", code], stdout=subprocess.PIPE)
        equal(server.stdout.readline(), b"up\n", "the server's word")
        for address in (METADATA, INTERNET):
            socket.create_connection((address, 80), 5).close()
        yield
        server.kill()
        server.wait()
    finally:
        harness.run(["ip", "link", "del", name])
        harness.run(["ip", "netns", "del", name])


def address_in(inspected: dict) -> str:
    networks = inspected["NetworkSettings"]["Networks"]
    return next(iter(networks.values()))["IPAddress"] or inspected["NetworkSettings"]["IPAddress"]


def variable(inspected: dict, name: str) -> str:
    return next(v.partition("=")[2] for v in inspected["Config"]["Env"] if v.startswith(name + "="))


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    equal(Result.of(process).is_(143, "cancelled", "Cancelled")["exit_code"], 143)


def looks(p: Place, network: str) -> dict:
    """What a run sees while another one listens beside it; and what of the other's grant others can use."""
    net = [] if network == "tactus" else ["--network", network]
    p.script(LISTEN)
    other = p.start("--transport", "tcp", *net)
    inspected = p.engine.json("GET", f"/containers/{p.wait_running()[0]['Id']}/json")
    p.script(LOOK)
    r = p.run("--transport", "tcp", *net, f"--env=OTHER={address_in(inspected)}")
    seen = dict(line.split() for line in r.is_(0, "success")["result"].split("\n"))
    # The other's broker speaks with the other's container alone: not with the host, from where it can be connected to.
    host, _, port = variable(inspected, "TACTUS_BROKER_SOCKET").removeprefix("tcp://").rpartition(":")
    equal(host, "host.docker.internal")
    gateway = next(h.partition(":")[2] for h in inspected["HostConfig"]["ExtraHosts"] if h.startswith(host))
    with contextlib.suppress(OSError), harness.Client(f"tcp://{gateway}:{port}") as client:
        client.send("tool.call", {"name": "host.ping"})
        try:
            said = client.event()
        except (EOFError, OSError):
            said = None
        equal(said, None, "the broker's answer to a stranger")
    end(other)
    return {**seen, "warned": METADATA in r.err}


@bound(90)
def test_reach():
    rows = Rows()
    with Place("docker") as p, outside():
        with rows("tactus"):
            equal(looks(p, "tactus"),
                  {"broker": "yes", "metadata": "no", "internet": "no", "other": "no", "warned": False})
            network = p.engine.json("GET", "/networks/tactus")
            equal((network["Driver"], network["Internal"], network["Labels"]), ("bridge", True, {"tactus.network": "1"}))
        with rows("bridge, for comparison"):
            equal(looks(p, "bridge"),
                  {"broker": "yes", "metadata": "yes", "internet": "yes", "other": "yes", "warned": True})
        p.nothing_left()
    rows.close()


@bound(60)
def test_no_network():
    """stdio and unix: not even an address."""
    rows = Rows()
    for engine in bed.ENGINES:
        with Place(engine, "read -r request; grep -c : /proc/net/dev; wc -l < /proc/net/route") as p:
            for transport in ("stdio", "unix"):
                with rows(f"{engine} {transport}"):
                    equal(p.run("--transport", transport).is_(0, "success")["result"], "1\n1")  # lo; a headline
            with rows(f"{engine} stdio with a network"):
                r = p.run("--network", "bridge").is_(0, "success")
                equal(r["result"].split("\n")[0], "2")
                check(METADATA in r.err, "no warning")
    rows.close()


@bound(60)
def test_podman_has_no_address_on_an_internal_network():
    """Then nothing starts on a network that is open instead, unless it is asked for."""
    with Place("podman", "echo started") as p:
        r = p.run("--transport", "tcp")
        equal((r.code, r["status"]), (78, "error"), r.document)
        check("started" not in r.out + r.err, "it was started")
        for words in ("stdio or unix", "--network"):
            check(words in r["error"], f"{words!r} is not in {r['error']!r}")
        p.nothing_left()


@bound(60, alone=True)  # it takes the name from the other tests
def test_open_networks():
    """One that is called as ours but lets out is used with a warning, as any other; ours is made anew without."""
    rows = Rows()
    with Place("docker", "echo started") as p:
        p.engine.call("DELETE", "/networks/tactus")
        for name in ("tactus", "somebodys"):
            with rows(name):
                made = p.engine.json("POST", "/networks/create", {"Name": name, "Driver": "bridge"})
                try:
                    r = p.run("--transport", "tcp", "--network", name).is_(0, "success")
                    check(METADATA in r.err, f"no warning: {r.err}")
                finally:
                    p.engine.call("DELETE", f"/networks/{made['Id']}")
        with rows("made anew"):
            check(METADATA not in p.run("--transport", "tcp").is_(0, "success").err, "a warning")
            equal(p.engine.json("GET", "/networks/tactus")["Internal"], True)
        p.nothing_left()
    rows.close()
