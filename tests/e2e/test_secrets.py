"""The key is in no output: not in logs at any level, replies, arguments or environment."""
import base64
import pathlib
import urllib.parse

import harness as h
from fake_provider import FakeProvider
from harness import KEY, Broker, bound, check, configuration, equal, openai


def forms(key: str) -> dict[str, bytes]:
    raw = key.encode()
    encoded = {"plain": raw, "half": raw[:len(raw) * 2 // 3], "base64": base64.b64encode(raw), "base64 for URLs": base64.urlsafe_b64encode(raw),
               "base64 without padding": base64.b64encode(raw).rstrip(b"="), "URL-encoded": urllib.parse.quote(key, safe="").encode(),
               "URL-encoded in lower case": urllib.parse.quote(key, safe="").encode().replace(b"%2B", b"%2b").replace(b"%2F", b"%2f")}
    return encoded


def absent(where: str, data: bytes) -> None:
    for name, form in forms(KEY).items():
        at = data.find(form)
        check(at < 0, f"the key ({name}) is in {where}: {data[max(0, at - 60):at + 20]!r}")


def talk(broker, fake, seen: bytearray) -> None:
    """Every kind of request, in both framings, over every transport."""
    for transport in h.TRANSPORTS:
        for framing in h.FRAMINGS:
            with broker.client(transport, framing) as c:
                for stream in (False, True):
                    for model in ("text", "reflect:401", "reflect:500", "reflect-forms:400", "reflect-text", "reflect-call", "reflect-header", "status:429", "reset",
                                  "cut:rst:chunked", "html:text/html", "error-inside:500", "redirect:307", "no-such-provider/x"):
                        c.answer("openai/" + model, stream=stream)
                c.request("broker.info")
                c.request("fs.read", {"path": f"/proc/{broker.pid}/environ"})
                c.send_body(b'{"id":"a","method":"llm.chat","params":{"model":"text","messages":[}}')
                c.event()
                seen += c.seen


@bound(60)
def test_canary():
    """BerriAI/litellm#20240, #35678; Infisical/agent-vault#258: at log level debug, in every form."""
    seen = bytearray()
    with FakeProvider() as fake, FakeProvider() as other:
        fake.redirect_to = other.url + "/chat/completions"
        config = configuration(openai(fake), transports=h.TRANSPORTS, log={"level": "debug"})
        with Broker(config) as broker:
            talk(broker, fake, seen)
            check(fake.find("text").headers["authorization"] == f"Bearer {KEY}", "the provider did not get the key")
            absent("the arguments", pathlib.Path(f"/proc/{broker.pid}/cmdline").read_bytes())
            try:
                absent("the environment", pathlib.Path(f"/proc/{broker.pid}/environ").read_bytes())
            except PermissionError:
                pass  # as it should be for anyone but root
            broker.stop()
            absent("stdout", broker.stdout().encode())
            absent("stderr", broker.stderr().encode())
            check(len(broker.stderr()) > 1000, "level debug logs nothing")
        equal(len(other.records), 0, "requests at the redirect's target")
    absent("a reply", bytes(seen))
    check(b"[redacted]" in seen, "nothing was redacted")


@bound(20)
def test_reflected_text_is_scrubbed_and_whole():
    """Split over deltas or not: what is left is the same, and deltas agree with the done."""
    want = "key [redacted] again [redacted] by letter [redacted] end"
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker, broker.client() as c:
        for stream in (False, True):
            equal(h.done(c.answer("reflect-text", stream=stream))["text"], want, f"stream {stream}")


@bound(20)
def test_reflected_calls_are_scrubbed():
    """The id, the name and the arguments of a tool call, and the model's name."""
    want = [{"id": "call_[redacted]", "type": "function", "function": {"name": "f_[redacted]", "arguments": '{"k": "[redacted]"}'}}]
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker, broker.client() as c:
        for stream in (False, True):
            done = h.done(c.answer("reflect-call", stream=stream))
            equal(done["tool_calls"], want, f"stream {stream}")
            equal(done["model"], "[redacted]", f"stream {stream}")


@bound(20)
def test_scrubbing_does_not_hold_back_what_is_no_secret():
    """EdanStarfire/claudecode_webui#1425: a delta waits only while its end begins a secret."""
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker, broker.client() as c:
        c.chat("slow:3:300")
        for n in range(3):
            equal(c.event()["data"], {"text": f" {n}"})
            check(n == 2 or fake.find("slow:3:300").phase == "streaming", f"delta {n} came with the end only")
        h.done(c.until_terminal())
        events = c.answer("near-secret")
        equal(h.done(events)["text"], "it begins sk-canary- but goes on otherwise, and ends sk-canary-QW")


@bound(20)
def test_no_core_and_no_ptrace():
    with Broker(configuration()) as broker:
        limits = pathlib.Path(f"/proc/{broker.pid}/limits").read_text()
        line = next(x for x in limits.split("\n") if x.startswith("Max core file size"))
        equal(line.split()[4:6], ["0", "0"], "limit of core files")
