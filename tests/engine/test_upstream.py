"""A client that leaves, or is made to leave, in the middle of an answer: the provider's stream ends with it. And what is
asked around the end of a run."""
import json
import os
import signal
from contextlib import contextmanager

import bed
import harness
from fake_provider import FakeProvider
from harness import PATIENCE, Rows, bound, check, configuration, equal, openai
from place import Place, each_engine

MODEL = "endless:1000"
ASK = {"id": "a", "method": "llm.chat", "params": {"provider": "openai", "model": MODEL, "stream": True,
                                                   "messages": [{"role": "user", "content": "x"}]}}
MARK = "<<<TACTUS_BROKER>>>"

# Takes the place of client.py: asks, sees the stream begin, and then does what its parameter says.
STREAMING = f"""
import json, os, socket, sys, time
request = json.loads(sys.stdin.readline())
ask = json.dumps({ASK!r})
endpoint = os.environ["TACTUS_BROKER_SOCKET"]
sock = socket.socket(socket.AF_UNIX if endpoint[0] == "/" else socket.AF_INET)
host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
sock.connect(endpoint if endpoint[0] == "/" else (host, int(port)))
sock.sendall(ask.encode() + b"\\n")
lines = sock.makefile()
for _ in range(3):
    assert json.loads(lines.readline())["event"] == "delta"
print("streaming", flush=True)
if request["params"]["then"] == "stay":
    time.sleep(100)
os._exit(request["params"]["code"])
"""


@contextmanager
def streaming(engine: str):
    """A place whose runs use a broker with a fake provider."""
    with FakeProvider() as fake, Place(engine, image=bed.CLIENT) as p:
        (p.procedure / "streaming.py").write_text(STREAMING)
        # Not beside the procedure: what lies beside an admin socket is not mounted.
        p.admin = f"{harness.TEMPORARY}/admin-{engine}/admin.sock"
        os.mkdir(os.path.dirname(p.admin))
        p.env["TACTUS_BROKER_ADMIN"] = f"unix://{p.admin}"
        with harness.Broker(configuration(openai(fake), admin={"listen": [f"unix://{p.admin}"]})):
            yield p, fake


def arguments(engine: str, transport: str, then: str, code: int = 0) -> list[str]:
    return ["--transport", transport, "--volume", "./streaming.py:/app/client.py:ro", "--memory", "0",
            "--param", f"then={then}", "--param", f"code={code}",
            *(["--network", "bridge"] if (engine, transport) == ("podman", "tcp") else [])]


def closed(fake: FakeProvider, before: int) -> None:
    equal(len(fake.of(MODEL)), before + 1, "requests at the provider")
    record = fake.find(MODEL)
    check(fake.wait(lambda: record.closed, 10 * PATIENCE), "the provider did not see the close")
    equal(record.closed, "streaming")


@each_engine
@bound(90)
def test_leaving_in_mid_stream(engine):
    """Over a socket; over stdio: test_leftovers.py."""
    rows = Rows()
    with streaming(engine) as (p, fake):
        for transport in ("unix", "tcp"):
            with rows(f"{transport}: the client ends"):
                before = len(fake.of(MODEL))
                p.run(*arguments(engine, transport, "leave", 7)).is_(7, "error", None, "streaming")
                closed(fake, before)
            for how in ("time-out", "kill of the container", "SIGTERM", "SIGKILL"):
                with rows(f"{transport}: {how}"):
                    before = len(fake.of(MODEL))
                    process = p.start(*arguments(engine, transport, "stay"), "--timeout", "3" if how == "time-out" else "60")
                    check(fake.wait(lambda: len(fake.of(MODEL)) > before and fake.find(MODEL).sent > 1000, 20 * PATIENCE),
                          "no stream began")
                    check(not fake.find(MODEL).closed, "closed too early")
                    if how == "kill of the container":
                        p.engine.call("POST", f"/containers/{p.running()[0]['Id']}/kill?signal=KILL")
                    elif how != "time-out":
                        process.send_signal(getattr(signal, how))
                    out, err = process.communicate(timeout=30)
                    closed(fake, before)
                    want = {"time-out": (124, "timeout"), "kill of the container": (137, "error"), "SIGTERM": (143, "cancelled")}
                    if how in want:
                        document = json.loads(out)
                        equal((process.returncode, document["status"]), want[how], err.decode()[-300:])
        p.nothing_left()
    rows.close()


# ---- around the end ----------------------------------------------------------------------------------------

PING = '{"id":"p","method":"tool.call","params":{"name":"host.ping"}}'
EVENT = '{"id":"e","method":"events.emit","params":{"event":{"event_type":"log","n":1}}}'
RESULT = "echo '<<<TACTUS_RESULT_START>>>'; echo '{\"status\":\"success\",\"result\":1}'; echo '<<<TACTUS_RESULT_END>>>'\n"


def say(text: str, end: str = "\\n") -> str:
    return f"printf '%s{end}' '{MARK}{text}' >&2\n"


@each_engine
@bound(60)
def test_around_the_end(engine):
    """What is asked last, and the two ends of stdin."""
    rows = Rows()
    with Place(engine) as p:
        def events(script: str, code: int = 0, result=None) -> list:
            """Those of a run of `script`, which ends with that code and result."""
            p.script("read -r request\n" + script)
            path = p.directory / "events"
            path.unlink(missing_ok=True)
            r = p.run("--timeout", "20", "--events", str(path)).is_(code, "success" if code == 0 else "error", None)
            equal(r["result"], result)
            return [json.loads(line)["event"] for line in path.read_text().splitlines()]

        with rows("last words"):
            equal(events(say(EVENT) + "exit 3", 3), [{"event_type": "log", "n": 1}])
        with rows("the last line has no end"):
            equal(events(say(EVENT, end="")), [])
        with rows("after the result"):
            equal(events(RESULT + say(EVENT), result=1), [{"event_type": "log", "n": 1}])
        with rows("no ear for the answers"):
            equal(events("exec <&-\n" + say(PING) * 3 + say(EVENT) + "sleep 0.3; echo over", result="over"), [{"event_type": "log", "n": 1}])
        with rows("stdin ends after the result"):
            equal(events(RESULT + "cat > /dev/null\n" + say(EVENT), result=1), [{"event_type": "log", "n": 1}])
        p.nothing_left()
    rows.close()
