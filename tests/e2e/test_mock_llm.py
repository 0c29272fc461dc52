"""A provider that nobody here wrote: @dwmkerr/mock-llm of npm, as the provider `openai`."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess

import harness as h
from harness import Broker, Skip, bound, check, configuration, equal

HERE = pathlib.Path(__file__).resolve().parent
NPM = h.ROOT / "build" / "npm"
MAIN = NPM / "node_modules" / "@dwmkerr" / "mock-llm" / "dist" / "main.js"

# Its answers come from this file: the last rule that matches wins.
RULES = """\
streaming: { chunkSize: %d, chunkIntervalMs: 5 }
rules:
  - path: "/v1/chat/completions"
    match: "@"
    response:
      status: 200
      content: |
        {"id":"chatcmpl-{{timestamp}}","object":"chat.completion","created":1,"model":"{{jmes request body.model}}",
         "choices":[{"index":0,"message":{"role":"assistant","content":"{{jmes request body.messages[-1].content}}"},
                     "finish_reason":"stop"}],
         "usage":{"prompt_tokens":21,"completion_tokens":13,"total_tokens":34}}
  - path: "/v1/chat/completions"
    match: "contains(body.messages[-1].content, 'error-401')"
    response:
      status: 401
      content: '{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}'
"""


def install() -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("node and npm")
    (h.ROOT / "build").mkdir(exist_ok=True)
    with open(h.ROOT / "build" / "npm.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = h.run(["sh", HERE / "npm" / "install.sh", NPM], 100, env=os.environ)
    if result.returncode:
        raise Skip(f"@dwmkerr/mock-llm cannot be installed: {result.stderr.strip()[-300:]}")


def listening_port(pid: int) -> int:
    """The TCP port on which a process listens; 0 while it does not."""
    files = h.open_files(pid)
    with open("/proc/net/tcp") as table:
        for row in list(table)[1:]:
            fields = row.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in files:
                return int(fields[1].split(":")[1], 16)
    return 0


@contextlib.contextmanager
def mock_llm(chunk: int = 4):
    install()
    rules = h.TEMPORARY / "mock-llm.yaml"
    rules.write_text(RULES % chunk)
    with open(h.TEMPORARY / "mock-llm.log", "wb") as log:
        process = h.spawn(["node", MAIN, "--config", rules], cwd=h.TEMPORARY, stdout=log, stderr=subprocess.STDOUT,
                          env={"PATH": os.environ["PATH"], "HOST": "127.0.0.1", "PORT": "0"})
    try:
        port = h.wait_until(lambda: process.poll() is None and listening_port(process.pid), "mock-llm to listen", 20)
        yield {"name": "openai", "type": "openai", "base_url": f"http://127.0.0.1:{port}/v1", "keys": [{"env": "OPENAI_API_KEY"}]}
    finally:
        process.kill()
        process.wait()


@bound(150)
def test_plain_and_streamed():
    text = "A stranger's server says: hello, wörld 日本語!"
    with mock_llm() as provider, Broker(configuration(provider, transports=h.TRANSPORTS)) as broker:
        for transport in h.TRANSPORTS:
            for framing in h.FRAMINGS:
                with broker.client(transport, framing) as c:
                    data = h.done(c.answer("gpt-4o", stream=False, content=text))
                    equal((data["text"], data["finish_reason"], data["model"]), (text, "stop", "gpt-4o"))
                    equal([data["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")], [21, 13, 34])
                    events = c.answer("gpt-4o", stream=True, content=text)
                    data = h.done(events)
                    equal((data["text"], data["finish_reason"]), (text, "stop"))
                    check(len(events) >= len(text) // 4, f"only {len(events)} events")
                    # its streams report none
                    equal([data["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")], [0, 0, 0])


@bound(150)
def test_its_errors():
    with mock_llm() as provider, Broker(configuration(provider)) as broker, broker.client() as c:
        h.failure(c.answer("gpt-4o", stream=False, content="error-401"), "AuthenticationError", status=401, message="Incorrect API key provided.")
        # streamed, it sends the error object with status 200
        h.failure(c.answer("gpt-4o", stream=True, content="error-401"), "AuthenticationError")


@bound(150)
def test_surrogate_pairs_that_it_cuts():
    """JavaScript cuts strings in the middle of a pair: each half comes as an escape of its own delta."""
    text = "a🎉b👩‍👩‍👧c日本"
    with mock_llm(chunk=1) as provider, Broker(configuration(provider)) as broker, broker.client() as c:
        events = c.answer("gpt-4o", stream=True, content=text)
        equal(h.done(events)["text"], text)
        check(all("\ufffd" not in e["data"]["text"] for e in events[:-1]), "half a character was sent")
