"""tactus-brokerctl: chat, call, emit and info over every transport, for people and with --json; exit codes of sysexits.h."""
import json
import os
import signal
import subprocess

import harness as h
from fake_provider import TEXT, FakeProvider
from harness import TRANSPORTS, Broker, Rows, bound, check, configuration, equal, openai

PROGRAM = h.BUILD / "tactus-brokerctl"
EX_NOPERM, EX_TEMPFAIL, EX_PROTOCOL = 77, 75, 76


def environment(broker=None, transport: str = "unix") -> dict:
    env = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    if broker is not None:
        env["TACTUS_BROKER_SOCKET"] = broker.endpoint(transport)
    if transport == "tls":
        env["TACTUS_BROKER_TLS_CA_FILE"] = str(h.certificates() / "ca.pem")
    return env


def ctl(broker, *args, transport: str = "unix", **more):
    return h.run([PROGRAM, *args], env=environment(broker, transport), **more)


def events(result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@bound(30)
def test_every_command_over_every_transport():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for name, args, out in [("chat", ("chat", "one two 日本 🎉"), "one two 日本 🎉\n"), ("words", ("chat", "one", "two"), "one two\n"),
                                    ("plain chat", ("chat", "--no-stream", "--model", "builtin/echo", "hi"), "hi\n"),
                                    ("provider", ("chat", "--provider", "builtin", "--model", "echo", "hi"), "hi\n"),
                                    ("call", ("call", "host.ping"), '{"ok":true,"echo":{}}\n'),
                                    ("call with arguments", ("call", "host.echo", '{"n":1.0}'), '{"echo":{"n":1.0}}\n')]:
                with rows(f"{transport} {name}"):
                    result = ctl(broker, *args, transport=transport)
                    equal((result.returncode, result.stdout), (0, out), result.stderr)
            with rows(f"{transport} emit"):
                for what in ('{"event_type":"log"}', "a text"):
                    result = ctl(broker, "emit", what, transport=transport)
                    equal(result.returncode, 0, result.stderr)
            with rows(f"{transport} info"):
                result = ctl(broker, "info", transport=transport)
                equal(result.returncode, 0, result.stderr)
                for word in ("builtin", "llm.chat", "max_message_bytes", broker.endpoint(transport)):
                    check(word in result.stdout, f"no {word} in {result.stdout}")
    rows.close()


@bound(30)
def test_json():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            with rows(transport):
                got = events(ctl(broker, "chat", "--json", "one two", transport=transport))
                equal([e["event"] for e in got], ["delta", "delta", "done"])
                equal(got[-1]["data"]["text"], "one two")
                equal(events(ctl(broker, "call", "host.ping", "--json", transport=transport))[0]["data"], {"result": {"ok": True, "echo": {}}})
                equal(events(ctl(broker, "emit", "--json", "x", transport=transport))[0]["data"], {"ok": True})
                check("methods" in events(ctl(broker, "info", "--json", transport=transport))[0]["data"], "info")
                result = ctl(broker, "call", "--json", "no.tool", transport=transport)
                equal(events(result)[-1]["error"]["type"], "ToolNotAllowed")
                equal(result.returncode, EX_NOPERM)
    rows.close()


@bound(40)
def test_exit_codes():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for args, code in [(("nonsense",), h.EX_USAGE), ((), h.EX_USAGE), (("chat",), h.EX_USAGE), (("chat", "--colour", "x"), h.EX_USAGE),
                           (("--endpoint", "ftp://x", "info"), h.EX_USAGE), (("call", "host.ping", "[1]"), h.EX_DATAERR),
                           (("call", "host.ping", "{oops"), h.EX_DATAERR), (("call", "no.tool"), EX_NOPERM),
                           (("chat", "--model", "acme/x", "--provider", "acme", "hi"), h.EX_DATAERR),
                           (("chat", "--model", "builtin/error-429", "hi"), EX_TEMPFAIL), (("chat", "--model", "builtin/error-503", "hi"), h.EX_UNAVAILABLE),
                           (("chat", "--model", "builtin/error-401", "hi"), EX_NOPERM), (("chat", "--model", "builtin/error-400", "hi"), h.EX_DATAERR),
                           (("--endpoint", "/no/such.sock", "info"), h.EX_UNAVAILABLE), (("--endpoint", "tcp://127.0.0.1:9", "info"), h.EX_UNAVAILABLE),
                           (("--timeout", "0.3", "chat", "--model", "builtin/slow-5000", "hi"), EX_TEMPFAIL)]:
            with rows(" ".join(args)):
                result = ctl(broker, *args)
                equal(result.returncode, code, f"exit code ({result.stderr!r})")
                check(result.stderr.strip(), "nothing on stderr")
        with rows("cut stream: what came is shown, and the failure told"):
            result = ctl(broker, "chat", "--model", "builtin/cut", "one two three")
            check(result.returncode != 0 and result.stdout.startswith("one two"), f"{result}")
        with rows("a CA that is not the broker's"):
            result = h.run([PROGRAM, "info"], env={**environment(broker, "tls"), "TACTUS_BROKER_TLS_CA_FILE": str(h.certificates("strangers") / "ca.pem")})
            check(result.returncode in (h.EX_UNAVAILABLE, EX_PROTOCOL, EX_NOPERM), f"{result}")
        with rows("no CA, but insecure"):
            env = {**environment(broker, "tls"), "TACTUS_BROKER_TLS_INSECURE": "1"}
            del env["TACTUS_BROKER_TLS_CA_FILE"]
            equal(h.run([PROGRAM, "call", "host.ping"], env=env).returncode, 0)
        with rows("no broker named"):
            equal(h.run([PROGRAM, "info"], env={"PATH": os.environ["PATH"]}).returncode, h.EX_USAGE)
    rows.close()


@bound(30)
def test_chat_with_a_provider():
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            result = ctl(broker, "chat", "--model", "openai/text", "--system", "brief", "--temperature", "0.5", "--max-tokens", "9", "hi", transport=transport)
            equal((result.returncode, result.stdout), (0, TEXT + "\n"), result.stderr)
            sent = json.loads(fake.find("text").body)
            equal([m["content"] for m in sent["messages"]], ["brief", "hi"])
            equal((sent["temperature"], sent["max_tokens"], sent["stream"]), (0.5, 9, True))
        result = ctl(broker, "chat", "--model", "openai/status:503", "hi")
        check("the provider says 503" in result.stderr, result.stderr)


@bound(20)
def test_text_from_stdin_and_output_that_is_closed():
    with Broker(configuration()) as broker:
        file = h.TEMPORARY / "prompt"
        file.write_text("from\nstdin 🎉\n")
        with open(file) as stdin:
            result = ctl(broker, "chat", "-", stdin=stdin)
        equal((result.returncode, result.stdout), (0, "from\nstdin 🎉\n"), result.stderr)
        with open("/dev/full", "w") as full:
            process = h.spawn([PROGRAM, "chat", "x"], env=environment(broker), stdout=full, stderr=subprocess.PIPE)
            _, err = process.communicate(timeout=10 * h.PATIENCE)
            check(process.returncode == 74 and err, f"exit code {process.returncode}, {err!r}")


@bound(30)
def test_killed_client():
    """A real client killed in mid-stream: the provider sees it."""
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                before = len(fake.records)
                process = h.spawn([PROGRAM, "chat", "--model", "openai/slow:1000:20", "hi"], env=environment(broker, transport), stdout=subprocess.PIPE)
                check(process.stdout.read(2), "no output")
                process.send_signal(number)
                process.wait()
                process.stdout.close()
                equal(len(fake.records), before + 1)
                check(fake.wait(lambda: fake.records[-1].closed == "streaming", 3 * h.PATIENCE), f"{transport}: the provider did not see signal {number}")
