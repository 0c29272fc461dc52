"""No secret is in any output: not in logs at any level, replies, files, arguments or environment."""
import base64
import json
import os
import pathlib
import urllib.parse

import harness as h
from admin import TOKEN, Admin
from fake_provider import FakeProvider
from harness import KEY, Broker, bound, check, configuration, equal, openai
from test_events import Stream


def forms(key: str) -> dict[str, bytes]:
    raw = key.encode()
    encoded = {"plain": raw, "half": raw[:len(raw) * 2 // 3], "base64": base64.b64encode(raw), "base64 for URLs": base64.urlsafe_b64encode(raw),
               "base64 without padding": base64.b64encode(raw).rstrip(b"="), "URL-encoded": urllib.parse.quote(key, safe="").encode(),
               "URL-encoded in lower case": urllib.parse.quote(key, safe="").encode().replace(b"%2B", b"%2b").replace(b"%2F", b"%2f")}
    return encoded


def absent(where: str, data: bytes, secret: str = KEY, what: str = "the key") -> None:
    for name, form in forms(secret).items():
        at = data.find(form)
        check(at < 0, f"{what} ({name}) is in {where}: {data[max(0, at - 60):at + 20]!r}")


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


# ---- every kind of secret, every place ----

SECRETS = {  # where it comes from: letters that base64 and URL encoding change, no form by which a key is known
    "env": KEY, "file": "canary+file/3b9d~c1e57a60f2==", "command": "canary+command/77aa~0d4e8c19b6==", "admin": TOKEN + "+/==",
    "grant, env": "canary+grant-env/9e0f~41c6ab7d2835==", "grant, file": "canary+grant-file/52d8~f6b3e9a01c74==",
}
REDACTED = ("env", "file", "command", "admin")  # of a grant's token the broker keeps the hash alone


class Places:
    """What was read where. Each place says something that it must have: that shows that one looked at the right one."""

    def __init__(self) -> None:
        self.read: list[tuple[str, bytes]] = []

    def add(self, where: str, data: bytes | str, has: str) -> None:
        data = data.encode() if isinstance(data, str) else data
        check(has.encode() in data, f"{where} should have {has}: {data[-600:]!r}")
        self.read.append((where, data))

    def program(self, where: str, argv: list, env: dict, has: str) -> None:
        result = h.run(argv, env={"PATH": os.environ["PATH"], **env})
        self.add(where, result.stdout + result.stderr, has)

    def judge(self) -> None:
        rows = h.Rows()
        for where, data in self.read:
            with rows(where):
                for what, secret in SECRETS.items():
                    absent(where, data, secret, f"the secret ({what})")
        rows.close()


class Canaries(Broker):
    """A broker with a secret of every kind; `looks` is what its secret's program saw of the world."""

    def __init__(self, fake, log: str):
        directory = h.TEMPORARY / f"canaries-{log}"
        directory.mkdir()
        for name in ("file", "command", "grant, file"):
            (directory / name).touch(0o600)
            (directory / name).write_text(SECRETS[name] + "\n")
        program = directory / "program"
        self.looks, self.database = directory / "looks", directory / "usage.db"
        program.write_text(f"#!/bin/sh\ntr '\\0' '\\n' </proc/$$/environ >>'{self.looks}'\ntr '\\0' '\\n' </proc/$$/cmdline >>'{self.looks}'\n"
                           f"ls -l /proc/$$/fd >>'{self.looks}'\ntr '\\0' '\\n' </proc/$PPID/cmdline >>'{self.looks}'\ncat \"$1\"\n")
        program.chmod(0o700)
        sources = {"env": {"env": "OPENAI_API_KEY"}, "file": {"file": str(directory / "file")},
                   "command": {"command": [str(program), str(directory / "command")]}}
        self.config = configuration(
            *(openai(fake, name=name, keys=[source]) for name, source in sources.items()), transports=("unix", "tcp"),
            log={"level": "debug", "format": log}, usage={"database": str(self.database)},
            admin={"listen": [f"unix://{directory}/admin.sock", "tcp://127.0.0.1:0"], "token": {"env": "ADMIN_TOKEN"}})
        self.config["listeners"][1] = {"url": "tcp://127.0.0.1:0", "auth": "required"}
        self.config["grants"] += [{"name": "by-env", "token": {"env": "GRANT_TOKEN"}, "models": ["*"], "tools": ["*"]},
                                  {"name": "by-file", "token": {"file": str(directory / "grant, file")}, "models": ["*"], "tools": ["*"]}]
        self.secret_env = {"OPENAI_API_KEY": KEY, "ADMIN_TOKEN": SECRETS["admin"], "GRANT_TOKEN": SECRETS["grant, env"]}
        super().__init__(self.config, env=self.secret_env, endpoints=4)


def ask(broker: Broker, places: Places) -> None:
    """As clients: reflected secrets, secrets in the wrong places, tokens right, wrong, and in texts that are no JSON."""
    seen = bytearray()
    with broker.client() as c:
        for provider in ("env", "file", "command"):
            for stream in (False, True):
                for model in ("text", "reflect:401", "reflect-forms:400", "reflect-text", "reflect-call", "reflect-header"):
                    c.answer(f"{provider}/{model}", stream=stream)
        for secret in (SECRETS[name] for name in REDACTED):
            for model in (f"{secret}/x", f"env/{secret}", secret):
                c.answer(model)
            c.request("tool.call", {"name": secret, "args": {}})
            c.request(secret)
            c.request("llm.chat", {"model": "env/text", "messages": [{"role": secret, "content": "hi"}]})
            c.request("llm.chat", {"model": "env/text", secret: 1, "messages": secret})
            c.request("events.emit", {"event": {"event_type": "log", "message": f"key {secret}", secret: [secret]}})
            c.request("control.request", {"request": {"prompt": secret}})
        seen += c.seen
    for name in ("grant, env", "grant, file"):
        token = SECRETS[name]
        for sent in (token, token + "x", token[:-1]):
            with broker.client("tcp") as c:
                c.send("broker.info", token=sent)
                c.until_terminal()
                if sent == token:
                    c.send("llm.chat", {"model": "file/reflect:403", "messages": [{"role": "user", "content": "hi"}]}, token=sent)
                    c.until_terminal()
                seen += c.seen
        for body in (b'{"token":"%s","id":"a","method":}', b'{"token":["%s"],"id":"a","method":"broker.info"}', b'{"token":"%s","id":"a","method":"none"}'):
            with broker.client("tcp") as c:
                c.send_body(body % token.encode())
                c.event()
                seen += c.seen
    places.add("replies", bytes(seen), "[redacted]")


def operate(broker: Canaries, places: Places) -> None:
    """As an operator, over the admin API."""
    for admin in (Admin(broker), Admin(broker, unix=False, token=SECRETS["admin"])):
        for path, has in (("status", '"providers"'), ("grants", "by-env"), ("grants/by-file", "by-file"), ("usage?by=model,grant,run,day", "requests")):
            places.add(f"GET {path}", admin.call("GET", "/v1/" + path).body, has)
        for name in REDACTED:
            secret = SECRETS[name]
            quoted = urllib.parse.quote(secret, safe="")
            for method, path, body in (("GET", f"/v1/grants/{quoted}", None), ("GET", f"/v1/usage?by={quoted}", None), ("GET", f"/v1/usage?since={quoted}", None),
                                       ("GET", f"/{quoted}", None), ("POST", "/v1/grants", {secret: 1}), ("POST", "/v1/grants", {"listener": {secret: 1}}),
                                       ("POST", "/v1/grants", {"ttl": secret}), ("POST", "/v1/grants", {"models": secret}), ("POST", "/v1/grants", secret.encode())):
                places.add(f"{method} {path} with the secret ({name})", admin.call(method, path, body).body, '"error"')
        made = admin.good(201, "POST", "/v1/grants", {"run": "r", "tools": ["*"]})
        SECRETS[f"grant, made {len(SECRETS)}"] = made["token"]
        places.add("GET of a grant that was made", admin.call("GET", f"/v1/grants/{made['id']}").body, made["id"])
        with broker.client("tcp") as c:
            c.send("broker.info", token=made["token"])
            places.add("reply to a grant that was made", h.compact(c.until_terminal()), "done")
        good = broker.file.read_text()
        for name, text in (("a key more", good[:-1] + ', "colour": 1}'), ("another's variable", good.replace('"GRANT_TOKEN"', '"BRAND_NEW"')), ("no YAML", "{")):
            broker.file.write_text(text)
            places.add(f"reload: {name}", admin.call("POST", "/v1/reload").body, "Unprocessable")
        broker.file.write_text(good)
        places.add("reload", admin.call("POST", "/v1/reload").body, "generation")
    for wrong in (SECRETS["admin"] + "x", SECRETS["admin"][:-1], KEY):
        places.add("reply to a wrong token", Admin(broker, unix=False, token=wrong).call("GET", "/v1/status").body, "Unauthenticated")


def run_programs(broker: Canaries, places: Places) -> None:
    program, ctl = h.BUILD / "tactus-broker", h.BUILD / "tactus-brokerctl"
    places.program("--print-config", [program, "--print-config", "--config", broker.file], broker.secret_env, "ADMIN_TOKEN")
    places.program("--check-config", [program, "--check-config", "--config", broker.file], broker.secret_env, "broker.yml")
    url = next(line for line in broker.endpoints if line.startswith("http://"))
    for env in ({"TACTUS_BROKER_ADMIN_TOKEN": SECRETS["admin"]}, {"TACTUS_BROKER_ADMIN_TOKEN": SECRETS["admin"] + "x"}):
        for args in (("status",), ("grants",), ("usage", "--by", "model"), ("reload",), ("grants", "revoke", KEY), ("status", "--json")):
            places.program(f"brokerctl {args}", [ctl, *args], {"TACTUS_BROKER_ADMIN": url, **env}, "")
    for args in (("info",), ("chat", "--model", "env/reflect:401", "hi"), ("chat", "--model", "file/reflect-text", "hi"), ("chat", "--model", "command/reflect:500", "hi")):
        places.program(f"brokerctl {args}", [ctl, *args], {"TACTUS_BROKER_SOCKET": broker.endpoint("unix")}, "[redacted]" if "chat" in args else "")


def read_files(broker: Canaries, places: Places) -> None:
    """The ledger's, and what the kernel shows of the processes."""
    for suffix in ("", "-wal", "-shm"):
        path = pathlib.Path(f"{broker.database}{suffix}")
        places.add(f"the ledger{suffix}", path.read_bytes(), {"": "SQLite", "-wal": "reflect", "-shm": ""}[suffix])
    places.add("the broker's arguments", pathlib.Path(f"/proc/{broker.pid}/cmdline").read_bytes(), "--config")
    if os.geteuid() == 0:  # to nobody else it is open
        places.add("the broker's environment", pathlib.Path(f"/proc/{broker.pid}/environ").read_bytes(), "PATH=")
    places.add("what the secret's program sees", broker.looks.read_bytes(), "PATH=")
    check("socket:" not in broker.looks.read_text(), f"descriptors are handed on: {broker.looks.read_text()}")


@bound(120)
def test_every_secret_in_no_place():
    """Of a variable, a file, a program; the admin API's, and tokens of grants; in plain, base64 and URL-encoded form."""
    for log in ("json", "text"):
        places = Places()
        with FakeProvider() as fake, Canaries(fake, log) as broker:
            with Stream(Admin(broker)) as events:
                ask(broker, places)
                places.add("events", json.dumps([events.next() for _ in REDACTED], ensure_ascii=False), "event_type")
            equal({r.headers["authorization"].removeprefix("Bearer ") for r in fake.of("text")}, {SECRETS[n] for n in ("env", "file", "command")}, "keys that were used")
            operate(broker, places)
            run_programs(broker, places)
            h.wait_until(lambda: b"reflect" in pathlib.Path(f"{broker.database}-wal").read_bytes(), "the ledger")
            read_files(broker, places)
            places.add("drain", Admin(broker).call("POST", "/v1/drain").body, "draining")
            equal(broker.wait(), 0)
            places.add("the ledger when all is over", broker.database.read_bytes(), "reflect")
            places.add("stdout", broker.stdout(), "http://")
            places.add("the log", broker.stderr(), "debug" if log == "json" else "DEBUG")
        places.judge()


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
