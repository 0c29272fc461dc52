"""Transport stdio: requests on the container's stderr, replies on its stdin, log records between them."""
import contextlib
import json
import os
import subprocess
import threading
import time

import harness
from fake_provider import FakeProvider
from harness import Rows, bound, check, equal, openai, spawn, wait_until
from place import Place, Result, each_engine, peak

MODEST = 64 << 20  # bytes of memory that a runner may have, whatever comes

# $1: how many; the model of all of them
MANY = r"""
read -r request
i=0; while [ $i -lt %d ]; do
  printf '<<<TACTUS_BROKER>>>{"id":"r%%d","method":"llm.chat","params":{"model":"%s","messages":[{"role":"user","content":"a b"}],"stream":true}}\n' $i >&2
  i=$((i+1)); done
n=0; while [ $n -lt %d ]; do read -r line; case "$line" in *'"event":"done"'*) n=$((n+1));; *'"event":"error"'*) echo "$line"; exit 9;; esac; done
echo all $n
"""

# A request of %d bytes, line end not counted: 77 around the padding
LONG = r"""
read -r request
printf '<<<TACTUS_BROKER>>>{"id":"long","method":"tool.call","params":{"name":"host.ping","pad":"' >&2
head -c %d /dev/zero | tr '\0' x >&2
printf '","args":{}}}\n' >&2
read -r line; echo "$line"
printf '<<<TACTUS_BROKER>>>{"id":"next","method":"tool.call","params":{"name":"host.ping","args":{}}}\n' >&2
while case $line in *next*) false;; esac; do read -r line; done
echo "$line"
"""
AROUND = len('{"id":"long","method":"tool.call","params":{"name":"host.ping","pad":"","args":{}}}')
LIMIT = 100 << 20


def many(count: int, model: str) -> str:
    return MANY % (count, model, count)


@each_engine
@bound(60)
def test_many_in_flight(engine):
    """All of them reach the provider before the first is answered, and each gets its own answer."""
    count = 40
    with FakeProvider() as fake, Place(engine, many(count, "openai/first:1.5"), providers=(openai(fake),)) as p:
        process = p.start()
        wait_until(lambda: len(fake.of("first:1.5")) == count, f"{count} requests (there are {len(fake.records)})", 30)
        check(not any(r.phase == "complete" for r in fake.records), "one was answered before all had come")
        equal(Result.of(process).is_(0, "success")["result"], f"all {count}")


@each_engine
@bound(120)
def test_longest_line(engine):
    """One of 100 MiB passes, one byte more is refused by the broker, and the runner keeps neither."""
    rows = Rows()
    ping = {"event": "done", "data": {"result": {"ok": True, "echo": {}}}}
    with Place(engine) as p:
        for name, size in (("100 MiB", LIMIT), ("one byte more", LIMIT + 1)):
            with rows(name):
                p.script(LONG % (size - AROUND))
                process = p.start()
                memory = Peak(process)
                lines = Result.of(process).is_(0, "success")["result"].split("\n")
                first, second = map(json.loads, lines)
                if size <= LIMIT:
                    equal(first, {"id": "long", **ping})
                else:
                    equal((first["event"], first["error"]["type"]), ("error", "MessageTooLarge"), f"{first}")
                equal(second, {"id": "next", **ping})
                memory.is_modest()
    rows.close()


class Peak(threading.Thread):
    """Looks at a runner's memory until it has ended."""

    def __init__(self, process: subprocess.Popen):
        super().__init__(daemon=True)
        self.process, self.highest = process, 0
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while highest := peak(self.process.pid):
                self.highest = highest
                time.sleep(0.02)

    def is_modest(self) -> None:
        if not harness.SANITIZED:
            check(0 < self.highest < MODEST, f"the runner's memory was {self.highest >> 20} MiB")


@each_engine
@bound(60)
def test_a_container_that_does_not_read(engine):
    """It blocks itself: another run goes on, its own time-out ends it, and nothing piles up in the runner."""
    flood = r"""
read -r request
printf '<<<TACTUS_BROKER>>>{"id":"f","method":"llm.chat","params":{"provider":"builtin","model":"tokens-3000000","messages":[{"role":"user","content":"x"}],"stream":true}}\n' >&2
sleep 60
"""
    with Place(engine, flood) as p:
        process = p.start("--timeout", "5")
        p.wait_running()
        memory = Peak(process)
        p.script(many(40, "builtin/slow-20"))
        equal(p.run().is_(0, "success")["result"], "all 40")
        check(process.poll() is None, "the other has ended")
        Result.of(process).is_(124, "timeout", "TimeoutError")
        memory.is_modest()
        p.nothing_left()


@each_engine
@bound(60)
def test_a_broker_that_does_not_read(engine):
    """A provider takes nothing, the container asks on: the broker's limits answer, or hold it up, and it can be ended."""
    script = r"""
read -r request
pad=$(head -c 60000 /dev/zero | tr '\0' x)
i=0; while :; do
  printf '<<<TACTUS_BROKER>>>{"id":"r%d","method":"llm.chat","params":{"model":"openai/silence","messages":[{"role":"user","content":"%s"}]}}\n' $i $pad >&2
  i=$((i+1)); done
"""
    with FakeProvider() as fake, Place(engine, script, providers=(openai(fake),)) as p:
        process = p.start("--timeout", "4")
        memory = Peak(process)
        Result.of(process).is_(124, "timeout", "TimeoutError")
        memory.is_modest()
        check(fake.wait(lambda: fake.of("silence") and all(r.closed for r in fake.records), 10), "a request lives on")
        p.nothing_left()


@each_engine
@bound(60)
def test_odd_lines(engine):
    """No JSON, no id, bytes that are no text, a request in pieces, one that is cut by the end: answered, or dropped, in order."""
    script = r"""
read -r request
ask() { printf '<<<TACTUS_BROKER>>>%s\n' "$1" >&2; read -r line; echo "$line"; }
ask 'no json'
ask '{"method":"tool.call"}'
ask '{"id":"m","method":"nothing"}'
ask '{"id":"\u00e9\"","method":"tool.call","params":{"name":"host.echo","args":{"t":"ü\u0000\ud83d\ude00"}}}'
printf '<<<TACTUS_' >&2; sleep 0.2; printf 'BROKER>>>{"id":"cut' >&2; sleep 0.2; printf '","method":"tool.call","params":{"name":"host.ping"}}' >&2
sleep 0.2; printf '\n' >&2; read -r line; echo "$line"
printf '\377\376<<<TACTUS_BROKER>>>{"id":"no","method":"tool.call","params":{"name":"host.ping"}}\n' >&2
printf '<<<TACTUS_BROKER>>>{"id":"unfinished","method":"tool.call"' >&2
"""
    with Place(engine, script) as p:
        r = p.run().is_(0, "success")
        events = [json.loads(line) for line in r["result"].split("\n")]
        equal([e["event"] for e in events], ["error", "error", "error", "done", "done"], f"{events}")
        equal([e["id"] for e in events[2:]], ["m", 'é"', "cut"])
        equal(events[3]["data"]["result"]["echo"], {"t": "ü\0\U0001f600"})
        check('"id":"no"' in r.err, "what stands before the prefix makes it text")


LOGS = r"""
echo '2025-01-31 12:34:56,789 [ERROR] some.logger: it broke' >&2
echo '  more of it' >&2
echo '	tab' >&2
echo 'Context: here' >&2
echo '{"a":1}' >&2
echo '[list]' >&2
echo '2025-01-31 12:34:56,789 [DEBUG] some.logger: unseen' >&2
echo '2025-01-31 12:34:56,789 [FANCY] other: unknown level' >&2
echo '2025-01-31 12:34:56,789 [WARNING] other: careful' >&2
echo 'plain words' >&2
head -c 300000 /dev/zero | tr '\0' y >&2; echo >&2
printf 'without an end' >&2
echo out
"""


@each_engine
@bound(60)
def test_logs(engine):
    """As records of the runner's own log, at their levels; or raw, byte by byte."""
    rows = Rows()
    with Place(engine, LOGS) as p:
        for form in ("", "rich", "terminal"):
            with rows(form or "as it is"):
                r = p.run(*(["--env", f"TACTUS_LOG_FORMAT={form}"] if form else []), json_only=False).is_(0, "success")
                check(r.out.startswith("out\n"), r.out)
                for words in ("ERROR some.logger: it broke", "more of it", "Context: here", '{"a":1}', "[list]", "INFO  other: unknown level",
                              "WARN  other: careful", "WARN  container.stderr: plain words", "without an end", 1000 * "y"):
                    check(words in r.err, f"{words[:40]!r} is not in {r.err[:1500]!r}")
                check("unseen" not in r.err, r.err[:500])
        with rows("raw"):
            r = p.run("--env", "TACTUS_LOG_FORMAT=raw", json_only=False).is_(0, "success")
            said = subprocess.run(["sh", "-c", LOGS], capture_output=True, text=True).stderr
            check(said in r.err, f"not as it came: {r.err[:600]!r}")
        with rows("only the result"):
            r = p.run().is_(0, "success")
            equal(len(r.out.strip().split("\n")), 1, "lines on stdout")
            check("out" in r.err.split("\n"), "the container's stdout is not on stderr")
    rows.close()


@each_engine
@bound(60)
def test_endless_output(engine):
    """`yes` on both streams: the runner's memory stays small and the time-out ends it."""
    with Place(engine, "yes one & yes two >&2") as p, open(os.devnull, "wb") as null:
        process = spawn(p.argv("--timeout", "3"), stdout=subprocess.PIPE, stderr=null, env=p.env)
        memory = Peak(process)
        document = json.loads(process.stdout.read())
        equal((process.wait(), document["status"]), (124, "timeout"))
        memory.is_modest()
        p.nothing_left()
