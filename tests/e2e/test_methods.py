"""The methods with the built-in provider and tools, over every transport and in both framings."""
import harness as h
from fake_provider import FakeProvider
from harness import FRAMINGS, TRANSPORTS, Broker, Rows, bound, check, configuration, equal, error, openai

CHAT = {"model": "builtin/echo", "messages": [{"role": "user", "content": "x"}]}


def result(value) -> list[dict]:
    return [{"id": "a", "event": "done", "data": {"result": value}}]


def bad(message: str) -> list[dict]:
    return error("a", "BadRequest", message)


UNDEFINED = object()

# (name, method, params, events), every event exactly
TABLE = [
    ("ping", "tool.call", {"name": "host.ping", "args": {"n": 1}}, result({"ok": True, "echo": {"n": 1}})),
    ("ping without args", "tool.call", {"name": "host.ping"}, result({"ok": True, "echo": {}})),
    ("ping, args null", "tool.call", {"name": "host.ping", "args": None}, result({"ok": True, "echo": {}})),
    ("echo", "tool.call", {"name": "host.echo", "args": {"é": ["日本", None, True, -1.5]}}, result({"echo": {"é": ["日本", None, True, -1.5]}})),
    ("args a list", "tool.call", {"name": "host.echo", "args": [1]}, bad("params.args must be an object")),
    ("args a string", "tool.call", {"name": "host.echo", "args": "{}"}, bad("params.args must be an object")),
    ("args false", "tool.call", {"name": "host.echo", "args": False}, bad("params.args must be an object")),
    ("name missing", "tool.call", {}, bad("params.name must be a string")),
    ("name missing before args", "tool.call", {"args": 1}, bad("params.name must be a string")),
    ("name empty", "tool.call", {"name": ""}, bad("params.name must be a string")),
    ("name a number", "tool.call", {"name": 1}, bad("params.name must be a string")),
    ("name null", "tool.call", {"name": None}, bad("params.name must be a string")),
    ("params absent", "tool.call", UNDEFINED, bad("params.name must be a string")),
    ("tool unknown", "tool.call", {"name": "host.exec", "args": {}}, error("a", "ToolNotAllowed", "Tool not allowlisted: host.exec")),
    ("tool of other letters", "tool.call", {"name": "日本\n"}, error("a", "ToolNotAllowed", "Tool not allowlisted: 日本\n")),
    ("event", "events.emit", {"event": {"event_type": "log", "message": "hi"}}, [{"id": "a", "event": "done", "data": {"ok": True}}]),
    ("event empty", "events.emit", {"event": {}}, [{"id": "a", "event": "done", "data": {"ok": True}}]),
    ("event a string", "events.emit", {"event": "hi"}, bad("params.event must be an object")),
    ("event null", "events.emit", {"event": None}, bad("params.event must be an object")),
    ("event absent", "events.emit", UNDEFINED, bad("params.event must be an object")),
    ("nobody answers", "control.request", {"request": {"type": "approve"}}, error("a", "NoControlHandler", "No control handler configured")),
    ("request a number", "control.request", {"request": 1}, bad("params.request must be an object")),
    ("request absent", "control.request", UNDEFINED, bad("params.request must be an object")),
    ("mcp list", "mcp.list_tools", {"server": "s"}, error("a", "MCPNotConfigured", "No broker MCP servers configured")),
    ("mcp list, no server", "mcp.list_tools", {}, bad("params.server must be a string")),
    ("mcp list, empty server", "mcp.list_tools", {"server": ""}, bad("params.server must be a string")),
    ("mcp call", "mcp.call_tool", {"server": "s", "name": "t", "args": {}}, error("a", "MCPNotConfigured", "No broker MCP servers configured")),
    ("mcp call, no server", "mcp.call_tool", {"name": "t"}, bad("params.server must be a string")),
    ("mcp call, no name", "mcp.call_tool", {"server": "s"}, bad("params.name must be a string")),
    ("mcp call, args a list", "mcp.call_tool", {"server": "s", "name": "t", "args": []}, bad("params.args must be an object")),
    ("chat, unknown provider first", "llm.chat", {"provider": "acme"}, error("a", "UnsupportedProvider", "Unsupported provider: acme")),
    ("chat, then the model", "llm.chat", {"provider": "builtin", "model": ""}, bad("params.model must be a string")),
    ("chat, model absent", "llm.chat", {"provider": "builtin"}, bad("params.model must be a string")),
    ("chat, model a number", "llm.chat", {"provider": "builtin", "model": 1}, bad("params.model must be a string")),
    ("chat, model null", "llm.chat", {"provider": "builtin", "model": None}, bad("params.model must be a string")),
    ("chat, then the messages", "llm.chat", {"provider": "builtin", "model": "echo"}, bad("params.messages must be a list")),
    ("chat, messages a string", "llm.chat", {"provider": "builtin", "model": "echo", "messages": "x"}, bad("params.messages must be a list")),
    ("chat, messages an object", "llm.chat", {"provider": "builtin", "model": "echo", "messages": {}}, bad("params.messages must be a list")),
]


@bound(30)
def test_exact_answers():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                with broker.client(transport, framing) as c:
                    for name, method, params, events in TABLE:
                        with rows(f"{transport} {framing}: {name}"):
                            c.send(method, None if params is UNDEFINED else params)
                            equal([c.event() for _ in events], events)
                            c.ping()
    rows.close()


def builtin_rows(c, rows) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two 日本 🎉"}]
    usage = {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}
    with rows("plain"):
        data = h.done(c.request("llm.chat", {"provider": "builtin", "model": "echo", "messages": messages}))
        equal(list(data)[:2], ["text", "usage"])
        equal((data["text"], data["finish_reason"]), ("one two 日本 🎉", "stop"))
        equal({k: data["usage"][k] for k in usage}, usage)
    with rows("streamed"):
        events = c.request("llm.chat", {"provider": "builtin", "model": "echo", "messages": messages, "stream": True})
        equal([e["data"] for e in events[:-1]], [{"text": t} for t in ("one", " two", " 日本", " 🎉")])
        equal({k: h.done(events)["usage"][k] for k in usage}, usage)
    for provider in (None, ""):
        with rows(f"provider {provider!r} counts as absent"):
            equal(h.done(c.request("llm.chat", {**CHAT, "provider": provider}))["text"], "x")
    with rows("content as parts"):
        parts = [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]
        text = h.done(c.request("llm.chat", {**CHAT, "messages": [{"role": "user", "content": parts}]}))["text"]
        check(text.startswith("in") and text.endswith("parts"), text)
    with rows("tool"):
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        for stream in (False, True):
            data = h.done(c.request("llm.chat", {**CHAT, "model": "builtin/tool", "tools": tools, "stream": stream}))
            equal((data["text"], data["finish_reason"]), ("", "tool_calls"))
            equal([x["function"] for x in data["tool_calls"]], [{"name": "look", "arguments": '{"echo":"x"}'}])
    with rows("reason"):
        events = c.request("llm.chat", {**CHAT, "model": "builtin/reason", "stream": True})
        equal(list(events[0]["data"]), ["reasoning"])
        equal(h.done(events)["text"], "x")
    with rows("tokens"):
        equal(h.done(c.answer("builtin/tokens-50"))["text"].split(), ["token"] * 50)
        equal(h.done(c.answer("builtin/tokens-50", stream=False))["usage"]["completion_tokens"], 50)
    with rows("cut"):
        events = c.answer("builtin/cut", content="one two three")
        equal(h.text_of(events), "one two")
        h.failure(events, "APIResponseValidationError", partial_text_bytes=7)
    for status, kind in [(400, "BadRequestError"), (413, "BadRequestError"), (422, "UnprocessableEntityError"),
                         (401, "AuthenticationError"), (403, "PermissionDeniedError"), (404, "NotFoundError"),
                         (408, "APITimeoutError"), (409, "ConflictError"), (429, "RateLimitError"),
                         (500, "InternalServerError"), (502, "InternalServerError"), (503, "InternalServerError"),
                         (529, "InternalServerError")]:
        for stream in (False, True):
            with rows(f"error {status}, stream {stream}"):
                fields = {"status": status, **({"retry_after": 1} if status == 429 else {})}
                h.failure(c.answer(f"builtin/error-{status}", stream=stream), kind, **fields)


@bound(60)
def test_builtin_provider():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                with broker.client(transport, framing) as c:
                    builtin_rows(c, rows)
    rows.close()


@bound(20)
def test_cancel():
    rows = Rows()
    with Broker(configuration(transports=TRANSPORTS)) as broker:
        for transport in TRANSPORTS:
            for framing in FRAMINGS:
                for stream in (False, True):
                    with rows(f"{transport} {framing} stream {stream}"), broker.client(transport, framing) as c:
                        c.chat("builtin/slow-5000", "long", stream=stream)
                        c.send("broker.cancel", {"id": "long"}, "c")
                        events = c.gather(2)
                        h.failure(events["long"], "Cancelled")
                        equal(events["c"], [{"id": "c", "event": "done", "data": {"cancelled": True}}])
                        equal(c.request("broker.cancel", {"id": "long"}), [{"id": "a", "event": "done", "data": {"cancelled": False}}])
                        for params in ({}, {"id": 1}, None):
                            h.failure(c.request("broker.cancel", params), "BadRequest")
                        c.ping("long")
    rows.close()


@bound(20)
def test_cancel_reaches_only_its_own_connection():
    with Broker(configuration()) as broker, broker.client() as a, broker.client() as b:
        a.chat("builtin/slow-100", "x", stream=False)
        equal(b.request("broker.cancel", {"id": "x"})[0]["data"], {"cancelled": False})
        equal(h.done(a.until_terminal("x"))["text"], "hi")


@bound(20)
def test_info():
    with FakeProvider() as fake:
        config = configuration(openai(fake), openai(fake, "other"), transports=TRANSPORTS, grant={"models": ["builtin/*", "other/m-*"]})
        with Broker(config) as broker, broker.client() as c:
            data = h.done(c.request("broker.info"))
            version = h.run([h.BUILD / "tactus-broker", "--version"]).stdout.split()[-1]
            equal(data["version"], version)
            for method in ("llm.chat", "tool.call", "events.emit", "control.request", "mcp.list_tools", "mcp.call_tool", "broker.cancel", "broker.info"):
                check(method in data["methods"], f"{method} is not among {data['methods']}")
            text = bytes(c.seen).decode()
            for name in ("builtin", "other", "limits", "max_message_bytes"):
                check(name in text, f"no {name} in {text}")
            for secret in (h.KEY, "OPENAI_API_KEY", str(h.TEMPORARY), str(h.ROOT), "127.0.0.1", "/tmp"):
                check(secret not in text, f"{secret} is in broker.info")


@bound(20)
def test_allowlists():
    config = configuration(grant={"models": ["builtin/ec*"], "tools": ["host.p*"]})
    with Broker(config) as broker, broker.client() as c:
        equal(h.done(c.answer("builtin/echo"))["text"], "hi")
        h.failure(c.answer("builtin/tool"), "ModelNotAllowed")
        h.failure(c.request("llm.chat", {"provider": "builtin", "model": "tool", "messages": 1}), "BadRequest")
        c.ping()
        equal(c.request("tool.call", {"name": "host.echo"}), error("a", "ToolNotAllowed", "Tool not allowlisted: host.echo"))
    nothing = configuration()
    nothing["grants"] = [{"name": "all"}]
    with Broker(nothing) as broker, broker.client() as c:
        h.failure(c.answer("builtin/echo"), "ModelNotAllowed")
        h.failure(c.request("tool.call", {"name": "host.ping"}), "ToolNotAllowed")
