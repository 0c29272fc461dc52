"""The wire: framing, bad input, connections, ids, the form of events. Over every transport and in both framings."""
import json

import harness as h
from harness import FRAMINGS, TRANSPORTS, Broker, Rows, bound, check, configuration, equal, error

PING = {"method": "tool.call", "params": {"name": "host.ping", "args": {}}}
ANY = object()


def ways(broker):
    """A client in each transport and framing."""
    for transport in TRANSPORTS:
        for framing in FRAMINGS:
            yield f"{transport} {framing}", lambda: broker.client(transport, framing)


def all_transports(**sections):
    return Broker(configuration(transports=TRANSPORTS, **sections))


def bad(client, kind: str, id: str) -> None:
    """One error of ours, of that type and id, comes next."""
    event = client.event()
    equal((event["id"], event["event"], event["error"]["type"]), (id, "error", kind), h.short(event))
    check(event["error"]["message"], "an error without a message")


def echo(args: bytes) -> bytes:
    return b'{"id":"e","method":"tool.call","params":{"name":"host.echo","args":' + args + b"}}"


# ---- bodies that are wrong in either framing: (name, body, id of the error) -----------------------------------

WRONG = [
    ("not JSON", b"oops", ""), ("array", b"[1]", ""), ("string", b'"id"', ""), ("null", b"null", ""), ("number", b"7", ""),
    ("only a brace", b"{", ""), ("two objects", b"{}{}", ""), ("byte order mark", b"\xef\xbb\xbf{}", ""),
    ("single quotes", b"{'id':'a'}", ""), ("comment", b'{"id":"k",/**/"method":"x"}', "k"),
    ("cut after the id", b'{"id":"k","method":"tool.call","params":{', "k"),
    ("cut inside the id", b'{"id":"k', ""),
    ("trailing comma", b'{"id":"k","method":"tool.call",}', "k"),
    ("rubbish after the end", b'{"id":"k","method":"tool.call"} x', "k"),
    ("missing value", b'{"id":"k","method":"tool.call","params":{"name":}}', "k"),
    ("id last, broken before", b'{"method":tool,"id":"k"}', ""),
    ("invalid UTF-8 in a value", echo(b'{"x":"\xff"}'), "e"),
    ("overlong UTF-8", echo(b'{"x":"\xc0\x80"}'), "e"),
    ("a surrogate in UTF-8", echo(b'{"x":"\xed\xa0\x80"}'), "e"),
    ("beyond U+10FFFF", echo(b'{"x":"\xf4\x90\x80\x80"}'), "e"),
    ("half a character at the end", echo(b'{"x":"\xe6\x97"}'), "e"),
    ("invalid UTF-8 in a key", echo(b'{"\x80":1}'), "e"),
    ("NUL inside a key", echo(b'{"a\\u0000b":1}'), "e"),
    ("NUL byte in a value", echo(b'{"x":"\x00"}'), "e"),
    ("control character in a value", echo(b'{"x":"a\tb"}'), "e"),
    ("leading zero", echo(b'{"x":01}'), "e"), ("no digit after the point", echo(b'{"x":1.}'), "e"),
    ("no digit before the point", echo(b'{"x":.5}'), "e"), ("plus", echo(b'{"x":+1}'), "e"),
    ("empty exponent", echo(b'{"x":1e}'), "e"), ("only minus", echo(b'{"x":-}'), "e"),
    ("NaN", echo(b'{"x":NaN}'), "e"), ("hexadecimal", echo(b'{"x":0x10}'), "e"),
    ("True", echo(b'{"x":True}'), "e"), ("unknown escape", echo(b'{"x":"\\x41"}'), "e"),
    ("short escape", echo(b'{"x":"\\u12"}'), "e"),
    ("lone high surrogate", echo(b'{"x":"\\ud800"}'), "e"), ("lone low surrogate", echo(b'{"x":"\\udc00"}'), "e"),
    ("high surrogate, then a letter", echo(b'{"x":"\\ud83d\\u0041"}'), "e"),
    ("nested 140 deep", echo(b'{"x":' + b"[" * 140 + b"]" * 140 + b"}"), "e"),
    ("nested 5000 deep in objects", echo(b'{"x":' * 5000 + b"1" + b"}" * 5000), "e"),
    ("nested 100000 deep and unclosed", echo(b"[" * 100000), "e"),
    ("method twice", b'{"id":"k","method":"tool.call","method":"tool.call"}', "k"),
    ("params twice", b'{"id":"k","method":"tool.call","params":{},"params":{}}', "k"),
    ("id twice", b'{"id":"k","id":"l","method":"tool.call"}', ANY),
    ("name twice in params", b'{"id":"k","method":"tool.call","params":{"name":"host.ping","name":"host.ping"}}', "k"),
    ("model twice in params", b'{"id":"k","method":"llm.chat","params":{"model":"builtin/echo","model":"x","messages":[]}}', "k"),
    ("params a list", b'{"id":"k","method":"tool.call","params":[]}', "k"),
    ("params a string", b'{"id":"k","method":"tool.call","params":"x"}', "k"),
]


@bound(60)
def test_wrong_bodies_are_answered_and_the_connection_goes_on():
    rows = Rows()
    with all_transports() as broker:
        for way, client in ways(broker):
            for name, body, id in WRONG:
                with rows(f"{way}: {name}"), client() as c:
                    c.ping("before")  # so that the framing is known whatever the first byte is
                    c.send_body(body)
                    event = c.event()
                    equal((event["event"], event["error"]["type"]), ("error", "BadRequest"), h.short(event))
                    check(id is ANY or event["id"] == id, f"wanted id {id!r}, got {event['id']!r}")
                    if c.framing == "ndjson":
                        c.ping("after")
    rows.close()


@bound(60)
def test_wrong_bodies_byte_by_byte():
    rows = Rows()
    with all_transports() as broker:
        for way, client in ways(broker):
            for name, body, id in WRONG:
                if len(body) > 1000:
                    continue
                with rows(f"{way}: {name}"), client() as c:
                    c.ping("before")
                    c.send_body(body, bytewise=True)
                    event = c.event()
                    equal((event["event"], event["error"]["type"]), ("error", "BadRequest"), h.short(event))
                    check(id is ANY or event["id"] == id, f"wanted id {id!r}, got {event['id']!r}")
    rows.close()


# ---- ids and methods: (name, body, events) --------------------------------------------------------------------

REQUESTS = [
    ("no method", b'{"id":"a"}', error("a", "BadRequest", "Missing id/method")),
    ("no id", b'{"method":"tool.call"}', error("", "BadRequest", "Missing id/method")),
    ("neither", b"{}", error("", "BadRequest", "Missing id/method")),
    ("empty id", b'{"id":"","method":"tool.call"}', error("", "BadRequest", "Missing id/method")),
    ("empty method", b'{"id":"a","method":""}', error("a", "BadRequest", "Missing id/method")),
    ("null id", b'{"id":null,"method":"tool.call"}', error("", "BadRequest", "Missing id/method")),
    ("id a number", b'{"id":7,"method":"tool.call"}', error("7", "BadRequest", "Missing id/method")),
    ("id a number as written", b'{"id":-1.50e3,"method":"tool.call"}', error("-1.50e3", "BadRequest", "Missing id/method")),
    ("id a boolean", b'{"id":true,"method":"tool.call"}', error("true", "BadRequest", "Missing id/method")),
    ("id a list", b'{"id":["a"],"method":"tool.call"}', error("", "BadRequest", "Missing id/method")),
    ("method a number", b'{"id":"a","method":1}', error("a", "BadRequest", "Missing id/method")),
    ("unknown method", b'{"id":"a","method":"fs.read"}', error("a", "MethodNotFound", "Unknown method: fs.read")),
    ("almost a method", b'{"id":"a","method":"llm.chat."}', error("a", "MethodNotFound", "Unknown method: llm.chat.")),
    ("method in capitals", b'{"id":"a","method":"LLM.CHAT"}', error("a", "MethodNotFound", "Unknown method: LLM.CHAT")),
    ("method of other letters", '{"id":"a","method":"日本\\n"}'.encode(), error("a", "MethodNotFound", "Unknown method: 日本\n")),
    ("unknown keys at the top", b'{"x":{"id":"z"},"id":"a","y":[1],"method":"fs.read","jsonrpc":"2.0"}',
     error("a", "MethodNotFound", "Unknown method: fs.read")),
    ("token where the listener decides", b'{"id":"a","token":"whatever","method":"fs.read"}',
     error("a", "MethodNotFound", "Unknown method: fs.read")),
    ("keys in another order", b'{"params":{"args":{"n":1},"name":"host.ping"},"method":"tool.call","id":"a"}',
     [{"id": "a", "event": "done", "data": {"result": {"ok": True, "echo": {"n": 1}}}}]),
    ("white space everywhere", b' \t{ "id" : "a" , "method" : "fs.read" , "params" : { } } \t',
     error("a", "MethodNotFound", "Unknown method: fs.read")),
    ("id escaped", b'{"id":"\\u00e9\\ud83c\\udf89\\n\\/","method":"fs.read"}', error("é🎉\n/", "MethodNotFound", "Unknown method: fs.read")),
    ("id and method escaped", b'{"\\u0069d":"a","meth\\u006fd":"fs.read"}', error("a", "MethodNotFound", "Unknown method: fs.read")),
    ("params null", b'{"id":"a","method":"events.emit","params":null}', error("a", "BadRequest", "params.event must be an object")),
]


@bound(60)
def test_ids_and_methods():
    rows = Rows()
    with all_transports() as broker:
        for way, client in ways(broker):
            for bytewise in (False, True):
                with client() as c:
                    for name, body, events in REQUESTS:
                        with rows(f"{way}{' byte by byte' * bytewise}: {name}"):
                            c.send_body(body, bytewise)
                            equal([c.event() for _ in events], events)
                            c.ping("after")
    rows.close()


@bound(20)
def test_a_long_id_comes_back_whole():
    with all_transports() as broker:
        for _, client in ways(broker):
            with client() as c:
                c.ping("x" * 1000)


@bound(20)
def test_events_are_compact_utf8_and_in_key_order():
    want = '{"id":"é","event":"done","data":{"result":{"echo":{"z":"日本 🎉 \\" \\\\ \\n","a":{}}}}}'.encode()
    sent = '{"id":"\\u00e9","method":"tool.call","params":{"name":"host.echo","args":{"z":"日本 🎉 \\" \\\\ \\n","a":{}}}}'
    with all_transports() as broker:
        for way, client in ways(broker):
            with client() as c:
                c.send_body(sent.encode())
                equal(c.event_bytes(), want, way)
                c.send("nö.\u0001\"\u2028")
                equal(c.event_bytes(), '{"id":"a","event":"error","error":{"type":"MethodNotFound",'
                      '"message":"Unknown method: nö.\\u0001\\"\u2028"}}'.encode(), way)


# ---- NDJSON ---------------------------------------------------------------------------------------------------


@bound(20)
def test_ndjson_line_ends():
    ping = b'{"id":"b","method":"tool.call","params":{"name":"host.ping"}}'
    rows = Rows()
    with all_transports() as broker:
        for transport in TRANSPORTS:
            for name, data in [("blank lines first", b"\n\n\r\n" + ping + b"\n"), ("CR LF", ping + b"\r\n"),
                               ("white space first", b" \t" + ping + b"\n"), ("blank line of spaces", b"  \t \r\n" + ping + b"\n"),
                               ("broken line first", b"not json\n" + ping + b"\n")]:
                with rows(f"{transport}: {name}"), broker.client(transport) as c:
                    c.send_raw(data)
                    if name == "broken line first":
                        bad(c, "BadRequest", "")
                    equal(c.event()["id"], "b")
                    c.ping()
    rows.close()


@bound(20)
def test_first_byte_chooses_ndjson():
    """Anything that is neither a digit nor an upper-case letter."""
    rows = Rows()
    with all_transports() as broker:
        for first in b'{[" \t\r\nnx-_\x00\x01\x16\x80\xff/:@`~':
            with rows(f"first byte {first:#x}"), broker.client("tcp") as c:
                c.send_raw(bytes([first]) + b"\n")
                if not bytes([first]).isspace():
                    bad(c, "BadRequest", "")
                c.ping()
    rows.close()


# ---- length prefix --------------------------------------------------------------------------------------------

PREFIXES = [
    ("letters", b"00000abc12\n{}", "BadRequest"), ("no newline", b"0000000002{}", "BadRequest"),
    ("nine digits", b"000000002\n{}", "BadRequest"), ("eleven digits", b"00000000002\n{}", "BadRequest"),
    ("CR LF", b"0000000002\r\n{}", "BadRequest"), ("space", b"0000 00002\n{}", "BadRequest"),
    ("sign", b"0-00000002\n{}", "BadRequest"), ("zero", b"0000000000\n", "BadRequest"),
    ("the largest", b"9999999999\n", "MessageTooLarge"), ("one over the limit", b"0104857601\n", "MessageTooLarge"),
    ("2^32 + 2", b"4294967298\n{}", "MessageTooLarge"),
]


@bound(30)
def test_length_prefixes():
    rows = Rows()
    with all_transports() as broker:
        for transport in TRANSPORTS:
            for bytewise in (False, True):
                for name, data, kind in PREFIXES:
                    with rows(f"{transport}{' byte by byte' * bytewise}: {name}"), broker.client(transport, "framed") as c:
                        c.send_raw(data, bytewise)
                        bad(c, kind, "")
                        c.closed()
                    with rows(f"{transport}: after a good one: {name}"), broker.client(transport, "framed") as c:
                        c.ping()
                        c.send_raw(data, bytewise)
                        bad(c, kind, "")
                        c.closed()
    rows.close()


@bound(20)
def test_a_newline_after_the_body_is_no_part_of_it():
    """A prefix must follow at once: the newline is a broken one."""
    with all_transports() as broker, broker.client("unix", "framed") as c:
        c.send_body(h.compact({"id": "a", **PING}))
        c.send_raw(b"\n0000000002\n{}")
        equal(c.event()["id"], "a")
        bad(c, "BadRequest", "")
        c.closed()


# ---- the limit of a message -----------------------------------------------------------------------------------


def padded(size: int, id: str = "a") -> bytes:
    """A ping of exactly `size` bytes."""
    head, tail = b'{"id":"%s","method":"tool.call","pad":"' % id.encode(), b'","params":{"name":"host.ping"}}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


@bound(30)
def test_the_limit_of_a_message():
    limit = 65536
    rows = Rows()
    with all_transports(limits={"max_message_bytes": limit}) as broker:
        for way, client in ways(broker):
            with rows(f"{way}: exactly"), client() as c:
                c.send_body(padded(limit))
                equal(c.event()["event"], "done")
                c.send_body(padded(limit - 1, "b"))
                equal(c.event()["id"], "b")
            for name, size, more in [("one over", limit + 1, b""), ("ten times", 10 * limit, b""),
                                     ("more behind it", limit + 1, b"y" * 500_000)]:
                with rows(f"{way}: {name}"), client() as c:
                    c.send_raw(c.encode(padded(size)) + more)
                    event = c.event()
                    equal((event["id"] in ("", "a"), event["error"]["type"]), (True, "MessageTooLarge"), h.short(event))
                    text = event["error"]["message"]
                    check(str(limit) in text or "64 KiB" in text or "64KiB" in text, f"the limit is not named: {text}")
                    c.closed()
        with broker.client() as c:
            c.ping()
    rows.close()


# ---- end of file inside a message -----------------------------------------------------------------------------


@bound(20)
def test_end_of_file_inside_a_message_gets_nothing():
    rows = Rows()
    with all_transports() as broker:
        for way, client in ways(broker):
            with rows(way), client() as c:
                c.send_raw(c.encode(h.compact({"id": "a", **PING}))[:-5])
                c.half_close()
                c.closed()
    rows.close()


# ---- many requests on one connection --------------------------------------------------------------------------


@bound(30)
def test_pipelining():
    rows = Rows()
    with all_transports() as broker:
        for way, client in ways(broker):
            with rows(way), client() as c:
                ids = [f"p{n}" for n in range(500)]
                c.send_raw(b"".join(c.encode(h.compact({"id": i, **PING})) for i in ids))
                events = c.gather(len(ids))
                equal(sorted(events), sorted(ids))
                check(all(len(e) == 1 for e in events.values()), "more than one event of a ping")
    rows.close()


@bound(30)
def test_interleaving():
    """Streams side by side: each one's words in order, told apart by id, all in flight together."""
    words = [f" w{n}" for n in range(8)]
    with all_transports() as broker:
        for way, client in ways(broker):
            with client() as c:
                for n in range(20):
                    c.chat("builtin/slow-10", f"s{n}", content="".join(words).strip())
                order = []
                finished = 0
                events: dict[str, list] = {}
                while finished < 20:
                    event = c.event()
                    order.append(event["id"])
                    events.setdefault(event["id"], []).append(event)
                    finished += event["event"] == "done"
                for id, own in events.items():
                    equal(h.done(own)["text"], "".join(words).strip(), f"{way} {id}")
                    equal(len(own), 9, f"{way} {id}: events")
                switches = sum(a != b for a, b in zip(order, order[1:]))
                check(switches > 40, f"{way}: streams came one after another ({switches} switches)")


@bound(20)
def test_a_fast_request_overtakes_a_slow_one():
    with all_transports() as broker:
        for way, client in ways(broker):
            with client() as c:
                c.chat("builtin/slow-150", "slow", stream=False)
                c.send("tool.call", {"name": "host.ping"}, "fast")
                equal([c.event()["id"], c.event()["id"]], ["fast", "slow"], way)


@bound(20)
def test_duplicate_id():
    with all_transports() as broker:
        for way, client in ways(broker):
            with client() as c:
                c.chat("builtin/slow-100", "d", stream=False)
                c.send("tool.call", {"name": "host.ping"}, "d")
                equal([c.event()], error("d", "BadRequest", "Duplicate id"), way)
                equal(c.event()["data"]["text"], "hi", way)
                c.ping("d")  # free again


@bound(20)
def test_other_framing_on_another_connection():
    """The framing is a connection's, not the listener's."""
    with all_transports() as broker:
        for transport in TRANSPORTS:
            with broker.client(transport, "ndjson") as a, broker.client(transport, "framed") as b:
                for n in range(3):
                    a.ping(f"a{n}")
                    b.ping(f"b{n}")


@bound(20)
def test_http_bytes_get_a_plain_404():
    rows = Rows()
    with all_transports() as broker:
        for transport in TRANSPORTS:
            with rows(transport), broker.client(transport) as c:
                c.send_raw(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
                data = b""
                while more := c.sock.recv(4096):
                    data += more
                check(data.startswith(b"HTTP/1.1 404 "), f"not a 404: {data[:100]!r}")
                check(b"\r\n\r\n" in data, f"no end of the head: {data[:300]!r}")
            with rows(f"{transport} TLS hello or rubbish"), broker.client(transport) as c:
                c.send_raw(b"QUIT\r\n\r\n")
                while c.sock.recv(4096):
                    pass
        with broker.client() as c:
            c.ping()
    rows.close()


@bound(30)
def test_long_texts_are_split_below_64_kib():
    """First-generation clients read lines of at most 64 KiB: no delta's text is longer than 32 KiB."""
    with all_transports() as broker, broker.client() as c:
        content = "日本語é🎉x" * 12_000
        events = c.answer("builtin/echo", content=content)
        equal(h.done(events)["text"], content, "text")
        sizes = [len(e["data"]["text"].encode()) for e in events[:-1]]
        check(max(sizes) <= 32 * 1024, f"a delta of {max(sizes)} bytes")


@bound(20)
def test_half_close():
    """Unix: what was read is finished. TCP and TLS: a FIN cancels, unless the listener says otherwise."""
    rows = Rows()
    finish = configuration(transports=TRANSPORTS, listener={"half_close": "finish"})
    with all_transports() as broker, Broker(finish) as finishing:
        for b, transport, finishes in [(broker, "unix", True), (broker, "tcp", False), (broker, "tls", False),
                                       (finishing, "unix", True), (finishing, "tcp", True)]:
            for framing in FRAMINGS:
                with rows(f"{transport} {framing} {'finish' if b is finishing else 'default'}"), b.client(transport, framing) as c:
                    for id in ("one", "two"):
                        c.chat("builtin/slow-40", id, content="a b c d")
                    equal(c.event()["event"], "delta")
                    c.half_close()
                    if finishes:
                        both = c.gather(2)
                        equal(sorted(e[-1]["event"] for e in both.values()), ["done", "done"])
                        c.closed()
                    else:
                        rest = read_to_end(c)
                        check(b'"done"' not in rest, f"finished after a FIN: {rest[-200:]!r}")
    rows.close()


def read_to_end(c) -> bytes:
    data = bytes(c.buffer)
    try:
        while more := c.sock.recv(65536):
            data += more
    except OSError:
        pass
    return data


@bound(20)
def test_half_close_cancels_on_a_unix_socket_that_says_so():
    with Broker(configuration(listener={"half_close": "cancel"})) as broker, broker.client() as c:
        c.chat("builtin/slow-100", content="a b c d e f")
        c.event()
        c.half_close()
        check(b'"done"' not in read_to_end(c), "finished although half_close is cancel")


@bound(30)
def test_workers():
    """One loop and four: the same broker."""
    rows = Rows()
    for workers in (1, 4):
        with all_transports(broker={"workers": workers}) as broker:
            for way, client in ways(broker):
                with rows(f"{workers} workers: {way}"):
                    clients = [client() for _ in range(12)]
                    for n, c in enumerate(clients):
                        c.chat("builtin/slow-5", content=f"client {n} has words of its own")
                    for n, c in enumerate(clients):
                        equal(h.done(c.until_terminal())["text"], f"client {n} has words of its own")
                        c.close()
    rows.close()


def test_json_of_every_event_is_valid():
    """What host.echo gives back is what came, byte for byte."""
    args = json.dumps({"k": [0.1, -0.0, 1e300, 9007199254740993, "\u0001\u007f\ud83c\udf89".encode("utf-16", "surrogatepass").decode("utf-16")]})
    raw = b'{"z":1.0,"a":9007199254740993,"m":1e400,"k":[0.10,-0,"\\u0000\\/"],"":{"":[]},"s" : [ 1 , 2 ]}'
    with all_transports() as broker:
        for way, client in ways(broker):
            with client() as c:
                for value in (raw, args.encode()):
                    c.send_body(echo(value))
                    equal(c.event_bytes(), b'{"id":"e","event":"done","data":{"result":{"echo":' + value + b"}}}", way)
