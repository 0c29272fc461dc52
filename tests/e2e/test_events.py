"""Events of the bus as server-sent events: live, of one run, again after a break, at the broker's end."""
import http.client
import json
import threading

import harness as h
from admin import TOKEN, Admin, admin_broker, connection
from harness import Client, Rows, bound, check, equal


class Stream:
    """What a subscriber reads: (id, event, data) without comments."""

    def __init__(self, admin: Admin, query: str = "", headers: dict | None = None):
        self.connection = connection(admin.url)
        more = {"Authorization": f"Bearer {admin.token}"} if admin.token else {}
        self.connection.request("GET", "/v1/events" + query, headers={**more, **(headers or {})})
        self.response = self.connection.getresponse()
        equal(self.response.status, 200, "status of the stream")
        equal(self.response.headers["Content-Type"], "text/event-stream")
        equal(self.response.headers["Cache-Control"], "no-store")
        equal(self.response.headers["X-Accel-Buffering"], "no")
        equal(self.response.readline(), b":\n", "the first comment")
        equal(self.response.readline(), b"\n", "its end")

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def next(self) -> tuple[int | None, str, dict]:
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                raise EOFError("the stream ended")
            line = line.rstrip("\n")
            if not line and fields:
                number = int(fields["id"]) if "id" in fields else None
                return number, fields.get("event", "message"), json.loads(fields["data"])
            if line and not line.startswith(":"):
                name, value = line.split(": ", 1)
                check(name not in fields, f"{name} twice")
                fields[name] = value

    def numbers(self, count: int) -> list[int]:
        """`n` of so many events, whose ids are their numbers."""
        found = []
        for _ in range(count):
            number, kind, data = self.next()
            equal((number, kind), (data["seq"], "message"))
            found.append(data["event"]["n"])
        return found


def emit(c: Client, n: int) -> None:
    equal(c.request("events.emit", {"event": {"event_type": "log", "n": n}})[-1]["data"], {"ok": True})


@bound(20)
def test_live():
    with admin_broker(broker={"workers": 3}) as broker:
        admin = Admin(broker, unix=False, token=TOKEN)
        grant = admin.grant(run="r-1", name="one")
        with Client(grant["endpoint"]) as c, broker.client() as s:
            emit(c, 0)
            with Stream(admin) as all_runs, Stream(admin, "?run=r-1") as one, Stream(admin, "?run=other") as none:
                emit(c, 1)
                emit(s, 2)
                emit(c, 3)
                number, kind, data = all_runs.next()
                equal((number, kind), (2, "message"))
                equal(list(data), ["seq", "time", "run", "grant", "type", "event"])
                equal({**data, "time": ""}, {"seq": 2, "time": "", "run": "r-1", "grant": "one", "type": "log",
                                             "event": {"event_type": "log", "n": 1}})
                _, _, data = all_runs.next()
                equal((data.get("run"), data["grant"]), (None, "all"))
                equal(all_runs.numbers(1), [3])
                equal(one.numbers(2), [1, 3])
                broker.stop()
                for stream in (all_runs, one, none):
                    equal(stream.response.read(), b"", "the end of a stream")


@bound(20)
def test_again_after_a_break():
    rows = Rows()
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        grant = admin.grant(run="r")
        with Client(grant["endpoint"]) as c, broker.client() as s:
            for n in range(1, 11):
                emit(c if n % 2 else s, n)
            for query, headers, want in (("?since=0", {}, list(range(1, 11))), ("?since=7", {}, [8, 9, 10]),
                                         ("?run=r&since=4", {}, [5, 7, 9]), ("?since=10", {}, []), ("", {}, []),
                                         ("", {"Last-Event-ID": "8"}, [9, 10]), ("?since=&run=", {}, []),
                                         ("?since=1", {"Last-Event-ID": "9"}, [10]),
                                         ("?since=4711", {}, list(range(1, 11)))):
                with rows(f"{query} {headers}"):
                    with Stream(admin, query, headers) as stream:
                        if want:
                            equal(stream.numbers(len(want)), want)
            for query, headers in (("?since=x", {}), ("?since=-1", {}), ("?since=1.5", {}),
                                   ("?since=99999999999999999999", {}), ("", {"Last-Event-ID": "x"})):
                with rows(f"bad: {query} {headers}"):
                    admin.bad(400, "BadRequest", "GET", "/v1/events" + query, headers=headers)
        rows.close()


@bound(20)
def test_needs_the_token():
    with admin_broker() as broker:
        equal(Admin(broker, unix=False).call("GET", "/v1/events").status, 401)


@bound(60)
def test_many_subscribers_and_events():
    """Every subscriber has all of it in order, from several loops at once."""
    with admin_broker(tcp=False, broker={"workers": 4}) as broker:
        admin = Admin(broker)
        grant = admin.grant(run="r")
        streams = [Stream(admin, "?run=r") for _ in range(20)]

        def send(first: int) -> None:
            with Client(grant["endpoint"]) as c:
                for n in range(first, first + 250):
                    emit(c, n)

        threads = [threading.Thread(target=send, args=(i * 1000,)) for i in range(4)]
        for t in threads:
            t.start()
        got = [stream.numbers(1000) for stream in streams]
        for t in threads:
            t.join()
        for numbers in got:
            equal(numbers, got[0], "the order")
        for i in range(4):
            equal([n for n in got[0] if n // 1000 == i], list(range(i * 1000, i * 1000 + 250)), "of one client")
        for stream in streams:
            stream.connection.close()


@bound(40)
def test_too_many_subscribers():
    with admin_broker(tcp=False) as broker:
        admin = Admin(broker)
        streams = [Stream(admin) for _ in range(128)]
        admin.bad(503, "Overloaded", "GET", "/v1/events")
        equal(admin.good(200, "GET", "/healthz"), {"status": "ok"})
        grant = admin.grant()  # calls go on
        for stream in streams:
            stream.connection.close()
        with Client(grant["endpoint"]) as c:
            emit(c, 1)  # so that those who left are noticed

            def again() -> bool:
                emit(c, 2)
                try:
                    with Stream(admin):
                        return True
                except (h.Failure, http.client.HTTPException):
                    return False

            h.wait_until(again, "a free place")
