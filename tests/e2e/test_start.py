"""Command line and configuration: what is wrong is said with file and line, and the exit code is EX_CONFIG."""
import os

import harness as h
from fake_provider import FakeProvider
from harness import EX_CONFIG, Broker, Rows, bound, check, configuration, equal, openai

PROGRAM = h.BUILD / "tactus-broker"
ENV = {"PATH": os.environ["PATH"]}


def start(text: str | None = None, *args, env: dict | None = None):
    if text is not None:
        file = h.TEMPORARY / "broker.yml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        args = ("--config", file, *args)
    return h.run([PROGRAM, *args], env={**ENV, **(env or {})})


@bound(20)
def test_version_and_help():
    for program in (PROGRAM, h.BUILD / "tactus-brokerctl"):
        result = h.run([program, "--version"])
        equal((result.returncode, result.stderr), (0, ""))
        check(result.stdout.split()[0] == program.name and result.stdout.split()[-1][0].isdigit(), result.stdout)
        result = h.run([program, "--help"])
        equal((result.returncode, result.stderr), (0, ""))
        check(program.name in result.stdout and "--version" in result.stdout, result.stdout)
    for option in ("--config", "--check-config", "--print-config", "--listen", "--dev", "--allow-missing-keys"):
        check(option in h.run([PROGRAM, "--help"]).stdout, f"--help does not tell of {option}")


@bound(20)
def test_wrong_command_lines():
    rows = Rows()
    for args in (["--nonsense"], ["extra"], ["--config"], [], ["--listen", "ftp://x", "--dev"]):
        with rows(str(args)):
            result = start(None, *args)
            check(result.returncode in (h.EX_USAGE, EX_CONFIG), f"exit code {result.returncode}")
            check(result.stderr, "nothing on stderr")
            equal(result.stdout, "")
    rows.close()


GOOD = """\
broker: { workers: 1, drain_timeout: 1 }
listeners:
  - { url: "tcp://127.0.0.1:0", auth: none, grant: all }
providers:
  - { name: builtin, type: builtin }
grants:
  - { name: all, models: [ "*" ], tools: [ "*" ] }
"""

# What is added to, or put in the place of, a line of GOOD; the line of the fault is marked with #!
BAD = [
    ("unknown section", GOOD + "nonsense: 1 #!\n", "nonsense"),
    ("unknown key in a section", GOOD + "limits:\n  max_messages: 3 #!\n", "max_messages"),
    ("unknown key of the broker", GOOD.replace("workers: 1,", "worker: 1,", 1).replace("1 }", "1 } #!", 1), "worker"),
    ("unknown key of a listener", GOOD.replace("auth: none,", "auth: none, colour: red,").replace("grant: all }", "grant: all } #!"), "colour"),
    ("unknown key of a provider", GOOD.replace("type: builtin }", "type: builtin, modell: x } #!"), "modell"),
    ("unknown key of a grant", GOOD.replace('tools: [ "*" ] }', 'tools: [ "*" ], toolz: [] } #!'), "toolz"),
    ("a word for a number", GOOD + "limits:\n  request_timeout: soon #!\n", "request_timeout"),
    ("negative", GOOD + "limits:\n  max_json_depth: -1 #!\n", "max_json_depth"),
    ("zero where there must be one", GOOD + "limits:\n  max_inflight_per_connection: 0 #!\n", "max_inflight_per_connection"),
    ("far too large", GOOD + "limits:\n  max_json_depth: 99999999999999999999 #!\n", "max_json_depth"),
    ("unknown unit", GOOD + "limits:\n  max_message_bytes: 10parsec #!\n", "max_message_bytes"),
    ("a list for a map", GOOD + "limits: [] #!\n", "limits"),
    ("a map for a list", GOOD.replace("grants:\n  - {", "grants:\n  {").replace("[ \"*\" ] }", '[ "*" ] } #!'), "grants"),
    ("a list for a word", GOOD.replace("name: builtin", "name: [ builtin ]").replace("type: builtin }", "type: builtin } #!"), "name"),
    ("a key twice", GOOD + "log: { level: info }\nlog: { level: debug } #!\n", "log"),
    ("unknown level", GOOD + "log:\n  level: loud #!\n", "level"),
    ("unknown type of provider", GOOD.replace("type: builtin }", "type: oracle } #!"), "oracle"),
    ("provider without type", GOOD.replace("name: builtin, type: builtin }", "name: builtin } #!"), "type"),
    ("two providers of one name", GOOD.replace("grants:", "  - { name: builtin, type: builtin } #!\ngrants:"), "name"),
    ("two grants of one name", GOOD + "  - { name: all } #!\n", "name"),
    ("unknown grant", GOOD.replace("grant: all }", "grant: most } #!"), "grant"),
    ("models of no provider", GOOD.replace('models: [ "*" ]', 'models: [ "builtin/*", "opnai/*" ]').replace('tools: [ "*" ] }', 'tools: [ "*" ] } #!'), "opnai/*"),
    ("client_cert without san", GOOD.replace('tools: [ "*" ] }', 'tools: [ "*" ], client_cert: {} } #!'), "client_cert"),
    ("budget of a word", GOOD.replace('tools: [ "*" ] }', 'tools: [ "*" ], budget_usd: much } #!'), "budget_usd"),
    ("auth none without grant", GOOD.replace(", grant: all }", " } #!"), "grant"),
    ("not a URL", GOOD.replace('"tcp://127.0.0.1:0"', '"127.0.0.1"').replace("grant: all }", "grant: all } #!"), "url"),
    ("unknown scheme", GOOD.replace("tcp://", "ftp://").replace("grant: all }", "grant: all } #!"), "url"),
    ("port out of range", GOOD.replace(":0\"", ":70000\"").replace("grant: all }", "grant: all } #!"), "url"),
    ("tls without certificate", GOOD.replace("tcp://", "tls://").replace("grant: all }", "grant: all } #!"), "cert"),
    ("half_close of another word", GOOD.replace("auth: none,", "auth: none, half_close: maybe,").replace("grant: all }", "grant: all } #!"), "half_close"),
    ("mode that is none", GOOD.replace("tcp://127.0.0.1:0", "unix:///tmp/x.sock").replace("auth: none,", 'auth: none, mode: "0999",')
     .replace("grant: all }", "grant: all } #!"), "mode"),
    ("base_url that is none", GOOD.replace("grants:", "  - { name: o, type: openai, base_url: \"ftp://x\" } #!\ngrants:"), "base_url"),
    ("YAML: bracket not closed", GOOD + "log: { level: info\n#!", ""),
    ("YAML: tab for indentation", GOOD + "log:\n\tlevel: info #!\n", ""),
    ("YAML: not a map", "- 1 #!\n", ""),
    ("YAML: a word", "word #!\n", ""),
    ("YAML: an unknown alias", GOOD + "log: *x #!\n", ""),
]


@bound(40)
def test_configurations_that_are_wrong():
    rows = Rows()
    for name, text, word in BAD:
        with rows(name):
            line = next(n for n, content in enumerate(text.split("\n"), 1) if "#!" in content)
            for extra in ((), ("--check-config",)):
                result = start(text, *extra)
                equal(result.returncode, EX_CONFIG, f"exit code ({result.stderr[-200:]!r})")
                lines = (line,) if not name.startswith("YAML: bracket") else (line - 1, line, line + 1)
                check(any(f"broker.yml:{n}:" in result.stderr for n in lines), f"wanted line {line}: {result.stderr!r}")
                check(word in result.stderr, f"{word!r} is not named: {result.stderr!r}")
                equal(result.stdout, "")
    rows.close()


@bound(20)
def test_files_that_are_no_configuration():
    rows = Rows()
    for name, args in [("missing", ("--config", h.TEMPORARY / "missing.yml")), ("directory", ("--config", h.TEMPORARY))]:
        with rows(name):
            result = start(None, *args)
            check(result.returncode in (EX_CONFIG, 66), f"exit code {result.returncode}")
            check(str(args[1]) in result.stderr, result.stderr)
    for name, data in [("empty", b""), ("NUL", b"a: \x00"), ("not UTF-8", b"broker: { x: \"\xff\xfe\" }"), ("binary", os.urandom(2000)),
                       ("deep", b"[" * 50_000), ("aliases", b"a: &a [x,x]\n" + b"".join(b"b%d: &b%d [*a,*a]\n" % (n, n) for n in range(50)))]:
        with rows(name):
            result = start(data)
            equal(result.returncode, EX_CONFIG, f"exit code ({result.stderr[-200:]!r})")
            check("broker.yml" in result.stderr, result.stderr)
    rows.close()


@bound(20)
def test_check_config():
    result = start(GOOD, "--check-config")
    equal(result.returncode, 0, result.stderr)
    # secrets need not be there
    with_key = GOOD.replace("grants:", "  - { name: o, type: openai, keys: [ { env: NO_SUCH_VARIABLE } ] }\ngrants:")
    equal(start(with_key, "--check-config").returncode, 0, "without the secret")


@bound(30)
def test_print_config():
    """What is printed reads into the same; secrets are what they were: references."""
    rows = Rows()
    example = (h.ROOT / "deploy" / "broker.example.yml").read_text()
    for name, text in (("small", GOOD), ("example", example)):
        with rows(name):
            printed = start(text, "--print-config")
            equal((printed.returncode, printed.stderr), (0, ""))
            again = start(printed.stdout, "--print-config")
            equal(again.stdout, printed.stdout)
            check("  idle_timeout: 600\n" in printed.stdout, "no defaults")
    with rows("references"):
        check('token: {file: "/etc/tactus/keys/ci"}' in printed.stdout, printed.stdout)
    with rows("bad"):
        result = start("x: 1\n", "--print-config")
        equal((result.returncode, result.stdout), (os.EX_CONFIG, ""))
    with rows("--dev"):
        equal(h.run([h.BUILD / "tactus-broker", "--dev", "--print-config"], 10).returncode, os.EX_USAGE)
    rows.close()


@bound(20)
def test_an_address_that_is_taken():
    with Broker(configuration(transports=("tcp", "unix"))) as broker:
        taken = broker.endpoint("tcp")
        text = GOOD.replace("tcp://127.0.0.1:0", taken)
        try:
            result = h.run([PROGRAM, "--config", write(text)], 2, env=ENV)
        except h.Failure:
            raise h.Failure("a second broker listens on the same port: clients would reach either")
        check(result.returncode not in (0, -11, -6), f"exit code {result.returncode}")
        check(taken.rsplit(":", 1)[1] in result.stderr, result.stderr)


def write(text: str):
    file = h.TEMPORARY / "other.yml"
    file.write_text(text)
    return file


@bound(20)
def test_socket_in_a_directory_that_is_missing():
    text = GOOD.replace("tcp://127.0.0.1:0", f"unix://{h.TEMPORARY}/no/such/x.sock")
    result = start(text)
    check(result.returncode not in (0, -11, -6), f"exit code {result.returncode}")
    check("/no/such/x.sock" in result.stderr, result.stderr)
    long = start(GOOD.replace("tcp://127.0.0.1:0", f"unix://{h.TEMPORARY}/{'x' * 200}.sock"))
    check(long.returncode not in (0, -11, -6), f"exit code {long.returncode} for a path of more than 107 bytes")


# ---- keys -----------------------------------------------------------------------------------------------------


def key_file(content: bytes, mode: int = 0o600):
    file = h.TEMPORARY / f"key-{next(h.NUMBERS)}"
    file.write_bytes(content)
    file.chmod(mode)
    return file


@bound(20)
def test_key_from_a_file():
    with FakeProvider() as fake:
        for content in (b"sk-from-a-file", b"sk-from-a-file\n"):
            config = configuration(openai(fake, keys=[{"file": str(key_file(content))}]))
            with Broker(config) as broker, broker.client() as c:
                h.done(c.answer("text"))
                equal(fake.find("text").headers["authorization"], "Bearer sk-from-a-file")


@bound(20)
def test_provider_without_a_key():
    with FakeProvider() as fake:
        entry = openai(fake)
        del entry["keys"]
        with Broker(configuration(entry)) as broker, broker.client() as c:
            h.done(c.answer("text"))
            check("authorization" not in fake.find("text").headers, "a key was sent")


@bound(40)
def test_keys_that_are_refused():
    """Closed at start, naming the source and never the content."""
    rows = Rows()
    with FakeProvider() as fake:
        for name, keys, env in [
                ("file for all", [{"file": key_file(b"sk-hidden", 0o644)}], {}), ("file for the group", [{"file": key_file(b"sk-hidden", 0o640)}], {}),
                ("file for others to write", [{"file": key_file(b"sk-hidden", 0o602)}], {}), ("file missing", [{"file": h.TEMPORARY / "none"}], {}),
                ("file empty", [{"file": key_file(b"")}], {}), ("file of a newline", [{"file": key_file(b"\n")}], {}),
                ("newline inside", [{"file": key_file(b"sk-hidden\nX-Evil: 1")}], {}), ("carriage return inside", [{"file": key_file(b"sk-hid\rden")}], {}),
                ("NUL inside", [{"file": key_file(b"sk-hid\0den")}], {}), ("a directory", [{"file": h.TEMPORARY}], {}),
                ("variable not set", [{"env": "NOT_SET"}], {}), ("variable empty", [{"env": "EMPTY"}], {"EMPTY": ""}),
                ("newline in the variable", [{"env": "LINES"}], {"LINES": "sk-hidden\r\nX-Evil: 1"})]:
            with rows(name):
                keys = [{k: str(v) for k, v in keys[0].items()}]
                text = h.json.dumps(configuration(openai(fake, keys=keys)), indent=1)
                result = start(text, env=env)
                equal(result.returncode, EX_CONFIG, f"exit code ({result.stderr[-200:]!r})")
                check(list(keys[0].values())[0] in result.stderr, f"the source is not named: {result.stderr!r}")
                check("hidden" not in result.stderr and "X-Evil" not in result.stderr, f"the content is told: {result.stderr!r}")
    rows.close()


@bound(20)
def test_allow_missing_keys():
    with FakeProvider() as fake:
        config = configuration(openai(fake, keys=[{"env": "NOT_SET"}]), openai(fake, "other"))
        with Broker(config, args=("--allow-missing-keys",)) as broker, broker.client() as c:
            h.failure(c.answer("openai/text"), "AuthenticationError")
            equal(len(fake.records), 0, "requests sent without the key")
            h.done(c.answer("other/text"))
            h.done(c.answer("builtin/echo"))
            check("NOT_SET" in broker.stderr(), "no warning")
