"""A client of the admin API, and brokers that have one. For test_admin.py and test_grants.py."""
import http.client
import json
import os
import socket
from typing import Any, Callable

import harness as h
from harness import Broker, equal

TOKEN = "canary-admin-token-5e0b8a77c3f14d6e9a21"


def as_nobody(work: Callable[[], str]) -> str:
    """What `work` says as another user, in a process of its own."""
    if os.geteuid() != 0:
        raise h.Skip("not root: cannot become another user")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, work().encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as f:
        said = f.read()
    os.waitpid(pid, 0)
    return said


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float = 15):
        super().__init__("localhost", timeout=timeout * h.PATIENCE)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, status: int, headers: Any, body: bytes):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def connection(url: str) -> http.client.HTTPConnection:
    """Of a line that the broker printed."""
    if url.startswith("http+unix://"):
        return UnixConnection(url.removeprefix("http+unix://"))
    host = url.removeprefix("http://").split("/")[0]
    return http.client.HTTPConnection(host, timeout=15 * h.PATIENCE)


class Admin:
    def __init__(self, broker: Broker, unix: bool = True, token: str | None = None):
        start = "http+unix://" if unix else "http://"
        self.url = next(line for line in broker.endpoints if line.startswith(start))
        self.token = token

    def call(self, method: str, path: str, body: Any = None, headers: dict | None = None) -> Reply:
        """`body`: bytes as they are, anything else as JSON."""
        sent = {} if body is None else {"Content-Type": "application/json"}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        sent.update(headers or {})
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        c = connection(self.url)
        try:
            c.request(method, path, data, {k: v for k, v in sent.items() if v is not None})
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            c.close()

    def good(self, status: int, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the reply, None when it has none."""
        r = self.call(method, path, body)
        equal(r.status, status, f"status of {method} {path}: {h.short(r.body.decode(errors='replace'))}")
        return r.json if r.body else None

    def bad(self, status: int, kind: str, method: str, path: str, body: Any = None, headers: dict | None = None) -> str:
        """The message of the error."""
        r = self.call(method, path, body, headers)
        equal(r.status, status, f"status of {method} {path}: {h.short(r.body.decode(errors='replace'))}")
        equal(r.headers["Content-Type"], "application/json", "type of an error")
        equal(list(r.json), ["error"], "keys of an error's body")
        equal(list(r.json["error"]), ["type", "message"], "keys of an error")
        equal(r.json["error"]["type"], kind, "type of the error")
        return r.json["error"]["message"]

    # -- grants --
    def grant(self, transport: str = "unix", listener: dict | None = None, **more) -> dict:
        body = {"models": ["*"], "tools": ["*"], "listener": {"transport": transport, **(listener or {})}, **more}
        return self.good(201, "POST", "/v1/grants", body)

    def grants(self) -> list[dict]:
        """Those of runs; the configuration's are in the list too."""
        return [g for g in self.good(200, "GET", "/v1/grants") if g["run"] is not None]

    def show(self, grant: dict) -> dict:
        return self.good(200, "GET", f"/v1/grants/{grant['id']}")

    def change(self, grant: dict, **body) -> dict:
        return self.good(200, "PATCH", f"/v1/grants/{grant['id']}", body)

    def end(self, grant: dict) -> None:
        self.good(204, "DELETE", f"/v1/grants/{grant['id']}")


def admin_broker(*providers: dict, tcp: bool = True, args: tuple = (), admin: dict | None = None, ca=None,
                 **more) -> Broker:
    """A broker with an admin socket and, with `tcp`, a port."""
    listen = [f"unix://{h.TEMPORARY}/admin-{next(h.NUMBERS)}.sock", *(["tcp://127.0.0.1:0"] if tcp else [])]
    section = {"listen": listen, **({"token": {"env": "ADMIN_TOKEN"}} if tcp else {}), **(admin or {})}
    config = h.configuration(*providers, admin=section, **more)
    return Broker(config, args=args, env={"ADMIN_TOKEN": TOKEN}, ca=ca,
                  endpoints=len(config["listeners"]) + len(section["listen"]))
