"""Runs that are ended from outside, at any moment and in every way: nothing stays, and nothing hangs."""
import json
import signal
import subprocess
import time

import harness
from fake_provider import FakeProvider
from harness import Rows, bound, check, equal, openai, wait_until
from place import Place, Result, each_engine

MOMENTS = (0.0, 0.03, 0.08, 0.15, 0.25, 0.35, 0.5, 0.7)  # seconds after its start
TOGETHER = 4

ASK = r"""
read -r request
printf '<<<TACTUS_BROKER>>>{"id":"x","method":"llm.chat","params":{"model":"openai/%s","messages":[{"role":"user","content":"a"}],"stream":true}}\n' >&2
read -r line
"""


@each_engine
@bound(150)
def test_killed_at_any_moment(engine):
    """While it copies, creates, attaches, starts, runs: by itself, or by its keeper when it could not."""
    with Place(engine, "sleep 30") as p:
        runs = [(number, moment) for moment in MOMENTS for number in (signal.SIGTERM, signal.SIGKILL)]
        for start in range(0, len(runs), TOGETHER):
            batch = []
            begun = time.monotonic()
            for number, moment in runs[start:start + TOGETHER]:
                batch.append((p.start("--transport", "unix"), number, moment))
            for process, number, moment in batch:
                time.sleep(max(0.0, begun + moment - time.monotonic()))
                process.send_signal(number)
            for process, number, moment in batch:
                out, err = process.communicate(timeout=40 * harness.PATIENCE)
                what = f"signal {number} after {moment} s: {err.decode()[-300:]}"
                if number == signal.SIGKILL or process.returncode == -number:  # before it looked at signals
                    equal(process.returncode, -number, what)
                else:
                    document = json.loads(out)
                    equal((process.returncode, document["exit_code"], document["status"]), (143, 143, "cancelled"), what)
        p.nothing_left(30)


@each_engine
@bound(120)
def test_gone_in_mid_stream(engine):
    """However a run ends, its chat at the provider ends with it."""
    rows = Rows()
    with FakeProvider() as fake, Place(engine, providers=(openai(fake),)) as p:
        def exits(process: subprocess.Popen) -> None:
            Result.of(process).is_(0, "success")

        def killed(number: int, code: int):
            def work(process: subprocess.Popen) -> None:
                process.send_signal(number)
                process.communicate(timeout=30)
                equal(process.returncode, code)
            return work

        def timed_out(process: subprocess.Popen) -> None:
            Result.of(process).is_(124, "timeout", "TimeoutError")

        def removed(_: subprocess.Popen) -> None:
            for c in p.containers():
                p.engine.call("DELETE", f"/containers/{c['Id']}?force=1&v=1")

        ways = (("its program exits", "exit 0", (), exits), ("SIGTERM", "sleep 60", (), killed(signal.SIGTERM, 143)),
                ("SIGKILL", "sleep 60", (), killed(signal.SIGKILL, -9)), ("time-out", "sleep 60", ("--timeout", "2"), timed_out),
                ("its container is removed", "sleep 60", (), removed))
        for name, then, args, end in ways:
            for model in ("stall", "endless:1000"):
                with rows(f"{name}: {model}"):
                    before = len(fake.of(model))
                    p.script(ASK % model + then)
                    process = p.start(*args)
                    wait_until(lambda: len(fake.of(model)) > before, "its request", 20)
                    record = fake.find(model)
                    wait_until(lambda: record.phase == "streaming", "its stream", 20)
                    end(process)
                    check(fake.wait(lambda: record.closed, 10 * harness.PATIENCE), "the provider's stream goes on")
                    process.communicate(timeout=30)
                    p.nothing_left(20)
    rows.close()


@each_engine
@bound(60)
def test_container_removed_by_another(engine):
    """Its run ends, not well, and does not hang."""
    with Place(engine, "sleep 60") as p:
        process = p.start()
        p.engine.call("DELETE", f"/containers/{p.wait_running()[0]['Id']}?force=1&v=1")
        r = Result.of(process, 30)
        check(r.code != 0 and r["status"] == "error" and r["exit_code"] == r.code, r.document)
        p.nothing_left()


@each_engine
@bound(60)
def test_broker_dies(engine):
    """What waits for it ends with an error; the run itself goes on to its own end, and its remains go without the broker."""
    script = ASK % "stall" + r"""
while ! case $line in *APIConnectionError*) true;; *) false;; esac; do read -r line; done
printf '<<<TACTUS_BROKER>>>{"id":"again","method":"tool.call","params":{"name":"host.ping","args":{}}}\n' >&2
read -r line; echo "$line"
"""
    with FakeProvider() as fake, Place(engine, script, providers=(openai(fake),)) as p:
        process = p.start()
        wait_until(lambda: fake.find("stall").phase == "streaming", "its stream", 20)
        p.broker.signal(signal.SIGKILL)
        p.broker.wait()
        p.broker.process.returncode = 0  # as it was meant to end
        event = json.loads(Result.of(process, 30).is_(0, "success")["result"])
        equal((event["id"], event["event"], event["error"]["type"]), ("again", "error", "APIConnectionError"))
        wait_until(lambda: not [*p.containers(), *p.tmp.iterdir(), *p.mounts()], "nothing to be left", 15)
