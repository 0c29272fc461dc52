"""An OpenAI-compatible provider: what is sent to it, what comes back, and every way in which it can fail."""
import json

import harness as h
from fake_provider import PLAIN_TRANSCRIPT, TEXT, TRANSCRIPTS, USAGE, WORDS, Blackhole, FakeProvider
from harness import KEY, Broker, Rows, bound, check, configuration, equal, openai

HALF = len("".join(WORDS[:2]).encode())  # what a stream that is cut has shown
LIMITS = {"provider_first_byte_timeout": 1, "stall_timeout": 1, "connect_timeout": 1, "max_reply_bytes": 1 << 20}


def broker_for(fake, **sections):
    return Broker(configuration(openai(fake), limits=LIMITS, **sections))


# ---- right answers --------------------------------------------------------------------------------------------


@bound(20)
def test_text_and_usage():
    rows = Rows()
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=h.TRANSPORTS)) as broker:
        for transport in h.TRANSPORTS:
            for framing in h.FRAMINGS:
                with broker.client(transport, framing) as c:
                    for stream in (False, True):
                        for model in ("openai/text", "http10", "dribble", "first:0.3"):
                            with rows(f"{transport} {framing} {model} stream {stream}"):
                                events = c.answer(model, stream=stream)
                                data = h.done(events)
                                equal((data["text"], data["finish_reason"], data["model"]), (TEXT, "stop", "fake-1"))
                                equal({k: data["usage"][k] for k in USAGE}, USAGE)
                                equal([e["data"]["text"] for e in events[:-1]], WORDS if stream else [])
                                check("tool_calls" not in data, "tool_calls without a call")
                                c.ping()
    rows.close()


@bound(20)
def test_https_provider():
    certs = h.certificates()
    with FakeProvider(str(certs / "server.pem"), str(certs / "server.key")) as fake:
        config = configuration(openai(fake, ca_file=str(certs / "ca.pem")), openai(fake, "untrusted"), limits=LIMITS)
        with Broker(config) as broker, broker.client() as c:
            for stream in (False, True):
                for model in ("text", "dribble", "tokens:2000"):
                    h.done(c.answer(model, stream=stream or ":" in model))
            equal({r.headers["authorization"] for r in fake.records}, {f"Bearer {KEY}"})
            before = len(fake.records)
            h.failure(c.answer("untrusted/text"), "APIConnectionError", provider="untrusted")
            equal(len(fake.records), before, "requests at a provider whose certificate is not trusted")


@bound(30)
def test_a_stream_arrives_as_it_is_made():
    """Not buffered (Kong/kong#14425): each delta comes before the next is due."""
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client() as c:
        c.chat("slow:4:400")
        for n in range(4):
            equal(c.event()["data"]["text"], f" {n}")
            check(n == 3 or fake.find("slow:4:400").phase == "streaming", f"delta {n} came only with the end")
        equal(h.done(c.until_terminal())["text"], " 0 1 2 3", "text")


# Every message event is the same whatever way the provider's bytes were cut (api7/aisix#111, katanemo/plano#980,
# xberg-io/liter-llm#152, envoyproxy/ai-gateway#2162, Portkey-AI/gateway#1035).


def every_cut(broker, name: str, size: int, stream: bool) -> list[bytes]:
    """The event bytes, without the id, of the answer cut at each byte; all the same, or a failure."""
    wanted: list[bytes] = []
    clients = [broker.client("unix", framing) for framing in h.FRAMINGS * 2]
    positions = list(range(size))
    while positions:
        batch, positions = positions[:120], positions[120:]
        for n, position in enumerate(batch):
            clients[n % 4].chat(f"transcript:{name}:{position}", str(position), stream)
        for n, client in enumerate(clients):
            own = {str(p): [] for k, p in enumerate(batch) if k % 4 == n}
            left = len(own)
            while left:
                body = client.event_bytes()
                id = json.loads(body)["id"]
                own[id].append(body.replace(b'{"id":"%s",' % id.encode(), b"{", 1))
                left -= not own[id][-1].startswith(b'{"event":"delta"')
            for position, events in own.items():
                wanted = wanted or events
                equal(events, wanted, f"{name} cut at {position}")
    for client in clients:
        client.close()
    return wanted


def last(events: list[bytes]) -> dict:
    event = json.loads(events[-1])
    check(event["event"] == "done", f"not done: {event}")
    return event["data"]


def texts(events: list[bytes]) -> list[str]:
    return [json.loads(e)["data"].get("text", "") for e in events[:-1]]


@bound(90)
def test_cut_at_every_byte_utf8():
    with FakeProvider() as fake, broker_for(fake) as broker:
        events = every_cut(broker, "utf8", len(TRANSCRIPTS["utf8"]), True)
    equal(texts(events), ["漢字", " かな", " 👩‍👩‍👧", " é", "\n\t\"q\" \\", " 𝒳🎉"])
    equal(last(events)["text"], "".join(texts(events)))
    equal({k: last(events)["usage"][k] for k in USAGE}, USAGE)


@bound(90)
def test_cut_at_every_byte_escapes_comments_and_fields():
    with FakeProvider() as fake, broker_for(fake) as broker:
        events = every_cut(broker, "escapes", len(TRANSCRIPTS["escapes"]), True)
    equal(texts(events), ["日本", " 🎉", " \x01\x7f"])
    equal({k: last(events)["usage"][k] for k in USAGE}, USAGE)


@bound(90)
def test_cut_at_every_byte_tool_calls():
    with FakeProvider() as fake, broker_for(fake) as broker:
        events = every_cut(broker, "tools", len(TRANSCRIPTS["tools"]), True)
    data = last(events)
    equal((data["text"], data["finish_reason"]), ("", "tool_calls"))
    equal([(c["id"], c["type"], c["function"]["name"], c["function"]["arguments"]) for c in data["tool_calls"]],
          [("call_a", "function", "look", '{"ort":"東京"}'), ("call_b", "function", "sum", '{"n":9007199254740993}')])
    for event in events[:-1]:
        equal(list(json.loads(event)["data"]), ["tool_calls"], "a delta of tool calls")


@bound(90)
def test_cut_at_every_byte_loose_ends():
    with FakeProvider() as fake, broker_for(fake) as broker:
        events = every_cut(broker, "loose", len(TRANSCRIPTS["loose"]), True)
    equal(texts(events), ["one", " two 🎉"])
    equal(last(events)["finish_reason"], "length")
    equal({k: last(events)["usage"][k] for k in USAGE}, USAGE)


@bound(90)
def test_cut_at_every_byte_plain():
    with FakeProvider() as fake, broker_for(fake) as broker:
        data = last(every_cut(broker, "plain", len(PLAIN_TRANSCRIPT), False))
    equal(data["text"], "漢字 🎉 \\ \" \x07 " + "é" * 20)
    equal(data["usage"]["cached_tokens"], 5)


# ---- shapes ---------------------------------------------------------------------------------------------------


@bound(30)
def test_shapes():
    rows = Rows()
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client() as c:
        with rows("azure: first piece without choices"):  # pydantic/pydantic-ai#164
            events = c.answer("raw-stream:azure")
            equal([e["data"]["text"] for e in events[:-1]], WORDS)
        with rows("usage in the second-last piece"):  # BerriAI/litellm#17136
            data = h.done(c.answer("raw-stream:late-usage"))
            equal((data["text"], data["usage"]["total_tokens"]), ("hi", 15))
        with rows("first call at index 1"):  # pipecat-ai/pipecat#4987
            data = h.done(c.answer("raw-stream:index-one"))
            equal([x["id"] for x in data["tool_calls"]], ["call_x"])
        with rows("parallel calls without index"):  # SamSaffron/term-llm#314
            data = h.done(c.answer("raw-stream:no-index"))
            equal([(x["id"], x["function"]["arguments"]) for x in data["tool_calls"]], [("call_x", '{"a":1}'), ("call_y", '{"b":2}')])
        with rows("reasoning"):
            events = c.answer("raw-stream:reasoning")
            equal([e["data"] for e in events[:-1]], [{"reasoning": "hm"}, {"text": "aye"}])
            usage = h.done(events)["usage"]
            equal((usage["cached_tokens"], usage["reasoning_tokens"]), (5, 2))
        for shape in ("not-json", "empty"):
            with rows(shape):
                h.failure(c.answer(f"raw-stream:{shape}"), "APIResponseValidationError")
        for shape in ("bad-utf8", "only-done"):
            with rows(shape):  # one valid terminal event, whichever
                check(c.answer(f"raw-stream:{shape}")[-1]["event"] in ("done", "error"), shape)
        with rows("a long delta"):
            events = c.answer("big:100000")
            equal(h.done(events)["text"], "é" * 100_000)
            check(max(len(e["data"]["text"].encode()) for e in events[:-1]) <= 32768, "a delta over 32 KiB")
        with rows("alive"):
            c.ping()
    rows.close()


# ---- what the provider sees -----------------------------------------------------------------------------------

RAW = (b'[ {"role":"user" ,"content":"\\u00e9 \\/ \\ud83c\\udf89 \xe6\x97\xa5"},{"z":1.0,"a":9007199254740993,"m":1e400,'
       b'"role":"assistant","content":null,"x":[0.10,-0,1E+2,"\\u0000"]} ]')
RAW_TOOLS = b'[{"type":"function","function":{"parameters":{"z":1.0,"a":9007199254740993,"m":1e400},"name":"n"}}]'


@bound(20)
def test_messages_and_tools_reach_the_provider_byte_for_byte():
    rows = Rows()
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=h.TRANSPORTS)) as broker:
        for transport in h.TRANSPORTS:
            for framing in h.FRAMINGS:
                for stream in (b"true", b"false"):
                    with rows(f"{transport} {framing} stream {stream.decode()}"), broker.client(transport, framing) as c:
                        c.send_body(b'{"id":"a","method":"llm.chat","params":{"tools":' + RAW_TOOLS + b',"stream":' + stream
                                    + b',"tool_choice":{"type" : "function"},"messages":' + RAW + b',"model":"text","seed":9007199254740993,'
                                    b'"temperature":1.0,"metadata":{"b":1e2,"a":"\\u0041"}}}')
                        h.done(c.until_terminal())
                        body = fake.find("text").body
                        for part in (RAW, RAW_TOOLS, b'{"type" : "function"}', b"9007199254740993", b'{"b":1e2,"a":"\\u0041"}'):
                            check(part in body, f"{part!r} is not in {body!r}")
                        sent = json.loads(body)
                        equal((sent["model"], sent["temperature"], sent.get("stream", False)), ("text", 1.0, stream == b"true"))
    rows.close()


PASSED = {"temperature": 0.5, "max_tokens": 7, "top_p": 0.25, "stop": ["x", "y"], "seed": 3, "response_format": {"type": "json_object"},
          "max_completion_tokens": 9, "reasoning_effort": "low", "parallel_tool_calls": False, "frequency_penalty": 0.5,
          "presence_penalty": -0.5, "logit_bias": {"50256": -100}, "metadata": {"k": "v"}, "user": "u",
          "tools": [{"type": "function", "function": {"name": "n"}}], "tool_choice": "auto"}
IGNORED = {"base_url": "http://127.0.0.1:9/v1", "api_base": "http://x", "api_key": "sk-theirs", "headers": {"X-Evil": "1"},
           "extra_headers": {"X-Evil": "1"}, "extra_body": {"x": 1}, "timeout": 20, "provider": "openai", "n": 4, "url": "x"}


@bound(20)
def test_parameters():
    """What is passed on, and that a container cannot set a base URL, a header or a key (BerriAI/litellm#37053)."""
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client() as c:
        for stream in (False, True):
            h.done(c.answer("text", stream=stream, **PASSED, **IGNORED))
            record = fake.find("text")
            sent = json.loads(record.body)
            equal({k: sent.get(k) for k in PASSED}, PASSED)
            equal(set(sent) - set(PASSED) - {"model", "messages", "stream", "stream_options"}, set(), "other keys")
            if stream:
                equal(sent["stream_options"], {"include_usage": True})
            equal(record.path, "/v1/chat/completions")
            equal(record.headers["authorization"], f"Bearer {KEY}")
            equal(record.headers["content-type"].split(";")[0], "application/json")
            others = set(record.headers) - {"host", "user-agent", "accept", "authorization", "content-type", "content-length"}
            equal(others, set(), "headers that are not ours")


@bound(20)
def test_which_provider():
    rows = Rows()
    with FakeProvider() as one, FakeProvider() as two, Broker(configuration(openai(one), openai(two, "other"))) as broker:
        with broker.client() as c:
            for params, fake, model in [({"model": "text"}, one, "text"), ({"model": "openai/text"}, one, "text"),
                                        ({"model": "other/text"}, two, "text"), ({"model": "text", "provider": "other"}, two, "text"),
                                        ({"model": "meta-llama/x"}, one, "meta-llama/x"), ({"model": "other/a/b"}, two, "a/b"),
                                        ({"model": "meta-llama/x", "provider": "other"}, two, "meta-llama/x"),
                                        ({"model": "text", "provider": None}, one, "text"), ({"model": "other/t", "provider": ""}, two, "t"),
                                        ({"model": "gpt-5@mini.x"}, one, "gpt-5@mini.x")]:
                with rows(str(params)):
                    before = len(one.records), len(two.records)
                    h.done(c.request("llm.chat", {"messages": [], **params}))
                    equal((len(one.records) - before[0], len(two.records) - before[1]), (int(fake is one), int(fake is two)), "requests")
                    equal(fake.records[-1].model, model)
    rows.close()


@bound(20)
def test_no_openai_provider():
    """The default is openai; where there is none, that is what the client is told."""
    with Broker(configuration()) as broker, broker.client() as c:
        equal(c.answer("gpt-4o"), h.error("a", "UnsupportedProvider", "Unsupported provider: openai"))


@bound(20)
def test_connections_are_kept():
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client() as c:
        for n in range(50):
            h.done(c.answer("text", stream=bool(n % 2)))
        check(fake.connections <= 3, f"{fake.connections} connections for 50 requests one after another")


@bound(20)
def test_proxy_variables_are_not_obeyed():
    env = {name: "http://127.0.0.1:9" for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")}
    with FakeProvider() as fake, Broker(configuration(openai(fake)), env=env) as broker, broker.client() as c:
        h.done(c.answer("text"))


# ---- the fault wall -------------------------------------------------------------------------------------------

STATUS = {400: "BadRequestError", 413: "BadRequestError", 422: "UnprocessableEntityError", 401: "AuthenticationError",
          403: "PermissionDeniedError", 404: "NotFoundError", 408: "APITimeoutError", 409: "ConflictError",
          429: "RateLimitError", 500: "InternalServerError", 502: "InternalServerError", 503: "InternalServerError",
          504: "InternalServerError", 529: "InternalServerError"}


@bound(120)
def test_status_codes():
    rows = Rows()
    with FakeProvider() as fake, broker_for(fake) as broker:
        clients = {}
        for code in STATUS:  # side by side: a broker that retries takes its time
            for stream in (False, True):
                client = clients[code, stream] = broker.client("unix", "framed" if stream else "ndjson", timeout=60)
                client.chat(f"status:{code}", stream=stream)
        for (code, stream), client in clients.items():
            with rows(f"{code} stream {stream}"), client:
                error = h.failure(client.until_terminal(), STATUS[code], status=code, provider="openai", request_id="req-fake-1")
                equal(error["message"], f"the provider says {code}")
                check(error.get("retryable", code in (408, 409, 429) or code >= 500) == (code in (408, 409, 429) or code >= 500)
                      or code in (408, 409), f"retryable: {error}")
                client.ping()
    rows.close()


@bound(120)
def test_rate_limits():
    rows = Rows()
    with FakeProvider() as fake, broker_for(fake) as broker:
        clients = {how: broker.client(timeout=60) for how in ("seconds", "date", "ms", "none")}
        for how, client in clients.items():
            client.chat(f"limited:{how}")
        for how, client in clients.items():
            with rows(how), client:
                error = h.failure(client.until_terminal(), "RateLimitError", status=429)
                after = error.get("retry_after")
                low, high = {"seconds": (7, 7), "ms": (2.5, 2.5), "date": (50, 61), "none": (0, 60)}[how]
                check(after is None and how == "none" or low <= after <= high, f"retry_after {after}")
    rows.close()


VALIDATION, CONNECTION, TIMEOUT = "APIResponseValidationError", "APIConnectionError", "APITimeoutError"

# (model, stream, possible types, fields)
FAULTS = [
    ("reset", True, [CONNECTION], {}), ("reset", False, [CONNECTION], {}),
    ("silence", True, [TIMEOUT], {}), ("silence", False, [TIMEOUT], {}),
    ("stall", True, [TIMEOUT], {"partial_text_bytes": HALF}), ("stall", False, [TIMEOUT], {}),
    *[(f"cut:fin:{f}", True, [VALIDATION], {"partial_text_bytes": HALF}) for f in ("chunked", "length", "close")],
    *[(f"cut:fin:{f}", False, [VALIDATION], {}) for f in ("chunked", "length", "close")],
    *[(f"cut:rst:{f}", s, [CONNECTION, VALIDATION], {}) for f in ("chunked", "length", "close") for s in (True, False)],
    ("bad-chunk", True, [VALIDATION], {"partial_text_bytes": HALF}),
    ("no-finish", True, [VALIDATION], {"partial_text_bytes": HALF}),
    *[(f"html:{k}", s, [VALIDATION], {}) for k in ("text/html", "application/json", "text/event-stream") for s in (True, False)],
    *[(f"error-inside:{c}", True, [t], {"partial_text_bytes": HALF, "message": "broke in the middle"})
      for c, t in [("429", "RateLimitError"), ("rate_limit_exceeded", "RateLimitError"), ("500", "InternalServerError"),
                   ("server_error", "InternalServerError"), ("401", "AuthenticationError"), ("400", "BadRequestError")]],
    *[(f"redirect:{c}", s, [VALIDATION, "APIStatusError"], {"status": c}) for c in (301, 302, 303, 307, 308) for s in (True, False)],
    ("endless-line", True, [VALIDATION], {}),
    ("big:1000000", True, [VALIDATION], {}), ("big:1000000", False, [VALIDATION], {}),
]


@bound(120)
def test_fault_wall():
    """Each fault ends in one error of the right type; what was streamed before it stays valid; the connection goes on."""
    rows = Rows()
    with FakeProvider() as other, FakeProvider(redirect_to=other.url + "/chat/completions") as fake:
        with broker_for(fake, transports=h.TRANSPORTS) as broker:
            clients = []
            for n, (model, stream, types, fields) in enumerate(FAULTS):
                client = broker.client(h.TRANSPORTS[n % 3], h.FRAMINGS[n % 2], timeout=60)
                client.chat(model, stream=stream)
                clients.append(client)
            for (model, stream, types, fields), client in zip(FAULTS, clients):
                with rows(f"{model} stream {stream}"), client:
                    events = client.until_terminal()
                    kind = events[-1].get("error", {}).get("type")
                    check(kind in types, f"wanted {types}, got {h.short(events[-1])}")
                    error = h.failure(events, kind, provider="openai", **fields)
                    shown = len(h.text_of(events).encode())
                    equal(error.get("partial_text_bytes", 0), shown, "partial_text_bytes against the deltas")
                    client.ping()
            with rows("nobody followed a redirect"):
                equal(len(other.records), 0)
                equal(other.connections, 0)
    rows.close()


@bound(60)
def test_faults_before_any_connection():
    rows = Rows()
    with Blackhole() as hole, FakeProvider() as fake:
        def entry(name, url):
            return {**openai(fake, name), "base_url": url}
        config = configuration(entry("refused", "http://127.0.0.1:9/v1"), entry("nowhere", "http://no-such-host.invalid/v1"),
                               entry("hole", f"https://127.0.0.1:{hole.port}/v1"), entry("plain", fake.url.replace("http:", "https:")),
                               limits=LIMITS)
        with Broker(config) as broker, broker.client(timeout=60) as c:
            for name, types in [("refused", [CONNECTION]), ("nowhere", [CONNECTION]), ("plain", [CONNECTION, TIMEOUT]), ("hole", [TIMEOUT, CONNECTION])]:
                for stream in (False, True) if name != "hole" else (True,):
                    with rows(f"{name} stream {stream}"):
                        events = c.answer(f"{name}/text", stream=stream)
                        check(events[-1]["error"]["type"] in types, h.short(events))
            c.ping()
    rows.close()


@bound(40)
def test_complete_without_the_end_marker():
    """A finish reason and then the end of the body, or silence: complete (maximhq/bifrost#2910, #7115, #5872)."""
    rows = Rows()
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker, broker.client(timeout=8) as c:
        for model in ("no-done:close", "no-done:drop", "no-done:silence", "held-open"):
            with rows(model):
                equal(h.done(c.answer(model))["text"], TEXT)
        for model in ("no-done:silence", "held-open"):
            with rows(f"{model}: the connection is given up"):
                check(fake.wait(lambda: fake.find(model).closed == "streaming", 8 * h.PATIENCE), "still open")
        c.ping()
    rows.close()


@bound(20)
def test_gzip_that_nobody_asked_for():
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client() as c:
        for stream in (False, True):
            events = c.answer("zipped", stream=stream)
            if events[-1]["event"] == "done":
                equal(h.done(events)["text"], TEXT)
            else:
                h.failure(events, VALIDATION)


@bound(20)
def test_time_out_of_the_request():
    """`timeout` in the parameters, in seconds."""
    with FakeProvider() as fake, Broker(configuration(openai(fake))) as broker, broker.client() as c:
        for stream in (False, True):
            for model in ("silence", "stall", "slow:100:100"):
                h.failure(c.answer(model, stream=stream, timeout=0.5), TIMEOUT)
                check(fake.wait(lambda: fake.find(model).closed), f"{model} is still open at the provider")


@bound(60)
def test_a_thousand_failures_starve_nobody():
    """mistralai/client-python#532: connections of failed streams are given back."""
    with FakeProvider() as fake, broker_for(fake) as broker, broker.client(timeout=40) as c:
        before = broker.descriptors()
        for batch in range(20):
            for n in range(50):
                c.chat(("status:400", "html:text/html", "no-finish", "cut:fin:chunked", "reset")[n % 5], f"{batch}-{n}", n % 2 == 0)
            for events in c.gather(50).values():
                check(events[-1]["event"] in ("error", "done"), h.short(events))
        h.done(c.answer("text"))
        check(broker.descriptors() <= before + 60, f"descriptors: {before}, then {broker.descriptors()}")


@bound(60)
def test_a_hundred_thousand_deltas():
    with FakeProvider() as fake, Broker(configuration(openai(fake), transports=h.TRANSPORTS)) as broker:
        for transport, framing in (("unix", "ndjson"), ("tls", "framed")):
            with broker.client(transport, framing, keep=False, timeout=40) as c:
                c.chat("tokens:100000")
                wanted, texts_seen = 0, []
                while True:
                    event = c.event()
                    if event["event"] != "delta":
                        break
                    texts_seen.append(event["data"]["text"])
                    wanted += 1
                equal(event["event"], "done")
                equal("".join(texts_seen), "".join(f" {n}" for n in range(100_000)), "text")
                equal(event["data"]["text"], "".join(texts_seen), "done.text")
