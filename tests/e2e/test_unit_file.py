"""What deploy/ has for operators: the systemd units, the Containerfile, the compose file and its configuration."""
import re
import shutil

import harness as h
from harness import Rows, bound, check, equal

DEPLOY = h.ROOT / "deploy"
MOST_EXPOSED = 2.0
UNITS = ("tactus-broker.service", "tactus-broker.socket")


def need(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise h.Skip(f"no {program}: install systemd")
    return path


def units(change=lambda text: text):
    """The units as they would be installed, with a program that exists; its directory."""
    directory = h.TEMPORARY / "units"
    directory.mkdir(exist_ok=True)
    for name in UNITS:
        text = (DEPLOY / name).read_text()
        text, count = re.subn(r"^ExecStart=\S+", f"ExecStart={h.BUILD / 'tactus-broker'}", text, flags=re.M)
        equal(count, 1 if name.endswith(".service") else 0, f"ExecStart lines of {name}")
        (directory / name).write_text(change(text))
    return directory


def verify(directory):
    return h.run([need("systemd-analyze"), "verify", "--man=no", *(directory / name for name in UNITS)])


def exposure(directory) -> float:
    done = h.run([need("systemd-analyze"), "security", "--no-pager", "--offline=true", directory / UNITS[0]])
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    check(found, f"no exposure level in {done.stdout[-300:]} {done.stderr[-300:]}")
    return float(found[1])


@bound(30)
def test_units_are_valid():
    done = verify(units())
    equal((done.returncode, done.stdout, done.stderr), (0, "", ""))
    done = verify(units(lambda text: text.replace("\nRestartSec=", "\nRestartSecs=")))
    check("RestartSecs" in done.stderr, f"a wrong key was not seen: {done.stderr}")


@bound(30)
def test_unit_is_hardened():
    level = exposure(units())
    check(level <= MOST_EXPOSED, f"systemd-analyze security: {level}, wanted at most {MOST_EXPOSED}")
    bare = exposure(units(lambda text: text.split("\n# ---- what it cannot do")[0]))
    check(bare > MOST_EXPOSED, f"without the hardening it is {bare}: nothing was measured")


def settings(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def test_unit_suits_the_broker():
    service, sock = settings(UNITS[0]), settings(UNITS[1])
    rows = Rows()
    for key, value in (("Type", "notify"), ("ExecReload", "/bin/kill -HUP $MAINPID"), ("LimitCORE", "0"),
                       ("CapabilityBoundingSet", ""), ("NoNewPrivileges", "yes"), ("RuntimeDirectory", "tactus"),
                       ("StateDirectory", "tactus"), ("RuntimeDirectoryPreserve", "yes")):
        with rows(key):
            equal(service.get(key), [value])
    with rows("tools on Node.js"):
        check("MemoryDenyWriteExecute" not in service, "they write to memory that they execute")
    with rows("watchdog"):
        check(int(service["WatchdogSec"][0]) > 0, "none")
    with rows("time to drain"):
        check(int(service["TimeoutStopSec"][0]) > 30 + 3, "less than the default drain_timeout and the last words")
    with rows("one user"):
        equal((sock["SocketUser"], sock["SocketGroup"]), (service["User"], service["Group"]))
        check(re.search(rf"^u {service['User'][0]} ", (DEPLOY / "tactus-broker.sysusers").read_text(), re.M),
              "sysusers makes another one")
    with rows("the socket is the example's"):
        example = (DEPLOY / "broker.example.yml").read_text()
        for address in sock["ListenStream"]:
            check(f"unix://{address}\n" in example, f"{address} is no listener of the example")
    rows.close()


@bound(60)
def test_installed_unit_names_the_installed_program():
    root = h.TEMPORARY / "root"
    done = h.run(["make", "-s", "-C", h.ROOT, "-o", "programs", f"B={h.BUILD}", f"DESTDIR={root}", "PREFIX=/opt/tactus",
                  "install"], 40)
    equal(done.returncode, 0, done.stderr)
    text = (root / "opt/tactus/lib/systemd/system/tactus-broker.service").read_text()
    program = re.search(r"^ExecStart=(\S+)", text, re.M)[1]
    equal(program, "/opt/tactus/bin/tactus-broker")
    check((root / program[1:]).exists(), f"{program} was not installed")
    for name in ("lib/systemd/system/tactus-broker.socket", "lib/sysusers.d/tactus-broker.conf",
                 "share/tactus-broker/broker.example.yml"):
        check((root / "opt/tactus" / name).exists(), f"{name} was not installed")


def packages_of(text: str) -> set[str]:
    return {word for word in text.replace("\\", " ").split() if not word.startswith("-")}


def test_containerfile():
    text = (DEPLOY / "Containerfile").read_text()
    installs = re.findall(r"apt-get install -y --no-install-recommends((?:\\\n|[^\n&])*)", text)
    equal(len(installs), 2, "stages that install packages")
    quickstart = (DEPLOY / "quickstart.sh").read_text()
    wanted = packages_of(re.search(r"^build_packages='([^']*)'", quickstart, re.M)[1])
    equal(packages_of(installs[0]), wanted, "packages of the builder, as quickstart.sh has them")
    runtime = packages_of(installs[1])
    check(not any(p.endswith("-dev") or p in ("gcc", "make") for p in runtime), f"the image has {sorted(runtime)}")
    equal(len(runtime - {"ca-certificates"}), sum(p.endswith("-dev") for p in wanted - {"libc6-dev", "libarchive-dev"}),
          "one shared library for each that the broker is built with; libarchive is the runner's")
    last = text[text.rindex("\nFROM "):]
    rows = Rows()
    for pattern in (r"^USER (?!0|root)\S+$", r"^ENTRYPOINT \[\"tactus-broker\"\]$", r"^HEALTHCHECK .*(\\\n.*)?CMD \[",
                    r"^COPY --from=build "):
        with rows(pattern):
            check(re.search(pattern, last, re.M), "not in the last stage")
    with rows("what is copied"):
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M):
            for source in sources.split():
                check((h.ROOT / source).exists(), f"{source} is not there")
                check(source not in ("deploy", "certs", "."), f"{source} may have keys")
    rows.close()


def test_compose_file():
    try:
        import yaml
    except ImportError:
        raise h.Skip("no module yaml: install python3-yaml")
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    config = yaml.safe_load((DEPLOY / "compose.broker.yml").read_text())
    broker, agent = compose["services"]["broker"], compose["services"]["agent"]
    check(compose["networks"]["agents"]["internal"] is True, "the agents' network has a way out")
    check(not compose["networks"]["outside"].get("internal"), "the broker has no way out")
    equal(sorted(broker["networks"]), ["agents", "outside"])
    equal(agent["networks"], ["agents"])
    check("ports" not in broker, "the broker is published on the host")
    address = broker["networks"]["agents"]["ipv4_address"]
    listener = next(entry for entry in config["listeners"] if entry["url"].startswith("tls://"))
    equal(listener["url"], f"tls://{address}:8443")
    equal(agent["environment"]["TACTUS_BROKER_SOCKET"], "tls://broker:8443")
    mounts = {v.split(":")[1] for v in broker["volumes"]} | {f"/run/secrets/{name}" for name in broker["secrets"]}
    for path in (listener["cert"], listener["key"], *(k["file"] for p in config["providers"] for k in p.get("keys", []))):
        check(path in mounts, f"{path} is not mounted")
    check(agent["environment"]["TACTUS_BROKER_TLS_CA_FILE"] in {v.split(":")[1] for v in agent["volumes"]}, "no CA mounted")
    check("secrets" not in agent, "an agent has secrets")
    equal(set(broker["secrets"]), set(compose["secrets"]))
    done = h.run([h.BUILD / "tactus-broker", "--check-config", "--config", DEPLOY / "compose.broker.yml"])
    equal(done.returncode, 0, done.stderr)


@bound(30)
def test_health_check_of_the_container():
    """The line of the compose file against a broker with its configuration, but for TLS and keys kept elsewhere."""
    config = h.configuration(listener={"mode": "0600", "grant": "health"})
    config["grants"] = [{"name": "health"}]
    with h.Broker(config) as broker:
        line = re.search(r"test: \[(.*)\]", (DEPLOY / "compose.yml").read_text())[1]
        words = re.findall(r'"([^"]*)"', line)
        equal(words[:2], ["CMD", "tactus-brokerctl"])
        env = {"TACTUS_BROKER_SOCKET": broker.endpoint("unix")}
        done = h.run([h.BUILD / words[1], *words[2:]], env=env)
        equal((done.returncode, done.stderr), (0, ""))
    done = h.run([h.BUILD / words[1], *words[2:]], env=env)
    equal(done.returncode, h.EX_UNAVAILABLE, "when the broker is gone")
