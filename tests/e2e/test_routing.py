"""Names for models, keys that take turns, tries after a failure, targets that are left out: who is asked, when, how often."""
import dataclasses
import time

import harness as h
from fake_provider import TEXT, WORDS, FakeProvider
from harness import Broker, Rows, bound, check, configuration, equal, openai

LIMITS = {"provider_first_byte_timeout": 0.6, "stall_timeout": 0.6, "connect_timeout": 1, "max_reply_bytes": 1 << 20}
ROUTING = {"retries": 2, "backoff": 0.02, "max_retry_after": 1, "breaker_failures": 0}
HALF = len("".join(WORDS[:2]).encode())


@dataclasses.dataclass
class Fault:
    """What the first target does, how often each is asked, and what the client sees: "done", or an error's type."""
    does: str
    first: int
    second: int
    sees: str = "done"
    stream: bool = True
    apart: float = 0.0  # seconds at least between the first target's requests
    then: str = "text"  # what the second does
    partial: bool = False


WALL = [
    Fault("reset", 3, 1),  # the first row: on a kept connection libcurl itself asks once more
    Fault("text", 1, 0),
    Fault("turns:500:ok", 2, 0),
    Fault("turns:500:503:ok", 3, 0),
    Fault("turns:500:500:500:ok", 3, 1),
    Fault("turns:429@0.3:ok", 2, 0, apart=0.3),
    Fault("turns:429@0.2:503@0.4:ok", 3, 0, apart=0.2),
    Fault("limited:none", 3, 1),
    Fault("limited:seconds", 1, 1),
    Fault("limited:date", 1, 1),
    Fault("status:503", 3, 1),
    Fault("status:529", 3, 1),
    Fault("status:503", 3, 3, "InternalServerError", then="status:500"),
    Fault("status:503", 3, 1, "BadRequestError", then="status:400"),
    Fault("status:400", 1, 0, "BadRequestError"),
    Fault("status:413", 1, 0, "BadRequestError"),
    Fault("status:422", 1, 0, "UnprocessableEntityError"),
    Fault("status:401", 1, 1),
    Fault("status:403", 1, 1),
    Fault("status:404", 1, 1),
    Fault("status:408", 1, 1),
    Fault("silence", 1, 1),
    Fault("first:20", 1, 1),
    Fault("stall", 1, 0, "APITimeoutError", partial=True),
    Fault("stall", 1, 1, stream=False),
    Fault("cut:fin:chunked", 1, 0, "APIResponseValidationError", partial=True),
    Fault("cut:fin:length", 1, 1, stream=False),
    Fault("bad-chunk", 1, 0, "APIResponseValidationError", partial=True),
    Fault("no-done:close", 1, 0),
    Fault("html:text/html", 1, 1),
    Fault("html:text/event-stream", 1, 1),
    Fault("error-inside:429", 1, 0, "RateLimitError", partial=True),
    Fault("raw-stream:empty", 1, 1),
    Fault("raw-stream:only-done", 1, 1),
    Fault("zipped", 1, 1),
    Fault("http10", 1, 0),
    Fault("redirect:302", 1, 1),
    Fault("endless-line", 1, 1),
]


@bound(90)
def test_fault_wall():
    """Two providers and a name for both: a written table of who is asked how often, and what comes out."""
    rows = Rows()
    with FakeProvider() as one, FakeProvider() as two:
        models = [{"name": f"row-{n}", "targets": [f"one/{f.does}", f"two/{f.then}"]} for n, f in enumerate(WALL)]
        with Broker(configuration(openai(one, "one"), openai(two, "two"), limits=LIMITS, models=models,
                                  routing=ROUTING)) as broker, broker.client() as c:
            for n, f in enumerate(WALL):
                with rows(f"{n} {f.does}, {f.then}, stream {f.stream}"):
                    a, b = len(one.records), len(two.records)
                    events = c.answer(f"row-{n}", stream=f.stream, provider="openai")
                    equal((len(one.records) - a, len(two.records) - b), (f.first, f.second), "requests")
                    if f.sees == "done":
                        equal(h.done(events)["text"], TEXT)
                        equal(h.text_of(events), TEXT if f.stream else "")
                    else:
                        h.failure(events, f.sees, provider="two" if f.second else "one")
                        equal(events[-1]["error"].get("partial_text_bytes"), HALF if f.partial else None)
                    times = [r.arrived for r in one.records[a:]]
                    check(all(y - x >= f.apart for x, y in zip(times, times[1:])), f"tried again too soon: {times}")
    rows.close()


@bound(20)
def test_nobody_listens():
    """A target where no connection comes about is tried again, and then the next."""
    with FakeProvider() as two:
        gone = {"name": "one", "type": "openai", "base_url": "http://127.0.0.1:1/v1"}
        with Broker(configuration(gone, openai(two, "two"), limits=LIMITS, routing=ROUTING,
                                  models=[{"name": "both", "targets": ["one/x", "two/text"]}])) as broker, broker.client() as c:
            equal(h.done(c.answer("both"))["text"], TEXT)
            h.failure(c.answer("one/x"), "APIConnectionError", provider="one")


def keyed(fake, *keys: str, **more) -> tuple[dict, dict]:
    """A provider with several keys, and the environment that has them."""
    env = {f"TACTUS_TEST_KEY_{n}": key for n, key in enumerate(keys)}
    return openai(fake, "many", keys=[{"env": name} for name in env], **more), env


KEYS = [f"sk-many-{x}-0123456789abcdef" for x in "abc"]


def used(fake, since: int = 0) -> list[str]:
    return [r.headers["authorization"].removeprefix("Bearer ") for r in fake.records[since:]]


@bound(20)
def test_keys_take_turns():
    with FakeProvider() as fake:
        provider, env = keyed(fake, *KEYS)
        with Broker(configuration(provider, limits=LIMITS), env=env) as broker, broker.client() as c:
            for _ in range(6):
                h.done(c.answer("many/text"))
            equal(used(fake), KEYS * 2)


@bound(30)
def test_a_key_that_is_refused_rests():
    """Another key is tried at once, also without retries; the refused one is left alone for key_rest."""
    rows = Rows()
    for code in (401, 429):
        with rows(str(code)), FakeProvider() as fake:
            provider, env = keyed(fake, *KEYS)
            routing = {"retries": 0, "backoff": 60, "key_rest": 60}
            with Broker(configuration(provider, limits=LIMITS, routing=routing), env=env) as broker, broker.client() as c:
                bad = f"many/refuses:{code}:{KEYS[0]}:{KEYS[1]}"
                equal(h.done(c.answer(bad))["text"], TEXT)
                equal(used(fake), KEYS)
                h.done(c.answer(bad))
                h.done(c.answer("many/text"))
                equal(used(fake, 3), [KEYS[2]] * 2)
                text = f"many/refuses:{code}:" + ":".join(KEYS)
                message = h.failure(c.answer(text), "AuthenticationError" if code == 401 else "RateLimitError")["message"]
                check(not any(key in message for key in KEYS), f"a key in {message!r}")
                equal(len(fake.records), 6, "all keys rest: one request more, and no other key to turn to")
    rows.close()


@bound(30)
def test_a_failing_target_is_left_out():
    routing = {"retries": 0, "breaker_failures": 2, "breaker_rest": 1}
    with FakeProvider() as one, FakeProvider() as two:
        models = [{"name": "m", "targets": ["one/turns:500:429:503:500:ok", "two/text"]}]
        with Broker(configuration(openai(one, "one"), openai(two, "two"), models=models, limits=LIMITS,
                                  routing=routing)) as broker, broker.client() as c:
            def ask():
                h.done(c.answer("m"))
                return len(one.records), len(two.records)
            equal([ask() for _ in range(3)], [(1, 1), (2, 2), (3, 3)], "429 is neutral")
            opened = time.monotonic()
            equal([ask() for _ in range(3)], [(3, 4), (3, 5), (3, 6)], "left out")
            time.sleep(max(0.0, opened + 1.1 - time.monotonic()))
            equal([ask() for _ in range(2)], [(4, 7), (4, 8)], "one probe, which fails")
            time.sleep(1.1)
            equal([ask() for _ in range(2)], [(5, 8), (6, 8)], "a probe that works brings it back")


@bound(20)
def test_all_left_out_is_nobody_left_out():
    routing = {"retries": 0, "breaker_failures": 1, "breaker_rest": 60}
    with FakeProvider() as one, FakeProvider() as two:
        models = [{"name": "m", "targets": ["one/turns:500:ok", "two/turns:500:ok"]}]
        with Broker(configuration(openai(one, "one"), openai(two, "two"), models=models, limits=LIMITS,
                                  routing=routing)) as broker, broker.client() as c:
            h.failure(c.answer("m"), "InternalServerError", provider="two")
            equal(h.done(c.answer("m"))["text"], TEXT)
            equal((len(one.records), len(two.records)), (2, 1))


@bound(20)
def test_cancelled_in_a_pause():
    """Nobody is asked again for a client that left while its call waited."""
    routing = {"retries": 2, "backoff": 0.02, "max_retry_after": 30}
    with FakeProvider() as fake, Broker(configuration(openai(fake), limits=LIMITS, routing=routing)) as broker:
        with broker.client() as c:
            c.chat("turns:429@1.2:ok")
            fake.wait(lambda: any(r.phase == "complete" for r in fake.records))
            c.send("broker.cancel", {"id": "a"}, id="stop")
            h.wait_until(lambda: c.event()["id"] == "a", "the end of the call")
        with broker.client() as c:
            c.chat("turns:503@1.2:ok")
            fake.wait(lambda: len(fake.of("turns:503@1.2:ok")) == 1 and fake.records[-1].phase == "complete")
        with broker.client() as c:
            time.sleep(1.5)
            equal([len(fake.of(m)) for m in ("turns:429@1.2:ok", "turns:503@1.2:ok")], [1, 1])
            c.ping()


@bound(20)
def test_total_time_bounds_all_tries():
    """A pause that would end too late is not begun."""
    routing = {"retries": 5, "backoff": 0.02, "max_retry_after": 30}
    with FakeProvider() as fake, Broker(configuration(openai(fake), limits=LIMITS, routing=routing)) as broker:
        with broker.client() as c:
            error = h.failure(c.answer("turns:429@5", timeout=2), "RateLimitError")
            equal((error["retry_after"], len(fake.records)), (5, 1))


@bound(20)
def test_who_may_use_a_name():
    rows = Rows()
    for models, answer in ((["both"], "one"), (["*"], "one"), (["two/*"], "two"), (["one/x*", "two/text"], "two"), (["builtin/*"], None)):
        with rows(str(models)), FakeProvider() as one, FakeProvider() as two:
            names = [{"name": "both", "targets": ["one/text", "two/text"]}]
            with Broker(configuration(openai(one, "one"), openai(two, "two"), models=names, limits=LIMITS,
                                      grant={"models": models})) as broker, broker.client() as c:
                events = c.answer("both")
                if answer is None:
                    equal(events, h.error("a", "ModelNotAllowed", "Model not allowed: both"))
                else:
                    h.done(events)
                equal((len(one.records), len(two.records)), (answer == "one", answer == "two"))
                if models == ["both"]:
                    equal(c.answer("one/text"), h.error("a", "ModelNotAllowed", "Model not allowed: text"))
    rows.close()
