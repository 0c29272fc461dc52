"""A client of the broker that runs inside a container, written after the protocol: reads the execution request, asks
for a streamed chat, a tool call and an event in both framings, and prints the result between the markers."""
import json
import os
import socket
import ssl
import sys


class Stdio:
    """Requests as marked lines on stderr, replies on stdin. One framing: lines."""
    framings = ("ndjson",)

    def exchange(self, framing: str, request: dict):
        sys.stderr.write("<<<TACTUS_BROKER>>>" + json.dumps(request, ensure_ascii=False) + "\n")
        sys.stderr.flush()
        while True:
            yield json.loads(sys.stdin.readline())


class Socket:
    """A connection a request, as the real clients do it."""
    framings = ("ndjson", "framed")

    def __init__(self, endpoint: str):
        self.endpoint = endpoint

    def connect(self):
        if self.endpoint.startswith("/"):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.endpoint)
            return sock
        scheme, rest = self.endpoint.split("://")
        host, port = rest.rsplit(":", 1)
        sock = socket.create_connection((host, int(port)), 20)
        if scheme == "tls":
            context = ssl.create_default_context(cafile=os.environ["TACTUS_BROKER_TLS_CA_FILE"])
            sock = context.wrap_socket(sock, server_hostname=host)
        return sock

    def exchange(self, framing: str, request: dict):
        body = json.dumps(request, ensure_ascii=False).encode()
        with self.connect() as sock, sock.makefile("rb") as answers:
            sock.sendall(body + b"\n" if framing == "ndjson" else b"%010d\n" % len(body) + body)
            while True:
                if framing == "ndjson":
                    yield json.loads(answers.readline())
                else:
                    yield json.loads(answers.read(int(answers.read(11))))


def ask(broker, framing: str, id: str, method: str, params: dict) -> list[dict]:
    events = []
    for event in broker.exchange(framing, {"id": id, "method": method, "params": params}):
        assert event["id"] == id, event
        events.append(event)
        if event["event"] in ("done", "error"):
            return events
    raise EOFError(id)


def work(broker, request: dict) -> dict:
    words = request["params"].get("text", "wörd one two")
    result = {}
    for framing in broker.framings:
        chat = ask(broker, framing, f"chat-{framing}", "llm.chat", {
            "provider": "builtin", "model": "echo", "stream": True, "messages": [{"role": "user", "content": words}]})
        text = "".join(e["data"]["text"] for e in chat[:-1])
        tool = ask(broker, framing, f"tool-{framing}", "tool.call", {"name": "host.echo", "args": {"n": 1}})[-1]
        event = ask(broker, framing, f"event-{framing}", "events.emit", {"event": {"event_type": "log", "n": framing}})[-1]
        result[framing] = {"deltas": len(chat) - 1, "text": text, "done": chat[-1].get("data", chat[-1]).get("text"),
                           "tool": tool.get("data", tool), "event": event.get("data", event)}
    return result


def main() -> int:
    request = json.loads(sys.stdin.readline())
    endpoint = os.environ["TACTUS_BROKER_SOCKET"]
    try:
        broker = Stdio() if endpoint == "stdio" else Socket(endpoint)
        result = {"status": "success", "result": {"work": work(broker, request), "request": request,
                                                  "env": sorted(os.environ), "uid": os.getuid(), "cwd": os.getcwd()}}
    except Exception as e:
        result = {"status": "error", "error": f"{type(e).__name__}: {e}", "error_type": type(e).__name__}
    print("<<<TACTUS_RESULT_START>>>")
    print(json.dumps(result))
    print("<<<TACTUS_RESULT_END>>>")
    sys.stdout.flush()
    return 0 if result["status"] == "success" else 1


sys.exit(main())
