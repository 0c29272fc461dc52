#!/usr/bin/env python3
"""Runs the end-to-end tests: the broker as a real process against fake and real peers.

    run.py [-k TEXT] [-j N] [--keep] [--kind engine]        TACTUS_BUILD=build/asan run.py

Every function test_* of every test_*.py here (or in the directory of that kind, whose bed.py is started before and
stopped after) runs in a process of its own and within a time bound
(`@bound(seconds)`, 30 without). One line a failure, then alone on its line `e2e: N passed, N failed`.
What a test started and did not end is ended here, by pid.
"""
import argparse
import faulthandler
import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]
import harness  # noqa: E402

GRACE = 10  # seconds that a test which ran out of time has for its clean-up


def discover(directory: pathlib.Path, text: str) -> list[tuple[str, str]]:
    found = []
    for path in sorted(directory.glob("test_*.py")):
        module = importlib.import_module(path.stem)
        found += [(path.stem, name) for name in vars(module) if name.startswith("test_")]
    return [(m, n) for m, n in found if text in f"{m}.{n}"]


class Job:
    """One test in one child process."""

    def __init__(self, module: str, name: str):
        self.title = f"{module.removeprefix('test_')}: {name.removeprefix('test_').replace('_', ' ')}"
        self.function = getattr(sys.modules[module], name)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tactus-e2e-"))
        self.limit = getattr(self.function, "seconds", 30) * harness.PATIENCE
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                run_child(self.function, self.directory, self.limit)
            finally:
                os._exit(1)  # whatever happens, the clean-up at the end is the parent's

    def overdue(self) -> bool:
        return time.monotonic() - self.started > self.limit + GRACE

    def finish(self, status: int) -> tuple[str, str]:
        """("pass" | "fail" | "skip", reason)."""
        left = harness.end_leftovers(self.directory)
        try:
            kind, reason = (self.directory / "verdict").read_text().split("\n", 1)
        except (OSError, ValueError):
            kind, reason = "fail", f"the test process ended without a verdict (status {status})"
        if kind == "pass" and left:
            kind, reason = "fail", f"left {left} running"
        return kind, reason.strip()


def run_child(function, directory: pathlib.Path, limit: float) -> None:
    harness.TEMPORARY = directory
    log = open(directory / "log", "w", buffering=1)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)

    def too_long(*_):
        faulthandler.dump_traceback(log)
        raise harness.Failure(f"ran out of time ({limit:.0f} s)")

    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, limit, 2)
    try:
        function()
        verdict = "pass\n"
    except harness.Skip as e:
        verdict = f"skip\n{e}"
    except BaseException as e:
        traceback.print_exc()
        place = traceback.extract_tb(e.__traceback__)
        line = next((f.lineno for f in reversed(place) if pathlib.Path(f.filename).name.startswith("test_")), 0)
        verdict = f"fail\n{type(e).__name__} at line {line}: {e}"
    signal.setitimer(signal.ITIMER_REAL, 0)
    (directory / "verdict").write_text(verdict)
    log.flush()
    os._exit(0)


class Report:
    def __init__(self, total: int, keep: bool, kind: str):
        self.total, self.keep, self.kind = total, keep, kind
        self.count = {"pass": 0, "fail": 0, "skip": 0}
        self.live = sys.stdout.isatty()

    def progress(self, running: list[Job]) -> None:
        if self.live:
            done = sum(self.count.values())
            text = f"[{done}/{self.total}] " + ", ".join(j.title for j in running)
            print("\r\x1b[K" + text[:shutil.get_terminal_size().columns - 1], end="", flush=True)

    def add(self, job: Job, kind: str, reason: str) -> None:
        self.count[kind] += 1
        clear = "\r\x1b[K" if self.live else ""
        if kind == "fail":
            print(f"{clear}FAIL {job.title}: {reason} (see {job.directory})", flush=True)
        elif kind == "skip":
            print(f"{clear}SKIPPED, SOMETHING IS MISSING: {job.title}: {reason}", flush=True)
        if kind != "fail" and not self.keep:
            shutil.rmtree(job.directory, ignore_errors=True)

    def close(self) -> int:
        if self.live:
            print("\r\x1b[K", end="")
        skipped = f", {self.count['skip']} skipped" if self.count["skip"] else ""
        print(f"{self.kind}: {self.count['pass']} passed, {self.count['fail']} failed{skipped}", flush=True)
        return 1 if self.count["fail"] or not self.count["pass"] + self.count["skip"] else 0


def reap(running: list[Job], report: Report) -> None:
    for job in list(running):
        if job.overdue():
            os.kill(job.pid, signal.SIGKILL)
        pid, status = os.waitpid(job.pid, os.WNOHANG)
        if pid:
            running.remove(job)
            report.add(job, *job.finish(status))


def run_all(tests: list[tuple[str, str]], parallel: int, keep: bool, kind: str) -> int:
    report, running, waiting = Report(len(tests), keep, kind), [], list(tests)
    try:
        while waiting or running:
            # A test that measures or needs many descriptors and processors runs by itself.
            alone = bool(running) and getattr(running[0].function, "alone", False)
            while waiting and len(running) < parallel and not alone:
                module, name = waiting[0]
                alone = getattr(getattr(sys.modules[module], name), "alone", False)
                if alone and running:
                    break
                running.append(Job(*waiting.pop(0)))
            report.progress(running)
            reap(running, report)
            time.sleep(0.01)
    finally:
        for job in running:
            os.kill(job.pid, signal.SIGKILL)
            os.waitpid(job.pid, 0)
            harness.end_leftovers(job.directory)
    return report.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="TEXT", help="only tests whose module.name contains it")
    parser.add_argument("-j", default=3, type=int, metavar="N", help="so many at a time (they mostly wait)")
    parser.add_argument("--keep", action="store_true", help="keep every test's directory")
    parser.add_argument("--kind", default="e2e", choices=("e2e", "engine"), help="the directory below tests/")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # A background job of a shell ignores it, and so would every program started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for program in ("tactus-broker", "tactus-brokerctl", "tactus-runner", "tactus-init"):
        if not (harness.BUILD / program).exists():
            print(f"MISSING: {harness.BUILD / program}: build it first (make VARIANT=debug programs)")
            print(f"{args.kind}: 0 passed, 1 failed")
            return 1
    tests = HERE.parent / args.kind
    sys.path.insert(0, str(tests))
    beds = importlib.import_module("bed") if (tests / "bed.py").exists() else None
    if beds is not None:
        try:
            beds.enclose()
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"NO PLACE FOR CONTAINER ENGINES: {e}")
            print(f"{args.kind}: 0 passed, 1 failed")
            return 1
    shared = tempfile.mkdtemp(prefix="tactus-e2e-shared-")
    harness.SHARED = pathlib.Path(shared)
    bed = None
    try:
        if beds is not None:
            bed = beds.Bed(harness.SHARED)
            harness.BED = bed
            bed.start()
        return run_all(discover(tests, args.k), args.j, args.keep, args.kind)
    finally:
        if bed is not None:
            bed.stop()
        shutil.rmtree(shared, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
